/* SPDX-License-Identifier: Apache-2.0
 * SB_REQUEST_FILES: init forks a file server (files.c), which does one request, and forgets it but for its end.
 *
 * The server never executes anything, so that it stays what init is: a process that nobody inside can trace or look into, although it has
 * descriptors of the machine's. The order of its confinement is that of a command (init-exec.c): init's descriptors go first; then the
 * ids of the sandbox's root, the four capabilities that files need, no_new_privs, a filter with the calls of files alone; what was reached
 * is read back, or nothing is done. When its requester goes it is told to end, so that it can remove what is half written; half a second
 * later it is killed, wherever it hangs. */
#include "files.h"
#include "filter.h"
#include "init-loop.h"
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <util.h>

enum { CHANNEL = 3, DATA = 4, ROOT = 5, ABOVE = 6, END_MS = 500, FILES_MAX = 1024 };
enum { RIGHTS = 1 << CAP_CHOWN | 1 << CAP_DAC_OVERRIDE | 1 << CAP_FOWNER | 1 << CAP_FSETID };

static const int allowed[] = {
    SYS_read, SYS_pread64, SYS_write, SYS_pwrite64, SYS_lseek, SYS_close, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_openat, SYS_openat2,
    SYS_getdents64, SYS_fcntl, SYS_readlinkat, SYS_mkdirat, SYS_mknodat, SYS_symlinkat, SYS_linkat, SYS_unlinkat, SYS_renameat2, SYS_fchown,
    SYS_fchownat, SYS_fchmod, SYS_fchmodat, SYS_utimensat, SYS_ftruncate, SYS_fsetxattr, SYS_fgetxattr, SYS_flistxattr, SYS_fstatfs,
    SYS_faccessat, SYS_faccessat2, SYS_ppoll,
#ifdef SYS_poll
    SYS_poll,
#endif
    SYS_sendfile, SYS_splice, SYS_copy_file_range, SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise, SYS_futex,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall, SYS_sendto, SYS_getrandom, SYS_clock_gettime,
    SYS_gettimeofday, SYS_getpid, SYS_gettid, SYS_tgkill, SYS_exit, SYS_exit_group,
#ifdef SYS_renameat
    SYS_renameat,
#endif
};

static void __attribute__((noreturn)) give_up(const char *what, int sys_errno)
{
    au_fail(SANDBOX_EIO, sys_errno, NULL, "confining the file server: %s", what);
}

static int keep(int fd, int to)
{
    if (fd < 0)
        return -1;
    fd = fcntl(fd, F_DUPFD_CLOEXEC, ABOVE);
    return fd < 0 || dup3(fd, to, O_CLOEXEC) < 0 ? -2 : to;
}

static void keep_descriptors(struct ag_files *f)
{
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), null = fcntl(SB_FD_NULL, F_DUPFD_CLOEXEC, ABOVE);
    int channel = fcntl(f->channel, F_DUPFD_CLOEXEC, ABOVE), data = f->data < 0 ? -1 : fcntl(f->data, F_DUPFD_CLOEXEC, ABOVE);

    f->channel = keep(channel, CHANNEL);
    if (f->channel < 0)
        _exit(127);
    ag_files_report_on(CHANNEL);
    if (f->data >= 0 && (f->data = keep(data, DATA)) < 0)
        give_up("its descriptors", errno);
    f->root = keep(root, ROOT);
    if (f->root < 0 || null < 0)
        give_up("its descriptors", errno);
    for (int i = 0; i < 3; i++)
        if (dup2(null, i) < 0)
            give_up("its descriptors", errno);
    if (f->data < 0)
        sb_close(DATA);
    close_range(ABOVE, ~0u, 0);
}

static void set_limits(void)
{
    const struct {
        int which;
        rlim_t value;
    } limits[] = { { RLIMIT_CORE, 1 }, { RLIMIT_NOFILE, FILES_MAX }, { RLIMIT_AS, (rlim_t)1 << 30 }, { RLIMIT_FSIZE, RLIM_INFINITY } };

    for (size_t i = 0; i < SB_ELEMENTS(limits); i++) {
        struct rlimit now;

        if (getrlimit(limits[i].which, &now) < 0)
            give_up("its limits", errno);
        if (limits[i].value < now.rlim_max || now.rlim_max == RLIM_INFINITY)
            now.rlim_max = limits[i].value;
        now.rlim_cur = now.rlim_max;
        if (setrlimit(limits[i].which, &now) < 0)
            give_up("its limits", errno);
    }
}

static void take_ids(const struct sb_idmap *map)
{
    if (map->privilege != SB_PRIVILEGE_SINGLE && syscall(SYS_setgroups, 0, NULL) < 0)
        give_up("its groups", errno);
    prctl(PR_SET_KEEPCAPS, 1);
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        give_up("its ids", errno);
    prctl(PR_SET_KEEPCAPS, 0);
    prctl(PR_SET_DUMPABLE, 0); /* a change of ids may have set it, by fs.suid_dumpable */
}

