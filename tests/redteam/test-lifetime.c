/* SPDX-License-Identifier: Apache-2.0
 * Lifetimes when something is broken: a keeper or an init that was killed or stopped, a daemon in a crash loop, a sandbox that would like to
 * live on. A time to live is kept all the same, and nothing hangs. */
#include "life.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* "keeper" or "init", by the sandbox's run document. */
static pid_t process(const char *which)
{
    char path[1024], *text, *at;
    pid_t pid;

    snprintf(path, sizeof path, "%s/sandboxes/%s/run", box_root(), sandbox_get_id(sandbox));
    text = box_read(path);
    snprintf(path, sizeof path, "\"%s\":{", which);
    at = strstr(text, path);
    ck_assert_ptr_nonnull(at);
    at = strstr(at, "\"pid\":");
    ck_assert_ptr_nonnull(at);
    pid = (pid_t)atoi(at + 6);
    free(text);
    ck_assert_int_gt(pid, 1);
    return pid;
}

static void signal_it(const char *which, int sig)
{
    ck_assert_int_eq(kill(process(which), sig), 0);
}

static void lives(int64_t ttl_ms, int end, int64_t grace_ms)
{
    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    sbtest_ok(sandbox_spec_set_ttl(spec, ttl_ms, end, &error), &error);
    sbtest_ok(sandbox_spec_set_end_grace(spec, grace_ms, &error), &error);
}

static void reap(void)
{
    while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
        ;
}

/* Its sandbox ends with it, and the time to live is honoured by the next open: deleted, or not to be started. */
START_TEST(lifetime_keeper_killed)
{
    struct sandbox_host *next;

    lives(1500, _i ? SANDBOX_END_DELETE : SANDBOX_END_STOP, 0);
    life_start();
    signal_it("keeper", SIGKILL);
    life_await_state(SANDBOX_STATE_FAILED);
    reap();
    life_nap(1600);
    next = box_host();
    if (_i) {
        ck_assert_int_eq(life_is_listed(), 0);
        sandbox = sandbox_unref(sandbox);
    } else {
        sbtest_fails(sandbox_start(sandbox, 5000, &error), SANDBOX_ELIMIT, &error);
        ck_assert_int_eq(life_is_listed(), 1);
    }
    sandbox_host_unref(next);
}
END_TEST

/* It can do nothing: whoever looks next does it. */
START_TEST(lifetime_keeper_stopped)
{
    long until = box_now() + sbtest_slowly(30000);

    lives(300, SANDBOX_END_STOP, 0);
    life_start();
    signal_it("keeper", SIGSTOP);
    life_nap(400);
    while (life_state() != SANDBOX_STATE_STOPPED) {
        life_is_listed();
        ck_assert(box_now() < until);
        life_nap(100);
    }
    life_expect_cause("its time to live ended");
    reap();
}
END_TEST

/* What could go wrong with it goes no further: a filter, no new privileges, and no right but the one to end its init, as root's. */
START_TEST(lifetime_keeper_confined)
{
    char path[64], *text;

    lives(60000, SANDBOX_END_STOP, 0);
    life_start();
    snprintf(path, sizeof path, "/proc/%d/status", (int)process("keeper"));
    text = box_read(path);
    ck_assert_ptr_nonnull(strstr(text, "\nNoNewPrivs:\t1\nSeccomp:\t2\n"));
    ck_assert_ptr_nonnull(strstr(text, box_privilege() == BOX_ROOT ? "\nCapPrm:\t0000000000000020\nCapEff:\t0000000000000020\n"
                                                                  : "\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"));
    free(text);
}
END_TEST

/* keeper kills it, whose answer it doesn't need. */
START_TEST(lifetime_init_stopped)
{
    lives(500, SANDBOX_END_STOP, 100);
    life_daemon_is(TICKS);
    life_start();
    signal_it("init", SIGSTOP);
    life_await_state(SANDBOX_STATE_STOPPED);
    life_expect_cause("its time to live ended");
    reap();
}
END_TEST

