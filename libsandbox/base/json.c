/* SPDX-License-Identifier: Apache-2.0
 * See json.h. The text may come from a peer or a damaged disk: it is bounded in size and depth before jansson sees it, and
 * none of it gets into an error message (it may hold secrets). jansson's allocator belongs to the host program, which may
 * have replaced it: what this file promises as malloc'ed is allocated here. */
#include "json.h"

#include "errors.h"
#include "util.h"

#include <errno.h>
#include <string.h>

enum { MAX_SIZE = 16 << 20, MAX_DEPTH = 64 };

/* The deepest nesting of a text, strings skipped. A text that isn't JSON may give any number; the parser refuses it later. */
static int depth_of(const char *text, size_t size)
{
    int depth = 0, deepest = 0, in_string = 0;

    for (size_t i = 0; i < size; i++) {
        char c = text[i];

        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = 0;
        } else if (c == '"') {
            in_string = 1;
        } else if (c == '{' || c == '[') {
            if (++depth > deepest)
                deepest = depth;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return deepest;
}

int sb_json_parse(const char *text, size_t size, const char *what, json_t **ret_json, struct sandbox_error **error)
{
    json_error_t where;
    json_t *json;
    char *near;

    if (size > MAX_SIZE)
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED), "%s: larger than %d bytes", what, MAX_SIZE);
    if (depth_of(text, size) > MAX_DEPTH)
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED), "%s: nested deeper than %d", what, MAX_DEPTH);
    json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
    if (!json) {
        if (json_error_code(&where) == json_error_out_of_memory || !where.text[0]) /* of some failures it says nothing */
            return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "%s: out of memory", what);
        near = strstr(where.text, " near "); /* jansson quotes the text there */
        if (near)
            *near = 0;
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED), "%s: line %d, column %d: %s", what, where.line, where.column, where.text);
    }
    *ret_json = json;
    return 0;
}

char *sb_json_dump(const json_t *json)
{
    const size_t flags = JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY;
    size_t size = json_dumpb(json, NULL, 0, flags);
    char *text;

    if (!size)
        return NULL;
    text = malloc(size + 1);
    if (!text)
        return NULL;
    if (json_dumpb(json, text, size, flags) != size) {
        free(text);
        return NULL;
    }
    text[size] = 0;
    return text;
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static char *base64_encode(const unsigned char *bytes, size_t size)
{
    char *text = malloc((size + 2) / 3 * 4 + 1), *p = text;

    if (!text)
        return NULL;
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        unsigned int v = (unsigned int)bytes[i] << 16;

        if (left > 1)
            v |= (unsigned int)bytes[i + 1] << 8;
        if (left > 2)
            v |= bytes[i + 2];
        *p++ = digits[v >> 18];
        *p++ = digits[v >> 12 & 63];
        *p++ = left > 1 ? digits[v >> 6 & 63] : '=';
        *p++ = left > 2 ? digits[v & 63] : '=';
    }
    *p = 0;
    return text;
}

static int digit_value(char c)
{
    const char *p = c ? strchr(digits, c) : NULL;

    return p ? (int)(p - digits) : -1;
}

/* The canonical form only (padding in full, unused bits zero), so that two texts never mean the same bytes. */
static char *base64_decode(const char *text, size_t size)
{
    SB_FREE char *bytes = NULL;
    size_t n = 0;

    errno = EINVAL;
    if (size % 4)
        return NULL;
    bytes = malloc(size / 4 * 3 + 1);
    if (!bytes)
        return NULL;
    errno = EINVAL;
    for (size_t i = 0; i < size; i += 4) {
        int pad = i + 4 == size ? (text[i + 3] == '=') + (text[i + 3] == '=' && text[i + 2] == '=') : 0;
        unsigned int v = 0;

        for (int k = 0; k < 4 - pad; k++) {
            int d = digit_value(text[i + (size_t)k]);

            if (d < 0)
                return NULL;
            v |= (unsigned int)d << (18 - 6 * k);
        }
        if ((pad == 1 && (v & 0xff)) || (pad == 2 && (v & 0xffff)))
            return NULL;
        for (int k = 0; k < 3 - pad; k++)
            bytes[n++] = (char)(v >> (16 - 8 * k) & 0xff);
    }
    bytes[n] = 0;
    return memchr(bytes, 0, n) ? NULL : SB_TAKE_PTR(bytes);
}

json_t *sb_json_bytes(const char *bytes)
{
    size_t size = strlen(bytes);
    SB_FREE char *text = NULL;

    if (sb_utf8_valid(bytes, size))
        return json_stringn(bytes, size);
    text = base64_encode((const unsigned char *)bytes, size);
    return text ? json_pack("{s:s}", "base64", text) : NULL;
}

char *sb_json_get_bytes(const json_t *json)
{
    const json_t *text = json_is_object(json) && json_object_size(json) == 1 ? json_object_get(json, "base64") : NULL;

    errno = EINVAL;
    if (json_is_string(json))
        return strlen(json_string_value(json)) == json_string_length(json) ? strdup(json_string_value(json)) : NULL;
    return json_is_string(text) ? base64_decode(json_string_value(text), json_string_length(text)) : NULL;
}

const char *sb_json_str(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

int64_t sb_json_int(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? (int64_t)json_integer_value(value) : otherwise;
}
