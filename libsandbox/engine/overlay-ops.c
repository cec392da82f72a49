/* SPDX-License-Identifier: Apache-2.0
 * What can be asked of an overlay mount: what was changed, how much it takes, and to begin anew. */
#include "overlay-look.h"
#include "locks.h"
#include "overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

/* The number of the overlay at a target; of several at one place the last, which is the one that is seen. */
static int find(const struct sb_record *record, const char *target, size_t *ret, struct sandbox_error **error)
{
    for (size_t i = record->spec->n_mounts; i-- > 0;) {
        const struct sb_mount *m = &record->spec->mounts[i];

        if (strcmp(m->target, target))
            continue;
        if (m->type != SANDBOX_MOUNT_OVERLAY)
            return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "target"), "what is mounted at %s is no overlay", target);
        *ret = i;
        return 0;
    }
    return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .field = "target", .hint = "name a target of the spec's mounts"),
                   "nothing of the spec is mounted at %s", target);
}

static int open_place(struct sb_engine *engine, const struct sb_record *record, size_t mount)
{
    char path[256];

    sb_overlay_place(record, mount, path, sizeof path);
    return sb_open_beneath(engine->root, path, O_RDONLY | O_DIRECTORY, 0);
}

static int begin_look(struct sb_engine *engine, const char *id, const char *target, const char *job, int64_t most, struct sb_op **ret_op,
                      struct sandbox_error **error)
{
    struct sb_record record = SB_RECORD_INIT;
    struct sb_look_job look = { .job = job, .place = -1, .lower = -1, .words = -1, .most = most };
    size_t mount;
    int r = sb_record_open(engine, id, SB_LOCK_NONE, &record, error);

    if (!r)
        r = find(&record, target, &mount, error);
    if (!r && (look.place = open_place(engine, &record, mount)) < 0)
        r = sb_fail_errno(error, -look.place, "layer", "the layer of %s can't be opened", target);
    if (!r && !strcmp(job, "diff")) {
        look.lower = open(record.spec->mounts[mount].source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (look.lower < 0)
            r = sb_fail_errno(error, errno, "layer", "the host's folder %s can't be read", record.spec->mounts[mount].source);
    }
    if (!r)
        r = sb_look_begin(engine, &look, ret_op, error);
    sb_close(look.place);
    sb_close(look.lower);
    sb_record_clear(&record);
    return r;
}

int sb_engine_mount_diff(struct sb_driver *driver, const char *id, const char *target, int64_t most, struct sb_op **ret_op,
                         struct sandbox_error **error)
{
    return begin_look((struct sb_engine *)driver, id, target, "diff", most, ret_op, error);
}

int sb_engine_mount_usage(struct sb_driver *driver, const char *id, const char *target, struct sb_op **ret_op, struct sandbox_error **error)
{
    return begin_look((struct sb_engine *)driver, id, target, "usage", 0, ret_op, error);
}

/* ---- reset */

enum { LOCK_MS = 2 };

struct reset {
    struct sb_op op;
    struct sb_engine *engine;
    struct sb_lock_wait waited;
    char *target;
    int timer, cancelled;
};

static void arm(struct reset *c)
{
    timerfd_settime(c->timer, 0, &(struct itimerspec){ .it_value.tv_nsec = LOCK_MS * 1000000 }, NULL);
}

/* A mounted layer must not be taken away from below its overlay. What can't be told counts as alive. */
static int lives(struct sb_engine *engine, const struct sb_record *record)
{
    SB_JSON json_t *run = sb_record_read_run(engine, record);
    struct sb_identity init;
    SB_CLOSE int fd = -1, link = -1;

    sb_identity_from_json(json_object_get(run, "init"), &init);
    fd = sb_identity_open(&init);
    return fd != -ESRCH || sb_link_open(engine, record->id, &link, NULL) != SANDBOX_ENOTRUNNING;
}

static int move_away(struct sb_engine *engine, struct sb_record *record, size_t mount, const char *target, struct sandbox_error **error)
{
    char place[256], trash[SB_ID_SIZE];
    int r = sb_id_new(trash);

    if (r)
        return sb_fail_errno(error, -r, "reset", "no random bytes");
    sb_owner_enter(engine, trash); /* whoever opens after our death removes the rest */
    sb_overlay_place(record, mount, place, sizeof place);
    if (renameat(engine->root, place, engine->trash, trash) < 0 && errno != ENOENT)
        return sb_fail_errno(error, errno, "reset", "the layer of %s can't be moved away", target);
    r = sb_overlays_make(record, error);
    if (!r)
        sb_look_remove(engine, engine->trash, trash, NULL); /* else the next open of the state root does */
    return r;
}

static int reset_locked(struct reset *c, struct sb_record *record, struct sandbox_error **error)
{
    size_t mount;
    int r = find(record, c->target, &mount, error);

    if (r)
        return r;
    if (lives(c->engine, record))
        return sb_fail(error,
                       SB_ARGS(SANDBOX_EBUSY, .sys_errno = EBUSY, .phase = "reset", .field = "target",
                               .hint = "stop the sandbox, reset, and start it again"),
                       "the sandbox lives, and its processes have %s mounted", c->target);
    return move_away(c->engine, record, mount, c->target, error);
}

static int reset_step(struct sb_op *op, struct sandbox_error **error)
{
    struct reset *c = (struct reset *)op;
    struct sb_record record = SB_RECORD_INIT;
    struct sandbox_error *why = NULL;
    uint64_t ticks;
    int r;

    while (read(c->timer, &ticks, sizeof ticks) > 0)
        ;
    if (c->cancelled)
        return sb_fail(error, SB_ARGS(SANDBOX_ECANCELLED), "the call was cancelled");
    r = sb_record_open(c->engine, c->op.id, SB_LOCK_EXCLUSIVE, &record, &why);
    if (r == SANDBOX_EBUSY) {
        sandbox_error_unref(why);
        r = sb_lock_wait(c->engine, c->op.id, &c->waited, error);
        if (r == 1)
            arm(c);
        return r;
    }
    if (r) {
        if (error)
            *error = why;
        else
            sandbox_error_unref(why);
    } else {
        r = reset_locked(c, &record, error);
    }
    sb_record_clear(&record);
    return r;
}

static void reset_cancel(struct sb_op *op)
{
    struct reset *c = (struct reset *)op;

    c->cancelled = 1;
    arm(c);
}

static void reset_free(struct sb_op *op)
{
    struct reset *c = (struct reset *)op;

    sb_close(c->timer);
    sb_close(c->op.fd);
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
