/* SPDX-License-Identifier: Apache-2.0
 * Rings as they may be found: cut at every byte, with every byte changed, full of noise, and written while they are read. What is given
 * out is always what was written, in its order; what is missing is told or lies at the end. */
#include <check.h>
#include <endian.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <crc32c.h>
#include <fs.h>
#include <ring-format.h>
#include <util.h>

#include "ring.h"

enum { RECORDS = 6, ROOM = 1 << 16 };

static char folder[64];
static int dir = -1;

static void set_up(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%.40s/ring-XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(dir, 0);
}

static void tear_down(void)
{
    dir = sb_close(dir);
    sb_remove_tree(AT_FDCWD, folder);
}

/* ---- writing ---- */

struct segment {
    char bytes[ROOM];
    size_t size;
};

static void begin(struct segment *s, uint64_t sequence, uint64_t position)
{
    struct sb_ring_segment header = { .sequence = htole64(sequence), .position = htole64(position), .wall_ns = htole64(5) };

    memcpy(header.magic, SB_RING_MAGIC, sizeof header.magic);
    header.crc = htole32(sb_crc32c(0, &header, offsetof(struct sb_ring_segment, crc)));
    memcpy(s->bytes, &header, sizeof header);
    s->size = sizeof header;
}

static void add(struct segment *s, int stream, const void *data, size_t size)
{
    struct sb_ring_record record = { .length = htole32((uint32_t)size), .wall_ns = htole64(7), .stream = (uint8_t)stream };

    record.crc = htole32(sb_crc32c(sb_crc32c(0, &record, sizeof record), data, size));
    memcpy(s->bytes + s->size, &record, sizeof record);
    memcpy(s->bytes + s->size + sizeof record, data, size);
    s->size += sizeof record + size;
}

static void put(const char *name, const struct segment *s, size_t size)
{
    ck_assert_int_eq(sb_write_file(dir, name, s->bytes, size, 0), 0);
}

/* Records "0000000", "1111111" … of growing length, alternating streams; returns the position behind them. */
static uint64_t fill(struct segment *s, uint64_t sequence, uint64_t position, int first)
{
    char text[64];

    begin(s, sequence, position);
    for (int i = first; i < first + RECORDS; i++) {
        size_t n = (size_t)(i % 7) * 3 + 1;

        memset(text, 'a' + i, n);
        add(s, i % 2 ? SB_RING_STDERR : SB_RING_STDOUT, text, n);
        position += n;
    }
    return position;
}

/* ---- reading ---- */

struct seen {
    char text[4096];
    size_t n;
    uint64_t lost, end, first;
    int losses, damaged, any;
};

/* Reads all there is; checks that positions never go back, and that a gap is told. */
static void read_ring(uint64_t from, struct seen *seen)
{
    struct sb_ring_entry e;
    struct sb_ring ring;
    int r;

    memset(seen, 0, sizeof *seen);
    ck_assert_int_eq(sb_ring_open(dir, "log", &ring), 0);
    ring.from = from;
    while ((r = sb_ring_next(&ring, &e)) == 1) {
        if (e.stream == SB_RING_DROPPED) {
            seen->losses++;
            seen->damaged |= e.damaged;
            seen->lost += e.lost;
            if (seen->any)
                ck_assert_uint_eq(e.position, seen->end);
            seen->end = e.position + e.lost;
            seen->any = e.lost != 0; /* else how much is unknown */
            continue;
        }
        if (!seen->any)
            seen->first = e.position;
        else
            ck_assert_uint_eq(e.position, seen->end);
        seen->any = 1;
        ck_assert_uint_le(seen->n + e.size, sizeof seen->text);
        memcpy(seen->text + seen->n, e.data, e.size);
        seen->n += e.size;
        seen->end = e.position + e.size;
    }
    ck_assert_int_eq(r, 0);
    if (sb_ring_damage(&ring, &e) == 1)
        seen->damaged = 1;
    ck_assert_int_eq(sb_ring_damage(&ring, &e), 0);
    sb_ring_close(&ring);
}

