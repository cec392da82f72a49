/* SPDX-License-Identifier: Apache-2.0
 * Specs: memory, and setters that keep every rule (rules.h), for the public API and for spec-json.c alike. */
#include "spec.h"

#include "errors.h"
#include "profile-json.h"
#include "rules.h"
#include "util.h"

#include <stdio.h>
#include <string.h>

static int no_memory(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
}

struct sandbox_spec *sb_spec_new(void)
{
    struct sandbox_spec *spec = calloc(1, sizeof *spec);

    if (!spec)
        return NULL;
    spec->image = strdup("host");
    return spec->image ? spec : sb_spec_free(spec);
}

static void free_list(char **list)
{
    for (char **p = list; p && *p; p++)
        free(*p);
    free(list);
}

static void free_pairs(struct sb_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(pairs[i].key);
        free(pairs[i].value);
    }
    free(pairs);
}

struct sandbox_spec *sb_spec_free(struct sandbox_spec *spec)
{
    if (!spec)
        return NULL;
    free(spec->name);
    free(spec->image);
    free(spec->workdir);
    free(spec->user);
    free(spec->hostname);
    free(spec->idempotency_key);
    free(spec->seccomp);
    sb_spec_life_clear(&spec->life);
    free_list(spec->daemon);
    free_list(spec->secret_patterns);
    free_pairs(spec->labels, spec->n_labels);
    free_pairs(spec->env, spec->n_env);
    for (size_t i = 0; i < spec->n_mounts; i++) {
        free(spec->mounts[i].source);
        free(spec->mounts[i].target);
        free(spec->mounts[i].owner);
    }
    free(spec->mounts);
    sb_spec_network_clear(spec);
    free(spec);
    return NULL;
}

static char **copy_list(const char *const *list)
{
    size_t n = 0;
    char **copy;

    while (list[n])
        n++;
    copy = calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = strdup(list[i]);
        if (!copy[i]) {
            free_list(copy);
            return NULL;
        }
    }
    return copy;
}

/* Replaces the value of an equal key or appends. *bytes counts what all of them hold. */
static int put_pair(struct sb_pair **pairs, size_t *n, size_t *bytes, const char *key, const char *value)
{
    SB_FREE char *new_key = strdup(key);
    SB_FREE char *new_value = strdup(value);
    struct sb_pair *more;

    if (!new_key || !new_value)
        return -1;
    for (size_t i = 0; i < *n; i++) {
        if (strcmp((*pairs)[i].key, key))
            continue;
        *bytes += strlen(value) - strlen((*pairs)[i].value);
        free((*pairs)[i].value);
        (*pairs)[i].value = SB_TAKE_PTR(new_value);
        return 0;
    }
    more = realloc(*pairs, (*n + 1) * sizeof *more);
    if (!more)
        return -1;
    *pairs = more;
    *bytes += strlen(key) + strlen(value) + 2;
    more[(*n)++] = (struct sb_pair){ SB_TAKE_PTR(new_key), SB_TAKE_PTR(new_value) };
    return 0;
}

static int put_mount(struct sandbox_spec *spec, const char *source, const char *target, const struct sandbox_mount_options *mount)
{
    SB_FREE char *new_source = source ? strdup(source) : NULL;
    SB_FREE char *new_target = strdup(target);
    SB_FREE char *new_owner = NULL;
    struct sb_mount *more;
    uint32_t uid, gid;

    if (mount->owner && (sb_parse_owner(mount->owner, &uid, &gid) || asprintf(&new_owner, "%u:%u", uid, gid) < 0))
        return -1;
    if ((source && !new_source) || !new_target)
        return -1;
    more = realloc(spec->mounts, (spec->n_mounts + 1) * sizeof *more);
    if (!more)
        return -1;
    spec->mounts = more;
    spec->mounts_bytes += strlen(target) + (source ? strlen(source) : 0) + 2;
    more[spec->n_mounts++] = (struct sb_mount){
        .type = mount->type, .flags = mount->flags, .max_bytes = mount->max_bytes,
        .source = SB_TAKE_PTR(new_source), .target = SB_TAKE_PTR(new_target), .owner = SB_TAKE_PTR(new_owner),
    };
    return 0;
}

static int copy_text(char **to, const char *from)
{
    *to = from ? strdup(from) : NULL;
    return from && !*to ? -1 : 0;
}

struct sandbox_spec *sb_spec_copy(const struct sandbox_spec *spec)
{
    struct sandbox_spec *copy = calloc(1, sizeof *copy);
    int failed;

