/* SPDX-License-Identifier: Apache-2.0
 * Errors are objects of their own, owned by the caller, never thread-local: what a program keeps of a failed call stays
 * true while other calls are made. When memory for one is short, a static error without details stands in. */
#include "errors.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sandbox_error {
    atomic_int refs; /* -1: static, never released */
    int code;
    int sys_errno;
    int retryable;
    char operation[32];
    char backend[16];
    char phase[32];
    char field[64];
    char hint[384];
    char message[768];
};

static struct sandbox_error no_memory = {
    .refs = -1, .code = SANDBOX_ENOMEM, .sys_errno = ENOMEM, .retryable = 1, .message = "out of memory",
};

static void copy(char *to, size_t size, const char *from)
{
    if (size && from)
        snprintf(to, size, "%s", from);
}

static int vfail(struct sandbox_error **error, const struct sb_fail_args *args, const char *suffix, const char *format, va_list ap)
{
    struct sandbox_error *e;
    size_t n;

    if (!error || *error)
        return args->code;
    e = calloc(1, sizeof *e);
    if (!e) {
        *error = &no_memory;
        return args->code;
    }
    atomic_init(&e->refs, 1);
    e->code = args->code;
    e->sys_errno = args->sys_errno;
    e->retryable = args->retryable;
    copy(e->phase, sizeof e->phase, args->phase);
    copy(e->field, sizeof e->field, args->field);
    copy(e->hint, sizeof e->hint, args->hint);
    vsnprintf(e->message, sizeof e->message, format, ap);
    n = strlen(e->message);
    if (suffix)
        snprintf(e->message + n, sizeof e->message - n, ": %s", suffix);
    for (char *p = e->message; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) /* one line, safe on a terminal, whatever a path held */
            *p = '?';
    *error = e;
    return args->code;
}

int sb_fail(struct sandbox_error **error, const struct sb_fail_args *args, const char *format, ...)
{
    va_list ap;
    int r;

    va_start(ap, format);
    r = vfail(error, args, NULL, format, ap);
    va_end(ap);
    return r;
}

int sb_code_from_errno(int sys_errno)
{
    switch (sys_errno) {
    case ENOSPC:
    case EDQUOT:
        return SANDBOX_ENOSPACE;
    case EROFS:
        return SANDBOX_EREADONLY;
    case ENOMEM:
        return SANDBOX_ENOMEM;
    case EACCES:
    case EPERM:
        return SANDBOX_EDENIED;
    case ENOENT:
        return SANDBOX_ENOTFOUND;
    case EEXIST:
        return SANDBOX_EEXISTS;
    case EMFILE:
    case ENFILE:
    case ETOOMANYREFS:
    case EAGAIN:
        return SANDBOX_ELIMIT;
    case ETIMEDOUT:
        return SANDBOX_ETIMEDOUT;
    default:
        return SANDBOX_EIO;
    }
}

int sb_fail_errno(struct sandbox_error **error, int sys_errno, const char *phase, const char *format, ...)
{
    struct sb_fail_args args = { .code = sb_code_from_errno(sys_errno), .sys_errno = sys_errno, .phase = phase };
    char text[128];
    va_list ap;
    int r;

    args.retryable = args.code == SANDBOX_ENOMEM || sys_errno == EAGAIN || sys_errno == EMFILE || sys_errno == ENFILE;
    /* the GNU form returns a pointer, maybe to a static string */
    const char *reason = strerror_r(sys_errno, text, sizeof text);
    va_start(ap, format);
    r = vfail(error, &args, reason, format, ap);
    va_end(ap);
    return r;
}

void sb_error_set_operation(struct sandbox_error **error, const char *operation, const char *backend)
{
    if (!error || !*error || *error == &no_memory)
        return;
    if (!(*error)->operation[0])
        copy((*error)->operation, sizeof (*error)->operation, operation);
    if (!(*error)->backend[0])
        copy((*error)->backend, sizeof (*error)->backend, backend);
}

void sb_error_set_field(struct sandbox_error **error, const char *field)
{
    if (error && *error && *error != &no_memory && !(*error)->field[0])
        copy((*error)->field, sizeof (*error)->field, field);
}

void sb_error_set_hint(struct sandbox_error **error, const char *hint)
{
    if (error && *error && *error != &no_memory && !(*error)->hint[0])
        copy((*error)->hint, sizeof (*error)->hint, hint);
}

struct sandbox_error *sandbox_error_ref(struct sandbox_error *error)
{
    if (error && error != &no_memory)
        atomic_fetch_add(&error->refs, 1);
    return error;
}

struct sandbox_error *sandbox_error_unref(struct sandbox_error *error)
{
    if (error && error != &no_memory && atomic_fetch_sub(&error->refs, 1) == 1)
        free(error);
    return NULL;
}

int sandbox_error_get_code(const struct sandbox_error *error)
{
    return error ? error->code : 0;
}

const char *sandbox_error_get_operation(const struct sandbox_error *error)
{
    return error ? error->operation : "";
}

const char *sandbox_error_get_backend(const struct sandbox_error *error)
{
    return error ? error->backend : "";
}

const char *sandbox_error_get_phase(const struct sandbox_error *error)
{
    return error ? error->phase : "";
}

const char *sandbox_error_get_field(const struct sandbox_error *error)
{
    return error ? error->field : "";
}

int sandbox_error_get_errno(const struct sandbox_error *error)
{
    return error ? error->sys_errno : 0;
}

const char *sandbox_error_get_message(const struct sandbox_error *error)
{
    return error ? error->message : "";
}

const char *sandbox_error_get_hint(const struct sandbox_error *error)
{
    return error ? error->hint : "";
}

int sandbox_error_get_retryable(const struct sandbox_error *error)
{
    return error ? error->retryable : 0;
}
