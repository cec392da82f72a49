/* SPDX-License-Identifier: Apache-2.0
 * sandbox-unpack: reads what others wrote (archives, images' documents) so that the program which embeds the library doesn't.
 *
 * Theory of operation. The process that the library starts keeps its privileges and reads nothing but the plan. It makes
 * the namespaces, starts a worker in them that gives up all else before its first read (unpack-confine.c), and watches two
 * things: the worker, whose death by a signal it reports, and the library's end of the socket, whose closing is the order
 * to stop, be it a cancel or the end of the host program. After a failure or a stop it removes what was written. So nothing
 * depends on pids that somebody else may have waited for, and nothing is left behind but by killing both processes.
 *
 * The worker writes as root of a user namespace. For ROOT the destination is reached through a detached mount of its own,
 * idmapped with the same map: what is written as N lands on disk as N, yet the worker's ids own nothing on this machine. */
#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fs.h>
#include <userns.h>
#include <util.h>

enum { WORKERS_MAX = 2, FD_OUT = 5 };

struct worker {
    int pidfd;
    int alive; /* a pipe's end that closes with this process */
};

struct helper {
    struct sb_unpack_plan plan;
    struct sb_idmap map; /* of the workers */
    int proc;
    int dest;            /* as the worker is to see it */
    int pipe[2];         /* FOLDER: packer to unpacker */
    struct worker workers[WORKERS_MAX];
    size_t n_workers;
    int failed, stopped;
};

static const uint64_t user_only = CLONE_NEWUSER;
static const uint64_t walls = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;

/* A folder `name` in PARENT, which goes when its making fails. */
static int writes_layer(const struct sb_unpack_plan *plan)
{
    return plan->job == SB_UNPACK_LAYER || plan->job == SB_UNPACK_FOLDER ||
           (plan->job == SB_UNPACK_TREE && !(plan->flags & SB_UNPACK_MERGE));
}

static int string_ends(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

static void receive_plan(struct helper *helper)
{
    struct sb_unpack_plan *plan = &helper->plan;
    ssize_t n = sb_recv(SB_UNPACK_FD_SOCKET, plan, sizeof *plan, MSG_TRUNC);

    if (n <= 0)
        _exit(2);
    if (n != (ssize_t)sizeof *plan || plan->magic != SB_UNPACK_MAGIC || plan->size != sizeof *plan ||
        !string_ends(plan->digest, sizeof plan->digest) || !string_ends(plan->diff_id, sizeof plan->diff_id) ||
        !string_ends(plan->name, sizeof plan->name) || !string_ends(plan->final, sizeof plan->final))
        au_fail(SANDBOX_EPROTOCOL, 0, "install the library and its programs from one version",
                "the unpack helper and the library are of different versions");
    helper->map = plan->map;
    if (!writes_layer(plan) && plan->job != SB_UNPACK_REMOVE && plan->job != SB_UNPACK_ADOPT && plan->map.privilege == SB_PRIVILEGE_SUBIDS) {
        helper->map.privilege = SB_PRIVILEGE_SINGLE; /* who only reads needs one id, which no program has to write */
        helper->map.count = 1;
    }
}

/* ---- workers */

static pid_t clone_worker(uint64_t flags, int *ret_pidfd)
{
    struct clone_args args = {
        .flags = flags | CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)ret_pidfd, .exit_signal = SIGCHLD,
    };
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);

    /* a host may forbid some of them (user.max_net_namespaces = 0); the filter and Landlock stand without */
    if (pid < 0 && (flags & ~(uint64_t)(CLONE_NEWUSER | CLONE_NEWNS))) {
        args.flags = (flags & (CLONE_NEWUSER | CLONE_NEWNS)) | CLONE_PIDFD;
        pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    }
    return pid < 0 ? -errno : pid;
}

static void __attribute__((noreturn)) fail_clone(int error)
{
    au_fail(error == ENOSPC || error == EUSERS || error == EAGAIN ? SANDBOX_ELIMIT : SANDBOX_EDENIED, error,
            error == EPERM ? "user namespaces are needed: allow them (sysctl kernel.unprivileged_userns_clone, "
                             "kernel.apparmor_restrict_unprivileged_userns), and don't run as a user inside a chroot"
                           : "user namespaces are needed: raise sysctl user.max_user_namespaces",
            "making a user namespace for the unpack helper");
}

