/* SPDX-License-Identifier: Apache-2.0
 * What stays of a sandbox between calls, processes and deaths: idempotency keys, the index of what may need repair, reopening by id in every
 * state, damaged records, locks whose holder is killed or stopped. */
#include "box.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
}

static void tear_down(void)
{
    static const char *const folders[] = { "sandboxes", "trash", "names", "keys" };
    char path[700];

    box_end(&host, NULL);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/%s", box_root(), folders[i]);
        if (box_entries(path) > 0)
            ck_abort_msg("%d entries are left in %s", box_entries(path), folders[i]);
    }
}

static void discard(struct sandbox *sandbox)
{
    sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
    sandbox_unref(sandbox);
}

static size_t listed(void)
{
    struct sandbox_list *list = NULL;
    size_t n;

    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    n = sandbox_list_get_count(list);
    sandbox_list_unref(list);
    return n;
}

static struct sandbox_spec *detached(const char *key)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    if (key)
        sbtest_ok(sandbox_spec_set_idempotency_key(spec, key, &error), &error);
    return spec;
}

static struct sandbox *create(struct sandbox_spec *spec)
{
    struct sandbox *sandbox = NULL;

    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    return sandbox;
}

static int state_of(struct sandbox *sandbox, char *cause, size_t size)
{
    struct sandbox_info *info = NULL;
    const char *at, *mark = "\"cause\":\"";
    int state;

    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    state = sandbox_info_get_state(info);
    at = strstr(sandbox_info_get_json(info), mark);
    ck_assert_ptr_nonnull(at);
    at += strlen(mark);
    if (cause)
        snprintf(cause, size, "%.*s", (int)strcspn(at, "\""), at);
    sandbox_info_unref(info);
    return state;
}

static void wait_for(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
        ;
    while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
        ;
}

/* A process of its own that begins a create and gets no further: it says so, and waits to be killed. */
static pid_t half_made(struct sandbox_spec *spec)
{
    int said[2];
    char byte;
    pid_t pid;

    ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct sandbox_host *own = box_host();
        struct sandbox_op *op = NULL;

        sbtest_ok(sandbox_create_begin(own, spec, &op, &error), &error);
        sandbox_op_wait(op, 0, NULL); /* with a key nothing is made before the first step */
        close(said[1]);
        for (;;)
            pause();
    }
    close(said[1]);
    ck_assert_int_eq(read(said[0], &byte, 1), 0);
    close(said[0]);
    return pid;
}

/* ---- idempotency keys ---- */

