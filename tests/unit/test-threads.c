/* SPDX-License-Identifier: Apache-2.0
 * Many threads on the same handles. Its worth is in the build with ThreadSanitizer (scripts and .ci/deep run that). */
#include "fake.h"

#include <sbtest.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 6, ROUNDS = 30 };

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_spec *spec;
static atomic_int closed, failures;

static void begin(void)
{
    fake_reset();
    host = fake_host();
    sandbox = fake_sandbox(host);
    ck_assert_int_eq(sandbox_spec_new(&spec, NULL), 0);
    atomic_store(&closed, 0);
    atomic_store(&failures, 0);
}

static void end(void)
{
    spec = sandbox_spec_unref(spec);
    sandbox = sandbox_unref(sandbox);
    host = sandbox_host_unref(host);
    ck_assert_int_eq(atomic_load(&fake.driver_frees), 1);
    ck_assert_int_eq(atomic_load(&fake.overlaps), 0);
}

/* 0, or ECLOSED once somebody closed. */
static void expect(int r, struct sandbox_error *error)
{
    if (r != 0 && !(r == SANDBOX_ECLOSED && atomic_load(&closed)))
        atomic_fetch_add(&failures, 1);
    if (r != sandbox_error_get_code(error))
        atomic_fetch_add(&failures, 1);
    sandbox_error_unref(error);
}

static void one_create(void)
{
    struct sandbox_error *error = NULL;
    struct sandbox *made = NULL;
    int r = sandbox_create(host, spec, -1, &made, &error);

    sandbox_unref(made);
    expect(r, error);
}

static void one_inspect(void)
{
    struct sandbox_error *error = NULL;
    struct sandbox_info *info = NULL;
    struct sandbox *again = sandbox_ref(sandbox);
    int r = sandbox_inspect(again, &info, &error);

    if (!r && strcmp(sandbox_info_get_name(info), "box") != 0)
        atomic_fetch_add(&failures, 1);
    sandbox_info_unref(info);
    sandbox_unref(again);
    expect(r, error);
}

static void one_exec(void)
{
    static const char *const argv[] = { "/bin/echo", "x", NULL };
    struct sandbox_output output = SANDBOX_OUTPUT_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_exec *exec = NULL;
    int r = sandbox_exec(sandbox, argv, NULL, &exec, &error);

    if (!r)
        r = sandbox_exec_communicate(exec, NULL, &output, NULL, &error);
    if (!r && strcmp(output.out, "x\n") != 0)
        atomic_fetch_add(&failures, 1);
    sandbox_output_clear(&output);
    sandbox_exec_unref(exec);
    expect(r, error);
}

static void *work(void *argument)
{
    int number = *(int *)argument;

    for (int i = 0; i < ROUNDS; i++) {
        switch ((i + number) % 3) {
        case 0:
            one_create();
            break;
        case 1:
            one_inspect();
            break;
        default:
            one_exec();
        }
    }
    return NULL;
}

static void run(int close_amid)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];

    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
    }
    if (close_amid) {
        usleep(20000);
        atomic_store(&closed, 1);
        ck_assert_int_eq(sandbox_host_close(host, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(atomic_load(&failures), 0);
}

START_TEST(one_handle_serves_many)
{
    run(0);
}
END_TEST

START_TEST(a_close_amid_them)
{
    run(1);
}
END_TEST

struct shared {
    struct sandbox_exec *exec;
    struct sandbox_op *op;
    int kind;
};

static void *share(void *argument)
{
    struct shared *s = argument;
    struct sandbox_progress progress = SANDBOX_PROGRESS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_error *error = NULL;
    int fd = -1;

    switch (s->kind) {
    case 0:
        expect(sandbox_exec_wait(s->exec, -1, &result, &error), error);
        break;
    case 1:
        expect(sandbox_op_wait(s->op, -1, &error), error);
        break;
    case 2:
        for (int i = 0; i < 100; i++)
            if (sandbox_op_get_progress(s->op, &progress) || sandbox_op_get_fd(s->op) < 0 || sandbox_exec_get_fd(s->exec) < 0)
                atomic_fetch_add(&failures, 1);
        break;
    default:
        if (sandbox_exec_take_stdout(s->exec, &fd, NULL) == 0)
            close(fd);
        if (sandbox_exec_kill(s->exec, SIGTERM, 0, NULL))
            atomic_fetch_add(&failures, 1);
    }
    return NULL;
}

START_TEST(one_exec_and_one_operation_shared)
{
    static const char *const argv[] = { "/bin/sleep", "60", NULL };
    struct shared shared[8] = { { 0 } };
    struct sandbox_error *error = NULL;
    pthread_t threads[8];

    fake.steps = 5;
    sbtest_ok(sandbox_start_begin(sandbox, &shared[0].op, &error), &error);
    sbtest_ok(sandbox_exec(sandbox, argv, NULL, &shared[0].exec, &error), &error);
    for (int i = 0; i < 8; i++) {
        shared[i].op = shared[0].op;
        shared[i].exec = shared[0].exec;
        shared[i].kind = i % 4;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, share, &shared[i]), 0);
    }
    for (int i = 0; i < 5; i++)
        fake_tick();
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(atomic_load(&failures), 0);
    sandbox_op_unref(shared[0].op);
    sandbox_exec_unref(shared[0].exec);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api-threads");
    TCase *tc = sbtest_case("threads");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, one_handle_serves_many);
    tcase_add_test(tc, a_close_amid_them);
    tcase_add_test(tc, one_exec_and_one_operation_shared);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
