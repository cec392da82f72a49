/* SPDX-License-Identifier: Apache-2.0
 * Execs: descriptors, waiting, killing. */
#include "fake.h"

#include <sbtest.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rules.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;

static void begin(void)
{
    fake_reset();
    host = fake_host();
    sandbox = fake_sandbox(host);
}

static void end(void)
{
    sandbox = sandbox_unref(sandbox);
    host = sandbox_host_unref(host);
}

static struct sandbox_exec *shell(const char *script, const struct sandbox_exec_options *options)
{
    const char *const argv[] = { "/bin/sh", "-c", script, NULL };
    struct sandbox_error *error = NULL;
    struct sandbox_exec *exec = NULL;

    sbtest_ok(sandbox_exec(sandbox, argv, options, &exec, &error), &error);
    return exec;
}

static int code_of(struct sandbox_exec *exec)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_error *error = NULL;

    sbtest_ok(sandbox_exec_wait(exec, 10000, &result, &error), &error);
    return result.code;
}

/* All that comes until the end. */
static void expect_text(int fd, const char *expected)
{
    char text[4096];
    size_t have = 0;
    ssize_t n;

    while (have < sizeof text - 1 && (n = read(fd, text + have, sizeof text - 1 - have)) > 0)
        have += (size_t)n;
    text[have] = 0;
    ck_assert_str_eq(text, expected);
    close(fd);
}

START_TEST(the_default_is_null_and_two_pipes)
{
    struct sandbox_error *error = NULL;
    struct sandbox_exec *exec = shell("cat; echo out; echo err >&2; exit 7", NULL);
    int out = -1, err = -1, in = -1;

    ck_assert_int_eq(fake.request_null, 1);
    sbtest_fails(sandbox_exec_take_stdin(exec, &in, &error), SANDBOX_EINVALID, &error);
    sbtest_ok(sandbox_exec_take_stdout(exec, &out, &error), &error);
    sbtest_ok(sandbox_exec_take_stderr(exec, &err, &error), &error);
    sbtest_fails(sandbox_exec_take_stdout(exec, &out, &error), SANDBOX_EINVALID, &error); /* once */
    ck_assert_int_eq(fcntl(out, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(fcntl(out, F_GETFL) & O_NONBLOCK, 0);
    expect_text(out, "out\n");
    expect_text(err, "err\n");
    ck_assert_int_eq(code_of(exec), 7);
    ck_assert_int_eq(sb_id_valid(sandbox_exec_get_id(exec)), 1);
    ck_assert_str_eq(sandbox_exec_get_id(exec), fake.request.id);
    ck_assert_ptr_null(sandbox_exec_unref(exec));
    ck_assert_int_eq(atomic_load(&fake.exec_frees), 1);
}
END_TEST

START_TEST(a_stdin_pipe_ends_when_it_is_closed)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_exec *exec;
    int in = -1, out = -1;

    options.stdin_fd = SANDBOX_STDIO_PIPE;
    options.stderr_fd = SANDBOX_STDIO_NULL;
    exec = shell("cat", &options);
    ck_assert_int_eq(fake.request_null, 4);
    sbtest_ok(sandbox_exec_take_stdin(exec, &in, &error), &error);
    sbtest_ok(sandbox_exec_take_stdout(exec, &out, &error), &error);
    ck_assert_int_eq(write(in, "hello", 5), 5);
    close(in);
    expect_text(out, "hello");
    ck_assert_int_eq(code_of(exec), 0);
    sandbox_exec_unref(exec);
}
END_TEST

START_TEST(callers_descriptors_are_borrowed)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec;
    struct sandbox_error *error = NULL;
    char path[400];
    int file, pair[2], flags, fd = -1;

    snprintf(path, sizeof path, "%s/file", sbtest_dir());
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, "from a file\n", 12), 12);
    ck_assert_int_eq(lseek(file, 0, SEEK_SET), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    flags = fcntl(pair[0], F_GETFL);
    options.stdin_fd = file;
    options.stdout_fd = options.stderr_fd = pair[0]; /* one description for both: 2>&1 */
    exec = shell("cat; echo e >&2", &options);
    ck_assert_int_eq(fake.request.fds[0], file);
    ck_assert_int_eq(code_of(exec), 0);
    ck_assert_int_eq(fcntl(pair[0], F_GETFL), flags);
    sbtest_fails(sandbox_exec_take_stdout(exec, &fd, &error), SANDBOX_EINVALID, &error);
    sandbox_exec_unref(exec);
    close(pair[0]);
    expect_text(pair[1], "from a file\ne\n");
    ck_assert_int_eq(close(file), 0); /* it was never closed by the library */
}
END_TEST

