/* SPDX-License-Identifier: Apache-2.0
 * What keeper's parts share: keeper.c (start and end), keeper-pump.c (the loop), keeper-journal.c (the output of single execs),
 * keeper-life.c (how long the sandbox lives). */
#ifndef SB_AGENT_KEEPER_LOOP_H
#define SB_AGENT_KEEPER_LOOP_H

#include <life-plan.h>
#include <plan.h>
#include <poll.h>
#include <signal.h>

#include "keeper-ring.h"

enum { AG_KEEPER_PIPE_BYTES = 1 << 20 };

/* Places in the poll set; the journals' pairs of pipes come behind. */
enum { IN_OUT, IN_ERR, IN_EVENTS, IN_SIGNAL, IN_COUNT, IN_ALL = IN_COUNT + 2 * SB_JOURNALS_MAX,
       IN_TTL = IN_ALL, IN_TOTAL };

/* A ring with what is to be said in it. */
struct ag_sink {
    struct ag_ring ring;
    int first;                    /* stream of a record that must come before all others; 0: it is there */
    struct sb_ring_event started; /* its payload, where it has one */
    uint64_t written[2];          /* by the daemon or exec, in this run */
    uint64_t dropped[2];          /* not yet said */
    uint64_t dropped_ever;
};

struct ag_journal {
    struct ag_sink sink;
    char name[AG_RING_NAME];
    uint8_t exec_id[32];
    int used;
    int ended;      /* its command; a descendant may still hold the pipes */
    struct sb_ring_event end; /* to be said once its output is; type 0: none */
    uint64_t order;           /* of its begin */
};

/* Times are on sb_now_ms(), 0: never. */
struct ag_life {
    int given; /* there is a plan */
    struct sb_life plan;
    char blob[SB_REQUEST_INLINE]; /* of the health check */
    int init;                     /* pidfd; -1: not told */
    int paused;
    int64_t begun_at; /* the daemon's start, or the sandbox's */
    uint32_t restarts;
    int64_t restart_at, backoff_ms;
    int64_t attempt_until; /* it was asked for: a start is ours until then */
    int health;
    int passed; /* one check did, since the start */
    uint32_t failures;
    uint64_t check_number;
    int64_t check_at, check_until; /* the next; an end of the one under way */
    int64_t idle_at;               /* when to ask */
    int end;                       /* enum sb_watch_what: why it ends; 0: it does not */
    int64_t kill_at;
    int unwritten; /* the file "state" */
    int64_t write_at; /* not before */
};

struct ag_keeper {
    struct pollfd in[IN_TOTAL]; /* fd -1: ended */
    struct ag_life life;
    int folder, durable;
    struct ag_sink log;
    struct ag_ring exits;
    int exits_unsynced;
    struct sb_ring_event ended; /* of the daemon, to be said once its output is; type 0: none */
    struct ag_journal journals[SB_JOURNALS_MAX];
    uint64_t n_journals; /* ever */
    int journals_unsaid;
    pid_t stage;
    int alone; /* no child is left */
    siginfo_t stage_info, init_info;
    _Alignas(8) char buffer[SB_RING_RECORD_MAX];
};

/* ---- keeper-confine.c ---- */
/* No way back from it. 0, or it can't be. */
int ag_keeper_confine(void);

/* ---- keeper-pump.c ---- */
uint64_t ag_wall_ns(void);
/* Until no child is left and the pipes are at their end. */
void ag_keeper_run(struct ag_keeper *k);
/* Says what must come first, then what was lost. 0, or the disk refuses. */
int ag_sink_begin(struct ag_sink *sink);
int ag_sink_say_dropped(struct ag_sink *sink);
void ag_sink_output(struct ag_sink *sink, int which, const void *data, size_t size);
/* Reads one end until nothing is there now, but not for ever. */
void ag_keeper_drain(struct ag_keeper *k, int which);

/* ---- keeper-life.c ---- */
/* Reads what was asked for. */
void ag_lifetime_start(struct ag_keeper *k);
/* The same, because the library says that it has changed. */
void ag_lifetime_again(struct ag_keeper *k);
/* What init said; descriptors that it takes are -1 then. */
void ag_lifetime_event(struct ag_keeper *k, const struct sb_ring_event *event, int *fds, size_t n_fds);
/* Does what is due. */
void ag_lifetime_turn(struct ag_keeper *k);
/* When that is next, on sb_now_ms(); -1: never. */
int64_t ag_lifetime_next(const struct ag_keeper *k);

/* ---- keeper-journal.c ---- */
/* Removes what an earlier run left. */
void ag_journals_init(struct ag_keeper *k);
/* Takes both descriptors. */
void ag_journal_begin(struct ag_keeper *k, const struct sb_ring_event *event, int out, int err);
void ag_journal_ended(struct ag_keeper *k, const struct sb_ring_event *event);
/* Not while a read is still to be written down: it reads, too. */
void ag_journals_say_ended(struct ag_keeper *k);
/* The sink of a place in the poll set. */
struct ag_sink *ag_journal_sink(struct ag_keeper *k, int which);
/* Says what is still to be said. */
void ag_journals_end(struct ag_keeper *k);

#endif
