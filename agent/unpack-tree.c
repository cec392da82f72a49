/* SPDX-License-Identifier: Apache-2.0
 * Entries written into the destination.
 *
 * Theory of operation. Every entry is reached as parent folder + base name. The parent is opened from the destination's
 * descriptor by openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS), so no link that the archive planted is ever followed, and
 * no name leads above the destination. The base name is only given to calls that act on the name itself (mkdirat, O_EXCL |
 * O_NOFOLLOW, symlinkat, linkat without AT_SYMLINK_FOLLOW, unlinkat). A layer's destination is a fresh folder below a 0700 one:
 * nobody else writes in it. What stands where a new entry goes is removed first, except that folders are kept.
 *
 * In a live folder others rename and link what they own while we work: owner and mode are only given to a descriptor, never
 * to a name, and a name's file must be of the kind that was just made. Who moves the folder that is being filled gets the
 * entry there: a folder that was theirs to move.
 *
 * Layers are kept as overlayfs wants them: a removed name is a character device 0:0 (the one device that an unprivileged
 * user namespace may make), a replaced folder has user.overlay.opaque (the root is mounted with userxattr). An archive's
 * own devices and user.overlay.* attributes would let it forge those, so both are left out and counted. */
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

enum { TIMES_BYTES_MAX = 256 << 20, BLOCK = 4096, IMPLIED_MAX = 16384, IMPLIED_BYTES_MAX = 8 << 20 };

/* The file being written. A handler of signals reads it. */
static struct {
    volatile int dir; /* -1: none */
    char name[NAME_MAX + 1];
} partial = { .dir = -1 };

void au_tree_note_partial(int dir, const char *name)
{
    partial.dir = -1;
    if (name)
        snprintf(partial.name, sizeof partial.name, "%s", name);
    partial.dir = dir;
}

void au_tree_drop_partial(void)
{
    if (partial.dir >= 0)
        unlinkat(partial.dir, partial.name, 0);
    partial.dir = -1;
}

void au_tree_init(struct au_tree *tree, int root, const struct sb_idmap *map)
{
    *tree = (struct au_tree){ .root = root, .parent = -1, .map = map };
    if (fchmod(root, 0755) < 0)
        au_fail_errno(errno, "preparing the layer's folder");
}

void au_tree_init_live(struct au_tree *tree, int root, const struct sb_idmap *map)
{
    *tree = (struct au_tree){ .root = root, .parent = -1, .map = map, .live = 1 };
}

static void set_opaque(struct au_tree *tree, int dir, const char *name, const char *shown)
{
    SB_CLOSE int fd = sb_open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

    (void)tree;
    if (fd < 0)
        au_fail_errno(-fd, "opening the folder of '%s'", shown);
    if (fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0) {
        if (errno == EOPNOTSUPP)
            au_fail(SANDBOX_EUNSUPPORTED, errno, "put the state root on ext4, xfs or btrfs",
                    "the state root's file system has no user attributes, which '%s' needs", shown);
        au_fail_errno(errno, "marking the folder of '%s' as opaque", shown);
    }
}

/* A whiteout stands at `name`: a folder in its place hides all that the layers below have there. */
static void replace_whiteout(struct au_tree *tree, int dir, const char *name, mode_t mode, const char *shown)
{
    if (unlinkat(dir, name, 0) < 0 || mkdirat(dir, name, mode) < 0)
        au_fail_errno(errno, "making the folder '%s'", shown);
    set_opaque(tree, dir, name, shown);
}

/* `path` is a folder that no entry has described so far. */
static void note_implied(struct au_tree *tree, const char *path)
{
    if (tree->n_implied % 256 == 0) {
        char **more = reallocarray(tree->implied, tree->n_implied + 256, sizeof *more);

        if (!more)
            au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
        tree->implied = more;
    }
    tree->implied_bytes += strlen(path);
    if (tree->n_implied == IMPLIED_MAX || tree->implied_bytes > IMPLIED_BYTES_MAX)
        au_fail(SANDBOX_ELIMIT, 0, NULL, "the archive leaves out more than %d folders that it has files in", IMPLIED_MAX);
    tree->implied[tree->n_implied] = strdup(path);
    if (!tree->implied[tree->n_implied++])
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
}

