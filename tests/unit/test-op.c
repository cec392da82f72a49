/* SPDX-License-Identifier: Apache-2.0
 * Operations: begin, wait, poll, progress, cancel, unref, the plain call, and threads. */
#include "fake.h"

#include <sbtest.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox_spec *spec;

static void begin(void)
{
    fake_reset();
    host = fake_host();
    ck_assert_int_eq(sandbox_spec_new(&spec, NULL), 0);
}

static void end(void)
{
    spec = sandbox_spec_unref(spec);
    host = sandbox_host_unref(host);
    ck_assert_int_eq(atomic_load(&fake.driver_frees), 1);
    ck_assert_int_eq(atomic_load(&fake.overlaps), 0);
}

static struct sandbox_op *create(int steps)
{
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = NULL;

    fake.steps = steps;
    sbtest_ok(sandbox_create_begin(host, spec, &op, &error), &error);
    return op;
}

static int readable(int fd, int timeout_ms)
{
    return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, timeout_ms);
}

START_TEST(ends_at_once)
{
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = create(0);
    struct sandbox *sandbox = NULL;

    sbtest_ok(sandbox_op_wait(op, 0, &error), &error);
    sbtest_ok(sandbox_op_wait(op, -1, &error), &error);
    sbtest_ok(sandbox_op_take_sandbox(op, &sandbox, &error), &error);
    ck_assert_str_eq(sandbox_get_id(sandbox), FAKE_ID);
    sbtest_fails(sandbox_op_take_sandbox(op, &sandbox, &error), SANDBOX_ENOTFOUND, &error);
    sandbox_unref(sandbox);
    ck_assert_int_eq(atomic_load(&fake.frees), 1); /* the open's */
    ck_assert_ptr_null(sandbox_op_unref(op));
    ck_assert_int_eq(atomic_load(&fake.frees), 2);
    ck_assert_int_eq(atomic_load(&fake.cancels), 0);
}
END_TEST

START_TEST(is_driven_by_its_descriptor)
{
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = create(2);
    int fd = sandbox_op_get_fd(op);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sandbox_op_get_fd(op), fd);
    ck_assert_int_eq(readable(fd, 0), 1); /* the first step is due */
    sbtest_fails(sandbox_op_wait(op, 0, &error), SANDBOX_ETIMEDOUT, &error);
    ck_assert_int_eq(readable(fd, 20), 0);
    fake_tick();
    ck_assert_int_eq(readable(fd, 5000), 1);
    sbtest_fails(sandbox_op_wait(op, 0, &error), SANDBOX_ETIMEDOUT, &error);
    ck_assert_int_eq(readable(fd, 20), 0);
    fake_tick();
    ck_assert_int_eq(readable(fd, 5000), 1);
    sbtest_ok(sandbox_op_wait(op, 0, &error), &error);
    ck_assert_int_eq(readable(fd, 0), 1); /* level-triggered after the end */
    sbtest_ok(sandbox_op_wait(op, 0, &error), &error);
    ck_assert_int_eq(readable(fd, 0), 1);
    sandbox_op_unref(op);
}
END_TEST

START_TEST(remembers_its_error)
{
    struct sandbox_error *first = NULL, *second = NULL;
    struct sandbox_op *op = create(1);
    struct sandbox *sandbox = NULL;

    fake.result = SANDBOX_ENOSPACE;
    fake_tick();
    ck_assert_int_eq(sandbox_op_wait(op, -1, &first), SANDBOX_ENOSPACE);
    ck_assert_int_eq(sandbox_op_wait(op, 0, &second), SANDBOX_ENOSPACE);
    ck_assert_int_eq(sandbox_op_wait(op, 0, NULL), SANDBOX_ENOSPACE);
    ck_assert_str_eq(sandbox_error_get_message(second), "the fake create failed");
    ck_assert_str_eq(sandbox_error_get_operation(second), "create");
    ck_assert_str_eq(sandbox_error_get_backend(second), "fake");
    ck_assert_str_eq(sandbox_error_get_phase(second), "fake");
    sandbox_error_unref(first);
    ck_assert_int_eq(sandbox_op_take_sandbox(op, &sandbox, &first), SANDBOX_ENOTFOUND);
    sandbox_op_unref(op);
    ck_assert_str_eq(sandbox_error_get_message(second), "the fake create failed"); /* outlives the operation */
    sandbox_error_unref(first);
    sandbox_error_unref(second);
}
END_TEST

