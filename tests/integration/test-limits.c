/* SPDX-License-Identifier: Apache-2.0
 * Limits: that they hold, that they change while a sandbox runs and are still there after a restart, what they leave of a machine's ceilings,
 * and what is told of them. Where this user has no cgroups the same tests see the refusal, with its field. */
#include "box.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (INT64_C(1) << 20)

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

/* 1: the sandbox's group is in a cgroup2 that has the controller. */
static int on_v2(const char *controller)
{
    char path[4096], file[4200], *text;
    int r;

    if (!box_cgroup(sandbox, path, sizeof path))
        return 0;
    snprintf(file, sizeof file, "%s/cgroup.controllers", path);
    text = box_read(file);
    r = strstr(text, controller) != NULL;
    free(text);
    return r;
}

static void refused(int code, int wanted, const char *field)
{
    ck_assert_ptr_nonnull(error);
    if (code != wanted || strcmp(sandbox_error_get_field(error), field) != 0)
        ck_abort_msg("wanted %s of %s, got %s of %s: %s", sandbox_code_name(wanted), field, sandbox_code_name(code),
                     sandbox_error_get_field(error), sandbox_error_get_message(error));
    error = sandbox_error_unref(error);
}

static struct sandbox_limits limits_of(int64_t memory, int64_t pids, int64_t cpu)
{
    struct sandbox_limits limits = SANDBOX_LIMITS_INIT;

    limits.memory_max = memory;
    limits.pids_max = pids;
    limits.cpu_max = cpu;
    return limits;
}

static struct sandbox_spec *spec_with(const struct sandbox_limits *limits)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_limits(spec, limits, &error), &error);
    return spec;
}

static void set(const struct sandbox_limits *limits)
{
    sbtest_ok(sandbox_set_limits(sandbox, limits, 10000, &error), &error);
}

/* A number of what inspect says of the limits. */
static int64_t limit_now(struct sandbox *of, const char *name)
{
    struct sandbox_info *info = NULL;
    json_t *document;
    int64_t value;

    sbtest_ok(sandbox_inspect(of, &info, &error), &error);
    document = json_loads(sandbox_info_get_json(info), 0, NULL);
    ck_assert(json_is_integer(json_object_get(json_object_get(document, "limits"), name)));
    value = json_integer_value(json_object_get(json_object_get(document, "limits"), name));
    json_decref(document);
    sandbox_info_unref(info);
    return value;
}

static struct sandbox_stats stats_now(void)
{
    struct sandbox_stats stats = SANDBOX_STATS_INIT;

    sbtest_ok(sandbox_get_stats(sandbox, &stats, &error), &error);
    return stats;
}

/* How many processes a command could start at once; 25 is all it tries. */
static long started(void)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct box_run run;
    long n;

    options.user = box_user();
    box_run(sandbox, &options, NULL, 0, &run,
            BOX_ARGV("/guest/bombs", "children", "25"));
    n = run.output.out ? atol(run.output.out) : -1;
    box_clear(&run);
    return n;
}

/* ------------------------------------------------------------------------------------------------ the limits ---- */

/* What is below the least is refused with it; with the least a command still runs. */
START_TEST(limit_least)
{
    struct sandbox_limits limits = limits_of(4 * MIB - 1, -1, -1), least = limits_of(4 * MIB, 3, 10);
    struct sandbox_spec *spec = box_spec();

    sandbox_spec_set_limits(spec, &limits, &error);
    ck_assert_ptr_nonnull(strstr(sandbox_error_get_message(error), "4194304"));
    refused(SANDBOX_EINVALID, SANDBOX_EINVALID, "memory_max");
    limits = limits_of(-1, 2, -1);
    refused(sandbox_spec_set_limits(spec, &limits, &error), SANDBOX_EINVALID, "pids_max");
    limits = limits_of(-1, -1, 9);
    refused(sandbox_spec_set_limits(spec, &limits, &error), SANDBOX_EINVALID, "cpu_max");
    limits = limits_of(-1, -1, -1);
    limits.files_max = 15;
    refused(sandbox_spec_set_limits(spec, &limits, &error), SANDBOX_EINVALID, "files_max");
    limits.files_max = -1;
    limits.cpu_weight = 10001;
    refused(sandbox_spec_set_limits(spec, &limits, &error), SANDBOX_EINVALID, "cpu_weight");
    if (!box_limits())
        least = limits_of(-1, 3, -1);
    least.files_max = 16;
    sbtest_ok(sandbox_spec_set_limits(spec, &least, &error), &error);
    sandbox = box_start(host, spec);
    ck_assert_int_eq(box_code(sandbox, box_user(), "exit 7"), 7);
}
END_TEST

