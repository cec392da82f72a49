/* SPDX-License-Identifier: Apache-2.0
 * What keeper leaves in the folder "log" of a sandbox, for whoever reads it: the bytes on disk are a contract between versions.
 *
 *   log.0, log.1          the two segments of the ring that holds the daemon's stdout and stderr
 *   exits.0, exits.1      the two segments of a smaller ring of the events that init sent (SB_RING_EVENT)
 *   j-EXEC-ID.0, .1       the same for an exec's output, where a journal was asked for
 *   reserve               room for the last record, while keeper runs
 *   exit                  one line of JSON, written last and durably: how init ended
 *
 * A ring is read from the segment with the smaller sequence number to the other one. A segment is a header and records up
 * to its end; the first record that is cut short or whose checksum is wrong ends it (a crash tore it), and what follows it is not
 * to be believed. A segment is never rewritten in place: rotation renames a new file over the older segment, so a reader that
 * has it open reads on undisturbed. All numbers are little-endian.
 *
 * A position counts the bytes of output that a ring was given, ever, kept or not: of stdout and stderr together, and also those
 * that were lost. So where the next segment begins tells how much of the one before could not be read.
 *
 * exit: {"schema":1,"kind":K,"code":C,"signal":S,"wall_ns":T,"stdout_bytes":N,"stderr_bytes":N,"dropped_bytes":N}
 *   kind "exited" (code 0 to 255, signal 0), "signalled" (code -1) or "unstarted" (there never was an init; code is stage's, or
 *   -1 and its signal). stdout_bytes and stderr_bytes are what the daemon wrote in this run, dropped_bytes what no disk took. */
#ifndef SB_PLAN_RING_FORMAT_H
#define SB_PLAN_RING_FORMAT_H

#include <stdint.h>

#define SB_RING_MAGIC "SBRING1\n"

/* Most bytes that one record carries; smallest bound of a ring: a segment of it holds four records of the smallest useful size. */
enum { SB_RING_RECORD_MAX = 131072, SB_RING_MIN = 8192 };

enum sb_ring_stream {
    SB_RING_STDOUT = 1,
    SB_RING_STDERR = 2,
    SB_RING_DROPPED = 3, /* struct sb_ring_dropped: bytes lost since the record before: the disk refused them */
    SB_RING_EVENT = 4,   /* in "exits": struct sb_ring_event, as init sent it */
    SB_RING_RUN = 5,     /* in "log": an init begins; what follows is of its run. No bytes */
    SB_RING_STARTED = 6, /* in "log": struct sb_ring_event: the daemon is being started; its output follows */
    SB_RING_ENDED = 7    /* in "log": struct sb_ring_event: the daemon ended, and all it had written stands before */
};
/* A record of stream 1 or 2 with no bytes says that this stream ended. */

struct sb_ring_segment {
    char magic[8];
    uint64_t sequence; /* of the segment in its ring: 1, 2, 3 … */
    uint64_t position; /* before its first record */
    uint64_t wall_ns;  /* when it was begun */
    uint32_t reserved;
    uint32_t crc; /* CRC-32C of the bytes before */
};

struct sb_ring_record {
    uint32_t length; /* of the payload */
    uint32_t crc;    /* CRC-32C of the rest of this header and of the payload */
    uint64_t wall_ns;
    uint8_t stream; /* enum sb_ring_stream */
    uint8_t reserved[7];
};

struct sb_ring_dropped {
    uint64_t bytes[2]; /* stdout, stderr */
};

enum sb_ring_event_type {
    SB_EVENT_STARTED = 1, /* is being started: sent before the first byte that it can write */
    SB_EVENT_ENDED = 2,
    SB_EVENT_JOURNAL = 3, /* to keeper only: the read ends of an exec's stdout and stderr come along */
    /* to keeper only, for the sandbox's life; they stand in no file */
    SB_EVENT_INIT = 4,    /* by stage, once: init's pidfd comes along */
    SB_EVENT_BEGUN = 5,   /* started, without a daemon */
    SB_EVENT_PAUSED = 6,
    SB_EVENT_RESUMED = 7,
    SB_EVENT_ACTIVITY = 8, /* asked for: max_bytes is for how many milliseconds nothing was asked of the sandbox; 0: something is */
    SB_EVENT_HEALTH = 9    /* a health check with that exec_id ended: kind and code; kind 0: it was never executed */
};

/* From init to keeper, one datagram each, and on disk. */
struct sb_ring_event {
    uint8_t exec_id[32]; /* all zero: the daemon */
    uint32_t type;       /* enum sb_ring_event_type */
    uint32_t number;     /* of the daemon: 1 for the first that this init started */
    uint32_t kind;       /* ENDED: enum sandbox_exec_kind; 0: it was never executed, for sys_errno */
    int32_t code, signal, sys_errno;
    int64_t user_us, system_us, max_rss;
    uint64_t wall_ns;
    uint64_t max_bytes; /* of its journal, the ring's bound; 0: it has none */
};

_Static_assert(sizeof(struct sb_ring_segment) == 40 && sizeof(struct sb_ring_record) == 24 && sizeof(struct sb_ring_dropped) == 16 &&
                   sizeof(struct sb_ring_event) == 96,
               "these are bytes on disk");

#endif
