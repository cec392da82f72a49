/* SPDX-License-Identifier: Apache-2.0
 * forward: says where it listens, and waits to be interrupted. Its sandbox may stop and start in the meantime; when it was deleted, or when
 * nothing listens any more, there is no use in waiting. */
#include "tool.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOOK_MS = 1000 };

static int wait_for_end(struct tool *tool, struct sandbox *sandbox, struct sandbox_forward *forward, struct signals *signals)
{
    for (;;) {
        struct sandbox_forward_status status = SANDBOX_FORWARD_STATUS_INIT;
        struct pollfd p = { .fd = signals->fd, .events = POLLIN };
        struct sandbox_info *info = NULL;
        struct sandbox_error *error = NULL;
        int signal;

        if (poll(&p, 1, LOOK_MS) > 0 && (signal = signals_read(signals)))
            return 128 + signal;
        if (sandbox_forward_get_status(forward, &status, &error))
            return report_error(tool, error);
        if (!status.listening)
            return report(tool, SANDBOX_EIO, "", NULL, "%s", status.cause);
        if (!status.healthy && sandbox_inspect(sandbox, &info, &error)) /* gone for good, and not only stopped */
            return report_error(tool, error);
        sandbox_info_unref(info);
    }
}

int command_forward(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox *sandbox = NULL;
    struct sandbox_forward *forward = NULL;
    struct sandbox_error *error = NULL;
    struct signals signals;
    int64_t port, local = 0;
    int status;

    if (value_count(arguments->operands[1], &port) || port < 1 || port > 65535)
        return report(tool, SANDBOX_EINVALID, "port", "a number from 1 to 65535", "\"%s\" is no port", arguments->operands[1]);
    if (arguments->n_operands > 2 && (value_count(arguments->operands[2], &local) || local > 65535))
        return report(tool, SANDBOX_EINVALID, "local_port", "a number from 1 to 65535, or 0 for any", "\"%s\" is no port",
                      arguments->operands[2]);
    status = tool_open_host(tool);
    if (!status)
        status = tool_open_sandbox(tool, arguments->operands[0], &sandbox);
    if (!status)
        status = signals_open(tool, &signals);
    if (status) {
        sandbox_unref(sandbox);
        return status;
    }
    if (sandbox_forward_open(sandbox, (int)port, (int)local, &forward, &error)) {
        status = report_error(tool, error);
    } else {
        printf(tool->json ? "{\"address\":\"127.0.0.1\",\"port\":%d}\n" : "127.0.0.1:%d\n", sandbox_forward_get_port(forward));
        fflush(stdout);
        status = wait_for_end(tool, sandbox, forward, &signals);
    }
    sandbox_forward_close(forward);
    sandbox_unref(sandbox);
    signals_close(&signals);
    return status;
}
