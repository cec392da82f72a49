/* SPDX-License-Identifier: Apache-2.0
 * B5 and F11: the daemon's log from its first byte, its end, a command that is opened again by its id, its journal; F31: events. */
#include "contract.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_error *error;

static struct sandbox *with_daemon(const char *script, int64_t log_max)
{
    struct sandbox_spec *spec = row_spec();

    if (log_max)
        row_need(sandbox_spec_set_log_max(spec, log_max, &error), &error, "bound the log");
    row_need(sandbox_spec_set_daemon(spec, ROW_ARGV("/bin/sh", "-c", script), &error), &error, "set the daemon");
    return row_start(spec);
}

/* The streams of a log to its end, apart. */
struct text {
    char *streams[3]; /* by enum sandbox_log_stream */
    size_t sizes[3];
    int64_t lost, first; /* bytes that were told to be missing; position of the first that came, -1: none did */
    int ended, code;
};

static void add(struct text *t, const struct sandbox_log_record *r)
{
    char *more = realloc(t->streams[r->stream], t->sizes[r->stream] + r->data_size + 1);

    ROW_CHECK(more && (r->stream == SANDBOX_LOG_STDOUT || r->stream == SANDBOX_LOG_STDERR), "a record of stream %d", r->stream);
    memcpy(more + t->sizes[r->stream], r->data, r->data_size);
    t->streams[r->stream] = more;
    t->sizes[r->stream] += r->data_size;
    more[t->sizes[r->stream]] = 0;
}

static struct text read_log(struct sandbox_log *log)
{
    struct text t = { { strdup(""), strdup(""), strdup("") }, { 0 }, 0, -1, 0, 0 };

    for (;;) {
        struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
        int r = sandbox_log_read(log, 30000, &record, &error);

        row_need(r, &error, "read the log");
        if (r == 0)
            break;
        if (record.kind == SANDBOX_LOG_OUTPUT && t.first < 0)
            t.first = record.position;
        if (record.kind == SANDBOX_LOG_OUTPUT)
            add(&t, &record);
        if (record.kind == SANDBOX_LOG_LOST)
            t.lost += record.lost;
        if (record.kind == SANDBOX_LOG_ENDED) {
            t.ended++;
            t.code = record.code;
        }
    }
    sandbox_log_close(log);
    return t;
}

static struct text log_of(struct sandbox *sandbox, int follow, int64_t tail)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log *log = NULL;

    options.follow = follow;
    options.tail = tail;
    row_need(sandbox_log_open(sandbox, &options, &log, &error), &error, "open the log");
    return read_log(log);
}

static void b5_first_byte(void)
{
    struct text t =
        log_of(with_daemon("printf 'out 1\\n'; printf 'err 1\\n' >&2; sleep 0.3; echo out 2; echo err 2 >&2; exit 7", 0), 1, -1);

    ROW_CHECK(!strcmp(t.streams[SANDBOX_LOG_STDOUT], "out 1\nout 2\n") &&
                  !strcmp(t.streams[SANDBOX_LOG_STDERR], "err 1\nerr 2\n"),
              "stdout is \"%.100s\", stderr \"%.100s\"", t.streams[SANDBOX_LOG_STDOUT], t.streams[SANDBOX_LOG_STDERR]);
    ROW_CHECK(t.ended == 1 && t.code == 7 && t.lost == 0, "its end is told %d times, with code %d", t.ended, t.code);
}

/* From another handle, after its end, also when the sandbox was stopped. */
static void b5_after_the_end(void)
{
    struct sandbox *sandbox = with_daemon("i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i+1)); done", 0);
    struct text t;

    row_need(sandbox_wait(sandbox, 30000, NULL, &error), &error, "wait for the daemon");
    row_need(sandbox_stop(sandbox, 0, 60000, &error), &error, "stop");
    row_state(sandbox, SANDBOX_STATE_STOPPED);
    t = log_of(sandbox, 0, -1);
    ROW_CHECK(strstr(t.streams[SANDBOX_LOG_STDOUT], "line 0\n") == t.streams[SANDBOX_LOG_STDOUT] &&
                  strstr(t.streams[SANDBOX_LOG_STDOUT], "line 99\n"),
              "the log of a stopped sandbox is not whole");
    t = log_of(sandbox, 0, 3);
    ROW_CHECK(!strcmp(t.streams[SANDBOX_LOG_STDOUT], "line 97\nline 98\nline 99\n"), "the last three lines are \"%.100s\"",
              t.streams[SANDBOX_LOG_STDOUT]);
}

