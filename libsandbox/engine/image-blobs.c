/* SPDX-License-Identifier: Apache-2.0
 * See image-store.h: what is being downloaded. A blob's file is there from its first byte until its layer is unpacked, and stays when a
 * pull is cut short, so that the next one goes on with it. Nothing is taken for right because it lies here: it is hashed by who downloads
 * and again by who unpacks. The lock is on the open file, which the pull helper shares: it holds until the last of both has gone. */
#include "image-store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>

#define FOLDER "downloads"

static int open_folder(const struct sb_images *images, int make)
{
    if (make)
        return sb_open_dir(images->root, FOLDER, 0700);
    return sb_open_beneath(images->root, FOLDER, O_RDONLY | O_DIRECTORY, 0);
}

/* The name still leads to that file. */
static int is_same(int folder, const char *name, int fd)
{
    struct stat there, here;

    return fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &here) == 0 && there.st_ino == here.st_ino &&
           there.st_dev == here.st_dev;
}

int sb_blob_open(const struct sb_images *images, const char *digest, int *ret_fd, struct sandbox_error **error)
{
    SB_CLOSE int folder = open_folder(images, 1);
    const char *name = digest + strlen("sha256:");

    if (folder < 0)
        return sb_fail_errno(error, -folder, "pull", "opening the state root's folder '" FOLDER "'");
    for (int tries = 0; tries < 16; tries++) {
        SB_CLOSE int fd = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
            return sb_fail_errno(error, errno, "pull", "opening a file for the blob %s", digest);
        if (!S_ISREG(st.st_mode))
            return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "pull"), "the state root's " FOLDER "/%s is no file", name);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            if (errno == EWOULDBLOCK)
                return 0;
            return sb_fail_errno(error, errno, "pull", "locking the blob %s", digest);
        }
        if (is_same(folder, name, fd)) { /* else who had it has removed it meanwhile */
            *ret_fd = SB_TAKE_FD(fd);
            return 1;
        }
    }
    return 0;
}

int sb_blob_open_own(const struct sb_images *images, int *ret_fd, struct sandbox_error **error)
{
    SB_CLOSE int folder = open_folder(images, 1);
    int fd = folder < 0 ? folder : openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0)
        return sb_fail_errno(error, folder < 0 ? -folder : errno, "pull", "making a file for a blob");
    *ret_fd = fd;
    return 0;
}

void sb_blob_remove(const struct sb_images *images, const char *digest, int fd)
{
    SB_CLOSE int folder = open_folder(images, 0);
    const char *name = digest + strlen("sha256:");

    if (folder >= 0 && is_same(folder, name, fd))
        unlinkat(folder, name, 0);
}

/* One that nobody is at. */
static int collect(int folder, const char *name, struct sb_collected *collected)
{
    SB_CLOSE int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? 0 : -errno;
    if (!is_same(folder, name, fd) || fstat(fd, &st) < 0)
        return 0;
    if (unlinkat(folder, name, 0) < 0)
        return -errno;
    collected->downloads++;
    collected->bytes += (int64_t)st.st_blocks * 512;
    return 0;
}

int sb_blobs_collect(const struct sb_images *images, struct sb_collected *collected, struct sandbox_error **error)
{
    int folder = open_folder(images, 0), r = 0;
    DIR *stream = folder < 0 ? NULL : fdopendir(folder);
    struct dirent *d;

    if (!stream) {
        sb_close(folder);
        return folder == -ENOENT ? 0 : sb_fail_errno(error, folder < 0 ? -folder : errno, "collect", "listing what was downloaded");
    }
    while ((d = readdir(stream)))
        if (sb_id_valid(d->d_name)) {
            int failed = collect(dirfd(stream), d->d_name, collected);

            r = r ? r : failed;
        }
    closedir(stream);
    return r ? sb_fail_errno(error, -r, "collect", "removing what was downloaded") : 0;
}
