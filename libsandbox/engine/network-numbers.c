/* SPDX-License-Identifier: Apache-2.0
 * Numbers of root's networks: a number is a pair of interfaces, a table of rules and four addresses, so it must be one network's on the whole
 * machine, whatever the state root. A claim is one file made by link(2), as of an id range (ids.c); /run is emptied by a reboot, as the networks
 * are. */
#include "network.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <network-plan.h>

static const char folder[] = "/run/libsandbox/networks";

static int open_folder(struct sandbox_error **error)
{
    SB_CLOSE int run = open("/run", O_RDONLY | O_DIRECTORY | O_CLOEXEC), top = -1;
    int fd = -ENOENT, lock;
    struct stat st;

    if (run >= 0) {
        top = sb_open_dir(run, "libsandbox", 0700);
        fd = top < 0 ? top : sb_open_dir(top, "networks", 0700);
    }
    if (fd < 0)
        return sb_fail_errno(error, -fd, "network", "%s can't be opened", folder);
    if (fstat(fd, &st) < 0 || st.st_uid != 0 || (st.st_mode & 077)) {
        sb_close(fd);
        return sb_fail(error, SB_ARGS(SANDBOX_EDENIED, .phase = "network", .hint = "make it root's with mode 0700"), "%s is open to others", folder);
    }
    lock = sb_folder_lock(fd, LOCK_EX, error);
    sb_close(fd);
    return lock;
}

/* 1: some route of the machine, but a default one, leads to what has the number's addresses. */
static int is_routed(const char *routes, uint32_t base)
{
    for (const char *line = strchr(routes, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        unsigned int destination, mask;

        if (sscanf(line + 1, "%*s %x %*x %*x %*x %*x %*x %x", &destination, &mask) == 2 && mask &&
            ((ntohl(destination) ^ base) & ntohl(mask) & 0xfffffffcu) == 0)
            return 1;
    }
    return 0;
}

/* 0: claimed; 1: somebody has it; negative: failed. */
static int claim(int dir, int number, const char *holder, struct sandbox_error **error)
{
    SB_CLOSE int fd = openat(dir, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
    char name[16], temporary[64];
    int r = fd < 0 ? -errno : sb_write_all(fd, holder, strlen(holder));

    if (r)
        return sb_fail_errno(error, -r, "network", "a claim can't be made in %s", folder);
    snprintf(name, sizeof name, "%d", number);
    snprintf(temporary, sizeof temporary, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, temporary, dir, name, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    return errno == EEXIST ? 1 : sb_fail_errno(error, errno, "network", "a claim can't be made in %s", folder);
}

int sb_network_number_claim(const char *holder, int *ret_number, struct sandbox_error **error)
{
    SB_UNLOCK int dir = open_folder(error);
    SB_FREE char *routes = NULL;
    uint32_t first = 0;

    if (dir < 0)
        return dir;
    if (getrandom(&first, sizeof first, 0) < 0)
        first = (uint32_t)getpid();
    sb_read_file(AT_FDCWD, "/proc/net/route", 16 << 20, &routes, NULL);
    for (uint32_t i = 0; i < SB_NETWORK_NUMBERS; i++) {
        int number = (int)((first + i) % SB_NETWORK_NUMBERS), r;

        if (routes && is_routed(routes, SB_NETWORK_FIRST_ADDRESS + (uint32_t)number * 4))
            continue;
        r = claim(dir, number, holder, error);
        if (r < 0)
            return r;
        if (r == 0) {
            *ret_number = number;
            return 0;
        }
    }
    return sb_fail(error, SB_ARGS(SANDBOX_ENOSPACE, .phase = "network", .hint = "delete sandboxes that are no longer needed"),
                   "all %d networks of this machine are in use, or its routes take 10.245.0.0/16", SB_NETWORK_NUMBERS);
}

/* By the holder, or by anybody else. */
static int is_held(int dir, const char *name, const char *holder, int by_another)
{
    SB_FREE char *text = NULL;

    return dir >= 0 && !sb_read_file(dir, name, 8192, &text, NULL) && !strcmp(text, holder) == !by_another;
}

int sb_network_number_is_others(int number, const char *holder)
{
    SB_UNLOCK int dir = open_folder(NULL);
    char name[16];

    snprintf(name, sizeof name, "%d", number);
    return is_held(dir, name, holder, 1);
}

void sb_network_number_release(int number, const char *holder)
{
    SB_UNLOCK int dir = open_folder(NULL);
    char name[16];

    snprintf(name, sizeof name, "%d", number);
    if (is_held(dir, name, holder, 0))
        unlinkat(dir, name, 0);
}

void sb_network_numbers_each(void (*each)(void *data, int number, const char *holder), void *data)
{
    DIR *stream = opendir(folder);
    struct dirent *d;

    while (stream && (d = readdir(stream))) {
        SB_FREE char *text = NULL;

        if (isdigit((unsigned char)d->d_name[0]) && !sb_read_file(dirfd(stream), d->d_name, 8192, &text, NULL))
            each(data, atoi(d->d_name), text);
    }
    if (stream)
        closedir(stream);
}
