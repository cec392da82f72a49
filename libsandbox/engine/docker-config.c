/* SPDX-License-Identifier: Apache-2.0
 * See docker-config.h. */
#include "docker-config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errors.h>
#include <json.h>
#include <util.h>

#define DOCKER_SERVER "https://index.docker.io/v1/" /* what docker login has always called it */
enum { SECRET_MAX = 8191, USER_MAX = 511 };

static void wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void sb_credentials_clear(struct sb_credentials *credentials)
{
    wipe(credentials->user);
    wipe(credentials->secret);
    *credentials = (struct sb_credentials){ 0 };
}

static int damaged(struct sandbox_error **error, const char *why)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .field = "docker_config", .phase = "credentials"), "the file of credentials %s", why);
}

static int take(enum sb_credentials_kind kind, const char *user, const char *secret, struct sb_credentials *ret, struct sandbox_error **error)
{
    if (strlen(user) > USER_MAX || strlen(secret) > SECRET_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "docker_config", .phase = "credentials"), "a user name or secret is too long");
    *ret = (struct sb_credentials){ .kind = kind, .user = strdup(user), .secret = strdup(secret) };
    if (ret->user && ret->secret)
        return 0;
    sb_credentials_clear(ret);
    return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "reading credentials: out of memory");
}

static int digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* Padded or not; malloc'ed, NULL when it is something else or holds a NUL. Docker pads the text itself with NULs at times: at its end. */
static char *decode(const char *text)
{
    size_t n = strlen(text), size = 0;
    char *out = malloc(n + 1);
    unsigned int bits = 0, value = 0;

    while (n && text[n - 1] == '=')
        n--;
    for (size_t i = 0; out && i < n; i++) {
        int d = digit(text[i]);

        if (d < 0) {
            explicit_bzero(out, size);
            free(out);
            return NULL;
        }
        value = (value << 6 | (unsigned int)d) & 0xffffff;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[size++] = (char)(value >> bits);
        }
    }
    if (!out)
        return NULL;
    while (size && !out[size - 1])
        size--;
    out[size] = 0;
    if (strlen(out) != size) {
        explicit_bzero(out, size);
        free(out);
        return NULL;
    }
    return out;
}

static int take_entry(const json_t *entry, struct sb_credentials *ret, struct sandbox_error **error)
{
    const char *identity = sb_json_str(entry, "identitytoken"), *bearer = sb_json_str(entry, "registrytoken");
    const char *auth = sb_json_str(entry, "auth"), *user = sb_json_str(entry, "username"), *secret = sb_json_str(entry, "password");
    char *pair, *colon;
    int r;

    if (bearer && *bearer)
        return take(SB_CREDENTIALS_BEARER, "", bearer, ret, error);
    if (!auth || !*auth) {
        if (identity && *identity)
            return take(SB_CREDENTIALS_IDENTITY, user ? user : "", identity, ret, error);
        return user && *user && secret ? take(SB_CREDENTIALS_PASSWORD, user, secret, ret, error) : 0;
    }
    pair = decode(auth);
    colon = pair ? strchr(pair, ':') : NULL;
    if (!colon) {
        wipe(pair);
        return damaged(error, "has an \"auth\" that is not USER:PASSWORD in base64");
    }
    *colon = 0;
    r = identity && *identity ? take(SB_CREDENTIALS_IDENTITY, pair, identity, ret, error)
                              : take(SB_CREDENTIALS_PASSWORD, pair, colon + 1, ret, error);
    *colon = ':';
    wipe(pair);
    return r;
}

/* A key of "auths" without scheme and what docker adds: "https://HOST/v1/" is HOST. */
static size_t plain_key(const char *key, const char **ret)
{
    const char *at = !strncmp(key, "https://", 8) ? key + 8 : !strncmp(key, "http://", 7) ? key + 7 : key;
    size_t n = strlen(at);

    if (at != key) {
        while (n && at[n - 1] == '/')
            n--;
        if (n > 3 && (!strncmp(at + n - 3, "/v1", 3) || !strncmp(at + n - 3, "/v2", 3)))
            n -= 3;
    }
    *ret = at;
    return n;
}