START_TEST(a_silent_failure_gets_words)
{
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = create(0);

    fake.result = SANDBOX_EBUSY;
    fake.silent = 1;
    ck_assert_int_eq(sandbox_op_wait(op, -1, &error), SANDBOX_EBUSY);
    ck_assert_ptr_nonnull(strstr(sandbox_error_get_message(error), "EBUSY"));
    sandbox_error_unref(error);
    sandbox_op_unref(op);
}
END_TEST

START_TEST(a_success_must_bring_something)
{
    struct sandbox_error *error = NULL;
    struct sandbox_host *another = NULL;
    struct sandbox *sandbox = NULL;
    struct sandbox_image *image = NULL;

    fake.steps = 0;
    fake.bad_results = 1;
    sbtest_fails(sandbox_create(host, spec, -1, &sandbox, &error), SANDBOX_EPROTOCOL, &error);
    sbtest_fails(sandbox_image_import(host, "/x", NULL, -1, &image, &error), SANDBOX_EPROTOCOL, &error);
    sbtest_fails(sandbox_host_open("fake:", NULL, -1, &another, &error), SANDBOX_EINTERNAL, &error);
}
END_TEST

START_TEST(progress_is_told)
{
    struct sandbox_progress progress = SANDBOX_PROGRESS_INIT, odd = SANDBOX_PROGRESS_INIT;
    struct sandbox_op *op = create(5);

    fake_tick();
    ck_assert_int_eq(sandbox_op_wait(op, 0, NULL), SANDBOX_ETIMEDOUT);
    ck_assert_int_eq(sandbox_op_get_progress(op, &progress), 0);
    ck_assert_uint_eq(progress.size, sizeof progress);
    ck_assert_int_eq(progress.unit, SANDBOX_UNIT_ENTRIES);
    ck_assert_int_eq(progress.done, 1);
    ck_assert_int_eq(progress.total, 5);
    ck_assert_str_eq(progress.phase, "counting");
    odd.size = 1;
    ck_assert_int_eq(sandbox_op_get_progress(op, &odd), SANDBOX_EINVALID);
    ck_assert_int_eq(sandbox_op_get_progress(op, NULL), SANDBOX_EINVALID);
    ck_assert_int_eq(sandbox_op_get_progress(NULL, &progress), SANDBOX_EINVALID);
    sandbox_op_unref(op);
}
END_TEST

START_TEST(a_cancel_undoes)
{
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = create(1);

    fake.undo_ms = 30;
    ck_assert_int_eq(sandbox_op_cancel(op), 0);
    ck_assert_int_eq(sandbox_op_cancel(op), 0);
    ck_assert_int_eq(atomic_load(&fake.cancels), 1);
    fake_tick(); /* too late */
    sbtest_fails(sandbox_op_wait(op, 0, &error), SANDBOX_ETIMEDOUT, &error);
    sbtest_fails(sandbox_op_wait(op, -1, &error), SANDBOX_ECANCELLED, &error);
    ck_assert_int_eq(sandbox_op_cancel(op), 0);
    sandbox_op_unref(op);
    ck_assert_int_eq(atomic_load(&fake.cancels), 1);
    ck_assert_int_eq(sandbox_op_cancel(NULL), SANDBOX_EINVALID);
}
END_TEST

