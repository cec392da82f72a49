/* SPDX-License-Identifier: Apache-2.0
 * Logs as api/ hands them on, markers that are found wherever records end, and attached handles. */
#include "fake.h"
#include "sbtest.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;

static void set_up(void)
{
    fake_reset();
    host = fake_host();
    sandbox = fake_sandbox(host);
}

static void tear_down(void)
{
    sandbox_unref(sandbox);
    sandbox_host_unref(host);
}

static struct sandbox_log *open_log(void)
{
    struct sandbox_log *log = NULL;

    sbtest_ok(sandbox_log_open(sandbox, NULL, &log, &error), &error);
    return log;
}

START_TEST(log_options)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log *log = NULL;

    sbtest_fails(sandbox_log_open(NULL, NULL, &log, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_log_open(sandbox, NULL, NULL, &error), SANDBOX_EINVALID, &error);
    options.streams = 1;
    sbtest_fails(sandbox_log_open(sandbox, &options, &log, &error), SANDBOX_EINVALID, &error);
    options.streams = 1u << SANDBOX_LOG_STDOUT;
    options.follow = 2;
    sbtest_fails(sandbox_log_open(sandbox, &options, &log, &error), SANDBOX_EINVALID, &error);
    options.follow = 1;
    options.tail = -2;
    sbtest_fails(sandbox_log_open(sandbox, &options, &log, &error), SANDBOX_EINVALID, &error);
    options.tail = 3;
    options.since_ms = -1;
    sbtest_fails(sandbox_log_open(sandbox, &options, &log, &error), SANDBOX_EINVALID, &error);
    options.since_ms = 7;
    options.position = -1;
    sbtest_fails(sandbox_log_open(sandbox, &options, &log, &error), SANDBOX_EINVALID, &error);
    options.position = 9;
    sbtest_ok(sandbox_log_open(sandbox, &options, &log, &error), &error);
    ck_assert_str_eq(fake.called, "log 01234567 - 0");
    ck_assert_int_eq(fake.log_request.options.tail, 3);
    ck_assert_int_eq(fake.log_request.options.position, 9);
    ck_assert_ptr_null(sandbox_log_close(log));
    ck_assert_ptr_null(sandbox_log_close(NULL));
    ck_assert_int_eq(fake.log_frees, 1);
    fake.ops.log_open = NULL;
    sbtest_fails(sandbox_log_open(sandbox, NULL, &log, &error), SANDBOX_EUNSUPPORTED, &error);
    fake.ops.exec_open = NULL;
    sbtest_fails(sandbox_wait(sandbox, 0, NULL, &error), SANDBOX_EUNSUPPORTED, &error);
}
END_TEST

