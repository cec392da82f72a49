/* SPDX-License-Identifier: Apache-2.0
 * Ports of sandboxes from outside: connections by sandbox_dial() and through forwards, and what becomes of both when something ends. */
#include "ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PORT = 7001, BIG = 64 << 20, BLOCK = 1 << 16 };

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
    sandbox = box_start(host, NULL);
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static struct sandbox_forward *open_forward(int *ret_port)
{
    struct sandbox_forward *forward = NULL;

    sbtest_ok(sandbox_forward_open(sandbox, PORT, 0, &forward, &error), &error);
    *ret_port = sandbox_forward_get_port(forward);
    ck_assert_int_gt(*ret_port, 1023);
    return forward;
}

static struct sandbox_forward_status status_of(struct sandbox_forward *forward)
{
    struct sandbox_forward_status status = SANDBOX_FORWARD_STATUS_INIT;

    sbtest_ok(sandbox_forward_get_status(forward, &status, &error), &error);
    return status;
}

/* Until no connection stands any more: the helper learns of an end a moment after we do. */
static struct sandbox_forward_status settled(struct sandbox_forward *forward)
{
    struct sandbox_forward_status status = status_of(forward);

    for (long until = box_now() + sbtest_slowly(10000); status.active && box_now() < until; status = status_of(forward))
        usleep(1000);
    ck_assert_int_eq(status.active, 0);
    return status;
}

START_TEST(forward_echo)
{
    struct sandbox_forward_status status;
    struct sandbox_exec *server = ports_serve(sandbox, PORT, "echo", NULL, NULL);
    int port, fd;
    struct sandbox_forward *forward = open_forward(&port), *second = NULL;

    status = status_of(forward);
    ck_assert_int_eq(status.healthy, 1);
    ck_assert_int_eq(status.accepted, 0);
    fd = ports_connect(port);
    ck_assert_int_ge(fd, 0);
    ck_assert(ports_echoes(fd));
    ck_assert_int_eq(status_of(forward).active, 1);
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    ck_assert_int_eq(ports_drain(fd, NULL), 0);
    close(fd);
    status = settled(forward);
    ck_assert_int_eq(status.accepted, 1);
    ck_assert_int_eq(status.failed, 0);
    ck_assert_int_eq(status.bytes_in, 4);
    ck_assert_int_eq(status.bytes_out, 4);
    ck_assert_str_eq(status.cause, "");
    ck_assert_str_eq(status.last_failure, "");
    ck_assert_int_eq(sandbox_forward_open(sandbox, PORT, port, &second, &error), SANDBOX_EBUSY);
    ck_assert_str_eq(sandbox_error_get_field(error), "local_port");
    ck_assert_int_eq(sandbox_error_get_errno(error), EADDRINUSE);
    error = sandbox_error_unref(error);
    forward = sandbox_forward_close(forward);
    ck_assert_int_eq(ports_connect(port), -ECONNREFUSED);
    ck_assert_int_eq(ports_helpers(NULL, 0), 0);
    /* and the port is free at once */
    sbtest_ok(sandbox_forward_open(sandbox, PORT, port, &second, &error), &error);
    ck_assert_int_eq(sandbox_forward_get_port(second), port);
    ck_assert_ptr_null(sandbox_forward_close(second));
    sandbox_exec_unref(server);
}
END_TEST

/* 64 MiB in each direction, one after the other: the server ends its half first. */
static void *send_big(void *data)
{
    static char block[BLOCK];
    int fd = *(int *)data;

    for (size_t at = 0; at < BIG; at += BLOCK) {
        ports_pattern(block, BLOCK, at + 1);
        if (ports_write(fd, block, BLOCK) < 0)
            return (void *)1;
    }
    shutdown(fd, SHUT_WR);
    return NULL;
}

static unsigned long long pattern_hash(size_t offset)
{
    static char block[BLOCK];
    unsigned long long hash = PORTS_HASH_INIT;

    for (size_t at = 0; at < BIG; at += BLOCK) {
        ports_pattern(block, BLOCK, at + offset);
        hash = ports_hash(block, BLOCK, hash);
    }
    return hash;
}

