/* SPDX-License-Identifier: Apache-2.0
 * pause, resume and extend. The first two are init's to do (agent/init-life.c); what is left for the library is to wait until the kernel's
 * freezer has halted everything, which takes as long as something inside is in the middle of a system call that can't be interrupted. */
#include "lifetime.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

enum verb { PAUSE, RESUME, EXTEND };
enum { AGAIN_MS = 5, ANSWER_MS = 10000 };
static const char *const verbs[] = { "pause", "resume", "extend" };

struct turn {
    struct sb_op op;
    struct sb_engine *engine;
    enum verb verb;
    int64_t ttl_ms;
    int timer, link;
    int64_t answer_until;
    int asked;    /* and maybe paused */
    int freezing; /* init has done its part */
    int cancelled;
    struct sb_lock_wait waited;
};

static void arm(struct turn *t, int64_t ms)
{
    struct itimerspec when = { .it_value = { .tv_nsec = ms ? ms * 1000000 : 1 } };

    timerfd_settime(t->timer, 0, &when, NULL);
}

/* ---- pause, resume ---- */

static int not_running(struct turn *t, struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ENOTRUNNING, .hint = "start it first"), "the sandbox %.12s does not run", t->op.id);
}

static int ask(struct turn *t, enum verb verb, struct sandbox_error **error)
{
    struct sb_request request = { .type = SB_REQUEST_PAUSE, .flags = verb == RESUME ? SB_REQUEST_RESUME : 0 };
    struct epoll_event e = { .events = EPOLLIN };
    int r = sb_engine_open_sandbox(&t->engine->driver, t->op.id, error);

    if (!r)
        r = sb_link_open(t->engine, t->op.id, &t->link, error);
    if (!r)
        r = sb_link_send(t->link, &request, NULL, NULL, 0, error);
    if (!r && epoll_ctl(t->op.fd, EPOLL_CTL_ADD, t->link, &e) < 0)
        r = sb_fail_errno(error, errno, verbs[t->verb], "init can't be waited for");
    t->asked |= verb == PAUSE;
    return r;
}

static void hang_up(struct turn *t)
{
    if (t->link >= 0)
        epoll_ctl(t->op.fd, EPOLL_CTL_DEL, t->link, NULL);
    t->link = sb_close(t->link);
}

/* 1: something in this group goes on. */
static int goes_on(const char *top, const char *leaf)
{
    SB_FREE char *text = NULL;
    char path[4400];

    snprintf(path, sizeof path, "%s/%s/cgroup.events", top, leaf);
    return !sb_read_file(AT_FDCWD, path, 4096, &text, NULL) && strstr(text, "populated 1") && strstr(text, "frozen 0");
}

/* 1: everything in the leaves is halted, those of single commands, too; or it can't be told. */
static int is_frozen(struct turn *t)
{
    struct sb_record record = SB_RECORD_INIT;
    const json_t *folders;
    const char *top;
    DIR *stream = NULL;
    struct dirent *d;
    int frozen = 1;

    if (!sb_record_open(t->engine, t->op.id, SB_LOCK_NONE, &record, NULL)) {
        folders = json_object_get(record.json, "cgroups");
        top = json_string_value(json_array_get(folders, 0));
        stream = sb_cgroups_has_leaves(folders) && sb_cgroups_is_ours(top, record.id) ? opendir(top) : NULL;
        while (stream && frozen && (d = readdir(stream)))
            if (!strcmp(d->d_name, "exec") || !strcmp(d->d_name, "daemon") || !strncmp(d->d_name, "x-", 2))
                frozen = !goes_on(top, d->d_name);
    }
    if (stream)
        closedir(stream);
    sb_record_clear(&record);
    return frozen;
}

/* Whoever gives up leaves nothing half paused. */
static void undo(struct turn *t)
{
    struct sb_request request = { .type = SB_REQUEST_PAUSE, .flags = SB_REQUEST_RESUME };
    struct sb_reply reply;

    hang_up(t);
    if (t->verb == PAUSE && t->asked && !sb_link_open(t->engine, t->op.id, &t->link, NULL) &&
        !sb_link_send(t->link, &request, NULL, NULL, 0, NULL))
        (void)sb_link_receive(t->link, 1000, &reply, NULL, NULL);
    t->link = sb_close(t->link);
}

static int take_answer(struct turn *t, struct sandbox_error **error)
{
    struct sandbox_error *why = NULL;
    struct sb_reply reply;
    int r = sb_link_receive(t->link, 0, &reply, NULL, &why);

    if (r == SANDBOX_ETIMEDOUT && sb_now_ms() < t->answer_until) {
        sandbox_error_unref(why);
        arm(t, 100);
        return 1;
    }
    hang_up(t);
    if (r) {
        sandbox_error_unref(why);
        return r == SANDBOX_ELOST ? not_running(t, error)
                                  : sb_fail(error, SB_ARGS(r, .phase = verbs[t->verb]), "the sandbox's init does not answer");
    }
    if (reply.type == SB_REPLY_FAILED && reply.sys_errno == EAGAIN) { /* full, or something is just being started */
        arm(t, AGAIN_MS);
        return 1;
    }
    if (reply.type != SB_REPLY_DONE)
        return reply.type == SB_REPLY_FAILED && reply.sys_errno == ESRCH
                   ? not_running(t, error)
                   : sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = verbs[t->verb]), "the sandbox's init refused");
    t->freezing = t->verb == PAUSE && reply.paused == SB_PAUSE_FREEZER;
    if (t->freezing)
        arm(t, 0);
    return t->freezing;
}

