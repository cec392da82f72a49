/* SPDX-License-Identifier: Apache-2.0
 * How long a sandbox lives: what a spec says of it, pause, resume and extend, and the health that its keeper found. */
#include "handles.h"
#include "options.h"

#include <errno.h>
#include <json.h>
#include <poll.h>
#include <string.h>

/* ---- specs ---- */

#define SET(call, error)                                                                                                         \
    do {                                                                                                                         \
        struct sandbox_error *failure = NULL;                                                                                    \
        int r = spec ? (call) : sb_fail_null(&failure, "spec");                                                                  \
        return sb_leave(r, &failure, error, "spec", NULL);                                                                       \
    } while (0)

int sandbox_spec_set_ttl(struct sandbox_spec *spec, int64_t ttl_ms, int end, struct sandbox_error **error)
{
    SET(sb_spec_set_ttl(spec, ttl_ms, end, &failure), error);
}

int sandbox_spec_set_idle(struct sandbox_spec *spec, int64_t idle_ms, int end, struct sandbox_error **error)
{
    SET(sb_spec_set_idle(spec, idle_ms, end, &failure), error);
}

int sandbox_spec_set_end_grace(struct sandbox_spec *spec, int64_t grace_ms, struct sandbox_error **error)
{
    SET(sb_spec_set_end_grace(spec, grace_ms, &failure), error);
}

int sandbox_spec_set_restart(struct sandbox_spec *spec, int policy, int max_retries, struct sandbox_error **error)
{
    SET(sb_spec_set_restart(spec, policy, max_retries, &failure), error);
}

static int set_health(struct sandbox_spec *spec, const char *const *argv, const struct sandbox_health_options *options,
                      struct sandbox_error **error)
{
    struct sandbox_health_options known = SANDBOX_HEALTH_OPTIONS_INIT;
    int r = sb_options_read(&known, sizeof known, SB_SIZE_TO(struct sandbox_health_options, user), options, error);

    return r ? r : sb_spec_set_health(spec, argv, &known, error);
}

int sandbox_spec_set_health(struct sandbox_spec *spec, const char *const *argv, const struct sandbox_health_options *options,
                            struct sandbox_error **error)
{
    SET(set_health(spec, argv, options, &failure), error);
}

/* ---- pause, resume, extend ---- */

enum verb { PAUSE, RESUME, EXTEND };
static const char *const verbs[] = { "pause", "resume", "extend" };

static int has_slot(const struct sb_driver_ops *ops, enum verb verb)
{
    return verb == PAUSE ? ops->pause != NULL : verb == RESUME ? ops->resume != NULL : ops->extend != NULL;
}

static int begin(struct sandbox *sandbox, enum verb verb, int64_t ttl_ms, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    const struct sb_driver_ops *ops;
    struct sb_op *op;
    int r = sb_sandbox_check(sandbox, error);

    if (!r && verb == EXTEND)
        r = sb_check_ttl(ttl_ms, error);
    if (r)
        return r;
    if (!ret_op)
        return sb_fail_null(error, "ret_op");
    ops = sandbox->host->driver->ops;
    if (!has_slot(ops, verb))
        return sb_fail_slot(error, sandbox->host, verbs[verb], NULL);
    r = verb == PAUSE    ? ops->pause(sandbox->host->driver, sandbox->id, &op, error)
        : verb == RESUME ? ops->resume(sandbox->host->driver, sandbox->id, &op, error)
                         : ops->extend(sandbox->host->driver, sandbox->id, ttl_ms, &op, error);
    return r ? r : sb_op_new(op, sandbox->host, NULL, verbs[verb], ops->name, ret_op, error);
}

static int begin_and_leave(struct sandbox *sandbox, enum verb verb, int64_t ttl_ms, struct sandbox_op **ret_op,
                           struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(begin(sandbox, verb, ttl_ms, ret_op, &failure), &failure, error, verbs[verb], sandbox ? sandbox->host : NULL);
}

static int run(struct sandbox *sandbox, enum verb verb, int64_t ttl_ms, int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = sb_check_timeout(timeout_ms, "timeout_ms", &failure);

    if (!r)
        r = begin(sandbox, verb, ttl_ms, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, verbs[verb], sandbox ? sandbox->host : NULL);
}