START_TEST(bad_descriptors_are_refused)
{
    static const char *const argv[] = { "/bin/true", NULL };
    struct sandbox_error *error = NULL;
    struct sandbox_exec *exec = NULL;
    int readable = open("/dev/null", O_RDONLY | O_CLOEXEC), writable = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), path = open("/dev/null", O_PATH | O_CLOEXEC);
    const int bad_in[] = { writable, folder, path, 1000000, -3, INT32_MIN }, bad_out[] = { readable, folder, path, 1000000, -3 };

    for (size_t i = 0; i < SB_ELEMENTS(bad_in); i++) {
        struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;

        options.stdin_fd = bad_in[i];
        ck_assert_int_eq(sandbox_exec(sandbox, argv, &options, &exec, &error), SANDBOX_EINVALID);
        ck_assert_str_eq(sandbox_error_get_field(error), "stdin_fd");
        error = sandbox_error_unref(error);
    }
    for (size_t i = 0; i < SB_ELEMENTS(bad_out); i++) {
        struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;

        options.stderr_fd = bad_out[i];
        ck_assert_int_eq(sandbox_exec(sandbox, argv, &options, &exec, &error), SANDBOX_EINVALID);
        ck_assert_str_eq(sandbox_error_get_field(error), "stderr_fd");
        error = sandbox_error_unref(error);
    }
    close(readable);
    close(writable);
    close(folder);
    close(path);
}
END_TEST

START_TEST(options_reach_the_driver)
{
    static const char *const env[] = { "A=1", "B=", NULL };
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec;

    options.user = "1000:1000";
    options.workdir = "/tmp";
    options.env = env;
    options.deadline_ms = 12345;
    exec = shell("exit 0", &options);
    ck_assert_ptr_eq(fake.request.user, options.user);
    ck_assert_ptr_eq(fake.request.workdir, options.workdir);
    ck_assert_ptr_eq(fake.request.env, env);
    ck_assert_int_eq(fake.request.deadline_ms, 12345);
    ck_assert_int_eq(code_of(exec), 0);
    sandbox_exec_unref(exec);
}
END_TEST

START_TEST(options_are_checked)
{
    static const char *const argv[] = { "/bin/true", NULL }, *const empty[] = { NULL }, *const unnamed[] = { "", NULL };
    static const char *const bad_env[] = { "A", NULL }, *const nameless[] = { "=x", NULL };
    SB_FREE const char **many = calloc(SB_ENV_MAX + 2, sizeof *many);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_exec *exec = NULL;

#define BAD(arguments, code, name)                                                                                               \
    ck_assert_int_eq(sandbox_exec(sandbox, arguments, &options, &exec, &error), code);                                             \
    ck_assert_str_eq(sandbox_error_get_field(error), name);                                                                        \
    error = sandbox_error_unref(error);                                                                                           \
    options = (struct sandbox_exec_options)SANDBOX_EXEC_OPTIONS_INIT
    BAD(NULL, SANDBOX_EINVALID, "argv");
    BAD(empty, SANDBOX_EINVALID, "argv");
    BAD(unnamed, SANDBOX_EINVALID, "argv");
    options.user = "a:b:c";
    BAD(argv, SANDBOX_EINVALID, "user");
    options.workdir = "tmp";
    BAD(argv, SANDBOX_EINVALID, "workdir");
    options.env = bad_env;
    BAD(argv, SANDBOX_EINVALID, "env");
    options.env = nameless;
    BAD(argv, SANDBOX_EINVALID, "env");
    for (int i = 0; i <= SB_ENV_MAX; i++)
        many[i] = "A=1";
    options.env = many;
    BAD(argv, SANDBOX_ELIMIT, "env");
    options.deadline_ms = -1;
    BAD(argv, SANDBOX_EINVALID, "deadline_ms");
    fake.refuses = SANDBOX_ENOTFOUND;
    BAD(argv, SANDBOX_ENOTFOUND, "argv");
#undef BAD
    ck_assert_ptr_null(exec);
}
END_TEST

START_TEST(waiting_polls_and_repeats)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT, odd = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_exec *exec;
    int in = -1, fd;

    options.stdin_fd = SANDBOX_STDIO_PIPE;
    exec = shell("read line; exit 3", &options);
    fd = sandbox_exec_get_fd(exec);
    ck_assert_int_eq(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0), 0);
    sbtest_fails(sandbox_exec_wait(exec, 0, &result, &error), SANDBOX_ETIMEDOUT, &error);
    sbtest_fails(sandbox_exec_wait(exec, 30, &result, &error), SANDBOX_ETIMEDOUT, &error);
    sbtest_fails(sandbox_exec_wait(exec, -2, &result, &error), SANDBOX_EINVALID, &error);
    odd.size = 3;
    sbtest_fails(sandbox_exec_wait(exec, 0, &odd, &error), SANDBOX_EINVALID, &error);
    ck_assert_int_eq(result.kind, 0);
    sbtest_ok(sandbox_exec_take_stdin(exec, &in, &error), &error);
    close(in);
    ck_assert_int_eq(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 10000), 1);
    sbtest_ok(sandbox_exec_wait(exec, 0, &result, &error), &error);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_EXITED);
    ck_assert_int_eq(result.code, 3);
    ck_assert_int_eq(result.signal, 0);
    ck_assert_int_eq(result.max_rss, 4096);
    ck_assert_uint_eq(result.size, sizeof result);
    ck_assert_int_eq(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0), 1);
    sbtest_ok(sandbox_exec_wait(exec, -1, NULL, &error), &error);
    ck_assert_int_eq(code_of(exec), 3);
    sandbox_exec_unref(exec);
}
END_TEST

