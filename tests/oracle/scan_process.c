/* SPDX-License-Identifier: Apache-2.0
 * Processes, zombies, the namespaces that they live in or hold open, and the descriptors of one of them. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "oracle.h"

static const char *const namespaces[] = { "net", "user", "pid", "mnt", "ipc", "uts", "cgroup", "time" };

static int read_stat(pid_t pid, struct oracle_process *ret)
{
    char path[64], text[1024], *open, *close;
    FILE *f;
    size_t n;
    int parent;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return -1;
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    open = strchr(text, '(');
    close = strrchr(text, ')'); /* a name may hold any byte, also ") R 1" */
    if (!open || !close)
        return -1;
    *close = 0;
    ret->pid = pid;
    snprintf(ret->comm, sizeof ret->comm, "%s", open + 1);
    if (sscanf(close + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &ret->state, &parent,
               &ret->start) != 3)
        return -1;
    ret->parent = parent;
    return 0;
}

static struct oracle_process *find(const struct oracle_processes *all, pid_t pid)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->p[i].pid == pid)
            return &all->p[i];
    return NULL;
}

static int descends(const struct oracle_processes *all, const struct oracle_process *p, pid_t tree)
{
    for (int depth = 0; p && depth < 4096; depth++) {
        if (p->parent == tree)
            return 1;
        p = find(all, p->parent);
    }
    return 0;
}

/* This process and those above it, up to the tree's root, are the instrument. */
static int is_instrument(const struct oracle_processes *all, pid_t pid)
{
    for (const struct oracle_process *p = find(all, getpid()); p; p = find(all, p->parent))
        if (p->pid == pid)
            return 1;
    return 0;
}

void oracle_scan_processes(const struct oracle_scope *scope, struct oracle_set *set, struct oracle_processes *ret_all)
{
    pid_t tree = scope->tree ? scope->tree : getpid();
    DIR *proc = opendir("/proc");
    struct dirent *e;
    size_t room = 0;

    while (proc && (e = readdir(proc))) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        if (ret_all->n == room) {
            room = room ? 2 * room : 256;
            ret_all->p = realloc(ret_all->p, room * sizeof *ret_all->p);
            if (!ret_all->p)
                abort();
        }
        memset(&ret_all->p[ret_all->n], 0, sizeof *ret_all->p);
        if (read_stat(atoi(e->d_name), &ret_all->p[ret_all->n]) == 0)
            ret_all->n++;
    }
    if (proc)
        closedir(proc);
    for (size_t i = 0; i < ret_all->n; i++) {
        struct oracle_process *p = &ret_all->p[i];

        p->ours = descends(ret_all, p, tree) && !is_instrument(ret_all, p->pid);
        if (p->ours)
            oracle_add(set, p->state == 'Z' ? "zombie" : "process", "%d:%llu %s", (int)p->pid, p->start, p->comm);
    }
}

static int is_namespace_link(const char *target)
{
    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
        size_t n = strlen(namespaces[i]);
        if (strncmp(target, namespaces[i], n) == 0 && target[n] == ':' && target[n + 1] == '[')
            return 1;
    }
    return 0;
}

/* A namespace that nobody lives in is kept alive by a descriptor just the same. */
static void scan_held(pid_t pid, struct oracle_set *set)
{
    char path[300], target[256];
    struct dirent *e;
    ssize_t n;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    while (dir && (e = readdir(dir))) {
        n = readlinkat(dirfd(dir), e->d_name, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = 0;
        if (is_namespace_link(target))
            oracle_add(set, "namespace", "%s", target);
    }
    if (dir)
        closedir(dir);
}

void oracle_scan_namespaces(const struct oracle_processes *all, struct oracle_set *set)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct oracle_process *p = &all->p[i];

        if (!p->ours && p->pid != getpid())
            continue;
        for (size_t k = 0; k < sizeof namespaces / sizeof *namespaces; k++) {
            char path[64], target[64];
            ssize_t n;

            snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)p->pid, namespaces[k]);
            n = readlink(path, target, sizeof target - 1);
            if (n <= 0)
                continue;
            target[n] = 0;
            oracle_add(set, "namespace", "%s", target);
        }
        scan_held(p->pid, set);
    }
}

void oracle_scan_fds(pid_t pid, struct oracle_set *set)
{
    char path[64], target[4096];
    struct dirent *e;
    struct stat st;
    ssize_t n;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    while (dir && (e = readdir(dir))) {
        if (e->d_name[0] == '.' || (pid == getpid() && atoi(e->d_name) == dirfd(dir)))
            continue;
        n = readlinkat(dirfd(dir), e->d_name, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = 0;
        if (fstatat(dirfd(dir), e->d_name, &st, 0) < 0)
            memset(&st, 0, sizeof st);
        oracle_add(set, "descriptor", "%d/%s -> %s (%llu:%llu)", (int)pid, e->d_name, target, (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino);
    }
    if (dir)
        closedir(dir);
}