/* The kernel makes no user namespace for a process in a chroot. Root leaves it by entering its own mount namespace anew;
 * nothing below needs the machine's tree. */
static void leave_chroot(const struct helper *helper)
{
    SB_CLOSE int fd = openat(helper->proc, "self/ns/mnt", O_RDONLY | O_CLOEXEC);

    if (helper->map.privilege == SB_PRIVILEGE_ROOT && fd >= 0)
        setns(fd, CLONE_NEWNS); /* where that is forbidden, the clone says so if it matters */
}

static void become_root_inside(const struct helper *helper)
{
    if (helper->map.privilege != SB_PRIVILEGE_SINGLE && setgroups(0, NULL) < 0)
        au_fail(SANDBOX_EIO, errno, NULL, "dropping groups");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        au_fail(SANDBOX_EIO, errno, NULL, "becoming root of the user namespace");
}

/* Starts `run` in new namespaces (flags 0: in none). Fails as a whole, or returns with one worker more. */
static void start(struct helper *helper, uint64_t flags, void (*run)(struct helper *))
{
    struct worker *worker = &helper->workers[helper->n_workers];
    struct pollfd gone;
    int go[2], r = 0;
    char byte = 0;
    pid_t pid;

    if (pipe2(go, O_CLOEXEC) < 0)
        au_fail(SANDBOX_EIO, errno, NULL, "making a pipe");
    pid = clone_worker(flags, &worker->pidfd);
    if (pid < 0)
        fail_clone(-pid);
    if (pid == 0) {
        close(go[1]);
        if (SB_RETRY(read(go[0], &byte, 1)) != 1)
            _exit(2);
        if (flags & CLONE_NEWUSER)
            become_root_inside(helper);
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        gone = (struct pollfd){ .fd = go[0] };
        if (poll(&gone, 1, 0) != 0) /* the parent died before it would have been told */
            _exit(2);
        run(helper);
        _exit(0);
    }
    close(go[0]);
    worker->alive = go[1];
    helper->n_workers++;
    if (flags & CLONE_NEWUSER)
        r = ag_userns_map(helper->proc, pid, &helper->map);
    if (r)
        au_fail(SANDBOX_EDENIED, -r,
                r == -ENOENT ? "install newuidmap and newgidmap (package uidmap)" : "see /etc/subuid, /etc/subgid and newuidmap(1)",
                "writing the id map of the unpack helper");
    if (SB_RETRY(write(go[1], "g", 1)) != 1)
        au_fail(SANDBOX_EIO, errno, NULL, "starting the unpack helper's worker");
}

/* What a worker keeps: the socket, /dev/null, the source, dest as 4 (or nothing), out as 5 (or nothing). */
static void keep_descriptors(int source, int dest, int out)
{
    unsigned int first = SB_UNPACK_FD_DEST;

    if (source >= 0 && source != SB_UNPACK_FD_SOURCE && dup3(source, SB_UNPACK_FD_SOURCE, O_CLOEXEC) < 0)
        au_fail(SANDBOX_EIO, errno, NULL, "passing a descriptor");
    if (out >= 0) { /* before dest: `out` may be number 4 */
        out = fcntl(out, F_DUPFD_CLOEXEC, 64);
        if (out < 0)
            au_fail(SANDBOX_EIO, errno, NULL, "passing a descriptor");
    }
    if (dest >= 0) {
        if (dest != SB_UNPACK_FD_DEST && dup3(dest, SB_UNPACK_FD_DEST, O_CLOEXEC) < 0)
            au_fail(SANDBOX_EIO, errno, NULL, "passing a descriptor");
        first = SB_UNPACK_FD_DEST + 1;
    }
    if (out >= 0) {
        if (dup3(out, FD_OUT, O_CLOEXEC) < 0)
            au_fail(SANDBOX_EIO, errno, NULL, "passing a descriptor");
        first = FD_OUT + 1;
    }
    syscall(SYS_close_range, first, ~0u, 0);
}

