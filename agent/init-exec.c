/* SPDX-License-Identifier: Apache-2.0
 * What a forked child of init does until it executes a command or the daemon.
 *
 * The order: descriptors first, so that nothing of init's is left; then everything that needs rights (the tag, the user's name);
 * then ids, capabilities, no_new_privs and the filter; then the working folder, as the user that asked for it; then what was
 * reached is read back by system calls and must be what was meant, or nothing is executed. */
#include "init.h"
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <util.h>

enum { STATUS = 3, PROCFS = 4, ABOVE = 5 }; /* where those two descriptors go, and what is beyond all of them */

static __attribute__((noreturn)) void give_up(enum sb_start_step step, int sys_errno)
{
    struct ag_exec_status record = { .step = step, .sys_errno = sys_errno };

    (void)SB_RETRY(write(STATUS, &record, sizeof record));
    _exit(127);
}

struct command {
    char **argv, **envp;
    const char *user, *workdir;
};

/* The blob is argc + envc + 2 strings; every one must end within it. */
static void parse(const struct ag_exec *x, const char *blob, struct command *c)
{
    const struct sb_request *q = x->request;
    size_t n = (size_t)q->argc + q->envc + 2;
    char **pointers = calloc(n + 2, sizeof *pointers);
    const char *p = blob, *end = blob + q->blob_size;

    if (!pointers)
        give_up(SB_STEP_REQUEST, ENOMEM);
    c->argv = pointers;
    c->envp = pointers + q->argc + 1;
    for (size_t i = 0; i < n; i++) {
        const char *next = memchr(p, 0, (size_t)(end - p));

        if (!next)
            give_up(SB_STEP_REQUEST, EBADMSG);
        if (i < q->argc)
            c->argv[i] = (char *)p;
        else if (i < (size_t)q->argc + q->envc)
            c->envp[i - q->argc] = (char *)p;
        else if (i == n - 2)
            c->user = p;
        else
            c->workdir = p;
        p = next + 1;
    }
    if (p != end)
        give_up(SB_STEP_REQUEST, EBADMSG);
}

static const char *load_blob(const struct ag_exec *x)
{
    struct stat st;
    void *map;

    if (x->blob)
        return x->blob;
    if (fstat(x->blob_fd, &st) < 0 || st.st_size < (off_t)x->request->blob_size || !x->request->blob_size)
        give_up(SB_STEP_REQUEST, EBADMSG);
    /* a copy: whoever sent it may change it later */
    map = mmap(NULL, x->request->blob_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || pread(x->blob_fd, map, x->request->blob_size, 0) != (ssize_t)x->request->blob_size)
        give_up(SB_STEP_REQUEST, EIO);
    return map;
}

static void keep_descriptors(const struct ag_exec *x)
{
    int status = fcntl(x->status_fd, F_DUPFD_CLOEXEC, ABOVE), procfs = fcntl(x->procfs, F_DUPFD_CLOEXEC, ABOVE), stdio[3];

    for (int i = 0; i < 3; i++)
        stdio[i] = fcntl(x->fds[i], F_DUPFD_CLOEXEC, ABOVE);
    if (status < 0 || dup3(status, STATUS, O_CLOEXEC) < 0)
        _exit(127);
    if (procfs < 0 || dup3(procfs, PROCFS, O_CLOEXEC) < 0)
        give_up(SB_STEP_STDIO, errno);
    for (int i = 0; i < 3; i++)
        if (stdio[i] < 0 || dup2(stdio[i], i) < 0)
            give_up(SB_STEP_STDIO, errno);
    close_range(PROCFS + 1, ~0u, 0);
}

/* The inode of one of our namespaces, by its name and what its link begins with. */
static uint64_t namespace_inode(const char *link, const char *begin)
{
    size_t length = strlen(begin);
    char text[64];
    ssize_t n = readlinkat(PROCFS, link, text, sizeof text - 1);

    if (n <= (ssize_t)length || strncmp(text, begin, length))
        give_up(SB_STEP_VERIFY, n < 0 ? errno : EBADMSG);
    text[n] = 0;
    return strtoull(text + length, NULL, 10);
}

/* A cgroup namespace of its own: its inode marks all descendants, it is inherited, and leaving it needs rights that they don't have. */
static uint64_t take_tag(void)
{
    if (unshare(CLONE_NEWCGROUP) < 0)
        give_up(SB_STEP_CAPABILITIES, errno);
    return namespace_inode("self/ns/cgroup", "cgroup:[");
}

