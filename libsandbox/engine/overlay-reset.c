/* SPDX-License-Identifier: Apache-2.0
 * An overlay begins anew.
 *
 * Of a stopped sandbox the layer is moved away and an empty one made. Of one that runs that is done by a helper of the caller's rights
 * (agent/stage-reset.c), with what init keeps for it: an empty layer waits under a name of its own, the helper exchanges mount and folder, and
 * what has the name then is the old layer. So at every moment the folder that a start would take is whole, and what has the other name is
 * thrown away by whoever comes next. Nothing of a layer is removed while anybody waits. */
#include "locks.h"
#include "overlay.h"
#include "plan-build.h"

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
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>
#include <process.h>

enum { LOCK_MS = 2, INIT_MS = 2000 };

struct reset {
    struct sb_op op;
    struct sb_engine *engine;
    struct sb_lock_wait waited;
    struct sb_record record; /* locked, from the helper's start to its end */
    size_t mount;
    char *target;
    int timer, cancelled;
    int control, pidfd; /* of the helper; -1: none */
    json_t *overlays;
};

static void arm(struct reset *c)
{
    timerfd_settime(c->timer, 0, &(struct itimerspec){ .it_value.tv_nsec = LOCK_MS * 1000000 }, NULL);
}

/* A mounted layer must not be taken away from below its overlay. What can't be told counts as alive. */
static int lives(struct reset *c, struct sb_identity *ret_init)
{
    SB_JSON json_t *run = sb_record_read_run(c->engine, &c->record);
    SB_CLOSE int fd = -1, link = -1;

    sb_identity_from_json(json_object_get(run, "init"), ret_init);
    fd = sb_identity_open(ret_init);
    return fd != -ESRCH || sb_link_open(c->engine, c->record.id, &link, NULL) != SANDBOX_ENOTRUNNING;
}

static int reset_stopped(struct reset *c, struct sandbox_error **error)
{
    char name[24];
    int r;

    snprintf(name, sizeof name, "%zu", c->mount);
    r = sb_overlay_throw(c->engine, &c->record, name);
    if (r)
        return sb_fail_errno(error, -r, "reset", "the layer of %s can't be moved away", c->target);
    return sb_overlays_make(c->engine, &c->record, error);
}

/* ---- while it runs */

static int fail_busy(const struct reset *c, const char *why, struct sandbox_error **error)
{
    return sb_fail(error,
                   SB_ARGS(SANDBOX_EBUSY, .sys_errno = EBUSY, .phase = "reset", .field = "target",
                           .hint = "end what has it in use, or stop the sandbox, reset, and start it again"),
                   "%s is in use: %s", c->target, why);
}

/* What lies on the overlay would be hidden by the new one. */
static int check_above(const struct reset *c, struct sandbox_error **error)
{
    size_t n = strlen(c->target);

    for (size_t i = 0; i < c->record.spec->n_mounts; i++) {
        const char *other = c->record.spec->mounts[i].target;

        if (i != c->mount && !strncmp(other, c->target, n) && (other[n] == '/' || !other[n]))
            return fail_busy(c, "another mount of the spec lies on it", error);
    }
    return 0;
}

/* number: of the mount in the spec, for what it is mounted on; -1: the mount namespace of that. */
static int ask_init(const struct reset *c, int number, int *ret_fd, struct sandbox_error **error)
{
    const struct sb_request request = { .type = SB_REQUEST_OUTER, .port = number };
    struct sb_reply reply;
    SB_CLOSE int link = -1, fd = -1;
    int r = sb_link_open(c->engine, c->record.id, &link, error);

    if (!r)
        r = sb_link_send(link, &request, NULL, NULL, 0, error);
    if (!r)
        r = sb_link_await(link, c->engine->driver.close_fd, INIT_MS, &reply, &fd, error);
    if (r)
        return r;
    if (reply.type == SB_REPLY_FAILED)
        return sb_fail(error,
                       SB_ARGS(SANDBOX_EUNSUPPORTED, .sys_errno = reply.sys_errno, .phase = "reset",
                               .hint = "stop the sandbox, reset, and start it again"),
                       "the sandbox was started with too few descriptors, or by another version: its overlays can't be exchanged while it runs");
    if (reply.type != SB_REPLY_DIALED || fd < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "reply"), "the sandbox's init gave a wrong answer");
    *ret_fd = SB_TAKE_FD(fd);
    return 0;
}

