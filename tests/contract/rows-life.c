/* SPDX-License-Identifier: Apache-2.0
 * B1 create, B8 reopen, B9 stop and delete, B10 find; and what the field says about lives. */
#include "contract.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_error *error;

static int is_id(const char *id)
{
    return strlen(id) == SANDBOX_ID_LENGTH && strspn(id, "0123456789abcdef") == SANDBOX_ID_LENGTH;
}

static void b1_create(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *a, *b;
    struct sandbox_info *info;

    row_need(sandbox_spec_add_label(spec, "contract.colour", "sea green", &error), &error, "label");
    a = row_create(spec);
    b = row_create(NULL);
    ROW_CHECK(is_id(sandbox_get_id(a)), "\"%.80s\" is no id of %d digits", sandbox_get_id(a), SANDBOX_ID_LENGTH);
    ROW_CHECK(strcmp(sandbox_get_id(a), sandbox_get_id(b)) != 0, "two sandboxes have one id");
    info = row_info(a);
    ROW_CHECK(!strcmp(sandbox_info_get_id(info), sandbox_get_id(a)), "inspect tells another id");
    ROW_CHECK(sandbox_info_get_label(info, "contract.colour") &&
                  !strcmp(sandbox_info_get_label(info, "contract.colour"), "sea green"),
              "the label is lost");
    ROW_CHECK(!strcmp(sandbox_info_get_image(info), contract.image), "inspect tells image \"%s\"", sandbox_info_get_image(info));
    ROW_CHECK(sandbox_info_get_state(info) == SANDBOX_STATE_CREATED, "it is in state %d after its create",
              sandbox_info_get_state(info));
    sandbox_info_unref(info);
}

static void b1_name(void)
{
    struct sandbox *first, *second = NULL;
    struct sandbox_spec *spec = row_spec();
    struct sandbox_info *info;
    char *name = row_name("taken");

    row_need(sandbox_spec_set_name(spec, name, &error), &error, "set the name");
    first = row_start(spec);
    spec = row_spec();
    row_need(sandbox_spec_set_name(spec, name, &error), &error, "set the name");
    row_refused(sandbox_create(row_host(), spec, 60000, &second, &error), SANDBOX_EEXISTS, &error,
                "a second create with the name");
    sandbox_spec_unref(spec);
    info = row_info(first);
    ROW_CHECK(!strcmp(sandbox_info_get_name(info), name), "the first one's name is \"%s\" now", sandbox_info_get_name(info));
    sandbox_info_unref(info);
    row_says(first, NULL, "echo untouched", "untouched");
    free(name);
}

/* A create that is repeated gives the same one, also from another process; another spec under the key is refused. */
static void b1_key(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *first, *again = NULL;
    char *key = row_name("key");
    int status;
    pid_t pid;

    row_need(sandbox_spec_set_idempotency_key(spec, key, &error), &error, "set the key");
    row_need(sandbox_create(row_host(), spec, 60000, &first, &error), &error, "create");
    row_keep(first);
    row_need(sandbox_create(row_host(), spec, 60000, &again, &error), &error, "create again");
    ROW_CHECK(!strcmp(sandbox_get_id(first), sandbox_get_id(again)), "a repeated create gives another sandbox");
    sandbox_unref(again);
    pid = fork();
    ROW_CHECK(pid >= 0, "no process");
    if (pid == 0) {
        row_forked();
        row_need(sandbox_create(row_host(), spec, 60000, &again, &error), &error, "create in another process");
        _exit(strcmp(sandbox_get_id(first), sandbox_get_id(again)) ? 77 : 0);
    }
    ROW_CHECK(waitpid(pid, &status, 0) == pid && status == 0, "another process gets another sandbox, or none");
    row_need(sandbox_spec_add_env(spec, "ANOTHER", "spec", &error), &error, "change the spec");
    row_refused(sandbox_create(row_host(), spec, 60000, &again, &error), SANDBOX_EEXISTS, &error,
                "another spec under the same key");
    sandbox_spec_unref(spec);
    free(key);
}

