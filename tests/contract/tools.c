/* SPDX-License-Identifier: Apache-2.0
 * What rows are written with: the host, sandboxes that are removed at the end, commands run to theirs. */
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LABEL "sandbox-contract.run"
enum { KEPT_MAX = 64 };

static struct sandbox_host *host;
static struct sandbox *kept[KEPT_MAX];
static char *volumes[8], *images[8];
static size_t n_kept, n_volumes, n_images;
static struct sandbox_error *error;

int64_t row_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void row_sleep(int ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L }, NULL);
}

struct sandbox_host *row_host(void)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;

    options.state_root = contract.root;
    if (!host)
        row_need(sandbox_host_open(contract.uri, &options, 60000, &host, &error), &error, "open the host");
    return host;
}

char *row_name(const char *what)
{
    char *name = NULL;

    if (asprintf(&name, what ? "contract-%s-%s-%s" : "contract-%s-", contract.run, contract.row, what) < 0)
        row_failed("out of memory");
    return name;
}

struct sandbox_spec *row_spec(void)
{
    struct sandbox_spec *spec = NULL;

    row_need(sandbox_spec_new(&spec, &error), &error, "a spec");
    row_need(sandbox_spec_set_image(spec, contract.image, &error), &error, "set the image");
    row_need(sandbox_spec_add_label(spec, LABEL, contract.run, &error), &error, "set a label");
    return spec;
}

void row_keep(struct sandbox *sandbox)
{
    ROW_CHECK(n_kept < KEPT_MAX, "too many sandboxes in one row");
    kept[n_kept++] = sandbox;
}

struct sandbox *row_create(struct sandbox_spec *spec)
{
    struct sandbox *sandbox = NULL;

    if (!spec)
        spec = row_spec();
    row_need(sandbox_create(row_host(), spec, 60000, &sandbox, &error), &error, "create");
    sandbox_spec_unref(spec);
    row_keep(sandbox);
    return sandbox;
}

struct sandbox *row_start(struct sandbox_spec *spec)
{
    struct sandbox *sandbox = row_create(spec);

    row_need(sandbox_start(sandbox, 60000, &error), &error, "start");
    return sandbox;
}

const char *row_volume(void)
{
    char what[16], *name;

    ROW_CHECK(n_volumes < sizeof volumes / sizeof *volumes, "too many volumes in one row");
    snprintf(what, sizeof what, "v%zu", n_volumes);
    name = row_name(what);
    row_need(sandbox_volume_create(row_host(), name, &error), &error, "make a volume");
    return volumes[n_volumes++] = name;
}

static void (*at_end)(void);

void row_at_end(void (*clean)(void))
{
    at_end = clean;
}

void row_clean(void)
{
    if (at_end)
        at_end();
    at_end = NULL;

    while (n_kept > 0) {
        struct sandbox *sandbox = kept[--n_kept];

        row_need(sandbox_delete(sandbox, 60000, &error), &error, "delete at the end");
        sandbox_unref(sandbox);
    }
    while (n_volumes > 0)
        row_need(sandbox_volume_remove(host, volumes[--n_volumes], &error), &error, "remove a volume at the end");
    while (n_images > 0) {
        int r = sandbox_image_remove(host, images[--n_images], &error);

        if (r == SANDBOX_ENOTFOUND)
            error = sandbox_error_unref(error);
        else
            row_need(r, &error, "remove an image at the end");
    }
    if (host)
        host = sandbox_host_unref(host);
}

void row_forked(void)
{
    host = NULL; /* unusable here, and the parent's to close */
    n_kept = n_volumes = n_images = 0;
    at_end = NULL;
}

char *row_import(const char *tar, const char *name)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_image *image = NULL;
    char *found;

    ROW_CHECK(n_images < sizeof images / sizeof *images, "too many images in one row");
    options.name = name;
    row_need(sandbox_image_import(row_host(), tar, &options, 60000, &image, &error), &error, "import");
    found = strdup(sandbox_image_get_digest(image));
    ROW_CHECK(found && !strncmp(found, "sha256:", 7) && strlen(found) == 71, "\"%s\" is no digest", found);
    sandbox_image_unref(image);
    return images[n_images++] = found;
}

/* Images of a run are named by it, too. */
static size_t sweep_images(const char *prefix)
{
    struct sandbox_image_list *list = NULL;
    size_t n = 0;

    if (sandbox_host_list_images(row_host(), &list, NULL))
        return 0;
    for (size_t i = 0; i < sandbox_image_list_get_count(list); i++) {
        const char *name = sandbox_image_get_name(sandbox_image_list_get(list, i));

        n += !strncmp(name, prefix, strlen(prefix)) && !sandbox_image_remove(row_host(), name, NULL);
    }
    sandbox_image_list_unref(list);
    return n;
}

