/* SPDX-License-Identifier: Apache-2.0
 * A file that replaces another one has a name of its own for a moment, and who is killed in it leaves that behind. So the name follows from the
 * target's, and whoever it belongs to holds a lock (flock) on the file: one that nobody holds is left over, and is removed by the next who wants to
 * replace the same target. */
#include "temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <crc32c.h>
#include <util.h>

enum { PLACES = 16 }; /* for as many at once, and for names that somebody else has taken */

static void name_place(const char *target, int place, char name[SB_TEMPORARY_SIZE])
{
    snprintf(name, SB_TEMPORARY_SIZE, ".sandbox-%08x-%d", sb_crc32c(0, target, strlen(target)), place);
}

static int is_named(int folder, const char *name, int file)
{
    struct stat is, named;

    return fstat(file, &is) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && is.st_dev == named.st_dev && is.st_ino == named.st_ino;
}

/* 1: it was left over, and is gone. */
static int remove_left(int folder, const char *name)
{
    SB_CLOSE int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    return file >= 0 && fstat(file, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == geteuid() || geteuid() == 0) &&
           flock(file, LOCK_EX | LOCK_NB) == 0 && is_named(folder, name, file) && unlinkat(folder, name, 0) == 0;
}

static int random_name(char name[SB_TEMPORARY_SIZE])
{
    char random[SB_ID_SIZE];
    int r = sb_id_new(random);

    if (!r)
        snprintf(name, SB_TEMPORARY_SIZE, ".sandbox-%.32s", random);
    return r;
}

int sb_temporary_link(int folder, const char *target, int file, char ret_name[SB_TEMPORARY_SIZE])
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    (void)flock(file, LOCK_EX | LOCK_NB); /* before it has a name: so with a name and no lock it is nobody's */
    for (int place = 0; place <= PLACES; place++) {
        int r = 0;

        if (place < PLACES)
            name_place(target, place, ret_name);
        else if ((r = random_name(ret_name)))
            return r;
        for (int again = 0; again < 2; again++) {
            if (linkat(AT_FDCWD, path, folder, ret_name, AT_SYMLINK_FOLLOW) == 0)
                return 0;
            if (errno != EEXIST)
                return -errno;
            if (!remove_left(folder, ret_name))
                break;
        }
    }
    return -EEXIST;
}

/* Between its name and its lock another process may take it for left over. */
static int make_locked(int folder, const char *name)
{
    SB_CLOSE int file = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (file < 0)
        return -errno;
    if ((flock(file, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) || !is_named(folder, name, file))
        return -EEXIST;
    return SB_TAKE_FD(file);
}

int sb_temporary_make(int folder, const char *target, char ret_name[SB_TEMPORARY_SIZE])
{
    for (int place = 0; place <= PLACES; place++) {
        int r = 0;

        if (place < PLACES)
            name_place(target, place, ret_name);
        else if ((r = random_name(ret_name)))
            return r;
        for (int again = 0; again < 2; again++) {
            r = make_locked(folder, ret_name);
            if (r != -EEXIST)
                return r;
            if (!remove_left(folder, ret_name))
                break;
        }
    }
    return -EEXIST;
}
