/* SPDX-License-Identifier: Apache-2.0
 * Cases from the field about commands and their streams. Each test is named after its case. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
    sandbox = box_start(host, NULL);
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static struct sandbox_exec *begin(const struct sandbox_exec_options *options, const char *const *argv)
{
    struct sandbox_exec *exec = NULL;

    sbtest_ok(sandbox_exec(sandbox, argv, options, &exec, &error), &error);
    return exec;
}

static struct sandbox_exec_result end(struct sandbox_exec *exec, int64_t timeout_ms)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;

    sbtest_ok(sandbox_exec_wait(exec, timeout_ms, &result, &error), &error);
    return result;
}

static int take(int (*taker)(struct sandbox_exec *, int *, struct sandbox_error **), struct sandbox_exec *exec)
{
    int fd = -1;

    sbtest_ok(taker(exec, &fd, &error), &error);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    ck_assert_int_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    return fd;
}

/* Waits until "ready" comes. */
static void await_ready(int fd)
{
    char line[64];
    size_t have = 0;

    while (have < sizeof line - 1 && read(fd, line + have, 1) == 1)
        if (line[have++] == '\n')
            break;
    line[have] = 0;
    ck_assert_str_eq(line, "ready\n");
}

/* How many processes live inside, beside pid 1 and the counting shell; one without a main thread counts as living. */
static int others_inside(void)
{
    char *text = box_sh(sandbox, NULL,
                        "n=0; for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = 1 ] || [ $p = $$ ] || "
                        "! grep -qs '^State:.[^ZX]' /proc/$p/task/*/status || n=$((n+1)); done; echo $n");
    int n = atoi(text);

    free(text);
    return n;
}

START_TEST(exec_f01)
{
    struct box_run run;
    long begun = box_now();

    box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("cat"));
    ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_EXITED);
    ck_assert_int_eq(run.result.code, 0);
    ck_assert_uint_eq(run.output.out_size, 0);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(2000));
    box_clear(&run);
    box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("readlink", "/proc/self/fd/0"));
    ck_assert_str_eq(run.output.out, "/dev/null\n");
    box_clear(&run);
}
END_TEST

START_TEST(exec_f02)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec;
    struct sandbox_exec_result result;
    int in;

    options.stdin_fd = SANDBOX_STDIO_PIPE;
    exec = begin(&options, BOX_ARGV("sh", "-c", "exit 9"));
    in = take(sandbox_exec_take_stdin, exec); /* and stays open */
    result = end(exec, 5000);
    ck_assert_int_eq(result.code, 9);
    close(in);
    sandbox_exec_unref(exec);
}
END_TEST

/* Counted and summed, so that nothing is swapped or missing. */
static uint64_t sum(const unsigned char *data, size_t size)
{
    uint64_t h = 1469598103934665603u;

    for (size_t i = 0; i < size; i++)
        h = (h ^ data[i]) * 1099511628211u;
    return h;
}

START_TEST(exec_f03)
{
    static const size_t sizes[] = { 0, 1, 65535, 65536, 65537, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, 64 << 20 };
    size_t size = sizes[_i];
    unsigned char *data = malloc(size + 1);
    struct box_run run;

    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < size; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    box_run(sandbox, NULL, data, size, &run, BOX_ARGV("cat"));
    ck_assert_int_eq(run.result.code, 0);
    ck_assert_uint_eq(run.output.out_size, size);
    ck_assert_uint_eq(sum((unsigned char *)run.output.out, size), sum(data, size));
    box_clear(&run);
    free(data);
}
END_TEST

START_TEST(exec_f04)
{
    static char megabytes[4 << 20];
    struct box_run run;

    /* the default action of SIGPIPE would end this test */
    signal(SIGPIPE, SIG_DFL);
    box_run(sandbox, NULL, megabytes, sizeof megabytes, &run, BOX_ARGV("/guest/bombs", "closein"));
    ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_EXITED);
    ck_assert_int_eq(run.result.code, 5);
    box_clear(&run);
}
END_TEST

START_TEST(exec_f05)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec;
    int in, out;
    char byte;
    long begun;

    options.stdin_fd = SANDBOX_STDIO_PIPE;
    exec = begin(&options, BOX_ARGV("cat"));
    in = take(sandbox_exec_take_stdin, exec);
    out = take(sandbox_exec_take_stdout, exec);
    ck_assert_int_eq(write(in, "x", 1), 1);
    ck_assert_int_eq(read(out, &byte, 1), 1);
    begun = box_now();
    close(in);
    ck_assert_int_eq(read(out, &byte, 1), 0);
    ck_assert_int_eq(end(exec, 5000).code, 0);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(100));
    close(out);
    sandbox_exec_unref(exec);
}
END_TEST

