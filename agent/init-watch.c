/* SPDX-License-Identifier: Apache-2.0
 * Who watches a sandbox is told what happens in it. The last events are kept in a ring, so that who comes a moment late, or reads slowly, misses
 * nothing of them; who is slower still is told how much he missed. init never waits for a watcher: what his connection doesn't take now is sent
 * when it takes more. */
#include "init-loop.h"
#include "message.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <util.h>

enum { KEPT = 64 };

static struct sb_watch_event kept[KEPT];
static uint64_t told; /* events since init's start; number n is in kept[n % KEPT] */

static void listen_for(struct ag_slot *s, uint32_t events)
{
    struct epoll_event e = { .events = events, .data.u64 = (uint64_t)ON_CONNECTION << 32 | (uint64_t)(s - ag_loop.slots) };

    epoll_ctl(ag_loop.epoll, EPOLL_CTL_MOD, s->fd, &e);
}

/* 0, or -errno; -EAGAIN: later. Whose connection is broken watches no more. */
static int send_event(struct ag_slot *s, const struct sb_watch_event *event)
{
    int r = ag_send(s->fd, event, sizeof *event, -1, MSG_DONTWAIT);

    if (r == -EAGAIN && !s->blocked) {
        s->blocked = 1;
        listen_for(s, EPOLLIN | EPOLLOUT);
    } else if (r < 0 && r != -EAGAIN) {
        s->fd = ag_forget(s->fd);
        s->kind = FREE;
    }
    return r;
}

static void send_all(struct ag_slot *s)
{
    while (s->seen < told) {
        if (told - s->seen > KEPT) {
            uint64_t lost = told - s->seen - KEPT;
            struct sb_watch_event event = { .type = SB_REPLY_EVENT, .event = SB_WATCH_LOST, .wall_ms = kept[told % KEPT].wall_ms };

            event.lost = lost < UINT32_MAX ? (uint32_t)lost : UINT32_MAX;
            if (send_event(s, &event) < 0)
                return;
            s->seen += lost;
        }
        if (send_event(s, &kept[s->seen % KEPT]) < 0)
            return;
        s->seen++;
    }
    if (s->blocked) {
        s->blocked = 0;
        listen_for(s, EPOLLIN);
    }
}

void ag_watch_more(struct ag_slot *s)
{
    send_all(s);
}

static void tell(enum sb_watch_what what, const struct ag_slot *s, int code)
{
    struct sb_watch_event *event = &kept[told % KEPT];
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    *event = (struct sb_watch_event){ .type = SB_REPLY_EVENT, .event = what, .code = code,
                                .wall_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 };
    if (s && !s->daemon)
        memcpy(event->exec_id, s->exec_id, sizeof event->exec_id);
    if (s && (what == SB_WATCH_EXEC_EXITED || what == SB_WATCH_DAEMON_EXITED)) {
        event->kind = s->end.kind;
        event->code = s->end.code;
        event->signal = s->end.signal;
    }
    told++;
    for (size_t i = 0; i < ag_loop.top; i++)
        if (ag_loop.slots[i].kind == WATCHING && !ag_loop.slots[i].blocked)
            send_all(&ag_loop.slots[i]);
}

void ag_tell(enum sb_watch_what what, const struct ag_slot *s)
{
    if (!s || !s->quiet)
        tell(what, s, -1);
}

void ag_tell_note(enum sb_watch_what what, int code)
{
    tell(what, NULL, code);
}

void ag_watch_begin(struct ag_slot *s, const struct sb_request *q)
{
    struct sb_reply r = { .type = SB_REPLY_STATUS,
                          .started = (uint32_t)ag_loop.started,
                          .daemon = (uint32_t)ag_loop.daemon_state,
                          .code = ag_loop.daemon_code,
                          .signal = ag_loop.daemon_signal };

    if (ag_count_kind(WATCHING) >= SB_WATCHERS_MAX) {
        ag_fail(s, SB_STEP_BUSY, EAGAIN);
        return;
    }
    ag_reply(s, &r, -1);
    if (s->fd < 0)
        return;
    s->kind = WATCHING;
    s->blocked = 0;
    s->seen = q->flags & SB_REQUEST_HISTORY ? 0 : told;
    send_all(s);
}
