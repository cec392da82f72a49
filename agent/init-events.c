/* SPDX-License-Identifier: Apache-2.0
 * What init tells keeper: starts and ends of execs and of the daemon, and the pipes of those whose output goes into a journal. init never
 * waits for keeper: what the socket doesn't take (keeper is stopped, or its disk is slow) stands in a queue and is sent when it does. When
 * the queue is full too, the newest is lost: then how that exec ended is known to init alone.
 *
 * The socket is also how init sees keeper's death. A sandbox whose keeper was killed has a daemon that nobody reads and exits that nobody
 * writes down: it ends, at once and whole. */
#include "init-loop.h"
#include "message.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <util.h>

enum { QUEUE = 4096 };

static struct {
    int kept; /* there is a keeper */
    size_t first, n;
    struct sb_ring_event events[QUEUE];
} queue;

void ag_events_start(void)
{
    struct stat st;

    queue.kept = fstat(SB_FD_EVENTS, &st) == 0 && S_ISSOCK(st.st_mode);
    if (queue.kept)
        ag_watch(SB_FD_EVENTS, ON_EVENTS, 0, EPOLLIN); /* and its hang-up */
}

static void await_room(int wanted)
{
    struct epoll_event e = { .events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.u64 = (uint64_t)ON_EVENTS << 32 };

    epoll_ctl(ag_loop.epoll, EPOLL_CTL_MOD, SB_FD_EVENTS, &e);
}

static int send_one(const struct sb_ring_event *event)
{
    return ag_send(SB_FD_EVENTS, event, sizeof *event, -1, MSG_DONTWAIT);
}

static void tell(const struct sb_ring_event *event)
{
    int r;

    if (!queue.kept)
        return;
    r = queue.n ? -EAGAIN : send_one(event);
    if (r != -EAGAIN && r != -ENOBUFS)
        return;
    if (queue.n == QUEUE)
        return;
    if (!queue.n)
        await_room(1);
    queue.events[(queue.first + queue.n++) % QUEUE] = *event;
}

/* keeper's requests are few; who is flooded by it serves others in between. */
static void take_request(void)
{
    int fds[4];
    size_t n_fds;
    ssize_t n = ag_receive(SB_FD_EVENTS, ag_loop.buffer, sizeof ag_loop.buffer, fds, &n_fds);

    for (size_t i = 0; i < n_fds; i++)
        sb_close(fds[i]);
    if (n > 0)
        ag_life_request(n);
}

void ag_on_events(uint32_t events)
{
    if (events & (EPOLLHUP | EPOLLERR))
        _exit(0);
    if (events & EPOLLIN)
        take_request();
    if (!queue.n)
        return;
    while (queue.n) {
        int r = send_one(&queue.events[queue.first]);

        if (r == -EAGAIN || r == -ENOBUFS)
            return;
        queue.first = (queue.first + 1) % QUEUE;
        queue.n--;
    }
    await_room(0);
}

static struct sb_ring_event event_of(const struct ag_slot *s, uint32_t type)
{
    struct sb_ring_event event = { .type = htole32(type) };
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    event.wall_ns = htole64((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    event.max_bytes = htole64((uint64_t)s->journal_max);
    if (s->daemon)
        event.number = htole32(ag_loop.daemon_starts);
    else
        memcpy(event.exec_id, s->exec_id, sizeof event.exec_id);
    return event;
}

void ag_event_started(const struct ag_slot *s)
{
    struct sb_ring_event event = event_of(s, SB_EVENT_STARTED);

    if (!s->quiet)
        tell(&event);
}

void ag_event_life(uint32_t type, uint64_t number, const struct ag_slot *s)
{
    struct sb_ring_event event = { .type = htole32(type), .max_bytes = htole64(number), .code = -1 };

    if (s) {
        memcpy(event.exec_id, s->exec_id, sizeof event.exec_id);
        event.kind = htole32(s->end.kind);
        event.code = (int32_t)htole32((uint32_t)s->end.code);
    }
    tell(&event);
}

void ag_event_ended(const struct ag_slot *s)
{
    struct sb_ring_event event = event_of(s, SB_EVENT_ENDED);

    if (s->quiet) {
        ag_event_life(SB_EVENT_HEALTH, 0, s);
        return;
    }
    event.kind = htole32(s->end.kind);
    event.code = (int32_t)htole32((uint32_t)s->end.code);
    event.signal = (int32_t)htole32((uint32_t)s->end.signal);
    event.user_us = (int64_t)htole64((uint64_t)s->end.user_us);
    event.system_us = (int64_t)htole64((uint64_t)s->end.system_us);
    event.max_rss = (int64_t)htole64((uint64_t)s->end.max_rss);
    tell(&event);
}

void ag_event_failed(const struct ag_slot *s, int sys_errno)
{
    struct sb_ring_event event = event_of(s, s->quiet ? SB_EVENT_HEALTH : SB_EVENT_ENDED);

    event.code = (int32_t)htole32((uint32_t)-1);
    event.sys_errno = (int32_t)htole32((uint32_t)sys_errno);
    tell(&event);
}

int ag_event_journal(const struct ag_slot *s, const int ends[2])
{
    struct sb_ring_event event = event_of(s, SB_EVENT_JOURNAL);

    if (!queue.kept)
        return -EOPNOTSUPP;
    if (queue.n) /* behind what waits it could only be queued, and descriptors are not */
        return -EAGAIN;
    return ag_send_fds(SB_FD_EVENTS, &event, sizeof event, ends, 2, MSG_DONTWAIT);
}
