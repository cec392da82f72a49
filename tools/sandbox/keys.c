/* SPDX-License-Identifier: Apache-2.0
 * Detach keys: a sequence of bytes that is looked for in what is typed, and is never passed on. What could be its beginning is held back
 * until the next key tells. */
#include "relay.h"

#include <ctype.h>
#include <string.h>

/* "a" or "ctrl-a"; -1: neither. */
static int key_of(const char *text, size_t length)
{
    if (length == 1 && text[0] > 0x20 && text[0] < 0x7f)
        return text[0];
    if (length != 6 || strncmp(text, "ctrl-", 5) != 0)
        return -1;
    if (isalpha((unsigned char)text[5]))
        return toupper((unsigned char)text[5]) - '@';
    return strchr("@[\\]^_", text[5]) ? text[5] - '@' : -1;
}

int keys_parse(const char *text, struct keys *ret)
{
    struct keys keys = { 0 };

    for (const char *at = text; *at;) {
        size_t length = strcspn(at, ",");
        int key = key_of(at, length);

        if (key < 0 || keys.n == sizeof keys.bytes || (at[length] && !at[length + 1]))
            return -1;
        keys.bytes[keys.n++] = (char)key;
        at += length + (at[length] == ',');
    }
    *ret = keys;
    return 0;
}

int keys_feed(struct keys *keys, const char *in, size_t n_in, char *out, size_t *n_out)
{
    for (size_t i = 0; i < n_in; i++) {
        char held[KEYS_MAX + 1];
        size_t n = keys->matched;

        if (keys->n && in[i] == keys->bytes[n]) {
            if (++keys->matched == keys->n)
                return 1;
            continue;
        }
        memcpy(held, keys->bytes, n);
        held[n++] = in[i];
        /* the longest end of it that may still become the sequence stays held back */
        for (keys->matched = keys->n ? (n < keys->n ? n : keys->n - 1) : 0; keys->matched; keys->matched--)
            if (memcmp(held + n - keys->matched, keys->bytes, keys->matched) == 0)
                break;
        memcpy(out + *n_out, held, n - keys->matched);
        *n_out += n - keys->matched;
    }
    return 0;
}