static void run_reader(struct helper *helper)
{
    const struct sb_unpack_plan *plan = &helper->plan;

    int writes = plan->job == SB_UNPACK_INFLATE && !(plan->flags & SB_UNPACK_HASH_ONLY);

    keep_descriptors(-1, writes ? SB_UNPACK_FD_DEST : -1, -1);
    au_confine(AU_ROLE_READER, plan, -1, -1);
    if (plan->job == SB_UNPACK_DOCUMENT)
        au_job_document(plan);
    else if (plan->job == SB_UNPACK_SCAN)
        au_job_scan(plan);
    else
        au_job_inflate(plan);
}

static void run_unpacker(struct helper *helper)
{
    keep_descriptors(helper->pipe[0], helper->dest, -1);
    au_confine(AU_ROLE_WRITER, &helper->plan, -1, SB_UNPACK_FD_DEST);
    au_job_layer(&helper->plan, SB_UNPACK_FD_DEST);
}

static void run_packer(struct helper *helper)
{
    keep_descriptors(-1, SB_UNPACK_FD_DEST, helper->pipe[1]);
    au_confine(AU_ROLE_PACKER, &helper->plan, SB_UNPACK_FD_SOURCE, -1);
    au_job_pack(&helper->plan, FD_OUT);
}

static void run_live_packer(struct helper *helper)
{
    keep_descriptors(-1, -1, SB_UNPACK_FD_DEST);
    au_confine(AU_ROLE_PACKER, &helper->plan, SB_UNPACK_FD_SOURCE, -1);
    au_job_pack_live(&helper->plan, FD_OUT);
}

static void run_tree(struct helper *helper)
{
    au_empty_folder = NULL;
    keep_descriptors(-1, helper->dest, -1);
    au_confine(AU_ROLE_WRITER, &helper->plan, -1, SB_UNPACK_FD_DEST);
    au_job_tree(&helper->plan, SB_UNPACK_FD_DEST);
}

static void run_remover(struct helper *helper)
{
    /* after a failed layer it lies in PARENT */
    keep_descriptors(-1, writes_layer(&helper->plan) ? SB_UNPACK_FD_PARENT : SB_UNPACK_FD_DEST, -1);
    au_confine(AU_ROLE_REMOVER, &helper->plan, -1, SB_UNPACK_FD_DEST);
    au_job_remove(&helper->plan);
}

void au_job_remove(const struct sb_unpack_plan *plan)
{
    struct sb_unpack_result result = { 0 };
    int r = sb_remove_tree(SB_UNPACK_FD_DEST, plan->name);

    if (writes_layer(plan))
        return; /* its failure was reported before */
    if (r)
        au_fail_errno(-r, "removing '%s'", plan->name);
    au_send_result(&result);
}

static void run_adopter(struct helper *helper)
{
    keep_descriptors(-1, SB_UNPACK_FD_DEST, -1);
    au_confine(AU_ROLE_ADOPTER, &helper->plan, -1, SB_UNPACK_FD_DEST);
    au_job_adopt(&helper->plan);
}

/* ---- watching */

static void kill_workers(struct helper *helper)
{
    for (size_t i = 0; i < helper->n_workers; i++)
        if (helper->workers[i].pidfd >= 0)
            syscall(SYS_pidfd_send_signal, helper->workers[i].pidfd, SIGKILL, NULL, 0);
}

static void report_signal(int signal)
{
    struct sb_unpack_result result = { .code = SANDBOX_EIO };

    snprintf(result.message, sizeof result.message, "the unpack helper was killed by signal %d (%s)%s", signal, strsignal(signal),
             signal == SIGKILL ? "; the machine may be short of memory" : "");
    au_send_result(&result);
}

static void collect(struct helper *helper, struct worker *worker)
{
    siginfo_t info = { 0 };

    if (SB_RETRY(waitid(P_PIDFD, (id_t)worker->pidfd, &info, WEXITED)) == 0 && info.si_code == CLD_EXITED && info.si_status == 0) {
        worker->pidfd = sb_close(worker->pidfd);
        return;
    }
    worker->pidfd = sb_close(worker->pidfd);
    if (!helper->failed && !helper->stopped && (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED))
        report_signal(info.si_status);
    helper->failed = 1;
    kill_workers(helper);
}

