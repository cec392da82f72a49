/* SPDX-License-Identifier: Apache-2.0
 * How long sandboxes live: the options of create and run, pause, resume, extend, and waiting for the health. */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int value_end(const char *text, int64_t *ret)
{
    if (strcmp(text, "stop") != 0 && strcmp(text, "delete") != 0)
        return -1;
    *ret = text[0] == 's' ? SANDBOX_END_STOP : SANDBOX_END_DELETE;
    return 0;
}

/* The number of retries stands above the policy. */
int value_restart(const char *text, int64_t *ret)
{
    static const char *const policies[] = { "no", "on-failure", "always", "unless-stopped" };
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    int64_t max = 0;

    if (colon && (value_count(colon + 1, &max) || max < 1 || max > INT32_MAX))
        return -1;
    for (size_t i = 0; i < TOOL_ELEMENTS(policies); i++)
        if (strlen(policies[i]) == length && memcmp(policies[i], text, length) == 0) {
            if (max && i != SANDBOX_RESTART_ON_FAILURE)
                return -1;
            *ret = (int64_t)i | max << 8;
            return 0;
        }
    return -1;
}

static int set_health(struct sandbox_spec *spec, const struct arguments *a, struct sandbox_error **error)
{
    const char *const argv[] = { "/bin/sh", "-c", a->health_command, NULL };
    struct sandbox_health_options options = SANDBOX_HEALTH_OPTIONS_INIT;

    options.interval_ms = a->health_interval_ms;
    options.timeout_ms = a->health_timeout_ms;
    options.start_period_ms = a->health_start_period_ms;
    options.start_interval_ms = a->health_start_interval_ms;
    options.retries = a->health_retries < INT32_MAX ? (int)a->health_retries : INT32_MAX;
    return sandbox_spec_set_health(spec, argv, &options, error);
}

int spec_set_life(struct sandbox_spec *spec, const struct arguments *a, struct sandbox_error **error)
{
    int r = 0;

    if (a->ttl_ms)
        r = sandbox_spec_set_ttl(spec, a->ttl_ms, (int)a->at_end, error);
    if (!r && a->idle_ms)
        r = sandbox_spec_set_idle(spec, a->idle_ms, (int)a->at_end, error);
    if (!r && a->end_grace_ms >= 0)
        r = sandbox_spec_set_end_grace(spec, a->end_grace_ms, error);
    if (!r && a->restart)
        r = sandbox_spec_set_restart(spec, (int)(a->restart & 0xff), (int)(a->restart >> 8), error);
    return r || !a->health_command ? r : set_health(spec, a, error);
}

static int pause_one(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments, struct sandbox_error **error)
{
    struct sandbox_op *op = NULL;
    int r = sandbox_pause_begin(sandbox, &op, error);

    (void)arguments;
    return r ? r : op_finish(tool, op, NULL, error);
}

static int resume_one(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments, struct sandbox_error **error)
{
    struct sandbox_op *op = NULL;
    int r = sandbox_resume_begin(sandbox, &op, error);

    (void)arguments;
    return r ? r : op_finish(tool, op, NULL, error);
}

int command_pause(struct tool *tool, const struct arguments *arguments)
{
    return for_each_sandbox(tool, arguments, pause_one);
}

int command_resume(struct tool *tool, const struct arguments *arguments)
{
    return for_each_sandbox(tool, arguments, resume_one);
}

int command_extend(struct tool *tool, const struct arguments *arguments)
{
    const char *time = arguments->operands[1];
    struct sandbox_error *error = NULL;
    struct sandbox *sandbox = NULL;
    struct sandbox_op *op = NULL;
    int64_t ttl_ms = 0;
    int status, r;

    if (strcmp(time, "none") != 0 && (value_duration(time, &ttl_ms) || ttl_ms < 1))
        return report(tool, SANDBOX_EINVALID, "ttl", "a number with ms, s, m or h, from now; or none: without an end",
                      "\"%.40s\" is no time", time);
    status = tool_open_host(tool);
    if (!status)
        status = tool_open_sandbox(tool, arguments->operands[0], &sandbox);
    if (!status) {
        r = sandbox_extend_begin(sandbox, ttl_ms, &op, &error);
        if (!r)
            r = op_finish(tool, op, NULL, &error);
        if (r)
            status = report_error(tool, error);
    }
    sandbox_unref(sandbox);
    return status;
}

int wait_for_health(struct tool *tool, struct sandbox *sandbox, int64_t timeout_ms)
{
    struct sandbox_error *error = NULL;
    int health = SANDBOX_HEALTH_NONE, r = sandbox_wait_health(sandbox, timeout_ms, &health, &error);

    if (r) {
        report_error(tool, error);
        return r == SANDBOX_ETIMEDOUT ? TOOL_EXIT_DEADLINE : TOOL_EXIT_FAILED;
    }
    if (tool->json)
        printf("{\"health\":\"%s\"}\n", text_health(health));
    else
        puts(text_health(health));
    return health == SANDBOX_HEALTH_HEALTHY ? 0 : 1;
}

const char *text_health(int health)
{
    return health == SANDBOX_HEALTH_HEALTHY     ? "healthy"
           : health == SANDBOX_HEALTH_UNHEALTHY ? "unhealthy"
           : health == SANDBOX_HEALTH_STARTING  ? "starting"
                                                : "";
}
