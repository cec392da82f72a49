/* SPDX-License-Identifier: Apache-2.0
 * Folders that a layer's archive has files in but doesn't describe. In the overlay the topmost layer's folder is the one
 * that is seen, so without this an archive with nothing but "tmp/file" would take the sticky bit from /tmp. They get
 * owner, mode and time from the layers below, as they are merged: a whiteout or an opaque folder ends the search. */
#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

enum { LIST_MAX = 12 << 20 };

static int is_opaque(int fd)
{
    char value = 0;

    return fgetxattr(fd, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

/* 1: found, 0: this layer has it not, -1: nor has any layer below. */
static int find_in(int layer, const char *path, struct stat *st)
{
    SB_FREE char *copy = strdup(path);
    int at = sb_open_beneath(layer, ".", O_RDONLY | O_DIRECTORY, 0), opaque = 0;
    char *save = NULL;

    if (!copy || at < 0)
        au_fail_errno(at < 0 ? -at : ENOMEM, "opening a layer below");
    for (char *part = strtok_r(copy, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
        int next = sb_open_beneath(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

        sb_close(at);
        if (next == -ENOENT)
            return opaque ? -1 : 0;
        if (next < 0)
            return -1; /* a whiteout, or no folder */
        at = next;
        opaque |= is_opaque(at);
    }
    if (fstat(at, st) < 0)
        au_fail_errno(errno, "examining a layer below");
    sb_close(at);
    return 1;
}

static void adopt(int layer, const char *path, const struct stat *st, const struct sb_unpack_plan *plan)
{
    SB_CLOSE int fd = sb_open_beneath(layer, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    const struct timespec times[2] = { st->st_mtim, st->st_mtim };

    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return; /* a later entry took its place */
    if (fd < 0 || (plan->map.privilege != SB_PRIVILEGE_SINGLE && fchown(fd, st->st_uid, st->st_gid) < 0) ||
        fchmod(fd, st->st_mode & 07777) < 0 || futimens(fd, times) < 0)
        au_fail_errno(fd < 0 ? -fd : errno, "completing the folder '%s'", path);
}

static const char *next_text(const char *text, const char *end)
{
    const char *nul = memchr(text, 0, (size_t)(end - text));

    if (!nul)
        au_fail(SANDBOX_EPROTOCOL, 0, NULL, "the list of folders makes no sense");
    return nul + 1;
}

void au_job_adopt(const struct sb_unpack_plan *plan)
{
    static struct sb_unpack_result result;
    SB_FREE char *text = NULL;
    size_t size;
    int r = sb_read_fd(SB_UNPACK_FD_SOURCE, LIST_MAX, &text, &size);
    const char *end, *paths;
    int layer;

    if (r)
        au_fail_errno(-r, "reading the list of folders");
    end = text + size;
    layer = sb_open_beneath(SB_UNPACK_FD_DEST, plan->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (layer < 0)
        au_fail_errno(-layer, "opening the layer");
    for (paths = text; *paths; paths = next_text(paths, end))
        continue;
    for (const char *path = paths + 1; path < end; path = next_text(path, end)) {
        struct stat st;

        for (const char *lower = text; *lower; lower = next_text(lower, end)) {
            SB_CLOSE int fd = sb_open_beneath(SB_UNPACK_FD_DEST, lower, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

            if (fd < 0)
                au_fail_errno(-fd, "opening a layer below");
            r = find_in(fd, path, &st);
            if (r > 0)
                adopt(layer, path, &st, plan);
            if (r)
                break;
        }
    }
    if (syncfs(layer) < 0)
        au_fail_errno(errno, "writing the layer to disk");
    au_send_result(&result);
}
