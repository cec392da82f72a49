/* SPDX-License-Identifier: Apache-2.0
 * sandbox_exec_communicate(): both ways at once, limits, patience, and the host program's signals left alone. */
#include "fake.h"

#include <sbtest.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_exec *exec;
static struct sandbox_output output;
static struct sandbox_exec_result result;
static struct sandbox_communicate_options options;

static void begin(void)
{
    fake_reset();
    host = fake_host();
    sandbox = fake_sandbox(host);
    output = (struct sandbox_output)SANDBOX_OUTPUT_INIT;
    result = (struct sandbox_exec_result)SANDBOX_EXEC_RESULT_INIT;
    options = (struct sandbox_communicate_options)SANDBOX_COMMUNICATE_OPTIONS_INIT;
    options.timeout_ms = 20000;
}

static void end(void)
{
    if (output.err && output.err[0] >= '1' && output.err[0] <= '9') /* the script told the pid of what it left running */
        kill(atoi(output.err), SIGKILL);
    sandbox_output_clear(&output);
    exec = sandbox_exec_unref(exec);
    sandbox = sandbox_unref(sandbox);
    host = sandbox_host_unref(host);
}

static void shell(const char *script, int with_stdin)
{
    const char *const argv[] = { "/bin/sh", "-c", script, NULL };
    struct sandbox_exec_options o = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_error *error = NULL;

    if (with_stdin)
        o.stdin_fd = SANDBOX_STDIO_PIPE;
    sbtest_ok(sandbox_exec(sandbox, argv, &o, &exec, &error), &error);
}

static void talk(int expected)
{
    struct sandbox_error *error = NULL;

    sbtest_fails(sandbox_exec_communicate(exec, &options, &output, &result, &error), expected, &error);
}

static char *pattern(size_t size)
{
    char *data = malloc(size + 1);

    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i * 31 + (i >> 8) + (i >> 16));
    return data;
}

/* F03: any size arrives whole. */
static const size_t sizes[] = { 0, 1, 65535, 65536, 65537, (4 << 20) - 1, (4 << 20) + 1, 48 << 20 };

START_TEST(input_comes_back_whole)
{
    size_t size = sizes[_i];
    SB_FREE char *data = pattern(size);

    shell("cat", 1);
    options.input = data;
    options.input_size = size;
    talk(0);
    ck_assert_uint_eq(output.out_size, size);
    ck_assert_int_eq(memcmp(output.out, data, size), 0);
    ck_assert_int_eq(output.out[size], 0);
    ck_assert_uint_eq(output.err_size, 0);
    ck_assert_str_eq(output.err, "");
    ck_assert_int_eq(output.out_truncated, 0);
    ck_assert_int_eq(result.code, 0);
    ck_assert_int_eq(result.pipe_held, 0);
}
END_TEST

START_TEST(both_outputs_at_once)
{
    shell("head -c 10485760 /dev/zero & head -c 10485760 /dev/zero | tr '\\0' e >&2; wait", 0);
    talk(0);
    ck_assert_uint_eq(output.out_size, 10485760);
    ck_assert_uint_eq(output.err_size, 10485760);
    for (size_t i = 0; i < output.out_size; i++)
        if (output.out[i] || output.err[i] != 'e')
            ck_abort_msg("mixed at %zu", i);
}
END_TEST

START_TEST(output_beyond_the_limit_is_dropped)
{
    shell("head -c 3000000 /dev/zero | tr '\\0' o; printf 1234 >&2", 0);
    options.max_output = 4;
    talk(0);
    ck_assert_str_eq(output.out, "oooo");
    ck_assert_int_eq(output.out_truncated, 1);
    ck_assert_str_eq(output.err, "1234"); /* as much as allowed is not too much */
    ck_assert_int_eq(output.err_truncated, 0);
    ck_assert_int_eq(result.code, 0);
}
END_TEST

static volatile sig_atomic_t sigpipes;

static void count_sigpipe(int signal)
{
    (void)signal;
    sigpipes++;
}

START_TEST(a_command_may_close_its_stdin)
{
    SB_FREE char *data = pattern(4 << 20);

    signal(SIGPIPE, count_sigpipe);
    shell("exec <&-; sleep 0.2; echo done; exit 4", 1);
    options.input = data;
    options.input_size = 4 << 20;
    talk(0);
    ck_assert_str_eq(output.out, "done\n");
    ck_assert_int_eq(result.code, 4);
    ck_assert_int_eq(sigpipes, 0);
}
END_TEST

