/* SPDX-License-Identifier: Apache-2.0
 * See allow.h. */
#include "allow.h"

#include "util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

static int read_address(const char *text, size_t size, unsigned char ret[16], int *ret_is_v4)
{
    char copy[INET6_ADDRSTRLEN];

    if (size == 0 || size >= sizeof copy)
        return -EINVAL;
    memcpy(copy, text, size);
    copy[size] = 0;
    if (inet_pton(AF_INET, copy, ret + 12) == 1) {
        memcpy(ret, mapped, sizeof mapped);
        *ret_is_v4 = 1;
        return 0;
    }
    *ret_is_v4 = 0;
    return inet_pton(AF_INET6, copy, ret) == 1 ? 0 : -EINVAL;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Letters, digits, '-' and '_' in labels of 1 to 63. The last one begins with no digit: what does is read as an address by somebody. */
static int read_name(const char *text, size_t size, char ret[SB_HOST_SIZE])
{
    size_t label = 0, last = 0;

    if (size && text[size - 1] == '.')
        size--;
    if (size == 0 || size >= SB_HOST_SIZE)
        return -EINVAL;
    for (size_t i = 0; i < size; i++) {
        char c = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];

        if (c == '.') {
            if (!label)
                return -EINVAL;
            label = 0;
            last = i + 1;
        } else if ((c >= 'a' && c <= 'z') || is_digit(c) || c == '_' || (c == '-' && label > 0)) {
            if (++label > 63)
                return -EINVAL;
        } else {
            return -EINVAL;
        }
        ret[i] = c;
    }
    ret[size] = 0;
    return label && !is_digit(ret[last]) ? 0 : -EINVAL;
}

int sb_host_parse(const char *text, size_t size, struct sb_host_name *ret)
{
    int is_v4;

    *ret = (struct sb_host_name){ 0 };
    if (size > 2 && text[0] == '[' && text[size - 1] == ']') {
        ret->is_address = 1;
        return read_address(text + 1, size - 2, ret->address, &is_v4) == 0 && !is_v4 ? 0 : -EINVAL;
    }
    if (read_address(text, size, ret->address, &is_v4) == 0) {
        ret->is_address = 1;
        return 0;
    }
    return read_name(text, size, ret->name);
}

static int read_port(const char *text, int *ret)
{
    int64_t port;

    if (!strcmp(text, "*")) {
        *ret = SB_PORTS_ANY;
        return 0;
    }
    if (sb_parse_int(text, 1, 65535, &port))
        return -EINVAL;
    *ret = (int)port;
    return 0;
}

/* The part in front of ":PORT", without brackets; *ret_rest is what follows it: "" or ":PORT". */
static int split(const char *text, const char **ret_host, size_t *ret_size, const char **ret_rest)
{
    const char *end = text[0] == '[' ? strchr(text, ']') : strchr(text, ':');

    if (text[0] == '[') {
        if (!end)
            return -EINVAL;
        *ret_host = text + 1;
        *ret_size = (size_t)(end - text - 1);
        *ret_rest = end + 1;
    } else {
        if (!end || strchr(end + 1, ':')) /* none, or an IPv6 address without brackets */
            end = text + strlen(text);
        *ret_host = text;
        *ret_size = (size_t)(end - text);
        *ret_rest = end;
    }
    return **ret_rest == 0 || **ret_rest == ':' ? 0 : -EINVAL;
}

static int read_block(const char *host, size_t size, struct sb_allow *ret)
{
    const char *slash = memchr(host, '/', size);
    size_t n = slash ? (size_t)(slash - host) : size;
    char bits[8];
    int64_t prefix;
    int is_v4;

    if (read_address(host, n, ret->address, &is_v4))
        return -EINVAL;
    ret->kind = SB_ALLOW_ADDRESS;
    ret->prefix = 128;
    if (!slash)
        return 0;
    if (size - n - 1 >= sizeof bits)
        return -EINVAL;
    memcpy(bits, slash + 1, size - n - 1);
    bits[size - n - 1] = 0;
    if (sb_parse_int(bits, 0, is_v4 ? 32 : 128, &prefix))
        return -EINVAL;
    ret->prefix = (int)prefix + (is_v4 ? 96 : 0);
    return 0;
}