START_TEST(lifetime_init_dies_between_restarts)
{
    struct sandbox_info *info;
    long until = box_now() + sbtest_slowly(15000), begun;
    int64_t n;

    sbtest_ok(sandbox_spec_set_restart(spec, SANDBOX_RESTART_ALWAYS, 0, &error), &error);
    life_daemon_is("exit 1");
    life_start();
    do {
        info = life_look();
        n = sandbox_info_get_restarts(info);
        sandbox_info_unref(info);
        ck_assert(box_now() < until);
        life_nap(20);
    } while (n < 3);
    signal_it("init", SIGKILL);
    life_await_state(SANDBOX_STATE_FAILED);
    life_nap(1000);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_FAILED); /* no policy brings it back */
    begun = box_now();
    sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(10000));
    sandbox = sandbox_unref(sandbox);
    reap();
}
END_TEST

/* A crash loop: fewer and fewer starts, and the log is bounded and has the last of them. */
START_TEST(redteam_c07_restarts)
{
    struct sandbox_info *info;
    int64_t n;
    long bytes;

    sbtest_ok(sandbox_spec_set_restart(spec, SANDBOX_RESTART_UNLESS_STOPPED, 0, &error), &error);
    sbtest_ok(sandbox_spec_set_log_max(spec, 8192, &error), &error);
    life_daemon_is("head -c 3000 /dev/zero | tr '\\0' x; echo; "
                   "n=$(cat /tmp/n 2>/dev/null || echo 0); n=$((n + 1)); echo $n > /tmp/n; echo crash $n; kill -SEGV $$");
    life_start();
    life_nap(3500);
    info = life_look();
    n = sandbox_info_get_restarts(info);
    sandbox_info_unref(info);
    ck_assert_int_ge(n, 2);
    ck_assert_int_le(n, 6); /* 100, 200, 400, 800, 1600 ms between them */
    bytes = life_log_bytes();
    ck_assert_int_le(bytes, 8192);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 7"), 7);
    sbtest_ok(sandbox_stop(sandbox, 1000, 20000, &error), &error);
}
END_TEST

/* What is inside can neither make itself be wanted nor be asked for longer. */
START_TEST(lifetime_not_prolonged_from_inside)
{
    sbtest_ok(sandbox_spec_set_idle(spec, 1000, SANDBOX_END_STOP, &error), &error);
    sbtest_ok(sandbox_spec_set_end_grace(spec, 200, &error), &error);
    life_daemon_is("trap '' TERM; /guest/port-server 7000 hold & sleep 0.2; (while :; do echo x > /dev/tcp/127.0.0.1/7000; done) 2>/dev/null & "
                   "while :; do :; done");
    life_start();
    life_await_state(SANDBOX_STATE_STOPPED);
    life_expect_cause("it was idle for too long");
}
END_TEST

/* Health checks that fork without end: each is killed with all it made, and the sandbox still answers. */
START_TEST(lifetime_health_bomb)
{
    struct sandbox_health_options options = SANDBOX_HEALTH_OPTIONS_INIT;
    int health = 0;

    options.interval_ms = 100;
    options.timeout_ms = 300;
    options.retries = 2;
    sbtest_ok(sandbox_spec_set_health(spec, BOX_ARGV("/bin/sh", "-c", "f() { f & f & wait; }; f; exit 1"), &options, &error), &error);
    sbtest_ok(sandbox_spec_set_pids_max(spec, 200, &error), &error);
    life_start();
    sbtest_ok(sandbox_wait_health(sandbox, sbtest_slowly(20000), &health, &error), &error);
    ck_assert_int_eq(health, SANDBOX_HEALTH_UNHEALTHY);
    sbtest_ok(sandbox_stop(sandbox, 1000, 20000, &error), &error);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lifetime faults");
    TCase *tc = life_case(suite, "faults");

    tcase_add_loop_test(tc, lifetime_keeper_killed, 0, 2);
    tcase_add_test(tc, lifetime_keeper_stopped);
    tcase_add_test(tc, lifetime_keeper_confined);
    tcase_add_test(tc, lifetime_init_stopped);
    tcase_add_test(tc, lifetime_init_dies_between_restarts);
    tcase_add_test(tc, redteam_c07_restarts);
    tcase_add_test(tc, lifetime_not_prolonged_from_inside);
    tcase_add_test(tc, lifetime_health_bomb);
    return box_main(suite);
}
