/* SPDX-License-Identifier: Apache-2.0
 * stage: builds a sandbox's namespaces from a plan and becomes its init.
 *
 * Theory of operation. A mount's read-only, nosuid and nodev flags, and its place, are beyond the reach of the sandbox's root only
 * when the kernel has locked them, and it does that when a mount namespace is copied for another user namespace. So the user
 * namespace comes last: this process clones a child into all other new namespaces; the child, still trusted, mounts everything
 * that the sandbox has, enters the sandbox's user namespace, and there takes a copy of the mounts, all of them locked. Network, pid,
 * uts and ipc namespaces, the overlay and the procfs stay those of the user namespace that this program is in: nothing inside has
 * rights over them, and not even a fresh procfs can be mounted there.
 *
 * What of the machine goes inside is cloned first, by this process, as detached mounts. The namespace is made early, since the
 * layers are id-mapped by it, and holds nobody until then.
 *
 * An ordinary user has no right to mount anything; for him this process first enters a user namespace of its own ("outer").
 * This program is single-threaded, does nothing else, and ends: so failing means telling why and exiting. */
#include "stage.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "message.h"
#include "userns.h"

#include <fs.h>
#include <util.h>

static void send_control(const struct sb_control *message, int fd)
{
    /* the library may be gone; then nobody waits for this, and the missing COMMIT ends init */
    (void)ag_send(SB_FD_CONTROL, message, sizeof *message, fd, 0);
}

void ag_die(const char *phase, int sys_errno, const char *format, ...)
{
    struct sb_control message = { .type = SB_CONTROL_FAILED, .sys_errno = sys_errno };
    va_list ap;

    snprintf(message.phase, sizeof message.phase, "%s", phase);
    va_start(ap, format);
    vsnprintf(message.detail, sizeof message.detail, format, ap);
    va_end(ap);
    send_control(&message, -1);
    _exit(1);
}

static void check_string(const struct sb_plan *plan, uint32_t offset)
{
    if (offset && (offset < sizeof *plan || offset >= plan->size))
        ag_die("plan", EBADMSG, "a string lies outside the plan");
}

const struct sb_plan *ag_stage_load_plan(void)
{
    const struct sb_plan *plan;
    struct stat st;

    if (fstat(SB_FD_PLAN, &st) < 0 || st.st_size < (off_t)sizeof *plan || st.st_size > 64 << 20)
        ag_die("plan", EBADMSG, "the plan is not a plan");
    plan = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, SB_FD_PLAN, 0);
    if (plan == MAP_FAILED)
        ag_die("plan", errno, "the plan can't be mapped");
    if (plan->magic != SB_PLAN_MAGIC || plan->version != SB_PLAN_VERSION)
        ag_die("plan", EPROTO, "the agent program is of another version than the library");
    if (plan->size != (uint64_t)st.st_size || ((const char *)plan)[plan->size - 1] || plan->n_layers > SB_PLAN_MAX_LAYERS ||
        plan->n_mounts > SB_PLAN_MAX_MOUNTS || plan->n_cgroups > SB_PLAN_MAX_CGROUPS || !plan->n_layers)
        ag_die("plan", EBADMSG, "the plan does not verify");
    check_string(plan, plan->hostname);
    check_string(plan, plan->folder);
    check_string(plan, plan->hidden);
    for (uint32_t i = 0; i < plan->n_layers; i++)
        check_string(plan, plan->layers[i]);
    for (uint32_t i = 0; i < plan->n_cgroups; i++)
        check_string(plan, plan->cgroups[i]);
    for (uint32_t i = 0; i < plan->n_mounts; i++) {
        check_string(plan, plan->mounts[i].source);
        check_string(plan, plan->mounts[i].target);
        check_string(plan, plan->mounts[i].upper);
    }
    const struct sb_plan_filter *filters[] = { &plan->command, &plan->daemon };
    for (size_t i = 0; i < SB_ELEMENTS(filters); i++)
        if (filters[i]->count > 4096 || filters[i]->offset % 8 ||
            (filters[i]->count &&
             (filters[i]->offset < sizeof *plan || (uint64_t)filters[i]->offset + filters[i]->count * 8u > plan->size)))
            ag_die("plan", EBADMSG, "a filter lies outside the plan");
    return plan;
}

