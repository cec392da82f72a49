/* SPDX-License-Identifier: Apache-2.0
 * Cases from the field about being a library: in a threaded program, in one with signal habits of its own, and about what an
 * error says. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    if (host)
        box_end(&host, NULL);
}

static void *allocate(void *stop)
{
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
        void *p = malloc(4096);

        setenv("SBTEST_NOISE", "x", 1);
        free(p);
    }
    return NULL;
}

static void *live(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++) {
        struct sandbox *sandbox = box_start(host, NULL);
        char *text = box_sh(sandbox, NULL, "echo in a thread");

        ck_assert_str_eq(text, "in a thread");
        free(text);
        sbtest_ok(sandbox_delete(sandbox, 20000, NULL), NULL);
        sandbox_unref(sandbox);
    }
    return NULL;
}

/* After a fork in a threaded program malloc and setenv may hang: so nothing of the library's may call them there. */
START_TEST(library_f70)
{
    pthread_t noise[3], work[4];
    int stop = 0;

    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&noise[i], NULL, allocate, &stop), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&work[i], NULL, live, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(work[i], NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(noise[i], NULL);
}
END_TEST

START_TEST(library_f70_forked)
{
    struct sandbox *sandbox = box_start(host, NULL), *other = NULL;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct sandbox_exec *exec = NULL;

        if (sandbox_exec(sandbox, BOX_ARGV("true"), NULL, &exec, NULL) != SANDBOX_EFORKED)
            _exit(1);
        if (sandbox_open(host, sandbox_get_id(sandbox), &other, NULL) != SANDBOX_EFORKED)
            _exit(2);
        if (sandbox_delete(sandbox, 1000, NULL) != SANDBOX_EFORKED)
            _exit(3);
        sandbox_unref(sandbox);
        sandbox_host_unref(host);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    free(box_sh(sandbox, NULL, "echo unharmed"));
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
}
END_TEST

static sig_atomic_t signals_seen;

static void count_signal(int signal)
{
    (void)signal;
    signals_seen++;
}

/* What belongs to the program stays as it was: handlers, umask, folder, mask, descriptors' flags. */
START_TEST(library_f71)
{
    struct sigaction mine = { .sa_handler = count_signal }, now[65];
    struct sandbox *sandbox;
    char before[4096], after[4096];
    sigset_t mask_before, mask_after;
    int flags, p[2];

    sigaction(SIGCHLD, &mine, NULL);
    umask(027);
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    sigprocmask(SIG_SETMASK, NULL, &mask_before);
    ck_assert_int_eq(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);
    flags = fcntl(p[1], F_GETFL);
    sandbox = box_start(host, NULL);
    {
        struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
        struct sandbox_exec *exec = NULL;

        options.stdout_fd = p[1];
        sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("echo", "x"), &options, &exec, &error), &error);
        sbtest_ok(sandbox_exec_wait(exec, sbtest_slowly(5000), NULL, &error), &error);
        sandbox_exec_unref(exec);
    }
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
    ck_assert_int_eq(fcntl(p[1], F_GETFL), flags);
    ck_assert_ptr_nonnull(getcwd(after, sizeof after));
    ck_assert_str_eq(before, after);
    ck_assert_int_eq(umask(022), 027);
    sigprocmask(SIG_SETMASK, NULL, &mask_after);
    for (int s = 1; s < 65; s++) {
        ck_assert_int_eq(sigismember(&mask_before, s), sigismember(&mask_after, s));
        if (s == SIGKILL || s == SIGSTOP || s == 32 || s == 33)
            continue;
        ck_assert_int_eq(sigaction(s, NULL, &now[s]), 0);
        if (s == SIGCHLD)
            ck_assert_ptr_eq((void *)now[s].sa_handler, (void *)count_signal);
    }
    close(p[0]);
    close(p[1]);
}
END_TEST

static void refused(int r, int code, const char *field)
{
    ck_assert_int_eq(r, code);
    ck_assert_ptr_nonnull(error);
    ck_assert_str_ne(sandbox_error_get_message(error), "");
    ck_assert_str_ne(sandbox_error_get_operation(error), "");
    if (field)
        ck_assert_str_eq(sandbox_error_get_field(error), field);
    ck_assert_ptr_null(strchr(sandbox_error_get_message(error), '\n'));
    error = sandbox_error_unref(error);
}

