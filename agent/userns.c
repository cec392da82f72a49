/* SPDX-License-Identifier: Apache-2.0
 * See userns.h. Every file below /proc is opened from one descriptor that was checked to be a procfs, so that a file system
 * mounted over /proc never receives, or answers for, these writes. */
#include "userns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

int ag_is_procfs(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static int write_proc(int proc, pid_t pid, const char *file, const char *text)
{
    char path[64];
    SB_CLOSE int fd = -1;

    snprintf(path, sizeof path, "%d/%s", (int)pid, file);
    fd = sb_open_beneath(proc, path, O_WRONLY, 0);
    if (fd < 0)
        return fd;
    if (!ag_is_procfs(fd))
        return -EXDEV;
    return sb_write_all(fd, text, strlen(text));
}

/* newuidmap and newgidmap are setuid (or have file capabilities) and check /etc/subuid themselves. */
static int run_helper(const char *name, char *const argv[])
{
    char path[64];
    char *const env[] = { NULL };
    siginfo_t info;
    pid_t pid = fork();

    if (pid < 0)
        return -errno;
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null >= 0) {
            dup2(null, 0);
            dup2(null, 1);
            dup2(null, 2);
        }
        snprintf(path, sizeof path, "/usr/bin/%s", name);
        execve(path, argv, env);
        snprintf(path, sizeof path, "/bin/%s", name);
        execve(path, argv, env);
        _exit(errno == ENOENT ? 127 : 126);
    }
    if (SB_RETRY(waitid(P_PID, (id_t)pid, &info, WEXITED)) < 0)
        return -errno;
    if (info.si_code == CLD_EXITED && info.si_status == 0)
        return 0;
    return info.si_code == CLD_EXITED && info.si_status == 127 ? -ENOENT : -EPERM;
}

static int map_by_helper(pid_t pid, const char *name, uint32_t self, uint32_t start, uint32_t count)
{
    char text[6][16];
    char *argv[9] = { (char *)name };

    snprintf(text[0], sizeof text[0], "%d", (int)pid);
    snprintf(text[1], sizeof text[1], "0");
    snprintf(text[2], sizeof text[2], "%u", self);
    snprintf(text[3], sizeof text[3], "1");
    snprintf(text[4], sizeof text[4], "%u", start);
    snprintf(text[5], sizeof text[5], "%u", count);
    argv[1] = text[0];
    argv[2] = text[1];
    argv[3] = text[2];
    argv[4] = text[3];
    argv[5] = text[3];
    argv[6] = text[4];
    argv[7] = text[5];
    return run_helper(name, argv);
}

/* An extent of a map must lie within one extent of the map above it, and a user's outer map has two: its own id, and its range. So the
 * maps below it ("0 is 0") are written in two as well. */
static void format_map(char *text, size_t size, uint32_t start, uint32_t count)
{
    if (start == 0 && count > 1)
        snprintf(text, size, "0 0 1\n1 1 %u\n", count - 1);
    else
        snprintf(text, size, "0 %u %u\n", start, count);
}

int ag_userns_map(int proc, pid_t pid, const struct sb_idmap *map)
{
    char text[64];
    int r;

    switch (map->privilege) {
    case SB_PRIVILEGE_ROOT:
        format_map(text, sizeof text, map->uid_start, map->count);
        r = write_proc(proc, pid, "uid_map", text);
        if (r)
            return r;
        format_map(text, sizeof text, map->gid_start, map->count);
        return write_proc(proc, pid, "gid_map", text);
    case SB_PRIVILEGE_SUBIDS:
        r = map_by_helper(pid, "newuidmap", map->uid, map->uid_start, map->count - 1);
        return r ? r : map_by_helper(pid, "newgidmap", map->gid, map->gid_start, map->count - 1);
    case SB_PRIVILEGE_SINGLE:
        r = write_proc(proc, pid, "setgroups", "deny");
        if (r)
            return r;
        snprintf(text, sizeof text, "0 %u 1\n", map->uid);
        r = write_proc(proc, pid, "uid_map", text);
        if (r)
            return r;
        snprintf(text, sizeof text, "0 %u 1\n", map->gid);
        return write_proc(proc, pid, "gid_map", text);
    default:
        return -EINVAL;
    }
}

/* Ends with its maker, whose pid it is given, even if that is killed. Who takes in orphans need not be pid 1. */
static int hold(void *maker)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (syscall(SYS_getppid) != (intptr_t)maker)
        _exit(1);
    for (;;)
        pause();
    return 0;
}

/* The soft limit of processes at the moment when a user namespace is made bounds all ids of it together, but not for a maker who is the
 * machine's root; and what is counted, it is counted at its owner. So the owner is the sandbox's own root, with the rights of ours. */
