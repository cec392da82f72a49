/* SPDX-License-Identifier: Apache-2.0
 * See overlay-look.h. The helper is a program of ours and what it tells are names that somebody inside chose: sizes and kinds are checked,
 * and how much of it is kept is bounded. */
#include "overlay-look.h"

#include <errno.h>
#include <fcntl.h>
#include <layer-plan.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errors.h>
#include <json.h>
#include <process.h>

enum { BUFFER = 1 << 16, READS_A_STEP = 16 };

struct layer_op {
    struct sb_op op;
    struct sb_engine *engine;
    int pipe, pidfd;
    int cancelled, ended;
    json_t *entries;
    struct sb_layer_record end;
    size_t used;
    char buffer[BUFFER + sizeof(struct sb_layer_record) + SB_LAYER_PATH_MAX];
};

static int broken(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "layer"), "the helper sent a record that makes no sense");
}

static int add_entry(struct layer_op *l, const struct sb_layer_record *r, const char *path, struct sandbox_error **error)
{
    static const char *const kinds[] = { "", "added", "changed", "removed", "found" };
    static const char *const types[] = { "", "regular", "folder", "link", "fifo", "socket", "device" };
    char name[SB_LAYER_PATH_MAX + 1];
    size_t n = r->size - sizeof *r;
    json_t *entry;

    if (r->type >= SB_ELEMENTS(types) || !r->type || !n || memchr(path, 0, n))
        return broken(error);
    memcpy(name, path, n);
    name[n] = 0;
    entry = json_pack("{s:o, s:s, s:s, s:I}", "path", sb_json_bytes(name), "kind", kinds[r->kind], "type", types[r->type], "bytes",
                      (json_int_t)r->bytes);
    if (!entry || json_array_append_new(l->entries, entry))
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    return 0;
}

/* The message is made by our own program, of names that somebody inside chose. */
static int tar_failed(const struct sb_layer_record *r, const char *text, struct sandbox_error **error)
{
    char message[800];
    size_t n = r->size - sizeof *r;

    if (r->entries > SANDBOX_EINVALID || r->entries < -64 || r->bytes < 0 || r->bytes > 4095)
        return broken(error);
    n = n < sizeof message ? n : sizeof message - 1;
    memcpy(message, text, n);
    message[n] = 0;
    return sb_fail(error, SB_ARGS((int)r->entries, .sys_errno = (int)r->bytes, .phase = "layer"), "%s", message);
}

static int take(struct layer_op *l, const struct sb_layer_record *r, const char *path, struct sandbox_error **error)
{
    switch (r->kind) {
    case SB_LAYER_ADDED:
    case SB_LAYER_CHANGED:
    case SB_LAYER_REMOVED:
    case SB_LAYER_FOUND:
        return add_entry(l, r, path, error);
    case SB_LAYER_PROGRESS:
        l->op.progress.done = r->entries;
        return 0;
    case SB_LAYER_END:
        l->end = *r;
        return 0;
    case SB_LAYER_FAILED:
        if (r->entries)
            return tar_failed(r, path, error);
        return sb_fail_errno(error, (int)r->bytes, "layer", "the folder can't be looked at");
    default:
        return broken(error);
    }
}

static int parse(struct layer_op *l, struct sandbox_error **error)
{
    size_t at = 0;

    while (l->used - at >= sizeof(struct sb_layer_record)) {
        struct sb_layer_record r;
        int failed;

        memcpy(&r, l->buffer + at, sizeof r);
        if (r.size < sizeof r || r.size > sizeof r + SB_LAYER_PATH_MAX || l->end.kind)
            return broken(error);
        if (l->used - at < r.size)
            break;
        failed = take(l, &r, l->buffer + at + sizeof r, error);
        if (failed)
            return failed;
        at += r.size;
    }
    memmove(l->buffer, l->buffer + at, l->used - at);
    l->used -= at;
    return 0;
}

/* What is told of the layer is told in one order, whatever that of its folders is. */
static int by_path(const void *a, const void *b)
{
    const json_t *one = json_object_get(*(json_t *const *)a, "path"), *two = json_object_get(*(json_t *const *)b, "path");
    const char *x = json_string_value(one), *y = json_string_value(two);

    if (x && y)
        return strcmp(x, y);
    if (!x && !y)
        return strcmp(sb_json_str(one, "base64"), sb_json_str(two, "base64"));
    return x ? -1 : 1;
}

static json_t *sorted(json_t *entries)
{
    size_t n = json_array_size(entries);
    json_t **list = calloc(n + 1, sizeof *list), *out = json_array();

    for (size_t i = 0; list && i < n; i++)
        list[i] = json_array_get(entries, i);
    if (list)
        qsort(list, n, sizeof *list, by_path);
    for (size_t i = 0; list && i < n; i++)
        json_array_append(out, list[i]);
    free(list);
    return out;
}

static int conclude(struct layer_op *l, struct sandbox_error **error)
{
    struct pollfd p = { .fd = l->pidfd, .events = POLLIN };

    poll(&p, 1, 1000); /* it has closed the pipe, so it is ending */
    sb_children_add(l->engine, l->pidfd);
    sb_children_reap(l->engine);
    if (l->cancelled)
        return sb_fail(error, SB_ARGS(SANDBOX_ECANCELLED), "the call was cancelled");
    if (!l->end.kind)
        return sb_fail(error, SB_ARGS(SANDBOX_EIO, .phase = "layer"), "the helper ended early: it was killed, or crashed");
    l->op.document = json_pack("{s:o, s:I, s:I, s:b}", "entries", sorted(l->entries), "bytes", (json_int_t)l->end.bytes, "count",
                               (json_int_t)l->end.entries, "truncated", l->end.truncated != 0);
    return l->op.document ? 0 : sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
}

