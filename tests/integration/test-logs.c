/* SPDX-License-Identifier: Apache-2.0
 * Logs of daemons and journals of commands, by real sandboxes: what is read is what was written, from any process and in any state. */
#include "box.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static struct sandbox_spec *daemon_spec(const char *script)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", script), &error), &error);
    return spec;
}

/* All that a log has, as text: output as it is, the rest in brackets. */
static char *read_all(struct sandbox_log *log, int64_t timeout_ms)
{
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    char *text = calloc(1, 1);
    size_t n = 0;
    int r;

    while ((r = sandbox_log_read(log, timeout_ms, &record, &error)) == 1) {
        char note[128] = "";
        const void *data = note;
        size_t size;

        if (record.kind == SANDBOX_LOG_STARTED)
            snprintf(note, sizeof note, "[started]");
        else if (record.kind == SANDBOX_LOG_ENDED)
            snprintf(note, sizeof note, "[ended %d %d %d]", record.exec_kind, record.code, record.signal);
        else if (record.kind == SANDBOX_LOG_LOST)
            snprintf(note, sizeof note, "[lost]");
        else
            data = record.data;
        size = record.kind == SANDBOX_LOG_OUTPUT ? record.data_size : strlen(note);
        text = realloc(text, n + size + 1);
        memcpy(text + n, data, size);
        n += size;
        text[n] = 0;
    }
    sbtest_ok(r, &error);
    return text;
}

static char *log_text(const struct sandbox_log_options *options)
{
    struct sandbox_log *log = NULL;
    char *text;

    sbtest_ok(sandbox_log_open(sandbox, options, &log, &error), &error);
    text = read_all(log, 10000);
    sandbox_log_close(log);
    return text;
}

static void expect_log(const struct sandbox_log_options *options, const char *expected)
{
    char *text = log_text(options);

    ck_assert_str_eq(text, expected);
    free(text);
}

static void await_end(int kind, int code)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;

    sbtest_ok(sandbox_wait(sandbox, 10000, &result, &error), &error);
    ck_assert_int_eq(result.kind, kind);
    ck_assert_int_eq(result.code, code);
}

START_TEST(log_first_byte_to_last)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    int64_t position = 0;

    sandbox = box_start(host, daemon_spec("echo one; sleep .1; echo two >&2; sleep .1; echo three; exit 7"));
    options.follow = 1;
    expect_log(&options, "[started]one\ntwo\nthree\n[ended 1 7 0]");
    await_end(SANDBOX_EXEC_EXITED, 7);
    options.follow = 0;
    options.streams = 1u << SANDBOX_LOG_STDERR;
    expect_log(&options, "[started]two\n[ended 1 7 0]");
    options.streams = 0;
    options.tail = 2;
    expect_log(&options, "two\nthree\n[ended 1 7 0]");
    options.tail = -1;
    options.position = 4;
    options.streams = 1u << SANDBOX_LOG_STDOUT;
    expect_log(&options, "three\n[ended 1 7 0]");
    sbtest_ok(sandbox_log_wait(sandbox, "three", 5, 0, sbtest_slowly(5000), &position, &error), &error);
    ck_assert_int_ge(position, 9);
    sbtest_fails(sandbox_log_wait(sandbox, "four", 4, 0, 5000, NULL, &error), SANDBOX_ENOTRUNNING, &error);
    /* stopped, and opened anew */
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    options = (struct sandbox_log_options)SANDBOX_LOG_OPTIONS_INIT;
    options.follow = 1;
    expect_log(&options, "[started]one\ntwo\nthree\n[ended 1 7 0]");
    await_end(SANDBOX_EXEC_EXITED, 7);
}
END_TEST

