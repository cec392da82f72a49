/* SPDX-License-Identifier: Apache-2.0
 * Logs: reading them, and waiting for what is to come in one. */
#include "exec.h"
#include "options.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { MARKER_MAX = 65536, TAIL_BYTES = 2048, TAIL_TEXT = 352 }; /* with what stands before it, within an error's hint */

struct sandbox_log {
    struct sandbox_host *host;
    struct sb_log *log;
    atomic_int reading;
};

static int check_streams(unsigned int streams, struct sandbox_error **error)
{
    if (streams & ~(1u << SANDBOX_LOG_STDOUT | 1u << SANDBOX_LOG_STDERR))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "streams"), "streams has bits that this version does not know");
    return 0;
}

static int check_options(const struct sandbox_log_options *options, struct sandbox_error **error)
{
    const struct {
        const char *name;
        int64_t value, min;
    } numbers[] = { { "tail", options->tail, -1 },
                    { "since_ms", options->since_ms, 0 },
                    { "until_ms", options->until_ms, 0 },
                    { "position", options->position, 0 } };

    if (options->follow != 0 && options->follow != 1)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "follow"), "follow is neither 0 nor 1");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value < numbers[i].min)
            return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = numbers[i].name), "%s is negative", numbers[i].name);
    return check_streams(options->streams, error);
}

static int new_log(struct sandbox_host *host, const char *id, const struct sb_log_request *request, struct sandbox_log **ret_log,
                   struct sandbox_error **error)
{
    struct sandbox_log *log;
    int r;

    if (!host->driver->ops->log_open)
        return sb_fail_slot(error, host, "log_open", NULL);
    log = calloc(1, sizeof *log);
    if (!log)
        return sb_fail_memory(error);
    r = host->driver->ops->log_open(host->driver, id, request, &log->log, error);
    if (r) {
        free(log);
        return r;
    }
    log->host = sandbox_host_ref(host);
    atomic_init(&log->reading, 0);
    *ret_log = log;
    return 0;
}

static int open_log(struct sandbox *sandbox, const struct sandbox_log_options *options, struct sandbox_log **ret_log,
                    struct sandbox_error **error)
{
    struct sb_log_request request = { .options = SANDBOX_LOG_OPTIONS_INIT };
    int r = sb_sandbox_check(sandbox, error);

    if (!r)
        r = sb_options_read(&request.options, sizeof request.options, SB_SIZE_TO(struct sandbox_log_options, position), options, error);
    if (!r)
        r = check_options(&request.options, error);
    if (!r && !ret_log)
        r = sb_fail_null(error, "ret_log");
    return r ? r : new_log(sandbox->host, sandbox->id, &request, ret_log, error);
}

int sandbox_log_open(struct sandbox *sandbox, const struct sandbox_log_options *options, struct sandbox_log **ret_log,
                     struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(open_log(sandbox, options, ret_log, &failure), &failure, error, "log", sandbox ? sandbox->host : NULL);
}

static int open_journal(struct sandbox_exec *exec, const struct sandbox_log_options *options, struct sandbox_log **ret_log,
                        struct sandbox_error **error)
{
    struct sb_log_request request = { .options = SANDBOX_LOG_OPTIONS_INIT };
    int r = sb_exec_check(exec, error);

    if (!r)
        r = sb_options_read(&request.options, sizeof request.options, SB_SIZE_TO(struct sandbox_log_options, position), options, error);
    if (!r)
        r = check_options(&request.options, error);
    if (!r && !ret_log)
        r = sb_fail_null(error, "ret_log");
    if (!r && !exec->exec->journal)
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "exec", .hint = "set journal_max in its sandbox_exec_options"),
                    "this command has no journal");
    if (!r) {
        request.exec_id = exec->id;
        request.ended = sb_exec_collect(exec, NULL) == 0;
    }
    return r ? r : new_log(exec->host, exec->sandbox_id, &request, ret_log, error);
}

int sandbox_exec_log_open(struct sandbox_exec *exec, const struct sandbox_log_options *options, struct sandbox_log **ret_log,
                          struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(open_journal(exec, options, ret_log, &failure), &failure, error, "log", exec ? exec->host : NULL);
}

struct sandbox_log *sandbox_log_close(struct sandbox_log *log)
{
    if (!log)
        return NULL;
    if (!sb_host_forked(log->host))
        log->log->ops->free(log->log);
    sandbox_host_unref(log->host);
    free(log);
    return NULL;
}

int sandbox_log_get_fd(struct sandbox_log *log)
{
    int r = log ? sb_host_check(log->host, NULL) : SANDBOX_EINVALID;

    return r ? r : log->log->fd >= 0 ? log->log->fd : SANDBOX_EINVALID;
}