static void set_limits(const struct ag_exec *x)
{
    struct rlimit processes = { x->plan->nproc_max, x->plan->nproc_max }, was, core = { 1, 1 };

    /* init itself took all that the hard limit allows */
    if (getrlimit(RLIMIT_NOFILE, &was) == 0 && (was.rlim_cur != x->files || x->files_max)) {
        was.rlim_cur = x->files;
        if (x->files_max && was.rlim_max > x->files_max)
            was.rlim_max = x->files_max;
        if (was.rlim_cur > was.rlim_max)
            was.rlim_cur = was.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &was) < 0)
            give_up(SB_STEP_CAPABILITIES, errno);
    }
    /* 1: neither a file nor a program of the machine's core_pattern gets the memory of what crashes here */
    if (setrlimit(RLIMIT_CORE, &core) < 0)
        give_up(SB_STEP_CAPABILITIES, errno);
    if (!x->plan->nproc_max || getrlimit(RLIMIT_NPROC, &was) < 0)
        return;
    if (was.rlim_max < processes.rlim_max)
        processes.rlim_cur = processes.rlim_max = was.rlim_max;
    if (setrlimit(RLIMIT_NPROC, &processes) < 0)
        give_up(SB_STEP_CAPABILITIES, errno);
}

static void take_ids(const struct ag_exec *x, uid_t uid, gid_t gid)
{
    if (x->plan->map.privilege != SB_PRIVILEGE_SINGLE && syscall(SYS_setgroups, 0, NULL) < 0)
        give_up(SB_STEP_GROUPS, errno);
    if (uid >= x->plan->map.count || gid >= x->plan->map.count || (x->plan->map.count > 2 && uid == SB_PLAN_INIT_ID(x->plan)))
        give_up(SB_STEP_IDS, EINVAL);
    prctl(PR_SET_KEEPCAPS, 1);
    if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        give_up(SB_STEP_IDS, errno);
    prctl(PR_SET_KEEPCAPS, 0);
}

static void set_capabilities(uint64_t set, uint64_t left)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { 0 };

    /* init has cut the bounding set to `left`; KEEPCAPS kept the permitted set, SETPCAP must be effective for this */
    data[0].effective = data[0].permitted = 1u << CAP_SETPCAP | (uint32_t)set;
    data[1].effective = data[1].permitted = (uint32_t)(set >> 32);
    if (syscall(SYS_capset, &header, data) < 0)
        give_up(SB_STEP_CAPABILITIES, errno);
    for (int c = 0; c < 64; c++)
        if (left >> c & ~(set >> c) & 1 && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0)
            give_up(SB_STEP_CAPABILITIES, errno);
    data[0].effective = data[0].permitted = (uint32_t)set;
    data[0].inheritable = data[1].inheritable = 0;
    if (syscall(SYS_capset, &header, data) < 0)
        give_up(SB_STEP_CAPABILITIES, errno);
}

static void install(const struct sb_plan *plan, const struct sb_plan_filter *filter)
{
    struct sock_fprog program = {
        .len = (unsigned short)filter->count,
        .filter = (struct sock_filter *)((char *)plan + filter->offset),
    };

    if (filter->count && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        give_up(SB_STEP_SECCOMP, errno);
}

static void set_filter(const struct sb_plan *plan, const struct sb_plan_filter *filter)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        give_up(SB_STEP_CAPABILITIES, errno);
    install(plan, filter);
}

static void enter_workdir(const char *workdir)
{
    char where[4096];
    long n;

    if (chdir(workdir) < 0)
        give_up(SB_STEP_WORKDIR, errno);
    /* a folder outside the root shows as "(unreachable)/…" */
    n = syscall(SYS_getcwd, where, sizeof where);
    if (n < 1 || where[0] != '/')
        give_up(SB_STEP_WORKDIR, n < 0 ? errno : EXDEV);
}

/* What was reached, read back. The ambient set needs no call of its own: the kernel keeps it within permitted and inheritable. */
static void verify(const struct ag_exec *x, uid_t uid, gid_t gid, uint64_t set, struct ag_exec_status *record)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];
    uid_t u[3];
    gid_t g[3];
    int groups = (int)syscall(SYS_getgroups, 0, NULL);

    if (getresuid(&u[0], &u[1], &u[2]) < 0 || getresgid(&g[0], &g[1], &g[2]) < 0 || syscall(SYS_capget, &header, data) < 0)
        give_up(SB_STEP_VERIFY, errno);
    for (int c = 0; c < 64; c++) {
        int bound = prctl(PR_CAPBSET_READ, c, 0, 0, 0);

        if (bound < 0)
            break;
        record->cap_bounding |= (uint64_t)(bound == 1) << c;
    }
    record->cap_effective = data[0].effective | (uint64_t)data[1].effective << 32;
    record->cap_permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
    record->cap_inheritable = data[0].inheritable | (uint64_t)data[1].inheritable << 32;
    record->uid = u[0];
    record->gid = g[0];
    record->n_groups = (uint32_t)groups;
    if (u[0] != uid || u[1] != uid || u[2] != uid || g[0] != gid || g[1] != gid || g[2] != gid ||
        (groups != 0 && x->plan->map.privilege != SB_PRIVILEGE_SINGLE) || record->cap_effective != set ||
        record->cap_permitted != set || record->cap_inheritable || record->cap_bounding != set)
        give_up(SB_STEP_VERIFY, EPERM);
}