static size_t read_all(int fd, char want)
{
    static char buffer[1 << 16];
    size_t n = 0;
    ssize_t r;

    while ((r = read(fd, buffer, sizeof buffer)) > 0) {
        for (ssize_t i = 0; i < r; i++)
            if (buffer[i] != want)
                ck_abort_msg("the streams are mixed");
        n += (size_t)r;
    }
    ck_assert_int_eq(r, 0);
    return n;
}

START_TEST(exec_f06)
{
    static const char script[] = "{ head -c 10485760 /dev/zero | tr '\\0' o; } & exec >&-; head -c 10485760 /dev/zero | tr '\\0' e >&2; wait";
    struct sandbox_exec *exec;
    struct box_run run;
    int out, err;

    box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("sh", "-c", script));
    ck_assert_uint_eq(run.output.out_size, 10485760);
    ck_assert_uint_eq(run.output.err_size, 10485760);
    for (size_t i = 0; i < run.output.out_size; i++)
        if (run.output.out[i] != 'o' || run.output.err[i] != 'e')
            ck_abort_msg("the streams are mixed");
    box_clear(&run);
    /* one after the other: the second writer just waits for its reader */
    exec = begin(NULL, BOX_ARGV("sh", "-c", script));
    out = take(sandbox_exec_take_stdout, exec);
    err = take(sandbox_exec_take_stderr, exec);
    ck_assert_uint_eq(read_all(out, 'o'), 10485760);
    ck_assert_uint_eq(read_all(err, 'e'), 10485760);
    ck_assert_int_eq(end(exec, 5000).code, 0);
    close(out);
    close(err);
    sandbox_exec_unref(exec);
}
END_TEST

START_TEST(exec_f07)
{
    struct sandbox_communicate_options options = SANDBOX_COMMUNICATE_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_output output = SANDBOX_OUTPUT_INIT;
    struct sandbox_exec *exec = begin(NULL, BOX_ARGV("/guest/bombs", "fdhold", "20"));
    long begun = box_now();

    options.timeout_ms = 10000;
    options.drain_ms = 300;
    sbtest_ok(sandbox_exec_communicate(exec, &options, &output, &result, &error), &error);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(3000));
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_EXITED);
    ck_assert_int_eq(result.code, 7);
    ck_assert_int_eq(result.pipe_held, 1);
    ck_assert_str_eq(output.out, "ready\n");
    sandbox_output_clear(&output);
    sandbox_exec_unref(exec);
    /* and where nothing holds it, it says so */
    exec = begin(NULL, BOX_ARGV("echo", "x"));
    sbtest_ok(sandbox_exec_communicate(exec, &options, &output, &result, &error), &error);
    ck_assert_int_eq(result.pipe_held, 0);
    sandbox_output_clear(&output);
    sandbox_exec_unref(exec);
}
END_TEST

/* The deadline passes; nothing that the command started may be left when its end is told. */
static void deadline_kills(const char *bomb)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec;
    struct sandbox_exec_result result;
    int before = others_inside(), out;
    long begun = box_now();

    options.deadline_ms = 700;
    exec = begin(&options, BOX_ARGV("/guest/bombs", bomb, "30"));
    out = take(sandbox_exec_take_stdout, exec);
    await_ready(out);
    ck_assert_int_gt(others_inside(), before);
    result = end(exec, 10000);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_DEADLINE);
    ck_assert_int_eq(result.code, -1);
    ck_assert_int_ge(box_now() - begun, 690);
    ck_assert_int_eq(others_inside(), before);
    close(out);
    sandbox_exec_unref(exec);
}

START_TEST(exec_f08)
{
    deadline_kills("daemonise");
}
END_TEST

/* A descendant whose main thread has ended looks like a zombie in /proc. */
START_TEST(exec_f08_leader)
{
    deadline_kills("leader");
}
END_TEST

START_TEST(exec_f08_descendants)
{
    struct sandbox_exec *exec;
    struct sandbox_exec_result result;
    int before = others_inside(), out;

    exec = begin(NULL, BOX_ARGV("/guest/bombs", _i ? "leader" : "daemonise", "30"));
    out = take(sandbox_exec_take_stdout, exec);
    await_ready(out);
    sbtest_ok(sandbox_exec_kill(exec, SIGKILL, SANDBOX_KILL_DESCENDANTS, &error), &error);
    result = end(exec, 5000);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_KILLED);
    ck_assert_int_eq(result.signal, SIGKILL);
    for (int i = 0; i < 100 && others_inside() != before; i++)
        usleep(10000);
    ck_assert_int_eq(others_inside(), before);
    close(out);
    sandbox_exec_unref(exec);
}
END_TEST

