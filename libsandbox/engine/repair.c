/* SPDX-License-Identifier: Apache-2.0
 * What an earlier process left half done, undone when a state root is opened: sandboxes that were never committed, that were being
 * deleted, or whose owner is gone; what is left in the trash; id ranges and names of sandboxes that are no more. A sandbox whose
 * lock somebody holds is somebody's work in progress and left alone. */
#include "engine.h"

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

/* Calls each(engine, name) for every entry of a folder. */
static void each_entry(struct sb_engine *engine, int dir, void (*each)(struct sb_engine *, const char *))
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
            each(engine, d->d_name);
    closedir(stream);
}

static int exists(int dir, const char *name)
{
    return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int owner_lives(struct sb_engine *engine, const struct sb_record *record)
{
    struct sb_identity owner;
    SB_CLOSE int link = -1;
    int fd;

    sb_identity_from_json(json_object_get(record->json, "owner"), &owner);
    fd = sb_identity_open(&owner);
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
static int end_init(struct sb_engine *engine, const struct sb_record *record)
{
    SB_JSON json_t *run = sb_record_read_run(record);
    static const char *const who[] = { "init", "keeper" }; /* a keeper ends with its init, unless it hangs */

    if (record->json)
        sb_cgroups_kill(json_object_get(record->json, "cgroups"), record->id);
    for (size_t i = 0; run && i < SB_ELEMENTS(who); i++) {
        struct pollfd p = { .events = POLLIN };
        struct sb_identity identity;
        SB_CLOSE int fd = -1;

        sb_identity_from_json(json_object_get(run, who[i]), &identity);
        fd = sb_identity_open(&identity);
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

static void repair_one(struct sb_engine *engine, const char *id)
{
    char run[SB_ID_SIZE + 16], deleting[SB_ID_SIZE + 16];
    struct sb_record record = SB_RECORD_INIT;
    int r, gone;

    if (!sb_id_valid(id))
        return;
    snprintf(run, sizeof run, "%s/run", id);
    snprintf(deleting, sizeof deleting, "%s/deleting", id);
    r = sb_record_take(engine, id, &record, NULL);
    if (r && r != SANDBOX_EDAMAGED) /* somebody's work in progress, gone, or not to be read now */
        return;
    gone = exists(engine->sandboxes, deleting) || !exists(engine->sandboxes, run) ||
           (!r && record.spec->lifetime == SANDBOX_LIFETIME_OWNED && !owner_lives(engine, &record));
    if (gone && exists(engine->sandboxes, id) && end_init(engine, &record)) {
        if (sb_undo(engine, &record, NULL) == 1)
            while (sb_undo_trash(engine, id, &record.map, NULL) == 1)
                ;
    }
    sb_record_clear(&record);
}

/* Another process may be at it: then both remove, and that does no harm. */
static void empty_trash(struct sb_engine *engine, const char *name)
{
    const struct sb_idmap unknown = { .privilege = engine->map.privilege };

    if (!sb_id_valid(name))
        return;
    while (sb_undo_trash(engine, name, &unknown, NULL) == 1)
        ;
}

static void repair_name(struct sb_engine *engine, const char *name)
{
    char target[SB_ID_SIZE + 1];
    ssize_t n = readlinkat(engine->names, name, target, sizeof target);

    if (name[0] == '.')
        return;
    if (n != SB_ID_SIZE - 1) {
        unlinkat(engine->names, name, 0);
        return;
    }
    target[n] = 0;
    if (!sb_id_valid(target) || (!exists(engine->sandboxes, target) && !exists(engine->trash, target)))
        unlinkat(engine->names, name, 0);
}

static int range_is_stale(void *data, const char *holder)
{
    struct sb_engine *engine = data;
    const char *tab = strrchr(holder, '\t');
    char id[SB_ID_SIZE];

    if (!tab || strlen(tab) != SB_ID_SIZE + 1)
        return 0;
    memcpy(id, tab + 1, SB_ID_SIZE - 1);
    id[SB_ID_SIZE - 1] = 0;
    return sb_id_valid(id) && !exists(engine->sandboxes, id) && !exists(engine->trash, id);
}

/* What a killed maker of image host's layer left. A living one needs less than a minute. */
static void repair_skeleton(struct sb_engine *engine, const char *name)
{
    SB_CLOSE int skeletons = sb_open_dir(engine->root, "skeletons", 0700);
    struct stat st;

    if (skeletons >= 0 && !strncmp(name, "tmp-", 4) && fstatat(skeletons, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        time(NULL) - st.st_ctim.tv_sec > 60)
        sb_remove_tree(skeletons, name);
}

int sb_repair(struct sb_engine *engine, struct sandbox_error **error)
{
    SB_FREE char *prefix = engine->map.privilege == SB_PRIVILEGE_ROOT ? sb_record_holder_prefix(engine) : NULL;
    SB_CLOSE int skeletons = -1;
    int names;

    (void)error;
    each_entry(engine, engine->sandboxes, repair_one);
    each_entry(engine, engine->trash, empty_trash);
    skeletons = openat(engine->root, "skeletons", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (skeletons >= 0)
        each_entry(engine, skeletons, repair_skeleton);
    names = sb_folder_lock(engine->names, LOCK_EX);
    if (names >= 0)
        each_entry(engine, engine->names, repair_name);
    sb_folder_unlock(names);
    if (prefix)
        sb_ids_sweep(prefix, range_is_stale, engine);
    return 0;
}
