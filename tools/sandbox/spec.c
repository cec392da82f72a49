/* SPDX-License-Identifier: Apache-2.0
 * From options to a spec. What the library checks is left to the library, so that its messages stay the only ones. */
#include "tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail_mount(struct tool *tool, const char *text, const char *problem)
{
    static const char hint[] = "such as type=bind,source=/src,target=/dst,ro or type=overlay,source=/src,target=/dst";

    return report(tool, SANDBOX_EINVALID, "mount", hint, "mount \"%s\": %s", text, problem);
}

static int read_mount_type(const char *value, int *ret_type)
{
    static const char *const names[] = {
        [SANDBOX_MOUNT_BIND] = "bind",
        [SANDBOX_MOUNT_VOLUME] = "volume",
        [SANDBOX_MOUNT_TMPFS] = "tmpfs",
        [SANDBOX_MOUNT_OVERLAY] = "overlay",
    };

    for (size_t i = 0; i < TOOL_ELEMENTS(names); i++)
        if (strcmp(value, names[i]) == 0) {
            *ret_type = (int)i;
            return 0;
        }
    return -1;
}

/* One "key=value" or "ro" of a mount; the text was cut at the commas. NULL, or what is wrong with it. */
static const char *read_mount_part(char *part, struct sandbox_mount_options *mount, int *ret_type)
{
    char *value = strchr(part, '=');

    if (!value) {
        if (strcmp(part, "ro") != 0)
            return "only \"ro\" stands without a value";
        mount->flags |= SANDBOX_MOUNT_READ_ONLY;
        return NULL;
    }
    *value++ = 0;
    if (strcmp(part, "type") == 0)
        return read_mount_type(value, ret_type) ? "type is bind, overlay, volume or tmpfs" : NULL;
    if (strcmp(part, "source") == 0)
        mount->source = value;
    else if (strcmp(part, "target") == 0)
        mount->target = value;
    else if (strcmp(part, "size") == 0)
        return value_size(value, &mount->max_bytes) ? "size is a number with K, M, G or T" : NULL;
    else if (strcmp(part, "owner") == 0)
        mount->owner = value;
    else
        return "it has type, source, target, owner, ro and size";
    return NULL;
}

static int add_mount(struct tool *tool, struct sandbox_spec *spec, const char *text)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    TOOL_FREE char *copy = tool_format("%s", text);
    TOOL_FREE char *absolute = NULL;
    struct sandbox_error *error = NULL;
    char *rest = copy, *part;
    int type = -1;

    while ((part = strsep(&rest, ","))) {
        const char *problem = read_mount_part(part, &mount, &type);

        if (problem)
            return fail_mount(tool, text, problem);
    }
    if (type < 0)
        return fail_mount(tool, text, "it needs type=bind, overlay, volume or tmpfs");
    if ((type == SANDBOX_MOUNT_BIND || type == SANDBOX_MOUNT_OVERLAY) && mount.source && mount.source[0] != '/') {
        /* the library has no current folder; a person at a shell has */
        absolute = realpath(mount.source, NULL);
        if (!absolute)
            return fail_mount(tool, text, strerror(errno));
        mount.source = absolute;
    }
    mount.type = type;
    return sandbox_spec_add_mount(spec, &mount, &error) ? report_error(tool, error) : 0;
}

static int add_labels(struct tool *tool, struct sandbox_spec *spec, const char *const *labels)
{
    for (; *labels; labels++) {
        const char *equals = strchr(*labels, '=');
        TOOL_FREE char *key = equals ? tool_format("%.*s", (int)(equals - *labels), *labels) : NULL;
        struct sandbox_error *error = NULL;

        if (!equals)
            return report(tool, SANDBOX_EINVALID, "label", "such as --label project=demo", "label \"%s\" has no value", *labels);
        if (sandbox_spec_add_label(spec, key, equals + 1, &error))
            return report_error(tool, error);
    }
    return 0;
}

int spec_environment(struct tool *tool, const struct arguments *arguments, char ***ret_env)
{
    size_t n = 0;
    char **env;

    while (arguments->env[n])
        n++;
    env = tool_allocate(n + 1, sizeof *env);
    for (size_t i = 0; i < n; i++) {
        const char *name = arguments->env[i], *value = strchr(name, '=') ? "" : getenv(name);

        if (!value) {
            spec_environment_free(env);
            return report(tool, SANDBOX_EINVALID, "env", "give NAME=VALUE, or export it first",
                          "env \"%s\" is not set here and has no value", name);
        }
        env[i] = strchr(name, '=') ? tool_format("%s", name) : tool_format("%s=%s", name, value);
    }
    *ret_env = env;
    return 0;
}

