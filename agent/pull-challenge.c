/* SPDX-License-Identifier: Apache-2.0
 * See pull-challenge.h. */
#include "pull-challenge.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

struct reader {
    const char *at, *end;
};

static void skip_spaces(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t'))
        reader->at++;
}

/* Spaces and empty list elements. */
static void skip_commas(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' || *reader->at == ','))
        reader->at++;
}

static int is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static size_t take_token(struct reader *reader, const char **ret)
{
    *ret = reader->at;
    while (reader->at < reader->end && is_token(*reader->at))
        reader->at++;
    return (size_t)(reader->at - *ret);
}

/* A token or a quoted string. Control characters have no business in either. */
static int take_value(struct reader *reader, char *to, size_t room)
{
    size_t n = 0;

    if (reader->at == reader->end || *reader->at != '"') {
        const char *token;
        size_t size = take_token(reader, &token);

        /* "/" and ":" stand unquoted in realms of real registries */
        while (reader->at < reader->end && *reader->at != ',' && *reader->at > ' ' && *reader->at != '"' && *reader->at < 0x7f) {
            reader->at++;
            size++;
        }
        if (!size || size >= room)
            return -EINVAL;
        memcpy(to, token, size);
        to[size] = 0;
        return 0;
    }
    for (reader->at++; reader->at < reader->end && *reader->at != '"'; reader->at++) {
        if (*reader->at == '\\' && ++reader->at == reader->end)
            return -EINVAL;
        if ((unsigned char)*reader->at < ' ' || *reader->at == 0x7f || n + 1 >= room)
            return -EINVAL;
        to[n++] = *reader->at;
    }
    if (reader->at == reader->end)
        return -EINVAL;
    reader->at++;
    to[n] = 0;
    return 0;
}

/* One parameter: 1; 0: what follows is no parameter but the next challenge. */
static int take_parameter(struct reader *reader, struct pull_challenge *found)
{
    struct reader ahead = *reader;
    char unwanted[2048], *to = unwanted;
    size_t size, room = sizeof unwanted;
    const char *name;

    skip_commas(&ahead);
    size = take_token(&ahead, &name);
    skip_spaces(&ahead);
    if (!size || ahead.at == ahead.end || *ahead.at != '=')
        return 0;
    ahead.at++;
    skip_spaces(&ahead);
    if (size == 5 && !strncasecmp(name, "realm", 5)) {
        to = found->realm;
        room = sizeof found->realm;
    } else if (size == 7 && !strncasecmp(name, "service", 7)) {
        to = found->service;
        room = sizeof found->service;
    } else if (size == 5 && !strncasecmp(name, "scope", 5)) {
        to = found->scope;
        room = sizeof found->scope;
    }
    if (to != unwanted && *to) /* twice: which one counts is not for us to guess */
        return -EINVAL;
    *reader = ahead;
    return take_value(reader, to, room) < 0 ? -EINVAL : 1;
}

/* "Negotiate dG9rZW4=": data instead of parameters. */
static void skip_token68(struct reader *reader)
{
    struct reader ahead = *reader;
    const char *data;
    size_t size = take_token(&ahead, &data);

    while (ahead.at < ahead.end && (is_token(*ahead.at) || *ahead.at == '/'))
        ahead.at++, size++;
    while (ahead.at < ahead.end && *ahead.at == '=')
        ahead.at++;
    skip_spaces(&ahead);
    if (size && (ahead.at == ahead.end || *ahead.at == ','))
        *reader = ahead;
}

int pull_challenge_parse(const char *value, size_t size, struct pull_challenge *challenge)
{
    struct reader reader = { value, value + size };
    struct pull_challenge result = *challenge;

    for (;;) {
        struct pull_challenge one = { 0 };
        const char *scheme;
        size_t length;
        int r;

        skip_commas(&reader);
        if (reader.at == reader.end)
            break;
        length = take_token(&reader, &scheme);
        if (!length || (reader.at < reader.end && !strchr(" \t,", *reader.at)))
            return -EINVAL;
        skip_spaces(&reader);
        skip_token68(&reader);
        while ((r = take_parameter(&reader, &one)) == 1) {
            skip_spaces(&reader);
            if (reader.at < reader.end && *reader.at != ',')
                return -EINVAL;
        }
        if (r < 0)
            return -EINVAL;
        if (length == 5 && !strncasecmp(scheme, "Basic", 5))
            result.basic = 1;
        if (length == 6 && !strncasecmp(scheme, "Bearer", 6) && one.realm[0] && !result.bearer) {
            result.bearer = 1;
            memcpy(result.realm, one.realm, sizeof one.realm);
            memcpy(result.service, one.service, sizeof one.service);
            memcpy(result.scope, one.scope, sizeof one.scope);
        }
    }
    *challenge = result;
    return 0;
}
