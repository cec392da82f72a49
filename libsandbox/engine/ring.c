/* SPDX-License-Identifier: Apache-2.0
 * See ring.h. Writer and reader share no lock. A segment in hand stays readable after it was rotated away; whether its end is the
 * end is told by there being a newer one, and what a reader missed by where that one begins. */
#include "ring.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <crc32c.h>
#include <util.h>

enum { WINDOW = SB_RING_RECORD_MAX + sizeof(struct sb_ring_record) };

int sb_ring_open(int dir, const char *name, struct sb_ring *ret)
{
    *ret = (struct sb_ring){ .dir = dir, .fd = -1, .window = malloc(WINDOW) };
    snprintf(ret->name, sizeof ret->name, "%s", name);
    return ret->window ? 0 : -ENOMEM;
}

void sb_ring_close(struct sb_ring *ring)
{
    ring->fd = sb_close(ring->fd);
    free(ring->window);
    ring->window = NULL;
}

static ssize_t read_at(int fd, void *data, size_t size, uint64_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = SB_RETRY(pread(fd, (char *)data + done, size - done, (off_t)(offset + done)));

        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* A segment that is a regular file with a good header: a descriptor; -EBADMSG: it is there, and has none. */
static int open_segment(int dir, const char *name, int which, struct sb_ring_segment *ret)
{
    SB_CLOSE int fd = -1;
    char file[96];
    struct stat st;

    snprintf(file, sizeof file, "%s.%d", name, which);
    fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ENOENT : errno == ELOOP ? -EBADMSG : -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || read_at(fd, ret, sizeof *ret, 0) != (ssize_t)sizeof *ret ||
        memcmp(ret->magic, SB_RING_MAGIC, sizeof ret->magic) ||
        le32toh(ret->crc) != sb_crc32c(0, ret, offsetof(struct sb_ring_segment, crc)) || !ret->sequence)
        return -EBADMSG;
    return SB_TAKE_FD(fd);
}

int sb_ring_exists(int dir, const char *name)
{
    struct sb_ring_segment header;
    int fd = open_segment(dir, name, 0, &header);

    sb_close(fd);
    if (fd != -ENOENT)
        return 1;
    fd = open_segment(dir, name, 1, &header);
    sb_close(fd);
    return fd != -ENOENT;
}

/* The oldest segment that is newer than what was read: a descriptor; -ENOENT: none is there. */
static int find_next(struct sb_ring *ring, struct sb_ring_segment *ret, int *ret_headless)
{
    int best = -ENOENT;

    for (int i = 0; i < 2; i++) {
        struct sb_ring_segment header = { .sequence = 0 };
        int fd = open_segment(ring->dir, ring->name, i, &header);

        *ret_headless |= fd == -EBADMSG;
        if (fd < 0) {
            if (fd != -ENOENT && fd != -EBADMSG) {
                sb_close(best);
                return fd;
            }
            continue;
        }
        if (le64toh(header.sequence) <= ring->sequence || (best >= 0 && le64toh(header.sequence) > le64toh(ret->sequence))) {
            sb_close(fd);
            continue;
        }
        if (best >= 0)
            sb_close(best);
        best = fd;
        *ret = header;
    }
    return best;
}

static void tell_lost(const struct sb_ring *ring, uint64_t position, uint64_t lost, int damaged, struct sb_ring_entry *ret)
{
    *ret = (struct sb_ring_entry){ .stream = SB_RING_DROPPED,
                                   .position = position,
                                   .lost = lost,
                                   .damaged = damaged,
                                   .place = { ring->sequence, ring->offset } };
}

/* `size` bytes at the offset, in the window; NULL: not all of them are there. */
static const char *look(struct sb_ring *ring, size_t size, int again, int *ret_errno)
{
    uint64_t into = ring->offset - ring->at;

    if (again || ring->offset < ring->at || into > ring->have || ring->have - into < size) {
        ssize_t n = read_at(ring->fd, ring->window, WINDOW, ring->offset);

        ring->at = ring->offset;
        ring->have = n > 0 ? (size_t)n : 0;
        if (n < 0)
            *ret_errno = (int)n;
        into = 0;
    }
    return ring->have - into >= size ? ring->window + into : NULL;
}

enum found { WHOLE, SHORT, WRONG };

static enum found find_record(struct sb_ring *ring, int again, struct sb_ring_record *ret, const char **ret_data, int *ret_errno)
{
    const char *p = look(ring, sizeof *ret, again, ret_errno);
    struct sb_ring_record blank;
    uint32_t length;

