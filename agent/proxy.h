/* SPDX-License-Identifier: Apache-2.0
 * sandbox-proxy: what a sandbox without a route has instead: an HTTP proxy (CONNECT, and requests in absolute form) and a DNS server, on its own
 * loopback, which let through what the rules allow (allow.h). Two processes, so that neither can do what the other may:
 *
 * - the front (proxy-front.c) meets what the sandbox says. It has the listeners, connected sockets and a socket to the connector, and no system call
 *   but those on them: it can't make a socket. What takes it over can have from the connector what the rules allow anyhow.
 * - the connector (proxy-connector.c) has the rules, resolves names and connects. From the sandbox it sees a name and a port, from a DNS server its
 *   answers, which the resolver library reads; of connections no byte.
 *
 * A name is resolved once for each connection, by the connector, and connected to by the address that was checked: so what the sandbox resolves,
 * or a DNS server answers the next time, changes nothing. */
#ifndef SB_AGENT_PROXY_H
#define SB_AGENT_PROXY_H

#include <allow.h>
#include <proxy-plan.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- between the two ---- */
enum { PX_CONNECTIONS = 256, PX_QUESTIONS = 64, PX_ASKS = PX_CONNECTIONS + PX_QUESTIONS, PX_ADDRESSES = 12 };
enum px_kind { PX_CONNECT = 1, PX_RESOLVE_A, PX_RESOLVE_AAAA, PX_RESOLVE_OTHER, PX_NOTE /* the front denied it itself: `why` */ };
enum px_status { PX_OK = 0, PX_DENIED, PX_NO_NAME, PX_NOT_REACHED };

struct px_ask {
    uint32_t which; /* a connection, or PX_CONNECTIONS and a question */
    uint32_t kind;
    int32_t port;
    char host[256];
    char why[64];
};
struct px_answer { /* of a CONNECT that is OK: with the connected socket */
    uint32_t which;
    uint32_t status;
    uint32_t n;
    char why[64];
    unsigned char addresses[PX_ADDRESSES][16];
};

_Noreturn void px_front(int peer);
_Noreturn void px_connector(int peer, pid_t front);

/* proxy.c: gives up all system calls but these. sockets: may make those of IP. 0 or -errno. */
int px_confine(const int *calls, size_t n, int sockets);

/* ---- proxy-parse.c: no I/O, fuzzed and tested by themselves ---- */
enum { PX_HEAD_MAX = 32 * 1024 };
struct px_request {
    int is_connect;
    struct sb_host_name host;
    int port;
    size_t size;            /* of the head */
    uint64_t body;          /* that follows it */
};
/* 0: whole, 1: more is needed, else the HTTP status to refuse it with (and *ret_why). */
int px_parse_request(const char *data, size_t size, struct px_request *ret, const char **ret_why);
/* The head as it is for the origin server: origin form, one request to a connection, nothing that is for proxies. Its size, 0: no room. */
size_t px_rewrite_request(const char *data, const struct px_request *request, char *to, size_t room);
/* What a client says first in a tunnel. 0: may pass, 1: more is needed, -1: may not (and *ret_why). */
int px_check_tunnel(const unsigned char *data, size_t size, const struct px_request *request, const char **ret_why);

struct px_question {
    uint16_t id, type;
    size_t size;            /* of header and question */
    char name[SB_HOST_SIZE];
};
/* 0, or -1: not a question that is answered. */
int px_parse_question(const unsigned char *data, size_t size, struct px_question *ret);
/* An answer with a code and addresses (of the question's type alone); its size. `question` is what px_parse_question() read. */
size_t px_write_answer(const unsigned char *question, const struct px_question *q, int code, const unsigned char (*addresses)[16], size_t n,
                       unsigned char *to, size_t room);

#endif
