/* SPDX-License-Identifier: Apache-2.0
 * start, stop, delete: operations on a sandbox that exists. Each takes the sandbox's lock, waiting for it by a timer, and then goes
 * from step to step as descriptors become readable; none of them blocks. */
#include "exec.h"
#include "lifetime.h"
#include "network.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

enum what { START, STOP, REMOVE };
enum stage { LOCKING, LAUNCHING, STARTING, STOPPING, KILLING, KEEPING, UNDOING, TRASHING };
enum { LOCK_MS = 2, KILL_MS = 5000, KEEPER_MS = 2000, GRACE_MARGIN_MS = 1000, ASK_MS = 20 };

struct change {
    struct sb_op op;
    struct sb_engine *engine;
    enum what what;
    enum stage stage;
    int64_t grace_ms;
    int64_t until; /* of the stage; -1: no bound */
    struct sb_record record;
    struct sb_launch launch;
    struct sb_lock_wait waited;
    int timer, link, init, keeper; /* the last two: pidfds */
    int cancelled, launched, refused;
};

static void arm(struct change *c, int64_t ms)
{
    struct itimerspec when = { .it_value = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 } };

    if (ms <= 0)
        when.it_value.tv_nsec = 1;
    timerfd_settime(c->timer, 0, &when, NULL);
}

static int watch(struct change *c, int fd, struct sandbox_error **error)
{
    struct epoll_event e = { .events = EPOLLIN };

    if (epoll_ctl(c->op.fd, EPOLL_CTL_ADD, fd, &e) < 0 && errno != EEXIST)
        return sb_fail_errno(error, errno, "wait", "a descriptor can't be watched");
    return 0;
}

