/* SPDX-License-Identifier: Apache-2.0
 * Limits and statistics, as the public header has them. The rules are base/limit-set.c's. */
#include "handles.h"
#include "options.h"

int sb_limits_take(struct sb_limits *limits, const struct sandbox_limits *from, struct sandbox_error **error)
{
    struct sandbox_limits known = SANDBOX_LIMITS_INIT;
    int r = from ? sb_options_read(&known, sizeof known, SB_SIZE_TO(struct sandbox_limits, io), from, error)
                 : sb_fail_null(error, "limits");

    return r ? r : sb_limits_apply(limits, &known, error);
}

int sandbox_spec_set_limits(struct sandbox_spec *spec, const struct sandbox_limits *limits, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    int r = spec ? sb_limits_take(&spec->limits, limits, &failure) : sb_fail_null(&failure, "spec");

    return sb_leave(r, &failure, error, "spec", NULL);
}

static int set_limits(struct sandbox *sandbox, const struct sandbox_limits *limits, int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_limits known = SANDBOX_LIMITS_INIT;
    struct sb_limits checked = { 0 };
    int r = sb_sandbox_check(sandbox, error);
    struct sb_driver *driver;

    if (!r)
        r = sb_check_timeout(timeout_ms, "timeout_ms", error);
    if (!r)
        r = sb_limits_take(&checked, limits, error); /* before it goes anywhere */
    if (!r)
        r = sb_options_read(&known, sizeof known, SB_SIZE_TO(struct sandbox_limits, io), limits, error);
    if (r)
        return r;
    driver = sandbox->host->driver;
    return driver->ops->set_limits ? driver->ops->set_limits(driver, sandbox->id, &known, timeout_ms, error)
                                   : sb_fail_slot(error, sandbox->host, "set_limits", NULL);
}

int sandbox_set_limits(struct sandbox *sandbox, const struct sandbox_limits *limits, int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(set_limits(sandbox, limits, timeout_ms, &failure), &failure, error, "set-limits", sandbox ? sandbox->host : NULL);
}

static int get_stats(struct sandbox *sandbox, struct sandbox_stats *stats, struct sandbox_error **error)
{
    struct sandbox_stats known = SANDBOX_STATS_INIT;
    int r = sb_sandbox_check(sandbox, error);
    struct sb_driver *driver;

    if (!r && !stats)
        r = sb_fail_null(error, "stats");
    if (!r)
        r = sb_options_check(stats, sizeof known, SB_SIZE_TO(struct sandbox_stats, pressure_level), error);
    if (r)
        return r;
    driver = sandbox->host->driver;
    r = driver->ops->get_stats ? driver->ops->get_stats(driver, sandbox->id, &known, error)
                               : sb_fail_slot(error, sandbox->host, "get_stats", NULL);
    if (!r)
        sb_options_write(stats, &known, sizeof known);
    return r;
}

int sandbox_get_stats(struct sandbox *sandbox, struct sandbox_stats *stats, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(get_stats(sandbox, stats, &failure), &failure, error, "stats", sandbox ? sandbox->host : NULL);
}
