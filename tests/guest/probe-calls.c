/* SPDX-License-Identifier: Apache-2.0
 * System calls that a sandbox refuses, each tried in a process of its own, since the answer may be a signal. */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIGH(flags) (0x100000000UL | (unsigned long)(flags))

/* The child ends with the errno. */
static void report(const char *name, pid_t pid)
{
    int status = 0;

    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        probe_say(name, "fork: %s", probe_errno(errno));
    else if (WIFSIGNALED(status))
        probe_say(name, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
    else
        probe_say(name, "%s", probe_errno(WEXITSTATUS(status)));
}

static void call(const char *name, long nr, long a, long b, long c, long d, long e)
{
    pid_t pid = fork();

    if (pid == 0) {
        long r = syscall(nr, a, b, c, d, e);
        _exit(r < 0 ? errno : 0);
    }
    report(name, pid);
}

static void clone_flags(const char *name, unsigned long flags)
{
    pid_t pid = fork();

    if (pid == 0) {
        long r = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
        if (r == 0)
            _exit(0);
        _exit(r < 0 ? errno : 0);
    }
    report(name, pid);
}

#ifdef __x86_64__
static void foreign_calls(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        long r;
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(20 /* getpid */) : "memory");
        _exit(r < 0 ? (int)-r : 0);
    }
    report("int80", pid);
    call("x32", 0x40000000L + SYS_getpid, 0, 0, 0, 0, 0);
}
#else
static void foreign_calls(void)
{
    probe_say("int80", "not on this machine");
    probe_say("x32", "not on this machine");
}
#endif

static void *thread(void *arg)
{
    *(int *)arg = 1;
    return NULL;
}

static void namespace_calls(void)
{
    struct clone_args args = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
    int ran = 0;
    pthread_t t;

    call("unshare user", SYS_unshare, CLONE_NEWUSER, 0, 0, 0, 0);
    call("unshare user high", SYS_unshare, (long)HIGH(CLONE_NEWUSER), 0, 0, 0, 0);
    call("unshare time", SYS_unshare, CLONE_NEWTIME, 0, 0, 0, 0);
    call("unshare mnt", SYS_unshare, CLONE_NEWNS, 0, 0, 0, 0);
    call("unshare all", SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID, 0, 0, 0, 0);
    clone_flags("clone user", CLONE_NEWUSER);
    clone_flags("clone user high", HIGH(CLONE_NEWUSER));
    clone_flags("clone mnt", CLONE_NEWNS);
    call("clone3", SYS_clone3, (long)(uintptr_t)&args, sizeof args, 0, 0, 0);
    if (pthread_create(&t, NULL, thread, &ran) == 0)
        pthread_join(t, NULL);
    probe_say("thread", "%s", ran ? "ok" : "none");
}

static void mount_calls(void)
{
    char handle[128] = { 0 };

    call("mount", SYS_mount, (long)"none", (long)"/tmp", (long)"tmpfs", 0, 0);
    call("bind", SYS_mount, (long)"/", (long)"/tmp", 0, MS_BIND, 0);
    call("umount2", SYS_umount2, (long)"/proc", MNT_DETACH, 0, 0, 0);
    call("pivot_root", SYS_pivot_root, (long)"/", (long)"/", 0, 0, 0);
    call("chroot", SYS_chroot, (long)"/", 0, 0, 0, 0);
    call("fsopen", SYS_fsopen, (long)"tmpfs", 0, 0, 0, 0);
    call("fsconfig", SYS_fsconfig, -1, 0, 0, 0, 0);
    call("fsmount", SYS_fsmount, -1, 0, 0, 0, 0);
    call("fspick", SYS_fspick, AT_FDCWD, (long)"/", 0, 0, 0);
    call("open_tree", SYS_open_tree, AT_FDCWD, (long)"/", 1, 0, 0);
    call("move_mount", SYS_move_mount, AT_FDCWD, (long)"/", AT_FDCWD, (long)"/tmp", 0);
    call("mount_setattr", SYS_mount_setattr, AT_FDCWD, (long)"/", 0, (long)handle, 32);
    call("open_by_handle_at", SYS_open_by_handle_at, AT_FDCWD, (long)handle, 0, 0, 0);
    call("setns", SYS_setns, open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), 0, 0, 0, 0);
    call("mknod char", SYS_mknodat, AT_FDCWD, (long)"/tmp/probe-null", S_IFCHR | 0666, (long)makedev(1, 3), 0);
    call("mknod block", SYS_mknodat, AT_FDCWD, (long)"/tmp/probe-disk", S_IFBLK | 0666, (long)makedev(254, 0), 0);
    unlink("/tmp/probe-null");
    unlink("/tmp/probe-disk");
}

