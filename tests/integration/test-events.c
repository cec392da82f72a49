/* SPDX-License-Identifier: Apache-2.0
 * Events as a watcher in another process than the one that causes them would see them: which, in which order, with what in them. */
#include "box.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_host *host, *watcher;
static struct sandbox *sandbox;
static struct sandbox_events *events;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
    watcher = box_host();
}

static void tear_down(void)
{
    events = sandbox_events_close(events);
    box_end(&host, &sandbox);
    watcher = sandbox_host_unref(watcher);
}

static void watch(const char *id, const char *key, const char *value)
{
    struct sandbox_events_options options = SANDBOX_EVENTS_OPTIONS_INIT;

    options.id = id;
    options.label_key = key;
    options.label_value = value;
    sbtest_ok(sandbox_events_open(watcher, &options, &events, &error), &error);
}

/* The next event must be of this type, about this sandbox (NULL: any); an attribute of it, or all of them. malloc'ed. */
static char *expect(int type, const char *id, const char *attribute)
{
    struct sandbox_event *event = NULL;
    const json_t *attributes, *value;
    json_t *document;
    char *text;

    sbtest_ok(sandbox_events_read(events, 10000, &event, &error), &error);
    if (sandbox_event_get_type(event) != type || (id && strcmp(id, sandbox_event_get_id(event))))
        ck_abort_msg("wanted %d, got %s", type, sandbox_event_get_json(event));
    document = json_loads(sandbox_event_get_json(event), 0, NULL);
    ck_assert_ptr_nonnull(document);
    ck_assert(json_integer_value(json_object_get(document, "time_ms")) == sandbox_event_get_time_ms(event));
    ck_assert_int_gt(sandbox_event_get_time_ms(event), 1000000000000);
    attributes = json_object_get(document, "attributes");
    value = attribute ? json_object_get(attributes, attribute) : attributes;
    ck_assert_msg(value != NULL, "%s has no %s", sandbox_event_get_json(event), attribute ? attribute : "attributes");
    text = json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, JSON_ENCODE_ANY);
    json_decref(document);
    sandbox_event_unref(event);
    return text;
}

static void expect_value(int type, const char *id, const char *attribute, const char *wanted)
{
    char *text = expect(type, id, attribute);

    ck_assert_str_eq(text, wanted);
    free(text);
}

static void expect_one(int type, const char *id)
{
    free(expect(type, id, NULL));
}

static void expect_none(void)
{
    struct sandbox_event *event = NULL;
    int r = sandbox_events_read(events, 100, &event, &error);

    ck_assert_msg(r == SANDBOX_ETIMEDOUT, "an event too much: %s", sandbox_event_get_json(event));
    ck_assert_int_eq(sandbox_error_get_retryable(error), 1);
    error = sandbox_error_unref(error);
}

static struct sandbox *create(const char *name, const char *label)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox *made = NULL;

    if (name)
        sbtest_ok(sandbox_spec_set_name(spec, name, &error), &error);
    if (label)
        sbtest_ok(sandbox_spec_add_label(spec, "watched", label, &error), &error);
    sbtest_ok(sandbox_create(host, spec, 20000, &made, &error), &error);
    sandbox_spec_unref(spec);
    return made;
}

/* A whole life, all of it caused before the first read: nothing is missing. */
START_TEST(events_life)
{
    struct sandbox_event *event = NULL;
    const char *id;

    watch(NULL, NULL, NULL);
    expect_none();
    sandbox = create("lively", NULL);
    id = sandbox_get_id(sandbox);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 7"), 7);
    ck_assert_int_eq(poll(&(struct pollfd){ .fd = sandbox_events_get_fd(events), .events = POLLIN }, 1, 5000), 1);
    sbtest_ok(sandbox_events_read(events, sbtest_slowly(5000), &event, &error), &error);
    ck_assert_int_eq(sandbox_event_get_type(event), SANDBOX_EVENT_CREATED);
    ck_assert_str_eq(sandbox_event_get_id(event), id);
    ck_assert_str_eq(sandbox_event_get_name(event), "lively");
    sandbox_event_unref(event);
    expect_one(SANDBOX_EVENT_STARTED, id);
    expect_one(SANDBOX_EVENT_EXEC_STARTED, id);
    expect_value(SANDBOX_EVENT_EXEC_EXITED, id, "code", "7");
    expect_none();
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    expect_value(SANDBOX_EVENT_STOPPED, id, "cause", "");
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    expect_one(SANDBOX_EVENT_STARTED, id);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    free(expect(SANDBOX_EVENT_STOPPED, id, "cause"));
    expect_one(SANDBOX_EVENT_DELETED, id);
    expect_none();
}
END_TEST

