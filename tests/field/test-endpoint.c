/* SPDX-License-Identifier: Apache-2.0
 * Cases from the field about ports, forwards and events. Each test is named after its case. */
#include "ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT = 7002 };

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_forward *forward;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
    sandbox = box_start(host, NULL);
}

static void tear_down(void)
{
    forward = sandbox_forward_close(forward);
    box_end(&host, &sandbox);
}

static int open_forward(void)
{
    sbtest_ok(sandbox_forward_open(sandbox, PORT, 0, &forward, &error), &error);
    return sandbox_forward_get_port(forward);
}

static struct sandbox_forward_status status_of(void)
{
    struct sandbox_forward_status status = SANDBOX_FORWARD_STATUS_INIT;

    sbtest_ok(sandbox_forward_get_status(forward, &status, &error), &error);
    return status;
}

static void await_active(int64_t wanted)
{
    for (long until = box_now() + sbtest_slowly(10000); status_of().active != wanted && box_now() < until;)
        usleep(1000);
    ck_assert_int_eq(status_of().active, wanted);
}

static void await_state(int wanted)
{
    int state = -1;

    for (long until = box_now() + sbtest_slowly(10000); state != wanted && box_now() < until; usleep(1000)) {
        struct sandbox_info *info = NULL;

        sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
        state = sandbox_info_get_state(info);
        sandbox_info_unref(info);
    }
    ck_assert_int_eq(state, wanted);
}

/* init's death is an event within a second, and a state with its cause. */
START_TEST(endpoint_f31)
{
    struct sandbox_events *events = NULL;
    struct sandbox_event *event = NULL;
    struct sandbox_info *info = NULL;
    pid_t init;
    long begin;

    sbtest_ok(sandbox_events_open(host, NULL, &events, &error), &error);
    ck_assert_int_eq(ports_processes("sandbox-init", &init, 1), 1);
    begin = box_now();
    ck_assert_int_eq(kill(init, SIGKILL), 0);
    sbtest_ok(sandbox_events_read(events, sbtest_slowly(5000), &event, &error), &error);
    ck_assert_int_lt(box_now() - begin, sbtest_slowly(1000));
    ck_assert_int_eq(sandbox_event_get_type(event), SANDBOX_EVENT_FAILED);
    ck_assert_str_eq(sandbox_event_get_id(event), sandbox_get_id(sandbox));
    ck_assert_ptr_nonnull(strstr(sandbox_event_get_json(event), "init died"));
    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    ck_assert_int_eq(sandbox_info_get_state(info), SANDBOX_STATE_FAILED);
    sandbox_info_unref(info);
    sandbox_event_unref(event);
    sandbox_events_close(events);
}
END_TEST

/* Many connections through one forward leave nothing, neither here nor in the helper; ends pass both ways on each. */
START_TEST(endpoint_f40)
{
    int many = getenv("SBTEST_DEEP") ? 10000 : 1000, port, before[3], after[3];
    struct sandbox_exec *server = ports_serve(sandbox, PORT, "echo", NULL, NULL);
    pid_t pids[2];

    port = open_forward();
    ck_assert_int_eq(ports_await_helpers(pids), 2);
    for (int i = 0; i < many + 1; i++) {
        int fd = ports_connect(port);

        ck_assert_int_ge(fd, 0);
        ck_assert(ports_echoes(fd));
        ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
        ck_assert_int_eq(ports_drain(fd, NULL), 0);
        close(fd);
        if (i == 0) { /* what the first one makes stays: the link to init */
            await_active(0);
            for (int p = 0; p < 2; p++)
                before[p] = ports_settled_descriptors(pids[p]);
            before[2] = ports_descriptors(getpid());
        }
    }
    await_active(0);
    for (int p = 0; p < 2; p++)
        after[p] = ports_settled_descriptors(pids[p]);
    after[2] = ports_descriptors(getpid());
    for (int p = 0; p < 3; p++)
        ck_assert_int_eq(before[p], after[p]);
    ck_assert_int_eq(status_of().accepted, many + 1);
    ck_assert_int_eq(status_of().failed, 0);
    sandbox_exec_unref(server);
}
END_TEST

/* Hundreds at once, more than are dialled at a time. */
START_TEST(endpoint_f40_at_once)
{
    enum { MANY = 300 };
    struct sandbox_exec *server = ports_serve(sandbox, PORT, "echo", NULL, NULL);
    int fds[MANY], port = open_forward();

    for (int i = 0; i < MANY; i++) {
        fds[i] = ports_connect(port);
        ck_assert_int_ge(fds[i], 0);
    }
    for (int i = 0; i < MANY; i++)
        ck_assert(ports_echoes(fds[i]));
    ck_assert_int_eq(status_of().active, MANY);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    await_active(0);
    ck_assert_int_eq(status_of().failed, 0);
    sandbox_exec_unref(server);
}
END_TEST

