/* SPDX-License-Identifier: Apache-2.0
 * What an earlier process left half done, undone when a state root is opened: sandboxes that were never committed, that were being
 * deleted, or whose owner is gone. Only those are looked at that owners/ has of a process which is certainly gone. A sandbox whose lock
 * somebody holds is somebody's work in progress and left alone. Names, keys and id ranges of sandboxes that are no more are taken over by
 * whoever wants them next; a reconcile finds whatever else there may be. */
#include "lifetime.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

enum { PATIENCE_MS = 1000 }; /* of a whole open, for what is just ending */

void sb_each_entry(struct sb_engine *engine, int dir, void (*each)(struct sb_engine *, const char *, void *), void *data)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *d;

    if (!stream) {
        sb_close(copy);
        return;
    }
    while ((d = readdir(stream)))
        if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
            each(engine, d->d_name, data);
    closedir(stream);
}

static int exists(int dir, const char *name)
{
    return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int sb_owner_lives(struct sb_engine *engine, const struct sb_record *record)
{
    struct sb_identity owner;
    SB_CLOSE int link = -1;
    int fd;

    sb_identity_from_json(json_object_get(record->json, "owner"), &owner);
    fd = sb_identity_find(&engine->self, &owner);
    if (fd >= 0)
        sb_close(fd);
    if (fd == -EXDEV || fd == -EACCES) /* no way to see it; but its sandbox ended with it */
        return sb_link_open(engine, record->id, &link, NULL) != SANDBOX_ENOTRUNNING;
    return fd != -ESRCH;
}

static int listens(struct sb_engine *engine, const char *id)
{
    SB_CLOSE int link = -1;

    return sb_link_open(engine, id, &link, NULL) != SANDBOX_ENOTRUNNING;
}

/* An uncommitted init ends by itself; one that is being deleted may live on until it is told. 1: it is gone. */
int sb_repair_end_init(struct sb_engine *engine, const struct sb_record *record)
{
    SB_JSON json_t *run = sb_record_read_run(engine, record);
    static const char *const who[] = { "init", "keeper" }; /* a keeper ends with its init, unless it hangs */

    if (record->json)
        sb_cgroups_kill(json_object_get(record->json, "cgroups"), record->id);
    for (size_t i = 0; run && i < SB_ELEMENTS(who); i++) {
        struct pollfd p = { .events = POLLIN };
        struct sb_identity identity;
        SB_CLOSE int fd = -1;

        sb_identity_from_json(json_object_get(run, who[i]), &identity);
        fd = sb_identity_find(&engine->self, &identity);
        if (fd == -ESRCH || ((fd == -EXDEV || fd == -EACCES) && !listens(engine, record->id)))
            continue;
        if (fd < 0)
            return 0; /* it can't be told: then nothing of its is taken away */
        p.fd = fd;
        if (i == 1 && poll(&p, 1, 2000) == 1)
            continue;
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
        if (SB_RETRY(poll(&p, 1, 2000)) != 1)
            return 0;
    }
    return 1;
}

/* Another process may be at it: then both remove, and that does no harm. */
static int empty_trash(struct sb_engine *engine, const char *id, const struct sb_idmap *map)
{
    int r;

    while ((r = sb_undo_trash(engine, id, map, NULL)) == 1)
        ;
    return r;
}

/* What else stands under an id while it is made: a volume's folder, image host's layer. */
static int remove_unfinished(struct sb_engine *engine, const char *id)
{
    SB_CLOSE int skeletons = openat(engine->root, "skeletons", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char name[SB_ID_SIZE + 8];
    int r;

    snprintf(name, sizeof name, ".new-%s", id);
    r = sb_remove_tree(engine->volumes, name);
    snprintf(name, sizeof name, "tmp-%s", id);
    return skeletons >= 0 && sb_remove_tree(skeletons, name) ? -EIO : r;
}

static const char *why_gone(struct sb_engine *engine, const struct sb_record *record)
{
    char run[SB_ID_SIZE + 16], deleting[SB_ID_SIZE + 16];

    snprintf(run, sizeof run, "%s/run", record->id);
    snprintf(deleting, sizeof deleting, "%s/deleting", record->id);
    if (record->dir < 0) /* a file of this name, which we did not make */
        return NULL;
    return exists(engine->sandboxes, deleting)                                                             ? "half deleted"
           : !exists(engine->sandboxes, run)                                                               ? "half made"
           : record->spec && record->spec->lifetime == SANDBOX_LIFETIME_OWNED && !sb_owner_lives(engine, record) ? "its owner ended"
           : record->spec                                                                                  ? sb_lifetime_is_over(engine, record)
                                                                                                            : NULL;
}

enum sb_repaired sb_repair_look(struct sb_engine *engine, const char *id, int dry, const char **ret_why)
{
    const struct sb_idmap unknown = { .privilege = engine->map.privilege };
    struct sb_record record = SB_RECORD_INIT;
    int r, undone = 1;

    *ret_why = NULL;
    if (!sb_id_valid(id))
        return SB_REPAIR_LATER;
    r = sb_record_take(engine, id, &record, NULL);
    if (r == SANDBOX_ENOTFOUND || ((!r || r == SANDBOX_EDAMAGED) && !exists(engine->sandboxes, id))) { /* in the trash already, or not at all */
        sb_record_clear(&record);
        return dry || (!empty_trash(engine, id, &unknown) && !remove_unfinished(engine, id)) ? SB_REPAIR_UNDONE : SB_REPAIR_LATER;
    }
    if (r && r != SANDBOX_EDAMAGED) /* somebody's work in progress, or not to be read now */
        return SB_REPAIR_LATER;
    *ret_why = why_gone(engine, &record);
    if (*ret_why && !dry) {
        undone = sb_repair_end_init(engine, &record);
        if (undone) {
            r = sb_undo(engine, &record, NULL);
            undone = r == 1 ? !empty_trash(engine, id, &record.map) : r == 0;
        }
    }
    sb_record_clear(&record);
    return !*ret_why ? SB_REPAIR_KEPT : undone ? SB_REPAIR_UNDONE : SB_REPAIR_LATER;
}

enum sb_repaired sb_repair_one(struct sb_engine *engine, const char *id)
{
    const char *why;

    return sb_repair_look(engine, id, 0, &why);
}

static int range_is_free(void *data, const char *holder)
{
    struct sb_engine *engine = data;
    const char *tab = strrchr(holder, '\t');
    char id[SB_ID_SIZE];

    if (!tab || strlen(tab) != SB_ID_SIZE + 1)
        return 0;
    memcpy(id, tab + 1, SB_ID_SIZE - 1);
    id[SB_ID_SIZE - 1] = 0;
    /* in this order: a folder goes from the one to the other, and never back */
    return sb_id_valid(id) && !exists(engine->sandboxes, id) && !exists(engine->trash, id);
}

int sb_range_claim(struct sb_engine *engine, struct sb_record *record, int again, struct sandbox_error **error)
{
    SB_FREE char *holder = sb_record_holder(engine, record->id), *prefix = sb_record_holder_prefix(engine);
    const struct sb_ids_others others = { prefix, range_is_free, engine };

    if (record->map.privilege != SB_PRIVILEGE_ROOT)
        return 0;
    if (!holder || !prefix)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    return again ? sb_ids_claim_again(&record->map, holder, &others, error) : sb_ids_claim(&record->map, holder, &others, error);
}

/* What a process left that was killed just now may still be ending: a child of its between vfork and exec has its lock, a stage has not yet seen
 * that nobody talks to it any more. */
static int repair_entry(struct sb_engine *engine, const char *id, int64_t until)
{
    while (sb_repair_one(engine, id) == SB_REPAIR_LATER) {
        if (sb_now_ms() >= until)
            return 0;
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    return 1;
}

/* The entries of one process that is gone, or (until is 0) that can't be seen from here: then an entry stays for whoever can see it. */
static void repair_entries(struct sb_engine *engine, int folder, int64_t until)
{
    DIR *stream = fdopendir(folder);
    struct dirent *d;

    if (!stream) {
        sb_close(folder);
        return;
    }
    while ((d = readdir(stream)))
        if (sb_id_valid(d->d_name) && repair_entry(engine, d->d_name, until) && until)
            unlinkat(dirfd(stream), d->d_name, 0);
    closedir(stream);
}

static void repair_owner(struct sb_engine *engine, const char *name, void *data)
{
    const int64_t *until = data;

    struct sb_identity owner;
    int found, folder;

    if (sb_owner_parse(name, &owner))
        return;
    found = sb_identity_find(&engine->self, &owner);
    if (found >= 0)
        sb_close(found);
    if (found != -ESRCH && found != -EXDEV && found != -EACCES)
        return;
    folder = openat(engine->owners, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0)
        repair_entries(engine, folder, found == -ESRCH ? *until : 0);
    if (found == -ESRCH)
        unlinkat(engine->owners, name, AT_REMOVEDIR);
}

int sb_repair(struct sb_engine *engine, struct sandbox_error **error)
{
    int64_t until = sb_now_ms() + PATIENCE_MS;

    (void)error;
    sb_each_entry(engine, engine->owners, repair_owner, &until);
    return 0;
}