static void other_calls(void)
{
    struct io_uring_params params = { 0 };
    char attr[128] = { 0 };
    char byte = 'x';
    int pty = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);

    call("keyctl", SYS_keyctl, 0, -3, 1, 0, 0);
    call("add_key", SYS_add_key, (long)"user", (long)"probe", (long)"x", 1, -3);
    call("request_key", SYS_request_key, (long)"user", (long)"probe", 0, -3, 0);
    call("bpf", SYS_bpf, 0, (long)attr, sizeof attr, 0, 0);
    call("perf_event_open", SYS_perf_event_open, (long)attr, 0, -1, -1, 0);
    call("userfaultfd", SYS_userfaultfd, 1, 0, 0, 0, 0);
    call("io_uring_setup", SYS_io_uring_setup, 1, (long)&params, 0, 0, 0);
    call("fanotify_init", SYS_fanotify_init, 0, 0, 0, 0, 0);
    call("kexec_load", SYS_kexec_load, 0, 0, 0, 0, 0);
    call("finit_module", SYS_finit_module, -1, (long)"", 0, 0, 0);
    call("reboot", SYS_reboot, 0, 0, 0, 0, 0);
    call("swapon", SYS_swapon, (long)"/tmp", 0, 0, 0, 0);
    call("acct", SYS_acct, (long)"/tmp/x", 0, 0, 0, 0);
    call("settimeofday", SYS_settimeofday, 0, 0, 0, 0, 0);
    call("newest", 460 + 400, 0, 0, 0, 0, 0);
    call("tiocsti", SYS_ioctl, pty, TIOCSTI, (long)&byte, 0, 0);
    call("tiocsti high", SYS_ioctl, pty, (long)HIGH(TIOCSTI), (long)&byte, 0, 0);
    call("tioclinux", SYS_ioctl, pty, 0x541c, (long)&byte, 0, 0);
    if (pty >= 0)
        close(pty);
}

int probe_calls(void)
{
    namespace_calls();
    foreign_calls();
    mount_calls();
    other_calls();
    return 0;
}

/* A filter that allows everything on top: the strictest of all filters counts. */
int probe_permissive(void)
{
    struct sock_filter allow = { .code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW };
    struct sock_fprog program = { 1, &allow };

    probe_say("allow all", "%s", probe_errno(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? errno : 0));
    return probe_calls();
}

int probe_sockets(void)
{
    char name[32];

    for (int family = 0; family < 50; family++) {
        snprintf(name, sizeof name, "family %d", family);
        call(name, SYS_socket, family, family == AF_NETLINK || family == AF_PACKET ? SOCK_RAW : SOCK_STREAM, 0, 0, 0);
    }
    call("alg high", SYS_socket, (long)HIGH(AF_ALG), SOCK_SEQPACKET, 0, 0, 0);
    call("vsock high", SYS_socket, (long)HIGH(AF_VSOCK), SOCK_STREAM, 0, 0, 0);
    for (int protocol = 0; protocol < 24; protocol++) {
        snprintf(name, sizeof name, "netlink %d", protocol);
        call(name, SYS_socket, AF_NETLINK, SOCK_RAW, protocol, 0, 0);
    }
    call("netlink high", SYS_socket, AF_NETLINK, SOCK_RAW, (long)HIGH(9), 0, 0);
    call("raw", SYS_socket, AF_INET, SOCK_RAW, 1, 0, 0);
    return 0;
}

int probe_connect(const char *name, int abstract)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t size = sizeof address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (strlen(name) >= sizeof address.sun_path - 1)
        return 1;
    memcpy(address.sun_path + abstract, name, strlen(name));
    if (abstract)
        size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    probe_say("connect", "%s", probe_errno(connect(fd, (struct sockaddr *)&address, size) < 0 ? errno : 0));
    close(fd);
    return 0;
}
