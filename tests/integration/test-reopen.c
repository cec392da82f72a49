/* SPDX-License-Identifier: Apache-2.0
 * Sandboxes met again: by id, from another process, in every state; after a reboot; with a pid that is somebody else's by now; with state that
 * was damaged; with a lock whose holder was killed or stopped. Nothing that is found on the disk is believed without the kernel. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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
    box_end(&host, NULL);
}

static void discard(struct sandbox *sandbox)
{
    sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
    sandbox_unref(sandbox);
    while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
        ;
}

static struct sandbox *detached(void)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    return box_start(host, spec);
}

static int look(struct sandbox *sandbox, const char *cause)
{
    struct sandbox_info *info = NULL;
    int state;

    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    state = sandbox_info_get_state(info);
    if (cause && !strstr(sandbox_info_get_json(info), cause))
        ck_abort_msg("no \"%s\" in %s", cause, sandbox_info_get_json(info));
    sandbox_info_unref(info);
    return state;
}

/* The state that another process sees, which opens the host and the sandbox by its id. */
static int seen_elsewhere(const char *id)
{
    int status;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct sandbox *same = NULL;

        host = box_host();
        sbtest_ok(sandbox_open(host, id, &same, &error), &error);
        _exit(look(same, NULL));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const char *path_of(struct sandbox *sandbox, const char *name)
{
    static char path[1024];

    snprintf(path, sizeof path, "%s/sandboxes/%s/%s", box_root(), sandbox_get_id(sandbox), name);
    return path;
}

static void kill_init(struct sandbox *sandbox)
{
    if (kill(box_init(sandbox), SIGKILL) < 0)
        ck_abort_msg("init can't be killed: %s", strerror(errno));
}

static void wait_until(struct sandbox *sandbox, int state)
{
    long until = box_now() + sbtest_slowly(5000);

    while (look(sandbox, NULL) != state) {
        while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
            ;
        ck_assert_int_lt(box_now(), until);
        usleep(10000);
    }
}

/* Replaces the first `from` behind `after` in a document of the state root, and makes it verify again. */
static void rewrite(const char *path, const char *after, const char *from, const char *to)
{
    char *text = box_read(path), *body = strchr(text, '\n') + 1, *at = strstr(body, after);
    uint64_t sum = 0xcbf29ce484222325u;
    char *whole = NULL;
    size_t size;
    FILE *f;

    ck_assert_ptr_nonnull(at);
    at = strstr(at, from);
    ck_assert_ptr_nonnull(at);
    ck_assert_int_gt(asprintf(&whole, "%.*s%s%s", (int)(at - body), body, to, at + strlen(from)), 0);
    size = strlen(whole) - 1; /* without the newline */
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ (unsigned char)whole[i]) * 0x100000001b3u;
    f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "libsandbox 1 %016llx\n%s", (unsigned long long)sum, whole);
    ck_assert_int_eq(fclose(f), 0);
    free(whole);
    free(text);
}

START_TEST(reopen_states)
{
    struct sandbox *sandbox = detached();
    const char *id = sandbox_get_id(sandbox);

    ck_assert_int_eq(seen_elsewhere(id), SANDBOX_STATE_RUNNING);
    free(box_sh(sandbox, NULL, "echo kept > /var/note"));
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    ck_assert_int_eq(seen_elsewhere(id), SANDBOX_STATE_STOPPED);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    kill_init(sandbox);
    wait_until(sandbox, SANDBOX_STATE_FAILED);
    ck_assert_int_eq(look(sandbox, "its init died"), SANDBOX_STATE_FAILED);
    ck_assert_int_eq(seen_elsewhere(id), SANDBOX_STATE_FAILED);
    /* started again, also at once after its end */
    for (int i = 0; i < 5; i++) {
        char *text;

        sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
        text = box_sh(sandbox, NULL, "cat /var/note");
        ck_assert_str_eq(text, "kept");
        free(text);
        kill_init(sandbox);
    }
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    ck_assert_int_eq(seen_elsewhere(id), SANDBOX_STATE_RUNNING);
    discard(sandbox);
}
END_TEST

/* The record is of another boot: stopped, whoever has those pids now; and it can be started. */
START_TEST(reopen_rebooted)
{
    struct sandbox *sandbox = detached();
    char boot[64], *text = box_read("/proc/sys/kernel/random/boot_id");

    snprintf(boot, sizeof boot, "%.36s", text);
    free(text);
    kill_init(sandbox);
    wait_until(sandbox, SANDBOX_STATE_FAILED);
    rewrite(path_of(sandbox, "run"), "\"init\":", boot, "11111111-2222-4333-8444-555555555555");
    rewrite(path_of(sandbox, "record"), "\"owner\":", boot, "11111111-2222-4333-8444-555555555555");
    ck_assert_int_eq(look(sandbox, "the machine was restarted"), SANDBOX_STATE_STOPPED);
    ck_assert_int_eq(seen_elsewhere(sandbox_get_id(sandbox)), SANDBOX_STATE_STOPPED);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 5"), 5);
    discard(sandbox);
}
END_TEST

