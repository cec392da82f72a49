/* SPDX-License-Identifier: Apache-2.0
 * The connector of sandbox-proxy (proxy.h): the rules, names to addresses by c-ares, connections. Rules can be replaced while it runs; what was
 * allowed or denied is told to whoever watches. */
#include "message.h"
#include "proxy.h"

#include <ares.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <util.h>

enum { CONNECT_MS = 5000, CONTROLS_MAX = 16, TRIES_MAX = 6, NONE = -1 };
enum what { ON_FRONT, ON_RESOLVER, ON_CONNECT, ON_LISTEN, ON_CONTROL, ON_HOLDER };

/* What the front has asked for; the number is its. */
static struct job {
    int used, fd; /* fd: being connected; NONE */
    uint32_t kind, serial;
    int port;
    struct sb_host_name host;
    unsigned char addresses[TRIES_MAX][16];
    size_t n, next;
    int64_t until;
} jobs[PX_ASKS];

static struct {
    int fd, watches;
    uint64_t seen; /* events sent */
} controls[CONTROLS_MAX];

static struct sb_allow *rules;
static size_t n_rules;
static struct sb_proxy_event events_kept[SB_PROXY_EVENTS_KEPT];
static uint64_t told;
static int epoll, front;
static ares_channel resolver;
static pid_t front_process;

static int watch(int fd, enum what what, size_t index, uint32_t events)
{
    struct epoll_event e = { .events = events, .data.u64 = (uint64_t)what << 32 | index };

    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0 || (errno == EEXIST && epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &e) == 0) ? 0 : -1;
}

/* The whole of the proxy is gone when this process is: without its peer the front ends. */
static _Noreturn void leave(int status)
{
    close(front);
    waitpid(front_process, NULL, 0);
    _exit(status);
}

/* ---- events ---- */

static void send_events(size_t i)
{
    while (controls[i].watches && controls[i].seen < told) {
        if (told - controls[i].seen > SB_PROXY_EVENTS_KEPT)
            controls[i].seen = told - SB_PROXY_EVENTS_KEPT;
        if (ag_send(controls[i].fd, &events_kept[controls[i].seen % SB_PROXY_EVENTS_KEPT], sizeof *events_kept, -1, MSG_DONTWAIT) < 0)
            return; /* later, or it is gone */
        controls[i].seen++;
    }
}

static void tell(int allowed, const struct sb_host_name *host, int port, const char *why)
{
    struct sb_proxy_event *e = &events_kept[told % SB_PROXY_EVENTS_KEPT];
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    *e = (struct sb_proxy_event){ .allowed = (uint32_t)allowed, .port = (uint32_t)port, .wall_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 };
    if (!host->is_address)
        snprintf(e->host, sizeof e->host, "%s", host->name);
    else if (!memcmp(host->address, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12))
        inet_ntop(AF_INET, host->address + 12, e->host, sizeof e->host);
    else
        inet_ntop(AF_INET6, host->address, e->host, sizeof e->host);
    snprintf(e->why, sizeof e->why, "%s", why);
    told++;
    for (size_t i = 0; i < CONTROLS_MAX; i++)
        if (controls[i].fd >= 0)
            send_events(i);
}

/* ---- answers ---- */

static void answer(struct job *j, enum px_status status, const char *why, int fd)
{
    struct px_answer a = { .which = (uint32_t)(j - jobs), .status = status };

    snprintf(a.why, sizeof a.why, "%s", why);
    if (status == PX_OK && j->kind != PX_CONNECT) {
        a.n = (uint32_t)j->n;
        memcpy(a.addresses, j->addresses, j->n * 16);
    }
    if (ag_send(front, &a, sizeof a, fd, MSG_DONTWAIT) < 0 && fd >= 0) {
        a.status = PX_NOT_REACHED; /* no descriptor can be passed just now */
        ag_send(front, &a, sizeof a, -1, MSG_DONTWAIT);
    }
    j->fd = sb_close(j->fd);
    j->used = 0;
}

static void deny(struct job *j, const char *why)
{
    tell(0, &j->host, j->port, why);
    answer(j, PX_DENIED, why, -1);
}

/* ---- connecting ---- */

static int begin_connect(struct job *j, const unsigned char *address)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)j->port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)j->port) };
    int is_v4 = !memcmp(address, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12), one = 1;

    memcpy(&v4.sin_addr, address + 12, 4);
    memcpy(&v6.sin6_addr, address, 16);
    j->fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (j->fd < 0)
        return -1;
    setsockopt(j->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    if (connect(j->fd, is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6, is_v4 ? sizeof v4 : sizeof v6) < 0 && errno != EINPROGRESS)
        return -1;
    j->until = sb_now_ms() + CONNECT_MS;
    return watch(j->fd, ON_CONNECT, (size_t)(j - jobs), EPOLLOUT);
}

