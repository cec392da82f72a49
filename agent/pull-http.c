/* SPDX-License-Identifier: Apache-2.0
 * One transfer: a manifest or blob into a file, over as many requests as it takes. What comes is counted and hashed as it comes, and
 * nothing beyond what was promised is written. An attempt begins at the registry each time, with what is missing alone (Range): a place
 * that it sent us to may no longer let us in. Redirects are followed here and not by libcurl, so that credentials go to nobody but the
 * registry, and never from https to http. */
#include "pull.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <reference.h>
#include <util.h>

static const char accepted[] = "Accept: application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, "
                               "application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

CURL *pull_easy_new(const struct pull_session *session)
{
    CURL *easy = curl_easy_init();

    if (!easy)
        return NULL;
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "libsandbox/0.1");
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)PULL_CONNECT_SECONDS);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, (long)PULL_IDLE_BYTES);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)PULL_IDLE_SECONDS);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, session->plan.proxy); /* "": none, whatever the environment says */
    curl_easy_setopt(easy, CURLOPT_NOPROXY, session->plan.no_proxy);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    if (session->ca) {
        struct curl_blob blob = { session->ca, session->ca_size, CURL_BLOB_NOCOPY };

        curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &blob);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    return easy;
}

/* What is behind "http://". That this machine's own registry speaks no TLS says nothing of others. */
static int is_loopback(const char *rest)
{
    char host[256];
    size_t n = strcspn(rest, "/?#");

    if (n >= sizeof host || memchr(rest, '@', n) || memchr(rest, '\\', n))
        return 0;
    memcpy(host, rest, n);
    host[n] = 0;
    return sb_reference_is_loopback(host);
}

int pull_url_allowed(const struct pull_session *session, const char *url)
{
    if (!strncasecmp(url, "https://", 8))
        return 1;
    if (session->https || strncasecmp(url, "http://", 7))
        return 0;
    return session->plan.flags & SB_PULL_PLAIN || is_loopback(url + 7);
}

/* ---- what comes */

static int lost(struct pull_transfer *transfer, int sys_errno, const char *what)
{
    int code = sys_errno == ENOSPC || sys_errno == EDQUOT ? SANDBOX_ENOSPACE : SANDBOX_EIO;

    pull_fail(&transfer->failure, code, NULL, "%s a downloaded file: %s", what, strerrordesc_np(sys_errno));
    transfer->failure.sys_errno = sys_errno;
    return code;
}

static int begin_again(struct pull_transfer *transfer)
{
    sha256_init(&transfer->sha);
    transfer->have = transfer->stale = 0;
    if (ftruncate(transfer->fd, 0) < 0 || lseek(transfer->fd, 0, SEEK_SET) < 0)
        return lost(transfer, errno, "emptying");
    return 0;
}

int pull_transfer_prepare(struct pull_transfer *transfer)
{
    SB_FREE uint8_t *buffer = malloc(1 << 20);
    ssize_t n = 0;

    sha256_init(&transfer->sha);
    if (!buffer)
        return pull_fail(&transfer->failure, SANDBOX_ENOMEM, NULL, "reading a downloaded file: out of memory");
    if (lseek(transfer->fd, 0, SEEK_SET) < 0)
        return lost(transfer, errno, "reading");
    while ((n = SB_RETRY(read(transfer->fd, buffer, 1 << 20))) > 0) {
        sha256_update(&transfer->sha, (size_t)n, buffer);
        transfer->have += n;
        if (transfer->request.length >= 0 && transfer->have > transfer->request.length)
            return begin_again(transfer);
    }
    transfer->stale = transfer->have;
    return n < 0 ? lost(transfer, errno, "reading") : 0;
}

static int64_t most(const struct pull_transfer *transfer)
{
    return transfer->request.length >= 0 ? transfer->request.length : transfer->request.max;
}

static int too_much(struct pull_transfer *transfer)
{
    const struct sb_pull_plan *plan = &transfer->session->plan;

    if (transfer->request.length >= 0)
        return pull_fail(&transfer->failure, SANDBOX_EDIGEST, NULL, "%s/%s: the blob %s is longer than the %lld bytes that its descriptor promises",
                         plan->host, plan->repository, transfer->request.digest, (long long)transfer->request.length);
    return pull_fail(&transfer->failure, SANDBOX_ELIMIT, NULL, "%s/%s: the manifest is longer than %lld bytes", plan->host, plan->repository,
                     (long long)transfer->request.max);
}

