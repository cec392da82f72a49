/* SPDX-License-Identifier: Apache-2.0
 * Limits that are run into, for a watch over sandboxes: inotify on the kernel's counters (cgroup2, and pids of v1), and an eventfd for memory
 * of v1. They are read here, outside: nothing inside is asked. */
#ifndef SB_ENGINE_LIMIT_WATCH_H
#define SB_ENGINE_LIMIT_WATCH_H

#include "engine.h"

struct sb_limit_watch {
    char *memory, *pids; /* the files; NULL: none */
    int memory_wd, pids_wd; /* inotify's numbers; -1: none */
    int oom;             /* v1: an eventfd that the kernel writes; -1: none */
    int64_t kills, memory_hits, pids_hits; /* told of so far */
    int64_t told_memory, told_pids;        /* on sb_now_ms() */
    int polled;          /* v1 tells nobody of its hits: they are looked at once a second */
    int64_t due;         /* when to look again; 0: when the kernel says something */
};
#define SB_LIMIT_WATCH_INIT { .memory_wd = -1, .pids_wd = -1, .oom = -1 }

struct sb_limit_news {
    int64_t kills, memory_hits, pids_hits; /* since the last */
};

/* Of a sandbox that lives. news: what was before counts, too. The eventfd is added to the epoll with `ptr`. */
void sb_limit_watch_start(struct sb_engine *engine, const char *id, struct sb_limit_watch *w, int inotify, int epoll, void *ptr, int news);
void sb_limit_watch_stop(struct sb_limit_watch *w, int inotify, int epoll);
/* What came since the last look. At most one a second of each kind of hit; what is kept back sets `due`. */
void sb_limit_watch_look(struct sb_limit_watch *w, struct sb_limit_news *ret);
/* The eventfd spoke: the kernel is just about to kill, its count comes a moment later. */
void sb_limit_watch_heard(struct sb_limit_watch *w);
/* The limits in its record, when they are others than *text, which is made what they are (malloc'ed; NULL at first: then nothing is new). */
json_t *sb_limit_watch_record(struct sb_engine *engine, const char *id, char **text);

/* ---- watch-json.c ---- */
/* New references: how something ended; which exec, "" where it isn't known. */
json_t *sb_watch_exit(const struct sb_watch_event *e);
json_t *sb_watch_exec(const struct sb_watch_event *e);

#endif