    if (!p)
        return SHORT;
    memcpy(ret, p, sizeof *ret);
    length = le32toh(ret->length);
    if (length > SB_RING_RECORD_MAX)
        return WRONG;
    p = look(ring, sizeof *ret + length, 0, ret_errno);
    if (!p)
        return SHORT;
    blank = *ret;
    blank.crc = 0;
    *ret_data = p + sizeof *ret;
    return le32toh(ret->crc) == sb_crc32c(sb_crc32c(0, &blank, sizeof blank), *ret_data, length) ? WHOLE : WRONG;
}

/* The record that was found; 0: nothing of it is wanted. */
static int take_record(struct sb_ring *ring, const struct sb_ring_record *record, const char *data, struct sb_ring_entry *ret)
{
    size_t size = le32toh(record->length), skip = 0;
    uint64_t begin = ring->position;
    struct sb_ring_dropped lost;

    *ret = (struct sb_ring_entry){ .stream = record->stream,
                                   .wall_ns = le64toh(record->wall_ns),
                                   .position = begin,
                                   .data = data,
                                   .size = size,
                                   .place = { ring->sequence, ring->offset } };
    ring->offset += sizeof *record + size;
    switch (record->stream) {
    case SB_RING_STDOUT:
    case SB_RING_STDERR:
        ring->position += size;
        if (ring->position <= ring->from && size)
            return 0;
        if (begin < ring->from)
            skip = (size_t)(ring->from - begin);
        ret->position += skip;
        ret->data += skip;
        ret->size -= skip;
        return 1;
    case SB_RING_DROPPED:
        if (size != sizeof lost)
            return 0;
        memcpy(&lost, data, sizeof lost);
        ret->lost = le64toh(lost.bytes[0]) + le64toh(lost.bytes[1]);
        ring->position += ret->lost;
        if (begin < ring->from && ring->position > ring->from) {
            ret->lost = ring->position - ring->from;
            ret->position = ring->from;
        }
        return ring->position > ring->from;
    case SB_RING_STARTED:
    case SB_RING_ENDED:
    case SB_RING_EVENT:
        return size == sizeof(struct sb_ring_event);
    default:
        return 1; /* of a later version, too: who reads passes over what he doesn't know */
    }
}

/* Goes on with the next segment. 1: and something is missing before it, 0: nothing is, or there is more in this one, -ENOENT: there is no
 * next one. */
static int enter_next(struct sb_ring *ring, struct sb_ring_entry *ret)
{
    int damaged = ring->suspect && !ring->told, headless = 0, missing = 0;
    struct sb_ring_segment header = { .sequence = 0 };
    int fd = find_next(ring, &header, &headless);
    uint64_t position, expected = ring->begun ? ring->position : ring->from;
    struct sb_ring_record record;
    const char *data;
    int failure = 0;

    if (headless && !ring->headless) {
        sb_close(fd);
        ring->headless = 1;
        tell_lost(ring, ring->position, 0, 1, ret);
        return 1;
    }
    if (fd < 0)
        return fd;
    /* the one in hand got its last record before the next one was made: so only now its end is the end */
    if (ring->fd >= 0 && find_record(ring, 1, &record, &data, &failure) == WHOLE) {
        sb_close(fd);
        return 0;
    }
    sb_close(ring->fd);
    ring->fd = fd;
    ring->have = 0;
    ring->suspect = ring->told = 0;
    ring->sequence = le64toh(header.sequence);
    ring->offset = sizeof header;
    position = le64toh(header.position);
    /* from the beginning means: of what is there */
    missing = (ring->begun || ring->from) && position > expected;
    if (missing || damaged)
        tell_lost(ring, expected, missing ? position - expected : 0, damaged, ret);
    ring->begun = 1;
    ring->position = position;
    return missing || damaged;
}

int sb_ring_next(struct sb_ring *ring, struct sb_ring_entry *ret)
{
    for (;;) {
        struct sb_ring_record record;
        const char *data = NULL;
        enum found found = SHORT;
        int failure = 0, r;

        if (ring->fd >= 0) {
            found = find_record(ring, 0, &record, &data, &failure);
            if (found == WRONG) /* the window may be older than the file */
                found = find_record(ring, 1, &record, &data, &failure);
        }
        if (failure)
            return failure;
        if (found == WHOLE) {
            ring->suspect = 0;
            if (take_record(ring, &record, data, ret))
                return 1;
            continue;
        }
        ring->suspect = found == WRONG;
        r = enter_next(ring, ret);
        if (r)
            return r == -ENOENT ? 0 : r;
    }
}

int sb_ring_damage(struct sb_ring *ring, struct sb_ring_entry *ret)
{
    if (!ring->suspect || ring->told)
        return 0;
    ring->told = 1;
    tell_lost(ring, ring->position, 0, 1, ret);
    return 1;
}
