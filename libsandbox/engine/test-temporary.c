/* SPDX-License-Identifier: Apache-2.0
 * Names for files that will replace others: what was left over goes, what somebody is at work on stays, and what others put there harms nobody. */
#include <sbtest.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <util.h>

#include "temporary.h"

enum { PLACES = 16 };

static int dir = -1;

static void set_up(void)
{
    dir = open(sbtest_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(dir, 0);
}

static void tear_down(void)
{
    dir = sb_close(dir);
}

static int count(void)
{
    DIR *stream = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *d;
    int n = 0;

    while ((d = readdir(stream)))
        n += !strncmp(d->d_name, ".sandbox-", 9);
    closedir(stream);
    return n;
}

START_TEST(what_nobody_holds_goes)
{
    char name[3][SB_TEMPORARY_SIZE];
    int first = sb_temporary_make(dir, "target", name[0]), second = sb_temporary_make(dir, "target", name[1]), nameless;

    ck_assert_int_ge(first, 0);
    ck_assert_int_ge(second, 0);
    ck_assert_str_ne(name[0], name[1]);
    ck_assert_int_eq(count(), 2);
    close(first); /* as if its process had died */
    nameless = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_eq(sb_temporary_link(dir, "target", nameless, name[2]), 0);
    ck_assert_str_eq(name[2], name[0]);
    ck_assert_int_eq(count(), 2);
    ck_assert_int_eq(flock(second, LOCK_EX | LOCK_NB), 0); /* still its own */
    close(second);
    close(nameless);
    first = sb_temporary_make(dir, "target", name[0]);
    ck_assert_str_eq(name[2], name[0]);
    close(first);
}
END_TEST

/* Whatever stands in its places is passed over, and not followed, opened for ever or removed. */
START_TEST(what_others_put_there_stays)
{
    char name[SB_TEMPORARY_SIZE], last[SB_TEMPORARY_SIZE];
    int fds[PLACES], held;

    for (int i = 0; i < PLACES; i++) {
        fds[i] = sb_temporary_make(dir, "target", name);
        ck_assert_int_ge(fds[i], 0);
        ck_assert_int_eq(unlinkat(dir, name, 0), 0);
        switch (i % 3) {
        case 0:
            ck_assert_int_eq(symlinkat("nowhere", dir, name), 0);
            break;
        case 1:
            ck_assert_int_eq(mkfifoat(dir, name, 0600), 0);
            break;
        default:
            ck_assert_int_eq(mkdirat(dir, name, 0700), 0);
        }
    }
    held = sb_temporary_make(dir, "target", last);
    ck_assert_int_ge(held, 0);
    ck_assert_int_eq(count(), PLACES + 1);
    ck_assert_int_eq(faccessat(dir, "nowhere", F_OK, 0), -1);
    close(held);
    for (int i = 0; i < PLACES; i++)
        close(fds[i]);
}
END_TEST

/* Many at once, for one target: none takes another's for left over, and nothing is left. */
START_TEST(many_replace_one_target)
{
    enum { WORKERS = 8, ROUNDS = 300 };
    int status;

    for (int i = 0; i < WORKERS; i++) {
        pid_t pid = fork();

        ck_assert_int_ge(pid, 0);
        for (int round = 0; pid == 0 && round < ROUNDS; round++) {
            char name[SB_TEMPORARY_SIZE];
            int file = i % 2 ? sb_temporary_make(dir, "target", name) : openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

            if (file < 0 || (i % 2 == 0 && sb_temporary_link(dir, "target", file, name)))
                _exit(1);
            if (renameat(dir, name, dir, "target") < 0)
                _exit(2);
            close(file);
        }
        if (pid == 0)
            _exit(0);
    }
    for (int i = 0; i < WORKERS; i++) {
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_int_eq(count(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("temporary");
    TCase *tests = sbtest_case("temporary");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_nobody_holds_goes);
    tcase_add_test(tests, what_others_put_there_stays);
    tcase_add_test(tests, many_replace_one_target);
    suite_add_tcase(suite, tests);
    return sbtest_main(suite);
}
