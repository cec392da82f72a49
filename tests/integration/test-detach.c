/* SPDX-License-Identifier: Apache-2.0
 * Terminals that are left alone: they go on, what they show is kept, and another process takes them over. */
#include "screen.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

    screen_open(&t, sandbox, "echo one; while read -r line; do echo \"got $line\"; [ \"$line\" = end ] && exit 8; done");
    screen_await(&t, "one\r\n");
    snprintf(id, sizeof id, "%s", sandbox_exec_get_id(t.exec));
    sbtest_ok(sandbox_exec_open(sandbox, id, &other, &error), &error);
    sbtest_fails(sandbox_exec_attach_terminal(other, &fd, NULL, NULL, &error), SANDBOX_EBUSY, &error);
    sbtest_fails(sandbox_exec_detach_terminal(other, &error), SANDBOX_EINVALID, &error);
    screen_type(&t, "typed\n");
    leave(&t, id);
    for (int i = 0; i < 3; i++) {
        attach_again(&t, sandbox, id);
        sbtest_fails(sandbox_exec_attach_terminal(other, &fd, NULL, NULL, &error), SANDBOX_EBUSY, &error);
        if (i == 0)
            screen_await(&t, "got typed\r\n");
        sbtest_ok(sandbox_exec_resize_terminal(t.exec, 30 + i, 90, 0, 0, &error), &error);
        screen_type(&t, "again\n");
        screen_await(&t, "got again\r\n");
        leave(&t, id);
    }
    attach_again(&t, sandbox, id);
    screen_type(&t, "end\n");
    screen_await(&t, "got end\r\n");
    screen_expect(&t, 8);
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

    screen_open(&t, sandbox, "stty -opost; echo ready; read -r x; seq 100000; printf last-word; exit 5");
    screen_await(&t, "ready");
    screen_type(&t, "go\n");
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
        screen_open(&t, sandbox, "read -r x; exit 1");
        leave(&t, ids[i]);
    }
    screen_open(&more, sandbox, "read -r x; exit 2");
    sbtest_fails(sandbox_exec_detach_terminal(more.exec, &error), SANDBOX_ELIMIT, &error);
    screen_type(&more, "\n"); /* and it is still ours */
    screen_expect(&more, 2);
    for (int i = 0; i < N; i++) {
        attach_again(&t, sandbox, ids[i]);
        screen_type(&t, "\n");
        screen_expect(&t, 1);
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

    screen_open(&t, sandbox, "echo ready; read -r x; exit 3");
    screen_await(&t, "ready");
    leave(&t, id);
    said = box_sh(sandbox, NULL, /* it takes its name a moment after it was made */
                  "for i in $(seq 200); do grep -qsx sandbox-hold /proc/[0-9]*/comm && break; sleep 0.02; done; "
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
        said = box_sh(sandbox, NULL,
                      "for p in /proc/[0-9]*; do [ \"$(cat $p/comm)\" = sandbox-hold ] && kill -9 ${p#/proc/} && echo killed; done 2>/dev/null; :");
        ck_assert_str_eq(said, "");
        free(said);
        attach_again(&t, sandbox, id);
        screen_type(&t, "\n");
        screen_expect(&t, 3);
    }
    box_end(&host, &sandbox);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("detach");
    TCase *c = sbtest_case("detach");

    tcase_add_test(c, terminal_detach);
    tcase_add_test(c, terminal_detached_end);
    tcase_add_test(c, terminal_detached_limit);
    tcase_add_test(c, redteam_terminal_holder);
    suite_add_tcase(suite, c);
    return box_main(suite);
}
