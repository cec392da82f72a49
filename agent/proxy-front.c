/* SPDX-License-Identifier: Apache-2.0
 * The front of sandbox-proxy (proxy.h): one thread, edge-triggered events, tables of fixed size, no allocation. What a client said stays in its
 * socket until it is known where it goes (MSG_PEEK), so a connection costs a place in the table and no buffer. */
#include "forward.h"
#include "message.h"
#include "proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <util.h>

enum { HEAD_MS = 30000, ANSWER_MS = 40000, QUESTION_MS = 12000, ACCEPTS_A_TURN = 16, LOOK_MS = 1000 };
enum state { FREE = 0, HEAD, ASKED, TUNNEL, OPEN };
enum what { ON_SIDE, ON_TCP, ON_UDP, ON_PEER };

static struct connection {
    enum state state;
    struct ag_pair pair; /* 0: the client, 1: the server */
    struct px_request request;
    int64_t until; /* HEAD, ASKED; 0: none */
} connections[PX_CONNECTIONS];

static struct question {
    int used;
    struct sockaddr_in from;
    struct px_question q;
    unsigned char bytes[512];
    int64_t until;
} questions[PX_QUESTIONS];

static int epoll, peer;
static char buffer[128 * 1024], head[PX_HEAD_MAX + 1024];

static int watch(int fd, enum what what, size_t index, uint32_t events)
{
    struct epoll_event e = { .events = events, .data.u64 = (uint64_t)what << 32 | index };

    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

static void end(struct connection *c, int broken)
{
    ag_pair_close(&c->pair, broken);
    c->state = FREE;
}

static const char *phrase(int status)
{
    switch (status) {
    case 403:
        return "Forbidden";
    case 411:
        return "Length Required";
    case 431:
        return "Request Header Fields Too Large";
    case 502:
        return "Bad Gateway";
    case 503:
        return "Service Unavailable";
    default:
        return "Bad Request";
    }
}

/* Tells the client why, in words that a person reads in a build's log. */
static void refuse(struct connection *c, int status, const char *why)
{
    char text[512], answer[1024];
    int size, n;

    while (c->state == HEAD && recv(c->pair.fd[0], buffer, sizeof buffer, MSG_DONTWAIT) > 0) /* unread, it would be answered by a reset */
        ;
    size = snprintf(text, sizeof text, "sandbox proxy: %s\n", why);
    n = snprintf(answer, sizeof answer, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
                 status, phrase(status), size, text);
    send(c->pair.fd[0], answer, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    end(c, 0);
}

static void host_text(const struct px_request *r, char *to, size_t size)
{
    if (!r->host.is_address) {
        snprintf(to, size, "%s", r->host.name);
        return;
    }
    /* as sixteen bytes in digits: the other one reads it back, and nobody else */
    for (size_t i = 0; i < 16 && 2 * i + 2 < size; i++)
        snprintf(to + 2 * i, size - 2 * i, "%02x", r->host.address[i]);
}

static int ask(uint32_t which, enum px_kind kind, const struct px_request *r, const char *why)
{
    struct px_ask q = { .which = which, .kind = kind, .port = r->port };

    q.host[0] = r->host.is_address ? '#' : 0;
    host_text(r, q.host + r->host.is_address, sizeof q.host - 1);
    snprintf(q.why, sizeof q.why, "%s", why);
    return ag_send(peer, &q, sizeof q, -1, MSG_DONTWAIT);
}

/* ---- connections ---- */

static void serve(struct connection *c)
{
    switch (ag_pair_move(&c->pair, buffer, sizeof buffer)) {
    case AG_PAIR_WAITS:
        break;
    case AG_PAIR_GOES_ON: { /* its next turn: the events are told again when they are asked for again */
        for (size_t side = 0; side < 2; side++) {
            struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.u64 = (uint64_t)(c - connections) * 2 + side };

            epoll_ctl(epoll, EPOLL_CTL_MOD, c->pair.fd[side], &e);
        }
        break;
    }
    case AG_PAIR_ENDED:
        end(c, 0);
        break;
    case AG_PAIR_BROKEN:
        end(c, 1);
    }
}

static void check_tunnel(struct connection *c)
{
    const char *why = "";
    ssize_t n = recv(c->pair.fd[0], buffer, 20000, MSG_PEEK | MSG_DONTWAIT);
    int r = n > 0 ? px_check_tunnel((unsigned char *)buffer, (size_t)n, &c->request, &why) : n == 0 ? 0 : 1;

    if (r < 0) {
        ask(PX_ASKS, PX_NOTE, &c->request, why);
        end(c, 1);
        return;
    }
    if (r == 0) {
        c->pair.bounded[0] = 0;
        c->state = OPEN;
    }
    serve(c); /* the server may speak first */
}

static void read_head(struct connection *c)
{
    const char *why = "";
    ssize_t n = recv(c->pair.fd[0], buffer, PX_HEAD_MAX, MSG_PEEK | MSG_DONTWAIT);
    int r;

    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        end(c, n < 0);
        return;
    }
    r = n < 0 ? 1 : px_parse_request(buffer, (size_t)n, &c->request, &why);
    if (r == 1)
        return;
    if (r) {
        refuse(c, r, why);
        return;
    }
    c->state = ASKED;
    c->until = sb_now_ms() + ANSWER_MS;
    if (ask((uint32_t)(c - connections), PX_CONNECT, &c->request, "") < 0)
        refuse(c, 503, "it has too much to do");
}

