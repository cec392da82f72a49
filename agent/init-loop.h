/* SPDX-License-Identifier: Apache-2.0
 * The loop of pid 1, for its parts: init.c (connections, signals, timers), init-run.c (daemon and commands), init-dial.c, and one file
 * for each further kind of request. Nothing here allocates or waits; a part's functions are called by the loop alone.
 *
 * A slot belongs to one connection, and to what was asked for on it: that may outlive the connection (fd is -1 then). */
#ifndef SB_AGENT_INIT_LOOP_H
#define SB_AGENT_INIT_LOOP_H

#include "init.h"

/* Slots for all that may be held for long, so that none of it can keep a short request (a status, a shutdown) out. */
enum { AG_FILES_HUNG_MAX = 512, AG_DIALS_MAX = 512, AG_SLOTS = SB_EXECS_MAX + SB_ATTACHED_MAX + AG_FILES_HUNG_MAX + AG_DIALS_MAX + SB_TERMINALS_MAX + 256,
       AG_KILL_MS = 5000 };
enum ag_slot_kind { FREE = 0, IDLE, STARTING, RUNNING, KILLING, DIALING, ATTACHED, SERVING, WATCHING, HOLDING, TAKING };
/* What an epoll event is about; the slot's index is in the lower half of its data. */
enum ag_what { ON_CONNECTION = 0, ON_STATUS, ON_DIAL, ON_LISTEN, ON_SIGNAL, ON_OWNER, ON_EVENTS };

struct ag_slot {
    enum ag_slot_kind kind;
    int fd;        /* the connection; -1: its peer is gone */
    int status_fd; /* starting */
    int dial_fd, family;
    uint16_t port;
    int leaf; /* its own cgroup, -1: none */
    int pin;  /* its cgroup namespace, with a deadline; -1: none */
    int terminal; /* starting: the outer end of its terminal, until it is handed out; holding: what is held; -1: none */
    char leaf_name[AG_LEAF_NAME];
    pid_t pid; /* 0: reaped */
    int daemon;
    int sent_signal; /* the last signal sent by request */
    int timed_out;
    int64_t oom_kills; /* of the sandbox, when it was started */
    int64_t until; /* starting, running, killing, dialing: on sb_now_ms(); 0: no bound */
    int64_t kill_until;
    int64_t deadline_ms;
    uint64_t tag;
    uint64_t seen; /* watching: events that were sent or lost */
    int blocked;   /* watching: until the connection takes more */
    struct ag_exec_status status;
    struct sb_reply end;
    uint8_t exec_id[32];
    int64_t journal_max;    /* 0: none */
    int journal;            /* it has one, and counts for SB_JOURNALS_MAX */
    struct ag_slot *target; /* attached: the exec's own slot */
    int quiet;              /* a health check: keeper alone hears of it, and nothing of it outlives it */
};

struct ag_loop {
    const struct sb_plan *plan;
    int procfs, epoll, signals;
    int spare; /* a descriptor kept for a moment without any */
    char own_score[8]; /* oom_score_adj */
    int started;
    int daemon_state, daemon_code, daemon_signal;
    uint32_t daemon_starts;
    struct sb_reply daemon_end; /* of the last one that ended */
    uint64_t files; /* the caller's soft limit of open files, for commands */
    int stopping, more_to_reap;
    unsigned long execs;
    int terminals; /* /dev/pts, as it was before anything ran inside */
    int64_t stop_until; /* 0: no bound */
    int paused; /* enum sb_pause */
    int64_t deaf_until; /* no descriptor was left for who connects; 0: it listens */
    size_t top;         /* slots from here on are free, and their memory untouched: a fork copies what was touched */
    struct ag_slot slots[AG_SLOTS];
    char buffer[sizeof(struct sb_request) + SB_REQUEST_INLINE]; /* the request that is being looked at */
};
extern struct ag_loop ag_loop;

/* ---- init.c ---- */
/* When `ms` are over, on sb_now_ms(); 0, no bound, for what is beyond the clock. */
int64_t ag_after(int64_t ms);
void ag_watch(int fd, enum ag_what what, size_t index, uint32_t events);
/* Closes a watched descriptor, returns -1. */
int ag_forget(int fd);
/* Answers on the slot's connection; a peer that doesn't read loses it. fd: -1, or a descriptor that goes along. */
void ag_reply(struct ag_slot *s, const struct sb_reply *r, int fd);
void ag_fail(struct ag_slot *s, enum sb_start_step step, int sys_errno);
size_t ag_count_kind(enum ag_slot_kind kind);

/* A free slot for a connection (-1: for none); NULL: there is none. */
struct ag_slot *ag_take_slot(int fd);
/* SIGTERM to the daemon, and the end when it has ended. */
void ag_shut_down(const struct sb_request *q);

/* ---- init-life.c: pause, and what keeper asks for ---- */
/* A request from keeper, in ag_loop.buffer. */
void ag_life_request(ssize_t size);
/* SB_REQUEST_START is about to be done: it may be asked for again. The descriptors stay the caller's. */
void ag_life_remember(const struct sb_request *q, const int *fds, size_t n_fds);
/* SB_REQUEST_PAUSE */
void ag_pause(struct ag_slot *s, const struct sb_request *q);
void ag_resume(void); /* what isn't paused stays as it is */
/* Once a turn: is anything under way that was asked for from outside? */
void ag_life_turn(int busy);
/* A connected socket is handed out. */
void ag_life_dialed(int fd);

