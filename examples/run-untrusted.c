/* SPDX-License-Identifier: Apache-2.0
 * Runs code that nobody read: in a sandbox with a read-only root, few processes, a deadline and an end to its output. Limits that
 * need a cgroup (memory, CPU) are asked for, and left out with a remark where this machine can't enforce them.
 * Usage: run-untrusted [--state FOLDER] SCRIPT, a text for sh; its exit status is passed on, 124 after the deadline. */
#include <sandbox.h>

#include <stdio.h>
#include <string.h>

#define DEADLINE_MS 2000
#define MAX_OUTPUT (64 * 1024)

static int print_error(struct sandbox_error *error)
{
    fprintf(stderr, "%s: %s\n", sandbox_error_get_operation(error), sandbox_error_get_message(error));
    if (*sandbox_error_get_hint(error))
        fprintf(stderr, "  hint: %s\n", sandbox_error_get_hint(error));
    sandbox_error_unref(error);
    return 125;
}

static int fill(struct sandbox_spec *spec, int with_cgroup, struct sandbox_error **error)
{
    struct sandbox_mount_options scratch = SANDBOX_MOUNT_OPTIONS_INIT;
    int r;

    scratch.type = SANDBOX_MOUNT_TMPFS;
    scratch.target = "/tmp";
    scratch.max_bytes = 16 << 20;
    r = sandbox_spec_set_read_only(spec, 1, error);
    if (!r)
        r = sandbox_spec_add_mount(spec, &scratch, error);
    if (!r)
        r = sandbox_spec_set_pids_max(spec, 32, error);
    if (!r && with_cgroup)
        r = sandbox_spec_set_memory_max(spec, 128 << 20, error);
    if (!r && with_cgroup)
        r = sandbox_spec_set_cpu_max(spec, 500, error);
    return r;
}

static int create(struct sandbox_host *host, int with_cgroup, struct sandbox **ret_sandbox, struct sandbox_error **error)
{
    struct sandbox_spec *spec = NULL;
    int r = sandbox_spec_new(&spec, error);

    if (!r)
        r = fill(spec, with_cgroup, error);
    if (!r)
        r = sandbox_create(host, spec, 30000, ret_sandbox, error);
    sandbox_spec_unref(spec);
    return r;
}

static int status_of(const struct sandbox_exec_result *result)
{
    switch (result->kind) {
    case SANDBOX_EXEC_EXITED:
        return result->code;
    case SANDBOX_EXEC_DEADLINE:
        fprintf(stderr, "killed after %d ms\n", DEADLINE_MS);
        return 124;
    case SANDBOX_EXEC_OOM:
        fprintf(stderr, "killed for want of memory\n");
        return 137;
    case SANDBOX_EXEC_SIGNALLED:
    case SANDBOX_EXEC_KILLED:
        return 128 + result->signal;
    default:
        fprintf(stderr, "lost\n");
        return 125;
    }
}

static int run(struct sandbox *sandbox, const char *script, int *ret_status, struct sandbox_error **error)
{
    const char *const argv[] = { "sh", "-c", script, NULL };
    struct sandbox_communicate_options limits = SANDBOX_COMMUNICATE_OPTIONS_INIT;
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_output output = SANDBOX_OUTPUT_INIT;
    struct sandbox_exec *exec = NULL;
    int r;

    options.deadline_ms = DEADLINE_MS;
    limits.max_output = MAX_OUTPUT;
    r = sandbox_start(sandbox, 30000, error);
    if (!r)
        r = sandbox_exec(sandbox, argv, &options, &exec, error);
    if (!r)
        r = sandbox_exec_communicate(exec, &limits, &output, &result, error);
    if (!r) {
        fwrite(output.out, 1, output.out_size, stdout);
        fwrite(output.err, 1, output.err_size, stderr);
        if (output.out_truncated || output.err_truncated)
            fprintf(stderr, "output cut after %d bytes\n", MAX_OUTPUT);
        *ret_status = status_of(&result);
    }
    sandbox_output_clear(&output);
    sandbox_exec_unref(exec);
    return r;
}

int main(int argc, char **argv)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_host *host = NULL;
    struct sandbox *sandbox = NULL;
    int status = 125, r;

    if (argc == 4 && strcmp(argv[1], "--state") == 0) {
        options.state_root = argv[2];
        argv += 2;
        argc -= 2;
    }
    if (argc != 2) {
        fprintf(stderr, "usage: run-untrusted [--state FOLDER] SCRIPT\n");
        return 125;
    }
    r = sandbox_host_open("local:", &options, -1, &host, &error);
    if (!r)
        r = create(host, 1, &sandbox, &error);
    if (r == SANDBOX_EUNSUPPORTED) {
        fprintf(stderr, "without limits of memory and CPU: %s\n", sandbox_error_get_message(error));
        error = sandbox_error_unref(error);
        r = create(host, 0, &sandbox, &error);
    }
    if (!r)
        r = run(sandbox, argv[1], &status, &error);
    if (r)
        status = print_error(error);
    if (sandbox && sandbox_delete(sandbox, 30000, NULL))
        fprintf(stderr, "the sandbox %s could not be deleted\n", sandbox_get_id(sandbox));
    sandbox_unref(sandbox);
    sandbox_host_unref(host);
    return status;
}
