/* SPDX-License-Identifier: Apache-2.0
 * A folder as a tar, always the same for the same content: sorted by bytes, ustar with pax records where ustar is too small
 * for a value. The tar's digest is the image's identity, so its form is written here and not left to a library's version.
 *
 * A live folder changes while it is read. What vanishes is left out, what grows is cut, and what shrinks is an error: a file that is
 * half old and half zeros would be taken for the file. Its holes are told in GNU's form 1.0, which every tar reads. */
#include "pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

enum { ATTRIBUTES_MAX = 65536, NAMES_BYTES_MAX = 512 << 20 };

static void flush(struct au_packing *pack)
{
    size_t done = 0;
    int r = 0;

    while (done < pack->used && !r) {
        ssize_t n = SB_RETRY(write(pack->how->out, pack->buffer + done, pack->used - done));

        if (n >= 0)
            done += (size_t)n;
        else
            r = errno == EAGAIN ? au_wait(pack->how->out, POLLOUT) : -errno;
    }
    pack->used = 0;
    if (r == -EPIPE && !pack->how->live)
        _exit(1); /* the unpacking side has failed and said why */
    if (r == -EPIPE)
        au_fail(SANDBOX_EIO, EPIPE, NULL, "who reads the archive has closed it");
    if (r)
        au_fail(SANDBOX_EIO, -r, NULL, "packing the folder");
}

void au_pack_put(struct au_packing *pack, const void *data, size_t size)
{
    while (size) {
        size_t part = sizeof pack->buffer - pack->used;

        if (part > size)
            part = size;
        memcpy(pack->buffer + pack->used, data, part);
        pack->used += part;
        data = (const char *)data + part;
        size -= part;
        if (pack->used == sizeof pack->buffer)
            flush(pack);
    }
}

void au_pack_pad(struct au_packing *pack, int64_t size)
{
    static const char zeros[TAR_BLOCK];

    if (size % TAR_BLOCK)
        au_pack_put(pack, zeros, (size_t)(TAR_BLOCK - size % TAR_BLOCK));
}

/* "LENGTH KEY=VALUE\n", where LENGTH counts itself. */
void au_pax_add(struct au_packing *pack, const char *key, const void *value, size_t size)
{
    size_t body = strlen(key) + size + 3, length = body, digits;
    char *p = pack->pax + pack->pax_used;

    do {
        size_t n = length;

        for (digits = 0; n; n /= 10)
            digits++;
    } while (length != body + digits && (length = body + digits, 1));
    if (length + 1 > sizeof pack->pax - pack->pax_used)
        au_fail(SANDBOX_ELIMIT, 0, NULL, "'%s' has too many extended attributes", pack->path);
    p += snprintf(p, length, "%zu %s=", length, key);
    memcpy(p, value, size);
    p[size] = '\n';
    pack->pax_used += length;
}

static void octal(char *field, size_t size, int64_t value)
{
    snprintf(field, size, "%0*llo", (int)size - 1, (long long)value);
}

static void put_header(struct au_packing *pack, struct ustar *header)
{
    unsigned int sum = 0;

    memcpy(header->magic, "ustar", 6);
    memcpy(header->version, "00", 2);
    memset(header->checksum, ' ', 8);
    for (size_t i = 0; i < sizeof *header; i++)
        sum += ((unsigned char *)header)[i];
    snprintf(header->checksum, 7, "%06o", sum);
    au_pack_put(pack, header, sizeof *header);
}

static void number(struct au_packing *pack, char *field, size_t size, const char *key, int64_t value)
{
    char text[24];

    if (value >= 0 && value < (int64_t)1 << (3 * (size - 1))) {
        octal(field, size, value);
        return;
    }
    octal(field, size, 0);
    au_pax_add(pack, key, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)value));
}

static void text(struct au_packing *pack, char field[100], const char *key, const char *value)
{
    size_t length = strlen(value);

    memcpy(field, value, length < 100 ? length : 100);
    if (length > 100)
        au_pax_add(pack, key, value, length);
}

