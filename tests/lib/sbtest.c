/* SPDX-License-Identifier: Apache-2.0
 * See sbtest.h. */
#include "sbtest.h"

#include "leaks.h"

#include <errno.h>
#include <ftw.h>
#include <sandbox.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SETTLE_MS = 1000 };

static pid_t runner;               /* 0 where tests run in the runner itself (CK_FORK=no) */
static atomic_int *skipped;        /* shared with the processes of the tests */
static struct leaks_snapshot start;
static char dir[256];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

const char *sbtest_dir(void)
{
    const char *base = getenv("TMPDIR");

    if (dir[0])
        return dir;
    snprintf(dir, sizeof dir, "%s/sbtest-XXXXXX", base && base[0] == '/' ? base : "/tmp");
    if (!mkdtemp(dir))
        ck_abort_msg("%s: %s", dir, strerror(errno));
    return dir;
}

static void watch_begin(void)
{
    /* not permitted in some containers: the test then sees the machine's mounts, and its leaks among them */
    if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
        mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL);
    dir[0] = 0;
    leaks_take(&start, getppid() == runner ? runner : 0);
}

static void watch_end(void)
{
    /* the kernel ends processes and takes mounts away after the call that caused it; descriptors and zombies are ours alone */
    const unsigned int at_once = 1u << LEAKS_DESCRIPTOR | 1u << LEAKS_ZOMBIE, all = (1u << LEAKS_KINDS) - 1;
    struct leaks_snapshot now;
    char text[2000];

    if (dir[0] && nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0)
        ck_abort_msg("leaked: the test's folder can't be removed: %s", strerror(errno));
    for (int waited = 0;; waited += 10) {
        size_t found, final;

        leaks_take(&now, getppid() == runner ? runner : 0);
        final = leaks_compare(&start, &now, at_once, text, sizeof text);
        found = leaks_compare(&start, &now, all, text, sizeof text);
        leaks_clear(&now);
        if (!found)
            break;
        if (final || waited >= SETTLE_MS)
            ck_abort_msg("leaked: %s", text);
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    leaks_clear(&start);
}

TCase *sbtest_case(const char *name)
{
    const char *slow = getenv("SBTEST_SLOW");
    TCase *tc;

    if (slow) /* check looks when a bound is set, not when it runs */
        setenv("CK_TIMEOUT_MULTIPLIER", slow, 1);
    tc = tcase_create(name);
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, watch_begin, watch_end);
    return tc;
}

/* The line "test: reason" in tests/skips. */
static int skip_allowed(const char *test, const char *reason)
{
    const char *path = getenv("SBTEST_SKIPS");
    FILE *file = fopen(path ? path : SBTEST_SKIPS_FILE, "re");
    char *line = NULL, wanted[1024];
    size_t size = 0;
    int found = 0;

    snprintf(wanted, sizeof wanted, "%s: %s", test, reason);
    while (file && !found && getline(&line, &size, file) > 0) {
        line[strcspn(line, "\n")] = 0;
        found = !strcmp(line, wanted);
    }
    free(line);
    if (file)
        fclose(file);
    return found;
}

void sbtest_skipped(const char *function, const char *reason)
{
    char test[256];
    size_t n;

    snprintf(test, sizeof test, "%s", function);
    n = strlen(test);
    if (n > 3 && !strcmp(test + n - 3, "_fn")) /* what START_TEST makes of the name */
        test[n - 3] = 0;
    if (!skip_allowed(test, reason))
        ck_abort_msg("skipped, and tests/skips has no line \"%s: %s\"", test, reason);
    printf("SKIP %s: %s\n", test, reason);
    fflush(stdout);
    atomic_fetch_add(skipped, 1);
}

void sbtest_expect(const char *file, int line, int result, int expected, struct sandbox_error **error)
{
    struct sandbox_error *e = error ? *error : NULL;

    if (result != expected || (error && (expected ? !e || sandbox_error_get_code(e) != expected : !!e)))
        _ck_assert_failed(file, line, "unexpected result", "got %s (%d), expected %s: %s: %s [%s, field \"%s\", hint \"%s\"]",
                          sandbox_code_name(result), result, sandbox_code_name(expected), sandbox_error_get_operation(e),
                          e ? sandbox_error_get_message(e) : "no error object", sandbox_error_get_backend(e),
                          sandbox_error_get_field(e), sandbox_error_get_hint(e));
    if (error)
        *error = sandbox_error_unref(e);
}

/* Ends what tests left behind and the runner adopted; each was reported by its test. */
static void kill_adopted(void)
{
    char path[64], *line = NULL;
    size_t size = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    file = fopen(path, "re");
    if (file && getline(&line, &size, file) > 0)
        for (char *p = line; *p;) {
            long pid = strtol(p, &p, 10);

            if (pid <= 0)
                break;
            kill((pid_t)pid, SIGKILL);
            p += strspn(p, " \n");
        }
    free(line);
    if (file)
        fclose(file);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

long sbtest_slowly(long ms)
{
    const char *slow = getenv("SBTEST_SLOW");

    return slow ? ms * atol(slow) : ms;
}

int sbtest_main(Suite *suite)
{
    SRunner *sr = srunner_create(suite);
    int failed, ran, n_skipped;

    skipped = mmap(NULL, sizeof *skipped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (skipped == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    if (srunner_fork_status(sr) == CK_FORK) {
        runner = getpid();
        if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
            perror("what outlives its parent can't be watched: PR_SET_CHILD_SUBREAPER");
    }
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    ran = srunner_ntests_run(sr);
    n_skipped = atomic_load(skipped);
    if (n_skipped)
        printf("skipped: %d\n", n_skipped);
    srunner_free(sr);
    munmap(skipped, sizeof *skipped);
    if (runner)
        kill_adopted();
    if (failed || !ran) /* nothing run is no success */
        return 1;
    return n_skipped == ran ? 77 : 0;
}
