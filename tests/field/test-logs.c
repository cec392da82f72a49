/* SPDX-License-Identifier: Apache-2.0
 * Cases from the field about output that is kept and commands that are found again. Each test is named after its case. */
#include "box.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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

static struct sandbox *start_detached(void)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    return box_start(host, spec);
}

/* The output of a log from a position on to its end. */
static char *text_from(struct sandbox_exec *exec, int64_t position, int follow)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct sandbox_log *log = NULL;
    char *text = calloc(1, 1 << 20);
    size_t n = 0;
    int r;

    options.position = position;
    options.follow = follow;
    if (exec)
        sbtest_ok(sandbox_exec_log_open(exec, &options, &log, &error), &error);
    else
        sbtest_ok(sandbox_log_open(sandbox, &options, &log, &error), &error);
    while ((r = sandbox_log_read(log, 10000, &record, &error)) == 1)
        if (record.kind == SANDBOX_LOG_OUTPUT && n + record.data_size < 1 << 20) {
            memcpy(text + n, record.data, record.data_size);
            n += record.data_size;
        }
    sbtest_ok(r, &error);
    sandbox_log_close(log);
    return text;
}

/* The program that started a command is killed: the command goes on, and who knows its id gets its true code and its output from any
 * byte on, while it runs and after. */
START_TEST(exec_f11)
{
    char id[SANDBOX_ID_LENGTH + 1] = "", *text, expected[64];
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_exec *exec = NULL;
    int p[2], status;
    size_t n;
    pid_t pid;

    sandbox = start_detached();
    ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
        struct sandbox_host *own = box_host();
        struct sandbox *same = NULL;

        options.journal_max = 1 << 20;
        if (sandbox_open(own, sandbox_get_id(sandbox), &same, NULL) ||
            sandbox_exec(same, BOX_ARGV("/bin/sh", "-c", "seq 1 5000; until [ -e /tmp/go ]; do sleep .05; done; seq 5001 10000; exit 77"),
                         &options, &exec, NULL) ||
            write(p[1], sandbox_exec_get_id(exec), SANDBOX_ID_LENGTH) != SANDBOX_ID_LENGTH)
            _exit(1);
        for (;;)
            pause();
    }
    close(p[1]);
    ck_assert_int_eq(read(p[0], id, SANDBOX_ID_LENGTH), SANDBOX_ID_LENGTH);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    close(p[0]);
    sbtest_ok(sandbox_exec_open(sandbox, id, &exec, &error), &error);
    sbtest_fails(sandbox_exec_wait(exec, 100, &result, &error), SANDBOX_ETIMEDOUT, &error);
    for (long until = box_now() + sbtest_slowly(10000); box_now() < until; usleep(20000)) {
        text = text_from(exec, 0, 0);
        n = strlen(text);
        free(text);
        if (n == 23893)
            break;
    }
    ck_assert_uint_eq(n, 23893); /* seq 1 5000 */
    ck_assert_int_eq(box_code(sandbox, NULL, "touch /tmp/go"), 0);
    text = text_from(exec, 23893, 1);
    ck_assert_int_eq(strncmp(text, "5001\n5002\n", 10), 0);
    ck_assert_uint_eq(strlen(text), 25001);
    free(text);
    sbtest_ok(sandbox_exec_wait(exec, 10000, &result, &error), &error);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_EXITED);
    ck_assert_int_eq(result.code, 77);
    sandbox_exec_unref(exec);
    /* and with the sandbox stopped, by another handle of the host */
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    sbtest_ok(sandbox_exec_open(sandbox, id, &exec, &error), &error);
    sbtest_ok(sandbox_exec_wait(exec, 0, &result, &error), &error);
    ck_assert_int_eq(result.code, 77);
    text = text_from(exec, 23893 + 25001 - 6, 0);
    snprintf(expected, sizeof expected, "10000\n");
    ck_assert_str_eq(text, expected);
    free(text);
    sandbox_exec_unref(exec);
}
END_TEST