START_TEST(log_records)
{
    static const char *const records[] = { "S", "o:one\n", "L", "e:two", "X7", NULL };
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct sandbox_log *log;

    fake.log = records;
    log = open_log();
    ck_assert_int_ge(sandbox_log_get_fd(log), 0);
    ck_assert_int_eq(sandbox_log_read(log, 0, &record, &error), 1);
    ck_assert_int_eq(record.kind, SANDBOX_LOG_STARTED);
    ck_assert_int_eq(sandbox_log_read(log, 0, &record, &error), 1);
    ck_assert_uint_eq(record.size, sizeof record);
    ck_assert_mem_eq(record.data, "one\n", 4);
    ck_assert_int_eq(sandbox_log_read(log, 0, &record, &error), 1);
    ck_assert_int_eq(record.lost, 100);
    ck_assert_ptr_null(record.data);
    ck_assert_int_eq(sandbox_log_read(log, 0, &record, &error), 1);
    ck_assert_int_eq(record.stream, SANDBOX_LOG_STDERR);
    ck_assert_int_eq(record.position, 104);
    ck_assert_int_eq(sandbox_log_read(log, 0, &record, &error), 1);
    ck_assert_int_eq(record.code, 7);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(sandbox_log_read(log, -1, &record, &error), 0);
    sbtest_fails(sandbox_log_read(log, -2, &record, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_log_read(log, 0, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_log_read(NULL, 0, &record, &error), SANDBOX_EINVALID, &error);
    record.size = 8;
    sbtest_fails(sandbox_log_read(log, 0, &record, &error), SANDBOX_EINVALID, &error);
    record.size = sizeof record;
    fake.refuses = SANDBOX_EIO;
    sbtest_fails(sandbox_log_read(log, -1, &record, &error), SANDBOX_EIO, &error);
    sandbox_log_close(log);
}
END_TEST

static const char *const never[] = { ".", NULL };

static void *read_on(void *log)
{
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;

    return (void *)(intptr_t)sandbox_log_read(log, -1, &record, NULL);
}

START_TEST(log_waits_end)
{
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct sandbox_log *log;
    pthread_t thread;
    void *result;
    pid_t child;
    int status;

    fake.log = never;
    log = open_log();
    sbtest_fails(sandbox_log_read(log, 0, &record, &error), SANDBOX_ETIMEDOUT, &error);
    sbtest_fails(sandbox_log_read(log, 30, &record, &error), SANDBOX_ETIMEDOUT, &error);
    ck_assert_int_eq(pthread_create(&thread, NULL, read_on, log), 0);
    usleep(100000);
    sbtest_fails(sandbox_log_read(log, 0, &record, &error), SANDBOX_EBUSY, &error);
    child = fork();
    if (child == 0) {
        int r = sandbox_log_read(log, 0, &record, NULL) == SANDBOX_EFORKED && sandbox_log_get_fd(log) == SANDBOX_EFORKED;

        sandbox_log_close(log);
        _exit(!r);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    sbtest_ok(sandbox_host_close(host, &error), &error);
    pthread_join(thread, &result);
    ck_assert_int_eq((int)(intptr_t)result, SANDBOX_ECLOSED);
    sandbox_log_close(log);
}
END_TEST

/* The text "abcabd…" cut into records in every way, with another stream between: the marker is found where it is. */
START_TEST(marker_in_every_cut)
{
    static const char text[] = "ababcabdabcabd!";
    enum { N = sizeof text - 1 };

    for (unsigned int cuts = 0; cuts < 1u << (N - 1); cuts += 1 + cuts % 3) {
        static char storage[2 * N + 2][N + 3];
        const char *records[2 * N + 2];
        int64_t position = -1, expected = 0, others = 0;
        size_t n = 0, have = 0;

        for (size_t i = 0; i < N; i++) {
            if (!have)
                memcpy(storage[n], "o:", 2);
            storage[n][2 + have++] = text[i];
            if (i == 7) /* behind "abcabd" */
                expected = (int64_t)i + 1 + others;
            if (i == N - 1 || (cuts >> i & 1)) {
                storage[n][2 + have] = 0;
                records[n] = storage[n];
                n++;
                have = 0;
                if (i % 2 == 0 && i != N - 1) {
                    records[n++] = "e:abcab";
                    others += 5;
                }
            }
        }
        records[n] = NULL;
        fake.log = records;
        sbtest_ok(sandbox_log_wait(sandbox, "abcabd", 6, 0, 1000, &position, &error), &error);
        ck_assert_int_eq(position, expected);
    }
    ck_assert_int_eq(fake.log_request.this_run, 1);
    ck_assert_int_eq(fake.log_request.options.follow, 1);
}
END_TEST

START_TEST(marker_ends)
{
    static const char *const gap[] = { "o:mar", "L", "o:ker", "X0", NULL };
    static const char *const hostile[] = { "o:\x1b[2J\\\xff\n", "e:\tx\n", "X3", NULL };
    static const char *const unexecuted[] = { "S", "U", NULL };
    static char large[70000];
    int r;

    fake.log = gap;
    sbtest_fails(sandbox_log_wait(sandbox, "marker", 6, 0, 1000, NULL, &error), SANDBOX_ENOTRUNNING, &error);
    fake.log = hostile;
    r = sandbox_log_wait(sandbox, "marker", 6, 0, 1000, NULL, &error);
    ck_assert_int_eq(r, SANDBOX_ENOTRUNNING);
    ck_assert_str_eq(sandbox_error_get_hint(error), "its log ends: \\x1b[2J\\\\\\xff\\n\\tx");
    ck_assert_str_eq(sandbox_error_get_message(error), "the daemon exited with 3 without the marker");
    error = sandbox_error_unref(error);
    fake.log = unexecuted;
    r = sandbox_log_wait(sandbox, "marker", 6, 0, 1000, NULL, &error);
    ck_assert_int_eq(r, SANDBOX_ENOTRUNNING);
    ck_assert_str_eq(sandbox_error_get_hint(error), "its log is empty");
    error = sandbox_error_unref(error);
    fake.log = never;
    sbtest_fails(sandbox_log_wait(sandbox, "marker", 6, 0, 20, NULL, &error), SANDBOX_ETIMEDOUT, &error);
    sbtest_fails(sandbox_log_wait(sandbox, "marker", 0, 0, 20, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_log_wait(sandbox, NULL, 6, 0, 20, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_log_wait(sandbox, large, 65537, 0, 20, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_log_wait(sandbox, "x", 1, 1, 20, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_log_wait(sandbox, "x", 1, 0, -2, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_log_wait(NULL, "x", 1, 0, 0, NULL, &error), SANDBOX_EINVALID, &error);
    /* much more than is kept of it, in the middle of a multiple of what is escaped */
    memset(large, 1, 60000);
    memcpy(large, "o:", 2);
    {
        const char *const much[] = { large, "o:end", "X0", NULL };

        fake.log = much;
        r = sandbox_log_wait(sandbox, "marker", 6, 0, 1000, NULL, &error);
        ck_assert_int_eq(r, SANDBOX_ENOTRUNNING);
        ck_assert_ptr_nonnull(strstr(sandbox_error_get_hint(error), "\\x01end"));
        ck_assert_int_eq(strncmp(sandbox_error_get_hint(error), "its log ends: …\\x01", 21), 0);
        error = sandbox_error_unref(error);
    }
}
END_TEST

START_TEST(attached)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_exec *exec = NULL;
    struct sandbox_log *log = NULL;
    int fd = -1;

    sbtest_fails(sandbox_exec_open(sandbox, "12", &exec, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_open(sandbox, FAKE_ID, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_open(NULL, FAKE_ID, &exec, &error), SANDBOX_EINVALID, &error);
    fake.refuses = SANDBOX_ENOTFOUND;
    sbtest_fails(sandbox_exec_open(sandbox, FAKE_ID, &exec, &error), SANDBOX_ENOTFOUND, &error);
    fake.refuses = 0;
    sbtest_ok(sandbox_exec_open(sandbox, FAKE_ID, &exec, &error), &error);
    ck_assert_str_eq(fake.called, "attach 01234567 01234567");
    ck_assert_str_eq(sandbox_exec_get_id(exec), FAKE_ID);
    sbtest_fails(sandbox_exec_take_stderr(exec, &fd, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_log_open(exec, NULL, &log, &error), SANDBOX_EINVALID, &error); /* it has none */
    sbtest_fails(sandbox_exec_log_open(NULL, NULL, &log, &error), SANDBOX_EINVALID, &error);
    sbtest_ok(sandbox_exec_wait(exec, 10000, &result, &error), &error);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_EXITED);
    sandbox_exec_unref(exec);
    sbtest_ok(sandbox_wait(sandbox, 10000, &result, &error), &error);
    ck_assert_str_eq(fake.called, "attach 01234567 daemon");
    sbtest_fails(sandbox_wait(sandbox, -2, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_wait(NULL, 0, NULL, &error), SANDBOX_EINVALID, &error);
}
END_TEST

START_TEST(journal_options)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    const char *const argv[] = { "/bin/true", NULL };
    struct sandbox_exec *exec = NULL;

    options.journal_max = 8191;
    sbtest_fails(sandbox_exec(sandbox, argv, &options, &exec, &error), SANDBOX_EINVALID, &error);
    options.journal_max = (INT64_C(1) << 30) + 1;
    sbtest_fails(sandbox_exec(sandbox, argv, &options, &exec, &error), SANDBOX_EINVALID, &error);
    options.journal_max = -1;
    sbtest_fails(sandbox_exec(sandbox, argv, &options, &exec, &error), SANDBOX_EINVALID, &error);
    options.journal_max = 8192;
    options.stderr_fd = 2;
    sbtest_fails(sandbox_exec(sandbox, argv, &options, &exec, &error), SANDBOX_EINVALID, &error);
    /* an older caller's struct ends before it */
    options = (struct sandbox_exec_options)SANDBOX_EXEC_OPTIONS_INIT;
    options.size = offsetof(struct sandbox_exec_options, journal_max);
    sbtest_ok(sandbox_exec(sandbox, argv, &options, &exec, &error), &error);
    sandbox_exec_unref(exec);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tc = sbtest_case("log");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, log_options);
    tcase_add_test(tc, log_records);
    tcase_add_test(tc, log_waits_end);
    tcase_add_test(tc, marker_in_every_cut);
    tcase_add_test(tc, marker_ends);
    tcase_add_test(tc, attached);
    tcase_add_test(tc, journal_options);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
