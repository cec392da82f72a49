/* SPDX-License-Identifier: Apache-2.0
 * doctor on this machine, as who runs this: the same features for everybody, levels that are what creates say, too, and nothing left. */
#include "box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sandbox_error *error;

static struct sandbox_report *examine(struct sandbox_host *host)
{
    struct sandbox_report *report = NULL;

    sbtest_ok(sandbox_host_doctor(host, 60000, &report, &error), &error);
    return report;
}

static size_t find(const struct sandbox_report *report, const char *feature)
{
    size_t at = SIZE_MAX;

    for (size_t i = 0; i < sandbox_report_get_count(report); i++)
        if (!strcmp(sandbox_report_get_feature(report, i), feature)) {
            ck_assert_uint_eq(at, SIZE_MAX); /* once */
            at = i;
        }
    if (at == SIZE_MAX)
        ck_abort_msg("the report says nothing of %s: %s", feature, sandbox_report_get_json(report));
    return at;
}

static int level(const struct sandbox_report *report, const char *feature)
{
    return sandbox_report_get_level(report, find(report, feature));
}

/* What is not enforced says why, and what to do; what is has nothing to say. */
static void check_words(const struct sandbox_report *report)
{
    for (size_t i = 0; i < sandbox_report_get_count(report); i++) {
        int well = sandbox_report_get_level(report, i) == SANDBOX_LEVEL_ENFORCED;

        ck_assert_str_ne(sandbox_report_get_probe(report, i), "");
        if (well == (*sandbox_report_get_cause(report, i) != 0) || well == (*sandbox_report_get_remedy(report, i) != 0))
            ck_abort_msg("%s: cause or remedy is not what its level wants: %s", sandbox_report_get_feature(report, i),
                         sandbox_report_get_json(report));
    }
}

START_TEST(doctor_reports)
{
    static const char *const always[] = { "user_namespace", "capabilities", "seccomp", "mounts",    "overlay",
                                          "network",        "openat2",      "pidfd",   "mount_api", "memfd_exec" };
    struct sandbox_host *host = box_host();
    struct sandbox_report *report = examine(host);
    struct sandbox_spec *spec = box_spec();
    struct sandbox *sandbox = NULL;
    int r, root = box_privilege() == BOX_ROOT;

    check_words(report);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        ck_assert_int_eq(level(report, always[i]), SANDBOX_LEVEL_ENFORCED);
    ck_assert_int_eq(level(report, "id_range"), root ? SANDBOX_LEVEL_ENFORCED : SANDBOX_LEVEL_WRAPPED);
    ck_assert_int_eq(level(report, "id_mapped_mounts"), root ? SANDBOX_LEVEL_ENFORCED : SANDBOX_LEVEL_WRAPPED);
    find(report, "cgroup");
    find(report, "cgroup_kill");
    find(report, "state_root");
    find(report, "state_space");
    find(report, "fuse");
    ck_assert_int_ne(level(report, "pids"), SANDBOX_LEVEL_IMPOSSIBLE);
    /* as it says, so it is */
    sbtest_ok(sandbox_spec_set_memory_max(spec, 64 << 20, &error), &error);
    r = sandbox_create(host, spec, 10000, &sandbox, &error);
    ck_assert_int_eq(r, level(report, "memory") == SANDBOX_LEVEL_ENFORCED ? 0 : SANDBOX_EUNSUPPORTED);
    if (r)
        ck_assert_str_eq(sandbox_error_get_message(error), sandbox_report_get_cause(report, find(report, "memory")));
    error = sandbox_error_unref(error);
    sandbox_spec_unref(spec);
    sandbox_report_unref(report);
    box_end(&host, &sandbox);
}
END_TEST

static size_t count(struct sandbox_host *host)
{
    struct sandbox_list *list = NULL;
    size_t n;

    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    n = sandbox_list_get_count(list);
    sandbox_list_unref(list);
    return n;
}

/* Cancelled after so many steps, or out of time: no sandbox of it stays. */
START_TEST(doctor_cancelled)
{
    struct sandbox_host *host = box_host();
    struct sandbox_report *report = NULL;
    struct sandbox_op *op = NULL;
    int r = SANDBOX_ETIMEDOUT;

    sbtest_ok(sandbox_host_doctor_begin(host, &op, &error), &error);
    for (int i = 0; i < _i * 7 && r == SANDBOX_ETIMEDOUT; i++) {
        r = sandbox_op_wait(op, 0, &error);
        error = sandbox_error_unref(error);
        usleep(3000);
    }
    ck_assert_int_eq(sandbox_op_cancel(op), 0);
    r = sandbox_op_wait(op, 30000, &error);
    ck_assert(r == SANDBOX_ECANCELLED || r == 0);
    error = sandbox_error_unref(error);
    sandbox_op_unref(op);
    ck_assert_uint_eq(count(host), 0);
    r = sandbox_host_doctor(host, _i * 40, &report, &error);
    ck_assert(r == SANDBOX_ETIMEDOUT || r == 0);
    error = sandbox_error_unref(error);
    sandbox_report_unref(report);
    ck_assert_uint_eq(count(host), 0);
    box_end(&host, NULL);
}
END_TEST

/* A state root where no sandbox can live: that is found out, and the rest of the report comes all the same. */
START_TEST(doctor_finds_faults)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_host *host = NULL;
    struct sandbox_report *report;
    char folder[600], path[700], layers[2400];

    if (geteuid() != 0)
        sbtest_skip("only root can mount an overlay to stand on");
    snprintf(folder, sizeof folder, "%s/o", sbtest_dir());
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    ck_assert_int_eq(mount("small", folder, "tmpfs", 0, "size=64m,mode=0700"), 0);
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, ((const char *const[]){ "low", "up", "work", "root" })[i]);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    snprintf(layers, sizeof layers, "lowerdir=%s/low,upperdir=%s/up,workdir=%s/work", folder, folder, folder);
    ck_assert_int_eq(mount("o", path, "overlay", 0, layers), 0);
    options.state_root = path;
    sbtest_ok(sandbox_host_open("local:", &options, 10000, &host, &error), &error);
    report = examine(host);
    check_words(report);
    ck_assert_int_eq(level(report, "state_root"), SANDBOX_LEVEL_IMPOSSIBLE);
    ck_assert_int_eq(level(report, "state_space"), SANDBOX_LEVEL_ADVISORY);
    ck_assert_int_eq(level(report, "sandbox"), SANDBOX_LEVEL_IMPOSSIBLE);
    ck_assert_int_eq(level(report, "openat2"), SANDBOX_LEVEL_ENFORCED);
    ck_assert_ptr_nonnull(strstr(sandbox_report_get_remedy(report, find(report, "sandbox")), "ext4"));
    sandbox_report_unref(report);
    sandbox_host_unref(host);
    ck_assert_int_eq(umount2(path, 0), 0);
    ck_assert_int_eq(umount2(folder, 0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-doctor");
    TCase *tc = sbtest_case("doctor");

    tcase_set_timeout(tc, 90);
    tcase_add_test(tc, doctor_reports);
    tcase_add_loop_test(tc, doctor_cancelled, 0, 8);
    tcase_add_test(tc, doctor_finds_faults);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
