/* SPDX-License-Identifier: Apache-2.0
 * See spec-life.h. In JSON it is one member, "life", of which an older record has none: then everything is off. */
#include "spec.h"

#include "errors.h"
#include "json.h"
#include "rules.h"
#include "util.h"

#include <errno.h>
#include <string.h>

static const char *const ends[] = { [SANDBOX_END_STOP] = "stop", [SANDBOX_END_DELETE] = "delete" };
static const char *const policies[] = { "no", "on-failure", "always", "unless-stopped" };

/* A hundred years: beyond that sums of times could not be kept. */
#define MS_MAX (INT64_C(100) * 366 * 86400 * 1000)

static int no_memory(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
}

static void free_argv(char **argv)
{
    for (char **p = argv; p && *p; p++)
        free(*p);
    free(argv);
}

static int copy_argv(const char *const *argv, char ***ret_copy)
{
    size_t n = 0;
    char **copy;

    while (argv && argv[n])
        n++;
    if (!n) {
        *ret_copy = NULL;
        return 0;
    }
    copy = calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++)
        if (!(copy[i] = strdup(argv[i]))) {
            free_argv(copy);
            copy = NULL;
        }
    *ret_copy = copy;
    return copy ? 0 : -1;
}

void sb_spec_life_clear(struct sb_spec_life *life)
{
    free_argv(life->health);
    free(life->health_user);
    *life = (struct sb_spec_life){ 0 };
}

int sb_spec_life_copy(struct sb_spec_life *to, const struct sb_spec_life *from)
{
    *to = *from;
    to->health = NULL;
    to->health_user = from->health_user ? strdup(from->health_user) : NULL;
    return (from->health_user && !to->health_user) || copy_argv((const char *const *)from->health, &to->health) ? -1 : 0;
}

int sb_spec_life_is_kept(const struct sb_spec_life *life)
{
    return life->ttl_ms || life->idle_ms || life->health;
}

/* ---- the setters ---- */

static int check_end(int64_t ms, int end, const char *field, struct sandbox_error **error)
{
    int r = sb_check_limit(ms, 100, MS_MAX, field, error);

    if (!r && end != SANDBOX_END_STOP && end != SANDBOX_END_DELETE)
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "end"), "end is none of enum sandbox_end");
    return r;
}

int sb_check_ttl(int64_t ttl_ms, struct sandbox_error **error)
{
    return sb_check_limit(ttl_ms, 100, MS_MAX, "ttl", error);
}

int sb_spec_set_ttl(struct sandbox_spec *spec, int64_t ttl_ms, int end, struct sandbox_error **error)
{
    int r = check_end(ttl_ms, end, "ttl", error);

    if (!r) {
        spec->life.ttl_ms = ttl_ms;
        spec->life.ttl_end = end;
    }
    return r;
}

int sb_spec_set_idle(struct sandbox_spec *spec, int64_t idle_ms, int end, struct sandbox_error **error)
{
    int r = check_end(idle_ms, end, "idle", error);

    if (!r) {
        spec->life.idle_ms = idle_ms;
        spec->life.idle_end = end;
    }
    return r;
}

int sb_spec_set_end_grace(struct sandbox_spec *spec, int64_t grace_ms, struct sandbox_error **error)
{
    int r = sb_check_limit(grace_ms, 1, 600000, "end_grace", error);

    if (!r)
        spec->life.grace_ms = grace_ms + 1;
    return r;
}

int sb_spec_set_restart(struct sandbox_spec *spec, int policy, int max_retries, struct sandbox_error **error)
{
    if (policy < 0 || policy >= (int)SB_ELEMENTS(policies))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "restart"), "restart is none of enum sandbox_restart");
    if (max_retries < 0 || (max_retries && policy != SANDBOX_RESTART_ON_FAILURE))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "restart_max", .hint = "it goes with on-failure alone"),
                       "restart_max is negative, or stands with another policy");
    spec->life.restart = policy;
    spec->life.restart_max = max_retries;
    return 0;
}

static int check_health(const char *const *argv, const struct sandbox_health_options *o, struct sandbox_error **error)
{
    size_t bytes = 0;
    int r = sb_check_argv(argv, "health", error);

    for (size_t i = 0; !r && argv[i] && bytes <= SB_HEALTH_BYTES_MAX; i++)
        bytes += strlen(argv[i]) + 1;
    if (!r && bytes > SB_HEALTH_BYTES_MAX)
        r = sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "health"), "a health check has more than %d bytes of arguments",
                    SB_HEALTH_BYTES_MAX);
    if (!r)
        r = sb_check_limit(o->interval_ms, 10, MS_MAX, "interval_ms", error);
    if (!r)
        r = sb_check_limit(o->timeout_ms, 10, MS_MAX, "timeout_ms", error);
    if (!r)
        r = sb_check_limit(o->start_period_ms, 1, MS_MAX, "start_period_ms", error);
    if (!r)
        r = sb_check_limit(o->start_interval_ms, 10, MS_MAX, "start_interval_ms", error);
    if (!r)
        r = sb_check_limit(o->retries, 1, 1000, "retries", error);
    return r || !o->user ? r : sb_check_user(o->user, error);
}

