/* SPDX-License-Identifier: Apache-2.0
 * See host.h. */
#include "host.h"

#include <stddef.h>

#include "sample.h"

void bench_check(int code, struct sandbox_error **error, const char *what)
{
    if (!code)
        return;
    if (!*error)
        bench_fail("%s: %s", what, sandbox_code_name(code));
    bench_fail("%s: %s: %s%s%s", what, sandbox_code_name(code), sandbox_error_get_message(*error),
               *sandbox_error_get_hint(*error) ? "; " : "", sandbox_error_get_hint(*error));
}

struct sandbox_host *bench_open_host(const char *root)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_host *host = NULL;
    struct sandbox_error *error = NULL;

    options.state_root = root;
    bench_check(sandbox_host_open("local:", &options, 10000, &host, &error), &error, "open");
    return host;
}

struct sandbox_spec *bench_new_spec(const char *image)
{
    struct sandbox_spec *spec = NULL;
    struct sandbox_error *error = NULL;

    bench_check(sandbox_spec_new(&spec, &error), &error, "spec");
    bench_check(sandbox_spec_set_image(spec, image, &error), &error, "image");
    return spec;
}

struct sandbox *bench_start_sandbox(struct sandbox_host *host, const struct sandbox_spec *spec)
{
    struct sandbox *sandbox = NULL;
    struct sandbox_error *error = NULL;

    bench_check(sandbox_create(host, spec, 10000, &sandbox, &error), &error, "create");
    bench_check(sandbox_start(sandbox, 10000, &error), &error, "start");
    return sandbox;
}

void bench_delete_sandbox(struct sandbox *sandbox)
{
    struct sandbox_error *error = NULL;

    bench_check(sandbox_delete(sandbox, 10000, &error), &error, "delete");
    sandbox_unref(sandbox);
}

void bench_wait_exec(struct sandbox_exec *exec)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_error *error = NULL;

    bench_check(sandbox_exec_wait(exec, 60000, &result, &error), &error, "wait");
    if (result.kind != SANDBOX_EXEC_EXITED || result.code)
        bench_fail("the command ended with kind %d, code %d, signal %d", result.kind, result.code, result.signal);
}