static int is_wanted_xattr(const struct au_packing *pack, const char *name)
{
    return !strchr(name, '=') && ((!strncmp(name, "user.", 5) && strncmp(name, "user.overlay.", 13)) ||
                                  (!pack->how->live && !strcmp(name, "security.capability")));
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_xattrs(struct au_packing *pack, int fd)
{
    static char list[ATTRIBUTES_MAX], value[ATTRIBUTES_MAX];
    static char *names[1024];
    ssize_t size = flistxattr(fd, list, sizeof list);
    size_t n = 0;

    for (char *p = list; size > 0 && p < list + size && n < SB_ELEMENTS(names); p += strlen(p) + 1)
        if (is_wanted_xattr(pack, p))
            names[n++] = p;
    qsort(names, n, sizeof *names, by_bytes);
    for (size_t i = 0; i < n; i++) {
        ssize_t length = fgetxattr(fd, names[i], value, sizeof value);
        char key[300];

        if (length < 0)
            continue;
        snprintf(key, sizeof key, "SCHILY.xattr.%s", names[i]);
        au_pax_add(pack, key, value, (size_t)length);
    }
}

static int64_t id(const struct au_packing *pack, uint32_t seen, int64_t own, uint32_t start)
{
    if (pack->how->range)
        return seen - start < pack->how->range->count ? seen - start : 65534;
    return pack->how->one_owner || seen == own ? 0 : (int64_t)seen;
}

/* A fraction counts away from zero: half a second before the beginning is -0.5. */
static size_t time_text(const struct timespec *t, char *text, size_t size)
{
    if (t->tv_sec >= 0 || !t->tv_nsec)
        return (size_t)snprintf(text, size, "%lld.%09ld", (long long)t->tv_sec, t->tv_nsec);
    return (size_t)snprintf(text, size, "-%lld.%09ld", -((long long)t->tv_sec + 1), 1000000000 - t->tv_nsec);
}

/* Says that names are bytes, which GNU tar complains about: in a live folder only where one is no UTF-8. */
static int is_binary(const struct au_packing *pack, const char *link)
{
    return !pack->how->live || !sb_utf8_valid(pack->path, strlen(pack->path)) || (link && !sb_utf8_valid(link, strlen(link)));
}

static void count_entry(struct au_packing *pack, int64_t size)
{
    const struct au_pack *how = pack->how;

    pack->entries++;
    if (how->max_entries >= 0 && pack->entries > how->max_entries)
        au_fail(SANDBOX_ELIMIT, 0, "raise max_entries", "the folder has more than %lld entries", (long long)how->max_entries);
    if (how->max_bytes >= 0 && size > how->max_bytes - pack->bytes)
        au_fail(SANDBOX_ELIMIT, 0, "raise max_bytes", "the folder's files are larger than %lld bytes ('%s' alone has %lld)",
                (long long)how->max_bytes, pack->path, (long long)size);
    pack->bytes += size;
    au_note(pack->bytes, pack->entries);
}

/* The header of an entry. `map_size`: as a file with holes it has so many bytes of map and data. */
void au_pack_entry(struct au_packing *pack, const struct stat *st, char type, const char *link, int fd, int64_t map_size)
{
    const struct sb_idmap *range = pack->how->range;
    struct ustar header = { .type = type }, extended = { .type = 'x', .name = "PaxHeader" };
    int64_t size = map_size >= 0 ? map_size : type == '0' ? st->st_size : 0;
    char time[48];

    count_entry(pack, type == '0' ? st->st_size : 0);
    pack->pax_used = 0;
    if (map_size >= 0) {
        au_pax_add(pack, "GNU.sparse.major", "1", 1);
        au_pax_add(pack, "GNU.sparse.minor", "0", 1);
        au_pax_add(pack, "GNU.sparse.name", pack->path, strlen(pack->path));
        au_pax_add(pack, "GNU.sparse.realsize", time, (size_t)snprintf(time, sizeof time, "%lld", (long long)st->st_size));
    }
    if ((strlen(pack->path) > 100 || map_size >= 0 || (link && strlen(link) > 100)) && is_binary(pack, link))
        au_pax_add(pack, "hdrcharset", "BINARY", 6);
    if (map_size >= 0)
        memcpy(header.name, "GNUSparseFile.0/file", 20); /* what a reader shows that doesn't know holes */
    else
        text(pack, header.name, "path", pack->path);
    if (link)
        text(pack, header.link, "linkpath", link);
    octal(header.mode, sizeof header.mode, st->st_mode & 07777);
    number(pack, header.uid, sizeof header.uid, "uid", id(pack, st->st_uid, pack->how->own_uid, range ? range->uid_start : 0));
    number(pack, header.gid, sizeof header.gid, "gid", id(pack, st->st_gid, pack->how->own_gid, range ? range->gid_start : 0));
    number(pack, header.size, sizeof header.size, "size", size);
    octal(header.mtime, sizeof header.mtime, st->st_mtim.tv_sec < 0 ? 0 : st->st_mtim.tv_sec & 077777777777);
    if (st->st_mtim.tv_nsec || st->st_mtim.tv_sec < 0 || st->st_mtim.tv_sec > 077777777777)
        au_pax_add(pack, "mtime", time, time_text(&st->st_mtim, time, sizeof time));
    octal(header.major, sizeof header.major, type == '3' || type == '4' ? major(st->st_rdev) & 07777777 : 0);
    octal(header.minor, sizeof header.minor, type == '3' || type == '4' ? minor(st->st_rdev) & 07777777 : 0);
    if (fd >= 0)
        add_xattrs(pack, fd);
    if (pack->pax_used) {
        octal(extended.mode, sizeof extended.mode, 0);
        octal(extended.uid, sizeof extended.uid, 0);
        octal(extended.gid, sizeof extended.gid, 0);
        octal(extended.mtime, sizeof extended.mtime, 0);
        octal(extended.size, sizeof extended.size, (int64_t)pack->pax_used);
        put_header(pack, &extended);
        au_pack_put(pack, pack->pax, pack->pax_used);
        au_pack_pad(pack, (int64_t)pack->pax_used);
    }
    put_header(pack, &header);
}

static void grow_inodes(struct au_packing *pack)
{
    size_t room = pack->room_inodes ? pack->room_inodes * 2 : 1024;
    struct inode *old = pack->inodes, *more = calloc(room, sizeof *more);

    if (!more)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    for (size_t i = 0; i < pack->room_inodes; i++) {
        size_t at = old[i].ino & (room - 1);

        if (!old[i].path)
            continue;
        while (more[at].path)
            at = (at + 1) & (room - 1);
        more[at] = old[i];
    }
    free(old);
    pack->inodes = more;
    pack->room_inodes = room;
}

/* Nothing was packed under its name. Its place stays taken, so that what lies behind it is found. */
static void forget_name(struct au_packing *pack, const struct stat *st)
{
    if (st->st_nlink < 2)
        return;
    for (size_t at = st->st_ino & (pack->room_inodes - 1); pack->inodes[at].path; at = (at + 1) & (pack->room_inodes - 1))
        if (pack->inodes[at].ino == st->st_ino && pack->inodes[at].dev == st->st_dev)
            pack->inodes[at].ino = pack->inodes[at].dev = 0;
}

static size_t names_bytes; /* of names held at one time, all levels, and of those kept for files with several */

static size_t cost_of(const char *name)
{
    return strlen(name) + sizeof(char *);
}

/* The name under which this file was packed before, or NULL having kept this one. */
static const char *earlier_name(struct au_packing *pack, const struct stat *st)
{
    size_t at;

    if (st->st_nlink < 2)
        return NULL;
    if (pack->n_inodes * 2 >= pack->room_inodes)
        grow_inodes(pack);
    for (at = st->st_ino & (pack->room_inodes - 1); pack->inodes[at].path; at = (at + 1) & (pack->room_inodes - 1))
        if (pack->inodes[at].ino == st->st_ino && pack->inodes[at].dev == st->st_dev)
            return pack->inodes[at].path;
    names_bytes += cost_of(pack->path);
    if (names_bytes > NAMES_BYTES_MAX)
        au_fail(SANDBOX_ELIMIT, 0, NULL, "the folder has too many files with several names: '%s' is one too many", pack->path);
    pack->inodes[at] = (struct inode){ st->st_dev, st->st_ino, strdup(pack->path) };
    if (!pack->inodes[at].path)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    pack->n_inodes++;
    return NULL;
}

static void __attribute__((noreturn)) fail_changed(const struct au_packing *pack)
{
    au_fail(pack->how->live ? SANDBOX_EBUSY : SANDBOX_EDAMAGED, 0, "copy the folder while nothing writes in it",
            "'%s' changed while the folder was read", pack->path);
}

/* `size` bytes from where `fd` is. */
void au_pack_body(struct au_packing *pack, int fd, int64_t size)
{
    static char data[262144];

    while (size > 0) {
        size_t want = size < (int64_t)sizeof data ? (size_t)size : sizeof data;
        ssize_t n = SB_RETRY(read(fd, data, want));

        if (n < 0)
            au_fail_errno(errno, "reading '%s' in the folder", pack->path);
        if (n == 0)
            fail_changed(pack);
        au_pack_put(pack, data, (size_t)n);
        size -= n;
        au_note(pack->bytes - size, pack->entries);
    }
}

/* 0, or -ENOENT: it is gone. */
static int put_file(struct au_packing *pack, int dir, const char *name, const struct stat *expected)
{
    SB_CLOSE int fd = sb_open_beneath(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    struct stat st;

    if (fd == -ENOENT && pack->how->live)
        return fd;
    if (fd < 0)
        au_fail_errno(-fd, "reading '%s' in the folder", pack->path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (!pack->how->live && st.st_ino != expected->st_ino))
        fail_changed(pack);
    if (pack->how->live && st.st_size > 0 && st.st_blocks < st.st_size / 512 && au_pack_sparse(pack, fd, &st))
        return 0;
    au_pack_entry(pack, &st, '0', NULL, fd, -1);
    au_pack_body(pack, fd, st.st_size);
    au_pack_pad(pack, st.st_size);
    return 0;
}

static void put_symlink(struct au_packing *pack, int dir, const char *name, const struct stat *st)
{
    char target[AU_PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target - 1);

    if (n < 0 && pack->how->live && (errno == ENOENT || errno == EINVAL))
        return;
    if (n < 0)
        au_fail_errno(errno, "reading the symbolic link '%s' in the folder", pack->path);
    target[n] = 0;
    au_pack_entry(pack, st, '2', target, -1, -1);
}

/* By mount and not by device: a btrfs subvolume is part of the folder, and an overlay's files show other devices. */
static uint64_t mount_of(int fd)
{
    struct statx st;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) < 0)
        au_fail_errno(errno, "examining the folder");
    return st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0;
}