/* With few descriptors the helper serves as many as it can, and the others after them. */
START_TEST(endpoint_f40_few_descriptors)
{
    enum { MANY = 120 };
    struct sandbox_exec *server = ports_serve(sandbox, PORT, "echo", NULL, NULL);
    struct rlimit limit;
    int fds[MANY], port;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max = 160; /* 64 connections of two descriptors, and 32 for the rest */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    port = open_forward();
    for (int i = 0; i < MANY; i++) {
        fds[i] = ports_connect(port);
        ck_assert_int_ge(fds[i], 0);
    }
    for (int i = 0; i < 64; i++)
        ck_assert(ports_echoes(fds[i]));
    usleep(100000);
    ck_assert_int_eq(status_of().active, 64);
    for (int i = 0; i < 64; i++)
        close(fds[i]);
    for (int i = 64; i < MANY; i++) {
        ck_assert(ports_echoes(fds[i]));
        close(fds[i]);
    }
    await_active(0);
    ck_assert_int_eq(status_of().accepted, MANY);
    ck_assert_int_eq(status_of().failed, 0);
    sandbox_exec_unref(server);
}
END_TEST

static void *write_for_ever(void *data)
{
    static const char block[65536];
    int fd = *(int *)data;

    while (send(fd, block, sizeof block, MSG_NOSIGNAL) > 0)
        ;
    return NULL;
}

/* Clients that send and never read: each stalls itself alone. */
START_TEST(endpoint_f41)
{
    enum { SLOW = 8 };
    struct sandbox_exec *server = ports_serve(sandbox, PORT, "echo", NULL, NULL);
    int slow[SLOW], port = open_forward(), fd;
    pthread_t threads[SLOW];
    pid_t pids[2];
    long begin, cpu[2];

    for (int i = 0; i < SLOW; i++) {
        slow[i] = ports_connect(port);
        ck_assert_int_ge(slow[i], 0);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_for_ever, &slow[i]), 0);
    }
    for (int64_t last = -1, now; (now = status_of().bytes_in) != last || !now; last = now) /* until all of them stand */
        usleep(200000);
    fd = ports_connect(port);
    begin = box_now();
    for (int i = 0; i < 100; i++)
        ck_assert(ports_echoes(fd));
    ck_assert_int_lt(box_now() - begin, sbtest_slowly(3000));
    /* and those that stand cost nothing */
    ck_assert_int_eq(ports_await_helpers(pids), 2);
    for (int p = 0; p < 2; p++)
        cpu[p] = ports_cpu_ms(pids[p]);
    usleep(500000);
    for (int p = 0; p < 2; p++) {
        ck_assert_int_le(ports_cpu_ms(pids[p]) - cpu[p], 50);
        ck_assert_int_lt(ports_rss_kib(pids[p]), 16384);
    }
    for (int i = 0; i < SLOW; i++) {
        shutdown(slow[i], SHUT_RDWR);
        pthread_join(threads[i], NULL);
        close(slow[i]);
    }
    close(fd);
    await_active(0);
    sandbox_exec_unref(server);
}
END_TEST

/* The sandbox ends and comes back: its connections end, the status says why, and then it serves again. */
START_TEST(endpoint_f42)
{
    struct sandbox_exec *server = ports_serve(sandbox, PORT, "echo", NULL, NULL);
    struct sandbox_forward_status status;
    int port = open_forward(), fd = ports_connect(port), none;
    char byte;

    ck_assert(ports_echoes(fd));
    ck_assert_int_eq(status_of().healthy, 1);
    if (_i) { /* in the middle of its life */
        pid_t init;

        ck_assert_int_eq(ports_processes("sandbox-init", &init, 1), 1);
        kill(init, SIGKILL);
        await_state(SANDBOX_STATE_FAILED);
    } else {
        sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    }
    ck_assert_int_le(read(fd, &byte, 1), 0);
    close(fd);
    await_active(0);
    status = status_of();
    ck_assert_int_eq(status.healthy, 0);
    ck_assert_int_eq(status.listening, 1);
    ck_assert_ptr_nonnull(strstr(status.cause, "not running"));
    none = ports_connect(port);
    if (none != -ECONNRESET) { /* else it was reset before this process was woken: connect tells what the first read would have */
        ck_assert_int_ge(none, 0);
        ck_assert_int_eq(read(none, &byte, 1), -1);
        close(none);
    }
    await_active(0);
    ck_assert_ptr_nonnull(strstr(status_of().last_failure, "not running"));
    sandbox_exec_unref(server);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    server = ports_serve(sandbox, PORT, "echo", NULL, NULL);
    ck_assert_int_eq(status_of().healthy, 1);
    ck_assert_int_eq(sandbox_forward_get_port(forward), port);
    fd = ports_connect(port);
    ck_assert(ports_echoes(fd));
    close(fd);
    sandbox_exec_unref(server);
}
END_TEST

