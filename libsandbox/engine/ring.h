/* SPDX-License-Identifier: Apache-2.0
 * Reading a ring that keeper writes (ring-format.h), also while it does. What stands in it came from inside a sandbox: each length is
 * checked, and nothing is believed whose checksum is wrong. There is no resynchronisation within a segment: bytes of a daemon's could
 * pose as records. */
#ifndef SB_ENGINE_RING_H
#define SB_ENGINE_RING_H

#include <ring-format.h>
#include <stddef.h>
#include <stdint.h>

struct sb_ring_place {
    uint64_t sequence, offset; /* of a record: its segment, and where in it */
};

/* A record, or what is missing between two. */
struct sb_ring_entry {
    int stream;        /* enum sb_ring_stream; SB_RING_DROPPED: `lost` bytes are missing here */
    uint64_t wall_ns;  /* 0: unknown */
    uint64_t position; /* of its first byte */
    const char *data;  /* until the next call */
    size_t size;
    uint64_t lost;
    int damaged; /* DROPPED: not by the bound or a full disk, the segment does not verify; lost 0: how much is unknown */
    struct sb_ring_place place;
};

struct sb_ring {
    int dir; /* borrowed */
    char name[80];
    int fd;
    uint64_t sequence; /* of the segment in hand, or the last one */
    uint64_t offset, position;
    uint64_t from; /* entries that end before this position are passed over; what is missing behind it is told */
    int begun;
    int suspect; /* what follows in the newest segment does not verify: torn, not yet written, or damaged */
    int told;    /* … and was told */
    int headless; /* a segment without a good header is there, and was told */
    uint64_t at;  /* the window: bytes of the segment */
    size_t have;
    char *window;
};

/* 0 or -ENOMEM. It need not exist yet. */
int sb_ring_open(int dir, const char *name, struct sb_ring *ret);
void sb_ring_close(struct sb_ring *ring);
/* 1: an entry; 0: no more now, though more may come; else -errno. */
int sb_ring_next(struct sb_ring *ring, struct sb_ring_entry *ret);
/* After a 0, of a ring that nobody writes any more: 1 and an entry, once, when its newest segment is damaged. */
int sb_ring_damage(struct sb_ring *ring, struct sb_ring_entry *ret);
/* 1 when it has a segment. */
int sb_ring_exists(int dir, const char *name);

#endif
