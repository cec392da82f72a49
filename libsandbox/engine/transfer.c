/* SPDX-License-Identifier: Apache-2.0
 * See transfer.h. No byte of content passes through this process: the server inside has the caller's descriptor, or one end of a pipe
 * whose other end the helper has. Each of the two ends when the other does, so that a failure of one is waited for on both. */
#include "transfer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <errors.h>

enum { RECORDS_A_STEP = 64, END_SECONDS = 3 };

static int watch(int epoll, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int sb_transfer_ask(struct sb_transfer *t, struct sb_files_request *q, const char *path, const char *other, int data,
                    struct sandbox_error **error)
{
    int r = sb_files_open(t->engine, t->id, q, path, other, data, &t->files, error);

    if (r)
        return r;
    r = watch(t->op.fd, t->files.link);
    if (!r)
        r = watch(t->op.fd, t->files.channel);
    if (r) {
        sb_files_close(&t->files);
        return sb_fail_errno(error, -r, "files", "waiting for the sandbox's file server");
    }
    t->talking = 1;
    t->muted = t->has_stat = 0;
    return 0;
}

int sb_transfer_help(struct sb_transfer *t, struct sb_unpack_plan *plan, int source, int dest, int parent, struct sandbox_error **error)
{
    int exe, r = sb_engine_program(t->engine, "sandbox-unpack", &exe, error);

    if (!r)
        r = sb_helper_start(&t->helper, exe, t->op.fd, plan, source, dest, parent, error);
    t->helping = !r;
    return r;
}

static void take_record(struct sb_transfer *t)
{
    const struct sb_files_progress *progress = &t->files.record.progress;

    switch (t->files.record.head.type) {
    case SB_FILES_INFO:
        t->server_code = sb_files_take_stat(&t->files.record.info.stat, &t->stat, &t->server_error);
        t->has_stat = !t->server_code;
        break;
    case SB_FILES_PROGRESS:
        t->op.progress.done = progress->bytes;
        break;
    case SB_FILES_DONE:
        t->op.progress.done = t->files.record.done.bytes ? t->files.record.done.bytes : t->op.progress.done;
        t->talking = 0;
        break;
    default:
        t->server_code = sb_fail(&t->server_error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "files"),
                                 "the sandbox's file server sent what nobody asked for");
    }
}

static void listen_to_server(struct sb_transfer *t)
{
    for (int i = 0; i < RECORDS_A_STEP && t->talking && !t->server_code; i++) {
        int r = sb_files_next(&t->files, &t->server_error);

        if (r == 1)
            break;
        if (r < 0)
            t->server_code = r;
        else
            take_record(t);
    }
    if (t->server_code)
        t->talking = 0;
    if (!t->talking) {
        sb_files_close(&t->files);
    } else if (t->files.silent && !t->muted) { /* it would stay readable */
        epoll_ctl(t->op.fd, EPOLL_CTL_DEL, t->files.channel, NULL);
        t->muted = 1;
    }
}

/* Cancelled: init has told the server to end, which the channel's end shows. A process that the kernel doesn't let go is not waited for. */
static void await_end(struct sb_transfer *t)
{
    struct pollfd p = { .fd = t->timer, .events = POLLIN };
    ssize_t n;

    while ((n = sb_recv(t->files.channel, &t->files.record, sizeof t->files.record, MSG_DONTWAIT)) > 0)
        continue;
    if ((n < 0 && errno == EAGAIN) && t->timer >= 0 && poll(&p, 1, 0) == 0)
        return;
    t->talking = 0;
    sb_files_close(&t->files);
}

static int is_pipe_error(const struct sandbox_error *error)
{
    return sandbox_error_get_errno(error) == EPIPE;
}

/* Of two failures one is the other's cause: who lost its pipe has none of its own; a reader whose stream was cut off has none either. */
static int fail(struct sb_transfer *t, struct sandbox_error **error)
{
    int packs = t->stage == 0, take_helper; /* an upload's helper writes the stream; a download's reads it */

    if (t->cancelled)
        return sb_fail(error, SB_ARGS(SANDBOX_ECANCELLED, .phase = "files"), "copying was cancelled");
    take_helper = t->helper_code && (!t->server_code || is_pipe_error(t->server_error) || (packs && !is_pipe_error(t->helper_error)));
    if (error && !*error)
        *error = take_helper ? SB_TAKE_PTR(t->helper_error) : SB_TAKE_PTR(t->server_error);
    return take_helper ? t->helper_code : t->server_code;
}

static int step(struct sb_op *op, struct sandbox_error **error)
{
    struct sb_transfer *t = (struct sb_transfer *)op;
    int r;

    if (t->talking && t->cancelled)
        await_end(t);
    else if (t->talking)
        listen_to_server(t);
    if (t->helping) {
        r = sb_helper_step(&t->helper, &t->helper_error);
        t->helping = r == 1;
        t->helper_code = r < 0 ? r : 0;
    }
    if (t->talking || t->helping)
        return 1;
    if (t->cancelled || t->server_code || t->helper_code)
        return fail(t, error);
    r = t->conclude ? t->conclude(t, &t->server_error) : 0;
    if (r < 0 && t->helping) { /* what was begun has to end first */
        t->server_code = r;
        sb_helper_stop(&t->helper);
        return 1;
    }
    if (r < 0 && error && !*error)
        *error = SB_TAKE_PTR(t->server_error);
    return r;
}

static void cancel(struct sb_op *op)
{
    const struct itimerspec after = { .it_value.tv_sec = END_SECONDS };
    struct sb_transfer *t = (struct sb_transfer *)op;

    t->cancelled = 1;
    if (t->talking) {
        t->files.link = sb_close(t->files.link);
        t->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (t->timer >= 0 && (timerfd_settime(t->timer, 0, &after, NULL) < 0 || watch(t->op.fd, t->timer) < 0))
            t->timer = sb_close(t->timer);
    }
    if (t->helping)
        sb_helper_stop(&t->helper);
}

void sb_transfer_free(struct sb_transfer *t)
{
    if (t->release)
        t->release(t);
    sb_files_close(&t->files);
    sb_helper_clear(&t->helper);
    sb_close(t->timer);
    sb_close(t->op.fd);
    sandbox_error_unref(t->server_error);
    sandbox_error_unref(t->helper_error);
    free(t);
}

static void free_transfer(struct sb_op *op)
{
    sb_transfer_free((struct sb_transfer *)op);
}

static const struct sb_op_ops transfer_ops = { step, cancel, free_transfer };

struct sb_transfer *sb_transfer_new(struct sb_engine *engine, const char *id, const char *phase, struct sandbox_error **error)
{
    struct sb_transfer *t = calloc(1, sizeof *t);

    if (!t) {
        sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
        return NULL;
    }
    t->op = (struct sb_op){ .ops = &transfer_ops, .fd = epoll_create1(EPOLL_CLOEXEC), .progress = SANDBOX_PROGRESS_INIT };
    t->op.progress.unit = SANDBOX_UNIT_BYTES;
    snprintf(t->op.progress.phase, sizeof t->op.progress.phase, "%s", phase);
    t->engine = engine;
    memcpy(t->id, id, SB_ID_SIZE);
    t->files = (struct sb_files)SB_FILES_INIT;
    t->helper = (struct sb_helper)SB_HELPER_INIT;
    t->timer = t->parent = t->file = -1;
    if (t->op.fd < 0) {
        sb_fail_errno(error, errno, phase, "no descriptor");
        sb_transfer_free(t);
        return NULL;
    }
    return t;
}