/* A connection stands as long as its server does, whatever its sandbox is asked meanwhile; a server that is told to end says its last word. */
START_TEST(endpoint_f42_last_word)
{
    struct sandbox_spec *spec = box_spec();
    int port, fd = -1;
    char text[8] = "";

    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox = sandbox_unref(sandbox);
    sbtest_ok(sandbox_spec_set_daemon(spec,
                                      BOX_ARGV("/usr/bin/perl", "-e",
                                               "use IO::Socket::INET; $l = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', LocalPort => 7002);"
                                               "$c = $l->accept; $SIG{TERM} = sub { print $c 'bye'; close $c; exit 0 }; print $c 'hi'; sleep 1 while 1"),
                                      &error),
              &error);
    sandbox = box_start(host, spec);
    port = open_forward();
    for (long until = box_now() + sbtest_slowly(10000); box_now() < until; usleep(20000)) { /* until it listens */
        fd = ports_connect(port);
        if (recv(fd, text, 2, MSG_WAITALL) == 2)
            break;
        close(fd);
    }
    ck_assert_str_eq(text, "hi");
    await_active(1);
    sbtest_ok(sandbox_stop(sandbox, 5000, sbtest_slowly(10000), &error), &error);
    ck_assert_int_eq(recv(fd, text, sizeof text, MSG_WAITALL), 3);
    ck_assert_str_eq(text, "bye");
    close(fd);
}
END_TEST

/* A local port that can't be had is said so, by its number, and the port inside is reached all the same. */
START_TEST(endpoint_f44)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct sandbox_exec *server = ports_serve(sandbox, PORT, "echo", NULL, NULL);
    socklen_t size = sizeof address;
    int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = -1;
    char number[8];

    ck_assert_int_eq(bind(taken, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(taken, 1), 0);
    ck_assert_int_eq(getsockname(taken, (struct sockaddr *)&address, &size), 0);
    snprintf(number, sizeof number, "%d", ntohs(address.sin_port));
    ck_assert_int_eq(sandbox_forward_open(sandbox, PORT, ntohs(address.sin_port), &forward, &error), SANDBOX_EBUSY);
    ck_assert_ptr_nonnull(strstr(sandbox_error_get_message(error), number));
    error = sandbox_error_unref(error);
    sbtest_ok(sandbox_dial(sandbox, PORT, sbtest_slowly(5000), &fd, &error), &error);
    ck_assert(ports_echoes(fd));
    close(fd);
    close(taken);
    sandbox_exec_unref(server);
}
END_TEST

/* It listens on 127.0.0.1 and on no other address of this machine. */
START_TEST(endpoint_f47)
{
    struct sockaddr_in other = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK + 1) } };
    char wanted[32], *table, *line, *rest;
    int port = open_forward(), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), found = 0;

    other.sin_port = htons((uint16_t)port);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&other, sizeof other), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    close(fd);
    snprintf(wanted, sizeof wanted, ":%04X 00000000:0000 0A", port);
    table = box_read("/proc/net/tcp");
    for (line = strtok_r(table, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, wanted)) {
            ck_assert_ptr_nonnull(strstr(line, "0100007F:"));
            found++;
        }
    free(table);
    ck_assert_int_eq(found, 1);
    table = box_read("/proc/net/tcp6");
    snprintf(wanted, sizeof wanted, ":%04X ", port);
    for (line = strtok_r(table, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        ck_assert(!strstr(line, wanted) || !strstr(line, " 0A "));
    free(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("field endpoint");
    TCase *tc = sbtest_case("endpoint");

    tcase_set_timeout(tc, getenv("SBTEST_DEEP") ? 180 : 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, endpoint_f31);
    tcase_add_test(tc, endpoint_f40);
    tcase_add_test(tc, endpoint_f40_at_once);
    tcase_add_test(tc, endpoint_f40_few_descriptors);
    tcase_add_test(tc, endpoint_f41);
    tcase_add_loop_test(tc, endpoint_f42, 0, 2);
    tcase_add_test(tc, endpoint_f42_last_word);
    tcase_add_test(tc, endpoint_f44);
    tcase_add_test(tc, endpoint_f47);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