static void set_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { { .effective = RIGHTS | 1 << CAP_SETPCAP, .permitted = RIGHTS | 1 << CAP_SETPCAP } };

    if (syscall(SYS_capset, &header, data) < 0)
        give_up("its capabilities", errno);
    for (int c = 0; c < 64; c++)
        if (prctl(PR_CAPBSET_READ, c, 0, 0, 0) == 1 && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
            give_up("its capabilities", errno);
    data[0].effective = data[0].permitted = RIGHTS;
    if (syscall(SYS_capset, &header, data) < 0)
        give_up("its capabilities", errno);
}

static void verify(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];
    uid_t u[3];
    gid_t g[3];

    if (getresuid(&u[0], &u[1], &u[2]) < 0 || getresgid(&g[0], &g[1], &g[2]) < 0 || syscall(SYS_capget, &header, data) < 0)
        give_up("what it has", errno);
    if (u[0] || u[1] || u[2] || g[0] || g[1] || g[2] || data[0].effective != RIGHTS || data[0].permitted != RIGHTS || data[0].inheritable ||
        data[1].effective || data[1].permitted || data[1].inheritable || prctl(PR_GET_DUMPABLE) != 0 ||
        prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        give_up("what it has", EPERM);
}

static void on_term(int signal)
{
    (void)signal;
    au_tree_drop_partial();
    _exit(4);
}

static void __attribute__((noreturn)) serve(struct ag_files *f, const char *blob, size_t size)
{
    struct sigaction action = { .sa_handler = on_term };
    static struct sb_idmap map;
    sigset_t none;
    int r;

    setsid();
    keep_descriptors(f);
    prctl(PR_SET_NAME, "sandbox-files");
    if (chdir("/") < 0)
        give_up("its folder", errno);
    umask(0);
    set_limits();
    map = *f->map; /* init's own id is nobody's file's */
    if (map.count > 2)
        map.count--;
    f->map = &map;
    take_ids(&map);
    set_capabilities();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        give_up("no_new_privs", errno);
    verify();
    r = ag_filter_calls(allowed, SB_ELEMENTS(allowed));
    if (r)
        give_up("its filter", -r);
    if (sigaction(SIGTERM, &action, NULL) < 0)
        give_up("its signals", errno);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    ag_files_serve(f, blob, size);
}

/* Those that somebody waits for; and all, with those that were killed and hang in a file system whose daemon has read their request: the
 * kernel lets them go when that daemon ends. */
static int too_many(void)
{
    unsigned int waited_for = 0, all = 0;

    for (size_t i = 0; i < ag_loop.top; i++)
        if (ag_loop.slots[i].kind == SERVING) {
            all++;
            waited_for += ag_loop.slots[i].fd >= 0;
        }
    return waited_for >= SB_FILES_MAX || all >= AG_FILES_HUNG_MAX;
}

void ag_files_start(struct ag_slot *s, const struct sb_request *q, const int *fds, size_t n_fds)
{
    struct ag_files f = { .channel = n_fds ? fds[0] : -1, .data = n_fds > 1 ? fds[1] : -1, .root = -1, .map = &ag_loop.plan->map };
    struct clone_args args = { .exit_signal = SIGCHLD };
    long pid;

    if (n_fds < 1 || n_fds > 2 || (q->flags & SB_REQUEST_BLOB_FD)) {
        ag_fail(s, SB_STEP_REQUEST, EINVAL);
        return;
    }
    if (too_many()) {
        ag_fail(s, SB_STEP_BUSY, EAGAIN);
        return;
    }
    if (ag_loop.plan->flags & SB_PLAN_CGROUP && !ag_loop.paused) { /* what is halted is in the leaves */
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = SB_FD_CGROUP_EXEC;
    }
    ag_set_oom_score("500");
    pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        serve(&f, (const char *)(q + 1), q->blob_size);
    ag_set_oom_score(ag_loop.own_score);
    if (pid < 0) {
        ag_fail(s, SB_STEP_FORK, errno);
        return;
    }
    s->kind = SERVING;
    s->pid = (pid_t)pid;
    s->until = 0;
}

void ag_files_drop(struct ag_slot *s)
{
    kill(s->pid, SIGTERM);
    s->until = sb_now_ms() + END_MS;
}

void ag_files_kill(struct ag_slot *s)
{
    kill(s->pid, SIGKILL);
    s->until = 0;
}

void ag_files_ended(struct ag_slot *s, int status)
{
    struct sb_reply r = { .type = SB_REPLY_EXITED, .code = -1 };

    if (WIFEXITED(status))
        r.code = WEXITSTATUS(status);
    else
        r.signal = WTERMSIG(status);
    ag_reply(s, &r, -1);
    s->pid = 0;
    s->until = 0;
    s->kind = s->fd >= 0 ? IDLE : FREE;
}
