/* SPDX-License-Identifier: Apache-2.0
 * How a failed transfer is told. What a registry says comes to people: printable, and bounded. */
#include "pull.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* No control characters, no bytes that aren't ASCII: a terminal shows it. */
static void sanitize(char *text)
{
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
}

int pull_fail(struct pull_failure *failure, int code, const char *hint, const char *format, ...)
{
    va_list args;

    if (failure->code)
        return failure->code;
    va_start(args, format);
    vsnprintf(failure->message, sizeof failure->message, format, args);
    va_end(args);
    sanitize(failure->message);
    snprintf(failure->hint, sizeof failure->hint, "%s", hint ? hint : "");
    failure->code = code;
    return code;
}

int pull_fail_curl(struct pull_failure *failure, CURLcode result, const char *where)
{
    const char *hint = NULL;
    int code = SANDBOX_EIO, again = 1;

    switch (result) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        code = SANDBOX_EDENIED;
        hint = "its certificate is not one that this machine trusts: name the file of its authority, or install that";
        again = 0;
        break;
    case CURLE_SSL_CONNECT_ERROR:
        hint = "does the registry speak TLS? one without must be asked for as such";
        break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        hint = "is the name right, and does this machine have a network?";
        break;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
        code = SANDBOX_EPROTOCOL;
        again = 0;
        break;
    case CURLE_OUT_OF_MEMORY:
        code = SANDBOX_ENOMEM;
        again = 0;
        break;
    default:
        break;
    }
    pull_fail(failure, code, hint, "%s: %s", where, curl_easy_strerror(result));
    failure->retryable = again || code == SANDBOX_ENOMEM;
    return again;
}

/* {"errors": [{"code": …, "message": …}]} as the distribution specification has it. */
static void take_reason(const struct pull_transfer *transfer, char *reason, size_t size)
{
    json_t *json = json_loadb(transfer->error_body, transfer->error_size, 0, NULL);
    const json_t *first = json_array_get(json_object_get(json, "errors"), 0);
    const char *code = json_string_value(json_object_get(first, "code")), *message = json_string_value(json_object_get(first, "message"));

    *reason = 0;
    if (code || message)
        snprintf(reason, size, ": %.40s%s%.160s", code ? code : "", code && message ? ", " : "", message ? message : "");
    json_decref(json);
}

int pull_fail_status(struct pull_failure *failure, const struct pull_transfer *transfer)
{
    const struct sb_pull_plan *plan = &transfer->session->plan;
    const char *what = transfer->request.kind == SB_PULL_MANIFEST ? "manifest" : "blob", *hint = NULL;
    const char *name = transfer->request.digest[0] ? transfer->request.digest : transfer->request.tag;
    int code = SANDBOX_EPROTOCOL, again = 0;
    char reason[224];

    take_reason(transfer, reason, sizeof reason);
    if (transfer->status == 401 || transfer->status == 403) {
        code = SANDBOX_EDENIED;
        hint = plan->auth ? "are these credentials right, and may they read this repository?" : "the repository may need credentials";
    } else if (transfer->status == 404) {
        code = SANDBOX_ENOTFOUND;
        hint = "does it exist? some registries say so of what needs credentials, too";
    } else if (transfer->status == 429) {
        code = SANDBOX_EBUSY;
        hint = "the registry allows only so many requests: wait, or use credentials";
        again = 1;
    } else if (transfer->status >= 500 || transfer->status == 408) {
        code = SANDBOX_EIO;
        again = 1;
    }
    pull_fail(failure, code, hint, "%s/%s: the %s %s: %s answered %ld%s", plan->host, plan->repository, what, name,
              transfer->at_registry ? "the registry" : "where the registry sent us", transfer->status, reason);
    failure->retryable = again;
    return again;
}