/* A daemon that writes a line a step, as long as it is told to go on by a file. */
START_TEST(log_follow)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct sandbox_log *log = NULL;
    struct pollfd p = { .events = POLLIN };
    char *text;

    sandbox = box_start(host, daemon_spec("echo ready; while [ ! -e /tmp/go ]; do sleep .05; done; echo gone; sleep 60"));
    options.follow = 1;
    sbtest_ok(sandbox_log_open(sandbox, &options, &log, &error), &error);
    sbtest_ok(sandbox_log_wait(sandbox, "ready\n", 6, 0, sbtest_slowly(5000), NULL, &error), &error);
    ck_assert_int_eq(sandbox_log_read(log, 5000, &record, &error), 1);
    ck_assert_int_eq(record.kind, SANDBOX_LOG_STARTED);
    ck_assert_int_eq(sandbox_log_read(log, 5000, &record, &error), 1);
    ck_assert_int_eq(record.kind, SANDBOX_LOG_OUTPUT);
    ck_assert_int_eq(record.stream, SANDBOX_LOG_STDOUT);
    ck_assert_int_eq(record.position, 0);
    ck_assert_int_lt(llabs(record.time_ns / 1000000000 - time(NULL)), 10);
    sbtest_fails(sandbox_log_read(log, 0, &record, &error), SANDBOX_ETIMEDOUT, &error);
    sbtest_fails(sandbox_log_read(log, 100, &record, &error), SANDBOX_ETIMEDOUT, &error);
    p.fd = sandbox_log_get_fd(log);
    ck_assert_int_ge(p.fd, 0);
    ck_assert_int_eq(poll(&p, 1, 100), 0);
    sbtest_fails(sandbox_log_wait(sandbox, "gone", 4, 0, 100, NULL, &error), SANDBOX_ETIMEDOUT, &error);
    ck_assert_int_eq(box_code(sandbox, NULL, "touch /tmp/go"), 0);
    ck_assert_int_eq(poll(&p, 1, 5000), 1);
    ck_assert_int_eq(sandbox_log_read(log, 5000, &record, &error), 1);
    ck_assert_int_eq(record.data_size, 5);
    ck_assert_int_eq(memcmp(record.data, "gone\n", 5), 0);
    ck_assert_int_eq(record.position, 6);
    sbtest_fails(sandbox_log_read(log, 0, &record, &error), SANDBOX_ETIMEDOUT, &error);
    /* killed inside: the end of the log */
    sbtest_ok(sandbox_kill(sandbox, SIGKILL, &error), &error);
    text = read_all(log, 5000);
    ck_assert_str_eq(text, "[ended 4 -1 9]");
    free(text);
    ck_assert_int_eq(sandbox_log_read(log, 5000, &record, &error), 0);
    sandbox_log_close(log);
    /* started again in the same sandbox: one log, and who waits for a marker waits for that of the new one */
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    sbtest_ok(sandbox_log_wait(sandbox, "gone", 4, 0, 10000, NULL, &error), &error);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    options.follow = 0;
    text = log_text(&options);
    ck_assert_str_eq(text, "[started]ready\ngone\n[ended 4 -1 9][started]ready\ngone\n");
    free(text);
    {
        struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;

        sbtest_ok(sandbox_wait(sandbox, 10000, &result, &error), &error);
        ck_assert_int_eq(result.kind, SANDBOX_EXEC_LOST); /* its init was killed first: there is no code */
        ck_assert_int_eq(result.code, -1);
    }
}
END_TEST

/* Before the first start, between two, and with a marker that an earlier run had written. */
START_TEST(log_wait_this_run)
{
    struct sandbox_spec *spec = daemon_spec("if [ -e /tmp/once ]; then echo second; else touch /tmp/once; echo first; fi; sleep 60");

    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    sbtest_fails(sandbox_log_wait(sandbox, "first", 5, 0, 100, NULL, &error), SANDBOX_ETIMEDOUT, &error);
    sbtest_fails(sandbox_wait(sandbox, 0, NULL, &error), SANDBOX_ENOTRUNNING, &error);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    sbtest_ok(sandbox_log_wait(sandbox, "first", 5, 0, 10000, NULL, &error), &error);
    sbtest_fails(sandbox_wait(sandbox, 0, NULL, &error), SANDBOX_ETIMEDOUT, &error);
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
        else
            sbtest_ok(sandbox_kill(sandbox, SIGKILL, &error), &error);
        if (i == 1)
            sbtest_fails(sandbox_log_wait(sandbox, "nothing", 7, 0, 10000, NULL, &error), SANDBOX_ENOTRUNNING, &error);
        else
            sbtest_ok(sandbox_wait(sandbox, 10000, NULL, &error), &error);
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
        sbtest_fails(sandbox_log_wait(sandbox, "first", 5, 0, 200, NULL, &error), SANDBOX_ETIMEDOUT, &error);
        sbtest_ok(sandbox_log_wait(sandbox, "second\n", 7, 1u << SANDBOX_LOG_STDOUT, 10000, NULL, &error), &error);
        sbtest_fails(sandbox_log_wait(sandbox, "second", 6, 1u << SANDBOX_LOG_STDERR, 100, NULL, &error), SANDBOX_ETIMEDOUT, &error);
    }
}
END_TEST

