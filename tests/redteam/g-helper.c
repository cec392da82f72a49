/* SPDX-License-Identifier: Apache-2.0
 * G04, F56, D09: the helper that reads archives is killed, stopped, outlived, run four times at once; and what it may do. */
#include "g-store.h"
#include "g-tar.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <oci.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <util.h>

/* A tar whose one file takes long to read: 32 GiB of zeros that need no disk. */
static const char *slow_tar(void)
{
    const char *path = in_dir("slow.tar");
    struct tar tar = { 0 };
    char size[13];

    snprintf(size, sizeof size, "%012llo", 32ll << 30);
    TAR(&tar, .name = "first", .data = "x");
    TAR(&tar, .name = "slow", .size_field = size);
    tar_save(&tar, path);
    ck_assert_int_eq(truncate(path, (32ll << 30) + 4096), 0);
    return path;
}

static const char *quick_tar(void)
{
    const char *path = in_dir("quick.tar");
    struct tar tar = { 0 };

    TAR(&tar, .name = "f", .data = "x");
    tar_end(&tar);
    tar_save(&tar, path);
    return path;
}

static pid_t child_of(pid_t parent)
{
    DIR *proc = opendir("/proc");
    struct dirent *d;
    pid_t found = 0;

    ck_assert_ptr_nonnull(proc);
    while (!found && (d = readdir(proc))) {
        char path[300], state;
        int pid, ppid;
        FILE *f;

        snprintf(path, sizeof path, "/proc/%s/stat", d->d_name);
        f = d->d_name[0] >= '1' && d->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        if (f && fscanf(f, "%d (%*[^)]) %c %d", &pid, &state, &ppid) == 3 && ppid == parent && state != 'Z')
            found = pid;
        if (f)
            fclose(f);
    }
    closedir(proc);
    return found;
}

static long status_of(pid_t pid, const char *key, int base)
{
    char path[64], line[256];
    long value = -1;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':')
            value = strtol(line + strlen(key) + 1, NULL, base);
    if (f)
        fclose(f);
    return value;
}

/* A zombie, which whoever adopted it will reap, does not. */
static int lives(pid_t pid)
{
    char path[64], state = 'Z';
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    f = fopen(path, "re");
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    if (f)
        fclose(f);
    return state != 'Z';
}

static int step_for(struct sb_op *op, int ms, struct sandbox_error **error)
{
    struct pollfd fd = { .fd = op->fd, .events = POLLIN };

    poll(&fd, 1, ms);
    return op->ops->step(op, error);
}

/* Begins an import and returns once its worker unpacks, all walls up. */
static struct sb_op *begun(pid_t *ret_helper, pid_t *ret_worker)
{
    struct sandbox_error *error = NULL;
    int64_t deadline = sb_now_ms() + 20000;
    struct sb_op *op;

    sbtest_ok(sb_image_import(store, slow_tar(), NULL, &op, &error), &error);
    for (;;) {
        ck_assert_int_eq(step_for(op, 20, &error), 1);
        *ret_helper = child_of(getpid());
        *ret_worker = *ret_helper ? child_of(*ret_helper) : 0;
        if (!strcmp(op->progress.phase, "unpack") && *ret_worker && status_of(*ret_worker, "Seccomp", 10) == 2)
            return op;
        ck_assert_int_lt(sb_now_ms(), deadline);
    }
}

static void expect_failed(struct sb_op *op, int code, const char *word)
{
    struct sandbox_error *error = NULL;
    int r = finish(op, NULL, &error);

    ck_assert_msg(r == code && strstr(sandbox_error_get_message(error), word), "%s: %s", sandbox_code_name(r), sandbox_error_get_message(error));
    sandbox_error_unref(error);
    nothing_left();
}

START_TEST(worker_is_killed)
{
    pid_t helper, worker;
    struct sb_op *op = begun(&helper, &worker);

    ck_assert_int_eq(kill(worker, SIGKILL), 0);
    expect_failed(op, SANDBOX_EIO, "signal 9");
}
END_TEST

START_TEST(helper_is_killed)
{
    static const struct {
        int signal;
        const char *word;
    } ways[] = { { SIGKILL, "signal 9" }, { SIGSEGV, "signal 11" }, { SIGABRT, "signal 6" } };

    for (size_t i = 0; i < SB_ELEMENTS(ways); i++) {
        pid_t helper, worker;
        struct sb_op *op = begun(&helper, &worker);

        ck_assert_int_eq(kill(helper, ways[i].signal), 0);
        expect_failed(op, SANDBOX_EIO, ways[i].word);
        for (int64_t deadline = sb_now_ms() + 5000; lives(worker) && sb_now_ms() < deadline;) /* the kernel tells it when its parent dies */
            usleep(1000);
        ck_assert_msg(!lives(worker), "the worker outlives its helper");
    }
}
END_TEST

