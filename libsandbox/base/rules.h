/* SPDX-License-Identifier: Apache-2.0
 * The rules for values that come from callers, disks and peers, each in one place: setters, option structs and JSON readers
 * ask here. A function returns 0, or fails with EINVALID or ELIMIT and the name of the field. */
#ifndef SB_BASE_RULES_H
#define SB_BASE_RULES_H

#include <sandbox.h>

enum {
    SB_STRING_MAX = 131071,      /* one argument or "NAME=VALUE": the kernel's MAX_ARG_STRLEN less its NUL */
    SB_ARGS_MAX = 1 << 20,       /* bytes of all of argv, or of all of a spec's env and daemon; the kernel takes 2 MiB as a rule */
    SB_ARGV_MAX = 16384,         /* entries of an argv */
    SB_ENV_MAX = 4096,           /* entries of an environment */
    SB_LABELS_MAX = 1024,
    SB_LABELS_BYTES_MAX = 1 << 18,
    SB_MOUNTS_MAX = 256,
    SB_MOUNTS_BYTES_MAX = 1 << 18,
    SB_USER_MAX = 255,
    SB_HOSTNAME_MAX = 63
};

/* "sha256:" and 64 lowercase hexadecimal digits. */
int sb_digest_valid(const char *digest);

int sb_check_name(const char *name, const char *field, struct sandbox_error **error);
/* An idempotency key: as a name, and ':' is allowed after the first byte. */
int sb_check_key(const char *key, const char *field, struct sandbox_error **error);
/* "host", a name or a digest. */
int sb_check_image(const char *image, const char *field, struct sandbox_error **error);
int sb_check_label(const char *key, const char *value, struct sandbox_error **error);
int sb_check_env(const char *name, const char *value, struct sandbox_error **error);
int sb_check_workdir(const char *workdir, struct sandbox_error **error);
/* "USER" or "USER:GROUP", each a number below 4294967295 or a name; the names are resolved inside. */
int sb_check_user(const char *user, struct sandbox_error **error);
/* RFC 1123: labels of letters, digits and '-' joined by '.', 63 bytes in all. */
int sb_check_hostname(const char *hostname, struct sandbox_error **error);
/* At least one entry, a first one that is not empty, every bound kept. */
int sb_check_argv(const char *const *argv, const char *field, struct sandbox_error **error);
/* NULL, or "NAME=VALUE" entries. */
int sb_check_env_list(const char *const *env, const char *field, struct sandbox_error **error);
/* "UID:GID" in digits: 0 or -EINVAL. */
int sb_parse_owner(const char *text, uint32_t *ret_uid, uint32_t *ret_gid);
/* NULL, or at most 1,000 patterns of 1 to 200 bytes without '/' but at the end. */
int sb_check_patterns(const char *const *patterns, struct sandbox_error **error);
int sb_check_mount(const struct sandbox_mount_options *mount, struct sandbox_error **error);
/* 0 or 1. */
int sb_check_flag(int value, const char *field, struct sandbox_error **error);
/* min to max, or 0. */
int sb_check_limit(int64_t value, int64_t min, int64_t max, const char *field, struct sandbox_error **error);

#endif
