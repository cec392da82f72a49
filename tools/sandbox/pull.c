/* SPDX-License-Identifier: Apache-2.0
 * image pull, image gc, and pulling for run and create. The library looks for no credentials and reads no environment: where Docker and
 * Podman keep theirs, and which proxy is used, is said here. */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

enum { SECRET_MAX = 8191 };

struct sources {
    char *config;             /* malloc'ed */
    char secret[SECRET_MAX + 2];
};

static const char *environment(const char *name, const char *other)
{
    const char *value = getenv(name);

    if (!value || !*value)
        value = other ? getenv(other) : NULL;
    return value && *value ? value : NULL;
}

/* A file below a folder that a variable names, when it is there. */
static char *find_file(const char *folder, const char *file)
{
    char *path = NULL;

    if (!folder || asprintf(&path, "%s/%s", folder, file) < 0)
        return NULL;
    if (access(path, R_OK) == 0)
        return path;
    free(path);
    return NULL;
}

static char *find_config(void)
{
    const char *docker = environment("DOCKER_CONFIG", NULL);
    char *path = docker ? find_file(docker, "config.json") : find_file(environment("HOME", NULL), ".docker/config.json");

    return path ? path : find_file(environment("XDG_RUNTIME_DIR", NULL), "containers/auth.json");
}

/* One line, or all up to the end. */
static int read_secret(struct tool *tool, char *secret)
{
    size_t n = 0;
    ssize_t got;

    while (n <= SECRET_MAX && (got = read(STDIN_FILENO, secret + n, SECRET_MAX + 1 - n)) > 0)
        n += (size_t)got;
    secret[n <= SECRET_MAX ? n : 0] = 0;
    secret[strcspn(secret, "\r\n")] = 0;
    if (*secret)
        return 0;
    return report(tool, SANDBOX_EINVALID, "password-stdin", NULL, "there is no password on stdin, or one of more than %d bytes", SECRET_MAX);
}

static int set_options(struct tool *tool, const struct arguments *arguments, struct sources *sources, struct sandbox_image_pull_options *options)
{
    options->name = arguments->name;
    options->digest = arguments->digest;
    options->max_bytes = arguments->max_bytes;
    options->max_entries = arguments->max_entries;
    options->ca_file = arguments->ca_file;
    options->flags = arguments->plain_http ? SANDBOX_PULL_PLAIN_HTTP : 0;
    options->proxy = arguments->plain_http ? environment("http_proxy", NULL) : environment("https_proxy", "HTTPS_PROXY");
    options->no_proxy = environment("no_proxy", "NO_PROXY");
    if (arguments->username && !arguments->password_stdin)
        return report(tool, SANDBOX_EINVALID, "username", "add --password-stdin", "--username needs a password, which no command line should hold");
    if (arguments->password_stdin) {
        options->username = arguments->username;
        options->password = sources->secret;
        return read_secret(tool, sources->secret);
    }
    sources->config = arguments->auth_file ? strdup(arguments->auth_file) : find_config();
    options->docker_config = sources->config;
    options->helper_path = environment("PATH", NULL);
    options->helper_env = (const char *const *)environ;
    return 0;
}

static void clear_sources(struct sources *sources)
{
    explicit_bzero(sources->secret, sizeof sources->secret);
    free(sources->config);
}

/* 0 and *ret_image, or the exit status. */
static int pull(struct tool *tool, const char *reference, const struct sandbox_image_pull_options *options, struct signals *signals,
                struct sandbox_image **ret_image)
{
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = NULL;
    int r = sandbox_image_pull_begin(tool->host, reference, options, &op, &error);

    if (!r)
        r = op_drive(tool, op, signals, &error);
    if (!r)
        r = sandbox_op_take_image(op, ret_image, &error);
    sandbox_op_unref(op);
    if (r == SANDBOX_ECANCELLED && signals->last) {
        sandbox_error_unref(error);
        return 128 + signals->last;
    }
    return r ? report_error(tool, error) : 0;
}

int command_image_pull(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_image_pull_options options = SANDBOX_IMAGE_PULL_OPTIONS_INIT;
    struct sandbox_image *image = NULL;
    struct sources sources = { 0 };
    struct signals signals;
    int status = tool_open_host(tool);

    if (!status)
        status = signals_open(tool, &signals);
    if (status)
        return status;
    status = set_options(tool, arguments, &sources, &options);
    if (!status)
        status = pull(tool, arguments->operands[0], &options, &signals, &image);
    if (!status)
        printf("%s\n", tool->json ? sandbox_image_get_json(image) : sandbox_image_get_digest(image));
    sandbox_image_unref(image);
    clear_sources(&sources);
    signals_close(&signals);
    return status;
}

static int is_reference(const char *image)
{
    return image && strncmp(image, "sha256:", 7) && strpbrk(image, "/:");
}

int pull_image(struct tool *tool, const struct arguments *arguments, struct signals *signals)
{
    struct sandbox_image_pull_options options = SANDBOX_IMAGE_PULL_OPTIONS_INIT;
    const char *image = arguments->image;
    struct sandbox_image *pulled = NULL;
    struct sources sources = { 0 };
    int64_t when = arguments->pull;
    struct arguments own = { .ca_file = arguments->ca_file, .plain_http = arguments->plain_http, .auth_file = arguments->auth_file };
    int status;

    if (when == PULL_UNSAID)
        when = image && !strncmp(image, "docker://", 9) ? PULL_MISSING : PULL_NEVER;
    if (when == PULL_NEVER)
        return 0;
    if (!is_reference(image))
        return report(tool, SANDBOX_EINVALID, "pull", "as docker://PATH or HOST/PATH:TAG", "--image names no image in a registry");
    status = set_options(tool, &own, &sources, &options);
    options.policy = when == PULL_MISSING ? SANDBOX_PULL_MISSING : SANDBOX_PULL_ALWAYS;
    if (!status)
        status = pull(tool, image, &options, signals, &pulled);
    sandbox_image_unref(pulled);
    clear_sources(&sources);
    return status;
}

int command_image_gc(struct tool *tool, const struct arguments *arguments)
{
    unsigned int flags = (arguments->unnamed ? SANDBOX_COLLECT_UNNAMED : 0) | (arguments->unused ? SANDBOX_COLLECT_UNUSED : 0);
    struct sandbox_collected collected = SANDBOX_COLLECTED_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = NULL;
    struct signals signals;
    int status = tool_open_host(tool), r;
    char size[32];

    if (!status)
        status = signals_open(tool, &signals);
    if (status)
        return status;
    r = sandbox_images_collect_begin(tool->host, flags, &op, &error);
    if (!r)
        r = op_drive(tool, op, &signals, &error);
    if (!r)
        r = sandbox_op_get_collected(op, &collected, &error);
    sandbox_op_unref(op);
    signals_close(&signals);
    if (r)
        return report_error(tool, error);
    if (tool->json)
        printf("{\"images\":%lld,\"layers\":%lld,\"downloads\":%lld,\"bytes\":%lld}\n", (long long)collected.images, (long long)collected.layers,
               (long long)collected.downloads, (long long)collected.bytes);
    else
        printf("%lld images, %lld layers, %lld downloads, %s\n", (long long)collected.images, (long long)collected.layers, (long long)collected.downloads,
               text_bytes(collected.bytes, size, sizeof size));
    return 0;
}
