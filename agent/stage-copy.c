/* SPDX-License-Identifier: Apache-2.0
 * A copy of a folder of the machine for a sandbox, where the kernel makes no overlay over it. Blocks are shared where the file system
 * can. Nothing is executed, no link is followed, and what can't go inside (device nodes) is left out. */
#include "stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

enum { DEEPEST = 400, LINKS = 4096 };

/* Files with several names, so that they stay one: those beyond the table are copied as files of their own. */
struct link {
    dev_t dev;
    ino_t ino;
    char *path; /* below the copy */
};

struct copy {
    const struct ag_stage *s;
    const struct sb_plan_mount *mount;
    const char *where;
    int top;
    struct link links[LINKS];
    size_t n_links;
    char path[PATH_MAX]; /* of what is being copied, below the folder */
};

ssize_t ag_getdents(int fd, void *buffer, size_t size)
{
    return syscall(SYS_getdents64, fd, buffer, size);
}

static AG_NORETURN void fail(const struct copy *c, int sys_errno, const char *what)
{
    ag_die("overlay", sys_errno, "copying for %s: %s: %.120s", c->where, what, c->path);
}

/* The id on disk that stands for one of the machine's ids inside. */
static uint32_t translate(const struct copy *c, uint32_t id, uint32_t owner, uint32_t start)
{
    const struct sb_idmap *map = &c->s->plan->map;

    if (map->privilege != SB_PRIVILEGE_ROOT)
        return id; /* as it is seen in the user's own namespace */
    if (id == owner)
        return start;
    if (id == 0 || id >= map->count)
        return start + (map->count > 65534 ? 65534 : 0);
    return start + id;
}

