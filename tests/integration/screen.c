/* SPDX-License-Identifier: Apache-2.0
 * See screen.h. */
#include "screen.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

void screen_open_with(struct screen *t, struct sandbox *sandbox, const struct sandbox_exec_options *options, const char *const *argv)
{
    struct sandbox_error *error = NULL;

    memset(t, 0, sizeof *t);
    sbtest_ok(sandbox_exec(sandbox, argv, options, &t->exec, &error), &error);
    sbtest_ok(sandbox_exec_take_terminal(t->exec, &t->fd, &error), &error);
}

void screen_open(struct screen *t, struct sandbox *sandbox, const char *script)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;

    options.terminal = 1;
    options.env = BOX_ARGV("TERM=xterm", "PS1=$ ");
    screen_open_with(t, sandbox, &options, BOX_ARGV("sh", "-c", script));
}

void screen_read(struct screen *t)
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

void screen_await(struct screen *t, const char *what)
{
    char *at;

    while (!(at = memmem(t->text + t->seen, t->n - t->seen, what, strlen(what)))) {
        ck_assert_msg(!t->ended, "no \"%s\" in: %s", what, t->text);
        screen_read(t);
    }
    t->seen = (size_t)(at - t->text) + strlen(what);
}

void screen_type(struct screen *t, const char *text)
{
    ck_assert_int_eq(write(t->fd, text, strlen(text)), (ssize_t)strlen(text));
}

struct sandbox_exec_result screen_close(struct screen *t)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_error *error = NULL;

    while (!t->ended)
        screen_read(t);
    sbtest_ok(sandbox_exec_wait(t->exec, sbtest_slowly(WAIT_MS), &result, &error), &error);
    close(t->fd);
    sandbox_exec_unref(t->exec);
    return result;
}

void screen_expect(struct screen *t, int code)
{
    struct sandbox_exec_result result = screen_close(t);

    ck_assert_msg(result.kind == SANDBOX_EXEC_EXITED && result.code == code, "kind %d code %d signal %d: %s", result.kind, result.code,
                  result.signal, t->text);
}