static void try_next(struct job *j)
{
    while (j->next < j->n) {
        j->fd = sb_close(j->fd);
        if (begin_connect(j, j->addresses[j->next++]) == 0)
            return;
    }
    answer(j, PX_NOT_REACHED, "the server can't be reached", -1);
}

static void on_connected(struct job *j)
{
    int error = 0;
    socklen_t size = sizeof error;

    if (!j->used || j->fd < 0)
        return;
    if (getsockopt(j->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error) {
        try_next(j);
        return;
    }
    epoll_ctl(epoll, EPOLL_CTL_DEL, j->fd, NULL);
    tell(1, &j->host, j->port, "");
    answer(j, PX_OK, "", j->fd);
}

/* ---- names ---- */

/* 1: an address of this machine's, which may be a public one, too: what listens there may count on being behind a firewall, and for the machine
 * itself it isn't. Only such an address can be bound to; where a sysctl allows others as well, nothing is routed from those. */
static int is_own(const unsigned char address[16])
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = 0 };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = 0 };
    int is_v4 = !memcmp(address, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
    const struct sockaddr *to = is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t size = is_v4 ? sizeof v4 : sizeof v6;
    SB_CLOSE int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(&v4.sin_addr, address + 12, 4);
    memcpy(&v6.sin6_addr, address, 16);
    if (fd < 0)
        return 1; /* nobody knows */
    if (bind(fd, to, size) < 0)
        return 0;
    v4.sin_port = v6.sin6_port = htons(9); /* sends nothing */
    return connect(fd, to, size) == 0;
}

/* Keeps the addresses that may be told or connected to: public ones of others, and those that a rule with an address allows. */
static void keep_addresses(struct job *j, const struct ares_addrinfo *found, int *ret_refused)
{
    *ret_refused = 0;
    for (const struct ares_addrinfo_node *node = found->nodes; node && j->n < TRIES_MAX; node = node->ai_next) {
        unsigned char address[16] = { [10] = 0xff, [11] = 0xff };

        if (node->ai_family == AF_INET)
            memcpy(address + 12, &((struct sockaddr_in *)(void *)node->ai_addr)->sin_addr, 4);
        else if (node->ai_family == AF_INET6)
            memcpy(address, &((struct sockaddr_in6 *)(void *)node->ai_addr)->sin6_addr, 16);
        else
            continue;
        if (sb_allow_has_address(rules, n_rules, address, j->port) || (sb_address_is_public(address) && !is_own(address)))
            memcpy(j->addresses[j->n++], address, 16);
        else
            *ret_refused = 1;
    }
}

static void on_resolved(void *data, int status, int timeouts, struct ares_addrinfo *found)
{
    const uint64_t handle = (uint64_t)(uintptr_t)data;
    struct job *j = &jobs[handle % PX_ASKS];
    int refused = 0;

    (void)timeouts;
    if (!j->used || j->serial != handle / PX_ASKS) { /* the front gave up, and has something else there now */
        ares_freeaddrinfo(found);
        return;
    }
    if (status == ARES_SUCCESS)
        keep_addresses(j, found, &refused);
    ares_freeaddrinfo(found);
    if (!j->n && refused)
        deny(j, "it resolves to a private address or to this machine's");
    else if (status == ARES_ENODATA && j->kind != PX_CONNECT)
        answer(j, PX_OK, "", -1);
    else if (status == ARES_ENOTFOUND || status == ARES_ENODATA || (status == ARES_SUCCESS && !j->n))
        answer(j, PX_NO_NAME, "the name does not resolve", -1);
    else if (status != ARES_SUCCESS)
        answer(j, PX_NOT_REACHED, "the name can't be resolved", -1);
    else if (j->kind == PX_CONNECT)
        try_next(j);
    else
        answer(j, PX_OK, "", -1);
}

static void resolve(struct job *j)
{
    static uint32_t serial;
    const struct ares_addrinfo_hints hints = { .ai_family = j->kind == PX_RESOLVE_A      ? AF_INET
                                                            : j->kind == PX_RESOLVE_AAAA ? AF_INET6
                                                                                         : AF_UNSPEC,
                                               .ai_flags = ARES_AI_NOSORT };
    char name[SB_HOST_SIZE + 1];

    j->serial = ++serial;
    snprintf(name, sizeof name, "%s.", j->host.name); /* whole: no search list of the host's */
    ares_getaddrinfo(resolver, name, NULL, &hints, on_resolved, (void *)(uintptr_t)((uint64_t)j->serial * PX_ASKS + (uint64_t)(j - jobs)));
}

/* ---- the front ---- */