START_TEST(a_sigpipe_of_somebody_elses_stays)
{
    SB_FREE char *data = pattern(4 << 20);
    sigset_t set, pending;

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    raise(SIGPIPE);
    shell("exec <&-; sleep 0.1", 1);
    options.input = data;
    options.input_size = 4 << 20;
    talk(0);
    sigpending(&pending);
    ck_assert_int_eq(sigismember(&pending, SIGPIPE), 1);
    signal(SIGPIPE, SIG_IGN); /* takes the pending one away */
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
END_TEST

START_TEST(an_exit_ends_the_feeding)
{
    SB_FREE char *data = pattern(4 << 20);

    /* a grandchild keeps stdin open and reads nothing: F02 */
    shell("sleep 5 >/dev/null 2>&1 <&0 & echo $! >&2; exit 6", 1);
    options.input = data;
    options.input_size = 4 << 20;
    options.timeout_ms = 4000;
    talk(0);
    ck_assert_int_eq(result.code, 6);
    ck_assert_int_eq(result.pipe_held, 0);
}
END_TEST

START_TEST(a_held_pipe_is_told)
{
    int64_t before = sb_now_ms();

    shell("echo before; sleep 5 & echo $! >&2; exit 0", 0); /* F07 */
    options.drain_ms = 100;
    talk(0);
    ck_assert_int_ge(sb_now_ms() - before, 99);
    ck_assert_int_lt(sb_now_ms() - before, 4000);
    ck_assert_str_eq(output.out, "before\n");
    ck_assert_int_eq(result.pipe_held, 1);
    ck_assert_int_eq(result.code, 0);
}
END_TEST

START_TEST(a_flood_after_the_exit_ends)
{
    shell("yes & echo $! >&2; exit 0", 0);
    options.drain_ms = 50;
    options.max_output = 100;
    talk(0);
    ck_assert_int_eq(result.pipe_held, 1);
    ck_assert_int_eq(output.out_truncated, 1);
    ck_assert_uint_eq(output.out_size, 100);
}
END_TEST

START_TEST(no_patience_still_gets_all_that_was_written)
{
    shell("head -c 60000 /dev/zero; sleep 5 & echo $! >&2; exit 0", 0);
    ck_assert_int_eq(sandbox_exec_wait(exec, 10000, NULL, NULL), 0);
    options.drain_ms = 0;
    talk(0);
    ck_assert_uint_eq(output.out_size, 60000);
    ck_assert_int_eq(result.pipe_held, 1);
}
END_TEST

START_TEST(a_timeout_can_be_continued)
{
    SB_FREE char *data = pattern(1 << 20);

    /* reads nothing until told to by the clock: the rest of the input must be kept for the second call */
    shell("echo first; sleep 0.4; cat; echo second >&2", 1);
    options.input = data;
    options.input_size = 1 << 20;
    options.timeout_ms = 150;
    talk(SANDBOX_ETIMEDOUT);
    ck_assert_str_eq(output.out, "first\n");
    memset(data, 0, 1 << 20); /* the caller's buffer is free */
    free(SB_TAKE_PTR(data));
    data = pattern(1 << 20);
    sandbox_output_clear(&output);
    ck_assert_ptr_null(output.out);
    ck_assert_uint_eq(output.size, sizeof output);
    options.timeout_ms = 20000;
    options.input = "again"; /* not repeated, not replaced */
    options.input_size = 5;
    talk(0);
    ck_assert_uint_eq(output.out_size, 1 << 20);
    ck_assert_int_eq(memcmp(output.out, data, 1 << 20), 0);
    ck_assert_str_eq(output.err, "second\n");
}
END_TEST

START_TEST(a_second_call_can_append)
{
    shell("printf one; sleep 0.3; printf two", 0);
    options.timeout_ms = 100;
    talk(SANDBOX_ETIMEDOUT);
    ck_assert_str_eq(output.out, "one");
    options.timeout_ms = 20000;
    talk(0);
    ck_assert_str_eq(output.out, "onetwo");
    talk(0); /* nothing more, and the same result */
    ck_assert_str_eq(output.out, "onetwo");
    ck_assert_int_eq(result.code, 0);
}
END_TEST

START_TEST(a_poll_does_what_can_be_done)
{
    shell("cat", 1);
    options.input = "abc";
    options.input_size = 3;
    options.timeout_ms = 0;
    for (int i = 0; i < 1000; i++) {
        struct sandbox_error *error = NULL;
        int r = sandbox_exec_communicate(exec, &options, &output, &result, &error);

        sandbox_error_unref(error);
        if (r == 0)
            break;
        ck_assert_int_eq(r, SANDBOX_ETIMEDOUT);
        usleep(10000);
    }
    ck_assert_str_eq(output.out, "abc");
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_EXITED);
}
END_TEST

