/* SPDX-License-Identifier: Apache-2.0
 * The file server of a sandbox: a child of init that does one request and ends (init-files.c starts it, confined; it executes nothing).
 *
 * Theory of operation. It is inside: what a path means is what it means to the sandbox, and no name leads out of it. Still it has rights
 * that those who prepare its files may not have, and what it reads goes to the machine; so
 *  - paths are looked up by openat2(RESOLVE_IN_ROOT, no magic links), and of what is changed only the last part's folder: the change acts on
 *    the name (unlinkat, renameat2, O_EXCL), so that a link that stands there is replaced or removed and never followed;
 *  - files are opened without blocking and must be regular; what the kernel shows of itself (/proc, with this process's own memory in it)
 *    is neither read nor written;
 *  - a new content is written beside the old one and takes its place when it is whole. Who fails, is told to end or loses the library
 *    removes what is half done.
 * A path may lie in a file system that hangs: then only this process does, and init kills it when the library stops waiting. */
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

#define READ_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY)

void ag_files_stat_of(const struct stat *st, struct sb_files_stat *ret)
{
    static const uint32_t types[16] = {
        [S_IFREG >> 12] = SANDBOX_FILE_REGULAR, [S_IFDIR >> 12] = SANDBOX_FILE_FOLDER, [S_IFLNK >> 12] = SANDBOX_FILE_LINK,
        [S_IFIFO >> 12] = SANDBOX_FILE_FIFO,    [S_IFSOCK >> 12] = SANDBOX_FILE_SOCKET, [S_IFCHR >> 12] = SANDBOX_FILE_DEVICE,
        [S_IFBLK >> 12] = SANDBOX_FILE_DEVICE,
    };
    int64_t seconds = st->st_mtim.tv_sec, most = INT64_MAX / 1000000000 - 1;

    seconds = seconds > most ? most : seconds < -most ? -most : seconds;
    *ret = (struct sb_files_stat){
        .type = types[st->st_mode >> 12 & 15], .mode = st->st_mode & 07777, .uid = st->st_uid, .gid = st->st_gid, .bytes = st->st_size,
        .mtime_ns = seconds * 1000000000 + st->st_mtim.tv_nsec,
    };
}

uid_t ag_files_owner(const struct ag_files *f, int64_t id, uid_t otherwise)
{
    if (id < 0)
        return otherwise;
    if (id >= f->map->count)
        au_fail(SANDBOX_EUNSUPPORTED, 0, "run as root, or give this user ranges in /etc/subuid and /etc/subgid",
                "the id %lld can't be mapped here: a sandbox has %u", (long long)id, f->map->count);
    return (uid_t)id;
}

/* The folder `path`, with missing ones made. */
static int make_folders(const struct ag_files *f, const char *path)
{
    char so_far[SB_FILES_PATH_MAX] = "/";
    size_t length = 0;
    int at = sb_open_in_root(f->root, "/", O_PATH | O_DIRECTORY, 0);

    while (at >= 0) {
        const char *name = so_far + length + 1;
        size_t part;
        int next;

        path += strspn(path, "/");
        part = strcspn(path, "/");
        if (!part)
            return at;
        if (length + part + 2 > sizeof so_far)
            ag_files_fail("making", f->path, ENAMETOOLONG);
        so_far[length] = '/';
        memcpy(so_far + length + 1, path, part);
        length += part + 1;
        so_far[length] = 0;
        path += part;
        next = sb_open_in_root(f->root, so_far, O_PATH | O_DIRECTORY, 0);
        if (next == -ENOENT) {
            if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
                ag_files_fail("making", so_far, errno);
            next = sb_open_in_root(f->root, so_far, O_PATH | O_DIRECTORY, 0);
        }
        sb_close(at);
        at = next;
        if (at < 0)
            ag_files_fail("opening", so_far, -at);
    }
    ag_files_fail("opening", "/", -at);
}