void spec_environment_free(char **env)
{
    for (size_t i = 0; env && env[i]; i++)
        free(env[i]);
    free(env);
}

int spec_add_environment(struct tool *tool, struct sandbox_spec *spec, const struct arguments *arguments)
{
    struct sandbox_error *error = NULL;
    char **env = NULL;
    int status = spec_environment(tool, arguments, &env);

    for (size_t i = 0; !status && env[i]; i++) {
        char *equals = strchr(env[i], '=');

        *equals = 0;
        if (sandbox_spec_add_env(spec, env[i], equals + 1, &error))
            status = report_error(tool, error);
    }
    spec_environment_free(env);
    return status;
}

static int set_scalars(struct sandbox_spec *spec, const struct arguments *a, struct sandbox_error **error)
{
    int r = 0;

    if (!r && a->image)
        r = sandbox_spec_set_image(spec, a->image, error);
    if (!r && a->name)
        r = sandbox_spec_set_name(spec, a->name, error);
    if (!r && a->user)
        r = sandbox_spec_set_user(spec, a->user, error);
    if (!r && a->workdir)
        r = sandbox_spec_set_workdir(spec, a->workdir, error);
    if (!r && a->hostname)
        r = sandbox_spec_set_hostname(spec, a->hostname, error);
    if (!r && a->key)
        r = sandbox_spec_set_idempotency_key(spec, a->key, error);
    if (!r && a->log_max)
        r = sandbox_spec_set_log_max(spec, a->log_max, error);
    if (!r && a->fuse)
        r = sandbox_spec_set_fuse(spec, 1, error);
    if (!r && a->read_only)
        r = sandbox_spec_set_read_only(spec, 1, error);
    if (!r && (a->secrets || a->secret_patterns[0]))
        r = sandbox_spec_set_secrets(spec, a->secrets ? (int)a->secrets : SANDBOX_SECRETS_WARN, a->secret_patterns, error);
    if (!r)
        r = spec_set_life(spec, a, error);
    for (size_t i = 0; !r && a->capabilities[i]; i++)
        r = sandbox_spec_add_capability(spec, a->capabilities[i], error);
    if (!r)
        r = spec_set_network(spec, a, error);
    return r;
}

static int set_limits(struct tool *tool, struct sandbox_spec *spec, const struct arguments *arguments)
{
    struct sandbox_error *error = NULL;
    struct limits limits;
    int status = limits_take(tool, arguments, &limits);

    if (!status && limits.any && sandbox_spec_set_limits(spec, &limits.limits, &error))
        status = report_error(tool, error);
    limits_clear(&limits);
    return status;
}

/* A name, or the file that a profile is in. */
static int set_seccomp(struct tool *tool, struct sandbox_spec *spec, const char *profile)
{
    struct sandbox_error *error = NULL;
    static char text[256 * 1024 + 2]; /* more than a profile may have: the library says so */
    const char *what = profile;
    FILE *file;
    size_t n;

    if (strcmp(profile, "strict") && strcmp(profile, "default") && strcmp(profile, "devel")) {
        file = fopen(profile, "re");
        if (!file)
            return report(tool, SANDBOX_ENOTFOUND, "seccomp", "strict, default, devel, or a file with a profile in Docker's JSON form",
                          "--seccomp: %s: %s", profile, strerror(errno));
        n = fread(text, 1, sizeof text - 1, file);
        text[n] = 0;
        fclose(file);
        if (!n || strlen(text) != n)
            return report(tool, SANDBOX_EINVALID, "seccomp", NULL, "--seccomp: %s holds no profile", profile);
        what = text;
    }
    return sandbox_spec_set_seccomp(spec, what, &error) ? report_error(tool, error) : 0;
}

int spec_from_arguments(struct tool *tool, const struct arguments *arguments, int lifetime, struct sandbox_spec **ret_spec)
{
    struct sandbox_error *error = NULL;
    struct sandbox_spec *spec = NULL;
    int status = 0;

    if (sandbox_spec_new(&spec, &error) || sandbox_spec_set_lifetime(spec, lifetime, &error) ||
        set_scalars(spec, arguments, &error))
        status = report_error(tool, error);
    if (!status && arguments->seccomp)
        status = set_seccomp(tool, spec, arguments->seccomp);
    if (!status)
        status = set_limits(tool, spec, arguments);
    if (!status)
        status = add_labels(tool, spec, arguments->labels);
    for (size_t i = 0; !status && arguments->mounts[i]; i++)
        status = add_mount(tool, spec, arguments->mounts[i]);
    if (status) {
        sandbox_spec_unref(spec);
        return status;
    }
    *ret_spec = spec;
    return 0;
}
