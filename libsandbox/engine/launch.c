/* SPDX-License-Identifier: Apache-2.0
 * From a record to a live init: makes what the record intended, writes the plan, starts the stage, and listens to what it says.
 * Nothing here runs in a copy of the host program, and init ends by itself when the commit doesn't come. */
#include "lifetime.h"
#include "overlay.h"
#include "network.h"
#include "plan-build.h"
#include "secrets.h"
#include "volume.h"
#include "scope.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>
#include <process.h>

/* The folder that the overlay writes into, owned by the sandbox's root: "rw" is the only way to it and is his, too. */
static int make_upper(struct sb_record *record, struct sandbox_error **error)
{
    const struct sb_idmap *map = &record->map;
    uid_t uid = map->privilege == SB_PRIVILEGE_ROOT ? map->uid_start : map->uid;
    gid_t gid = map->privilege == SB_PRIVILEGE_ROOT ? map->gid_start : map->gid;
    static const struct {
        const char *name;
        mode_t mode;
    } parts[] = { { "upper", 0755 }, { "work", 0700 } };
    SB_CLOSE int rw = sb_open_dir(record->dir, "rw", 0700);
    int r;

    if (rw < 0)
        return sb_fail_errno(error, -rw, "upper", "the upper folder can't be made");
    r = sb_remove_tree(rw, "work"); /* left by a volatile overlay, it would refuse the next mount */
    if (r)
        return sb_fail_errno(error, -r, "upper", "the old work folder can't be removed");
    for (size_t i = 0; i < SB_ELEMENTS(parts); i++) {
        SB_CLOSE int fd = sb_open_dir(rw, parts[i].name, parts[i].mode);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
            return sb_fail_errno(error, fd < 0 ? -fd : errno, "upper", "%s can't be made", parts[i].name);
        if (map->privilege == SB_PRIVILEGE_ROOT && (st.st_uid != uid || st.st_gid != gid) && fchown(fd, uid, gid) < 0)
            return sb_fail_errno(error, errno, "upper", "%s can't be given to the sandbox", parts[i].name);
        if (i == 1 && fchmod(fd, parts[i].mode) <
                          0) /* whatever the umask is; the upper's mode is the root's, and the sandbox's own affair */
            return sb_fail_errno(error, errno, "upper", "%s can't be made", parts[i].name);
    }
    if (map->privilege == SB_PRIVILEGE_ROOT && fchown(rw, uid, gid) < 0)
        return sb_fail_errno(error, errno, "upper", "the upper folder can't be given to the sandbox");
    return 0;
}

/* init's socket gets its place only now that everything else of the folder is there. */
static int bind_socket(const struct sb_record *record, int fd, struct sandbox_error **error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    if (unlinkat(record->dir, "s", 0) < 0 && errno != ENOENT)
        return sb_fail_errno(error, errno, "socket", "the old socket can't be removed");
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/s", record->dir);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return sb_fail_errno(error, errno, "socket", "init's socket can't be made");
    return 0;
}

static void clear_early(struct sb_early *e)
{
    e->plan = sb_close(e->plan);
    e->control = sb_close(e->control);
    e->listen = sb_close(e->listen);
    e->log = sb_close(e->log);
    e->owner = sb_close(e->owner);
}

static int make_early(struct sb_launch *launch, const struct sb_record *record, struct sb_early *e, struct sandbox_error **error)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return sb_fail_errno(error, errno, "stage", "no socket");
    launch->control = pair[0];
    e->control = pair[1];
    e->listen = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (e->listen < 0)
        return sb_fail_errno(error, errno, "socket", "no socket");
    e->plan = memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (e->plan < 0)
        return sb_fail_errno(error, errno, "plan", "the plan can't be made");
    if (launch->kept && (e->log = sb_open_dir(record->dir, "log", 0700)) < 0)
        return sb_fail_errno(error, -e->log, "log", "the log's folder can't be made");
    if (record->spec->lifetime == SANDBOX_LIFETIME_OWNED && (e->owner = (int)syscall(SYS_pidfd_open, getpid(), 0)) < 0)
        return sb_fail_errno(error, errno, "owner", "this process can't be watched");
    return 0;
}

