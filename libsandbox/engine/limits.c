/* SPDX-License-Identifier: Apache-2.0
 * Limits that change, and the ceilings above them.
 *
 * A change is written into the record first and into the cgroups then. Who dies in between leaves a record with the new limits over a kernel
 * with the old ones: the next change, of whatever limit, and the next start write all of them. A change that the kernel refuses is taken back
 * in both.
 *
 * Ceilings: those of a handle hold for what is done through it. Those stored in the state root hold for all who open it; a call only ever
 * lowers them. Whoever owns the state root can remove the file, and could as well write into the cgroups: against the owner of a state root no
 * ceiling stands but the one of the cgroup that he is himself in. */
#include "engine.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

enum { LOCK_MS = 2 };
static const char ceiling_name[] = "ceiling";

/* ---- ceilings ---- */

/* All zero when there is none. One that can't be read lets nothing through. */
static int read_ceiling(struct sb_engine *engine, struct sb_limits *ret, struct sandbox_error **error)
{
    SB_JSON json_t *json = NULL;
    struct sandbox_error *why = NULL;
    int r = 0;

    *ret = (struct sb_limits){ 0 };
    if (faccessat(engine->root, ceiling_name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return 0;
    r = sb_document_read(engine->root, ceiling_name, &json, &why);
    if (!r)
        r = sb_limits_from_json(json, ret, &why);
    if (r)
        r = sb_fail(error,
                    SB_ARGS(r == SANDBOX_ENOMEM ? r : SANDBOX_EDAMAGED, .phase = "ceiling", .field = "ceiling",
                            .hint = "remove the file \"ceiling\" in the state root and set the ceilings anew"),
                    "the ceilings of this host can't be read: %s", sandbox_error_get_message(why));
    sandbox_error_unref(why);
    return r;
}

static int keep_ceiling(struct sb_engine *engine, struct sandbox_error **error)
{
    SB_JSON json_t *json = json_object();
    struct sb_limits stored;
    int lock = sb_folder_lock(engine->owners, LOCK_EX, error), r;

    if (lock < 0)
        return lock;
    r = read_ceiling(engine, &stored, error);
    if (!r) {
        struct sb_limits now = stored;

        sb_limits_lower(&now, &engine->ceiling);
        if (!json || sb_limits_to_json(&now, json))
            r = sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
        else if (!sb_limits_equal(&now, &stored))
            r = sb_document_write(engine->root, ceiling_name, json, error);
    }
    sb_folder_unlock(lock);
    return r;
}

int sb_ceiling_open(struct sb_engine *engine, const struct sandbox_host_options *options, struct sandbox_error **error)
{
    int r = options->ceiling ? sb_limits_apply(&engine->ceiling, options->ceiling, error) : 0;

    engine->ceiling.n_io = 0;
    if (!r && engine->ceiling.swap_max && !engine->ceiling.memory_max) /* who has no limit of memory has none of swap */
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .phase = "ceiling", .field = "swap_max", .hint = "set memory_max, too"),
                    "a ceiling of swap holds nothing without one of memory");
    return !r && options->flags & SANDBOX_HOST_KEEP_CEILING ? keep_ceiling(engine, error) : r;
}

int sb_ceiling_hold(struct sb_engine *engine, struct sb_limits *limits, struct sandbox_error **error)
{
    struct sb_limits stored;
    char disk[SB_DISK_SIZE];
    int r = read_ceiling(engine, &stored, error);

    if (!r) {
        sb_limits_lower(&stored, &engine->ceiling);
        r = sb_limits_hold(limits, &stored, error);
    }
    for (size_t i = 0; i < limits->n_io && !r; i++)
        r = sb_cgroups_disk(limits->io[i].device, disk, error);
    return r;
}

/* ---- changes ---- */

int sb_record_set_limits(struct sb_record *record, const struct sb_limits *limits, struct sandbox_error **error)
{
    json_t *object = json_object();

    if (!object || sb_limits_to_json(limits, object) || json_object_set(record->json, "limits", object)) {
        json_decref(object);
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    }
    json_decref(object);
    record->spec->limits = *limits;
    return 0;
}