static size_t sweep_volumes(const char *prefix)
{
    struct sandbox_volume_list *found = NULL;
    size_t n = 0;

    if (sandbox_host_list_volumes(row_host(), &found, NULL))
        return 0;
    for (size_t i = 0; i < sandbox_volume_list_get_count(found); i++) {
        const char *name = sandbox_volume_get_name(sandbox_volume_list_get(found, i));

        n += !strncmp(name, prefix, strlen(prefix)) && !sandbox_volume_remove(row_host(), name, NULL);
    }
    sandbox_volume_list_unref(found);
    return n;
}

size_t row_sweep(void)
{
    struct sandbox_list_options options = SANDBOX_LIST_OPTIONS_INIT;
    struct sandbox_list *found = NULL;
    char *prefix = row_name(NULL);
    size_t n;

    options.label_key = LABEL;
    options.label_value = contract.run;
    row_need(sandbox_host_list(row_host(), &options, &found, &error), &error, "list this run's sandboxes");
    n = sandbox_list_get_count(found);
    for (size_t i = 0; i < n; i++) {
        struct sandbox *sandbox = NULL;

        if (!sandbox_open(row_host(), sandbox_info_get_id(sandbox_list_get(found, i)), &sandbox, NULL))
            row_need(sandbox_delete(sandbox, 60000, &error), &error, "delete what was left");
        sandbox_unref(sandbox);
    }
    sandbox_list_unref(found);
    n += sweep_volumes(prefix) + sweep_images(prefix);
    free(prefix);
    return n;
}

struct sandbox_exec *row_begin(struct sandbox *sandbox, const char *const *argv, const struct sandbox_exec_options *options)
{
    struct sandbox_exec *exec = NULL;

    row_need(sandbox_exec(sandbox, argv, options, &exec, &error), &error, "exec");
    return exec;
}

struct sandbox_exec_result row_end(struct sandbox_exec *exec, int64_t timeout_ms)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;

    row_need(sandbox_exec_wait(exec, timeout_ms, &result, &error), &error, "wait for a command");
    return result;
}

int row_take(int (*take)(struct sandbox_exec *, int *, struct sandbox_error **), struct sandbox_exec *exec)
{
    int fd = -1;

    row_need(take(exec, &fd, &error), &error, "take a stream");
    ROW_CHECK(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC), "a stream's descriptor is not close-on-exec");
    return fd;
}

struct row_output row_run_command(struct sandbox *sandbox, const char *const *argv, const struct sandbox_exec_options *options,
                                  const void *input, size_t input_size)
{
    struct sandbox_exec_options with = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_communicate_options communicate = SANDBOX_COMMUNICATE_OPTIONS_INIT;
    struct row_output run = { SANDBOX_EXEC_RESULT_INIT, SANDBOX_OUTPUT_INIT };
    struct sandbox_exec *exec;

    if (options)
        with = *options;
    if (input)
        with.stdin_fd = SANDBOX_STDIO_PIPE;
    exec = row_begin(sandbox, argv, &with);
    communicate.input = input;
    communicate.input_size = input_size;
    communicate.max_output = 100 << 20;
    communicate.timeout_ms = 60000;
    row_need(sandbox_exec_communicate(exec, &communicate, &run.output, &run.result, &error), &error, argv[0]);
    sandbox_exec_unref(exec);
    return run;
}

char *row_sh(struct sandbox *sandbox, const char *user, const char *script)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct row_output run;
    size_t n;

    options.user = user;
    run = row_run_command(sandbox, ROW_ARGV("/bin/sh", "-c", script), &options, NULL, 0);
    ROW_CHECK(run.result.kind == SANDBOX_EXEC_EXITED && run.result.code == 0,
              "\"%.200s\" ended by kind %d, code %d, signal %d: %.300s", script, run.result.kind, run.result.code,
              run.result.signal, run.output.err ? run.output.err : "");
    n = run.output.out_size;
    if (n && run.output.out[n - 1] == '\n')
        run.output.out[n - 1] = 0;
    return run.output.out ? run.output.out : strdup("");
}

void row_says(struct sandbox *sandbox, const char *user, const char *script, const char *wanted)
{
    char *text = row_sh(sandbox, user, script);

    ROW_CHECK(!strcmp(text, wanted), "\"%.200s\" says \"%.300s\", where \"%.300s\" is right", script, text, wanted);
    free(text);
}

void row_await(struct sandbox *sandbox, const char *script, const char *what)
{
    for (int64_t until = row_now() + 20000;; row_sleep(20)) {
        struct row_output run = row_run_command(sandbox, ROW_ARGV("/bin/sh", "-c", script), NULL, NULL, 0);
        int good = run.result.kind == SANDBOX_EXEC_EXITED && run.result.code == 0;

        sandbox_output_clear(&run.output);
        if (good)
            return;
        ROW_CHECK(row_now() < until, "%s: not after 20 s", what);
    }
}

