/* SPDX-License-Identifier: Apache-2.0
 * See limit-watch.h. */
#include "limit-watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <fs.h>
#include <json.h>

enum { SPACE_MS = 1000, SOON_MS = 20 };

/* The number behind a key in a file of "key number" lines; 0: none. */
static int64_t count(const char *path, const char *key)
{
    SB_FREE char *text = NULL;
    size_t n = strlen(key);

    if (!path || sb_read_file(AT_FDCWD, path, 4096, &text, NULL))
        return 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, key, n) && line[n] == ' ')
            return strtoll(line + n + 1, NULL, 10);
    }
    return 0;
}

/* v1 has the hits of memory in a file of their own. */
static int64_t memory_hits(const struct sb_limit_watch *w)
{
    const char *slash = w->memory ? strrchr(w->memory, '/') : NULL;
    SB_FREE char *text = NULL;
    SB_FREE char *path = NULL;

    if (!slash)
        return 0;
    if (!strcmp(slash, "/memory.events"))
        return count(w->memory, "max");
    if (asprintf(&path, "%.*s/memory.failcnt", (int)(slash - w->memory), w->memory) < 0) {
        path = NULL;
        return 0;
    }
    return sb_read_file(AT_FDCWD, path, 64, &text, NULL) ? 0 : strtoll(text, NULL, 10);
}

static char *file_of(struct sb_engine *engine, const struct sb_record *record, int controller, const char *v2_name, const char *v1_name,
                     int *ret_polled)
{
    int v2;
    const char *folder =
        sb_cgroups_folder_of(&engine->cgroups, json_object_get(record->json, "cgroups"), record->id, controller, &v2);
    char *path = NULL;

    *ret_polled |= folder && !v2;
    return folder && asprintf(&path, "%s/%s", folder, v2 ? v2_name : v1_name) >= 0 ? path : NULL;
}

/* Asks a v1 group to write into an eventfd when memory is short. */
static int register_oom(const char *oom_control, int epoll, void *ptr)
{
    const char *slash = strrchr(oom_control, '/');
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = ptr };
    SB_CLOSE int control = open(oom_control, O_RDONLY | O_CLOEXEC);
    SB_FREE char *folder = strndup(oom_control, (size_t)(slash - oom_control));
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    char text[64];

    snprintf(text, sizeof text, "%d %d", fd, control);
    if (fd < 0 || control < 0 || !folder || sb_cgroups_write(folder, "cgroup.event_control", text) ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) < 0)
        return sb_close(fd); /* its count is looked at when something ends */
    return fd;
}

void sb_limit_watch_start(struct sb_engine *engine, const char *id, struct sb_limit_watch *w, int inotify, int epoll, void *ptr, int news)
{
    struct sb_record record = SB_RECORD_INIT;

    sb_limit_watch_stop(w, inotify, epoll);
    if (!sb_known_load(engine, id, &record, NULL)) {
        w->memory = file_of(engine, &record, SB_CONTROLLER_MEMORY, "memory.events", "memory.oom_control", &w->polled);
        w->pids = file_of(engine, &record, SB_CONTROLLER_PIDS, "pids.events", "pids.events", &w->polled);
    }
    sb_record_clear(&record);
    if (w->memory && strstr(w->memory, "/memory.events"))
        w->memory_wd = inotify_add_watch(inotify, w->memory, IN_MODIFY);
    else if (w->memory)
        w->oom = register_oom(w->memory, epoll, ptr);
    if (w->pids)
        w->pids_wd = inotify_add_watch(inotify, w->pids, IN_MODIFY);
    if (news) {
        w->due = sb_now_ms();
        return;
    }
    w->kills = count(w->memory, "oom_kill");
    w->memory_hits = memory_hits(w);
    w->pids_hits = count(w->pids, "max");
    w->due = w->polled ? sb_now_ms() + SPACE_MS : 0;
}

void sb_limit_watch_stop(struct sb_limit_watch *w, int inotify, int epoll)
{
    if (w->oom >= 0)
        epoll_ctl(epoll, EPOLL_CTL_DEL, w->oom, NULL);
    sb_close(w->oom);
    if (w->memory_wd >= 0)
        inotify_rm_watch(inotify, w->memory_wd);
    if (w->pids_wd >= 0)
        inotify_rm_watch(inotify, w->pids_wd);
    free(w->memory);
    free(w->pids);
    *w = (struct sb_limit_watch)SB_LIMIT_WATCH_INIT;
}

void sb_limit_watch_heard(struct sb_limit_watch *w)
{
    eventfd_t n;

    if (w->oom >= 0 && eventfd_read(w->oom, &n) == 0)
        w->due = sb_now_ms() + SOON_MS;
}

/* Of hits: now, or when the last was told a second ago. */
static int64_t hits(int64_t now, int64_t seen, int64_t *told, int64_t *last, int64_t *due)
{
    int64_t n = seen - *told, at = *last ? *last + SPACE_MS : now;

    if (n <= 0)
        return 0;
    if (now < at) {
        *due = *due && *due < at ? *due : at;
        return 0;
    }
    *told = seen;
    *last = now;
    return n;
}

void sb_limit_watch_look(struct sb_limit_watch *w, struct sb_limit_news *ret)
{
    int64_t now = sb_now_ms(), kills = count(w->memory, "oom_kill");

    w->due = 0;
    *ret = (struct sb_limit_news){ .kills = kills > w->kills ? kills - w->kills : 0 };
    if (ret->kills)
        w->kills = kills;
    ret->memory_hits = hits(now, memory_hits(w), &w->memory_hits, &w->told_memory, &w->due);
    ret->pids_hits = hits(now, count(w->pids, "max"), &w->pids_hits, &w->told_pids, &w->due);
    if (w->polled && !w->due)
        w->due = now + SPACE_MS;
}

json_t *sb_limit_watch_record(struct sb_engine *engine, const char *id, char **text)
{
    struct sb_record record = SB_RECORD_INIT;
    json_t *limits = sb_known_load(engine, id, &record, NULL) ? NULL : json_incref(json_object_get(record.json, "limits"));
    char *now = limits ? sb_json_dump(limits) : NULL;
    int news = now && *text && strcmp(now, *text);

    sb_record_clear(&record);
    if (now) {
        free(*text);
        *text = now;
    }
    if (!news)
        json_decref(limits);
    return news ? limits : NULL;
}
