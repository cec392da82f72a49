/* SPDX-License-Identifier: Apache-2.0
 * Hosts and sandboxes: opening, closing, forks, option structs, wrong arguments to every call. */
#include "fake.h"

#include <sbtest.h>

#include <fcntl.h>
#include <limits.h>
#include <options.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;

static void begin(void)
{
    fake_reset();
    host = fake_host();
    sandbox = fake_sandbox(host);
}

static void end(void)
{
    sandbox = sandbox_unref(sandbox);
    host = sandbox_host_unref(host);
    ck_assert_int_eq(atomic_load(&fake.driver_frees), 1);
}

/* The call fails with this code, and its error names this field. */
#define refused(call, code, field)                                                                                               \
    do {                                                                                                                         \
        struct sandbox_error *refusal = NULL;                                                                                    \
        ck_assert_int_eq(call, code);                                                                                            \
        ck_assert_ptr_nonnull(refusal);                                                                                            \
        ck_assert_int_eq(sandbox_error_get_code(refusal), code);                                                                   \
        ck_assert_str_eq(sandbox_error_get_field(refusal), field);                                                                 \
        ck_assert_str_ne(sandbox_error_get_operation(refusal), "");                                                                \
        ck_assert_str_ne(sandbox_error_get_message(refusal), "");                                                                  \
        refusal = sandbox_error_unref(refusal);                                                                                      \
    } while (0)

START_TEST(opens_by_uri)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_host *another = NULL;

    options.state_root = "/srv/state";
    sbtest_ok(sandbox_host_open("fake:a/b?c=d", &options, -1, &another, &error), &error);
    ck_assert_str_eq(fake.called, "open a/b?c=d /srv/state");
    ck_assert_str_eq(sandbox_host_get_uri(another), "fake:a/b?c=d");
    ck_assert_str_eq(sandbox_host_get_backend(another), "fake");
    sandbox_host_unref(another);
    ck_assert_int_eq(atomic_exchange(&fake.driver_frees, 0), 1);
}
END_TEST

START_TEST(refuses_bad_uris)
{
    static const char *const bad[] = { "", "fake", ":", ":x", "1fake:", "Fake:", "-fake:", "fa ke:", "/etc", "fake/:" };
    struct sandbox_host *none = NULL;
    SB_FREE char *huge = malloc(10000);

    for (size_t i = 0; i < SB_ELEMENTS(bad); i++)
        refused(sandbox_host_open(bad[i], NULL, -1, &none, &refusal), SANDBOX_EINVALID, "uri");
    refused(sandbox_host_open(NULL, NULL, -1, &none, &refusal), SANDBOX_EINVALID, "uri");
    memset(huge, 'x', 9999);
    huge[9999] = 0;
    memcpy(huge, "fake:", 5);
    refused(sandbox_host_open(huge, NULL, -1, &none, &refusal), SANDBOX_EINVALID, "uri");
    refused(sandbox_host_open("other:", NULL, -1, &none, &refusal), SANDBOX_EUNSUPPORTED, "uri");
    refused(sandbox_host_open("fakes:", NULL, -1, &none, &refusal), SANDBOX_EUNSUPPORTED, "uri");
    refused(sandbox_host_open("fake:", NULL, -2, &none, &refusal), SANDBOX_EINVALID, "timeout_ms");
    refused(sandbox_host_open("fake:", NULL, -1, NULL, &refusal), SANDBOX_EINVALID, "ret_host");
    refused(sandbox_host_open_begin("fake:", NULL, NULL, &refusal), SANDBOX_EINVALID, "ret_op");
    ck_assert_ptr_null(none);
}
END_TEST

START_TEST(refuses_bad_folders)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_host *none = NULL;

    options.state_root = "relative";
    refused(sandbox_host_open("fake:", &options, -1, &none, &refusal), SANDBOX_EINVALID, "state_root");
    options.state_root = "/srv/../etc";
    refused(sandbox_host_open("fake:", &options, -1, &none, &refusal), SANDBOX_EINVALID, "state_root");
    options.state_root = NULL;
    options.agent_dir = "";
    refused(sandbox_host_open("fake:", &options, -1, &none, &refusal), SANDBOX_EINVALID, "agent_dir");
}
END_TEST