static int store(struct pull_transfer *transfer, const char *data, size_t size)
{
    size_t done = 0;

    if ((int64_t)size > most(transfer) - transfer->have)
        return too_much(transfer);
    while (done < size) {
        ssize_t n = SB_RETRY(write(transfer->fd, data + done, size - done));

        if (n < 0)
            return lost(transfer, errno, "writing");
        done += (size_t)n;
    }
    sha256_update(&transfer->sha, size, (const uint8_t *)data);
    transfer->have += (int64_t)size;
    transfer->fetched += (int64_t)size;
    return 0;
}

/* The first bytes of a body: is it what was asked for? */
static int check_body(struct pull_transfer *transfer)
{
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &transfer->status);
    if (transfer->status == 206 && transfer->range_start != transfer->have)
        return pull_fail(&transfer->failure, SANDBOX_EPROTOCOL, NULL, "%s: the answer has another range than was asked for", transfer->session->plan.host);
    if (transfer->status == 200 && transfer->have && begin_again(transfer)) /* ranges are not known there */
        return transfer->failure.code;
    transfer->begun_at = transfer->status == 200 ? 0 : transfer->begun_at;
    transfer->body_ok = 1;
    return 0;
}

static size_t take_body(char *data, size_t unit, size_t n, void *to)
{
    struct pull_transfer *transfer = to;

    (void)unit;
    if (!transfer->body_ok && check_body(transfer))
        return 0;
    if (transfer->status == 200 || transfer->status == 206)
        return store(transfer, data, n) ? 0 : n;
    if (n > PULL_ERROR_BODY_MAX - transfer->error_size) /* enough of it to say why */
        return 0;
    memcpy(transfer->error_body + transfer->error_size, data, n);
    transfer->error_size += n;
    return n;
}

/* The value of the header `name`, or NULL. */
static const char *value_of(const char *line, size_t size, const char *name, size_t *ret_size)
{
    size_t length = strlen(name);

    if (size <= length || strncasecmp(line, name, length) || line[length] != ':')
        return NULL;
    line += length + 1;
    size -= length + 1;
    while (size && (*line == ' ' || *line == '\t'))
        line++, size--;
    while (size && (line[size - 1] == '\r' || line[size - 1] == '\n' || line[size - 1] == ' '))
        size--;
    *ret_size = size;
    return line;
}

static int64_t number(const char *text, size_t size)
{
    char digits[24];
    int64_t value;

    snprintf(digits, sizeof digits, "%.*s", (int)(size < sizeof digits - 1 ? size : 0), text);
    digits[strspn(digits, "0123456789")] = 0;
    return sb_parse_int(digits, 0, INT64_MAX, &value) ? -1 : value;
}

static void begin_answer(struct pull_transfer *transfer)
{
    memset(&transfer->challenge, 0, sizeof transfer->challenge);
    transfer->range_start = transfer->retry_after = -1;
    transfer->media_type[0] = 0;
    transfer->error_size = 0;
}

static size_t take_header(char *line, size_t unit, size_t n, void *to)
{
    struct pull_transfer *transfer = to;
    const char *value;
    size_t size;

    (void)unit;
    transfer->header_bytes += (int64_t)n;
    if (transfer->header_bytes > PULL_HEADERS_MAX) {
        pull_fail(&transfer->failure, SANDBOX_ELIMIT, NULL, "%s: the answer has more than %d bytes of headers", transfer->session->plan.host,
                  PULL_HEADERS_MAX);
        return 0;
    }
    if (n > 5 && !strncmp(line, "HTTP/", 5))
        begin_answer(transfer);
    else if ((value = value_of(line, n, "WWW-Authenticate", &size)))
        pull_challenge_parse(value, size, &transfer->challenge); /* what can't be read offers nothing */
    else if ((value = value_of(line, n, "Content-Type", &size)))
        snprintf(transfer->media_type, sizeof transfer->media_type, "%.*s",
                 (int)(strcspn(value, "; \r\n") < size ? strcspn(value, "; \r\n") : size), value);
    else if ((value = value_of(line, n, "Content-Range", &size)) && size > 6 && !strncasecmp(value, "bytes ", 6))
        transfer->range_start = number(value + 6, strcspn(value + 6, "-/\r\n"));
    else if ((value = value_of(line, n, "Retry-After", &size)))
        transfer->retry_after = number(value, size);
    return n;
}

/* ---- asking */

static int no_memory(struct pull_transfer *transfer)
{
    return pull_fail(&transfer->failure, SANDBOX_ENOMEM, NULL, "fetching: out of memory");
}