/* Every error says what was done, what is at fault and what to do. */
START_TEST(library_f74)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox *sandbox = NULL;
    struct sandbox_exec *exec = NULL;
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_host *other = NULL;

    refused(sandbox_host_open("nothing:", NULL, 1000, &other, &error), SANDBOX_EUNSUPPORTED, NULL);
    refused(sandbox_host_open("local:?colour=red", NULL, 1000, &other, &error), SANDBOX_EINVALID, NULL);
    refused(sandbox_spec_set_name(spec, "-x", &error), SANDBOX_EINVALID, "name");
    refused(sandbox_spec_set_memory_max(spec, 5, &error), SANDBOX_EINVALID, NULL);
    refused(sandbox_open(host, "nonsense", &sandbox, &error), SANDBOX_EINVALID, NULL);
    sbtest_ok(sandbox_spec_set_image(spec, "no-such-image", &error), &error);
    refused(sandbox_create(host, spec, 10000, &sandbox, &error), SANDBOX_ENOTFOUND, NULL);
    sandbox_spec_unref(spec);
    sandbox = box_start(host, NULL);
    refused(sandbox_exec(sandbox, BOX_ARGV("no-such-command"), NULL, &exec, &error), SANDBOX_ENOTFOUND, "argv");
    refused(sandbox_exec(sandbox, BOX_ARGV("/no/such/command"), NULL, &exec, &error), SANDBOX_ENOTFOUND, "argv");
    refused(sandbox_exec(sandbox, BOX_ARGV("/etc/passwd"), NULL, &exec, &error), SANDBOX_ENOTEXECUTABLE, NULL);
    refused(sandbox_exec(sandbox, BOX_ARGV("/tmp"), NULL, &exec, &error), SANDBOX_ENOTEXECUTABLE, NULL);
    options.workdir = "/no/such/folder";
    refused(sandbox_exec(sandbox, BOX_ARGV("true"), &options, &exec, &error), SANDBOX_ENOTFOUND, "workdir");
    options.workdir = NULL;
    options.user = "nobody-of-this-name";
    refused(sandbox_exec(sandbox, BOX_ARGV("true"), &options, &exec, &error), SANDBOX_ENOTFOUND, "user");
    options.user = "4000000";
    refused(sandbox_exec(sandbox, BOX_ARGV("true"), &options, &exec, &error), SANDBOX_EUNSUPPORTED, "user");
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
}
END_TEST

/* D09: programs with habits of their own. */
static void cycle(void)
{
    struct sandbox *sandbox = box_start(host, NULL);
    char *text = box_sh(sandbox, NULL, "exit 0 & wait; echo fine");

    ck_assert_str_eq(text, "fine");
    free(text);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 42"), 42);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
}

START_TEST(library_d09_ignored)
{
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 3; i++)
        cycle();
    signal(SIGCHLD, SIG_DFL);
}
END_TEST

static void *wait_for_all(void *stop)
{
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
        if (waitpid(-1, NULL, WNOHANG | __WALL) <= 0)
            usleep(100);
    return NULL;
}

START_TEST(library_d09_waiter)
{
    pthread_t waiter;
    int stop = 0;

    ck_assert_int_eq(pthread_create(&waiter, NULL, wait_for_all, &stop), 0);
    for (int i = 0; i < 10; i++)
        cycle();
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(waiter, NULL);
}
END_TEST

static void *idle(void *arg)
{
    (void)arg;
    pause();
    return NULL;
}

START_TEST(library_d09_threads)
{
    pthread_attr_t small;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int i = 0; i < 200; i++) {
        pthread_t t;

        ck_assert_int_eq(pthread_create(&t, &small, idle, NULL), 0);
    }
    cycle();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("field-library");
    TCase *tc = sbtest_case("library");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, library_f70);
    tcase_add_test(tc, library_f70_forked);
    tcase_add_test(tc, library_f71);
    tcase_add_test(tc, library_f74);
    tcase_add_test(tc, library_d09_ignored);
    tcase_add_test(tc, library_d09_waiter);
    tcase_add_test(tc, library_d09_threads);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
