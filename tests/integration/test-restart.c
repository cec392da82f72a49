/* SPDX-License-Identifier: Apache-2.0
 * Daemons that end and are started again, and commands that say whether all is well. */
#include "life.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- restarts ---- */

static void restarts(int policy, int max)
{
    sbtest_ok(sandbox_spec_set_restart(spec, policy, max, &error), &error);
}

static int64_t count_restarts(void)
{
    struct sandbox_info *info = life_look();
    int64_t n = sandbox_info_get_restarts(info);

    sandbox_info_unref(info);
    return n;
}

static void await_restarts(int64_t wanted)
{
    long until = box_now() + sbtest_slowly(15000);

    while (count_restarts() < wanted) {
        ck_assert(box_now() < until);
        life_nap(20);
    }
}

START_TEST(restart_on_failure)
{
    long began;

    restarts(SANDBOX_RESTART_ON_FAILURE, 2);
    life_daemon_is("echo again; exit 9");
    life_watch();
    life_start();
    began = box_now();
    ck_assert_ptr_nonnull(strstr(life_expect_event(SANDBOX_EVENT_RESTARTED), "\"count\":1"));
    ck_assert_int_ge(box_now() - began, 50); /* the first comes after 100 ms, the next one after 200 */
    ck_assert_ptr_nonnull(strstr(life_expect_event(SANDBOX_EVENT_RESTARTED), "\"count\":2"));
    ck_assert_int_ge(box_now() - began, 250);
    life_nap(700);
    ck_assert_int_eq(count_restarts(), 2);
    ck_assert_int_eq(life_log_bytes(), 3 * 6);
    life_expect_cause("\"state\":\"exited\"");
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 6"), 6); /* the sandbox goes on */
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error); /* begins anew */
    await_restarts(2);
}
END_TEST

START_TEST(restart_not_after_success)
{
    restarts(SANDBOX_RESTART_ON_FAILURE, 0);
    life_daemon_is("echo done; exit 0");
    life_start();
    life_await_log("done\n");
    life_nap(400);
    ck_assert_int_eq(count_restarts(), 0);
    ck_assert_int_eq(life_log_bytes(), 5);
}
END_TEST

START_TEST(restart_always)
{
    restarts(SANDBOX_RESTART_ALWAYS, 0);
    life_daemon_is("echo up; [ -e /tmp/stay ] && exec sleep 1000; exit 0");
    life_start();
    await_restarts(2);
    sbtest_ok(sandbox_file_write(sandbox, "/tmp/stay", "", 0, NULL, 5000, &error), &error); /* what it wrote is still there */
    for (long until = box_now() + sbtest_slowly(10000); sandbox_kill(sandbox, SIGTERM, NULL); life_nap(20)) /* between two of them there is none */
        ck_assert(box_now() < until);
    life_nap(800);
    life_expect_cause("\"state\":\"exited\""); /* it was ended by a call: as docker kill has it */
}
END_TEST

/* Its own fault, or the machine's: not by a call of ours. */
START_TEST(restart_after_a_signal)
{
    restarts(SANDBOX_RESTART_UNLESS_STOPPED, 0);
    life_daemon_is("echo up; kill -9 $$");
    life_start();
    await_restarts(1);
}
END_TEST

/* Who follows the log follows it through restarts, to an end that is one. */
START_TEST(restart_in_the_log)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct sandbox_log *log = NULL;
    int r, starts = 0, ends = 0;
    long bytes = 0;

    restarts(SANDBOX_RESTART_ON_FAILURE, 3);
    life_daemon_is("echo up; exit 1");
    life_start();
    options.follow = 1;
    sbtest_ok(sandbox_log_open(sandbox, &options, &log, &error), &error);
    while ((r = sandbox_log_read(log, sbtest_slowly(20000), &record, &error)) == 1) {
        starts += record.kind == SANDBOX_LOG_STARTED;
        ends += record.kind == SANDBOX_LOG_ENDED;
        bytes += (long)record.data_size;
    }
    sbtest_ok(r, &error);
    sandbox_log_close(log);
    ck_assert_int_eq(starts, 4);
    ck_assert_int_eq(ends, 4);
    ck_assert_int_eq(bytes, 4 * 3);
}
END_TEST

