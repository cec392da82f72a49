/* SPDX-License-Identifier: Apache-2.0
 * Time to live and idle limit of real sandboxes, with nobody but the keeper to see to them. */
#include "life.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- time to live ---- */

static void lives(int64_t ttl_ms, int end, int64_t grace_ms)
{
    sbtest_ok(sandbox_spec_set_ttl(spec, ttl_ms, end, &error), &error);
    sbtest_ok(sandbox_spec_set_end_grace(spec, grace_ms, &error), &error);
}

START_TEST(ttl_stops)
{
    struct sandbox_info *info;
    struct sandbox_exec *exec;

    lives(1500, SANDBOX_END_STOP, 5000);
    life_daemon_is("trap 'echo in peace; exit 0' TERM; echo up; while :; do sleep 0.05; done");
    life_watch();
    life_start();
    exec = life_begin("sleep 100", SANDBOX_STDIO_NULL, 0); /* activity is nothing to it */
    info = life_look();
    ck_assert_int_gt(sandbox_info_get_ttl_ms(info), 0);
    ck_assert_int_le(sandbox_info_get_ttl_ms(info), 1500);
    sandbox_info_unref(info);
    life_expect_event(SANDBOX_EVENT_TTL);
    life_expect_event(SANDBOX_EVENT_STOPPED);
    life_await_state(SANDBOX_STATE_STOPPED);
    life_expect_cause("its time to live ended");
    life_await_log("in peace\n");
    life_expect_end(exec, SANDBOX_EXEC_LOST, -1);
    sbtest_fails(sandbox_start(sandbox, 5000, &error), SANDBOX_ELIMIT, &error);
    sbtest_ok(sandbox_extend(sandbox, 60000, 5000, &error), &error);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_RUNNING);
}
END_TEST

START_TEST(ttl_kills_who_does_not_listen)
{
    lives(600, SANDBOX_END_STOP, 200);
    life_daemon_is("trap '' TERM; while :; do sleep 0.05; done");
    life_start();
    life_await_state(SANDBOX_STATE_STOPPED);
    life_expect_cause("its time to live ended");
}
END_TEST

START_TEST(ttl_of_a_paused_one)
{
    lives(1000, SANDBOX_END_STOP, 200);
    life_daemon_is("trap '' TERM; " TICKS);
    life_start();
    life_pause_it();
    life_await_state(SANDBOX_STATE_STOPPED);
}
END_TEST

START_TEST(ttl_of_what_was_not_started)
{
    lives(300, SANDBOX_END_STOP, 0);
    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    life_await_state(SANDBOX_STATE_STOPPED);
}
END_TEST

START_TEST(ttl_extended)
{
    struct sandbox_info *info;

    lives(1500, SANDBOX_END_STOP, 0);
    life_start();
    sbtest_ok(sandbox_extend(sandbox, 100000, 5000, &error), &error);
    life_nap(1800);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_RUNNING);
    sbtest_ok(sandbox_extend(sandbox, 0, 5000, &error), &error);
    info = life_look();
    ck_assert_int_eq(sandbox_info_get_ttl_ms(info), -1);
    sandbox_info_unref(info);
    sbtest_ok(sandbox_extend(sandbox, 200, 5000, &error), &error);
    life_await_state(SANDBOX_STATE_STOPPED);
}
END_TEST

/* One that had none gets one, where somebody can see to it. */
START_TEST(ttl_given_later)
{
    life_start();
    sbtest_fails(sandbox_extend(sandbox, 1000, 5000, &error), SANDBOX_EUNSUPPORTED, &error);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox = sandbox_unref(sandbox);
    spec = box_spec();
    life_daemon_is("while :; do sleep 1; done");
    life_start();
    sbtest_ok(sandbox_extend(sandbox, 300, 5000, &error), &error);
    life_await_state(SANDBOX_STATE_STOPPED);
}
END_TEST

/* Deleted by whoever looks next: here, a list; below, an open. */
START_TEST(ttl_deletes)
{
    long until = box_now() + sbtest_slowly(15000);

    lives(500, SANDBOX_END_DELETE, 0);
    life_start();
    while (life_is_listed()) {
        ck_assert(box_now() < until);
        life_nap(50);
    }
    sandbox = sandbox_unref(sandbox);
}
END_TEST

