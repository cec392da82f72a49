/* SPDX-License-Identifier: Apache-2.0
 * What somebody inside can do to a forward, to a dial, to init's socket and to who watches: nothing but to his own connections. */
#include "ports.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <plan.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PORT = 7003, OTHER = 7004 };

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_forward *forward;
static struct sandbox_error *error;
static pid_t helpers[2];
static int port;

static void set_up(void)
{
    host = box_host();
    sandbox = box_start(host, NULL);
    sbtest_ok(sandbox_forward_open(sandbox, PORT, 0, &forward, &error), &error);
    port = sandbox_forward_get_port(forward);
    ck_assert_int_eq(ports_await_helpers(helpers), 2);
}

static void tear_down(void)
{
    forward = sandbox_forward_close(forward);
    box_end(&host, &sandbox);
}

static struct sandbox_forward_status status_of(void)
{
    struct sandbox_forward_status status = SANDBOX_FORWARD_STATUS_INIT;

    sbtest_ok(sandbox_forward_get_status(forward, &status, &error), &error);
    return status;
}

static void await_active(int64_t wanted)
{
    for (long until = box_now() + sbtest_slowly(20000); status_of().active != wanted && box_now() < until;)
        usleep(1000);
    ck_assert_int_eq(status_of().active, wanted);
}

/* The helper neither grew nor spins. */
static void expect_calm(void)
{
    long cpu[2];

    for (int i = 0; i < 2; i++)
        cpu[i] = ports_cpu_ms(helpers[i]);
    usleep(400000);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_le(ports_cpu_ms(helpers[i]) - cpu[i], 40);
        ck_assert_int_lt(ports_rss_kib(helpers[i]), 16384);
    }
}

