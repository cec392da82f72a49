/* SPDX-License-Identifier: Apache-2.0
 * Reports of a host: their getters, what a hostile host says instead, and hosts that have none. */
#include "fake.h"

#include <sbtest.h>

#include <string.h>

static struct sandbox_host *host;
static struct sandbox_error *error;

static void begin(void)
{
    fake_reset();
    host = fake_host();
    fake.steps = 0;
    fake.answer = NULL;
}

static void end(void)
{
    host = sandbox_host_unref(host);
}

START_TEST(a_report_tells)
{
    struct sandbox_report *report = NULL;

    sbtest_ok(sandbox_host_doctor(host, -1, &report, &error), &error);
    ck_assert_uint_eq(sandbox_report_get_count(report), 2);
    ck_assert_str_eq(sandbox_report_get_feature(report, 0), "memory");
    ck_assert_int_eq(sandbox_report_get_level(report, 0), SANDBOX_LEVEL_IMPOSSIBLE);
    ck_assert_str_eq(sandbox_report_get_probe(report, 0), "it was tried");
    ck_assert_str_eq(sandbox_report_get_cause(report, 0), "no cgroup");
    ck_assert_str_eq(sandbox_report_get_remedy(report, 0), "be root");
    ck_assert_int_eq(sandbox_report_get_level(report, 1), SANDBOX_LEVEL_ENFORCED);
    ck_assert_ptr_null(sandbox_report_get_feature(report, 2));
    ck_assert_int_eq(sandbox_report_get_level(report, 2), SANDBOX_EINVALID);
    ck_assert_ptr_nonnull(strstr(sandbox_report_get_json(report), "\"feature\":\"memory\""));
    ck_assert_ptr_null(sandbox_report_unref(report));
    ck_assert_ptr_null(sandbox_report_unref(NULL));
    ck_assert_uint_eq(sandbox_report_get_count(NULL), 0);
    ck_assert_ptr_null(sandbox_report_get_cause(NULL, 0));
    ck_assert_str_eq(sandbox_report_get_json(NULL), "");
}
END_TEST

START_TEST(what_is_no_report_is_refused)
{
    static const char *const answers[] = {
        "[]",
        "{}",
        "{\"entries\":[]}",
        "{\"host\":{},\"entries\":{}}",
        "{\"host\":{},\"entries\":[1]}",
        "{\"host\":{},\"entries\":[{\"feature\":\"x\",\"level\":\"perfect\",\"probe\":\"\",\"cause\":\"\",\"remedy\":\"\"}]}",
        "{\"host\":{},\"entries\":[{\"feature\":\"x\",\"level\":\"enforced\",\"probe\":\"\",\"cause\":\"\"}]}",
        "{\"host\":{},\"entries\":[{\"feature\":7,\"level\":\"enforced\",\"probe\":\"\",\"cause\":\"\",\"remedy\":\"\"}]}",
    };
    struct sandbox_report *report = NULL;

    fake.answer = answers[_i];
    sbtest_fails(sandbox_host_doctor(host, -1, &report, &error), SANDBOX_EPROTOCOL, &error);
    ck_assert_ptr_null(report);
    fake.bad_results = 1;
    sbtest_fails(sandbox_host_doctor(host, -1, &report, &error), SANDBOX_EPROTOCOL, &error);
}
END_TEST

START_TEST(a_report_as_an_operation)
{
    struct sandbox_report *report = NULL;
    struct sandbox_image *image = NULL;
    struct sandbox_op *op = NULL;

    sbtest_ok(sandbox_host_doctor_begin(host, &op, &error), &error);
    sbtest_ok(sandbox_op_wait(op, -1, &error), &error);
    sandbox_op_unref(op); /* nobody took the report */
    sbtest_ok(sandbox_host_doctor_begin(host, &op, &error), &error);
    sbtest_fails(sandbox_op_take_report(op, &report, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_ok(sandbox_op_wait(op, -1, &error), &error);
    sbtest_fails(sandbox_op_take_image(op, &image, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_fails(sandbox_op_take_report(op, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_ok(sandbox_op_take_report(op, &report, &error), &error);
    sandbox_report_unref(report);
    sbtest_fails(sandbox_op_take_report(op, &report, &error), SANDBOX_ENOTFOUND, &error);
    sandbox_op_unref(op);
}
END_TEST

START_TEST(wrong_arguments)
{
    struct sandbox_report *report = NULL;

    sbtest_fails(sandbox_host_doctor(NULL, -1, &report, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_host_doctor(host, -1, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_host_doctor(host, -2, &report, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_host_doctor_begin(host, NULL, &error), SANDBOX_EINVALID, &error);
    fake.refuses = SANDBOX_ELIMIT;
    sbtest_fails(sandbox_host_doctor(host, -1, &report, &error), SANDBOX_ELIMIT, &error);
    fake.refuses = 0;
    fake.steps = 1000;
    sbtest_fails(sandbox_host_doctor(host, 20, &report, &error), SANDBOX_ETIMEDOUT, &error);
    fake.ops.doctor = NULL;
    sbtest_fails(sandbox_host_doctor(host, -1, &report, &error), SANDBOX_EUNSUPPORTED, &error);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api-doctor");
    TCase *tc = sbtest_case("doctor");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, a_report_tells);
    tcase_add_loop_test(tc, what_is_no_report_is_refused, 0, 8);
    tcase_add_test(tc, a_report_as_an_operation);
    tcase_add_test(tc, wrong_arguments);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