/* Nobody of the caller's lives when it ends. */
START_TEST(ttl_without_its_caller)
{
    char id[SANDBOX_ID_LENGTH + 1];
    int fds[2], status;
    pid_t child;

    lives(1500, SANDBOX_END_STOP, 0);
    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    life_daemon_is("while :; do sleep 1; done");
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    host = sandbox_host_unref(host);
    child = fork();
    if (child == 0) {
        struct sandbox_host *mine = box_host();
        struct sandbox *made = NULL;

        if (sandbox_create(mine, spec, 20000, &made, NULL) || sandbox_start(made, 10000, NULL) ||
            write(fds[1], sandbox_get_id(made), SANDBOX_ID_LENGTH) != SANDBOX_ID_LENGTH)
            _exit(1);
        kill(getpid(), SIGKILL);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(read(fds[0], id, SANDBOX_ID_LENGTH), SANDBOX_ID_LENGTH);
    id[SANDBOX_ID_LENGTH] = 0;
    close(fds[0]);
    close(fds[1]);
    host = box_host();
    sbtest_ok(sandbox_open(host, id, &sandbox, &error), &error);
    life_await_state(SANDBOX_STATE_STOPPED);
    life_expect_cause("its time to live ended");
}
END_TEST

/* ---- idle ---- */

static void idles(int64_t idle_ms, int end)
{
    sbtest_ok(sandbox_spec_set_idle(spec, idle_ms, end, &error), &error);
    sbtest_ok(sandbox_spec_set_end_grace(spec, 0, &error), &error);
}

START_TEST(idle_stops)
{
    const struct sandbox_health_options often = { .size = sizeof often, .interval_ms = 50 };
    long began;

    idles(800, SANDBOX_END_STOP);
    life_daemon_is(TICKS); /* neither it nor a health check is activity */
    sbtest_ok(sandbox_spec_set_health(spec, BOX_ARGV("/bin/true"), &often, &error), &error);
    life_watch();
    life_start();
    began = box_now();
    life_expect_event(SANDBOX_EVENT_HEALTH); /* starting */
    life_expect_event(SANDBOX_EVENT_HEALTH);
    life_expect_event(SANDBOX_EVENT_IDLE);
    ck_assert_int_ge(box_now() - began, 600);
    life_expect_event(SANDBOX_EVENT_STOPPED);
    life_await_state(SANDBOX_STATE_STOPPED);
    life_expect_cause("it was idle for too long");
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error); /* it is no end for good */
}
END_TEST

START_TEST(idle_not_while_a_command_runs)
{
    struct sandbox_exec *exec;

    idles(400, SANDBOX_END_STOP);
    life_start();
    exec = life_begin("sleep 1.5; exit 4", SANDBOX_STDIO_NULL, 0);
    life_expect_end(exec, SANDBOX_EXEC_EXITED, 4);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_RUNNING);
    life_await_state(SANDBOX_STATE_STOPPED);
}
END_TEST

START_TEST(idle_not_while_asked)
{
    struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;
    long until;

    idles(1000, SANDBOX_END_STOP);
    life_start();
    for (until = box_now() + 2500; box_now() < until; life_nap(100))
        sbtest_ok(sandbox_file_stat(sandbox, "/tmp", 0, 5000, &info, &error), &error);
    life_await_state(SANDBOX_STATE_STOPPED);
}
END_TEST

START_TEST(idle_not_while_connected)
{
    int fd = -1;

    idles(400, SANDBOX_END_STOP);
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/guest/port-server", "7000", "hold"), &error), &error);
    life_start();
    life_await_log("listening\n");
    sbtest_ok(sandbox_dial(sandbox, 7000, 5000, &fd, &error), &error);
    life_nap(1500);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_RUNNING);
    close(fd);
    life_await_state(SANDBOX_STATE_STOPPED);
}
END_TEST

START_TEST(idle_stands_still_while_paused)
{
    idles(500, SANDBOX_END_STOP);
    life_start();
    life_pause_it();
    life_nap(1200);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_PAUSED);
    life_resume_it();
    life_await_state(SANDBOX_STATE_STOPPED);
}
END_TEST

START_TEST(idle_deletes)
{
    long until = box_now() + sbtest_slowly(15000);

    idles(300, SANDBOX_END_DELETE);
    life_start();
    while (life_is_listed()) {
        ck_assert(box_now() < until);
        life_nap(50);
    }
    sandbox = sandbox_unref(sandbox);
}
END_TEST

/* Each end has a consequence of its own: that of the other one is not taken for it. */
START_TEST(ttl_keeps_what_idle_would_delete)
{
    idles(600000, SANDBOX_END_DELETE);
    lives(500, SANDBOX_END_STOP, 0);
    life_start();
    life_await_state(SANDBOX_STATE_STOPPED);
    life_expect_cause("its time to live ended");
    ck_assert_int_eq(life_is_listed(), 1);
    host = sandbox_host_unref(host);
    host = box_host();
    ck_assert_int_eq(life_is_listed(), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lifetime");
    TCase *ttl = life_case(suite, "ttl"), *idle = life_case(suite, "idle");

    tcase_add_test(ttl, ttl_stops);
    tcase_add_test(ttl, ttl_kills_who_does_not_listen);
    tcase_add_test(ttl, ttl_of_a_paused_one);
    tcase_add_test(ttl, ttl_of_what_was_not_started);
    tcase_add_test(ttl, ttl_extended);
    tcase_add_test(ttl, ttl_given_later);
    tcase_add_test(ttl, ttl_deletes);
    tcase_add_test(ttl, ttl_without_its_caller);
    tcase_add_test(idle, idle_stops);
    tcase_add_test(idle, idle_not_while_a_command_runs);
    tcase_add_test(idle, idle_not_while_asked);
    tcase_add_test(idle, idle_not_while_connected);
    tcase_add_test(idle, idle_stands_still_while_paused);
    tcase_add_test(idle, idle_deletes);
    tcase_add_test(idle, ttl_keeps_what_idle_would_delete);
    return box_main(suite);
}
