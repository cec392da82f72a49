/* SPDX-License-Identifier: Apache-2.0
 * The pair of sockets that a forward's relay moves bytes between (forward-pair.c), over TCP as there, and over UNIX sockets with the smallest
 * buffers: what is partly taken is not lost, ends and resets pass, and one call does a bounded piece of work. */
#include "forward.h"
#include "sbtest.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static struct ag_pair pair;
static int client, server; /* the far ends */
static char buffer[128 * 1024];

/* Both ends of one TCP connection. */
static void connect_tcp(int ends[2], int receive_bytes)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_bytes)
        ck_assert_int_eq(setsockopt(ends[0], SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes), 0);
    ck_assert_int_eq(connect(ends[0], (struct sockaddr *)&address, size), 0);
    ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(ends[1], 0);
    close(listener);
}

static void set_up(void)
{
    int ends[2];

    memset(&pair, 0, sizeof pair);
    connect_tcp(ends, 0);
    client = ends[0];
    pair.fd[0] = ends[1];
    connect_tcp(ends, 4096);
    server = ends[0];
    pair.fd[1] = ends[1];
}

static void tear_down(void)
{
    ag_pair_close(&pair, 0);
    close(client);
    close(server);
}

/* All that level-triggered readiness says, and moves until nothing is left to do. */
static enum ag_pair_state go(void)
{
    enum ag_pair_state state;

    for (int side = 0; side < 2; side++)
        ag_pair_event(&pair, side, EPOLLIN | EPOLLOUT);
    while ((state = ag_pair_move(&pair, buffer, sizeof buffer)) == AG_PAIR_GOES_ON)
        ;
    return state;
}

static char byte_at(size_t offset)
{
    return (char)(offset * 2654435761u >> 9);
}

/* Reads what there is, checks it; the new offset. */
static size_t take(int fd, size_t offset)
{
    static char got[1 << 16];
    ssize_t n = recv(fd, got, sizeof got, MSG_DONTWAIT);

    for (ssize_t i = 0; i < n; i++)
        ck_assert_int_eq(got[i], byte_at(offset + (size_t)i));
    return n > 0 ? offset + (size_t)n : offset;
}

/* Through a receiver of 4 KiB, whose every write is partial. */
static void carry(int from, int to, size_t bytes)
{
    static char block[1 << 16];
    size_t sent = 0, got = 0;

    for (int idle = 0; got < bytes && idle < 100000; idle++) {
        size_t before = sent + got;
        ssize_t n;

        for (size_t i = 0; i < sizeof block; i++)
            block[i] = byte_at(sent + i);
        n = sent < bytes ? send(from, block, bytes - sent < sizeof block ? bytes - sent : sizeof block, MSG_DONTWAIT) : 0;
        sent += n > 0 ? (size_t)n : 0;
        ck_assert_int_eq(go(), AG_PAIR_WAITS);
        got = take(to, got);
        if (sent + got != before)
            idle = 0;
        else
            usleep(10);
    }
    ck_assert_uint_eq(got, bytes);
}

START_TEST(pair_partial_writes)
{
    carry(client, server, 1 << 16);
    ck_assert_uint_eq(pair.moved[0], 1 << 16);
    carry(server, client, 1 << 16);
    ck_assert_uint_eq(pair.moved[1], 1 << 16);
}
END_TEST

START_TEST(pair_unix_sockets)
{
    int ends[2], small = 1;

    ag_pair_close(&pair, 0);
    close(client);
    close(server);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client = ends[0];
    pair.fd[0] = ends[1];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    server = ends[0];
    pair.fd[1] = ends[1];
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    carry(client, server, 1 << 20);
    shutdown(client, SHUT_WR);
    ck_assert_int_eq(go(), AG_PAIR_WAITS);
    ck_assert_int_eq(recv(server, buffer, 1, 0), 0);
    carry(server, client, 1 << 16); /* the other half still goes */
    close(server);
    server = -1;
    ck_assert_int_eq(go(), AG_PAIR_ENDED);
}
END_TEST

START_TEST(pair_half_close)
{
    int first = _i ? server : client, second = _i ? client : server;

    ck_assert_int_eq(send(first, "ab", 2, 0), 2);
    shutdown(first, SHUT_WR);
    usleep(1000);
    ck_assert_int_eq(go(), AG_PAIR_WAITS);
    ck_assert_int_eq(recv(second, buffer, sizeof buffer, 0), 2);
    ck_assert_int_eq(recv(second, buffer, sizeof buffer, 0), 0);
    ck_assert_int_eq(send(second, "cde", 3, 0), 3);
    usleep(1000);
    ck_assert_int_eq(go(), AG_PAIR_WAITS);
    ck_assert_int_eq(recv(first, buffer, sizeof buffer, 0), 3);
    shutdown(second, SHUT_WR);
    usleep(1000);
    ck_assert_int_eq(go(), AG_PAIR_ENDED);
    ck_assert_int_eq(recv(first, buffer, sizeof buffer, 0), 0);
}
END_TEST

