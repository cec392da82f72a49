/* SPDX-License-Identifier: Apache-2.0
 * sandbox-pull: fetches manifests and blobs of one repository of one registry into files that it is given (pull-plan.h). A program of
 * its own, started for one pull:
 *  - what strangers send (DNS, TLS, HTTP, JSON) is parsed outside of the embedder's process, by a process that can do nothing but
 *    speak to the network and write into those files;
 *  - libcurl and the TLS library behind it, with their threads and global state, never get into the embedder's process, which may have
 *    another copy of them. */
#ifndef SB_AGENT_PULL_H
#define SB_AGENT_PULL_H

#include "pull-challenge.h"

#include <curl/curl.h>
#include <nettle/sha2.h>
#include <pull-plan.h>
#include <sandbox.h>
#include <stddef.h>

enum {
    PULL_URL_MAX = 8192,
    PULL_REDIRECTS_MAX = 5,
    PULL_HEADERS_MAX = 65536, /* bytes of one answer's headers */
    PULL_ERROR_BODY_MAX = 4096,
    PULL_TOKEN_BODY_MAX = 65536,
    PULL_CONNECT_SECONDS = 15,
    PULL_IDLE_SECONDS = 30,  /* a transfer below PULL_IDLE_BYTES a second for so long is given up, and begun again where it stopped */
    PULL_IDLE_BYTES = 1024,
    PULL_DOCUMENT_SECONDS = 60,
    PULL_TRIES = 5,          /* without progress */
    PULL_TRIES_ALL = 40,
    PULL_PROGRESS = 65536    /* what counts as progress */
};

struct pull_failure {
    int code, sys_errno, retryable;
    char hint[192], message[512];
};

struct pull_session {
    struct sb_pull_plan plan;
    int scheme_known, https;   /* whether the registry has been reached by https (or is to be) */
    char *ca;
    size_t ca_size;
    char token[16384];         /* the Bearer token that is used; "": none */
    unsigned int generation;   /* grows with each new token */
    int use_basic;
    CURLM *multi;
};

enum pull_state { PULL_IDLE = 0, PULL_RUNNING, PULL_WAITING };

struct pull_transfer {
    struct pull_transfer *next;
    struct pull_session *session;
    struct sb_pull_request request;
    int fd;
    enum pull_state state;
    int64_t again_ms;          /* WAITING: when to begin again */
    struct sha256_ctx sha;
    int64_t have;              /* bytes in the file, all of them hashed */
    int64_t stale;             /* of them, those that were there before: not known to be right */
    int64_t fetched, reported;

    CURL *easy;
    struct curl_slist *headers;
    char url[PULL_URL_MAX];
    int at_registry;           /* this request goes to the registry itself and not to where it sent us */
    int redirects, tries, tries_all, challenges;
    unsigned int generation;   /* of the token that was sent */
    int restarted;
    int64_t begun_at;          /* `have` when this request was sent */

    /* of the answer that is being read */
    long status;
    int64_t header_bytes, range_start;
    int64_t retry_after;
    int body_ok;
    struct pull_challenge challenge;
    char media_type[128];
    char error_body[PULL_ERROR_BODY_MAX + 1];
    size_t error_size;

    struct pull_failure failure; /* set by a callback: final */
};

/* ---- pull.c */
int64_t pull_now_ms(void);

/* ---- pull-failure.c */
int pull_fail(struct pull_failure *failure, int code, const char *hint, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Of curl; `what` is done with `where`. Says whether to try again. */
int pull_fail_curl(struct pull_failure *failure, CURLcode result, const char *where);
/* Of an answer that is no success. */
int pull_fail_status(struct pull_failure *failure, const struct pull_transfer *transfer);

/* ---- pull-http.c */
/* What every request of the session has. NULL: no memory. */
CURL *pull_easy_new(const struct pull_session *session);
/* 1 when a URL may be asked: https, or http where the registry itself is spoken to without TLS. */
int pull_url_allowed(const struct pull_session *session, const char *url);
/* Sends the request, from the registry on: 0 or negative (failure is set). */
int pull_transfer_begin(struct pull_transfer *transfer);
/* curl is done with it. 1: goes on (RUNNING or WAITING), 0: succeeded, negative: failed. */
int pull_transfer_done(struct pull_transfer *transfer, CURLcode result);
/* All of it is in the file: as pull_transfer_done(). */
int pull_transfer_verify(struct pull_transfer *transfer);
/* Reads what is in the file already. */
int pull_transfer_prepare(struct pull_transfer *transfer);

/* ---- pull-auth.c */
/* Answers a challenge: 0 when asking again makes sense. */
int pull_authorize(struct pull_session *session, const struct pull_challenge *challenge, struct pull_failure *failure);
/* Appends the Authorization header, when there is anything to send. 0 or negative. */
int pull_authorization(const struct pull_session *session, struct curl_slist **headers);

/* ---- pull-confine.c */
/* Gives up what isn't needed: 0, or -errno and what failed. */
int pull_confine(const struct sb_pull_plan *plan, const char **ret_what);

#endif