static void own(const struct copy *c, int dir, const char *name, const struct stat *st)
{
    const struct sb_idmap *map = &c->s->plan->map;
    uint32_t uid = translate(c, st->st_uid, c->mount->owner_uid, map->uid_start);
    uint32_t gid = translate(c, st->st_gid, c->mount->owner_gid, map->gid_start);

    /* a user's own namespace may have no number for an owner: then the file is the user's */
    if (fchownat(dir, name, uid, gid, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0 && map->privilege == SB_PRIVILEGE_ROOT)
        fail(c, errno, "the owner can't be set");
}

static void copy_attributes(int from, int to)
{
    char names[65536], value[65536];
    ssize_t size = flistxattr(from, names, sizeof names), n;

    for (char *name = names; size > 0 && name < names + size; name += strlen(name) + 1) {
        if (strncmp(name, "user.", 5) || !strncmp(name, "user.overlay.", 13))
            continue;
        n = fgetxattr(from, name, value, sizeof value);
        if (n >= 0)
            (void)fsetxattr(to, name, value, (size_t)n, 0); /* a copy without it is better than none */
    }
}

static void copy_range(const struct copy *c, int from, int to, off_t at, off_t end)
{
    static char buffer[1 << 18];

    while (at < end) {
        ssize_t n = SB_RETRY(pread(from, buffer, sizeof buffer, at));

        if (n < 0)
            fail(c, errno, "it can't be read");
        if (n == 0)
            return; /* it became shorter meanwhile */
        if (n > end - at)
            n = end - at;
        for (ssize_t done = 0; done < n;) {
            ssize_t m = SB_RETRY(pwrite(to, buffer + done, (size_t)(n - done), at + done));

            if (m < 0)
                fail(c, errno, "it can't be written");
            done += m;
        }
        at += n;
    }
}

static void copy_data(const struct copy *c, int from, int to, off_t size)
{
    off_t at = 0;

    if (ioctl(to, FICLONE, from) == 0)
        return;
    if (ftruncate(to, size) < 0)
        fail(c, errno, "it can't be written");
    while (at < size) {
        off_t data = lseek(from, at, SEEK_DATA), hole;

        if (data < 0 && errno == ENXIO)
            return; /* the rest is a hole */
        if (data < 0)
            data = at;
        hole = lseek(from, data, SEEK_HOLE);
        if (hole < 0 || hole > size)
            hole = size;
        copy_range(c, from, to, data, hole);
        at = hole;
    }
}

static void finish(const struct copy *c, int from, int to, const struct stat *st)
{
    const struct timespec times[2] = { st->st_atim, st->st_mtim };

    copy_attributes(from, to);
    own(c, to, "", st);
    if (fchmod(to, st->st_mode & 07777) < 0 || futimens(to, times) < 0)
        fail(c, errno, "its mode and times can't be set");
}

/* 1: it has a name in the copy already, and got this one, too. */
static int link_again(struct copy *c, int to, const char *name, const struct stat *st)
{
    for (size_t i = 0; i < c->n_links; i++)
        if (c->links[i].ino == st->st_ino && c->links[i].dev == st->st_dev)
            return linkat(c->top, c->links[i].path, to, name, 0) == 0;
    if (c->n_links < LINKS && (c->links[c->n_links].path = strdup(c->path))) {
        c->links[c->n_links].dev = st->st_dev;
        c->links[c->n_links].ino = st->st_ino;
        c->n_links++;
    }
    return 0;
}

static void copy_file(struct copy *c, int from, int to, const char *name, const struct stat *st)
{
    SB_CLOSE int in = -1, out = -1;
    struct stat now;

    if (st->st_nlink > 1 && link_again(c, to, name, st))
        return;
    in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (in < 0 && errno == ENOENT)
        return;
    if (in < 0 || fstat(in, &now) < 0 || !S_ISREG(now.st_mode))
        fail(c, in < 0 ? errno : ESTALE, "it can't be opened");
    out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        fail(c, errno, "it can't be made");
    copy_data(c, in, out, now.st_size);
    finish(c, in, out, &now);
}

static void copy_link(struct copy *c, int from, int to, const char *name, const struct stat *st)
{
    const struct timespec times[2] = { st->st_atim, st->st_mtim };
    char text[PATH_MAX];
    ssize_t n = readlinkat(from, name, text, sizeof text - 1);

    if (n < 0 && errno == ENOENT)
        return;
    if (n < 0)
        fail(c, errno, "the link can't be read");
    text[n] = 0;
    if (symlinkat(text, to, name) < 0)
        fail(c, errno, "the link can't be made");
    own(c, to, name, st);
    utimensat(to, name, times, AT_SYMLINK_NOFOLLOW);
}

static void copy_folder(struct copy *c, int from, int to, int depth);

static void copy_entry(struct copy *c, int from, int to, const char *name, int depth)
{
    SB_CLOSE int in = -1, out = -1;
    struct stat st;

    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno == ENOENT)
            return;
        fail(c, errno, "it can't be read");
    }
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        copy_file(c, from, to, name, &st);
        return;
    case S_IFLNK:
        copy_link(c, from, to, name, &st);
        return;
    case S_IFIFO:
    case S_IFSOCK:
        if (mknodat(to, name, st.st_mode, 0) < 0)
            fail(c, errno, "it can't be made");
        own(c, to, name, &st);
        return;
    case S_IFDIR:
        in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (in < 0 && errno == ENOENT)
            return;
        if (in < 0 || mkdirat(to, name, 0700) < 0 || (out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
            fail(c, errno, "the folder can't be copied");
        copy_folder(c, in, out, depth + 1);
        return;
    default: /* a device: nothing of that kind works inside */
        return;
    }
}

static void copy_folder(struct copy *c, int from, int to, int depth)
{
    size_t length = strlen(c->path);
    struct stat st;
    struct dirent *d;
    DIR *stream;

    if (depth > DEEPEST)
        fail(c, ENAMETOOLONG, "too many folders in one another");
    stream = fdopendir(fcntl(from, F_DUPFD_CLOEXEC, 0));
    if (!stream || fstat(from, &st) < 0)
        fail(c, errno, "the folder can't be read");
    while ((d = readdir(stream))) {
        if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
            continue;
        if (length + strlen(d->d_name) + 2 > sizeof c->path)
            fail(c, ENAMETOOLONG, "its names are too long together");
        snprintf(c->path + length, sizeof c->path - length, "%s%s", length ? "/" : "", d->d_name);
        copy_entry(c, from, to, d->d_name, depth);
        c->path[length] = 0;
    }
    closedir(stream);
    finish(c, from, to, &st);
}

void ag_copy_tree(const struct ag_stage *s, uint32_t mount, int from, int to, const char *where)
{
    struct copy *c = calloc(1, sizeof *c);

    if (!c)
        ag_die("overlay", ENOMEM, "copying for %s", where);
    c->s = s;
    c->mount = &s->plan->mounts[mount];
    c->where = where;
    c->top = to;
    copy_folder(c, from, to, 0);
    for (size_t i = 0; i < c->n_links; i++)
        free(c->links[i].path);
    free(c);
}