static int is_key(const char *key, const char *wanted, size_t size)
{
    static const char *const docker[] = { "docker.io", "index.docker.io", "registry-1.docker.io" };
    const char *at;
    size_t n = plain_key(key, &at);

    if (n == size && !strncmp(at, wanted, size))
        return 1;
    if (size != strlen(docker[0]) || strncmp(wanted, docker[0], size))
        return 0;
    for (size_t i = 0; i < SB_ELEMENTS(docker); i++)
        if (n == strlen(docker[i]) && !strncmp(at, docker[i], n))
            return 1;
    return 0;
}

static const json_t *find(const json_t *object, const char *wanted, size_t size)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value)
        if (is_key(key, wanted, size))
            return value;
    return NULL;
}

/* HOST/PATH first, then what stands above it, then HOST. */
static const json_t *find_most_specific(const json_t *auths, const struct sb_reference *reference)
{
    char name[2 * SB_REFERENCE_MAX + 2];
    size_t size = (size_t)snprintf(name, sizeof name, "%s/%s", reference->host, reference->repository);

    for (;;) {
        const json_t *entry = find(auths, name, size);

        if (entry)
            return entry;
        while (size && name[size - 1] != '/')
            size--;
        if (!size)
            return NULL;
        size--;
    }
}

static int take_helper(const char *name, struct sb_docker_config *config, struct sandbox_error **error)
{
    if (!*name)
        return 0;
    if (strlen(name) >= sizeof config->helper || !sb_name_valid(name))
        return damaged(error, "names a credential helper that is no name");
    snprintf(config->helper, sizeof config->helper, "%s", name);
    return 0;
}

int sb_docker_config_read(const char *text, size_t size, const struct sb_reference *reference, struct sb_docker_config *ret,
                          struct sandbox_error **error)
{
    struct sb_docker_config config = { 0 };
    const json_t *helpers, *auths, *entry;
    SB_JSON json_t *json = NULL;
    const char *name = NULL;
    int r = 0;

    if (sb_json_parse(text, size, "config.json", &json, NULL) || !json_is_object(json))
        return damaged(error, "is no JSON object");
    helpers = json_object_get(json, "credHelpers");
    auths = json_object_get(json, "auths");
    if ((helpers && !json_is_object(helpers)) || (auths && !json_is_object(auths)))
        return damaged(error, "has a member \"auths\" or \"credHelpers\" that is no object");
    entry = helpers ? find(helpers, reference->host, strlen(reference->host)) : NULL;
    name = entry ? json_string_value(entry) : sb_json_str(json, "credsStore");
    if (entry && !name)
        return damaged(error, "has a credential helper that is no name");
    if (name)
        r = take_helper(name, &config, error);
    snprintf(config.server, sizeof config.server, "%s", !strcmp(reference->host, "docker.io") ? DOCKER_SERVER : reference->host);
    entry = auths ? find_most_specific(auths, reference) : NULL;
    if (!r && json_is_object(entry))
        r = take_entry(entry, &config.stored, error);
    if (!r)
        *ret = config;
    return r;
}

int sb_docker_config_read_answer(const char *text, size_t size, struct sb_credentials *ret, struct sandbox_error **error)
{
    SB_JSON json_t *json = NULL;
    const char *user, *secret;

    if (sb_json_parse(text, size, "answer", &json, NULL) || !json_is_object(json) || !(user = sb_json_str(json, "Username")) ||
        !(secret = sb_json_str(json, "Secret")))
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .field = "docker_config", .phase = "credentials"),
                       "the credential helper's answer is not a JSON object with Username and Secret");
    if (!*secret && !*user)
        return 0;
    return take(!strcmp(user, "<token>") ? SB_CREDENTIALS_IDENTITY : SB_CREDENTIALS_PASSWORD, user, secret, ret, error);
}

int sb_docker_config_is_not_found(const char *text, size_t size)
{
    static const char says[] = "credentials not found in native keychain";

    while (size && (text[size - 1] == '\n' || text[size - 1] == '\r' || text[size - 1] == ' '))
        size--;
    return size == sizeof says - 1 && !memcmp(text, says, size);
}
