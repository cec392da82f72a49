/* SPDX-License-Identifier: Apache-2.0
 * A spec as JSON. Every member is always written, "" and [] for what is not set, so that two specs compare by text. Read
 * strictly: a member that this version doesn't know, or of the wrong type, is refused, never ignored. */
#include "spec.h"

#include "errors.h"
#include "json.h"
#include "rules.h"
#include "util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const mount_types[] = { [SANDBOX_MOUNT_BIND] = "bind", [SANDBOX_MOUNT_VOLUME] = "volume", [SANDBOX_MOUNT_TMPFS] = "tmpfs",
                                          [SANDBOX_MOUNT_OVERLAY] = "overlay" };
static const char *const secrets_modes[] = { "ignore", "warn", "refuse", "hide" };
static const char *const lifetimes[] = { [SANDBOX_LIFETIME_OWNED] = "owned", [SANDBOX_LIFETIME_DETACHED] = "detached" };

/* ---- writing: each returns 0 or -1 when memory is short ---- */

static int put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value); /* takes value, and fails for NULL */
}

static int put_bytes(json_t *object, const char *key, const char *bytes)
{
    return put(object, key, sb_json_bytes(bytes ? bytes : ""));
}

static json_t *daemon_to_json(const struct sandbox_spec *spec)
{
    json_t *list = json_array();

    for (char **p = spec->daemon; list && p && *p; p++)
        if (json_array_append_new(list, sb_json_bytes(*p))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *secrets_to_json(const struct sandbox_spec *spec)
{
    json_t *list = json_array();

    for (char **p = spec->secret_patterns; list && p && *p; p++)
        if (json_array_append_new(list, sb_json_bytes(*p))) {
            json_decref(list);
            return NULL;
        }
    return json_pack("{s:s, s:o}", "mode", secrets_modes[spec->secrets], "patterns", list);
}

static json_t *labels_to_json(const struct sandbox_spec *spec)
{
    json_t *object = json_object();

    for (size_t i = 0; object && i < spec->n_labels; i++)
        if (json_object_set_new(object, spec->labels[i].key, json_string(spec->labels[i].value))) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static json_t *env_to_json(const struct sandbox_spec *spec)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < spec->n_env; i++) {
        SB_FREE char *text = NULL;

        if (asprintf(&text, "%s=%s", spec->env[i].key, spec->env[i].value) < 0)
            text = NULL;
        if (!text || json_array_append_new(list, sb_json_bytes(text))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *mounts_to_json(const struct sandbox_spec *spec)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < spec->n_mounts; i++) {
        const struct sb_mount *m = &spec->mounts[i];
        json_t *mount = json_object();

        if (!mount || put(mount, "type", json_string(mount_types[m->type])) || put_bytes(mount, "source", m->source) ||
            put_bytes(mount, "target", m->target) || put(mount, "read_only", json_boolean(m->flags & SANDBOX_MOUNT_READ_ONLY)) ||
            put(mount, "max_bytes", json_integer(m->max_bytes)) || put(mount, "owner", json_string(m->owner ? m->owner : "")) ||
            json_array_append(list, mount)) {
            json_decref(mount);
            json_decref(list);
            return NULL;
        }
        json_decref(mount);
    }
    return list;
}

static json_t *capabilities_to_json(const struct sandbox_spec *spec)
{
    json_t *list = json_array();

    for (int i = 0; list && i < 64; i++)
        if ((spec->capabilities >> i & 1) && json_array_append_new(list, json_string(sb_capability_name(i)))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

json_t *sb_spec_to_json(const struct sandbox_spec *spec)
{
    json_t *object = json_object();

    if (!object || put(object, "name", json_string(spec->name ? spec->name : "")) ||
        put(object, "image", json_string(spec->image)) ||
        put_bytes(object, "workdir", spec->workdir) || put_bytes(object, "user", spec->user) ||
        put_bytes(object, "hostname", spec->hostname) || put_bytes(object, "seccomp", spec->seccomp ? spec->seccomp : "default") ||
        put(object, "idempotency_key", json_string(spec->idempotency_key ? spec->idempotency_key : "")) ||
        put(object, "daemon", daemon_to_json(spec)) ||
        put(object, "labels", labels_to_json(spec)) || put(object, "env", env_to_json(spec)) ||
        put(object, "mounts", mounts_to_json(spec)) || put(object, "capabilities", capabilities_to_json(spec)) ||
        put(object, "secrets", secrets_to_json(spec)) || put(object, "fuse", json_boolean(spec->fuse)) ||
        put(object, "read_only", json_boolean(spec->read_only)) ||
        put(object, "lifetime", json_string(lifetimes[spec->lifetime])) ||
        sb_spec_network_to_json(spec, object) ||
        sb_limits_to_json(&spec->limits, object) || put(object, "log_max", json_integer(spec->log_max)) ||
        put(object, "life", sb_spec_life_to_json(&spec->life))) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct sb_pair *)a)->key, ((const struct sb_pair *)b)->key);
}

static json_t *normal_form(const struct sandbox_spec *spec)
{
    struct sandbox_spec *copy = sb_spec_copy(spec);
    json_t *json = NULL;

    if (copy) {
        if (copy->n_env)
            qsort(copy->env, copy->n_env, sizeof *copy->env, by_key); /* labels are an object, which has no order */
        free(copy->idempotency_key);
        copy->idempotency_key = NULL;
        json = sb_spec_to_json(copy);
    }
    sb_spec_free(copy);
    return json;
}

int sb_spec_equal(const struct sandbox_spec *a, const struct sandbox_spec *b)
{
    SB_JSON json_t *one = normal_form(a), *other = normal_form(b);

    return one && other ? json_equal(one, other) : -1;
}

/* ---- reading: each gets one member's value ---- */

static int wrong(struct sandbox_error **error, const char *field, const char *expected)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is not %s", field, expected);
}