/* As proxy-front.c writes it: '#' and 32 digits, or a name, which is read anew. */
static int read_host(const char *text, struct sb_host_name *ret)
{
    *ret = (struct sb_host_name){ 0 };
    if (text[0] != '#')
        return sb_host_parse(text, strlen(text), ret) || ret->is_address ? -1 : 0;
    ret->is_address = 1;
    for (size_t i = 0; i < 16; i++) {
        unsigned int byte;

        if (sscanf(text + 1 + 2 * i, "%2x", &byte) != 1)
            return -1;
        ret->address[i] = (unsigned char)byte;
    }
    return 0;
}

static void take_ask(const struct px_ask *q)
{
    struct sb_host_name host;
    struct job *j;

    if (read_host(q->host, &host) || q->port < 0 || q->port > 65535)
        leave(1);
    if (q->kind == PX_NOTE) {
        tell(0, &host, q->port, q->why);
        return;
    }
    if (q->which >= PX_ASKS || q->kind < PX_CONNECT || q->kind > PX_RESOLVE_OTHER || (q->kind == PX_CONNECT && !q->port))
        leave(1);
    j = &jobs[q->which];
    sb_close(j->used ? j->fd : -1);
    *j = (struct job){ .used = 1, .fd = -1, .kind = q->kind, .port = q->port, .host = host };
    if (host.is_address) {
        if (!sb_allow_has_address(rules, n_rules, host.address, j->port)) {
            deny(j, "no rule allows this address");
            return;
        }
        memcpy(j->addresses[j->n++], host.address, 16);
        try_next(j);
    } else if (!sb_allow_has_name(rules, n_rules, host.name, j->port)) {
        deny(j, "no rule allows this host");
    } else if (j->kind == PX_RESOLVE_OTHER) {
        answer(j, PX_OK, "", -1); /* nothing of that kind: what carries data in names or texts gets no further */
    } else {
        resolve(j);
    }
}

static void on_front(void)
{
    for (;;) {
        struct px_ask q;
        int fds[4];
        size_t n_fds;
        ssize_t n = ag_receive(front, &q, sizeof q, fds, &n_fds);

        if (n == -EAGAIN)
            return;
        if (n != (ssize_t)sizeof q || n_fds)
            leave(n == 0 ? 0 : 1);
        q.host[sizeof q.host - 1] = q.why[sizeof q.why - 1] = 0;
        take_ask(&q);
    }
}

/* ---- rules ---- */

/* "allow RULE" and "dns SERVER" lines. Only a file that is whole replaces what was; DNS servers are taken at the start alone. */
static int load(int fd, int start)
{
    char *text = malloc(SB_PROXY_RULES_BYTES + 1), *save = NULL, servers[256] = "";
    struct sb_allow *more = calloc(SB_ALLOW_RULES_MAX, sizeof *more);
    size_t n = 0;
    ssize_t size = text && more ? pread(fd, text, SB_PROXY_RULES_BYTES, 0) : -1;
    int r = size < 0 || size == SB_PROXY_RULES_BYTES ? -EINVAL : 0;

    if (!r)
        text[size] = 0;
    for (char *line = r ? NULL : strtok_r(text, "\n", &save); line && !r; line = strtok_r(NULL, "\n", &save)) {
        if (!strncmp(line, "allow ", 6))
            r = n < SB_ALLOW_RULES_MAX ? sb_allow_parse(line + 6, &more[n++]) : -E2BIG;
        else if (!strncmp(line, "dns ", 4) && strlen(servers) + strlen(line) < sizeof servers)
            snprintf(servers + strlen(servers), sizeof servers - strlen(servers), "%s%s", *servers ? "," : "", line + 4);
        else
            r = -EINVAL;
    }
    free(text);
    if (r) {
        free(more);
        return r;
    }
    free(rules);
    rules = more;
    n_rules = n;
    return start && *servers && ares_set_servers_ports_csv(resolver, servers) != ARES_SUCCESS ? -EINVAL : 0;
}

static void on_control(size_t i)
{
    struct sb_proxy_request q;
    int fds[4];
    size_t n_fds;
    ssize_t n = ag_receive(controls[i].fd, &q, sizeof q, fds, &n_fds);

    if (n == -EAGAIN)
        return;
    if (n == (ssize_t)sizeof q && q.say == SB_PROXY_WATCH && !n_fds) {
        controls[i].watches = 1;
        controls[i].seen = told > SB_PROXY_EVENTS_KEPT ? told - SB_PROXY_EVENTS_KEPT : 0;
        send_events(i);
    } else if (n == (ssize_t)sizeof q && q.say == SB_PROXY_RULES && n_fds == 1 && load(fds[0], 0) == 0) {
        ag_send(controls[i].fd, "k", 1, -1, MSG_DONTWAIT);
    } else {
        controls[i].fd = sb_close(controls[i].fd);
        controls[i].watches = 0;
    }
    while (n_fds > 0)
        sb_close(fds[--n_fds]);
}

