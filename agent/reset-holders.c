/* SPDX-License-Identifier: Apache-2.0
 * Who has a mount in use, for people. The kernel itself refuses to unmount what is in use; this is to say who it is.
 *
 * All that is read here are names in /proc, which the sandbox's processes choose: they are bounded, made printable, and nothing is opened
 * by them. A process whose memory map can't be read now (it hangs in a file system) holds us up: we are a helper that can be killed. */
#include "reset-holders.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

enum { NAMED = 3, DESCRIPTORS = 65536, LINE = 8192 };

struct family {
    pid_t *pids, *parents;
    size_t n, room;
};

static pid_t parent_of(int proc, pid_t pid)
{
    char path[32], text[512], *end;
    SB_CLOSE int fd = -1;
    ssize_t n;
    int parent;

    snprintf(path, sizeof path, "%d/stat", (int)pid);
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : SB_RETRY(read(fd, text, sizeof text - 1));
    if (n <= 0)
        return -1;
    text[n] = 0;
    end = strrchr(text, ')'); /* behind the name, whatever is in it */
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : -1;
}

static void read_family(int proc, struct family *f)
{
    int copy = openat(proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *d;

    while (stream && (d = readdir(stream))) {
        int64_t pid;

        if (sb_parse_int(d->d_name, 1, INT32_MAX, &pid))
            continue;
        if (f->n == f->room) {
            size_t room = f->room ? 2 * f->room : 256;
            pid_t *pids = realloc(f->pids, room * sizeof *pids), *parents;

            f->pids = pids ? pids : f->pids;
            parents = pids ? realloc(f->parents, room * sizeof *parents) : NULL;
            if (!parents)
                break;
            f->parents = parents;
            f->room = room;
        }
        f->pids[f->n] = (pid_t)pid;
        f->parents[f->n++] = parent_of(proc, (pid_t)pid);
    }
    if (stream)
        closedir(stream);
    else
        sb_close(copy);
}

/* The children of those before `done`, moved behind them; at first that is init alone. */
static size_t gather(struct family *f, pid_t init)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++)
        if (f->pids[i] == init) {
            f->pids[i] = f->pids[0];
            f->parents[i] = f->parents[0];
            f->pids[0] = init;
            n = 1;
            break;
        }
    for (size_t done = 0; done < n; done++)
        for (size_t i = n; i < f->n; i++)
            if (f->parents[i] == f->pids[done]) {
                pid_t pid = f->pids[i], parent = f->parents[i];

                f->pids[i] = f->pids[n];
                f->parents[i] = f->parents[n];
                f->pids[n] = pid;
                f->parents[n++] = parent;
            }
    return n;
}

static int is_below(const char *name, const char *path)
{
    size_t n = strlen(path);

    return !strncmp(name, path, n) && (name[n] == '/' || name[n] == 0 || name[n] == ' '); /* " (deleted)" */
}

static int link_is_below(int dir, const char *name, const char *path, char *found, size_t size)
{
    ssize_t n = readlinkat(dir, name, found, size - 1);

    if (n <= 0)
        return 0;
    found[n] = 0;
    return is_below(found, path);
}

static int has_open(int process, const char *path, char *found, size_t size)
{
    int fds = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), seen = 0, r = 0;
    DIR *stream = fds < 0 ? NULL : fdopendir(fds);
    struct dirent *d;

    while (stream && !r && seen++ < DESCRIPTORS && (d = readdir(stream)))
        r = link_is_below(dirfd(stream), d->d_name, path, found, size);
    if (stream)
        closedir(stream);
    else
        sb_close(fds);
    return r;
}

static int has_mapped(int process, const char *path, char *found, size_t size)
{
    int fd = openat(process, "maps", O_RDONLY | O_CLOEXEC), r = 0;
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
    char line[LINE];

    while (maps && !r && fgets(line, sizeof line, maps)) {
        char *name = strchr(line, '/');

        if (!name)
            continue;
        name[strcspn(name, "\n")] = 0;
        r = is_below(name, path);
        if (r)
            snprintf(found, size, "%s", name);
    }
    if (maps)
        fclose(maps);
    else
        sb_close(fd);
    return r;
}

static const char *holds(int process, const char *path, char *found, size_t size)
{
    if (link_is_below(process, "cwd", path, found, size))
        return "works in";
    if (link_is_below(process, "root", path, found, size))
        return "has as its root";
    if (link_is_below(process, "exe", path, found, size))
        return "runs";
    if (has_open(process, path, found, size))
        return "has open";
    return has_mapped(process, path, found, size) ? "has mapped" : NULL;
}

static void make_printable(char *text)
{
    for (; *text; text++)
        if (!isprint((unsigned char)*text))
            *text = '?';
}

int ag_holders_find(int proc, pid_t init, const char *path, char *text, size_t size)
{
    struct family family = { 0 };
    size_t n, used = 0;
    int count = 0;

    *text = 0;
    read_family(proc, &family);
    n = gather(&family, init);
    for (size_t i = 1; i < n; i++) { /* not init: it holds nothing, and can't be looked into */
        char name[32], found[4096], command[32] = "?";
        const char *how;
        SB_CLOSE int process = -1, comm = -1;
        ssize_t length;

        snprintf(name, sizeof name, "%d", (int)family.pids[i]);
        process = openat(proc, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        how = process < 0 ? NULL : holds(process, path, found, sizeof found);
        if (!how)
            continue;
        if (count++ >= NAMED || used + 1 >= size)
            continue;
        comm = openat(process, "comm", O_RDONLY | O_CLOEXEC);
        length = comm < 0 ? 0 : read(comm, command, sizeof command - 1);
        if (length > 0)
            command[length - (command[length - 1] == '\n')] = 0;
        used += (size_t)snprintf(text + used, size - used, "%s%d (%.15s) %s %.48s", count > 1 ? ", " : "", (int)family.pids[i], command, how, found);
        if (used >= size)
            used = size - 1;
    }
    if (count > NAMED)
        snprintf(text + used, size - used, ", and %d more", count - NAMED);
    make_printable(text);
    free(family.pids);
    free(family.parents);
    return count;
}

/* Blanks and the like are octal in mountinfo. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from; from++)
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' && from[3] >= '0' && from[3] <= '7') {
            *to++ = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 3;
        } else {
            *to++ = *from;
        }
    *to = 0;
}

int ag_holders_mount(int proc, pid_t init, const char *path, int (*known)(const void *data, const char *place), const void *data, char *text,
                     size_t size)
{
    char name[40], line[LINE], *place;
    int fd, at_path = 0, r = 0;
    FILE *f;

    snprintf(name, sizeof name, "%d/mountinfo", (int)init);
    fd = openat(proc, name, O_RDONLY | O_CLOEXEC);
    f = fd < 0 ? NULL : fdopen(fd, "r");
    while (f && !r && fgets(line, sizeof line, f)) {
        char *save = NULL;

        place = strtok_r(line, " ", &save);
        for (int field = 1; place && field < 5; field++)
            place = strtok_r(NULL, " ", &save);
        if (!place)
            continue;
        unescape(place);
        if (!strcmp(place, path))
            r = at_path++ > 0; /* the overlay is one */
        else
            r = is_below(place, path) && place[strlen(path)] == '/' && !known(data, place);
        if (r)
            snprintf(text, size, "%.100s", place);
    }
    if (f)
        fclose(f);
    else
        sb_close(fd);
    make_printable(text);
    return r;
}
