/* SPDX-License-Identifier: Apache-2.0
 * See process.h. The descriptors are first moved above every target number, so that no order of dup2 overwrites a source. */
#include "process.h"

#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ABOVE = 32, MOST = 31 };

/* `path`, or (NULL) what the descriptor is. */
static int spawn(const char *program, int exe, char *const argv[], char *const env[], const struct sb_spawn_fd *fds, size_t n_fds, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int high[MOST + 1];
    size_t n = 0;
    char path[40];
    sigset_t all, none;
    pid_t pid;
    int r;

    if (n_fds > MOST)
        return -EINVAL;
    for (; n <= n_fds; n++) {
        high[n] = fcntl(n < n_fds ? fds[n].from : exe, F_DUPFD_CLOEXEC, ABOVE);
        if (high[n] < 0) {
            r = errno;
            goto close_high;
        }
    }
    r = posix_spawn_file_actions_init(&actions);
    if (r)
        goto close_high;
    r = posix_spawnattr_init(&attr);
    if (r)
        goto destroy_actions;
    for (size_t i = 0; i < n_fds && !r; i++)
        r = posix_spawn_file_actions_adddup2(&actions, high[i], fds[i].to);
    sigemptyset(&none);
    sigfillset(&all);
    if (!r)
        r = posix_spawnattr_setsigmask(&attr, &none);
    if (!r)
        r = posix_spawnattr_setsigdefault(&attr, &all);
    if (!r)
        r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    if (!r) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", high[n_fds]);
        r = posix_spawn(&pid, program ? program : path, &actions, &attr, argv, env);
    }
    if (!r)
        *ret_pid = pid;
    posix_spawnattr_destroy(&attr);
destroy_actions:
    posix_spawn_file_actions_destroy(&actions);
close_high:
    while (n > 0)
        sb_close(high[--n]);
    return -r;
}

/* Only while it is our child: a host program that ignores SIGCHLD, or waits for everything, may have let its number go. */
static void end_child(pid_t pid)
{
    siginfo_t info = { 0 };

    if (SB_RETRY(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL)) < 0)
        return;
    if (!info.si_pid)
        kill(pid, SIGKILL);
    SB_RETRY(waitpid(pid, NULL, __WALL));
}

/* The pidfd of a child that was just started. */
static int watch_child(pid_t pid, int *ret_pidfd)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), r;

    if (pidfd < 0) {
        r = -errno;
        end_child(pid);
        return r;
    }
    *ret_pidfd = pidfd;
    return 0;
}

int sb_spawn(int exe, char *const argv[], const struct sb_spawn_fd *fds, size_t n_fds, pid_t *ret_pid)
{
    char *const no_env[] = { NULL };

    return spawn(NULL, exe, argv, no_env, fds, n_fds, ret_pid);
}

int sb_spawn_watched(int exe, char *const argv[], const struct sb_spawn_fd *fds, size_t n_fds, pid_t *ret_pid, int *ret_pidfd)
{
    pid_t pid;
    int r = sb_spawn(exe, argv, fds, n_fds, &pid);

    if (!r)
        r = watch_child(pid, ret_pidfd);
    if (!r && ret_pid)
        *ret_pid = pid;
    return r;
}

int sb_spawn_path(const char *path, char *const argv[], char *const env[], const struct sb_spawn_fd *fds, size_t n_fds, int *ret_pidfd)
{
    pid_t pid;
    int r = n_fds ? spawn(path, fds[0].from, argv, env, fds, n_fds, &pid) : -EINVAL;

    return r ? r : watch_child(pid, ret_pidfd);
}