START_TEST(state_key_gives_the_same)
{
    struct sandbox_spec *spec = detached("job:1"), *other = detached("job:1");
    struct sandbox *first = NULL, *second = NULL;
    char id[SANDBOX_ID_LENGTH + 1];
    struct sandbox_info *info = NULL;
    int status;
    pid_t pid;

    sbtest_ok(sandbox_create(host, spec, 20000, &first, &error), &error);
    snprintf(id, sizeof id, "%s", sandbox_get_id(first));
    sbtest_ok(sandbox_create(host, spec, 20000, &second, &error), &error);
    ck_assert_str_eq(sandbox_get_id(second), id);
    second = sandbox_unref(second);
    ck_assert_uint_eq(listed(), 1);
    sbtest_ok(sandbox_inspect(first, &info, &error), &error);
    ck_assert_ptr_nonnull(strstr(sandbox_info_get_json(info), "\"idempotency_key\":\"job:1\""));
    sandbox_info_unref(info);
    /* in every state, and from another process */
    sbtest_ok(sandbox_start(first, 20000, &error), &error);
    sbtest_ok(sandbox_stop(first, 0, 20000, &error), &error);
    pid = fork();
    if (pid == 0) {
        host = box_host();
        second = create(detached("job:1"));
        _exit(strcmp(sandbox_get_id(second), id) ? 1 : 0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    /* another sandbox under this key is refused; under another key it is made */
    sbtest_ok(sandbox_spec_add_label(other, "a", "b", &error), &error);
    ck_assert_int_eq(sandbox_create(host, other, 20000, &second, &error), SANDBOX_EEXISTS);
    ck_assert_str_eq(sandbox_error_get_field(error), "idempotency_key");
    error = sandbox_error_unref(error);
    sbtest_ok(sandbox_spec_set_idempotency_key(other, "job:2", &error), &error);
    second = create(other);
    ck_assert_str_ne(sandbox_get_id(second), id);
    discard(second);
    /* free again when it is deleted */
    discard(first);
    sbtest_ok(sandbox_create(host, spec, 20000, &first, &error), &error);
    ck_assert_str_ne(sandbox_get_id(first), id);
    discard(first);
    sandbox_spec_unref(spec);
}
END_TEST

/* The second create waits in its operation while the first is under way, and gets the first one's; when that is given up, it makes its own. */
START_TEST(state_key_waits)
{
    struct sandbox_spec *spec = detached("k");
    struct sandbox_op *first = NULL, *second = NULL;
    struct sandbox *a = NULL, *b = NULL;

    for (int give_up = 0; give_up < 2; give_up++) {
        sbtest_ok(sandbox_create_begin(host, spec, &first, &error), &error);
        ck_assert_int_eq(sandbox_op_wait(first, 0, NULL), SANDBOX_ETIMEDOUT);
        sbtest_ok(sandbox_create_begin(host, spec, &second, &error), &error);
        for (int i = 0; i < 5; i++)
            ck_assert_int_eq(sandbox_op_wait(second, 10, NULL), SANDBOX_ETIMEDOUT);
        if (!give_up) {
            sbtest_ok(sandbox_op_wait(first, 20000, &error), &error);
            sbtest_ok(sandbox_op_take_sandbox(first, &a, &error), &error);
        }
        sandbox_op_unref(first);
        sbtest_ok(sandbox_op_wait(second, 20000, &error), &error);
        sbtest_ok(sandbox_op_take_sandbox(second, &b, &error), &error);
        sandbox_op_unref(second);
        if (a)
            ck_assert_str_eq(sandbox_get_id(a), sandbox_get_id(b));
        ck_assert_uint_eq(listed(), 1);
        discard(b);
        a = sandbox_unref(a);
    }
    /* given up while it waits */
    sbtest_ok(sandbox_create_begin(host, spec, &first, &error), &error);
    ck_assert_int_eq(sandbox_op_wait(first, 0, NULL), SANDBOX_ETIMEDOUT);
    sbtest_ok(sandbox_create_begin(host, spec, &second, &error), &error);
    ck_assert_int_eq(sandbox_op_wait(second, 5, NULL), SANDBOX_ETIMEDOUT);
    sbtest_ok(sandbox_op_cancel(second), NULL);
    sbtest_fails(sandbox_op_wait(second, 10000, &error), SANDBOX_ECANCELLED, &error);
    sandbox_op_unref(second);
    sandbox_op_unref(first);
    ck_assert_uint_eq(listed(), 0);
    sandbox_spec_unref(spec);
}
END_TEST

enum { RACERS = 16 };

START_TEST(state_key_races)
{
    int go[2], ids[2];
    char id[RACERS][SANDBOX_ID_LENGTH];
    struct sandbox *sandbox = NULL;
    char whole[SANDBOX_ID_LENGTH + 1];

    ck_assert_int_eq(pipe2(go, O_CLOEXEC) | pipe2(ids, O_CLOEXEC), 0);
    for (int i = 0; i < RACERS; i++) {
        pid_t pid = fork();

        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            char byte;

            host = box_host();
            close(go[1]);
            if (read(go[0], &byte, 1) != 0)
                _exit(9);
            sandbox = create(detached("the-one"));
            _exit(write(ids[1], sandbox_get_id(sandbox), SANDBOX_ID_LENGTH) != SANDBOX_ID_LENGTH);
        }
    }
    close(go[0]);
    close(go[1]);
    close(ids[1]);
    for (int i = 0; i < RACERS; i++)
        ck_assert_int_eq(read(ids[0], id[i], SANDBOX_ID_LENGTH), SANDBOX_ID_LENGTH);
    close(ids[0]);
    for (int i = 0; i < RACERS; i++) {
        int status;

        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
        ck_assert_mem_eq(id[i], id[0], SANDBOX_ID_LENGTH);
    }
    ck_assert_uint_eq(listed(), 1);
    snprintf(whole, sizeof whole, "%.*s", SANDBOX_ID_LENGTH, id[0]);
    sbtest_ok(sandbox_open(host, whole, &sandbox, &error), &error);
    discard(sandbox);
}
END_TEST

/* Killed before it was committed: this host, open long before, undoes it and makes a new one. Killed after: the same. */
START_TEST(state_key_maker_killed)
{
    struct sandbox *sandbox;
    char id[SANDBOX_ID_LENGTH + 1] = "";
    int said[2];
    pid_t pid;

    for (int i = 0; i < 3; i++) {
        struct sandbox_spec *spec = detached("killed");

        sbtest_ok(sandbox_spec_set_name(spec, "killed", &error), &error);
        pid = half_made(spec);
        kill(pid, SIGKILL);
        wait_for(pid);
        sandbox = create(spec);
        ck_assert_uint_eq(listed(), 1);
        ck_assert_int_eq(state_of(sandbox, NULL, 0), SANDBOX_STATE_CREATED);
        discard(sandbox);
    }
    ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        host = box_host();
        sandbox = create(detached("killed"));
        _exit(write(said[1], sandbox_get_id(sandbox), SANDBOX_ID_LENGTH) != SANDBOX_ID_LENGTH);
    }
    close(said[1]);
    ck_assert_int_eq(read(said[0], id, SANDBOX_ID_LENGTH), SANDBOX_ID_LENGTH);
    close(said[0]);
    wait_for(pid);
    sandbox = create(detached("killed"));
    ck_assert_str_eq(sandbox_get_id(sandbox), id);
    discard(sandbox);
}
END_TEST

