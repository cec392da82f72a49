/* SPDX-License-Identifier: Apache-2.0
 * What a sandbox's proxy allowed and denied, for events.c. */
#ifndef SB_ENGINE_NETWORK_WATCH_H
#define SB_ENGINE_NETWORK_WATCH_H

#include <jansson.h>
#include <stdint.h>

struct sb_engine;

struct sb_network_watch {
    int fd, epoll; /* fd: -1: none */
    int64_t since; /* what was before is no news */
};
#define SB_NETWORK_WATCH_INIT { .fd = -1 }

/* Where the sandbox has a proxy: its connection becomes readable in the epoll, under `data`. history: what it knows from before is news. */
void sb_network_watch_start(struct sb_engine *engine, const char *id, struct sb_network_watch *watch, int epoll, void *data, int history);
void sb_network_watch_stop(struct sb_network_watch *watch);
struct sb_network_news {
    const char *type;
    int64_t when;
    json_t *attributes; /* new reference */
};
/* 1 and the next event; 0: none now. */
int sb_network_watch_next(struct sb_network_watch *watch, struct sb_network_news *ret);
/* Wall-clock time in milliseconds since 1970. */
int64_t sb_wall_ms(void);

#endif
