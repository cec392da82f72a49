/* SPDX-License-Identifier: Apache-2.0
 * Endpoints: a connection to a port inside. Forwards need a relay beside the caller, which no backend has yet. */
#include "handles.h"

static int check_port(int port, int min, const char *field, struct sandbox_error **error)
{
    if (port >= min && port <= 65535)
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s %d is not within %d to 65535", field, port, min);
}

static int dial(struct sandbox *sandbox, int port, int64_t timeout_ms, int *ret_fd, struct sandbox_error **error)
{
    struct sb_driver *driver;
    int r = sb_sandbox_check(sandbox, error);

    if (!r)
        r = check_port(port, 1, "port", error);
    if (!r)
        r = sb_check_timeout(timeout_ms, "timeout_ms", error);
    if (r)
        return r;
    if (!ret_fd)
        return sb_fail_null(error, "ret_fd");
    driver = sandbox->host->driver;
    if (!driver->ops->dial)
        return sb_fail_slot(error, sandbox->host, "dial", NULL);
    return driver->ops->dial(driver, sandbox->id, port, timeout_ms, ret_fd, error);
}

int sandbox_dial(struct sandbox *sandbox, int port, int64_t timeout_ms, int *ret_fd, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(dial(sandbox, port, timeout_ms, ret_fd, &failure), &failure, error, "dial", sandbox ? sandbox->host : NULL);
}

static int forward(struct sandbox *sandbox, int port, int local_port, struct sandbox_forward **ret_forward,
                   struct sandbox_error **error)
{
    int r = sb_sandbox_check(sandbox, error);

    if (!r)
        r = check_port(port, 1, "port", error);
    if (!r)
        r = check_port(local_port, 0, "local_port", error);
    if (r)
        return r;
    if (!ret_forward)
        return sb_fail_null(error, "ret_forward");
    return sb_fail_slot(error, sandbox->host, "forward", "use sandbox_dial() and carry the bytes");
}

int sandbox_forward_open(struct sandbox *sandbox, int port, int local_port, struct sandbox_forward **ret_forward,
                         struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(forward(sandbox, port, local_port, ret_forward, &failure), &failure, error, "forward",
                    sandbox ? sandbox->host : NULL);
}

/* No forward exists in this version, so whatever these get is none. */
int sandbox_forward_get_port(const struct sandbox_forward *forward_handle)
{
    (void)forward_handle;
    return SANDBOX_EINVALID;
}

struct sandbox_forward *sandbox_forward_close(struct sandbox_forward *forward_handle)
{
    (void)forward_handle;
    return NULL;
}
