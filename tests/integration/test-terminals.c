/* SPDX-License-Identifier: Apache-2.0
 * Commands with a terminal: that it is a real one of the sandbox's own, that nothing is lost on it, and what becomes of it at its end. */
#include "box.h"

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

enum { WAIT_MS = 20000 };

/* A command with a terminal, and what it has shown so far. */
struct screen {
    struct sandbox_exec *exec;
    int fd;
    char text[SANDBOX_TERMINAL_KEPT + 16384];
    size_t n, seen; /* what was searched already */
    int ended;
};

static void open_with(struct screen *t, struct sandbox *sandbox, const struct sandbox_exec_options *options, const char *const *argv)
{
    struct sandbox_error *error = NULL;

    memset(t, 0, sizeof *t);
    sbtest_ok(sandbox_exec(sandbox, argv, options, &t->exec, &error), &error);
    sbtest_ok(sandbox_exec_take_terminal(t->exec, &t->fd, &error), &error);
}

static void open_screen(struct screen *t, struct sandbox *sandbox, const char *script)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;

    options.terminal = 1;
    options.env = BOX_ARGV("TERM=xterm", "PS1=$ ");
    open_with(t, sandbox, &options, BOX_ARGV("sh", "-c", script));
}

/* One read; what doesn't fit is dropped from the front. */
static void read_more(struct screen *t)
{
    struct pollfd p = { .fd = t->fd, .events = POLLIN };
    ssize_t n;

    if (sizeof t->text - t->n < 8192) {
        memmove(t->text, t->text + t->n / 2, t->n - t->n / 2);
        t->n -= t->n / 2;
        t->seen = 0;
    }
    ck_assert_msg(poll(&p, 1, (int)sbtest_slowly(WAIT_MS)) == 1, "nothing comes; so far: %s", t->text);
    n = read(t->fd, t->text + t->n, 4096);
    ck_assert_msg(n >= 0 || errno == EIO, "%s", strerror(errno));
    t->ended = n <= 0;
    t->n += n > 0 ? (size_t)n : 0;
    t->text[t->n] = 0;
}

/* Until it shows `what`, behind what was awaited before. */
static void await_text(struct screen *t, const char *what)
{
    char *at;

    while (!(at = memmem(t->text + t->seen, t->n - t->seen, what, strlen(what)))) {
        ck_assert_msg(!t->ended, "no \"%s\" in: %s", what, t->text);
        read_more(t);
    }
    t->seen = (size_t)(at - t->text) + strlen(what);
}

static void type_text(struct screen *t, const char *text)
{
    ck_assert_int_eq(write(t->fd, text, strlen(text)), (ssize_t)strlen(text));
}

static struct sandbox_exec_result close_screen(struct screen *t)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_error *error = NULL;

    while (!t->ended)
        read_more(t);
    sbtest_ok(sandbox_exec_wait(t->exec, sbtest_slowly(WAIT_MS), &result, &error), &error);
    close(t->fd);
    sandbox_exec_unref(t->exec);
    return result;
}

static void expect_code(struct screen *t, int code)
{
    struct sandbox_exec_result result = close_screen(t);

    ck_assert_msg(result.kind == SANDBOX_EXEC_EXITED && result.code == code, "kind %d code %d signal %d: %s", result.kind, result.code,
                  result.signal, t->text);
}