struct sandbox_info *row_info(struct sandbox *sandbox)
{
    struct sandbox_info *info = NULL;

    row_need(sandbox_inspect(sandbox, &info, &error), &error, "inspect");
    return info;
}

void row_isolation(struct sandbox *sandbox, const char *part)
{
    struct sandbox_info *info = row_info(sandbox);
    json_t *json = json_loads(sandbox_info_get_json(info), 0, NULL);
    const json_t *fact = json_object_get(json_object_get(json, "isolation"), part);
    const char *level = json_string_value(json_object_get(fact, "level")), *why = json_string_value(json_object_get(fact, "why"));

    ROW_CHECK(level && why, "inspect tells nothing of \"%s\"", part);
    if (strcmp(level, "enforced") != 0)
        row_unsupported("%s is %s: %s", part, level, why);
    json_decref(json);
    sandbox_info_unref(info);
}

void row_state(struct sandbox *sandbox, int state)
{
    struct sandbox_info *info = row_info(sandbox);

    ROW_CHECK(sandbox_info_get_state(info) == state, "its state is %d, where %d is right", sandbox_info_get_state(info), state);
    sandbox_info_unref(info);
}

static void *read_guest(size_t *ret_size)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 40);
    struct stat st;
    char *slash, *data;
    int fd;

    ROW_CHECK(n > 0, "the suite's own folder can't be found");
    path[n] = 0;
    slash = strrchr(path, '/');
    snprintf(slash ? slash : path, 40, "/sandbox-contract-guest");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ROW_CHECK(fd >= 0 && fstat(fd, &st) == 0, "%s: %s", path, strerror(errno));
    data = malloc((size_t)st.st_size);
    ROW_CHECK(data && row_read(fd, data, (size_t)st.st_size, 10000) == (size_t)st.st_size, "%s can't be read", path);
    close(fd);
    *ret_size = (size_t)st.st_size;
    return data;
}

void row_bring_guest(struct sandbox *sandbox)
{
    size_t size;
    void *data = read_guest(&size);
    struct row_output run = row_run_command(
        sandbox,
        ROW_ARGV("/bin/sh", "-c",
                 "mkdir -p /tmp && cat >/tmp/guest.new && chmod 755 /tmp/guest.new && mv /tmp/guest.new /tmp/contract-guest"),
        NULL, data, size);

    ROW_CHECK(run.result.code == 0, "the suite's program can't be brought in: %.300s", run.output.err ? run.output.err : "");
    sandbox_output_clear(&run.output);
    free(data);
}

struct sandbox *row_guest_daemon(struct sandbox_spec *spec, const char *arguments)
{
    struct sandbox *sandbox;
    char script[300];

    snprintf(script, sizeof script, "until [ -x /tmp/contract-guest ]; do sleep 0.02; done; exec /tmp/contract-guest %s",
             arguments);
    if (!spec)
        spec = row_spec();
    row_need(sandbox_spec_set_daemon(spec, ROW_ARGV("/bin/sh", "-c", script), &error), &error, "set the daemon");
    sandbox = row_start(spec);
    row_bring_guest(sandbox);
    return sandbox;
}

int row_dial(struct sandbox *sandbox, int port)
{
    for (int64_t until = row_now() + 20000;; row_sleep(20)) {
        int fd = -1, r = sandbox_dial(sandbox, port, 20000, &fd, &error);

        if (!r)
            return fd;
        if (!sandbox_error_get_retryable(error) || row_now() >= until)
            row_need(r, &error, "dial");
        error = sandbox_error_unref(error);
    }
}

size_t row_read(int fd, void *buffer, size_t size, int timeout_ms)
{
    int64_t until = row_now() + timeout_ms;
    size_t n = 0;

    while (n < size) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        int64_t left = until - row_now();
        ssize_t r;

        ROW_CHECK(left > 0 && poll(&wait, 1, (int)left) >= 0, "nothing to read for %d ms, after %zu bytes", timeout_ms, n);
        if (!wait.revents)
            continue;
        r = read(fd, (char *)buffer + n, size - n);
        ROW_CHECK(r >= 0, "read: %s", strerror(errno));
        if (r == 0)
            break;
        n += (size_t)r;
    }
    return n;
}

void row_write(int fd, const void *data, size_t size)
{
    for (size_t n = 0; n < size;) {
        ssize_t r = write(fd, (const char *)data + n, size - n);

        ROW_CHECK(r > 0, "write: %s", strerror(errno));
        n += (size_t)r;
    }
}

void *row_data(size_t size)
{
    unsigned char *data = malloc(size + 1);
    uint64_t x = 88172645463325252u;

    ROW_CHECK(data != NULL, "out of memory");
    for (size_t i = 0; i < size; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        data[i] = (unsigned char)x;
    }
    return data;
}
