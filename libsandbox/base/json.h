/* SPDX-License-Identifier: Apache-2.0
 * JSON as this project writes it: duplicates refused, bytes that are not UTF-8 as {"base64": "…"}, empty lists as []. */
#ifndef SB_BASE_JSON_H
#define SB_BASE_JSON_H

#include <jansson.h>
#include <sandbox.h>

static inline void sb_cleanup_jsonp(json_t **json)
{
    json_decref(*json);
}
#define SB_JSON __attribute__((cleanup(sb_cleanup_jsonp)))

/* Parses one document of at most 16 MiB, depth at most 64; EDAMAGED with a message naming `what` and the place. */
int sb_json_parse(const char *text, size_t size, const char *what, json_t **ret_json, struct sandbox_error **error);
/* Compact, keys sorted; malloc'ed; NULL when memory is short. */
char *sb_json_dump(const json_t *json);
/* A string, or {"base64": …} when the bytes are not UTF-8. New reference. */
json_t *sb_json_bytes(const char *bytes);
/* The reverse: malloc'ed, NUL-terminated; NULL with errno EINVAL for anything else (also when a NUL hides inside), with ENOMEM
 * when memory is short. */
char *sb_json_get_bytes(const json_t *json);
/* Typed members of an object: NULL or the default when absent or of another type. */
const char *sb_json_str(const json_t *object, const char *key);
int64_t sb_json_int(const json_t *object, const char *key, int64_t otherwise);

#endif