/* Until there is a record, the end, or no more time. */
static int await_record(struct sandbox_log *log, int64_t deadline, int64_t timeout_ms, struct sandbox_log_record *record,
                        struct sandbox_error **error)
{
    for (;;) {
        struct pollfd fds[] = { { .fd = log->log->fd, .events = POLLIN }, { .fd = log->host->close_fd, .events = POLLIN } };
        int r = log->log->ops->next(log->log, record, error), left;

        if (r != 2)
            return r;
        if (atomic_load(&log->host->closed))
            return sb_fail_closed(error);
        left = sb_left_ms(deadline);
        if (!left)
            return sb_fail_timeout(error, timeout_ms);
        if (poll(fds, SB_ELEMENTS(fds), left) < 0 && errno != EINTR)
            return sb_fail_errno(error, errno, "poll", "waiting failed");
    }
}

static int read_log(struct sandbox_log *log, int64_t timeout_ms, struct sandbox_log_record *record, struct sandbox_error **error)
{
    struct sandbox_log_record known = SANDBOX_LOG_RECORD_INIT;
    int64_t deadline = sb_deadline(timeout_ms);
    int r = log ? sb_host_check(log->host, error) : sb_fail_null(error, "log");

    if (!r)
        r = sb_check_timeout(timeout_ms, "timeout_ms", error);
    if (!r && !record)
        r = sb_fail_null(error, "ret_record");
    if (!r)
        r = sb_options_check(record, sizeof *record, SB_SIZE_TO(struct sandbox_log_record, signal), error);
    if (r)
        return r;
    if (atomic_exchange(&log->reading, 1))
        return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .field = "log"), "another thread reads this log");
    r = await_record(log, deadline, timeout_ms, &known, error);
    atomic_store(&log->reading, 0);
    if (r == 1)
        sb_options_write(record, &known, sizeof known);
    return r;
}

int sandbox_log_read(struct sandbox_log *log, int64_t timeout_ms, struct sandbox_log_record *ret_record, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(read_log(log, timeout_ms, ret_record, &failure), &failure, error, "log", log ? log->host : NULL);
}

/* ---- waiting for a marker ---- */

struct search {
    const char *marker;
    size_t size;
    struct {
        char *kept; /* the last bytes, fewer than the marker has */
        size_t n;
    } streams[3];
    char tail[TAIL_BYTES]; /* the last bytes of all */
    size_t n_tail;
    char end[64]; /* how it ended */
};

static void keep_tail(struct search *s, const char *data, size_t size)
{
    size_t most = sizeof s->tail;

    if (size >= most) {
        memcpy(s->tail, data + size - most, most);
        s->n_tail = most;
        return;
    }
    if (s->n_tail + size > most) {
        memmove(s->tail, s->tail + s->n_tail + size - most, most - size);
        s->n_tail = most - size;
    }
    memcpy(s->tail + s->n_tail, data, size);
    s->n_tail += size;
}

/* 1: it is there; *ret_behind bytes of this record are used then. */
static int find_marker(struct search *s, int stream, const char *data, size_t size, size_t *ret_behind)
{
    char *kept = s->streams[stream].kept;
    size_t n = s->streams[stream].n, head = size < s->size - 1 ? size : s->size - 1, drop;
    const char *at;

    /* across the border: what was kept, and as much of this as a marker could need */
    memcpy(kept + n, data, head);
    at = n ? memmem(kept, n + head, s->marker, s->size) : NULL;
    if (at) {
        *ret_behind = (size_t)(at - kept) + s->size - n;
        return 1;
    }
    at = memmem(data, size, s->marker, s->size);
    if (at) {
        *ret_behind = (size_t)(at - data) + s->size;
        return 1;
    }
    if (size >= s->size - 1) {
        memcpy(kept, data + size - (s->size - 1), s->size - 1);
        s->streams[stream].n = s->size - 1;
    } else {
        n += size;
        drop = n > s->size - 1 ? n - (s->size - 1) : 0;
        memmove(kept, kept + drop, n - drop);
        s->streams[stream].n = n - drop;
    }
    return 0;
}

