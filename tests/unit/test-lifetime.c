/* SPDX-License-Identifier: Apache-2.0
 * Pause, resume, extend and what an info says of a life, with a driver that isolates nothing. */
#include "fake.h"

#include <sbtest.h>
#include <string.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;
static int64_t extended_by;

static int resume(struct sb_driver *d, const char *id, struct sb_op **ret_op, struct sandbox_error **why)
{
    return fake.ops.stop(d, id, 77, ret_op, why);
}

static int extend(struct sb_driver *d, const char *id, int64_t ttl_ms, struct sb_op **ret_op, struct sandbox_error **why)
{
    extended_by = ttl_ms;
    return fake.ops.start(d, id, ret_op, why);
}

static void set_up(void)
{
    fake_reset();
    host = fake_host();
    sandbox = fake_sandbox(host);
    fake.ops.pause = fake.ops.start;
    fake.ops.resume = resume;
    fake.ops.extend = extend;
}

static void tear_down(void)
{
    sandbox_unref(sandbox);
    sandbox_host_unref(host);
}

static void refused(int r, int code, const char *field)
{
    ck_assert_int_eq(r, code);
    ck_assert_str_eq(sandbox_error_get_field(error), field);
    error = sandbox_error_unref(error);
}

START_TEST(lifetime_calls)
{
    struct sandbox_op *op = NULL;

    sbtest_ok(sandbox_pause(sandbox, 1000, &error), &error);
    ck_assert_str_eq(fake.called, "start 01234567");
    sbtest_ok(sandbox_resume(sandbox, 1000, &error), &error);
    ck_assert_str_eq(fake.called, "stop 01234567 77");
    sbtest_ok(sandbox_extend(sandbox, 5000, 1000, &error), &error);
    ck_assert_int_eq(extended_by, 5000);
    sbtest_ok(sandbox_extend_begin(sandbox, 0, &op, &error), &error);
    sbtest_ok(sandbox_op_wait(op, 1000, &error), &error);
    op = sandbox_op_unref(op);
    ck_assert_int_eq(extended_by, 0);
    sbtest_ok(sandbox_pause_begin(sandbox, &op, &error), &error);
    op = sandbox_op_unref(op);
    sbtest_ok(sandbox_resume_begin(sandbox, &op, &error), &error);
    op = sandbox_op_unref(op);
    refused(sandbox_extend(sandbox, 99, 1000, &error), SANDBOX_EINVALID, "ttl");
    refused(sandbox_extend(sandbox, -5, 1000, &error), SANDBOX_EINVALID, "ttl");
    refused(sandbox_pause(sandbox, -2, &error), SANDBOX_EINVALID, "timeout_ms");
    refused(sandbox_pause(NULL, 0, &error), SANDBOX_EINVALID, "sandbox");
    refused(sandbox_resume_begin(sandbox, NULL, &error), SANDBOX_EINVALID, "ret_op");
    fake.result = SANDBOX_ENOTRUNNING;
    ck_assert_int_eq(sandbox_pause(sandbox, 1000, &error), SANDBOX_ENOTRUNNING);
    ck_assert_str_eq(sandbox_error_get_operation(error), "pause");
    error = sandbox_error_unref(error);
}
END_TEST

START_TEST(lifetime_hosts_that_cannot)
{
    fake.ops.pause = NULL;
    fake.ops.resume = NULL;
    fake.ops.extend = NULL;
    refused(sandbox_pause(sandbox, 1000, &error), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_resume(sandbox, 1000, &error), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_extend(sandbox, 1000, 1000, &error), SANDBOX_EUNSUPPORTED, "");
}
END_TEST

#define BOX(state, argv, life)                                                                                                   \
    "{\"id\":\"" FAKE_ID "\",\"name\":\"\",\"state\":\"" state "\",\"image\":{\"ref\":\"\",\"digest\":\"\"},\"labels\":{},"      \
    "\"spec\":{\"life\":{\"health\":{\"argv\":[" argv "]}}}," life "}"
#define LIFE(health) "\"life\":{\"health\":\"" health "\",\"restarts\":7,\"ttl_ms\":1234}"

