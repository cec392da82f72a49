/* SPDX-License-Identifier: Apache-2.0
 * What goes wrong, told on stderr: for people "sandbox: OPERATION: MESSAGE" and a hint, with --json one object on one line. */
#include "tool.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct failure {
    int code, sys_errno, retryable;
    const char *operation, *backend, *phase, *field, *message, *hint;
};

static void tell_json(const struct failure *f)
{
    json_t *json = json_pack("{s:{s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:b}}", "error", "code", sandbox_code_name(f->code),
                             "operation", f->operation, "backend", f->backend, "phase", f->phase, "field", f->field, "errno",
                             f->sys_errno, "message", f->message, "hint", f->hint, "retryable", f->retryable);
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;

    /* a message that quotes bytes which are no UTF-8 can't be JSON; the code still can */
    if (text)
        fprintf(stderr, "%s\n", text);
    else
        fprintf(stderr, "{\"error\":{\"code\":\"%s\"}}\n", sandbox_code_name(f->code));
    free(text);
    json_decref(json);
}

static void put_safe(FILE *to, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) {
            putc('?', to); /* C1 control characters, as UTF-8 */
            p++;
        } else {
            putc(*p < 0x20 || *p == 0x7f ? '?' : *p, to);
        }
}

static int tell(const struct tool *tool, const struct failure *f)
{
    if (tool->json) {
        tell_json(f);
        return TOOL_EXIT_FAILED;
    }
    fputs("sandbox: ", stderr);
    if (*f->operation) {
        put_safe(stderr, f->operation);
        fputs(": ", stderr);
    }
    put_safe(stderr, f->message);
    putc('\n', stderr);
    if (*f->hint) {
        fputs("  hint: ", stderr);
        put_safe(stderr, f->hint);
        putc('\n', stderr);
    }
    return TOOL_EXIT_FAILED;
}

int report_error(struct tool *tool, struct sandbox_error *error)
{
    struct failure f = { .code = SANDBOX_EINTERNAL, .operation = tool->command ? tool->command : "", .backend = "", .phase = "",
                         .field = "", .message = "failed without an error", .hint = "" };
    int status;

    if (error) {
        f.code = sandbox_error_get_code(error);
        f.sys_errno = sandbox_error_get_errno(error);
        f.retryable = sandbox_error_get_retryable(error);
        if (*sandbox_error_get_operation(error))
            f.operation = sandbox_error_get_operation(error);
        f.backend = sandbox_error_get_backend(error);
        f.phase = sandbox_error_get_phase(error);
        f.field = sandbox_error_get_field(error);
        f.message = sandbox_error_get_message(error);
        f.hint = sandbox_error_get_hint(error);
    }
    status = tell(tool, &f);
    sandbox_error_unref(error);
    return status;
}

int report(struct tool *tool, int code, const char *field, const char *hint, const char *format, ...)
{
    struct failure f = { .code = code, .operation = tool->command ? tool->command : "", .backend = "", .phase = "",
                         .field = field ? field : "", .hint = hint ? hint : "" };
    char message[1024];
    va_list ap;

    va_start(ap, format);
    vsnprintf(message, sizeof message, format, ap);
    va_end(ap);
    f.message = message;
    return tell(tool, &f);
}

int report_output(struct tool *tool, int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    return report(tool, SANDBOX_EIO, "stdout", NULL, "writing the output: %s", strerror(errno ? errno : EIO));
}

void print_safe(const char *text)
{
    put_safe(stdout, text);
}
