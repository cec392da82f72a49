/* SPDX-License-Identifier: Apache-2.0
 * What is told of limits, the ceilings of a host, and who would get rid of both. */
#include "limits.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------------------------- what is told ---- */

START_TEST(limit_stats)
{
    struct sandbox_limits limits = limits_of(64 * MIB, 100, -1);
    struct sandbox_stats stats, before;
    struct sandbox_exec *exec = NULL;

    if (!box_limits())
        limits = limits_of(-1, 100, -1);
    sandbox = box_start(host, spec_with(&limits));
    before = stats_now();
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sleep", "100"), NULL, &exec, &error), &error);
    ck_assert_int_eq(box_code(sandbox, NULL, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"), 0);
    stats = stats_now();
    ck_assert_int_ge(stats.time_ns, before.time_ns);
    if (box_limits()) {
        ck_assert_int_eq(stats.memory_level, SANDBOX_LEVEL_ENFORCED);
        ck_assert_int_eq(stats.pids_level, SANDBOX_LEVEL_ENFORCED);
        ck_assert_int_eq(stats.memory_max, 64 * MIB);
        ck_assert_int_gt(stats.memory, 0);
        ck_assert_int_ge(stats.memory_peak, stats.memory);
        ck_assert_int_eq(stats.pids_max, 100);
        ck_assert_int_eq(stats.pids, before.pids + 1);
        ck_assert_int_eq(stats.cpu_level, SANDBOX_LEVEL_ENFORCED);
        ck_assert_int_gt(stats.cpu_us, before.cpu_us);
        if (access("/proc/pressure/cpu", R_OK) == 0)
            ck_assert_int_eq(stats.pressure_level, SANDBOX_LEVEL_ENFORCED);
    } else if (stats.memory_level == SANDBOX_LEVEL_IMPOSSIBLE) {
        ck_assert_int_eq(stats.memory, -1);
        ck_assert_int_eq(stats.cpu_us, -1);
    }
    if (stats.pressure_level == SANDBOX_LEVEL_ENFORCED) {
        ck_assert_int_ge(stats.cpu_pressure.some_us, 0);
        ck_assert_int_ge(stats.memory_pressure.some_avg10, 0);
    } else {
        ck_assert_int_eq(stats.cpu_pressure.some_us, -1);
    }
    sandbox_exec_unref(exec);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    sbtest_fails(sandbox_get_stats(sandbox, &stats, &error), SANDBOX_ENOTRUNNING, &error);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sbtest_fails(sandbox_get_stats(sandbox, &stats, &error), SANDBOX_ENOTFOUND, &error);
}
END_TEST

/* Without limits, where v1 has no group for it: from its processes. */
START_TEST(limit_stats_wrapped)
{
    struct sandbox_stats stats;
    char *text;

    sandbox = box_start(host, NULL);
    stats = stats_now();
    if (stats.memory_level == SANDBOX_LEVEL_WRAPPED) {
        ck_assert_int_gt(stats.memory, 0);
        ck_assert_int_eq(stats.memory_max, -1);
        ck_assert_int_eq(stats.pids, 1); /* init */
    }
    text = box_sh(sandbox, NULL, "echo alive");
    ck_assert_str_eq(text, "alive");
    free(text);
}
END_TEST

/* Reads until one of this type comes; its attribute. */
static int64_t await(struct sandbox_events *events, int type, const char *attribute)
{
    for (;;) {
        struct sandbox_event *event = NULL;
        json_t *document, *value;
        int64_t number = 0;
        int found;

        sbtest_ok(sandbox_events_read(events, sbtest_slowly(10000), &event, &error), &error);
        found = sandbox_event_get_type(event) == type;
        document = json_loads(sandbox_event_get_json(event), 0, NULL);
        value = json_object_get(json_object_get(document, "attributes"), attribute);
        if (found && json_is_object(value))
            value = json_object_get(value, "pids_max");
        if (found)
            number = json_is_string(value) ? (int64_t)json_string_value(value)[0] : json_integer_value(value);
        json_decref(document);
        sandbox_event_unref(event);
        if (found)
            return number;
    }
}

START_TEST(limit_events)
{
    struct sandbox_limits limits = limits_of(32 * MIB, 12, -1);
    struct sandbox_events *events = NULL;
    struct box_run run;

    if (!box_limits())
        limits = limits_of(-1, 12, -1);
    sandbox = box_start(host, spec_with(&limits));
    sbtest_ok(sandbox_events_open(host, NULL, &events, &error), &error);
    if (box_limits()) {
        started();
        ck_assert_int_eq(await(events, SANDBOX_EVENT_LIMIT, "limit"), 'p');
        box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("/guest/bombs", "mem"));
        ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_OOM);
        box_clear(&run);
        ck_assert_int_ge(await(events, SANDBOX_EVENT_OOM, "kills"), 1);
        limits.pids_max = 40;
        set(&limits);
        ck_assert_int_eq(await(events, SANDBOX_EVENT_LIMITS, "limits"), 40);
    } else {
        sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
        limits.pids_max = 40;
        set(&limits);
        ck_assert_int_eq(await(events, SANDBOX_EVENT_LIMITS, "limits"), 40);
    }
    sandbox_events_close(events);
}
END_TEST

