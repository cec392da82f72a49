/* SPDX-License-Identifier: Apache-2.0
 * What a pull helper that was taken over may say: everything that no helper of ours would is refused. */
#include "puller.h"

#include <sbtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sandbox_error *error;
static struct sb_puller puller;
static struct sb_pull_report report;

static void begin(void)
{
    puller = (struct sb_puller)SB_PULLER_INIT;
    puller.items = calloc(2, sizeof *puller.items);
    puller.n_items = 2;
    report = (struct sb_pull_report){ .size = sizeof report, .type = SB_PULL_PROGRESS, .id = 1, .done = 5, .fetched = 3 };
}

static void end(void)
{
    sb_puller_clear(&puller);
}

static int parse(void)
{
    return sb_puller_parse(&puller, &report, sizeof report, &error);
}

START_TEST(puller_reports)
{
    sbtest_ok(parse(), &error);
    ck_assert_int_eq(puller.items[1].size, 5);
    ck_assert_int_eq(puller.items[1].done, 0);
    report.type = SB_PULL_DONE;
    report.done = 9;
    snprintf(report.media_type, sizeof report.media_type, "type");
    sbtest_ok(parse(), &error);
    ck_assert_int_eq(puller.items[1].done, 1);
    ck_assert_str_eq(puller.items[1].media_type, "type");
    /* what is done stays as it was */
    sbtest_fails(parse(), SANDBOX_EPROTOCOL, &error);
    report.id = 0;
    report.code = SANDBOX_EDIGEST;
    report.retryable = 1;
    snprintf(report.message, sizeof report.message, "why");
    ck_assert_int_eq(parse(), SANDBOX_EDIGEST);
    ck_assert_str_eq(sandbox_error_get_message(error), "why");
    error = sandbox_error_unref(error);
}
END_TEST

START_TEST(puller_nonsense)
{
    const struct sb_pull_report good = report;

#define NONSENSE(...)                                                                                                            \
    do {                                                                                                                         \
        report = good;                                                                                                           \
        __VA_ARGS__;                                                                                                             \
        sbtest_fails(parse(), SANDBOX_EPROTOCOL, &error);                                                                        \
    } while (0)
    NONSENSE(report.size--);
    NONSENSE(report.type = 0);
    NONSENSE(report.type = 3);
    NONSENSE(report.id = 2);
    NONSENSE(report.id = UINT32_MAX);
    NONSENSE(report.done = -1);
    NONSENSE(report.fetched = -1);
    NONSENSE(report.sys_errno = -1);
    NONSENSE(report.type = SB_PULL_DONE, report.code = 1);
    NONSENSE(report.type = SB_PULL_DONE, report.code = -1000);
    NONSENSE(memset(report.media_type, 'x', sizeof report.media_type));
    NONSENSE(memset(report.hint, 'x', sizeof report.hint));
    NONSENSE(memset(report.message, 'x', sizeof report.message));
    NONSENSE(report.type = SB_PULL_DONE, report.code = SANDBOX_EIO, snprintf(report.message, sizeof report.message, "\033[2J"));
    NONSENSE(report.type = SB_PULL_DONE, report.code = SANDBOX_EIO, snprintf(report.hint, sizeof report.hint, "a\nb"));
    NONSENSE(report.type = SB_PULL_DONE, report.code = SANDBOX_EIO, snprintf(report.message, sizeof report.message, "\xff"));
    report = good;
    sbtest_fails(sb_puller_parse(&puller, &report, sizeof report - 1, &error), SANDBOX_EPROTOCOL, &error);
    sbtest_fails(sb_puller_parse(&puller, &report, 0, &error), SANDBOX_EPROTOCOL, &error);
    ck_assert_int_eq(puller.items[0].done + puller.items[1].done, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine-puller");
    TCase *tc = sbtest_case("puller");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, puller_reports);
    tcase_add_test(tc, puller_nonsense);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