/* What is there when the watch begins is no news; what happens to it is. */
START_TEST(events_daemon)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox_exec *exec = NULL;
    const char *id;

    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", "sleep 1000 & wait"), &error), &error);
    sandbox = box_start(host, spec);
    id = sandbox_get_id(sandbox);
    watch(id, NULL, NULL);
    expect_none();
    sbtest_ok(sandbox_kill(sandbox, SIGKILL, &error), &error);
    expect_value(SANDBOX_EVENT_DAEMON_EXITED, id, "kind", "killed");
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/bin/sh", "-c", "kill -9 $$"), NULL, &exec, &error), &error);
    sbtest_ok(sandbox_exec_wait(exec, 10000, NULL, &error), &error);
    expect_value(SANDBOX_EVENT_EXEC_STARTED, id, "exec", sandbox_exec_get_id(exec));
    sandbox_exec_unref(exec);
    expect_value(SANDBOX_EVENT_EXEC_EXITED, id, "signal", "9");
    expect_none();
}
END_TEST

START_TEST(events_filters)
{
    struct sandbox_events_options options = SANDBOX_EVENTS_OPTIONS_INIT;
    struct sandbox *other;

    options.id = "0123";
    sbtest_fails(sandbox_events_open(watcher, &options, &events, &error), SANDBOX_EINVALID, &error);
    options.id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    sbtest_fails(sandbox_events_open(watcher, &options, &events, &error), SANDBOX_ENOTFOUND, &error);
    options.id = NULL;
    options.label_value = "x";
    sbtest_fails(sandbox_events_open(watcher, &options, &events, &error), SANDBOX_EINVALID, &error);
    watch(NULL, "watched", "yes");
    other = create(NULL, "no");
    sbtest_ok(sandbox_delete(other, 10000, &error), &error);
    sandbox_unref(other);
    expect_none();
    sandbox = create(NULL, "yes");
    other = create(NULL, NULL);
    expect_one(SANDBOX_EVENT_CREATED, sandbox_get_id(sandbox));
    sbtest_ok(sandbox_start(other, 10000, &error), &error);
    sbtest_ok(sandbox_delete(other, 10000, &error), &error);
    sandbox_unref(other);
    expect_none();
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    free(expect(SANDBOX_EVENT_STOPPED, sandbox_get_id(sandbox), "cause"));
    expect_one(SANDBOX_EVENT_DELETED, sandbox_get_id(sandbox));
}
END_TEST

/* More than init keeps, read by nobody meanwhile: how much is missing is said, and then it goes on in order. */
START_TEST(events_overrun)
{
    struct sandbox_event *event = NULL;
    long long seen = 0, lost = 0;
    int exits = 0;

    sandbox = box_start(host, NULL);
    watch(sandbox_get_id(sandbox), NULL, NULL);
    for (int i = 0; i < 400; i++)
        ck_assert_int_eq(box_code(sandbox, NULL, "exit 0"), 0);
    while (sandbox_events_read(events, 500, &event, NULL) == 0) {
        json_t *document = json_loads(sandbox_event_get_json(event), 0, NULL);

        if (sandbox_event_get_type(event) == SANDBOX_EVENT_OVERRUN)
            lost += json_integer_value(json_object_get(json_object_get(document, "attributes"), "lost"));
        else
            seen++;
        exits += sandbox_event_get_type(event) == SANDBOX_EVENT_EXEC_EXITED;
        json_decref(document);
        sandbox_event_unref(event);
    }
    ck_assert_int_eq(seen + lost, 800);
    ck_assert_int_gt(lost, 0);
    ck_assert_int_gt(exits, 32);
}
END_TEST

/* init serves eight watchers; who comes later is told that he is one too many, and still hears of the end. */
START_TEST(events_many_watchers)
{
    enum { MORE = 11 };
    struct sandbox_events *all[MORE] = { NULL };

    sandbox = box_start(host, NULL);
    for (int i = 0; i < MORE; i++) {
        watch(sandbox_get_id(sandbox), NULL, NULL);
        all[i] = events;
        if (i >= 8) {
            expect_value(SANDBOX_EVENT_OVERRUN, NULL, "lost", "-1");
        } else {
            expect_none();
        }
    }
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 0"), 0);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    for (int i = 0; i < MORE; i++) {
        events = all[i];
        if (i < 8) {
            expect_one(SANDBOX_EVENT_EXEC_STARTED, NULL);
            expect_one(SANDBOX_EVENT_EXEC_EXITED, NULL);
        }
        free(expect(SANDBOX_EVENT_STOPPED, NULL, "cause"));
        sandbox_events_close(events);
    }
    events = NULL;
}
END_TEST

