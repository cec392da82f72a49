/* SPDX-License-Identifier: Apache-2.0
 * See files.c: tars, in and out. */
#include "files.h"
#include "put.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

/* The folder that is unpacked into, made when it isn't there. */
static int open_target(struct ag_files *f, int *ret_made)
{
    int fd = sb_open_in_root(f->root, f->path, O_RDONLY | O_DIRECTORY, 0), dir;
    const char *name;

    if (fd == -ENOENT) {
        dir = ag_files_parent(f, f->path, &name);
        if (mkdirat(dir, name, 0755) == 0)
            *ret_made = 1;
        else if (errno != EEXIST)
            ag_files_fail("making", f->path, errno);
        fd = sb_open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    }
    if (fd < 0)
        ag_files_fail("opening the folder", f->path, -fd);
    return fd;
}

void ag_files_put_tar(struct ag_files *f)
{
    int root_owns = !!(f->q.flags & SB_FILES_ROOT_OWNS);
    struct au_put how = {
        .in = f->data, .map = f->map, .uid = root_owns && f->q.uid < 0 ? 0 : f->q.uid, .gid = root_owns && f->q.gid < 0 ? 0 : f->q.gid,
        .mode = f->q.mode, .max_bytes = f->q.max_bytes, .max_entries = f->q.max_entries,
    };
    int64_t bytes, entries;

    ag_files_owner(f, f->q.uid, 0);
    ag_files_owner(f, f->q.gid, 0);
    how.root = open_target(f, &how.root_made);
    au_put(&how, &bytes, &entries);
    ag_files_done(bytes, entries);
}

void ag_files_get_tar(struct ag_files *f)
{
    struct sb_files_info info = { .head = { SB_FILES_INFO, sizeof info } };
    struct au_pack how = {
        .source = -1, .out = f->data, .top = f->other, .live = 1, .one_owner = !!(f->q.flags & SB_FILES_ROOT_OWNS), .own_uid = -1,
        .own_gid = -1, .max_bytes = f->q.max_bytes, .max_entries = f->q.max_entries,
    };
    SB_CLOSE int look = sb_open_in_root(f->root, f->path, O_PATH, 0);
    struct stat st;

    if (look == -ENOENT) /* a link that leads nowhere is still a link */
        look = sb_open_in_root(f->root, f->path, O_PATH | O_NOFOLLOW, 0);
    if (look < 0 || fstat(look, &st) < 0)
        ag_files_fail("opening", f->path, look < 0 ? -look : errno);
    if (S_ISDIR(st.st_mode)) {
        how.source = ag_files_open(f, O_DIRECTORY, &st);
    } else {
        f->q.flags &= ~(uint32_t)SB_FILES_PARENTS;
        how.source = ag_files_parent(f, f->path, &how.name);
    }
    if (!*how.top)
        how.top = how.name ? how.name : ".";
    ag_files_stat_of(&st, &info.stat);
    ag_files_send(&info, sizeof info);
    au_pack(&how);
    ag_files_done(0, 0);
}