/* What two whole segments hold, as text. */
static struct segment older, newer;
static char whole[512];
static size_t n_older, n_whole;

static void make_two(void)
{
    uint64_t middle = fill(&older, 3, 1000, 0);
    struct seen seen;

    fill(&newer, 4, middle, RECORDS);
    put("log.1", &older, older.size);
    put("log.0", &newer, newer.size);
    read_ring(0, &seen);
    ck_assert_int_eq(seen.losses, 0);
    ck_assert_int_eq(seen.damaged, 0);
    ck_assert_uint_eq(seen.first, 1000);
    memcpy(whole, seen.text, seen.n);
    n_whole = seen.n;
    n_older = (size_t)(middle - 1000);
    ck_assert_uint_eq(seen.end, 1000 + n_whole);
}

/* Bytes from `at` on are those of the whole. */
static void expect_part(const struct seen *seen, size_t at)
{
    ck_assert_uint_le(at + seen->n, n_whole);
    ck_assert_mem_eq(seen->text, whole + at, seen->n);
}

START_TEST(positions)
{
    make_two();
    for (uint64_t from = 1; from < 1000 + n_whole + 5; from++) {
        struct seen seen;

        read_ring(from, &seen);
        ck_assert_int_eq(seen.damaged, 0);
        if (from < 1000) {
            ck_assert_uint_eq(seen.lost, 1000 - from);
            expect_part(&seen, 0);
            ck_assert_uint_eq(seen.n, n_whole);
        } else {
            ck_assert_int_eq(seen.losses, 0);
            ck_assert_uint_eq(seen.n, from - 1000 < n_whole ? n_whole - (from - 1000) : 0);
            expect_part(&seen, n_whole - seen.n);
        }
    }
}
END_TEST

START_TEST(cut_at_every_byte)
{
    struct seen seen;

    make_two();
    for (size_t cut = 0; cut < newer.size; cut++) { /* a crash */
        put("log.0", &newer, cut);
        read_ring(0, &seen);
        expect_part(&seen, 0);
        ck_assert_uint_ge(seen.n, n_older);
        ck_assert_int_eq(seen.damaged, cut < sizeof(struct sb_ring_segment));
    }
    put("log.0", &newer, newer.size);
    for (size_t cut = 0; cut < older.size; cut++) { /* no crash does that: then it is told, to the byte */
        put("log.1", &older, cut);
        read_ring(0, &seen);
        ck_assert_uint_ge(seen.n, n_whole - n_older);
        ck_assert_mem_eq(seen.text + seen.n - (n_whole - n_older), whole + n_older, n_whole - n_older);
        if (cut >= sizeof(struct sb_ring_segment)) {
            ck_assert_uint_eq(seen.n + seen.lost, n_whole);
            ck_assert_mem_eq(seen.text, whole, seen.n - (n_whole - n_older));
        } else {
            ck_assert_int_eq(seen.damaged, 1);
        }
    }
}
END_TEST

START_TEST(every_byte_changed)
{
    struct segment *const segments[] = { &older, &newer };
    struct seen seen;

    make_two();
    for (int which = 0; which < 2; which++)
        for (size_t at = 0; at < segments[which]->size; at++) {
            segments[which]->bytes[at] ^= (char)(1 + at % 255);
            put(which ? "log.0" : "log.1", segments[which], segments[which]->size);
            segments[which]->bytes[at] ^= (char)(1 + at % 255);
            read_ring(0, &seen);
            /* nothing that was changed is ever given out, and it is told that something is missing */
            if (which == 0) {
                ck_assert_uint_ge(seen.n, n_whole - n_older);
                ck_assert_mem_eq(seen.text + seen.n - (n_whole - n_older), whole + n_older, n_whole - n_older);
                ck_assert_int_eq(seen.damaged || seen.n + seen.lost == n_whole, 1);
                ck_assert_mem_eq(seen.text, whole, seen.n - (n_whole - n_older));
            } else {
                expect_part(&seen, 0);
                ck_assert_uint_lt(seen.n, n_whole);
            }
            put(which ? "log.0" : "log.1", segments[which], segments[which]->size);
        }
}
END_TEST