/* A pidfd of init: by what the record says, or by whoever listens on its socket. -ESRCH: no init lives; else it can't be told. */
static int open_init(struct change *c)
{
    SB_JSON json_t *run = sb_record_read_run(c->engine, &c->record);
    struct sb_identity init;
    struct ucred peer;
    socklen_t size = sizeof peer;
    SB_CLOSE int link = -1;
    int fd, r;

    if (run) {
        sb_identity_from_json(json_object_get(run, "keeper"), &init);
        c->keeper = sb_identity_find(&c->engine->self, &init);
        sb_identity_from_json(json_object_get(run, "init"), &init);
        r = sb_identity_find(&c->engine->self, &init);
        if (r != -EACCES && r != -EXDEV) /* a /proc that hides it (hidepid), another pid namespace: then its socket must tell */
            return r;
    }
    r = sb_link_open(c->engine, c->record.id, &link, NULL);
    if (r)
        return r == SANDBOX_ENOTRUNNING || r == SANDBOX_ENOTFOUND ? -ESRCH : -EIO;
    if (getsockopt(link, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 1)
        return -EXDEV; /* it listens, and has no number here */
    fd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
    if (fd < 0)
        return -errno;
    /* still connected now: so it lived when the pidfd was taken, and the pid was its own */
    if (sb_recv(link, &(char){ 0 }, 1, MSG_DONTWAIT | MSG_PEEK) == 0) {
        sb_close(fd);
        return -ESRCH;
    }
    return fd;
}

static int send_start(struct change *c, struct sandbox_error **error)
{
    struct sb_request request = { .type = SB_REQUEST_START, .files_max = sb_exec_files_max(&c->record, NULL) };
    const struct sandbox_spec *spec = c->record.spec;
    struct sb_blob blob = { 0 };
    int r = 0;

    if (spec->daemon) {
        SB_FREE char *workdir = NULL;
        char **env;
        size_t n;

        r = sb_environment(&c->record, NULL, 1, &env, &n, error);
        if (r)
            return r;
        workdir = sb_default_workdir(&c->record);
        r = sb_blob_make((const char *const *)spec->daemon, (const char *const *)env, n, "0:0", workdir ? workdir : "/", &blob,
                         error);
        sb_list_free(env);
    }
    if (!r) {
        request.argc = blob.argc;
        request.envc = blob.envc;
        request.blob_size = (uint32_t)blob.size;
        r = sb_link_send(c->link, &request, blob.data, NULL, 0, error);
    }
    free(blob.data);
    return r;
}

static int begin_start(struct change *c, struct sandbox_error **error)
{
    int r;

    c->stage = STARTING;
    r = sb_link_open(c->engine, c->record.id, &c->link, error);
    if (!r)
        r = send_start(c, error);
    return r ? r : watch(c, c->link, error);
}

/* Its groups are below the group of whoever starts it, which may be another than its maker's (a session that has ended, another service). 1: the
 * record says so now. */
static int move_cgroups(struct change *c, struct sandbox_error **error)
{
    struct sandbox_spec *spec = c->record.spec;
    const json_t *old = json_object_get(c->record.json, "cgroups");
    json_t *now;
    int r = sb_ceiling_hold(c->engine, &spec->limits, error);

    if (!r)
        r = sb_cgroups_plan(&c->engine->cgroups, c->record.id, &spec->limits, &now, error);
    if (r)
        return r;
    if (json_equal(old, now)) {
        json_decref(now);
        return 0;
    }
    json_object_set_new(c->record.json, "cgroups", now);
    return 1;
}

static int begin_launch(struct change *c, struct sandbox_error **error)
{
    struct sb_identity owner;
    int r;

    c->stage = LAUNCHING;
    c->launched = 1;
    /* cgroups that were ever killed kill whatever is cloned into them (since 6.13): they are made anew */
    sb_cgroups_remove(json_object_get(c->record.json, "cgroups"), c->record.id);
    r = sb_network_detach(c->engine, &c->record, error);
    if (!r)
        r = sb_range_claim(c->engine, &c->record, 1, error);
    if (!r)
        r = move_cgroups(c, error);
    sb_identity_from_json(json_object_get(c->record.json, "owner"), &owner);
    if (r >= 0 && c->record.spec->lifetime == SANDBOX_LIFETIME_OWNED) {
        int entered = sb_owner_enter(c->engine, c->record.id);

        json_object_set_new(c->record.json, "owner", sb_identity_to_json(&c->engine->self));
        r = entered ? sb_fail_errno(error, -entered, "state", "the sandbox can't be entered for this process") : 1;
    }
    if (r == 1) {
        r = sb_record_write(&c->record, error);
        if (!r && c->record.spec->lifetime == SANDBOX_LIFETIME_OWNED && !sb_identity_equal(&owner, &c->engine->self))
            sb_owner_leave(c->engine, &owner, c->record.id);
    }
    if (!r)
        r = sb_launch_begin(c->engine, &c->record, &c->launch, error);
    return r ? r : watch(c, c->launch.epoll, error);
}

static int cannot_tell(int sys_errno, struct sandbox_error **error)
{
    return sb_fail(error,
                   SB_ARGS(sb_code_from_errno(sys_errno), .sys_errno = sys_errno, .phase = "state", .retryable = 1,
                           .hint = "is this process short of descriptors or memory, or is it of another pid namespace?"),
                   "whether the sandbox's init lives can't be told: %s", strerrordesc_np(sys_errno));
}

/* It lives, and is being ended by the kernel: after that it is made anew. */
static int await_end(struct change *c, struct sandbox_error **error)
{
    if (c->link >= 0)
        epoll_ctl(c->op.fd, EPOLL_CTL_DEL, c->link, NULL);
    c->link = sb_close(c->link);
    c->stage = STOPPING;
    c->until = sb_now_ms() + KILL_MS;
    arm(c, KILL_MS);
    return watch(c, c->init, error);
}

static int start_locked(struct change *c, struct sandbox_error **error)
{
    struct sandbox_error *why = NULL;
    int r;

    c->init = open_init(c);
    if (c->init < 0 && c->init != -ESRCH)
        return cannot_tell(-c->init, error);
    if (c->init < 0) {
        c->stage = KEEPING;
        c->until = sb_now_ms() + KEEPER_MS;
        r = sb_lifetime_may_start(c->engine, &c->record, error);
        return r || c->keeper < 0 ? r : watch(c, c->keeper, error);
    }
    r = begin_start(c, &why);
    if (r == SANDBOX_ENOTRUNNING) {
        sandbox_error_unref(why);
        return await_end(c, error);
    }
    if (r && error)
        *error = why;
    else
        sandbox_error_unref(why);
    return r;
}

/* SIGTERM to the daemon, by init. */
static int ask_to_end(struct change *c)
{
    struct sb_request request = { .type = SB_REQUEST_SHUTDOWN, .timeout_ms = c->grace_ms };
    int r = sb_link_open(c->engine, c->record.id, &c->link, NULL);

    if (!r)
        r = sb_link_send(c->link, &request, NULL, NULL, 0, NULL);
    if (!r)
        r = watch(c, c->link, NULL);
    if (r)
        c->link = sb_close(c->link);
    return r;
}

static int on_locked(struct change *c, struct sandbox_error **error)
{
    int r;

    if (c->what == START)
        return start_locked(c, error);
    if (c->what == REMOVE) {
        /* from here on it is to go, whatever becomes of this process; on a full disk the delete goes on all the same */
        int entered = sb_owner_enter(c->engine, c->record.id);
        SB_CLOSE int mark = openat(c->record.dir, "deleting", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        (void)entered;
        (void)mark;
    }
    c->init = open_init(c);
    if (c->init < 0 && c->init != -ESRCH)
        return cannot_tell(-c->init, error);
    if (c->init < 0) {
        c->stage = KEEPING;
        c->until = sb_now_ms() + KEEPER_MS;
        return c->keeper >= 0 ? watch(c, c->keeper, error) : 0;
    }
    c->stage = KILLING;
    c->until = sb_now_ms() + KILL_MS;
    r = watch(c, c->init, error);
    if (r)
        return r;
    if (c->what == STOP && c->grace_ms != 0 && !ask_to_end(c)) {
        c->stage = STOPPING;
        c->until = c->grace_ms < 0 ? -1 : sb_now_ms() + c->grace_ms + GRACE_MARGIN_MS;
        if (c->until >= 0)
            arm(c, c->grace_ms + GRACE_MARGIN_MS);
        return 0;
    }
    arm(c, 0);
    return 0;
}

/* init says nothing when it does as it was asked; it may have had no place for the question. */
static void step_stopping(struct change *c)
{
    int64_t left = c->until < 0 ? INT64_MAX : c->until - sb_now_ms();
    struct sb_reply reply;
    int r = c->link >= 0 ? sb_link_receive(c->link, 0, &reply, NULL, NULL) : SANDBOX_ETIMEDOUT;

    if (c->link >= 0 && r != SANDBOX_ETIMEDOUT) {
        epoll_ctl(c->op.fd, EPOLL_CTL_DEL, c->link, NULL);
        c->link = sb_close(c->link);
        c->refused = !r && reply.type == SB_REPLY_FAILED;
    } else if (c->link < 0 && c->refused) {
        c->refused = ask_to_end(c) != 0;
    }
    if (c->refused)
        arm(c, left < ASK_MS ? left : ASK_MS);
    else if (c->until >= 0)
        arm(c, left);
}

static void kill_all(struct change *c)
{
    if (c->record.json)
        sb_cgroups_kill(json_object_get(c->record.json, "cgroups"), c->record.id);
    syscall(SYS_pidfd_send_signal, c->init, SIGKILL, NULL, 0);
}

static int has_ended(int pidfd)
{
    siginfo_t info = { 0 };
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    int gone = poll(&p, 1, 0) == 1;

    if (gone)
        waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | __WALL);
    return gone;
}

static int step_killing(struct change *c, struct sandbox_error **error)
{
    if (!has_ended(c->init)) {
        if (c->stage == STOPPING && c->what == STOP)
            step_stopping(c);
        if (c->stage == STOPPING && (c->until < 0 || sb_now_ms() < c->until))
            return 1;
        if (c->stage == STOPPING) {
            c->stage = KILLING;
            c->until = sb_now_ms() + KILL_MS;
        }
        kill_all(c);
        if (sb_now_ms() >= c->until)
            return sb_fail(error,
                           SB_ARGS(SANDBOX_EBUSY, .phase = "kill", .retryable = 1,
                                   .hint = "something inside hangs in the kernel; try again"),
                           "the sandbox's processes did not end within %d ms", KILL_MS);
        arm(c, 10);
        return 1;
    }
    epoll_ctl(c->op.fd, EPOLL_CTL_DEL, c->init, NULL);
    c->stage = KEEPING;
    c->until = sb_now_ms() + KEEPER_MS;
    return c->keeper >= 0 && watch(c, c->keeper, error) ? SANDBOX_EIO : 1;
}

/* The keeper writes down how init ended; after that nobody writes into the sandbox's folder any more. */
static int step_keeping(struct change *c, struct sandbox_error **error)
{
    int r;

    if (c->keeper >= 0 && !has_ended(c->keeper)) {
        if (sb_now_ms() >= c->until)
            syscall(SYS_pidfd_send_signal, c->keeper, SIGKILL, NULL, 0);
        arm(c, 10);
        return 1;
    }
    if (c->keeper >= 0)
        epoll_ctl(c->op.fd, EPOLL_CTL_DEL, c->keeper, NULL);
    sb_children_reap(c->engine);
    if (c->what == START) {
        r = begin_launch(c, error);
        return r ? r : 1;
    }
    c->stage = UNDOING;
    return 1;
}

static int step_undoing(struct change *c, struct sandbox_error **error)
{
    int r;

    if (c->what == STOP) {
        struct sb_identity none = { 0 };

        if (!c->record.spec)
            return 0; /* a damaged one: nothing lives in it any more, and its record can't be changed */
        sb_cgroups_remove(json_object_get(c->record.json, "cgroups"), c->record.id);
        r = sb_network_detach(c->engine, &c->record, error);
        if (r)
            return r;
        return sb_record_write_run(&c->record, "stopped", &none, &none, "", error);
    }
    r = c->stage == UNDOING ? sb_undo(c->engine, &c->record, error)
                            : sb_undo_trash(c->engine, c->record.id, &c->record.map, error);
    if (r >= 0 && c->stage == UNDOING && c->record.json) { /* what is left stands under our own name */
        struct sb_identity owner;

        sb_identity_from_json(json_object_get(c->record.json, "owner"), &owner);
        if (!sb_identity_equal(&owner, &c->engine->self))
            sb_owner_leave(c->engine, &owner, c->record.id);
    }
    if (r == 1) {
        c->stage = TRASHING;
        arm(c, 0);
    }
    return r;
}

static int step_launching(struct change *c, struct sandbox_error **error)
{
    int r = sb_launch_step(&c->launch, error);

    if (r == 1)
        return 1;
    if (!r)
        r = sb_record_write_run(&c->record, "created", &c->launch.identity, &c->launch.keeper, "", error);
    if (!r)
        r = sb_launch_commit(&c->launch, error);
    if (!r)
        epoll_ctl(c->op.fd, EPOLL_CTL_DEL, c->launch.epoll, NULL);
    sb_launch_clear(&c->launch);
    if (!r)
        r = begin_start(c, error);
    return r ? r : 1;
}

static int step_starting(struct change *c, struct sandbox_error **error)
{
    struct sb_reply reply;
    int r = sb_link_receive(c->link, 0, &reply, NULL, error);

    if (r == SANDBOX_ETIMEDOUT) {
        if (error && *error)
            *error = sandbox_error_unref(*error);
        return 1;
    }
    if ((r == SANDBOX_ELOST || r == SANDBOX_ENOTRUNNING) && c->init >= 0 && !c->launched) {
        if (error && *error)
            *error = sandbox_error_unref(*error);
        r = await_end(c, error);
        return r ? r : 1;
    }
    if (r)
        return r;
    if (reply.type == SB_REPLY_FAILED && !(reply.step == SB_STEP_STATE && reply.sys_errno == EALREADY))
        return sb_link_start_error(&reply, c->record.spec->daemon ? c->record.spec->daemon[0] : "?", "0:0", "/", error);
    return 0;
}

static int step_locking(struct change *c, struct sandbox_error **error)
{
    struct sandbox_error *why = NULL;
    int r = sb_record_open(c->engine, c->op.id, SB_LOCK_EXCLUSIVE, &c->record, &why);

    if (r == SANDBOX_EBUSY) {
        sandbox_error_unref(why);
        r = sb_lock_wait(c->engine, c->op.id, &c->waited, error);
        if (r == 1)
            arm(c, LOCK_MS);
        return r;
    }
    if (r == SANDBOX_ENOTFOUND && c->what == REMOVE) {
        sandbox_error_unref(why);
        return 0; /* gone is what was wanted */
    }
    if (r == SANDBOX_EDAMAGED && c->what != START) {
        sandbox_error_unref(why);
        why = NULL;
        r = 0;
    }
    if (r) {
        if (error)
            *error = why;
        else
            sandbox_error_unref(why);
        return r;
    }
    if (faccessat(c->engine->sandboxes, c->op.id, F_OK, AT_SYMLINK_NOFOLLOW) < 0) { /* deleted while we waited for its lock */
        sb_record_clear(&c->record);
        return c->what == REMOVE
                   ? 0
                   : sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .field = "id"), "there is no sandbox %.12s", c->op.id);
    }
    r = on_locked(c, error);
    return r ? r : 1;
}

