/* SPDX-License-Identifier: Apache-2.0
 * See rules.h. */
#include "rules.h"

#include "errors.h"
#include "reference.h"
#include "util.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

enum { UPPER_MIN = 16 << 20 }; /* a file system with a journal has to fit */

static int invalid(struct sandbox_error **error, const char *field, const char *message, const char *hint)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field, .hint = hint), "%s %s", field, message);
}

int sb_digest_valid(const char *digest)
{
    return digest && !strncmp(digest, "sha256:", 7) && sb_id_valid(digest + 7);
}

int sb_check_name(const char *name, const char *field, struct sandbox_error **error)
{
    if (sb_name_valid(name))
        return 0;
    return invalid(error, field, "is not a name", "use 1 to 128 of A-Z a-z 0-9 _ . -, the first one a letter or digit");
}

int sb_check_key(const char *key, const char *field, struct sandbox_error **error)
{
    if (sb_key_valid(key))
        return 0;
    return invalid(error, field, "is not a key", "use 1 to 128 of A-Z a-z 0-9 _ . : -, the first one a letter or digit");
}

int sb_check_image(const char *image, const char *field, struct sandbox_error **error)
{
    struct sb_reference reference;

    if (sb_name_valid(image) || sb_digest_valid(image) || (sb_reference_is(image) && sb_reference_parse(image, &reference) == 0))
        return 0;
    return invalid(error, field, "is neither an image's name nor a digest",
                   "use \"host\", a name that was given at import, \"sha256:\" and 64 hexadecimal digits, or HOST/PATH:TAG as it was pulled");
}

static int bounded_utf8(const char *text, size_t min, size_t max, const char *field, struct sandbox_error **error)
{
    size_t size;

    if (!text)
        return invalid(error, field, "is NULL", NULL);
    size = strnlen(text, max + 1);
    if (size < min)
        return invalid(error, field, "is empty", NULL);
    if (size > max)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is longer than %zu bytes", field, max);
    if (!sb_utf8_valid(text, size))
        return invalid(error, field, "is not UTF-8", NULL);
    return 0;
}

int sb_check_label(const char *key, const char *value, struct sandbox_error **error)
{
    int r = bounded_utf8(key, 1, SANDBOX_LABEL_KEY_MAX, "key", error);

    return r ? r : bounded_utf8(value, 0, SANDBOX_LABEL_VALUE_MAX, "value", error);
}

int sb_check_env(const char *name, const char *value, struct sandbox_error **error)
{
    size_t n_name, n_value;

    if (!name || !*name)
        return invalid(error, "name", "of an environment variable is empty", NULL);
    if (!value)
        return invalid(error, "value", "of an environment variable is NULL", "use \"\" for an empty one");
    n_name = strnlen(name, SB_STRING_MAX);
    n_value = strnlen(value, SB_STRING_MAX);
    if (memchr(name, '=', n_name))
        return invalid(error, "name", "of an environment variable contains '='", NULL);
    if (n_name + 1 + n_value > SB_STRING_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = n_name > n_value ? "name" : "value",
                       .hint = "pass what is larger in a file or on stdin"),
                       "an environment variable is longer than %d bytes, the most that Linux passes to a program", SB_STRING_MAX);
    return 0;
}

int sb_check_workdir(const char *workdir, struct sandbox_error **error)
{
    if (workdir && workdir[0] == '/' && strnlen(workdir, PATH_MAX) < PATH_MAX)
        return 0;
    return invalid(error, "workdir", "is not an absolute path", "use a path inside the sandbox that begins with '/'");
}

/* A number must be an id that exists (the last one means "leave as it is" to the kernel); anything else is a name. */
static int user_part_valid(const char *part, size_t size)
{
    int64_t id;
    char number[12];

    if (!size)
        return 0;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)part[i] < 0x20 || part[i] == 0x7f || part[i] == ':')
            return 0;
    if (part[0] == '-' || part[0] == '+')
        return 0;
    if (strspn(part, "0123456789") < size)
        return 1;
    if (size >= sizeof number)
        return 0;
    memcpy(number, part, size);
    number[size] = 0;
    return sb_parse_int(number, 0, UINT32_MAX - 1, &id) == 0;
}

