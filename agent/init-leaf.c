/* SPDX-License-Identifier: Apache-2.0
 * A cgroup of its own for an exec with a deadline, where the sandbox has cgroup2: killing it is one write that no descendant escapes,
 * and whether they are all dead can be read.
 *
 * An exec with limits is given one by the library, which alone writes limits. cgroup2 puts controllers into groups only below one without
 * processes, so that init leaves the top for a leaf of its own when the first of them comes: not before, since moving costs milliseconds,
 * and not by being cloned there, since the top is to be the root of its cgroup namespace (stage.c). */
#include "init-loop.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

int ag_leaf_make(unsigned long number, char name[AG_LEAF_NAME])
{
    snprintf(name, AG_LEAF_NAME, "x-%lu", number);
    if (mkdirat(SB_FD_CGROUP_TOP, name, 0755) < 0)
        return -1;
    return openat(SB_FD_CGROUP_TOP, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int ag_leaf_kill(int leaf)
{
    SB_CLOSE int kill = openat(leaf, "cgroup.kill", O_WRONLY | O_CLOEXEC),
                 events = openat(leaf, "cgroup.events", O_RDONLY | O_CLOEXEC);
    char text[256];
    ssize_t n;

    if (kill < 0 || sb_write_all(kill, "1", 1) || events < 0)
        return -1;
    n = SB_RETRY(read(events, text, sizeof text - 1));
    if (n < 0)
        return -1;
    text[n] = 0;
    return strstr(text, "populated 0") ? 0 : 1;
}

void ag_leaf_remove(const char *name)
{
    /* busy while something that the command left behind lives on: then it goes with the sandbox */
    unlinkat(SB_FD_CGROUP_TOP, name, AT_REMOVEDIR);
}

void ag_leaf_drop(struct ag_slot *s)
{
    if (s->leaf < 0)
        return;
    s->leaf = sb_close(s->leaf);
    ag_leaf_remove(s->leaf_name);
}

void ag_leaf_take(struct ag_slot *s, const struct sb_request *q, int *fd)
{
    int n = snprintf(s->leaf_name, sizeof s->leaf_name, "x-");

    sb_close(s->leaf);
    s->leaf = SB_TAKE_FD(*fd);
    for (int i = 0; i < SB_LEAF_BYTES; i++)
        n += snprintf(s->leaf_name + n, sizeof s->leaf_name - (size_t)n, "%02x", q->exec_id[i]);
}

void ag_leaf_enter(struct ag_slot *s, int folder)
{
    SB_CLOSE int procs = openat(folder, "cgroup.procs", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    int r = procs < 0 ? -errno : sb_write_all(procs, "0", 1);

    if (r)
        ag_fail(s, SB_STEP_LEAF, -r);
    else
        ag_reply(s, &(struct sb_reply){ .type = SB_REPLY_DONE }, -1);
}

struct entry {
    uint64_t ino;
    int64_t off;
    unsigned short reclen;
    unsigned char type;
    char name[];
};

/* One that was removed meanwhile has nothing to halt. */
static int freeze_one(int top, const char *name, const char *how)
{
    SB_CLOSE int leaf = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    SB_CLOSE int fd = leaf < 0 ? -1 : openat(leaf, "cgroup.freeze", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT && leaf < 0 ? 0 : -errno;
    return SB_RETRY(write(fd, how, 1)) == 1 || errno == ENODEV ? 0 : -errno;
}

int ag_leaf_freeze_all(const char *how)
{
    _Alignas(struct entry) char buffer[2048];
    SB_CLOSE int top = openat(SB_FD_CGROUP_TOP, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = top < 0 ? -errno : 0;
    long n;

    while (!r && (n = syscall(SYS_getdents64, top, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < n && !r;) {
            const struct entry *e = (const struct entry *)(buffer + at);

            at += e->reclen;
            if (!strncmp(e->name, "x-", 2))
                r = freeze_one(top, e->name, how);
        }
    return r;
}
