/* SPDX-License-Identifier: Apache-2.0
 * See lifetime.h.
 *
 * Within one boot the end of a time to live is on CLOCK_BOOTTIME, which nobody can set and which counts while the machine sleeps. Across boots
 * there is only the wall clock. So after a reboot, when nothing of the sandbox runs any more, it decides over what is kept of it; besides,
 * a boot that has lasted for longer than the whole time to live is proof without it. */
#include "lifetime.h"

#include <errno.h>
#include <fcntl.h>
#include <life-plan.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

enum { MARGIN_MS = 3000 }; /* how much later than the grace a keeper may be at work on the end */

static int64_t clock_ms(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int sb_lifetime_check(const struct sandbox_spec *spec, struct sandbox_error **error)
{
    if (spec->life.restart && !spec->daemon)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "restart", .hint = "commands are not restarted: give it a daemon"),
                       "a restart policy, and no daemon");
    return 0;
}

static int64_t grace_of(const struct sandbox_spec *spec)
{
    return spec->life.grace_ms ? spec->life.grace_ms - 1 : SB_LIFE_GRACE_MS;
}

/* ---- the end of a time to live ---- */

int sb_lifetime_set(struct sb_engine *engine, struct sb_record *record, int64_t ttl_ms)
{
    json_t *life;

    if (!ttl_ms) {
        json_object_del(record->json, "life");
        return 0;
    }
    life = json_pack("{s:s, s:I, s:I, s:I}", "boot", engine->self.boot, "until_ms", (json_int_t)(clock_ms(CLOCK_BOOTTIME) + ttl_ms), "wall_ms",
                     (json_int_t)(clock_ms(CLOCK_REALTIME) + ttl_ms), "ttl_ms", (json_int_t)ttl_ms);
    return json_object_set_new(record->json, "life", life);
}

/* What is left; 0: it is over. INT64_MAX: it has none. */
static int64_t left_ms(const struct sb_engine *engine, const json_t *record)
{
    const json_t *life = json_object_get(record, "life");
    const char *boot = sb_json_str(life, "boot");
    int64_t now = clock_ms(CLOCK_BOOTTIME), left;

    if (!boot)
        return INT64_MAX;
    if (!strcmp(boot, engine->self.boot))
        left = sb_json_int(life, "until_ms", 0) - now;
    else if (now >= sb_json_int(life, "ttl_ms", 0))
        left = 0;
    else
        left = sb_json_int(life, "wall_ms", 0) - clock_ms(CLOCK_REALTIME);
    return left > 0 ? left : 0;
}

int sb_lifetime_may_start(const struct sb_engine *engine, const struct sb_record *record, struct sandbox_error **error)
{
    if (left_ms(engine, record->json) > 0)
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .phase = "start", .field = "ttl", .hint = "sandbox_extend() gives it more"),
                   "the sandbox's time to live is over");
}

/* ---- timers/ID ---- */

static int is_timed(const struct sb_record *record)
{
    return json_object_get(record->json, "life") || (record->spec->life.idle_ms && record->spec->life.idle_end == SANDBOX_END_DELETE);
}

/* A link whose text says when a look is worth while, so that nobody has to read a record before: BOOT, the end on its clock (0: none), 1 when the
 * end of idleness deletes it. */
int sb_lifetime_enter(struct sb_engine *engine, const struct sb_record *record, struct sandbox_error **error)
{
    const json_t *life = json_object_get(record->json, "life");
    const struct sb_spec_life *l = &record->spec->life;
    char text[96], temporary[SB_ID_SIZE + 2];

    if (!is_timed(record)) {
        sb_lifetime_leave(engine, record->id);
        return 0;
    }
    snprintf(text, sizeof text, "%.36s %lld %d", engine->self.boot, (long long)sb_json_int(life, "until_ms", 0),
             l->idle_ms && l->idle_end == SANDBOX_END_DELETE);
    snprintf(temporary, sizeof temporary, ".%s", record->id);
    if ((unlinkat(engine->timers, temporary, 0) < 0 && errno != ENOENT) || symlinkat(text, engine->timers, temporary) < 0 ||
        renameat(engine->timers, temporary, engine->timers, record->id) < 0 ||
        (record->spec->lifetime == SANDBOX_LIFETIME_DETACHED && fsync(engine->timers) < 0))
        return sb_fail_errno(error, errno, "state", "the sandbox can't be entered among those whose time ends");
    return 0;
}

void sb_lifetime_leave(struct sb_engine *engine, const char *id)
{
    unlinkat(engine->timers, id, 0);
}

static json_t *read_state(const struct sb_engine *engine, const char *id);