static int layer_step(struct sb_op *op, struct sandbox_error **error)
{
    struct layer_op *l = (struct layer_op *)op;
    int r = 0;

    for (int i = 0; i < READS_A_STEP && !r; i++) {
        ssize_t n = SB_RETRY(read(l->pipe, l->buffer + l->used, BUFFER - l->used > 0 ? BUFFER - l->used : 1));

        if (n < 0 && errno == EAGAIN)
            return 1;
        if (n <= 0)
            return conclude(l, error);
        l->used += (size_t)n;
        r = parse(l, error);
    }
    if (r) {
        syscall(SYS_pidfd_send_signal, l->pidfd, SIGKILL, NULL, 0);
        sb_children_add(l->engine, l->pidfd);
    }
    return r ? r : 1;
}

static void layer_cancel(struct sb_op *op)
{
    struct layer_op *l = (struct layer_op *)op;

    l->cancelled = 1;
    syscall(SYS_pidfd_send_signal, l->pidfd, SIGKILL, NULL, 0); /* its end closes the pipe */
}

static void layer_free(struct sb_op *op)
{
    struct layer_op *l = (struct layer_op *)op;

    sb_close(l->pipe);
    sb_close(l->pidfd);
    sb_close(l->op.fd);
    json_decref(l->entries);
    free(l);
}

static const struct sb_op_ops layer_ops = { layer_step, layer_cancel, layer_free };

static int start(struct sb_engine *engine, const struct sb_look_job *job, int out, int *ret_pidfd, struct sandbox_error **error)
{
    const struct sb_idmap *map = job->map ? job->map : &engine->map;
    const uint64_t numbers[] = { map->privilege, map->uid, map->gid, map->uid_start, map->gid_start, map->count, (uint64_t)job->most };
    char name[] = "sandbox-agent", mode[] = "layer", text[SB_ELEMENTS(numbers)][24], *argv[12] = { name, mode, (char *)job->job };
    struct sb_spawn_fd fds[SB_LAYER_FD_END];
    int program, r, n = 3;

    for (size_t i = 0; i < SB_ELEMENTS(numbers); i++) {
        snprintf(text[i], sizeof text[i], "%llu", (unsigned long long)numbers[i]);
        argv[n++] = text[i];
    }
    argv[n++] = (char *)job->name;
    for (int i = 0; i < SB_LAYER_FD_END; i++)
        fds[i] = (struct sb_spawn_fd){ engine->null, i };
    if (out >= 0)
        fds[SB_LAYER_FD_OUT].from = out;
    fds[SB_LAYER_FD_PLACE].from = job->place;
    if (job->lower >= 0)
        fds[SB_LAYER_FD_LOWER].from = job->lower;
    if (job->words >= 0)
        fds[SB_LAYER_FD_WORDS].from = job->words;
    if (job->data > 0)
        fds[SB_LAYER_FD_DATA].from = job->data;
    r = sb_engine_program(engine, "sandbox-agent", &program, error);
    if (r)
        return r;
    r = sb_spawn_watched(program, argv, fds, SB_LAYER_FD_END, NULL, ret_pidfd);
    return r ? sb_fail_errno(error, -r, "layer", "the agent program can't be started") : 0;
}

int sb_look_begin(struct sb_engine *engine, const struct sb_look_job *job, struct sb_op **ret_op, struct sandbox_error **error)
{
    struct layer_op *l = calloc(1, sizeof *l);
    struct epoll_event e = { .events = EPOLLIN };
    int pair[2], r;

    if (!l)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    l->op.ops = &layer_ops;
    l->op.progress = (struct sandbox_progress)SANDBOX_PROGRESS_INIT;
    l->op.progress.unit = SANDBOX_UNIT_ENTRIES;
    snprintf(l->op.progress.phase, sizeof l->op.progress.phase, "%s", job->job);
    l->engine = engine;
    l->pipe = l->pidfd = -1;
    l->entries = json_array();
    l->op.fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->op.fd < 0 || pipe2(pair, O_CLOEXEC) < 0) {
        r = sb_fail_errno(error, errno, "layer", "no descriptor");
        layer_free(&l->op);
        return r;
    }
    l->pipe = pair[0];
    r = start(engine, job, pair[1], &l->pidfd, error);
    sb_close(pair[1]);
    if (!r && (fcntl(l->pipe, F_SETFL, O_NONBLOCK) < 0 || epoll_ctl(l->op.fd, EPOLL_CTL_ADD, l->pipe, &e) < 0))
        r = sb_fail_errno(error, errno, "layer", "the helper can't be watched");
    if (r) {
        if (l->pidfd >= 0)
            sb_children_add(engine, l->pidfd);
        layer_free(&l->op);
        return r;
    }
    *ret_op = &l->op;
    return 0;
}

int sb_look_remove(struct sb_engine *engine, int folder, const char *name, struct sandbox_error **error)
{
    const struct sb_look_job job = { .job = "remove", .place = folder, .lower = -1, .words = -1, .name = name };
    SB_CLOSE int pidfd = -1;
    int r = start(engine, &job, -1, &pidfd, error);

    if (!r)
        sb_children_add(engine, pidfd);
    return r;
}
