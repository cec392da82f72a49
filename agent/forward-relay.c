/* SPDX-License-Identifier: Apache-2.0
 * The relay of a forward (forward.h): accepts, has the other end dialled, and carries bytes both ways until both sides have ended.
 *
 * One thread, edge-triggered events, a table of fixed size. Each connection has its share and then waits for its next turn, so that a fast one
 * starves nobody; a slow one costs a place in the table and no more. When there is no place, or no descriptor, accepting pauses: who connects
 * waits in the listener's queue. */
#include "forward.h"
#include "message.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <util.h>

enum { NONE = UINT16_MAX, ACCEPTS_A_TURN = 16, PAUSE_MS = 50, READY_MS = 5000, SPARE_FDS = 32 };
enum kind { UNUSED = 0, DIALLING, OPEN };
/* What an event is about, in the upper half of its data; a side of a connection is its number, twice, plus the side. */
enum what { ON_SIDE = 0, ON_LISTENER, ON_PEER, ON_CONTROL, ON_OWNER };

struct connection {
    struct ag_pair pair; /* 0: who connected, 1: the sandbox */
    uint64_t counted[2]; /* of moved */
    uint8_t kind, queued;
    uint16_t next;       /* in the list of unused ones, or in the queue */
};

static struct {
    int epoll, peer, listening;
    unsigned int most, active, asked;
    uint16_t unused, closed;      /* lists; what is closed in a turn is used again after it, for events of this turn may still name it */
    uint16_t first, last;         /* the queue of those that go on */
    int64_t paused_until;         /* no descriptor was left; 0: not paused */
    struct sb_forward_page *page;
    struct connection connections[SB_FORWARD_CONNECTIONS];
    char buffer[128 * 1024];
} relay;

static void count(uint64_t *number, uint64_t more)
{
    __atomic_store_n(number, *number + more, __ATOMIC_RELAXED);
}

static int watch(int fd, enum what what, uint32_t index, uint32_t events)
{
    struct epoll_event e = { .events = events, .data.u64 = (uint64_t)what << 32 | index };

    return epoll_ctl(relay.epoll, EPOLL_CTL_ADD, fd, &e);
}

static void note_failure(uint32_t step, int sys_errno)
{
    count(&relay.page->failed, 1);
    __atomic_store_n(&relay.page->sys_errno, sys_errno, __ATOMIC_RELAXED);
    __atomic_store_n(&relay.page->step, step, __ATOMIC_RELAXED);
}

static void end(struct connection *c, int broken)
{
    ag_pair_close(&c->pair, broken);
    c->kind = UNUSED;
    relay.active--;
    __atomic_store_n(&relay.page->active, relay.active, __ATOMIC_RELAXED);
    if (c->queued) /* it is taken out when its turn comes */
        return;
    c->next = relay.closed;
    relay.closed = (uint16_t)(c - relay.connections);
}

static void enqueue(struct connection *c)
{
    uint16_t index = (uint16_t)(c - relay.connections);

    if (c->queued)
        return;
    c->queued = 1;
    c->next = NONE;
    if (relay.first == NONE)
        relay.first = index;
    else
        relay.connections[relay.last].next = index;
    relay.last = index;
}

static enum ag_pair_state move(struct connection *c)
{
    enum ag_pair_state state = ag_pair_move(&c->pair, relay.buffer, sizeof relay.buffer);

    count(&relay.page->bytes_in, c->pair.moved[0] - c->counted[0]);
    count(&relay.page->bytes_out, c->pair.moved[1] - c->counted[1]);
    memcpy(c->counted, c->pair.moved, sizeof c->counted);
    return state;
}

static void serve(struct connection *c)
{
    switch (move(c)) {
    case AG_PAIR_WAITS:
        break;
    case AG_PAIR_GOES_ON:
        enqueue(c);
        break;
    case AG_PAIR_ENDED:
        end(c, 0);
        break;
    case AG_PAIR_BROKEN:
        end(c, 1);
    }
}

/* One share for each that waits for its turn. */
static void run_queue(void)
{
    uint16_t last = relay.last, index;

    do {
        struct connection *c;

        index = relay.first;
        if (index == NONE)
            return;
        c = &relay.connections[index];
        relay.first = c->next;
        c->queued = 0;
        if (c->kind == OPEN) {
            serve(c);
        } else {
            c->next = relay.closed;
            relay.closed = index;
        }
    } while (index != last);
}

