/* SPDX-License-Identifier: Apache-2.0
 * Sandboxes as a caller keeps them: names, labels, lists, what inspect says, handles of other processes, operations. */
#include "box.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
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

static struct sandbox *create(const char *name, const char *key, const char *value)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox *sandbox = NULL;

    if (name)
        sbtest_ok(sandbox_spec_set_name(spec, name, &error), &error);
    if (key)
        sbtest_ok(sandbox_spec_add_label(spec, key, value, &error), &error);
    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    return sandbox;
}

static void discard(struct sandbox *sandbox)
{
    sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
    sandbox_unref(sandbox);
}

static size_t listed(const char *prefix, const char *key, const char *value)
{
    struct sandbox_list_options options = SANDBOX_LIST_OPTIONS_INIT;
    struct sandbox_list *list = NULL;
    size_t n;

    options.name_prefix = prefix;
    options.label_key = key;
    options.label_value = value;
    sbtest_ok(sandbox_host_list(host, &options, &list, &error), &error);
    n = sandbox_list_get_count(list);
    ck_assert_ptr_null(sandbox_list_get(list, n));
    sandbox_list_unref(list);
    return n;
}

START_TEST(sandbox_names_and_labels)
{
    struct sandbox *a = create("web-1", "role", "web"), *b = create("web-2", "role", "cache"), *c = create(NULL, "role", "web"), *d = NULL;
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_name(spec, "web-1", &error), &error);
    sbtest_fails(sandbox_create(host, spec, 10000, &d, &error), SANDBOX_EEXISTS, &error);
    sandbox_spec_unref(spec);
    ck_assert_uint_eq(listed(NULL, NULL, NULL), 3);
    ck_assert_uint_eq(listed("web-", NULL, NULL), 2);
    ck_assert_uint_eq(listed("web-2", NULL, NULL), 1);
    ck_assert_uint_eq(listed("nothing", NULL, NULL), 0);
    ck_assert_uint_eq(listed(NULL, "role", NULL), 3);
    ck_assert_uint_eq(listed(NULL, "role", "web"), 2);
    ck_assert_uint_eq(listed("web-", "role", "web"), 1);
    ck_assert_uint_eq(listed(NULL, "colour", NULL), 0);
    ck_assert_str_ne(sandbox_get_id(a), sandbox_get_id(b));
    ck_assert_uint_eq(strlen(sandbox_get_id(a)), SANDBOX_ID_LENGTH);
    ck_assert_uint_eq(strspn(sandbox_get_id(a), "0123456789abcdef"), SANDBOX_ID_LENGTH);
    discard(a);
    discard(b);
    discard(c);
    ck_assert_uint_eq(listed(NULL, NULL, NULL), 0);
    discard(create("web-1", NULL, NULL)); /* the name is free again */
}
END_TEST

/* What was asked can be read back and compared. */
START_TEST(sandbox_inspect_reads_back)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox_info *info = NULL;
    struct sandbox *sandbox;
    json_t *json, *s;

    sbtest_ok(sandbox_spec_set_name(spec, "mirror", &error), &error);
    sbtest_ok(sandbox_spec_add_label(spec, "k", "v \xc3\xa9", &error), &error);
    sbtest_ok(sandbox_spec_add_env(spec, "BYTES", "\xff\xfe", &error), &error);
    sbtest_ok(sandbox_spec_set_workdir(spec, "/tmp", &error), &error);
    sbtest_ok(sandbox_spec_set_hostname(spec, "mirror-host", &error), &error);
    sbtest_ok(sandbox_spec_set_pids_max(spec, 321, &error), &error);
    sandbox = box_start(host, spec);
    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    ck_assert_str_eq(sandbox_info_get_id(info), sandbox_get_id(sandbox));
    ck_assert_str_eq(sandbox_info_get_name(info), "mirror");
    ck_assert_str_eq(sandbox_info_get_label(info, "k"), "v \xc3\xa9");
    ck_assert_ptr_null(sandbox_info_get_label(info, "none"));
    ck_assert_int_eq(sandbox_info_get_state(info), SANDBOX_STATE_RUNNING);
    ck_assert_str_eq(sandbox_info_get_image(info), "host");
    ck_assert_int_gt(sandbox_info_get_created_ms(info), 1600000000000);
    json = json_loads(sandbox_info_get_json(info), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(json);
    s = json_object_get(json, "spec");
    ck_assert_int_eq(json_integer_value(json_object_get(s, "pids_max")), 321);
    ck_assert_str_eq(json_string_value(json_object_get(json, "state")), "running");
    ck_assert(json_is_object(json_object_get(json, "isolation")));
    json_decref(json);
    sandbox_info_unref(info);
    {
        char *text = box_sh(sandbox, NULL, "hostname; pwd; printf %s \"$BYTES\" | od -An -tx1 | tr -d ' '");

        ck_assert_str_eq(text, "mirror-host\n/tmp\nfffe");
        free(text);
    }
    discard(sandbox);
}
END_TEST

