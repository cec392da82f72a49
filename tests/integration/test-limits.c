/* SPDX-License-Identifier: Apache-2.0
 * Limits: that they hold, that they change while a sandbox runs and are still there after a restart. Where this user has no cgroups the same
 * tests see the refusal, with its field. */
#include "limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------ the limits ---- */

/* What is below the least is refused with it; with the least a command still runs. */
START_TEST(limit_least)
{
    struct sandbox_limits limits = limits_of(4 * MIB - 1, -1, -1), least = limits_of(4 * MIB, 3, 10);
    struct sandbox_spec *spec = box_spec();

    sandbox_spec_set_limits(spec, &limits, &error);
    ck_assert_ptr_nonnull(strstr(sandbox_error_get_message(error), "4194304"));
    refused(SANDBOX_EINVALID, SANDBOX_EINVALID, "memory_max");
    limits = limits_of(-1, 2, -1);
    refused(sandbox_spec_set_limits(spec, &limits, &error), SANDBOX_EINVALID, "pids_max");
    limits = limits_of(-1, -1, 9);
    refused(sandbox_spec_set_limits(spec, &limits, &error), SANDBOX_EINVALID, "cpu_max");
    limits = limits_of(-1, -1, -1);
    limits.files_max = 15;
    refused(sandbox_spec_set_limits(spec, &limits, &error), SANDBOX_EINVALID, "files_max");
    limits.files_max = -1;
    limits.cpu_weight = 10001;
    refused(sandbox_spec_set_limits(spec, &limits, &error), SANDBOX_EINVALID, "cpu_weight");
    if (!box_limits())
        least = limits_of(-1, 3, -1);
    if (sbtest_slowly(1) > 1) /* a hundredth of an emulated processor starts nothing in time */
        least.cpu_max = -1;
    least.files_max = 16;
    sbtest_ok(sandbox_spec_set_limits(spec, &least, &error), &error);
    sandbox = box_start(host, spec);
    ck_assert_int_eq(box_code(sandbox, box_user(), "exit 7"), 7);
}
END_TEST

START_TEST(limit_files)
{
    struct sandbox_limits limits = SANDBOX_LIMITS_INIT, own = SANDBOX_LIMITS_INIT;
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct box_run run;
    char *text;

    limits.files_max = 40;
    sandbox = box_start(host, spec_with(&limits));
    text = box_sh(sandbox, NULL, "ulimit -Sn; ulimit -Hn; ulimit -n 41 2>/dev/null && echo raised; :");
    ck_assert_str_eq(text, "40\n40");
    free(text);
    own.files_max = 20;
    options.limits = &own;
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("sh", "-c", "ulimit -Hn"));
    ck_assert_str_eq(run.output.out, "20\n");
    box_clear(&run);
    own.files_max = 60; /* of a sandbox with 40: that counts */
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("sh", "-c", "ulimit -Hn"));
    ck_assert_str_eq(run.output.out, "40\n");
    box_clear(&run);
    limits.files_max = 50;
    set(&limits);
    text = box_sh(sandbox, NULL, "ulimit -Hn");
    ck_assert_str_eq(text, "50");
    free(text);
}
END_TEST

/* Direct I/O to the disk that the state root is on, faster than it may be. */
START_TEST(limit_io)
{
    struct sandbox_io_limit io = SANDBOX_IO_LIMIT_INIT;
    const struct sandbox_io_limit *const list[] = { &io, NULL }, *const none[] = { NULL };
    struct sandbox_limits limits = SANDBOX_LIMITS_INIT;
    struct sandbox_spec *spec = box_spec();
    struct sandbox_stats stats;
    long begun;
    int r;

    limits.io = list;
    io.device = "/proc";
    sbtest_ok(sandbox_spec_set_limits(spec, &limits, &error), &error);
    refused(sandbox_create(host, spec, 10000, &sandbox, &error), SANDBOX_EINVALID, "io.device");
    io.device = box_root();
    io.write_bps = MIB;
    sbtest_ok(sandbox_spec_set_limits(spec, &limits, &error), &error);
    r = sandbox_create(host, spec, 10000, &sandbox, &error);
    sandbox_spec_unref(spec);
    if (r == SANDBOX_EINVALID) { /* a state root in memory, or on an overlay */
        refused(r, SANDBOX_EINVALID, "io.device");
        return;
    }
    if (r == SANDBOX_EUNSUPPORTED) {
        refused(r, SANDBOX_EUNSUPPORTED, "io");
        return;
    }
    sbtest_ok(r, &error);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    begun = box_now();
    ck_assert_int_eq(box_code(sandbox, NULL, "dd if=/dev/zero of=/f bs=64k count=40 oflag=direct"), 0);
    ck_assert_int_gt(box_now() - begun, 1200); /* 2.5 MiB at one a second */
    stats = stats_now();
    ck_assert_int_eq(stats.io_level, SANDBOX_LEVEL_ENFORCED);
    ck_assert_int_ge(stats.io_write_bytes, 5 * MIB / 2);
    ck_assert_int_ge(stats.io_writes, 40);
    limits.io = none;
    set(&limits);
    begun = box_now();
    ck_assert_int_eq(box_code(sandbox, NULL, "dd if=/dev/zero of=/f bs=64k count=160 oflag=direct"), 0);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(9000)); /* as before it would be ten seconds */
}
END_TEST