/* In a process of its own that makes a detached sandbox with a name and a label, and is killed. */
static void make_and_die(int lifetime, char id[SANDBOX_ID_LENGTH + 1])
{
    int p[2];
    pid_t pid;

    ROW_CHECK(pipe2(p, 0) == 0, "no pipe"); /* inherited: by the child, which ends before anything is executed here */
    pid = fork();
    ROW_CHECK(pid >= 0, "no process");
    if (pid == 0) {
        struct sandbox_spec *spec = row_spec();
        struct sandbox *sandbox;
        char *name = row_name("reopened");

        row_forked();
        row_need(sandbox_spec_set_name(spec, name, &error), &error, "set the name");
        row_need(sandbox_spec_add_label(spec, "contract.key", "a \"quoted\" value", &error), &error, "label");
        row_need(sandbox_spec_add_env(spec, "CONTRACT", "yes", &error), &error, "set the environment");
        row_need(sandbox_spec_set_lifetime(spec, lifetime, &error), &error, "set the lifetime");
        sandbox = row_start(spec);
        free(row_sh(sandbox, NULL, "mkdir -p /tmp && echo written by the first >/tmp/file"));
        if (write(p[1], sandbox_get_id(sandbox), SANDBOX_ID_LENGTH) != SANDBOX_ID_LENGTH)
            _exit(1);
        for (;;)
            pause();
    }
    close(p[1]);
    ROW_CHECK(row_read(p[0], id, SANDBOX_ID_LENGTH, 60000) == SANDBOX_ID_LENGTH, "the first process made no sandbox");
    id[SANDBOX_ID_LENGTH] = 0;
    close(p[0]);
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) != pid)
        ;
}

static struct sandbox *reopen(const char *id)
{
    struct sandbox *sandbox = NULL;

    row_need(sandbox_open(row_host(), id, &sandbox, &error), &error, "open by id");
    row_keep(sandbox);
    return sandbox;
}

static void b8_running(void)
{
    struct sandbox *sandbox;
    struct sandbox_info *info;
    char id[SANDBOX_ID_LENGTH + 1], *name = row_name("reopened");

    make_and_die(SANDBOX_LIFETIME_DETACHED, id);
    sandbox = reopen(id);
    info = row_info(sandbox);
    ROW_CHECK(sandbox_info_get_state(info) == SANDBOX_STATE_RUNNING, "its state is %d", sandbox_info_get_state(info));
    ROW_CHECK(!strcmp(sandbox_info_get_id(info), id) && !strcmp(sandbox_info_get_name(info), name), "it has another id or name");
    ROW_CHECK(sandbox_info_get_label(info, "contract.key") &&
                  !strcmp(sandbox_info_get_label(info, "contract.key"), "a \"quoted\" value"),
              "its label is lost or changed");
    sandbox_info_unref(info);
    row_says(sandbox, NULL, "cat /tmp/file; echo $CONTRACT", "written by the first\nyes");
    free(name);
}

static void b8_stopped(void)
{
    struct sandbox *sandbox;
    char id[SANDBOX_ID_LENGTH + 1];

    make_and_die(SANDBOX_LIFETIME_DETACHED, id);
    sandbox = reopen(id);
    row_need(sandbox_stop(sandbox, 0, 60000, &error), &error, "stop");
    sandbox = reopen(id);
    row_state(sandbox, SANDBOX_STATE_STOPPED);
    row_need(sandbox_start(sandbox, 60000, &error), &error, "start");
    row_says(sandbox, NULL, "cat /tmp/file; echo $CONTRACT", "written by the first\nyes");
}

/* What was asked is told again, from another handle, word for word the same. */
static void b8_compared(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox, *again;
    struct sandbox_info *one, *two;
    const char *from_one, *from_two;

    row_need(sandbox_spec_add_env(spec, "A", "1", &error), &error, "environment");
    row_need(sandbox_spec_set_workdir(spec, "/tmp", &error), &error, "workdir");
    row_need(sandbox_spec_set_hostname(spec, "contract", &error), &error, "hostname");
    row_need(sandbox_spec_set_daemon(spec, ROW_ARGV("/bin/sh", "-c", "sleep 100", "with \n newline"), &error), &error, "daemon");
    sandbox = row_create(spec);
    row_need(sandbox_open(row_host(), sandbox_get_id(sandbox), &again, &error), &error, "open");
    one = row_info(sandbox);
    two = row_info(again);
    from_one = strstr(sandbox_info_get_json(one), "\"spec\"");
    from_two = strstr(sandbox_info_get_json(two), "\"spec\"");
    ROW_CHECK(from_one && from_two && !strcmp(from_one, from_two), "two looks at one sandbox differ");
    ROW_CHECK(strstr(from_one, "with \\n newline") && strstr(from_one, "\"contract\"") && strstr(from_one, "/tmp"),
              "not all that was asked for is told again: %.300s", from_one);
    sandbox_info_unref(one);
    sandbox_info_unref(two);
    sandbox_unref(again);
}

