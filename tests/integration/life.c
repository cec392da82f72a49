/* SPDX-License-Identifier: Apache-2.0
 * See life.h. */
#include "life.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sandbox_host *host;
struct sandbox *sandbox;
struct sandbox_spec *spec;
struct sandbox_events *events;
struct sandbox_error *error;

static void life_set_up(void)
{
    host = box_host();
    spec = box_spec();
}

static void life_tear_down(void)
{
    events = sandbox_events_close(events);
    spec = sandbox_spec_unref(spec);
    box_end(&host, &sandbox);
}

void life_daemon_is(const char *script)
{
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", script), &error), &error);
}

void life_start(void)
{
    sandbox = box_start(host, spec);
    spec = NULL;
}

void life_nap(long ms)
{
    poll(NULL, 0, (int)ms);
}

struct sandbox_info *life_look(void)
{
    struct sandbox_info *info = NULL;

    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    return info;
}

int life_state(void)
{
    struct sandbox_info *info = life_look();
    int now = sandbox_info_get_state(info);

    sandbox_info_unref(info);
    return now;
}

void life_await_state(int wanted)
{
    long until = box_now() + sbtest_slowly(15000);

    while (life_state() != wanted) {
        ck_assert_msg(box_now() < until, "it is in state %d, not in %d", life_state(), wanted);
        life_nap(20);
    }
}

void life_expect_cause(const char *cause)
{
    struct sandbox_info *info = life_look();

    ck_assert_msg(strstr(sandbox_info_get_json(info), cause) != NULL, "%s is not in %s", cause, sandbox_info_get_json(info));
    sandbox_info_unref(info);
}

void life_watch(void)
{
    sbtest_ok(sandbox_events_open(host, NULL, &events, &error), &error);
}

/* The next event but those of commands and ends of daemons; its JSON is good until the next call. */
const char *life_expect_event(int type)
{
    static struct sandbox_event *event;
    int seen;

    do {
        event = sandbox_event_unref(event);
        sbtest_ok(sandbox_events_read(events, sbtest_slowly(15000), &event, &error), &error);
        seen = sandbox_event_get_type(event);
    } while (seen != type && (seen == SANDBOX_EVENT_EXEC_STARTED || seen == SANDBOX_EVENT_EXEC_EXITED || seen == SANDBOX_EVENT_DAEMON_EXITED ||
                              seen == SANDBOX_EVENT_CREATED || seen == SANDBOX_EVENT_STARTED));
    ck_assert_msg(seen == type, "wanted %d, got %s", type, sandbox_event_get_json(event));
    return sandbox_event_get_json(event);
}

long life_log_bytes(void)
{
    struct sandbox_log *log = NULL;
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    long bytes = 0;

    sbtest_ok(sandbox_log_open(sandbox, NULL, &log, &error), &error);
    while (sandbox_log_read(log, 0, &record, &error) == 1)
        bytes += (long)record.data_size;
    sandbox_log_close(log);
    return bytes;
}

void life_await_log(const char *text)
{
    sbtest_ok(sandbox_log_wait(sandbox, text, strlen(text), 0, sbtest_slowly(15000), NULL, &error), &error);
}

struct sandbox_exec *life_begin(const char *script, int out, int64_t deadline_ms)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;

    options.stdout_fd = out;
    options.stderr_fd = SANDBOX_STDIO_NULL;
    options.deadline_ms = deadline_ms;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/bin/sh", "-c", script), &options, &exec, &error), &error);
    return exec;
}

void life_expect_end(struct sandbox_exec *exec, int kind, int code)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;

    sbtest_ok(sandbox_exec_wait(exec, sbtest_slowly(15000), &result, &error), &error);
    ck_assert_int_eq(result.kind, kind);
    ck_assert_int_eq(result.code, code);
    sandbox_exec_unref(exec);
}

void life_pause_it(void)
{
    sbtest_ok(sandbox_pause(sandbox, 10000, &error), &error);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_PAUSED);
}

void life_resume_it(void)
{
    sbtest_ok(sandbox_resume(sandbox, 10000, &error), &error);
    ck_assert_int_eq(life_state(), SANDBOX_STATE_RUNNING);
}

int life_is_listed(void)
{
    struct sandbox_list *list = NULL;
    int n;

    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    n = (int)sandbox_list_get_count(list);
    sandbox_list_unref(list);
    return n;
}

TCase *life_case(Suite *suite, const char *name)
{
    TCase *tc = sbtest_case(name);

    tcase_add_checked_fixture(tc, life_set_up, life_tear_down);
    tcase_set_timeout(tc, 60);
    suite_add_tcase(suite, tc);
    return tc;
}