START_TEST(limit_cpu_weight)
{
    struct sandbox_limits limits = SANDBOX_LIMITS_INIT;
    struct sandbox_spec *spec;
    int r;

    limits.cpu_weight = 50;
    spec = spec_with(&limits);
    r = sandbox_create(host, spec, 10000, &sandbox, &error);
    sandbox_spec_unref(spec);
    if (!box_limits()) {
        refused(r, SANDBOX_EUNSUPPORTED, "cpu");
        return;
    }
    sbtest_ok(r, &error);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    ck_assert_int_eq(limit_now(sandbox, "cpu_weight"), 50);
    limits.cpu_weight = 0;
    limits.cpu_max = 100;
    set(&limits);
    ck_assert_int_eq(stats_now().cpu_max, 100);
    box_code(sandbox, NULL, "timeout 1 sh -c 'while :; do :; done'");
    ck_assert_int_gt(stats_now().cpu_throttled, 0);
    ck_assert_int_gt(stats_now().cpu_throttled_us, 0);
}
END_TEST

/* --------------------------------------------------------------------------------------------- while it runs ---- */

START_TEST(limit_change_pids)
{
    struct sandbox_limits limits = limits_of(-1, 30, -1);
    struct sandbox *other = NULL;

    sandbox = box_start(host, spec_with(&limits));
    ck_assert_int_eq(started(), 25);
    limits.pids_max = 12;
    if (!box_limits()) { /* RLIMIT_NPROC can't be changed from outside: at the next start */
        refused(sandbox_set_limits(sandbox, &limits, 10000, &error), SANDBOX_EUNSUPPORTED, "pids_max");
        ck_assert_int_eq(limit_now(sandbox, "pids_max"), 30);
        sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    }
    set(&limits);
    if (!box_limits())
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    ck_assert_int_lt(started(), 13);
    ck_assert_int_gt(started(), 2);
    sbtest_ok(sandbox_open(host, sandbox_get_id(sandbox), &other, &error), &error);
    ck_assert_int_eq(limit_now(other, "pids_max"), 12);
    sandbox_unref(other);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    ck_assert_int_lt(started(), 13); /* still */
    if (!box_limits())
        return;
    limits.pids_max = 60;
    set(&limits);
    ck_assert_int_eq(started(), 25);
    ck_assert_int_eq(stats_now().pids_max, 60);
}
END_TEST

