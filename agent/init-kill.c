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

/* 1 when that thread has the tag, 0 when not, -1 when it can't be told (it is a zombie). */
static int has_tag(int dir, const char *path, uint64_t tag)
{
    char text[64];
    ssize_t n = readlinkat(dir, path, text, sizeof text - 1);

    if (n <= 8)
        return -1;
    text[n] = 0;
    return strtoull(text + 8, NULL, 10) == tag;
}

/* Calls each(data, dir, number) for every numeric entry until it returns 1. */
static int each_number(int dir, int (*each)(void *data, int dir, int64_t number), void *data)
{
    _Alignas(struct entry) char buffer[2048]; /* small: what is read is fresh */
    long n;

    while ((n = syscall(SYS_getdents64, dir, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < n;) {
            const struct entry *e = (const struct entry *)(buffer + at);
            int64_t number;

            at += e->reclen;
            if (!sb_parse_int(e->name, 2, 1 << 30, &number) && each(data, dir, number))
                return 1;
        }
    return 0;
}

static int thread_has_tag(void *data, int dir, int64_t thread)
{
    char path[48];

    snprintf(path, sizeof path, "%d/ns/cgroup", (int)thread);
    return has_tag(dir, path, *(const uint64_t *)data) == 1;
}

static int tagged(int procfs, int64_t pid, uint64_t tag)
{
    SB_CLOSE int threads = -1;
    char path[48];
    int has;

    snprintf(path, sizeof path, "%d/ns/cgroup", (int)pid);
    has = has_tag(procfs, path, tag);
    if (has >= 0)
        return has;
    /* a main thread that ended says nothing for the others, who may live on */
    snprintf(path, sizeof path, "%d/task", (int)pid);
    threads = openat(procfs, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return threads >= 0 && each_number(threads, thread_has_tag, &tag);
}

struct search {
    uint64_t tag;
    int signal, found;
};

static int signal_tagged(void *data, int dir, int64_t pid)
{
    struct search *s = data;

    if (tagged(dir, pid, s->tag)) {
        s->found++;
        kill((pid_t)pid, s->signal);
    }
    return 0;
}

int ag_kill_tagged(int procfs, uint64_t tag, int signal)
{
    SB_CLOSE int dir = tag ? openat(procfs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    struct search s = { tag, signal, 0 };

    if (dir >= 0)
        each_number(dir, signal_tagged, &s);
    return s.found;
}
