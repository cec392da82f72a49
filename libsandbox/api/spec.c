/* SPDX-License-Identifier: Apache-2.0
 * Specs, as the public header has them. The rules are base/rules.c's, the storage is base/spec.c's. */
#include "handles.h"
#include "options.h"

int sandbox_spec_new(struct sandbox_spec **ret_spec, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_spec *spec = ret_spec ? sb_spec_new() : NULL;
    int r = !ret_spec ? sb_fail_null(&failure, "ret_spec") : !spec ? sb_fail_memory(&failure) : 0;

    if (!r)
        *ret_spec = spec;
    return sb_leave(r, &failure, error, "spec", NULL);
}

struct sandbox_spec *sandbox_spec_unref(struct sandbox_spec *spec)
{
    return sb_spec_free(spec);
}

/* Every setter is the same but for its arguments. */
#define SET(call, error)                                                                                                         \
    do {                                                                                                                         \
        struct sandbox_error *failure = NULL;                                                                                    \
        int r = spec ? (call) : sb_fail_null(&failure, "spec");                                                                  \
        return sb_leave(r, &failure, error, "spec", NULL);                                                                        \
    } while (0)

int sandbox_spec_set_name(struct sandbox_spec *spec, const char *name, struct sandbox_error **error)
{
    SET(sb_spec_set_name(spec, name, &failure), error);
}

int sandbox_spec_set_image(struct sandbox_spec *spec, const char *image, struct sandbox_error **error)
{
    SET(sb_spec_set_image(spec, image, &failure), error);
}

int sandbox_spec_add_label(struct sandbox_spec *spec, const char *key, const char *value, struct sandbox_error **error)
{
    SET(sb_spec_add_label(spec, key, value, &failure), error);
}

int sandbox_spec_add_env(struct sandbox_spec *spec, const char *name, const char *value, struct sandbox_error **error)
{
    SET(sb_spec_add_env(spec, name, value, &failure), error);
}

int sandbox_spec_set_workdir(struct sandbox_spec *spec, const char *workdir, struct sandbox_error **error)
{
    SET(sb_spec_set_workdir(spec, workdir, &failure), error);
}

int sandbox_spec_set_user(struct sandbox_spec *spec, const char *user, struct sandbox_error **error)
{
    SET(sb_spec_set_user(spec, user, &failure), error);
}

int sandbox_spec_set_hostname(struct sandbox_spec *spec, const char *hostname, struct sandbox_error **error)
{
    SET(sb_spec_set_hostname(spec, hostname, &failure), error);
}

int sandbox_spec_set_idempotency_key(struct sandbox_spec *spec, const char *key, struct sandbox_error **error)
{
    SET(sb_spec_set_idempotency_key(spec, key, &failure), error);
}

int sandbox_spec_set_daemon(struct sandbox_spec *spec, const char *const *argv, struct sandbox_error **error)
{
    SET(sb_spec_set_daemon(spec, argv, &failure), error);
}

int sandbox_spec_add_capability(struct sandbox_spec *spec, const char *capability, struct sandbox_error **error)
{
    SET(sb_spec_add_capability(spec, capability, &failure), error);
}

int sandbox_spec_set_fuse(struct sandbox_spec *spec, int fuse, struct sandbox_error **error)
{
    SET(sb_spec_set_fuse(spec, fuse, &failure), error);
}

int sandbox_spec_set_memory_max(struct sandbox_spec *spec, int64_t bytes, struct sandbox_error **error)
{
    SET(sb_spec_set_memory_max(spec, bytes, &failure), error);
}

int sandbox_spec_set_pids_max(struct sandbox_spec *spec, int64_t pids, struct sandbox_error **error)
{
    SET(sb_spec_set_pids_max(spec, pids, &failure), error);
}

int sandbox_spec_set_cpu_max(struct sandbox_spec *spec, int64_t millicpus, struct sandbox_error **error)
{
    SET(sb_spec_set_cpu_max(spec, millicpus, &failure), error);
}

int sandbox_spec_set_log_max(struct sandbox_spec *spec, int64_t bytes, struct sandbox_error **error)
{
    SET(sb_spec_set_log_max(spec, bytes, &failure), error);
}

int sandbox_spec_set_lifetime(struct sandbox_spec *spec, int lifetime, struct sandbox_error **error)
{
    SET(sb_spec_set_lifetime(spec, lifetime, &failure), error);
}

int sandbox_spec_set_network(struct sandbox_spec *spec, int network, struct sandbox_error **error)
{
    SET(sb_spec_set_network(spec, network, &failure), error);
}

int sandbox_spec_set_network_name(struct sandbox_spec *spec, const char *name, struct sandbox_error **error)
{
    SET(sb_spec_set_network_name(spec, name, &failure), error);
}

int sandbox_spec_add_allowed(struct sandbox_spec *spec, const char *rule, struct sandbox_error **error)
{
    SET(sb_spec_add_allowed(spec, rule, &failure), error);
}

int sandbox_spec_add_dns_server(struct sandbox_spec *spec, const char *server, struct sandbox_error **error)
{
    SET(sb_spec_add_dns_server(spec, server, &failure), error);
}

int sandbox_spec_add_port(struct sandbox_spec *spec, int local_port, int port, struct sandbox_error **error)
{
    SET(sb_spec_add_port(spec, local_port, port, &failure), error);
}

int sandbox_spec_set_read_only(struct sandbox_spec *spec, int read_only, struct sandbox_error **error)
{
    SET(sb_spec_set_read_only(spec, read_only, &failure), error);
}

int sandbox_spec_set_secrets(struct sandbox_spec *spec, int mode, const char *const *patterns, struct sandbox_error **error)
{
    SET(sb_spec_set_secrets(spec, mode, patterns, &failure), error);
}

int sandbox_spec_set_seccomp(struct sandbox_spec *spec, const char *profile, struct sandbox_error **error)
{
    SET(sb_spec_set_seccomp(spec, profile, &failure), error);
}

static int add_mount(struct sandbox_spec *spec, const struct sandbox_mount_options *options, struct sandbox_error **error)
{
    struct sandbox_mount_options known = SANDBOX_MOUNT_OPTIONS_INIT;
    int r = options ? 0 : sb_fail_null(error, "options");

    if (!r)
        r = sb_options_read(&known, sizeof known, SB_SIZE_TO(struct sandbox_mount_options, max_bytes), options, error);
    return r ? r : sb_spec_add_mount(spec, &known, error);
}

int sandbox_spec_add_mount(struct sandbox_spec *spec, const struct sandbox_mount_options *options, struct sandbox_error **error)
{
    SET(add_mount(spec, options, &failure), error);
}
