/* SPDX-License-Identifier: Apache-2.0
 * One run of the unpack helper (agent/unpack.c): started, its records received and checked, stopped, its end awaited.
 * Nothing waits: step() is called when a descriptor that was added to the caller's epoll is readable. */
#ifndef SB_ENGINE_HELPER_H
#define SB_ENGINE_HELPER_H

#include <sandbox.h>
#include <stddef.h>
#include <unpack-plan.h>

struct sb_member {
    int is_implied; /* SB_UNPACK_MEMBER_IMPLIED: only the name counts */
    char *name;
    char *link; /* NULL: a file; a leading "/" means from the archive's root, else from the name's folder */
    int64_t offset, length;
};

struct sb_helper {
    int epoll;  /* the caller's */
    int socket; /* -1: its end was seen, or it was never started */
    int pidfd;
    int timer;  /* of stop() */
    int stopping;
    int answered;
    struct sb_unpack_result result; /* when answered: strings end, the code is one of ours */
    struct sb_unpack_progress progress;
    char *document; /* SB_UNPACK_DOCUMENT: with a NUL after it */
    size_t document_size, document_room;
    struct sb_member *members; /* SB_UNPACK_SCAN, SB_UNPACK_LAYER */
    size_t n_members, members_room;
};

#define SB_HELPER_INIT { .epoll = -1, .socket = -1, .pidfd = -1, .timer = -1 }

/* Starts it. `plan` is completed (magic, size). Descriptors are borrowed for the call; -1: none. `epoll` must outlive it. */
int sb_helper_start(struct sb_helper *helper, int exe, int epoll, struct sb_unpack_plan *plan, int source, int dest, int parent,
                    struct sandbox_error **error);
/* 1: still running, 0: ended and answered with success, negative: failed. The process has ended by then, and what a failed
 * layer left is removed. */
int sb_helper_step(struct sb_helper *helper, struct sandbox_error **error);
/* Orders it to end; step() goes on as before, at most five seconds more. */
void sb_helper_stop(struct sb_helper *helper);
/* Releases everything; a helper that still runs is ordered to end. */
void sb_helper_clear(struct sb_helper *helper);
/* Takes one packet in: 0, or negative when no helper of ours writes that. For step() and the tests. */
int sb_helper_parse(struct sb_helper *helper, const void *packet, size_t size, struct sandbox_error **error);

#endif