/* By a forward (0, 2) or by dial (1, 3); the server ends first (0, 1), or both directions run at once (2, 3). */
START_TEST(half_close_big)
{
    char text[80] = "", bytes[16];
    unsigned long long hash, got = 0, theirs = 0;
    int port = 0, fd, out;
    struct sandbox_forward *forward = NULL;
    struct sandbox_exec *server;
    pthread_t thread;
    void *failed = NULL;

    snprintf(bytes, sizeof bytes, "%d", BIG);
    server = ports_serve(sandbox, PORT, _i < 2 ? "push" : "echo", bytes, &out);
    if (_i & 1) {
        sbtest_ok(sandbox_dial(sandbox, PORT, sbtest_slowly(5000), &fd, &error), &error);
    } else {
        forward = open_forward(&port);
        fd = ports_connect(port);
    }
    if (_i < 2) {
        ck_assert_int_eq(ports_drain(fd, &hash), BIG);
        ck_assert(hash == pattern_hash(0));
        ck_assert_ptr_null(send_big(&fd));
        ck_assert_int_gt(read(out, text, sizeof text - 1), 0);
        ck_assert_int_eq(sscanf(text, "got %llu %llx", &got, &theirs), 2);
        ck_assert_uint_eq(got, BIG);
        ck_assert(theirs == pattern_hash(1));
        ck_assert_ptr_null(strstr(text, "broken"));
    } else {
        ck_assert_int_eq(pthread_create(&thread, NULL, send_big, &fd), 0);
        ck_assert_int_eq(ports_drain(fd, &hash), BIG);
        pthread_join(thread, &failed);
        ck_assert_ptr_null(failed);
        ck_assert(hash == pattern_hash(1));
    }
    close(fd);
    close(out);
    if (forward) {
        struct sandbox_forward_status status = settled(forward);

        ck_assert_int_eq(status.bytes_in, BIG);
        ck_assert_int_eq(status.bytes_out, BIG);
    }
    sandbox_forward_close(forward);
    sandbox_exec_unref(server);
}
END_TEST

START_TEST(forward_to_nobody)
{
    struct sandbox_forward_status status;
    int port, fd;
    char byte;
    struct sandbox_forward *forward = open_forward(&port);

    for (int i = 0; i < 20; i++) {
        fd = ports_connect(port);
        if (fd == -ECONNRESET) /* accepted and reset before this process was woken: connect tells what the first read would have */
            continue;
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(read(fd, &byte, 1), -1);
        ck_assert_int_eq(errno, ECONNRESET);
        close(fd);
    }
    status = settled(forward);
    ck_assert_int_eq(status.accepted, 20);
    ck_assert_int_eq(status.failed, 20);
    ck_assert_int_eq(status.healthy, 1);
    ck_assert_ptr_nonnull(strstr(status.last_failure, "refused"));
    sandbox_forward_close(forward);
}
END_TEST

/* A reset passes both ways. */
START_TEST(forward_resets)
{
    struct linger reset = { 1, 0 };
    int port, fd, out;
    struct sandbox_exec *server = ports_serve(sandbox, PORT, _i ? "reset" : "push", "1", &out);
    char byte;
    struct sandbox_forward *forward = open_forward(&port);

    fd = ports_connect(port);
    if (_i) { /* from inside */
        ck_assert_int_eq(ports_write(fd, "x", 1), 0);
        ck_assert_int_eq(read(fd, &byte, 1), -1);
        ck_assert_int_eq(errno, ECONNRESET);
    } else {
        ck_assert_int_eq(read(fd, &byte, 1), 1);
        ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    }
    close(fd);
    settled(forward);
    /* the server had its end: it serves the next */
    fd = ports_connect(port);
    ck_assert_int_eq(ports_write(fd, "x", 1), 0);
    ck_assert_int_eq(read(fd, &byte, 1), _i ? -1 : 1);
    close(fd);
    close(out);
    settled(forward);
    sandbox_forward_close(forward);
    sandbox_exec_unref(server);
}
END_TEST

