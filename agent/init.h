/* SPDX-License-Identifier: Apache-2.0
 * init's two halves: the loop of pid 1 (init.c, init-loop.h) and what its forked child does until it executes (init-exec.c). */
#ifndef SB_AGENT_INIT_H
#define SB_AGENT_INIT_H

#include <errno.h>
#include <plan.h>
#include <sys/resource.h>
#include <sys/types.h>

/* What the child writes into its status socket: one record when it is about to execute, one more if that failed. */
struct ag_exec_status {
    uint32_t step; /* 0: about to execute; else enum sb_start_step */
    int32_t sys_errno;
    uint64_t tag; /* inode of its cgroup namespace, which all its descendants share and none can leave */
    uint64_t user_namespace; /* its inode */
    uint64_t cap_effective, cap_permitted, cap_inheritable, cap_bounding, cap_ambient;
    uint32_t uid, gid, n_groups, no_new_privs, seccomp;
    uint32_t terminal; /* 1: the last descriptor that comes along is its outer end */
};

struct ag_exec {
    const struct sb_plan *plan;
    const struct sb_request *request;
    const char *blob; /* NULL: in blob_fd */
    int blob_fd;
    int fds[3];
    int status_fd, procfs;
    int daemon;
    uint64_t files; /* the soft limit of open files that it gets */
    uint64_t files_max; /* the most of both limits; 0: init's */
    int terminal; /* 1: fds[0] is the folder of terminals, and all three become one */
    int pin; /* 1: the record comes with a descriptor of the cgroup namespace: as long as that is open, nobody else gets its inode, the tag */
};

/* Never returns: executes, or writes why not into the status pipe. Runs in a child of init. */
__attribute__((noreturn)) void ag_exec_child(const struct ag_exec *x);

/* init-exec.c: for init itself, at its start. */
void ag_cut_bounding_set(uint64_t keep);

/* init-kill.c: sends `signal` to every process whose cgroup namespace is `tag`; how many there were. */
int ag_kill_tagged(int procfs, uint64_t tag, int signal);

/* init-leaf.c: the exec's own cgroup. make: a descriptor, or -1. kill: SIGKILLs all in it; 0: none was left, 1: some live still, -1: can't. */
#define AG_LEAF_NAME 32
int ag_leaf_make(unsigned long number, char name[AG_LEAF_NAME]);
int ag_leaf_kill(int leaf);
void ag_leaf_remove(const char *name);

/* init-pty.c, in the child: a new terminal of the folder at descriptor 0, which becomes 0, 1, 2 and the session's own. Returns its outer
 * end, or -errno. */
int ag_pty_open(const struct sb_window *window);

/* init-oom.c: how many were killed for want of memory in this sandbox, ever; 0 where nothing counts them. */
int64_t ag_oom_kills(void);

/* init-user.c: "UID[:GID]" or names of the root's own /etc/passwd and /etc/group. 0 or -errno (ENOENT: no such name). */
int ag_resolve_user(const char *user, uid_t *ret_uid, gid_t *ret_gid);

#endif
