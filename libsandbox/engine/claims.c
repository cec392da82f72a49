/* SPDX-License-Identifier: Apache-2.0
 * Names and idempotency keys: a link that can be made once. A claim is made when its sandbox's record is there, and released before the folder
 * goes; so a claim without a folder is nobody's, and whoever comes next takes it over, alone under the lock of its folder. What a dead process
 * left half made has a folder: that is undone first, and its claim with it. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>

static int has(struct sb_engine *engine, const char *id, const char *what)
{
    char path[SB_ID_SIZE + 16];

    snprintf(path, sizeof path, "%s/%s", id, what);
    return faccessat(engine->sandboxes, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* 0 and its id; -ENOENT: there is no claim; -EINVALID: it is nothing that we made. */
static int read_claim(int claims, const char *name, char id[SB_ID_SIZE])
{
    char target[SB_ID_SIZE + 1];
    ssize_t n = readlinkat(claims, name, target, sizeof target);

    if (n < 0)
        return -errno;
    if (n != SB_ID_SIZE - 1)
        return -EINVAL;
    target[n] = 0;
    memcpy(id, target, SB_ID_SIZE);
    return sb_id_valid(id) ? 0 : -EINVAL;
}

/* 0, 1: another has it, -errno. */
static int claim(struct sb_engine *engine, int claims, const char *name, const char *id, struct sandbox_error **error)
{
    int lock = sb_folder_lock(claims, LOCK_EX, error), r = 0, old;
    char target[SB_ID_SIZE];

    if (lock < 0)
        return lock;
    if (symlinkat(id, claims, name) < 0)
        r = errno;
    if (r == EEXIST) {
        old = read_claim(claims, name, target);
        if (old == -EINVAL || (!old && faccessat(engine->sandboxes, target, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT))
            r = unlinkat(claims, name, 0) < 0 || symlinkat(id, claims, name) < 0 ? errno : 0;
    }
    sb_folder_unlock(lock);
    if (r == EEXIST || r == EISDIR)
        return 1;
    return r ? sb_fail_errno(error, r, "state", "the name or key can't be claimed") : 0;
}

static void release(int claims, const char *name, const char *id)
{
    int lock = sb_folder_lock(claims, LOCK_EX, NULL); /* a claim that stays is free for the next one */
    char target[SB_ID_SIZE];

    if (lock >= 0 && !read_claim(claims, name, target) && !strcmp(target, id))
        unlinkat(claims, name, 0);
    sb_folder_unlock(lock);
}

int sb_name_claim(struct sb_engine *engine, const char *name, const char *id, struct sandbox_error **error)
{
    char target[SB_ID_SIZE];
    int r = claim(engine, engine->names, name, id, error);

    /* its holder may be half made or half deleted, by a process that died after this host was opened */
    if (r == 1 && !read_claim(engine->names, name, target) && sb_repair_one(engine, target) == SB_REPAIR_UNDONE)
        r = claim(engine, engine->names, name, id, error);
    if (r == 1)
        r = sb_fail(error,
                    SB_ARGS(SANDBOX_EEXISTS, .sys_errno = EEXIST, .field = "name", .hint = "delete that sandbox or take another name"),
                    "the name %s belongs to another sandbox", name);
    return r;
}

void sb_name_release(struct sb_engine *engine, const char *name, const char *id)
{
    release(engine->names, name, id);
}

int sb_key_claim(struct sb_engine *engine, const char *key, const char *id, struct sandbox_error **error)
{
    return claim(engine, engine->keys, key, id, error);
}

void sb_key_release(struct sb_engine *engine, const char *key, const char *id)
{
    release(engine->keys, key, id);
}

static int compare(const struct sandbox_spec *spec, const struct sb_record *record, struct sandbox_error **error)
{
    struct sandbox_spec *asked = NULL; /* for, whatever its limits are by now */
    int r = sb_spec_from_json(json_object_get(record->json, "spec"), &asked, error);

    if (r)
        return r;
    r = sb_spec_equal(spec, asked);
    sb_spec_free(asked);

    if (r < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    return r ? (int)SB_KEY_TAKEN
             : sb_fail(error,
                       SB_ARGS(SANDBOX_EEXISTS, .sys_errno = EEXIST, .field = "idempotency_key",
                               .hint = "repeat the create with the same spec, or take another key"),
                       "sandbox %.12s was made with this key and another spec", record->id);
}

/* It has no future: it was never committed, is being deleted, or ended with its owner. */
static int is_doomed(struct sb_engine *engine, const struct sb_record *record)
{
    return !has(engine, record->id, "run") || has(engine, record->id, "deleting") ||
           (record->spec && record->spec->lifetime == SANDBOX_LIFETIME_OWNED && !sb_owner_lives(engine, record));
}

int sb_key_find(struct sb_engine *engine, const struct sandbox_spec *spec, struct sb_lock_wait *wait, char id[SB_ID_SIZE],
                struct sandbox_error **error)
{
    struct sb_record record = SB_RECORD_INIT;
    struct sandbox_error *why = NULL;
    int r = read_claim(engine->keys, spec->idempotency_key, id), busy;

    if (r == -ENOENT || r == -EINVAL)
        return SB_KEY_FREE; /* what is there and isn't ours is the claim's affair */
    if (r)
        return sb_fail_errno(error, -r, "state", "the key can't be read");
    r = sb_record_open(engine, id, SB_LOCK_EXCLUSIVE, &record, &why);
    busy = r == SANDBOX_EBUSY;
    if (busy) {
        why = sandbox_error_unref(why);
        r = sb_record_open(engine, id, SB_LOCK_NONE, &record, &why);
    }
    if (r == SANDBOX_ENOTFOUND || ((!r || r == SANDBOX_EDAMAGED) && faccessat(engine->sandboxes, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)) {
        r = SB_KEY_FREE;
    } else if ((!r || r == SANDBOX_EDAMAGED) && is_doomed(engine, &record)) {
        sb_record_clear(&record); /* the lock, too */
        r = busy ? sb_lock_wait(engine, id, wait, error) : sb_repair_one(engine, id) == SB_REPAIR_UNDONE ? SB_KEY_FREE : SB_KEY_WAIT;
    } else if (!r) {
        r = compare(spec, &record, error);
    } else if (error) {
        *error = SB_TAKE_PTR(why);
    }
    sandbox_error_unref(why);
    sb_record_clear(&record);
    return r;
}
