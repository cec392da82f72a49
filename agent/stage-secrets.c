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

static void cover(const struct ag_stage *s, int at, const char *path)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC };
    SB_CLOSE int tree = -1;
    struct stat st;

    if (fstat(at, &st) < 0)
        ag_die("secrets", errno, "%s can't be read", path);
    if (S_ISLNK(st.st_mode))
        return; /* what it leads to has a name of its own */
    tree = ag_clone_tree(S_ISDIR(st.st_mode) ? s->cover_folder : s->cover_file, "", "the cover of a secret's name");
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        ag_die("secrets", errno, "the cover of %s can't be made", path);
    ag_move_onto(tree, at, "secrets", path);
}

/* Covers are clones of what lies in the park, which is attached: kernels before Linux 6.15 clone nothing of a mount that is not. What is made
 * here is the caller's and not the sandbox's root's, so that nobody inside can open it. */
void ag_park_covers(struct ag_stage *s, int park)
{
    if (!s->plan->n_hidden)
        return;
    if (mkdirat(park, "folder", 0) < 0 || mknodat(park, "file", S_IFREG, 0) < 0 ||
        (s->cover_folder = openat(park, "folder", O_PATH | O_CLOEXEC)) < 0 || (s->cover_file = openat(park, "file", O_PATH | O_CLOEXEC)) < 0)
        ag_die("secrets", errno, "no cover for secrets");
}

void ag_cover_below(const struct ag_stage *s, int root, const char *target)
{
    const char *path = SB_PLAN_STRING(s->plan, s->plan->hidden), *end = (const char *)s->plan + s->plan->size;
    size_t length = strlen(target);

    for (uint32_t i = 0; i < s->plan->n_hidden && path < end; i++, path += strlen(path) + 1) {
        SB_CLOSE int at = -1;

        if (strncmp(path, target, length) || path[length] != '/')
            continue;
        at = sb_open_in_root(root, path + length, O_PATH | O_NOFOLLOW, 0);
        if (at == -ENOENT)
            continue;
        if (at < 0)
            ag_die("secrets", -at, "%s can't be covered", path);
        cover(s, at, path);
    }
}

void ag_child_secrets(const struct ag_stage *s, int root)
{
    ag_cover_below(s, root, "");
}