START_TEST(signals_are_passed_and_checked)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_exec *exec = shell("exec sleep 60", NULL);

    sbtest_fails(sandbox_exec_kill(exec, 0, 0, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_kill(exec, 65, 0, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_kill(exec, 9, 2, &error), SANDBOX_EINVALID, &error);
    sbtest_ok(sandbox_exec_kill(exec, SIGKILL, SANDBOX_KILL_DESCENDANTS, &error), &error);
    ck_assert_str_eq(fake.called, "kill 9 1");
    sbtest_ok(sandbox_exec_wait(exec, 10000, &result, &error), &error);
    ck_assert_int_eq(result.signal, SIGKILL);
    ck_assert_int_eq(result.code, -1);
    sbtest_ok(sandbox_exec_kill(exec, SIGKILL, 0, &error), &error);
    sandbox_exec_unref(exec);
}
END_TEST

struct waiter {
    pthread_t thread;
    struct sandbox_exec *exec;
    int result;
    int code;
};

static void *wait_thread(void *argument)
{
    struct waiter *w = argument;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;

    w->result = sandbox_exec_wait(w->exec, -1, &result, NULL);
    w->code = result.code;
    return NULL;
}

START_TEST(several_may_wait)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec;
    struct waiter waiters[8];
    int in = -1;

    options.stdin_fd = SANDBOX_STDIO_PIPE;
    exec = shell("read line; exit 5", &options);
    for (int i = 0; i < 8; i++) {
        waiters[i].exec = exec;
        ck_assert_int_eq(pthread_create(&waiters[i].thread, NULL, wait_thread, &waiters[i]), 0);
    }
    usleep(20000);
    ck_assert_int_eq(sandbox_exec_take_stdin(exec, &in, NULL), 0);
    close(in);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(pthread_join(waiters[i].thread, NULL), 0);
        ck_assert_int_eq(waiters[i].result, 0);
        ck_assert_int_eq(waiters[i].code, 5);
    }
    sandbox_exec_unref(exec);
}
END_TEST

START_TEST(a_close_wakes_them)
{
    struct sandbox_exec *exec = sandbox_exec_ref(shell("exec sleep 60", NULL));
    struct waiter waiter = { .exec = exec };

    ck_assert_int_eq(pthread_create(&waiter.thread, NULL, wait_thread, &waiter), 0);
    usleep(20000);
    ck_assert_int_eq(sandbox_host_close(host, NULL), 0);
    ck_assert_int_eq(pthread_join(waiter.thread, NULL), 0);
    ck_assert_int_eq(waiter.result, SANDBOX_ECLOSED);
    sandbox_exec_unref(exec);
    sandbox_exec_unref(exec);
    ck_assert_ptr_null(sandbox_exec_unref(NULL));
    ck_assert_ptr_null(sandbox_exec_ref(NULL));
}
END_TEST

START_TEST(no_descriptors_left_is_an_error)
{
    static const char *const argv[] = { "/bin/true", NULL };
    struct sandbox_error *error = NULL;
    struct sandbox_exec *exec = NULL;
    struct rlimit limit;
    int fds[100], n = 0;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 100;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (n < 100 && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        n++;
    for (int spare = 0; spare < 6; spare++) {
        ck_assert_int_eq(sandbox_exec(sandbox, argv, NULL, &exec, &error), SANDBOX_ELIMIT);
        ck_assert_int_eq(sandbox_error_get_retryable(error), 1);
        error = sandbox_error_unref(error);
        close(fds[--n]);
    }
    while (n > 0)
        close(fds[--n]);
    sbtest_ok(sandbox_exec(sandbox, argv, NULL, &exec, &error), &error);
    ck_assert_int_eq(code_of(exec), 0);
    sandbox_exec_unref(exec);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api-exec");
    TCase *tc = sbtest_case("exec");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, the_default_is_null_and_two_pipes);
    tcase_add_test(tc, a_stdin_pipe_ends_when_it_is_closed);
    tcase_add_test(tc, callers_descriptors_are_borrowed);
    tcase_add_test(tc, bad_descriptors_are_refused);
    tcase_add_test(tc, options_reach_the_driver);
    tcase_add_test(tc, options_are_checked);
    tcase_add_test(tc, waiting_polls_and_repeats);
    tcase_add_test(tc, signals_are_passed_and_checked);
    tcase_add_test(tc, several_may_wait);
    tcase_add_test(tc, a_close_wakes_them);
    tcase_add_test(tc, no_descriptors_left_is_an_error);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
