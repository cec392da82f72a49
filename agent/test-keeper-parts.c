/* SPDX-License-Identifier: Apache-2.0
 * Parts of keeper, called as its main function calls them: what a run of the whole program (test-keeper.c) meets only by chance. */
#include <sbtest.h>

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

#include "keeper-loop.h"
#include "test-keeper.h"

static struct ag_keeper keeper;

static void set_up(void)
{
    signal(SIGPIPE, SIG_IGN);
    memset(&keeper, 0, sizeof keeper);
    keeper.folder = open(sbtest_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(keeper.folder, 0);
    ag_ring_init(&keeper.log.ring, keeper.folder, "log", SB_RING_MIN);
    ag_ring_init(&keeper.exits, keeper.folder, "exits", SB_RING_MIN);
    ag_journals_init(&keeper);
    for (int i = 0; i < IN_COUNT; i++)
        keeper.in[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
}

static void tear_down(void)
{
    for (int i = 0; i < IN_ALL; i++)
        sb_close(keeper.in[i].fd);
    for (struct ag_journal *j = keeper.journals; j < keeper.journals + SB_JOURNALS_MAX; j++)
        if (j->used)
            ag_ring_close(&j->sink.ring);
    ag_ring_close(&keeper.log.ring);
    ag_ring_close(&keeper.exits);
    sb_close(keeper.folder);
}

/* The kinds of the records of a segment, one character each: '1' for SB_RING_STDOUT … */
static void list_records(const char *segment, char *text, size_t size)
{
    SB_FREE char *bytes = NULL;
    size_t n, count = 0;

    ck_assert_int_eq(sb_read_file(keeper.folder, segment, 1 << 20, &bytes, &n), 0);
    for (size_t at = sizeof(struct sb_ring_segment); at < n && count < size - 1;) {
        struct sb_ring_record record;

        ck_assert_uint_ge(n - at, sizeof record);
        memcpy(&record, bytes + at, sizeof record);
        text[count++] = (char)('0' + record.stream);
        at += sizeof record + le32toh(record.length);
    }
    text[count] = 0;
}

static void send_event(int fd, uint32_t type)
{
    struct sb_ring_event event = { .type = htole32(type), .number = htole32(1), .kind = htole32(type == SB_EVENT_ENDED) };

    ck_assert_int_eq(send(fd, &event, sizeof event, 0), sizeof event);
}

/* All of it waits when keeper looks for the first time, as on a busy machine: a start stands before what was written after it, an end behind. */
START_TEST(events_keep_their_place_in_the_output)
{
    int out[2], events[2];
    char text[16];

    ck_assert_int_eq(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, events), 0);
    keeper.in[IN_OUT].fd = out[0];
    keeper.in[IN_EVENTS].fd = events[0];
    keeper.in[IN_SIGNAL].fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* "a child has ended": there is none */
    send_event(events[1], SB_EVENT_STARTED);
    ck_assert_int_eq(write(out[1], "hello", 5), 5);
    send_event(events[1], SB_EVENT_ENDED);
    close(out[1]);
    close(events[1]);
    ag_keeper_run(&keeper);
    list_records("log.0", text, sizeof text);
    ck_assert_str_eq(text, "6117"); /* STARTED, "hello", the stream's end, ENDED */
    list_records("exits.0", text, sizeof text);
    ck_assert_str_eq(text, "44");
}
END_TEST

/* A torn record is cut off by who goes on behind the last whole one, also where what he writes is shorter. */
START_TEST(a_torn_tail_is_cut_off)
{
    static const char tail[100] = "half of a record";
    struct sb_ring_event event = { .exec_id = { 1 }, .type = htole32(SB_EVENT_ENDED) };
    struct ag_ring *ring = &keeper.exits;
    struct seen seen;
    int fd;

    ck_assert_int_eq(ag_ring_append(ring, SB_RING_EVENT, 1, &event, sizeof event), 0);
    ag_ring_close(ring);
    fd = openat(keeper.folder, "exits.0", O_WRONLY | O_APPEND | O_CLOEXEC);
    ck_assert_int_eq(write(fd, tail, sizeof tail), sizeof tail);
    close(fd);
    ck_assert_int_eq(ag_ring_append(ring, SB_RING_STDOUT, 1, "x", 1), 0);
    test_read_ring(keeper.folder, "exits", &seen);
    ck_assert_int_eq(seen.torn, 0);
    ck_assert_uint_eq(seen.events, 1);
    ck_assert_uint_eq(seen.kept[0], 1);
    test_free_seen(&seen);
}
END_TEST

static int count_files(const char *prefix)
{
    DIR *stream = fdopendir(openat(keeper.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *d;
    int n = 0;

    while ((d = readdir(stream)))
        n += !strncmp(d->d_name, prefix, strlen(prefix));
    closedir(stream);
    return n;
}

static const struct {
    uint64_t bytes;
    int taken;
} bounds[] = { { 0, 0 },
               { SB_RING_MIN - 1, 0 },
               { SB_RING_MIN, 1 },
               { SB_JOURNAL_BYTES_MAX, 1 },
               { SB_JOURNAL_BYTES_MAX + 1, 0 },
               { UINT64_MAX, 0 } };

/* Whatever init says: a journal of no size that the library asks for is none, and its command learns by its pipes. */
START_TEST(a_journal_has_bounds)
{
    struct sb_ring_event event = { .exec_id = { 1 }, .type = htole32(SB_EVENT_JOURNAL), .max_bytes = htole64(bounds[_i].bytes) };
    int out[2], err[2];

    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(err, O_CLOEXEC), 0);
    ag_journal_begin(&keeper, &event, out[0], err[0]);
    ck_assert_int_eq(count_files("j-"), bounds[_i].taken);
    for (int i = 0; i < 2; i++) {
        int fd = i ? err[1] : out[1];

        ck_assert_int_eq(write(fd, "x", 1), bounds[_i].taken ? 1 : -1);
        if (!bounds[_i].taken)
            ck_assert_int_eq(errno, EPIPE);
        close(fd);
    }
}
END_TEST

/* A check that is under way when the end begins has no answer any more: that says nothing of the health. */
START_TEST(the_end_fails_no_check)
{
    struct ag_life *l = &keeper.life;
    const int healthy = 2;

    *l = (struct ag_life){ .given = 1, .init = -1, .health = healthy, .begun_at = 1, .check_until = 1,
                           .plan = { .ttl_until_ms = 1, .grace_ms = 600000, .retries = 1, .argc = 1, .interval_ms = 600000 } };
    keeper.in[IN_TTL] = (struct pollfd){ .fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK), .revents = POLLIN };
    ag_lifetime_turn(&keeper);
    ck_assert_int_eq(l->end, SB_WATCH_TTL);
    ck_assert_int_eq(l->health, healthy);
    ck_assert_uint_eq(l->failures, 0);
    ck_assert_int_eq(l->check_at, 0);
    close(keeper.in[IN_TTL].fd);
}
END_TEST

/* An attempt of which nothing is heard counts, too. */
START_TEST(restarts_have_an_end)
{
    struct ag_life *l = &keeper.life;

    *l = (struct ag_life){ .given = 1, .init = -1, .plan = { .restart = SB_LIFE_RESTART_ON_FAILURE, .restart_max = 2 } };
    keeper.in[IN_TTL] = (struct pollfd){ .fd = -1 };
    l->restarts = 1;
    l->attempt_until = 1;
    ag_lifetime_turn(&keeper);
    ck_assert_int_gt(l->restart_at, 0);
    l->restart_at = 0;
    l->restarts = 2;
    l->attempt_until = 1;
    ag_lifetime_turn(&keeper);
    ck_assert_int_eq(l->restart_at, 0);
    ck_assert_int_eq(l->attempt_until, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("keeper-parts");
    TCase *tests = sbtest_case("parts");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, events_keep_their_place_in_the_output);
    tcase_add_test(tests, a_torn_tail_is_cut_off);
    tcase_add_loop_test(tests, a_journal_has_bounds, 0, (int)SB_ELEMENTS(bounds));
    tcase_add_test(tests, the_end_fails_no_check);
    tcase_add_test(tests, restarts_have_an_end);
    suite_add_tcase(suite, tests);
    return sbtest_main(suite);
}