/* After a reboot the wall clock alone says whether a time to live is over; a boot that has lasted longer needs none. */
START_TEST(reopen_rebooted_ttl)
{
    char boot[64], timer[4300], *text = box_read("/proc/sys/kernel/random/boot_id");
    struct sandbox_spec *spec = box_spec();
    struct sandbox *sandbox;
    struct sandbox_info *info = NULL;
    struct sandbox_host *next;

    snprintf(boot, sizeof boot, "%.36s", text);
    free(text);
    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    sbtest_ok(sandbox_spec_set_ttl(spec, INT64_C(1000000000000), SANDBOX_END_DELETE, &error), &error);
    sandbox = box_start(host, spec);
    kill_init(sandbox);
    wait_until(sandbox, SANDBOX_STATE_FAILED);
    rewrite(path_of(sandbox, "run"), "\"init\":", boot, "11111111-2222-4333-8444-555555555555");
    rewrite(path_of(sandbox, "record"), "\"life\":{\"boot\"", boot, "11111111-2222-4333-8444-555555555555");
    snprintf(timer, sizeof timer, "%s/timers/%s", box_root(), sandbox_get_id(sandbox)); /* it, too, says in which boot it was written */
    ck_assert_int_eq(unlink(timer), 0);
    ck_assert_int_eq(symlink("11111111-2222-4333-8444-555555555555 1 0", timer), 0);
    next = sandbox_host_unref(box_host());
    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    ck_assert_int_gt(sandbox_info_get_ttl_ms(info), INT64_C(999990000000));
    info = sandbox_info_unref(info);
    rewrite(path_of(sandbox, "record"), "\"life\":{\"boot\"", _i ? "\"ttl_ms\":1000000000000" : "\"wall_ms\":", _i ? "\"ttl_ms\":1" : "\"wall_ms\":1,\"x\":");
    next = sandbox_host_unref(box_host());
    ck_assert_ptr_null(next);
    sbtest_fails(sandbox_inspect(sandbox, &info, &error), SANDBOX_ENOTFOUND, &error);
    sandbox_unref(sandbox);
    while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
        ;
}
END_TEST

/* init's number is ours by now: neither is this test taken for it, nor killed for it. Nor does a wrong clock decide anything. */
START_TEST(reopen_pid_reused)
{
    struct sandbox *sandbox = detached();
    char from[32], to[32];

    kill_init(sandbox);
    wait_until(sandbox, SANDBOX_STATE_FAILED);
    snprintf(from, sizeof from, "\"pid\":%d,", (int)box_init(sandbox));
    /* of a process that is older: this one may have begun in the same tick of the clock as that init */
    snprintf(to, sizeof to, "\"pid\":%d,", (int)getppid());
    rewrite(path_of(sandbox, "run"), "\"init\":", from, to);
    ck_assert_int_eq(look(sandbox, "its init died"), SANDBOX_STATE_FAILED);
    rewrite(path_of(sandbox, "record"), "\"created_ms\":", "\"created_ms\":", "\"created_ms\":9");
    ck_assert_int_eq(look(sandbox, "its init died"), SANDBOX_STATE_FAILED);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    rewrite(path_of(sandbox, "run"), "\"init\":", "\"pid\":0,", to);
    discard(sandbox);
}
END_TEST

static void put(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "we");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
}

enum { RECORD_CUT, RECORD_NULS, RECORD_VERSION, RECORD_OTHERS, RECORD_FOLDER, RECORD_EMPTY, RUN_NULS, LOCK_FOLDER, WAYS };

