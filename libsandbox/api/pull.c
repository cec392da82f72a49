/* SPDX-License-Identifier: Apache-2.0
 * Images from registries, and what is left of them: pull, collect. */
#include "handles.h"
#include "options.h"
#include "rules.h"

#include <json.h>
#include <limits.h>
#include <string.h>

#include "reference.h"

enum { PARALLEL_MAX = 16, USER_MAX = 511, PASSWORD_MAX = 8191, PROXY_MAX = 1023 };

/* Never shown: some of it is secret. */
static int check_text(const char *text, size_t max, const char *field, struct sandbox_error **error)
{
    size_t n = text ? strnlen(text, max + 1) : 1;

    if (n && n <= max)
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is empty or longer than %zu bytes", field, max);
}

static int check_credentials(const struct sandbox_image_pull_options *options, struct sandbox_error **error)
{
    int r = 0;

    if (options->username && !options->password)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "password"), "a username needs a password");
    if (options->password && options->docker_config)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "docker_config"), "credentials are given in two ways");
    if (options->username)
        r = check_text(options->username, USER_MAX, "username", error);
    if (!r && options->username && strpbrk(options->username, ":\r\n"))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "username"), "username has a colon or an end of line in it");
    if (!r)
        r = check_text(options->password, PASSWORD_MAX, "password", error);
    if (!r)
        r = check_text(options->docker_config, PATH_MAX - 1, "docker_config", error);
    if (!r && options->helper_path)
        r = check_text(options->helper_path, 65535, "helper_path", error);
    return r ? r : sb_check_env_list(options->helper_env, "helper_env", error);
}

static int check_pull(const char *name, const struct sandbox_image_pull_options *options, struct sandbox_error **error)
{
    struct sb_reference reference;
    int r;

    if (!name)
        return sb_fail_null(error, "reference");
    if (!strncmp(name, "sha256:", 7) || sb_reference_parse(name, &reference))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "reference", .hint = "as HOST[:PORT]/PATH[:TAG][@sha256:DIGEST]"),
                       "'%.255s' is no name of an image in a registry", name);
    if (options->policy != SANDBOX_PULL_ALWAYS && options->policy != SANDBOX_PULL_MISSING)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "policy"), "policy is not a sandbox_pull_policy");
    if (options->flags & ~SANDBOX_PULL_PLAIN_HTTP)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "flags"), "flags has bits that are not known");
    r = options->name ? sb_check_name(options->name, "name", error) : 0;
    if (!r && options->name && !strcmp(options->name, "host"))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "name", .hint = "choose another name"), "\"host\" is the name of this machine's own files");
    if (!r && options->digest && !sb_digest_valid(options->digest))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "digest"), "digest is not \"sha256:\" and 64 lowercase hexadecimal digits");
    if (!r)
        r = check_credentials(options, error);
    if (!r)
        r = check_text(options->ca_file, PATH_MAX - 1, "ca_file", error);
    if (!r)
        r = check_text(options->proxy, PROXY_MAX, "proxy", error);
    if (!r && options->no_proxy && *options->no_proxy)
        r = check_text(options->no_proxy, PROXY_MAX, "no_proxy", error);
    if (!r)
        r = sb_check_limit(options->max_bytes, 1, INT64_MAX, "max_bytes", error);
    if (!r)
        r = sb_check_limit(options->max_entries, 1, INT64_MAX, "max_entries", error);
    return r ? r : sb_check_limit(options->parallel, 1, PARALLEL_MAX, "parallel", error);
}

static int pull_begin(struct sandbox_host *host, const char *reference, const struct sandbox_image_pull_options *options,
                      struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_image_pull_options known = SANDBOX_IMAGE_PULL_OPTIONS_INIT;
    struct sb_op *op;
    int r = sb_host_check(host, error);

    if (!r)
        r = sb_options_read(&known, sizeof known, SB_SIZE_TO(struct sandbox_image_pull_options, parallel), options, error);
    if (!r)
        r = check_pull(reference, &known, error);
    if (r)
        return r;
    if (!ret_op)
        return sb_fail_null(error, "ret_op");
    if (!host->driver->ops->image_pull)
        return sb_fail_slot(error, host, "image pull", NULL);
    r = host->driver->ops->image_pull(host->driver, reference, &known, &op, error);
    return r ? r : sb_op_new(op, host, NULL, "pull", host->driver->ops->name, ret_op, error);
}

int sandbox_image_pull_begin(struct sandbox_host *host, const char *reference, const struct sandbox_image_pull_options *options,
                             struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(pull_begin(host, reference, options, ret_op, &failure), &failure, error, "pull", host);
}

int sandbox_image_pull(struct sandbox_host *host, const char *reference, const struct sandbox_image_pull_options *options, int64_t timeout_ms,
                       struct sandbox_image **ret_image, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = ret_image ? sb_check_timeout(timeout_ms, "timeout_ms", &failure) : sb_fail_null(&failure, "ret_image");

    if (!r)
        r = pull_begin(host, reference, options, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    if (!r)
        r = sandbox_op_take_image(op, ret_image, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "pull", host);
}

static int collect_begin(struct sandbox_host *host, unsigned int flags, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sb_op *op;
    int r = sb_host_check(host, error);

    if (r)
        return r;
    if (flags & ~(SANDBOX_COLLECT_UNNAMED | SANDBOX_COLLECT_UNUSED))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "flags"), "flags has bits that are not known");
    if (!ret_op)
        return sb_fail_null(error, "ret_op");
    if (!host->driver->ops->images_collect)
        return sb_fail_slot(error, host, "images collect", NULL);
    r = host->driver->ops->images_collect(host->driver, flags, &op, error);
    return r ? r : sb_op_new(op, host, NULL, "collect", host->driver->ops->name, ret_op, error);
}

int sandbox_images_collect_begin(struct sandbox_host *host, unsigned int flags, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(collect_begin(host, flags, ret_op, &failure), &failure, error, "collect", host);
}

int sandbox_images_collect(struct sandbox_host *host, unsigned int flags, int64_t timeout_ms, struct sandbox_collected *ret_collected,
                           struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = sb_check_timeout(timeout_ms, "timeout_ms", &failure);

    if (!r)
        r = collect_begin(host, flags, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    if (!r && ret_collected)
        r = sandbox_op_get_collected(op, ret_collected, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "collect", host);
}