static void b8_unknown(void)
{
    struct sandbox *sandbox = NULL;
    char id[SANDBOX_ID_LENGTH + 1];

    memset(id, '7', SANDBOX_ID_LENGTH);
    id[SANDBOX_ID_LENGTH] = 0;
    row_refused(sandbox_open(row_host(), id, &sandbox, &error), SANDBOX_ENOTFOUND, &error, "an id that nobody has");
    row_refused(sandbox_open(row_host(), "7777", &sandbox, &error), SANDBOX_EINVALID, &error, "a part of an id");
}

static void b9_stop_delete(void)
{
    struct sandbox *sandbox, *again = NULL;
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = row_spec();
    const char *volume = row_volume();

    mount.type = SANDBOX_MOUNT_VOLUME;
    mount.source = volume;
    mount.target = "/store";
    row_need(sandbox_spec_add_mount(spec, &mount, &error), &error, "mount the volume");
    sandbox = row_start(spec);
    free(row_sh(sandbox, NULL, "echo survives >/store/file; sync"));
    row_need(sandbox_stop(sandbox, 0, 60000, &error), &error, "stop");
    row_state(sandbox, SANDBOX_STATE_STOPPED);
    row_need(sandbox_delete(sandbox, 60000, &error), &error, "delete");
    row_refused(sandbox_open(row_host(), sandbox_get_id(sandbox), &again, &error), SANDBOX_ENOTFOUND, &error,
                "open what was deleted");
    spec = row_spec();
    row_need(sandbox_spec_add_mount(spec, &mount, &error), &error, "mount the volume again");
    row_says(row_start(spec), NULL, "cat /store/file", "survives");
}

static size_t count(const char *name_prefix, const char *key, const char *value, const char *wanted)
{
    struct sandbox_list_options options = SANDBOX_LIST_OPTIONS_INIT;
    struct sandbox_list *list = NULL;
    size_t n, seen = 0;

    options.name_prefix = name_prefix;
    options.label_key = key;
    options.label_value = value;
    row_need(sandbox_host_list(row_host(), &options, &list, &error), &error, "list");
    n = sandbox_list_get_count(list);
    for (size_t i = 0; i < n; i++)
        seen += !strcmp(sandbox_info_get_id(sandbox_list_get(list, i)), wanted);
    sandbox_list_unref(list);
    ROW_CHECK(n == 0 || seen == 1, "a list does not hold what was looked for, or twice");
    return n;
}

static void b10_find(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *a;
    char *name = row_name("find-me"), *prefix = row_name("find"), *other = row_name("other");
    const char *id;

    row_need(sandbox_spec_set_name(spec, name, &error), &error, "name");
    row_need(sandbox_spec_add_label(spec, "contract.who", contract.run, &error), &error, "label");
    a = row_create(spec);
    row_create(NULL);
    id = sandbox_get_id(a);
    ROW_CHECK(count(prefix, NULL, NULL, id) == 1, "not found by the prefix of its name");
    ROW_CHECK(count(NULL, "contract.who", contract.run, id) == 1, "not found by its label's value");
    ROW_CHECK(count(prefix, "contract.who", NULL, id) == 1, "not found by name and label");
    ROW_CHECK(count(other, NULL, NULL, id) == 0, "found by another name");
    ROW_CHECK(count(NULL, "contract.who", "nobody", id) == 0, "found by another value");
    free(name);
    free(prefix);
    free(other);
}