START_TEST(log_marker_across_records)
{
    int64_t position = 0;

    sandbox = box_start(host, daemon_spec("printf 'aaREA'; sleep .2; printf x >&2; printf 'DYb'; sleep .2; printf 'RE\\nEADY'; exec sleep 60"));
    sbtest_ok(sandbox_log_wait(sandbox, "READY", 5, 0, 10000, &position, &error), &error);
    ck_assert_int_ge(position, 7);
    ck_assert_int_le(position, 8); /* with or without the other stream's byte before it */
    sbtest_ok(sandbox_log_wait(sandbox, "bRE\nEADY", 8, 0, 10000, NULL, &error), &error);
    sbtest_fails(sandbox_log_wait(sandbox, "xDY", 3, 0, 200, NULL, &error), SANDBOX_ETIMEDOUT, &error);
    sbtest_fails(sandbox_log_wait(sandbox, "", 0, 0, 200, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_log_wait(sandbox, "x", 1, 1, 200, NULL, &error), SANDBOX_EINVALID, &error);
}
END_TEST

/* What a daemon that could not be started, or that ended at once, leaves. */
START_TEST(log_failed_start)
{
    struct sandbox_spec *spec = box_spec();
    char *text;
    int r;

    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/no/such/daemon"), &error), &error);
    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    sbtest_fails(sandbox_start(sandbox, 10000, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_fails(sandbox_log_wait(sandbox, "x", 1, 0, 5000, NULL, &error), SANDBOX_ENOTRUNNING, &error);
    text = log_text(NULL);
    ck_assert_str_eq(text, "[started][ended 0 -1 0]");
    free(text);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
    sandbox = box_start(host, daemon_spec("printf 'no \\033[31mconfiguration\\377\\n' >&2; exit 3"));
    r = sandbox_log_wait(sandbox, "listening", 9, 0, 10000, NULL, &error);
    ck_assert_int_eq(r, SANDBOX_ENOTRUNNING);
    ck_assert_str_eq(sandbox_error_get_message(error), "the daemon exited with 3 without the marker");
    ck_assert_str_eq(sandbox_error_get_hint(error), "its log ends: no \\x1b[31mconfiguration\\xff");
    error = sandbox_error_unref(error);
    await_end(SANDBOX_EXEC_EXITED, 3);
}
END_TEST

/* A reader that falls behind the cap is told how much it missed, to the byte. */
START_TEST(log_turns_under_its_reader)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct sandbox_spec *spec = daemon_spec("seq 1 300000; echo end");
    struct sandbox_log *log = NULL;
    int64_t expected = 0, lost = 0, total = 0;
    int r;

    sbtest_ok(sandbox_spec_set_log_max(spec, 65536, &error), &error);
    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    options.follow = 1;
    sbtest_ok(sandbox_log_open(sandbox, &options, &log, &error), &error);
    sbtest_fails(sandbox_log_read(log, 0, &record, &error), SANDBOX_ETIMEDOUT, &error); /* it stands at the beginning */
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    sbtest_ok(sandbox_wait(sandbox, 20000, NULL, &error), &error);
    sbtest_ok(sandbox_log_wait(sandbox, "end\n", 4, 0, 20000, NULL, &error), &error); /* the pipe's rest is written down, too */
    while ((r = sandbox_log_read(log, 10000, &record, &error)) == 1) {
        ck_assert_int_eq(record.position, expected);
        if (record.kind == SANDBOX_LOG_LOST) {
            ck_assert_int_gt(record.lost, 0);
            ck_assert_int_eq(record.damaged, 0);
            lost += record.lost;
            expected += record.lost;
        }
        expected += (int64_t)record.data_size;
    }
    sbtest_ok(r, &error);
    sandbox_log_close(log);
    for (int i = 1, width = 10, digits = 1; i <= 300000; i++) {
        if (i == width) {
            width *= 10;
            digits++;
        }
        total += digits + 1;
    }
    ck_assert_int_eq(expected, total + 4);
    ck_assert_int_gt(lost, total - 65536 * 2);
    /* one who asks for an old position hears of the loss; one who doesn't care gets what there is */
    options.follow = 0;
    options.position = 5;
    sbtest_ok(sandbox_log_open(sandbox, &options, &log, &error), &error);
    ck_assert_int_eq(sandbox_log_read(log, 0, &record, &error), 1);
    ck_assert_int_eq(record.kind, SANDBOX_LOG_LOST);
    ck_assert_int_eq(record.position, 5);
    sandbox_log_close(log);
    options.position = 0;
    options.tail = 1;
    expected = box_now();
    expect_log(&options, "end\n[ended 1 0 0]");
    ck_assert_int_lt(box_now() - expected, sbtest_slowly(800)); /* its start has gone from the log: nothing waits for it to come */
    options.tail = 3;
    expect_log(&options, "299999\n300000\nend\n[ended 1 0 0]");
    options.tail = 0;
    expect_log(&options, "");
}
END_TEST

/* Who was told of the end finds the last line, without following. */
START_TEST(log_after_wait)
{
    struct sandbox_exec_options with = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;

    sandbox = box_start(host, daemon_spec("i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done; echo last"));
    options.tail = 1;
    with.journal_max = 16384;
    for (int i = 0; i < 8; i++) {
        struct sandbox_exec *exec = NULL;
        struct sandbox_log *log = NULL;
        char *text;

        if (i)
            sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
        sbtest_ok(sandbox_wait(sandbox, 20000, NULL, &error), &error);
        expect_log(&options, "last\n[ended 1 0 0]");
        sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sh", "-c", "seq 1 3000; echo gone >&2"), &with, &exec, &error), &error);
        sbtest_ok(sandbox_exec_wait(exec, 20000, NULL, &error), &error);
        sbtest_ok(sandbox_exec_log_open(exec, NULL, &log, &error), &error);
        text = read_all(log, 0);
        ck_assert_ptr_nonnull(strstr(text, "gone\n"));
        ck_assert_ptr_nonnull(strstr(text, "[ended 1 0 0]"));
        free(text);
        sandbox_log_close(log);
        sandbox_exec_unref(exec);
    }
}
END_TEST

START_TEST(log_without_a_daemon)
{
    sandbox = box_start(host, NULL);
    expect_log(NULL, "");
    sbtest_fails(sandbox_wait(sandbox, 0, NULL, &error), SANDBOX_ENOTRUNNING, &error);
    sbtest_fails(sandbox_log_wait(sandbox, "x", 1, 0, 0, NULL, &error), SANDBOX_ENOTRUNNING, &error);
}
END_TEST

/* ---- attaching ---- */

static struct sandbox_exec *attach(const char *id)
{
    struct sandbox_exec *exec = NULL;

    sbtest_ok(sandbox_exec_open(sandbox, id, &exec, &error), &error);
    return exec;
}

static void expect_end(struct sandbox_exec *exec, int kind, int code)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct pollfd p = { .fd = sandbox_exec_get_fd(exec), .events = POLLIN };

    sbtest_ok(sandbox_exec_wait(exec, 10000, &result, &error), &error);
    ck_assert_int_eq(result.kind, kind);
    ck_assert_int_eq(result.code, code);
    ck_assert_int_eq(poll(&p, 1, 0), 1);
}

START_TEST(attach_many)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *first = NULL, *others[8], *late;
    int fd = -1;

    sandbox = box_start(host, NULL);
    options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sh", "-c", "trap 'exit 42' TERM; touch /tmp/up; while :; do sleep .05; done"), &options, &first, &error),
              &error);
    ck_assert_int_eq(box_code(sandbox, NULL, "until [ -e /tmp/up ]; do sleep .02; done"), 0);
    for (int i = 0; i < 8; i++) {
        others[i] = attach(sandbox_exec_get_id(first));
        ck_assert_str_eq(sandbox_exec_get_id(others[i]), sandbox_exec_get_id(first));
        sbtest_fails(sandbox_exec_wait(others[i], 0, NULL, &error), SANDBOX_ETIMEDOUT, &error);
        sbtest_fails(sandbox_exec_take_stdin(others[i], &fd, &error), SANDBOX_EINVALID, &error);
        sbtest_fails(sandbox_exec_take_stdout(others[i], &fd, &error), SANDBOX_EINVALID, &error);
    }
    others[7] = sandbox_exec_unref(others[7]); /* one that goes away harms nobody */
    sbtest_ok(sandbox_exec_kill(others[3], SIGTERM, 0, &error), &error);
    for (int i = 0; i < 7; i++) {
        expect_end(others[i], SANDBOX_EXEC_EXITED, 42);
        sbtest_ok(sandbox_exec_kill(others[i], SIGTERM, 0, &error), &error); /* had ended */
        sandbox_exec_unref(others[i]);
    }
    expect_end(first, SANDBOX_EXEC_EXITED, 42);
    late = attach(sandbox_exec_get_id(first));
    expect_end(late, SANDBOX_EXEC_EXITED, 42);
    sandbox_exec_unref(late);
    sandbox_exec_unref(first);
    sbtest_fails(sandbox_exec_open(sandbox, "0000000000000000000000000000000000000000000000000000000000000001", &late, &error),
                 SANDBOX_ENOTFOUND, &error);
    sbtest_fails(sandbox_exec_open(sandbox, "1234", &late, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_open(sandbox, NULL, &late, &error), SANDBOX_EINVALID, &error);
}
END_TEST