/* The library sends BEGIN once it holds our pidfd, so that we can't have been reaped, and our pid reused, before. */
static void wait_begin(struct ag_stage *s)
{
    static const enum sb_stage_fd numbers[1 + SB_BEGIN_CGROUPS] = { SB_FD_MEMORY, SB_FD_CGROUP_TOP, SB_FD_CGROUP_EXEC, SB_FD_CGROUP_DAEMON };
    const enum sb_stage_fd *number;
    struct pollfd p = { .fd = SB_FD_CONTROL, .events = POLLIN };
    struct sb_control message;
    int fds[4];
    size_t n_fds;

    for (;;) {
        if (SB_RETRY(poll(&p, 1, -1)) < 0 ||
            ag_receive(SB_FD_CONTROL, &message, sizeof message, fds, &n_fds) != (ssize_t)sizeof message)
            _exit(1);
        if (message.type != SB_CONTROL_NETWORK || n_fds != 2 || s->given_net >= 0)
            break;
        s->given_net = fds[0];
        s->given_user = fds[1];
    }
    if (message.type != SB_CONTROL_BEGIN)
        _exit(1);
    number = message.pid ? numbers : numbers + 1;
    for (size_t i = 0; i < n_fds && number < numbers + SB_ELEMENTS(numbers); i++) {
        if (dup3(fds[i], *number++, O_CLOEXEC) < 0) /* inherited: by init, by number */
            ag_die("cgroup", errno, "the cgroups can't be taken");
        sb_close(fds[i]);
    }
}

void ag_stage_become_mapped_root(const struct ag_stage *s)
{
    ag_outer_become_root(&s->plan->map);
}

/* Mounts can only be cloned from the namespace we are in now: the state root is opened anew and must be the same. */
void ag_stage_reopen_root(void)
{
    char link[32], path[4096];
    struct stat was, now;
    ssize_t n;
    int root;

    snprintf(link, sizeof link, "/proc/self/fd/%d", SB_FD_ROOT);
    n = readlink(link, path, sizeof path - 1);
    if (n <= 0 || fstat(SB_FD_ROOT, &was) < 0)
        ag_die("root", errno, "the state root can't be named");
    path[n] = 0;
    root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || fstat(root, &now) < 0 || was.st_dev != now.st_dev || was.st_ino != now.st_ino ||
        dup3(root, SB_FD_ROOT, O_CLOEXEC) < 0)
        ag_die("root", errno ? errno : ESTALE, "the state root moved");
    sb_close(root);
}

static void enter_outer(struct ag_stage *s)
{
    ag_outer_enter(s->proc, &s->plan->map, s->given_user, CLONE_NEWNS);
    ag_stage_reopen_root();
}

/* The kernel makes no user namespace for a process in a chroot. Entering our own mount namespace anew puts us at its real root,
 * which is all the same to us: nothing after this needs the machine's paths, the trees that go inside are held by descriptor. */
