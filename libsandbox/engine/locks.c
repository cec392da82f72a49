/* SPDX-License-Identifier: Apache-2.0
 * flock(2) of what is in the state root, with a bound. The kernel lets go of a lock when its holder dies, so a dead holder never stands
 * in the way; one that is stopped (SIGSTOP, a debugger, a frozen group) does, and a caller learns who it is instead of waiting for ever. */
#include "locks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <util.h>

/* What is done under a folder's lock takes microseconds. */
enum { FOLDER_MS = 5000, PAUSE_NS = 100000, PAUSE_MOST_NS = 2000000 };

static int is_stopped(pid_t pid)
{
    SB_FREE char *text = NULL;
    char path[48];
    const char *at;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (sb_read_file(AT_FDCWD, path, 8192, &text, NULL))
        return 0;
    at = strrchr(text, ')');
    return at && at[1] == ' ' && (at[2] == 'T' || at[2] == 't');
}

void sb_lock_holder(int fd, struct sb_lock_holder *ret)
{
    SB_FREE char *text = NULL;
    struct sb_lock_holder found = { 0 };
    char *save = NULL;
    struct stat st;

    *ret = found;
    if (fstat(fd, &st) < 0 || sb_read_file(AT_FDCWD, "/proc/locks", 16 << 20, &text, NULL))
        return;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        unsigned int major, minor;
        unsigned long long inode;
        int pid;

        if (strstr(line, "->") || sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%llu", &pid, &major, &minor, &inode) != 4 ||
            inode != st.st_ino || pid <= 0 || pid == getpid())
            continue;
        /* a file system of several devices is called by another number there: then the inode alone must do, unless a better one comes */
        if (!found.pid || (major == major(st.st_dev) && minor == minor(st.st_dev)))
            found.pid = pid;
    }
    if (found.pid)
        found.stopped = is_stopped(found.pid);
    *ret = found;
}

int sb_lock_busy(const struct sb_lock_holder *holder, const char *what, struct sandbox_error **error)
{
    char who[64] = "another process or call";

    if (holder->pid)
        snprintf(who, sizeof who, "process %d%s", (int)holder->pid, holder->stopped ? ", which is stopped," : "");
    return sb_fail(error,
                   SB_ARGS(SANDBOX_EBUSY, .sys_errno = EWOULDBLOCK, .phase = "lock", .retryable = 1,
                           .hint = holder->stopped ? "let that process go on (SIGCONT), or kill it" : "try again when the other call has ended"),
                   "%s holds the lock of %s", who, what);
}

int sb_folder_lock(int folder, int how, struct sandbox_error **error)
{
    SB_CLOSE int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct timespec pause = { .tv_nsec = PAUSE_NS };
    int64_t until = sb_now_ms() + FOLDER_MS;

    if (fd < 0)
        return sb_fail_errno(error, errno, "lock", "a folder of the state root can't be opened");
    while (SB_RETRY(flock(fd, how | LOCK_NB)) < 0) {
        struct sb_lock_holder holder;

        if (errno != EWOULDBLOCK)
            return sb_fail_errno(error, errno, "lock", "a folder of the state root can't be locked");
        if (sb_now_ms() >= until) {
            sb_lock_holder(fd, &holder);
            return sb_lock_busy(&holder, "a folder of the state root", error);
        }
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < PAUSE_MOST_NS)
            pause.tv_nsec += pause.tv_nsec / 4;
    }
    return SB_TAKE_FD(fd);
}

void sb_folder_unlock(int fd)
{
    if (fd >= 0)
        flock(fd, LOCK_UN); /* said, not just closed: a forked child of the host program may have a copy */
    if (fd >= 0)
        sb_close(fd);
}