static void on_side(size_t index, uint32_t events)
{
    struct connection *c = &connections[index / 2];

    if (c->state == FREE)
        return;
    ag_pair_event(&c->pair, index & 1, events);
    if (c->state == HEAD)
        read_head(c);
    else if (c->state == TUNNEL)
        check_tunnel(c);
    else if (c->state == OPEN)
        serve(c);
    else if (events & (EPOLLERR | EPOLLHUP)) /* it gave up; the answer that still comes is for nobody */
        c->pair.failed[0] = 1;
}

static void on_tcp(void)
{
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        struct connection *c = NULL;
        int fd = accept4(SB_PROXY_FD_TCP, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1;

        if (fd < 0)
            return;
        for (size_t k = 0; k < PX_CONNECTIONS && !c; k++)
            c = connections[k].state == FREE ? &connections[k] : NULL;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
        if (c)
            *c = (struct connection){ .state = HEAD, .pair.fd = { fd, -1 }, .until = sb_now_ms() + HEAD_MS };
        if (!c || watch(fd, ON_SIDE, (size_t)(c - connections) * 2, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET) < 0) {
            if (c)
                c->state = FREE;
            sb_close(fd);
        }
    }
}

/* Connected: the head is taken out of the client's socket now, and goes on as the server is to have it. */
static void open_connection(struct connection *c, int fd)
{
    static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    const char *why;
    struct px_request again;
    size_t n;
    ssize_t got = recv(c->pair.fd[0], buffer, PX_HEAD_MAX, MSG_PEEK | MSG_DONTWAIT);
    int one = 1;

    c->pair.fd[1] = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (got <= 0 || px_parse_request(buffer, (size_t)got, &again, &why) || again.size != c->request.size) {
        end(c, 1);
        return;
    }
    n = again.is_connect ? 0 : px_rewrite_request(buffer, &again, head, sizeof head);
    if ((!again.is_connect && !n) || (n && send(fd, head, n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)n) ||
        recv(c->pair.fd[0], buffer, again.size, MSG_DONTWAIT) != (ssize_t)again.size ||
        (again.is_connect && send(c->pair.fd[0], established, sizeof established - 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)) {
        end(c, 1);
        return;
    }
    c->pair.bounded[0] = 1;
    c->pair.left[0] = again.body;
    c->state = again.is_connect ? TUNNEL : OPEN;
    c->until = 0;
    memset(c->pair.readable, 1, sizeof c->pair.readable);
    memset(c->pair.writable, 1, sizeof c->pair.writable);
    if (watch(fd, ON_SIDE, (size_t)(c - connections) * 2 + 1, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET) < 0)
        end(c, 1);
    else if (c->state == TUNNEL)
        check_tunnel(c);
    else
        serve(c);
}

static void answer_connection(struct connection *c, const struct px_answer *a, int fd)
{
    char why[256];

    if (c->state != ASKED || (a->status == PX_OK && fd < 0)) {
        sb_close(fd);
        return;
    }
    if (a->status == PX_OK && !c->pair.failed[0]) {
        open_connection(c, fd);
        return;
    }
    sb_close(fd);
    snprintf(why, sizeof why, "%.63s (port %d)", a->why, c->request.port);
    c->state = HEAD; /* its head is still unread */
    refuse(c, a->status == PX_DENIED ? 403 : 502, why);
}

/* ---- questions ---- */

static void answer_question(struct question *q, const struct px_answer *a)
{
    unsigned char answer[512];
    size_t n = a->n < PX_ADDRESSES ? a->n : PX_ADDRESSES, size;
    int code = a->status == PX_OK ? 0 : a->status == PX_NOT_REACHED ? 2 : 3;

    if (!q->used)
        return;
    size = px_write_answer(q->bytes, &q->q, code, a->addresses, n, answer, sizeof answer);
    sendto(SB_PROXY_FD_UDP, answer, size, MSG_DONTWAIT, (struct sockaddr *)&q->from, sizeof q->from);
    q->used = 0;
}

static void on_udp(void)
{
    for (int i = 0; i < 32; i++) {
        struct question *q = NULL, scratch = { 0 };
        struct px_request as = { 0 };
        socklen_t size = sizeof scratch.from;
        ssize_t n = recvfrom(SB_PROXY_FD_UDP, scratch.bytes, sizeof scratch.bytes, MSG_DONTWAIT, (struct sockaddr *)&scratch.from, &size);

        if (n < 0)
            return;
        for (size_t k = 0; k < PX_QUESTIONS && !q; k++)
            q = questions[k].used ? NULL : &questions[k];
        if (!q || size != sizeof scratch.from || px_parse_question(scratch.bytes, (size_t)n, &scratch.q))
            continue; /* the resolver asks again */
        scratch.used = 1;
        scratch.until = sb_now_ms() + QUESTION_MS;
        *q = scratch;
        memcpy(as.host.name, q->q.name, sizeof as.host.name);
        if (ask((uint32_t)(PX_CONNECTIONS + (q - questions)),
                q->q.type == 1    ? PX_RESOLVE_A
                : q->q.type == 28 ? PX_RESOLVE_AAAA
                                  : PX_RESOLVE_OTHER,
                &as, "") < 0)
            q->used = 0;
    }
}

/* ---- the loop ---- */

static void on_peer(void)
{
    for (;;) {
        struct px_answer a;
        int fds[4];
        size_t n_fds;
        ssize_t n = ag_receive(peer, &a, sizeof a, fds, &n_fds);

        if (n == -EAGAIN)
            return;
        if (n != (ssize_t)sizeof a || n_fds > 1 || a.which >= PX_ASKS)
            _exit(1); /* the connector is gone: so is the proxy */
        a.why[sizeof a.why - 1] = 0;
        if (a.which < PX_CONNECTIONS)
            answer_connection(&connections[a.which], &a, n_fds ? fds[0] : -1);
        else
            answer_question(&questions[a.which - PX_CONNECTIONS], &a);
    }
}

static void run_timers(void)
{
    int64_t now = sb_now_ms();

    for (struct connection *c = connections; c < connections + PX_CONNECTIONS; c++)
        if (c->state == HEAD && now >= c->until)
            end(c, 1);
    for (struct question *q = questions; q < questions + PX_QUESTIONS; q++)
        if (q->used && now >= q->until)
            q->used = 0;
}

void px_front(int to_connector)
{
    static const int calls[] = { SCMP_SYS(shutdown) };
    struct epoll_event events[64];
    int64_t look;

    peer = to_connector;
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || watch(SB_PROXY_FD_TCP, ON_TCP, 0, EPOLLIN) < 0 || watch(SB_PROXY_FD_UDP, ON_UDP, 0, EPOLLIN) < 0 ||
        watch(peer, ON_PEER, 0, EPOLLIN) < 0 || px_confine(calls, SB_ELEMENTS(calls), 0) < 0 || ag_send(peer, "r", 1, -1, 0) < 0)
        _exit(1);
    for (look = sb_now_ms() + LOOK_MS;;) {
        int n = epoll_wait(epoll, events, SB_ELEMENTS(events), LOOK_MS);

        for (int i = 0; i < n; i++) {
            size_t index = events[i].data.u64 & UINT32_MAX;

            switch ((enum what)(events[i].data.u64 >> 32)) {
            case ON_SIDE:
                on_side(index, events[i].events);
                break;
            case ON_TCP:
                on_tcp();
                break;
            case ON_UDP:
                on_udp();
                break;
            default:
                on_peer();
            }
        }
        if (sb_now_ms() >= look) {
            run_timers();
            look = sb_now_ms() + LOOK_MS;
        }
    }
}
