/* SPDX-License-Identifier: Apache-2.0
 * The dialer of a forward (forward.h): asks the sandbox's init for connections to one port, for the relay. A connection to init ("link") serves
 * one dial at a time; after the first dial one always stays, whose end says that init is gone. A sandbox that was started again has a new init
 * at the same place. */
#include "forward.h"
#include "message.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <util.h>

enum { DIAL_MS = 10000, MARGIN_MS = 1000, RETRY_MS = 2, ON_RELAY = AG_FORWARD_DIALS };

/* A place for each dial that the relay may have asked for. */
static struct link {
    int fd;          /* -1: not connected */
    int busy;
    uint32_t which;
    int64_t until;   /* busy: the dial's end */
    int64_t retry;   /* busy and not connected: when to try again */
} links[AG_FORWARD_DIALS];
static int relay, epoll, port;

static void answer(uint32_t which, uint32_t step, int sys_errno, int fd)
{
    struct ag_forward_answer a = { .which = which, .step = step, .sys_errno = sys_errno };
    int r = ag_send(relay, &a, sizeof a, fd, MSG_DONTWAIT);

    if (r < 0 && fd >= 0) { /* too many descriptors on their way, say; an answer there must be */
        a.step = SB_STEP_DIAL;
        a.sys_errno = -r;
        r = ag_send(relay, &a, sizeof a, -1, MSG_DONTWAIT);
    }
    if (r < 0)
        _exit(1); /* it has room for all that it asked for: so it is gone */
}

static int connected(void)
{
    int n = 0;

    for (int i = 0; i < AG_FORWARD_DIALS; i++)
        n += links[i].fd >= 0;
    return n;
}

/* A link's dial is over. One link stays connected, more would only take places from others in init. */
static void settle(struct link *l, int keep)
{
    l->busy = 0;
    l->retry = 0;
    if (l->fd >= 0 && (!keep || connected() > 1))
        l->fd = sb_close(l->fd);
}

static void on_link(struct link *l);

static void ask(struct link *l)
{
    struct sb_request request = { .type = SB_REQUEST_DIAL, .port = port, .timeout_ms = DIAL_MS };

    l->retry = 0;
    if (ag_send(l->fd, &request, sizeof request, -1, MSG_DONTWAIT) < 0)
        on_link(l); /* it is closed, perhaps with a word why */
}

static int connect_to_init(struct link *l)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "s" };
    struct epoll_event e = { .events = EPOLLIN, .data.u64 = (uint64_t)(l - links) };
    SB_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) < 0)
        return -errno;
    l->fd = SB_TAKE_FD(fd);
    return 0;
}

static void try_link(struct link *l)
{
    int r = connect_to_init(l);

    if (r == -EAGAIN) { /* its queue is full: it lives */
        l->retry = sb_now_ms() + RETRY_MS;
    } else if (r < 0) {
        answer(l->which, r == -ENOENT || r == -ECONNREFUSED ? SB_STEP_STATE : SB_STEP_DIAL, -r, -1);
        settle(l, 0);
    } else {
        ask(l);
    }
}

static void on_relay(void)
{
    for (;;) {
        struct ag_forward_ask q;
        struct link *l = NULL;
        int fds[4];
        size_t n_fds;
        ssize_t n = ag_receive(relay, &q, sizeof q, fds, &n_fds);

        if (n == -EAGAIN)
            return;
        if (n != (ssize_t)sizeof q || n_fds)
            _exit(0);
        for (int i = 0; i < AG_FORWARD_DIALS; i++)
            if (!links[i].busy && (!l || links[i].fd >= 0))
                l = &links[i];
        if (!l)
            _exit(1); /* more than it may ask for */
        l->busy = 1;
        l->which = q.which;
        l->until = sb_now_ms() + DIAL_MS + MARGIN_MS;
        if (l->fd >= 0)
            ask(l);
        else
            try_link(l);
    }
}

/* What comes on a link is from within the sandbox: of a size, and of a kind, that was asked for, or the link is over. */
static void on_link(struct link *l)
{
    struct sb_reply reply;
    int fds[4];
    size_t n_fds;
    ssize_t n = ag_receive(l->fd, &reply, sizeof reply, fds, &n_fds);
    int broken;

    if (n == -ECONNRESET) /* our request was not read; an answer may still be there */
        n = ag_receive(l->fd, &reply, sizeof reply, fds, &n_fds);
    if (n == -EAGAIN)
        return;
    broken = n != (ssize_t)sizeof reply || !l->busy;
    if (!broken && reply.type == SB_REPLY_DIALED && n_fds == 1) {
        answer(l->which, 0, 0, fds[0]);
        settle(l, 1);
    } else if (!broken && reply.type == SB_REPLY_FAILED && reply.step && !n_fds) {
        answer(l->which, reply.step, reply.sys_errno, -1);
        settle(l, reply.step != SB_STEP_BUSY); /* there was no place for this link at all */
    } else if (n == -EMSGSIZE && l->busy) { /* more than was asked for, or this process or machine has no descriptor for it */
        answer(l->which, SB_STEP_DIAL, EMFILE, -1);
        settle(l, 0);
    } else {
        if (l->busy)
            answer(l->which, SB_STEP_STATE, n < 0 ? (int)-n : EPIPE, -1);
        settle(l, 0);
        answer(AG_FORWARD_LOST, 0, 0, -1);
    }
    while (n_fds > 0)
        sb_close(fds[--n_fds]);
}

/* Does what is due; then for how long to wait. */
static int run_timers(void)
{
    int64_t now = sb_now_ms(), next = -1;

    for (struct link *l = links; l < links + AG_FORWARD_DIALS; l++) {
        if (!l->busy)
            continue;
        if (now >= l->until) { /* init itself would have said so: it is stopped, or worse */
            answer(l->which, SB_STEP_DIAL, ETIMEDOUT, -1);
            settle(l, 0);
            continue;
        }
        if (l->retry && now >= l->retry)
            try_link(l);
        if (l->busy && (next < 0 || (l->retry ? l->retry : l->until) < next))
            next = l->retry ? l->retry : l->until;
    }
    return sb_left_ms(next);
}

void ag_forward_dialer(int peer, int relay_pid, int to_port)
{
    static const int calls[] = { SYS_epoll_ctl, SYS_recvmsg, SYS_sendmsg, SYS_socket, SYS_connect, SYS_wait4 };
    struct epoll_event e = { .events = EPOLLIN, .data.u64 = ON_RELAY }, events[AG_FORWARD_DIALS + 1];

    relay = peer;
    port = to_port;
    for (int i = 0; i < AG_FORWARD_DIALS; i++)
        links[i].fd = -1;
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, peer, &e) < 0 || ag_forward_confine(calls, SB_ELEMENTS(calls)) < 0)
        _exit(1);
    answer(AG_FORWARD_NOBODY, 0, 0, -1); /* ready */
    for (;;) {
        int n = epoll_wait(epoll, events, SB_ELEMENTS(events), run_timers());

        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 == ON_RELAY && (events[i].events & (EPOLLHUP | EPOLLERR))) {
                waitpid(relay_pid, NULL, 0); /* the whole of the forward is gone when this process is */
                _exit(0);
            }
            if (events[i].data.u64 == ON_RELAY)
                on_relay();
            else if (links[events[i].data.u64].fd >= 0)
                on_link(&links[events[i].data.u64]);
        }
    }
}
