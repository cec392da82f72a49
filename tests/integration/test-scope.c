/* SPDX-License-Identifier: Apache-2.0
 * Where systemd owns the machine's groups: each sandbox in a scope that systemd made, with its limits, which ends with it; and what
 * happens when systemd gives none. The first part needs such a machine (scripts/guest.sh sets SBTEST_SCOPES), the second none. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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

/* …/libsandbox-ID.scope, and whether it is where systemd puts such things of this user. */
static void scope_path(char *scope, size_t size)
{
    char slice[128];

    ck_assert(box_cgroup(sandbox, scope, size));
    ck_assert_ptr_nonnull(strstr(scope, ".scope/box"));
    *strstr(scope, "/box") = 0;
    snprintf(slice, sizeof slice, geteuid() == 0 ? "/system.slice/libsandbox-" : "/user@%u.service/app.slice/libsandbox-", geteuid());
    ck_assert_ptr_nonnull(strstr(scope, slice));
}

static void check_file(const char *folder, const char *name, const char *text)
{
    char path[4400], *is;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    is = box_read(path);
    ck_assert_str_eq(is, text);
    free(is);
}

static int is_empty(const char *folder)
{
    char path[4400], *is;
    int empty;

    snprintf(path, sizeof path, "%s/cgroup.procs", folder);
    is = box_read(path);
    empty = !*is;
    free(is);
    return empty;
}

static void check_isolation(const char *what, const char *level)
{
    struct sandbox_info *info = NULL;
    json_t *json;

    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    json = json_loads(sandbox_info_get_json(info), 0, NULL);
    sandbox_info_unref(info);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(json_object_get(json, "isolation"), what), "level")), level);
    json_decref(json);
}

START_TEST(scope_each)
{
    struct sandbox_spec *spec = box_spec();
    char scope[4200], path[4300];

    if (!getenv("SBTEST_SCOPES")) {
        sandbox_spec_unref(spec);
        sbtest_skip("systemd gives this user no scopes here");
    }
    sbtest_ok(sandbox_spec_set_memory_max(spec, 64 << 20, &error), &error);
    sbtest_ok(sandbox_spec_set_pids_max(spec, 50, &error), &error);
    sbtest_ok(sandbox_spec_set_cpu_max(spec, 500, &error), &error);
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sleep", "1000"), &error), &error);
    sandbox = box_start(host, spec);
    scope_path(scope, sizeof scope);
    ck_assert(is_empty(scope)); /* its processes are in groups below */
    snprintf(path, sizeof path, "%s/box", scope);
    check_file(path, "memory.max", "67108864\n");
    check_file(path, "pids.max", "50\n");
    check_file(path, "cpu.max", "50000 100000\n");
    snprintf(path, sizeof path, "%s/box/daemon", scope);
    ck_assert(!is_empty(path));
    snprintf(path, sizeof path, "%s/host", scope); /* the keeper */
    ck_assert(!is_empty(path));
    check_isolation("memory", "enforced");
    check_isolation("pids", "enforced");
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 3"), 3);

    /* stopped: it is gone; started again: it is another of the same name */
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    ck_assert_int_ne(access(scope, F_OK), 0);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    ck_assert_int_eq(access(scope, F_OK), 0);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 3"), 3);
    sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
    ck_assert_int_ne(access(scope, F_OK), 0);
    sandbox_unref(sandbox);
    sandbox = NULL;
}
END_TEST

/* All the sandbox's processes at once, the deaf ones too, and not the keeper, who writes down how it ended. */
START_TEST(scope_killed)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();
    struct box_run run;
    char scope[4200];

    if (!getenv("SBTEST_SCOPES")) {
        sandbox_spec_unref(spec);
        sbtest_skip("systemd gives this user no scopes here");
    }
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"), &error), &error);
    sandbox = box_start(host, spec);
    scope_path(scope, sizeof scope);
    options.deadline_ms = 300;
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("sh", "-c", "trap '' TERM; setsid sleep 1000 & wait"));
    ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_DEADLINE);
    box_clear(&run);
    ck_assert_int_eq(box_code(sandbox, NULL, "test $(grep -lx sleep /proc/[0-9]*/comm | wc -l) -le 1"), 0);
}
END_TEST

/* A folder of agent programs in which sandbox-scope is something that never asks systemd. */
static void copy_program(const char *from, const char *folder, const char *name)
{
    char path[4096], *bytes = NULL;
    size_t size = 0;
    FILE *in = fopen(from, "re"), *out;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_ptr_nonnull(in);
    bytes = malloc(64 << 20);
    ck_assert_ptr_nonnull(bytes);
    size = fread(bytes, 1, 64 << 20, in);
    out = fopen(path, "we");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(bytes, 1, size, out), size);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_int_eq(chmod(path, 0755), 0);
    fclose(in);
    free(bytes);
}

/* Valid as long as the test. */
static struct sandbox_host_options options_with(const char *scope_program)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    static char folder[600];

    snprintf(folder, sizeof folder, "%s/programs", sbtest_dir());
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    copy_program(getenv("SBTEST_AGENT"), folder, "sandbox-agent");
    copy_program(getenv("SBTEST_UNPACK"), folder, "sandbox-unpack");
    copy_program(scope_program, folder, "sandbox-scope");
    options.state_root = box_root();
    options.agent_dir = folder;
    return options;
}