/* After the sandbox's end: what had ended is known, what ran is lost, what was never begun is not found. */
START_TEST(attach_after_the_end)
{
    struct sandbox_spec *spec = box_spec();
    char ended[SANDBOX_ID_LENGTH + 1], killed[SANDBOX_ID_LENGTH + 1], running[SANDBOX_ID_LENGTH + 1];
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_exec *exec = NULL;

    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    sandbox = box_start(host, spec);
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sh", "-c", "exit 11"), NULL, &exec, &error), &error);
    snprintf(ended, sizeof ended, "%s", sandbox_exec_get_id(exec));
    expect_end(exec, SANDBOX_EXEC_EXITED, 11);
    exec = sandbox_exec_unref(exec);
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sleep", "60"), NULL, &exec, &error), &error);
    snprintf(killed, sizeof killed, "%s", sandbox_exec_get_id(exec));
    sbtest_ok(sandbox_exec_kill(exec, SIGKILL, 0, &error), &error);
    expect_end(exec, SANDBOX_EXEC_KILLED, -1);
    exec = sandbox_exec_unref(exec);
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sleep", "60"), NULL, &exec, &error), &error);
    snprintf(running, sizeof running, "%s", sandbox_exec_get_id(exec));
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    expect_end(exec, SANDBOX_EXEC_LOST, -1);
    exec = sandbox_exec_unref(exec);
    for (int again = 0; again < 2; again++) {
        exec = attach(ended);
        expect_end(exec, SANDBOX_EXEC_EXITED, 11);
        exec = sandbox_exec_unref(exec);
        exec = attach(killed);
        sbtest_ok(sandbox_exec_wait(exec, 0, &result, &error), &error);
        ck_assert_int_eq(result.kind, SANDBOX_EXEC_KILLED);
        ck_assert_int_eq(result.signal, SIGKILL);
        exec = sandbox_exec_unref(exec);
        exec = attach(running);
        expect_end(exec, SANDBOX_EXEC_LOST, -1);
        sbtest_ok(sandbox_exec_kill(exec, SIGTERM, 0, &error), &error);
        exec = sandbox_exec_unref(exec);
        sbtest_fails(sandbox_exec_open(sandbox, "0000000000000000000000000000000000000000000000000000000000000001", &exec, &error),
                     SANDBOX_ENOTFOUND, &error);
        if (!again) /* a further run knows them, too */
            sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    }
}
END_TEST

