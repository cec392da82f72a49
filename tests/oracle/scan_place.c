/* SPDX-License-Identifier: Apache-2.0
 * Mounts, control groups, network links, loop devices, FUSE connections and files. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "oracle.h"

/* Calls back for each line of a process's mountinfo. */
static void each_mount(pid_t pid, void (*each)(char *line, void *arg), void *arg)
{
    char path[64], *line = NULL;
    size_t room = 0;
    ssize_t n;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/mountinfo", (int)pid);
    f = fopen(path, "re");
    while (f && (n = getline(&line, &room, f)) > 0) {
        line[n - 1] = 0;
        each(line, arg);
    }
    free(line);
    if (f)
        fclose(f);
}

static ino_t mount_namespace(pid_t pid)
{
    char path[64];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)pid);
    return stat(path, &st) < 0 ? 0 : st.st_ino;
}

struct mounts {
    struct oracle_set *set;
    ino_t ns;
};

static void add_mount(char *line, void *arg)
{
    struct mounts *m = arg;
    char *dash = strstr(line, " - "), root[2048], target[2048], type[64] = "", source[1024] = "";
    int id, parent;
    unsigned int major, minor;

    if (sscanf(line, "%d %d %u:%u %2047s %2047s", &id, &parent, &major, &minor, root, target) != 6)
        return;
    if (dash)
        sscanf(dash + 3, "%63s %1023s", type, source);
    oracle_add(m->set, "mount", "ns %llu: %d %u:%u %s on %s (%s %s)", (unsigned long long)m->ns, id, major, minor, root, target, type,
               source);
}

void oracle_scan_mounts(const struct oracle_processes *all, struct oracle_set *set)
{
    ino_t seen[1024];
    size_t n_seen = 0;

    for (size_t i = 0; i < all->n; i++) {
        struct mounts m = { set, 0 };
        size_t k;

        if (!all->p[i].ours && all->p[i].pid != getpid())
            continue;
        m.ns = mount_namespace(all->p[i].pid);
        for (k = 0; k < n_seen && seen[k] != m.ns; k++)
            ;
        if (m.ns == 0 || k < n_seen)
            continue;
        if (n_seen < sizeof seen / sizeof *seen)
            seen[n_seen++] = m.ns;
        each_mount(all->p[i].pid, add_mount, &m);
    }
}

struct groups {
    const struct oracle_scope *scope;
    struct oracle_set *set;
};

/* A group is ours when it is below the runner's own, or carries the id of a sandbox that is below one of our state roots. */
static int group_is_ours(const struct oracle_scope *scope, const char *path)
{
    char inside[4096];
    const char *own = scope->own_cgroup ? strstr(path, scope->own_cgroup) : NULL;

    if (own && own[strlen(scope->own_cgroup)] == '/')
        return 1;
    for (const char *part = strchr(path, '/'); part; part = strchr(part + 1, '/')) {
        size_t n = strcspn(part + 1, "/"), before = strlen("libsandbox-"), behind = strlen(".scope");
        const char *id = part + 1;

        if (n == 64 + before + behind && strncmp(id, "libsandbox-", before) == 0 && strncmp(id + before + 64, ".scope", behind) == 0) {
            id += before; /* the scope that systemd made for it */
            n = 64;
        }
        if (n != 64 || strspn(id, "0123456789abcdef") < 64)
            continue;
        for (size_t i = 0; i < scope->n_roots; i++) {
            snprintf(inside, sizeof inside, "%s/sandboxes/%.64s", scope->roots[i], id);
            if (access(inside, F_OK) == 0)
                return 1;
        }
    }
    return 0;
}

static void walk_groups(const struct groups *g, const char *path, int depth)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    struct stat st;
    char below[4096];

    while (dir && depth < 32 && (e = readdir(dir))) {
        if (e->d_name[0] == '.' || (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN))
            continue;
        if ((size_t)snprintf(below, sizeof below, "%s/%s", path, e->d_name) >= sizeof below || lstat(below, &st) < 0 ||
            !S_ISDIR(st.st_mode))
            continue;
        if (group_is_ours(g->scope, below))
            oracle_add(g->set, "cgroup", "%s (%llu)", below, (unsigned long long)st.st_ino);
        walk_groups(g, below, depth + 1);
    }
    if (dir)
        closedir(dir);
}

static void add_hierarchy(char *line, void *arg)
{
    char *dash = strstr(line, " - "), target[2048];

    if (!dash || strncmp(dash, " - cgroup", 9) != 0 || sscanf(line, "%*d %*d %*s %*s %2047s", target) != 1)
        return;
    walk_groups(arg, target, 0);
}

