/* SPDX-License-Identifier: Apache-2.0
 * See fs.h. openat2 is called by number: older C libraries have no wrapper. */
#include "fs.h"

#include "util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_how(int dir, const char *path, int flags, mode_t mode, unsigned long resolve)
{
    struct open_how how = { .flags = (unsigned long)(flags | O_CLOEXEC), .resolve = resolve };
    long fd;

    if (flags & (O_CREAT | O_TMPFILE))
        how.mode = mode;
    for (int tries = 0; tries < 64; tries++) { /* EAGAIN: a rename raced with the look-up */
        fd = syscall(SYS_openat2, dir, path, &how, sizeof how);
        if (fd >= 0)
            return (int)fd;
        if (errno != EAGAIN && errno != EINTR)
            break;
    }
    return -errno;
}

int sb_open_beneath(int dir, const char *path, int flags, mode_t mode)
{
    return open_how(dir, path, flags, mode, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

int sb_open_in_root(int dir, const char *path, int flags, mode_t mode)
{
    return open_how(dir, path, flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

DIR *sb_read_folder(int folder)
{
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);

    if (!stream)
        sb_close(copy);
    return stream;
}

int sb_open_dir(int dir, const char *name, mode_t mode)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 || errno != ENOENT)
        return fd >= 0 ? fd : -errno;
    if (mkdirat(dir, name, mode) == 0) { /* whatever the umask is */
        if (fchmodat(dir, name, mode, 0) < 0)
            return -errno;
    } else if (errno != EEXIST) {
        return -errno;
    }
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

int sb_make_path(const char *path)
{
    SB_CLOSE int at = -1;
    SB_FREE char *copy = NULL;
    char *save = NULL, *part, *next;

    if (!sb_path_absolute_safe(path))
        return -EINVAL;
    copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    at = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return -errno;
    for (part = strtok_r(copy, "/", &save); part; part = next) {
        int fd;

        next = strtok_r(NULL, "/", &save);
        /* links among the parents are the machine's own affair (/var -> elsewhere); the folder itself must be one */
        fd = openat(at, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (next ? 0 : O_NOFOLLOW));
        if (fd < 0 && errno == ENOENT) {
            if (mkdirat(at, part, next ? 0755 : 0700) == 0) {
                if (fchmodat(at, part, next ? 0755 : 0700, 0) < 0)
                    return -errno;
            } else if (errno != EEXIST) {
                return -errno;
            }
            fd = openat(at, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        }
        if (fd < 0)
            return -errno;
        sb_close(at);
        at = fd;
    }
    return SB_TAKE_FD(at);
}

int sb_read_fd(int fd, size_t max, char **ret_text, size_t *ret_size)
{
    SB_FREE char *text = NULL;
    size_t have = 0, room = 0;

    for (;;) {
        ssize_t n;

        if (have + 1 >= room) {
            size_t want = room ? room * 2 : 4096;
            char *more = realloc(text, want);

            if (!more)
                return -ENOMEM;
            text = more;
            room = want;
        }
        n = SB_RETRY(read(fd, text + have, room - have - 1));
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        have += (size_t)n;
        if (have > max)
            return -EFBIG;
    }
    text[have] = 0;
    *ret_text = SB_TAKE_PTR(text);
    if (ret_size)
        *ret_size = have;
    return 0;
}

int sb_read_file(int dir, const char *name, size_t max, char **ret_text, size_t *ret_size)
{
    SB_CLOSE int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    return sb_read_fd(fd, max, ret_text, ret_size);
}

int sb_write_all(int fd, const void *data, size_t size)
{
    const char *p = data;

    while (size) {
        ssize_t n = SB_RETRY(write(fd, p, size));

        if (n < 0)
            return -errno;
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

int sb_write_file(int dir, const char *name, const void *data, size_t size, int durable)
{
    SB_CLOSE int fd = -1;
    char temporary[NAME_MAX + 1];
    int r;

    if (snprintf(temporary, sizeof temporary, ".%s.tmp", name) >= (int)sizeof temporary)
        return -ENAMETOOLONG;
    if (unlinkat(dir, temporary, 0) < 0 && errno != ENOENT)
        return -errno;
    fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    r = sb_write_all(fd, data, size);
    if (!r && durable && fsync(fd) < 0)
        r = -errno;
    if (!r && renameat(dir, temporary, dir, name) < 0)
        r = -errno;
    if (r) {
        unlinkat(dir, temporary, 0);
        return r;
    }
    if (durable && fsync(dir) < 0)
        return -errno;
    return 0;
}

/* Depth-first. A deep tree would run out of descriptors; so a folder below DEPTH levels that can't be removed because it is not
 * empty is moved up to the top level under a number and its turn comes later. (Moving every folder would do, but a rename costs
 * several times what a removal does.) */
enum { DEPTH = 12 };

struct removal {
    int top;          /* the folder that is being emptied; moved folders land here */
    char prefix[24];  /* of their names: random, so that the tree can't hold one by design */
    int first_error;
    unsigned long counter;
    unsigned long left; /* entries that may still be removed; 0: stop */
};

static void note(struct removal *rm, int error)
{
    if (!rm->first_error)
        rm->first_error = error;
}

/* Opens a folder to empty it; never one that something is mounted on. */
static int open_doomed(int dir, const char *name)
{
    const unsigned long resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
    int fd = open_how(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, resolve);
    struct stat st;

    if (fd == -EACCES && fchmodat(dir, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
        fd = open_how(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, resolve);
    if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
        fchmod(fd, 0700);
    return fd;
}

/* Renaming a folder rewrites its "..", which wants write permission on the folder itself. */
static int move_up(struct removal *rm, int dir, const char *name)
{
    char to[64];

    snprintf(to, sizeof to, "%s.%lu", rm->prefix, rm->counter++);
    if (renameat(dir, name, rm->top, to) < 0 && (fchmodat(dir, name, 0700, AT_SYMLINK_NOFOLLOW) < 0 || renameat(dir, name, rm->top, to) < 0))
        return -errno;
    return 0;
}

static int remove_children(struct removal *rm, int dir, int depth);

static int remove_entry(struct removal *rm, int dir, const char *name, int depth)
{
    int fd, r;

    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        return 0;
    if (depth >= DEPTH)
        return move_up(rm, dir, name);
    fd = open_doomed(dir, name);
    if (fd < 0)
        return fd;
    r = remove_children(rm, fd, depth + 1);
    if (!rm->left)
        return 0;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    return r ? r : -errno;
}

/* Takes the descriptor. */
static int remove_children(struct removal *rm, int dir, int depth)
{
    DIR *stream = fdopendir(dir);
    struct dirent *d;
    int failed = 0, r;

    if (!stream) {
        sb_close(dir);
        return -errno;
    }
    while (rm->left && (d = readdir(stream))) {
        if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
            continue;
        if (depth == 0 && !strncmp(d->d_name, rm->prefix, strlen(rm->prefix)))
            continue; /* moved here by this very pass */
        rm->left--;
        r = remove_entry(rm, dir, d->d_name, depth);
        if (r && !failed)
            failed = r;
    }
    closedir(stream);
    return failed;
}

/* Empties rm->top of the folders that remove_children moved there, until none is left. */
static void drain_moved(struct removal *rm)
{
    unsigned long next = 0;

    while (rm->left && next < rm->counter) {
        char name[64];
        int dir, r;

        snprintf(name, sizeof name, "%s.%lu", rm->prefix, next++);
        if (unlinkat(rm->top, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            continue;
        dir = open_doomed(rm->top, name);
        if (dir < 0) {
            note(rm, dir);
            continue;
        }
        r = remove_children(rm, dir, 1);
        if (r)
            note(rm, r);
        if (rm->left && unlinkat(rm->top, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
            note(rm, r ? r : -errno);
    }
}

int sb_remove_tree(int dir, const char *name)
{
    return sb_remove_some(dir, name, ~0ul);
}

int sb_remove_some(int dir, const char *name, unsigned long most)
{
    struct removal rm = { .top = -1, .left = most };
    SB_CLOSE int top = -1;
    char random[SB_ID_SIZE];
    int r, copy;

    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        return 0;
    top = open_doomed(dir, name);
    if (top < 0)
        return top == -ENOENT ? 0 : top;
    rm.top = top;
    r = sb_id_new(random);
    if (r)
        return r;
    snprintf(rm.prefix, sizeof rm.prefix, ".rm-%.16s", random);
    copy = fcntl(top, F_DUPFD_CLOEXEC, 0);
    r = copy < 0 ? -errno : remove_children(&rm, copy, 0);
    if (r)
        note(&rm, r);
    drain_moved(&rm);
    if (!rm.left)
        return rm.first_error ? rm.first_error : -EAGAIN;
    if (unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        note(&rm, -errno);
    return rm.first_error;
}
