/* SPDX-License-Identifier: Apache-2.0
 * Pausing real sandboxes: what is halted, what goes on, and what ends all the same. */
#include "life.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- pause ---- */

START_TEST(pause_halts_everything)
{
    struct sandbox_exec *exec = NULL;
    struct sandbox_list *list = NULL;
    char *text = NULL;
    size_t size;
    long before;

    life_daemon_is(TICKS);
    life_watch();
    life_start();
    life_await_log("tick\ntick\n");
    for (int i = 0; i < 2; i++) { /* also of a paused one */
        life_pause_it();
        if (!i)
            life_expect_event(SANDBOX_EVENT_PAUSED);
    }
    life_nap(50); /* what the pipe had is in the log now */
    before = life_log_bytes();
    life_nap(200);
    ck_assert_int_eq(life_log_bytes(), before);
    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    ck_assert_int_eq(sandbox_info_get_state(sandbox_list_get(list, 0)), SANDBOX_STATE_PAUSED);
    sandbox_list_unref(list);
    sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("/bin/true"), NULL, &exec, &error), SANDBOX_EPAUSED, &error);
    sbtest_fails(sandbox_start(sandbox, 5000, &error), SANDBOX_EPAUSED, &error);
    sbtest_ok(sandbox_file_write(sandbox, "/tmp/while", "paused", 6, NULL, 5000, &error), &error);
    sbtest_ok(sandbox_file_read(sandbox, "/tmp/while", 0, 100, 5000, &text, &size, &error), &error);
    ck_assert_str_eq(text, "paused");
    sandbox_buffer_free(text);
    life_resume_it();
    life_resume_it();
    life_expect_event(SANDBOX_EVENT_RESUMED);
    for (long until = box_now() + sbtest_slowly(10000); life_log_bytes() == before; life_nap(20))
        ck_assert(box_now() < until);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 3"), 3);
}
END_TEST

/* From another process, whose end changes nothing. */
START_TEST(pause_outlives_its_caller)
{
    const char *id;
    pid_t child;
    int status;

    life_daemon_is(TICKS);
    life_start();
    id = sandbox_get_id(sandbox);
    child = fork();
    if (child == 0) {
        struct sandbox_host *other = box_host();
        struct sandbox *same = NULL;

        _exit(sandbox_open(other, id, &same, NULL) || sandbox_pause(same, 10000, NULL));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_PAUSED);
    life_resume_it();
}
END_TEST

START_TEST(pause_keeps_output_that_waits)
{
    struct sandbox_exec *exec;
    struct sandbox_output output = SANDBOX_OUTPUT_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_communicate_options options = SANDBOX_COMMUNICATE_OPTIONS_INIT;

    life_start();
    exec = life_begin("i=0; while [ $i -lt 30000 ]; do echo line-$i; i=$((i+1)); done; exit 5", SANDBOX_STDIO_PIPE, 0);
    life_pause_it();
    options.timeout_ms = 300;
    sbtest_fails(sandbox_exec_communicate(exec, &options, &output, &result, &error), SANDBOX_ETIMEDOUT, &error);
    life_resume_it();
    options.timeout_ms = sbtest_slowly(20000);
    sbtest_ok(sandbox_exec_communicate(exec, &options, &output, &result, &error), &error);
    ck_assert_int_eq(result.code, 5);
    ck_assert_int_eq(output.out_size, 10 * 7 + 90 * 8 + 900 * 9 + 9000 * 10 + 20000 * 11);
    sandbox_output_clear(&output);
    sandbox_exec_unref(exec);
}
END_TEST

/* A deadline is a promise to whoever waits: it goes on. */
START_TEST(pause_deadlines_go_on)
{
    struct sandbox_exec *exec;

    life_start();
    exec = life_begin("sleep 100", SANDBOX_STDIO_NULL, 500);
    life_pause_it();
    life_expect_end(exec, SANDBOX_EXEC_DEADLINE, -1);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_PAUSED);
    life_resume_it();
}
END_TEST

START_TEST(pause_then_stop)
{
    life_daemon_is("trap 'echo in peace; exit 0' TERM; echo up; while :; do sleep 0.05; done");
    life_start();
    life_await_log("up\n");
    life_pause_it();
    sbtest_ok(sandbox_stop(sandbox, 10000, 20000, &error), &error);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_STOPPED);
    life_await_log("in peace\n");
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    life_pause_it();
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_STOPPED);
    sbtest_fails(sandbox_pause(sandbox, 5000, &error), SANDBOX_ENOTRUNNING, &error);
    sbtest_fails(sandbox_resume(sandbox, 5000, &error), SANDBOX_ENOTRUNNING, &error);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_RUNNING);
}
END_TEST

START_TEST(pause_then_delete)
{
    struct sandbox_exec *exec;

    life_daemon_is(TICKS);
    life_start();
    exec = life_begin("sleep 100", SANDBOX_STDIO_NULL, 0);
    life_pause_it();
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    life_expect_end(exec, SANDBOX_EXEC_LOST, -1);
    sandbox = sandbox_unref(sandbox);
}
END_TEST

START_TEST(pause_of_what_was_not_started)
{
    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sbtest_fails(sandbox_pause(sandbox, 5000, &error), SANDBOX_ENOTRUNNING, &error);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_CREATED);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sbtest_fails(sandbox_pause(sandbox, 5000, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_fails(sandbox_extend(sandbox, 1000, 5000, &error), SANDBOX_ENOTFOUND, &error);
}
END_TEST

/* Nothing inside can let itself go on, whatever it does all the time: it forks, signals everybody, ignores what can be ignored. */
START_TEST(pause_of_the_unruly)
{
    long before, after;
    struct sandbox_exec *exec;

    life_daemon_is("trap '' TERM HUP TSTP TTIN TTOU CONT; (while :; do kill -CONT -1; done) 2>/dev/null & (while :; do /bin/true; done) & " TICKS);
    life_start();
    life_await_log("tick\n");
    exec = life_begin("while :; do kill -CONT -1 2>/dev/null; done", SANDBOX_STDIO_NULL, 0);
    life_pause_it();
    life_nap(100);
    before = life_log_bytes();
    life_nap(300);
    after = life_log_bytes();
    ck_assert_int_eq(before, after);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    life_expect_end(exec, SANDBOX_EXEC_LOST, -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pause");
    TCase *tc = life_case(suite, "pause");

    tcase_add_test(tc, pause_halts_everything);
    tcase_add_test(tc, pause_outlives_its_caller);
    tcase_add_test(tc, pause_keeps_output_that_waits);
    tcase_add_test(tc, pause_deadlines_go_on);
    tcase_add_test(tc, pause_then_stop);
    tcase_add_test(tc, pause_then_delete);
    tcase_add_test(tc, pause_of_what_was_not_started);
    tcase_add_test(tc, pause_of_the_unruly);
    return box_main(suite);
}
