/* SPDX-License-Identifier: Apache-2.0
 * What a proxy network lets through: rules, and what they say about a name or an address. Used by the library, which checks rules, and by
 * sandbox-proxy, which goes by them; both must read them alike. Knows libc alone.
 *
 *   example.org          the name, ports 80 and 443          *.example.org   every name below it      *   every name
 *   192.0.2.1, [::1]     an address, 192.0.2.0/24 and [fd00::/8] a block of them
 *   …:8080, …:*          one port, or any
 *
 * A rule with a name allows addresses of the public internet alone that it resolves to. What else it may resolve to (private, loopback,
 * link-local) must be allowed by a rule with an address. */
#ifndef SB_BASE_ALLOW_H
#define SB_BASE_ALLOW_H

#include <stddef.h>

#define SB_HOST_SIZE 254 /* a name's 253 bytes and its NUL */
enum { SB_ALLOW_RULES_MAX = 1024, SB_ALLOW_TEXT_MAX = 300 };

enum sb_allow_kind { SB_ALLOW_NAME, SB_ALLOW_BELOW, SB_ALLOW_ADDRESS };
enum { SB_PORTS_WEB = 0, SB_PORTS_ANY = -1 };

struct sb_allow {
    enum sb_allow_kind kind;
    int port;                  /* or SB_PORTS_… */
    int prefix;                /* ADDRESS: bits of it that count */
    unsigned char address[16]; /* IPv4 as ::ffff:a.b.c.d */
    char name[SB_HOST_SIZE];   /* lower case; BELOW: what follows "*.", "" for every name */
};

/* A host as requests name it: an address, or a name in lower case and without a dot at its end. */
struct sb_host_name {
    int is_address;
    unsigned char address[16];
    char name[SB_HOST_SIZE];
};

/* 0 or -EINVAL. */
int sb_allow_parse(const char *text, struct sb_allow *ret);
/* The same for "HOST" without a port; an IPv6 address with or without brackets. Numbers that only look like an address (127.1, 0x7f000001) are none,
 * and no names either: -EINVAL. */
int sb_host_parse(const char *text, size_t size, struct sb_host_name *ret);
/* "ADDRESS" or "ADDRESS:PORT" (IPv6 with a port in brackets), as for a DNS server: 0 or -EINVAL. *ret_port is 0 where there is none. */
int sb_server_parse(const char *text, unsigned char ret_address[16], int *ret_port);

/* port 0: on any */
int sb_allow_has_name(const struct sb_allow *rules, size_t n, const char *name, int port);
int sb_allow_has_address(const struct sb_allow *rules, size_t n, const unsigned char address[16], int port);
/* 1: an address of the public internet. */
int sb_address_is_public(const unsigned char address[16]);

#endif