/* ---- new connections ---- */

/* Listens or doesn't, as there is room. */
static void set_listening(void)
{
    int wanted = relay.active < relay.most && relay.asked < AG_FORWARD_DIALS && !relay.paused_until;
    struct epoll_event e = { .events = wanted ? EPOLLIN : 0, .data.u64 = (uint64_t)ON_LISTENER << 32 };

    if (wanted != relay.listening && epoll_ctl(relay.epoll, EPOLL_CTL_MOD, SB_FORWARD_FD_LISTEN, &e) == 0)
        relay.listening = wanted;
}

static void take(int fd)
{
    uint16_t index = relay.unused;
    struct connection *c = &relay.connections[index];
    struct ag_forward_ask ask = { .which = index };

    relay.unused = c->next;
    *c = (struct connection){ .pair.fd = { fd, -1 }, .kind = DIALLING };
    relay.active++;
    relay.asked++;
    count(&relay.page->accepted, 1);
    __atomic_store_n(&relay.page->active, relay.active, __ATOMIC_RELAXED);
    if (ag_send(relay.peer, &ask, sizeof ask, -1, MSG_DONTWAIT) < 0)
        _exit(1); /* the dialer is gone: so is the forward */
}

static void on_listener(void)
{
    for (int i = 0; i < ACCEPTS_A_TURN && relay.unused != NONE && relay.active < relay.most && relay.asked < AG_FORWARD_DIALS; i++) {
        int fd = accept4(SB_FORWARD_FD_LISTEN, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
            relay.paused_until = sb_now_ms() + PAUSE_MS;
        if (fd < 0)
            return; /* who gave up in the meantime is no failure */
        take(fd);
    }
}

/* Only TCP sockets: a call on anything else could wait for whoever is behind it. */
static int is_tcp(int fd)
{
    int domain = 0, protocol = 0;
    socklen_t size = sizeof domain;

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && (domain == AF_INET || domain == AF_INET6) &&
           getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP;
}

static void open_pair(struct connection *c, int fd)
{
    uint32_t index = (uint32_t)(c - relay.connections), events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    int one = 1;

    c->pair.fd[1] = fd;
    c->kind = OPEN;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (watch(c->pair.fd[0], ON_SIDE, index * 2, events) < 0 || watch(fd, ON_SIDE, index * 2 + 1, events) < 0) {
        note_failure(SB_STEP_DIAL, errno);
        end(c, 1);
    }
}

/* init is gone, and with it whatever spoke in the sandbox. What it said before is still passed on. */
static void end_all(void)
{
    for (unsigned int i = 0; i < relay.most; i++) {
        struct connection *c = &relay.connections[i];
        enum ag_pair_state state = AG_PAIR_GOES_ON;

        if (c->kind != OPEN)
            continue;
        for (int share = 0; share < 64 && state == AG_PAIR_GOES_ON; share++)
            state = move(c);
        end(c, state != AG_PAIR_ENDED && !c->pair.ended[1]);
    }
}

static void on_answer(void)
{
    for (int i = 0; i < AG_FORWARD_DIALS; i++) {
        struct ag_forward_answer answer = { .which = AG_FORWARD_NOBODY };
        struct connection *c;
        int fds[4];
        size_t n_fds;
        ssize_t n = ag_receive(relay.peer, &answer, sizeof answer, fds, &n_fds);

        if (n == -EAGAIN)
            return;
        if (n == -EMSGSIZE && !answer.step) { /* the machine has no descriptor for it */
            answer.step = SB_STEP_DIAL;
            answer.sys_errno = ENFILE;
        } else if (n != (ssize_t)sizeof answer) {
            _exit(1);
        }
        if (answer.which == AG_FORWARD_LOST) {
            end_all();
            continue;
        }
        if (answer.which >= relay.most || relay.connections[answer.which].kind != DIALLING)
            _exit(1);
        c = &relay.connections[answer.which];
        relay.asked--;
        if (n_fds == 1 && !answer.step && is_tcp(fds[0])) {
            open_pair(c, fds[0]);
            continue;
        }
        while (n_fds > 0)
            sb_close(fds[--n_fds]);
        note_failure(answer.step ? answer.step : SB_STEP_DIAL, answer.step ? answer.sys_errno : EPROTO);
        end(c, 1);
    }
}

/* ---- the loop ---- */

static void on_event(const struct epoll_event *e)
{
    uint32_t index = e->data.u64 & UINT32_MAX;
    struct connection *c;

    switch ((enum what)(e->data.u64 >> 32)) {
    case ON_SIDE:
        c = &relay.connections[index / 2];
        if (c->kind != OPEN)
            return;
        ag_pair_event(&c->pair, index & 1, e->events);
        if (!c->queued)
            serve(c);
        break;
    case ON_LISTENER:
        on_listener();
        break;
    case ON_PEER:
        on_answer();
        break;
    default: /* it is over: closed, or its owner died */
        _exit(0);
    }
}

static void free_closed(void)
{
    while (relay.closed != NONE) {
        struct connection *c = &relay.connections[relay.closed];
        uint16_t index = relay.closed;

        relay.closed = c->next;
        c->next = relay.unused;
        relay.unused = index;
    }
}

static void prepare(int peer)
{
    struct rlimit files;

    relay.peer = peer;
    relay.most = SB_FORWARD_CONNECTIONS;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        if (files.rlim_cur != RLIM_INFINITY && files.rlim_cur < 2 * SB_FORWARD_CONNECTIONS + SPARE_FDS)
            relay.most = files.rlim_cur > SPARE_FDS + 2 ? (unsigned int)(files.rlim_cur - SPARE_FDS) / 2 : 1;
    }
    relay.first = relay.last = relay.unused = relay.closed = NONE;
    for (unsigned int i = relay.most; i-- > 0;) {
        relay.connections[i].next = relay.unused;
        relay.unused = (uint16_t)i;
    }
    relay.page = mmap(NULL, sizeof *relay.page, PROT_READ | PROT_WRITE, MAP_SHARED, SB_FORWARD_FD_PAGE, 0);
    relay.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (relay.page == MAP_FAILED || relay.epoll < 0 || watch(peer, ON_PEER, 0, EPOLLIN) < 0 ||
        watch(SB_FORWARD_FD_LISTEN, ON_LISTENER, 0, EPOLLIN) < 0 || watch(SB_FORWARD_FD_CONTROL, ON_CONTROL, 0, EPOLLIN) < 0 ||
        watch(SB_FORWARD_FD_OWNER, ON_OWNER, 0, EPOLLIN) < 0)
        _exit(1);
    relay.listening = 1;
    close(SB_FORWARD_FD_PAGE);
}

