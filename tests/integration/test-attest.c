/* SPDX-License-Identifier: Apache-2.0
 * What a command was when it began, as the library tells it, beside what the command itself sees. */
#include "box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static struct sandbox_exec *begin(const char *user)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;

    options.user = user;
    options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sleep", "1000"), &options, &exec, &error), &error);
    return exec;
}

static struct sandbox_attestation look(const struct sandbox_exec *exec)
{
    struct sandbox_attestation a = SANDBOX_ATTESTATION_INIT;

    sbtest_ok(sandbox_exec_get_attestation(exec, &a, &error), &error);
    return a;
}

static void end(struct sandbox_exec *exec)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;

    sbtest_ok(sandbox_exec_kill(exec, 9, 0, &error), &error);
    sbtest_ok(sandbox_exec_wait(exec, 10000, &result, &error), &error);
    sandbox_exec_unref(exec);
}

/* No capabilities in any set, no_new_privs, a filter, the ids that were asked for, and the sandbox's user namespace. */
START_TEST(attest_command)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox_attestation a;
    struct sandbox_exec *exec;
    struct stat own;
    char *text;

    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("sleep", "1000"), &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error); /* the daemon's alone */
    sandbox = box_start(host, spec);
    exec = begin(box_user());
    a = look(exec);
    ck_assert_int_eq(a.uid, box_user() ? 1500 : 0);
    ck_assert_int_eq(a.gid, box_user() ? 1500 : 0);
    if (box_privilege() != BOX_SINGLE)
        ck_assert_int_eq(a.groups, 0);
    ck_assert_int_eq(a.no_new_privs, 1);
    ck_assert_int_eq(a.seccomp, 2);
    ck_assert_uint_eq(a.cap_effective | a.cap_permitted | a.cap_inheritable | a.cap_bounding | a.cap_ambient, 0);
    ck_assert_int_eq(stat("/proc/self/ns/user", &own), 0);
    ck_assert_uint_ne(a.user_namespace, own.st_ino);
    text = box_sh(sandbox, NULL, "readlink /proc/self/ns/user | tr -dc 0-9");
    ck_assert_uint_eq(a.user_namespace, strtoull(text, NULL, 10));
    free(text);
    end(exec);
}
END_TEST

START_TEST(attest_by_id)
{
    struct sandbox_attestation a = SANDBOX_ATTESTATION_INIT, first;
    struct sandbox_exec *exec, *again = NULL;
    char id[SANDBOX_ID_LENGTH + 1];

    sandbox = box_start(host, NULL);
    exec = begin(NULL);
    first = look(exec);
    snprintf(id, sizeof id, "%s", sandbox_exec_get_id(exec));
    sbtest_ok(sandbox_exec_open(sandbox, id, &again, &error), &error);
    a = look(again);
    ck_assert_int_eq(memcmp(&a, &first, sizeof a), 0);
    sandbox_exec_unref(again);
    end(exec);
    sbtest_ok(sandbox_exec_open(sandbox, id, &again, &error), &error); /* its end is known, not what it was */
    sbtest_fails(sandbox_exec_get_attestation(again, &a, &error), SANDBOX_ENOTFOUND, &error);
    a.size = 4;
    sbtest_fails(sandbox_exec_get_attestation(again, &a, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_get_attestation(again, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_exec_get_attestation(NULL, &first, &error), SANDBOX_EINVALID, &error);
    sandbox_exec_unref(again);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-attest");
    TCase *tc = sbtest_case("attest");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, attest_command);
    tcase_add_test(tc, attest_by_id);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