START_TEST(events_closed)
{
    struct sandbox_event *event = NULL;

    watch(NULL, NULL, NULL);
    sbtest_fails(sandbox_events_read(events, 0, &event, &error), SANDBOX_ETIMEDOUT, &error);
    sbtest_fails(sandbox_events_read(events, -2, &event, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_events_read(events, 0, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_events_read(NULL, 0, &event, &error), SANDBOX_EINVALID, &error);
    ck_assert_int_eq(sandbox_event_get_type(NULL), SANDBOX_EINVALID);
    ck_assert_ptr_null(sandbox_event_unref(NULL));
    ck_assert_ptr_null(sandbox_events_close(NULL));
    sbtest_ok(sandbox_host_close(watcher, &error), &error);
    sbtest_fails(sandbox_events_read(events, -1, &event, &error), SANDBOX_ECLOSED, &error);
}
END_TEST

/* An owned sandbox whose owner is killed has stopped, and doesn't count as failed. */
START_TEST(events_owner_killed)
{
    int fds[2];
    char id[SANDBOX_ID_LENGTH + 1] = "", *cause;
    pid_t owner;

    ck_assert_int_eq(pipe(fds), 0); /* inherited: by the fork alone */
    watch(NULL, NULL, NULL);
    owner = fork();
    if (owner == 0) {
        struct sandbox_host *own = box_host();
        struct sandbox_spec *spec = box_spec();
        struct sandbox *mine = NULL;

        if (sandbox_create(own, spec, 10000, &mine, NULL) || write(fds[1], sandbox_get_id(mine), SANDBOX_ID_LENGTH) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(fds[0], id, SANDBOX_ID_LENGTH), SANDBOX_ID_LENGTH);
    expect_one(SANDBOX_EVENT_CREATED, id);
    kill(owner, SIGKILL);
    waitpid(owner, NULL, 0);
    cause = expect(SANDBOX_EVENT_STOPPED, id, "cause");
    ck_assert_ptr_nonnull(strstr(cause, "owner"));
    free(cause);
    sbtest_ok(sandbox_open(host, id, &sandbox, &error), &error);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

/* Ends that were meant, one after the other while the machine is busy: none is told as a failure. */
START_TEST(events_meant)
{
    watch(NULL, NULL, NULL);
    for (int i = 0; i < 20; i++) {
        sandbox = create(NULL, NULL);
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
        expect_one(SANDBOX_EVENT_CREATED, sandbox_get_id(sandbox));
        expect_one(SANDBOX_EVENT_STARTED, sandbox_get_id(sandbox));
        if (i % 2) {
            sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
            free(expect(SANDBOX_EVENT_STOPPED, sandbox_get_id(sandbox), "cause"));
        }
        sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
        if (i % 2 == 0)
            free(expect(SANDBOX_EVENT_STOPPED, sandbox_get_id(sandbox), "cause"));
        expect_one(SANDBOX_EVENT_DELETED, sandbox_get_id(sandbox));
        sandbox = sandbox_unref(sandbox);
    }
}
END_TEST

/* The same with a watcher that looks all the while, as another process would. */
static void *read_all(void *counts)
{
    struct sandbox_event *event = NULL;

    while (sandbox_events_read(events, 2000, &event, NULL) == 0) {
        ((int *)counts)[sandbox_event_get_type(event)]++;
        event = sandbox_event_unref(event);
    }
    return NULL;
}

START_TEST(events_meant_watched)
{
    int counts[SANDBOX_EVENT_OVERRUN + 1] = { 0 };
    pthread_t thread;

    watch(NULL, NULL, NULL);
    ck_assert_int_eq(pthread_create(&thread, NULL, read_all, counts), 0);
    for (int i = 0; i < 40; i++) {
        sandbox = create(NULL, NULL);
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
        if (i % 2)
            sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
        sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
        sandbox = sandbox_unref(sandbox);
    }
    pthread_join(thread, NULL);
    ck_assert_int_eq(counts[SANDBOX_EVENT_FAILED], 0);
    /* one that came and went between two looks is not told; most are */
    ck_assert_int_eq(counts[SANDBOX_EVENT_CREATED], counts[SANDBOX_EVENT_DELETED]);
    ck_assert_int_eq(counts[SANDBOX_EVENT_STOPPED], counts[SANDBOX_EVENT_DELETED]);
    ck_assert_int_gt(counts[SANDBOX_EVENT_DELETED], 20);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration events");
    TCase *tc = sbtest_case("events");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, events_life);
    tcase_add_test(tc, events_daemon);
    tcase_add_test(tc, events_filters);
    tcase_add_test(tc, events_overrun);
    tcase_add_test(tc, events_many_watchers);
    tcase_add_test(tc, events_meant);
    tcase_add_test(tc, events_meant_watched);
    tcase_add_test(tc, events_closed);
    tcase_add_test(tc, events_owner_killed);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