static int change_step(struct sb_op *op, struct sandbox_error **error)
{
    struct change *c = (struct change *)op;
    uint64_t ticks;
    int r;

    while (read(c->timer, &ticks, sizeof ticks) > 0)
        ;
    for (;;) {
        enum stage before = c->stage;

        if (c->cancelled && (c->stage == LOCKING || c->stage == LAUNCHING || c->stage == STARTING || c->stage == STOPPING)) {
            sb_launch_clear(&c->launch);
            return sb_fail(error, SB_ARGS(SANDBOX_ECANCELLED), "the call was cancelled");
        }
        switch (c->stage) {
        case LOCKING:
            r = step_locking(c, error);
            break;
        case LAUNCHING:
            r = step_launching(c, error);
            break;
        case STARTING:
            r = step_starting(c, error);
            break;
        case STOPPING:
        case KILLING:
            r = step_killing(c, error);
            break;
        case KEEPING:
            r = step_keeping(c, error);
            break;
        default:
            r = step_undoing(c, error);
        }
        if (r < 0 && c->what == START && (before == LAUNCHING || before == STARTING))
            sb_record_note_failure(c->engine, &c->record, error ? *error : NULL);
        if (r != 1)
            return r;
        if (c->stage == before) /* it waits for a descriptor */
            return 1;
    }
}