START_TEST(a_closed_host_refuses_everything)
{
    struct sandbox_error *error = NULL;
    struct sandbox_spec *spec = NULL;
    struct sandbox_list *list = NULL;
    struct sandbox_info *info = NULL;
    struct sandbox *other = NULL;
    int fd = -1;

    ck_assert_int_eq(sandbox_spec_new(&spec, NULL), 0);
    sbtest_ok(sandbox_host_close(host, &error), &error);
    sbtest_ok(sandbox_host_close(host, &error), &error);
    refused(sandbox_create(host, spec, -1, &other, &refusal), SANDBOX_ECLOSED, "");
    refused(sandbox_open(host, FAKE_ID, &other, &refusal), SANDBOX_ECLOSED, "");
    refused(sandbox_start(sandbox, -1, &refusal), SANDBOX_ECLOSED, "");
    refused(sandbox_inspect(sandbox, &info, &refusal), SANDBOX_ECLOSED, "");
    refused(sandbox_host_list(host, NULL, &list, &refusal), SANDBOX_ECLOSED, "");
    refused(sandbox_dial(sandbox, 80, -1, &fd, &refusal), SANDBOX_ECLOSED, "");
    ck_assert_str_eq(sandbox_get_id(sandbox), FAKE_ID); /* what a handle knows it still tells */
    ck_assert_str_eq(sandbox_host_get_backend(host), "fake");
    sandbox_spec_unref(spec);
}
END_TEST

START_TEST(handles_keep_their_host)
{
    sandbox_host_ref(host);
    sandbox_host_unref(host);
    sandbox_ref(sandbox);
    ck_assert_ptr_null(sandbox_unref(sandbox));
    host = sandbox_host_unref(host);
    ck_assert_int_eq(atomic_load(&fake.driver_frees), 0);
    ck_assert_str_eq(sandbox_get_id(sandbox), FAKE_ID);
    ck_assert_ptr_null(sandbox_host_ref(NULL));
    ck_assert_ptr_null(sandbox_host_unref(NULL));
    ck_assert_ptr_null(sandbox_ref(NULL));
    ck_assert_ptr_null(sandbox_unref(NULL));
}
END_TEST

static void *dial_thread(void *result)
{
    int fd = -1;

    *(int *)result = sandbox_dial(sandbox, 80, -1, &fd, NULL);
    return NULL;
}

