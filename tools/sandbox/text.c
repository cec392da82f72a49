/* SPDX-License-Identifier: Apache-2.0
 * Texts for people and the memory they stand in. */
#include "tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

void tool_cleanup_free(void *p)
{
    free(*(void **)p);
}

static void out_of_memory(void)
{
    fputs("sandbox: out of memory\n", stderr);
    _exit(TOOL_EXIT_FAILED);
}

void *tool_allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);

    if (!p)
        out_of_memory();
    return p;
}

char *tool_format(const char *format, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0)
        out_of_memory();
    va_end(ap);
    return text;
}

const char *text_age(int64_t created_ms, char *buffer, size_t size)
{
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = { { 86400, "day" }, { 3600, "hour" }, { 60, "minute" }, { 1, "second" } };
    int64_t age = (int64_t)time(NULL) - created_ms / 1000;

    for (size_t i = 0; i < TOOL_ELEMENTS(units); i++)
        if (age >= units[i].seconds) {
            int64_t n = age / units[i].seconds;

            snprintf(buffer, size, "%" PRId64 " %s%s ago", n, units[i].name, n == 1 ? "" : "s");
            return buffer;
        }
    snprintf(buffer, size, "just now"); /* also when the clock was put back */
    return buffer;
}

const char *text_bytes(int64_t bytes, char *buffer, size_t size)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < TOOL_ELEMENTS(units)) {
        value /= 1024;
        unit++;
    }
    snprintf(buffer, size, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return buffer;
}

const char *text_state(int state)
{
    switch (state) {
    case SANDBOX_STATE_CREATING:
        return "creating";
    case SANDBOX_STATE_CREATED:
        return "created";
    case SANDBOX_STATE_RUNNING:
        return "running";
    case SANDBOX_STATE_STOPPED:
        return "stopped";
    case SANDBOX_STATE_FAILED:
        return "failed";
    case SANDBOX_STATE_DAMAGED:
        return "damaged";
    case SANDBOX_STATE_PAUSED:
        return "paused";
    default:
        return "unknown";
    }
}

int write_whole(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}
