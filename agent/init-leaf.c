/* SPDX-License-Identifier: Apache-2.0
 * A cgroup of its own for an exec with a deadline, where the sandbox has cgroup2: killing it is one write that no descendant escapes,
 * and whether they are all dead can be read. */
#include "init.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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