static void b5_marker(void)
{
    struct sandbox *sandbox = with_daemon("sleep 0.3; printf 'layerfs '; sleep 0.2; echo ready; exec sleep 1000", 0);
    int64_t begun = row_now(), position = -1;

    row_need(sandbox_log_wait(sandbox, "layerfs ready\n", 14, 0, 30000, &position, &error), &error, "wait for the marker");
    ROW_CHECK(position == 14 && row_now() - begun < 20000, "the marker is told at position %lld after %lld ms",
              (long long)position, (long long)(row_now() - begun));
    begun = row_now();
    row_refused(sandbox_log_wait(sandbox, "never said", 10, 0, 500, NULL, &error), SANDBOX_ETIMEDOUT, &error,
                "a marker that does not come");
    ROW_CHECK(row_now() - begun >= 490 && row_now() - begun < 10000, "that took %lld ms", (long long)(row_now() - begun));
}

/* Ten times the cap is written: what is on the disk stays bounded, what is kept is the end, and what is missing is counted. */
static void b5_bounded(void)
{
    struct sandbox *sandbox = with_daemon(
        "i=0; while [ $i -lt 2000 ]; do echo 0123456789012345678901234567890123456789 $i; i=$((i+1)); done; echo last", 16384);
    struct text t;
    size_t n;

    row_need(sandbox_wait(sandbox, 60000, NULL, &error), &error, "wait for the daemon");
    log_of(sandbox, 1, -1); /* to its end: now all of it is written */
    t = log_of(sandbox, 0, -1);
    n = t.sizes[SANDBOX_LOG_STDOUT];
    ROW_CHECK(n >= 1024 && n <= 16384, "%zu bytes are kept of a log of 16 KiB", n);
    ROW_CHECK(!strcmp(t.streams[SANDBOX_LOG_STDOUT] + n - 5, "last\n"), "the end of the log is missing");
    ROW_CHECK(t.lost > 0 || t.first > 0, "that the beginning was dropped is not told");
}

static void b5_failed_start(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox *sandbox;
    struct text t;
    int r;

    row_need(sandbox_spec_set_daemon(spec, ROW_ARGV("/bin/sh", "-c", "echo cannot go on >&2; exit 3"), &error), &error,
             "set the daemon");
    sandbox = row_create(spec);
    r = sandbox_start(sandbox, 60000, &error); /* it was executed: what it does then is its own end */
    row_need(r, &error, "start");
    row_need(sandbox_wait(sandbox, 30000, &result, &error), &error, "wait for the daemon");
    ROW_CHECK(result.kind == SANDBOX_EXEC_EXITED && result.code == 3, "the daemon's end is told as kind %d, code %d", result.kind,
              result.code);
    t = log_of(sandbox, 1, -1);
    ROW_CHECK(!strcmp(t.streams[SANDBOX_LOG_STDERR], "cannot go on\n"), "its log is \"%.100s\"", t.streams[SANDBOX_LOG_STDERR]);
}

static void f11_open_again(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *one = row_begin(sandbox, ROW_ARGV("/bin/sh", "-c", "sleep 0.5; exit 42"), NULL), *two = NULL,
                        *three = NULL;
    struct sandbox_exec_result result;
    char id[SANDBOX_ID_LENGTH + 1], none[SANDBOX_ID_LENGTH + 1];

    snprintf(id, sizeof id, "%s", sandbox_exec_get_id(one));
    row_need(sandbox_exec_open(sandbox, id, &two, &error), &error, "open a command by its id");
    sandbox_exec_unref(one); /* the first handle goes, the command does not */
    result = row_end(two, 30000);
    ROW_CHECK(result.kind == SANDBOX_EXEC_EXITED && result.code == 42, "kind %d, code %d", result.kind, result.code);
    row_need(sandbox_exec_open(sandbox, id, &three, &error), &error, "open a command that has ended");
    result = row_end(three, 30000);
    ROW_CHECK(result.kind == SANDBOX_EXEC_EXITED && result.code == 42, "later: kind %d, code %d", result.kind, result.code);
    memset(none, '7', SANDBOX_ID_LENGTH);
    none[SANDBOX_ID_LENGTH] = 0;
    sandbox_exec_unref(two);
    sandbox_exec_unref(three);
    two = NULL;
    row_refused(sandbox_exec_open(sandbox, none, &two, &error), SANDBOX_ENOTFOUND, &error, "an id that no command has");
}