START_TEST(restart_stopped_while_it_waits)
{
    long began;

    restarts(SANDBOX_RESTART_ALWAYS, 0);
    life_daemon_is("exit 1");
    life_start();
    await_restarts(3); /* the next one is most of a second away */
    began = box_now();
    sbtest_ok(sandbox_stop(sandbox, 10000, 20000, &error), &error);
    ck_assert_int_lt(box_now() - began, sbtest_slowly(5000));
    ck_assert_int_eq(life_state(), SANDBOX_STATE_STOPPED);
    life_nap(300);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_STOPPED);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    await_restarts(1);
}
END_TEST

START_TEST(restart_waits_while_paused)
{
    restarts(SANDBOX_RESTART_ALWAYS, 0);
    life_daemon_is("exit 1");
    life_start();
    await_restarts(2);
    life_pause_it();
    life_nap(1000);
    ck_assert_int_le(count_restarts(), 3);
    life_resume_it();
    await_restarts(4);
}
END_TEST

/* A daemon whose program goes away is tried again, too; one that never was there is who started it told of. */
START_TEST(restart_of_what_is_gone)
{
    restarts(SANDBOX_RESTART_ALWAYS, 0);
    life_daemon_is("cp /bin/sh /tmp/d 2>/dev/null; exit 1");
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/tmp/d"), &error), &error);
    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sbtest_fails(sandbox_start(sandbox, 10000, &error), SANDBOX_ENOTFOUND, &error);
    life_nap(400);
    ck_assert_int_eq(count_restarts(), 0);
    sbtest_ok(sandbox_file_write(sandbox, "/tmp/d", "#!/bin/sh\nrm /tmp/d\nexit 1\n", 27,
                                 &(struct sandbox_file_write_options){ sizeof(struct sandbox_file_write_options), 0755, 0, -1, -1 }, 5000, &error),
              &error);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    await_restarts(2);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_RUNNING);
}
END_TEST

START_TEST(restart_needs_a_daemon)
{
    restarts(SANDBOX_RESTART_ALWAYS, 0);
    sbtest_fails(sandbox_create(host, spec, 20000, &sandbox, &error), SANDBOX_EINVALID, &error);
}
END_TEST

/* ---- health ---- */

static void health_is(const char *script, int64_t timeout_ms, int64_t start_period_ms, int retries)
{
    struct sandbox_health_options options = SANDBOX_HEALTH_OPTIONS_INIT;

    options.interval_ms = 60;
    options.timeout_ms = timeout_ms;
    options.start_period_ms = start_period_ms;
    options.start_interval_ms = 30;
    options.retries = retries;
    sbtest_ok(sandbox_spec_set_health(spec, BOX_ARGV("/bin/sh", "-c", script), &options, &error), &error);
}

static void await_health(int wanted)
{
    long until = box_now() + sbtest_slowly(15000);
    int health;

    do {
        struct sandbox_info *info = life_look();

        health = sandbox_info_get_health(info);
        sandbox_info_unref(info);
        life_nap(20);
    } while (health != wanted && box_now() < until);
    ck_assert_int_eq(health, wanted);
}

START_TEST(health_turns)
{
    int health;

    health_is("[ -e /tmp/well ]", 0, 0, 2);
    life_watch();
    life_start();
    sbtest_ok(sandbox_wait_health(sandbox, sbtest_slowly(10000), &health, &error), &error);
    ck_assert_int_eq(health, SANDBOX_HEALTH_UNHEALTHY);
    ck_assert_ptr_nonnull(strstr(life_expect_event(SANDBOX_EVENT_HEALTH), "\"starting\""));
    ck_assert_ptr_nonnull(strstr(life_expect_event(SANDBOX_EVENT_HEALTH), "\"unhealthy\""));
    sbtest_ok(sandbox_file_write(sandbox, "/tmp/well", "", 0, NULL, 5000, &error), &error);
    await_health(SANDBOX_HEALTH_HEALTHY);
    ck_assert_ptr_nonnull(strstr(life_expect_event(SANDBOX_EVENT_HEALTH), "\"healthy\""));
    sbtest_ok(sandbox_file_remove(sandbox, "/tmp/well", 0, 5000, &error), &error);
    await_health(SANDBOX_HEALTH_UNHEALTHY);
    life_pause_it(); /* nobody is asked then */
    life_nap(300);
    life_resume_it();
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    await_health(SANDBOX_HEALTH_NONE);
    sbtest_fails(sandbox_wait_health(sandbox, 1000, &health, &error), SANDBOX_ENOTRUNNING, &error);
}
END_TEST

