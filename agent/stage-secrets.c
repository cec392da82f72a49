/* SPDX-License-Identifier: Apache-2.0
 * Covers what has a secret's name in a mounted folder: an empty file or folder that nobody may open lies over it, locked as all mounts
 * are. Nothing on the machine changes, and it works for binds as for overlays. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

static void cover(int covers, int at, const char *path)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC };
    SB_CLOSE int tree = -1;
    struct stat st;

    if (fstat(at, &st) < 0)
        ag_die("secrets", errno, "%s can't be read", path);
    if (S_ISLNK(st.st_mode))
        return; /* what it leads to has a name of its own */
    tree = ag_clone_tree(covers, S_ISDIR(st.st_mode) ? "folder" : "file", "the cover");
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        ag_die("secrets", errno, "the cover of %s can't be made", path);
    ag_move_onto(tree, at, "secrets", path);
}

void ag_child_secrets(const struct ag_stage *s, int root)
{
    const char *options[][2] = { { "mode", "0700" }, { "size", "16k" }, { "nr_inodes", "8" } };
    const char *path = SB_PLAN_STRING(s->plan, s->plan->hidden), *end = (const char *)s->plan + s->plan->size;
    SB_CLOSE int covers = -1;

    if (!s->plan->n_hidden)
        return;
    covers = ag_make_fs("tmpfs", options, SB_ELEMENTS(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, "secrets");
    if (mkdirat(covers, "folder", 0) < 0 || mknodat(covers, "file", S_IFREG, 0) < 0)
        ag_die("secrets", errno, "no cover for secrets");
    for (uint32_t i = 0; i < s->plan->n_hidden && path < end; i++, path += strlen(path) + 1) {
        SB_CLOSE int at = sb_open_in_root(root, path, O_PATH | O_NOFOLLOW, 0);

        if (at == -ENOENT)
            continue;
        if (at < 0)
            ag_die("secrets", -at, "%s can't be covered", path);
        cover(covers, at, path);
    }
}