START_TEST(lifetime_info)
{
    static const char *const healths[] = { BOX("running", "", LIFE("")), BOX("running", "", LIFE("starting")),
                                           BOX("running", "", LIFE("healthy")), BOX("paused", "", LIFE("unhealthy")) };
    struct sandbox_info *info = NULL;

    for (int i = 0; i < (int)SB_ELEMENTS(healths); i++) {
        fake.answer = healths[i];
        sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
        ck_assert_int_eq(sandbox_info_get_health(info), i);
        ck_assert_int_eq(sandbox_info_get_ttl_ms(info), 1234);
        ck_assert_int_eq(sandbox_info_get_restarts(info), 7);
        info = sandbox_info_unref(info);
    }
    fake.answer = BOX("running", "", "\"life\":{\"health\":3,\"ttl_ms\":\"x\",\"restarts\":[]}"); /* a hostile host's */
    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    ck_assert_int_eq(sandbox_info_get_health(info), SANDBOX_HEALTH_NONE);
    ck_assert_int_eq(sandbox_info_get_ttl_ms(info), -1);
    ck_assert_int_eq(sandbox_info_get_restarts(info), 0);
    sandbox_info_unref(info);
    ck_assert_int_eq(sandbox_info_get_health(NULL), SANDBOX_EINVALID);
    ck_assert_int_eq(sandbox_info_get_ttl_ms(NULL), -1);
}
END_TEST

START_TEST(lifetime_wait_health)
{
    int health = -1;

    fake.answer = BOX("running", "\"x\"", LIFE("healthy"));
    sbtest_ok(sandbox_wait_health(sandbox, 0, &health, &error), &error);
    ck_assert_int_eq(health, SANDBOX_HEALTH_HEALTHY);
    fake.answer = BOX("running", "\"x\"", LIFE("unhealthy"));
    sbtest_ok(sandbox_wait_health(sandbox, 0, NULL, &error), &error);
    fake.answer = BOX("running", "\"x\"", LIFE("starting"));
    refused(sandbox_wait_health(sandbox, 30, &health, &error), SANDBOX_ETIMEDOUT, "");
    fake.answer = BOX("stopped", "\"x\"", LIFE(""));
    refused(sandbox_wait_health(sandbox, 1000, &health, &error), SANDBOX_ENOTRUNNING, "");
    fake.answer = BOX("running", "", LIFE(""));
    refused(sandbox_wait_health(sandbox, 1000, &health, &error), SANDBOX_EINVALID, "health");
    refused(sandbox_wait_health(NULL, 1000, &health, &error), SANDBOX_EINVALID, "sandbox");
    refused(sandbox_wait_health(sandbox, -3, &health, &error), SANDBOX_EINVALID, "timeout_ms");
}
END_TEST

START_TEST(lifetime_specs)
{
    struct sandbox_health_options options = SANDBOX_HEALTH_OPTIONS_INIT;
    const char *const argv[] = { "/bin/true", NULL };
    struct sandbox_spec *spec = NULL;

    sbtest_ok(sandbox_spec_new(&spec, &error), &error);
    sbtest_ok(sandbox_spec_set_ttl(spec, 1000, SANDBOX_END_DELETE, &error), &error);
    sbtest_ok(sandbox_spec_set_ttl(spec, 0, SANDBOX_END_STOP, &error), &error);
    sbtest_ok(sandbox_spec_set_idle(spec, 1000, SANDBOX_END_STOP, &error), &error);
    sbtest_ok(sandbox_spec_set_end_grace(spec, 0, &error), &error);
    sbtest_ok(sandbox_spec_set_restart(spec, SANDBOX_RESTART_UNLESS_STOPPED, 0, &error), &error);
    sbtest_ok(sandbox_spec_set_health(spec, argv, NULL, &error), &error);
    sbtest_ok(sandbox_spec_set_health(spec, NULL, NULL, &error), &error);
    options.retries = 1001;
    refused(sandbox_spec_set_health(spec, argv, &options, &error), SANDBOX_EINVALID, "retries");
    options.retries = 1;
    options.interval_ms = 9;
    refused(sandbox_spec_set_health(spec, argv, &options, &error), SANDBOX_EINVALID, "interval_ms");
    options.interval_ms = 10;
    options.user = "no:such:user";
    refused(sandbox_spec_set_health(spec, argv, &options, &error), SANDBOX_EINVALID, "user");
    options.size = 3;
    ck_assert_int_eq(sandbox_spec_set_health(spec, argv, &options, &error), SANDBOX_EINVALID);
    error = sandbox_error_unref(error);
    refused(sandbox_spec_set_ttl(NULL, 1000, 0, &error), SANDBOX_EINVALID, "spec");
    sandbox_spec_unref(spec);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api lifetime");
    TCase *tests = sbtest_case("lifetime");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, lifetime_calls);
    tcase_add_test(tests, lifetime_hosts_that_cannot);
    tcase_add_test(tests, lifetime_info);
    tcase_add_test(tests, lifetime_wait_health);
    tcase_add_test(tests, lifetime_specs);
    suite_add_tcase(suite, tests);
    return sbtest_main(suite);
}