static void damage(struct sandbox *sandbox, struct sandbox *other, int how)
{
    static const char nuls[4096];
    char path[1024], *text;

    snprintf(path, sizeof path, "%s", path_of(sandbox, how == RUN_NULS ? "run" : how == LOCK_FOLDER ? "lock" : "record"));
    text = box_read(path);
    switch (how) {
    case RECORD_CUT:
        put(path, text, strlen(text) / 2);
        break;
    case RECORD_NULS:
    case RUN_NULS:
        put(path, nuls, sizeof nuls);
        break;
    case RECORD_VERSION:
        memcpy(text, "libsandbox 9", 12);
        put(path, text, strlen(text));
        break;
    case RECORD_OTHERS:
        free(text);
        text = box_read(path_of(other, "record"));
        put(path, text, strlen(text));
        break;
    case RECORD_EMPTY:
        put(path, "", 0);
        break;
    default:
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    free(text);
}

START_TEST(reopen_damaged)
{
    struct sandbox *whole = detached(), *sandbox = detached(), *same = NULL;
    struct sandbox_list *list = NULL;
    int damaged = _i != RUN_NULS && _i != LOCK_FOLDER, seen = 0;

    damage(sandbox, whole, _i);
    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    ck_assert_uint_eq(sandbox_list_get_count(list), 2);
    for (size_t i = 0; i < 2; i++) {
        const struct sandbox_info *info = sandbox_list_get(list, i);

        if (!strcmp(sandbox_info_get_id(info), sandbox_get_id(whole)))
            ck_assert_int_eq(sandbox_info_get_state(info), SANDBOX_STATE_RUNNING);
        else
            seen = sandbox_info_get_state(info);
    }
    sandbox_list_unref(list);
    ck_assert_int_eq(seen, damaged ? SANDBOX_STATE_DAMAGED : SANDBOX_STATE_RUNNING);
    ck_assert_int_eq(seen_elsewhere(sandbox_get_id(sandbox)), seen);
    if (damaged)
        sbtest_fails(sandbox_start(sandbox, 10000, &error), SANDBOX_EDAMAGED, &error);
    sbtest_ok(sandbox_open(host, sandbox_get_id(sandbox), &same, &error), &error);
    sandbox_unref(sandbox);
    discard(same); /* and what ran in it has ended: the oracle looks */
    ck_assert_int_eq(box_code(whole, NULL, "exit 6"), 6);
    discard(whole);
}
END_TEST

/* Files that nobody of ours made, also one where a sandbox would be. */
START_TEST(reopen_foreign_files)
{
    static const char id[] = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
    struct sandbox *whole = detached(), *file = NULL;
    char path[1024];
    struct sandbox_list *list = NULL;

    snprintf(path, sizeof path, "%s/sandboxes/%s", box_root(), id);
    put(path, "hello", 5);
    snprintf(path, sizeof path, "%s/sandboxes/notes.txt", box_root());
    put(path, "hello", 5);
    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    ck_assert_uint_eq(sandbox_list_get_count(list), 2);
    sandbox_list_unref(list);
    sandbox_host_unref(box_host()); /* an open leaves them alone */
    ck_assert_int_eq(seen_elsewhere(id), SANDBOX_STATE_DAMAGED);
    sbtest_ok(sandbox_open(host, id, &file, &error), &error);
    sbtest_fails(sandbox_start(file, 10000, &error), SANDBOX_EDAMAGED, &error);
    discard(file);
    ck_assert_int_eq(access(path, F_OK), 0);
    ck_assert_int_eq(unlink(path), 0);
    discard(whole);
}
END_TEST

START_TEST(reopen_unknown)
{
    static const char id[] = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
    struct sandbox *sandbox = detached(), *none = NULL;

    sbtest_fails(sandbox_open(host, id, &none, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_fails(sandbox_open(host, "abcd", &none, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_open(host, "../../../../../../../../../../../../../../../../../../../../etc", &none, &error), SANDBOX_EINVALID, &error);
    sbtest_ok(sandbox_open(host, sandbox_get_id(sandbox), &none, &error), &error);
    discard(sandbox);
    sbtest_fails(sandbox_start(none, 10000, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_fails(sandbox_stop(none, 0, 10000, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_ok(sandbox_delete(none, 10000, &error), &error);
    sandbox_unref(none);
}
END_TEST

/* A process that is in the middle of a stop, so that it has the sandbox's lock. */
static pid_t lock_holder(const char *id)
{
    int said[2];
    char byte;
    pid_t pid;

    ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct sandbox *same = NULL;
        struct sandbox_op *op = NULL;

        host = box_host();
        sbtest_ok(sandbox_open(host, id, &same, &error), &error);
        sbtest_ok(sandbox_stop_begin(same, -1, &op, &error), &error);
        sandbox_op_wait(op, 200, NULL);
        close(said[1]);
        for (;;)
            pause();
    }
    close(said[1]);
    ck_assert_int_eq(read(said[0], &byte, 1), 0);
    close(said[0]);
    return pid;
}

START_TEST(reopen_lock_holder)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox *sandbox = NULL;
    char who[40];
    long begun;
    pid_t pid;

    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", "trap : TERM; echo deaf; while :; do sleep 0.1; done"), &error),
              &error);
    sandbox = box_start(host, spec);
    sbtest_ok(sandbox_log_wait(sandbox, "deaf", 4, 0, sbtest_slowly(10000), NULL, &error), &error); /* else the stop would end it */
    pid = lock_holder(sandbox_get_id(sandbox));
    ck_assert_int_eq(look(sandbox, NULL), SANDBOX_STATE_RUNNING); /* who only looks needs no lock */
    /* at work: it is waited for as long as the caller says */
    begun = box_now();
    sbtest_fails(sandbox_start(sandbox, 1500, &error), SANDBOX_ETIMEDOUT, &error);
    ck_assert_int_ge(box_now() - begun, 1400);
    /* stopped: it is named, within a bound */
    kill(pid, SIGSTOP);
    begun = box_now();
    ck_assert_int_eq(sandbox_delete(sandbox, -1, &error), SANDBOX_EBUSY);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(8000));
    snprintf(who, sizeof who, "process %d, which is stopped", (int)pid);
    ck_assert_msg(strstr(sandbox_error_get_message(error), who) != NULL, "%s", sandbox_error_get_message(error));
    error = sandbox_error_unref(error);
    /* killed: the lock is free at once */
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    begun = box_now();
    discard(sandbox);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(3000));
}
END_TEST

/* The same for the folder of names, which is locked for a moment only. */
START_TEST(reopen_folder_lock_holder)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox *sandbox = NULL;
    char path[1024], who[40];
    int said[2];
    long begun;
    char byte;
    pid_t pid;

    snprintf(path, sizeof path, "%s/names", box_root());
    ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (flock(fd, LOCK_EX) < 0)
            _exit(1);
        close(said[1]);
        for (;;)
            pause();
    }
    close(said[1]);
    ck_assert_int_eq(read(said[0], &byte, 1), 0);
    close(said[0]);
    kill(pid, SIGSTOP);
    sbtest_ok(sandbox_spec_set_name(spec, "wanted", &error), &error);
    begun = box_now();
    ck_assert_int_eq(sandbox_create(host, spec, -1, &sandbox, &error), SANDBOX_EBUSY);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(15000));
    snprintf(who, sizeof who, "process %d, which is stopped", (int)pid);
    ck_assert_msg(strstr(sandbox_error_get_message(error), who) != NULL, "%s", sandbox_error_get_message(error));
    error = sandbox_error_unref(error);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    discard(sandbox);
}
END_TEST