int ag_files_parent(const struct ag_files *f, const char *path, const char **ret_name)
{
    char parent[SB_FILES_PATH_MAX];
    size_t end = strlen(path);
    const char *name;
    int fd;

    while (end && path[end - 1] == '/')
        end--;
    for (name = path + end; name > path && name[-1] != '/'; name--)
        continue;
    if (name == path + end || !strcmp(name, ".") || !strcmp(name, ".."))
        ag_files_fail("changing", path, EINVAL);
    *ret_name = strndup(name, (size_t)(path + end - name)); /* lives as long as the process */
    if (!*ret_name)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    snprintf(parent, sizeof parent, "/%.*s", (int)(name - path), path);
    if (f->q.flags & SB_FILES_PARENTS)
        return make_folders(f, parent);
    fd = sb_open_in_root(f->root, parent, O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        ag_files_fail("opening", parent, -fd);
    return fd;
}

static void refuse_kernels(const struct ag_files *f, int fd)
{
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        ag_files_fail("opening", f->path, errno);
    if (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC)
        au_fail(SANDBOX_EDENIED, 0, "run a command for it", "'%.512s' is the kernel's own and is not copied", f->path);
}

int ag_files_open(const struct ag_files *f, int flags, struct stat *ret_st)
{
    int fd = sb_open_in_root(f->root, f->path, READ_FLAGS | flags, 0);

    if (fd < 0)
        ag_files_fail("opening", f->path, -fd);
    if (fstat(fd, ret_st) < 0)
        ag_files_fail("examining", f->path, errno);
    refuse_kernels(f, fd);
    return fd;
}

static void do_stat(struct ag_files *f)
{
    struct {
        struct sb_files_info info;
        char target[SB_FILES_PATH_MAX];
    } record = { .info.head = { SB_FILES_INFO, sizeof record.info } };
    int fd = sb_open_in_root(f->root, f->path, O_PATH | (f->q.flags & SB_FILES_FOLLOW ? 0 : O_NOFOLLOW), 0);
    struct stat st;

    if (fd < 0)
        ag_files_fail("examining", f->path, -fd);
    if (fstat(fd, &st) < 0)
        ag_files_fail("examining", f->path, errno);
    ag_files_stat_of(&st, &record.info.stat);
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(fd, "", record.target, sizeof record.target - 1);

        if (n < 0)
            ag_files_fail("reading", f->path, errno);
        record.info.head.size += (uint32_t)n;
    }
    ag_files_send(&record, record.info.head.size);
    ag_files_done(0, 1);
}

static void do_remove(struct ag_files *f)
{
    const char *name;
    int dir, r = 0;
    struct stat st;

    f->q.flags &= ~(uint32_t)SB_FILES_PARENTS;
    dir = ag_files_parent(f, f->path, &name);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        ag_files_fail("removing", f->path, errno);
    if (f->q.flags & SB_FILES_RECURSIVE)
        r = -sb_remove_tree(dir, name);
    else if (unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
        r = errno;
    if (r == ENOTEMPTY && !(f->q.flags & SB_FILES_RECURSIVE))
        au_fail(SANDBOX_EEXISTS, r, "say that all in it is to be removed, too", "removing '%.512s'", f->path);
    if (r)
        ag_files_fail("removing", f->path, r);
    ag_files_done(0, 1);
}

static void do_make_folder(struct ag_files *f)
{
    const char *name;
    int dir = ag_files_parent(f, f->path, &name), fd;
    uid_t uid = ag_files_owner(f, f->q.uid, 0);
    gid_t gid = ag_files_owner(f, f->q.gid, 0);
    struct stat st;

    if (mkdirat(dir, name, 0700) < 0) {
        if (errno != EEXIST || (f->q.flags & SB_FILES_EXCLUSIVE) || fstatat(dir, name, &st, 0) < 0 || !S_ISDIR(st.st_mode))
            ag_files_fail("making", f->path, errno == ENOENT ? EEXIST : errno);
        ag_files_done(0, 0);
    }
    fd = sb_open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0 || fchown(fd, uid, gid) < 0 || fchmod(fd, f->q.mode < 0 ? 0755 : (mode_t)f->q.mode & 07777) < 0)
        ag_files_fail("making", f->path, fd < 0 ? -fd : errno);
    ag_files_done(0, 1);
}

static void do_rename(struct ag_files *f)
{
    uint32_t flags = f->q.flags;
    const char *from_name, *to_name;
    int from, to;

    f->q.flags &= ~(uint32_t)SB_FILES_PARENTS;
    from = ag_files_parent(f, f->path, &from_name);
    f->q.flags = flags;
    to = ag_files_parent(f, f->other, &to_name);
    if (renameat2(from, from_name, to, to_name, flags & SB_FILES_EXCLUSIVE ? RENAME_NOREPLACE : 0) < 0) {
        if (errno == EXDEV)
            au_fail(SANDBOX_EUNSUPPORTED, errno, "copy it and remove the old one",
                    "renaming '%.300s' to '%.300s': they are on different file systems, or it is a folder of the image", f->path, f->other);
        au_fail_errno(errno, "renaming '%.300s' to '%.300s'", f->path, f->other);
    }
    ag_files_done(0, 1);
}

