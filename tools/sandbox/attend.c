/* SPDX-License-Identifier: Apache-2.0
 * One command in a sandbox, on this process's own descriptors: no byte of its input and output passes through here. What is
 * left to do is to pass signals on and to turn the way it ended into an exit status. */
#include "tool.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static int start_failed(struct tool *tool, struct sandbox_error *error)
{
    int status = TOOL_EXIT_FAILED, code = error ? sandbox_error_get_code(error) : SANDBOX_EINTERNAL;

    if (code == SANDBOX_ENOTFOUND && strcmp(sandbox_error_get_field(error), "argv") == 0)
        status = TOOL_EXIT_NOT_FOUND;
    else if (code == SANDBOX_ENOTEXECUTABLE)
        status = TOOL_EXIT_NOT_EXECUTABLE;
    report_error(tool, error);
    return status;
}

int attend_status(struct tool *tool, const struct sandbox_exec_result *result)
{
    switch (result->kind) {
    case SANDBOX_EXEC_EXITED:
        return result->code;
    case SANDBOX_EXEC_SIGNALLED:
    case SANDBOX_EXEC_KILLED:
        return 128 + result->signal;
    case SANDBOX_EXEC_DEADLINE:
        report(tool, SANDBOX_ETIMEDOUT, "timeout", NULL, "the time given by --timeout passed; the command was killed");
        return TOOL_EXIT_DEADLINE;
    case SANDBOX_EXEC_OOM:
        report(tool, SANDBOX_ENOMEM, "memory", "give more by --memory", "the command was killed for want of memory");
        return 128 + SIGKILL;
    default:
        return report(tool, SANDBOX_ELOST, "", NULL, "the sandbox ended before the command did; how it ended is unknown");
    }
}

/* The first signal goes to the command, which may clean up; the second kills it and all it started. */
static void forward(struct sandbox_exec *exec, int signal, int again)
{
    if (again)
        sandbox_exec_kill(exec, SIGKILL, SANDBOX_KILL_DESCENDANTS, NULL);
    else
        sandbox_exec_kill(exec, signal, 0, NULL);
}

static int attend(struct tool *tool, struct sandbox_exec *exec, struct signals *signals)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct pollfd fds[2] = { { .fd = sandbox_exec_get_fd(exec), .events = POLLIN }, { .fd = signals->fd, .events = POLLIN } };
    struct sandbox_error *error = NULL;
    int forwarded = 0;

    for (;;) {
        int r, signal;

        poll(fds, 2, -1);
        if ((fds[1].revents & POLLIN) && (signal = signals_read(signals)))
            forward(exec, signal, forwarded++);
        r = sandbox_exec_wait(exec, 0, &result, &error);
        if (r == 0)
            return attend_status(tool, &result);
        if (r != SANDBOX_ETIMEDOUT)
            return report_error(tool, error);
        error = sandbox_error_unref(error);
    }
}

int attend_exec(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments, char **env, struct signals *signals)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;
    struct sandbox_error *error = NULL;
    struct limits limits;
    int status = limits_take(tool, arguments, &limits);

    if (limits.any && !strcmp(tool->command, "exec")) /* those of `run` are the sandbox's */
        options.limits = &limits.limits;
    options.user = arguments->user;
    options.workdir = arguments->workdir;
    options.env = (const char *const *)env;
    options.deadline_ms = arguments->timeout_ms;
    options.journal_max = arguments->journal_max;
    if (!arguments->detach) {
        options.stdin_fd = 0;
        options.stdout_fd = 1;
        options.stderr_fd = 2;
    } else if (!arguments->journal_max) {
        options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    }
    if (!status && arguments->journal_max && !arguments->detach)
        status = report(tool, SANDBOX_EINVALID, "journal", "add --detach, and read it by: sandbox attach", "--journal is for --detach");
    else if (!status && sandbox_exec(sandbox, arguments->argv, &options, &exec, &error))
        status = start_failed(tool, error);
    else if (!status && arguments->detach)
        status = printf(tool->json ? "{\"exec_id\":\"%s\"}\n" : "%s\n", sandbox_exec_get_id(exec)) < 0;
    else if (!status)
        status = attend(tool, exec, signals);
    sandbox_exec_unref(exec);
    limits_clear(&limits);
    return status;
}