    if (!copy)
        return NULL;
    failed = copy_text(&copy->name, spec->name) || copy_text(&copy->image, spec->image) ||
             copy_text(&copy->workdir, spec->workdir) || copy_text(&copy->user, spec->user) ||
             copy_text(&copy->hostname, spec->hostname) || copy_text(&copy->idempotency_key, spec->idempotency_key) ||
             copy_text(&copy->seccomp, spec->seccomp);
    if (!failed && spec->secret_patterns)
        failed = !(copy->secret_patterns = copy_list((const char *const *)spec->secret_patterns));
    if (!failed && spec->daemon)
        failed = !(copy->daemon = copy_list((const char *const *)spec->daemon));
    for (size_t i = 0; !failed && i < spec->n_labels; i++)
        failed = put_pair(&copy->labels, &copy->n_labels, &copy->labels_bytes, spec->labels[i].key, spec->labels[i].value);
    for (size_t i = 0; !failed && i < spec->n_env; i++)
        failed = put_pair(&copy->env, &copy->n_env, &copy->env_bytes, spec->env[i].key, spec->env[i].value);
    for (size_t i = 0; !failed && i < spec->n_mounts; i++) {
        const struct sb_mount *m = &spec->mounts[i];
        const struct sandbox_mount_options options = {
            .type = m->type, .flags = m->flags, .max_bytes = m->max_bytes, .owner = m->owner,
        };

        failed = put_mount(copy, m->source, m->target, &options);
    }
    failed = failed || sb_spec_life_copy(&copy->life, &spec->life);
    if (!failed)
        failed = sb_spec_network_copy(copy, spec);
    if (failed)
        return sb_spec_free(copy);
    copy->capabilities = spec->capabilities;
    copy->secrets = spec->secrets;
    copy->fuse = spec->fuse;
    copy->read_only = spec->read_only;
    copy->lifetime = spec->lifetime;
    copy->limits = spec->limits;
    copy->log_max = spec->log_max;
    return copy;
}

static int set_text(char **to, const char *from, struct sandbox_error **error)
{
    char *copy;

    if (copy_text(&copy, from))
        return no_memory(error);
    free(*to);
    *to = copy;
    return 0;
}

int sb_spec_set_name(struct sandbox_spec *spec, const char *name, struct sandbox_error **error)
{
    int r = name ? sb_check_name(name, "name", error) : 0;

    return r ? r : set_text(&spec->name, name, error);
}

int sb_spec_set_idempotency_key(struct sandbox_spec *spec, const char *key, struct sandbox_error **error)
{
    int r = key ? sb_check_key(key, "idempotency_key", error) : 0;

    return r ? r : set_text(&spec->idempotency_key, key, error);
}

int sb_spec_set_seccomp(struct sandbox_spec *spec, const char *profile, struct sandbox_error **error)
{
    int r = profile ? sb_check_seccomp(profile, error) : 0;

    return r ? r : set_text(&spec->seccomp, profile && strcmp(profile, "default") ? profile : NULL, error);
}

int sb_spec_set_image(struct sandbox_spec *spec, const char *image, struct sandbox_error **error)
{
    int r = sb_check_image(image, "image", error);

    return r ? r : set_text(&spec->image, image, error);
}

int sb_spec_add_label(struct sandbox_spec *spec, const char *key, const char *value, struct sandbox_error **error)
{
    int r = sb_check_label(key, value, error);

    if (r)
        return r;
    if (spec->n_labels >= SB_LABELS_MAX || spec->labels_bytes + strlen(key) + strlen(value) + 2 > SB_LABELS_BYTES_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "labels"), "more than %d labels or %d bytes of them", SB_LABELS_MAX,
                       SB_LABELS_BYTES_MAX);
    return put_pair(&spec->labels, &spec->n_labels, &spec->labels_bytes, key, value) ? no_memory(error) : 0;
}

int sb_spec_add_env(struct sandbox_spec *spec, const char *name, const char *value, struct sandbox_error **error)
{
    int r = sb_check_env(name, value, error);

    if (r)
        return r;
    if (spec->n_env >= SB_ENV_MAX || spec->env_bytes + strlen(name) + strlen(value) + 2 > SB_ARGS_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "env"), "more than %d environment variables or %d bytes of them",
                       SB_ENV_MAX, SB_ARGS_MAX);
    return put_pair(&spec->env, &spec->n_env, &spec->env_bytes, name, value) ? no_memory(error) : 0;
}

int sb_spec_set_workdir(struct sandbox_spec *spec, const char *workdir, struct sandbox_error **error)
{
    int r = workdir ? sb_check_workdir(workdir, error) : 0;

    return r ? r : set_text(&spec->workdir, workdir, error);
}

