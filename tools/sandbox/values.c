/* SPDX-License-Identifier: Apache-2.0
 * Values as people write them. Strict: what isn't wholly understood is refused, and nothing wraps around. */
#include "tool.h"

#include <signal.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* Digits at *text as a number times `scale`, with up to three decimal places when scale is 1000. *text moves past them. */
static int read_number(const char **text, int64_t scale, int64_t *ret)
{
    const char *p = *text;
    int64_t value = 0;

    if (*p < '0' || *p > '9')
        return -1;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *p - '0', &value))
            return -1;
    if (__builtin_mul_overflow(value, scale, &value))
        return -1;
    if (scale == 1000 && *p == '.') {
        int64_t place = 100;

        if (*++p < '0' || *p > '9')
            return -1;
        for (; *p >= '0' && *p <= '9'; p++, place /= 10)
            if (place == 0 || __builtin_add_overflow(value, (*p - '0') * place, &value))
                return -1;
    }
    *text = p;
    *ret = value;
    return 0;
}

int value_count(const char *text, int64_t *ret)
{
    int64_t value;

    if (read_number(&text, 1, &value) || *text)
        return -1;
    *ret = value;
    return 0;
}

int value_thousandths(const char *text, int64_t *ret)
{
    int64_t value;

    if (read_number(&text, 1000, &value) || *text)
        return -1;
    *ret = value;
    return 0;
}

int value_size(const char *text, int64_t *ret)
{
    static const char units[] = "KMGT";
    int64_t value;

    if (read_number(&text, 1, &value))
        return -1;
    if (*text) {
        char letter = *text >= 'a' && *text <= 'z' ? (char)(*text - 'a' + 'A') : *text;
        const char *unit = strchr(units, letter);

        if (!unit || (text[1] && strcmp(text + 1, "iB") != 0))
            return -1;
        if (__builtin_mul_overflow(value, (int64_t)1 << (10 * (unit - units + 1)), &value))
            return -1;
    }
    *ret = value;
    return 0;
}

static int none_or(int (*parse)(const char *, int64_t *), int64_t least, const char *text, int64_t *ret)
{
    int64_t value = 0;

    if (strcmp(text, "none") != 0 && (parse(text, &value) || value < least))
        return -1;
    *ret = value;
    return 0;
}

int value_size_or_none(const char *text, int64_t *ret)
{
    return none_or(value_size, 1, text, ret);
}

int value_count_or_none(const char *text, int64_t *ret)
{
    return none_or(value_count, 1, text, ret);
}

int value_cpus_or_none(const char *text, int64_t *ret)
{
    return none_or(value_thousandths, 10, text, ret);
}

int value_duration(const char *text, int64_t *ret)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = { { "", 1000 }, { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 } };
    int64_t value;

    if (read_number(&text, 1000, &value))
        return -1;
    for (size_t i = 0; i < TOOL_ELEMENTS(units); i++)
        if (strcmp(text, units[i].name) == 0) {
            if (__builtin_mul_overflow(value, units[i].ms, &value))
                return -1;
            *ret = value / 1000;
            return 0;
        }
    return -1;
}

int value_moment(const char *text, int64_t *ret)
{
    struct timespec now;
    struct tm tm = { 0 };
    const char *end;
    int64_t ago;

    if (value_duration(text, &ago) == 0) {
        clock_gettime(CLOCK_REALTIME, &now);
        *ret = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - ago;
        return 0;
    }
    end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    if (!end || *end)
        return -1;
    *ret = (int64_t)timegm(&tm) * 1000;
    return 0;
}

int value_signal(const char *text, int64_t *ret)
{
    static const struct {
        const char *name;
        int number;
    } names[] = {
        { "HUP", SIGHUP },   { "INT", SIGINT },   { "QUIT", SIGQUIT }, { "ABRT", SIGABRT }, { "KILL", SIGKILL },
        { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 }, { "PIPE", SIGPIPE }, { "ALRM", SIGALRM }, { "TERM", SIGTERM },
        { "CHLD", SIGCHLD }, { "CONT", SIGCONT }, { "STOP", SIGSTOP }, { "TSTP", SIGTSTP }, { "WINCH", SIGWINCH },
    };
    int64_t number;

    if (value_count(text, &number) == 0) {
        if (number < 1 || number > 64)
            return -1;
        *ret = number;
        return 0;
    }
    if (strncasecmp(text, "SIG", 3) == 0)
        text += 3;
    for (size_t i = 0; i < TOOL_ELEMENTS(names); i++)
        if (strcasecmp(text, names[i].name) == 0) {
            *ret = names[i].number;
            return 0;
        }
    return -1;
}

int value_secrets(const char *text, int64_t *ret)
{
    static const char *const modes[] = { "ignore", "warn", "refuse", "hide" };

    for (size_t i = 0; i < TOOL_ELEMENTS(modes); i++)
        if (strcmp(text, modes[i]) == 0) {
            *ret = (int64_t)i;
            return 0;
        }
    return -1;
}

int value_pull(const char *text, int64_t *ret)
{
    static const char *const names[] = { [PULL_MISSING] = "missing", [PULL_ALWAYS] = "always", [PULL_NEVER] = "never" };

    for (size_t i = PULL_MISSING; i < TOOL_ELEMENTS(names); i++)
        if (strcmp(text, names[i]) == 0) {
            *ret = (int64_t)i;
            return 0;
        }
    return -1;
}

int value_image_format(const char *text, int64_t *ret)
{
    static const struct {
        const char *name;
        int format;
    } names[] = {
        { "auto", SANDBOX_IMAGE_FORMAT_AUTO },     { "folder", SANDBOX_IMAGE_FORMAT_ROOTFS_FOLDER },
        { "tar", SANDBOX_IMAGE_FORMAT_ROOTFS_TAR }, { "oci", SANDBOX_IMAGE_FORMAT_OCI_LAYOUT },
        { "docker", SANDBOX_IMAGE_FORMAT_DOCKER_ARCHIVE },
    };

    for (size_t i = 0; i < TOOL_ELEMENTS(names); i++)
        if (strcmp(text, names[i].name) == 0) {
            *ret = names[i].format;
            return 0;
        }
    return -1;
}