/* Another process opens it by its id, runs something, and the first sees what it did. */
START_TEST(sandbox_reopened_elsewhere)
{
    struct sandbox *sandbox = box_start(host, NULL);
    char *text;
    int status;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct sandbox_host *own = box_host();
        struct sandbox *same = NULL;

        sbtest_ok(sandbox_open(own, sandbox_get_id(sandbox), &same, &error), &error);
        free(box_sh(same, NULL, "echo from elsewhere > /var/note"));
        sandbox_unref(same);
        sandbox_host_unref(own);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    text = box_sh(sandbox, NULL, "cat /var/note");
    ck_assert_str_eq(text, "from elsewhere");
    free(text);
    discard(sandbox);
}
END_TEST

/* Not before it is started, not after it is stopped; and it can be started again. */
START_TEST(sandbox_states)
{
    struct sandbox *sandbox = create(NULL, NULL, NULL);
    struct sandbox_exec *exec = NULL;

    sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("true"), NULL, &exec, &error), SANDBOX_ENOTRUNNING, &error);
    sbtest_fails(sandbox_kill(sandbox, 15, &error), SANDBOX_ENOTRUNNING, &error);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 0"), 0);
    sbtest_fails(sandbox_kill(sandbox, 15, &error), SANDBOX_ENOTRUNNING, &error); /* there is no daemon */
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("true"), NULL, &exec, &error), SANDBOX_ENOTRUNNING, &error);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 0"), 0);
    discard(sandbox);
}
END_TEST

START_TEST(sandbox_operation)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox_progress progress = SANDBOX_PROGRESS_INIT;
    struct sandbox *sandbox = NULL;
    struct sandbox_op *op = NULL;
    struct pollfd p = { .events = POLLIN };
    int r;

    sbtest_ok(sandbox_create_begin(host, spec, &op, &error), &error);
    sbtest_ok(sandbox_op_get_progress(op, &progress), NULL);
    p.fd = sandbox_op_get_fd(op);
    while ((r = sandbox_op_wait(op, 0, &error)) == SANDBOX_ETIMEDOUT) {
        error = sandbox_error_unref(error);
        ck_assert_int_eq(poll(&p, 1, 10000), 1);
    }
    sbtest_ok(r, &error);
    sbtest_ok(sandbox_op_wait(op, 0, &error), &error);
    sbtest_ok(sandbox_op_take_sandbox(op, &sandbox, &error), &error);
    sbtest_fails(sandbox_op_take_sandbox(op, &sandbox, &error), SANDBOX_ENOTFOUND, &error);
    sandbox_op_unref(op);
    discard(sandbox);
    /* cancelled, and given up: nothing stays */
    sbtest_ok(sandbox_create_begin(host, spec, &op, &error), &error);
    sbtest_ok(sandbox_op_cancel(op), NULL);
    r = sandbox_op_wait(op, 10000, &error);
    error = sandbox_error_unref(error);
    ck_assert(r == SANDBOX_ECANCELLED || r == 0);
    if (r == 0) {
        sbtest_ok(sandbox_op_take_sandbox(op, &sandbox, &error), &error);
        discard(sandbox);
    }
    sandbox_op_unref(op);
    sbtest_ok(sandbox_create_begin(host, spec, &op, &error), &error);
    sandbox_op_unref(op);
    sandbox_spec_unref(spec);
    ck_assert_uint_eq(listed(NULL, NULL, NULL), 0);
}
END_TEST

/* Many at once, from one spec. */
START_TEST(sandbox_twenty)
{
    struct sandbox *all[20];
    char name[32], *text;

    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "n-%d", i);
        all[i] = create(name, NULL, NULL);
        sbtest_ok(sandbox_start(all[i], 10000, &error), &error);
        snprintf(name, sizeof name, "echo %d > /var/me", i);
        free(box_sh(all[i], NULL, name));
    }
    ck_assert_uint_eq(listed("n-", NULL, NULL), 20);
    for (int i = 0; i < 20; i++) {
        text = box_sh(all[i], NULL, "cat /var/me");
        ck_assert_int_eq(atoi(text), i); /* each has a root of its own */
        free(text);
        discard(all[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-sandbox");
    TCase *tc = sbtest_case("sandbox");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, sandbox_names_and_labels);
    tcase_add_test(tc, sandbox_inspect_reads_back);
    tcase_add_test(tc, sandbox_reopened_elsewhere);
    tcase_add_test(tc, sandbox_states);
    tcase_add_test(tc, sandbox_operation);
    tcase_add_test(tc, sandbox_twenty);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
