/* SPDX-License-Identifier: Apache-2.0
 * See keeper-ring.h. Every write goes to an offset of our own keeping, and a failed one is cut off again: the file's end is
 * always the end of a whole record unless we died in between, and then the checksum tells. */
#include "keeper-ring.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <crc32c.h>
#include <util.h>

static void segment_name(const struct ag_ring *ring, int which, char name[AG_RING_NAME])
{
    snprintf(name, AG_RING_NAME, "%s.%d", ring->name, which);
}

void ag_ring_init(struct ag_ring *ring, int dir, const char *name, uint64_t max_bytes)
{
    memset(ring, 0, sizeof *ring);
    ring->dir = dir;
    ring->name = name;
    ring->half = (max_bytes < SB_RING_MIN ? SB_RING_MIN : max_bytes) / 2;
    ring->fd = -1;
}

size_t ag_ring_payload_max(const struct ag_ring *ring)
{
    uint64_t most = (ring->half - sizeof(struct sb_ring_segment)) / 4 - sizeof(struct sb_ring_record);

    return most > SB_RING_RECORD_MAX ? SB_RING_RECORD_MAX : (size_t)most;
}

static int read_exactly(int fd, void *data, size_t size, uint64_t offset)
{
    char *p = data;

    while (size) {
        ssize_t n = SB_RETRY(pread(fd, p, size, (off_t)offset));

        if (n < 0)
            return -errno;
        if (n == 0)
            return -ENODATA;
        p += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

static uint32_t record_crc(const struct sb_ring_record *record, const void *payload, size_t size)
{
    struct sb_ring_record copy = *record;
    uint32_t crc;

    copy.crc = 0;
    crc = sb_crc32c(0, &copy, sizeof copy);
    return sb_crc32c(crc, payload, size);
}

/* Opens a segment that is a regular file with a good header. */
static int open_segment(const struct ag_ring *ring, int which, struct sb_ring_segment *ret_header)
{
    SB_CLOSE int fd = -1;
    struct sb_ring_segment header;
    char name[AG_RING_NAME];
    struct stat st;
    int r;

    segment_name(ring, which, name);
    fd = openat(ring->dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    r = read_exactly(fd, &header, sizeof header, 0);
    if (r)
        return r;
    if (memcmp(header.magic, SB_RING_MAGIC, sizeof header.magic) ||
        le32toh(header.crc) != sb_crc32c(0, &header, offsetof(struct sb_ring_segment, crc)))
        return -EBADMSG;
    *ret_header = header;
    return SB_TAKE_FD(fd);
}

/* By how much a record moves the position. */
static uint64_t span(int stream, const void *payload, size_t size)
{
    struct sb_ring_dropped lost;

    if (stream == SB_RING_STDOUT || stream == SB_RING_STDERR)
        return size;
    if (stream != SB_RING_DROPPED || size != sizeof lost)
        return 0;
    memcpy(&lost, payload, sizeof lost);
    return le64toh(lost.bytes[0]) + le64toh(lost.bytes[1]);
}

/* The offset behind the last whole record; *position moves from the segment's begin to there. */
static uint64_t find_end(int fd, uint64_t *position)
{
    static char payload[SB_RING_RECORD_MAX]; /* single-threaded */
    uint64_t offset = sizeof(struct sb_ring_segment);

    for (;;) {
        struct sb_ring_record record;
        size_t length;

        if (read_exactly(fd, &record, sizeof record, offset))
            return offset;
        length = le32toh(record.length);
        if (length > sizeof payload || read_exactly(fd, payload, length, offset + sizeof record) ||
            le32toh(record.crc) != record_crc(&record, payload, length))
            return offset;
        *position += span(record.stream, payload, length);
        offset += sizeof record + length;
    }
}

/* A new segment in the place of the older one, or of none. */
static int begin_segment(struct ag_ring *ring)
{
    struct sb_ring_segment header = { .magic = SB_RING_MAGIC };
    SB_CLOSE int fd = -1;
    char name[AG_RING_NAME], temporary[AG_RING_NAME + 8];
    struct timespec now;
    int which = ring->sequence ? !ring->current : 0;
    ssize_t n;

    clock_gettime(CLOCK_REALTIME, &now);
    header.sequence = htole64(ring->sequence + 1);
    header.position = htole64(ring->position);
    header.wall_ns = htole64((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    header.crc = htole32(sb_crc32c(0, &header, offsetof(struct sb_ring_segment, crc)));
    segment_name(ring, which, name);
    snprintf(temporary, sizeof temporary, ".%s.tmp", name);
    if (unlinkat(ring->dir, temporary, 0) < 0 && errno != ENOENT)
        return -errno;
    fd = openat(ring->dir, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    n = SB_RETRY(pwrite(fd, &header, sizeof header, 0));
    if (n != (ssize_t)sizeof header || renameat(ring->dir, temporary, ring->dir, name) < 0) {
        int r = n < 0 ? -errno : n != (ssize_t)sizeof header ? -ENOSPC : -errno;

        unlinkat(ring->dir, temporary, 0);
        return r;
    }
    sb_close(ring->fd);
    ring->fd = SB_TAKE_FD(fd);
    ring->current = which;
    ring->sequence++;
    ring->offset = sizeof header;
    return 0;
}

int ag_ring_open(struct ag_ring *ring)
{
    struct sb_ring_segment header[2];
    int fd[2], newest = -1;
    struct stat st;

    for (int i = 0; i < 2; i++) {
        fd[i] = open_segment(ring, i, &header[i]);
        if (fd[i] >= 0 && (newest < 0 || le64toh(header[i].sequence) > le64toh(header[newest].sequence)))
            newest = i;
    }
    if (newest < 0)
        return begin_segment(ring);
    sb_close(fd[!newest]);
    ring->fd = fd[newest];
    ring->current = newest;
    ring->sequence = le64toh(header[newest].sequence);
    ring->position = le64toh(header[newest].position);
    ring->offset = find_end(ring->fd, &ring->position);
    if (fstat(ring->fd, &st) == 0 && (uint64_t)st.st_size > ring->offset && ftruncate(ring->fd, (off_t)ring->offset) < 0)
        return begin_segment(ring);
    return 0;
}

int ag_ring_append(struct ag_ring *ring, int stream, uint64_t wall_ns, const void *payload, size_t size)
{
    struct sb_ring_record record = { .length = htole32((uint32_t)size),
                                       .wall_ns = htole64(wall_ns),
                                       .stream = (uint8_t)stream };
    struct iovec parts[2] = { { &record, sizeof record }, { (void *)payload, size } };
    uint64_t offset, total = sizeof record + size;
    int part = 0;

    if (size > ag_ring_payload_max(ring))
        return -EMSGSIZE;
    if (ring->fd < 0 || ring->offset + total > ring->half) {
        int r = ring->fd < 0 ? ag_ring_open(ring) : begin_segment(ring);

        if (!r && ring->offset + total > ring->half) /* opened anew, and it is full */
            r = begin_segment(ring);
        if (r)
            return r;
    }
    record.crc = htole32(record_crc(&record, payload, size));
    for (offset = ring->offset; part < 2;) {
        ssize_t n = SB_RETRY(pwritev(ring->fd, parts + part, 2 - part, (off_t)offset));

        if (n <= 0) {
            int r = n < 0 ? -errno : -ENOSPC;

            if (ftruncate(ring->fd, (off_t)ring->offset) < 0)
                ring->fd = sb_close(ring->fd); /* the next append opens it again and cuts it off */
            return r;
        }
        offset += (uint64_t)n;
        for (; part < 2 && (size_t)n >= parts[part].iov_len; part++)
            n -= (ssize_t)parts[part].iov_len;
        if (part < 2) {
            parts[part].iov_base = (char *)parts[part].iov_base + n;
            parts[part].iov_len -= (size_t)n;
        }
    }
    ring->offset = offset;
    ring->position += span(stream, payload, size);
    return 0;
}

void ag_ring_shrink(struct ag_ring *ring)
{
    char name[AG_RING_NAME];

    if (ring->fd < 0)
        return;
    segment_name(ring, !ring->current, name);
    unlinkat(ring->dir, name, 0);
}

int ag_ring_sync(struct ag_ring *ring)
{
    return ring->fd >= 0 && fdatasync(ring->fd) < 0 ? -errno : 0;
}

void ag_ring_close(struct ag_ring *ring)
{
    ring->fd = sb_close(ring->fd);
}