/* A server that accepts and never reads: what is sent to it waits with its sender. */
START_TEST(redteam_forward_never_reads)
{
    enum { MANY = 40 };
    static const char block[1 << 16];
    struct sandbox_exec *hold = ports_serve(sandbox, PORT, "hold", NULL, NULL);
    int fds[MANY];

    for (int i = 0; i < MANY; i++) {
        fds[i] = ports_connect(port);
        ck_assert_int_ge(fds[i], 0);
    }
    await_active(MANY);
    for (int idle = 0; idle < 5; idle++, usleep(20000))
        for (int i = 0; i < MANY; i++)
            while (send(fds[i], block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                idle = 0;
    expect_calm();
    /* who is gone is let go, though the other side doesn't move */
    for (int i = 0; i < MANY; i++) {
        struct linger reset = { 1, 0 };

        setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fds[i]);
    }
    await_active(0);
    sandbox_exec_unref(hold);
}
END_TEST

START_TEST(redteam_forward_resets)
{
    struct sandbox_exec *storm = ports_serve(sandbox, PORT, "storm", NULL, NULL);
    char byte;

    for (int i = 0; i < 500; i++) {
        int fd = ports_connect(port);

        if (fd == -ECONNRESET) /* by the time that we look */
            continue;
        ck_assert_int_ge(fd, 0);
        if (i % 2)
            send(fd, "x", 1, MSG_NOSIGNAL);
        ck_assert_int_le(read(fd, &byte, 1), 0);
        close(fd);
    }
    await_active(0);
    expect_calm();
    ck_assert_int_eq(status_of().healthy, 1);
    sandbox_exec_unref(storm);
}
END_TEST

/* The smallest window, read a byte at a time, beside a server that serves. */
START_TEST(redteam_forward_tiny_window)
{
    struct sandbox_exec *tiny = ports_serve(sandbox, PORT, "tiny", NULL, NULL), *echo = ports_serve(sandbox, OTHER, "echo", NULL, NULL);
    struct sandbox_forward *second = NULL;
    static char block[4096];
    char back[4096];
    int slow = ports_connect(port), fast, got = 0, n = 0;
    long begin;

    sbtest_ok(sandbox_forward_open(sandbox, OTHER, 0, &second, &error), &error);
    fast = ports_connect(sandbox_forward_get_port(second));
    memset(block, 'a', sizeof block);
    ck_assert_int_eq(ports_write(slow, block, sizeof block), 0);
    begin = box_now();
    for (int i = 0; i < 50; i++)
        ck_assert(ports_echoes(fast));
    ck_assert_int_lt(box_now() - begin, sbtest_slowly(2000));
    while (got < (int)sizeof back && (n = (int)read(slow, back + got, sizeof back - (size_t)got)) > 0)
        got += n;
    ck_assert_int_eq(got, (int)sizeof back);
    ck_assert_mem_eq(block, back, sizeof back);
    close(slow);
    close(fast);
    sandbox_forward_close(second);
    sandbox_exec_unref(tiny);
    sandbox_exec_unref(echo);
}
END_TEST

/* A port that takes no connection: dials hang up to their end, the helper asks for no more than a few, and all are told. */
START_TEST(redteam_forward_deaf)
{
    enum { MANY = 40 };
    struct sandbox_exec *deaf = ports_serve(sandbox, PORT, "deaf", NULL, NULL);
    int fds[MANY], inside = -1;

    for (int i = 0; i < MANY; i++)
        fds[i] = ports_connect(port);
    usleep(300000);
    expect_calm();
    /* init has places for others all the while */
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 0"), 0);
    ck_assert_int_eq(sandbox_dial(sandbox, OTHER, 2000, &inside, &error), SANDBOX_EIO);
    error = sandbox_error_unref(error);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    sandbox_exec_unref(deaf);
    forward = sandbox_forward_close(forward); /* at once, with dials under way */
    ck_assert_int_eq(ports_helpers(NULL, 0), 0);
}
END_TEST

/* Nothing of the helper can be seen or reached from inside: no process, no listener, no socket with a name. */
START_TEST(redteam_forward_unreachable)
{
    char script[512], *text;

    snprintf(script, sizeof script,
             "cat /proc/[0-9]*/comm | grep -c sandbox-forward; grep -c '@' /proc/net/unix; grep -ci ':%04X ' /proc/net/tcp; "
             "perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => %d) ? \"open\" : \"closed\"'",
             port, port);
    text = box_sh(sandbox, NULL, script);
    ck_assert_str_eq(text, "0\n0\n0\nclosed");
    free(text);
}
END_TEST

/* The helper holds nothing by which it could do more than it is for. */
START_TEST(redteam_forward_holds_little)
{
    for (int i = 0; i < 2; i++) {
        char path[64], link[256], *text;

        snprintf(path, sizeof path, "/proc/%d/status", (int)helpers[i]);
        text = box_read(path);
        ck_assert_ptr_nonnull(strstr(text, "NoNewPrivs:\t1"));
        ck_assert_ptr_nonnull(strstr(text, "Seccomp:\t2"));
        ck_assert_ptr_nonnull(strstr(text, "CapEff:\t0000000000000000"));
        ck_assert_ptr_nonnull(strstr(text, "CapPrm:\t0000000000000000"));
        free(text);
        for (int fd = 3; fd < 64; fd++) { /* sockets, an epoll, the owner's pidfd; no folder, no file */
            ssize_t n;

            snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)helpers[i], fd);
            n = readlink(path, link, sizeof link - 1);
            if (n < 0)
                continue;
            link[n] = 0;
            ck_assert_msg(!strncmp(link, "socket:", 7) || !strncmp(link, "anon_inode:", 11) || !strncmp(link, "pidfd:", 6), "it holds %s", link);
        }
    }
}
END_TEST

/* ---- init's socket ---- */

static int connect_to_init(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char folder[600];
    int dir, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(folder, sizeof folder, "%s/sandboxes/%s", box_root(), sandbox_get_id(sandbox));
    dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(dir, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/s", dir);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(dir);
    return fd;
}

/* Callers that leave before their answer: their places are free again, whatever they asked for. */
START_TEST(redteam_init_places)
{
    static const uint32_t types[] = { SB_REQUEST_START, SB_REQUEST_STATUS, SB_REQUEST_WATCH, SB_REQUEST_DIAL, SB_REQUEST_KILL, 99 };

    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int i = 0; i < 3400; i++) { /* more than it has */
            struct sb_request request = { .type = types[t], .port = 1, .signal = 0 };
            int fd = connect_to_init();

            ck_assert_int_eq(send(fd, &request, sizeof request, MSG_NOSIGNAL), (int)sizeof request);
            close(fd);
        }
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 0"), 0);
}
END_TEST

