/* SPDX-License-Identifier: Apache-2.0
 * See loop.h. */
#include "loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

enum { LOOP_TRIES = 16 };

/* A loop device that has this image already: opened, so that it stays. */
static int find_loop(const struct stat *image)
{
    DIR *blocks = opendir("/sys/block");
    struct dirent *d;
    int found = -1;

    while (blocks && found < 0 && (d = readdir(blocks))) {
        struct loop_info64 info;
        char path[300];

        if (strncmp(d->d_name, "loop", 4))
            continue;
        snprintf(path, sizeof path, "/sys/block/%s/loop", d->d_name);
        if (access(path, F_OK) < 0)
            continue;
        snprintf(path, sizeof path, "/dev/%s", d->d_name);
        found = open(path, O_RDWR | O_CLOEXEC);
        if (found >= 0 && (ioctl(found, LOOP_GET_STATUS64, &info) < 0 || info.lo_device != image->st_dev || info.lo_inode != image->st_ino))
            found = sb_close(found);
    }
    if (blocks)
        closedir(blocks);
    return found;
}

static int new_loop(int image)
{
    struct loop_config config = { .fd = (uint32_t)image, .info.lo_flags = LO_FLAGS_AUTOCLEAR };
    SB_CLOSE int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

    if (control < 0)
        return -errno;
    snprintf((char *)config.info.lo_file_name, sizeof config.info.lo_file_name, "libsandbox");
    for (int tries = 0; tries < LOOP_TRIES; tries++) { /* somebody else may take the free one first */
        int number = ioctl(control, LOOP_CTL_GET_FREE), fd;
        char path[32];

        if (number < 0)
            return -errno;
        snprintf(path, sizeof path, "/dev/loop%d", number);
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return -errno;
        if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
            return fd;
        sb_close(fd);
        if (errno != EBUSY)
            return -errno;
    }
    return -EBUSY;
}

static int find_or_make(int image)
{
    struct stat st;
    int loop;

    if (fstat(image, &st) < 0)
        return -errno;
    loop = find_loop(&st);
    return loop < 0 ? new_loop(image) : loop;
}

int sb_loop_open(int image, char *path, size_t size)
{
    SB_CLOSE int loop = find_or_make(image);
    char link[32];
    ssize_t n;

    if (loop < 0)
        return loop;
    snprintf(link, sizeof link, "/proc/self/fd/%d", loop);
    n = readlink(link, path, size - 1);
    if (n <= 0)
        return n < 0 ? -errno : -EIO;
    path[n] = 0;
    return SB_TAKE_FD(loop);
}

static int mount_device(const char *device, const char *file_system, unsigned int attributes)
{
    SB_CLOSE int fs = fsopen(file_system, FSOPEN_CLOEXEC);
    int mnt;

    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "source", device, 0) < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    mnt = fsmount(fs, FSMOUNT_CLOEXEC, attributes);
    return mnt < 0 ? -errno : mnt;
}

int sb_loop_mount(int image, const char *file_system, unsigned int attributes)
{
    SB_CLOSE int loop = -1;
    char device[64];
    int r;

    if (SB_RETRY(flock(image, LOCK_EX)) < 0)
        return -errno;
    loop = sb_loop_open(image, device, sizeof device);
    r = loop < 0 ? loop : mount_device(device, file_system, attributes);
    flock(image, LOCK_UN);
    return r;
}
