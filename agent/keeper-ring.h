/* SPDX-License-Identifier: Apache-2.0
 * A bounded log on disk in two segments (ring-format.h). Functions return 0 or -errno. Nothing is allocated. */
#ifndef SB_AGENT_KEEPER_RING_H
#define SB_AGENT_KEEPER_RING_H

#include <stddef.h>
#include <stdint.h>

#include <ring-format.h>

/* Room for a segment's name: "j-", an exec id, ".0". */
#define AG_RING_NAME 80

struct ag_ring {
    int dir;          /* borrowed */
    const char *name; /* "log": segments log.0 and log.1 */
    uint64_t half;    /* most bytes of one segment */
    int fd;           /* of the current segment; -1: none could be made yet */
    int current;      /* 0 or 1 */
    uint64_t sequence;
    uint64_t position; /* behind the last record */
    uint64_t offset;   /* in the current segment: the end of its last whole record */
};

/* Prepares a ring; nothing is touched yet. */
void ag_ring_init(struct ag_ring *ring, int dir, const char *name, uint64_t max_bytes);
/* Largest payload that ag_ring_append takes. */
size_t ag_ring_payload_max(const struct ag_ring *ring);
/* Goes on behind the last whole record of an earlier run (a torn one is cut off), or begins anew. */
int ag_ring_open(struct ag_ring *ring);
/* Appends one record, rotating when it is due. On failure the ring is as it was before, and later calls may succeed. */
int ag_ring_append(struct ag_ring *ring, int stream, uint64_t wall_ns, const void *payload, size_t size);
/* Removes the older segment: room for something more important. */
void ag_ring_shrink(struct ag_ring *ring);
/* What was appended reaches the disk. */
int ag_ring_sync(struct ag_ring *ring);
void ag_ring_close(struct ag_ring *ring);

#endif
