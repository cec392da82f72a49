/* SPDX-License-Identifier: Apache-2.0
 * User namespaces for the agent's programs. Functions return 0 (or a descriptor) or -errno. */
#ifndef SB_AGENT_USERNS_H
#define SB_AGENT_USERNS_H

#include <idmap.h>
#include <sys/types.h>

/* Writes the maps of the user namespace of `pid`, a child of this single-threaded program that waits for it: by
 * /proc/PID/{setgroups,uid_map,gid_map}, or for SUBIDS by newuidmap and newgidmap (absolute paths, found in /usr/bin or /bin).
 * `proc` is a descriptor of a real procfs. */
int ag_userns_map(int proc, pid_t pid, const struct sb_idmap *map);
/* A descriptor of a user namespace with these maps that holds no process yet. nproc_max: of all its ids together; 0: no bound. */
int ag_userns_hold(int proc, const struct sb_idmap *map, uint64_t nproc_max);
/* The same for an id-mapped mount: the ids `uid` and `gid` on disk are 0:0 of `map` (ROOT), the others those of the same number. */
int ag_userns_hold_owner(int proc, const struct sb_idmap *map, uint32_t uid, uint32_t gid);
/* 1 when `fd` is on a procfs (PROC_SUPER_MAGIC): checked before anything is written below it. */
int ag_is_procfs(int fd);

#endif