int sb_launch_is_kept(const struct sb_record *record)
{
    return record->spec->daemon || record->spec->lifetime == SANDBOX_LIFETIME_DETACHED || sb_spec_life_is_kept(&record->spec->life) ||
           json_object_get(record->json, "life");
}

/* launch->report: there is one where systemd is asked for a scope. */
static int start_program(struct sb_engine *engine, struct sb_launch *launch, const struct sb_record *record, const struct sb_early *e,
                         struct sandbox_error **error)
{
    static char name[] = "sandbox-agent", stage[] = "stage", keeper[] = "keeper", yes[] = "1", no[] = "0";
    char log_bytes[24];
    char *const plain[] = { name, stage, NULL };
    char *const kept[] = { name, keeper, log_bytes, record->spec->lifetime == SANDBOX_LIFETIME_DETACHED ? yes : no, NULL };
    struct sb_spawn_fd map[SB_FD_STAGE_END];
    int program, r;
    pid_t pid;

    snprintf(log_bytes, sizeof log_bytes, "%lld", (long long)(record->spec->log_max ? record->spec->log_max : SB_LOG_MAX));
    r = sb_engine_program(engine, "sandbox-agent", &program, error);
    if (r)
        return r;
    /* every number up to the last is filled, so that nothing of a careless host program shows through */
    for (int i = 0; i < SB_FD_STAGE_END; i++)
        map[i] = (struct sb_spawn_fd){ .from = engine->null, .to = i };
    map[SB_FD_PLAN].from = e->plan;
    map[SB_FD_CONTROL].from = e->control;
    map[SB_FD_ROOT].from = engine->root;
    map[SB_FD_LISTEN].from = e->listen;
    if (e->log >= 0)
        map[SB_FD_LOG].from = e->log;
    if (e->owner >= 0)
        map[SB_FD_OWNER].from = e->owner;
    r = sb_scopes_named(json_object_get(record->json, "cgroups"))
            ? sb_scope_spawn(engine, record->id, program, launch->kept ? kept : plain, map, &launch->report, &pid, &launch->stage)
            : sb_spawn_watched(program, launch->kept ? kept : plain, map, SB_FD_STAGE_END, &pid, &launch->stage);
    if (r)
        return sb_fail_errno(error, -r, "stage", "the agent program can't be started");
    if (launch->kept && (r = sb_identity_read(pid, engine->self.boot, &launch->keeper)))
        return sb_fail_errno(error, -r, "stage", "the keeper can't be identified");
    return 0;
}

/* Waits for a process we made, by its pidfd: a host program that ignores SIGCHLD or waits for everything is all the same. */
static void wait_for(int pidfd)
{
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    siginfo_t info;

    if (pidfd < 0)
        return;
    SB_RETRY(poll(&p, 1, 10000));
    waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | __WALL);
}

/* systemd gave no scope: without limits that only a cgroup can enforce it goes on with none, and the record says so. */
static int go_without_scope(struct sb_launch *launch, struct sandbox_error **error)
{
    struct sb_record *record = launch->record;
    int r;

    syscall(SYS_pidfd_send_signal, launch->stage, SIGKILL, NULL, 0);
    wait_for(launch->stage);
    launch->stage = sb_close(launch->stage);
    if (sb_cgroups_needed(&record->spec->limits))
        return SANDBOX_EUNSUPPORTED;
    if (error && *error)
        *error = sandbox_error_unref(*error);
    json_object_set_new(record->json, "cgroups", json_array());
    r = sb_record_write(record, error);
    return r ? r : start_program(launch->engine, launch, record, &launch->early, error);
}