static int send_request(struct pull_transfer *transfer)
{
    const struct pull_session *session = transfer->session;
    char range[40];

    transfer->status = 0;
    transfer->header_bytes = 0;
    transfer->body_ok = 0;
    transfer->begun_at = transfer->have;
    begin_answer(transfer);
    curl_slist_free_all(transfer->headers);
    transfer->headers = curl_slist_append(NULL, transfer->request.kind == SB_PULL_MANIFEST ? accepted : "Accept: */*");
    if (!transfer->headers || (transfer->at_registry && pull_authorization(session, &transfer->headers)))
        return no_memory(transfer);
    transfer->generation = session->generation;
    curl_easy_setopt(transfer->easy, CURLOPT_URL, transfer->url);
    curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers);
    snprintf(range, sizeof range, "%lld-", (long long)transfer->have);
    curl_easy_setopt(transfer->easy, CURLOPT_RANGE, transfer->have ? range : NULL);
    if (curl_multi_add_handle(session->multi, transfer->easy) != CURLM_OK)
        return no_memory(transfer);
    transfer->state = PULL_RUNNING;
    return 0;
}

static const char *real_host(const char *host)
{
    return strcmp(host, "docker.io") ? host : "registry-1.docker.io";
}

int pull_transfer_begin(struct pull_transfer *transfer)
{
    const struct pull_session *session = transfer->session;
    const struct sb_pull_request *request = &transfer->request;

    if (!transfer->easy) {
        transfer->easy = pull_easy_new(session);
        if (!transfer->easy)
            return no_memory(transfer);
        curl_easy_setopt(transfer->easy, CURLOPT_WRITEFUNCTION, take_body);
        curl_easy_setopt(transfer->easy, CURLOPT_WRITEDATA, transfer);
        curl_easy_setopt(transfer->easy, CURLOPT_HEADERFUNCTION, take_header);
        curl_easy_setopt(transfer->easy, CURLOPT_HEADERDATA, transfer);
        curl_easy_setopt(transfer->easy, CURLOPT_PRIVATE, transfer);
        if (request->kind == SB_PULL_MANIFEST)
            curl_easy_setopt(transfer->easy, CURLOPT_TIMEOUT, (long)PULL_DOCUMENT_SECONDS);
    }
    snprintf(transfer->url, sizeof transfer->url, "%s://%s/v2/%s/%s/%s", session->https ? "https" : "http", real_host(session->plan.host),
             session->plan.repository, request->kind == SB_PULL_MANIFEST ? "manifests" : "blobs", request->digest[0] ? request->digest : request->tag);
    transfer->at_registry = 1;
    transfer->redirects = 0;
    return send_request(transfer);
}

/* ---- what follows */

static int wait_and_try(struct pull_transfer *transfer, int64_t at_least_ms)
{
    int64_t delay = 200ll << (transfer->tries < 5 ? transfer->tries : 5);

    if (at_least_ms > delay)
        delay = at_least_ms;
    transfer->state = PULL_WAITING;
    transfer->again_ms = pull_now_ms() + delay;
    return 1;
}

/* Something that may be better next time. `failure` says what, and is kept when it was the last time. */
static int try_again(struct pull_transfer *transfer, const struct pull_failure *failure)
{
    int progress = transfer->have - transfer->begun_at >= PULL_PROGRESS;

    transfer->tries = progress ? 0 : transfer->tries + 1;
    if (transfer->tries >= PULL_TRIES || ++transfer->tries_all >= PULL_TRIES_ALL) {
        transfer->failure = *failure;
        return failure->code;
    }
    return wait_and_try(transfer, transfer->retry_after > 0 ? (transfer->retry_after < 30 ? transfer->retry_after : 30) * 1000 : 0);
}

static int redirected(struct pull_transfer *transfer)
{
    const char *host = transfer->session->plan.host;
    char *next = NULL;

    curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &next);
    if (!next || strlen(next) >= sizeof transfer->url)
        return pull_fail(&transfer->failure, SANDBOX_EPROTOCOL, NULL, "%s: it redirects to no place, or one with a name that is too long", host);
    if (++transfer->redirects > PULL_REDIRECTS_MAX)
        return pull_fail(&transfer->failure, SANDBOX_EPROTOCOL, NULL, "%s: more than %d redirects", host, PULL_REDIRECTS_MAX);
    if (!pull_url_allowed(transfer->session, next))
        return pull_fail(&transfer->failure, SANDBOX_EPROTOCOL, NULL, "%s: it redirects to a place without TLS", host);
    snprintf(transfer->url, sizeof transfer->url, "%s", next);
    transfer->at_registry = 0;
    return send_request(transfer) ? transfer->failure.code : 1;
}