static void reset(int *fd)
{
    struct linger l = { 1, 0 };

    setsockopt(*fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    close(*fd);
    *fd = -1;
    usleep(1000);
}

START_TEST(pair_reset)
{
    int *first = _i ? &server : &client, *second = _i ? &client : &server;

    reset(first);
    ag_pair_event(&pair, _i, EPOLLERR | EPOLLHUP);
    ck_assert_int_eq(go(), AG_PAIR_BROKEN);
    ag_pair_close(&pair, 1);
    ck_assert_int_eq(recv(*second, buffer, 1, 0), -1);
    ck_assert_int_eq(errno, ECONNRESET);
}
END_TEST

/* It says its last word and then resets, since it didn't read what it was sent: the word arrives, and then the reset. */
START_TEST(pair_last_word)
{
    ck_assert_int_eq(send(client, "unread", 6, 0), 6);
    ck_assert_int_eq(go(), AG_PAIR_WAITS);
    ck_assert_int_eq(send(server, "word", 4, 0), 4);
    usleep(1000);
    reset(&server);
    /* what the client sends now is refused: known before what is there to be read is looked at */
    ck_assert_int_eq(send(client, "more", 4, 0), 4);
    usleep(1000);
    ag_pair_event(&pair, 1, EPOLLERR | EPOLLHUP);
    ck_assert_int_eq(go(), AG_PAIR_BROKEN);
    ck_assert_int_eq(recv(client, buffer, sizeof buffer, 0), 4);
    ag_pair_close(&pair, 1);
    ck_assert_int_eq(recv(client, buffer, 1, 0), -1);
}
END_TEST

/* The end came in order and then an error, when nothing more is read from that side. */
START_TEST(pair_error_after_end)
{
    shutdown(server, SHUT_WR);
    usleep(1000);
    ck_assert_int_eq(go(), AG_PAIR_WAITS);
    ck_assert_int_eq(pair.ended[1], 1);
    ag_pair_event(&pair, 1, EPOLLERR);
    ck_assert_int_eq(go(), AG_PAIR_BROKEN);
}
END_TEST

/* One that never stops sending has its share, and then it is others' turn. */
START_TEST(pair_share)
{
    static char block[1 << 20];
    ssize_t n, all = 0;

    ck_assert_int_eq(setsockopt(server, SOL_SOCKET, SO_RCVBUF, &(int){ 1 << 20 }, sizeof(int)), 0);
    while ((n = send(client, block, sizeof block, MSG_DONTWAIT)) > 0)
        all += n;
    ck_assert_int_gt(all, 4096);
    ag_pair_event(&pair, 0, EPOLLIN | EPOLLOUT);
    ag_pair_event(&pair, 1, EPOLLIN | EPOLLOUT);
    ck_assert_int_eq(ag_pair_move(&pair, buffer, 64), AG_PAIR_GOES_ON);
    ck_assert_uint_le(pair.moved[0], 64 * 8);
    ck_assert_uint_gt(pair.moved[0], 0);
}
END_TEST

/* Both directions stand, and then one side is gone: what was on its way to the other is given up, for that may never read. */
START_TEST(pair_stalled_and_reset)
{
    static char block[1 << 16];
    int *gone = _i ? &server : &client, other = _i ? client : server;

    for (int idle = 0; idle < 20; idle++) { /* until neither takes more */
        ssize_t n = send(client, block, sizeof block, MSG_DONTWAIT), m = send(other, block, sizeof block, MSG_DONTWAIT);

        if (n > 0 || m > 0)
            idle = 0;
        ck_assert_int_eq(go(), AG_PAIR_WAITS);
        while (_i && send(server, block, sizeof block, MSG_DONTWAIT) > 0)
            idle = 0;
    }
    reset(gone);
    ag_pair_event(&pair, _i, EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP);
    ck_assert_int_eq(ag_pair_move(&pair, buffer, sizeof buffer), AG_PAIR_BROKEN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("forward pair");
    TCase *tc = sbtest_case("pair");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, pair_partial_writes);
    tcase_add_test(tc, pair_unix_sockets);
    tcase_add_loop_test(tc, pair_half_close, 0, 2);
    tcase_add_loop_test(tc, pair_reset, 0, 2);
    tcase_add_test(tc, pair_last_word);
    tcase_add_test(tc, pair_error_after_end);
    tcase_add_test(tc, pair_share);
    tcase_add_loop_test(tc, pair_stalled_and_reset, 0, 2);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