/* Who began the command is killed; another gets its true end, and its output from an offset. */
static void f11_caller_lost(void)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_spec *spec = row_spec();
    struct sandbox_exec_result result;
    struct sandbox_exec *exec = NULL;
    struct sandbox_log *log = NULL;
    struct sandbox *sandbox;
    struct text t;
    char id[SANDBOX_ID_LENGTH + 1] = "", sandbox_id[SANDBOX_ID_LENGTH + 1];
    int p[2];
    pid_t pid;

    row_need(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error, "detached");
    sandbox = row_start(spec);
    snprintf(sandbox_id, sizeof sandbox_id, "%s", sandbox_get_id(sandbox));
    ROW_CHECK(pipe2(p, 0) == 0, "no pipe"); /* inherited: by the child alone, which executes nothing */
    pid = fork();
    ROW_CHECK(pid >= 0, "no process");
    if (pid == 0) {
        struct sandbox_exec_options with = SANDBOX_EXEC_OPTIONS_INIT;

        row_forked();
        with.journal_max = 1 << 16;
        row_need(sandbox_open(row_host(), sandbox_id, &sandbox, &error), &error, "open in another process");
        exec = row_begin(sandbox, ROW_ARGV("/bin/sh", "-c", "echo before; sleep 1; echo after; exit 5"), &with);
        if (write(p[1], sandbox_exec_get_id(exec), SANDBOX_ID_LENGTH) != SANDBOX_ID_LENGTH)
            _exit(1);
        for (;;)
            pause();
    }
    close(p[1]);
    ROW_CHECK(row_read(p[0], id, SANDBOX_ID_LENGTH, 60000) == SANDBOX_ID_LENGTH, "the other process began nothing");
    close(p[0]);
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) != pid)
        ;
    row_need(sandbox_exec_open(sandbox, id, &exec, &error), &error, "open the command by its id");
    result = row_end(exec, 30000);
    options.follow = 1;
    ROW_CHECK(result.kind == SANDBOX_EXEC_EXITED && result.code == 5, "kind %d, code %d", result.kind, result.code);
    row_need(sandbox_exec_log_open(exec, &options, &log, &error), &error, "open its journal");
    t = read_log(log);
    ROW_CHECK(!strcmp(t.streams[SANDBOX_LOG_STDOUT], "before\nafter\n"), "its journal is \"%.100s\"",
              t.streams[SANDBOX_LOG_STDOUT]);
    options.position = 7;
    row_need(sandbox_exec_log_open(exec, &options, &log, &error), &error, "open its journal from an offset");
    t = read_log(log);
    ROW_CHECK(!strcmp(t.streams[SANDBOX_LOG_STDOUT], "after\n"), "from offset 7 it is \"%.100s\"", t.streams[SANDBOX_LOG_STDOUT]);
    sandbox_exec_unref(exec);
}

/* Waits for an event of this sandbox; those of other types are passed over. */
static void await_event(struct sandbox_events *events, const char *id, int type)
{
    for (int64_t until = row_now() + 10000;;) {
        struct sandbox_event *event = NULL;
        int64_t left = until - row_now();
        int r = sandbox_events_read(events, left > 0 ? left : 0, &event, &error), found;

        ROW_CHECK(r != SANDBOX_ETIMEDOUT, "no event of type %d came in 10 s", type);
        row_need(r, &error, "read events");
        found = sandbox_event_get_type(event) == type && !strcmp(sandbox_event_get_id(event), id);
        sandbox_event_unref(event);
        if (found)
            return;
    }
}

static void f31_events(void)
{
    struct sandbox_events_options options = SANDBOX_EVENTS_OPTIONS_INIT;
    struct sandbox_events *events = NULL;
    struct sandbox *sandbox;
    struct sandbox_exec *exec;
    const char *id;

    options.label_key = "sandbox-contract.run";
    options.label_value = contract.run;
    row_need(sandbox_events_open(row_host(), &options, &events, &error), &error, "watch");
    sandbox = row_create(NULL);
    id = sandbox_get_id(sandbox);
    await_event(events, id, SANDBOX_EVENT_CREATED);
    row_need(sandbox_start(sandbox, 60000, &error), &error, "start");
    await_event(events, id, SANDBOX_EVENT_STARTED);
    exec = row_begin(sandbox, ROW_ARGV("true"), NULL);
    await_event(events, id, SANDBOX_EVENT_EXEC_EXITED);
    row_end(exec, 20000);
    sandbox_exec_unref(exec);
    row_need(sandbox_stop(sandbox, 0, 60000, &error), &error, "stop");
    await_event(events, id, SANDBOX_EVENT_STOPPED);
    row_need(sandbox_delete(sandbox, 60000, &error), &error, "delete");
    await_event(events, id, SANDBOX_EVENT_DELETED);
    sandbox_events_close(events);
}

static const struct row rows[] = {
    { "b5_first_byte", b5_first_byte },
    { "b5_after_the_end", b5_after_the_end },
    { "b5_marker", b5_marker },
    { "b5_bounded", b5_bounded },
    { "b5_failed_start", b5_failed_start },
    { "f11_open_again", f11_open_again },
    { "f11_caller_lost", f11_caller_lost },
    { "f31_events", f31_events },
};
const struct rows rows_log = { rows, sizeof rows / sizeof *rows };