/* A terminal has the sandbox's own /dev/pts/N, by path, by name and as the controlling one, and is its user's. */
START_TEST(exec_f18_terminal)
{
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct screen t;

    open_screen(&t, sandbox,
                "tty; test -t 0 && test -t 1 && test -t 2 && test -c \"$(tty)\" && echo real; "
                "echo to-tty >/dev/tty; stat -c 'owner %u %a' \"$(tty)\"; echo \"$TERM in $(pwd)\"; stty size; stty -a | grep -o '[-]*iutf8'; "
                "ls /dev/pts; exit 7");
    await_text(&t, "/dev/pts/0\r\n");
    await_text(&t, "real\r\n");
    await_text(&t, "to-tty\r\n");
    await_text(&t, "owner 0 620\r\n");
    await_text(&t, "xterm in /\r\n");
    await_text(&t, "24 80\r\n");
    await_text(&t, "iutf8\r\n");
    expect_code(&t, 7);
    options.terminal = 1;
    options.user = box_user();
    options.workdir = "/tmp";
    options.env = BOX_ARGV("ONE=1");
    options.rows = 50;
    options.columns = 132;
    open_with(&t, sandbox, &options, BOX_ARGV("sh", "-c", "id -u; stat -c 'owner %u' $(tty); echo \"$ONE $(pwd) ${TERM-none}\"; stty size"));
    await_text(&t, box_user() ? "1500\r\nowner 1500\r\n" : "0\r\nowner 0\r\n");
    await_text(&t, "1 /tmp none\r\n");
    await_text(&t, "50 132\r\n");
    expect_code(&t, 0);
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

    open_screen(&t, sandbox, "read x; exit 3");
    sbtest_fails(sandbox_exec_take_terminal(t.exec, &fd, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_take_stdin(t.exec, &fd, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_resize_terminal(t.exec, 0, 80, 0, 0, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_resize_terminal(t.exec, 24, 65536, 0, 0, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_resize_terminal(t.exec, 24, 80, -1, 0, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_resize_terminal(t.exec, 24, 80, 0, 65536, &error), SANDBOX_EINVALID, &error);
    sbtest_ok(sandbox_exec_open(sandbox, sandbox_exec_get_id(t.exec), &again, &error), &error);
    sbtest_fails(sandbox_exec_take_terminal(again, &fd, &error), SANDBOX_EINVALID, &error);
    sandbox_exec_unref(again);
    type_text(&t, "\n");
    while (!t.ended)
        read_more(&t);
    sbtest_ok(sandbox_exec_wait(t.exec, sbtest_slowly(WAIT_MS), NULL, &error), &error);
    sbtest_fails(sandbox_exec_resize_terminal(t.exec, 24, 80, 0, 0, &error), SANDBOX_ENOTRUNNING, &error);
    expect_code(&t, 3);
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

    open_screen(&t, sandbox, "trap 'echo changed; stty size' WINCH; echo ready; while ! read -r line; do :; done; exit 4");
    await_text(&t, "ready\r\n");
    sbtest_ok(sandbox_exec_resize_terminal(t.exec, 40, 100, 800, 640, &error), &error);
    await_text(&t, "changed\r\n40 100\r\n");
    ck_assert_int_eq(ioctl(t.fd, TIOCGWINSZ, &size), 0);
    ck_assert_int_eq(size.ws_xpixel, 800);
    ck_assert_int_eq(size.ws_ypixel, 640);
    sbtest_ok(sandbox_exec_resize_terminal(t.exec, 65535, 65535, 0, 0, &error), &error);
    await_text(&t, "changed\r\n65535 65535\r\n");
    type_text(&t, "x\n");
    expect_code(&t, 4);
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
    open_with(&t, sandbox, &options, BOX_ARGV("bash", "--norc", "--noediting", "-i"));
    await_text(&t, "ready> ");
    type_text(&t, "sleep 600\n");
    await_text(&t, "sleep 600\r\n");
    usleep(300000);
    type_text(&t, "\x1a");
    await_text(&t, "Stopped");
    await_text(&t, "ready> ");
    type_text(&t, "jobs; fg\n");
    await_text(&t, "Stopped");
    await_text(&t, "sleep 600\r\n");
    usleep(300000);
    type_text(&t, "\x03");
    await_text(&t, "ready> ");
    type_text(&t, "echo code=$?\n");
    await_text(&t, "code=130\r\n");
    type_text(&t, "cat; echo cat=$?\n");
    type_text(&t, "line\n");
    await_text(&t, "line\r\n");
    type_text(&t, "\x04");
    await_text(&t, "cat=0\r\n");
    type_text(&t, "exit 9\n");
    expect_code(&t, 9);
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
    open_screen(&t, sandbox, "stty -opost; seq 150000; printf last-word; exit 5");
    while (!t.ended) {
        size_t had = t.n;

        read_more(&t);
        total += t.n > had ? t.n - had : 0;
        if (t.n > 60)
            memmove(t.text, t.text + t.n - 60, 60), t.n = 60;
        t.text[t.n] = 0;
    }
    ck_assert_uint_eq(total, expected + strlen("last-word"));
    ck_assert_ptr_nonnull(strstr(t.text, "150000\nlast-word"));
    expect_code(&t, 5);
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
    open_screen(&t, sandbox, "stty raw -echo; echo ready; head -c 1048576; exit 6");
    await_text(&t, "ready\n");
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
    expect_code(&t, 6);
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

    open_screen(&t, sandbox, "echo ready; sleep 4321; exit 1");
    await_text(&t, "ready");
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
        open_screen(&t, same, "echo ready; sleep 4322");
        await_text(&t, "ready");
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
        open_screen(&screens[i], sandbox, "read -r line; echo \"got $line\"; exit 2");
    for (int i = 0; i < N; i++) {
        char text[32];

        snprintf(text, sizeof text, "n%d\n", i);
        type_text(&screens[i], text);
    }
    for (int i = 0; i < N; i++) {
        char text[32];

        snprintf(text, sizeof text, "got n%d\r\n", i);
        await_text(&screens[i], text);
        expect_code(&screens[i], 2);
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

    open_screen(&t, sandbox, "perl -e 'my $x = \"x\"; print ioctl(STDIN, 0x5412, $x) ? \"pushed\" : \"errno \" . ($! + 0), \"\\n\"'; read -r x"); /* TIOCSTI */
    await_text(&t, "errno 1\r\n");
    if (box_user()) {
        options.user = box_user();
        ck_assert_int_ne(box_code(sandbox, options.user, "exec 3<>/dev/pts/0"), 0);
    }
    type_text(&t, "\n");
    expect_code(&t, 0);
    box_end(&host, &sandbox);
}
END_TEST

/* The same command by another handle, as another process has it. */
static void attach_again(struct screen *t, struct sandbox *sandbox, const char *id)
{
    struct sandbox_error *error = NULL;
    char *shown = NULL;
    size_t size = 0;

    memset(t, 0, sizeof *t);
    sbtest_ok(sandbox_exec_open(sandbox, id, &t->exec, &error), &error);
    sbtest_ok(sandbox_exec_attach_terminal(t->exec, &t->fd, &shown, &size, &error), &error);
    ck_assert_uint_le(size, SANDBOX_TERMINAL_KEPT);
    t->n = size < sizeof t->text - 1 ? size : sizeof t->text - 1;
    memcpy(t->text, shown + size - t->n, t->n);
    t->text[t->n] = 0;
    sandbox_buffer_free(shown);
}

static void leave(struct screen *t, char id[SANDBOX_ID_LENGTH + 1])
{
    struct sandbox_error *error = NULL;

    snprintf(id, SANDBOX_ID_LENGTH + 1, "%s", sandbox_exec_get_id(t->exec));
    sbtest_ok(sandbox_exec_detach_terminal(t->exec, &error), &error);
    close(t->fd);
    sandbox_exec_unref(t->exec);
}

/* Left alone, a terminal goes on; what it shows meanwhile is kept for who comes next, and nothing is lost then. */
START_TEST(terminal_detach)
{
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    struct sandbox_error *error = NULL;
    struct sandbox_exec *other = NULL;
    char id[SANDBOX_ID_LENGTH + 1];
    struct screen t;
    int fd;

    open_screen(&t, sandbox, "echo one; while read -r line; do echo \"got $line\"; [ \"$line\" = end ] && exit 8; done");
    await_text(&t, "one\r\n");
    snprintf(id, sizeof id, "%s", sandbox_exec_get_id(t.exec));
    sbtest_ok(sandbox_exec_open(sandbox, id, &other, &error), &error);
    sbtest_fails(sandbox_exec_attach_terminal(other, &fd, NULL, NULL, &error), SANDBOX_EBUSY, &error);
    sbtest_fails(sandbox_exec_detach_terminal(other, &error), SANDBOX_EINVALID, &error);
    type_text(&t, "typed\n");
    leave(&t, id);
    for (int i = 0; i < 3; i++) {
        attach_again(&t, sandbox, id);
        sbtest_fails(sandbox_exec_attach_terminal(other, &fd, NULL, NULL, &error), SANDBOX_EBUSY, &error);
        if (i == 0)
            await_text(&t, "got typed\r\n");
        sbtest_ok(sandbox_exec_resize_terminal(t.exec, 30 + i, 90, 0, 0, &error), &error);
        type_text(&t, "again\n");
        await_text(&t, "got again\r\n");
        leave(&t, id);
    }
    attach_again(&t, sandbox, id);
    type_text(&t, "end\n");
    await_text(&t, "got end\r\n");
    expect_code(&t, 8);
    sbtest_fails(sandbox_exec_attach_terminal(other, &fd, NULL, NULL, &error), SANDBOX_ENOTFOUND, &error);
    sandbox_exec_unref(other);
    box_end(&host, &sandbox);
}
END_TEST

/* Nobody reads, and the command doesn't wait: the last bytes are kept, also beyond its end, and how it ended is known. */
START_TEST(terminal_detached_end)
{
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_error *error = NULL;
    char id[SANDBOX_ID_LENGTH + 1], *shown = NULL;
    struct sandbox_exec *exec = NULL;
    struct screen t;
    size_t size;
    char byte;
    int fd;

    open_screen(&t, sandbox, "stty -opost; echo ready; read -r x; seq 100000; printf last-word; exit 5");
    await_text(&t, "ready");
    type_text(&t, "go\n");
    leave(&t, id);
    sbtest_ok(sandbox_exec_open(sandbox, id, &exec, &error), &error);
    sbtest_ok(sandbox_exec_wait(exec, sbtest_slowly(WAIT_MS), &result, &error), &error);
    ck_assert_int_eq(result.code, 5);
    usleep(100000); /* what is still in the terminal */
    sbtest_ok(sandbox_exec_attach_terminal(exec, &fd, &shown, &size, &error), &error);
    ck_assert_uint_eq(size, SANDBOX_TERMINAL_KEPT);
    ck_assert_int_eq(memcmp(shown + size - 16, "100000\nlast-word", 16), 0);
    for (size_t i = 1, number = 0; i < size && shown[i] != 'l'; i++) /* and no gap in them */
        if (shown[i - 1] == '\n') {
            size_t now = (size_t)strtoul(shown + i, NULL, 10);

            ck_assert(!number || now == number + 1);
            number = now;
        }
    sandbox_buffer_free(shown);
    ck_assert_int_eq(read(fd, &byte, 1), 0);
    close(fd);
    sbtest_fails(sandbox_exec_attach_terminal(exec, &fd, NULL, NULL, &error), SANDBOX_ENOTFOUND, &error);
    sandbox_exec_unref(exec);
    box_end(&host, &sandbox);
}
END_TEST

/* As many as may be left alone, and one more. */
START_TEST(terminal_detached_limit)
{
    enum { N = 64 };
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    struct sandbox_error *error = NULL;
    static char ids[N][SANDBOX_ID_LENGTH + 1];
    struct screen t, more;

    for (int i = 0; i < N; i++) {
        open_screen(&t, sandbox, "read -r x; exit 1");
        leave(&t, ids[i]);
    }
    open_screen(&more, sandbox, "read -r x; exit 2");
    sbtest_fails(sandbox_exec_detach_terminal(more.exec, &error), SANDBOX_ELIMIT, &error);
    type_text(&more, "\n"); /* and it is still ours */
    expect_code(&more, 2);
    for (int i = 0; i < N; i++) {
        attach_again(&t, sandbox, ids[i]);
        type_text(&t, "\n");
        expect_code(&t, 1);
    }
    box_end(&host, &sandbox);
}
END_TEST

/* Who reads a terminal that is left alone can't be stopped from inside, but where there is one id only: then it hangs up. */
START_TEST(redteam_terminal_holder)
{
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox = box_start(host, NULL);
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_error *error = NULL;
    char id[SANDBOX_ID_LENGTH + 1];
    struct sandbox_exec *exec = NULL;
    struct screen t;
    char *said;

    open_screen(&t, sandbox, "echo ready; read -r x; exit 3");
    await_text(&t, "ready");
    leave(&t, id);
    said = box_sh(sandbox, NULL,
                  "for p in /proc/[0-9]*; do n=$(cat $p/comm 2>/dev/null) || continue; [ \"$n\" = sandbox-hold ] || continue; echo found; "
                  "ls $p/fd >/dev/null 2>&1 && echo looked; cat $p/mem >/dev/null 2>&1 && echo read; done; :");
    ck_assert_msg(strcmp(said, "found") == 0, "%s", said);
    free(said);
    if (box_privilege() == BOX_SINGLE) {
        said = box_sh(sandbox, NULL, "for p in /proc/[0-9]*; do [ \"$(cat $p/comm)\" = sandbox-hold ] && kill -STOP ${p#/proc/}; done 2>/dev/null; :");
        free(said);
        attach_again(&t, sandbox, id); /* stopped, it is continued */
        leave(&t, id);
        said = box_sh(sandbox, NULL, "for p in /proc/[0-9]*; do [ \"$(cat $p/comm)\" = sandbox-hold ] && kill -9 ${p#/proc/}; done 2>/dev/null; :");
        free(said);
        sbtest_ok(sandbox_exec_open(sandbox, id, &exec, &error), &error);
        sbtest_ok(sandbox_exec_wait(exec, sbtest_slowly(WAIT_MS), &result, &error), &error);
        ck_assert_int_eq(result.signal, SIGHUP);
        sandbox_exec_unref(exec);
    } else {
        said = box_sh(sandbox, NULL, "for p in /proc/[0-9]*; do [ \"$(cat $p/comm)\" = sandbox-hold ] && kill -9 ${p#/proc/} && echo killed; done 2>/dev/null; :");
        ck_assert_str_eq(said, "");
        free(said);
        attach_again(&t, sandbox, id);
        type_text(&t, "\n");
        expect_code(&t, 3);
    }
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
    tcase_add_test(c, terminal_detach);
    tcase_add_test(c, terminal_detached_end);
    tcase_add_test(c, terminal_detached_limit);
    tcase_add_test(c, redteam_terminal_holder);
    suite_add_tcase(suite, c);
    return box_main(suite);
}
