/* SPDX-License-Identifier: Apache-2.0
 * Commands as others than their starter see them: how they ended is the same to everybody who asks, whenever and of whom. */
#include "box.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static struct sandbox_exec *begin(const char *script)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;

    options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/bin/sh", "-c", script), &options, &exec, &error), &error);
    return exec;
}

static void expect_end(struct sandbox_exec *exec, int kind, int signal)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;

    sbtest_ok(sandbox_exec_wait(exec, sbtest_slowly(20000), &result, &error), &error);
    ck_assert_int_eq(result.kind, kind);
    ck_assert_int_eq(result.code, -1);
    ck_assert_int_eq(result.signal, signal);
    sandbox_exec_unref(exec);
}

static struct sandbox_exec *by_id(const char *id)
{
    struct sandbox_exec *exec = NULL;

    sbtest_ok(sandbox_exec_open(sandbox, id, &exec, &error), &error);
    return exec;
}

static void expect_event(struct sandbox_events *events, int type)
{
    struct sandbox_event *event = NULL;
    int seen;

    do {
        sbtest_ok(sandbox_events_read(events, 10000, &event, &error), &error);
        seen = sandbox_event_get_type(event) == type;
        if (seen)
            ck_assert_msg(strstr(sandbox_event_get_json(event), "oom") != NULL, "%s", sandbox_event_get_json(event));
        sandbox_event_unref(event);
    } while (!seen);
}

/* The last end in the daemon's log. */
static int logged_kind(void)
{
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct sandbox_log *log = NULL;
    int kind = -1, r;

    sbtest_ok(sandbox_log_open(sandbox, NULL, &log, &error), &error);
    while ((r = sandbox_log_read(log, 10000, &record, &error)) == 1)
        if (record.kind == SANDBOX_LOG_ENDED)
            kind = record.exec_kind;
    sbtest_ok(r, &error);
    sandbox_log_close(log);
    return kind;
}

/* Who was killed for want of memory is told as that by the handle that started him, by those opened while he lived and after, by the event, the log and
 * sandbox_wait(), and by what is on disk when the sandbox has ended. Who kills himself is not taken for one. */
START_TEST(ends_for_want_of_memory)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_spec *spec = box_spec();
    struct sandbox_events *events = NULL;
    struct sandbox_exec *exec, *beside;
    char id[SANDBOX_ID_LENGTH + 1];

    sbtest_ok(sandbox_spec_set_memory_max(spec, 48 << 20, &error), &error);
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", "until [ -e /tmp/go ]; do sleep 0.05; done; exec /guest/bombs mem"), &error), &error);
    if (!box_limits()) {
        sbtest_fails(sandbox_create(host, spec, 10000, &sandbox, &error), SANDBOX_EUNSUPPORTED, &error);
        sandbox_spec_unref(spec);
        sbtest_skip("memory limits need a control group, which this user has none of");
    }
    sandbox = box_start(host, spec);
    sbtest_ok(sandbox_events_open(host, NULL, &events, &error), &error);
    exec = begin("sleep 0.3; exec /guest/bombs mem");
    snprintf(id, sizeof id, "%s", sandbox_exec_get_id(exec));
    beside = by_id(id);
    expect_end(exec, SANDBOX_EXEC_OOM, SIGKILL);
    expect_end(beside, SANDBOX_EXEC_OOM, SIGKILL);
    expect_end(by_id(id), SANDBOX_EXEC_OOM, SIGKILL);
    expect_event(events, SANDBOX_EVENT_EXEC_EXITED);
    expect_end(begin("kill -KILL $$"), SANDBOX_EXEC_SIGNALLED, SIGKILL);
    ck_assert_int_eq(box_code(sandbox, NULL, "touch /tmp/go"), 0);
    sbtest_ok(sandbox_wait(sandbox, 20000, &result, &error), &error);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_OOM);
    expect_event(events, SANDBOX_EVENT_DAEMON_EXITED);
    sandbox_events_close(events);
    ck_assert_int_eq(sandbox_log_wait(sandbox, "never said", 10, 0, 20000, NULL, &error), SANDBOX_ENOTRUNNING);
    ck_assert_msg(strstr(sandbox_error_get_message(error), "want of memory") != NULL, "%s", sandbox_error_get_message(error));
    error = sandbox_error_unref(error);
    ck_assert_int_eq(logged_kind(), SANDBOX_EXEC_OOM);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    expect_end(by_id(id), SANDBOX_EXEC_OOM, SIGKILL);
    sbtest_ok(sandbox_wait(sandbox, 0, &result, &error), &error);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_OOM);
    ck_assert_int_eq(logged_kind(), SANDBOX_EXEC_OOM);
}
END_TEST

static void expect_running(const char *const *ids, size_t n)
{
    struct sandbox_info *info = NULL;
    const char *json, *list, *end;
    size_t quotes = 0;

    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    json = sandbox_info_get_json(info);
    list = strstr(json, "\"execs\"");
    ck_assert_msg(list != NULL, "%s", json);
    list = strchr(list, '[');
    end = strchr(list, ']');
    for (const char *at = list; at < end; at++)
        quotes += *at == '"';
    ck_assert_uint_eq(quotes, 2 * n);
    for (size_t i = 0; i < n; i++) {
        const char *at = strstr(list, ids[i]);

        ck_assert(at != NULL && at < end);
    }
    sandbox_info_unref(info);
}

/* inspect names the commands that run, each by the id that it can be attached to by. */
START_TEST(inspect_lists_execs)
{
    enum { MANY = 40 };
    struct sandbox_exec *execs[MANY];
    const char *ids[MANY];

    sandbox = box_start(host, NULL);
    expect_running(NULL, 0);
    for (int i = 0; i < MANY; i++) {
        execs[i] = begin("exec sleep 600");
        ids[i] = sandbox_exec_get_id(execs[i]);
    }
    expect_running(ids, MANY);
    for (int i = 1; i < MANY; i++) {
        struct sandbox_exec *other = by_id(ids[i]);

        sbtest_ok(sandbox_exec_kill(other, SIGKILL, 0, &error), &error);
        expect_end(other, SANDBOX_EXEC_KILLED, SIGKILL);
    }
    expect_running(ids, 1);
    for (int i = 0; i < MANY; i++)
        sandbox_exec_unref(execs[i]);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    expect_running(NULL, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-execs");
    TCase *tc = sbtest_case("execs");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, ends_for_want_of_memory);
    tcase_add_test(tc, inspect_lists_execs);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
