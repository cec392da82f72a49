/* SPDX-License-Identifier: Apache-2.0
 * logs, wait, attach. What a daemon or a command wrote goes out as it came, byte by byte, stdout to stdout and stderr to stderr; only
 * --timestamps puts something in front of a line, and never within one. */
#include "tool.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct printer {
    struct tool *tool;
    int timestamps;
    int within[3]; /* by stream: the last byte was no newline */
};

static int put_time(int fd, int64_t time_ns)
{
    time_t seconds = (time_t)(time_ns / 1000000000);
    char text[64], whole[96];
    struct tm tm;
    int n;

    if (!gmtime_r(&seconds, &tm) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm))
        return 0;
    n = snprintf(whole, sizeof whole, "%s.%09dZ ", text, (int)(time_ns % 1000000000));
    return write_whole(fd, whole, (size_t)n);
}

static int put_output(struct printer *p, const struct sandbox_log_record *record)
{
    int fd = record->stream == SANDBOX_LOG_STDERR ? STDERR_FILENO : STDOUT_FILENO, r = 0;
    const char *data = record->data;
    size_t left = record->data_size;

    if (!p->timestamps)
        return write_whole(fd, data, left);
    while (left > 0 && !r) {
        const char *newline = memchr(data, '\n', left);
        size_t n = newline ? (size_t)(newline - data) + 1 : left;

        if (!p->within[record->stream])
            r = put_time(fd, record->time_ns);
        if (!r)
            r = write_whole(fd, data, n);
        p->within[record->stream] = !newline;
        data += n;
        left -= n;
    }
    return r;
}

static char *to_base64(const unsigned char *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = tool_allocate(size / 3 * 4 + 5, 1), *at = text;

    for (size_t i = 0; i < size; i += 3) {
        unsigned int three = (unsigned int)data[i] << 16 | (i + 1 < size ? data[i + 1] << 8 : 0) | (i + 2 < size ? data[i + 2] : 0);

        *at++ = digits[three >> 18];
        *at++ = digits[three >> 12 & 63];
        *at++ = i + 1 < size ? digits[three >> 6 & 63] : '=';
        *at++ = i + 2 < size ? digits[three & 63] : '=';
    }
    return text;
}

static json_t *bytes_to_json(const void *data, size_t size)
{
    json_t *text = json_stringn(data, size);
    TOOL_FREE char *base64 = NULL;

    if (text)
        return text;
    base64 = to_base64(data, size);
    return json_pack("{s:s}", "base64", base64);
}

/* One record, one line. */
static int put_json(const struct sandbox_log_record *record)
{
    static const char *const kinds[] = { "", "output", "lost", "started", "ended" };
    static const char *const streams[] = { "", "stdout", "stderr" };
    json_t *json = json_pack("{s:s, s:I, s:I}", "kind", record->kind >= 1 && record->kind <= 4 ? kinds[record->kind] : "", "time_ns",
                             (json_int_t)record->time_ns, "position", (json_int_t)record->position);
    char *text;
    int r;

    if (record->kind == SANDBOX_LOG_OUTPUT) {
        json_object_set_new(json, "stream", json_string(record->stream == 1 || record->stream == 2 ? streams[record->stream] : ""));
        json_object_set_new(json, "data", bytes_to_json(record->data, record->data_size));
    } else if (record->kind == SANDBOX_LOG_LOST) {
        json_object_set_new(json, "lost", json_integer(record->lost));
        json_object_set_new(json, "damaged", json_boolean(record->damaged));
    } else if (record->kind == SANDBOX_LOG_ENDED) {
        json_object_set_new(json, "exec_kind", json_integer(record->exec_kind));
        json_object_set_new(json, "code", json_integer(record->code));
        json_object_set_new(json, "signal", json_integer(record->signal));
    }
    text = json_dumps(json, JSON_COMPACT | JSON_PRESERVE_ORDER);
    r = !text || puts(text) < 0 || fflush(stdout) != 0 ? -EIO : 0;
    free(text);
    json_decref(json);
    return r;
}

static int put_record(struct printer *p, const struct sandbox_log_record *record)
{
    if (p->tool->json)
        return put_json(record);
    if (record->kind == SANDBOX_LOG_OUTPUT)
        return put_output(p, record);
    if (record->kind == SANDBOX_LOG_LOST && record->damaged)
        fprintf(stderr, "sandbox: the log is damaged here: output is missing\n");
    else if (record->kind == SANDBOX_LOG_LOST)
        fprintf(stderr, "sandbox: %lld bytes of output were not kept\n", (long long)record->lost);
    else if (record->kind == SANDBOX_LOG_ENDED && !record->exec_kind)
        fprintf(stderr, "sandbox: it was never executed\n");
    return 0;
}