static void put_folder(struct au_packing *pack, int fd, size_t length, int depth);

/* What the kernel shows of itself has no end and no content. */
static int is_kernels(int fd)
{
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        return 0;
    switch ((unsigned long)fs.f_type) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
    case DEVPTS_SUPER_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
        return 1;
    default:
        return 0;
    }
}

static int put_subfolder(struct au_packing *pack, int dir, const char *name, int depth)
{
    size_t length = strlen(pack->path);
    SB_CLOSE int fd = sb_open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    struct stat st;

    if (pack->how->live && (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP))
        return 0; /* it is gone, or something else is there now */
    if (fd < 0 || fstat(fd, &st) < 0)
        au_fail_errno(fd < 0 ? -fd : errno, "opening '%s' in the folder", pack->path);
    memcpy(pack->path + length, "/", 2);
    put_folder(pack, fd, length + 1, depth + 1);
    return 0;
}

static void put_other(struct au_packing *pack, const struct stat *st)
{
    if (pack->how->live && !S_ISFIFO(st->st_mode))
        au_fail(SANDBOX_EUNSUPPORTED, 0, NULL, "'%s' is a device, which is not copied", pack->path);
    au_pack_entry(pack, st, S_ISFIFO(st->st_mode) ? '6' : S_ISCHR(st->st_mode) ? '3' : '4', NULL, -1, -1);
}