/* Its first word says that it has given up its rights, too: the forward is open when both have. */
static int await_dialer(void)
{
    struct pollfd p = { .fd = relay.peer, .events = POLLIN };
    struct ag_forward_answer answer;
    size_t n_fds;
    int fds[4];

    if (poll(&p, 1, READY_MS) <= 0 || ag_receive(relay.peer, &answer, sizeof answer, fds, &n_fds) != (ssize_t)sizeof answer)
        return -1;
    return answer.which == AG_FORWARD_NOBODY && !n_fds ? 0 : -1;
}

void ag_forward_relay(int peer)
{
    static const int calls[] = { SYS_epoll_ctl, SYS_recvfrom, SYS_recvmsg, SYS_sendto, SYS_sendmsg, SYS_accept4, SYS_shutdown,
                                 SYS_setsockopt, SYS_getsockopt };
    struct epoll_event events[64];

    prepare(peer);
    if (await_dialer() < 0 || ag_forward_confine(calls, SB_ELEMENTS(calls)) < 0 || send(SB_FORWARD_FD_CONTROL, "r", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        _exit(1);
    for (;;) {
        int timeout = relay.first != NONE ? 0 : relay.paused_until ? sb_left_ms(relay.paused_until) : -1, n;

        n = epoll_wait(relay.epoll, events, SB_ELEMENTS(events), timeout);
        for (int i = 0; i < n; i++)
            on_event(&events[i]);
        run_queue();
        free_closed();
        if (relay.paused_until && sb_left_ms(relay.paused_until) == 0)
            relay.paused_until = 0;
        set_listening();
    }
}