/* Until every worker has ended. */
static void watch(struct helper *helper)
{
    for (;;) {
        struct pollfd fds[1 + WORKERS_MAX];
        size_t n = 0, left = 0;

        fds[n++] = (struct pollfd){ .fd = helper->stopped ? -1 : SB_UNPACK_FD_SOCKET, .events = POLLRDHUP };
        for (size_t i = 0; i < helper->n_workers; i++) {
            fds[n++] = (struct pollfd){ .fd = helper->workers[i].pidfd, .events = POLLIN };
            left += helper->workers[i].pidfd >= 0;
        }
        if (!left)
            return;
        if (poll(fds, n, -1) < 0)
            continue;
        if (fds[0].revents) {
            helper->stopped = 1;
            kill_workers(helper);
        }
        for (size_t i = 0; i < helper->n_workers; i++)
            if (fds[1 + i].revents)
                collect(helper, &helper->workers[i]);
    }
}

/* ---- the jobs' settings */

/* ROOT: the destination through a mount that maps the worker's ids to what they stand for on disk. */
static int idmapped_mount(struct helper *helper, int folder)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC };
    int tree = (int)syscall(SYS_open_tree, folder, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    SB_CLOSE int userns = -1;

    if (tree < 0)
        return -errno;
    userns = ag_userns_hold(helper->proc, &helper->map, 0);
    if (userns < 0)
        fail_clone(-userns);
    attr.userns_fd = (uint64_t)userns;
    if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0) {
        int r = -errno;

        sb_close(tree);
        return r;
    }
    return tree;
}