/* 0; -1: it is gone. */
static int examine(const struct au_packing *pack, int dir, const char *name, struct stat *ret)
{
    if (fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (errno != ENOENT || !pack->how->live)
        au_fail_errno(errno, "examining '%s' in the folder", pack->path);
    return -1;
}

static void put_leaf(struct au_packing *pack, int dir, const char *name, const struct stat *st)
{
    const char *earlier;

    if (S_ISSOCK(st->st_mode))
        return;
    earlier = earlier_name(pack, st);
    if (earlier) {
        au_pack_entry(pack, st, '1', earlier, -1, -1);
    } else if (S_ISREG(st->st_mode)) {
        if (put_file(pack, dir, name, st))
            forget_name(pack, st); /* another of its names may still be there */
    } else if (S_ISLNK(st->st_mode)) {
        put_symlink(pack, dir, name, st);
    } else {
        put_other(pack, st);
    }
}

static void put_child(struct au_packing *pack, int dir, const char *name, int depth)
{
    struct stat st;

    if (examine(pack, dir, name, &st))
        return;
    if (!S_ISDIR(st.st_mode))
        put_leaf(pack, dir, name, &st);
    else if (st.st_dev != pack->how->dest_dev || st.st_ino != pack->how->dest_ino)
        put_subfolder(pack, dir, name, depth);
}

static char **read_names(struct au_packing *pack, int fd, size_t *ret_n)
{
    char **names = NULL;
    size_t n = 0, room = 0;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *d;

    if (!stream)
        au_fail_errno(errno, "listing '%s' in the folder", pack->path);
    while ((errno = 0, d = readdir(stream))) {
        if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
            continue;
        if (n == room) {
            room = room ? room * 2 : 64;
            names = reallocarray(names, room, sizeof *names);
        }
        names_bytes += cost_of(d->d_name);
        if (!names || names_bytes > NAMES_BYTES_MAX || !(names[n++] = strdup(d->d_name)))
            au_fail(SANDBOX_ELIMIT, 0, NULL, "'%s' in the folder has too many entries", pack->path);
    }
    if (errno)
        au_fail_errno(errno, "listing '%s' in the folder", pack->path);
    closedir(stream);
    if (n)
        qsort(names, n, sizeof *names, by_bytes);
    *ret_n = n;
    return names;
}

/* pack->path is the folder's name and a "/", `length` bytes. */
static void put_folder(struct au_packing *pack, int fd, size_t length, int depth)
{
    struct stat st;
    char **names;
    size_t n;

    if (fstat(fd, &st) < 0)
        au_fail_errno(errno, "examining '%s' in the folder", pack->path);
    if (depth > AU_DEPTH_MAX)
        au_fail(SANDBOX_ELIMIT, 0, NULL, "'%.200s' in the folder is nested deeper than %d folders", pack->path, AU_DEPTH_MAX);
    au_pack_entry(pack, &st, '5', NULL, fd, -1);
    if (pack->how->live ? is_kernels(fd) : mount_of(fd) != pack->mount)
        return;
    names = read_names(pack, fd, &n);
    for (size_t i = 0; i < n; i++) {
        if (length + strlen(names[i]) >= AU_PATH_MAX)
            au_fail(SANDBOX_ELIMIT, 0, NULL, "'%.200s' in the folder has a path of more than 4095 bytes", pack->path);
        memcpy(pack->path + length, names[i], strlen(names[i]) + 1);
        put_child(pack, fd, names[i], depth);
        names_bytes -= cost_of(names[i]);
        free(names[i]);
    }
    free(names);
    pack->path[length] = 0;
}

int au_pack_child(struct au_packing *pack, int dir, const char *name)
{
    struct stat st;

    if (examine(pack, dir, name, &st))
        return 0;
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode) && !S_ISFIFO(st.st_mode))
        return -1;
    put_leaf(pack, dir, name, &st);
    return 0;
}

void au_pack_end(struct au_packing *pack)
{
    static const char end[2 * TAR_BLOCK];

    au_pack_put(pack, end, sizeof end);
    flush(pack);
}

void au_pack(const struct au_pack *how)
{
    struct au_packing *pack = calloc(1, sizeof *pack);
    size_t length = strlen(how->top);

    if (!pack)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    if (length >= AU_PATH_MAX)
        au_fail(SANDBOX_ELIMIT, 0, NULL, "the name of the archive's first entry is too long");
    pack->how = how;
    memcpy(pack->path, how->top, length);
    if (how->name) {
        put_child(pack, how->source, how->name, 0);
    } else {
        pack->mount = mount_of(how->source);
        pack->path[length++] = '/';
        put_folder(pack, how->source, length, 0);
    }
    au_pack_end(pack);
}