/* Its last line or lines as text that can harm nobody: what isn't printable ASCII is escaped. */
static void escape_tail(const struct search *s, char text[TAIL_TEXT])
{
    size_t begin = s->n_tail, room = TAIL_TEXT - 12, at = 0;

    for (size_t need = 0; begin > 0; begin--) {
        unsigned char c = (unsigned char)s->tail[begin - 1];

        need += c == '\n' || c == '\t' || c == '\\' ? 2 : c < 0x20 || c >= 0x7f ? 4 : 1;
        if (need > room)
            break;
    }
    if (begin)
        at += (size_t)snprintf(text, TAIL_TEXT, "…");
    for (size_t i = begin; i < s->n_tail && at < TAIL_TEXT - 5; i++) {
        unsigned char c = (unsigned char)s->tail[i];

        if (c == '\n' && i + 1 == s->n_tail)
            break;
        if (c == '\n' || c == '\t' || c == '\\')
            at += (size_t)snprintf(text + at, TAIL_TEXT - at, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : '\\');
        else
            at += (size_t)snprintf(text + at, TAIL_TEXT - at, c < 0x20 || c >= 0x7f ? "\\x%02x" : "%c", c);
    }
    text[at] = 0;
}

static int fail_ended(const struct search *s, struct sandbox_error **error)
{
    char text[TAIL_TEXT], hint[TAIL_TEXT + 64];

    escape_tail(s, text);
    snprintf(hint, sizeof hint, *text ? "its log ends: %s" : "its log is empty%s", text);
    return sb_fail(error, SB_ARGS(SANDBOX_ENOTRUNNING, .phase = "marker", .hint = hint), "the daemon %s without the marker",
                   *s->end ? s->end : "ended");
}

static void take_end(struct search *s, const struct sandbox_log_record *record)
{
    if (!record->exec_kind)
        snprintf(s->end, sizeof s->end, "was never executed");
    else if (record->exec_kind == SANDBOX_EXEC_EXITED)
        snprintf(s->end, sizeof s->end, "exited with %d", record->code);
    else if (record->exec_kind == SANDBOX_EXEC_OOM)
        snprintf(s->end, sizeof s->end, "was killed for want of memory");
    else
        snprintf(s->end, sizeof s->end, "ended by signal %d", record->signal);
}

static int search_log(struct sandbox_log *log, struct search *s, int64_t timeout_ms, int64_t *ret_position, struct sandbox_error **error)
{
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    int64_t deadline = sb_deadline(timeout_ms);
    size_t behind;
    int r;

    while ((r = await_record(log, deadline, timeout_ms, &record, error)) == 1) {
        if (record.kind == SANDBOX_LOG_ENDED)
            take_end(s, &record);
        if (record.kind == SANDBOX_LOG_LOST) /* what is on both sides of a gap is not one text */
            s->streams[1].n = s->streams[2].n = 0;
        if (record.kind != SANDBOX_LOG_OUTPUT || record.stream < 1 || record.stream > 2)
            continue;
        keep_tail(s, record.data, record.data_size);
        if (find_marker(s, record.stream, record.data, record.data_size, &behind)) {
            if (ret_position)
                *ret_position = record.position + (int64_t)behind;
            return 0;
        }
        if (sb_left_ms(deadline) == 0) /* also when there is always more to read */
            return sb_fail_timeout(error, timeout_ms);
    }
    return r ? r : fail_ended(s, error);
}

static int wait_for_marker(struct sandbox *sandbox, const void *marker, size_t size, unsigned int streams, int64_t timeout_ms,
                           int64_t *ret_position, struct sandbox_error **error)
{
    struct sb_log_request request = { .this_run = 1, .options = SANDBOX_LOG_OPTIONS_INIT };
    struct search s = { .marker = marker, .size = size };
    struct sandbox_log *log = NULL;
    int r = sb_sandbox_check(sandbox, error);

    if (!r && (!marker || !size || size > MARKER_MAX))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "marker"), "the marker has not 1 to %d bytes", MARKER_MAX);
    if (!r)
        r = check_streams(streams, error);
    if (!r)
        r = sb_check_timeout(timeout_ms, "timeout_ms", error);
    if (r)
        return r;
    request.options.follow = 1;
    request.options.streams = streams;
    for (int i = 1; i < 3; i++) {
        s.streams[i].kept = malloc(2 * size);
        if (!s.streams[i].kept)
            r = sb_fail_memory(error);
    }
    if (!r)
        r = new_log(sandbox->host, sandbox->id, &request, &log, error);
    if (!r)
        r = search_log(log, &s, timeout_ms, ret_position, error);
    sandbox_log_close(log);
    free(s.streams[1].kept);
    free(s.streams[2].kept);
    return r;
}

int sandbox_log_wait(struct sandbox *sandbox, const void *marker, size_t marker_size, unsigned int streams, int64_t timeout_ms,
                     int64_t *ret_position, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(wait_for_marker(sandbox, marker, marker_size, streams, timeout_ms, ret_position, &failure), &failure, error, "wait",
                    sandbox ? sandbox->host : NULL);
}