void ag_stage_leave_chroot(struct ag_stage *s)
{
    SB_CLOSE int fd = openat(s->proc, "self/ns/mnt", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        ag_die("proc", errno, "/proc/self/ns/mnt can't be opened; is /proc mounted?");
    if (setns(fd, CLONE_NEWNS) < 0)
        ag_die("mount-namespace", errno, "the mount namespace can't be entered anew");
}

/* An ordinary user's groups are the user's, and init has an id that only this namespace may give them to: it moves what it starts between the
 * leaves. The groups themselves stay the user's, who removes them; so there are no groups of single execs here (init-leaf.c). */
static void give_cgroups(const struct ag_stage *s)
{
    const uid_t id = SB_PLAN_INIT_ID(s->plan);

    if (!(s->plan->flags & SB_PLAN_CGROUP) || s->plan->map.privilege != SB_PRIVILEGE_SUBIDS)
        return;
    for (int fd = SB_FD_CGROUP_TOP; fd <= SB_FD_CGROUP_DAEMON; fd++)
        if (fchownat(fd, "cgroup.procs", id, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0 ||
            (fd != SB_FD_CGROUP_TOP && fchownat(fd, "cgroup.freeze", id, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0))
            ag_die("cgroup", errno, "the cgroups can't be given to init");
}

/* For the case that init doesn't end when it should: keeper knows it by this, whatever init says later. */
static void tell_keeper(int pidfd)
{
    const struct sb_ring_event event = { .type = htole32(SB_EVENT_INIT) };

    (void)ag_send(SB_FD_EVENTS, &event, sizeof event, pidfd, MSG_DONTWAIT); /* without a keeper it is no socket */
}

static void clone_child(struct ag_stage *s)
{
    int pidfd = -1;
    struct clone_args args = {
        .flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_PARENT | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
    };
    struct sb_control message = { .type = SB_CONTROL_CLONED };
    long pid;

    if (s->plan->flags & SB_PLAN_CGROUP) {
        /* the top is the root of its cgroup namespace then: where cgroup2 is mounted with nsdelegate, as systemd does, nothing may be moved
         * out of that, so that a leaf of init's own would keep it from starting anything in the others */
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = SB_FD_CGROUP_TOP;
    }
    pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0)
        ag_die("clone", errno,
               errno == ENOSPC ? "no more namespaces: a limit in /proc/sys/user is reached" : "the namespaces can't be made");
    if (pid == 0)
        ag_child_main(s);
    message.pid = (int32_t)pid;
    tell_keeper(pidfd);
    send_control(&message, pidfd);
}

/* The sandbox's user namespace: for root the sandbox's range, for a user the outer namespace's ids, one to one. */
void ag_stage_make_inside(struct ag_stage *s)
{
    s->inner = s->plan->map;
    if (s->inner.privilege != SB_PRIVILEGE_ROOT) {
        s->inner.uid = s->inner.gid = s->inner.uid_start = s->inner.gid_start = 0;
        if (s->inner.privilege == SB_PRIVILEGE_SUBIDS)
            s->inner.privilege = SB_PRIVILEGE_ROOT;
    }
    s->inside = ag_userns_hold(s->proc, &s->inner, s->plan->nproc_max);
    if (s->inside < 0)
        ag_die("userns", -s->inside,
               s->inside == -ENOSPC ? "no more user namespaces: a limit in /proc/sys/user is reached"
                                    : "this kernel or its policy refuses user namespaces");
}

/* A daemon may open /dev/stdout, so keeper's pipes must be its own. */
static void give_pipes(const struct ag_stage *s)
{
    struct stat st;

    if (s->plan->map.privilege != SB_PRIVILEGE_ROOT)
        return;
    for (int fd = SB_FD_DAEMON_OUT; fd <= SB_FD_DAEMON_ERR; fd++)
        if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && fchown(fd, s->plan->map.uid_start, s->plan->map.gid_start) < 0)
            ag_die("log", errno, "the log's pipes can't be owned");
}

void ag_stage_open_proc(struct ag_stage *s)
{
    s->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (s->proc < 0 || !ag_is_procfs(s->proc))
        ag_die("proc", s->proc < 0 ? errno : ENODEV, "/proc is not a procfs");
}

int ag_stage_main(int argc, char **argv)
{
    struct ag_stage s = { .proc = -1, .outer = -1, .given_net = -1, .given_user = -1 };
    int cgroups[SB_PLAN_MAX_CGROUPS];

    (void)argc;
    (void)argv;
    close_range(SB_FD_STAGE_END, ~0u, 0);
    for (int fd = SB_FD_PLAN; fd < SB_FD_STAGE_END; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    umask(0);
    /* two signals that are the C library's own business are left ignored by its posix_spawn, and its sigaction() won't touch them */
    for (int signal = 32; signal <= 33; signal++)
        syscall(SYS_rt_sigaction, signal, &(unsigned long[4]){ 0 }, NULL, 8);
    wait_begin(&s);
    s.plan = ag_stage_load_plan();
    ag_stage_open_proc(&s);
    if (s.plan->map.privilege == SB_PRIVILEGE_ROOT)
        prctl(PR_SET_DUMPABLE, 0);
    else
        enter_outer(&s);
    ag_network_start(&s);
    for (uint32_t i = 0; i < s.plan->n_cgroups; i++) {
        cgroups[i] = open(SB_PLAN_STRING(s.plan, s.plan->cgroups[i]), O_WRONLY | O_CLOEXEC);
        if (cgroups[i] < 0)
            ag_die("cgroup", errno, "%s can't be written", SB_PLAN_STRING(s.plan, s.plan->cgroups[i]));
    }
    ag_stage_open_trees(&s);
    ag_stage_open_devices(&s);
    ag_stage_leave_chroot(&s);
    for (uint32_t i = 0; i < s.plan->n_cgroups; i++) {
        int r = sb_write_all(cgroups[i], "0", 1);

        if (r)
            ag_die("cgroup", -r, "%s can't be entered", SB_PLAN_STRING(s.plan, s.plan->cgroups[i]));
        sb_close(cgroups[i]);
    }
    give_pipes(&s);
    ag_stage_make_inside(&s);
    ag_stage_set_trees(&s);
    ag_stage_make_dev(&s);
    give_cgroups(&s);
    clone_child(&s);
    ag_network_end(&s);
    return 0;
}