static int write_limits(struct sb_record *record, const struct sb_limits *limits, struct sandbox_error **error)
{
    int r = sb_record_set_limits(record, limits, error);

    return r ? r : sb_record_write(record, error);
}

/* The record, with its lock, when that is free. */
static int take(struct sb_engine *engine, const char *id, int64_t timeout_ms, struct sb_record *ret, struct sandbox_error **error)
{
    int64_t until = sb_deadline(timeout_ms);
    struct sb_lock_wait wait = { 0 };

    for (;;) {
        struct pollfd closed = { .fd = engine->driver.close_fd > 0 ? engine->driver.close_fd : -1, .events = POLLIN };
        struct sandbox_error *why = NULL;
        int r = sb_record_open(engine, id, SB_LOCK_EXCLUSIVE, ret, &why);

        if (r != SANDBOX_EBUSY) {
            if (r && error)
                *error = why;
            else
                sandbox_error_unref(why);
            return r;
        }
        sandbox_error_unref(why);
        r = sb_lock_wait(engine, id, &wait, error);
        if (r != 1)
            return r;
        if (sb_left_ms(until) == 0)
            return sb_fail(error, SB_ARGS(SANDBOX_ETIMEDOUT, .phase = "state", .retryable = 1),
                           "another call was changing this sandbox for all of %lld ms", (long long)timeout_ms);
        if (SB_RETRY(poll(&closed, 1, LOCK_MS)) > 0)
            return sb_fail(error, SB_ARGS(SANDBOX_ECLOSED), "the host handle was closed");
    }
}

/* 1: its init lives, 0: not; negative: that can't be told. */
static int lives(struct sb_engine *engine, const char *id, struct sandbox_error **error)
{
    struct sandbox_error *why = NULL;
    SB_CLOSE int link = -1;
    int r = sb_link_open(engine, id, &link, &why);

    if (r == SANDBOX_ENOTRUNNING || r == SANDBOX_ENOTFOUND || !r) {
        sandbox_error_unref(why);
        return !r;
    }
    if (error)
        *error = why;
    else
        sandbox_error_unref(why);
    return r;
}

static int change_live(struct sb_engine *engine, struct sb_record *record, const struct sb_limits *now, const struct sb_limits *before,
                       struct sandbox_error **error)
{
    const json_t *folders = json_object_get(record->json, "cgroups");
    int r = sb_cgroups_change(&engine->cgroups, folders, record->id, now, before, error);

    if (r) { /* as far as it can be taken back: what is looser than before fits in any case */
        sb_cgroups_change(&engine->cgroups, folders, record->id, before, now, NULL);
        write_limits(record, before, NULL);
    }
    return r;
}

/* A stopped one: could it be started with them here? */
static int check_plan(struct sb_engine *engine, const struct sb_record *record, const struct sb_limits *now, struct sandbox_error **error)
{
    json_t *folders = NULL;
    int r = sb_cgroups_plan(&engine->cgroups, record->id, now, &folders, error);

    json_decref(folders);
    return r;
}

int sb_engine_set_limits(struct sb_driver *driver, const char *id, const struct sandbox_limits *limits, int64_t timeout_ms,
                         struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    struct sb_record record = SB_RECORD_INIT;
    struct sb_limits before, now;
    int live = 0, r = take(engine, id, timeout_ms, &record, error);

    if (!r) {
        before = now = record.spec->limits;
        r = sb_limits_apply(&now, limits, error);
    }
    if (!r)
        r = sb_ceiling_hold(engine, &now, error);
    if (!r)
        r = live = lives(engine, id, error);
    if (!r)
        r = check_plan(engine, &record, &now, error);
    if (r >= 0)
        r = write_limits(&record, &now, error);
    if (!r && live == 1)
        r = change_live(engine, &record, &now, &before, error);
    sb_record_clear(&record);
    return r;
}
