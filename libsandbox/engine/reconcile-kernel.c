/* SPDX-License-Identifier: Apache-2.0
 * reconcile, outside of the state root: mounts in it, processes, control groups, id ranges. Another state root's sandboxes, and another user's,
 * may look just like ours from here. What is ours is known by the claims on id ranges, which name the state root and are made before anything
 * else of root's sandboxes; and, without ranges, by a keeper's log folder, which is below ours. */
#include "reconcile.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fs.h>
#include <json.h>

enum { AGAIN_MS = 1000, KILL_MS = 2000 };

/* ---- whose an id is ---- */

enum claim { CLAIM_NONE, CLAIM_OURS, CLAIM_OTHER };

struct look {
    const char *prefix, *id;
    enum claim found;
};

static int compare_holder(void *data, const char *holder)
{
    struct look *l = data;
    const char *tab = strrchr(holder, '\t');

    if (tab && !strncmp(tab + 1, l->id, SB_ID_SIZE - 1))
        l->found = !strncmp(holder, l->prefix, strlen(l->prefix)) ? CLAIM_OURS : CLAIM_OTHER;
    return 0; /* nothing is released */
}

static enum claim claim_on(struct sb_engine *engine, const char *id)
{
    SB_FREE char *prefix = engine->map.privilege == SB_PRIVILEGE_ROOT ? sb_record_holder_prefix(engine) : NULL;
    struct look l = { prefix, id, CLAIM_NONE };

    if (prefix)
        sb_ids_sweep(&(struct sb_ids_others){ "", compare_holder, &l });
    return l.found;
}

/* The first id behind a mark in a text, with what follows it: the state root's own path may have such a part, too. */
static int id_after(const char *text, const char *mark, const char *suffix, char id[SB_ID_SIZE])
{
    for (const char *at = strstr(text, mark), *end; at; at = strstr(at, mark)) {
        at += strlen(mark);
        if (strlen(at) < SB_ID_SIZE - 1)
            return 0;
        memcpy(id, at, SB_ID_SIZE - 1);
        id[SB_ID_SIZE - 1] = 0;
        end = at + SB_ID_SIZE - 1;
        if (sb_id_valid(id) && !strncmp(end, suffix, strlen(suffix)) &&
            (end += strlen(suffix), *end == '/' || *end == '\n' || !*end))
            return 1;
        at--; /* the mark's last "/" may begin the next one */
    }
    return 0;
}

/* Of a group's folder or the line of one in /proc/PID/cgroup: ours, or a scope of systemd's that is ours. */
static int id_of_group(const char *text, char id[SB_ID_SIZE])
{
    return id_after(text, "/libsandbox/", "", id) || id_after(text, "/libsandbox-", ".scope", id);
}

/* ---- processes ---- */

/* A process in the group of a sandbox of ours (root's, by its claim). */
static int is_inside(struct sb_engine *engine, const char *pid, char id[SB_ID_SIZE])
{
    SB_FREE char *text = NULL;
    char path[300];

    snprintf(path, sizeof path, "/proc/%s/cgroup", pid);
    return engine->map.privilege == SB_PRIVILEGE_ROOT && !sb_read_file(AT_FDCWD, path, 65536, &text, NULL) &&
           id_of_group(text, id);
}

/* Whether a process' log folder is in a sandbox's folder of our state root: the root itself, and not its path. Where a container's processes are
 * seen from here, its path may read like ours, and its living sandboxes are none that we know. Also of folders that were removed already. */