/* ---- journals ---- */

static char *journal_text(struct sandbox_exec *exec, const struct sandbox_log_options *options)
{
    struct sandbox_log *log = NULL;
    char *text;

    sbtest_ok(sandbox_exec_log_open(exec, options, &log, &error), &error);
    text = read_all(log, 10000);
    sandbox_log_close(log);
    return text;
}

START_TEST(journal_is_replayed)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_exec_options with = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();
    struct sandbox_exec *exec = NULL, *other;
    char id[SANDBOX_ID_LENGTH + 1], *text;
    int fd = -1;

    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    sandbox = box_start(host, spec);
    with.journal_max = 1 << 20;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sh", "-c", "echo out; sleep .1; echo err >&2; sleep .1; echo last > /dev/stdout; exit 5"), &with, &exec,
                           &error), &error);
    snprintf(id, sizeof id, "%s", sandbox_exec_get_id(exec));
    sbtest_fails(sandbox_exec_take_stdout(exec, &fd, &error), SANDBOX_EINVALID, &error);
    options.follow = 1;
    text = journal_text(exec, &options);
    ck_assert_str_eq(text, "[started]out\nerr\nlast\n[ended 1 5 0]");
    free(text);
    expect_end(exec, SANDBOX_EXEC_EXITED, 5);
    exec = sandbox_exec_unref(exec);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    other = attach(id);
    options.position = 6;
    text = journal_text(other, &options);
    ck_assert_str_eq(text, "r\nlast\n[ended 1 5 0]");
    free(text);
    expect_end(other, SANDBOX_EXEC_EXITED, 5);
    sandbox_exec_unref(other);
    /* journals are of one run */
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    other = attach(id);
    {
        struct sandbox_log *log = NULL;

        sbtest_fails(sandbox_exec_log_open(other, NULL, &log, &error), SANDBOX_ENOTFOUND, &error);
    }
    sandbox_exec_unref(other);
    /* and not everybody has one */
    with.journal_max = 0;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("true"), &with, &exec, &error), &error);
    {
        struct sandbox_log *log = NULL;

        sbtest_fails(sandbox_exec_log_open(exec, NULL, &log, &error), SANDBOX_EINVALID, &error);
    }
    sandbox_exec_unref(exec);
}
END_TEST

