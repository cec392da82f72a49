/* SPDX-License-Identifier: Apache-2.0
 * keeper's loop: from the pipes into the rings. What comes from inside the sandbox (output, datagrams) is copied, and of the datagrams
 * no more is believed than whose output ends where. A disk that is full or broken costs log, which is counted and said, and never
 * blocks the daemon; a reader that is slow costs nothing, since the rings turn under it.
 *
 * The order in the log is the daemon's own: init sends its event before the daemon can write, and once the daemon has ended all it
 * wrote is in the pipes. So the events are looked at after each read and before its bytes are written down, and the pipes are
 * emptied before an end is. */
#include "keeper-loop.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <util.h>

#include "message.h"

enum { DRAIN_MS = 500 };

uint64_t ag_wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int ag_sink_begin(struct ag_sink *sink)
{
    int r;

    if (!sink->first)
        return 0;
    r = ag_ring_append(&sink->ring, sink->first, ag_wall_ns(), &sink->started,
                       sink->first == SB_RING_STARTED ? sizeof sink->started : 0);
    if (!r)
        sink->first = 0;
    return r;
}

/* What the disk refused is counted, and said in front of the next record that it takes. */
int ag_sink_say_dropped(struct ag_sink *sink)
{
    struct sb_ring_dropped lost = { { htole64(sink->dropped[0]), htole64(sink->dropped[1]) } };
    int r = ag_sink_begin(sink);

    if (r || (!sink->dropped[0] && !sink->dropped[1]))
        return r;
    r = ag_ring_append(&sink->ring, SB_RING_DROPPED, ag_wall_ns(), &lost, sizeof lost);
    if (!r)
        sink->dropped[0] = sink->dropped[1] = 0;
    return r;
}

void ag_sink_output(struct ag_sink *sink, int which, const void *data, size_t size)
{
    sink->written[which] += size;
    /* with a loss unsaid nothing may follow it */
    if (ag_sink_say_dropped(sink) == 0 && ag_ring_append(&sink->ring, SB_RING_STDOUT + which, ag_wall_ns(), data, size) == 0)
        return;
    sink->dropped[which] += size;
    sink->dropped_ever += size;
}

static void end_input(struct ag_keeper *k, int which)
{
    k->in[which].fd = sb_close(k->in[which].fd);
}

/* ---- events ---- */

static void append_ended(struct ag_keeper *k)
{
    if (ag_sink_say_dropped(&k->log) == 0)
        (void)ag_ring_append(&k->log.ring, SB_RING_ENDED, ag_wall_ns(), &k->ended, sizeof k->ended);
    k->ended.type = 0;
}

static void take_event(struct ag_keeper *k, const struct sb_ring_event *event, int *fds, size_t n_fds)
{
    static const uint8_t daemon[sizeof event->exec_id];
    uint32_t type = le32toh(event->type);
    int of_daemon = !memcmp(event->exec_id, daemon, sizeof daemon);

    if (type == SB_EVENT_JOURNAL && n_fds == 2 && !of_daemon) {
        ag_journal_begin(k, event, SB_TAKE_FD(fds[0]), SB_TAKE_FD(fds[1]));
        return;
    }
    ag_lifetime_event(k, event, fds, n_fds);
    if (type != SB_EVENT_STARTED && type != SB_EVENT_ENDED)
        return;
    k->exits_unsynced |= ag_ring_append(&k->exits, SB_RING_EVENT, ag_wall_ns(), event, sizeof *event) == 0;
    if (!of_daemon) {
        if (type == SB_EVENT_ENDED)
            ag_journal_ended(k, event);
        return;
    }
    if (type == SB_EVENT_ENDED) {
        k->ended = *event;
        return;
    }
    if (k->ended.type) /* started again within one turn: what is read and not yet written down may be of either */
        append_ended(k);
    if (ag_sink_say_dropped(&k->log) == 0)
        (void)ag_ring_append(&k->log.ring, SB_RING_STARTED, ag_wall_ns(), event, sizeof *event);
}

/* All datagrams that wait. */
static void take_events(struct ag_keeper *k)
{
    for (int most = 256; most && k->in[IN_EVENTS].fd >= 0; most--) {
        struct sb_ring_event event;
        size_t n_fds;
        int fds[4];
        ssize_t n = ag_receive(k->in[IN_EVENTS].fd, &event, sizeof event, fds, &n_fds);

        if (n == (ssize_t)sizeof event)
            take_event(k, &event, fds, n_fds);
        for (size_t i = 0; i < n_fds; i++)
            sb_close(fds[i]);
        if (n == -EAGAIN)
            return;
        if (n == 0 || (n < 0 && n != -EMSGSIZE))
            end_input(k, IN_EVENTS);
    }
}

/* ---- output ---- */

static struct ag_sink *sink_of(struct ag_keeper *k, int which)
{
    return which < IN_COUNT ? &k->log : ag_journal_sink(k, which);
}

