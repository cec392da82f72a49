/* SPDX-License-Identifier: Apache-2.0
 * oracle run: one suite between two snapshots. What makes them exact:
 *  - this process is a subreaper, so that whatever the suite orphans stays below it and is reaped by it alone;
 *  - as root it has a mount and a network namespace and control groups of its own, so that a mount, link or group that is new
 *    there is the suite's;
 *  - TMPDIR is a new folder in which all the suite's files are to be, and which must be empty at the end.
 * What leaked is named, then killed and removed, so that one suite's leak is not the next one's failure. Exit status: the
 * command's; 1 when it was 0 (or 77, a skip) and something leaked. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "oracle.h"

static char folder[2048];
static char group[32];

static void loopback_up(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq r = { .ifr_name = "lo" };

    if (fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &r) == 0) {
        r.ifr_flags |= IFF_UP;
        if (ioctl(fd, SIOCSIFFLAGS, &r) < 0)
            perror("oracle: lo up");
    }
    if (fd >= 0)
        close(fd);
}

/* Where root can't have them, all else still holds. */
static void own_namespaces(void)
{
    if (geteuid() != 0)
        return;
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0) {
        (void)mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777"); /* so that its names are the suite's alone */
        (void)mount("fusectl", "/sys/fs/fuse/connections", "fusectl", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    }
    if (unshare(CLONE_NEWNET) == 0)
        loopback_up();
}

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC), r = 0;

    if (fd < 0)
        return -errno;
    if (write(fd, text, strlen(text)) < 0)
        r = -errno;
    close(fd);
    return r;
}

/* Calls back with the path of this process's group in each hierarchy. */
static void each_hierarchy(void (*each)(const char *path))
{
    char line[4096], target[2048], path[4200], groups[2048];
    FILE *mounts = fopen("/proc/self/mountinfo", "re");

    while (mounts && fgets(line, sizeof line, mounts)) {
        char *dash = strstr(line, " - cgroup"), *options = dash ? strrchr(dash, ' ') : NULL;
        FILE *own;

        if (!options || sscanf(line, "%*d %*d %*s %*s %2047s", target) != 1)
            continue;
        own = fopen("/proc/self/cgroup", "re");
        while (own && fgets(groups, sizeof groups, own)) {
            char *controllers = strchr(groups, ':') + 1, *where = strchr(controllers, ':');

            groups[strcspn(groups, "\n")] = 0;
            *where++ = 0;
            if (strncmp(dash, " - cgroup2", 10) == 0 ? *controllers == 0 : *controllers && strstr(options, controllers)) {
                snprintf(path, sizeof path, "%s%s", target, strcmp(where, "/") == 0 ? "" : where);
                each(path);
                break;
            }
        }
        if (own)
            fclose(own);
    }
    if (mounts)
        fclose(mounts);
}

/* The root of cgroup v2 is the one group that may have processes and give controllers to those below: a suite that left it for a group of
 * its own would have no limits. */
static int is_giving_root(const char *path)
{
    char file[4400], controllers[512] = "";
    FILE *f;

    snprintf(file, sizeof file, "%s/cgroup.type", path);
    if (access(file, F_OK) == 0)
        return 0;
    snprintf(file, sizeof file, "%s/cgroup.controllers", path);
    f = fopen(file, "re");
    if (f && !fgets(controllers, sizeof controllers, f))
        *controllers = 0;
    if (f)
        fclose(f);
    return strstr(controllers, "memory") != NULL;
}

static void enter_group(const char *path)
{
    char own[4400], procs[4500];

    if (is_giving_root(path))
        return;
    snprintf(own, sizeof own, "%s/%s", path, group);
    snprintf(procs, sizeof procs, "%s/cgroup.procs", own);
    if (mkdir(own, 0755) < 0)
        return;
    if (write_text(procs, "0") < 0) /* cpuset without cpus, or a v2 group that has domains below it */
        rmdir(own);
}

static int remove_group(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    if (type == FTW_DP)
        rmdir(path);
    return 0;
}

static void leave_group(const char *path)
{
    char *last = strrchr(path, '/'), procs[4500], parent[4400];

    if (!last || strcmp(last + 1, group) != 0)
        return;
    snprintf(parent, sizeof parent, "%.*s", (int)(last - path), path);
    snprintf(procs, sizeof procs, "%s/cgroup.procs", parent);
    (void)write_text(procs, "0");
    nftw(path, remove_group, 16, FTW_DEPTH | FTW_PHYS);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    if (type == FTW_DNR && chmod(path, 0700) == 0)
        return 0;
    remove(path);
    return 0;
}

static void remove_folder(void)
{
    /* twice: a folder of mode 0000 (overlay's work/work) is opened up by the first pass */
    for (int i = 0; i < 2; i++)
        nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static void kill_leftovers(const struct oracle_scope *scope)
{
    for (int round = 0; round < 50; round++) {
        struct oracle_processes all = { 0 };
        struct oracle_set none = { 0 };
        size_t left = 0;

        oracle_scan_processes(scope, &none, &all);
        for (size_t i = 0; i < all.n; i++)
            if (all.p[i].ours && all.p[i].state != 'Z' && ++left)
                kill(all.p[i].pid, SIGKILL);
        free(all.p);
        oracle_clear(&none);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (left == 0)
            return;
        usleep(20000);
    }
}

static int run_command(char **argv)
{
    pid_t pid = fork(), got;
    int status = 0;

    if (pid < 0) {
        perror("oracle: fork");
        return 125;
    }
    if (pid == 0) {
        execvp(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    while ((got = waitpid(-1, &status, 0)) != pid) /* the others are orphans that came to us */
        if (got < 0 && errno != EINTR)
            return 125;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int oracle_run(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    struct oracle_scope scope = { .tree = getpid(), .own_cgroup = group };
    struct oracle_set before = { 0 };
    int at = 0, status;
    size_t n;

    for (; at + 1 < argc && strcmp(argv[at], "--root") == 0 && scope.n_roots < ORACLE_ROOTS_MAX - 1; at += 2)
        scope.roots[scope.n_roots++] = argv[at + 1];
    if (at < argc && strcmp(argv[at], "--") == 0)
        at++;
    if (at >= argc)
        return 125;
    snprintf(folder, sizeof folder, "%s/sbtest-run-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || !mkdtemp(folder) || chmod(folder, 0755) < 0) {
        perror("oracle: prepare");
        return 125;
    }
    setenv("TMPDIR", folder, 1);
    scope.roots[scope.n_roots++] = folder;
    snprintf(group, sizeof group, "sbtest-%d", (int)getpid());
    own_namespaces();
    if (geteuid() == 0)
        each_hierarchy(enter_group);
    oracle_snapshot(&scope, &before);
    status = run_command(argv + at);
    n = oracle_compare(&scope, &before, stderr);
    if (n > 0)
        fprintf(stderr, "oracle: %zu leaks after %s (+ came, - went)\n", n, argv[at]);
    kill_leftovers(&scope);
    if (geteuid() == 0)
        each_hierarchy(leave_group);
    remove_folder();
    oracle_clear(&before);
    return n > 0 && (status == 0 || status == 77) ? 1 : status;
}