START_TEST(health_start_period)
{
    int health = 0;

    health_is("[ -e /tmp/well ]", 0, 100000, 1);
    life_start();
    sbtest_fails(sandbox_wait_health(sandbox, 600, &health, &error), SANDBOX_ETIMEDOUT, &error);
    await_health(SANDBOX_HEALTH_STARTING);
    sbtest_ok(sandbox_file_write(sandbox, "/tmp/well", "", 0, NULL, 5000, &error), &error);
    await_health(SANDBOX_HEALTH_HEALTHY); /* and with that the period is over */
    sbtest_ok(sandbox_file_remove(sandbox, "/tmp/well", 0, 5000, &error), &error);
    await_health(SANDBOX_HEALTH_UNHEALTHY);
}
END_TEST

/* One that hangs, or leaves something behind, is killed with all of it. */
START_TEST(health_leaves_nothing)
{
    char *left;

    health_is("sleep 1111 & setsid sleep 2222 & [ -e /tmp/quick ] && exit 0; sleep 3333", 200, 0, 2);
    life_start();
    await_health(SANDBOX_HEALTH_UNHEALTHY);
    sbtest_ok(sandbox_file_write(sandbox, "/tmp/quick", "", 0, NULL, 5000, &error), &error);
    await_health(SANDBOX_HEALTH_HEALTHY);
    life_nap(500);
    life_pause_it(); /* none is under way after that, once the last one's time is over */
    life_nap(500);
    life_resume_it();
    left = box_sh(sandbox, NULL, "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null | grep -c 'sleep [123]' || true");
    ck_assert_msg(atoi(left) <= 4, "%s processes of health checks are left", left);
    free(left);
}
END_TEST

/* It tells nobody else: no event, no exit record, no place in what is counted. */
START_TEST(health_is_quiet)
{
    struct sandbox_event *event = NULL;

    health_is("exit 0", 0, 0, 1);
    life_start();
    await_health(SANDBOX_HEALTH_HEALTHY);
    life_watch();
    life_nap(300);
    sbtest_fails(sandbox_events_read(events, 0, &event, &error), SANDBOX_ETIMEDOUT, &error);
}
END_TEST

START_TEST(health_of_a_daemon_that_restarts)
{
    health_is("exit 0", 0, 0, 1);
    restarts(SANDBOX_RESTART_ALWAYS, 0);
    life_daemon_is("echo up; sleep 0.3; exit 1");
    life_watch();
    life_start();
    ck_assert_ptr_nonnull(strstr(life_expect_event(SANDBOX_EVENT_HEALTH), "\"starting\""));
    ck_assert_ptr_nonnull(strstr(life_expect_event(SANDBOX_EVENT_HEALTH), "\"healthy\""));
    life_expect_event(SANDBOX_EVENT_RESTARTED);
    ck_assert_ptr_nonnull(strstr(life_expect_event(SANDBOX_EVENT_HEALTH), "\"starting\""));
}
END_TEST

START_TEST(health_too_large)
{
    char *value = malloc(70000);

    memset(value, 'x', 69999);
    value[69999] = 0;
    health_is("exit 0", 0, 0, 1);
    sbtest_ok(sandbox_spec_add_env(spec, "LARGE", value, &error), &error);
    free(value);
    sbtest_fails(sandbox_create(host, spec, 20000, &sandbox, &error), SANDBOX_ELIMIT, &error);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("restart");
    TCase *restart = life_case(suite, "restart"), *health = life_case(suite, "health");

    tcase_add_test(restart, restart_on_failure);
    tcase_add_test(restart, restart_not_after_success);
    tcase_add_test(restart, restart_always);
    tcase_add_test(restart, restart_after_a_signal);
    tcase_add_test(restart, restart_in_the_log);
    tcase_add_test(restart, restart_stopped_while_it_waits);
    tcase_add_test(restart, restart_waits_while_paused);
    tcase_add_test(restart, restart_of_what_is_gone);
    tcase_add_test(restart, restart_needs_a_daemon);
    tcase_add_test(health, health_turns);
    tcase_add_test(health, health_start_period);
    tcase_add_test(health, health_leaves_nothing);
    tcase_add_test(health, health_is_quiet);
    tcase_add_test(health, health_of_a_daemon_that_restarts);
    tcase_add_test(health, health_too_large);
    return box_main(suite);
}
