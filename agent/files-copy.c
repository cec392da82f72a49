/* SPDX-License-Identifier: Apache-2.0
 * See files.c: one file's content, in and out. Holes are kept where both ends can have them. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

enum { BUFFER = 256 << 10, BLOCK = 4096, XATTR_MAX = 65536 };
static char buffer[BUFFER];

void ag_files_read(struct ag_files *f)
{
    struct {
        struct sb_files_data head;
        char bytes[SB_FILES_CHUNK];
    } record;
    struct stat st;
    int fd = ag_files_open(f, 0, &st);
    int64_t left = f->q.length, at = f->q.offset;

    if (!S_ISREG(st.st_mode))
        ag_files_fail("reading", f->path, S_ISDIR(st.st_mode) ? EISDIR : EINVAL);
    if (at < 0 || left < 0)
        ag_files_fail("reading", f->path, EINVAL);
    while (left > 0) {
        size_t want = left < SB_FILES_CHUNK ? (size_t)left : SB_FILES_CHUNK;
        ssize_t n = SB_RETRY(pread(fd, record.bytes, want, at));

        if (n < 0)
            ag_files_fail("reading", f->path, errno);
        if (n == 0)
            break;
        record.head.head = (struct sb_files_head){ SB_FILES_DATA, (uint32_t)(sizeof record.head + (size_t)n) };
        ag_files_send(&record, record.head.head.size);
        at += n;
        left -= n;
    }
    ag_files_done(at - f->q.offset, 1);
}

static int is_zero(const char *data, size_t size)
{
    return data[0] == 0 && !memcmp(data, data + 1, size - 1);
}

/* Writes a piece at an offset; whole blocks of zeros stay holes. */
static void put_piece(const struct ag_files *f, int fd, const char *data, size_t size, int64_t offset)
{
    while (size) {
        size_t run = 0, block;
        int zero = -1;

        for (; run < size; run += block) { /* as many blocks of one kind as there are */
            int this_one;

            block = (size_t)(BLOCK - (offset + (int64_t)run) % BLOCK);
            block = block < size - run ? block : size - run;
            this_one = is_zero(data + run, block);
            if (zero >= 0 && this_one != zero)
                break;
            zero = this_one;
        }
        for (size_t done = 0; !zero && done < run;) {
            ssize_t n = SB_RETRY(pwrite(fd, data + done, run - done, offset + (int64_t)done));

            if (n < 0)
                ag_files_fail("writing", f->path, errno);
            done += (size_t)n;
        }
        data += run;
        offset += (int64_t)run;
        size -= run;
    }
}

static void check_size(const struct ag_files *f, int64_t size)
{
    if (f->q.max_bytes >= 0 && size > f->q.max_bytes)
        au_fail(SANDBOX_ELIMIT, 0, "raise max_bytes", "'%.512s' is larger than %lld bytes", f->path, (long long)f->q.max_bytes);
}

/* `from` is a file: its pieces of data, as far as it reached at the beginning. Returns its size. */
static int64_t copy_file(const struct ag_files *f, int from, int to, int64_t start, int64_t end)
{
    int64_t at = start;

    check_size(f, end - start);
    while (at < end) {
        int64_t data = lseek(from, at, SEEK_DATA), hole;

        if (data < 0 && errno == ENXIO)
            break;
        hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
        if (hole < 0) {
            data = at;
            hole = end;
        }
        hole = hole < end ? hole : end;
        for (at = data; at < hole;) {
            size_t want = hole - at < BUFFER ? (size_t)(hole - at) : BUFFER;
            ssize_t n = SB_RETRY(pread(from, buffer, want, at));

            if (n < 0)
                ag_files_fail("reading what goes to", f->path, errno);
            if (n == 0)
                au_fail(SANDBOX_EBUSY, 0, "copy it while nothing writes to it", "'%.512s' became shorter while it was copied", f->path);
            put_piece(f, to, buffer, (size_t)n, at - start);
            at += n;
            au_note(at - start, 0);
        }
    }
    return end - start;
}

