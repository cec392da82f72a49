/* SPDX-License-Identifier: Apache-2.0
 * Cases from the field about a sandbox's life and about crashes. Each test is named after its case. */
#include "box.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static int state_of(struct sandbox *sandbox)
{
    struct sandbox_info *info = NULL;
    int state;

    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    state = sandbox_info_get_state(info);
    sandbox_info_unref(info);
    return state;
}

static size_t count(void)
{
    struct sandbox_list *list = NULL;
    size_t n;

    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    n = sandbox_list_get_count(list);
    sandbox_list_unref(list);
    return n;
}

/* A sandbox's init is a child of the process that made it, and pid 1 of its own pid namespace. */
static pid_t init_pid(void)
{
    DIR *proc = opendir("/proc");
    struct dirent *e;
    pid_t found = 0;

    while (proc && (e = readdir(proc))) {
        char path[300], *status, *parent, *pids;

        if (!isdigit((unsigned char)e->d_name[0]) || atoi(e->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/%s/status", e->d_name);
        if (access(path, R_OK) < 0)
            continue;
        status = box_read(path);
        parent = box_finding(status, "PPid");
        pids = box_finding(status, "NSpid");
        if (parent && pids && atoi(parent + strspn(parent, "\t")) == getpid() && strstr(pids, "\t1") &&
            !strcmp(strrchr(pids, '\t'), "\t1"))
            found = atoi(e->d_name);
        free(status);
        free(parent);
        free(pids);
    }
    if (proc)
        closedir(proc);
    ck_assert_int_gt(found, 1);
    return found;
}

START_TEST(life_f30)
{
    struct sandbox *sandbox = box_start(host, NULL);

    for (int i = 1; i <= 5; i++) {
        char script[128], want[16], *text;

        snprintf(script, sizeof script, "echo line %d >> /var/log.txt; head -c 300000 /dev/zero > /var/blob%d", i, i);
        free(box_sh(sandbox, NULL, script));
        sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
        ck_assert_int_eq(state_of(sandbox), SANDBOX_STATE_STOPPED);
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
        text = box_sh(sandbox, NULL, "wc -l < /var/log.txt; cat /var/blob* | wc -c");
        snprintf(want, sizeof want, "%d\n%d", i, i * 300000);
        ck_assert_str_eq(text, want);
        free(text);
    }
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
}
END_TEST

START_TEST(life_f31)
{
    struct sandbox *sandbox = box_start(host, NULL);
    struct sandbox_exec *exec = NULL;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_info *info = NULL;
    pid_t init = init_pid();
    long begun;

    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sleep", "30"), NULL, &exec, &error), &error);
    begun = box_now();
    ck_assert_int_eq(kill(init, SIGKILL), 0);
    /* the command's end is told, without an exit code made up */
    sbtest_ok(sandbox_exec_wait(exec, sbtest_slowly(5000), &result, &error), &error);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_LOST);
    ck_assert_int_eq(result.code, -1);
    for (int i = 0; i < 100 && state_of(sandbox) != SANDBOX_STATE_FAILED; i++)
        usleep(10000);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(1000));
    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    ck_assert_int_eq(sandbox_info_get_state(info), SANDBOX_STATE_FAILED);
    ck_assert_ptr_nonnull(strstr(sandbox_info_get_json(info), "\"cause\":"));
    ck_assert_ptr_null(strstr(sandbox_info_get_json(info), "\"cause\":\"\""));
    sandbox_info_unref(info);
    sandbox_exec_unref(exec);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
}
END_TEST

START_TEST(life_f32_failed_create)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox *sandbox = NULL;

    mount.source = "/this/is/not/there";
    mount.target = "/data";
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    sbtest_ok(sandbox_spec_set_name(spec, "taken", &error), &error);
    ck_assert_int_lt(sandbox_create(host, spec, 10000, &sandbox, &error), 0);
    ck_assert_str_ne(sandbox_error_get_message(error), "");
    error = sandbox_error_unref(error);
    ck_assert_uint_eq(count(), 0);
    sandbox_spec_unref(spec);
    /* its name is free again */
    spec = box_spec();
    sbtest_ok(sandbox_spec_set_name(spec, "taken", &error), &error);
    sbtest_ok(sandbox_create(host, spec, 10000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
}
END_TEST

/* Stop and delete from every state, twice. */
START_TEST(life_f32_idempotent)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox *sandbox = NULL;

    sbtest_ok(sandbox_create(host, spec, 10000, &sandbox, &error), &error);
    ck_assert_int_eq(state_of(sandbox), SANDBOX_STATE_CREATED);
    if (_i == 1) {
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
        ck_assert_int_eq(state_of(sandbox), SANDBOX_STATE_RUNNING);
    }
    if (_i == 2) {
        sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
        sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
        ck_assert_int_eq(state_of(sandbox), SANDBOX_STATE_STOPPED);
    }
    if (_i == 3) {
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
        sbtest_ok(sandbox_stop(sandbox, 100, 10000, &error), &error);
        ck_assert_int_eq(state_of(sandbox), SANDBOX_STATE_STOPPED);
    }
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sbtest_fails(sandbox_stop(sandbox, 0, 10000, &error), SANDBOX_ENOTFOUND, &error);
    ck_assert_uint_eq(count(), 0);
    sandbox_unref(sandbox);
    sandbox_spec_unref(spec);
}
END_TEST