/* For a value that sb_json_get_bytes() did not give. */
static int no_bytes(struct sandbox_error **error, const char *field, const char *expected)
{
    return errno == ENOMEM ? sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory") : wrong(error, field, expected);
}

typedef int set_text_fn(struct sandbox_spec *spec, const char *text, struct sandbox_error **error);
typedef int set_int_fn(struct sandbox_spec *spec, int64_t value, struct sandbox_error **error);
typedef int set_flag_fn(struct sandbox_spec *spec, int value, struct sandbox_error **error);
typedef int read_fn(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error);

static int index_of(const char *const *names, size_t n, const json_t *value)
{
    for (size_t i = 0; json_is_string(value) && i < n; i++)
        if (!strcmp(names[i], json_string_value(value)))
            return (int)i;
    return -1;
}

static int read_lifetime(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    (void)key;
    return sb_spec_set_lifetime(spec, index_of(lifetimes, SB_ELEMENTS(lifetimes), value), error);
}

/* All the members of an array as an argv. */
static int read_list(const char *key, const json_t *value, char ***ret_list, struct sandbox_error **error)
{
    size_t n = json_array_size(value);
    char **list;

    if (!json_is_array(value) || n > SB_ARGV_MAX)
        return wrong(error, key, "a list of byte strings");
    list = calloc(n + 1, sizeof *list);
    if (!list)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
    *ret_list = list;
    for (size_t i = 0; i < n; i++) {
        list[i] = sb_json_get_bytes(json_array_get(value, i));
        if (!list[i])
            return no_bytes(error, key, "a list of byte strings");
    }
    return 0;
}

static void cleanup_list(char ***list)
{
    for (char **p = *list; p && *p; p++)
        free(*p);
    free(*list);
}
#define LIST __attribute__((cleanup(cleanup_list)))

static int read_daemon(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    LIST char **list = NULL;
    int r = read_list(key, value, &list, error);

    return r ? r : sb_spec_set_daemon(spec, (const char *const *)list, error);
}

static int read_secrets(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    LIST char **list = NULL;
    int r;

    if (!json_is_object(value) || json_object_size(value) != 2)
        return wrong(error, key, "a mode and patterns");
    r = read_list(key, json_object_get(value, "patterns"), &list, error);
    return r ? r
             : sb_spec_set_secrets(spec, index_of(secrets_modes, SB_ELEMENTS(secrets_modes), json_object_get(value, "mode")),
                                   (const char *const *)list, error);
}

static int read_env(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    LIST char **list = NULL;
    int r = read_list(key, value, &list, error);

    for (size_t i = 0; !r && list[i]; i++) {
        char *equals = strchr(list[i], '=');

        if (!equals)
            return wrong(error, key, "a list of NAME=VALUE");
        *equals = 0;
        r = sb_spec_add_env(spec, list[i], equals + 1, error);
    }
    return r;
}

static int read_labels(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    const char *name;
    json_t *text;
    int r;

    if (!json_is_object(value))
        return wrong(error, key, "an object");
    json_object_foreach((json_t *)value, name, text) {
        SB_FREE char *bytes = NULL;

        if (!json_is_string(text))
            return wrong(error, key, "an object of strings");
        bytes = sb_json_get_bytes(text);
        if (!bytes)
            return no_bytes(error, key, "an object of strings");
        r = sb_spec_add_label(spec, name, bytes, error);
        if (r)
            return r;
    }
    return 0;
}

