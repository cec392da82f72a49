/* SPDX-License-Identifier: Apache-2.0
 * How a row ends: with its verdict on a pipe, after what it made was removed. */
#include "contract.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int verdict_fd = -1;
static int ending;

static _Noreturn void end_row(char verdict, const char *text)
{
    char message[2000];
    int n = snprintf(message, sizeof message, "%c%s", verdict, text);

    if (!ending++)
        row_clean();
    if (n >= (int)sizeof message)
        n = (int)sizeof message - 1;
    if (write(verdict_fd, message, (size_t)n) != n)
        _exit(3);
    _exit(0);
}

void row_failed(const char *format, ...)
{
    char text[1900];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    end_row('2', text);
}

void row_unsupported(const char *format, ...)
{
    char text[1900];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    end_row('1', text);
}

void row_run(const struct row *row, int fd)
{
    verdict_fd = fd;
    snprintf(contract.row, sizeof contract.row, "%d", (int)getpid());
    row->check();
    end_row('0', "");
}

void row_need(int result, struct sandbox_error **error, const char *what)
{
    char text[1800];

    if (result >= 0)
        return;
    snprintf(text, sizeof text, "%s: %s: %s%s%s", what, sandbox_code_name(result),
             *error ? sandbox_error_get_message(*error) : "no error object came",
             *error && *sandbox_error_get_hint(*error) ? "; " : "", *error ? sandbox_error_get_hint(*error) : "");
    if (result == SANDBOX_EUNSUPPORTED || result == SANDBOX_EDENIED)
        row_unsupported("%s", text);
    row_failed("%s", text);
}

void row_refused(int result, int code, struct sandbox_error **error, const char *what)
{
    if (result >= 0)
        row_failed("%s: succeeded, where %s is right", what, sandbox_code_name(code));
    if (result != code && result == SANDBOX_EUNSUPPORTED)
        row_need(result, error, what);
    if (result != code)
        row_failed("%s: %s (%s), where %s is right", what, sandbox_code_name(result),
                   *error ? sandbox_error_get_message(*error) : "", sandbox_code_name(code));
    if (!*error || sandbox_error_get_code(*error) != code || !*sandbox_error_get_message(*error) ||
        !*sandbox_error_get_operation(*error) || !*sandbox_error_get_backend(*error))
        row_failed("%s: the error lacks its code, operation, backend or message", what);
    *error = sandbox_error_unref(*error);
}