START_TEST(a_cancel_after_success_changes_nothing)
{
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = create(0);

    sbtest_ok(sandbox_op_wait(op, -1, &error), &error);
    ck_assert_int_eq(sandbox_op_cancel(op), 0);
    sbtest_ok(sandbox_op_wait(op, -1, &error), &error);
    sandbox_op_unref(op);
    ck_assert_int_eq(atomic_load(&fake.cancels), 0);
}
END_TEST

START_TEST(an_unref_under_way_undoes_first)
{
    struct sandbox_op *op = create(1);

    fake.undo_ms = 50;
    sandbox_op_unref(op);
    ck_assert_int_eq(atomic_load(&fake.cancels), 1);
    ck_assert_int_eq(atomic_load(&fake.frees), 2);
    ck_assert_ptr_null(fake.last);
    ck_assert_ptr_null(sandbox_op_unref(NULL));
}
END_TEST

START_TEST(an_open_that_nobody_takes_is_closed)
{
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = NULL;
    struct sandbox_host *another = NULL;

    fake.steps = 0;
    sbtest_ok(sandbox_host_open_begin("fake:x", NULL, &op, &error), &error);
    sbtest_fails(sandbox_op_take_host(op, &another, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_ok(sandbox_op_wait(op, -1, &error), &error);
    sandbox_op_unref(op);
    ck_assert_int_eq(atomic_load(&fake.driver_frees), 1);
    sbtest_ok(sandbox_host_open_begin("fake:x", NULL, &op, &error), &error);
    sbtest_ok(sandbox_op_wait(op, -1, &error), &error);
    sbtest_ok(sandbox_op_take_host(op, &another, &error), &error);
    ck_assert_str_eq(sandbox_host_get_uri(another), "fake:x");
    sbtest_fails(sandbox_op_take_host(op, &another, &error), SANDBOX_ENOTFOUND, &error);
    sandbox_op_unref(op);
    sandbox_host_unref(another);
    ck_assert_int_eq(atomic_load(&fake.driver_frees), 2);
    atomic_store(&fake.driver_frees, 0);
}
END_TEST

START_TEST(an_image_that_nobody_takes_is_freed)
{
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = NULL;
    struct sandbox_image *image = NULL;

    fake.steps = 0;
    fake.answer = NULL;
    sbtest_ok(sandbox_image_import_begin(host, "/x", NULL, &op, &error), &error);
    sbtest_ok(sandbox_op_wait(op, -1, &error), &error);
    sandbox_op_unref(op);
    sbtest_ok(sandbox_image_import_begin(host, "/x", NULL, &op, &error), &error);
    sbtest_ok(sandbox_op_wait(op, -1, &error), &error);
    sbtest_ok(sandbox_op_take_image(op, &image, &error), &error);
    sandbox_op_unref(op);
    ck_assert_str_eq(sandbox_image_get_name(image), "debian");
    sandbox_image_unref(image);
}
END_TEST

START_TEST(timeouts_hold)
{
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = create(1);
    int64_t before = sb_now_ms(), passed;

    sbtest_fails(sandbox_op_wait(op, 60, &error), SANDBOX_ETIMEDOUT, &error);
    passed = sb_now_ms() - before;
    ck_assert_int_ge(passed, 59);
    ck_assert_int_lt(passed, 5000);
    ck_assert_int_eq(sandbox_op_wait(op, -2, &error), SANDBOX_EINVALID);
    ck_assert_str_eq(sandbox_error_get_field(error), "timeout_ms");
    error = sandbox_error_unref(error);
    fake_tick();
    sbtest_ok(sandbox_op_wait(op, INT64_MAX, &error), &error);
    sandbox_op_unref(op);
}
END_TEST

START_TEST(the_plain_call_undoes_when_its_time_is_up)
{
    struct sandbox_error *error = NULL;
    struct sandbox *sandbox = NULL;

    fake.steps = 1;
    fake.undo_ms = 30;
    ck_assert_int_eq(sandbox_create(host, spec, 30, &sandbox, &error), SANDBOX_ETIMEDOUT);
    ck_assert_str_eq(sandbox_error_get_operation(error), "create");
    ck_assert_str_eq(sandbox_error_get_backend(error), "fake");
    ck_assert_int_eq(sandbox_error_get_retryable(error), 1);
    ck_assert_ptr_null(sandbox);
    ck_assert_ptr_null(fake.last);
    ck_assert_int_eq(atomic_load(&fake.cancels), 1);
    sandbox_error_unref(error);
}
END_TEST

START_TEST(the_plain_call_keeps_a_late_success)
{
    struct sandbox_error *error = NULL;
    struct sandbox *sandbox = NULL;

    fake.steps = 1;
    fake.ignores_cancel = 1;
    sbtest_ok(sandbox_create(host, spec, 20, &sandbox, &error), &error);
    ck_assert_str_eq(sandbox_get_id(sandbox), FAKE_ID);
    sandbox_unref(sandbox);
}
END_TEST

START_TEST(a_refused_begin_is_told)
{
    struct sandbox_error *error = NULL;
    struct sandbox *sandbox = NULL;

    fake.refuses = SANDBOX_EEXISTS;
    ck_assert_int_eq(sandbox_create(host, spec, -1, &sandbox, &error), SANDBOX_EEXISTS);
    ck_assert_str_eq(sandbox_error_get_operation(error), "create");
    ck_assert_str_eq(sandbox_error_get_backend(error), "fake");
    error = sandbox_error_unref(error);
    ck_assert_int_eq(sandbox_host_open("fake:", NULL, -1, &host, &error), SANDBOX_EEXISTS);
    ck_assert_str_eq(sandbox_error_get_operation(error), "open");
    ck_assert_str_eq(sandbox_error_get_backend(error), "fake");
    sandbox_error_unref(error);
}
END_TEST

/* ---- threads ---- */

struct waiter {
    pthread_t thread;
    struct sandbox_op *op;
    int result;
    int code; /* the error's */
};

static void *wait_thread(void *argument)
{
    struct waiter *w = argument;
    struct sandbox_error *error = NULL;

    w->result = sandbox_op_wait(w->op, -1, &error);
    w->code = sandbox_error_get_code(error);
    sandbox_error_unref(error);
    return NULL;
}

static void start_waiters(struct waiter *waiters, int n, struct sandbox_op *op)
{
    for (int i = 0; i < n; i++) {
        waiters[i].op = op;
        ck_assert_int_eq(pthread_create(&waiters[i].thread, NULL, wait_thread, &waiters[i]), 0);
    }
    usleep(30000);
}

static void join_waiters(struct waiter *waiters, int n, int expected)
{
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(pthread_join(waiters[i].thread, NULL), 0);
        ck_assert_int_eq(waiters[i].result, expected);
        ck_assert_int_eq(waiters[i].code, expected);
    }
}

START_TEST(several_may_wait)
{
    struct sandbox_op *op = create(50);
    struct waiter waiters[8];

    start_waiters(waiters, 8, op);
    for (int i = 0; i < 50; i++)
        fake_tick();
    join_waiters(waiters, 8, 0);
    sandbox_op_unref(op);
}
END_TEST

START_TEST(several_get_the_error)
{
    struct sandbox_op *op = create(1);
    struct waiter waiters[8];

    fake.result = SANDBOX_EDENIED;
    start_waiters(waiters, 8, op);
    fake_tick();
    join_waiters(waiters, 8, SANDBOX_EDENIED);
    sandbox_op_unref(op);
}
END_TEST

START_TEST(a_cancel_wakes_them)
{
    struct sandbox_op *op = create(1);
    struct waiter waiters[4];

    start_waiters(waiters, 4, op);
    ck_assert_int_eq(sandbox_op_cancel(op), 0);
    join_waiters(waiters, 4, SANDBOX_ECANCELLED);
    sandbox_op_unref(op);
}
END_TEST

START_TEST(a_close_wakes_them)
{
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = create(1);
    struct waiter waiters[4];
    int fd = sandbox_op_get_fd(op);

    start_waiters(waiters, 4, op);
    ck_assert_int_eq(sandbox_op_wait(op, 0, NULL), SANDBOX_ETIMEDOUT);
    ck_assert_int_eq(readable(fd, 0), 0);
    sbtest_ok(sandbox_host_close(host, &error), &error);
    join_waiters(waiters, 4, SANDBOX_ECLOSED);
    ck_assert_int_eq(readable(fd, 0), 1);
    ck_assert_int_eq(atomic_load(&fake.cancels), 0);
    sandbox_op_unref(op); /* undone all the same */
    ck_assert_int_eq(atomic_load(&fake.cancels), 1);
    ck_assert_ptr_null(fake.last);
}
END_TEST

static void *create_thread(void *result)
{
    struct sandbox *sandbox = NULL;

    *(int *)result = sandbox_create(host, spec, -1, &sandbox, NULL);
    sandbox_unref(sandbox);
    return NULL;
}

START_TEST(a_close_ends_a_plain_call)
{
    pthread_t thread;
    int result = 1;

    fake.steps = 1;
    fake.undo_ms = 20;
    ck_assert_int_eq(pthread_create(&thread, NULL, create_thread, &result), 0);
    usleep(50000);
    ck_assert_int_eq(sandbox_host_close(host, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(result, SANDBOX_ECLOSED);
    ck_assert_ptr_null(fake.last);
}
END_TEST

START_TEST(a_wait_delays_no_other_call)
{
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = create(1);
    struct waiter waiter[1];
    struct sandbox_progress progress = SANDBOX_PROGRESS_INIT;
    int64_t before;

    start_waiters(waiter, 1, op);
    before = sb_now_ms();
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(sandbox_op_get_progress(op, &progress), 0);
        ck_assert_int_eq(sandbox_op_wait(op, 0, &error), SANDBOX_ETIMEDOUT);
        error = sandbox_error_unref(error);
        sandbox_unref(fake_sandbox(host));
    }
    ck_assert_int_lt(sb_now_ms() - before, 5000);
    fake_tick();
    join_waiters(waiter, 1, 0);
    sandbox_op_unref(op);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api-op");
    TCase *tc = sbtest_case("op");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, ends_at_once);
    tcase_add_test(tc, is_driven_by_its_descriptor);
    tcase_add_test(tc, remembers_its_error);
    tcase_add_test(tc, a_silent_failure_gets_words);
    tcase_add_test(tc, a_success_must_bring_something);
    tcase_add_test(tc, progress_is_told);
    tcase_add_test(tc, a_cancel_undoes);
    tcase_add_test(tc, a_cancel_after_success_changes_nothing);
    tcase_add_test(tc, an_unref_under_way_undoes_first);
    tcase_add_test(tc, an_open_that_nobody_takes_is_closed);
    tcase_add_test(tc, an_image_that_nobody_takes_is_freed);
    tcase_add_test(tc, timeouts_hold);
    tcase_add_test(tc, the_plain_call_undoes_when_its_time_is_up);
    tcase_add_test(tc, the_plain_call_keeps_a_late_success);
    tcase_add_test(tc, a_refused_begin_is_told);
    suite_add_tcase(suite, tc);
    tc = sbtest_case("threads");
    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, several_may_wait);
    tcase_add_test(tc, several_get_the_error);
    tcase_add_test(tc, a_cancel_wakes_them);
    tcase_add_test(tc, a_close_wakes_them);
    tcase_add_test(tc, a_close_ends_a_plain_call);
    tcase_add_test(tc, a_wait_delays_no_other_call);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