struct listing {
    struct sb_files_entries head;
    char bytes[SB_FILES_CHUNK];
};

static void send_entries(struct listing *l, size_t *used)
{
    if (!l->head.n)
        return;
    l->head.head = (struct sb_files_head){ SB_FILES_ENTRIES, (uint32_t)(sizeof l->head + *used) };
    ag_files_send(l, l->head.head.size);
    l->head.n = 0;
    *used = 0;
}

/* In the folder's own order, as it is read: nothing is kept. */
static void do_list(struct ag_files *f)
{
    static struct listing l;
    struct stat st;
    int fd = ag_files_open(f, O_DIRECTORY, &st);
    DIR *stream = fdopendir(fd);
    struct dirent *d;
    size_t used = 0;
    int64_t n = 0;

    if (!stream)
        ag_files_fail("listing", f->path, errno);
    while ((errno = 0, d = readdir(stream))) {
        size_t length = strlen(d->d_name), room = sizeof(struct sb_files_entry) + ((length + 7) & ~(size_t)7);
        struct sb_files_entry entry = { .name_size = (uint32_t)length };

        if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
            continue;
        if (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno == ENOENT)
                continue;
            ag_files_fail("examining", d->d_name, errno);
        }
        if (used + room > sizeof l.bytes)
            send_entries(&l, &used);
        ag_files_stat_of(&st, &entry.stat);
        memset(l.bytes + used, 0, room);
        memcpy(l.bytes + used, &entry, sizeof entry);
        memcpy(l.bytes + used + sizeof entry, d->d_name, length);
        used += room;
        l.head.n++;
        n++;
    }
    if (errno)
        ag_files_fail("listing", f->path, errno);
    send_entries(&l, &used);
    ag_files_done(0, n);
}

/* The blob: a head and two strings that end where it says. */
static void parse(struct ag_files *f, const char *blob, size_t size)
{
    if (size < sizeof f->q)
        au_fail(SANDBOX_EPROTOCOL, 0, NULL, "the request makes no sense");
    memcpy(&f->q, blob, sizeof f->q);
    f->path = blob + sizeof f->q;
    f->other = f->path + f->q.path_size;
    if (f->q.magic != SB_FILES_MAGIC || !f->q.path_size || !f->q.other_size || f->q.path_size > SB_FILES_PATH_MAX ||
        f->q.other_size > SB_FILES_PATH_MAX || size != sizeof f->q + f->q.path_size + f->q.other_size ||
        strnlen(f->path, f->q.path_size) != f->q.path_size - 1 || strnlen(f->other, f->q.other_size) != f->q.other_size - 1)
        au_fail(SANDBOX_EPROTOCOL, 0, NULL, "the request makes no sense");
    if (!*f->path)
        ag_files_fail("opening", f->path, EINVAL);
}

void ag_files_serve(struct ag_files *f, const void *request, size_t size)
{
    static void (*const operations[])(struct ag_files *) = {
        [SB_FILES_STAT] = do_stat,           [SB_FILES_READ] = ag_files_read,     [SB_FILES_WRITE] = ag_files_write,
        [SB_FILES_REMOVE] = do_remove,       [SB_FILES_MAKE_FOLDER] = do_make_folder, [SB_FILES_RENAME] = do_rename,
        [SB_FILES_LIST] = do_list,           [SB_FILES_PUT_TAR] = ag_files_put_tar, [SB_FILES_GET_TAR] = ag_files_get_tar,
        [SB_FILES_GET_FILE] = ag_files_get_file,
    };

    ag_files_report_on(f->channel);
    parse(f, request, size);
    if (f->q.op >= SB_ELEMENTS(operations) || !operations[f->q.op])
        au_fail(SANDBOX_EPROTOCOL, 0, NULL, "the file server knows no operation %u", f->q.op);
    if (f->data < 0 && (f->q.op == SB_FILES_WRITE || f->q.op >= SB_FILES_PUT_TAR))
        au_fail(SANDBOX_EPROTOCOL, 0, NULL, "a descriptor for the data is missing");
    operations[f->q.op](f);
    _exit(2); /* each ends by itself */
}