/* BEGIN, with the descriptors in the order of plan.h. */
static int send_begin(const struct sb_launch *launch, const struct sb_record *record, struct sandbox_error **error)
{
    const json_t *cgroups = json_object_get(record->json, "cgroups");
    int fds[1 + SB_BEGIN_CGROUPS] = { sb_cgroups_open_memory(cgroups, record->id) }, n = fds[0] >= 0, r = 0;
    struct sb_control begin = { .type = SB_CONTROL_BEGIN, .pid = n };
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof fds)];
    } control = { 0 };
    struct iovec iov = { &begin, sizeof begin };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    for (size_t i = 0; sb_cgroups_has_leaves(cgroups) && i < SB_BEGIN_CGROUPS; i++, n++) {
        const char *path = json_string_value(json_array_get(cgroups, i));

        fds[n] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fds[n] < 0) {
            r = sb_fail_errno(error, errno, "cgroup", "%s can't be opened", path);
            break;
        }
    }
    if (n) {
        size_t size = (size_t)n * sizeof *fds;

        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(size);
        control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(size) };
        memcpy(CMSG_DATA(&control.header), fds, size);
    }
    if (!r && SB_RETRY(sendmsg(launch->control, &msg, MSG_NOSIGNAL)) < 0)
        r = sb_fail_errno(error, errno, "stage", "the stage ended early");
    while (n > 0)
        sb_close(fds[--n]);
    return r;
}

static int watch(const struct sb_launch *launch, int fd, struct sandbox_error **error)
{
    struct epoll_event e = { .events = EPOLLIN };

    return epoll_ctl(launch->epoll, EPOLL_CTL_ADD, fd, &e) < 0 ? sb_fail_errno(error, errno, "stage", "the stage can't be watched") : 0;
}

/* The second half, once it is known where the processes will be. */
static int go_on(struct sb_launch *launch, struct sandbox_error **error)
{
    const struct sb_record *record = launch->record;
    struct sb_engine *engine = launch->engine;
    int r = sb_cgroups_make(&engine->cgroups, json_object_get(record->json, "cgroups"), record->id, &record->spec->limits, &record->map, error);

    if (!r)
        r = sb_network_attach(engine, record, launch, error);
    if (!r)
        r = sb_plan_write(engine, record, launch->early.plan, error);
    if (!r)
        r = send_begin(launch, record, error);
    clear_early(&launch->early);
    return r ? r : watch(launch, launch->control, error);
}

int sb_launch_begin(struct sb_engine *engine, struct sb_record *record, struct sb_launch *ret, struct sandbox_error **error)
{
    struct sb_launch launch = SB_LAUNCH_INIT;
    int r;

    launch.engine = engine;
    launch.record = record;
    launch.kept = sb_launch_is_kept(record);
    memcpy(launch.id, record->id, SB_ID_SIZE);
    sb_children_reap(engine);
    launch.epoll = epoll_create1(EPOLL_CLOEXEC);
    r = launch.epoll < 0 ? sb_fail_errno(error, errno, "stage", "no descriptor") : make_early(&launch, record, &launch.early, error);
    if (!r && launch.kept)
        r = sb_lifetime_tell_keeper(engine, record, launch.early.log, error);
    if (!r)
        r = start_program(engine, &launch, record, &launch.early, error);
    if (!r)
        r = make_upper(record, error);
    if (!r)
        r = sb_volumes_attach(engine, record->spec, error);
    if (!r)
        r = sb_secrets_check(engine, record, error);
    if (!r)
        r = sb_overlays_make(engine, record, error);
    if (!r)
        r = bind_socket(record, launch.early.listen, error);
    if (!r && launch.report.fd < 0)
        r = go_on(&launch, error);
    else if (!r && !(r = watch(&launch, launch.report.fd, error)))
        r = watch(&launch, launch.report.timer, error);
    if (r) {
        sb_launch_clear(&launch);
        return r;
    }
    *ret = launch;
    return 0;
}

/* systemd's answer. 1: not yet. */
static int step_scope(struct sb_launch *launch, struct sandbox_error **error)
{
    int r = sb_scope_step(&launch->engine->cgroups, launch->id, &launch->report, error);

    if (r == 1)
        return 1;
    sb_scope_report_clear(&launch->report);
    if (r)
        r = go_without_scope(launch, error);
    return r ? r : go_on(launch, error);
}

