/* SPDX-License-Identifier: Apache-2.0
 * What the library tells the pull helper and what the helper answers, over one SOCK_SEQPACKET pair: first the plan, one packet (with a
 * descriptor where certificates of the caller's own count); then requests, each with a descriptor that the answer's bytes go into; and
 * reports. The library closing its end is the order to stop.
 *
 * The helper speaks to strangers and may have been taken over by them. The library believes it nothing: the length of what it wrote is
 * looked at, and every byte of it is hashed again by who unpacks it. */
#ifndef SB_PLAN_PULL_PLAN_H
#define SB_PLAN_PULL_PLAN_H

#include <stdint.h>

#define SB_PULL_MAGIC 0x70756c31u
#define SB_PULL_PACKET_MAX 32768

/* The helper's descriptors: 1 and 2 are /dev/null. */
enum sb_pull_fd { SB_PULL_FD_SOCKET = 0, SB_PULL_FD_END = 3 };

enum sb_pull_flags {
    SB_PULL_PLAIN = 1 << 0,    /* http without TLS was asked for */
    SB_PULL_LOOPBACK = 1 << 1, /* the host is this machine: http where it doesn't speak TLS */
    SB_PULL_CA = 1 << 2        /* the certificates that count come with the plan */
};

enum sb_pull_auth { SB_PULL_AUTH_NONE = 0, SB_PULL_AUTH_PASSWORD = 1, SB_PULL_AUTH_IDENTITY = 2, SB_PULL_AUTH_BEARER = 3 };

struct sb_pull_plan {
    uint32_t magic, size;
    uint32_t flags;
    uint32_t auth;     /* enum sb_pull_auth */
    uint32_t uid, gid; /* to become, with SB_PULL_ID; else 0 */
    uint32_t become;   /* 1: become them */
    uint32_t parallel; /* transfers at once */
    char host[256];    /* with ":PORT" */
    char repository[256];
    char user[512];
    char secret[8192];
    char proxy[1024];  /* "": none */
    char no_proxy[1024];
};

enum sb_pull_kind { SB_PULL_MANIFEST = 1, SB_PULL_BLOB = 2 };

/* Comes with the file: empty, or holding the beginning of what is wanted. */
struct sb_pull_request {
    uint32_t size;
    uint32_t id;
    uint32_t kind;  /* enum sb_pull_kind */
    int32_t room;   /* unused */
    int64_t length; /* promised; -1: unknown */
    int64_t max;    /* most that is written */
    char digest[72]; /* "sha256:…"; "": unknown, the tag counts */
    char tag[136];
};

enum sb_pull_type { SB_PULL_PROGRESS = 1, SB_PULL_DONE = 2 };

struct sb_pull_report {
    uint32_t size;
    uint32_t type;      /* enum sb_pull_type */
    uint32_t id;
    int32_t code;       /* DONE: 0 or SANDBOX_E… */
    int32_t sys_errno;
    uint32_t retryable;
    int64_t done;       /* bytes in the file */
    int64_t fetched;    /* of them, those that came over the network now */
    char media_type[128]; /* as the registry says; "" when it doesn't */
    char hint[192];
    char message[512];
};

#endif