/* 0: its record needn't be read. */
static int is_worth_a_look(const struct sb_engine *engine, const char *id)
{
    char text[96], boot[40];
    ssize_t n = readlinkat(engine->timers, id, text, sizeof text - 1);
    long long until;
    int idle;

    text[n > 0 ? n : 0] = 0;
    if (sscanf(text, "%39s %lld %d", boot, &until, &idle) != 3 || strcmp(boot, engine->self.boot) ||
        (until && until <= clock_ms(CLOCK_BOOTTIME)))
        return 1;
    if (idle) {
        SB_JSON json_t *state = read_state(engine, id);
        const char *end = sb_json_str(state, "end");

        return end && *end;
    }
    return 0;
}

/* ---- what keeper says ---- */

/* Its file; NULL: none. New reference. */
static json_t *read_state(const struct sb_engine *engine, const char *id)
{
    char path[SB_ID_SIZE + 16];
    SB_FREE char *text = NULL;

    snprintf(path, sizeof path, "%s/log/state", id);
    return sb_read_file(engine->sandboxes, path, 4096, &text, NULL) ? NULL : json_loads(text, 0, NULL);
}

static const char ended_ttl[] = "its time to live ended", ended_idle[] = "it was idle for too long";

const char *sb_lifetime_ended(const struct sb_engine *engine, const struct sb_record *record)
{
    SB_JSON json_t *state = NULL;
    const char *end;

    if (!is_timed(record) && !record->spec->life.idle_ms)
        return NULL;
    state = read_state(engine, record->id);
    end = sb_json_str(state, "end");
    return !end || !*end ? NULL : !strcmp(end, "ttl") ? ended_ttl : ended_idle;
}

int sb_lifetime_is_restarting(const struct sb_engine *engine, const char *id)
{
    SB_JSON json_t *state = read_state(engine, id);

    return sb_json_int(state, "restarting", 0) == 1;
}

static int64_t number(const json_t *object, const char *key)
{
    int64_t value = sb_json_int(object, key, 0);

    return value > 0 ? value : 0;
}

json_t *sb_lifetime_document(const struct sb_engine *engine, const struct sb_record *record, const struct sb_reply *status)
{
    const struct sb_spec_life *life = &record->spec->life;
    int64_t left = left_ms(engine, record->json), restart_at;
    SB_JSON json_t *state = status && (life->health || life->restart) ? read_state(engine, record->id) : NULL;
    const char *health = sb_json_str(state, "health");

    restart_at = number(state, "restart_at_ms");
    if (restart_at)
        restart_at = restart_at > sb_now_ms() ? restart_at - sb_now_ms() : 0;
    else
        restart_at = -1;
    return json_pack("{s:s, s:I, s:I, s:I, s:I}", "health", health ? health : "", "health_failures", (json_int_t)number(state, "health_failures"),
                     "restarts", (json_int_t)number(state, "restarts"), "restart_in_ms", (json_int_t)restart_at, "ttl_ms",
                     (json_int_t)(left == INT64_MAX ? -1 : left));
}

/* ---- what keeper is told ---- */

static int health_blob(const struct sb_record *record, struct sb_blob *ret, struct sandbox_error **error)
{
    SB_FREE char *user = record->spec->life.health_user ? strdup(record->spec->life.health_user) : sb_default_user(record);
    SB_FREE char *workdir = sb_default_workdir(record);
    char **env;
    size_t n;
    int r = user && workdir ? 0 : sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");

    if (!r)
        r = sb_environment(record, NULL, !strcmp(user, "0") || !strncmp(user, "0:", 2) || !strcmp(user, "root"), &env, &n, error);
    if (r)
        return r;
    r = sb_blob_make((const char *const *)record->spec->life.health, (const char *const *)env, n, user, workdir, ret, error);
    sb_list_free(env);
    if (!r && ret->size > SB_REQUEST_INLINE) {
        free(SB_TAKE_PTR(ret->data));
        r = sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "health"), "the health check and its environment have more than %d bytes",
                    SB_REQUEST_INLINE);
    }
    return r;
}

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value ? value : otherwise;
}

