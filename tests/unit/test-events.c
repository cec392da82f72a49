/* SPDX-License-Identifier: Apache-2.0
 * Events as api/ hands them on: what a driver says is checked, waits are bounded and end when the host is closed. */
#include "fake.h"
#include "sbtest.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENT(type, rest) "{\"type\":\"" type "\",\"id\":\"" FAKE_ID "\",\"name\":\"n\",\"time_ms\":5," rest "}"

static struct sandbox_host *host;
static struct sandbox_events *events;
static struct sandbox_event *event;
static struct sandbox_error *error;

static void set_up(void)
{
    struct sandbox_events_options options = SANDBOX_EVENTS_OPTIONS_INIT;

    fake_reset();
    host = fake_host();
    options.id = FAKE_ID;
    options.label_key = "k";
    options.label_value = "v";
    sbtest_ok(sandbox_events_open(host, &options, &events, &error), &error);
    ck_assert_str_eq(fake.called, "events 01234567 k v");
}

static void tear_down(void)
{
    ck_assert_ptr_null(sandbox_events_close(events));
    ck_assert_int_eq(fake.events_frees, 1);
    sandbox_host_unref(host);
}

START_TEST(events_types)
{
    static const char *const said[] = { EVENT("created", "\"attributes\":{}"), EVENT("failed", "\"attributes\":{\"cause\":\"x\"}"),
                                        EVENT("moved", "\"attributes\":{},\"more\":1") };
    static const int types[] = { SANDBOX_EVENT_CREATED, SANDBOX_EVENT_FAILED, SANDBOX_EVENT_UNKNOWN };

    for (size_t i = 0; i < SB_ELEMENTS(said); i++) {
        fake.event = said[i];
        sbtest_ok(sandbox_events_read(events, 0, &event, &error), &error);
        ck_assert_int_eq(sandbox_event_get_type(event), types[i]);
        ck_assert_str_eq(sandbox_event_get_id(event), FAKE_ID);
        ck_assert_str_eq(sandbox_event_get_name(event), "n");
        ck_assert_int_eq(sandbox_event_get_time_ms(event), 5);
        ck_assert_ptr_nonnull(strstr(sandbox_event_get_json(event), i == 2 ? "\"more\":1" : "attributes"));
        event = sandbox_event_unref(event);
    }
    sbtest_fails(sandbox_events_read(events, 0, &event, &error), SANDBOX_ETIMEDOUT, &error);
    sbtest_fails(sandbox_events_read(events, 20, &event, &error), SANDBOX_ETIMEDOUT, &error);
    fake.refuses = SANDBOX_ELOST;
    sbtest_fails(sandbox_events_read(events, -1, &event, &error), SANDBOX_ELOST, &error);
}
END_TEST

/* A driver's host may be a hostile machine. */
START_TEST(events_that_are_none)
{
    static const char *const said[] = { "{}", "[]", "{\"type\":\"created\",\"id\":\"short\",\"name\":\"\",\"attributes\":{}}",
                                        "{\"type\":7,\"id\":\"\",\"name\":\"\",\"attributes\":{}}", EVENT("created", "\"attributes\":[]"),
                                        "{\"type\":\"created\",\"id\":\"\",\"attributes\":{}}" };

    for (size_t i = 0; i < SB_ELEMENTS(said); i++) {
        fake.event = said[i];
        sbtest_fails(sandbox_events_read(events, 0, &event, &error), SANDBOX_EPROTOCOL, &error);
        ck_assert_ptr_null(event);
    }
}
END_TEST

static void *read_for_ever(void *result)
{
    struct sandbox_event *none = NULL;

    *(int *)result = sandbox_events_read(events, -1, &none, NULL);
    return NULL;
}

START_TEST(events_close_ends_a_wait)
{
    pthread_t thread;
    int result = 1;

    ck_assert_int_eq(pthread_create(&thread, NULL, read_for_ever, &result), 0);
    usleep(20000);
    ck_assert_int_eq(result, 1);
    sbtest_ok(sandbox_host_close(host, &error), &error);
    pthread_join(thread, NULL);
    ck_assert_int_eq(result, SANDBOX_ECLOSED);
}
END_TEST

START_TEST(events_in_a_fork)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        int good = sandbox_events_read(events, 0, &event, NULL) == SANDBOX_EFORKED && sandbox_events_get_fd(events) == SANDBOX_EFORKED &&
                   !sandbox_events_close(events) && fake.events_frees == 0;

        _exit(good ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(events_arguments)
{
    struct sandbox_events_options options = SANDBOX_EVENTS_OPTIONS_INIT;
    struct sandbox_events *second = NULL;

    sbtest_fails(sandbox_events_open(host, NULL, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_events_open(NULL, NULL, &second, &error), SANDBOX_EINVALID, &error);
    options.size = 8;
    sbtest_fails(sandbox_events_open(host, &options, &second, &error), SANDBOX_EINVALID, &error);
    fake.refuses = SANDBOX_ENOTFOUND;
    sbtest_fails(sandbox_events_open(host, NULL, &second, &error), SANDBOX_ENOTFOUND, &error);
    fake.refuses = 0;
    fake.ops.events_open = NULL;
    sbtest_fails(sandbox_events_open(host, NULL, &second, &error), SANDBOX_EUNSUPPORTED, &error);
    ck_assert_ptr_null(second);
    ck_assert_int_eq(sandbox_events_get_fd(NULL), SANDBOX_EINVALID);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api events");
    TCase *tc = sbtest_case("events");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, events_types);
    tcase_add_test(tc, events_that_are_none);
    tcase_add_test(tc, events_close_ends_a_wait);
    tcase_add_test(tc, events_in_a_fork);
    tcase_add_test(tc, events_arguments);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
