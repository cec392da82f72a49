/* SPDX-License-Identifier: Apache-2.0
 * Credentials and tokens. A registry answers 401 and says where a token is to be had (the distribution project's token and OAuth2
 * specifications), or that it takes user and password as they are. Nothing secret gets into a URL, a message or a log. */
#include "pull.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct answer {
    char *bytes;
    size_t size;
    int64_t header_bytes;
    int too_big;
};

static size_t take_body(char *data, size_t unit, size_t n, void *to)
{
    struct answer *answer = to;

    (void)unit;
    if (n > PULL_TOKEN_BODY_MAX - answer->size) {
        answer->too_big = 1;
        return 0;
    }
    memcpy(answer->bytes + answer->size, data, n);
    answer->size += n;
    return n;
}

static size_t take_header(char *data, size_t unit, size_t n, void *to)
{
    struct answer *answer = to;

    (void)data;
    (void)unit;
    answer->header_bytes += (int64_t)n;
    answer->too_big |= answer->header_bytes > PULL_HEADERS_MAX;
    return answer->too_big ? 0 : n;
}

/* Appends NAME=VALUE, escaped, with '&' or whatever is needed before it. */
static int append(CURL *easy, char *text, size_t room, const char *joint, const char *name, const char *value)
{
    char *escaped = curl_easy_escape(easy, value, (int)strlen(value));
    size_t n = strlen(text);
    int written = escaped ? snprintf(text + n, room - n, "%s%s=%s", joint, name, escaped) : -1;

    if (escaped)
        explicit_bzero(escaped, strlen(escaped));
    curl_free(escaped);
    return written < 0 || (size_t)written >= room - n ? -1 : 0;
}

/* A header's value: what would end it, or is not printable, is refused. */
static int is_header_safe(const char *token)
{
    for (const char *c = token; *c; c++)
        if (*c <= ' ' || *c > '~')
            return 0;
    return *token != 0;
}

static int take_token(struct pull_session *session, const struct answer *answer, struct pull_failure *failure)
{
    json_t *json = json_loadb(answer->bytes, answer->size, JSON_REJECT_DUPLICATES, NULL);
    const char *token = json_string_value(json_object_get(json, "token"));
    int r = 0;

    if (!token || !*token)
        token = json_string_value(json_object_get(json, "access_token"));
    if (!token || strlen(token) >= sizeof session->token || !is_header_safe(token)) {
        r = pull_fail(failure, SANDBOX_EPROTOCOL, NULL, "%s: its token server's answer has no token that could be used", session->plan.host);
    } else {
        snprintf(session->token, sizeof session->token, "%s", token);
        session->generation++;
    }
    json_decref(json);
    return r;
}

/* The host of a URL, for messages. */
static const char *host_of(const char *url, char *text, size_t size)
{
    const char *at = strstr(url, "://");

    at = at ? at + 3 : url;
    snprintf(text, size, "%.*s", (int)strcspn(at, "/?#"), at);
    return text;
}

static int ask(struct pull_session *session, CURL *easy, const char *url, const char *form, struct pull_failure *failure)
{
    struct answer answer = { .bytes = malloc(PULL_TOKEN_BODY_MAX) };
    const struct sb_pull_plan *plan = &session->plan;
    char host[256];
    long status = 0;
    CURLcode result;
    int r;

    if (!answer.bytes)
        return pull_fail(failure, SANDBOX_ENOMEM, NULL, "asking for a token: out of memory");
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &answer);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &answer);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)PULL_IDLE_SECONDS);
    if (form) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, form);
    } else if (plan->auth == SB_PULL_AUTH_PASSWORD) {
        curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
        curl_easy_setopt(easy, CURLOPT_USERNAME, plan->user);
        curl_easy_setopt(easy, CURLOPT_PASSWORD, plan->secret);
    }
    host_of(url, host, sizeof host);
    result = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (answer.too_big)
        r = pull_fail(failure, SANDBOX_ELIMIT, NULL, "%s: the token server's answer is too large", host);
    else if (result != CURLE_OK)
        r = pull_fail_curl(failure, result, host) ? failure->code : failure->code;
    else if (status == 200)
        r = take_token(session, &answer, failure);
    else
        r = pull_fail(failure, status == 401 || status == 403 || status == 400 ? SANDBOX_EDENIED : SANDBOX_EPROTOCOL,
                      plan->auth ? "are these credentials right?" : "the repository may need credentials", "%s: the token server answered %ld", host,
                      status);
    explicit_bzero(answer.bytes, answer.size);
    free(answer.bytes);
    return r;
}

static const char *scope_of(const struct pull_session *session, const struct pull_challenge *challenge, char *own, size_t size)
{
    snprintf(own, size, "repository:%s:pull", session->plan.repository);
    return challenge->scope[0] ? challenge->scope : own;
}