int sb_spec_set_health(struct sandbox_spec *spec, const char *const *argv, const struct sandbox_health_options *options,
                       struct sandbox_error **error)
{
    static const struct sandbox_health_options none = SANDBOX_HEALTH_OPTIONS_INIT;
    int r = argv && argv[0] ? check_health(argv, options, error) : 0;
    const struct sandbox_health_options *o = argv && argv[0] ? options : &none;
    SB_FREE char *user = NULL;
    char **copy;

    if (r)
        return r;
    if ((o->user && !(user = strdup(o->user))) || copy_argv(argv, &copy))
        return no_memory(error);
    free_argv(spec->life.health);
    free(spec->life.health_user);
    spec->life.health = copy;
    spec->life.health_user = SB_TAKE_PTR(user);
    spec->life.interval_ms = o->interval_ms;
    spec->life.timeout_ms = o->timeout_ms;
    spec->life.start_period_ms = o->start_period_ms;
    spec->life.start_interval_ms = o->start_interval_ms;
    spec->life.retries = o->retries;
    return 0;
}

/* ---- JSON ---- */

static json_t *argv_to_json(char *const *argv)
{
    json_t *list = json_array();

    for (char *const *p = argv; list && p && *p; p++)
        if (json_array_append_new(list, sb_json_bytes(*p))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *health_to_json(const struct sb_spec_life *life)
{
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:i}", "argv", argv_to_json(life->health), "user",
                     sb_json_bytes(life->health_user ? life->health_user : ""), "interval_ms", (json_int_t)life->interval_ms, "timeout_ms",
                     (json_int_t)life->timeout_ms, "start_period_ms", (json_int_t)life->start_period_ms, "start_interval_ms",
                     (json_int_t)life->start_interval_ms, "retries", life->retries);
}

json_t *sb_spec_life_to_json(const struct sb_spec_life *life)
{
    return json_pack("{s:I, s:s, s:I, s:s, s:I, s:s, s:i, s:o}", "ttl_ms", (json_int_t)life->ttl_ms, "ttl_end", ends[life->ttl_end],
                     "idle_ms", (json_int_t)life->idle_ms, "idle_end", ends[life->idle_end], "end_grace_ms",
                     (json_int_t)(life->grace_ms ? life->grace_ms - 1 : SB_LIFE_GRACE_MS), "restart", policies[life->restart], "restart_max",
                     life->restart_max, "health", health_to_json(life));
}

static int wrong(const char *key, struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = key), "%s is not what a spec has there", key);
}

static int index_of(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; name && i < n; i++)
        if (!strcmp(names[i], name))
            return (int)i;
    return -1;
}

static int read_argv(const json_t *list, char ***ret_argv)
{
    size_t n = json_array_size(list);
    char **argv;

    errno = EINVAL;
    argv = json_is_array(list) && n <= SB_ARGV_MAX ? calloc(n + 1, sizeof *argv) : NULL;
    for (size_t i = 0; argv && i < n; i++)
        if (!(argv[i] = sb_json_get_bytes(json_array_get(list, i)))) {
            int saved = errno;

            free_argv(argv);
            errno = saved;
            return -1;
        }
    *ret_argv = argv;
    return argv ? 0 : -1;
}

static int read_health(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    struct sandbox_health_options o = SANDBOX_HEALTH_OPTIONS_INIT;
    SB_FREE char *user = sb_json_get_bytes(json_object_get(value, "user"));
    int64_t retries = sb_json_int(value, "retries", -1);
    char **argv;
    int r;

    if (!user)
        return errno == ENOMEM ? no_memory(error) : wrong(key, error);
    if (json_object_size(value) != 7 || retries < 0 || retries > INT32_MAX)
        return wrong(key, error);
    if (read_argv(json_object_get(value, "argv"), &argv))
        return errno == ENOMEM ? no_memory(error) : wrong(key, error);
    o.interval_ms = sb_json_int(value, "interval_ms", -1);
    o.timeout_ms = sb_json_int(value, "timeout_ms", -1);
    o.start_period_ms = sb_json_int(value, "start_period_ms", -1);
    o.start_interval_ms = sb_json_int(value, "start_interval_ms", -1);
    o.retries = (int)retries;
    o.user = *user ? user : NULL;
    r = sb_spec_set_health(spec, (const char *const *)argv, &o, error);
    free_argv(argv);
    return r;
}

int sb_spec_life_read(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    int64_t max = sb_json_int(value, "restart_max", -1), grace = sb_json_int(value, "end_grace_ms", -1);
    int r;

    if (!json_is_object(value) || json_object_size(value) != 8 || max < 0 || max > INT32_MAX || grace < 0 || grace > 600000)
        return wrong(key, error);
    r = sb_spec_set_ttl(spec, sb_json_int(value, "ttl_ms", -1), index_of(ends, SB_ELEMENTS(ends), sb_json_str(value, "ttl_end")), error);
    if (!r)
        r = sb_spec_set_idle(spec, sb_json_int(value, "idle_ms", -1), index_of(ends, SB_ELEMENTS(ends), sb_json_str(value, "idle_end")),
                             error);
    if (!r)
        r = sb_spec_set_restart(spec, index_of(policies, SB_ELEMENTS(policies), sb_json_str(value, "restart")), (int)max, error);
    if (!r && grace != SB_LIFE_GRACE_MS)
        r = sb_spec_set_end_grace(spec, grace, error);
    return r ? r : read_health(spec, key, json_object_get(value, "health"), error);
}
