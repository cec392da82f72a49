/* SPDX-License-Identifier: Apache-2.0
 * Sandboxes: create, open, start, stop, kill, delete. */
#include "handles.h"

#include <string.h>

int sb_sandbox_new(struct sandbox_host *host, const char *id, struct sandbox **ret_sandbox, struct sandbox_error **error)
{
    struct sandbox *sandbox = calloc(1, sizeof *sandbox);

    if (!sandbox)
        return sb_fail_memory(error);
    atomic_init(&sandbox->refs, 1);
    sandbox->host = sandbox_host_ref(host);
    memcpy(sandbox->id, id, sizeof sandbox->id);
    *ret_sandbox = sandbox;
    return 0;
}

int sb_sandbox_check(const struct sandbox *sandbox, struct sandbox_error **error)
{
    return sandbox ? sb_host_check(sandbox->host, error) : sb_fail_null(error, "sandbox");
}

static const struct sandbox_host *host_of(const struct sandbox *sandbox)
{
    return sandbox ? sandbox->host : NULL;
}

static const char *backend_of(const struct sandbox_host *host)
{
    return host->driver->ops->name;
}

static int create_begin(struct sandbox_host *host, const struct sandbox_spec *spec, struct sandbox_op **ret_op,
                        struct sandbox_error **error)
{
    struct sb_op *op;
    int r = sb_host_check(host, error);

    if (r)
        return r;
    if (!spec)
        return sb_fail_null(error, "spec");
    if (!ret_op)
        return sb_fail_null(error, "ret_op");
    if (!host->driver->ops->create)
        return sb_fail_slot(error, host, "create", NULL);
    r = host->driver->ops->create(host->driver, spec, &op, error);
    return r ? r : sb_op_new(op, host, NULL, "create", backend_of(host), ret_op, error);
}

int sandbox_create_begin(struct sandbox_host *host, const struct sandbox_spec *spec, struct sandbox_op **ret_op,
                         struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(create_begin(host, spec, ret_op, &failure), &failure, error, "create", host);
}

int sandbox_create(struct sandbox_host *host, const struct sandbox_spec *spec, int64_t timeout_ms, struct sandbox **ret_sandbox,
                   struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = ret_sandbox ? sb_check_timeout(timeout_ms, "timeout_ms", &failure) : sb_fail_null(&failure, "ret_sandbox");

    if (!r)
        r = create_begin(host, spec, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    if (!r)
        r = sandbox_op_take_sandbox(op, ret_sandbox, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "create", host);
}

static int open_by_id(struct sandbox_host *host, const char *id, struct sandbox **ret_sandbox, struct sandbox_error **error)
{
    const struct sb_driver_ops *ops;
    json_t *document = NULL;
    int r = sb_host_check(host, error);

    if (r)
        return r;
    if (!ret_sandbox)
        return sb_fail_null(error, "ret_sandbox");
    if (!sb_id_valid(id))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "id", .hint = "use the whole id; sandbox_host_list() finds by name"),
                       "id is not %d lowercase hexadecimal digits", SANDBOX_ID_LENGTH);
    ops = host->driver->ops;
    if (!ops->open && !ops->inspect)
        return sb_fail_slot(error, host, "open", NULL);
    r = ops->open ? ops->open(host->driver, id, error) : ops->inspect(host->driver, id, &document, error);
    if (r)
        return r;
    json_decref(document);
    return sb_sandbox_new(host, id, ret_sandbox, error);
}

int sandbox_open(struct sandbox_host *host, const char *id, struct sandbox **ret_sandbox, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(open_by_id(host, id, ret_sandbox, &failure), &failure, error, "open", host);
}

struct sandbox *sandbox_ref(struct sandbox *sandbox)
{
    if (sandbox)
        atomic_fetch_add(&sandbox->refs, 1);
    return sandbox;
}

struct sandbox *sandbox_unref(struct sandbox *sandbox)
{
    if (!sandbox || atomic_fetch_sub(&sandbox->refs, 1) != 1)
        return NULL;
    sandbox_host_unref(sandbox->host);
    free(sandbox);
    return NULL;
}

