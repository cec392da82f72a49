/* SPDX-License-Identifier: Apache-2.0
 * The parent half's mounts: each tree that goes inside is cloned, gets its id map and flags, and is attached below one small
 * memory file system (the park), from whose copies the child takes them. See stage.c for why here and not in the child. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "userns.h"

#include <util.h>

static int clone_tree(int dir, const char *path, const char *what)
{
    int fd = open_tree(dir, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_NO_AUTOMOUNT | (*path ? 0 : AT_EMPTY_PATH));

    if (fd < 0)
        ag_die("mounts", errno, "%s %s can't be cloned", what, path);
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
        if ((st.st_uid != 0 && st.st_uid != s->plan->map.uid) || ++links > 40)
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

static void set_attributes(int tree, uint64_t attributes, int idmap, const char *what)
{
    struct mount_attr attr = { .attr_set = attributes };

    if (idmap >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t)idmap;
    }
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        ag_die("mounts", errno,
               idmap >= 0 ? "%s can't be id-mapped: its file system doesn't know how (ext4, xfs, btrfs and tmpfs do)"
                          : "the flags of %s can't be set",
               what);
}

void ag_stage_open_trees(struct ag_stage *s)
{
    const struct sb_plan *plan = s->plan;
    int idmap = -1;
    char path[512];

    if (plan->map.privilege == SB_PRIVILEGE_ROOT) {
        idmap = ag_userns_hold(s->proc, &plan->map);
        if (idmap < 0)
            ag_die("idmap", -idmap, "no user namespace for the id map");
    }
    snprintf(path, sizeof path, "%s/rw", SB_PLAN_STRING(plan, plan->folder));
    s->rw = clone_tree(SB_FD_ROOT, path, "the upper folder");
    for (uint32_t i = 0; i < plan->n_layers; i++) {
        const char *layer = SB_PLAN_STRING(plan, plan->layers[i]);

        s->layers[i] = clone_tree(SB_FD_ROOT, layer, "layer");
        set_attributes(s->layers[i], MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, idmap, layer);
    }
    for (uint32_t i = 0; i < plan->n_mounts; i++) {
        const struct sb_plan_mount *m = &plan->mounts[i];
        const char *source = SB_PLAN_STRING(plan, m->source);
        uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

        s->mounts[i] = -1;
        if (m->type != SB_PLAN_MOUNT_BIND)
            continue;
        if (m->flags & SB_PLAN_MOUNT_READ_ONLY)
            attributes |= MOUNT_ATTR_RDONLY;
        if (m->flags & SB_PLAN_MOUNT_NOEXEC)
            attributes |= MOUNT_ATTR_NOEXEC;
        if (m->flags & SB_PLAN_MOUNT_BELOW_ROOT) {
            s->mounts[i] = clone_tree(SB_FD_ROOT, source, "mount source");
        } else {
            SB_CLOSE int fd = open_source(s, source);

            s->mounts[i] = clone_tree(fd, "", source);
        }
        set_attributes(s->mounts[i], attributes, m->flags & SB_PLAN_MOUNT_IDMAP ? idmap : -1, source);
    }
    sb_close(idmap);
}

static int make_tmpfs(const char *options[][2], size_t n, unsigned int attributes)
{
    int mnt;
    SB_CLOSE int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);

    if (fs < 0)
        ag_die("dev", errno, "no tmpfs");
    for (size_t i = 0; i < n; i++)
        if (fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0) < 0)
            ag_die("dev", errno, "tmpfs option %s=%s", options[i][0], options[i][1]);
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        ag_die("dev", errno, "tmpfs can't be made");
    mnt = fsmount(fs, FSMOUNT_CLOEXEC, attributes);
    if (mnt < 0)
        ag_die("dev", errno, "tmpfs can't be mounted");
    return mnt;
}

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

/* Root makes nodes of the sandbox's own; an ordinary user can't and gets the machine's, bound onto empty files. */
static void make_node(struct ag_stage *s, const struct node *node, uid_t uid, gid_t gid)
{
    char path[32];
    int fd, tree;

    if (s->plan->map.privilege == SB_PRIVILEGE_ROOT) {
        if (mknodat(s->dev, node->name, S_IFCHR | node->mode, makedev(node->major, node->minor)) < 0)
            ag_die("dev", errno, "/dev/%s can't be made", node->name);
        if (fchownat(s->dev, node->name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
            ag_die("dev", errno, "/dev/%s can't be owned", node->name);
        return;
    }
    fd = openat(s->dev, node->name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        ag_die("dev", errno, "/dev/%s can't be made", node->name);
    sb_close(fd);
    snprintf(path, sizeof path, "/dev/%s", node->name);
    tree = clone_tree(AT_FDCWD, path, "device");
    set_attributes(tree, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, -1, path);
    if (move_mount(tree, "", s->dev, node->name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        ag_die("dev", errno, "/dev/%s can't be bound", node->name);
    sb_close(tree);
}

/* Called with the mount for root detached (nodes are made in it); for a user it is attached first, see ag_stage_park(). */
static void fill_dev(struct ag_stage *s)
{
    const struct sb_idmap *map = &s->plan->map;
    uid_t uid = map->privilege == SB_PRIVILEGE_ROOT ? map->uid_start : 0;
    gid_t gid = map->privilege == SB_PRIVILEGE_ROOT ? map->gid_start : 0;

    for (size_t i = 0; i < SB_ELEMENTS(nodes); i++)
        if (strcmp(nodes[i].name, "fuse") || (s->plan->flags & SB_PLAN_FUSE))
            make_node(s, &nodes[i], uid, gid);
    for (size_t i = 0; i < SB_ELEMENTS(links); i++)
        if (symlinkat(links[i].to, s->dev, links[i].name) < 0 ||
            fchownat(s->dev, links[i].name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
            ag_die("dev", errno, "/dev/%s can't be made", links[i].name);
    if (mkdirat(s->dev, "pts", 0755) < 0 || fchownat(s->dev, "pts", uid, gid, 0) < 0 || mkdirat(s->dev, "shm", 01777) < 0 ||
        fchownat(s->dev, "shm", uid, gid, 0) < 0)
        ag_die("dev", errno, "/dev/pts and /dev/shm can't be made");
}

void ag_stage_make_dev(struct ag_stage *s)
{
    const struct sb_idmap *map = &s->plan->map;
    char uid[16], gid[16];
    const char *options[][2] = { { "mode", "0755" }, { "size", "64k" }, { "nr_inodes", "64" }, { "uid", uid }, { "gid", gid } };

    snprintf(uid, sizeof uid, "%u", map->privilege == SB_PRIVILEGE_ROOT ? map->uid_start : 0);
    snprintf(gid, sizeof gid, "%u", map->privilege == SB_PRIVILEGE_ROOT ? map->gid_start : 0);
    s->dev = make_tmpfs(options, SB_ELEMENTS(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC); /* never nodev */
    if (map->privilege == SB_PRIVILEGE_ROOT)
        fill_dev(s);
}

static int is_folder(int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        ag_die("mounts", errno, "a mount source can't be read");
    return S_ISDIR(st.st_mode);
}

static void attach(int park, const char *name, int *tree, int folder)
{
    int fd;

    if (folder) {
        if (mkdirat(park, name, 0700) < 0)
            ag_die("park", errno, "%s can't be made", name);
    } else {
        fd = openat(park, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0)
            ag_die("park", errno, "%s can't be made", name);
        sb_close(fd);
    }
    if (move_mount(*tree, "", park, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        ag_die("park", errno, "%s can't be attached", name);
    *tree = sb_close(*tree);
}

void ag_stage_park(struct ag_stage *s)
{
    static const char *const places[] = { "/tmp", "/mnt", "/run", "/var", "/home", "/opt" };
    const char *options[][2] = { { "mode", "0755" }, { "size", "256k" }, { "nr_inodes", "1024" } };
    int tmpfs = make_tmpfs(options, SB_ELEMENTS(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    int park = -1;
    char name[16];

    for (size_t i = 0; i < SB_ELEMENTS(places) && !s->park; i++)
        if (move_mount(tmpfs, "", AT_FDCWD, places[i], MOVE_MOUNT_F_EMPTY_PATH) == 0)
            s->park = places[i];
    if (!s->park)
        ag_die("park", errno, "no folder to hide mounts behind");
    park = tmpfs; /* the same mount, now attached */
    attach(park, "rw", &s->rw, 1);
    for (uint32_t i = 0; i < s->plan->n_layers; i++) {
        snprintf(name, sizeof name, "l%u", i);
        attach(park, name, &s->layers[i], 1);
    }
    for (uint32_t i = 0; i < s->plan->n_mounts; i++) {
        snprintf(name, sizeof name, "v%u", i);
        if (s->mounts[i] >= 0)
            attach(park, name, &s->mounts[i], is_folder(s->mounts[i]));
    }
    if (mkdirat(park, "dev", 0755) < 0 || move_mount(s->dev, "", park, "dev", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        ag_die("park", errno, "dev can't be attached");
    if (s->plan->map.privilege != SB_PRIVILEGE_ROOT)
        fill_dev(s);
    s->dev = sb_close(s->dev);
    sb_close(park);
}
