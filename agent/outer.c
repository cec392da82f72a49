/* SPDX-License-Identifier: Apache-2.0
 * For an ordinary user: a user namespace in which a program may clone mounts or make a network, write the child's maps, and nothing more. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "userns.h"

#include <util.h>

/* The maps are written from outside of it, by a child that stayed behind. */
static void make(int proc, const struct sb_idmap *map, int flags)
{
    int pipes[2], status = 0;
    char byte = 0;
    pid_t helper;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        ag_die("userns", errno, "no pipe");
    helper = fork();
    if (helper < 0)
        ag_die("userns", errno, "no process for the id maps");
    if (helper == 0) {
        int r;

        sb_close(pipes[1]);
        if (SB_RETRY(read(pipes[0], &byte, 1)) != 1)
            _exit(0);
        r = ag_userns_map(proc, getppid(), map);
        if (r)
            ag_die("idmap", -r,
                   map->privilege == SB_PRIVILEGE_SUBIDS ? "newuidmap or newgidmap refused the ranges of /etc/subuid and subgid"
                                                         : "the id map was refused");
        _exit(0);
    }
    if (unshare(flags) < 0)
        ag_die("userns", errno, "this kernel or its policy refuses user namespaces to this user");
    if (SB_RETRY(write(pipes[1], &byte, 1)) != 1 || SB_RETRY(waitpid(helper, &status, 0)) < 0 || status)
        _exit(1); /* it has said why */
    sb_close(pipes[0]);
    sb_close(pipes[1]);
}

void ag_outer_become_root(const struct sb_idmap *map)
{
    if (map->privilege == SB_PRIVILEGE_SUBIDS && syscall(SYS_setgroups, 0, NULL) < 0)
        ag_die("idmap", errno, "the groups can't be dropped");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        ag_die("idmap", errno, "the mapped root can't be entered");
    prctl(PR_SET_DUMPABLE, 1); /* so that our files in /proc are ours: the child's maps are written through them */
}

void ag_outer_enter(int proc, const struct sb_idmap *map, int given, int flags)
{
    if (given < 0) {
        make(proc, map, CLONE_NEWUSER | flags);
    } else if (setns(given, CLONE_NEWUSER) < 0 || (flags && unshare(flags) < 0)) {
        ag_die("userns", errno, "the network's user namespace can't be entered");
    }
    ag_outer_become_root(map);
}
