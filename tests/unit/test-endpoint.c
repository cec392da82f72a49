/* SPDX-License-Identifier: Apache-2.0
 * Forwards as api/ keeps them: handles, sizes, what the driver is asked, closed hosts and forked children. */
#include "fake.h"
#include "sbtest.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_forward *forward;
static struct sandbox_error *error;

static void set_up(void)
{
    fake_reset();
    host = fake_host();
    sandbox = fake_sandbox(host);
    sbtest_ok(sandbox_forward_open(sandbox, 80, 0, &forward, &error), &error);
    ck_assert_str_eq(fake.called, "forward 01234567 80 0");
}

static void tear_down(void)
{
    ck_assert_ptr_null(sandbox_forward_close(forward));
    ck_assert_int_eq(fake.forward_frees, 1);
    sandbox_unref(sandbox);
    sandbox_host_unref(host);
}

START_TEST(forward_port)
{
    struct sandbox_forward *second = NULL;

    ck_assert_int_eq(sandbox_forward_get_port(forward), 40000);
    sbtest_ok(sandbox_forward_open(sandbox, 65535, 8080, &second, &error), &error);
    ck_assert_int_eq(sandbox_forward_get_port(second), 8080);
    sandbox_forward_close(second);
    fake.forward_frees = 0;
    fake.refuses = SANDBOX_EBUSY;
    second = NULL;
    sbtest_fails(sandbox_forward_open(sandbox, 1, 1, &second, &error), SANDBOX_EBUSY, &error);
    ck_assert_ptr_null(second);
}
END_TEST

START_TEST(forward_status_sizes)
{
    struct {
        struct sandbox_forward_status status;
        char tail[8];
    } large = { .status = SANDBOX_FORWARD_STATUS_INIT };
    struct sandbox_forward_status *status = &large.status;

    sbtest_ok(sandbox_forward_get_status(forward, status, &error), &error);
    ck_assert_int_eq(status->healthy, 1);
    ck_assert_int_eq(status->listening, 1);
    ck_assert_int_eq(status->accepted, 7);
    ck_assert_int_eq(status->active, 0);
    ck_assert(status->bytes_out == INT64_MAX);
    ck_assert_str_eq(status->cause, "");
    ck_assert_uint_eq(strlen(status->last_failure), sizeof status->last_failure - 1);
    ck_assert_uint_eq(status->size, sizeof *status);
    /* a newer program's struct */
    status->size = sizeof large;
    sbtest_ok(sandbox_forward_get_status(forward, status, &error), &error);
    large.tail[3] = 1;
    sbtest_fails(sandbox_forward_get_status(forward, status, &error), SANDBOX_EINVALID, &error);
    large.tail[3] = 0;
    status->size = 8;
    sbtest_fails(sandbox_forward_get_status(forward, status, &error), SANDBOX_EINVALID, &error);
    status->size = 0;
    sbtest_fails(sandbox_forward_get_status(forward, status, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_forward_get_status(forward, NULL, &error), SANDBOX_EINVALID, &error);
    status->size = sizeof *status;
    sbtest_fails(sandbox_forward_get_status(NULL, status, &error), SANDBOX_EINVALID, &error);
    fake.refuses = SANDBOX_ELOST;
    sbtest_fails(sandbox_forward_get_status(forward, status, &error), SANDBOX_ELOST, &error);
}
END_TEST

START_TEST(forward_closed_host)
{
    struct sandbox_forward_status status = SANDBOX_FORWARD_STATUS_INIT;
    struct sandbox_forward *second = NULL;

    sbtest_ok(sandbox_host_close(host, &error), &error);
    sbtest_fails(sandbox_forward_get_status(forward, &status, &error), SANDBOX_ECLOSED, &error);
    sbtest_fails(sandbox_forward_open(sandbox, 1, 0, &second, &error), SANDBOX_ECLOSED, &error);
    ck_assert_int_eq(sandbox_forward_get_port(forward), 40000);
}
END_TEST

/* The child's close is of memory alone: the driver's forward is the parent's. */
START_TEST(forward_in_a_fork)
{
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct sandbox_forward_status now = SANDBOX_FORWARD_STATUS_INIT;
        int good = sandbox_forward_get_port(forward) == SANDBOX_EFORKED &&
                   sandbox_forward_get_status(forward, &now, NULL) == SANDBOX_EFORKED && !sandbox_forward_close(forward) &&
                   fake.forward_frees == 0;

        _exit(good ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api endpoint");
    TCase *tc = sbtest_case("endpoint");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, forward_port);
    tcase_add_test(tc, forward_status_sizes);
    tcase_add_test(tc, forward_closed_host);
    tcase_add_test(tc, forward_in_a_fork);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
