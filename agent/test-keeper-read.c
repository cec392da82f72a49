/* SPDX-License-Identifier: Apache-2.0
 * See test-keeper.h. */
#include "test-keeper.h"

#include <check.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crc32c.h>
#include <fs.h>
#include <ring-format.h>

unsigned char test_pattern(int stream, uint64_t at)
{
    return (unsigned char)(at * 131 + (at >> 8) * 7 + (at >> 16) * 3 + (uint64_t)stream * 17);
}

void test_free_seen(struct seen *seen)
{
    free(seen->data[0]);
    free(seen->data[1]);
}

static void take_record(struct seen *seen, const struct sb_ring_record *record, const char *payload, size_t length)
{
    int which = record->stream - SB_RING_STDOUT;

    seen->records++;
    if (record->stream == SB_RING_RUN) {
        ck_assert_uint_eq(length, 0);
        seen->runs++;
        return;
    }
    if (record->stream == SB_RING_DROPPED) {
        struct sb_ring_dropped lost;

        ck_assert_uint_eq(length, sizeof lost);
        memcpy(&lost, payload, sizeof lost);
        seen->dropped[0] += le64toh(lost.bytes[0]);
        seen->dropped[1] += le64toh(lost.bytes[1]);
        seen->end_position += le64toh(lost.bytes[0]) + le64toh(lost.bytes[1]);
    } else if (record->stream == SB_RING_EVENT) {
        struct sb_ring_event event;

        ck_assert_uint_eq(length, sizeof event);
        memcpy(&event, payload, sizeof event);
        ck_assert_uint_eq(le32toh(event.type), SB_EVENT_ENDED);
        ck_assert_uint_eq(event.exec_id[0], 1);
        ck_assert_int_eq((int)le32toh((uint32_t)event.code), (int)seen->events);
        seen->events++;
    } else {
        ck_assert(which == 0 || which == 1);
        if (!length)
            seen->ends[which]++;
        seen->data[which] = realloc(seen->data[which], seen->kept[which] + length + 1);
        ck_assert_ptr_nonnull(seen->data[which]);
        memcpy(seen->data[which] + seen->kept[which], payload, length);
        seen->kept[which] += length;
        seen->end_position += length;
    }
}

static void read_segment(struct seen *seen, const char *text, size_t size)
{
    uint64_t at = sizeof(struct sb_ring_segment);

    while (at < size) {
        struct sb_ring_record record, blank;
        size_t length;

        if (size - at < sizeof record) {
            seen->torn = 1;
            break;
        }
        memcpy(&record, text + at, sizeof record);
        length = le32toh(record.length);
        blank = record;
        blank.crc = 0;
        if (length > SB_RING_RECORD_MAX || size - at - sizeof record < length ||
            le32toh(record.crc) != sb_crc32c(sb_crc32c(0, &blank, sizeof blank), text + at + sizeof record, length)) {
            seen->torn = 1;
            break;
        }
        ck_assert_uint_ne(record.wall_ns, 0);
        take_record(seen, &record, text + at + sizeof record, length);
        at += sizeof record + length;
    }
}

void test_read_ring(int folder, const char *name, struct seen *seen)
{
    char *text[2] = { NULL, NULL }, path[32];
    struct sb_ring_segment header[2];
    size_t size[2];
    int order[2], n = 0;

    memset(seen, 0, sizeof *seen);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s.%d", name, i);
        if (sb_read_file(folder, path, 1 << 30, &text[i], &size[i]) < 0)
            continue;
        ck_assert_uint_ge(size[i], sizeof header[i]);
        memcpy(&header[i], text[i], sizeof header[i]);
        ck_assert_mem_eq(header[i].magic, SB_RING_MAGIC, 8);
        ck_assert_uint_eq(le32toh(header[i].crc), sb_crc32c(0, &header[i], sizeof header[i] - 4));
        seen->file_bytes += size[i];
        order[n++] = i;
    }
    ck_assert_int_ge(n, 1);
    if (n == 2 && le64toh(header[0].sequence) > le64toh(header[1].sequence)) {
        order[0] = 1;
        order[1] = 0;
    }
    if (n == 2)
        ck_assert_uint_eq(le64toh(header[order[0]].sequence) + 1, le64toh(header[order[1]].sequence));
    seen->first_position = seen->end_position = le64toh(header[order[0]].position);
    for (int i = 0; i < n; i++) {
        ck_assert_uint_eq(seen->end_position, le64toh(header[order[i]].position));
        read_segment(seen, text[order[i]], size[order[i]]);
        ck_assert_msg(!seen->torn || i == n - 1, "a torn record in a closed segment");
    }
    free(text[0]);
    free(text[1]);
}

void test_check_pattern(const struct seen *seen, int stream, uint64_t from)
{
    for (uint64_t i = 0; i < seen->kept[stream]; i++)
        if (seen->data[stream][i] != test_pattern(stream, from + i))
            ck_abort_msg("stream %d differs at byte %llu", stream, (unsigned long long)(from + i));
}