START_TEST(limit_files)
{
    struct sandbox_limits limits = SANDBOX_LIMITS_INIT, own = SANDBOX_LIMITS_INIT;
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct box_run run;
    char *text;

    limits.files_max = 40;
    sandbox = box_start(host, spec_with(&limits));
    text = box_sh(sandbox, NULL, "ulimit -Sn; ulimit -Hn; ulimit -n 41 2>/dev/null && echo raised; :");
    ck_assert_str_eq(text, "40\n40");
    free(text);
    own.files_max = 20;
    options.limits = &own;
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("sh", "-c", "ulimit -Hn"));
    ck_assert_str_eq(run.output.out, "20\n");
    box_clear(&run);
    own.files_max = 60; /* of a sandbox with 40: that counts */
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("sh", "-c", "ulimit -Hn"));
    ck_assert_str_eq(run.output.out, "40\n");
    box_clear(&run);
    limits.files_max = 50;
    set(&limits);
    text = box_sh(sandbox, NULL, "ulimit -Hn");
    ck_assert_str_eq(text, "50");
    free(text);
}
END_TEST

/* Direct I/O to the disk that the state root is on, faster than it may be. */
START_TEST(limit_io)
{
    struct sandbox_io_limit io = SANDBOX_IO_LIMIT_INIT;
    const struct sandbox_io_limit *const list[] = { &io, NULL }, *const none[] = { NULL };
    struct sandbox_limits limits = SANDBOX_LIMITS_INIT;
    struct sandbox_spec *spec = box_spec();
    struct sandbox_stats stats;
    long begun;
    int r;

    limits.io = list;
    io.device = "/proc";
    sbtest_ok(sandbox_spec_set_limits(spec, &limits, &error), &error);
    refused(sandbox_create(host, spec, 10000, &sandbox, &error), SANDBOX_EINVALID, "io.device");
    io.device = box_root();
    io.write_bps = MIB;
    sbtest_ok(sandbox_spec_set_limits(spec, &limits, &error), &error);
    r = sandbox_create(host, spec, 10000, &sandbox, &error);
    sandbox_spec_unref(spec);
    if (r == SANDBOX_EINVALID) { /* a state root in memory, or on an overlay */
        refused(r, SANDBOX_EINVALID, "io.device");
        return;
    }
    if (r == SANDBOX_EUNSUPPORTED) {
        refused(r, SANDBOX_EUNSUPPORTED, "io");
        return;
    }
    sbtest_ok(r, &error);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    begun = box_now();
    ck_assert_int_eq(box_code(sandbox, NULL, "dd if=/dev/zero of=/f bs=64k count=40 oflag=direct"), 0);
    ck_assert_int_gt(box_now() - begun, 1200); /* 2.5 MiB at one a second */
    stats = stats_now();
    ck_assert_int_eq(stats.io_level, SANDBOX_LEVEL_ENFORCED);
    ck_assert_int_ge(stats.io_write_bytes, 5 * MIB / 2);
    ck_assert_int_ge(stats.io_writes, 40);
    limits.io = none;
    set(&limits);
    begun = box_now();
    ck_assert_int_eq(box_code(sandbox, NULL, "dd if=/dev/zero of=/f bs=64k count=160 oflag=direct"), 0);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(9000)); /* as before it would be ten seconds */
}
END_TEST

START_TEST(limit_cpu_weight)
{
    struct sandbox_limits limits = SANDBOX_LIMITS_INIT;
    struct sandbox_spec *spec;
    int r;

    limits.cpu_weight = 50;
    spec = spec_with(&limits);
    r = sandbox_create(host, spec, 10000, &sandbox, &error);
    sandbox_spec_unref(spec);
    if (!box_limits()) {
        refused(r, SANDBOX_EUNSUPPORTED, "cpu");
        return;
    }
    sbtest_ok(r, &error);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    ck_assert_int_eq(limit_now(sandbox, "cpu_weight"), 50);
    limits.cpu_weight = 0;
    limits.cpu_max = 100;
    set(&limits);
    ck_assert_int_eq(stats_now().cpu_max, 100);
    box_code(sandbox, NULL, "timeout 1 sh -c 'while :; do :; done'");
    ck_assert_int_gt(stats_now().cpu_throttled, 0);
    ck_assert_int_gt(stats_now().cpu_throttled_us, 0);
}
END_TEST

