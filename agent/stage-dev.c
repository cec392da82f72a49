/* SPDX-License-Identifier: Apache-2.0
 * The sandbox's /dev: a small memory file system with a fixed list. Root makes nodes of the sandbox's own in it, so that a chmod or
 * chown inside stays inside; an ordinary user can't, and gets the machine's nodes, bound onto empty files. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

static const struct node {
    const char *name;
    unsigned int major, minor, mode;
} nodes[] = {
    { "null", 1, 3, 0666 },    { "zero", 1, 5, 0666 }, { "full", 1, 7, 0666 },    { "random", 1, 8, 0666 },
    { "urandom", 1, 9, 0666 }, { "tty", 5, 0, 0666 },  { "fuse", 10, 229, 0600 },
};

static const struct {
    const char *name, *to;
} links[] = {
    { "fd", "/proc/self/fd" },       { "stdin", "/proc/self/fd/0" }, { "stdout", "/proc/self/fd/1" },
    { "stderr", "/proc/self/fd/2" }, { "ptmx", "pts/ptmx" },
};

_Static_assert(SB_ELEMENTS(nodes) == AG_DEVICES, "a device more or less");

static int wanted(const struct ag_stage *s, size_t i)
{
    return strcmp(nodes[i].name, "fuse") || (s->plan->flags & SB_PLAN_FUSE);
}

static int own_nodes(const struct ag_stage *s)
{
    return s->plan->map.privilege == SB_PRIVILEGE_ROOT;
}

void ag_stage_open_devices(struct ag_stage *s)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, .propagation = MS_PRIVATE };

    for (size_t i = 0; i < AG_DEVICES; i++) {
        char path[32];

        s->devices[i] = -1;
        if (own_nodes(s) || !wanted(s, i))
            continue;
        snprintf(path, sizeof path, "/dev/%s", nodes[i].name);
        if (!strcmp(nodes[i].name, "fuse") && access(path, R_OK | W_OK) < 0)
            ag_die("dev", errno, "/dev/fuse can't be opened by this user");
        s->devices[i] = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (s->devices[i] < 0 || mount_setattr(s->devices[i], "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
            ag_die("dev", errno, "%s can't be cloned", path);
    }
}

void ag_stage_make_dev(struct ag_stage *s)
{
    const uid_t uid = s->inner.uid_start;
    const gid_t gid = s->inner.gid_start;
    char uid_text[16], gid_text[16];
    const char *options[][2] = {
        { "mode", "0755" }, { "size", "64k" }, { "nr_inodes", "64" }, { "uid", uid_text }, { "gid", gid_text },
    };

    snprintf(uid_text, sizeof uid_text, "%u", uid);
    snprintf(gid_text, sizeof gid_text, "%u", gid);
    s->dev = ag_make_fs("tmpfs", options, SB_ELEMENTS(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, "dev"); /* never nodev */
    for (size_t i = 0; i < AG_DEVICES; i++) {
        /* the file type bits make an empty regular file where a node will be bound */
        mode_t mode = own_nodes(s) ? S_IFCHR | nodes[i].mode : S_IFREG | 0600;

        if (wanted(s, i) && (mknodat(s->dev, nodes[i].name, mode, makedev(nodes[i].major, nodes[i].minor)) < 0 ||
                             fchownat(s->dev, nodes[i].name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0))
            ag_die("dev", errno, "/dev/%s can't be made", nodes[i].name);
    }
    for (size_t i = 0; i < SB_ELEMENTS(links); i++)
        if (symlinkat(links[i].to, s->dev, links[i].name) < 0 ||
            fchownat(s->dev, links[i].name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
            ag_die("dev", errno, "/dev/%s can't be made", links[i].name);
    if (mkdirat(s->dev, "pts", 0755) < 0 || fchownat(s->dev, "pts", uid, gid, 0) < 0 || mkdirat(s->dev, "shm", 01777) < 0 ||
        fchownat(s->dev, "shm", uid, gid, 0) < 0)
        ag_die("dev", errno, "/dev/pts and /dev/shm can't be made");
}

static void mount_in(int dev, const char *name, int mnt)
{
    SB_CLOSE int at = sb_open_beneath(dev, name, O_PATH, 0), taken = mnt;

    if (at < 0)
        ag_die("dev", -at, "/dev/%s is missing", name);
    ag_move_onto(taken, at, "dev", name);
}

int ag_child_dev(struct ag_stage *s, int root)
{
    char group[16];
    const char *pts[][2] = { { "newinstance", NULL }, { "ptmxmode", "0666" }, { "mode", "0620" }, { "gid", group } };
    SB_CLOSE int target = ag_fixed_folder(root, "dev", 0755);
    int null;

    snprintf(group, sizeof group, "%u", s->inner.gid_start + 5); /* tty, on every distribution */
    ag_move_onto(s->dev, target, "dev", "/dev");
    for (size_t i = 0; i < AG_DEVICES; i++)
        if (s->devices[i] >= 0)
            mount_in(s->dev, nodes[i].name, s->devices[i]);
    mount_in(s->dev, "pts",
             ag_make_fs("devpts", pts, s->plan->map.count > 5 ? 4 : 3, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, "dev"));
    mount_in(s->dev, "shm", ag_make_tmpfs(s, s->plan->shm_max, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, "dev"));
    null = sb_open_beneath(s->dev, "null", O_PATH, 0);
    if (null < 0)
        ag_die("dev", -null, "/dev/null is missing");
    s->dev = sb_close(s->dev);
    return null;
}