/* What a hostile hand could write has right checksums: then lengths and types must do. */
START_TEST(hostile_records)
{
    static const uint32_t lengths[] = { 0, 1, 15, 17, 95, 97, SB_RING_RECORD_MAX, SB_RING_RECORD_MAX + 1, INT32_MAX, UINT32_MAX };
    char payload[128];
    struct seen seen;

    memset(payload, 0xff, sizeof payload);
    for (int stream = 0; stream < 256; stream++)
        for (size_t i = 0; i < SB_ELEMENTS(lengths); i++) {
            struct sb_ring_record record = { .length = htole32(lengths[i]), .stream = (uint8_t)stream, .wall_ns = UINT64_MAX };
            size_t have = lengths[i] < sizeof payload ? lengths[i] : sizeof payload;

            begin(&newer, UINT64_MAX, UINT64_MAX - 5);
            record.crc = htole32(sb_crc32c(sb_crc32c(0, &record, sizeof record), payload, have));
            memcpy(newer.bytes + newer.size, &record, sizeof record);
            memcpy(newer.bytes + newer.size + sizeof record, payload, have);
            newer.size += sizeof record + have;
            put("log.0", &newer, newer.size);
            if (stream == SB_RING_DROPPED || stream == SB_RING_STDOUT || stream == SB_RING_STDERR)
                continue; /* their positions wrap, as they must where a number says so: read_ring() would not believe it */
            read_ring(0, &seen);
        }
}
END_TEST

/* A length that no record has is damage, and not a record that is still being written: else nobody would hear that something is missing. */
START_TEST(impossible_lengths)
{
    static const uint32_t lengths[] = { SB_RING_RECORD_MAX, SB_RING_RECORD_MAX + 1, INT32_MAX, UINT32_MAX };

    for (size_t i = 0; i < SB_ELEMENTS(lengths); i++) {
        struct sb_ring_record record = { .length = htole32(lengths[i]), .stream = SB_RING_STDOUT, .wall_ns = 1 };
        struct seen seen;

        begin(&newer, 1, 0);
        add(&newer, SB_RING_STDOUT, "whole", 5);
        memcpy(newer.bytes + newer.size, &record, sizeof record);
        memset(newer.bytes + newer.size + sizeof record, 'x', 1000);
        put("log.0", &newer, newer.size + sizeof record + 1000);
        read_ring(0, &seen);
        ck_assert_uint_eq(seen.n, 5);
        ck_assert_int_eq(seen.damaged, lengths[i] > SB_RING_RECORD_MAX);
    }
}
END_TEST

START_TEST(noise)
{
    unsigned int seed = 12345;

    for (int round = 0; round < 3000; round++) {
        struct segment *s = round % 2 ? &older : &newer;
        struct sb_ring_entry e;
        struct sb_ring ring;
        int most = 100000;

        fill(s, 1 + (uint64_t)(round / 7 % 5), 10, round % 5);
        for (int k = 0; k < round % 9; k++)
            s->bytes[rand_r(&seed) % s->size] = (char)rand_r(&seed);
        for (size_t i = s->size; i < s->size + 200; i++)
            s->bytes[i] = (char)rand_r(&seed);
        put(round % 2 ? "log.0" : "log.1", s, s->size + (size_t)(rand_r(&seed) % 200));
        ck_assert_int_eq(sb_ring_open(dir, "log", &ring), 0);
        while (sb_ring_next(&ring, &e) == 1)
            ck_assert_int_gt(most--, 0);
        sb_ring_damage(&ring, &e);
        sb_ring_close(&ring);
    }
}
END_TEST

