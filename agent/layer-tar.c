/* SPDX-License-Identifier: Apache-2.0
 * What a sandbox changed, as a tar in the form of an OCI layer: what is new or changed with its content, and for what is gone an empty file
 * `.wh.NAME` beside it. Folders on the way to a change are there, too. A sandbox that gives a file such a name itself would have something
 * taken away where the layer is used: such a file is left out, and so are sockets and devices; it is told that something was.
 *
 * The files are read while they may change (unpack-pack.c: live). */
#include "layer-tar.h"
#include "pack.h"

#include <errno.h>
#include <fcntl.h>
#include <layer-plan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fs.h>
#include <util.h>

#define MARK ".wh."

static struct sb_idmap range;
static struct au_pack how = { .source = -1, .out = SB_LAYER_FD_DATA, .top = "", .live = 1, .own_uid = -1, .own_gid = -1, .max_bytes = -1, .max_entries = -1 };
static struct au_packing *pack;

void ag_layer_tar_begin(const struct sb_idmap *map)
{
    pack = calloc(1, sizeof *pack);
    if (!pack)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    range = *map;
    how.range = map->privilege == SB_PRIVILEGE_ROOT ? &range : NULL; /* a user's namespace shows them as they are inside */
    pack->how = &how;
}

static void put_mark(const char *path)
{
    static const struct stat none = { .st_mode = S_IFREG | 0644 };
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    snprintf(pack->path, sizeof pack->path, "%.*s" MARK "%s", (int)(name - path), path, name);
    au_pack_entry(pack, &none, '0', NULL, -1, -1);
}

static void put_folder(int dir, const char *name)
{
    SB_CLOSE int fd = sb_open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    size_t length = strlen(pack->path);
    struct stat st;

    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return; /* it is gone, or something else is there now */
    if (fd < 0 || fstat(fd, &st) < 0)
        au_fail_errno(fd < 0 ? -fd : errno, "opening '%.512s' in the layer", pack->path);
    memcpy(pack->path + length, "/", 2);
    au_pack_entry(pack, &st, '5', NULL, fd, -1);
}

int ag_layer_tar_put(const char *path, int dir, const char *name, const struct stat *st)
{
    if (dir < 0) {
        put_mark(path);
        return 0;
    }
    if (!strncmp(name, MARK, strlen(MARK)) || S_ISSOCK(st->st_mode) || S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
        return 1;
    snprintf(pack->path, sizeof pack->path, "%s", path);
    if (!S_ISDIR(st->st_mode)) /* a folder that took its place meanwhile would be packed with all names in it */
        return au_pack_child(pack, dir, name) ? 1 : 0;
    put_folder(dir, name);
    return 0;
}

void ag_layer_tar_end(void)
{
    au_pack_end(pack);
}