static int limit_processes(const struct sb_idmap *map, uint64_t most)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];
    struct rlimit limit;

    if (!most || getrlimit(RLIMIT_NPROC, &limit) < 0)
        return most ? -1 : 0;
    if (most + 8 < limit.rlim_cur) /* the margin is for execs of another id while one has used up its own limit */
        limit.rlim_cur = most + 8;
    if (setrlimit(RLIMIT_NPROC, &limit) < 0)
        return -1;
    if (map->privilege != SB_PRIVILEGE_ROOT || !map->uid_start) /* within a user's own namespace nobody is the machine's root */
        return 0;
    if (prctl(PR_SET_KEEPCAPS, 1) < 0 || setresgid(map->gid_start, map->gid_start, map->gid_start) < 0 ||
        setresuid(map->uid_start, map->uid_start, map->uid_start) < 0 || syscall(SYS_capget, &header, data) < 0)
        return -1;
    for (int i = 0; i < 2; i++)
        data[i].effective = data[i].permitted;
    return syscall(SYS_capset, &header, data) < 0 ? -1 : 0;
}

/* For a limit; and where we are in a chroot, in which the kernel makes no user namespace: a child that enters its own mount namespace anew
 * stands at the real root; we can't, as long as paths are to be opened. */
static pid_t fork_holder(int proc, const struct sb_idmap *map, uint64_t nproc_max)
{
    const pid_t maker = getpid();
    int ready[2];
    char byte = 0;
    pid_t pid;

    if (pipe2(ready, O_CLOEXEC) < 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        int fd = openat(proc, "self/ns/mnt", O_RDONLY | O_CLOEXEC);

        if (fd >= 0 && setns(fd, CLONE_NEWNS) == 0 && limit_processes(map, nproc_max) == 0 && unshare(CLONE_NEWUSER) == 0 &&
            write(ready[1], &byte, 1) == 1)
            hold((void *)(intptr_t)maker);
        _exit(errno == ENOSPC ? 2 : 1);
    }
    sb_close(ready[1]);
    if (pid > 0 && SB_RETRY(read(ready[0], &byte, 1)) != 1) {
        int status = 0;

        SB_RETRY(waitpid(pid, &status, 0));
        errno = WIFEXITED(status) && WEXITSTATUS(status) == 2 ? ENOSPC : EPERM;
        pid = -1;
    }
    sb_close(ready[0]);
    return pid;
}

/* Lets a holder go, and keeps its namespace when r, of its maps, is 0. */
static int keep_namespace(int proc, pid_t pid, int r)
{
    char path[64];
    int fd;

    snprintf(path, sizeof path, "%d/ns/user", (int)pid);
    fd = r ? r : openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && !r)
        fd = -errno;
    kill(pid, SIGKILL);
    SB_RETRY(waitpid(pid, NULL, 0));
    return fd;
}

static pid_t start_holder(int proc, const struct sb_idmap *map, uint64_t nproc_max)
{
    static _Alignas(16) char stack[16384]; /* of a process that shares our memory: nothing is copied for its short life */
    pid_t pid = -1;

    if (!nproc_max)
        pid = clone(hold, stack + sizeof stack, CLONE_NEWUSER | CLONE_VM | SIGCHLD, (void *)(intptr_t)getpid());
    if (pid < 0 && (nproc_max || errno == EPERM))
        pid = fork_holder(proc, map, nproc_max);
    return pid;
}

int ag_userns_hold(int proc, const struct sb_idmap *map, uint64_t nproc_max)
{
    pid_t pid = start_holder(proc, map, nproc_max);

    return pid < 0 ? -errno : keep_namespace(proc, pid, ag_userns_map(proc, pid, map));
}

/* The owner's number is 0's; what was 0 and what had the owner's number inside have no counterpart. */
static void format_owner(char *text, size_t size, uint32_t owner, uint32_t start, uint32_t count)
{
    int n;

    if (!owner) {
        format_map(text, size, start, count);
        return;
    }
    n = snprintf(text, size, "%u %u 1\n", owner, start);
    if (owner > 1)
        n += snprintf(text + n, size - (size_t)n, "1 %u %u\n", start + 1, owner < count ? owner - 1 : count - 1);
    if (owner + 1 < count)
        snprintf(text + n, size - (size_t)n, "%u %u %u\n", owner + 1, start + owner + 1, count - owner - 1);
}

int ag_userns_hold_owner(int proc, const struct sb_idmap *map, uint32_t uid, uint32_t gid)
{
    pid_t pid = start_holder(proc, map, 0);
    char text[128];
    int r;

    if (pid < 0)
        return -errno;
    format_owner(text, sizeof text, uid, map->uid_start, map->count);
    r = write_proc(proc, pid, "uid_map", text);
    format_owner(text, sizeof text, gid, map->gid_start, map->count);
    if (!r)
        r = write_proc(proc, pid, "gid_map", text);
    return keep_namespace(proc, pid, r);
}