static int is_below_root(const struct sb_engine *engine, const char *path)
{
    SB_CLOSE int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat ours, theirs;

    return fd >= 0 && fstatat(fd, "../../..", &theirs, 0) == 0 && fstat(engine->root, &ours) == 0 &&
           ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* A keeper that writes below our state root. */
static int is_keeper(struct sb_engine *engine, const char *pid, char id[SB_ID_SIZE])
{
    SB_FREE char *comm = NULL;
    char path[300], target[4200];
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%s/comm", pid);
    if (sb_read_file(AT_FDCWD, path, 64, &comm, NULL) || strcmp(comm, "sandbox-keeper\n"))
        return 0;
    snprintf(path, sizeof path, "/proc/%s/fd/%d", pid, SB_FD_LOG);
    n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return 0;
    target[n] = 0;
    return (id_after(target, "/sandboxes/", "", id) || id_after(target, "/trash/", "", id)) && is_below_root(engine, path);
}

static int end_process(struct sb_engine *engine, const char *pid, const char *id, int inside)
{
    struct sb_identity identity;
    struct pollfd p = { .events = POLLIN };
    char again[SB_ID_SIZE];
    SB_CLOSE int fd = -1;

    if (sb_identity_read((pid_t)strtol(pid, NULL, 10), engine->self.boot, &identity) ||
        (fd = sb_identity_find(&engine->self, &identity)) < 0)
        return 0; /* it has ended */
    /* held now: is it still the one that was looked at? */
    if (!(inside ? is_inside(engine, pid, again) : is_keeper(engine, pid, again)) || strcmp(id, again))
        return 0;
    syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    p.fd = fd;
    return poll(&p, 1, KILL_MS) == 1 ? 0 : -EBUSY;
}

static void look_at_process(struct sb_reconcile *rc, const char *pid)
{
    char id[SB_ID_SIZE], name[SB_ID_SIZE + 64];
    int inside = is_inside(rc->engine, pid, id), r;
    struct sb_identity before, after;

    if ((!inside && !is_keeper(rc->engine, pid, id)) ||
        sb_identity_read((pid_t)strtol(pid, NULL, 10), rc->engine->self.boot, &before) || !sb_reconcile_is_gone(rc, id) ||
        (inside && claim_on(rc->engine, id) != CLAIM_OURS) ||
        sb_identity_read((pid_t)strtol(pid, NULL, 10), rc->engine->self.boot, &after) || !sb_identity_equal(&before, &after))
        return;
    r = rc->dry ? 0 : end_process(rc->engine, pid, id, inside);
    snprintf(name, sizeof name, "%s (sandbox %.12s)", pid, id);
    sb_reconcile_found(rc, "process", name,
                       inside ? "in the group of a sandbox that is no more" : "a keeper whose sandbox is no more", r);
}

int sb_reconcile_processes(struct sb_reconcile *rc)
{
    DIR *proc = opendir("/proc");
    struct dirent *d;

    while (proc && (d = readdir(proc)))
        if (isdigit((unsigned char)d->d_name[0]))
            look_at_process(rc, d->d_name);
    if (proc)
        closedir(proc);
    return 0;
}

/* ---- mounts ---- */

/* Below the trash, or a sandbox that is no more: our removal stops at them. We make none there in this mount namespace. */
int sb_reconcile_mounts(struct sb_reconcile *rc)
{
    SB_FREE char *text = NULL, *root = NULL;
    char *save = NULL;

    if (rc->engine->map.privilege != SB_PRIVILEGE_ROOT || sb_read_file(AT_FDCWD, "/proc/self/mountinfo", 16 << 20, &text, NULL) ||
        asprintf(&root, "%s/trash/", rc->engine->root_path) < 0)
        return 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char point[4096], id[SB_ID_SIZE];

        if (sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1 || strncmp(point, root, strlen(root)) ||
            !id_after(point, "/trash/", "", id) || sb_owner_has(rc->engine, id))
            continue;
        sb_reconcile_found(
            rc, "mount", point, "on what is left of a delete",
            !rc->dry && umount2(point, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 && errno != EINVAL && errno != ENOENT ? -errno : 0);
    }
    return 0;
}

/* ---- control groups ---- */

/* 1: processes are in it or below; 0: none; negative: it is gone, or can't be told. */
static int is_populated(const char *folder)
{
    SB_FREE char *text = NULL;
    char path[4300];

    snprintf(path, sizeof path, "%s/cgroup.events", folder);
    if (!sb_read_file(AT_FDCWD, path, 4096, &text, NULL))
        return strstr(text, "populated 1") != NULL;
    snprintf(path, sizeof path, "%s/cgroup.procs", folder); /* v1: its leaves have no folders below */
    return sb_read_file(AT_FDCWD, path, 1 << 20, &text, NULL) ? -ENOENT : text[0] != 0;
}

static int is_lost_group(struct sb_reconcile *rc, const char *folder, const char *id)
{
    return sb_reconcile_is_gone(rc, id) && claim_on(rc->engine, id) != CLAIM_OTHER && is_populated(folder) == 0;
}

static void gather_groups(struct sb_reconcile *rc, const char *parent)
{
    DIR *stream = parent ? opendir(parent) : NULL;
    struct dirent *d;

    while (stream && (d = readdir(stream))) {
        char folder[4300], id[SB_ID_SIZE];

        if (snprintf(folder, sizeof folder, "%s/%s", parent, d->d_name) < (int)sizeof folder && id_of_group(folder, id) &&
            is_lost_group(rc, folder, id))
            json_array_append_new(rc->pending, json_string(folder));
    }
    if (stream)
        closedir(stream);
}

/* Another state root's maker, without a claim that would tell, may be between making its groups and cloning into them: that is a matter of
 * milliseconds. So what is empty now must be so a second later, too. */
int sb_reconcile_cgroups(struct sb_reconcile *rc)
{
    const json_t *value;
    size_t i;

    if (!rc->pending) {
        rc->pending = json_array();
        gather_groups(rc, rc->engine->cgroups.unified);
        gather_groups(rc, rc->engine->cgroups.scopes);
        for (size_t c = 0; c < SB_ELEMENTS(rc->engine->cgroups.v1); c++)
            gather_groups(rc, rc->engine->cgroups.v1[c]);
        rc->again = sb_now_ms() + AGAIN_MS;
        return json_array_size(rc->pending) > 0;
    }
    if (sb_now_ms() < rc->again)
        return 1;
    json_array_foreach(rc->pending, i, value)
    {
        const char *folder = json_string_value(value);
        SB_JSON json_t *one = json_array();
        char id[SB_ID_SIZE];

        if (!id_of_group(folder, id) || !is_lost_group(rc, folder, id))
            continue;
        json_array_append_new(one, json_sprintf("%s%s", folder, rc->engine->cgroups.scopes ? "/box" : ""));
        sb_reconcile_found(rc, "cgroup", folder, "its sandbox is no more", rc->dry ? 0 : sb_cgroups_remove(one, id));
    }
    return 0;
}

/* ---- id ranges ---- */

/* Under the lock of the claims: so nobody releases it meanwhile. Who uses one of its ids by hand is seen by sb_ids_sweep(). */
static int is_lost_range(void *data, const char *holder)
{
    struct sb_reconcile *rc = data;
    const char *tab = strrchr(holder, '\t');
    char id[SB_ID_SIZE];

    if (!tab || strlen(tab) < SB_ID_SIZE)
        return 0;
    memcpy(id, tab + 1, SB_ID_SIZE - 1);
    id[SB_ID_SIZE - 1] = 0;
    if (!sb_id_valid(id) || !sb_reconcile_is_gone(rc, id))
        return 0;
    json_array_append_new(rc->pending, json_string(id));
    return !rc->dry;
}

static int any_is_claimed(const struct sb_reconcile *rc)
{
    const json_t *value;
    size_t i;

    json_array_foreach(rc->pending, i, value)
    {
        if (claim_on(rc->engine, json_string_value(value)) == CLAIM_OURS)
            return 1;
    }
    return 0;
}

/* What was killed a moment ago may use an id for as long as it is dying: an init dies after its keeper, and where there is no cgroup2 only
 * the keeper is known to be waited for. */
static void sweep_again(struct sb_reconcile *rc, const struct sb_ids_others *others)
{
    int64_t until = sb_now_ms() + KILL_MS;
    json_t *first = rc->pending;

    while (any_is_claimed(rc) && sb_now_ms() < until) {
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
        rc->pending = json_array();
        sb_ids_sweep(others);
        json_decref(rc->pending);
        rc->pending = first;
    }
}

int sb_reconcile_ranges(struct sb_reconcile *rc)
{
    SB_FREE char *prefix = rc->engine->map.privilege == SB_PRIVILEGE_ROOT ? sb_record_holder_prefix(rc->engine) : NULL;
    const struct sb_ids_others others = { prefix, is_lost_range, rc };
    const json_t *value;
    size_t i;

    if (!prefix)
        return 0;
    rc->pending = json_array();
    sb_ids_sweep(&others);
    if (!rc->dry)
        sweep_again(rc, &others);
    json_array_foreach(rc->pending, i, value)
        sb_reconcile_found(rc, "range", json_string_value(value), "its sandbox is no more",
                           !rc->dry && claim_on(rc->engine, json_string_value(value)) == CLAIM_OURS ? -EBUSY : 0);
    return 0;
}