/* What stands where a segment should, and is no file: nobody waits for it, and it is damage. */
START_TEST(segments_that_are_no_files)
{
    struct seen seen;

    ck_assert_int_eq(mkfifoat(dir, "log.0", 0600), 0);
    read_ring(0, &seen);
    ck_assert_uint_eq(seen.n, 0);
    ck_assert_int_eq(seen.damaged, 1);
    ck_assert_int_eq(unlinkat(dir, "log.0", 0), 0);
    ck_assert_int_eq(mkdirat(dir, "log.0", 0700), 0);
    read_ring(0, &seen);
    ck_assert_uint_eq(seen.n, 0);
    ck_assert_int_eq(seen.damaged, 1);
}
END_TEST

START_TEST(no_ring)
{
    struct seen seen;

    read_ring(0, &seen);
    ck_assert_int_eq(seen.any, 0);
    ck_assert_int_eq(sb_ring_exists(dir, "log"), 0);
    ck_assert_int_eq(symlinkat("/etc/passwd", dir, "log.0"), 0);
    ck_assert_int_eq(mkfifoat(dir, "log.1", 0600), 0);
    read_ring(0, &seen);
    ck_assert_uint_eq(seen.n, 0);
    ck_assert_int_eq(seen.damaged, 1);
}
END_TEST

/* ---- a writer that turns the ring under the reader ---- */

enum { TURNS = 300, A_TURN = 40 };
static atomic_int done;

static void *turn(void *unused)
{
    static struct segment s;
    uint64_t position = 0;

    (void)unused;
    for (int t = 0; t < TURNS; t++) {
        char name[8], temporary[16];
        int fd;

        begin(&s, (uint64_t)t + 1, position);
        snprintf(name, sizeof name, "log.%d", t % 2);
        snprintf(temporary, sizeof temporary, ".%s.tmp", name);
        fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ck_assert_int_eq(write(fd, s.bytes, s.size), s.size);
        ck_assert_int_eq(renameat(dir, temporary, dir, name), 0);
        for (int i = 0; i < A_TURN; i++) {
            char text[32];
            size_t before = s.size, n = (size_t)snprintf(text, sizeof text, "%llu\n", (unsigned long long)position);

            add(&s, SB_RING_STDOUT, text, n);
            ck_assert_int_eq(write(fd, s.bytes + before, s.size - before), s.size - before);
            position += n;
        }
        close(fd);
    }
    atomic_store(&done, 1);
    return NULL;
}

START_TEST(turning_under_the_reader)
{
    uint64_t end = 0, got = 0, lost = 0;
    struct sb_ring_entry e;
    struct sb_ring ring;
    pthread_t thread;
    int r, last = 0;

    ck_assert_int_eq(sb_ring_open(dir, "log", &ring), 0);
    ring.begun = 1; /* of what it never saw it wants to hear */
    ck_assert_int_eq(pthread_create(&thread, NULL, turn, NULL), 0);
    for (;;) {
        r = sb_ring_next(&ring, &e);
        ck_assert_int_ge(r, 0);
        if (!r && last)
            break;
        if (!r) {
            last = atomic_load(&done);
            continue;
        }
        ck_assert_uint_eq(e.position, end);
        ck_assert_int_eq(e.damaged, 0);
        if (e.stream == SB_RING_DROPPED) {
            lost += e.lost;
            end += e.lost;
            continue;
        }
        ck_assert_uint_eq(strtoull(e.data, NULL, 10), e.position);
        end += e.size;
        got += e.size;
    }
    pthread_join(thread, NULL);
    ck_assert_uint_eq(got + lost, end);
    ck_assert_uint_gt(end, (uint64_t)TURNS * A_TURN * 4);
    sb_ring_close(&ring);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ring");
    TCase *tests = tcase_create("ring");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, positions);
    tcase_add_test(tests, cut_at_every_byte);
    tcase_add_test(tests, every_byte_changed);
    tcase_add_test(tests, hostile_records);
    tcase_add_test(tests, impossible_lengths);
    tcase_add_test(tests, noise);
    tcase_add_test(tests, segments_that_are_no_files);
    tcase_add_test(tests, no_ring);
    tcase_add_test(tests, turning_under_the_reader);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