static void on_listen(void)
{
    int fd = accept4(SB_PROXY_FD_CONTROL, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    for (size_t i = 0; fd >= 0 && i < CONTROLS_MAX; i++)
        if (controls[i].fd < 0 && watch(fd, ON_CONTROL, i, EPOLLIN) == 0) {
            controls[i].fd = fd;
            controls[i].watches = 0;
            return;
        }
    sb_close(fd);
}

/* ---- the loop ---- */

static void on_resolver_socket(void *data, ares_socket_t fd, int readable, int writable)
{
    (void)data;
    if (!readable && !writable)
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
    else
        watch(fd, ON_RESOLVER, (size_t)fd, (readable ? EPOLLIN : 0) | (writable ? EPOLLOUT : 0));
}

static void run_timers(void)
{
    int64_t now = sb_now_ms();

    ares_process_fd(resolver, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    for (size_t i = 0; i < PX_ASKS; i++)
        if (jobs[i].used && jobs[i].fd >= 0 && now >= jobs[i].until)
            try_next(&jobs[i]);
    for (size_t i = 0; i < CONTROLS_MAX; i++)
        if (controls[i].fd >= 0)
            send_events(i); /* what there was no room for */
}

static void on_event(const struct epoll_event *e)
{
    size_t index = e->data.u64 & UINT32_MAX;

    switch ((enum what)(e->data.u64 >> 32)) {
    case ON_FRONT:
        on_front();
        break;
    case ON_RESOLVER:
        ares_process_fd(resolver, e->events & ~(uint32_t)EPOLLOUT ? (ares_socket_t)index : ARES_SOCKET_BAD,
                        e->events & EPOLLOUT ? (ares_socket_t)index : ARES_SOCKET_BAD);
        break;
    case ON_CONNECT:
        on_connected(&jobs[index]);
        break;
    case ON_LISTEN:
        on_listen();
        break;
    case ON_CONTROL:
        if (controls[index].fd >= 0)
            on_control(index);
        break;
    default:
        leave(0); /* the network is gone */
    }
}

static int prepare(void)
{
    struct ares_options options = { .sock_state_cb = on_resolver_socket, .lookups = (char[]){ "b" }, .timeout = 2000, .tries = 2 };
    char byte;
    int fds[4];
    size_t n_fds;

    for (size_t i = 0; i < CONTROLS_MAX; i++)
        controls[i].fd = -1;
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS ||
        ares_init_options(&resolver, &options, ARES_OPT_SOCK_STATE_CB | ARES_OPT_LOOKUPS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES) != ARES_SUCCESS ||
        load(SB_PROXY_FD_RULES, 1) < 0)
        return -1;
    if (watch(front, ON_FRONT, 0, EPOLLIN) < 0 || watch(SB_PROXY_FD_CONTROL, ON_LISTEN, 0, EPOLLIN) < 0 ||
        watch(SB_PROXY_FD_HOLDER, ON_HOLDER, 0, EPOLLIN) < 0)
        return -1;
    for (int64_t until = sb_now_ms() + 5000; sb_now_ms() < until;) { /* its first word: it has given up its rights, too */
        struct epoll_event e;
        ssize_t n = ag_receive(front, &byte, 1, fds, &n_fds);

        if (n != -EAGAIN)
            return n == 1 ? 0 : -1;
        epoll_wait(epoll, &e, 1, 50);
    }
    return -1;
}

void px_connector(int to_front, pid_t front_pid)
{
    static const int calls[] = { SCMP_SYS(connect), SCMP_SYS(bind), SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(fcntl), SCMP_SYS(read),
                                 SCMP_SYS(readv), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(pread64), SCMP_SYS(getrandom), SCMP_SYS(mremap),
                                 SCMP_SYS(madvise), SCMP_SYS(futex), SCMP_SYS(sendmmsg), SCMP_SYS(ioctl), SCMP_SYS(wait4) };
    struct epoll_event events[64];

    front = to_front;
    front_process = front_pid;
    if (prepare() < 0 || px_confine(calls, SB_ELEMENTS(calls), 1) < 0 || write(SB_PROXY_FD_READY, "r", 1) != 1)
        leave(1);
    close(SB_PROXY_FD_READY);
    close(SB_PROXY_FD_RULES);
    for (;;) {
        int n = epoll_wait(epoll, events, SB_ELEMENTS(events), 250);

        for (int i = 0; i < n; i++)
            on_event(&events[i]);
        run_timers();
    }
}
