/* SPDX-License-Identifier: Apache-2.0
 * Starting one of our own programs with posix_spawn: nothing of ours runs in a forked copy of the host program. */
#ifndef SB_BASE_PROCESS_H
#define SB_BASE_PROCESS_H

#include <stddef.h>
#include <sys/types.h>

/* What becomes which descriptor in the child; everything else is close-on-exec by the library's own rule, and the agent
 * closes what a careless host program left open. */
struct sb_spawn_fd {
    int from;
    int to; /* 0 … 31 */
};

/* Executes the program that `exe` is (a descriptor: opened file or sealed memfd) with argv and an empty environment, default
 * signals, an empty signal mask and a session of its own. 0 or -errno; -ENOEXEC, -EACCES tell that it can't be executed. */
int sb_spawn(int exe, char *const argv[], const struct sb_spawn_fd *fds, size_t n_fds, pid_t *ret_pid);
/* The same, with a pidfd; ret_pid may be NULL. Where that can't be had the process is killed and waited for. -ESRCH: it has ended, and the host program
 * has taken its end away. */
int sb_spawn_watched(int exe, char *const argv[], const struct sb_spawn_fd *fds, size_t n_fds, pid_t *ret_pid, int *ret_pidfd);
/* The same for a program of the machine's, which may be a script, with an environment. At least one descriptor. */
int sb_spawn_path(const char *path, char *const argv[], char *const env[], const struct sb_spawn_fd *fds, size_t n_fds, int *ret_pidfd);

#endif