/* GET with user and password, or as nobody. */
static int ask_by_get(struct pull_session *session, CURL *easy, const struct pull_challenge *challenge, struct pull_failure *failure)
{
    char url[PULL_URL_MAX] = "", scope[320];
    const char *joint = strchr(challenge->realm, '?') ? "&" : "?";
    int r;

    snprintf(url, sizeof url, "%s", challenge->realm);
    r = challenge->service[0] ? append(easy, url, sizeof url, joint, "service", challenge->service) : 0;
    if (!r)
        r = append(easy, url, sizeof url, challenge->service[0] ? "&" : joint, "scope", scope_of(session, challenge, scope, sizeof scope));
    if (r)
        return pull_fail(failure, SANDBOX_EPROTOCOL, NULL, "%s: what it says of its token server is too long", session->plan.host);
    return ask(session, easy, url, NULL, failure);
}

/* OAuth2: an identity token is exchanged in a form, never in a URL. */
static int ask_by_post(struct pull_session *session, CURL *easy, const struct pull_challenge *challenge, struct pull_failure *failure)
{
    static char form[32768];
    char scope[320];
    int r;

    snprintf(form, sizeof form, "grant_type=refresh_token&client_id=libsandbox");
    r = append(easy, form, sizeof form, "&", "service", challenge->service);
    r |= append(easy, form, sizeof form, "&", "scope", scope_of(session, challenge, scope, sizeof scope));
    r |= append(easy, form, sizeof form, "&", "refresh_token", session->plan.secret);
    r = r ? pull_fail(failure, SANDBOX_EPROTOCOL, NULL, "%s: what it says of its token server is too long", session->plan.host)
          : ask(session, easy, challenge->realm, form, failure);
    explicit_bzero(form, sizeof form);
    return r;
}

int pull_authorize(struct pull_session *session, const struct pull_challenge *challenge, struct pull_failure *failure)
{
    const struct sb_pull_plan *plan = &session->plan;
    CURL *easy;
    int r;

    if (plan->auth == SB_PULL_AUTH_BEARER) {
        if (session->token[0])
            return pull_fail(failure, SANDBOX_EDENIED, "it may have expired", "%s: the registry refuses the token", plan->host);
        if (!is_header_safe(plan->secret))
            return pull_fail(failure, SANDBOX_EDENIED, NULL, "%s: the token has characters that no token has", plan->host);
        snprintf(session->token, sizeof session->token, "%s", plan->secret);
        session->generation++;
        return 0;
    }
    if (challenge->bearer) {
        if (!pull_url_allowed(session, challenge->realm))
            return pull_fail(failure, SANDBOX_EPROTOCOL, NULL, "%s: it sends credentials to a place without TLS", plan->host);
        easy = pull_easy_new(session);
        if (!easy)
            return pull_fail(failure, SANDBOX_ENOMEM, NULL, "asking for a token: out of memory");
        r = plan->auth == SB_PULL_AUTH_IDENTITY ? ask_by_post(session, easy, challenge, failure) : ask_by_get(session, easy, challenge, failure);
        curl_easy_cleanup(easy);
        return r;
    }
    if (challenge->basic && plan->auth == SB_PULL_AUTH_PASSWORD && !session->use_basic) {
        session->use_basic = 1;
        session->generation++;
        return 0;
    }
    if (challenge->basic)
        return pull_fail(failure, SANDBOX_EDENIED, plan->auth ? "are these credentials right?" : "it needs credentials", "%s: the registry refuses %s",
                         plan->host, plan->auth ? "these credentials" : "to answer without user and password");
    return pull_fail(failure, SANDBOX_EPROTOCOL, NULL, "%s: the registry wants a kind of credentials that is not known", plan->host);
}

static int append_header(struct curl_slist **headers, const char *text)
{
    struct curl_slist *more = curl_slist_append(*headers, text);

    if (!more)
        return -1;
    *headers = more;
    return 0;
}

int pull_authorization(const struct pull_session *session, struct curl_slist **headers)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char line[sizeof session->token + 64], pair[sizeof session->plan.user + sizeof session->plan.secret + 2];
    size_t n, at;
    int r;

    if (session->token[0]) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", session->token);
        r = append_header(headers, line);
        explicit_bzero(line, sizeof line);
        return r;
    }
    if (!session->use_basic)
        return 0;
    n = (size_t)snprintf(pair, sizeof pair - 2, "%s:%s", session->plan.user, session->plan.secret);
    at = (size_t)snprintf(line, sizeof line, "Authorization: Basic ");
    for (size_t i = 0; i < n; i += 3) {
        unsigned int value = (unsigned int)(unsigned char)pair[i] << 16;

        value |= i + 1 < n ? (unsigned int)(unsigned char)pair[i + 1] << 8 : 0;
        value |= i + 2 < n ? (unsigned int)(unsigned char)pair[i + 2] : 0;
        line[at++] = digits[value >> 18];
        line[at++] = digits[value >> 12 & 63];
        line[at++] = i + 1 < n ? digits[value >> 6 & 63] : '=';
        line[at++] = i + 2 < n ? digits[value & 63] : '=';
    }
    line[at] = 0;
    r = append_header(headers, line);
    explicit_bzero(line, sizeof line);
    explicit_bzero(pair, sizeof pair);
    return r;
}
