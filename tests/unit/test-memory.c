/* SPDX-License-Identifier: Apache-2.0
 * Memory runs short at every allocation in turn: each call fails with ENOMEM, leaves nothing behind and stays usable. The
 * allocator's functions are replaced by the linker (--wrap); what the fake driver allocates is not counted. */
#include "fake.h"

#include <sbtest.h>

#include <errno.h>
#include <json.h>
#include <spec.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static long armed; /* 0: off, else the number of the allocation that fails */
static long counted;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *text);
int __wrap_asprintf(char **ret, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int short_now(void)
{
    if (!armed || fake.paused || ++counted != armed)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *__wrap_malloc(size_t size)
{
    return short_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return short_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return short_now() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *text)
{
    return short_now() ? NULL : __real_strdup(text);
}

int __wrap_asprintf(char **ret, const char *format, ...)
{
    va_list ap;
    int n = -1;

    if (short_now())
        return -1;
    va_start(ap, format);
    n = vasprintf(ret, format, ap);
    va_end(ap);
    return n;
}

/* ---- the calls; each returns its code and releases what it got ---- */

static struct sandbox_host *host;
static struct sandbox *sandbox;

static int fill(struct sandbox_spec *spec)
{
    static const char *const argv[] = { "/bin/d", "\xff", NULL };
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    int r = sandbox_spec_set_name(spec, "box", NULL);

    mount.source = mount.target = "/in";
    if (!r)
        r = sandbox_spec_set_name(spec, "box2", NULL);
    if (!r)
        r = sandbox_spec_add_label(spec, "a", "b", NULL);
    if (!r)
        r = sandbox_spec_add_label(spec, "a", "c", NULL);
    if (!r)
        r = sandbox_spec_add_env(spec, "A", "\xff", NULL);
    if (!r)
        r = sandbox_spec_set_daemon(spec, argv, NULL);
    return r ? r : sandbox_spec_add_mount(spec, &mount, NULL);
}

static int call_spec(struct sandbox_error **error)
{
    struct sandbox_spec *spec = NULL, *copy = NULL;
    int r = sandbox_spec_new(&spec, error);

    if (!r)
        r = fill(spec);
    if (!r) {
        copy = sb_spec_copy(spec);
        r = copy ? 0 : SANDBOX_ENOMEM;
    }
    sandbox_spec_unref(copy);
    sandbox_spec_unref(spec);
    return r;
}

static int call_json(struct sandbox_error **error)
{
    struct sandbox_spec *spec = NULL, *back = NULL;
    SB_JSON json_t *json = NULL;
    SB_FREE char *text = NULL;
    int r = sandbox_spec_new(&spec, error);

    if (!r)
        r = fill(spec);
    if (!r) {
        json = sb_spec_to_json(spec);
        text = json ? sb_json_dump(json) : NULL;
        r = text ? sb_spec_from_json(json, &back, error) : SANDBOX_ENOMEM;
    }
    sandbox_spec_unref(back);
    sandbox_spec_unref(spec);
    return r;
}

static int call_open(struct sandbox_error **error)
{
    struct sandbox_host *other = NULL;
    int r = sandbox_host_open("fake:x", NULL, -1, &other, error);

    sandbox_host_unref(other);
    return r;
}

static int call_create(struct sandbox_error **error)
{
    struct sandbox_spec *spec = NULL;
    struct sandbox *made = NULL;
    int r = sandbox_spec_new(&spec, error);

    if (!r)
        r = sandbox_create(host, spec, -1, &made, error);
    sandbox_unref(made);
    sandbox_spec_unref(spec);
    return r;
}

static int call_failing_create(struct sandbox_error **error)
{
    int r;

    fake.result = SANDBOX_EBUSY;
    r = call_create(error);
    fake.result = 0;
    return r == SANDBOX_EBUSY ? 0 : r;
}

static int call_inspect(struct sandbox_error **error)
{
    struct sandbox_info *info = NULL;
    struct sandbox *again = NULL;
    int r = sandbox_open(host, FAKE_ID, &again, error);

    if (!r)
        r = sandbox_inspect(again, &info, error);
    sandbox_info_unref(info);
    sandbox_unref(again);
    return r;
}

static int call_list(struct sandbox_error **error)
{
    struct sandbox_list *list = NULL;
    struct sandbox_image_list *images = NULL;
    struct sandbox_volume_list *volumes = NULL;
    char text[2000];
    int r;

    snprintf(text, sizeof text, "[%s,%s]", fake_document, fake_document);
    fake.answer = text;
    r = sandbox_host_list(host, NULL, &list, error);
    sandbox_list_unref(list);
    snprintf(text, sizeof text, "[%s,%s]", fake_image, fake_image);
    if (!r)
        r = sandbox_host_list_images(host, &images, error);
    sandbox_image_list_unref(images);
    snprintf(text, sizeof text, "[%s,%s]", fake_volume, fake_volume);
    if (!r)
        r = sandbox_host_list_volumes(host, &volumes, error);
    sandbox_volume_list_unref(volumes);
    fake.answer = fake_document;
    return r;
}

static int call_import(struct sandbox_error **error)
{
    struct sandbox_image *image = NULL;
    int r;

    fake.answer = NULL;
    r = sandbox_image_import(host, "/x", NULL, -1, &image, error);
    sandbox_image_unref(image);
    fake.answer = fake_document;
    return r;
}

static int call_exec(struct sandbox_error **error)
{
    static const char *const argv[] = { "/bin/sh", "-c", "cat; cat /dev/zero | head -c 300000 >&2", NULL };
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_communicate_options communicate = SANDBOX_COMMUNICATE_OPTIONS_INIT;
    struct sandbox_output output = SANDBOX_OUTPUT_INIT;
    struct sandbox_exec *exec = NULL;
    int r;

    options.stdin_fd = SANDBOX_STDIO_PIPE;
    communicate.input = "input";
    communicate.input_size = 5;
    r = sandbox_exec(sandbox, argv, &options, &exec, error);
    if (!r)
        r = sandbox_exec_communicate(exec, &communicate, &output, NULL, error);
    sandbox_output_clear(&output);
    sandbox_exec_unref(exec);
    return r;
}

static int call_forward(struct sandbox_error **error)
{
    struct sandbox_forward_status status = SANDBOX_FORWARD_STATUS_INIT;
    struct sandbox_forward *forward = NULL;
    int r = sandbox_forward_open(sandbox, 80, 0, &forward, error);

    if (!r)
        r = sandbox_forward_get_status(forward, &status, error);
    sandbox_forward_close(forward);
    return r;
}

static int call_events(struct sandbox_error **error)
{
    struct sandbox_events *events = NULL;
    struct sandbox_event *event = NULL;
    int r = sandbox_events_open(host, NULL, &events, error);

    fake.event = "{\"type\":\"created\",\"id\":\"" FAKE_ID "\",\"name\":\"\",\"time_ms\":1,\"attributes\":{}}";
    if (!r)
        r = sandbox_events_read(events, 0, &event, error);
    fake.event = NULL;
    sandbox_event_unref(event);
    sandbox_events_close(events);
    return r;
}

static int (*const calls[])(struct sandbox_error **) = {
    call_spec, call_json, call_open, call_create, call_failing_create, call_inspect, call_list, call_import, call_exec, call_forward, call_events,
};

START_TEST(every_allocation_may_fail)
{
    long failures = 0;

    fake_reset();
    host = fake_host();
    sandbox = fake_sandbox(host);
    json_set_alloc_funcs(__wrap_malloc, free); /* jansson's own, which no linker wraps */
    for (long n = 1;; n++) {
        struct sandbox_error *error = NULL;
        long reached;
        int r;

        counted = 0;
        armed = n;
        r = calls[_i](&error);
        armed = 0;
        reached = counted;
        ck_assert_msg(r == 0 || r == SANDBOX_ENOMEM, "allocation %ld: %s", n, sandbox_code_name(r));
        if (r && error) {
            ck_assert_int_eq(sandbox_error_get_code(error), SANDBOX_ENOMEM);
            ck_assert_str_ne(sandbox_error_get_message(error), "");
        }
        failures += r != 0;
        sandbox_error_unref(error);
        if (reached < n)
            break; /* there are no more */
        ck_assert_int_eq(calls[_i](NULL), 0); /* and afterwards all is well */
    }
    ck_assert_int_gt(failures, 0);
    sandbox_unref(sandbox);
    sandbox_host_unref(host);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api-memory");
    TCase *tc = sbtest_case("memory");

    tcase_add_loop_test(tc, every_allocation_may_fail, 0, (int)SB_ELEMENTS(calls));
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