/* ---- init-run.c ---- */
/* SB_REQUEST_EXEC and SB_REQUEST_START; the descriptors stay the caller's. */
void ag_start(struct ag_slot *s, const struct sb_request *q, int *fds, size_t n_fds, int daemon);
/* What is told of an exec that was executed. */
struct sb_reply ag_started(const struct ag_slot *s);
/* The status socket has a record or its end. */
void ag_on_status(struct ag_slot *s);
void ag_on_exit_of(struct ag_slot *s, int status, const struct rusage *usage);
/* After a deadline: nothing of the exec may live when its end is told. */
void ag_kill_on(struct ag_slot *s);
/* Is over: the slot stays for the connection, if that still stands. */
void ag_settle(struct ag_slot *s);
static inline int ag_is_exec(const struct ag_slot *s) /* one that runs */
{
    return !s->daemon && !s->quiet && (s->kind == STARTING || s->kind == RUNNING || s->kind == KILLING);
}
uint32_t ag_count_execs(void);
struct ag_slot *ag_daemon_slot(void); /* NULL: none lives */
/* SB_REQUEST_KILL */
void ag_send_signal(struct ag_slot *s, const struct sb_request *q);

/* ---- init-events.c: what keeper is told ---- */
void ag_events_start(void);
/* Never waits: what the socket doesn't take now is sent later. */
void ag_event_started(const struct ag_slot *s);
void ag_event_ended(const struct ag_slot *s);       /* by s->end */
void ag_event_failed(const struct ag_slot *s, int sys_errno); /* after it was said to start */
/* Hands the read ends to keeper. 0 or -errno: then there is no journal. */
int ag_event_journal(const struct ag_slot *s, const int ends[2]);
/* Of the sandbox's life, with a number or the end of a health check. */
void ag_event_life(uint32_t type, uint64_t number, const struct ag_slot *s);
void ag_on_events(uint32_t events);

/* ---- init-leaf.c ---- */
/* SB_REQUEST_MOVE and SB_REQUEST_LEAF; what is taken of the descriptors is -1 then. */
void ag_leaf_enter(struct ag_slot *s, int folder);
void ag_leaf_take(struct ag_slot *s, const struct sb_request *q, int *fd);
void ag_leaf_drop(struct ag_slot *s);
/* Halts ("1") all groups of single execs, or lets them go on ("0"), also those whose exec has ended and left something: 0 or -errno. */
int ag_leaf_freeze_all(const char *how);

/* ---- init-attach.c ---- */
/* SB_REQUEST_ATTACH */
void ag_attach(struct ag_slot *s, const struct sb_request *q);
/* The ids of all that run, in one message. */
void ag_reply_ids(struct ag_slot *s);
/* Of an exec that ends: tells all who are attached, and remembers it. */
void ag_attach_ended(struct ag_slot *s);
/* Of one that was not executed after all. */
void ag_attach_drop(struct ag_slot *s);

/* What children of init get as their oom_score_adj while they are cloned. */
void ag_set_oom_score(const char *score);

/* NULL: none such runs. All zero: the daemon. */
struct ag_slot *ag_find_running(const uint8_t exec_id[32]);

/* ---- init-hold.c ---- */
/* SB_REQUEST_DETACH, SB_REQUEST_TERMINAL_BACK; descriptors stay the caller's. */
void ag_hold(struct ag_slot *s, const struct sb_request *q, const int *fds, size_t n_fds);
void ag_hold_back(struct ag_slot *s, const struct sb_request *q);
/* The connection of one who waits for it is gone; the holder is late; it has ended. */
void ag_hold_drop(const struct ag_slot *s);
void ag_hold_kill(struct ag_slot *s);
void ag_hold_ended(struct ag_slot *s, int status);

/* ---- init-files.c ---- */
/* SB_REQUEST_FILES; the descriptors stay the caller's. */
void ag_files_start(struct ag_slot *s, const struct sb_request *q, const int *fds, size_t n_fds);
/* Its connection is gone; half a second later; its process has ended. */
void ag_files_drop(struct ag_slot *s);
void ag_files_kill(struct ag_slot *s);
void ag_files_ended(struct ag_slot *s, int status);

/* ---- init-dial.c ---- */
void ag_dial(struct ag_slot *s, const struct sb_request *q);
void ag_on_dialed(struct ag_slot *s);
void ag_end_dial(struct ag_slot *s);

/* ---- init-outer.c ---- */
/* SB_REQUEST_OUTER */
void ag_outer_give(struct ag_slot *s, const struct sb_request *q);

/* ---- init-watch.c ---- */
/* SB_REQUEST_WATCH */
void ag_watch_begin(struct ag_slot *s, const struct sb_request *q);
/* Something happened; s (NULL: none) is the exec or daemon that it happened to. */
void ag_tell(enum sb_watch_what what, const struct ag_slot *s);
/* As keeper says. */
void ag_tell_note(enum sb_watch_what what, int code);
/* A watcher's connection takes more. */
void ag_watch_more(struct ag_slot *s);

#endif