START_TEST(exec_f09)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec;
    struct sandbox_exec_result result;
    long begun = box_now();

    options.deadline_ms = 300;
    /* it would answer SIGTERM with success */
    exec = begin(&options, BOX_ARGV("sh", "-c", "trap 'exit 0' TERM INT HUP; while :; do sleep 0.05; done"));
    result = end(exec, 10000);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(3000));
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_DEADLINE);
    ck_assert_int_eq(result.code, -1);
    ck_assert_int_eq(result.signal, SIGKILL);
    sandbox_exec_unref(exec);
}
END_TEST

START_TEST(exec_f10)
{
    struct sandbox_exec *exec = begin(NULL, BOX_ARGV("sleep", "1.5"));

    sbtest_fails(sandbox_exec_wait(exec, 0, NULL, &error), SANDBOX_ETIMEDOUT, &error);
    sbtest_fails(sandbox_exec_wait(exec, 50, NULL, &error), SANDBOX_ETIMEDOUT, &error);
    ck_assert_int_eq(end(exec, 5000).code, 0);
    ck_assert_int_eq(end(exec, 0).code, 0); /* as often as wanted */
    sandbox_exec_unref(exec);
}
END_TEST

START_TEST(exec_f12)
{
    struct sandbox_exec *exec = begin(NULL, BOX_ARGV("sleep", "20"));
    long begun = box_now();
    struct pollfd p = { sandbox_exec_get_fd(exec), POLLIN, 0 };

    sbtest_fails(sandbox_exec_wait(exec, 300, NULL, &error), SANDBOX_ETIMEDOUT, &error);
    ck_assert_int_ge(box_now() - begun, 295);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(1500));
    ck_assert_int_eq(poll(&p, 1, 0), 0);
    sbtest_ok(sandbox_exec_kill(exec, SIGTERM, 0, &error), &error);
    ck_assert_int_eq(poll(&p, 1, 5000), 1);
    ck_assert_int_eq(poll(&p, 1, 0), 1); /* level-triggered */
    ck_assert_int_eq(end(exec, 0).kind, SANDBOX_EXEC_KILLED);
    sandbox_exec_unref(exec);
}
END_TEST

START_TEST(exec_f13)
{
    struct sandbox_exec *exec = NULL;
    char id[SANDBOX_ID_LENGTH + 1];
    struct sandbox *again = NULL;
    long begun;

    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    begun = box_now();
    sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("true"), NULL, &exec, &error), SANDBOX_ENOTRUNNING, &error);
    snprintf(id, sizeof id, "%s", sandbox_get_id(sandbox));
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("true"), NULL, &exec, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_fails(sandbox_open(host, id, &again, &error), SANDBOX_ENOTFOUND, &error);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(2000));
}
END_TEST

START_TEST(exec_f14)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct box_run run;

    options.user = box_user();
    options.workdir = "/tmp";
    options.env = BOX_ARGV("A=1", "B=two words", "EMPTY=", "A=3");
    options.deadline_ms = 5000;
    box_run(sandbox, &options, "in", 2, &run, BOX_ARGV("sh", "-c", "cat; echo; pwd; echo \"$A|$B|${EMPTY-unset}\"; id -u; id -g"));
    ck_assert_str_eq(run.output.out, box_user() ? "in\n/tmp\n3|two words|\n1500\n1500\n" : "in\n/tmp\n3|two words|\n0\n0\n");
    box_clear(&run);
}
END_TEST

START_TEST(exec_f15)
{
    struct sandbox_exec *stuck = begin(NULL, BOX_ARGV("sh", "-c", "trap '' TERM INT; while :; do sleep 1; done"));
    struct box_run run;
    char *text;

    box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("sh", "-c", "if then fi ((("));
    ck_assert_int_ne(run.result.code, 0);
    box_clear(&run);
    /* no shell looks at the arguments */
    box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("printf", "%s|", "$HOME", "a b", "`id`", ";", "", "*"));
    ck_assert_str_eq(run.output.out, "$HOME|a b|`id`|;||*|");
    box_clear(&run);
    text = box_sh(sandbox, NULL, "echo fine");
    ck_assert_str_eq(text, "fine");
    free(text);
    sbtest_ok(sandbox_exec_kill(stuck, SIGKILL, 0, &error), &error);
    ck_assert_int_eq(end(stuck, 5000).kind, SANDBOX_EXEC_KILLED);
    sandbox_exec_unref(stuck);
}
END_TEST

START_TEST(exec_f16)
{
    struct sandbox_exec *one = begin(NULL, BOX_ARGV("/guest/bombs", "daemonise", "30")), *two = begin(NULL, BOX_ARGV("sleep", "30"));
    int out = take(sandbox_exec_take_stdout, one), with;

    await_ready(out);
    with = others_inside();
    sbtest_ok(sandbox_exec_kill(one, SIGKILL, 0, &error), &error);
    ck_assert_int_eq(end(one, 5000).kind, SANDBOX_EXEC_KILLED);
    ck_assert_int_eq(others_inside(), with - 1); /* its daemon lives, and so does the other command */
    sbtest_fails(sandbox_exec_wait(two, 0, NULL, &error), SANDBOX_ETIMEDOUT, &error);
    sbtest_ok(sandbox_exec_kill(one, SIGKILL, 0, &error), &error); /* it had already ended: success */
    close(out);
    sandbox_exec_unref(one);
    sandbox_exec_unref(two);
}
END_TEST

