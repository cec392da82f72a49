/* SPDX-License-Identifier: Apache-2.0
 * See limits.h. */
#include "limits.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sandbox_host *host;
struct sandbox *sandbox;
struct sandbox_error *error;

void set_up(void)
{
    host = box_host();
}

void tear_down(void)
{
    box_end(&host, &sandbox);
}

int on_v2(const char *controller)
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

void refused(int code, int wanted, const char *field)
{
    ck_assert_ptr_nonnull(error);
    if (code != wanted || strcmp(sandbox_error_get_field(error), field) != 0)
        ck_abort_msg("wanted %s of %s, got %s of %s: %s", sandbox_code_name(wanted), field, sandbox_code_name(code),
                     sandbox_error_get_field(error), sandbox_error_get_message(error));
    error = sandbox_error_unref(error);
}

struct sandbox_limits limits_of(int64_t memory, int64_t pids, int64_t cpu)
{
    struct sandbox_limits limits = SANDBOX_LIMITS_INIT;

    limits.memory_max = memory;
    limits.pids_max = pids;
    limits.cpu_max = cpu;
    return limits;
}

struct sandbox_spec *spec_with(const struct sandbox_limits *limits)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_limits(spec, limits, &error), &error);
    return spec;
}

void set(const struct sandbox_limits *limits)
{
    sbtest_ok(sandbox_set_limits(sandbox, limits, 10000, &error), &error);
}

int64_t limit_now(struct sandbox *of, const char *name)
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

struct sandbox_stats stats_now(void)
{
    struct sandbox_stats stats = SANDBOX_STATS_INIT;

    sbtest_ok(sandbox_get_stats(sandbox, &stats, &error), &error);
    return stats;
}

long started(void)
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