static int spawn_helper(struct reset *c, const struct sb_identity *init, int plan, int control, int outer, int target,
                        struct sandbox_error **error)
{
    char name[] = "sandbox-agent", mode[] = "reset", number[24], pid[24];
    char *const argv[] = { name, mode, number, pid, NULL };
    struct sb_spawn_fd fds[SB_RESET_FD_END];
    int program, r = sb_engine_program(c->engine, "sandbox-agent", &program, error);

    if (r)
        return r;
    snprintf(number, sizeof number, "%zu", c->mount);
    snprintf(pid, sizeof pid, "%d", (int)init->pid);
    for (int i = 0; i < SB_RESET_FD_END; i++)
        fds[i] = (struct sb_spawn_fd){ c->engine->null, i };
    fds[SB_RESET_FD_PLAN].from = plan;
    fds[SB_RESET_FD_CONTROL].from = control;
    fds[SB_RESET_FD_ROOT].from = c->engine->root;
    fds[SB_RESET_FD_OUTER].from = outer;
    fds[SB_RESET_FD_TARGET].from = target;
    r = sb_spawn_watched(program, argv, fds, SB_RESET_FD_END, NULL, &c->pidfd);
    return r ? sb_fail_errno(error, -r, "reset", "the agent program can't be started") : 0;
}

static int reset_running(struct reset *c, const struct sb_identity *init, struct sandbox_error **error)
{
    struct epoll_event e = { .events = EPOLLIN };
    SB_CLOSE int outer = -1, target = -1, plan = -1;
    int pair[2] = { -1, -1 }, r = check_above(c, error);

    if (!r)
        r = ask_init(c, -1, &outer, error);
    if (!r)
        r = ask_init(c, (int)c->mount, &target, error);
    if (!r)
        r = sb_overlay_make_next(c->engine, &c->record, c->mount, error);
    if (!r && (plan = memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING)) < 0)
        r = sb_fail_errno(error, errno, "plan", "the plan can't be made");
    if (!r)
        r = sb_plan_write(c->engine, &c->record, plan, error);
    if (!r && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        r = sb_fail_errno(error, errno, "reset", "no socket");
    c->control = pair[0];
    if (!r)
        r = spawn_helper(c, init, plan, pair[1], outer, target, error);
    sb_close(pair[1]);
    if (!r && (epoll_ctl(c->op.fd, EPOLL_CTL_ADD, c->control, &e) < 0 || epoll_ctl(c->op.fd, EPOLL_CTL_ADD, c->pidfd, &e) < 0))
        r = sb_fail_errno(error, errno, "reset", "the helper can't be watched");
    return r ? r : 1;
}

static int helper_failed(const struct reset *c, struct sb_control *m, struct sandbox_error **error)
{
    const char *why;

    m->phase[sizeof m->phase - 1] = 0;
    m->detail[sizeof m->detail - 1] = 0;
    why = m->sys_errno ? strerrordesc_np(m->sys_errno) : NULL;
    if (!strcmp(m->phase, "busy"))
        return fail_busy(c, m->detail, error);
    return sb_fail(error, SB_ARGS(m->sys_errno ? sb_code_from_errno(m->sys_errno) : SANDBOX_EIO, .sys_errno = m->sys_errno, .phase = m->phase),
                   "%s%s%s", m->detail, why ? ": " : "", why ? why : "");
}

/* What inspect says of this overlay from now on. */
static void note_kind(struct reset *c)
{
    SB_FREE char *text = NULL;
    SB_JSON json_t *all = NULL;

    if (!c->overlays)
        return;
    if (sb_read_file(c->record.dir, "overlays", 1 << 20, &text, NULL) || sb_json_parse(text, strlen(text), "overlays", &all, NULL))
        all = json_object();
    json_object_update(all, c->overlays);
    (void)sb_overlays_keep(c->engine, c->record.id, all, NULL); /* what was asked for is done */
}

static int exchanged(struct reset *c)
{
    char name[32];

    note_kind(c);
    snprintf(name, sizeof name, "%zu%s", c->mount, SB_RESET_SUFFIX);
    (void)sb_overlay_throw(c->engine, &c->record, name); /* else the next reset, start or removal does */
    return 0;
}