/* What to do about a failure of the stage: the first row whose phase and errno (0: any) are those of the message. */
static const char *hint_for(const struct sb_control *m)
{
    static const char namespaces[] = "allow user namespaces: see kernel.unprivileged_userns_clone, user.max_user_namespaces, "
                                     "kernel.apparmor_restrict_unprivileged_userns, or a container's seccomp profile";
    static const char privilege[] =
        "root needs CAP_SYS_ADMIN here: give it to the container (with its seccomp profile), or run as an ordinary user";
    static const char place[] = "put the state root on ext4, xfs, btrfs or tmpfs (root: since Linux 6.3): a container's own root is an "
                                "overlay, so give it a volume, or a tmpfs that may execute";
    static const struct {
        const char *phase;
        int sys_errno;
        const char *hint;
    } table[] = {
        { "userns", 0, namespaces },
        { "clone", ENOSPC, namespaces },
        { "clone", EPERM, privilege },
        { "network", EPERM, privilege },
        { "mounts", EPERM, privilege },
        { "mount-namespace", EPERM, privilege },
        { "network", ENOSPC, "raise user.max_net_namespaces, or delete sandboxes" },
        { "mounts", EINVAL, place },
        { "overlay", 0, place },
        { "idmap", EPERM, "in a container without CAP_SYS_ADMIN newuidmap and newgidmap need file capabilities (cap_setuid=ep, cap_setgid=ep) "
                          "in place of the setuid bit; or take the user out of /etc/subuid and subgid, or drop no_new_privs" },
        { "hostname", EPERM, "a container's seccomp profile forbids it: run the container with seccomp=unconfined, or with CAP_SYS_ADMIN" },
        { "proc", 0, "run where the whole of /proc is visible: a container must not mask parts of it (podman: --security-opt unmask=ALL, "
                     "docker: --security-opt systempaths=unconfined)" },
        { "plan", 0, "install the agent programs of this version of the library" },
    };

    if (!strcmp(m->phase, "dev") && strstr(m->detail, "fuse"))
        return "load the fuse module and, for an ordinary user, make /dev/fuse accessible to it";
    for (size_t i = 0; i < SB_ELEMENTS(table); i++)
        if (!strcmp(m->phase, table[i].phase) && (!table[i].sys_errno || table[i].sys_errno == m->sys_errno))
            return table[i].hint;
    return NULL;
}

static int stage_failed(const struct sb_control *message, struct sandbox_error **error)
{
    struct sb_control m = *message;
    int code;

    m.phase[sizeof m.phase - 1] = 0;
    m.detail[sizeof m.detail - 1] = 0;
    code = sb_code_from_errno(m.sys_errno);
    if (code == SANDBOX_ENOTFOUND || code == SANDBOX_EEXISTS || code == SANDBOX_ETIMEDOUT)
        code = SANDBOX_EIO; /* of some part of the machine or image, not of what the caller named */
    if (!strcmp(m.phase, "mounts") && m.sys_errno == ENOENT)
        code = SANDBOX_ENOTFOUND;
    if ((!strcmp(m.phase, "clone") || !strcmp(m.phase, "userns") || !strcmp(m.phase, "network")) && m.sys_errno == ENOSPC)
        code = SANDBOX_EDENIED;
    if ((!strcmp(m.phase, "overlay") || !strcmp(m.phase, "mounts")) && m.sys_errno == EINVAL)
        code = SANDBOX_EUNSUPPORTED;
    if (!strcmp(m.phase, "disk") && (m.sys_errno == EINVAL || m.sys_errno == EUCLEAN))
        code = SANDBOX_EDAMAGED;
    if (!strcmp(m.phase, "root") && (m.sys_errno == ELOOP || m.sys_errno == ENOTDIR))
        code = SANDBOX_EDAMAGED;
    return sb_fail(error, SB_ARGS(code, .sys_errno = m.sys_errno, .phase = m.phase, .hint = hint_for(&m)), "%s%s%s", m.detail,
                   m.sys_errno ? ": " : "", m.sys_errno && strerrordesc_np(m.sys_errno) ? strerrordesc_np(m.sys_errno) : "");
}

static int receive(struct sb_launch *launch, struct sb_control *message, int *ret_fd)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = { message, sizeof *message };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space
    };
    ssize_t n = sb_recvmsg(launch->control, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

    *ret_fd = -1;
    if (n < 0)
        return errno == EAGAIN ? 1 : -errno;
    *ret_fd = sb_message_fd(&msg);
    return n == (ssize_t)sizeof *message ? 0 : -EPROTO;
}

