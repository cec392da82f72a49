/* SPDX-License-Identifier: Apache-2.0
 * Endpoints: a connection to a port inside, or a listener here whose connections lead there. */
#include "handles.h"
#include "options.h"

#include <string.h>

struct sandbox_forward {
    struct sandbox_host *host;
    struct sb_forward *forward;
};

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
    struct sandbox_forward *made;
    struct sb_driver *driver;
    int r = sb_sandbox_check(sandbox, error);

    if (!r)
        r = check_port(port, 1, "port", error);
    if (!r)
        r = check_port(local_port, 0, "local_port", error);
    if (r)
        return r;
    if (!ret_forward)
        return sb_fail_null(error, "ret_forward");
    driver = sandbox->host->driver;
    if (!driver->ops->forward_open)
        return sb_fail_slot(error, sandbox->host, "forward", "use sandbox_dial() and carry the bytes");
    made = calloc(1, sizeof *made);
    if (!made)
        return sb_fail_memory(error);
    r = driver->ops->forward_open(driver, sandbox->id, port, local_port, &made->forward, error);
    if (r) {
        free(made);
        return r;
    }
    made->host = sandbox_host_ref(sandbox->host);
    *ret_forward = made;
    return 0;
}

int sandbox_forward_open(struct sandbox *sandbox, int port, int local_port, struct sandbox_forward **ret_forward,
                         struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(forward(sandbox, port, local_port, ret_forward, &failure), &failure, error, "forward",
                    sandbox ? sandbox->host : NULL);
}

int sandbox_forward_get_port(const struct sandbox_forward *forward_handle)
{
    if (!forward_handle)
        return SANDBOX_EINVALID;
    return sb_host_forked(forward_handle->host) ? SANDBOX_EFORKED : forward_handle->forward->port;
}

static int get_status(struct sandbox_forward *f, struct sandbox_forward_status *status, struct sandbox_error **error)
{
    struct sandbox_forward_status now = SANDBOX_FORWARD_STATUS_INIT;
    int r = f ? sb_host_check(f->host, error) : sb_fail_null(error, "forward");

    if (!r && !status)
        r = sb_fail_null(error, "status");
    if (!r)
        r = sb_options_check(status, sizeof now, SB_SIZE_TO(struct sandbox_forward_status, last_failure), error);
    if (!r)
        r = f->forward->ops->get_status(f->forward, &now, error);
    if (r)
        return r;
    now.cause[sizeof now.cause - 1] = now.last_failure[sizeof now.last_failure - 1] = 0;
    sb_options_write(status, &now, sizeof now);
    return 0;
}

int sandbox_forward_get_status(struct sandbox_forward *forward_handle, struct sandbox_forward_status *status,
                               struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(get_status(forward_handle, status, &failure), &failure, error, "forward",
                    forward_handle ? forward_handle->host : NULL);
}

struct sandbox_forward *sandbox_forward_close(struct sandbox_forward *forward_handle)
{
    if (!forward_handle)
        return NULL;
    if (!sb_host_forked(forward_handle->host)) /* else the maker's: memory alone is ours */
        forward_handle->forward->ops->free(forward_handle->forward);
    sandbox_host_unref(forward_handle->host);
    free(forward_handle);
    return NULL;
}
