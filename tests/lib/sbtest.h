/* SPDX-License-Identifier: Apache-2.0
 * The test framework: check, with every test watched for leaks. A test runs in a process of its own; at its end that
 * process must hold the same descriptors, child processes (zombies are named as such), mounts and cgroups as at its start,
 * by identity and not by number. What a test starts and lets go of is adopted by the runner and counts while it lives.
 *
 * As root a test runs in a mount namespace of its own, whose mounts propagate to namespaces made below it and back, but
 * not to the machine: so a mount that escapes from a sandbox is seen here and harms nobody.
 * Cgroups are watched below the folders that the environment variable SBTEST_CGROUP names, separated by ':'. */
#ifndef SBTEST_H
#define SBTEST_H

#include <check.h>

/* A test case whose tests are watched, with a timeout of 30 s each. Fixtures that are added later run within the watch. */
TCase *sbtest_case(const char *name);
/* Runs a suite and returns main's exit status: 0, 1 when a test failed, 77 when every test was skipped. Consumes it. The environment
 * variable SBTEST_SLOW multiplies the tests' timeouts, for emulated machines. */
int sbtest_main(Suite *suite);

/* Leaves the test that calls it (not a helper of it). Allowed only when the file tests/skips has the line "test: reason",
 * else the test fails. */
#define sbtest_skip(reason)                                                                                                      \
    do {                                                                                                                         \
        sbtest_skipped(__func__, reason);                                                                                        \
        return;                                                                                                                  \
    } while (0)
void sbtest_skipped(const char *function, const char *reason);

/* A folder for this test, empty at first, removed at its end when it passed. */
const char *sbtest_dir(void);

/* Fails the test, with the library's own words, unless the result is what was expected; releases the error. */
#define sbtest_ok(result, error) sbtest_expect(__FILE__, __LINE__, result, 0, error)
#define sbtest_fails(result, code, error) sbtest_expect(__FILE__, __LINE__, result, code, error)
struct sandbox_error;
void sbtest_expect(const char *file, int line, int result, int expected, struct sandbox_error **error);

/* A test's own bound in time, longer by SBTEST_SLOW where the processor is emulated. */
long sbtest_slowly(long ms);

#endif