/* A process makes a sandbox and is killed: an owned one ends with it, a detached one lives. */
static void owner_killed(int lifetime)
{
    struct sandbox *sandbox = NULL;
    char id[SANDBOX_ID_LENGTH + 1] = "";
    int p[2];
    pid_t pid;

    ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct sandbox_host *own = box_host(); /* a handle of another process can't be used: F70 */
        struct sandbox_spec *spec = box_spec();

        sbtest_ok(sandbox_spec_set_lifetime(spec, lifetime, &error), &error);
        sandbox = box_start(own, spec);
        if (write(p[1], sandbox_get_id(sandbox), SANDBOX_ID_LENGTH) != SANDBOX_ID_LENGTH)
            _exit(1);
        for (;;)
            pause();
    }
    close(p[1]);
    ck_assert_int_eq(read(p[0], id, SANDBOX_ID_LENGTH), SANDBOX_ID_LENGTH);
    close(p[0]);
    sbtest_ok(sandbox_open(host, id, &sandbox, &error), &error);
    ck_assert_int_eq(state_of(sandbox), SANDBOX_STATE_RUNNING);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    if (lifetime == SANDBOX_LIFETIME_DETACHED) {
        char *text;

        usleep(300000);
        ck_assert_int_eq(state_of(sandbox), SANDBOX_STATE_RUNNING);
        text = box_sh(sandbox, NULL, "echo alive");
        ck_assert_str_eq(text, "alive");
        free(text);
    } else {
        for (int i = 0; i < 200 && state_of(sandbox) == SANDBOX_STATE_RUNNING; i++)
            usleep(10000);
        ck_assert_int_eq(state_of(sandbox), SANDBOX_STATE_STOPPED);
    }
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
}

START_TEST(life_f33_owned)
{
    owner_killed(SANDBOX_LIFETIME_OWNED);
}
END_TEST

START_TEST(life_f33_detached)
{
    owner_killed(SANDBOX_LIFETIME_DETACHED);
}
END_TEST

/* The thread that made it ends: nothing happens to it. */
START_TEST(life_f33_closed_handles)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox *sandbox;
    char id[SANDBOX_ID_LENGTH + 1], *text;

    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    sandbox = box_start(host, spec);
    snprintf(id, sizeof id, "%s", sandbox_get_id(sandbox));
    sandbox_unref(sandbox);
    sbtest_ok(sandbox_host_close(host, &error), &error);
    sandbox_host_unref(host);
    host = box_host();
    sbtest_ok(sandbox_open(host, id, &sandbox, &error), &error);
    ck_assert_int_eq(state_of(sandbox), SANDBOX_STATE_RUNNING);
    text = box_sh(sandbox, NULL, "echo still here");
    ck_assert_str_eq(text, "still here");
    free(text);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
}
END_TEST

/* Both at once: activity keeps it from being idle, and the time to live ends it all the same. */
START_TEST(life_f34)
{
    struct sandbox_spec *spec = box_spec();
    long begun = box_now();
    struct sandbox *sandbox;

    sbtest_ok(sandbox_spec_set_ttl(spec, 3000, SANDBOX_END_STOP, &error), &error);
    sbtest_ok(sandbox_spec_set_idle(spec, 600, SANDBOX_END_STOP, &error), &error);
    sbtest_ok(sandbox_spec_set_end_grace(spec, 0, &error), &error);
    sandbox = box_start(host, spec);
    ck_assert_int_eq(box_code(sandbox, NULL, "sleep 1.5; exit 3"), 3);
    if (_i) {
        struct sandbox_exec *exec = NULL;

        sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sleep", "1000"), NULL, &exec, &error), &error);
        sandbox_exec_unref(exec);
    }
    while (state_of(sandbox) == SANDBOX_STATE_RUNNING) {
        ck_assert_int_lt(box_now() - begun, sbtest_slowly(20000));
        usleep(20000);
    }
    ck_assert_int_eq(state_of(sandbox), SANDBOX_STATE_STOPPED);
    ck_assert_int_ge(box_now() - begun, _i ? 2900 : 2000);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
}
END_TEST

START_TEST(life_f35)
{
    struct sandbox *sandbox = box_start(host, NULL);
    struct sandbox_list *list = NULL;
    pid_t init = init_pid();

    ck_assert_int_eq(kill(init, SIGKILL), 0);
    for (int i = 0; i < 100; i++) {
        sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
        ck_assert_uint_eq(sandbox_list_get_count(list), 1);
        if (sandbox_info_get_state(sandbox_list_get(list, 0)) == SANDBOX_STATE_FAILED)
            break;
        list = sandbox_list_unref(list);
        usleep(10000);
    }
    ck_assert_ptr_nonnull(list); /* no file was touched, and it says so */
    sandbox_list_unref(list);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("field-lifecycle");
    TCase *tc = sbtest_case("life");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, life_f30);
    tcase_add_test(tc, life_f31);
    tcase_add_test(tc, life_f32_failed_create);
    tcase_add_loop_test(tc, life_f32_idempotent, 0, 4);
    tcase_add_test(tc, life_f33_owned);
    tcase_add_test(tc, life_f33_detached);
    tcase_add_test(tc, life_f33_closed_handles);
    tcase_add_loop_test(tc, life_f34, 0, 2);
    tcase_add_test(tc, life_f35);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
