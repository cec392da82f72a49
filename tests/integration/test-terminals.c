/* SPDX-License-Identifier: Apache-2.0
 * Commands with a terminal: that it is a real one of the sandbox's own, that nothing is lost on it, and what becomes of it at its end. */
#include "screen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* A terminal has the sandbox's own /dev/pts/N, by path, by name and as the controlling one, and is its user's. */
START_TEST(exec_f18_terminal)
{
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct screen t;

    screen_open(&t, sandbox,
                "tty; test -t 0 && test -t 1 && test -t 2 && test -c \"$(tty)\" && echo real; "
                "echo to-tty >/dev/tty; stat -c 'owner %u %a' \"$(tty)\"; echo \"$TERM in $(pwd)\"; stty size; stty -a | grep -o '[-]*iutf8'; "
                "ls /dev/pts; exit 7");
    screen_await(&t, "/dev/pts/0\r\n");
    screen_await(&t, "real\r\n");
    screen_await(&t, "to-tty\r\n");
    screen_await(&t, "owner 0 620\r\n");
    screen_await(&t, "xterm in /\r\n");
    screen_await(&t, "24 80\r\n");
    screen_await(&t, "iutf8\r\n");
    screen_expect(&t, 7);
    options.terminal = 1;
    options.user = box_user();
    options.workdir = "/tmp";
    options.env = BOX_ARGV("ONE=1");
    options.rows = 50;
    options.columns = 132;
    screen_open_with(&t, sandbox, &options, BOX_ARGV("sh", "-c", "id -u; stat -c 'owner %u' $(tty); echo \"$ONE $(pwd) ${TERM-none}\"; stty size"));
    screen_await(&t, box_user() ? "1500\r\nowner 1500\r\n" : "0\r\nowner 0\r\n");
    screen_await(&t, "1 /tmp none\r\n");
    screen_await(&t, "50 132\r\n");
    screen_expect(&t, 0);
    box_end(&host, &sandbox);
}
END_TEST

static void expect_refused(struct sandbox *sandbox, const struct sandbox_exec_options *options, const char *field)
{
    struct sandbox_exec *exec = NULL;
    struct sandbox_error *error = NULL;

    ck_assert_int_eq(sandbox_exec(sandbox, BOX_ARGV("true"), options, &exec, &error), SANDBOX_EINVALID);
    ck_assert_str_eq(sandbox_error_get_field(error), field);
    sandbox_error_unref(error);
}

