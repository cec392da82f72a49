/* SPDX-License-Identifier: Apache-2.0
 * What every entry point does at its beginning and end: see handles.h. */
#include "handles.h"

int sb_fail_null(struct sandbox_error **error, const char *field)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is NULL", field);
}

int sb_fail_memory(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
}

int sb_fail_timeout(struct sandbox_error **error, int64_t timeout_ms)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ETIMEDOUT, .retryable = 1), "not done after %lld ms", (long long)timeout_ms);
}

int sb_fail_closed(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ECLOSED, .hint = "open the host again"), "the host handle was closed");
}

int sb_fail_slot(struct sandbox_error **error, const struct sandbox_host *host, const char *call, const char *hint)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .hint = hint), "%s is not supported by the %s backend", call,
                   host->driver->ops->name);
}

int sb_check_timeout(int64_t timeout_ms, const char *field, struct sandbox_error **error)
{
    if (timeout_ms >= -1)
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field, .hint = "use -1 to wait for ever, 0 to poll, or milliseconds"),
                   "%s is %lld", field, (long long)timeout_ms);
}

int sb_check_signal(int signal, struct sandbox_error **error)
{
    if (signal >= 1 && signal <= 64)
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "signal"), "signal %d is not within 1 to 64", signal);
}

int sb_leave(int r, struct sandbox_error **failure, struct sandbox_error **error, const char *operation,
             const struct sandbox_host *host)
{
    if (r >= 0) {
        *failure = sandbox_error_unref(*failure);
        return r;
    }
    if (!*failure) /* the caller is promised an object */
        sb_fail(failure, SB_ARGS(r), "%s failed with %s and nothing more is known", operation, sandbox_code_name(r));
    sb_error_set_operation(failure, operation, host ? host->driver->ops->name : "");
    if (error)
        *error = *failure;
    else
        sandbox_error_unref(*failure);
    return r;
}