START_TEST(scope_refused)
{
    struct sandbox_host_options options = options_with("/bin/true");
    struct sandbox_spec *spec;
    struct sandbox_host *other = NULL;

    sbtest_ok(sandbox_host_open("local:", &options, 20000, &other, &error), &error);
    for (int round = 0; round < 2; round++) { /* asked in vain; not asked any more */
        sandbox = box_start(other, NULL);
        ck_assert_int_eq(box_code(sandbox, NULL, "exit 3"), 3);
        if (getenv("SBTEST_SCOPES")) {
            char path[4200];

            ck_assert(!box_cgroup(sandbox, path, sizeof path));
            check_isolation("pids", "wrapped");
            check_isolation("memory", "impossible");
        }
        sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
        sandbox_unref(sandbox);
        sandbox = NULL;
    }
    other = sandbox_host_unref(other);
    sbtest_ok(sandbox_host_open("local:", &options, 20000, &other, &error), &error);
    for (int round = 0; round < 2 && getenv("SBTEST_SCOPES"); round++) {
        spec = box_spec();
        sbtest_ok(sandbox_spec_set_memory_max(spec, 64 << 20, &error), &error);
        ck_assert_int_eq(sandbox_create(other, spec, 20000, &sandbox, &error), SANDBOX_EUNSUPPORTED);
        ck_assert_ptr_nonnull(sandbox_error_get_hint(error));
        error = sandbox_error_unref(error);
        sandbox_spec_unref(spec);
    }
    sandbox_host_unref(other);
}
END_TEST

/* A machine of systemd's, as far as the library looks: in the test's own mount namespace, and but for who answers on the bus. */
static const char *const covered[] = { "/proc/1/cgroup", "/sys/fs/cgroup", "/run" };

static void look_like_systemd(void)
{
    int claims = open("/run/libsandbox", O_PATH | O_DIRECTORY | O_CLOEXEC); /* stays what it is: ids are claimed there */
    struct sockaddr_un bus = { .sun_family = AF_UNIX, .sun_path = "/run/dbus/system_bus_socket" };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char path[600], claims_path[64];

    ck_assert_int_ge(claims, 0);
    box_write(sbtest_dir(), "group", "0::/init.scope\n");
    snprintf(path, sizeof path, "%s/group", sbtest_dir());
    ck_assert_int_eq(mount(path, covered[0], NULL, MS_BIND, NULL), 0);
    ck_assert_int_eq(mount("none", covered[1], "tmpfs", 0, "mode=755,size=64k"), 0);
    box_write(covered[1], "cgroup.controllers", "cpu memory pids\n");
    ck_assert_int_eq(mount("none", covered[2], "tmpfs", 0, "mode=755,size=64k"), 0);
    ck_assert(!mkdir("/run/libsandbox", 0700) && !mkdir("/run/dbus", 0755) && !mkdir("/run/systemd", 0755) && !mkdir("/run/systemd/system", 0755));
    snprintf(claims_path, sizeof claims_path, "/proc/self/fd/%d", claims);
    ck_assert_int_eq(mount(claims_path, "/run/libsandbox", NULL, MS_BIND, NULL), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&bus, sizeof bus), 0);
    close(fd);
    close(claims);
}

static void look_as_before(void)
{
    ck_assert_int_eq(umount("/run/libsandbox"), 0);
    for (size_t i = 0; i < sizeof covered / sizeof *covered; i++)
        ck_assert_int_eq(umount(covered[i]), 0);
}

/* systemd hangs: whoever begins creates doesn't hang with it. Those that are cancelled end at once, the others go on without a scope when their time is
 * over. */
START_TEST(scope_stalls)
{
    enum { STALLED = 20, CANCELLED = 18 };
    struct sandbox_host_options options;
    struct sandbox_spec *spec = box_spec();
    struct sandbox_op *ops[STALLED];
    struct sandbox_host *other = NULL;
    char stall[600];
    long begun;

    if (geteuid() != 0 || getenv("SBTEST_SCOPES")) {
        sandbox_spec_unref(spec);
        sbtest_skip("only root, where there is no systemd, can make it look as if there were");
    }
    snprintf(stall, sizeof stall, "%s/stall", getenv("SBTEST_GUESTS"));
    options = options_with(stall);
    look_like_systemd();
    sbtest_ok(sandbox_host_open("local:", &options, 20000, &other, &error), &error);
    begun = box_now();
    for (int i = 0; i < STALLED; i++)
        sbtest_ok(sandbox_create_begin(other, spec, &ops[i], &error), &error);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(9000)); /* one alone would wait for ten seconds */
    for (int i = 0; i < CANCELLED; i++) {
        sandbox_op_cancel(ops[i]);
        sbtest_fails(sandbox_op_wait(ops[i], sbtest_slowly(9000), &error), SANDBOX_ECANCELLED, &error);
        sandbox_op_unref(ops[i]);
    }
    for (int i = CANCELLED; i < STALLED; i++) {
        sbtest_ok(sandbox_op_wait(ops[i], sbtest_slowly(30000), &error), &error);
        sbtest_ok(sandbox_op_take_sandbox(ops[i], &sandbox, &error), &error);
        sandbox_op_unref(ops[i]);
        check_isolation("memory", "impossible");
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
        ck_assert_int_eq(box_code(sandbox, NULL, "exit 3"), 3);
        sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
        sandbox = sandbox_unref(sandbox);
    }
    sandbox_host_unref(other);
    sandbox_spec_unref(spec);
    look_as_before();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-scope");
    TCase *tc = sbtest_case("scope");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, scope_each);
    tcase_add_test(tc, scope_killed);
    tcase_add_test(tc, scope_refused);
    tcase_add_test(tc, scope_stalls);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