int sb_allow_parse(const char *text, struct sb_allow *ret)
{
    struct sb_allow rule = { .port = SB_PORTS_WEB };
    const char *host, *rest;
    size_t size;

    if (strnlen(text, SB_ALLOW_TEXT_MAX + 1) > SB_ALLOW_TEXT_MAX || split(text, &host, &size, &rest) ||
        (*rest && read_port(rest + 1, &rule.port)))
        return -EINVAL;
    if (read_block(host, size, &rule) == 0) {
        *ret = rule;
        return 0;
    }
    if (text[0] == '[')
        return -EINVAL;
    rule.kind = SB_ALLOW_NAME;
    if (size > 0 && host[0] == '*') {
        rule.kind = SB_ALLOW_BELOW;
        if (size > 1 && (host[1] != '.' || read_name(host + 2, size - 2, rule.name)))
            return -EINVAL;
    } else if (read_name(host, size, rule.name)) {
        return -EINVAL;
    }
    *ret = rule;
    return 0;
}

int sb_server_parse(const char *text, unsigned char ret_address[16], int *ret_port)
{
    const char *host, *rest;
    size_t size;
    int port = 0, is_v4;

    if (strnlen(text, 64) > 63 || split(text, &host, &size, &rest) || (*rest && (read_port(rest + 1, &port) || port < 0)) ||
        read_address(host, size, ret_address, &is_v4))
        return -EINVAL;
    *ret_port = port;
    return 0;
}

static int fits_port(const struct sb_allow *rule, int port)
{
    return rule->port == SB_PORTS_ANY || rule->port == port || (rule->port == SB_PORTS_WEB && (port == 80 || port == 443));
}

int sb_allow_has_name(const struct sb_allow *rules, size_t n, const char *name, int port)
{
    size_t size = strlen(name);

    for (size_t i = 0; i < n; i++) {
        const struct sb_allow *r = &rules[i];
        size_t below = strlen(r->name);

        if (r->kind == SB_ALLOW_ADDRESS || (port && !fits_port(r, port)))
            continue;
        if (r->kind == SB_ALLOW_NAME ? !strcmp(r->name, name)
                                     : !below || (size > below + 1 && name[size - below - 1] == '.' && !strcmp(name + size - below, r->name)))
            return 1;
    }
    return 0;
}

static int in_block(const unsigned char *address, const unsigned char *block, int prefix)
{
    int whole = prefix / 8, rest = prefix % 8;

    return memcmp(address, block, (size_t)whole) == 0 && (!rest || ((address[whole] ^ block[whole]) >> (8 - rest)) == 0);
}

int sb_allow_has_address(const struct sb_allow *rules, size_t n, const unsigned char address[16], int port)
{
    for (size_t i = 0; i < n; i++)
        if (rules[i].kind == SB_ALLOW_ADDRESS && (!port || fits_port(&rules[i], port)) && in_block(address, rules[i].address, rules[i].prefix))
            return 1;
    return 0;
}

int sb_address_is_public(const unsigned char address[16])
{
    static const struct {
        unsigned char block[4];
        int prefix;
    } v4[] = { { { 0 }, 8 },           { { 10 }, 8 },           { { 100, 64 }, 10 },      { { 127 }, 8 },      { { 169, 254 }, 16 },
               { { 172, 16 }, 12 },    { { 192, 0, 0 }, 24 },   { { 192, 0, 2 }, 24 },    { { 192, 88, 99 }, 24 }, { { 192, 168 }, 16 },
               { { 198, 18 }, 15 },    { { 198, 51, 100 }, 24 }, { { 203, 0, 113 }, 24 }, { { 224 }, 3 } };
    /* global unicast, less what leads elsewhere by what is written in it (Teredo, 6to4) and what is for documentation */
    static const struct {
        unsigned char block[4];
        int prefix;
    } v6[] = { { { 0x20, 0x01, 0, 0 }, 23 }, { { 0x20, 0x01, 0x0d, 0xb8 }, 32 }, { { 0x20, 0x02 }, 16 }, { { 0x3f, 0xff }, 20 } };

    if (!memcmp(address, mapped, sizeof mapped)) {
        for (size_t i = 0; i < SB_ELEMENTS(v4); i++)
            if (in_block(address + 12, v4[i].block, v4[i].prefix))
                return 0;
        return 1;
    }
    if (address[0] >> 5 != 1)
        return 0;
    for (size_t i = 0; i < SB_ELEMENTS(v6); i++)
        if (in_block(address, v6[i].block, v6[i].prefix))
            return 0;
    return 1;
}
