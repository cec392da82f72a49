/* SPDX-License-Identifier: Apache-2.0
 * The watch itself is tested: this program runs itself with a suite that leaks one thing of each kind, and each must be
 * reported as a failure that names it; a suite that leaks nothing, but works with all of them, must pass. */
#include "sbtest.h"

#include <fcntl.h>
#include <sandbox.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int mounts_work(void)
{
    return mount("none", sbtest_dir(), "tmpfs", 0, "size=4096") == 0 && umount(sbtest_dir()) == 0;
}

/* ---- planted: each of these leaks ---- */

START_TEST(plant_descriptor)
{
    ck_assert_int_ge(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
}
END_TEST

START_TEST(plant_zombie)
{
    pid_t pid = fork();
    siginfo_t info;

    if (pid == 0)
        _exit(0);
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}
END_TEST

START_TEST(plant_process)
{
    if (fork() == 0) {
        setsid();
        pause();
    }
}
END_TEST

START_TEST(plant_orphan)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (fork() == 0) {
            setsid();
            pause();
        }
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

START_TEST(plant_mount)
{
    char at[300];

    snprintf(at, sizeof at, "%s/planted", getenv("SBTEST_PLANT_DIR"));
    ck_assert_int_eq(mkdir(at, 0700), 0);
    ck_assert_int_eq(mount("none", at, "tmpfs", 0, "size=4096"), 0);
}
END_TEST

START_TEST(plant_cgroup)
{
    char at[300];

    snprintf(at, sizeof at, "%s/group", getenv("SBTEST_CGROUP"));
    ck_assert_int_eq(mkdir(at, 0700), 0);
}
END_TEST

START_TEST(plant_skip)
{
    sbtest_skip("for a reason that nobody listed");
}
END_TEST

START_TEST(plant_listed_skip)
{
    sbtest_skip("listed");
}
END_TEST

START_TEST(plant_nothing)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    close(fd);
}
END_TEST

static int plant(const char *name)
{
    const struct {
        const char *name;
        const TTest *test;
    } plants[] = {
        { "descriptor", plant_descriptor }, { "zombie", plant_zombie }, { "process", plant_process },
        { "orphan", plant_orphan }, { "mount", plant_mount }, { "cgroup", plant_cgroup },
        { "skip", plant_skip }, { "listed_skip", plant_listed_skip }, { "nothing", plant_nothing },
    };
    Suite *suite = suite_create("planted");
    TCase *tc = sbtest_case("planted");

    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++)
        if (!strcmp(plants[i].name, name))
            tcase_add_test(tc, plants[i].test);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}

/* ---- the tests of them ---- */

/* Runs this program with one planted test and returns its exit status; its output goes to `text`. */
static int run_planted(const char *name, char *text, size_t size)
{
    int out[2], status;
    size_t have = 0;
    ssize_t n;
    pid_t pid;

    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        dup2(out[1], 1);
        setenv("CK_VERBOSITY", "normal", 1);
        setenv("SBTEST_PLANT_DIR", sbtest_dir(), 1);
        execl("/proc/self/exe", "test-sbtest", "plant", name, NULL);
        _exit(99);
    }
    close(out[1]);
    while (have < size - 1 && (n = read(out[0], text + have, size - 1 - have)) > 0)
        have += (size_t)n;
    text[have] = 0;
    close(out[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void caught(const char *name, const char *words)
{
    char text[8192];
    int status = run_planted(name, text, sizeof text);

    ck_assert_msg(status == 1, "status %d: %s", status, text);
    ck_assert_msg(strstr(text, words) != NULL, "\"%s\" is not in: %s", words, text);
    ck_assert_msg(strstr(text, "0%: Checks: 1, Failures: 1, Errors: 0") != NULL, "%s", text);
}

START_TEST(descriptor_is_caught)
{
    caught("descriptor", "-> /dev/null");
}
END_TEST

START_TEST(zombie_is_caught)
{
    caught("zombie", "leaked: zombie ");
}
END_TEST

START_TEST(process_is_caught)
{
    caught("process", "leaked: process ");
}
END_TEST

START_TEST(orphan_is_caught)
{
    caught("orphan", "leaked: process ");
}
END_TEST

START_TEST(mount_is_caught)
{
    if (!mounts_work())
        sbtest_skip("no permission to mount");
    sbtest_dir();
    caught("mount", "/planted");
}
END_TEST

START_TEST(cgroup_is_caught)
{
    char at[300];

    snprintf(at, sizeof at, "%s/watched", sbtest_dir());
    ck_assert_int_eq(mkdir(at, 0700), 0);
    setenv("SBTEST_CGROUP", at, 1);
    caught("cgroup", "leaked: cgroup ");
    unsetenv("SBTEST_CGROUP");
}
END_TEST

START_TEST(unlisted_skip_is_a_failure)
{
    caught("skip", "tests/skips has no line \"plant_skip: for a reason that nobody listed\"");
}
END_TEST

START_TEST(listed_skip_is_told)
{
    char text[8192], path[300];
    FILE *file;
    int status;

    snprintf(path, sizeof path, "%s/skips", sbtest_dir());
    file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fputs("another: listed\nplant_listed_skip: listed\n", file);
    fclose(file);
    setenv("SBTEST_SKIPS", path, 1);
    status = run_planted("listed_skip", text, sizeof text);
    ck_assert_msg(status == 77, "status %d: %s", status, text);
    ck_assert_ptr_nonnull(strstr(text, "SKIP plant_listed_skip: listed"));
    ck_assert_ptr_nonnull(strstr(text, "skipped: 1"));
}
END_TEST

START_TEST(nothing_is_clean)
{
    char text[8192];
    int status = run_planted("nothing", text, sizeof text);

    ck_assert_msg(status == 0, "status %d: %s", status, text);
    ck_assert_ptr_nonnull(strstr(text, "100%: Checks: 1, Failures: 0, Errors: 0"));
}
END_TEST

START_TEST(an_empty_suite_is_a_failure)
{
    char text[8192];

    ck_assert_int_eq(run_planted("no such plant", text, sizeof text), 1);
}
END_TEST

int main(int argc, char *argv[])
{
    Suite *suite;
    TCase *tc;

    if (argc == 3 && !strcmp(argv[1], "plant"))
        return plant(argv[2]);
    suite = suite_create("sbtest");
    tc = sbtest_case("leaks");
    tcase_add_test(tc, descriptor_is_caught);
    tcase_add_test(tc, zombie_is_caught);
    tcase_add_test(tc, process_is_caught);
    tcase_add_test(tc, orphan_is_caught);
    tcase_add_test(tc, mount_is_caught);
    tcase_add_test(tc, cgroup_is_caught);
    tcase_add_test(tc, nothing_is_clean);
    suite_add_tcase(suite, tc);
    tc = sbtest_case("skips");
    tcase_add_test(tc, unlisted_skip_is_a_failure);
    tcase_add_test(tc, listed_skip_is_told);
    tcase_add_test(tc, an_empty_suite_is_a_failure);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