/* -------------------------------------------------------------------------------------------------- ceilings ---- */

static struct sandbox_host *open_with(const struct sandbox_limits *ceiling, unsigned int flags)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_host *opened = NULL;

    options.state_root = box_root();
    options.ceiling = ceiling;
    options.flags = flags;
    sbtest_ok(sandbox_host_open("local:", &options, 10000, &opened, &error), &error);
    return opened;
}

START_TEST(limit_ceiling)
{
    struct sandbox_limits ceiling = limits_of(-1, 50, -1), limits = limits_of(-1, 51, -1);
    struct sandbox_host *capped = open_with(&ceiling, 0);
    struct sandbox_spec *spec = spec_with(&limits);

    refused(sandbox_create(capped, spec, 10000, &sandbox, &error), SANDBOX_EDENIED, "pids_max");
    limits.pids_max = 0; /* what says nothing gets the ceiling */
    sbtest_ok(sandbox_spec_set_limits(spec, &limits, &error), &error);
    sbtest_ok(sandbox_create(capped, spec, 10000, &sandbox, &error), &error);
    ck_assert_int_eq(limit_now(sandbox, "pids_max"), 50);
    sandbox_stop(sandbox, 0, 10000, NULL);
    limits.pids_max = 60;
    sandbox_set_limits(sandbox, &limits, 10000, &error);
    ck_assert_ptr_nonnull(strstr(sandbox_error_get_message(error), "50"));
    refused(SANDBOX_EDENIED, SANDBOX_EDENIED, "pids_max");
    limits.pids_max = 0; /* and doesn't get rid of it so */
    set(&limits);
    ck_assert_int_eq(limit_now(sandbox, "pids_max"), 50);
    sandbox_spec_unref(spec);
    sandbox_host_unref(capped);
}
END_TEST

/* Without a limit of memory there is none of swap either: such a ceiling would be one in name only. */
START_TEST(limit_ceiling_of_swap)
{
    struct sandbox_limits ceiling = limits_of(-1, -1, -1);
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_host *no = NULL;

    ceiling.swap_max = 16 * MIB;
    options.state_root = box_root();
    options.ceiling = &ceiling;
    options.flags = SANDBOX_HOST_KEEP_CEILING;
    refused(sandbox_host_open("local:", &options, 10000, &no, &error), SANDBOX_EINVALID, "swap_max");
    ceiling.memory_max = 64 * MIB;
    sandbox_host_unref(open_with(&ceiling, 0));
}
END_TEST

