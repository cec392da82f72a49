/* SPDX-License-Identifier: Apache-2.0
 * What a process is, what it holds, and what it can do to pid 1. */
#include "guest.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

int probe_status(void)
{
    static const char *const wanted[] = { "Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:",
                                          "Seccomp:", "SigBlk:", "SigIgn:" };
    FILE *f = fopen("/proc/self/status", "re");
    char line[512], cwd[4096];

    if (!f)
        return 1;
    while (fgets(line, sizeof line, f))
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (strncmp(line, wanted[i], strlen(wanted[i])) == 0) {
                char *value = line + strlen(wanted[i]);

                value += strspn(value, " \t");
                value[strcspn(value, "\n")] = 0;
                for (size_t n = strlen(value); n && isspace((unsigned char)value[n - 1]); n--)
                    value[n - 1] = 0;
                printf("%s %s\n", wanted[i], value);
            }
    fclose(f);
    probe_say("pid", "%d", (int)getpid());
    probe_say("cwd", "%s", getcwd(cwd, sizeof cwd) ? cwd : probe_errno(errno));
    return probe_fds();
}

int probe_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *e;
    char target[4096], name[300];
    ssize_t n;

    if (!dir)
        return 1;
    while ((e = readdir(dir))) {
        if (e->d_name[0] == '.' || atoi(e->d_name) == dirfd(dir))
            continue;
        n = readlinkat(dirfd(dir), e->d_name, target, sizeof target - 1);
        target[n < 0 ? 0 : n] = 0;
        snprintf(name, sizeof name, "fd %s", e->d_name);
        probe_say(name, "%s", target);
    }
    closedir(dir);
    return 0;
}

int probe_dev(void)
{
    DIR *dir = opendir("/dev");
    struct dirent *e;
    struct stat st;

    if (!dir)
        return 1;
    while ((e = readdir(dir))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            probe_say(e->d_name, "%s", probe_errno(errno));
        else
            probe_say(e->d_name, "%c %u:%u %o", S_ISCHR(st.st_mode) ? 'c' : S_ISBLK(st.st_mode) ? 'b' : S_ISDIR(st.st_mode) ? 'd' :
                      S_ISLNK(st.st_mode) ? 'l' : '-', major(st.st_rdev), minor(st.st_rdev), st.st_mode & 07777);
    }
    closedir(dir);
    return 0;
}

static void try_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);

    probe_say(path, "%s", probe_errno(fd < 0 ? errno : 0));
    if (fd >= 0)
        close(fd);
}

static void try_read(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, &byte, 1);

    probe_say(path, "%s", n < 0 ? probe_errno(errno) : n == 0 ? "empty" : "ok");
    if (fd >= 0)
        close(fd);
}

int probe_init(void)
{
    static const char *const spaces[] = { "mnt", "pid", "net", "user", "ipc", "uts", "cgroup" };
    char byte;
    struct iovec here = { &byte, 1 }, there = { (void *)0x400000, 1 };

    try_open("/proc/1/root", O_RDONLY | O_DIRECTORY);
    try_open("/proc/1/cwd", O_RDONLY | O_DIRECTORY);
    try_open("/proc/1/exe", O_RDONLY);
    try_open("/proc/1/mem", O_RDWR);
    try_open("/proc/1/fd", O_RDONLY | O_DIRECTORY);
    try_read("/proc/1/environ");
    try_read("/proc/1/maps");
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        char path[64];

        snprintf(path, sizeof path, "/proc/1/ns/%s", spaces[i]);
        try_open(path, O_RDONLY);
    }
    probe_say("ptrace", "%s", probe_errno(ptrace(PTRACE_SEIZE, 1, NULL, NULL) < 0 ? errno : 0));
    probe_say("process_vm_readv", "%s", probe_errno(process_vm_readv(1, &here, 1, &there, 1, 0) < 0 ? errno : 0));
    probe_say("kill", "%s", probe_errno(kill(1, SIGKILL) < 0 ? errno : 0));
    probe_say("stop", "%s", probe_errno(kill(1, SIGSTOP) < 0 ? errno : 0));
    return 0;
}

/* Tries to get a writable or changeable handle on what each process executes, while execs are made beside us. */
int probe_exes(int seconds)
{
    time_t end = time(NULL) + seconds;
    unsigned long tries = 0, writable = 0, changed = 0;

    while (time(NULL) < end) {
        DIR *dir = opendir("/proc");
        struct dirent *e;

        while (dir && (e = readdir(dir))) {
            char path[300], target[4096];
            ssize_t n;
            int fd;

            if (!isdigit((unsigned char)e->d_name[0]) || atoi(e->d_name) == getpid())
                continue;
            snprintf(path, sizeof path, "/proc/%s/exe", e->d_name);
            n = readlink(path, target, sizeof target - 1);
            if (n <= 0)
                continue;
            target[n] = 0;
            tries++;
            if (!strstr(target, "agent") && !strstr(target, "memfd"))
                continue; /* the sandbox's own programs are its own to change */
            fd = open(path, O_WRONLY | O_CLOEXEC);
            if (fd >= 0 || errno == ETXTBSY) {
                writable += fd >= 0;
                if (fd >= 0)
                    close(fd);
            }
            if (chmod(path, 04755) == 0 || utimensat(AT_FDCWD, path, NULL, 0) == 0 || setxattr(path, "user.x", "x", 1, 0) == 0)
                changed++;
        }
        if (dir)
            closedir(dir);
    }
    probe_say("tries", "%lu", tries);
    probe_say("writable", "%lu", writable);
    probe_say("changed", "%lu", changed);
    return 0;
}
