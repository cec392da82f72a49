/* SPDX-License-Identifier: Apache-2.0
 * What of the machine goes inside: the upper folder, the layers, and the mounts that were asked for, as detached clones with their id
 * maps and flags. See stage.c. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "userns.h"

#include <util.h>

int ag_clone_tree(int dir, const char *path, const char *what)
{
    int fd = open_tree(dir, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_NO_AUTOMOUNT | (*path ? 0 : AT_EMPTY_PATH));

    if (fd < 0)
        ag_die("mounts", errno, "%s %s can't be cloned%s", what, path,
               errno == EINVAL ? ": something else is mounted below it, which an ordinary user can't leave out" : "");
    /* a clone of a shared mount is its peer: what the child mounts on it would appear on the machine */
    if (mount_setattr(fd, "", AT_EMPTY_PATH, &(struct mount_attr){ .propagation = MS_PRIVATE }, sizeof(struct mount_attr)) < 0)
        ag_die("mounts", errno, "%s %s can't be made private", what, path);
    return fd;
}

/* Opens a mount's source, the machine's own path, from component to component. A link is followed only when root or the caller made it:
 * somewhere on the way may be a folder that a sandbox could write before, and its links must not lead us about the machine. */
static int open_source(const struct ag_stage *s, const char *path)
{
    char rest[4096], link[4096], joined[8192];
    SB_CLOSE int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int links = 0;

    if (strlen(path) >= sizeof rest)
        ag_die("mounts", ENAMETOOLONG, "mount source %s", path);
    memcpy(rest, path, strlen(path) + 1);
    for (char *p = rest; *(p += strspn(p, "/"));) {
        size_t n = strcspn(p, "/");
        char saved = p[n];
        struct stat st;
        int fd;

        p[n] = 0;
        fd = openat(at, p, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
            ag_die("mounts", errno, "mount source %s: %s", path, p);
        if (!S_ISLNK(st.st_mode)) {
            sb_close(at);
            at = fd;
            p[n] = saved;
            p += n;
            continue;
        }
        /* in a user's own namespace the machine's root has no number, and the sandbox's root is the user: there is nothing to tell them by, and
         * a link leads only where the user may go */
        if ((s->plan->map.privilege == SB_PRIVILEGE_ROOT && st.st_uid != 0 && st.st_uid != s->plan->map.uid) || ++links > 40)
            ag_die("mounts", ELOOP, "mount source %s: %s is a link that neither root nor the caller made: name what it leads to",
                   path, p);
        ssize_t size = readlinkat(fd, "", link, sizeof link - 1);
        sb_close(fd);
        if (size <= 0)
            ag_die("mounts", size < 0 ? errno : ENOENT, "mount source %s: %s", path, p);
        link[size] = 0;
        p[n] = saved;
        if (snprintf(joined, sizeof joined, "%s%s", link, p + n) >= (int)sizeof rest)
            ag_die("mounts", ENAMETOOLONG, "mount source %s", path);
        memcpy(rest, joined, strlen(joined) + 1);
        p = rest;
        if (link[0] == '/') {
            sb_close(at);
            at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        }
    }
    return SB_TAKE_FD(at);
}

void ag_stage_open_tree(struct ag_stage *s, uint32_t i, const char *upper)
{
    const struct sb_plan_mount *m = &s->plan->mounts[i];
    const char *source = SB_PLAN_STRING(s->plan, m->source);

    s->mounts[i] = -1;
    if (m->type == SB_PLAN_MOUNT_TMPFS)
        return;
    if (m->type == SB_PLAN_MOUNT_OVERLAY)
        s->uppers[i] = m->max_bytes ? ag_stage_open_disk(s, upper) : ag_clone_tree(SB_FD_ROOT, upper, "the layer");
    if (m->flags & SB_PLAN_MOUNT_BELOW_ROOT) {
        s->mounts[i] = ag_clone_tree(SB_FD_ROOT, source, "mount source");
    } else {
        SB_CLOSE int fd = open_source(s, source);

        s->mounts[i] = ag_clone_tree(fd, "", source);
    }
}

void ag_stage_open_trees(struct ag_stage *s)
{
    const struct sb_plan *plan = s->plan;
    char path[512];

    snprintf(path, sizeof path, "%s/rw", SB_PLAN_STRING(plan, plan->folder));
    s->rw = ag_clone_tree(SB_FD_ROOT, path, "the upper folder");
    for (uint32_t i = 0; i < plan->n_layers; i++)
        s->layers[i] = ag_clone_tree(SB_FD_ROOT, SB_PLAN_STRING(plan, plan->layers[i]), "layer");
    for (uint32_t i = 0; i < plan->n_mounts; i++)
        ag_stage_open_tree(s, i, SB_PLAN_STRING(plan, plan->mounts[i].upper));
}

/* 0 or an errno. */
static int set_attributes(int tree, uint64_t attributes, int idmap)
{
    struct mount_attr attr = { .attr_set = attributes };

    if (idmap >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t)idmap;
    }
    return mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 ? errno : 0;
}

static AG_NORETURN void cant_set(int sys_errno, int idmap, const char *what)
{
    ag_die("mounts", sys_errno,
           idmap >= 0 ? "%s can't be id-mapped: its file system doesn't know how (ext4, xfs, btrfs do, tmpfs since Linux 6.3)"
                      : "the flags of %s can't be set",
           what);
}

void ag_stage_set_tree(struct ag_stage *s, uint32_t i)
{
    const struct sb_plan_mount *m = &s->plan->mounts[i];
    uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    SB_CLOSE int owned = -1;
    int idmap = -1, r;

    if (m->type == SB_PLAN_MOUNT_OVERLAY || (m->flags & SB_PLAN_MOUNT_READ_ONLY))
        attributes |= MOUNT_ATTR_RDONLY;
    if ((m->flags & SB_PLAN_MOUNT_IDMAP) && s->plan->map.privilege == SB_PRIVILEGE_ROOT) {
        idmap = s->inside;
        if (m->owner_uid || m->owner_gid) {
            idmap = owned = ag_userns_hold_owner(s->proc, &s->plan->map, m->owner_uid, m->owner_gid);
            if (owned < 0)
                ag_die("mounts", -owned, "the id map of %s can't be made", SB_PLAN_STRING(s->plan, m->source));
        }
    }
    r = set_attributes(s->mounts[i], attributes, idmap);
    if (r && idmap >= 0 && m->type == SB_PLAN_MOUNT_OVERLAY) { /* then it is copied */
        s->unmapped[i] = r;
        r = set_attributes(s->mounts[i], attributes, -1);
        idmap = -1;
    }
    if (r)
        cant_set(r, idmap, SB_PLAN_STRING(s->plan, m->source));
}

void ag_stage_set_trees(struct ag_stage *s)
{
    const struct sb_plan *plan = s->plan;
    /* for an ordinary user the layers on disk have the outer namespace's ids already, and nobody may map them */
    int idmap = plan->map.privilege == SB_PRIVILEGE_ROOT ? s->inside : -1;

    for (uint32_t i = 0; i < plan->n_layers; i++) {
        int r = set_attributes(s->layers[i], MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, idmap);

        if (r)
            cant_set(r, idmap, SB_PLAN_STRING(plan, plan->layers[i]));
    }
    for (uint32_t i = 0; i < plan->n_mounts; i++)
        if (s->mounts[i] >= 0)
            ag_stage_set_tree(s, i);
}