START_TEST(forward_helper_killed)
{
    struct sandbox_forward_status status;
    struct sandbox_exec *server = ports_serve(sandbox, PORT, "echo", NULL, NULL);
    pid_t pids[4];
    int port, fd;
    char byte;
    struct sandbox_forward *forward = open_forward(&port);

    fd = ports_connect(port);
    ck_assert(ports_echoes(fd));
    ck_assert_int_eq(ports_await_helpers(pids), 2);
    ck_assert_int_eq(kill(pids[_i], SIGKILL), 0);
    ck_assert_int_le(read(fd, &byte, 1), 0);
    for (long until = box_now() + sbtest_slowly(5000); ports_helpers(NULL, 0) && box_now() < until;) {
        status = status_of(forward); /* looks after the dead, too */
        usleep(1000);
    }
    ck_assert_int_eq(ports_helpers(NULL, 0), 0);
    status = status_of(forward);
    ck_assert_int_eq(status.healthy, 0);
    ck_assert_int_eq(status.listening, 0);
    ck_assert_ptr_nonnull(strstr(status.cause, "helper"));
    ck_assert_int_eq(ports_connect(port), -ECONNREFUSED);
    close(fd);
    forward = sandbox_forward_close(forward);
    forward = open_forward(&port);
    fd = ports_connect(port);
    ck_assert(ports_echoes(fd));
    close(fd);
    sandbox_forward_close(forward);
    sandbox_exec_unref(server);
}
END_TEST

/* A helper that is stopped doesn't keep its owner for ever. */
START_TEST(forward_helper_stopped)
{
    pid_t pids[4];
    int port;
    struct sandbox_forward *forward = open_forward(&port);
    long begin;

    ck_assert_int_eq(ports_await_helpers(pids), 2);
    kill(pids[0], SIGSTOP);
    kill(pids[1], SIGSTOP);
    begin = box_now();
    forward = sandbox_forward_close(forward);
    ck_assert_int_eq(ports_connect(port), -ECONNREFUSED);
    ck_assert_int_lt(box_now() - begin, sbtest_slowly(6000));
    for (long until = box_now() + sbtest_slowly(2000); ports_helpers(NULL, 0) && box_now() < until;)
        usleep(1000);
    ck_assert_int_eq(ports_helpers(NULL, 0), 0);
}
END_TEST