static void f30_writes_stay(void)
{
    struct sandbox *sandbox = row_start(NULL);

    for (int i = 1; i <= 5; i++) {
        char script[128], want[32];

        snprintf(script, sizeof script, "echo line %d >>/log; head -c 300000 /dev/zero >/blob%d", i, i);
        free(row_sh(sandbox, NULL, script));
        row_need(sandbox_stop(sandbox, 0, 60000, &error), &error, "stop");
        row_need(sandbox_start(sandbox, 60000, &error), &error, "start");
        snprintf(want, sizeof want, "%d %d", i, i * 300000);
        row_says(sandbox, NULL, "echo $(($(wc -l </log))) $(($(cat /blob* | wc -c)))", want);
    }
}

static void f32_every_state(void)
{
    for (int state = 0; state < 4; state++) {
        struct sandbox *sandbox = row_create(NULL);

        if (state == 1 || state == 3)
            row_need(sandbox_start(sandbox, 60000, &error), &error, "start");
        if (state == 1)
            row_need(sandbox_start(sandbox, 60000, &error), &error, "start again");
        if (state >= 2)
            row_need(sandbox_stop(sandbox, 0, 60000, &error), &error, "stop");
        if (state == 2)
            row_need(sandbox_stop(sandbox, 0, 60000, &error), &error, "stop again");
        row_need(sandbox_delete(sandbox, 60000, &error), &error, "delete");
        row_need(sandbox_delete(sandbox, 60000, &error), &error, "delete again");
        row_refused(sandbox_start(sandbox, 60000, &error), SANDBOX_ENOTFOUND, &error, "start what was deleted");
    }
}

static void f32_failed_create(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox = NULL;
    char *name = row_name("failed");

    row_need(sandbox_spec_set_name(spec, name, &error), &error, "name");
    row_need(sandbox_spec_set_image(spec, "contract-no-such-image", &error), &error, "image");
    row_refused(sandbox_create(row_host(), spec, 60000, &sandbox, &error), SANDBOX_ENOTFOUND, &error,
                "an image that is not there");
    row_need(sandbox_spec_set_image(spec, contract.image, &error), &error, "image");
    row_create(spec); /* its name is free */
    free(name);
}

static void f33_owned(void)
{
    struct sandbox *sandbox = NULL;
    char id[SANDBOX_ID_LENGTH + 1];
    int r;

    make_and_die(SANDBOX_LIFETIME_OWNED, id);
    for (int64_t until = row_now() + 10000;; row_sleep(20)) {
        struct sandbox_info *info = NULL;

        r = sandbox_open(row_host(), id, &sandbox, &error);
        if (r == SANDBOX_ENOTFOUND) {
            error = sandbox_error_unref(error);
            return;
        }
        row_need(r, &error, "open");
        info = row_info(sandbox);
        r = sandbox_info_get_state(info);
        sandbox_info_unref(info);
        if (r != SANDBOX_STATE_RUNNING)
            break;
        sandbox = sandbox_unref(sandbox);
        ROW_CHECK(row_now() < until, "it still runs 10 s after its owner was killed");
    }
    row_keep(sandbox);
}

static void f33_detached(void)
{
    struct sandbox *sandbox;
    char id[SANDBOX_ID_LENGTH + 1];

    make_and_die(SANDBOX_LIFETIME_DETACHED, id);
    row_sleep(500);
    sandbox = reopen(id);
    row_state(sandbox, SANDBOX_STATE_RUNNING);
    row_says(sandbox, NULL, "echo alive", "alive");
}

static void await_stopped(struct sandbox *sandbox)
{
    for (int64_t until = row_now() + 30000;; row_sleep(50)) {
        struct sandbox_info *info = row_info(sandbox);
        int state = sandbox_info_get_state(info);

        sandbox_info_unref(info);
        if (state == SANDBOX_STATE_STOPPED)
            return;
        ROW_CHECK(row_now() < until, "it is not stopped 30 s later, but in state %d", state);
    }
}

static void f34_ttl(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox;
    int64_t begun = row_now();

    row_need(sandbox_spec_set_ttl(spec, 2000, SANDBOX_END_STOP, &error), &error, "set a time to live");
    row_need(sandbox_spec_set_end_grace(spec, 0, &error), &error, "set the grace at its end");
    sandbox = row_start(spec);
    await_stopped(sandbox);
    ROW_CHECK(row_now() - begun >= 1900, "a time to live of 2 s ended after %lld ms", (long long)(row_now() - begun));
    row_refused(sandbox_start(sandbox, 30000, &error), SANDBOX_ELIMIT, &error, "a start after the time to live");
}