int sb_lifetime_tell_keeper(struct sb_engine *engine, const struct sb_record *record, int log, struct sandbox_error **error)
{
    const struct sb_spec_life *l = &record->spec->life;
    struct sb_life plan = { .magic = SB_LIFE_MAGIC, .size = sizeof plan, .idle_ms = l->idle_ms, .grace_ms = grace_of(record->spec),
                            .restart = (uint32_t)l->restart, .restart_max = (uint32_t)l->restart_max,
                            .interval_ms = or_default(l->interval_ms, SB_HEALTH_INTERVAL_MS),
                            .timeout_ms = or_default(l->timeout_ms, SB_HEALTH_TIMEOUT_MS), .start_period_ms = l->start_period_ms,
                            .start_interval_ms = or_default(l->start_interval_ms, SB_HEALTH_START_INTERVAL_MS),
                            .retries = (uint32_t)or_default(l->retries, SB_HEALTH_RETRIES) };
    int64_t left = left_ms(engine, record->json);
    struct sb_blob blob = { 0 };
    SB_FREE char *bytes = NULL;
    int r = l->health ? health_blob(record, &blob, error) : 0;

    if (r)
        return r;
    if (left != INT64_MAX)
        plan.ttl_until_ms = clock_ms(CLOCK_BOOTTIME) + left;
    plan.argc = blob.argc;
    plan.envc = blob.envc;
    plan.blob_size = (uint32_t)blob.size;
    bytes = malloc(sizeof plan + blob.size);
    if (bytes) {
        memcpy(bytes, &plan, sizeof plan);
        if (blob.size)
            memcpy(bytes + sizeof plan, blob.data, blob.size);
    }
    r = bytes ? sb_write_file(log, "life", bytes, sizeof plan + blob.size, 0) : -ENOMEM;
    free(blob.data);
    return r ? sb_fail_errno(error, -r, "life", "its keeper can't be told how long it lives") : 0;
}

/* ---- whose time is over ---- */

/* Its keeper is at work on it, or may be. */
static int may_be_ending(struct sb_engine *engine, const struct sb_record *record)
{
    SB_CLOSE int link = -1;
    const json_t *life = json_object_get(record->json, "life");
    const char *boot = sb_json_str(life, "boot");

    if (sb_link_open(engine, record->id, &link, NULL) == SANDBOX_ENOTRUNNING)
        return 0;
    return !boot || strcmp(boot, engine->self.boot) ||
           clock_ms(CLOCK_BOOTTIME) < sb_json_int(life, "until_ms", 0) + grace_of(record->spec) + MARGIN_MS;
}

const char *sb_lifetime_is_over(struct sb_engine *engine, const struct sb_record *record)
{
    const struct sb_spec_life *l = &record->spec->life;
    SB_CLOSE int link = -1;
    const char *ended;

    if (l->ttl_end == SANDBOX_END_DELETE && left_ms(engine, record->json) == 0)
        return may_be_ending(engine, record) ? NULL : ended_ttl;
    if (l->idle_end != SANDBOX_END_DELETE || !l->idle_ms)
        return NULL;
    ended = sb_lifetime_ended(engine, record);
    /* the end of its time to live may be one that keeps it */
    return ended == ended_idle && sb_link_open(engine, record->id, &link, NULL) == SANDBOX_ENOTRUNNING ? ended : NULL;
}

/* Not deleted, only to be stopped: its keeper hangs, or has done it. */
static void stop_overdue(struct sb_engine *engine, const char *id)
{
    struct sb_record record = SB_RECORD_INIT;
    struct sb_identity none = { 0 };

    if (!sb_record_open(engine, id, SB_LOCK_EXCLUSIVE, &record, NULL) && record.spec && left_ms(engine, record.json) == 0 &&
        !may_be_ending(engine, &record) && sb_repair_end_init(engine, &record) &&
        !sb_record_write_run(&record, "stopped", &none, &none, ended_ttl, NULL)) {
        sb_cgroups_remove(json_object_get(record.json, "cgroups"), record.id);
        sb_lifetime_leave(engine, id);
    }
    sb_record_clear(&record);
}

static void sweep_one(struct sb_engine *engine, const char *id, void *data)
{
    struct sb_record record = SB_RECORD_INIT;
    int over, overdue, r;

    (void)data;
    if (!sb_id_valid(id) || !is_worth_a_look(engine, id))
        return;
    r = sb_record_open(engine, id, SB_LOCK_NONE, &record, NULL);
    over = !r && sb_lifetime_is_over(engine, &record);
    overdue = !r && !over && record.spec->life.ttl_end == SANDBOX_END_STOP && left_ms(engine, record.json) == 0;
    sb_record_clear(&record);
    if (r == SANDBOX_ENOTFOUND)
        sb_lifetime_leave(engine, id);
    else if (over)
        sb_repair_one(engine, id);
    else if (overdue)
        stop_overdue(engine, id);
}

void sb_lifetime_sweep(struct sb_engine *engine)
{
    sb_each_entry(engine, engine->timers, sweep_one, NULL);
}