/* Lowered below what is in use: refused, and nobody is killed. */
START_TEST(limit_change_memory)
{
    struct sandbox_limits limits = limits_of(64 * MIB, -1, -1);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_exec *holder = NULL;
    struct box_run run;
    char line[16];
    int out;

    if (!box_limits()) {
        sandbox = box_start(host, NULL);
        refused(sandbox_set_limits(sandbox, &limits, 10000, &error), SANDBOX_EUNSUPPORTED, "memory_max");
        ck_assert_int_eq(limit_now(sandbox, "memory_max"), 0);
        return;
    }
    sandbox = box_start(host, spec_with(&limits));
    options.stderr_fd = SANDBOX_STDIO_NULL;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/guest/bombs", "hold", "24"), &options, &holder, &error), &error);
    sbtest_ok(sandbox_exec_take_stdout(holder, &out, &error), &error);
    ck_assert_int_gt(read(out, line, sizeof line), 0); /* it has them */
    ck_assert_int_ge(stats_now().memory, 24 * MIB);
    limits.memory_max = 16 * MIB;
    refused(sandbox_set_limits(sandbox, &limits, 10000, &error), SANDBOX_EBUSY, "memory_max");
    ck_assert_int_eq(limit_now(sandbox, "memory_max"), 64 * MIB);
    ck_assert_int_eq(stats_now().memory_max, 64 * MIB);
    ck_assert_int_eq(sandbox_exec_wait(holder, 0, &result, NULL), SANDBOX_ETIMEDOUT);
    limits.memory_max = 40 * MIB;
    set(&limits);
    ck_assert_int_eq(stats_now().memory_max, 40 * MIB);
    sbtest_ok(sandbox_exec_kill(holder, SIGKILL, 0, &error), &error);
    sbtest_ok(sandbox_exec_wait(holder, 10000, &result, &error), &error);
    close(out);
    sandbox_exec_unref(holder);
    limits.memory_max = 16 * MIB;
    set(&limits);
    box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("/guest/bombs", "touch", "24"));
    ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_OOM);
    box_clear(&run);
    ck_assert_int_ge(stats_now().oom_kills, 1);
    limits.memory_max = 0;
    set(&limits);
    ck_assert_int_eq(stats_now().memory_max, -1);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    limits.memory_max = 20 * MIB; /* stopped: from the next start on */
    set(&limits);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    ck_assert_int_eq(stats_now().memory_max, 20 * MIB);
}
END_TEST

/* Several at once: each is whole, and in the end record and kernel agree. */
START_TEST(limit_change_races)
{
    struct sandbox_limits limits = limits_of(-1, 100, -1);
    int64_t last;

    sandbox = box_start(host, spec_with(&limits));
    if (!box_limits())
        return; /* limit_change_pids saw the refusal */
    for (int k = 0; k < 4; k++)
        if (fork() == 0) {
            struct sandbox_host *mine = box_host();
            struct sandbox *box = NULL;
            int failed = sandbox_open(mine, sandbox_get_id(sandbox), &box, NULL);

            for (int i = 0; i < 20 && !failed; i++) {
                limits.pids_max = 100 + k * 20 + i;
                failed = sandbox_set_limits(box, &limits, 20000, NULL);
            }
            _exit(failed ? 1 : 0);
        }
    for (int k = 0; k < 4; k++) {
        int status;

        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    last = limit_now(sandbox, "pids_max");
    ck_assert_int_eq(stats_now().pids_max, last);
    ck_assert_int_ge(last, 119);
}
END_TEST

/* Whoever changes them is killed, at any moment: the record is whole, what the kernel has was asked for once, and the next change of whatever
 * limit makes both the same. */
START_TEST(limit_change_killed)
{
    struct sandbox_limits limits = limits_of(-1, 100, -1), nothing = SANDBOX_LIMITS_INIT;
    unsigned int seed = 7;

    sandbox = box_start(host, spec_with(&limits));
    for (int i = 0; i < 25; i++) {
        int64_t written, held;
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            struct sandbox_host *mine = box_host();
            struct sandbox *box = NULL;

            for (int k = 0; !sandbox_open(mine, sandbox_get_id(sandbox), &box, NULL); k++) {
                limits.pids_max = 100 + k % 50;
                sandbox_set_limits(box, &limits, 10000, NULL);
                box = sandbox_unref(box);
            }
            _exit(1);
        }
        seed = seed * 1103515245 + 12345;
        usleep(3000 + seed / 65536 % 12000);
        kill(pid, SIGKILL);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status));
        written = limit_now(sandbox, "pids_max");
        ck_assert(written >= 100 && written < 150);
        if (!box_limits()) /* the kernel holds nothing of it that could be changed */
            continue;
        held = stats_now().pids_max;
        ck_assert(held >= 100 && held < 150);
        set(&nothing);
        ck_assert_int_eq(stats_now().pids_max, written);
    }
}
END_TEST

/* An idempotency key asks for the sandbox that was made with it, whatever its limits are by now. */
START_TEST(limit_change_and_key)
{
    struct sandbox_limits limits = limits_of(-1, 100, -1);
    struct sandbox_spec *spec = spec_with(&limits);
    struct sandbox *again = NULL;

    sbtest_ok(sandbox_spec_set_idempotency_key(spec, "limits", &error), &error);
    sbtest_ok(sandbox_create(host, spec, 10000, &sandbox, &error), &error);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    limits.pids_max = 50;
    set(&limits);
    sbtest_ok(sandbox_create(host, spec, 10000, &again, &error), &error);
    ck_assert_str_eq(sandbox_get_id(again), sandbox_get_id(sandbox));
    ck_assert_int_eq(limit_now(again, "pids_max"), 50);
    sandbox_unref(again);
    sandbox_spec_unref(spec);
}
END_TEST