static int64_t copy_stream(const struct ag_files *f, int from, int to, int append)
{
    int64_t size = 0;

    for (;;) {
        ssize_t n = SB_RETRY(read(from, buffer, sizeof buffer));

        if (n < 0 && errno == EAGAIN && au_wait(from, POLLIN) == 0)
            continue;
        if (n < 0)
            au_fail(SANDBOX_EIO, errno, NULL, "reading what goes to '%.512s'", f->path);
        if (n == 0)
            return size;
        check_size(f, size + n);
        if (append) {
            int r = sb_write_all(to, buffer, (size_t)n);

            if (r)
                ag_files_fail("writing", f->path, -r);
        } else {
            put_piece(f, to, buffer, (size_t)n, size);
        }
        size += n;
        au_note(size, 0);
    }
}

/* What the file's own attributes are: best effort, as everywhere. */
static void copy_xattrs(int from, int to)
{
    static char list[XATTR_MAX], value[XATTR_MAX];
    ssize_t size = flistxattr(from, list, sizeof list);

    for (char *name = list; size > 0 && name < list + size; name += strlen(name) + 1) {
        ssize_t n;

        if (strncmp(name, "user.", 5) || !strncmp(name, "user.overlay.", 13))
            continue;
        n = fgetxattr(from, name, value, sizeof value);
        if (n >= 0)
            fsetxattr(to, name, value, (size_t)n, 0);
    }
}

static void refuse_kernels(const struct ag_files *f, int dir)
{
    struct statfs fs;

    if (fstatfs(dir, &fs) < 0)
        ag_files_fail("writing", f->path, errno);
    if (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC)
        au_fail(SANDBOX_EDENIED, 0, "run a command for it", "'%.512s' is the kernel's own and is not written", f->path);
}