/* --------------------------------------------------------------------------------------------- while it runs ---- */

START_TEST(limit_change_pids)
{
    struct sandbox_limits limits = limits_of(-1, 30, -1);
    struct sandbox *other = NULL;

    sandbox = box_start(host, spec_with(&limits));
    ck_assert_int_eq(started(), 25);
    limits.pids_max = 12;
    if (!box_limits()) { /* RLIMIT_NPROC can't be changed from outside: at the next start */
        refused(sandbox_set_limits(sandbox, &limits, 10000, &error), SANDBOX_EUNSUPPORTED, "pids_max");
        ck_assert_int_eq(limit_now(sandbox, "pids_max"), 30);
        sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    }
    set(&limits);
    if (!box_limits())
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    ck_assert_int_lt(started(), 13);
    ck_assert_int_gt(started(), 2);
    sbtest_ok(sandbox_open(host, sandbox_get_id(sandbox), &other, &error), &error);
    ck_assert_int_eq(limit_now(other, "pids_max"), 12);
    sandbox_unref(other);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    ck_assert_int_lt(started(), 13); /* still */
    if (!box_limits())
        return;
    limits.pids_max = 60;
    set(&limits);
    ck_assert_int_eq(started(), 25);
    ck_assert_int_eq(stats_now().pids_max, 60);
}
END_TEST

/* Lowered below what is in use: refused, and nobody is killed. */
START_TEST(limit_change_memory)
{
    struct sandbox_limits limits = limits_of(64 * MIB, -1, -1);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_exec *holder = NULL;
    struct box_run run;
    char line[16];
    int out;

    if (!box_limits()) {
        sandbox = box_start(host, NULL);
        refused(sandbox_set_limits(sandbox, &limits, 10000, &error), SANDBOX_EUNSUPPORTED, "memory_max");
        ck_assert_int_eq(limit_now(sandbox, "memory_max"), 0);
        return;
    }
    sandbox = box_start(host, spec_with(&limits));
    options.stderr_fd = SANDBOX_STDIO_NULL;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/guest/bombs", "hold", "24"), &options, &holder, &error), &error);
    sbtest_ok(sandbox_exec_take_stdout(holder, &out, &error), &error);
    ck_assert_int_gt(read(out, line, sizeof line), 0); /* it has them */
    ck_assert_int_ge(stats_now().memory, 24 * MIB);
    limits.memory_max = 16 * MIB;
    refused(sandbox_set_limits(sandbox, &limits, 10000, &error), SANDBOX_EBUSY, "memory_max");
    ck_assert_int_eq(limit_now(sandbox, "memory_max"), 64 * MIB);
    ck_assert_int_eq(stats_now().memory_max, 64 * MIB);
    ck_assert_int_eq(sandbox_exec_wait(holder, 0, &result, NULL), SANDBOX_ETIMEDOUT);
    limits.memory_max = 40 * MIB;
    set(&limits);
    ck_assert_int_eq(stats_now().memory_max, 40 * MIB);
    sbtest_ok(sandbox_exec_kill(holder, SIGKILL, 0, &error), &error);
    sbtest_ok(sandbox_exec_wait(holder, 10000, &result, &error), &error);
    close(out);
    sandbox_exec_unref(holder);
    limits.memory_max = 16 * MIB;
    set(&limits);
    box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("/guest/bombs", "touch", "24"));
    ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_OOM);
    box_clear(&run);
    ck_assert_int_ge(stats_now().oom_kills, 1);
    limits.memory_max = 0;
    set(&limits);
    ck_assert_int_eq(stats_now().memory_max, -1);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    limits.memory_max = 20 * MIB; /* stopped: from the next start on */
    set(&limits);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    ck_assert_int_eq(stats_now().memory_max, 20 * MIB);
}
END_TEST

