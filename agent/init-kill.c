/* SPDX-License-Identifier: Apache-2.0
 * Ending all descendants of an exec, also those that left its session and were reparented: they share its cgroup namespace. The
 * list of processes is read in order of their pids, so that a chain of forks only ever runs ahead of the reader, who is faster. */
#include "init.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <util.h>

struct entry {
    uint64_t ino;
    int64_t off;
    unsigned short reclen;
    unsigned char type;
    char name[];
};

static int tagged(int procfs, int64_t pid, uint64_t tag)
{
    char path[48], text[64];
    ssize_t n;

    snprintf(path, sizeof path, "%d/ns/cgroup", (int)pid);
    n = readlinkat(procfs, path, text, sizeof text - 1);
    if (n <= 8)
        return 0; /* gone, or a zombie */
    text[n] = 0;
    return strtoull(text + 8, NULL, 10) == tag;
}

int ag_kill_tagged(int procfs, uint64_t tag, int signal)
{
    SB_CLOSE int dir = openat(procfs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _Alignas(struct entry) char buffer[2048]; /* small: what is read is fresh */
    int found = 0;
    long n;

    if (dir < 0 || !tag)
        return 0;
    while ((n = syscall(SYS_getdents64, dir, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < n;) {
            const struct entry *e = (const struct entry *)(buffer + at);
            int64_t pid;

            at += e->reclen;
            if (sb_parse_int(e->name, 2, 1 << 30, &pid) || !tagged(procfs, pid, tag))
                continue;
            found++;
            kill((pid_t)pid, signal);
        }
    return found;
}
