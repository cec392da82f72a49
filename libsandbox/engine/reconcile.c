/* SPDX-License-Identifier: Apache-2.0
 * reconcile: everything of ours that has no record, found and undone; or only told (a dry run).
 *
 * It works beside other processes, and what it takes away must be certainly ours and dead. Each maker enters an id for itself (owners.c) before
 * the first thing of that id, and leaves after the last. So each look here has the same order: the thing is there; no sandbox has it; no process
 * that may live has entered its id; the thing is still there. What stands between two of these steps in a living process is therefore never
 * taken for lost, and what several processes see at once is removed by several, which does no harm. */
#include "reconcile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

static int exists(int dir, const char *name)
{
    return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void sb_reconcile_found(struct sb_reconcile *rc, const char *kind, const char *name, const char *why, int r)
{
    json_array_append_new(rc->report, json_pack("{s:s, s:s, s:s, s:s}", "kind", kind, "name", name, "why", why, "action",
                                                rc->dry ? "found" : r ? "failed" : "removed"));
}

int sb_reconcile_is_gone(struct sb_reconcile *rc, const char *id)
{
    /* in this order: a folder goes from the one to the other, and the entry is the last that goes */
    return !exists(rc->engine->sandboxes, id) && !exists(rc->engine->trash, id) && !sb_owner_has(rc->engine, id);
}

static void append_name(struct sb_engine *engine, const char *name, void *data)
{
    (void)engine;
    json_array_append_new(data, json_string(name)); /* NULL for what is not UTF-8: no name of ours */
}

/* The next name of a folder, in a phase that looks at one a step; NULL: that was all. Owned by rc->pending until the next call. */
static const char *next(struct sb_reconcile *rc, int folder)
{
    if (!rc->pending) {
        rc->pending = json_array();
        if (rc->pending && folder >= 0)
            sb_each_entry(rc->engine, folder, append_name, rc->pending);
    } else {
        json_array_remove(rc->pending, json_array_size(rc->pending) - 1);
    }
    return json_string_value(json_array_get(rc->pending, json_array_size(rc->pending) - 1));
}

/* ---- sandboxes without a future ---- */

/* Without a lock, so only for a first look: most need no other. */
static int looks_whole(struct sb_engine *engine, const char *id)
{
    char run[SB_ID_SIZE + 16], deleting[SB_ID_SIZE + 16];
    struct sb_record record = SB_RECORD_INIT;
    int whole = 0;

    snprintf(run, sizeof run, "%s/run", id);
    snprintf(deleting, sizeof deleting, "%s/deleting", id);
    if (exists(engine->sandboxes, run) && !exists(engine->sandboxes, deleting))
        whole = sb_known_load(engine, id, &record, NULL) != 0 || record.spec->lifetime == SANDBOX_LIFETIME_DETACHED ||
                sb_owner_lives(engine, &record); /* a damaged one stays, and is listed as such */
    sb_record_clear(&record);
    return whole;
}

static int sandboxes(struct sb_reconcile *rc)
{
    const char *id = next(rc, rc->engine->sandboxes), *why;
    enum sb_repaired r;

    for (; id; id = next(rc, -1)) {
        if (!sb_id_valid(id) || looks_whole(rc->engine, id))
            continue;
        r = sb_repair_look(rc->engine, id, rc->dry, &why);
        if (why)
            sb_reconcile_found(rc, "sandbox", id, why, r == SB_REPAIR_UNDONE ? 0 : -EBUSY);
        return 1;
    }
    return 0;
}

/* ---- what was on its way out, or in ---- */

static int trash(struct sb_reconcile *rc)
{
    const struct sb_idmap unknown = { .privilege = rc->engine->map.privilege };
    const char *id = next(rc, rc->engine->trash);
    int r = 0;

    for (; id; id = next(rc, -1)) {
        if (!sb_id_valid(id) || !exists(rc->engine->trash, id) || sb_owner_has(rc->engine, id) || !exists(rc->engine->trash, id))
            continue;
        while (!rc->dry && (r = sb_undo_trash(rc->engine, id, &unknown, NULL)) == 1)
            ;
        sb_reconcile_found(rc, "trash", id, "what is left of a delete", r ? -EIO : 0);
        return 1;
    }
    return 0;
}

static void unfinished(struct sb_reconcile *rc, int folder, const char *prefix, const char *kind)
{
    SB_JSON json_t *names = json_array();
    const json_t *value;
    size_t i;

    sb_each_entry(rc->engine, folder, append_name, names);
    json_array_foreach(names, i, value)
    {
        const char *name = json_string_value(value), *id = name + strlen(prefix);

        if (strncmp(name, prefix, strlen(prefix)) || !sb_id_valid(id) || sb_owner_has(rc->engine, id) || !exists(folder, name))
            continue;
        sb_reconcile_found(rc, kind, name, "half made", rc->dry ? 0 : sb_remove_tree(folder, name));
    }
}

static int half_made(struct sb_reconcile *rc)
{
    SB_CLOSE int skeletons = openat(rc->engine->root, "skeletons", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    unfinished(rc, rc->engine->volumes, ".new-", "volume");
    if (skeletons >= 0)
        unfinished(rc, skeletons, "tmp-", "layer");
    return 0;
}

/* ---- names and keys ---- */

struct claims {
    struct sb_reconcile *rc;
    const char *kind;
    int folder;
};

static void look_at_claim(struct sb_engine *engine, const char *name, void *data)
{
    const struct claims *c = data;
    char target[SB_ID_SIZE + 1];
    ssize_t n = readlinkat(c->folder, name, target, sizeof target);

    if (n != SB_ID_SIZE - 1) /* nothing that we made */
        return;
    target[n] = 0;
    if (!sb_id_valid(target) || exists(engine->sandboxes, target))
        return;
    sb_reconcile_found(c->rc, c->kind, name, "its sandbox is no more",
                       !c->rc->dry && unlinkat(c->folder, name, 0) < 0 && errno != ENOENT ? -errno : 0);
}

/* Under their folder's lock: a claim is made after its sandbox's folder, and released before that goes. */
static int claims(struct sb_reconcile *rc)
{
    struct claims all[] = { { rc, "name", rc->engine->names }, { rc, "key", rc->engine->keys } };

    for (size_t i = 0; i < SB_ELEMENTS(all); i++) {
        int lock = sb_folder_lock(all[i].folder, LOCK_EX, NULL);

        if (lock >= 0)
            sb_each_entry(rc->engine, all[i].folder, look_at_claim, &all[i]);
        sb_folder_unlock(lock);
    }
    return 0;
}

/* ---- owners: the last, since the others look there ---- */

static void look_at_entry(struct sb_engine *engine, const char *id, void *data)
{
    struct claims *c = data;
    const char *why;
    enum sb_repaired r;

    if (!sb_id_valid(id))
        return;
    r = sb_repair_look(engine, id, c->rc->dry, &why);
    if (r != SB_REPAIR_LATER && !c->rc->dry)
        unlinkat(c->folder, id, 0);
}

static int owners(struct sb_reconcile *rc)
{
    const char *name = next(rc, rc->engine->owners);

    for (; name; name = next(rc, -1)) {
        struct claims c = { .rc = rc };
        struct sb_identity owner;
        int fd, r = 0;

        if (sb_owner_parse(name, &owner))
            continue;
        fd = sb_identity_find(&rc->engine->self, &owner);
        if (fd >= 0)
            sb_close(fd);
        if (fd != -ESRCH)
            continue;
        c.folder = openat(rc->engine->owners, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (c.folder < 0) /* somebody else was faster */
            continue;
        sb_each_entry(rc->engine, c.folder, look_at_entry, &c);
        sb_close(c.folder);
        if (!rc->dry && unlinkat(rc->engine->owners, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
            r = -errno;
        sb_reconcile_found(rc, "owner", name, "its process is gone", r);
        return 1;
    }
    return 0;
}

/* ---- the operation ---- */

static int reconcile_step(struct sb_op *op, struct sandbox_error **error)
{
    /* processes before what they hold; the ranges when no file of theirs is left */
    static sb_phase_fn *const phases[] = { sandboxes, sb_reconcile_processes, sb_reconcile_mounts, trash, sb_reconcile_cgroups, half_made,
                                           claims, sb_reconcile_networks, sb_reconcile_ranges, owners };
    static const char *const names[] = { "sandboxes", "processes", "mounts", "trash", "cgroups", "unfinished", "claims", "networks", "ranges", "owners" };
    struct sb_reconcile *rc = (struct sb_reconcile *)op;
    struct itimerspec when = { .it_value = { .tv_nsec = 1 } };
    uint64_t ticks;
    int64_t wait;

    while (read(op->fd, &ticks, sizeof ticks) > 0)
        ;
    if (rc->cancelled)
        return sb_fail(error, SB_ARGS(SANDBOX_ECANCELLED), "the reconcile was cancelled");
    snprintf(op->progress.phase, sizeof op->progress.phase, "%s", names[rc->phase]);
    if (!phases[rc->phase](rc)) {
        json_decref(SB_TAKE_PTR(rc->pending));
        rc->again = 0;
        if (++rc->phase == SB_ELEMENTS(phases)) {
            op->findings = json_incref(rc->report);
            return 0;
        }
    }
    wait = rc->again ? rc->again - sb_now_ms() : 0;
    if (wait > 0)
        when.it_value = (struct timespec){ .tv_sec = wait / 1000, .tv_nsec = wait % 1000 * 1000000 };
    timerfd_settime(op->fd, 0, &when, NULL);
    return 1;
}

static void reconcile_cancel(struct sb_op *op)
{
    ((struct sb_reconcile *)op)->cancelled = 1;
}

static void reconcile_free(struct sb_op *op)
{
    struct sb_reconcile *rc = (struct sb_reconcile *)op;

    json_decref(rc->pending);
    json_decref(rc->report);
    json_decref(op->findings);
    sb_close(op->fd);
    free(rc);
}

static const struct sb_op_ops reconcile_ops = { reconcile_step, reconcile_cancel, reconcile_free };

int sb_engine_reconcile(struct sb_driver *driver, unsigned int flags, struct sb_op **ret_op, struct sandbox_error **error)
{
    const struct itimerspec now = { .it_value = { .tv_nsec = 1 } };
    struct sb_reconcile *rc = calloc(1, sizeof *rc);

    if (!rc || !(rc->report = json_array())) {
        free(rc);
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    }
    rc->op.ops = &reconcile_ops;
    rc->op.progress = (struct sandbox_progress)SANDBOX_PROGRESS_INIT;
    rc->engine = (struct sb_engine *)driver;
    rc->dry = (flags & SANDBOX_RECONCILE_DRY_RUN) != 0;
    rc->op.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (rc->op.fd < 0 || timerfd_settime(rc->op.fd, 0, &now, NULL) < 0) {
        int r = sb_fail_errno(error, errno, "reconcile", "no timer");

        reconcile_free(&rc->op);
        return r;
    }
    sb_children_reap(rc->engine);
    *ret_op = &rc->op;
    return 0;
}
