/* SPDX-License-Identifier: Apache-2.0
 * What the profile "strict" leaves: a list of calls, beside the default filter and not instead of it. Everything else does not exist
 * (ENOSYS), so that programs fall back. Left out, of what the default filter allows: tracing and looking into other processes, kernel AIO,
 * NUMA policies, file handles, vmsplice, remap_file_pages and whatever else no ordinary program needs. */
#include "filter-rules.h"

#include <errno.h>
#include <stddef.h>

static const char *const calls[] = {
    /* files */
    "read", "write", "open", "openat", "openat2", "close", "close_range", "stat", "fstat", "lstat", "newfstatat", "statx", "statfs", "fstatfs",
    "lseek", "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2", "access", "faccessat", "faccessat2", "truncate",
    "ftruncate", "fallocate", "fadvise64", "readahead", "sendfile", "copy_file_range", "splice", "tee", "sync_file_range", "sync", "syncfs",
    "fsync", "fdatasync", "flock", "fcntl", "ioctl", "dup", "dup2", "dup3", "pipe", "pipe2", "getdents", "getdents64", "getcwd", "chdir",
    "fchdir", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir", "creat", "link", "linkat", "unlink", "unlinkat", "symlink",
    "symlinkat", "readlink", "readlinkat", "mknod", "mknodat", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown",
    "fchownat", "umask", "utime", "utimes", "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "getxattr", "lgetxattr", "fgetxattr",
    "listxattr", "llistxattr", "flistxattr", "removexattr", "lremovexattr", "fremovexattr", "inotify_init", "inotify_init1",
    "inotify_add_watch", "inotify_rm_watch", "memfd_create", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
    /* waiting */
    "poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd",
    "eventfd2", "signalfd", "signalfd4", "timerfd_create", "timerfd_settime", "timerfd_gettime", "pause", "nanosleep", "clock_nanosleep",
    "alarm", "getitimer", "setitimer", "timer_create", "timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete",
    "restart_syscall",
    /* memory */
    "mmap", "mprotect", "munmap", "mremap", "msync", "mincore", "madvise", "brk", "mlock", "mlock2", "munlock", "mlockall", "munlockall",
    "membarrier", "pkey_alloc", "pkey_free", "pkey_mprotect",
    /* processes and threads */
    "clone", "fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid", "kill", "tkill", "tgkill", "rt_sigaction",
    "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "rt_sigsuspend", "sigaltstack",
    "pidfd_open", "pidfd_send_signal", "futex", "futex_waitv", "set_robust_list", "get_robust_list", "set_tid_address", "rseq", "arch_prctl",
    "prctl", "seccomp", "sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_setparam", "sched_getscheduler",
    "sched_setscheduler", "sched_getattr", "sched_setattr", "sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval",
    "getpriority", "setpriority", "ioprio_get", "ioprio_set", "getrlimit", "setrlimit", "prlimit64", "getrusage", "times", "getcpu",
    /* who and where */
    "getpid", "getppid", "gettid", "getpgrp", "getpgid", "setpgid", "getsid", "setsid", "getuid", "geteuid", "getgid", "getegid", "getgroups",
    "getresuid", "getresgid", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups", "capget",
    "capset", "uname", "sysinfo", "gettimeofday", "time", "clock_gettime", "clock_getres", "getrandom",
    /* talking */
    "socket", "socketpair", "connect", "accept", "accept4", "bind", "listen", "shutdown", "getsockname", "getpeername", "setsockopt",
    "getsockopt", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "shmget", "shmat", "shmctl", "shmdt", "semget", "semop",
    "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify",
    "mq_getsetattr",
};

/* A daemon that may mount is there to do so. */
static const char *const daemon_calls[] = {
    "mount", "umount2", "pivot_root", "chroot", "setns", "unshare", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree", "move_mount",
    "mount_setattr", "sethostname", "setdomainname", "name_to_handle_at",
};

static int allow(scmp_filter_ctx ctx, uint32_t arch, const char *const *names, size_t n)
{
    int r = 0;

    for (size_t i = 0; i < n && !r; i++)
        r = sb_filter_rule(ctx, arch, names[i], SCMP_ACT_ALLOW, NULL, 0);
    return r;
}

int sb_filter_strict_rules(scmp_filter_ctx ctx, enum sb_filter_kind kind, uint32_t arch)
{
    /* what it is, and back to what it was: asked by many, changed by few, who turn randomisation off */
    const struct scmp_arg_cmp as_it_is = SCMP_A0_64(SCMP_CMP_MASKED_EQ, 0xffffffffu, 0xffffffffu);
    const struct scmp_arg_cmp plain = SCMP_A0_64(SCMP_CMP_MASKED_EQ, 0xffffffffu, 0);
    int r = allow(ctx, arch, calls, sizeof calls / sizeof *calls);

    if (!r)
        r = sb_filter_rule(ctx, arch, "personality", SCMP_ACT_ALLOW, &as_it_is, 1);
    if (!r)
        r = sb_filter_rule(ctx, arch, "personality", SCMP_ACT_ALLOW, &plain, 1);
    if (!r && kind == SB_FILTER_DAEMON_STRICT)
        r = allow(ctx, arch, daemon_calls, sizeof daemon_calls / sizeof *daemon_calls);
    return r;
}