/* One read, and what it brought. 1: there may be more. */
static int pump(struct ag_keeper *k, int which)
{
    struct ag_sink *sink = sink_of(k, which);
    int stream = which < IN_COUNT ? which - IN_OUT : (which - IN_COUNT) & 1;
    ssize_t n = read(k->in[which].fd, k->buffer, ag_ring_payload_max(&sink->ring));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n > 0)
        return ag_sink_output(sink, stream, k->buffer, (size_t)n), 1;
    ag_sink_output(sink, stream, NULL, 0);
    end_input(k, which);
    return 0;
}

void ag_keeper_drain(struct ag_keeper *k, int which)
{
    struct ag_sink *sink = sink_of(k, which);
    int stream = which < IN_COUNT ? which - IN_OUT : (which - IN_COUNT) & 1;
    uint64_t most = sink->written[stream] + AG_KEEPER_PIPE_BYTES;

    while (k->in[which].fd >= 0 && sink->written[stream] < most && pump(k, which))
        ;
}

/* The daemon's own: with a look at the events between the read and the record. */
static void pump_daemon(struct ag_keeper *k, int which)
{
    ssize_t n = read(k->in[which].fd, k->buffer, ag_ring_payload_max(&k->log.ring));
    int saved = errno;

    /* a start is said before what it may have written; an end waits until this is written down */
    if (n > 0)
        take_events(k);
    if (n < 0 && (saved == EAGAIN || saved == EINTR))
        return;
    ag_sink_output(&k->log, which - IN_OUT, n > 0 ? k->buffer : NULL, n > 0 ? (size_t)n : 0);
    if (n <= 0)
        end_input(k, which);
}

static void reap(struct ag_keeper *k)
{
    struct signalfd_siginfo signals[8];
    ssize_t n;

    while ((n = read(k->in[IN_SIGNAL].fd, signals, sizeof signals)) > 0)
        for (size_t i = 0; i < (size_t)n / sizeof *signals; i++)
            if (signals[i].ssi_signo == SIGUSR1)
                ag_lifetime_again(k);
    for (;;) {
        siginfo_t info = { 0 };

        if (SB_RETRY(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WALL)) < 0) {
            k->alone = 1; /* ECHILD */
            return;
        }
        if (!info.si_pid)
            return;
        *(info.si_pid == k->stage ? &k->stage_info : &k->init_info) = info;
    }
}

/* A command or daemon is over: what it wrote is in the pipes, and then its end is said. */
static void say_ended(struct ag_keeper *k)
{
    if (!k->ended.type)
        return;
    ag_keeper_drain(k, IN_OUT);
    ag_keeper_drain(k, IN_ERR);
    append_ended(k);
}

/* What a slow disk left in the pipes; no more than that, for somebody may go on writing. */
static void pump_rest(struct ag_keeper *k)
{
    take_events(k);
    for (int i = 0; i < IN_ALL; i++)
        if (i != IN_EVENTS && i != IN_SIGNAL)
            ag_keeper_drain(k, i);
    say_ended(k);
    ag_journals_say_ended(k);
}

/* With init all of its namespace dies; only a pipe that was passed out of the sandbox can still be open then, and that gets DRAIN_MS. */
static int is_over(const struct ag_keeper *k)
{
    if (!k->alone)
        return 0;
    for (int i = 0; i < IN_ALL; i++)
        if (i != IN_SIGNAL && k->in[i].fd >= 0)
            return 0;
    return 1;
}

static void turn(struct ag_keeper *k)
{
    for (int i = IN_OUT; i <= IN_ERR; i++)
        if (k->in[i].fd >= 0 && k->in[i].revents)
            pump_daemon(k, i);
    for (int i = IN_COUNT; i < IN_ALL; i++)
        if (k->in[i].fd >= 0 && k->in[i].revents)
            pump(k, i);
    if (k->in[IN_EVENTS].fd >= 0 && k->in[IN_EVENTS].revents)
        take_events(k);
    say_ended(k);
    ag_journals_say_ended(k);
    if (k->exits_unsynced && k->durable)
        ag_ring_sync(&k->exits);
    k->exits_unsynced = 0;
}

void ag_keeper_run(struct ag_keeper *k)
{
    int64_t deadline = -1;

    while (!is_over(k)) {
        int64_t next = deadline >= 0 ? deadline : ag_lifetime_next(k);
        int was_alone = k->alone, ready = poll(k->in, IN_TOTAL, sb_left_ms(next));

        if (deadline >= 0 && sb_left_ms(deadline) == 0) {
            pump_rest(k);
            return;
        }
        if (ready < 0)
            continue; /* EINTR can't be: all is blocked; ENOMEM passes */
        if (ready > 0)
            turn(k);
        if (!k->alone)
            ag_lifetime_turn(k);
        if (!ready)
            continue;
        if (k->in[IN_SIGNAL].revents)
            reap(k);
        if (k->alone && !was_alone)
            deadline = sb_deadline(DRAIN_MS);
    }
}