void oracle_scan_cgroups(const struct oracle_scope *scope, const struct oracle_processes *all, struct oracle_set *set)
{
    struct groups g = { scope, set };

    (void)all;
    each_mount(getpid(), add_hierarchy, &g);
}

void oracle_scan_links(struct oracle_set *set)
{
    struct if_nameindex *links = if_nameindex();

    for (struct if_nameindex *l = links; l && l->if_index; l++)
        oracle_add(set, "link", "%u %s", l->if_index, l->if_name);
    if (links)
        if_freenameindex(links);
}

/* Those whose file is below one of our folders: others are a neighbour's. */
void oracle_scan_loops(const struct oracle_scope *scope, struct oracle_set *set)
{
    DIR *dir = opendir("/sys/block");
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        char path[512], file[2048] = "";
        FILE *f;

        if (strncmp(e->d_name, "loop", 4) != 0)
            continue;
        snprintf(path, sizeof path, "/sys/block/%s/loop/backing_file", e->d_name);
        f = fopen(path, "re");
        if (!f)
            continue;
        if (fgets(file, sizeof file, f)) {
            file[strcspn(file, "\n")] = 0;
            for (size_t i = 0; i < scope->n_roots; i++)
                if (strncmp(file, scope->roots[i], strlen(scope->roots[i])) == 0)
                    oracle_add(set, "loop", "%s %s", e->d_name, file);
        }
        fclose(f);
    }
    if (dir)
        closedir(dir);
}

struct device {
    unsigned int minor;
    int found;
};

static void match_device(char *line, void *arg)
{
    struct device *d = arg;
    unsigned int major, minor;

    if (sscanf(line, "%*d %*d %u:%u", &major, &minor) == 2 && major == 0 && minor == d->minor)
        d->found = 1;
}

/* The connection's number is the minor of its file system: a neighbour's is mounted in a neighbour's namespace. */
static int is_neighbours(const struct oracle_processes *all, unsigned int minor)
{
    struct device d = { minor, 0 };

    for (size_t i = 0; i < all->n && !d.found; i++)
        if (!all->p[i].ours && all->p[i].pid != getpid())
            each_mount(all->p[i].pid, match_device, &d);
    return d.found;
}

void oracle_scan_fuse(const struct oracle_processes *all, struct oracle_set *set)
{
    DIR *dir = opendir("/sys/fs/fuse/connections");
    struct dirent *e;

    while (dir && (e = readdir(dir)))
        if (isdigit((unsigned char)e->d_name[0]) && !is_neighbours(all, (unsigned int)atoi(e->d_name)))
            oracle_add(set, "fuse", "connection %s", e->d_name);
    if (dir)
        closedir(dir);
}

/* Looks at an entry without entering a mount: a stat inside a FUSE file system whose daemon hangs would hang us too. */
static int look(int dir, const char *name, struct stat *ret)
{
    struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_NO_XDEV };
    int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof how);

    if (fd < 0) {
        memset(ret, 0, sizeof *ret);
        return errno == EXDEV ? 0 : -errno;
    }
    fstat(fd, ret);
    return fd;
}

static void walk_files(struct oracle_set *set, int at, const char *name, const char *path, int depth)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), entry;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    struct stat st;
    char below[4096];

    while (dir && depth < 64 && (e = readdir(dir))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            (size_t)snprintf(below, sizeof below, "%s/%s", path, e->d_name) >= sizeof below)
            continue;
        entry = look(fd, e->d_name, &st);
        if (entry < 0)
            continue;
        oracle_add(set, "file", "%s (%llu:%llu %o)", below, (unsigned long long)st.st_dev, (unsigned long long)st.st_ino,
                   st.st_mode & S_IFMT);
        if (entry > 0) {
            close(entry);
            if (S_ISDIR(st.st_mode))
                walk_files(set, fd, e->d_name, below, depth + 1);
        }
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

static void scan_names(struct oracle_set *set, const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *e;
    struct stat st;

    while (dir && (e = readdir(dir)))
        if (strncmp(e->d_name, "libsandbox", 10) == 0 && fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            oracle_add(set, "name", "%s/%s (%llu)", folder, e->d_name, (unsigned long long)st.st_ino);
    if (dir)
        closedir(dir);
}

void oracle_scan_files(const struct oracle_scope *scope, struct oracle_set *set)
{
    for (size_t i = 0; i < scope->n_roots; i++)
        walk_files(set, AT_FDCWD, scope->roots[i], scope->roots[i], 0);
    scan_names(set, "/dev/shm");
}