/* Several at once: each is whole, and in the end record and kernel agree. */
START_TEST(limit_change_races)
{
    struct sandbox_limits limits = limits_of(-1, 100, -1);
    int64_t last;

    sandbox = box_start(host, spec_with(&limits));
    if (!box_limits())
        return; /* limit_change_pids saw the refusal */
    for (int k = 0; k < 4; k++)
        if (fork() == 0) {
            struct sandbox_host *mine = box_host();
            struct sandbox *box = NULL;
            int failed = sandbox_open(mine, sandbox_get_id(sandbox), &box, NULL);

            for (int i = 0; i < 20 && !failed; i++) {
                limits.pids_max = 100 + k * 20 + i;
                failed = sandbox_set_limits(box, &limits, 20000, NULL);
            }
            _exit(failed ? 1 : 0);
        }
    for (int k = 0; k < 4; k++) {
        int status;

        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    last = limit_now(sandbox, "pids_max");
    ck_assert_int_eq(stats_now().pids_max, last);
    ck_assert_int_ge(last, 119);
}
END_TEST

/* An idempotency key asks for the sandbox that was made with it, whatever its limits are by now. */
START_TEST(limit_change_and_key)
{
    struct sandbox_limits limits = limits_of(-1, 100, -1);
    struct sandbox_spec *spec = spec_with(&limits);
    struct sandbox *again = NULL;

    sbtest_ok(sandbox_spec_set_idempotency_key(spec, "limits", &error), &error);
    sbtest_ok(sandbox_create(host, spec, 10000, &sandbox, &error), &error);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    limits.pids_max = 50;
    set(&limits);
    sbtest_ok(sandbox_create(host, spec, 10000, &again, &error), &error);
    ck_assert_str_eq(sandbox_get_id(again), sandbox_get_id(sandbox));
    ck_assert_int_eq(limit_now(again, "pids_max"), 50);
    sandbox_unref(again);
    sandbox_spec_unref(spec);
}
END_TEST

/* ------------------------------------------------------------------------------------------------ of an exec ---- */

/* Groups of single commands in a sandbox's. */
static int leaves_in(const char *path)
{
    DIR *stream = opendir(path);
    struct dirent *d;
    int n = 0;

    while (stream && (d = readdir(stream)))
        n += !strncmp(d->d_name, "x-", 2);
    if (stream)
        closedir(stream);
    return n;
}

START_TEST(limit_exec)
{
    struct sandbox_limits limits = limits_of(-1, 8, -1), own = limits_of(16 * MIB, -1, -1);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;
    struct box_run run;
    char path[4096];
    long begun;

    sandbox = box_start(host, NULL);
    options.limits = &limits;
    options.user = box_user();
    if (!on_v2("pids")) {
        refused(sandbox_exec(sandbox, BOX_ARGV("true"), &options, &exec, &error), SANDBOX_EUNSUPPORTED, "limits.pids_max");
        options.limits = &own;
        refused(sandbox_exec(sandbox, BOX_ARGV("true"), &options, &exec, &error), SANDBOX_EUNSUPPORTED, "limits.memory_max");
        ck_assert_int_eq(started(), 25);
        return;
    }
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/bombs", "children", "25"));
    ck_assert_int_lt(atol(run.output.out), 8);
    box_clear(&run);
    ck_assert_int_eq(started(), 25); /* one without is free */
    if (on_v2("memory")) {
        options.limits = &own;
        box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/bombs", "touch", "24"));
        ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_OOM);
        box_clear(&run);
        options.limits = NULL;
        box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/bombs", "touch", "24"));
        ck_assert_str_eq(run.output.out, "ready\n");
        box_clear(&run);
    }
    /* with a deadline, too, and nothing is left of the groups */
    options.limits = &limits;
    options.deadline_ms = 300;
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/bombs", "fork"));
    ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_DEADLINE);
    box_clear(&run);
    ck_assert_int_eq(box_cgroup(sandbox, path, sizeof path), 1);
    begun = box_now();
    while (leaves_in(path) && box_now() - begun < sbtest_slowly(5000)) /* whoever was killed is reaped a moment later */
        usleep(20000);
    ck_assert_int_eq(leaves_in(path), 0);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 0"), 0);
}
END_TEST

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
    Suite *suite = suite_create("integration-limits");
    TCase *tc = sbtest_case("limits");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, limit_least);
    tcase_add_test(tc, limit_files);
    tcase_add_test(tc, limit_io);
    tcase_add_test(tc, limit_cpu_weight);
    tcase_add_test(tc, limit_change_pids);
    tcase_add_test(tc, limit_change_memory);
    tcase_add_test(tc, limit_change_races);
    tcase_add_test(tc, limit_change_and_key);
    tcase_add_test(tc, limit_exec);
    tcase_add_test(tc, limit_stats);
    tcase_add_test(tc, limit_stats_wrapped);
    tcase_add_test(tc, limit_events);
    tcase_add_test(tc, limit_ceiling);
    tcase_add_test(tc, limit_ceiling_kept);
    tcase_add_test(tc, redteam_b11_limits);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