int sb_launch_step(struct sb_launch *launch, struct sandbox_error **error)
{
    struct sb_control message;
    int fd, r = launch->report.fd >= 0 ? step_scope(launch, error) : 0;

    if (r)
        return r;
    for (;;) {
        r = receive(launch, &message, &fd);
        if (r == 1)
            return 1;
        if (r < 0) {
            sb_close(fd);
            return sb_fail(error, SB_ARGS(SANDBOX_EIO, .sys_errno = -r, .phase = "stage"),
                           "the stage ended without a word: it was killed, or crashed");
        }
        switch (message.type) {
        case SB_CONTROL_CLONED:
            sb_close(launch->init);
            launch->init = fd;
            r = sb_identity_read((pid_t)message.pid, launch->engine->self.boot, &launch->identity);
            if (r)
                return sb_fail_errno(error, -r, "stage", "init can't be identified");
            if (launch->ready)
                return 0;
            break;
        case SB_CONTROL_READY: /* by init; stage's own message may come after it */
            sb_close(fd);
            launch->ready = 1;
            if (launch->init >= 0)
                return 0;
            break;
        case SB_CONTROL_OVERLAY:
            sb_close(fd);
            sb_overlays_note(&launch->overlays, &message);
            break;
        case SB_CONTROL_FAILED:
            sb_close(fd);
            return stage_failed(&message, error);
        default:
            sb_close(fd);
            return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "stage"), "the stage broke its protocol");
        }
    }
}

int sb_launch_commit(struct sb_launch *launch, struct sandbox_error **error)
{
    struct sb_control commit = { .type = SB_CONTROL_COMMIT };
    int r = sb_overlays_keep(launch->engine, launch->id, launch->overlays, error);

    if (!r)
        r = sb_network_commit(launch, error);
    if (!r)
        r = sb_publish(launch, error);
    if (r)
        return r;
    if (send(launch->control, &commit, sizeof commit, MSG_NOSIGNAL) < 0)
        return sb_fail_errno(error, errno, "stage", "init ended early");
    launch->control = sb_close(launch->control); /* what was sent stays to be read */
    if (launch->kept) {                          /* init is the keeper's child, and the keeper ours */
        sb_children_add(launch->engine, launch->stage);
        launch->stage = sb_close(launch->stage);
    } else {
        sb_children_add(launch->engine, launch->init);
    }
    launch->init = sb_close(launch->init); /* from now on it is found by its identity */
    return 0;
}

/* Reads what is still said until everybody at the other end is gone: init's pidfd may be among it, and must be waited for. */
static void drain(struct sb_launch *launch)
{
    int64_t until = sb_deadline(3000);
    struct sb_control message;
    int fd, r;

    do {
        struct pollfd p = { .fd = launch->control, .events = POLLIN };

        r = receive(launch, &message, &fd);
        if (r == 0 && message.type == SB_CONTROL_CLONED && launch->init < 0)
            launch->init = SB_TAKE_FD(fd);
        sb_close(fd);
        if (launch->init >= 0 && !launch->ready) {
            syscall(SYS_pidfd_send_signal, launch->init, SIGKILL, NULL, 0);
            launch->ready = 1; /* once */
        }
        if (r == 1 && SB_RETRY(poll(&p, 1, sb_left_ms(until))) == 0)
            break;
    } while (r >= 0);
}

void sb_launch_clear(struct sb_launch *launch)
{
    clear_early(&launch->early);
    if (launch->report.fd >= 0) /* it asks systemd, and hears nobody else */
        syscall(SYS_pidfd_send_signal, launch->stage, SIGKILL, NULL, 0);
    sb_scope_report_clear(&launch->report);
    if (launch->control >= 0 && launch->stage >= 0) {
        launch->ready = 0;
        shutdown(launch->control, SHUT_WR); /* ends a stage or an init that was not committed; they may still speak */
        drain(launch);
        syscall(SYS_pidfd_send_signal, launch->stage, SIGKILL, NULL, 0); /* if it hangs */
    }
    launch->control = sb_close(launch->control);
    launch->network = sb_close(launch->network);
    if (launch->init >= 0)
        syscall(SYS_pidfd_send_signal, launch->init, SIGKILL, NULL, 0);
    wait_for(launch->init);
    wait_for(launch->stage);
    launch->init = sb_close(launch->init);
    launch->stage = sb_close(launch->stage);
    launch->epoll = sb_close(launch->epoll);
    json_decref(launch->overlays);
    launch->overlays = NULL;
}