int sb_check_user(const char *user, struct sandbox_error **error)
{
    size_t size = user ? strnlen(user, SB_USER_MAX + 1) : 0;
    const char *colon = size ? memchr(user, ':', size) : NULL;

    if (size && size <= SB_USER_MAX && user_part_valid(user, colon ? (size_t)(colon - user) : size) &&
        (!colon || user_part_valid(colon + 1, size - (size_t)(colon + 1 - user))))
        return 0;
    return invalid(error, "user", "is not of the form USER or USER:GROUP",
                   "use numbers (1000:1000) or names that the image's /etc/passwd and /etc/group have");
}

static int is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int sb_check_hostname(const char *hostname, struct sandbox_error **error)
{
    size_t size = hostname ? strnlen(hostname, SB_HOSTNAME_MAX + 1) : 0;
    int valid = size > 0 && size <= SB_HOSTNAME_MAX;

    for (size_t i = 0; valid && i < size; i++) {
        int first = i == 0 || hostname[i - 1] == '.', last = i + 1 == size || hostname[i + 1] == '.';

        if (!is_alnum(hostname[i]))
            valid = !first && !last && (hostname[i] == '-' || hostname[i] == '.');
    }
    if (valid)
        return 0;
    return invalid(error, "hostname", "is not a host name", "use at most 63 of a-z 0-9 - and ., no part of it empty or with '-' at an end");
}

/* One more entry of an argv or environment: its own length, the number and the sum. */
static int check_entry(const char *entry, size_t index, size_t most, size_t *total, const char *field, struct sandbox_error **error)
{
    static const char hint[] = "pass what is larger in a file or on stdin";
    size_t size = strnlen(entry, SB_STRING_MAX + 1);

    if (size > SB_STRING_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field, .hint = hint),
                       "%s[%zu] is longer than %d bytes, the most that Linux passes to a program", field, index, SB_STRING_MAX);
    *total += size + 1;
    if (index >= most || *total > SB_ARGS_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = field, .hint = hint), "%s has more than %zu entries or %d bytes",
                       field, most, SB_ARGS_MAX);
    return 0;
}

int sb_check_argv(const char *const *argv, const char *field, struct sandbox_error **error)
{
    size_t total = 0;

    if (!argv || !argv[0])
        return invalid(error, field, "is empty", "name the program first");
    if (!argv[0][0])
        return invalid(error, field, "names no program: its first entry is \"\"", NULL);
    for (size_t i = 0; argv[i]; i++) {
        int r = check_entry(argv[i], i, SB_ARGV_MAX, &total, field, error);

        if (r)
            return r;
    }
    return 0;
}

int sb_check_env_list(const char *const *env, const char *field, struct sandbox_error **error)
{
    size_t total = 0;

    for (size_t i = 0; env && env[i]; i++) {
        const char *equals = strchr(env[i], '=');
        int r;

        if (!equals || equals == env[i])
            return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s[%zu] is not of the form NAME=VALUE", field, i);
        r = check_entry(env[i], i, SB_ENV_MAX, &total, field, error);
        if (r)
            return r;
    }
    return 0;
}

/* The next component of a path, "." skipped: its length, 0 at the end. */
static size_t component(const char **path)
{
    for (;;) {
        size_t n;

        *path += strspn(*path, "/");
        n = strcspn(*path, "/");
        if (n != 1 || **path != '.')
            return n;
        *path += 1;
    }
}

/* What the isolation itself stands on can't be mounted over: the root, /proc and /sys (its masks), /dev (but /dev/shm). */
static int target_reserved(const char *target)
{
    const char *p = target;
    size_t n = component(&p);

    if (!n)
        return 1;
    if ((n == 4 && !memcmp(p, "proc", 4)) || (n == 3 && !memcmp(p, "sys", 3)))
        return 1;
    if (n != 3 || memcmp(p, "dev", 3))
        return 0;
    p += n;
    n = component(&p);
    return n != 3 || memcmp(p, "shm", 3);
}

static int check_source(const struct sandbox_mount_options *mount, struct sandbox_error **error)
{
    switch (mount->type) {
    case SANDBOX_MOUNT_BIND:
    case SANDBOX_MOUNT_OVERLAY:
        if (mount->source && mount->source[0] == '/' && strnlen(mount->source, PATH_MAX) < PATH_MAX)
            return 0;
        return invalid(error, "source", "of a bind or overlay mount is not an absolute path", NULL);
    case SANDBOX_MOUNT_VOLUME:
        return sb_check_name(mount->source, "source", error);
    default:
        return mount->source ? invalid(error, "source", "of a tmpfs must be NULL", NULL) : 0;
    }
}