int sandbox_pause_begin(struct sandbox *sandbox, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    return begin_and_leave(sandbox, PAUSE, 0, ret_op, error);
}

int sandbox_pause(struct sandbox *sandbox, int64_t timeout_ms, struct sandbox_error **error)
{
    return run(sandbox, PAUSE, 0, timeout_ms, error);
}

int sandbox_resume_begin(struct sandbox *sandbox, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    return begin_and_leave(sandbox, RESUME, 0, ret_op, error);
}

int sandbox_resume(struct sandbox *sandbox, int64_t timeout_ms, struct sandbox_error **error)
{
    return run(sandbox, RESUME, 0, timeout_ms, error);
}

int sandbox_extend_begin(struct sandbox *sandbox, int64_t ttl_ms, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    return begin_and_leave(sandbox, EXTEND, ttl_ms, ret_op, error);
}

int sandbox_extend(struct sandbox *sandbox, int64_t ttl_ms, int64_t timeout_ms, struct sandbox_error **error)
{
    return run(sandbox, EXTEND, ttl_ms, timeout_ms, error);
}

/* ---- what inspect tells ---- */

static const json_t *life_of(const struct sandbox_info *info)
{
    return info ? json_object_get(sb_info_document(info), "life") : NULL;
}

int sandbox_info_get_health(const struct sandbox_info *info)
{
    static const char *const names[] = { "", "starting", "healthy", "unhealthy" };
    const char *health = info ? sb_json_str(life_of(info), "health") : NULL;

    if (!info)
        return SANDBOX_EINVALID;
    for (int i = 0; health && i < (int)SB_ELEMENTS(names); i++)
        if (!strcmp(names[i], health))
            return i;
    return SANDBOX_HEALTH_NONE;
}

int64_t sandbox_info_get_ttl_ms(const struct sandbox_info *info)
{
    return sb_json_int(life_of(info), "ttl_ms", -1);
}

int64_t sandbox_info_get_restarts(const struct sandbox_info *info)
{
    return sb_json_int(life_of(info), "restarts", 0);
}

/* ---- waiting for the health ---- */

/* 1: it isn't known yet. */
static int look(struct sandbox *sandbox, int *ret_health, struct sandbox_error **error)
{
    struct sandbox_info *info = NULL;
    int r = sandbox_inspect(sandbox, &info, error), health = sandbox_info_get_health(info), state = sandbox_info_get_state(info);
    const json_t *argv = info ? json_object_get(json_object_get(json_object_get(json_object_get(sb_info_document(info), "spec"), "life"),
                                                                "health"), "argv") : NULL;

    if (!r && !json_array_size(argv))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "health", .hint = "sandbox_spec_set_health()"), "the sandbox has no health check");
    else if (!r && state != SANDBOX_STATE_RUNNING && state != SANDBOX_STATE_PAUSED)
        r = sb_fail(error, SB_ARGS(SANDBOX_ENOTRUNNING), "the sandbox does not run");
    else if (!r)
        r = health != SANDBOX_HEALTH_HEALTHY && health != SANDBOX_HEALTH_UNHEALTHY;
    sandbox_info_unref(info);
    if (!r && ret_health)
        *ret_health = health;
    return r;
}

static int wait_health(struct sandbox *sandbox, int64_t timeout_ms, int *ret_health, struct sandbox_error **error)
{
    int64_t until = sb_deadline(timeout_ms);
    int r = sb_sandbox_check(sandbox, error), pause_ms = 5;

    if (!r)
        r = sb_check_timeout(timeout_ms, "timeout_ms", error);
    if (r)
        return r;
    while ((r = look(sandbox, ret_health, error)) == 1) {
        struct pollfd closed = { .fd = sandbox->host->close_fd, .events = POLLIN };
        int left = sb_left_ms(until);

        if (!left)
            return sb_fail_timeout(error, timeout_ms);
        if (poll(&closed, 1, left > 0 && left < pause_ms ? left : pause_ms) > 0)
            return sb_fail_closed(error);
        pause_ms = pause_ms < 200 ? pause_ms * 2 : 200;
    }
    return r;
}

int sandbox_wait_health(struct sandbox *sandbox, int64_t timeout_ms, int *ret_health, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(wait_health(sandbox, timeout_ms, ret_health, &failure), &failure, error, "wait", sandbox ? sandbox->host : NULL);
}
