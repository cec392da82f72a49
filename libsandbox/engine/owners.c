/* SPDX-License-Identifier: Apache-2.0
 * owners/PROCESS/ID: which sandboxes a process must not die on: those that it is making or deleting, and the owned ones that end with it.
 * So whoever opens the state root looks at processes, which are few, and not at sandboxes, which may be many; only what a process that is
 * certainly gone has left here is looked at closer (repair.c).
 *
 * An entry is made before the first thing that it stands for, and goes after the last. So it may be there with nothing behind it, and that
 * is no fault; what is there without an entry (a power cut may keep the one and lose the other) is found by a reconcile. PROCESS is
 * BOOT.PID.START.SPACE (struct sb_identity); the folder goes when the process closes its host and nothing is left in it. */
#include "engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fs.h>

enum { NAME_SIZE = 128, TRIES = 16 };

static void name_of(const struct sb_identity *process, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, "%.36s.%" PRId64 ".%" PRId64 ".%" PRId64, process->boot, process->pid, process->start, process->space);
}

int sb_owner_parse(const char *name, struct sb_identity *ret)
{
    struct sb_identity found = { 0 };
    char again[NAME_SIZE];

    if (strlen(name) < 38 || name[36] != '.' || strspn(name, "0123456789abcdef-") != 36)
        return -EINVAL;
    memcpy(found.boot, name, 36);
    if (sscanf(name + 37, "%" SCNd64 ".%" SCNd64 ".%" SCNd64, &found.pid, &found.start, &found.space) != 3)
        return -EINVAL;
    name_of(&found, again);
    if (strcmp(again, name)) /* exactly as we write it */
        return -EINVAL;
    *ret = found;
    return 0;
}

static void path_of(const struct sb_identity *process, const char *id, char path[NAME_SIZE + SB_ID_SIZE])
{
    char folder[NAME_SIZE];

    name_of(process, folder);
    snprintf(path, NAME_SIZE + SB_ID_SIZE, "%s/%s", folder, id);
}

int sb_owner_enter(struct sb_engine *engine, const char *id)
{
    char folder[NAME_SIZE], path[NAME_SIZE + SB_ID_SIZE];

    name_of(&engine->self, folder);
    path_of(&engine->self, id, path);
    /* another host of this process, or a reconcile, may take the empty folder away in between */
    for (int i = 0; i < TRIES; i++) {
        if (mknodat(engine->owners, path, S_IFREG | 0600, 0) == 0 || errno == EEXIST)
            return 0;
        if (errno != ENOENT || (mkdirat(engine->owners, folder, 0700) < 0 && errno != EEXIST))
            break;
    }
    return -errno;
}

void sb_owner_leave(struct sb_engine *engine, const struct sb_identity *process, const char *id)
{
    char path[NAME_SIZE + SB_ID_SIZE];

    if (strlen(process->boot) != 36 || strspn(process->boot, "0123456789abcdef-") != 36)
        return; /* from a record: never a way out of the folder */
    path_of(process, id, path);
    unlinkat(engine->owners, path, 0);
}

int sb_owner_has(struct sb_engine *engine, const char *id)
{
    DIR *stream = sb_read_folder(engine->owners);
    struct dirent *d;
    int found = 0;

    if (!stream)
        return 1; /* not to be found out */
    while (!found && (d = readdir(stream))) {
        char path[NAME_SIZE + SB_ID_SIZE];
        struct sb_identity owner;
        int fd;

        if (snprintf(path, sizeof path, "%s/%s", d->d_name, id) >= (int)sizeof path || sb_owner_parse(d->d_name, &owner) ||
            faccessat(engine->owners, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        fd = sb_identity_find(&engine->self, &owner);
        if (fd >= 0)
            sb_close(fd);
        found = fd != -ESRCH;
    }
    closedir(stream);
    return found;
}

void sb_owner_close(struct sb_engine *engine)
{
    char folder[NAME_SIZE];

    name_of(&engine->self, folder);
    if (engine->owners >= 0 && *engine->self.boot)
        unlinkat(engine->owners, folder, AT_REMOVEDIR);
}
