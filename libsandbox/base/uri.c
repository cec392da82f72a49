/* SPDX-License-Identifier: Apache-2.0
 * See uri.h. */
#include "uri.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "util.h"

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int refuse(const char *why, struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "uri", .hint = "for example local: or local:?root=/path"), "the URI %s", why);
}

int sb_uri_query(const char *rest, const char *key, char **ret_value, struct sandbox_error **error)
{
    SB_FREE char *value = NULL;
    size_t n = strlen(key), at = 0;

    if (!*rest) {
        *ret_value = NULL;
        return 0;
    }
    if (*rest != '?')
        return refuse("has something after its scheme that is no query", error);
    if (strncmp(rest + 1, key, n) || rest[1 + n] != '=')
        return refuse("has a key that is not known", error);
    rest += n + 2;
    value = malloc(strlen(rest) + 1);
    if (!value)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    for (; *rest; rest++) {
        int c = (unsigned char)*rest;

        if (c == '&' || c == '#')
            return refuse("has more than one key", error);
        if (c == '%') {
            int high = digit(rest[1]), low = high < 0 ? -1 : digit(rest[2]);

            if (low < 0 || (high | low) == 0)
                return refuse("has a wrong percent-encoding", error);
            c = high << 4 | low;
            rest += 2;
        }
        value[at++] = (char)c;
    }
    value[at] = 0;
    if (!at)
        return refuse("has an empty value", error);
    *ret_value = SB_TAKE_PTR(value);
    return 0;
}
