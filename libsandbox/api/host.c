/* SPDX-License-Identifier: Apache-2.0
 * Hosts: opened by URI through the table of backends, counted, closed. */
#include "handles.h"
#include "options.h"
#include "rules.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { URI_MAX = 8192 };

int sb_host_new(struct sb_driver *driver, const char *uri, struct sandbox_host **ret_host, struct sandbox_error **error)
{
    struct sandbox_host *host = calloc(1, sizeof *host);
    int r;

    if (!host || !(host->uri = strdup(uri))) {
        r = sb_fail_memory(error);
        goto fail;
    }
    host->close_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (host->close_fd < 0) {
        r = sb_fail_errno(error, errno, "eventfd", "no descriptor for the host handle");
        goto fail;
    }
    atomic_init(&host->refs, 1);
    atomic_init(&host->closed, 0);
    host->pid = getpid();
    host->driver = driver;
    driver->close_fd = host->close_fd;
    *ret_host = host;
    return 0;
fail:
    driver->ops->free(driver);
    if (host)
        free(host->uri);
    free(host);
    return r;
}

int sb_host_forked(const struct sandbox_host *host)
{
    return host->pid != getpid();
}

int sb_host_check(const struct sandbox_host *host, struct sandbox_error **error)
{
    if (!host)
        return sb_fail_null(error, "host");
    if (sb_host_forked(host))
        return sb_fail(error, SB_ARGS(SANDBOX_EFORKED, .hint = "open the host again in this process"),
                       "the handle was made by process %d, before a fork", (int)host->pid);
    return atomic_load(&host->closed) ? sb_fail_closed(error) : 0;
}

/* "scheme:rest" → its backend. A scheme is a letter and then letters, digits, '+', '-' or '.', as in RFC 3986. */
static int find_backend(const char *uri, const struct sb_backend **ret_backend, const char **ret_rest, struct sandbox_error **error)
{
    size_t n;

    if (!uri)
        return sb_fail_null(error, "uri");
    n = strspn(uri, "abcdefghijklmnopqrstuvwxyz0123456789+-.");
    if (!n || uri[n] != ':' || uri[0] < 'a' || uri[0] > 'z' || strnlen(uri, URI_MAX + 1) > URI_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "uri", .hint = "use \"local:\" for this kernel"),
                       "the URI does not begin with a scheme and a colon, or is too long");
    *ret_backend = sb_backend_find(uri, n);
    if (!*ret_backend)
        return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .field = "uri", .hint = "use \"local:\" for this kernel"),
                       "this library has no backend for the scheme \"%.*s\"", (int)n, uri);
    *ret_rest = uri + n + 1;
    return 0;
}

static int check_folder(const char *path, const char *field, struct sandbox_error **error)
{
    if (!path || sb_path_absolute_safe(path))
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is not an absolute path without \"..\"", field);
}

/* Copies the ceiling into *limits, of this library's size, and lets the options name that. */
static int take_ceiling(struct sandbox_host_options *options, struct sandbox_limits *limits, struct sandbox_error **error)
{
    struct sb_limits checked = { 0 };
    int r = 0;

    if (options->flags & ~SANDBOX_HOST_KEEP_CEILING || (options->flags && !options->ceiling))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "flags"), "flags has bits that are not known, or no ceiling to keep");
    if (options->ceiling)
        r = sb_limits_take(&checked, options->ceiling, error);
    if (!r && options->ceiling)
        r = sb_options_read(limits, sizeof *limits, SB_SIZE_TO(struct sandbox_limits, io), options->ceiling, error);
    if (options->ceiling)
        options->ceiling = limits;
    return r;
}

static int open_begin(const char *uri, const struct sandbox_host_options *options, struct sandbox_op **ret_op,
                      struct sandbox_error **error)
{
    struct sandbox_host_options known = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_limits ceiling = SANDBOX_LIMITS_INIT;
    const struct sb_backend *backend;
    struct sb_op *op;
    const char *rest;
    int r;

    if (!ret_op)
        return sb_fail_null(error, "ret_op");
    r = sb_options_read(&known, sizeof known, SB_SIZE_TO(struct sandbox_host_options, agent_dir), options, error);
    if (!r)
        r = check_folder(known.state_root, "state_root", error);
    if (!r)
        r = check_folder(known.agent_dir, "agent_dir", error);
    if (!r)
        r = take_ceiling(&known, &ceiling, error);
    if (!r)
        r = find_backend(uri, &backend, &rest, error);
    if (r)
        return r;
    r = backend->open(rest, &known, &op, error);
    if (r) {
        sb_error_set_operation(error, "open", backend->scheme);
        return r;
    }
    return sb_op_new(op, NULL, uri, "open", backend->scheme, ret_op, error);
}

int sandbox_host_open_begin(const char *uri, const struct sandbox_host_options *options, struct sandbox_op **ret_op,
                            struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(open_begin(uri, options, ret_op, &failure), &failure, error, "open", NULL);
}

int sandbox_host_open(const char *uri, const struct sandbox_host_options *options, int64_t timeout_ms,
                      struct sandbox_host **ret_host, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = ret_host ? sb_check_timeout(timeout_ms, "timeout_ms", &failure) : sb_fail_null(&failure, "ret_host");

    if (!r)
        r = open_begin(uri, options, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    if (!r)
        r = sandbox_op_take_host(op, ret_host, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "open", NULL);
}

struct sandbox_host *sandbox_host_ref(struct sandbox_host *host)
{
    if (host)
        atomic_fetch_add(&host->refs, 1);
    return host;
}

struct sandbox_host *sandbox_host_unref(struct sandbox_host *host)
{
    if (!host || atomic_fetch_sub(&host->refs, 1) != 1)
        return NULL;
    if (!sb_host_forked(host)) {
        host->driver->ops->free(host->driver);
        sb_close(host->close_fd);
    }
    free(host->uri);
    free(host);
    return NULL;
}

int sandbox_host_close(struct sandbox_host *host, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    int r = sb_host_check(host, &failure);

    if (r == SANDBOX_ECLOSED) { /* idempotent */
        failure = sandbox_error_unref(failure);
        r = 0;
    } else if (!r) {
        atomic_store(&host->closed, 1);
        eventfd_write(host->close_fd, 1);
    }
    return sb_leave(r, &failure, error, "close", host);
}

const char *sandbox_host_get_uri(const struct sandbox_host *host)
{
    return host ? host->uri : "";
}

const char *sandbox_host_get_backend(const struct sandbox_host *host)
{
    return host ? host->driver->ops->name : "";
}