static void change_cancel(struct sb_op *op)
{
    struct change *c = (struct change *)op;

    c->cancelled = 1;
    arm(c, 0);
}

static void change_free(struct sb_op *op)
{
    struct change *c = (struct change *)op;

    sb_launch_clear(&c->launch);
    sb_record_clear(&c->record);
    sb_close(c->link);
    sb_close(c->init);
    sb_close(c->keeper);
    sb_close(c->timer);
    sb_close(c->op.fd);
    free(c);
}

static const struct sb_op_ops change_ops = { change_step, change_cancel, change_free };

static int change_begin(struct sb_driver *driver, enum what what, const char *phase, const char *id, int64_t grace_ms,
                        struct sb_op **ret_op, struct sandbox_error **error)
{
    struct change *c = calloc(1, sizeof *c);

    if (!c)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    *c = (struct change){ .engine = (struct sb_engine *)driver,
                          .what = what,
                          .grace_ms = grace_ms,
                          .record = SB_RECORD_INIT,
                          .link = -1,
                          .init = -1,
                          .keeper = -1,
                          .launch = SB_LAUNCH_INIT };
    c->op.ops = &change_ops;
    c->op.progress = (struct sandbox_progress)SANDBOX_PROGRESS_INIT;
    snprintf(c->op.progress.phase, sizeof c->op.progress.phase, "%s", phase);
    snprintf(c->op.id, sizeof c->op.id, "%s", id);
    c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    c->op.fd = epoll_create1(EPOLL_CLOEXEC);
    if (c->timer < 0 || c->op.fd < 0 || watch(c, c->timer, NULL)) {
        int saved = errno;

        change_free(&c->op);
        return sb_fail_errno(error, saved, phase, "no descriptor");
    }
    arm(c, 0);
    *ret_op = &c->op;
    return 0;
}

int sb_engine_start(struct sb_driver *driver, const char *id, struct sb_op **ret_op, struct sandbox_error **error)
{
    return change_begin(driver, START, "start", id, 0, ret_op, error);
}

int sb_engine_stop(struct sb_driver *driver, const char *id, int64_t grace_ms, struct sb_op **ret_op,
                   struct sandbox_error **error)
{
    return change_begin(driver, STOP, "stop", id, grace_ms < INT64_MAX / 2 ? grace_ms : -1, ret_op,
                        error); /* beyond the clock: no bound */
}

int sb_engine_remove(struct sb_driver *driver, const char *id, struct sb_op **ret_op, struct sandbox_error **error)
{
    return change_begin(driver, REMOVE, "delete", id, 0, ret_op, error);
}
