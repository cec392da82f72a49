/* SPDX-License-Identifier: Apache-2.0
 * See reference.h. */
#include "reference.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util.h"

#define SCHEME "docker://"
#define DEFAULT_HOST "docker.io"

static int is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_alphanumeric(char c)
{
    return is_lower(c) || is_digit(c) || (c >= 'A' && c <= 'Z');
}

int sb_reference_is(const char *text)
{
    return text && strncmp(text, "sha256:", 7) && strpbrk(text, "/:") != NULL;
}

static int port_valid(const char *port)
{
    int64_t value;

    return sb_parse_int(port, 1, 65535, &value) == 0;
}

/* Names, IPv4 addresses and, in brackets, IPv6 ones. */
static int take_host(const char *text, size_t length, char *ret)
{
    size_t name = length;
    const char *end = text + length, *colon;

    if (!length || length > SB_REFERENCE_MAX)
        return -EINVAL;
    snprintf(ret, SB_REFERENCE_MAX + 1, "%.*s", (int)length, text);
    if (text[0] == '[') {
        const char *close = memchr(text, ']', length);

        if (!close || close - text < 3 || strspn(text + 1, "0123456789abcdefABCDEF:.") != (size_t)(close - text - 1))
            return -EINVAL;
        name = (size_t)(close + 1 - text);
        if (text + name < end && (text[name] != ':' || !port_valid(ret + name + 1)))
            return -EINVAL;
    } else {
        colon = memchr(text, ':', length);
        if (colon) {
            name = (size_t)(colon - text);
            if (!port_valid(ret + name + 1))
                return -EINVAL;
        }
        for (size_t i = 0; i < name; i++) {
            int edge = i == 0 || i + 1 == name || text[i - 1] == '.' || text[i + 1] == '.';

            if (!is_alphanumeric(text[i]) && (edge || (text[i] != '.' && text[i] != '-')))
                return -EINVAL;
        }
        if (!name)
            return -EINVAL;
    }
    for (char *c = ret; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
    return 0;
}

/* Letters and digits, joined by one '.', one or two '_', or any number of '-'. */
static int component_valid(const char *text, size_t length)
{
    size_t i = 0;

    if (!length)
        return 0;
    for (;;) {
        size_t begin = i, joint;

        while (i < length && (is_lower(text[i]) || is_digit(text[i])))
            i++;
        if (i == begin)
            return 0;
        if (i == length)
            return 1;
        joint = i;
        while (i < length && text[i] == text[joint])
            i++;
        if (text[joint] == '.' ? i - joint > 1 : text[joint] == '_' ? i - joint > 2 : text[joint] != '-')
            return 0;
    }
}

static int take_repository(const char *text, size_t length, int is_default_host, char *ret)
{
    int n;

    for (size_t i = 0; i <= length;) {
        const char *slash = memchr(text + i, '/', length - i);
        size_t part = slash ? (size_t)(slash - text) - i : length - i;

        if (!component_valid(text + i, part))
            return -EINVAL;
        i += part + 1;
    }
    n = snprintf(ret, SB_REFERENCE_MAX + 1, "%s%.*s", is_default_host && !memchr(text, '/', length) ? "library/" : "", (int)length, text);
    return n > SB_REFERENCE_MAX ? -EINVAL : 0;
}

static int take_tag(const char *text, size_t length, char ret[129])
{
    if (!length || length > 128 || text[0] == '.' || text[0] == '-')
        return -EINVAL;
    for (size_t i = 0; i < length; i++)
        if (!is_alphanumeric(text[i]) && !strchr("_.-", text[i]))
            return -EINVAL;
    snprintf(ret, 129, "%.*s", (int)length, text);
    return 0;
}

static int take_digest(const char *text, char ret[72])
{
    if (strncmp(text, "sha256:", 7) || !sb_id_valid(text + 7))
        return -EINVAL;
    snprintf(ret, 72, "%s", text);
    return 0;
}

/* The first component is a host when it looks like one. */
static int is_host(const char *text, size_t length)
{
    return memchr(text, '.', length) || memchr(text, ':', length) || (length == strlen("localhost") && !strncmp(text, "localhost", length));
}

int sb_reference_parse(const char *text, struct sb_reference *ret)
{
    struct sb_reference result = { .host = DEFAULT_HOST };
    const char *slash, *at, *colon = NULL;
    size_t length;
    int r;

    if (!text)
        return -EINVAL;
    if (!strncmp(text, SCHEME, strlen(SCHEME)))
        text += strlen(SCHEME);
    if (strnlen(text, 1024) == 1024)
        return -EINVAL;
    slash = strchr(text, '/');
    if (slash && is_host(text, (size_t)(slash - text))) {
        if (take_host(text, (size_t)(slash - text), result.host))
            return -EINVAL;
        text = slash + 1;
    }
    if (!strcmp(result.host, "index.docker.io") || !strcmp(result.host, "registry-1.docker.io"))
        snprintf(result.host, sizeof result.host, "%s", DEFAULT_HOST);
    at = strchr(text, '@');
    length = at ? (size_t)(at - text) : strlen(text);
    if (at && take_digest(at + 1, result.digest))
        return -EINVAL;
    colon = memchr(text, ':', length);
    r = take_repository(text, colon ? (size_t)(colon - text) : length, !strcmp(result.host, DEFAULT_HOST), result.repository);
    if (!r && colon)
        r = take_tag(colon + 1, (size_t)(text + length - colon - 1), result.tag);
    if (r)
        return r;
    if (result.digest[0])
        result.tag[0] = 0;
    else if (!result.tag[0])
        snprintf(result.tag, sizeof result.tag, "latest");
    if (strlen(result.host) + strlen(result.repository) + strlen(result.tag) + strlen(result.digest) + 2 > SB_REFERENCE_MAX)
        return -EINVAL;
    *ret = result;
    return 0;
}

void sb_reference_format(const struct sb_reference *reference, char text[SB_REFERENCE_MAX + 1])
{
    int n = snprintf(text, SB_REFERENCE_MAX + 1, "%s/%s%s%s", reference->host, reference->repository, reference->digest[0] ? "@" : ":",
                     reference->digest[0] ? reference->digest : reference->tag);

    if (n > SB_REFERENCE_MAX) /* not of one that was parsed */
        *text = 0;
}

int sb_reference_is_loopback(const char *host)
{
    size_t name = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    int a, b, c, d, end = 0;

    if ((name == 9 && !strncmp(host, "localhost", 9)) || (name == 5 && !strncmp(host, "[::1]", 5)))
        return 1;
    return sscanf(host, "%3d.%3d.%3d.%3d%n", &a, &b, &c, &d, &end) == 4 && (size_t)end == name && a == 127 && b <= 255 && c <= 255 && d <= 255;
}