static int idmapped(struct helper *helper)
{
    SB_CLOSE int tree = idmapped_mount(helper, SB_UNPACK_FD_DEST);
    int fd;

    if (tree < 0)
        au_fail(SANDBOX_EUNSUPPORTED, -tree, "put the state root on ext4, xfs or btrfs",
                "the state root's file system can't be mounted with mapped ids");
    fd = sb_open_beneath(tree, ".", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        au_fail_errno(-fd, "opening the layer's folder");
    return fd;
}

static void start_layer(struct helper *helper)
{
    int is_root = helper->map.privilege == SB_PRIVILEGE_ROOT;

    helper->dest = is_root ? idmapped(helper) : SB_UNPACK_FD_DEST;
    if (helper->plan.job == SB_UNPACK_FOLDER) {
        if (pipe2(helper->pipe, O_CLOEXEC) < 0)
            au_fail(SANDBOX_EIO, errno, NULL, "making a pipe");
        fcntl(helper->pipe[1], F_SETPIPE_SZ, 1 << 20);
        /* root reads as itself, a user by the ids of its own range, or as itself what is not its own */
        start(helper, is_root || (helper->plan.flags & SB_UNPACK_FOREIGN_FOLDER) ? 0 : user_only, run_packer);
        helper->pipe[1] = sb_close(helper->pipe[1]);
    }
    start(helper, walls, run_unpacker);
    helper->pipe[0] = sb_close(helper->pipe[0]);
}

/* Where the caller's folder can't be mounted with mapped ids (an overlay, a network's), root's worker has root's own id there and no right
 * that goes with it: its namespace has that id alone. Who asked for the owners that it has inside is told that it can't be. */
static void start_tree(struct helper *helper)
{
    const struct sb_unpack_plan *plan = &helper->plan;
    SB_CLOSE int tree = -1;
    int folder = SB_UNPACK_FD_DEST;

    if (!(plan->flags & SB_UNPACK_MERGE)) {
        if (mkdirat(SB_UNPACK_FD_PARENT, plan->name, 0700) < 0)
            au_fail_errno(errno, "making '%s'", plan->final);
        au_empty_folder = plan->name;
        folder = openat(SB_UNPACK_FD_PARENT, plan->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder < 0)
            au_fail_errno(errno, "opening '%s'", plan->final);
    }
    helper->dest = folder;
    if (helper->map.privilege == SB_PRIVILEGE_ROOT && (tree = idmapped_mount(helper, folder)) >= 0) {
        helper->dest = sb_open_beneath(tree, ".", O_RDONLY | O_DIRECTORY, 0);
        if (helper->dest < 0)
            au_fail_errno(-helper->dest, "opening '%s'", plan->final);
    } else if (helper->map.privilege == SB_PRIVILEGE_ROOT) {
        if (plan->flags & SB_UNPACK_KEEP_OWNERS)
            au_fail(SANDBOX_EUNSUPPORTED, -tree, "copy it to ext4, xfs or btrfs, or without the owners",
                    "the file system of '%s' can't be mounted with mapped ids", plan->final);
        helper->map.privilege = helper->plan.map.privilege = SB_PRIVILEGE_SINGLE;
        helper->map.count = helper->plan.map.count = 1;
    }
    start(helper, walls, run_tree);
    au_empty_folder = NULL; /* now it may hold something: see start_remover() */
}

/* It is whole: it gets its name, where nothing is or an empty folder. */
static void finish_tree(struct helper *helper)
{
    const struct sb_unpack_plan *plan = &helper->plan;
    struct sb_unpack_result result = { 0 };

    if (plan->flags & SB_UNPACK_MERGE) {
        au_send_result(&result);
        return;
    }
    if (renameat2(SB_UNPACK_FD_PARENT, plan->name, SB_UNPACK_FD_PARENT, plan->final, RENAME_NOREPLACE) == 0 ||
        (errno == EEXIST && renameat(SB_UNPACK_FD_PARENT, plan->name, SB_UNPACK_FD_PARENT, plan->final) == 0)) {
        au_send_result(&result);
        return;
    }
    helper->failed = 1;
    result.code = errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR ? SANDBOX_EEXISTS : SANDBOX_EIO;
    result.sys_errno = errno;
    snprintf(result.message, sizeof result.message, "something is there already: '%.200s'", plan->final);
    au_send_result(&result);
}

static void start_remover(struct helper *helper)
{
    helper->n_workers = 0;
    start(helper, helper->map.privilege == SB_PRIVILEGE_ROOT ? 0 : user_only, run_remover);
}

int main(void)
{
    static struct helper helper = { .pipe = { -1, -1 } };

    syscall(SYS_close_range, SB_UNPACK_FD_PARENT + 1, ~0u, 0);
    umask(0);
    if (chdir("/") < 0) /* so that nothing of the host program's is held */
        au_fail(SANDBOX_EIO, errno, NULL, "leaving the host program's folder");
    signal(SIGPIPE, SIG_IGN);
    receive_plan(&helper);
    helper.proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (helper.proc < 0 || !ag_is_procfs(helper.proc))
        au_fail(SANDBOX_EUNSUPPORTED, helper.proc < 0 ? errno : 0, "mount a procfs on /proc", "/proc is not a procfs");
    leave_chroot(&helper);
    switch (helper.plan.job) {
    case SB_UNPACK_DOCUMENT:
    case SB_UNPACK_SCAN:
    case SB_UNPACK_INFLATE:
        start(&helper, walls, run_reader);
        break;
    case SB_UNPACK_LAYER:
    case SB_UNPACK_FOLDER:
        start_layer(&helper);
        break;
    case SB_UNPACK_PACK:
        start(&helper, 0, run_live_packer);
        sb_close(SB_UNPACK_FD_DEST); /* the worker's alone: the reader is to see its end */
        break;
    case SB_UNPACK_TREE:
        start_tree(&helper);
        break;
    case SB_UNPACK_REMOVE:
        start_remover(&helper);
        break;
    case SB_UNPACK_ADOPT:
        start(&helper, helper.map.privilege == SB_PRIVILEGE_ROOT ? 0 : user_only, run_adopter);
        break;
    default:
        au_fail(SANDBOX_EPROTOCOL, 0, NULL, "the unpack helper knows no job %u", helper.plan.job);
    }
    watch(&helper);
    if (helper.plan.job == SB_UNPACK_TREE && !helper.failed && !helper.stopped)
        finish_tree(&helper);
    if ((helper.failed || helper.stopped) && writes_layer(&helper.plan)) {
        helper.stopped = 1; /* nothing more is reported, and nobody is asked whether to go on */
        start_remover(&helper);
        watch(&helper);
    }
    return helper.failed || helper.stopped;
}