const char *sandbox_get_id(const struct sandbox *sandbox)
{
    return sandbox ? sandbox->id : "";
}

static int start_begin(struct sandbox *sandbox, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_host *host;
    struct sb_op *op;
    int r = sb_sandbox_check(sandbox, error);

    if (r)
        return r;
    if (!ret_op)
        return sb_fail_null(error, "ret_op");
    host = sandbox->host;
    if (!host->driver->ops->start)
        return sb_fail_slot(error, host, "start", NULL);
    r = host->driver->ops->start(host->driver, sandbox->id, &op, error);
    return r ? r : sb_op_new(op, host, NULL, "start", backend_of(host), ret_op, error);
}

int sandbox_start_begin(struct sandbox *sandbox, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(start_begin(sandbox, ret_op, &failure), &failure, error, "start", host_of(sandbox));
}

int sandbox_start(struct sandbox *sandbox, int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = sb_check_timeout(timeout_ms, "timeout_ms", &failure);

    if (!r)
        r = start_begin(sandbox, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "start", host_of(sandbox));
}

static int stop_begin(struct sandbox *sandbox, int64_t grace_ms, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_host *host;
    struct sb_op *op;
    int r = sb_sandbox_check(sandbox, error);

    if (!r)
        r = sb_check_timeout(grace_ms, "grace_ms", error);
    if (r)
        return r;
    if (!ret_op)
        return sb_fail_null(error, "ret_op");
    host = sandbox->host;
    if (!host->driver->ops->stop)
        return sb_fail_slot(error, host, "stop", NULL);
    r = host->driver->ops->stop(host->driver, sandbox->id, grace_ms, &op, error);
    return r ? r : sb_op_new(op, host, NULL, "stop", backend_of(host), ret_op, error);
}

int sandbox_stop_begin(struct sandbox *sandbox, int64_t grace_ms, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(stop_begin(sandbox, grace_ms, ret_op, &failure), &failure, error, "stop", host_of(sandbox));
}

int sandbox_stop(struct sandbox *sandbox, int64_t grace_ms, int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = sb_check_timeout(timeout_ms, "timeout_ms", &failure);

    if (!r && timeout_ms >= 0 && (grace_ms == -1 || grace_ms > timeout_ms))
        r = sb_fail(&failure, SB_ARGS(SANDBOX_EINVALID, .field = "timeout_ms"), "timeout_ms is shorter than grace_ms");
    if (!r)
        r = stop_begin(sandbox, grace_ms, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "stop", host_of(sandbox));
}

static int kill_daemon(struct sandbox *sandbox, int signal, struct sandbox_error **error)
{
    struct sandbox_host *host;
    int r = sb_sandbox_check(sandbox, error);

    if (!r)
        r = sb_check_signal(signal, error);
    if (r)
        return r;
    host = sandbox->host;
    if (!host->driver->ops->kill)
        return sb_fail_slot(error, host, "kill", "use sandbox_stop()");
    return host->driver->ops->kill(host->driver, sandbox->id, signal, error);
}

int sandbox_kill(struct sandbox *sandbox, int signal, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(kill_daemon(sandbox, signal, &failure), &failure, error, "kill", host_of(sandbox));
}

static int delete_begin(struct sandbox *sandbox, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_host *host;
    struct sb_op *op;
    int r = sb_sandbox_check(sandbox, error);

    if (r)
        return r;
    if (!ret_op)
        return sb_fail_null(error, "ret_op");
    host = sandbox->host;
    if (!host->driver->ops->remove)
        return sb_fail_slot(error, host, "delete", NULL);
    r = host->driver->ops->remove(host->driver, sandbox->id, &op, error);
    return r ? r : sb_op_new(op, host, NULL, "delete", backend_of(host), ret_op, error);
}

int sandbox_delete_begin(struct sandbox *sandbox, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(delete_begin(sandbox, ret_op, &failure), &failure, error, "delete", host_of(sandbox));
}

int sandbox_delete(struct sandbox *sandbox, int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = sb_check_timeout(timeout_ms, "timeout_ms", &failure);

    if (!r)
        r = delete_begin(sandbox, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "delete", host_of(sandbox));
}