static void f34_idle(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox;

    row_need(sandbox_spec_set_idle(spec, 1000, SANDBOX_END_STOP, &error), &error, "set an idle limit");
    row_need(sandbox_spec_set_end_grace(spec, 0, &error), &error, "set the grace at its end");
    sandbox = row_start(spec);
    row_says(sandbox, NULL, "sleep 3; echo still", "still"); /* a command that runs is activity */
    await_stopped(sandbox);
}

static void f34_paused(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *exec = NULL;

    row_need(sandbox_pause(sandbox, 30000, &error), &error, "pause");
    row_state(sandbox, SANDBOX_STATE_PAUSED);
    row_refused(sandbox_exec(sandbox, ROW_ARGV("/bin/sh", "-c", "true"), NULL, &exec, &error), SANDBOX_EPAUSED, &error,
                "a command in a paused sandbox");
    row_need(sandbox_resume(sandbox, 30000, &error), &error, "resume");
    row_says(sandbox, NULL, "echo alive", "alive");
    row_need(sandbox_pause(sandbox, 30000, &error), &error, "pause");
    row_need(sandbox_stop(sandbox, 1000, 30000, &error), &error, "stop a paused sandbox");
    row_state(sandbox, SANDBOX_STATE_STOPPED);
}

static void f37_progress(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox_progress progress = SANDBOX_PROGRESS_INIT;
    struct sandbox_op *op = NULL;
    struct sandbox *sandbox = NULL;
    int r;

    row_need(sandbox_create_begin(row_host(), spec, &op, &error), &error, "begin a create");
    sandbox_spec_unref(spec);
    ROW_CHECK(sandbox_op_get_fd(op) >= 0, "an operation has no descriptor");
    while ((r = sandbox_op_wait(op, 50, &error)) == SANDBOX_ETIMEDOUT) {
        error = sandbox_error_unref(error);
        row_need(sandbox_op_get_progress(op, &progress), &error, "progress");
    }
    row_need(r, &error, "create");
    row_need(sandbox_op_take_sandbox(op, &sandbox, &error), &error, "take the sandbox");
    row_keep(sandbox);
    sandbox_op_unref(op);
    row_state(sandbox, SANDBOX_STATE_CREATED);
}

static void f37_cancel(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox_op *op = NULL;
    struct sandbox *sandbox = NULL;
    int r;

    row_need(sandbox_create_begin(row_host(), spec, &op, &error), &error, "begin a create");
    sandbox_spec_unref(spec);
    row_need(sandbox_op_cancel(op), &error, "cancel");
    r = sandbox_op_wait(op, 30000, &error);
    if (r == 0) { /* it was done already */
        row_need(sandbox_op_take_sandbox(op, &sandbox, &error), &error, "take the sandbox");
        row_keep(sandbox);
    } else {
        ROW_CHECK(r == SANDBOX_ECANCELLED, "a cancelled create ends with %s", sandbox_code_name(r));
        error = sandbox_error_unref(error);
    }
    sandbox_op_unref(op);
}

static const struct row rows[] = {
    { "b1_create", b1_create },
    { "b1_name", b1_name },
    { "b1_key", b1_key },
    { "b8_running", b8_running },
    { "b8_stopped", b8_stopped },
    { "b8_compared", b8_compared },
    { "b8_unknown", b8_unknown },
    { "b9_stop_delete", b9_stop_delete },
    { "b10_find", b10_find },
    { "f30_writes_stay", f30_writes_stay },
    { "f32_every_state", f32_every_state },
    { "f32_failed_create", f32_failed_create },
    { "f33_owned", f33_owned },
    { "f33_detached", f33_detached },
    { "f34_ttl", f34_ttl },
    { "f34_idle", f34_idle },
    { "f34_paused", f34_paused },
    { "f37_progress", f37_progress },
    { "f37_cancel", f37_cancel },
};
const struct rows rows_life = { rows, sizeof rows / sizeof *rows };