/* An owned one ends with its owner: its key, and its name, then make a new one, in a host that was open before. */
START_TEST(state_claims_of_a_dead_owner)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox *sandbox;
    char id[SANDBOX_ID_LENGTH + 1] = "";
    int said[2];
    pid_t pid;

    sbtest_ok(sandbox_spec_set_name(spec, "mine", &error), &error);
    for (int with_key = 0; with_key < 2; with_key++) {
        if (with_key)
            sbtest_ok(sandbox_spec_set_idempotency_key(spec, "mine", &error), &error);
        ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0) {
            host = box_host();
            sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
            _exit(write(said[1], sandbox_get_id(sandbox), SANDBOX_ID_LENGTH) != SANDBOX_ID_LENGTH);
        }
        close(said[1]);
        ck_assert_int_eq(read(said[0], id, SANDBOX_ID_LENGTH), SANDBOX_ID_LENGTH);
        close(said[0]);
        wait_for(pid);
        sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
        ck_assert_str_ne(sandbox_get_id(sandbox), id);
        ck_assert_uint_eq(listed(), 1);
        discard(sandbox);
    }
    sandbox_spec_unref(spec);
}
END_TEST

/* Who makes it is stopped: the others are told who that is, within a bound. */
START_TEST(state_key_maker_stopped)
{
    struct sandbox_spec *spec = detached("stopped");
    pid_t pid = half_made(spec);
    struct sandbox *sandbox = NULL;
    char who[32];
    long begun;

    kill(pid, SIGSTOP);
    begun = box_now();
    ck_assert_int_eq(sandbox_create(host, spec, -1, &sandbox, &error), SANDBOX_EBUSY);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(8000));
    snprintf(who, sizeof who, "process %d,", (int)pid);
    ck_assert_msg(strstr(sandbox_error_get_message(error), who) != NULL, "%s", sandbox_error_get_message(error));
    ck_assert_int_eq(sandbox_error_get_retryable(error), 1);
    error = sandbox_error_unref(error);
    kill(pid, SIGKILL);
    wait_for(pid);
    sandbox = create(spec);
    discard(sandbox);
}
END_TEST

/* A list is whole, or it says that it can't be: sandboxes that are left out for want of descriptors would be taken for gone. */
START_TEST(state_list_short_of_descriptors)
{
    struct sandbox *sandboxes[4];
    struct rlimit before, few;
    int held[256], n;

    for (size_t i = 0; i < 4; i++)
        sandboxes[i] = create(detached(NULL));
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int left = 0; left < 8; left++) {
        struct sandbox_host *fresh = box_host(); /* has read no record yet */
        struct sandbox_list *list = NULL;
        int r;

        few = before;
        few.rlim_cur = 128;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        for (n = 0; n < 256 && (held[n] = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0;)
            n++;
        for (int i = 0; i < left; i++)
            close(held[--n]);
        r = sandbox_host_list(fresh, NULL, &list, &error);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        while (n > 0)
            close(held[--n]);
        if (r)
            sbtest_fails(r, SANDBOX_ELIMIT, &error);
        else
            ck_assert_uint_eq(sandbox_list_get_count(list), 4);
        ck_assert_int_eq(r != 0, left < 2); /* the folder and one record, or one init, at a time */
        sandbox_list_unref(list);
        sandbox_host_unref(fresh);
    }
    for (size_t i = 0; i < 4; i++)
        discard(sandboxes[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-state");
    TCase *tc = sbtest_case("keys");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, state_key_gives_the_same);
    tcase_add_test(tc, state_key_waits);
    tcase_add_test(tc, state_key_races);
    tcase_add_test(tc, state_key_maker_killed);
    tcase_add_test(tc, state_claims_of_a_dead_owner);
    tcase_add_test(tc, state_key_maker_stopped);
    tcase_add_test(tc, state_list_short_of_descriptors);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