START_TEST(a_close_reaches_the_drivers_waits)
{
    pthread_t thread;
    int result = 1;

    fake.dial_waits = 1;
    ck_assert_int_eq(pthread_create(&thread, NULL, dial_thread, &result), 0);
    usleep(30000);
    ck_assert_int_eq(sandbox_host_close(host, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(result, SANDBOX_ECLOSED);
}
END_TEST

/* ---- forks ---- */

/* What the child does; 0 when all is right. Its memory is a copy, so nothing that it frees can hurt the parent. */
static int in_child(struct sandbox_op *op, struct sandbox_exec *exec, int replaced[])
{
    struct sandbox_error *error = NULL;
    struct sandbox_info *info = NULL;
    struct sandbox_host *other = NULL;
    struct sandbox_exec *none = NULL;
    const char *const argv[] = { "/bin/true", NULL };
    int fd = -1;

    if (sandbox_start(sandbox, -1, &error) != SANDBOX_EFORKED || sandbox_error_get_code(error) != SANDBOX_EFORKED ||
        strcmp(sandbox_error_get_operation(error), "start") != 0)
        return 1;
    error = sandbox_error_unref(error);
    if (sandbox_inspect(sandbox, &info, NULL) != SANDBOX_EFORKED || sandbox_exec(sandbox, argv, NULL, &none, NULL) != SANDBOX_EFORKED ||
        sandbox_host_close(host, NULL) != SANDBOX_EFORKED || sandbox_op_wait(op, -1, NULL) != SANDBOX_EFORKED ||
        sandbox_op_get_fd(op) != SANDBOX_EFORKED || sandbox_op_cancel(op) != SANDBOX_EFORKED ||
        sandbox_exec_wait(exec, -1, NULL, NULL) != SANDBOX_EFORKED || sandbox_exec_kill(exec, 9, 0, NULL) != SANDBOX_EFORKED ||
        sandbox_exec_get_fd(exec) != SANDBOX_EFORKED || sandbox_exec_take_stdout(exec, &fd, NULL) != SANDBOX_EFORKED)
        return 2;
    if (strcmp(sandbox_get_id(sandbox), FAKE_ID) != 0)
        return 3;
    /* a daemon closes all it inherited; the numbers get other meanings, and unref must not close those */
    for (int i = 3; i < 64; i++)
        dup2(replaced[0], i);
    sandbox_op_unref(op);
    sandbox_exec_unref(exec);
    sandbox_unref(sandbox);
    sandbox_host_unref(host);
    for (int i = 3; i < 64; i++)
        if (fcntl(i, F_GETFD) < 0)
            return 4;
    if (atomic_load(&fake.driver_frees) || atomic_load(&fake.exec_frees) || atomic_load(&fake.cancels))
        return 5;
    fake.steps = 0; /* a host of its own works */
    if (sandbox_host_open("fake:", NULL, -1, &other, NULL) != 0)
        return 6;
    sandbox_host_unref(other);
    return 0;
}

START_TEST(a_forked_child_is_refused_and_harms_nothing)
{
    static const char *const argv[] = { "/bin/cat", NULL };
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_exec *exec = NULL;
    struct sandbox_op *op = NULL;
    int status, null[1] = { open("/dev/null", O_RDONLY | O_CLOEXEC) }, fd = -1;
    pid_t pid;

    options.stdin_fd = SANDBOX_STDIO_PIPE;
    sbtest_ok(sandbox_exec(sandbox, argv, &options, &exec, &error), &error);
    fake.steps = 1;
    sbtest_ok(sandbox_start_begin(sandbox, &op, &error), &error);
    ck_assert_int_ge(sandbox_op_get_fd(op), 0);
    pid = fork();
    if (pid == 0)
        _exit(in_child(op, exec, null));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child: %#x", (unsigned int)status);
    /* and the parent goes on as if nothing had been */
    fake_tick();
    sbtest_ok(sandbox_op_wait(op, 5000, &error), &error);
    sandbox_op_unref(op);
    sbtest_ok(sandbox_exec_take_stdin(exec, &fd, &error), &error);
    close(fd);
    sbtest_ok(sandbox_exec_wait(exec, 5000, &result, &error), &error);
    ck_assert_int_eq(result.code, 0);
    sandbox_exec_unref(exec);
    close(null[0]);
}
END_TEST

/* ---- sandboxes ---- */

START_TEST(calls_reach_the_driver)
{
    struct sandbox_error *error = NULL;
    int fd = -1;

    sbtest_ok(sandbox_start(sandbox, -1, &error), &error);
    ck_assert_str_eq(fake.called, "start 01234567");
    sbtest_ok(sandbox_stop(sandbox, 100, 100, &error), &error);
    ck_assert_str_eq(fake.called, "stop 01234567 100");
    sbtest_ok(sandbox_stop(sandbox, -1, -1, &error), &error);
    ck_assert_str_eq(fake.called, "stop 01234567 -1");
    sbtest_ok(sandbox_kill(sandbox, 64, &error), &error);
    ck_assert_str_eq(fake.called, "kill 01234567 64");
    sbtest_ok(sandbox_dial(sandbox, 65535, 7, &fd, &error), &error);
    ck_assert_str_eq(fake.called, "dial 01234567 65535 7");
    close(fd);
    sbtest_ok(sandbox_delete(sandbox, -1, &error), &error);
    ck_assert_str_eq(fake.called, "remove 01234567");
}
END_TEST

START_TEST(arguments_are_checked)
{
    struct sandbox *other = NULL;
    struct sandbox_forward *forward = NULL;
    int fd = -1;

    refused(sandbox_open(host, "0123", &other, &refusal), SANDBOX_EINVALID, "id");
    refused(sandbox_open(host, NULL, &other, &refusal), SANDBOX_EINVALID, "id");
    refused(sandbox_open(host, FAKE_ID, NULL, &refusal), SANDBOX_EINVALID, "ret_sandbox");
    refused(sandbox_create(host, NULL, -1, &other, &refusal), SANDBOX_EINVALID, "spec");
    refused(sandbox_start(sandbox, -2, &refusal), SANDBOX_EINVALID, "timeout_ms");
    refused(sandbox_stop(sandbox, -2, -1, &refusal), SANDBOX_EINVALID, "grace_ms");
    refused(sandbox_stop(sandbox, 101, 100, &refusal), SANDBOX_EINVALID, "timeout_ms");
    refused(sandbox_stop(sandbox, -1, 100, &refusal), SANDBOX_EINVALID, "timeout_ms");
    refused(sandbox_kill(sandbox, 0, &refusal), SANDBOX_EINVALID, "signal");
    refused(sandbox_kill(sandbox, 65, &refusal), SANDBOX_EINVALID, "signal");
    refused(sandbox_dial(sandbox, 0, -1, &fd, &refusal), SANDBOX_EINVALID, "port");
    refused(sandbox_dial(sandbox, 65536, -1, &fd, &refusal), SANDBOX_EINVALID, "port");
    refused(sandbox_dial(sandbox, 1, -2, &fd, &refusal), SANDBOX_EINVALID, "timeout_ms");
    refused(sandbox_dial(sandbox, 1, -1, NULL, &refusal), SANDBOX_EINVALID, "ret_fd");
    refused(sandbox_forward_open(sandbox, 0, 0, &forward, &refusal), SANDBOX_EINVALID, "port");
    refused(sandbox_forward_open(sandbox, 1, -1, &forward, &refusal), SANDBOX_EINVALID, "local_port");
    refused(sandbox_forward_open(sandbox, 1, 0, NULL, &refusal), SANDBOX_EINVALID, "ret_forward");
    fake.refuses = SANDBOX_ENOTFOUND;
    refused(sandbox_open(host, FAKE_ID, &other, &refusal), SANDBOX_ENOTFOUND, "");
    refused(sandbox_kill(sandbox, 15, &refusal), SANDBOX_ENOTFOUND, "");
    ck_assert_int_eq(sandbox_forward_get_port(NULL), SANDBOX_EINVALID);
    ck_assert_ptr_null(sandbox_forward_close(NULL));
}
END_TEST

START_TEST(null_handles_are_refused)
{
    static const char *const argv[] = { "/bin/true", NULL };
    struct sandbox_spec *spec = NULL;
    struct sandbox_op *op = NULL;
    struct sandbox *other = NULL;
    struct sandbox_info *info = NULL;
    struct sandbox_list *list = NULL;
    struct sandbox_exec *exec = NULL;
    struct sandbox_image *image = NULL;
    struct sandbox_image_list *images = NULL;
    struct sandbox_volume *volume = NULL;
    struct sandbox_volume_list *volumes = NULL;
    struct sandbox_output output = SANDBOX_OUTPUT_INIT;
    int fd = -1;

    ck_assert_int_eq(sandbox_spec_new(&spec, NULL), 0);
    refused(sandbox_spec_new(NULL, &refusal), SANDBOX_EINVALID, "ret_spec");
    refused(sandbox_spec_set_name(NULL, "x", &refusal), SANDBOX_EINVALID, "spec");
    refused(sandbox_spec_add_mount(spec, NULL, &refusal), SANDBOX_EINVALID, "options");
    refused(sandbox_host_close(NULL, &refusal), SANDBOX_EINVALID, "host");
    refused(sandbox_create(NULL, spec, -1, &other, &refusal), SANDBOX_EINVALID, "host");
    refused(sandbox_create_begin(NULL, spec, &op, &refusal), SANDBOX_EINVALID, "host");
    refused(sandbox_create_begin(host, spec, NULL, &refusal), SANDBOX_EINVALID, "ret_op");
    refused(sandbox_create(host, spec, -1, NULL, &refusal), SANDBOX_EINVALID, "ret_sandbox");
    refused(sandbox_open(NULL, FAKE_ID, &other, &refusal), SANDBOX_EINVALID, "host");
    refused(sandbox_start(NULL, -1, &refusal), SANDBOX_EINVALID, "sandbox");
    refused(sandbox_start_begin(sandbox, NULL, &refusal), SANDBOX_EINVALID, "ret_op");
    refused(sandbox_stop(NULL, 0, -1, &refusal), SANDBOX_EINVALID, "sandbox");
    refused(sandbox_stop_begin(sandbox, 0, NULL, &refusal), SANDBOX_EINVALID, "ret_op");
    refused(sandbox_kill(NULL, 9, &refusal), SANDBOX_EINVALID, "sandbox");
    refused(sandbox_delete(NULL, -1, &refusal), SANDBOX_EINVALID, "sandbox");
    refused(sandbox_delete_begin(sandbox, NULL, &refusal), SANDBOX_EINVALID, "ret_op");
    refused(sandbox_inspect(NULL, &info, &refusal), SANDBOX_EINVALID, "sandbox");
    refused(sandbox_inspect(sandbox, NULL, &refusal), SANDBOX_EINVALID, "ret_info");
    refused(sandbox_host_list(NULL, NULL, &list, &refusal), SANDBOX_EINVALID, "host");
    refused(sandbox_host_list(host, NULL, NULL, &refusal), SANDBOX_EINVALID, "ret_list");
    refused(sandbox_exec(NULL, argv, NULL, &exec, &refusal), SANDBOX_EINVALID, "sandbox");
    refused(sandbox_exec(sandbox, argv, NULL, NULL, &refusal), SANDBOX_EINVALID, "ret_exec");
    refused(sandbox_exec_take_stdin(NULL, &fd, &refusal), SANDBOX_EINVALID, "exec");
    refused(sandbox_exec_wait(NULL, -1, NULL, &refusal), SANDBOX_EINVALID, "exec");
    refused(sandbox_exec_kill(NULL, 9, 0, &refusal), SANDBOX_EINVALID, "exec");
    refused(sandbox_exec_communicate(NULL, NULL, &output, NULL, &refusal), SANDBOX_EINVALID, "exec");
    refused(sandbox_dial(NULL, 1, -1, &fd, &refusal), SANDBOX_EINVALID, "sandbox");
    refused(sandbox_image_import(NULL, "/x", NULL, -1, &image, &refusal), SANDBOX_EINVALID, "host");
    refused(sandbox_image_import_begin(host, "/x", NULL, NULL, &refusal), SANDBOX_EINVALID, "ret_op");
    refused(sandbox_image_open(NULL, "x", &image, &refusal), SANDBOX_EINVALID, "host");
    refused(sandbox_image_open(host, "x", NULL, &refusal), SANDBOX_EINVALID, "ret_image");
    refused(sandbox_host_list_images(NULL, &images, &refusal), SANDBOX_EINVALID, "host");
    refused(sandbox_host_list_images(host, NULL, &refusal), SANDBOX_EINVALID, "ret_list");
    refused(sandbox_image_remove(NULL, "x", &refusal), SANDBOX_EINVALID, "host");
    refused(sandbox_volume_create(NULL, "x", &refusal), SANDBOX_EINVALID, "host");
    refused(sandbox_volume_open(NULL, "x", &volume, &refusal), SANDBOX_EINVALID, "host");
    refused(sandbox_volume_open(host, "x", NULL, &refusal), SANDBOX_EINVALID, "ret_volume");
    refused(sandbox_host_list_volumes(NULL, &volumes, &refusal), SANDBOX_EINVALID, "host");
    refused(sandbox_host_list_volumes(host, NULL, &refusal), SANDBOX_EINVALID, "ret_list");
    refused(sandbox_volume_remove(NULL, "x", &refusal), SANDBOX_EINVALID, "host");
    refused(sandbox_op_wait(NULL, -1, &refusal), SANDBOX_EINVALID, "op");
    refused(sandbox_op_take_host(NULL, &host, &refusal), SANDBOX_EINVALID, "op");
    refused(sandbox_op_take_sandbox(NULL, &other, &refusal), SANDBOX_EINVALID, "op");
    refused(sandbox_op_take_image(NULL, &image, &refusal), SANDBOX_EINVALID, "op");
    sandbox_spec_unref(spec);
}
END_TEST

START_TEST(a_driver_may_lack_anything)
{
    static const char *const argv[] = { "/bin/true", NULL };
    const struct sb_driver_ops none = { .name = fake.ops.name, .free = fake.ops.free };
    struct sandbox_error *error = NULL;
    struct sandbox_spec *spec = NULL;
    struct sandbox *other = NULL;
    struct sandbox_info *info = NULL;
    struct sandbox_list *list = NULL;
    struct sandbox_exec *exec = NULL;
    struct sandbox_image *image = NULL;
    struct sandbox_forward *forward = NULL;
    struct sandbox_image_list *images = NULL;
    struct sandbox_volume *volume = NULL;
    struct sandbox_volume_list *volumes = NULL;
    int fd = -1;

    ck_assert_int_eq(sandbox_spec_new(&spec, NULL), 0);
    fake.ops = none;
    refused(sandbox_create(host, spec, -1, &other, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_open(host, FAKE_ID, &other, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_start(sandbox, -1, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_stop(sandbox, 0, -1, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_kill(sandbox, 9, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_delete(sandbox, -1, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_inspect(sandbox, &info, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_host_list(host, NULL, &list, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_exec(sandbox, argv, NULL, &exec, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_image_import(host, "/x", NULL, -1, &image, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_image_open(host, "x", &image, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_host_list_images(host, &images, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_image_remove(host, "x", &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_volume_create(host, "x", &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_volume_open(host, "x", &volume, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_host_list_volumes(host, &volumes, &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_volume_remove(host, "x", &refusal), SANDBOX_EUNSUPPORTED, "");
    refused(sandbox_forward_open(sandbox, 1, 0, &forward, &refusal), SANDBOX_EUNSUPPORTED, "");
    ck_assert_int_eq(sandbox_dial(sandbox, 1, -1, &fd, &error), SANDBOX_EUNSUPPORTED);
    ck_assert_str_eq(sandbox_error_get_message(error), "dial is not supported by the fake backend");
    ck_assert_str_eq(sandbox_error_get_backend(error), "fake");
    sandbox_error_unref(error);
    sandbox_spec_unref(spec);
}
END_TEST

START_TEST(an_old_error_is_replaced)
{
    struct sandbox_error *error = NULL, *old;

    ck_assert_int_eq(sandbox_kill(sandbox, 0, &error), SANDBOX_EINVALID);
    old = error;
    ck_assert_int_eq(sandbox_start(sandbox, -2, &error), SANDBOX_EINVALID);
    ck_assert_ptr_ne(error, old);
    ck_assert_str_eq(sandbox_error_get_field(error), "timeout_ms");
    sandbox_error_unref(old);
    old = error;
    sbtest_ok(sandbox_start(sandbox, -1, NULL), NULL);
    ck_assert_int_eq(sandbox_start(sandbox, -1, &error), 0);
    ck_assert_ptr_eq(error, old); /* a success leaves it */
    sandbox_error_unref(error);
}
END_TEST

/* ---- option structs of other versions ---- */

struct example {
    size_t size;
    int first;
    int later;
    int64_t last;
};

START_TEST(sizes_of_other_versions)
{
    const size_t oldest = SB_SIZE_TO(struct example, first);
    const struct example defaults = { sizeof defaults, 1, 2, 3 };
    struct example known = defaults;
    struct {
        struct example example;
        char beyond[64];
    } newer = { { sizeof newer, 7, 8, 9 }, { 0 } };
    union {
        struct example example;
        char bytes[64];
    } out;

    sb_options_read(&known, sizeof known, oldest, NULL, NULL);
    ck_assert_int_eq(known.first, 1);
    ck_assert_int_eq(sb_options_read(&known, sizeof known, oldest, &newer, NULL), 0);
    ck_assert_uint_eq(known.size, sizeof known);
    ck_assert_int_eq(known.last, 9);
    newer.beyond[63] = 1;
    refused(sandbox_host_open("fake:", (const struct sandbox_host_options *)&newer, -1, &host, &refusal), SANDBOX_EINVALID, "size");
    ck_assert_int_eq(sb_options_read(&known, sizeof known, oldest, &newer, NULL), SANDBOX_EINVALID);
    newer.beyond[63] = 0;
    known = defaults;
    newer.example.size = oldest; /* an older caller: what it did not have keeps its default */
    ck_assert_int_eq(sb_options_read(&known, sizeof known, oldest, &newer, NULL), 0);
    ck_assert_int_eq(known.first, 7);
    ck_assert_int_eq(known.later, 2);
    ck_assert_int_eq(known.last, 3);
    newer.example.size = oldest - 1;
    ck_assert_int_eq(sb_options_read(&known, sizeof known, oldest, &newer, NULL), SANDBOX_EINVALID);
    newer.example.size = 0;
    ck_assert_int_eq(sb_options_read(&known, sizeof known, oldest, &newer, NULL), SANDBOX_EINVALID);
    newer.example.size = SIZE_MAX;
    ck_assert_int_eq(sb_options_read(&known, sizeof known, oldest, &newer, NULL), SANDBOX_EINVALID);
    memset(&out, 0x55, sizeof out);
    out.example.size = oldest;
    sb_options_write(&out, &defaults, sizeof defaults);
    ck_assert_uint_eq(out.example.size, oldest);
    ck_assert_int_eq(out.example.first, 1);
    ck_assert_int_eq(out.bytes[oldest], 0x55); /* nothing is written beyond what the caller has */
    out.example.size = 0;
    sb_options_write(&out, &defaults, sizeof defaults);
}
END_TEST

START_TEST(sizes_are_checked_everywhere)
{
    static const char *const argv[] = { "/bin/true", NULL };
    struct sandbox_host_options h = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_mount_options m = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_list_options l = SANDBOX_LIST_OPTIONS_INIT;
    struct sandbox_exec_options e = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_image_import_options i = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_spec *spec = NULL;
    struct sandbox_list *list = NULL;
    struct sandbox_exec *exec = NULL;
    struct sandbox_image *image = NULL;
    struct sandbox_host *other = NULL;

    ck_assert_int_eq(sandbox_spec_new(&spec, NULL), 0);
    h.size = m.size = l.size = e.size = i.size = 0;
    refused(sandbox_host_open("fake:", &h, -1, &other, &refusal), SANDBOX_EINVALID, "size");
    refused(sandbox_spec_add_mount(spec, &m, &refusal), SANDBOX_EINVALID, "size");
    refused(sandbox_host_list(host, &l, &list, &refusal), SANDBOX_EINVALID, "size");
    refused(sandbox_exec(sandbox, argv, &e, &exec, &refusal), SANDBOX_EINVALID, "size");
    refused(sandbox_image_import(host, "/x", &i, -1, &image, &refusal), SANDBOX_EINVALID, "size");
    sandbox_spec_unref(spec);
}
END_TEST

START_TEST(the_version_is_the_headers)
{
    char version[32];

    snprintf(version, sizeof version, "%d.%d.%d", SANDBOX_VERSION_MAJOR, SANDBOX_VERSION_MINOR, SANDBOX_VERSION_PATCH);
    ck_assert_str_eq(sandbox_version(), version);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api-host");
    TCase *tc = sbtest_case("host");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, opens_by_uri);
    tcase_add_test(tc, refuses_bad_uris);
    tcase_add_test(tc, refuses_bad_folders);
    tcase_add_test(tc, a_closed_host_refuses_everything);
    tcase_add_test(tc, handles_keep_their_host);
    tcase_add_test(tc, a_close_reaches_the_drivers_waits);
    tcase_add_test(tc, a_forked_child_is_refused_and_harms_nothing);
    suite_add_tcase(suite, tc);
    tc = sbtest_case("sandbox");
    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, calls_reach_the_driver);
    tcase_add_test(tc, arguments_are_checked);
    tcase_add_test(tc, null_handles_are_refused);
    tcase_add_test(tc, a_driver_may_lack_anything);
    tcase_add_test(tc, an_old_error_is_replaced);
    suite_add_tcase(suite, tc);
    tc = sbtest_case("options");
    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, sizes_of_other_versions);
    tcase_add_test(tc, sizes_are_checked_everywhere);
    tcase_add_test(tc, the_version_is_the_headers);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