START_TEST(journal_bounds)
{
    struct sandbox_exec_options with = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL, *first = NULL;
    struct sandbox_log *log = NULL;
    char *text;
    int r = 0, n = 0;

    sandbox = box_start(host, NULL);
    with.journal_max = 8192;
    sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("true"), &with, &exec, &error), SANDBOX_EUNSUPPORTED, &error);
    with.journal_max = 8191;
    sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("true"), &with, &exec, &error), SANDBOX_EINVALID, &error);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
    sandbox = box_start(host, daemon_spec("exec sleep 600"));
    with.journal_max = 8192;
    with.stdout_fd = 1;
    sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("true"), &with, &exec, &error), SANDBOX_EINVALID, &error);
    with.stdout_fd = SANDBOX_STDIO_PIPE;
    /* much more than is kept, and nobody reads: it ends all the same */
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sh", "-c", "seq 1 200000; echo end >&2"), &with, &first, &error), &error);
    expect_end(first, SANDBOX_EXEC_EXITED, 0);
    options.follow = 1;
    options.tail = 1;
    text = journal_text(first, &options);
    ck_assert_ptr_nonnull(strstr(text, "[ended 1 0 0]"));
    free(text);
    /* those that run are bounded, and those that are kept */
    while (n < 100 && (r = sandbox_exec(sandbox, BOX_ARGV("sleep", "600"), &with, &exec, &error)) == 0) {
        exec = sandbox_exec_unref(exec);
        n++;
    }
    sbtest_fails(r, SANDBOX_EBUSY, &error);
    ck_assert_int_eq(n, 64);
    for (long until = box_now() + sbtest_slowly(10000); (r = sandbox_exec_log_open(first, NULL, &log, &error)) == 0 && box_now() < until; usleep(10000))
        log = sandbox_log_close(log); /* the keeper has not come to the last one yet */
    sbtest_fails(r, SANDBOX_ENOTFOUND, &error);
    sandbox_exec_unref(first);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-logs");
    TCase *tc = sbtest_case("logs");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, log_first_byte_to_last);
    tcase_add_test(tc, log_follow);
    tcase_add_test(tc, log_wait_this_run);
    tcase_add_test(tc, log_marker_across_records);
    tcase_add_test(tc, log_failed_start);
    tcase_add_test(tc, log_turns_under_its_reader);
    tcase_add_test(tc, log_after_wait);
    tcase_add_test(tc, log_without_a_daemon);
    tcase_add_test(tc, attach_many);
    tcase_add_test(tc, attach_after_the_end);
    tcase_add_test(tc, journal_is_replayed);
    tcase_add_test(tc, journal_bounds);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
