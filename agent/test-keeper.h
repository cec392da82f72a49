/* SPDX-License-Identifier: Apache-2.0
 * The known bytes of test-keeper.c, and the reading of what keeper left of them. */
#ifndef SB_AGENT_TEST_KEEPER_H
#define SB_AGENT_TEST_KEEPER_H

#include <stdint.h>

/* Of one ring, read whole. */
struct seen {
    uint64_t kept[2], dropped[2], records, ends[2], events, runs;
    uint64_t first_position, end_position, file_bytes;
    int torn;
    unsigned char *data[2];
};

/* The byte at a place of a stream (0 or 1). */
unsigned char test_pattern(int stream, uint64_t at);
/* Reads a ring ("log", "exits") and checks whatever must hold of every one. */
void test_read_ring(int folder, const char *name, struct seen *seen);
/* The bytes kept of a stream are the pattern from `from` on. */
void test_check_pattern(const struct seen *seen, int stream, uint64_t from);
void test_free_seen(struct seen *seen);

#endif