static int hear_helper(struct reset *c, struct sandbox_error **error)
{
    for (;;) {
        /* first: what it said before it ended is there afterwards */
        int ended = poll(&(struct pollfd){ .fd = c->pidfd, .events = POLLIN }, 1, 0) > 0;
        struct sb_control m;
        ssize_t n = SB_RETRY(recv(c->control, &m, sizeof m, MSG_DONTWAIT));

        if (n < 0 && errno == EAGAIN && !ended)
            return 1;
        if (n != (ssize_t)sizeof m)
            return sb_fail(error, SB_ARGS(c->cancelled ? SANDBOX_ECANCELLED : SANDBOX_EIO, .phase = "reset"),
                           c->cancelled ? "the call was cancelled" : "the helper ended without a word: it was killed, or crashed");
        if (m.type == SB_CONTROL_READY)
            return exchanged(c);
        if (m.type == SB_CONTROL_FAILED)
            return helper_failed(c, &m, error);
        if (m.type == SB_CONTROL_OVERLAY)
            sb_overlays_note(&c->overlays, &m);
    }
}

/* ---- the operation */

static int reset_locked(struct reset *c, struct sandbox_error **error)
{
    struct sb_identity init;
    int r = sb_overlay_find(&c->record, c->target, &c->mount, error);

    if (r)
        return r;
    return lives(c, &init) ? reset_running(c, &init, error) : reset_stopped(c, error);
}

static int reset_step(struct sb_op *op, struct sandbox_error **error)
{
    struct reset *c = (struct reset *)op;
    struct sandbox_error *why = NULL;
    uint64_t ticks;
    int r;

    while (read(c->timer, &ticks, sizeof ticks) > 0)
        ;
    if (c->pidfd >= 0)
        return hear_helper(c, error);
    if (c->cancelled)
        return sb_fail(error, SB_ARGS(SANDBOX_ECANCELLED), "the call was cancelled");
    r = sb_record_open(c->engine, c->op.id, SB_LOCK_EXCLUSIVE, &c->record, &why);
    if (!r)
        return reset_locked(c, error);
    if (r == SANDBOX_EBUSY) {
        sandbox_error_unref(why);
        r = sb_lock_wait(c->engine, c->op.id, &c->waited, error);
        if (r == 1)
            arm(c);
    } else if (error) {
        *error = why;
    } else {
        sandbox_error_unref(why);
    }
    sb_record_clear(&c->record);
    c->record = (struct sb_record)SB_RECORD_INIT;
    return r;
}

/* A helper that is killed leaves nothing half: see stage-reset.c. */
static void reset_cancel(struct sb_op *op)
{
    struct reset *c = (struct reset *)op;

    c->cancelled = 1;
    if (c->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0);
    arm(c);
}

static void reset_free(struct sb_op *op)
{
    struct reset *c = (struct reset *)op;

    if (c->pidfd >= 0)
        sb_children_add(c->engine, c->pidfd);
    sb_close(c->pidfd);
    sb_close(c->control);
    sb_close(c->timer);
    sb_close(c->op.fd);
    sb_record_clear(&c->record);
    json_decref(c->overlays);
    free(c->target);
    free(c);
}

static const struct sb_op_ops reset_ops = { reset_step, reset_cancel, reset_free };

int sb_engine_mount_reset(struct sb_driver *driver, const char *id, const char *target, struct sb_op **ret_op, struct sandbox_error **error)
{
    struct reset *c = calloc(1, sizeof *c);
    struct epoll_event e = { .events = EPOLLIN };
    int r;

    if (!c)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    c->op.ops = &reset_ops;
    c->op.progress = (struct sandbox_progress)SANDBOX_PROGRESS_INIT;
    snprintf(c->op.progress.phase, sizeof c->op.progress.phase, "reset");
    snprintf(c->op.id, sizeof c->op.id, "%s", id);
    c->engine = (struct sb_engine *)driver;
    c->record = (struct sb_record)SB_RECORD_INIT;
    c->control = c->pidfd = -1;
    c->target = strdup(target);
    c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    c->op.fd = epoll_create1(EPOLL_CLOEXEC);
    if (!c->target || c->timer < 0 || c->op.fd < 0 || epoll_ctl(c->op.fd, EPOLL_CTL_ADD, c->timer, &e) < 0) {
        r = sb_fail_errno(error, c->target ? errno : ENOMEM, "reset", "no descriptor");
        reset_free(&c->op);
        return r;
    }
    arm(c);
    *ret_op = &c->op;
    return 0;
}
