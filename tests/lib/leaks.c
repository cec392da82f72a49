/* SPDX-License-Identifier: Apache-2.0
 * See leaks.h. Everything is read from /proc, which tells the truth about this process whoever made the thing. */
#include "leaks.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void die(const char *what)
{
    perror(what);
    abort();
}

static void add(struct leaks_list *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct leaks_list *list, const char *format, ...)
{
    va_list ap;
    char **more = realloc(list->names, (list->n + 1) * sizeof *more);

    if (!more)
        die("realloc");
    list->names = more;
    va_start(ap, format);
    if (vasprintf(&more[list->n++], format, ap) < 0)
        die("vasprintf");
    va_end(ap);
}

static void take_descriptors(struct leaks_list *list)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *d;

    if (!dir)
        die("/proc/self/fd");
    while ((d = readdir(dir))) {
        char target[PATH_MAX];
        ssize_t n;

        if (d->d_name[0] == '.' || atoi(d->d_name) == dirfd(dir))
            continue;
        n = readlinkat(dirfd(dir), d->d_name, target, sizeof target - 1);
        if (n < 0)
            continue;
        target[n] = 0;
        add(list, "descriptor %s -> %s", d->d_name, target);
    }
    closedir(dir);
}

/* Our own children, and the living ones of the runner (which reaps nothing that it adopted: their zombies are no leak). */
static void take_processes(struct leaks_snapshot *snapshot, pid_t runner)
{
    DIR *dir = opendir("/proc");
    struct dirent *d;

    if (!dir)
        die("/proc");
    while ((d = readdir(dir))) {
        char path[64], text[1024], state;
        char *name, *end;
        int fd, parent;
        ssize_t n;
        unsigned long long start;
        pid_t pid = atoi(d->d_name);

        if (pid <= 0 || pid == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        n = read(fd, text, sizeof text - 1);
        close(fd);
        if (n <= 0)
            continue;
        text[n] = 0;
        name = strchr(text, '('); /* a name may hold anything, also ')': the last one ends it */
        end = strrchr(text, ')');
        if (!name || !end ||
            sscanf(end + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state, &parent,
                   &start) != 3)
            continue;
        end[1] = 0;
        if (parent == getpid() && state == 'Z')
            add(&snapshot->lists[LEAKS_ZOMBIE], "zombie %d %s started %llu", pid, name, start);
        else if (parent == getpid() || (runner && parent == runner && state != 'Z'))
            add(&snapshot->lists[LEAKS_PROCESS], "process %d %s started %llu", pid, name, start);
    }
    closedir(dir);
}

static void take_mounts(struct leaks_list *list)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t size = 0;

    if (!file)
        die("/proc/self/mountinfo");
    while (getline(&line, &size, file) > 0) {
        int id, where = 0, length = 0;

        if (sscanf(line, "%d %*d %*s %*s %n%*s%n", &id, &where, &length) == 1 && length > where)
            add(list, "mount %d on %.*s", id, length - where, line + where);
    }
    free(line);
    fclose(file);
}

static void take_cgroups(struct leaks_list *list, const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *d;

    while (dir && (d = readdir(dir))) {
        char *below;
        struct stat st;

        if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..") ||
            fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
            continue;
        if (asprintf(&below, "%s/%s", path, d->d_name) < 0)
            die("asprintf");
        add(list, "cgroup %s inode %llu", below, (unsigned long long)st.st_ino);
        take_cgroups(list, below);
        free(below);
    }
    if (dir)
        closedir(dir);
}

void leaks_take(struct leaks_snapshot *snapshot, pid_t runner)
{
    const char *watched = getenv("SBTEST_CGROUP");
    char *copy = strdup(watched ? watched : ""), *save = NULL;

    if (!copy)
        die("strdup");
    memset(snapshot, 0, sizeof *snapshot);
    take_descriptors(&snapshot->lists[LEAKS_DESCRIPTOR]);
    take_processes(snapshot, runner);
    take_mounts(&snapshot->lists[LEAKS_MOUNT]);
    for (char *p = strtok_r(copy, ":", &save); p; p = strtok_r(NULL, ":", &save))
        take_cgroups(&snapshot->lists[LEAKS_CGROUP], p);
    free(copy);
}

void leaks_clear(struct leaks_snapshot *snapshot)
{
    for (int kind = 0; kind < LEAKS_KINDS; kind++) {
        for (size_t i = 0; i < snapshot->lists[kind].n; i++)
            free(snapshot->lists[kind].names[i]);
        free(snapshot->lists[kind].names);
    }
    memset(snapshot, 0, sizeof *snapshot);
}

static int has(const struct leaks_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (!strcmp(list->names[i], name))
            return 1;
    return 0;
}

size_t leaks_compare(const struct leaks_snapshot *then, const struct leaks_snapshot *now, unsigned int kinds, char *text, size_t size)
{
    size_t found = 0, used = 0;

    text[0] = 0;
    for (int kind = 0; kind < LEAKS_KINDS; kind++)
        for (size_t i = 0; (kinds >> kind & 1) && i < now->lists[kind].n; i++) {
            if (has(&then->lists[kind], now->lists[kind].names[i]))
                continue;
            found++;
            if (used < size)
                used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "; " : "", now->lists[kind].names[i]);
        }
    return found;
}