static int open_descriptors(void)
{
    return box_entries("/proc/self/fd");
}

/* The mounts, descriptors and zombies of a sandbox and its host after many commands; more of them in the long suites. */
START_TEST(exec_f17)
{
    static const char look[] = "cat /proc/self/mountinfo | wc -l; ls /proc | grep -c '^[0-9]'";
    char *mounts = box_sh(sandbox, NULL, look), *after;
    int fds = open_descriptors();

    for (int i = 0; i < 500; i++) {
        struct sandbox_exec *exec = begin(NULL, BOX_ARGV("true"));

        ck_assert_int_eq(end(exec, 5000).code, 0);
        sandbox_exec_unref(exec);
    }
    ck_assert_int_eq(open_descriptors(), fds);
    after = box_sh(sandbox, NULL, look);
    for (int i = 0; i < 100 && strcmp(mounts, after) != 0; i++) { /* the last one may wait to be reaped */
        free(after);
        usleep(10000);
        after = box_sh(sandbox, NULL, look);
    }
    ck_assert_str_eq(mounts, after);
    free(mounts);
    free(after);
}
END_TEST

static long peak_kib(void)
{
    char *status = box_read("/proc/self/status"), *value = box_finding(status, "VmHWM");
    long n = value ? atol(value) : -1;

    free(status);
    free(value);
    return n;
}

START_TEST(exec_f19)
{
    struct sandbox_exec *exec = begin(NULL, BOX_ARGV("/guest/bombs", "flood"));
    static char buffer[1 << 20];
    long before = peak_kib();
    int out = take(sandbox_exec_take_stdout, exec);
    size_t got = 0;

    sleep(1); /* a reader that has stopped: the writer must stop too */
    while (got < (size_t)1 << 30) {
        ssize_t n = read(out, buffer, sizeof buffer);

        ck_assert_int_gt(n, 0);
        got += (size_t)n;
    }
    ck_assert_int_lt(peak_kib() - before, 64 * 1024);
    sbtest_ok(sandbox_exec_kill(exec, SIGKILL, 0, &error), &error);
    ck_assert_int_eq(end(exec, 5000).kind, SANDBOX_EXEC_KILLED);
    close(out);
    sandbox_exec_unref(exec);
}
END_TEST

/* communicate() keeps what it was told to keep and drops the rest, in bounded memory. */
START_TEST(exec_f19_communicate)
{
    struct sandbox_communicate_options options = SANDBOX_COMMUNICATE_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_output output = SANDBOX_OUTPUT_INIT;
    struct sandbox_exec *exec = begin(NULL, BOX_ARGV("sh", "-c", "head -c 300000000 /dev/zero; echo x >&2"));
    long before = peak_kib();

    options.max_output = 1 << 20;
    options.timeout_ms = 20000;
    sbtest_ok(sandbox_exec_communicate(exec, &options, &output, &result, &error), &error);
    ck_assert_uint_eq(output.out_size, 1 << 20);
    ck_assert_int_eq(output.out_truncated, 1);
    ck_assert_int_eq(output.err_truncated, 0);
    ck_assert_str_eq(output.err, "x\n");
    ck_assert_int_eq(result.code, 0);
    ck_assert_int_lt(peak_kib() - before, 32 * 1024);
    sandbox_output_clear(&output);
    sandbox_exec_unref(exec);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("field-exec");
    TCase *tc = sbtest_case("exec");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, exec_f01);
    tcase_add_test(tc, exec_f02);
    tcase_add_loop_test(tc, exec_f03, 0, 9);
    tcase_add_test(tc, exec_f04);
    tcase_add_test(tc, exec_f05);
    tcase_add_test(tc, exec_f06);
    tcase_add_test(tc, exec_f07);
    tcase_add_test(tc, exec_f08);
    tcase_add_test(tc, exec_f08_leader);
    tcase_add_loop_test(tc, exec_f08_descendants, 0, 2);
    tcase_add_test(tc, exec_f09);
    tcase_add_test(tc, exec_f10);
    tcase_add_test(tc, exec_f12);
    tcase_add_test(tc, exec_f13);
    tcase_add_test(tc, exec_f14);
    tcase_add_test(tc, exec_f15);
    tcase_add_test(tc, exec_f16);
    tcase_add_test(tc, exec_f17);
    tcase_add_test(tc, exec_f19);
    tcase_add_test(tc, exec_f19_communicate);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