/* A connection that breaks with the command under way is a loss, never a code. */
START_TEST(exec_f11_lost)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_exec *exec = NULL, *other = NULL;

    sandbox = start_detached();
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sleep", "60"), NULL, &exec, &error), &error);
    sbtest_ok(sandbox_exec_open(sandbox, sandbox_exec_get_id(exec), &other, &error), &error);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    for (int i = 0; i < 2; i++) {
        sbtest_ok(sandbox_exec_wait(i ? other : exec, 10000, &result, &error), &error);
        ck_assert_int_eq(result.kind, SANDBOX_EXEC_LOST);
        ck_assert_int_eq(result.code, -1);
        ck_assert_int_eq(result.signal, 0);
    }
    sandbox_exec_unref(exec);
    sandbox_exec_unref(other);
}
END_TEST

/* A grandchild that keeps the output open holds up neither the exec nor who follows its journal. */
START_TEST(exec_f07_journal)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_exec *exec = NULL;
    long begun = box_now();
    char *text;

    sandbox = start_detached();
    options.journal_max = 65536;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/guest/bombs", "fdhold", "20"), &options, &exec, &error), &error);
    text = text_from(exec, 0, 1);
    ck_assert_str_eq(text, "ready\n");
    free(text);
    sbtest_ok(sandbox_exec_wait(exec, sbtest_slowly(5000), &result, &error), &error);
    ck_assert_int_eq(result.code, 7);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(10000));
    sandbox_exec_unref(exec);
}
END_TEST

/* Nobody holds a handle, nobody is connected, no time was given: it runs on. */
START_TEST(exec_f10)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;
    char id[SANDBOX_ID_LENGTH + 1];

    ck_assert_int_eq(options.deadline_ms, 0);
    sandbox = start_detached();
    options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sleep", "600"), &options, &exec, &error), &error);
    snprintf(id, sizeof id, "%s", sandbox_exec_get_id(exec));
    exec = sandbox_exec_unref(exec);
    host = sandbox_host_unref(host);
    usleep(1500000);
    host = box_host();
    sbtest_ok(sandbox_exec_open(sandbox, id, &exec, &error), &error);
    sbtest_fails(sandbox_exec_wait(exec, 0, &result, &error), SANDBOX_ETIMEDOUT, &error);
    sbtest_ok(sandbox_exec_kill(exec, SIGKILL, 0, &error), &error);
    sbtest_ok(sandbox_exec_wait(exec, sbtest_slowly(5000), &result, &error), &error);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_KILLED);
    sandbox_exec_unref(exec);
}
END_TEST

/* A start that fails leaves a sandbox whose log can be read, which can be started again and deleted. */
START_TEST(lifecycle_f32_log)
{
    struct sandbox_spec *spec = box_spec();
    char *text;

    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/no/such/program"), &error), &error);
    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    for (int again = 0; again < 2; again++) {
        sbtest_fails(sandbox_start(sandbox, 10000, &error), SANDBOX_ENOTFOUND, &error);
        text = text_from(NULL, 0, 1);
        ck_assert_str_eq(text, "");
        free(text);
        sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
        sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    }
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sbtest_fails(sandbox_log_wait(sandbox, "x", 1, 0, 0, NULL, &error), SANDBOX_ENOTFOUND, &error);
}
END_TEST

/* A daemon that fails on its way to being ready: the error says in which step, with what code, and the end of what it said. */
START_TEST(lifecycle_f37_tail)
{
    static const char script[] = "for i in $(seq 1 2000); do echo step $i; done; echo 'cannot open /etc/store' >&2; exit 78";
    struct sandbox_spec *spec = box_spec();
    long begun;
    int r;

    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", script), &error), &error);
    sandbox = box_start(host, spec);
    begun = box_now();
    r = sandbox_log_wait(sandbox, "listening on", 12, 0, 60000, NULL, &error);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(10000));
    ck_assert_int_eq(r, SANDBOX_ENOTRUNNING);
    ck_assert_str_eq(sandbox_error_get_phase(error), "marker");
    ck_assert_ptr_nonnull(strstr(sandbox_error_get_message(error), "exited with 78"));
    ck_assert_ptr_nonnull(strstr(sandbox_error_get_hint(error), "cannot open /etc/store"));
    ck_assert_uint_lt(strlen(sandbox_error_get_hint(error)), 1024);
    error = sandbox_error_unref(error);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("field-logs");
    TCase *tc = sbtest_case("logs");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, exec_f11);
    tcase_add_test(tc, exec_f11_lost);
    tcase_add_test(tc, exec_f07_journal);
    tcase_add_test(tc, exec_f10);
    tcase_add_test(tc, lifecycle_f32_log);
    tcase_add_test(tc, lifecycle_f37_tail);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