static int make_folder(struct au_tree *tree, int at, const char *name, const char *path, const char *shown)
{
    int fd = sb_open_beneath(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    struct stat st;

    if (fd >= 0)
        return fd;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT || mkdirat(at, name, 0755) < 0)
            au_fail_errno(errno, "making the folders above '%s'", shown);
        if (!tree->live)
            note_implied(tree, path);
    } else if (S_ISCHR(st.st_mode) && !tree->live) {
        replace_whiteout(tree, at, name, 0755, shown);
    } else if (S_ISLNK(st.st_mode)) {
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' lies behind the symbolic link '%s'", shown, name);
    } else if (!S_ISDIR(st.st_mode)) {
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' lies below '%s', which is not a folder", shown, name);
    }
    fd = sb_open_beneath(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        au_fail_errno(-fd, "opening the folder '%s' above '%s'", name, shown);
    return fd;
}

static int make_folders(struct au_tree *tree, char *path, const char *shown)
{
    char whole[AU_PATH_MAX];
    char *save = NULL;
    int at = sb_open_beneath(tree->root, ".", O_PATH | O_DIRECTORY, 0);

    if (at < 0)
        au_fail_errno(-at, "opening the layer's folder");
    memcpy(whole, path, strlen(path) + 1);
    for (char *part = strtok_r(path, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
        size_t length = (size_t)(part - path) + strlen(part);
        char cut = whole[length];
        int next;

        whole[length] = 0;
        next = make_folder(tree, at, part, whole, shown);
        whole[length] = cut;

        sb_close(at);
        at = next;
    }
    return at;
}

int au_tree_parent(struct au_tree *tree, const char *clean, const char *shown, const char **ret_name)
{
    char parent[AU_PATH_MAX];

    *ret_name = au_path_split(clean, parent);
    if (tree->parent >= 0 && !strcmp(parent, tree->parent_path))
        return tree->parent;
    tree->parent = sb_close(tree->parent);
    memcpy(tree->parent_path, parent, strlen(parent) + 1);
    if (parent[0])
        tree->parent = sb_open_beneath(tree->root, parent, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    if (tree->parent < 0)
        tree->parent = make_folders(tree, parent, shown);
    return tree->parent;
}

/* Makes room for an entry that is not a folder. */
static void clear(const struct au_tree *tree, int dir, const char *name, const char *shown)
{
    int r = 0;

    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT) {
        if (errno == EISDIR && tree->live)
            au_fail(SANDBOX_EEXISTS, EISDIR, "remove the folder first", "a folder stands where the entry '%s' goes", shown);
        r = errno == EISDIR || (errno == EPERM && !tree->live) ? sb_remove_tree(dir, name) : -errno;
    }
    if (r)
        au_fail_errno(-r, "replacing '%s'", shown);
}

static uid_t owner(const struct au_tree *tree, int64_t id, const struct au_meta *meta)
{
    if (id < 0 || id > UINT32_MAX - 1)
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' has the owner %lld", meta->shown, (long long)id);
    if (id >= tree->map->count)
        au_fail(SANDBOX_EUNSUPPORTED, 0, "change its owner in the image, or give the user a larger range in /etc/subuid and /etc/subgid",
                "the archive's entry '%s' belongs to id %lld, and this host has %u ids for a sandbox", meta->shown, (long long)id,
                tree->map->count);
    return (uid_t)id;
}

static void give(struct au_tree *tree, int dir, const char *name, const struct au_meta *meta)
{
    if (tree->map->privilege == SB_PRIVILEGE_SINGLE)
        return; /* there is one owner */
    if (fchownat(dir, name, owner(tree, meta->uid, meta), owner(tree, meta->gid, meta), AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
        au_fail_errno(errno, "setting the owner of '%s'", meta->shown);
}

static void set_xattrs(struct au_tree *tree, int fd, const struct au_meta *meta)
{
    for (int i = 0; i < meta->n_xattrs; i++) {
        const char *name = meta->xattr_names[i];
        /* file capabilities mean something in an image; where files are copied nobody can execute one that has them to any use */
        int wanted = (!strncmp(name, "user.", 5) && strncmp(name, "user.overlay.", 13)) ||
                     (!tree->live && !strcmp(name, "security.capability"));

        /* best effort: not every file system has them, and none has room without end */
        if (!wanted || fsetxattr(fd, name, meta->xattr_values[i], meta->xattr_sizes[i], 0) < 0)
            tree->xattrs_skipped++;
    }
}

/* The owner first: changing it clears the set-id bits and capabilities. */
static void finish_fd(struct au_tree *tree, int fd, const struct au_meta *meta)
{
    struct stat st = { 0 };
    /* a look costs a tenth of what a change does on an overlay */
    int known = tree->live && fstat(fd, &st) == 0, same_owner = known && st.st_uid == meta->uid && st.st_gid == meta->gid;

    if (!same_owner)
        give(tree, fd, "", meta);
    if (!(known && same_owner && (st.st_mode & 07777) == meta->mode) && fchmod(fd, meta->mode) < 0)
        au_fail_errno(errno, "setting the mode of '%s'", meta->shown);
    set_xattrs(tree, fd, meta);
}

static void remember_time(struct au_tree *tree, const char *clean, const struct au_meta *meta)
{
    size_t size = strlen(clean) + 1;

    if (tree->n_times == tree->room_times) {
        size_t room = tree->room_times ? tree->room_times * 2 : 1024;
        struct au_times *more = reallocarray(tree->times, room, sizeof *more);

        if (!more)
            au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
        tree->times = more;
        tree->room_times = room;
    }
    tree->times_bytes += size + sizeof *tree->times;
    if (tree->times_bytes > TIMES_BYTES_MAX)
        au_fail(SANDBOX_ELIMIT, 0, NULL, "the archive's folders have names of more than 256 MiB in all");
    tree->times[tree->n_times] = (struct au_times){ strdup(clean), meta->mtime };
    if (!tree->times[tree->n_times++].path)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
}

void au_tree_directory(struct au_tree *tree, const char *clean, const struct au_meta *meta)
{
    SB_CLOSE int fd = -1;
    const char *name;
    struct stat st;
    int dir;

    if (!clean[0] && tree->live && !tree->root_made)
        return; /* it was there before */
    if (!clean[0]) {
        finish_fd(tree, tree->root, meta);
        remember_time(tree, clean, meta);
        return;
    }
    dir = au_tree_parent(tree, clean, meta->shown, &name);
    if (mkdirat(dir, name, 0700) < 0) {
        if (errno != EEXIST)
            au_fail_errno(errno, "making the folder '%s'", meta->shown);
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            au_fail_errno(errno, "examining '%s'", meta->shown);
        if (tree->live && !S_ISDIR(st.st_mode))
            au_fail(S_ISLNK(st.st_mode) ? SANDBOX_EDAMAGED : SANDBOX_EEXISTS, EEXIST, "remove it first", "%s stands where the folder '%s' goes",
                    S_ISLNK(st.st_mode) ? "a symbolic link" : "something else", meta->shown);
        if (S_ISCHR(st.st_mode)) {
            replace_whiteout(tree, dir, name, 0700, meta->shown);
        } else if (!S_ISDIR(st.st_mode)) {
            if (unlinkat(dir, name, 0) < 0 || mkdirat(dir, name, 0700) < 0)
                au_fail_errno(errno, "replacing '%s'", meta->shown);
        }
    }
    fd = sb_open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        au_fail_errno(-fd, "opening the folder '%s'", meta->shown);
    finish_fd(tree, fd, meta);
    remember_time(tree, clean, meta);
}

int au_tree_file(struct au_tree *tree, const char *clean, const struct au_meta *meta)
{
    /* nobody else may look at it before its owner is right */
    mode_t mode = tree->live && meta->uid == 0 && meta->gid == 0 ? meta->mode & 0777 : 0600;
    const char *name;
    int dir = au_tree_parent(tree, clean, meta->shown, &name);
    int fd = sb_open_beneath(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);

    if (fd == -EEXIST) {
        clear(tree, dir, name, meta->shown);
        fd = sb_open_beneath(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    }
    if (fd < 0)
        au_fail_errno(-fd, "making the file '%s'", meta->shown);
    tree->file_end = 0;
    if (tree->live)
        au_tree_note_partial(dir, name);
    return fd;
}

static int is_zero(const char *data, size_t size)
{
    return data[0] == 0 && !memcmp(data, data + 1, size - 1);
}

static void write_run(struct au_tree *tree, int fd, const char *data, size_t size, int64_t offset, const struct au_meta *meta)
{
    tree->bytes += (int64_t)size;
    while (size) {
        ssize_t n = SB_RETRY(pwrite(fd, data, size, offset));

        if (n < 0)
            au_fail_errno(errno, "writing '%s'", meta->shown);
        data += n;
        offset += n;
        size -= (size_t)n;
    }
    tree->file_end = offset;
}

void au_tree_write(struct au_tree *tree, int fd, const void *data, size_t size, int64_t offset, const struct au_meta *meta)
{
    const char *p = data, *run = p, *end = p + size;
    int64_t run_offset = offset;

    while (p < end) {
        size_t block = (size_t)(BLOCK - offset % BLOCK);

        if (block > (size_t)(end - p))
            block = (size_t)(end - p);
        if (is_zero(p, block)) {
            if (p > run)
                write_run(tree, fd, run, (size_t)(p - run), run_offset, meta);
            run = p + block;
            run_offset = offset + (int64_t)block;
        }
        p += block;
        offset += (int64_t)block;
    }
    if (p > run)
        write_run(tree, fd, run, (size_t)(p - run), run_offset, meta);
}

void au_tree_file_finish(struct au_tree *tree, int fd, int64_t size, const struct au_meta *meta)
{
    const struct timespec times[2] = { meta->mtime, meta->mtime };

    if (tree->file_end != size && ftruncate(fd, size) < 0) /* zeros at its end were left out */
        au_fail_errno(errno, "setting the size of '%s'", meta->shown);
    finish_fd(tree, fd, meta);
    if (futimens(fd, times) < 0)
        au_fail_errno(errno, "setting the time of '%s'", meta->shown);
    au_tree_note_partial(-1, NULL);
    sb_close(fd);
}

static void finish_name(struct au_tree *tree, int dir, const char *name, mode_t type, const struct au_meta *meta)
{
    const struct timespec times[2] = { meta->mtime, meta->mtime };
    SB_CLOSE int fd = tree->live ? sb_open_beneath(dir, name, O_PATH | O_NOFOLLOW, 0) : -1;
    struct stat st;

    if (tree->live) {
        if (fd < 0 || fstat(fd, &st) < 0 || (st.st_mode & S_IFMT) != type || st.st_nlink != 1)
            au_fail(SANDBOX_EBUSY, 0, NULL, "something replaces '%s' while it is being made", meta->shown);
        give(tree, fd, "", meta);
    } else {
        give(tree, dir, name, meta);
    }
    /* a time alone may go to a name: who could have put something else there may set it, too */
    if (utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        au_fail_errno(errno, "setting the time of '%s'", meta->shown);
}

void au_tree_symlink(struct au_tree *tree, const char *clean, const char *target, const struct au_meta *meta)
{
    const char *name;
    int dir = au_tree_parent(tree, clean, meta->shown, &name);

    if (!target || !target[0] || strlen(target) >= AU_PATH_MAX)
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' is a symbolic link with no usable target", meta->shown);
    clear(tree, dir, name, meta->shown);
    if (symlinkat(target, dir, name) < 0)
        au_fail_errno(errno, "making the symbolic link '%s'", meta->shown);
    finish_name(tree, dir, name, S_IFLNK, meta);
}

void au_tree_hardlink(struct au_tree *tree, const char *clean, const char *target, const struct au_meta *meta)
{
    char parent[AU_PATH_MAX];
    const char *target_name = au_path_split(target, parent), *name;
    SB_CLOSE int from = -1;
    struct stat st;
    int dir;

    if (!strcmp(clean, target))
        return; /* a link to itself says nothing, and replacing it would lose the file */
    from = sb_open_beneath(tree->root, parent[0] ? parent : ".", O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    if (from < 0 || fstatat(from, target_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode) || S_ISCHR(st.st_mode))
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' is a hard link to '%s', which is not a file of this archive",
                meta->shown, target);
    dir = au_tree_parent(tree, clean, meta->shown, &name);
    clear(tree, dir, name, meta->shown);
    if (linkat(from, target_name, dir, name, 0) == 0)
        return;
    if (errno == ENOENT) /* it went with the folder that the link replaces */
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' takes the place of a folder that its target '%s' lies in", meta->shown, target);
    au_fail_errno(errno, "making the hard link '%s'", meta->shown);
}

void au_tree_fifo(struct au_tree *tree, const char *clean, const struct au_meta *meta)
{
    const char *name;
    int dir = au_tree_parent(tree, clean, meta->shown, &name);

    clear(tree, dir, name, meta->shown);
    /* by mode and umask 0: chmod by name could follow a link, and opening a fifo blocks */
    if (mknodat(dir, name, S_IFIFO | (meta->mode & 0777), 0) < 0)
        au_fail_errno(errno, "making the fifo '%s'", meta->shown);
    finish_name(tree, dir, name, S_IFIFO, meta);
}

void au_tree_whiteout(struct au_tree *tree, const char *clean, const char *shown)
{
    const char *name;
    int dir = au_tree_parent(tree, clean, shown, &name);
    struct stat st;

    if (!strcmp(name, ".wh..wh..opq")) {
        if (!tree->parent_path[0])
            tree->root_opaque = 1; /* overlayfs always merges its roots: the library leaves the layers below out */
        else
            set_opaque(tree, dir, ".", shown);
        return;
    }
    name += strlen(".wh.");
    if (!name[0] || !strcmp(name, ".") || !strcmp(name, ".."))
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' removes nothing that can be removed", shown);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        /* it removes what the layers below have, not what this layer brings */
        if (S_ISDIR(st.st_mode))
            set_opaque(tree, dir, name, shown);
        return;
    }
    if (errno != ENOENT)
        au_fail_errno(errno, "examining '%s'", shown);
    if (mknodat(dir, name, S_IFCHR, makedev(0, 0)) < 0)
        au_fail_errno(errno, "making the whiteout '%s'", shown);
}

void au_tree_finish(struct au_tree *tree)
{
    for (size_t i = 0; i < tree->n_times; i++) {
        const char *path = tree->times[i].path;
        const struct timespec times[2] = { tree->times[i].mtime, tree->times[i].mtime };
        SB_CLOSE int fd = sb_open_beneath(tree->root, path[0] ? path : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

        if (fd < 0 && (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP))
            continue; /* replaced by a later entry */
        if (fd < 0 || futimens(fd, times) < 0)
            au_fail_errno(fd < 0 ? -fd : errno, "setting the time of the folder '%s'", path);
    }
    if (!tree->live && syncfs(tree->root) < 0)
        au_fail_errno(errno, "writing the layer to disk");
}
