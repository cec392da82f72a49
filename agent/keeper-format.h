/* SPDX-License-Identifier: Apache-2.0
 * What keeper leaves in its folder, for whoever reads it: the bytes on disk are a contract between versions.
 *
 *   log.0, log.1      the two segments of the ring that holds the daemon's stdout and stderr
 *   exits.0, exits.1  the two segments of a smaller ring of the datagrams that init sent (AG_KEEPER_STREAM_EVENT)
 *   reserve           room for the last record, while keeper runs
 *   exit              one line of JSON, written last and durably: how init ended
 *
 * A ring is read from the segment with the smaller sequence number to the other one. A segment is a header and records up
 * to its end; the first record that is cut short or whose checksum is wrong ends it (a crash tore it), and what follows it is not
 * to be believed. A segment is never rewritten in place: rotation renames a new file over the older segment, so a reader that
 * has it open reads on undisturbed. All numbers are little-endian.
 *
 * exit: {"schema":1,"kind":K,"code":C,"signal":S,"wall_ns":T,"stdout_bytes":N,"stderr_bytes":N,"dropped_bytes":N}
 *   kind "exited" (code 0 to 255, signal 0), "signalled" (code -1) or "unstarted" (there never was an init; code is stage's, or
 *   -1 and its signal). stdout_bytes and stderr_bytes are what the daemon wrote in this run, dropped_bytes what no disk took. */
#ifndef SB_AGENT_KEEPER_FORMAT_H
#define SB_AGENT_KEEPER_FORMAT_H

#include <stdint.h>

#define AG_KEEPER_MAGIC "SBRING1\n"

/* Most bytes that one record carries: a longer datagram or read is never made. */
enum { AG_KEEPER_RECORD_MAX = 65536, AG_KEEPER_EVENT_MAX = 512 };

enum ag_keeper_stream {
    AG_KEEPER_STREAM_STDOUT = 1,
    AG_KEEPER_STREAM_STDERR = 2,
    AG_KEEPER_STREAM_DROPPED = 3, /* struct ag_keeper_dropped: bytes lost since the record before: the disk refused them */
    AG_KEEPER_STREAM_EVENT = 4    /* one datagram of init's, as it came */
};
/* A record of stream 1 or 2 with no bytes says that this stream ended. */

struct ag_keeper_segment {
    char magic[8];
    uint64_t sequence; /* of the segment in its ring: 1, 2, 3 … */
    uint64_t position; /* record bytes (headers and payloads) that the ring took before this segment, ever */
    uint64_t wall_ns;  /* when it was begun */
    uint32_t reserved;
    uint32_t crc; /* CRC-32C of the bytes before */
};

struct ag_keeper_record {
    uint32_t length; /* of the payload */
    uint32_t crc;    /* CRC-32C of the rest of this header and of the payload */
    uint64_t wall_ns;
    uint8_t stream; /* enum ag_keeper_stream */
    uint8_t reserved[7];
};

struct ag_keeper_dropped {
    uint64_t bytes[2]; /* stdout, stderr */
};

_Static_assert(sizeof(struct ag_keeper_segment) == 40 && sizeof(struct ag_keeper_record) == 24 &&
                   sizeof(struct ag_keeper_dropped) == 16,
               "these are bytes on disk");

/* CRC-32C (Castagnoli) of more bytes after `crc`, which is 0 at first. */
uint32_t ag_crc32c(uint32_t crc, const void *data, uint64_t size);

#endif