/* Stored, it holds for everybody, also for what was made before it. */
START_TEST(limit_ceiling_kept)
{
    struct sandbox_limits ceiling = limits_of(-1, 50, -1), higher = limits_of(-1, 90, -1), lower = limits_of(-1, 40, -1),
                          limits = limits_of(-1, 70, -1);
    struct sandbox_spec *spec = spec_with(&limits);
    struct sandbox_host *other;
    struct sandbox *no = NULL;
    char path[4200];

    sbtest_ok(sandbox_create(host, spec, 10000, &sandbox, &error), &error);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    sandbox_host_unref(open_with(&ceiling, SANDBOX_HOST_KEEP_CEILING));
    refused(sandbox_create(host, spec, 10000, &no, &error), SANDBOX_EDENIED, "pids_max");
    refused(sandbox_start(sandbox, 10000, &error), SANDBOX_EDENIED, "pids_max");
    other = open_with(&higher, SANDBOX_HOST_KEEP_CEILING); /* no call raises it */
    refused(sandbox_create(other, spec, 10000, &no, &error), SANDBOX_EDENIED, "pids_max");
    sandbox_host_unref(other);
    sandbox_host_unref(open_with(&lower, SANDBOX_HOST_KEEP_CEILING));
    limits.pids_max = 45;
    refused(sandbox_set_limits(sandbox, &limits, 10000, &error), SANDBOX_EDENIED, "pids_max");
    limits.pids_max = 40;
    set(&limits);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    box_write(box_root(), "ceiling", "{}"); /* what can't be read lets nothing through */
    sbtest_fails(sandbox_create(host, spec, 10000, &no, &error), SANDBOX_EDAMAGED, &error);
    snprintf(path, sizeof path, "%s/ceiling", box_root());
    ck_assert_int_eq(unlink(path), 0);
    sandbox_spec_unref(spec);
}
END_TEST

/* --------------------------------------------------------------------------------------------------- hostile ---- */

/* A daemon that is root inside, with every right a sandbox gives, neither raises its limits nor leaves its groups. */
START_TEST(redteam_b11_limits)
{
    static const char script[] =
        "mkdir -p /m; n=0\n"
        "for t in 'cgroup2 none' 'cgroup memory' 'cgroup pids' 'cgroup cpu' 'cgroup blkio'; do set -- $t\n"
        "  if [ $2 = none ]; then mount -t $1 none /m; else mount -t $1 -o $2 none /m; fi 2>/dev/null || continue\n"
        "  for f in $(find /m -name '*.max' -o -name 'memory.*limit_in_bytes' -o -name 'cpu.cfs_quota_us' -o -name cpu.shares); do\n"
        "    echo max >$f 2>/dev/null; echo -1 >$f 2>/dev/null; done\n"
        "  for f in $(find /m -name cgroup.procs) /m/../cgroup.procs; do echo $$ >$f 2>/dev/null; done\n"
        "  mkdir /m/out 2>/dev/null && echo $$ >/m/out/cgroup.procs 2>/dev/null\n"
        "  umount -l /m; done\n"
        "ulimit -Hn 65536 2>/dev/null && echo files raised\n"
        "echo tried; exec sleep 1000\n";
    struct sandbox_limits limits = limits_of(48 * MIB, 20, 500);
    struct sandbox_spec *spec = box_spec();
    struct box_run run;
    struct sandbox_stats stats;

    if (!box_limits())
        limits = limits_of(-1, 20, -1);
    limits.files_max = 64;
    sbtest_ok(sandbox_spec_set_limits(spec, &limits, &error), &error);
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("sh", "-c", script), &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_RESOURCE", &error), &error);
    sandbox = box_start(host, spec);
    sbtest_ok(sandbox_log_wait(sandbox, "tried\n", 6, 0, sbtest_slowly(10000), NULL, &error), &error);
    sbtest_fails(sandbox_log_wait(sandbox, "files raised", 12, 0, 0, NULL, &error), SANDBOX_ETIMEDOUT, &error);
    if (box_limits()) {
        stats = stats_now();
        ck_assert_int_eq(stats.memory_max, 48 * MIB);
        ck_assert_int_eq(stats.pids_max, 20);
        ck_assert_int_eq(stats.cpu_max, 500);
        ck_assert_int_ge(stats.pids, 2); /* it is still in there */
        box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("/guest/bombs", "mem"));
        ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_OOM);
        box_clear(&run);
    }
    ck_assert_int_lt(started(), 20);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-stats");
    TCase *tc = sbtest_case("stats");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, limit_stats);
    tcase_add_test(tc, limit_stats_wrapped);
    tcase_add_test(tc, limit_events);
    tcase_add_test(tc, limit_ceiling);
    tcase_add_test(tc, limit_ceiling_of_swap);
    tcase_add_test(tc, limit_ceiling_kept);
    tcase_add_test(tc, redteam_b11_limits);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