START_TEST(taken_streams_are_the_callers)
{
    struct sandbox_error *error = NULL;
    int in = -1, fd = -1;

    shell("cat; echo e >&2", 1);
    ck_assert_int_eq(sandbox_exec_take_stdin(exec, &in, NULL), 0);
    options.input = "x";
    options.input_size = 1;
    ck_assert_int_eq(sandbox_exec_communicate(exec, &options, &output, &result, &error), SANDBOX_EINVALID);
    ck_assert_str_eq(sandbox_error_get_field(error), "input");
    error = sandbox_error_unref(error);
    ck_assert_int_eq(sandbox_exec_take_stdout(exec, &fd, NULL), 0);
    close(fd);
    close(in);
    options.input_size = 0;
    talk(0);
    ck_assert_ptr_null(output.out); /* not a pipe of ours */
    ck_assert_str_eq(output.err, "e\n");
    sbtest_fails(sandbox_exec_take_stderr(exec, &fd, &error), SANDBOX_EINVALID, &error);
}
END_TEST

START_TEST(arguments_are_checked)
{
    struct sandbox_error *error = NULL;

    shell("exit 0", 0);
#define BAD(name)                                                                                                                \
    ck_assert_int_eq(sandbox_exec_communicate(exec, &options, &output, &result, &error), SANDBOX_EINVALID);                        \
    ck_assert_str_eq(sandbox_error_get_field(error), name);                                                                        \
    error = sandbox_error_unref(error)
    options.timeout_ms = -2;
    BAD("timeout_ms");
    options.timeout_ms = -1;
    options.drain_ms = -2;
    BAD("drain_ms");
    options.drain_ms = 500;
    options.input_size = 1;
    BAD("input");
    options.input = "x";
    BAD("input"); /* stdin is /dev/null */
    options.input_size = 0;
    options.size = 0;
    BAD("size");
    options.size = sizeof options;
    output.size = 0;
    BAD("size");
    output.size = sizeof output;
    result.size = 0;
    BAD("size");
    result.size = sizeof result;
#undef BAD
    sbtest_fails(sandbox_exec_communicate(exec, &options, NULL, &result, &error), SANDBOX_EINVALID, &error);
    sbtest_ok(sandbox_exec_communicate(exec, NULL, &output, NULL, &error), &error);
    sandbox_output_clear(NULL);
}
END_TEST

struct talker {
    pthread_t thread;
    int result;
    struct sandbox_output output;
};

static void *talk_thread(void *argument)
{
    struct talker *t = argument;

    t->result = sandbox_exec_communicate(exec, NULL, &t->output, NULL, NULL);
    return NULL;
}

START_TEST(one_at_a_time)
{
    struct talker talker = { .output = SANDBOX_OUTPUT_INIT };

    shell("sleep 0.3; echo x", 0);
    ck_assert_int_eq(pthread_create(&talker.thread, NULL, talk_thread, &talker), 0);
    usleep(100000);
    talk(SANDBOX_EBUSY);
    ck_assert_int_eq(pthread_join(talker.thread, NULL), 0);
    ck_assert_int_eq(talker.result, 0);
    ck_assert_str_eq(talker.output.out, "x\n");
    sandbox_output_clear(&talker.output);
}
END_TEST

START_TEST(a_close_wakes_it)
{
    struct talker talker = { .output = SANDBOX_OUTPUT_INIT };

    shell("echo x; exec sleep 60", 0);
    ck_assert_int_eq(pthread_create(&talker.thread, NULL, talk_thread, &talker), 0);
    usleep(200000);
    ck_assert_int_eq(sandbox_host_close(host, NULL), 0);
    ck_assert_int_eq(pthread_join(talker.thread, NULL), 0);
    ck_assert_int_eq(talker.result, SANDBOX_ECLOSED);
    ck_assert_str_eq(talker.output.out, "x\n");
    sandbox_output_clear(&talker.output);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api-communicate");
    TCase *tc = sbtest_case("communicate");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_loop_test(tc, input_comes_back_whole, 0, (int)SB_ELEMENTS(sizes));
    tcase_add_test(tc, both_outputs_at_once);
    tcase_add_test(tc, output_beyond_the_limit_is_dropped);
    tcase_add_test(tc, a_command_may_close_its_stdin);
    tcase_add_test(tc, a_sigpipe_of_somebody_elses_stays);
    tcase_add_test(tc, an_exit_ends_the_feeding);
    tcase_add_test(tc, a_held_pipe_is_told);
    tcase_add_test(tc, a_flood_after_the_exit_ends);
    tcase_add_test(tc, no_patience_still_gets_all_that_was_written);
    tcase_add_test(tc, a_timeout_can_be_continued);
    tcase_add_test(tc, a_second_call_can_append);
    tcase_add_test(tc, a_poll_does_what_can_be_done);
    tcase_add_test(tc, taken_streams_are_the_callers);
    tcase_add_test(tc, arguments_are_checked);
    tcase_add_test(tc, one_at_a_time);
    tcase_add_test(tc, a_close_wakes_it);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
