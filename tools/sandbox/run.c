/* SPDX-License-Identifier: Apache-2.0
 * run and exec. A sandbox that run made is deleted whatever happens: also after a failed start, also on a signal. When this
 * process itself is killed, the sandbox, being owned, dies with it, and the next open of the host removes what is left. */
#include "tool.h"

#include <stdio.h>

/* A status for a step that failed: a signal that was asked for is no error. */
static int step_failed(struct tool *tool, int code, const struct signals *signals, struct sandbox_error *error)
{
    if (code == SANDBOX_ECANCELLED && signals->last) {
        sandbox_error_unref(error);
        return 128 + signals->last;
    }
    return report_error(tool, error);
}

static int create(struct tool *tool, const struct sandbox_spec *spec, struct signals *signals, struct sandbox **ret_sandbox)
{
    struct sandbox_op *op = NULL;
    struct sandbox_error *error = NULL;
    int r = sandbox_create_begin(tool->host, spec, &op, &error);

    if (!r)
        r = op_drive(tool, op, signals, &error);
    if (!r)
        r = sandbox_op_take_sandbox(op, ret_sandbox, &error);
    sandbox_op_unref(op);
    return r ? step_failed(tool, r, signals, error) : 0;
}

static int start_and_attend(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments, char **env,
                            struct signals *signals, attend_fn *attend)
{
    struct sandbox_op *op = NULL;
    struct sandbox_error *error = NULL;
    int r;

    if (signals->last) /* it came when the create was as good as done */
        return 128 + signals->last;
    r = sandbox_start_begin(sandbox, &op, &error);
    if (!r)
        r = op_finish(tool, op, signals, &error);
    if (r)
        return step_failed(tool, r, signals, error);
    if (signals->last)
        return 128 + signals->last;
    return attend(tool, sandbox, arguments, env, signals);
}

static int run(struct tool *tool, const struct arguments *arguments, const struct sandbox_spec *spec, char **env,
               struct signals *signals, attend_fn *attend)
{
    struct sandbox *sandbox = NULL;
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = NULL;
    int status = create(tool, spec, signals, &sandbox), r;

    if (status)
        return status;
    status = start_and_attend(tool, sandbox, arguments, env, signals, attend);
    if (arguments->keep) {
        if (!tool->json)
            fprintf(stderr, "sandbox: kept %s\n", sandbox_get_id(sandbox));
    } else {
        r = sandbox_delete_begin(sandbox, &op, &error);
        if (!r)
            r = op_finish(tool, op, NULL, &error);
        if (r)
            status = report_error(tool, error);
    }
    sandbox_unref(sandbox);
    return status;
}

int run_in_new(struct tool *tool, const struct arguments *arguments, attend_fn *attend)
{
    int lifetime = arguments->keep ? SANDBOX_LIFETIME_DETACHED : SANDBOX_LIFETIME_OWNED;
    struct sandbox_spec *spec = NULL;
    struct signals signals;
    char **env = NULL;
    int status = attend_check(tool, arguments);

    if (!status)
        status = signals_open(tool, &signals);
    if (status)
        return status;
    status = spec_from_arguments(tool, arguments, lifetime, &spec);
    if (!status)
        status = spec_environment(tool, arguments, &env); /* for the command alone: it is written into no record */
    if (!status)
        status = tool_open_host(tool);
    if (!status)
        status = pull_image(tool, arguments, &signals);
    if (!status)
        status = run(tool, arguments, spec, env, &signals, attend);
    spec_environment_free(env);
    sandbox_spec_unref(spec);
    signals_close(&signals);
    return status;
}

int command_run(struct tool *tool, const struct arguments *arguments)
{
    struct arguments own = *arguments;

    own.no_detach = !arguments->keep; /* else the sandbox would go, and the command with it */
    if (own.no_detach && own.detach_keys)
        return report(tool, SANDBOX_EINVALID, "detach-keys", "add --keep", "the sandbox of a run without --keep ends with it");
    return run_in_new(tool, &own, attend_exec);
}

int run_in_old(struct tool *tool, const struct arguments *arguments, attend_fn *attend)
{
    struct sandbox *sandbox = NULL;
    struct signals signals;
    char **env = NULL;
    int status = attend_check(tool, arguments);

    if (!status)
        status = signals_open(tool, &signals);
    if (status)
        return status;
    status = spec_environment(tool, arguments, &env);
    if (!status)
        status = tool_open_host(tool);
    if (!status)
        status = tool_open_sandbox(tool, arguments->operands[0], &sandbox);
    if (!status)
        status = attend(tool, sandbox, arguments, env, &signals);
    sandbox_unref(sandbox);
    spec_environment_free(env);
    signals_close(&signals);
    return status;
}

int command_exec(struct tool *tool, const struct arguments *arguments)
{
    return run_in_old(tool, arguments, attend_exec);
}