/* All places taken by callers that say nothing: a dial says that it is busy, not that the sandbox is dead, and works when they are gone. */
START_TEST(redteam_init_full)
{
    enum { MANY = 3400 };
    struct rlimit before, more;
    struct sandbox_exec *echo = ports_serve(sandbox, PORT, "echo", NULL, NULL);
    static int fds[MANY];
    int fd = -1;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    more = before;
    more.rlim_cur = more.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &more), 0);
    for (int i = 0; i < MANY; i++)
        fds[i] = connect_to_init();
    ck_assert_int_eq(sandbox_dial(sandbox, PORT, 200, &fd, &error), SANDBOX_EBUSY);
    ck_assert_int_eq(sandbox_error_get_retryable(error), 1);
    error = sandbox_error_unref(error);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    sbtest_ok(sandbox_dial(sandbox, PORT, sbtest_slowly(5000), &fd, &error), &error);
    ck_assert(ports_echoes(fd));
    close(fd);
    sandbox_exec_unref(echo);
}
END_TEST

/* A sandbox that was given the folder of all sandboxes: init hears only who is outside. */
START_TEST(redteam_init_from_inside)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();
    struct box_run run;
    char folder[600], script[700];

    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox = sandbox_unref(sandbox);
    snprintf(folder, sizeof folder, "%s/sandboxes", box_root());
    mount.source = folder;
    mount.target = "/all";
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    sandbox = box_start(host, spec);
    snprintf(script, sizeof script,
             "socket($s, AF_UNIX, 5, 0) or die; connect($s, pack_sockaddr_un('/all/%s/s')) or do { print 'refused'; exit 0 };"
             "syswrite($s, pack('L32', 4, (0) x 31)); $n = sysread($s, $b, 4096); print defined $n ? \"heard $n\" : 'reset'",
             sandbox_get_id(sandbox));
    box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("/usr/bin/perl", "-MSocket", "-e", script));
    ck_assert_int_eq(run.result.code, 0);
    /* as root its folders can't be entered; as an ordinary user, whose own uid is inside, they can */
    if (box_privilege() == BOX_ROOT)
        ck_assert_str_eq(run.output.out, "refused");
    else
        ck_assert_msg(!strcmp(run.output.out, "heard 0") || !strcmp(run.output.out, "reset"), "%s", run.output.out);
    box_clear(&run);
}
END_TEST

/* A watcher that never reads, while a thousand things happen: init goes on, and others hear all. */
START_TEST(redteam_watcher_never_reads)
{
    struct sb_request request = { .type = SB_REQUEST_WATCH };
    int fds[SB_WATCHERS_MAX];
    pid_t init;
    long cpu;

    for (int i = 0; i < SB_WATCHERS_MAX; i++) {
        int small = 1;

        fds[i] = connect_to_init();
        setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        ck_assert_int_eq(send(fds[i], &request, sizeof request, MSG_NOSIGNAL), (int)sizeof request);
    }
    for (int i = 0; i < 500; i++)
        ck_assert_int_eq(box_code(sandbox, NULL, "exit 0"), 0);
    ck_assert_int_eq(ports_processes("sandbox-init", &init, 1), 1);
    cpu = ports_cpu_ms(init);
    usleep(300000);
    ck_assert_int_le(ports_cpu_ms(init) - cpu, 30);
    for (int i = 0; i < SB_WATCHERS_MAX; i++)
        close(fds[i]);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 0"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redteam endpoints");
    TCase *tc = sbtest_case("endpoints");

    tcase_set_timeout(tc, 90);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, redteam_forward_never_reads);
    tcase_add_test(tc, redteam_forward_resets);
    tcase_add_test(tc, redteam_forward_tiny_window);
    tcase_add_test(tc, redteam_forward_deaf);
    tcase_add_test(tc, redteam_forward_unreachable);
    tcase_add_test(tc, redteam_forward_holds_little);
    tcase_add_test(tc, redteam_init_places);
    tcase_add_test(tc, redteam_init_full);
    tcase_add_test(tc, redteam_init_from_inside);
    tcase_add_test(tc, redteam_watcher_never_reads);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