START_TEST(host_ignores_its_children)
{
    pid_t helper, worker;
    struct sandbox_error *error = NULL;
    struct sb_op *op;

    signal(SIGCHLD, SIG_IGN);
    sbtest_ok(import(quick_tar(), NULL, NULL, &error), &error);
    remove_all();
    op = begun(&helper, &worker);
    ck_assert_int_eq(kill(helper, SIGKILL), 0);
    expect_failed(op, SANDBOX_EIO, "killed");
}
END_TEST

START_TEST(cancelled)
{
    pid_t helper, worker;
    struct sb_op *op = begun(&helper, &worker);
    int64_t before = sb_now_ms();

    op->ops->cancel(op);
    expect_failed(op, SANDBOX_ECANCELLED, "cancelled");
    ck_assert_int_lt(sb_now_ms() - before, 3000);
}
END_TEST

START_TEST(cancelled_at_once)
{
    struct sandbox_error *error = NULL;
    struct sb_op *op;

    for (int steps = 0; steps < 12; steps++) {
        int r = 1;

        sbtest_ok(sb_image_import(store, quick_tar(), NULL, &op, &error), &error);
        for (int i = 0; i < steps && r == 1; i++)
            r = step_for(op, 2, &error);
        if (r == 1) {
            op->ops->cancel(op);
            expect_failed(op, SANDBOX_ECANCELLED, "cancelled");
        } else {
            ck_assert_int_eq(r, 0);
            op->ops->free(op);
            remove_all();
        }
    }
}
END_TEST

static void wait_for_nothing(void)
{
    for (int tries = 0; tries < 250; tries++) {
        DIR *layers = opendir(in_dir("state/layers"));
        int n = 0;

        while (readdir(layers))
            n++;
        closedir(layers);
        if (n == 2)
            break;
        poll(NULL, 0, 20);
    }
    nothing_left();
}

/* The host program dies in the middle: the helper cleans up without it. */
START_TEST(host_is_killed)
{
    int ready[2];
    char byte;
    pid_t pid;

    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        pid_t helper, worker;

        begun(&helper, &worker);
        if (write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    wait_for_nothing();
}
END_TEST

/* Both die: the next open finds what they left. */
START_TEST(host_and_helper_are_killed)
{
    pid_t pid = fork(), helper, worker;
    struct sandbox_error *error = NULL;
    struct sb_images *again;

    if (pid == 0) {
        begun(&helper, &worker);
        kill(helper, SIGSTOP);
        kill(worker, SIGKILL);
        kill(helper, SIGKILL);
        kill(getpid(), SIGKILL);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    poll(NULL, 0, 200);
    sbtest_ok(sb_images_open(store_root, &store_map, store_program, NULL, &again, &error), &error);
    sb_images_free(again);
    wait_for_nothing();
}
END_TEST

START_TEST(four_at_once)
{
    const char *source = quick_tar();
    pid_t pids[4];
    DIR *layers;
    struct dirent *d;
    int n = 0, status;

    for (int i = 0; i < 4; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            for (int j = 0; j < 5; j++)
                if (import(source, NULL, NULL, NULL) != 0)
                    _exit(1);
            _exit(0);
        }
    }
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_int_eq(status, 0);
    }
    layers = opendir(in_dir("state/layers"));
    while ((d = readdir(layers)))
        n += d->d_name[0] != '.' && !strstr(d->d_name, ".json");
    closedir(layers);
    ck_assert_int_eq(n, 1);
}
END_TEST

/* One round of a process that imports, uses and removes what others import, use and remove. */
static int churn(const char *source)
{
    SB_JSON json_t *image = NULL;
    struct sb_image_ref ref = SB_IMAGE_REF_INIT;
    const char *digest;
    int r = import(source, NULL, &image, NULL), missing = 0;

    if (r)
        return r;
    digest = json_string_value(json_object_get(image, "digest"));
    r = sb_image_resolve(store, digest, &ref, NULL);
    if (r == 0) { /* while it is held it stays */
        for (size_t i = 0; i < ref.n_layers; i++)
            missing |= faccessat(store_root, ref.layers[i], F_OK, 0) < 0;
        sb_image_ref_clear(&ref);
        if (missing)
            return SANDBOX_EDAMAGED;
    } else if (r != SANDBOX_ENOTFOUND) {
        return r;
    }
    r = sb_image_remove(store, digest, NULL, NULL, NULL);
    return r == SANDBOX_ENOTFOUND || r == SANDBOX_EBUSY ? 0 : r;
}

START_TEST(imports_and_removals_at_once)
{
    const char *source = quick_tar();
    pid_t pids[3];
    int status;

    for (int i = 0; i < 3; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            int r = 0;

            for (int j = 0; j < 25 && !r; j++)
                r = churn(source);
            _exit(-r);
        }
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_msg(status == 0, "%s", sandbox_code_name(-WEXITSTATUS(status)));
    }
}
END_TEST

