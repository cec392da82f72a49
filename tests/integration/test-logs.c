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
    sbtest_ok(sandbox_log_wait(sandbox, "three", 5, 0, 5000, &position, &error), &error);
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

int main(void)
{
    Suite *suite = suite_create("integration-logs");
    TCase *tc = sbtest_case("logs");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, log_first_byte_to_last);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