int sb_spec_set_user(struct sandbox_spec *spec, const char *user, struct sandbox_error **error)
{
    int r = user ? sb_check_user(user, error) : 0;

    return r ? r : set_text(&spec->user, user, error);
}

int sb_spec_set_hostname(struct sandbox_spec *spec, const char *hostname, struct sandbox_error **error)
{
    int r = hostname ? sb_check_hostname(hostname, error) : 0;

    return r ? r : set_text(&spec->hostname, hostname, error);
}

int sb_spec_set_daemon(struct sandbox_spec *spec, const char *const *argv, struct sandbox_error **error)
{
    char **copy = NULL;

    if (argv && argv[0]) {
        int r = sb_check_argv(argv, "daemon", error);

        if (r)
            return r;
        copy = copy_list(argv);
        if (!copy)
            return no_memory(error);
    }
    free_list(spec->daemon);
    spec->daemon = copy;
    return 0;
}

int sb_spec_add_capability(struct sandbox_spec *spec, const char *capability, struct sandbox_error **error)
{
    int number = capability ? sb_capability_from_name(capability) : -1;

    if (number < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "capability", .hint = "use a name such as \"SYS_ADMIN\""),
                       "capability is not one that this version knows");
    spec->capabilities |= UINT64_C(1) << number;
    return 0;
}

int sb_spec_set_fuse(struct sandbox_spec *spec, int fuse, struct sandbox_error **error)
{
    int r = sb_check_flag(fuse, "fuse", error);

    if (!r)
        spec->fuse = fuse;
    return r;
}

int sb_spec_set_memory_max(struct sandbox_spec *spec, int64_t bytes, struct sandbox_error **error)
{
    return sb_limits_set(&spec->limits, "memory_max", bytes, error);
}

int sb_spec_set_pids_max(struct sandbox_spec *spec, int64_t pids, struct sandbox_error **error)
{
    return sb_limits_set(&spec->limits, "pids_max", pids, error);
}

int sb_spec_set_cpu_max(struct sandbox_spec *spec, int64_t millicpus, struct sandbox_error **error)
{
    return sb_limits_set(&spec->limits, "cpu_max", millicpus, error);
}

int sb_spec_set_log_max(struct sandbox_spec *spec, int64_t bytes, struct sandbox_error **error)
{
    int r = sb_check_limit(bytes, 8192, INT64_C(1) << 50, "log_max", error);

    if (!r)
        spec->log_max = bytes;
    return r;
}

int sb_spec_set_lifetime(struct sandbox_spec *spec, int lifetime, struct sandbox_error **error)
{
    if (lifetime != SANDBOX_LIFETIME_OWNED && lifetime != SANDBOX_LIFETIME_DETACHED)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "lifetime"), "lifetime is not a sandbox_lifetime");
    spec->lifetime = lifetime;
    return 0;
}

int sb_spec_set_read_only(struct sandbox_spec *spec, int read_only, struct sandbox_error **error)
{
    int r = sb_check_flag(read_only, "read_only", error);

    if (!r)
        spec->read_only = read_only;
    return r;
}

int sb_spec_set_secrets(struct sandbox_spec *spec, int mode, const char *const *patterns, struct sandbox_error **error)
{
    char **copy = NULL;
    int r = sb_check_patterns(patterns, error);

    if (!r && (mode < SANDBOX_SECRETS_IGNORE || mode > SANDBOX_SECRETS_HIDE))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "secrets"), "secrets is not a sandbox_secrets_mode");
    if (!r && patterns && patterns[0] && !(copy = copy_list(patterns)))
        r = no_memory(error);
    if (r)
        return r;
    free_list(spec->secret_patterns);
    spec->secret_patterns = copy;
    spec->secrets = mode;
    return 0;
}

int sb_spec_add_mount(struct sandbox_spec *spec, const struct sandbox_mount_options *mount, struct sandbox_error **error)
{
    int r = sb_check_mount(mount, error);

    if (r)
        return r;
    if (spec->n_mounts >= SB_MOUNTS_MAX ||
        spec->mounts_bytes + strlen(mount->target) + (mount->source ? strlen(mount->source) : 0) + 2 > SB_MOUNTS_BYTES_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "mounts"), "more than %d mounts or %d bytes of paths", SB_MOUNTS_MAX,
                       SB_MOUNTS_BYTES_MAX);
    return put_mount(spec, mount->source, mount->target, mount) ? no_memory(error) : 0;
}
