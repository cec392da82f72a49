/* SPDX-License-Identifier: Apache-2.0
 * Undoing what a record intended. Every step may be done twice: whoever is killed here is followed by one who does it again. The
 * range of ids is given back last, when no file of it is left for its next holder to find. */
#include "lifetime.h"
#include "network.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>

#include "sweep.h"

enum { ENTRIES_A_STEP = 2000 };

/* A record that can't be read says nothing about cgroups: then all that a sandbox of this id could have. */
static json_t *all_folders(struct sb_engine *engine, const char *id)
{
    json_t *folders = NULL;
    struct sb_limits limits = {
        .pids_max = 1,
        .memory_max = engine->cgroups.v1[SB_CONTROLLER_MEMORY] != NULL,
        .cpu_max = engine->cgroups.v1[SB_CONTROLLER_CPU] != NULL,
        .n_io = engine->cgroups.v1[SB_CONTROLLER_IO] != NULL,
    };

    return sb_cgroups_plan(&engine->cgroups, id, &limits, &folders, NULL) ? NULL : folders;
}

static int is_id(void *data, const char *holder)
{
    const char *tab = strrchr(holder, '\t');

    return tab && !strncmp(tab + 1, data, SB_ID_SIZE - 1);
}

static void release_range(struct sb_engine *engine, const char *id, const struct sb_idmap *map)
{
    SB_FREE char *holder = engine->map.privilege == SB_PRIVILEGE_ROOT ? sb_record_holder(engine, id) : NULL;

    if (!holder)
        return;
    if (map->uid_start)
        sb_ids_release(map, holder);
    else
        sb_ids_sweep(&(struct sb_ids_others){ "", is_id, (void *)id }); /* its record is lost: by its name */
}

static int sweep(struct sb_engine *engine, const char *id, struct sandbox_error **error)
{
    int exe, r = sb_engine_program(engine, "sandbox-unpack", &exe, error);

    return r ? r : sb_sweep(&engine->map, exe, engine->trash, id, -1, error);
}

int sb_undo_trash(struct sb_engine *engine, const char *id, const struct sb_idmap *map, struct sandbox_error **error)
{
    int r = sb_remove_some(engine->trash, id, ENTRIES_A_STEP);

    /* a keeper that nobody knows of, since the run document is damaged, writes its last words */
    for (int i = 0; i < 20 && r == -ENOTEMPTY; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
        r = sb_remove_some(engine->trash, id, ENTRIES_A_STEP);
    }
    if (r == -EAGAIN)
        return 1;
    if ((r == -EACCES || r == -EPERM) && engine->map.privilege == SB_PRIVILEGE_SUBIDS) {
        r = sweep(engine, id, error); /* files of the user's other ids */
        if (r)
            return r;
    }
    if (r)
        return sb_fail_errno(error, -r, "remove", "the sandbox's files can't be removed");
    release_range(engine, id, map);
    sb_owner_leave(engine, &engine->self, id);
    return 0;
}

int sb_undo(struct sb_engine *engine, struct sb_record *record, struct sandbox_error **error)
{
    json_t *cgroups = record->json ? json_incref(json_object_get(record->json, "cgroups")) : all_folders(engine, record->id);
    int r = sb_cgroups_remove(cgroups, record->id);

    json_decref(cgroups);
    if (r)
        return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .sys_errno = -r, .phase = "cgroup", .retryable = 1),
                       "a cgroup of the sandbox can't be removed: %s", strerrordesc_np(-r));
    r = sb_network_detach(engine, record, error);
    if (r)
        return r;
    if (record->spec && record->spec->name)
        sb_name_release(engine, record->spec->name, record->id);
    if (record->spec && record->spec->idempotency_key)
        sb_key_release(engine, record->spec->idempotency_key, record->id);
    sb_lifetime_leave(engine, record->id);
    if (renameat(engine->sandboxes, record->id, engine->trash, record->id) < 0 && errno != ENOENT)
        return sb_fail_errno(error, errno, "remove", "the sandbox's folder can't be moved away");
    return sb_undo_trash(engine, record->id, &record->map, error);
}