static void verify_filter(int filtered, struct ag_exec_status *record)
{
    record->no_new_privs = (uint32_t)prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    record->seccomp = (uint32_t)prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
    if (record->no_new_privs != 1 || record->seccomp != (filtered ? SECCOMP_MODE_FILTER : SECCOMP_MODE_DISABLED))
        give_up(SB_STEP_VERIFY, EPERM);
}

static void execute(const struct command *c)
{
    const char *name = c->argv[0], *path = NULL;
    char file[4096];
    int seen = ENOENT;

    if (!*name)
        give_up(SB_STEP_EXECVE, ENOENT);
    if (strchr(name, '/')) {
        execve(name, c->argv, c->envp);
        give_up(SB_STEP_EXECVE, errno);
    }
    for (char **e = c->envp; *e; e++)
        if (!strncmp(*e, "PATH=", 5))
            path = *e + 5;
    for (const char *p = path ? path : "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"; *p;) {
        size_t n = strcspn(p, ":");

        if (n && p[0] == '/' && snprintf(file, sizeof file, "%.*s/%s", (int)n, p, name) < (int)sizeof file) {
            execve(file, c->argv, c->envp);
            if (errno != ENOENT && errno != ENOTDIR && (seen == ENOENT || seen == EACCES))
                seen = errno;
        }
        p += n + (p[n] == ':');
    }
    give_up(SB_STEP_EXECVE, seen);
}

/* The bounding set is cut once, by init, to what the daemon may have, so that an exec has little left to drop and to check. */
void ag_cut_bounding_set(uint64_t keep)
{
    for (int c = 0; c < 64; c++)
        if (!(keep >> c & 1) && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0 && errno == EINVAL)
            break;
    for (int c = 0; c < 64; c++)
        if (!(keep >> c & 1) && prctl(PR_CAPBSET_READ, c, 0, 0, 0) == 1)
            _exit(1);
}

void ag_exec_child(const struct ag_exec *x)
{
    const struct sb_plan_filter *filter = x->daemon ? &x->plan->daemon : &x->plan->command;
    uint64_t set = x->daemon ? x->plan->daemon_capabilities : 0;
    struct ag_exec_status record = { 0 };
    struct command c = { 0 };
    const char *blob;
    sigset_t none;
    int come[2], n_come = 0, pty;
    uid_t uid = 0;
    gid_t gid = 0;
    int r;

    setsid();
    if (x->blob_fd >= 0) { /* read before the descriptors go; give_up() needs its own in place */
        int status = dup3(x->status_fd, STATUS, O_CLOEXEC);

        if (status < 0 && x->status_fd != STATUS)
            _exit(127);
    }
    blob = load_blob(x);
    keep_descriptors(x);
    parse(x, blob, &c);
    record.tag = x->daemon ? 1 : take_tag(); /* a daemon gets no cgroup namespace over which its rights reach */
    record.user_namespace = namespace_inode("self/ns/user", "user:[");
    if (x->pin && (come[n_come++] = openat(PROCFS, "self/ns/cgroup", O_RDONLY | O_CLOEXEC)) < 0)
        give_up(SB_STEP_VERIFY, errno);
    r = ag_resolve_user(c.user, &uid, &gid);
    if (r)
        give_up(SB_STEP_USER, -r);
    umask(022);
    set_limits(x);
    take_ids(x, uid, gid);
    if (x->terminal) { /* as its user, to whom it then belongs */
        pty = ag_pty_open(&x->request->window);
        if (pty < 0)
            give_up(SB_STEP_TERMINAL, -pty);
        come[n_come++] = pty;
        record.terminal = 1;
    }
    set_capabilities(set, x->plan->daemon_capabilities);
    verify(x, uid, gid, set, &record);
    set_filter(x->plan, filter);
    verify_filter(filter->count > 0, &record);
    enter_workdir(c.workdir);
    close(PROCFS);
    if (ag_send_fds(STATUS, &record, sizeof record, come, (size_t)n_come, 0))
        _exit(127);
    while (n_come)
        sb_close(come[--n_come]);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* the spec's profile comes last: it may refuse whatever was needed until here, and leaves at best execve, and saying why not */
    install(x->plan, x->daemon ? &x->plan->daemon_profile : &x->plan->command_profile);
    execute(&c);
    _exit(127);
}
