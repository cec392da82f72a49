/* SPDX-License-Identifier: Apache-2.0
 * See relay.h. One loop: each direction has a buffer, is read while there is room, and written when there is something. No descriptor of
 * the caller's is made non-blocking: that would be so for everybody who shares it; what is written to one is what a poll promised. */
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 4096, QUIET_MS = 200, FRONT_MS = 200, FLUSH_MS = 1000, SIGNALS = 6, CHANGES = 7, ENDED = 8, POLLS = 9 };

static void end_to(struct channel *c)
{
    if (c->own_to && c->to >= 0)
        close(c->to);
    c->to = -1;
    c->at = c->n = 0;
}

static void end_from(struct channel *c)
{
    c->from = -1;
    if (!c->n)
        end_to(c);
}

/* 1: the detach keys came. */
static int read_some(struct relay *r, struct channel *c)
{
    char piece[PIECE];
    ssize_t n;

    if (c->at) {
        memmove(c->data, c->data + c->at, c->n);
        c->at = 0;
    }
    n = read(c->from, piece, sizeof piece);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n <= 0) { /* EIO is how a terminal ends */
        end_from(c);
        return 0;
    }
    if (c->to < 0)
        return 0; /* nobody takes it: the command shall not wait for that */
    if (c->typed)
        return keys_feed(&r->keys, piece, (size_t)n, c->data, &c->n);
    memcpy(c->data + c->n, piece, (size_t)n);
    c->n += (size_t)n;
    return 0;
}

static void write_some(struct channel *c)
{
    ssize_t n = write(c->to, c->data + c->at, c->n < PIECE ? c->n : PIECE);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n < 0) {
        end_to(c);
        return;
    }
    c->at += (size_t)n;
    c->n -= (size_t)n;
    if (!c->n && c->from < 0)
        end_to(c);
}

static void set_polls(struct relay *r, struct pollfd polls[POLLS])
{
    for (size_t i = 0; i < POLLS; i++)
        polls[i] = (struct pollfd){ .fd = -1 };
    for (size_t i = 0; i < r->n_channels; i++) {
        struct channel *c = &r->channels[i];

        if (c->from >= 0 && c->n + PIECE <= CHANNEL_BYTES)
            polls[2 * i] = (struct pollfd){ .fd = c->from, .events = POLLIN };
        if (c->to >= 0 && c->n)
            polls[2 * i + 1] = (struct pollfd){ .fd = c->to, .events = POLLOUT };
    }
    polls[SIGNALS] = (struct pollfd){ .fd = r->signals->fd, .events = POLLIN };
    if (r->terminal)
        polls[CHANGES] = (struct pollfd){ .fd = r->terminal->signal_fd, .events = POLLIN };
}

static void resize(const struct relay *r)
{
    struct winsize size;

    terminal_size(r->terminal, &size);
    sandbox_exec_resize_terminal(r->exec, size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel, NULL);
}

/* The first signal goes to the command, which may clean up; the second kills it and all it started. */
static void pass_signal(const struct relay *r, int signal, int again)
{
    if (again)
        sandbox_exec_kill(r->exec, SIGKILL, SANDBOX_KILL_DESCENDANTS, NULL);
    else
        sandbox_exec_kill(r->exec, signal, 0, NULL);
}

/* 1: all output is written, or can't be. */
static int is_whole(const struct relay *r)
{
    for (size_t i = 1; i < r->n_channels; i++)
        if (r->channels[i].from >= 0 || (r->channels[i].to >= 0 && r->channels[i].n))
            return 0;
    return 1;
}

static int has_waiting(const struct relay *r)
{
    for (size_t i = 1; i < r->n_channels; i++)
        if (r->channels[i].to >= 0 && r->channels[i].n)
            return 1;
    return 0;
}

/* What was typed before the detach keys is for the command. */
static void flush_typed(struct channel *c)
{
    while (c->to >= 0 && c->n && poll(&(struct pollfd){ .fd = c->to, .events = POLLOUT }, 1, FLUSH_MS) == 1)
        write_some(c);
}

/* 1: we are in the background, without what we want. A shell that brings us to the front need not say so. */
static int is_behind(const struct relay *r)
{
    if (!r->terminal || !r->terminal->wanted || r->terminal->raw)
        return 0;
    terminal_raw(r->terminal);
    return !r->terminal->raw;
}

/* 1: go on; 0: the keys came. */
static int turn(struct relay *r, const struct pollfd polls[POLLS])
{
    for (size_t i = 0; i < r->n_channels; i++) {
        struct channel *c = &r->channels[i];

        if (polls[2 * i + 1].revents && c->to >= 0 && c->n)
            write_some(c);
        if (polls[2 * i].revents && c->from >= 0 && read_some(r, c))
            return 0;
    }
    return 1;
}

int relay_run(struct relay *r)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    int ended = 0, passed = 0, quiet = 0;
    struct sandbox_error *error = NULL;
    struct pollfd polls[POLLS];

    for (;;) {
        int signal, ready, code, behind;

        set_polls(r, polls);
        if (!ended)
            polls[ENDED] = (struct pollfd){ .fd = sandbox_exec_get_fd(r->exec), .events = POLLIN };
        if (ended && (is_whole(r) || (quiet && !has_waiting(r))))
            return attend_status(r->tool, &result);
        behind = is_behind(r);
        ready = poll(polls, POLLS, ended && !has_waiting(r) ? QUIET_MS : behind ? FRONT_MS : -1);
        quiet = ready == 0; /* somebody in the background may hold a stream open for ever */
        if (ready < 0)
            continue;
        if ((polls[SIGNALS].revents & POLLIN) && (signal = signals_read(r->signals))) {
            if (signal == SIGHUP && r->terminal && r->terminal->fd >= 0)
                return 128 + SIGHUP; /* our terminal is gone: so is the command's, in a moment */
            if (ended)
                return 128 + signal;
            pass_signal(r, signal, passed++);
        }
        if ((polls[CHANGES].revents & POLLIN) && terminal_signal(r->terminal))
            resize(r);
        if (!turn(r, polls)) {
            r->detached = 1;
            flush_typed(&r->channels[0]);
            return 0;
        }
        if (r->terminal && r->channels[0].from < 0 && r->terminal->fd >= 0 && !ended && r->channels[0].typed)
            return 128 + SIGHUP; /* the same, seen by a read */
        if (!polls[ENDED].revents)
            continue;
        code = sandbox_exec_wait(r->exec, 0, &result, &error);
        if (code && code != SANDBOX_ETIMEDOUT)
            return report_error(r->tool, error);
        error = sandbox_error_unref(error);
        ended = !code;
        if (ended) /* what is typed from now on is for who comes after us */
            end_from(&r->channels[0]);
    }
}