/* An init that is stopped answers nobody: it is told as that, and nothing is said of its daemon. */
START_TEST(reopen_silent)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox *sandbox;

    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sleep", "1000"), &error), &error);
    sandbox = box_start(host, spec);
    if (kill(box_init(sandbox), SIGSTOP) < 0)
        ck_abort_msg("init can't be stopped: %s", strerror(errno));
    ck_assert_int_eq(look(sandbox, "\"daemon\":{\"code\":-1,\"signal\":0,\"state\":\"unknown\"}"), SANDBOX_STATE_RUNNING);
    ck_assert_int_eq(look(sandbox, "does not answer"), SANDBOX_STATE_RUNNING);
    discard(sandbox);
}
END_TEST

static void *make_owned(void *data)
{
    *(struct sandbox **)data = box_start(host, NULL);
    return NULL;
}

/* The owner is the process: the thread that made it may end. */
START_TEST(reopen_after_its_thread)
{
    struct sandbox *sandbox = NULL;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, make_owned, &sandbox), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    usleep(100000);
    ck_assert_int_eq(seen_elsewhere(sandbox_get_id(sandbox)), SANDBOX_STATE_RUNNING);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 7"), 7);
    discard(sandbox);
}
END_TEST

START_TEST(reopen_after_a_failed_start)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox *sandbox = NULL;

    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/no/such/daemon"), &error), &error);
    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    sbtest_fails(sandbox_start(sandbox, 10000, &error), SANDBOX_ENOTFOUND, &error);
    ck_assert_int_eq(look(sandbox, "its start failed: /no/such/daemon"), SANDBOX_STATE_CREATED);
    ck_assert_int_eq(seen_elsewhere(sandbox_get_id(sandbox)), SANDBOX_STATE_CREATED);
    discard(sandbox);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tc = sbtest_case(name);

    tcase_add_checked_fixture(tc, set_up, tear_down);
    suite_add_tcase(suite, tc);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("integration-reopen");
    TCase *states = add_case(suite, "states"), *damaged = add_case(suite, "damaged"), *locks = add_case(suite, "locks");

    tcase_add_test(states, reopen_states);
    tcase_add_test(states, reopen_rebooted);
    tcase_add_loop_test(states, reopen_rebooted_ttl, 0, 2);
    tcase_add_test(states, reopen_pid_reused);
    tcase_add_test(states, reopen_unknown);
    tcase_add_test(states, reopen_silent);
    tcase_add_test(states, reopen_after_its_thread);
    tcase_add_test(states, reopen_after_a_failed_start);
    tcase_add_loop_test(damaged, reopen_damaged, 0, WAYS);
    tcase_add_test(damaged, reopen_foreign_files);
    tcase_add_test(locks, reopen_lock_holder);
    tcase_add_test(locks, reopen_folder_lock_holder);
    return box_main(suite);
}