static int step_pause(struct turn *t, struct sandbox_error **error)
{
    int r;

    if (t->freezing) {
        if (is_frozen(t))
            return 0;
        arm(t, AGAIN_MS);
        return 1;
    }
    if (t->link >= 0)
        return take_answer(t, error);
    r = ask(t, t->verb, error);
    if (r)
        return r;
    t->answer_until = sb_now_ms() + ANSWER_MS;
    arm(t, 100);
    return 1;
}

/* ---- extend ---- */

/* Told last: a keeper that was killed before it heard has an init that ends with it. */
static int poke_keeper(struct turn *t, const struct sb_record *record, struct sandbox_error **error)
{
    SB_CLOSE int keeper = sb_keeper_open(t->engine, record);
    SB_CLOSE int log = keeper >= 0 ? sb_log_folder(record) : -1;
    int r;

    if (keeper < 0)
        return 0; /* it does not run: the next start tells its keeper */
    r = log < 0 ? sb_fail_errno(error, -log, "log", "the log's folder can't be opened") : sb_lifetime_tell_keeper(t->engine, record, log, error);
    if (!r && syscall(SYS_pidfd_send_signal, keeper, SIGUSR1, NULL, 0) < 0 && errno != ESRCH)
        r = sb_fail_errno(error, errno, "keeper", "the sandbox's keeper can't be told");
    return r;
}

static int extend_locked(struct turn *t, struct sb_record *record, struct sandbox_error **error)
{
    int r;

    if (!sb_launch_is_kept(record))
        return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .field = "ttl", .hint = "create it with a time to live, or detached"),
                       "the sandbox has no keeper that could end it");
    if (sb_lifetime_set(t->engine, record, t->ttl_ms))
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    r = sb_record_write(record, error);
    if (!r)
        r = sb_lifetime_enter(t->engine, record, error);
    return r ? r : poke_keeper(t, record, error);
}

static int step_extend(struct turn *t, struct sandbox_error **error)
{
    struct sb_record record = SB_RECORD_INIT;
    struct sandbox_error *why = NULL;
    int r = sb_record_open(t->engine, t->op.id, SB_LOCK_EXCLUSIVE, &record, &why);

    if (r == SANDBOX_EBUSY) {
        sandbox_error_unref(why);
        r = sb_lock_wait(t->engine, t->op.id, &t->waited, error);
        if (r == 1)
            arm(t, AGAIN_MS);
        return r;
    }
    if (r && error)
        *error = sandbox_error_ref(why);
    sandbox_error_unref(why);
    if (!r)
        r = extend_locked(t, &record, error);
    sb_record_clear(&record);
    return r;
}

/* ---- the operation ---- */

static int turn_step(struct sb_op *op, struct sandbox_error **error)
{
    struct turn *t = (struct turn *)op;
    uint64_t ticks;
    int r;

    while (read(t->timer, &ticks, sizeof ticks) > 0)
        ;
    if (t->cancelled)
        r = sb_fail(error, SB_ARGS(SANDBOX_ECANCELLED), "the call was cancelled");
    else
        r = t->verb == EXTEND ? step_extend(t, error) : step_pause(t, error);
    if (r < 0)
        undo(t);
    return r;
}

static void turn_cancel(struct sb_op *op)
{
    struct turn *t = (struct turn *)op;

    t->cancelled = 1;
    arm(t, 0);
}

static void turn_free(struct sb_op *op)
{
    struct turn *t = (struct turn *)op;

    sb_close(t->link);
    sb_close(t->timer);
    sb_close(t->op.fd);
    free(t);
}

static const struct sb_op_ops turn_ops = { turn_step, turn_cancel, turn_free };

static int begin(struct sb_driver *driver, enum verb verb, const char *id, int64_t ttl_ms, struct sb_op **ret_op, struct sandbox_error **error)
{
    struct turn *t = calloc(1, sizeof *t);
    struct epoll_event e = { .events = EPOLLIN };

    if (!t)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    *t = (struct turn){ .engine = (struct sb_engine *)driver, .verb = verb, .ttl_ms = ttl_ms, .link = -1 };
    t->op.ops = &turn_ops;
    t->op.progress = (struct sandbox_progress)SANDBOX_PROGRESS_INIT;
    snprintf(t->op.progress.phase, sizeof t->op.progress.phase, "%s", verbs[verb]);
    snprintf(t->op.id, sizeof t->op.id, "%s", id);
    t->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    t->op.fd = epoll_create1(EPOLL_CLOEXEC);
    if (t->timer < 0 || t->op.fd < 0 || epoll_ctl(t->op.fd, EPOLL_CTL_ADD, t->timer, &e) < 0) {
        int saved = errno;

        turn_free(&t->op);
        return sb_fail_errno(error, saved, verbs[verb], "no descriptor");
    }
    arm(t, 0);
    *ret_op = &t->op;
    return 0;
}

int sb_engine_pause(struct sb_driver *driver, const char *id, struct sb_op **ret_op, struct sandbox_error **error)
{
    return begin(driver, PAUSE, id, 0, ret_op, error);
}

int sb_engine_resume(struct sb_driver *driver, const char *id, struct sb_op **ret_op, struct sandbox_error **error)
{
    return begin(driver, RESUME, id, 0, ret_op, error);
}

int sb_engine_extend(struct sb_driver *driver, const char *id, int64_t ttl_ms, struct sb_op **ret_op, struct sandbox_error **error)
{
    return begin(driver, EXTEND, id, ttl_ms, ret_op, error);
}