START_TEST(terminal_bad_arguments)
{
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL, *again = NULL;
    struct sandbox_error *error = NULL;
    struct screen t;
    int fd = -1;

    options.terminal = 9;
    expect_refused(sandbox, &options, "terminal");
    options.terminal = 1;
    options.rows = 65536;
    expect_refused(sandbox, &options, "rows");
    options.rows = 0;
    options.columns = -1;
    expect_refused(sandbox, &options, "columns");
    options.columns = 0;
    options.journal_max = 65536;
    expect_refused(sandbox, &options, "journal_max");

    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("true"), NULL, &exec, &error), &error);
    sbtest_fails(sandbox_exec_take_terminal(exec, &fd, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_resize_terminal(exec, 1, 1, 0, 0, &error), SANDBOX_EINVALID, &error);
    sandbox_exec_unref(exec);

    screen_open(&t, sandbox, "read x; exit 3");
    sbtest_fails(sandbox_exec_take_terminal(t.exec, &fd, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_take_stdin(t.exec, &fd, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_resize_terminal(t.exec, 0, 80, 0, 0, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_resize_terminal(t.exec, 24, 65536, 0, 0, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_resize_terminal(t.exec, 24, 80, -1, 0, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_resize_terminal(t.exec, 24, 80, 0, 65536, &error), SANDBOX_EINVALID, &error);
    sbtest_ok(sandbox_exec_open(sandbox, sandbox_exec_get_id(t.exec), &again, &error), &error);
    sbtest_fails(sandbox_exec_take_terminal(again, &fd, &error), SANDBOX_EINVALID, &error);
    sandbox_exec_unref(again);
    screen_type(&t, "\n");
    while (!t.ended)
        screen_read(&t);
    sbtest_ok(sandbox_exec_wait(t.exec, sbtest_slowly(WAIT_MS), NULL, &error), &error);
    sbtest_fails(sandbox_exec_resize_terminal(t.exec, 24, 80, 0, 0, &error), SANDBOX_ENOTRUNNING, &error);
    screen_expect(&t, 3);
    options = (struct sandbox_exec_options)SANDBOX_EXEC_OPTIONS_INIT;
    options.terminal = 1;
    sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("/no/such"), &options, &exec, &error), SANDBOX_ENOTFOUND, &error);
    box_end(&host, &sandbox);
}
END_TEST

/* A new size is seen inside, with SIGWINCH. */
START_TEST(terminal_resize)
{
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    struct sandbox_error *error = NULL;
    struct winsize size;
    struct screen t;

    screen_open(&t, sandbox, "trap 'echo changed; stty size' WINCH; echo ready; while ! read -r line; do :; done; exit 4");
    screen_await(&t, "ready\r\n");
    sbtest_ok(sandbox_exec_resize_terminal(t.exec, 40, 100, 800, 640, &error), &error);
    screen_await(&t, "changed\r\n40 100\r\n");
    ck_assert_int_eq(ioctl(t.fd, TIOCGWINSZ, &size), 0);
    ck_assert_int_eq(size.ws_xpixel, 800);
    ck_assert_int_eq(size.ws_ypixel, 640);
    sbtest_ok(sandbox_exec_resize_terminal(t.exec, 65535, 65535, 0, 0, &error), &error);
    screen_await(&t, "changed\r\n65535 65535\r\n");
    screen_type(&t, "x\n");
    screen_expect(&t, 4);
    box_end(&host, &sandbox);
}
END_TEST

/* ^C, ^Z, fg and jobs of an interactive shell; ^D ends the input. */
START_TEST(terminal_job_control)
{
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct screen t;

    options.terminal = 1;
    options.env = BOX_ARGV("PS1=ready> ", "ENV=", "TERM=dumb");
    screen_open_with(&t, sandbox, &options, BOX_ARGV("bash", "--norc", "--noediting", "-i"));
    screen_await(&t, "ready> ");
    screen_type(&t, "sleep 600\n");
    screen_await(&t, "sleep 600\r\n");
    usleep(300000);
    screen_type(&t, "\x1a");
    screen_await(&t, "Stopped");
    screen_await(&t, "ready> ");
    screen_type(&t, "jobs; fg\n");
    screen_await(&t, "Stopped");
    screen_await(&t, "sleep 600\r\n");
    usleep(300000);
    screen_type(&t, "\x03");
    screen_await(&t, "ready> ");
    screen_type(&t, "echo code=$?\n");
    screen_await(&t, "code=130\r\n");
    screen_type(&t, "cat; echo cat=$?\n");
    screen_type(&t, "line\n");
    screen_await(&t, "line\r\n");
    screen_type(&t, "\x04");
    screen_await(&t, "cat=0\r\n");
    screen_type(&t, "exit 9\n");
    screen_expect(&t, 9);
    box_end(&host, &sandbox);
}
END_TEST

/* All that was written before the end is there, whatever was written by whom. */
START_TEST(terminal_output_whole)
{
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    size_t total = 0, expected = 0;
    struct screen t;

    for (int i = 1; i <= 150000; i++)
        expected += (size_t)snprintf(NULL, 0, "%d", i) + 1;
    screen_open(&t, sandbox, "stty -opost; seq 150000; printf last-word; exit 5");
    while (!t.ended) {
        size_t had = t.n;

        screen_read(&t);
        total += t.n > had ? t.n - had : 0;
        if (t.n > 60)
            memmove(t.text, t.text + t.n - 60, 60), t.n = 60;
        t.text[t.n] = 0;
    }
    ck_assert_uint_eq(total, expected + strlen("last-word"));
    ck_assert_ptr_nonnull(strstr(t.text, "150000\nlast-word"));
    screen_expect(&t, 5);
    box_end(&host, &sandbox);
}
END_TEST

/* A megabyte pasted into a raw terminal comes back whole, while both directions are full. */
START_TEST(terminal_paste)
{
    enum { SIZE = 1 << 20 };
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    char *sent = malloc(SIZE), *back = malloc(SIZE);
    size_t n_sent = 0, n_back = 0;
    struct screen t;

    for (size_t i = 0; i < SIZE; i++)
        sent[i] = (char)(i * 2654435761u >> 13);
    screen_open(&t, sandbox, "stty raw -echo; echo ready; head -c 1048576; exit 6");
    screen_await(&t, "ready\n");
    ck_assert_uint_eq(t.seen, t.n);
    fcntl(t.fd, F_SETFL, O_NONBLOCK);
    while (n_back < SIZE) {
        struct pollfd p = { .fd = t.fd, .events = POLLIN | (n_sent < SIZE ? POLLOUT : 0) };
        ssize_t n;

        ck_assert_int_eq(poll(&p, 1, (int)sbtest_slowly(WAIT_MS)), 1);
        if (p.revents & POLLIN) {
            n = read(t.fd, back + n_back, SIZE - n_back);
            ck_assert_msg(n > 0, "%zd after %zu: %s", n, n_back, strerror(errno));
            n_back += (size_t)n;
        }
        if ((p.revents & POLLOUT) && n_sent < SIZE) {
            n = write(t.fd, sent + n_sent, SIZE - n_sent);
            ck_assert(n > 0 || errno == EAGAIN);
            n_sent += n > 0 ? (size_t)n : 0;
        }
    }
    ck_assert_int_eq(memcmp(sent, back, SIZE), 0);
    screen_expect(&t, 6);
    free(sent);
    free(back);
    box_end(&host, &sandbox);
}
END_TEST

static int lives(struct sandbox *sandbox, const char *what)
{
    char script[256];

    snprintf(script, sizeof script, "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null | grep -q '^%s' && exit 0; done; exit 1", what);
    return box_code(sandbox, NULL, script) == 0;
}

static void await_life(struct sandbox *sandbox, const char *what, int wanted)
{
    long until = box_now() + sbtest_slowly(WAIT_MS);

    while (lives(sandbox, what) != wanted) {
        ck_assert_msg(box_now() < until, "%s %s", what, wanted ? "doesn't run" : "still runs");
        usleep(20000);
    }
}

/* The caller's end and handle go: the terminal hangs up, and what doesn't ignore that ends. */
START_TEST(terminal_hang_up)
{
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    struct sandbox_exec *again = NULL;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_error *error = NULL;
    struct screen t;

    screen_open(&t, sandbox, "echo ready; sleep 4321; exit 1");
    screen_await(&t, "ready");
    await_life(sandbox, "sleep 4321", 1);
    sbtest_ok(sandbox_exec_open(sandbox, sandbox_exec_get_id(t.exec), &again, &error), &error);
    close(t.fd);
    sandbox_exec_unref(t.exec);
    sbtest_ok(sandbox_exec_wait(again, sbtest_slowly(WAIT_MS), &result, &error), &error);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_SIGNALLED);
    ck_assert_int_eq(result.signal, SIGHUP);
    sandbox_exec_unref(again);
    await_life(sandbox, "sleep 4321", 0);
    box_end(&host, &sandbox);
}
END_TEST

/* The same when the caller is killed. */
START_TEST(terminal_caller_dies)
{
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    char uri[4200], id[SANDBOX_ID_LENGTH + 1];
    pid_t pid;
    int pair[2];
    char byte;

    snprintf(id, sizeof id, "%s", sandbox_get_id(sandbox));
    snprintf(uri, sizeof uri, "local:?root=%s", box_root());
    ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        struct sandbox_host *own = NULL;
        struct sandbox *same = NULL;
        struct screen t;

        sbtest_ok(sandbox_host_open(uri, NULL, 60000, &own, NULL), NULL);
        sbtest_ok(sandbox_open(own, id, &same, NULL), NULL);
        screen_open(&t, same, "echo ready; sleep 4322");
        screen_await(&t, "ready");
        (void)!write(pair[1], "x", 1);
        pause();
    }
    ck_assert_int_eq(read(pair[0], &byte, 1), 1);
    await_life(sandbox, "sleep 4322", 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    await_life(sandbox, "sleep 4322", 0);
    close(pair[0]);
    close(pair[1]);
    box_end(&host, &sandbox);
}
END_TEST

/* A hundred at once; nothing is left of them, also not in the sandbox. */
START_TEST(terminal_hundred)
{
    enum { N = 100 };
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    static struct screen screens[N];
    char *left;

    for (int i = 0; i < N; i++)
        screen_open(&screens[i], sandbox, "read -r line; echo \"got $line\"; exit 2");
    for (int i = 0; i < N; i++) {
        char text[32];

        snprintf(text, sizeof text, "n%d\n", i);
        screen_type(&screens[i], text);
    }
    for (int i = 0; i < N; i++) {
        char text[32];

        snprintf(text, sizeof text, "got n%d\r\n", i);
        screen_await(&screens[i], text);
        screen_expect(&screens[i], 2);
    }
    left = box_sh(sandbox, NULL, "ls /dev/pts");
    ck_assert_str_eq(left, "ptmx");
    free(left);
    box_end(&host, &sandbox);
}
END_TEST

/* Nothing can be typed into a terminal from inside, and no other command's can be opened by a stranger. */
START_TEST(redteam_b09_terminal)
{
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct screen t;

    screen_open(&t, sandbox, "perl -e 'my $x = \"x\"; print ioctl(STDIN, 0x5412, $x) ? \"pushed\" : \"errno \" . ($! + 0), \"\\n\"'; read -r x"); /* TIOCSTI */
    screen_await(&t, "errno 1\r\n");
    if (box_user()) {
        options.user = box_user();
        ck_assert_int_ne(box_code(sandbox, options.user, "exec 3<>/dev/pts/0"), 0);
    }
    screen_type(&t, "\n");
    screen_expect(&t, 0);
    box_end(&host, &sandbox);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("terminals");
    TCase *c = sbtest_case("terminals");

    tcase_add_test(c, exec_f18_terminal);
    tcase_add_test(c, terminal_bad_arguments);
    tcase_add_test(c, terminal_resize);
    tcase_add_test(c, terminal_job_control);
    tcase_add_test(c, terminal_output_whole);
    tcase_add_test(c, terminal_paste);
    tcase_add_test(c, terminal_hang_up);
    tcase_add_test(c, terminal_caller_dies);
    tcase_add_test(c, terminal_hundred);
    tcase_add_test(c, redteam_b09_terminal);
    suite_add_tcase(suite, c);
    return box_main(suite);
}