/* ------------------------------------------------------------------------------------------------ of an exec ---- */

/* Groups of single commands in a sandbox's. */
static int leaves_in(const char *path)
{
    DIR *stream = opendir(path);
    struct dirent *d;
    int n = 0;

    while (stream && (d = readdir(stream)))
        n += !strncmp(d->d_name, "x-", 2);
    if (stream)
        closedir(stream);
    return n;
}

START_TEST(limit_exec)
{
    struct sandbox_limits limits = limits_of(-1, 8, -1), own = limits_of(16 * MIB, -1, -1);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;
    struct box_run run;
    char path[4096];
    long begun;

    sandbox = box_start(host, NULL);
    options.limits = &limits;
    options.user = box_user();
    if (!on_v2("pids")) {
        refused(sandbox_exec(sandbox, BOX_ARGV("true"), &options, &exec, &error), SANDBOX_EUNSUPPORTED, "limits.pids_max");
        options.limits = &own;
        refused(sandbox_exec(sandbox, BOX_ARGV("true"), &options, &exec, &error), SANDBOX_EUNSUPPORTED, "limits.memory_max");
        ck_assert_int_eq(started(), 25);
        return;
    }
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/bombs", "children", "25"));
    ck_assert_int_lt(atol(run.output.out), 8);
    box_clear(&run);
    ck_assert_int_eq(started(), 25); /* one without is free */
    if (on_v2("memory")) {
        options.limits = &own;
        box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/bombs", "touch", "24"));
        ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_OOM);
        box_clear(&run);
        options.limits = NULL;
        box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/bombs", "touch", "24"));
        ck_assert_str_eq(run.output.out, "ready\n");
        box_clear(&run);
    }
    /* with a deadline, too, and nothing is left of the groups */
    options.limits = &limits;
    options.deadline_ms = 300;
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/bombs", "fork"));
    ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_DEADLINE);
    box_clear(&run);
    ck_assert_int_eq(box_cgroup(sandbox, path, sizeof path), 1);
    begun = box_now();
    while (leaves_in(path) && box_now() - begun < sbtest_slowly(5000)) /* whoever was killed is reaped a moment later */
        usleep(20000);
    ck_assert_int_eq(leaves_in(path), 0);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 0"), 0);
}
END_TEST

/* A pause halts a command in a group of its own, too: one with a deadline, and with limits. */
START_TEST(limit_exec_paused)
{
    struct sandbox_limits limits = limits_of(-1, 8, -1);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;
    char buffer[65536];
    int out;

    sandbox = box_start(host, NULL);
    options.deadline_ms = 600000;
    if (on_v2("pids"))
        options.limits = &limits;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sh", "-c", "while echo; do :; done"), &options, &exec, &error), &error);
    sbtest_ok(sandbox_exec_take_stdout(exec, &out, &error), &error);
    ck_assert_int_gt(read(out, buffer, sizeof buffer), 0);
    sbtest_ok(sandbox_pause(sandbox, 10000, &error), &error);
    ck_assert_int_eq(fcntl(out, F_SETFL, O_NONBLOCK), 0);
    while (read(out, buffer, sizeof buffer) > 0)
        ;
    usleep(200000);
    ck_assert_int_lt(read(out, buffer, sizeof buffer), 0);
    ck_assert_int_eq(errno, EAGAIN);
    sbtest_ok(sandbox_resume(sandbox, 10000, &error), &error);
    ck_assert_int_eq(fcntl(out, F_SETFL, 0), 0);
    ck_assert_int_gt(read(out, buffer, sizeof buffer), 0);
    close(out);
    sandbox_exec_unref(exec);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-limits");
    TCase *tc = sbtest_case("limits");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, limit_least);
    tcase_add_test(tc, limit_files);
    tcase_add_test(tc, limit_io);
    tcase_add_test(tc, limit_cpu_weight);
    tcase_add_test(tc, limit_change_pids);
    tcase_add_test(tc, limit_change_memory);
    tcase_add_test(tc, limit_change_races);
    tcase_add_test(tc, limit_change_killed);
    tcase_add_test(tc, limit_change_and_key);
    tcase_add_test(tc, limit_exec);
    tcase_add_test(tc, limit_exec_paused);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
