/* SPDX-License-Identifier: Apache-2.0
 * sandbox-agent forward PORT: a listener on this machine whose connections lead to a port of a sandbox (descriptors: plan.h). Two processes,
 * so that neither can do what the other may: the relay (forward-relay.c) meets the bytes of both sides, and has nothing but sockets that it was
 * given; the dialer (forward-dial.c) can reach init, and sees nothing but messages of fixed size. What takes the relay over can connect to the
 * one port that everybody who reaches the listener can connect to. */
#ifndef SB_AGENT_FORWARD_H
#define SB_AGENT_FORWARD_H

#include <plan.h>
#include <stddef.h>
#include <stdint.h>

int ag_forward_main(int argc, char **argv);

/* ---- between relay and dialer, over a SEQPACKET socket ---- */
enum { AG_FORWARD_DIALS = 16 };              /* asked for and not yet answered: the relay asks for no more */
#define AG_FORWARD_NOBODY (UINT32_MAX - 1)
#define AG_FORWARD_LOST UINT32_MAX           /* as `which`: init is gone, and with it everything that was dialled */

struct ag_forward_ask {
    uint32_t which; /* of the relay's connections */
};
struct ag_forward_answer { /* with the connected socket, or why there is none */
    uint32_t which;
    uint32_t step; /* 0: connected */
    int32_t sys_errno;
};

/* Never return. `peer` is the other one; everything else is where plan.h says. */
_Noreturn void ag_forward_relay(int peer);
_Noreturn void ag_forward_dialer(int peer, int relay_pid, int port);

/* Gives up all rights, and every system call but these and those that every program needs. 0 or -errno. */
int ag_forward_confine(const int *calls, size_t n_calls);

/* ---- forward-pair.c: two connected TCP sockets, each the other's continuation ----
 * Nothing is kept in between: bytes are looked at, sent on, and only what was taken is removed from where it came from. So a side that doesn't
 * read makes the other's sender wait by TCP's own window, costs no memory here, and loses nothing. */
struct ag_pair {
    int fd[2];
    unsigned char readable[2], writable[2]; /* as the last (edge-triggered) event said */
    unsigned char ended[2];                 /* its end was read and passed on */
    unsigned char failed[2];                /* an error was reported on it */
    unsigned char deaf[2];                  /* what is sent to it is refused */
    uint64_t moved[2];                      /* bytes that came from it */
    unsigned char bounded[2];               /* no more than `left` are taken from it; then it is as if it said nothing more, and no end */
    uint64_t left[2];
};

enum ag_pair_state {
    AG_PAIR_WAITS,  /* nothing to do before the next event */
    AG_PAIR_GOES_ON, /* it had its share, others' turn */
    AG_PAIR_ENDED,  /* both sides have ended in order */
    AG_PAIR_BROKEN  /* one side was reset: so the other is to be */
};

/* Takes an event's bits in (EPOLLIN, EPOLLOUT, EPOLLERR, …). */
void ag_pair_event(struct ag_pair *pair, int side, uint32_t events);
/* Moves what can be moved, at most a share. The buffer's content doesn't matter before or after. */
enum ag_pair_state ag_pair_move(struct ag_pair *pair, char *buffer, size_t size);
/* Closes both, by a reset when broken. */
void ag_pair_close(struct ag_pair *pair, int broken);

#endif