int sb_parse_owner(const char *text, uint32_t *ret_uid, uint32_t *ret_gid)
{
    const char *colon = strchr(text, ':');
    char first[16];
    int64_t uid, gid;

    if (!colon || colon - text >= (int)sizeof first)
        return -EINVAL;
    memcpy(first, text, (size_t)(colon - text));
    first[colon - text] = 0;
    /* the highest number stands for no id at all */
    if (sb_parse_int(first, 0, UINT32_MAX - 1, &uid) || sb_parse_int(colon + 1, 0, UINT32_MAX - 1, &gid))
        return -EINVAL;
    *ret_uid = (uint32_t)uid;
    *ret_gid = (uint32_t)gid;
    return 0;
}

int sb_check_patterns(const char *const *patterns, struct sandbox_error **error)
{
    for (size_t i = 0; patterns && patterns[i]; i++) {
        const char *slash = strchr(patterns[i], '/');
        size_t n = strlen(patterns[i]);

        if (!n || n > 200 || (slash && slash[1]) || !strcmp(patterns[i], "/") || !strcmp(patterns[i], "!"))
            return invalid(error, "patterns", "has an entry that is no pattern of one name", "such as *.pem, !ca.pem or .ssh/");
        if (i >= 1000)
            return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "patterns"), "more than 1000 patterns");
    }
    return 0;
}

static int check_owner(const struct sandbox_mount_options *mount, struct sandbox_error **error)
{
    uint32_t uid, gid;

    if (!mount->owner)
        return 0;
    if (mount->type != SANDBOX_MOUNT_BIND && mount->type != SANDBOX_MOUNT_OVERLAY)
        return invalid(error, "owner", "is for binds and overlays only", "a volume has its owner from its creation");
    if (sb_parse_owner(mount->owner, &uid, &gid))
        return invalid(error, "owner", "is not UID:GID in digits", "such as 1000:1000");
    /* the mount is nosuid, the folder on the machine isn't: whoever reaches it there could execute what the inside made set-id */
    if (mount->type == SANDBOX_MOUNT_BIND && !(mount->flags & SANDBOX_MOUNT_READ_ONLY) && (!uid || !gid))
        return invalid(error, "owner", "is the machine's root, in a folder that can be written to inside",
                       "bind it read-only, name another owner, or use an overlay or a volume");
    return 0;
}

int sb_check_mount(const struct sandbox_mount_options *mount, struct sandbox_error **error)
{
    int r;

    if (mount->type < SANDBOX_MOUNT_BIND || mount->type > SANDBOX_MOUNT_OVERLAY)
        return invalid(error, "type", "is not a sandbox_mount_type", NULL);
    if (mount->flags & ~SANDBOX_MOUNT_READ_ONLY)
        return invalid(error, "flags", "has bits that this version does not know", NULL);
    if (mount->type == SANDBOX_MOUNT_OVERLAY && mount->flags & SANDBOX_MOUNT_READ_ONLY)
        return invalid(error, "flags", "makes an overlay read-only, which is what a bind is for", "use a read-only bind");
    r = check_source(mount, error);
    if (!r)
        r = check_owner(mount, error);
    if (r)
        return r;
    if (!sb_path_absolute_safe(mount->target))
        return invalid(error, "target", "is not an absolute path without \"..\"", NULL);
    if (target_reserved(mount->target))
        return invalid(error, "target", "is /, /proc, /sys or /dev, or within one of the last three",
                       "mount it elsewhere; of these only /dev/shm can be mounted over");
    if (mount->type != SANDBOX_MOUNT_TMPFS && mount->type != SANDBOX_MOUNT_OVERLAY && mount->max_bytes)
        return invalid(error, "max_bytes", "is for a tmpfs or an overlay only", NULL);
    if (mount->max_bytes && mount->max_bytes < (mount->type == SANDBOX_MOUNT_TMPFS ? 4096 : UPPER_MIN))
        return invalid(error, "max_bytes", "of a tmpfs is below 4096, or of an overlay below 16 MiB", NULL);
    return 0;
}

int sb_check_flag(int value, const char *field, struct sandbox_error **error)
{
    return value == 0 || value == 1 ? 0 : invalid(error, field, "is neither 0 nor 1", NULL);
}

int sb_check_limit(int64_t value, int64_t min, int64_t max, const char *field, struct sandbox_error **error)
{
    if (value == 0 || (value >= min && value <= max))
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is %lld, and must be 0 or %lld to %lld", field,
                   (long long)value, (long long)min, (long long)max);
}