/* The owner dies without a word, while a copy of it that it forked holds all its descriptors. */
START_TEST(forward_owner_killed)
{
    struct sandbox_exec *server = ports_serve(sandbox, PORT, "echo", NULL, NULL);
    char id[SANDBOX_ID_LENGTH + 1];
    int fds[2], said[2] = { 0, 0 }, fd;
    pid_t owner;

    snprintf(id, sizeof id, "%s", sandbox_get_id(sandbox));
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    owner = fork();
    ck_assert_int_ge(owner, 0);
    if (owner == 0) {
        struct sandbox_host *own = box_host();
        struct sandbox *same = NULL;
        struct sandbox_forward *forward = NULL;
        int port = 0;

        if (sandbox_open(own, id, &same, NULL) == 0 && sandbox_forward_open(same, PORT, 0, &forward, NULL) == 0)
            port = sandbox_forward_get_port(forward);
        said[1] = fork();
        if (said[1] == 0)
            for (;;)
                pause();
        said[0] = port;
        if (write(fds[1], said, sizeof said) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(fds[0], said, sizeof said), (int)sizeof said);
    ck_assert_int_gt(said[0], 0);
    fd = ports_connect(said[0]);
    ck_assert(ports_echoes(fd));
    kill(owner, SIGKILL);
    waitpid(owner, NULL, 0);
    ck_assert_int_le(ports_drain(fd, NULL), 0);
    close(fd);
    for (long until = box_now() + sbtest_slowly(2000); (fd = ports_connect(said[0])) >= 0 && box_now() < until; usleep(1000))
        close(fd);
    ck_assert_int_eq(fd, -ECONNREFUSED);
    kill(said[1], SIGKILL);
    close(fds[0]);
    close(fds[1]);
    sandbox_exec_unref(server);
}
END_TEST

START_TEST(forward_arguments)
{
    struct sandbox_forward_status status = SANDBOX_FORWARD_STATUS_INIT;
    struct sandbox_forward *forward = NULL;
    struct sandbox *gone = NULL;
    int port;

    if (geteuid() != 0) { /* as long as the machine says so */
        int r = sandbox_forward_open(sandbox, PORT, 1, &forward, &error);

        ck_assert(r == SANDBOX_EDENIED || r == SANDBOX_EBUSY || r == 0);
        error = sandbox_error_unref(error);
        forward = sandbox_forward_close(forward);
    }
    forward = open_forward(&port);
    sbtest_ok(sandbox_open(host, sandbox_get_id(sandbox), &gone, &error), &error);
    sbtest_ok(sandbox_delete(gone, 10000, &error), &error);
    sbtest_ok(sandbox_forward_get_status(forward, &status, &error), &error);
    ck_assert_int_eq(status.healthy, 0);
    ck_assert_int_eq(status.listening, 1);
    ck_assert_ptr_nonnull(strstr(status.cause, "no sandbox"));
    forward = sandbox_forward_close(forward);
    sbtest_fails(sandbox_forward_open(gone, PORT, 0, &forward, &error), SANDBOX_ENOTFOUND, &error);
    sandbox_unref(gone);
    ck_assert_ptr_null(sandbox_forward_close(NULL));
}
END_TEST

/* ---- dial ---- */

/* Who never accepts: the queue takes a few, then time is up. Bounded, and typed. */
START_TEST(dial_deaf)
{
    struct sandbox_exec *server = ports_serve(sandbox, PORT, "deaf", NULL, NULL);
    int fds[8], n = 0, r = 0;
    long begin = box_now();

    while (n < 8 && !r) {
        r = sandbox_dial(sandbox, PORT, 300, &fds[n], &error);
        n += !r;
    }
    ck_assert_int_lt(n, 8);
    ck_assert_int_eq(r, SANDBOX_ETIMEDOUT);
    ck_assert_int_eq(sandbox_error_get_retryable(error), 1);
    error = sandbox_error_unref(error);
    ck_assert_int_lt(box_now() - begin, sbtest_slowly(5000));
    sbtest_fails(sandbox_dial(sandbox, PORT, 0, &fds[n], &error), SANDBOX_ETIMEDOUT, &error);
    while (n > 0)
        close(fds[--n]);
    sandbox_exec_unref(server);
}
END_TEST

static void *dial_for_ever(void *data)
{
    int fd = -1;

    *(int *)data = sandbox_dial(sandbox, PORT, -1, &fd, NULL);
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* The sandbox is stopped while somebody waits for a connection. */
START_TEST(dial_stopped)
{
    struct sandbox_exec *server = ports_serve(sandbox, PORT, "deaf", NULL, NULL);
    int fds[8], n = 0, result = 1;
    pthread_t thread;

    while (n < 8 && !sandbox_dial(sandbox, PORT, 200, &fds[n], NULL))
        n++;
    ck_assert_int_eq(pthread_create(&thread, NULL, dial_for_ever, &result), 0);
    usleep(100000);
    ck_assert_int_eq(result, 1);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    pthread_join(thread, NULL);
    ck_assert_int_eq(result, SANDBOX_ENOTRUNNING);
    while (n > 0)
        close(fds[--n]);
    sandbox_exec_unref(server);
}
END_TEST

enum { THREADS = 32, EACH = 32 };

static void *dial_many(void *data)
{
    int *good = data;

    for (int i = 0; i < EACH; i++) {
        int fd = -1;

        if (sandbox_dial(sandbox, PORT, 20000, &fd, NULL) == 0 && ports_echoes(fd))
            ++*good;
        if (fd >= 0)
            close(fd);
    }
    return NULL;
}

START_TEST(dial_parallel)
{
    struct sandbox_exec *server = ports_serve(sandbox, PORT, "echo", NULL, NULL);
    pthread_t threads[THREADS];
    int good[THREADS] = { 0 }, all = 0;

    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, dial_many, &good[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        all += good[i];
    }
    ck_assert_int_eq(all, THREADS * EACH);
    sandbox_exec_unref(server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration endpoints");
    TCase *tc = sbtest_case("endpoints");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, forward_echo);
    tcase_add_loop_test(tc, half_close_big, 0, 4);
    tcase_add_test(tc, forward_to_nobody);
    tcase_add_loop_test(tc, forward_resets, 0, 2);
    tcase_add_loop_test(tc, forward_helper_killed, 0, 2);
    tcase_add_test(tc, forward_helper_stopped);
    tcase_add_test(tc, forward_owner_killed);
    tcase_add_test(tc, forward_arguments);
    tcase_add_test(tc, dial_deaf);
    tcase_add_test(tc, dial_stopped);
    tcase_add_test(tc, dial_parallel);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