static int used_by_a_sandbox(void *data, const char *digest, char who[SB_ID_SIZE])
{
    (void)data;
    ck_assert_int_eq(sb_digest_valid(digest), 1);
    snprintf(who, SB_ID_SIZE, "%064d", 7);
    return 1;
}

START_TEST(in_use)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_error *error = NULL;
    struct sb_image_ref ref = SB_IMAGE_REF_INIT;
    SB_JSON json_t *image = NULL;

    options.name = "host";
    refused(quick_tar(), &options, SANDBOX_EINVALID, "host");
    options.name = "one";
    sbtest_ok(import(quick_tar(), &options, NULL, &error), &error);
    options.name = "two";
    sbtest_ok(import(quick_tar(), &options, &image, &error), &error);
    ck_assert_uint_eq(json_array_size(json_object_get(image, "names")), 2);
    sbtest_ok(sb_image_resolve(store, "one", &ref, &error), &error);
    sbtest_ok(sb_image_remove(store, "one", NULL, NULL, &error), &error); /* a name only */
    sbtest_fails(sb_image_remove(store, "two", NULL, NULL, &error), SANDBOX_EBUSY, &error);
    sb_image_ref_clear(&ref);
    sbtest_fails(sb_image_remove(store, "two", used_by_a_sandbox, NULL, &error), SANDBOX_EBUSY, &error);
    sbtest_fails(sb_image_resolve(store, "one", &ref, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_ok(sb_image_remove(store, "two", NULL, NULL, &error), &error);
    nothing_left();
    sbtest_fails(sb_image_remove(store, "two", NULL, NULL, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_fails(sb_image_remove(store, "../two", NULL, NULL, &error), SANDBOX_EINVALID, &error);
}
END_TEST

static void ns_differs(pid_t pid, const char *name)
{
    char path[64], theirs[64] = "", ours[64] = "";

    snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, name);
    ck_assert_int_gt(readlink(path, theirs, sizeof theirs - 1), 0);
    snprintf(path, sizeof path, "/proc/self/ns/%s", name);
    ck_assert_int_gt(readlink(path, ours, sizeof ours - 1), 0);
    ck_assert_str_ne(theirs, ours);
}

static int count(pid_t pid, const char *what)
{
    char path[64];
    int n = 0;
    DIR *stream;
    struct dirent *d;

    snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
    stream = opendir(path);
    ck_assert_msg(stream != NULL, "%s: %s", path, strerror(errno));
    while ((d = readdir(stream)))
        n += strcmp(d->d_name, ".") && strcmp(d->d_name, "..");
    closedir(stream);
    return n;
}

START_TEST(walls)
{
    static const char *const namespaces[] = { "user", "mnt", "pid", "net", "ipc", "uts" };
    const long may = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 27 | 1l << 31; /* CHOWN DAC_OVERRIDE FOWNER FSETID MKNOD SETFCAP */
    pid_t helper, worker;
    struct sb_op *op = begun(&helper, &worker);

    ck_assert_int_eq(status_of(worker, "NoNewPrivs", 10), 1);
    ck_assert_int_eq(status_of(worker, "Seccomp", 10), 2);
    ck_assert_int_eq(status_of(worker, "CapEff", 16) & ~may, 0);
    ck_assert_int_eq(status_of(worker, "CapPrm", 16) & ~may, 0);
    ck_assert_int_eq(status_of(worker, "CapBnd", 16) & ~may, 0);
    ck_assert_int_eq(status_of(worker, "CapInh", 16), 0);
    if (geteuid() == 0) { /* who isn't root can't look further */
        ck_assert_int_eq(status_of(worker, "Uid", 10), store_map.uid_start);
        for (size_t i = 0; i < SB_ELEMENTS(namespaces); i++)
            ns_differs(worker, namespaces[i]);
        ck_assert_int_eq(count(worker, "root"), 0);
        ck_assert_int_le(count(worker, "fd"), 7); /* socket, twice /dev/null, source, folder; the file under way and its parent */
    }
    op->ops->cancel(op);
    expect_failed(op, SANDBOX_ECANCELLED, "cancelled");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        worker_is_killed, helper_is_killed, host_ignores_its_children, cancelled, cancelled_at_once, host_is_killed, host_and_helper_are_killed,
        four_at_once, imports_and_removals_at_once, in_use, walls,
    };
    Suite *suite = suite_create("helper");
    TCase *cases = sbtest_case("helper");

    tcase_add_checked_fixture(cases, store_open, store_close);
    for (size_t i = 0; i < SB_ELEMENTS(tests); i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    return sbtest_main(suite);
}