static int print_log(struct tool *tool, struct sandbox_log *log, int timestamps)
{
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct printer printer = { .tool = tool, .timestamps = timestamps };
    struct sandbox_error *error = NULL;
    int r, failed = 0;

    while (!failed && (r = sandbox_log_read(log, -1, &record, &error)) == 1)
        failed = put_record(&printer, &record);
    if (failed)
        return report(tool, SANDBOX_EIO, "stdout", NULL, "writing the output: %s", strerror(-failed));
    return r ? report_error(tool, error) : 0;
}

static unsigned int streams_of(const struct arguments *arguments)
{
    return (arguments->only_stdout ? 1u << SANDBOX_LOG_STDOUT : 0) | (arguments->only_stderr ? 1u << SANDBOX_LOG_STDERR : 0);
}

int command_logs(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox *sandbox = NULL;
    struct sandbox_log *log = NULL;
    struct sandbox_error *error = NULL;
    int status = tool_open_host(tool);

    options.streams = streams_of(arguments);
    options.follow = (int)arguments->follow;
    options.tail = arguments->tail;
    options.since_ms = arguments->since_ms;
    options.until_ms = arguments->until_ms;
    if (!status)
        status = tool_open_sandbox(tool, arguments->operands[0], &sandbox);
    if (!status && sandbox_log_open(sandbox, &options, &log, &error))
        status = report_error(tool, error);
    if (!status)
        status = print_log(tool, log, (int)arguments->timestamps);
    sandbox_log_close(log);
    sandbox_unref(sandbox);
    return status;
}

static int fail_wait(struct tool *tool, int code, struct sandbox_error *error)
{
    report_error(tool, error);
    return code == SANDBOX_ETIMEDOUT ? TOOL_EXIT_DEADLINE : TOOL_EXIT_FAILED;
}

static int wait_for_end(struct tool *tool, struct sandbox *sandbox, int64_t timeout_ms)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_error *error = NULL;
    int r = sandbox_wait(sandbox, timeout_ms, &result, &error), code;

    if (r)
        return fail_wait(tool, r, error);
    if (result.kind == SANDBOX_EXEC_LOST)
        return report(tool, SANDBOX_ELOST, "", NULL, "the sandbox ended before its daemon did; how it ended is unknown");
    code = result.kind == SANDBOX_EXEC_EXITED ? result.code : 128 + result.signal;
    printf(tool->json ? "{\"code\":%d}\n" : "%d\n", code);
    return 0;
}

int command_wait(struct tool *tool, const struct arguments *arguments)
{
    int64_t timeout_ms = arguments->timeout_ms ? arguments->timeout_ms : -1;
    struct sandbox *sandbox = NULL;
    struct sandbox_error *error = NULL;
    int status = tool_open_host(tool), r;

    if (!status)
        status = tool_open_sandbox(tool, arguments->operands[0], &sandbox);
    if (!status && arguments->health) {
        status = wait_for_health(tool, sandbox, timeout_ms);
    } else if (!status && arguments->marker) {
        r = sandbox_log_wait(sandbox, arguments->marker, strlen(arguments->marker), streams_of(arguments), timeout_ms, NULL, &error);
        status = r ? fail_wait(tool, r, error) : 0;
    } else if (!status) {
        status = wait_for_end(tool, sandbox, timeout_ms);
    }
    sandbox_unref(sandbox);
    return status;
}

/* The journal, if there is one, from its beginning to the command's end. */
static int replay(struct tool *tool, struct sandbox_exec *exec, int timestamps)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log *log = NULL;
    struct sandbox_error *error = NULL;
    int r, status;

    options.follow = 1;
    r = sandbox_exec_log_open(exec, &options, &log, &error);
    if (r == SANDBOX_EINVALID) {
        sandbox_error_unref(error);
        return 0;
    }
    if (r)
        return report_error(tool, error);
    status = print_log(tool, log, timestamps);
    sandbox_log_close(log);
    return status;
}

int command_attach(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox *sandbox = NULL;
    struct sandbox_exec *exec = NULL;
    struct sandbox_error *error = NULL;
    int status = tool_open_host(tool);

    if (!status)
        status = tool_open_sandbox(tool, arguments->operands[0], &sandbox);
    if (!status && sandbox_exec_open(sandbox, arguments->operands[1], &exec, &error))
        status = report_error(tool, error);
    if (!status && arguments->tty)
        status = attend_again(tool, sandbox, exec, arguments);
    else if (!status)
        status = replay(tool, exec, (int)arguments->timestamps);
    if (!status && !arguments->tty)
        status = sandbox_exec_wait(exec, -1, &result, &error) ? report_error(tool, error) : attend_status(tool, &result);
    sandbox_exec_unref(exec);
    sandbox_unref(sandbox);
    return status;
}
