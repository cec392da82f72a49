/* SPDX-License-Identifier: Apache-2.0
 * One run of the pull helper (agent/pull.c): started, asked for files, its reports received and checked, ended. Nothing waits: step() is
 * called when a descriptor that was added to the caller's epoll is readable. */
#ifndef SB_ENGINE_PULLER_H
#define SB_ENGINE_PULLER_H

#include <pull-plan.h>
#include <sandbox.h>
#include <stddef.h>

struct sb_pull_item {
    int done;        /* 1: the file is complete, as far as the helper can be believed */
    int64_t size;    /* bytes in the file */
    int64_t fetched; /* of them, those that came over the network now */
    char media_type[128];
};

struct sb_puller {
    int epoll;  /* the caller's */
    int socket; /* -1: never started, or ended */
    int pidfd;
    int stopped;
    struct sb_pull_item *items; /* by request id */
    size_t n_items;
};
#define SB_PULLER_INIT { .epoll = -1, .socket = -1, .pidfd = -1 }

/* Starts it. `plan` is completed (magic, size). `ca`: borrowed, -1: none. */
int sb_puller_start(struct sb_puller *puller, int exe, int epoll, struct sb_pull_plan *plan, int ca, struct sandbox_error **error);
/* Asks for a manifest or blob into `fd` (borrowed). digest "": the tag counts; length -1: unknown. */
int sb_puller_ask(struct sb_puller *puller, enum sb_pull_kind kind, const char *digest, const char *tag, int64_t length, int64_t max, int fd,
                  size_t *ret_id, struct sandbox_error **error);
/* Takes in what came: 0, or negative when a request failed, or the helper did. */
int sb_puller_step(struct sb_puller *puller, struct sandbox_error **error);
/* Kills it. */
void sb_puller_stop(struct sb_puller *puller);
/* 1 while its process is there; reaps it. */
int sb_puller_alive(struct sb_puller *puller);
void sb_puller_clear(struct sb_puller *puller);
/* Takes one packet in: 0, or negative: no helper of ours writes that, or it tells of a failure. For step() and the tests. */
int sb_puller_parse(struct sb_puller *puller, const void *packet, size_t size, struct sandbox_error **error);

#endif