static int read_mount(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    const json_t *read_only = json_object_get(value, "read_only"), *max_bytes = json_object_get(value, "max_bytes");
    const char *owner = sb_json_str(value, "owner");
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    SB_FREE char *source = NULL;
    SB_FREE char *target = NULL;

    if (!json_is_object(value) || json_object_size(value) != 6 || !json_is_boolean(read_only) ||
        !json_is_integer(max_bytes) || !owner)
        return wrong(error, key, "a list of mounts");
    source = sb_json_get_bytes(json_object_get(value, "source"));
    if (source)
        target = sb_json_get_bytes(json_object_get(value, "target"));
    if (!target)
        return no_bytes(error, key, "a list of mounts");
    mount.type = index_of(mount_types, SB_ELEMENTS(mount_types), json_object_get(value, "type"));
    mount.source = *source ? source : NULL;
    mount.target = target;
    mount.flags = json_is_true(read_only) ? SANDBOX_MOUNT_READ_ONLY : 0;
    mount.max_bytes = json_integer_value(max_bytes);
    mount.owner = *owner ? owner : NULL;
    return sb_spec_add_mount(spec, &mount, error);
}

static int read_mounts(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    int r = json_is_array(value) ? 0 : wrong(error, key, "a list");

    for (size_t i = 0; !r && i < json_array_size(value); i++)
        r = read_mount(spec, key, json_array_get(value, i), error);
    return r;
}

static int read_capabilities(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    int r = json_is_array(value) ? 0 : wrong(error, key, "a list");

    for (size_t i = 0; !r && i < json_array_size(value); i++)
        r = sb_spec_add_capability(spec, json_string_value(json_array_get(value, i)), error);
    return r;
}

struct member {
    const char *key;
    set_text_fn *set_text; /* one of these; "" means not set */
    set_int_fn *set_int;
    set_flag_fn *set_flag;
    read_fn *read;
};

static const struct member members[] = {
    { "name", .set_text = sb_spec_set_name },
    { "image", .set_text = sb_spec_set_image },
    { "workdir", .set_text = sb_spec_set_workdir },
    { "user", .set_text = sb_spec_set_user },
    { "hostname", .set_text = sb_spec_set_hostname },
    { "idempotency_key", .set_text = sb_spec_set_idempotency_key },
    { "seccomp", .set_text = sb_spec_set_seccomp },
    { "daemon", .read = read_daemon },
    { "labels", .read = read_labels },
    { "secrets", .read = read_secrets },
    { "env", .read = read_env },
    { "mounts", .read = read_mounts },
    { "capabilities", .read = read_capabilities },
    { "fuse", .set_flag = sb_spec_set_fuse },
    { "read_only", .set_flag = sb_spec_set_read_only },
    { "lifetime", .read = read_lifetime },
    { "network", .read = sb_spec_read_network },
    { "network_name", .read = sb_spec_read_network_name },
    { "allowed", .read = sb_spec_read_allowed },
    { "dns", .read = sb_spec_read_dns },
    { "ports", .read = sb_spec_read_ports },
    { "log_max", .set_int = sb_spec_set_log_max },
    { "life", .read = sb_spec_life_read },
};

static int read_member(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    const struct member *m = NULL;
    int r = sb_limits_read(&spec->limits, key, value, error);

    if (r)
        return r < 0 ? r : 0;
    for (size_t i = 0; !m && i < SB_ELEMENTS(members); i++)
        if (!strcmp(members[i].key, key))
            m = &members[i];
    if (!m)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID), "a member that this version does not know");
    if (m->set_text) {
        SB_FREE char *text = sb_json_get_bytes(value);

        if (!text)
            return no_bytes(error, key, "a byte string");
        return m->set_text(spec, *text ? text : NULL, error);
    }
    if (m->set_int)
        return json_is_integer(value) ? m->set_int(spec, json_integer_value(value), error) : wrong(error, key, "an integer");
    if (m->set_flag)
        return json_is_boolean(value) ? m->set_flag(spec, json_is_true(value), error) : wrong(error, key, "true or false");
    return m->read(spec, key, value, error);
}

int sb_spec_from_json(const json_t *json, struct sandbox_spec **ret_spec, struct sandbox_error **error)
{
    struct sandbox_error *cause = NULL;
    struct sandbox_spec *spec;
    const char *key;
    json_t *value;
    int r = 0;

    if (!json_is_object(json))
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED), "a spec is not an object");
    spec = sb_spec_new();
    if (!spec)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
    json_object_foreach((json_t *)json, key, value) {
        r = read_member(spec, key, value, &cause);
        if (r)
            break;
    }
    if (r && r != SANDBOX_ENOMEM) /* not the caller's mistake but the record's */
        r = sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .field = sandbox_error_get_field(cause)), "a spec does not verify: %s",
                    sandbox_error_get_message(cause));
    else if (r)
        r = sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
    sandbox_error_unref(cause);
    if (r)
        sb_spec_free(spec);
    else
        *ret_spec = spec;
    return r;
}