static void append(struct ag_files *f, int dir, const char *name)
{
    int fd = sb_open_beneath(dir, name, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    int64_t size;
    struct stat st;

    if (fd < 0)
        ag_files_fail("opening", f->path, fd == -ELOOP || fd == -ENXIO ? EINVAL : -fd);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        ag_files_fail("appending to", f->path, EINVAL);
    size = copy_stream(f, f->data, fd, 1);
    sb_close(fd);
    ag_files_done(size, 1);
}

/* What is there keeps mode and owner, unless the request says otherwise. */
static void finish(struct ag_files *f, int dir, const char *name, int fd, int64_t size)
{
    struct stat old;
    int there = fstatat(dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(old.st_mode);
    mode_t mode = f->q.mode >= 0 ? (mode_t)f->q.mode & 07777 : there ? old.st_mode & 0777 : 0644;
    uid_t uid = ag_files_owner(f, f->q.uid, there && old.st_uid < f->map->count ? old.st_uid : 0);
    gid_t gid = ag_files_owner(f, f->q.gid, there && old.st_gid < f->map->count ? old.st_gid : 0);

    if (ftruncate(fd, size) < 0)
        ag_files_fail("writing", f->path, errno);
    if (f->map->privilege != SB_PRIVILEGE_SINGLE && fchown(fd, uid, gid) < 0)
        ag_files_fail("setting the owner of", f->path, errno);
    if (fchmod(fd, mode) < 0)
        ag_files_fail("setting the mode of", f->path, errno);
    if (f->q.flags & SB_FILES_XATTRS)
        copy_xattrs(f->data, fd);
    if (f->q.mtime_ns != INT64_MIN) {
        int64_t nanos = f->q.mtime_ns % 1000000000, seconds = f->q.mtime_ns / 1000000000;
        struct timespec time = { seconds - (nanos < 0), nanos < 0 ? nanos + 1000000000 : nanos }, times[2] = { time, time };

        if (futimens(fd, times) < 0)
            ag_files_fail("setting the time of", f->path, errno);
    }
}

void ag_files_write(struct ag_files *f)
{
    char temporary[64], random[SB_ID_SIZE];
    const char *name;
    int dir = ag_files_parent(f, f->path, &name), fd, r = sb_id_new(random);
    int64_t size, start;
    struct stat st;

    refuse_kernels(f, dir);
    if (f->q.flags & SB_FILES_APPEND && faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        append(f, dir, name);
    if ((f->q.flags & SB_FILES_EXCLUSIVE) && faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        ag_files_fail("making", f->path, EEXIST); /* asked again at the end: this only saves the work */
    snprintf(temporary, sizeof temporary, ".sandbox-%.24s", random);
    fd = r ? r : sb_open_beneath(dir, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (fd < 0)
        ag_files_fail("making", f->path, -fd);
    au_tree_note_partial(dir, temporary);
    if (fstat(f->data, &st) == 0 && S_ISREG(st.st_mode) && (start = lseek(f->data, 0, SEEK_CUR)) >= 0)
        size = copy_file(f, f->data, fd, start, st.st_size > start ? st.st_size : start);
    else
        size = copy_stream(f, f->data, fd, 0);
    finish(f, dir, name, fd, size);
    if (renameat2(dir, temporary, dir, name, f->q.flags & SB_FILES_EXCLUSIVE ? RENAME_NOREPLACE : 0) < 0)
        ag_files_fail("replacing", f->path, errno == EISDIR ? EEXIST : errno);
    au_tree_note_partial(-1, NULL);
    sb_close(fd); /* before it is said: a program that somebody writes can't be executed */
    ag_files_done(size, 1);
}

static void send_out(const struct ag_files *f, int fd, int64_t end)
{
    int64_t at = 0;

    while (at < end) {
        size_t want = end - at < (1 << 20) ? (size_t)(end - at) : 1 << 20;
        off_t offset = at;
        ssize_t n = SB_RETRY(sendfile(f->data, fd, &offset, want));

        if (n < 0 && errno == EINVAL) { /* whoever is at the other end doesn't take it so */
            n = SB_RETRY(pread(fd, buffer, want < sizeof buffer ? want : sizeof buffer, at));
            if (n > 0)
                n = SB_RETRY(write(f->data, buffer, (size_t)n));
        }
        if (n < 0 && errno == EAGAIN && au_wait(f->data, POLLOUT) == 0)
            continue;
        if (n < 0 && errno == EPIPE)
            au_fail(SANDBOX_EIO, EPIPE, NULL, "who reads the file has closed it");
        if (n < 0)
            ag_files_fail("reading", f->path, errno);
        if (n == 0)
            au_fail(SANDBOX_EBUSY, 0, "copy it while nothing writes to it", "'%.512s' became shorter while it was copied", f->path);
        at += n;
        au_note(at, 0);
    }
}

void ag_files_get_file(struct ag_files *f)
{
    struct sb_files_info info = { .head = { SB_FILES_INFO, sizeof info } };
    struct stat st, out;
    int fd = ag_files_open(f, 0, &st);

    if (!S_ISREG(st.st_mode))
        ag_files_fail("reading", f->path, S_ISDIR(st.st_mode) ? EISDIR : EINVAL);
    check_size(f, st.st_size);
    ag_files_stat_of(&st, &info.stat);
    ag_files_send(&info, sizeof info);
    if (fstat(f->data, &out) == 0 && S_ISREG(out.st_mode) && out.st_size == 0 && !(fcntl(f->data, F_GETFL) & O_APPEND)) {
        copy_file(f, fd, f->data, 0, st.st_size);
        if (ftruncate(f->data, st.st_size) < 0)
            au_fail_errno(errno, "writing what comes from '%.512s'", f->path);
        if (f->q.flags & SB_FILES_XATTRS)
            copy_xattrs(fd, f->data);
    } else {
        send_out(f, fd, st.st_size);
    }
    ag_files_done(st.st_size, 1);
}