static int challenged(struct pull_transfer *transfer)
{
    struct pull_session *session = transfer->session;

    if (!transfer->at_registry)
        return pull_fail_status(&transfer->failure, transfer), transfer->failure.code;
    if (++transfer->challenges > 3)
        return pull_fail(&transfer->failure, SANDBOX_EDENIED, "are these credentials right, and may they read this repository?",
                         "%s/%s: the registry goes on asking for credentials", session->plan.host, session->plan.repository);
    /* another transfer may have got a token meanwhile */
    if (transfer->generation == session->generation && pull_authorize(session, &transfer->challenge, &transfer->failure))
        return transfer->failure.code;
    return pull_transfer_begin(transfer) ? transfer->failure.code : 1;
}

static int wrong(struct pull_transfer *transfer, const char *how)
{
    const struct sb_pull_plan *plan = &transfer->session->plan;
    int r;

    if (transfer->stale && !transfer->restarted) { /* it may have been what was here before */
        transfer->restarted = 1;
        r = begin_again(transfer);
        return r ? r : pull_transfer_begin(transfer) ? transfer->failure.code : 1;
    }
    pull_fail(&transfer->failure, SANDBOX_EDIGEST, NULL, "%s/%s: what came for %s %s", plan->host, plan->repository, transfer->request.digest, how);
    begin_again(transfer);
    return transfer->failure.code;
}

static int check_digest(struct pull_transfer *transfer)
{
    struct sha256_ctx copy = transfer->sha;
    char text[72] = "sha256:";
    uint8_t raw[SHA256_DIGEST_SIZE];

    sha256_digest(&copy, sizeof raw, raw);
    for (size_t i = 0; i < sizeof raw; i++)
        snprintf(text + 7 + 2 * i, 3, "%02x", raw[i]);
    return transfer->request.digest[0] && strcmp(text, transfer->request.digest) ? wrong(transfer, "has another digest") : 0;
}

int pull_transfer_verify(struct pull_transfer *transfer)
{
    if (transfer->request.length >= 0 && transfer->have < transfer->request.length) {
        if (transfer->status == 206 && transfer->have > transfer->begun_at && ++transfer->tries_all < PULL_TRIES_ALL)
            return pull_transfer_begin(transfer) ? transfer->failure.code : 1; /* a server that gives only so much at a time */
        return wrong(transfer, "is shorter than its descriptor promises");
    }
    return check_digest(transfer);
}

/* This machine's own registries often speak no TLS. Asked once, before anything secret was sent. */
static int is_plain_after_all(struct pull_transfer *transfer, CURLcode result)
{
    struct pull_session *session = transfer->session;

    if (session->scheme_known || !session->https || !(session->plan.flags & SB_PULL_LOOPBACK) ||
        (result != CURLE_SSL_CONNECT_ERROR && result != CURLE_RECV_ERROR && result != CURLE_GOT_NOTHING))
        return 0;
    session->https = 0;
    session->scheme_known = 1;
    return 1;
}

int pull_transfer_done(struct pull_transfer *transfer, CURLcode result)
{
    struct pull_failure failure = { 0 };
    char where[256];

    curl_multi_remove_handle(transfer->session->multi, transfer->easy);
    if (transfer->failure.code)
        return transfer->failure.code;
    if (is_plain_after_all(transfer, result))
        return pull_transfer_begin(transfer) ? transfer->failure.code : 1;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &transfer->status);
    if (transfer->status)
        transfer->session->scheme_known = 1;
    if (result != CURLE_OK && (!transfer->status || transfer->status == 200 || transfer->status == 206)) {
        snprintf(where, sizeof where, "%s", transfer->session->plan.host);
        if (pull_fail_curl(&failure, result, where))
            return try_again(transfer, &failure);
        transfer->failure = failure;
        return failure.code;
    }
    switch (transfer->status) {
    case 200:
    case 206:
        if (!transfer->body_ok && check_body(transfer)) /* an empty body */
            return transfer->failure.code;
        return pull_transfer_verify(transfer);
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
        return redirected(transfer);
    case 401:
        return challenged(transfer);
    case 416: /* there is not that much of it */
        return wrong(transfer, "is shorter than its descriptor promises");
    default:
        if (pull_fail_status(&failure, transfer) || (!transfer->at_registry && transfer->tries_all < 2))
            return try_again(transfer, &failure);
        transfer->failure = failure;
        return failure.code;
    }
}
