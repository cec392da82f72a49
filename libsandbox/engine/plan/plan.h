/* SPDX-License-Identifier: Apache-2.0
 * What the library and the agent's programs say to each other on one machine. Both are of one build (the version is checked),
 * so these are plain structs, written once into a sealed memfd (the plan) or sent as whole messages over SEQPACKET sockets.
 * Strings live behind the struct at offsets from its start; 0 stands for none.
 *
 *   library --plan, BEGIN--> stage --CLONED--> library          (control socket)
 *   init (stage's clone) --READY or FAILED--> library --COMMIT--> init
 *   library --EXEC, START, DIAL, STATUS, …--> init              (one connection to init's socket for each)
 */
#ifndef SB_PLAN_PLAN_H
#define SB_PLAN_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "idmap.h"
#include "ring-format.h"

#define SB_PLAN_MAGIC 0x53424f58u
#define SB_PLAN_VERSION 1u
#define SB_PLAN_MAX_LAYERS 128
#define SB_PLAN_MAX_MOUNTS 96
#define SB_PLAN_MAX_CGROUPS 8

/* The descriptors a stage starts with; 0, 1, 2 are /dev/null. Those with a flag are there only if the plan has the flag. */
enum sb_stage_fd {
    SB_FD_PLAN = 3,
    SB_FD_CONTROL = 4,
    SB_FD_ROOT = 5,         /* the state root */
    SB_FD_LISTEN = 6,       /* init's socket, bound, not yet listening */
    SB_FD_LOG = 7,          /* keeper only: folder of the log */
    SB_FD_DAEMON_OUT = 8,
    SB_FD_DAEMON_ERR = 9,
    SB_FD_EVENTS = 10,      /* keeper's socket for exit records; else /dev/null */
    SB_FD_OWNER = 11,       /* SB_PLAN_OWNED: pidfd of the owner */
    SB_FD_CGROUP_TOP = 12,  /* SB_PLAN_CGROUP: folders in cgroup2, which come with BEGIN; init's own is the top */
    SB_FD_CGROUP_EXEC = 13,
    SB_FD_CGROUP_DAEMON = 14,
    SB_FD_NULL = 15,        /* /dev/null of the host, for stdin */
    SB_FD_MEMORY = 16,      /* where a line "oom_kill N" counts who was killed for want of memory: comes with BEGIN, else /dev/null */
    SB_FD_STAGE_END = 17,
    SB_FD_PROC = 17,        /* in init: the sandbox's procfs, without masks */
    SB_FD_OOM_SCORE = 18    /* in init: its own oom_score_adj */
};

enum sb_plan_flags {
    SB_PLAN_FUSE = 1 << 0,
    SB_PLAN_READ_ONLY = 1 << 1,
    SB_PLAN_OWNED = 1 << 2,
    SB_PLAN_CGROUP = 1 << 3,
    SB_PLAN_VOLATILE = 1 << 4, /* the upper needn't survive a power cut */
};

/* Whose network namespace a sandbox is in. */
enum sb_plan_network { SB_PLAN_NETWORK_OWN = 0, SB_PLAN_NETWORK_HOST = 1, SB_PLAN_NETWORK_GIVEN = 2 /* came with SB_CONTROL_NETWORK */ };

enum sb_plan_mount_type { SB_PLAN_MOUNT_BIND = 0, SB_PLAN_MOUNT_TMPFS = 1, SB_PLAN_MOUNT_OVERLAY = 2 };

/* The id inside, user and group, that init alone has: the last of the map where there is more than one. */
#define SB_PLAN_INIT_ID(plan) ((plan)->map.count > 2 ? (plan)->map.count - 1 : 0)

/* The string at an offset; "" for 0. The stage checked that all of them end within the plan. */
#define SB_PLAN_STRING(plan, offset) ((offset) ? (const char *)(plan) + (offset) : "")

enum sb_plan_mount_flags {
    SB_PLAN_MOUNT_READ_ONLY = 1 << 0,
    SB_PLAN_MOUNT_IDMAP = 1 << 1,     /* ids on disk are the ids inside (root only) */
    SB_PLAN_MOUNT_BELOW_ROOT = 1 << 2 /* source is relative to the state root, not a path of the machine */
};

struct sb_plan_mount {
    uint32_t type, flags;
    uint32_t source, target; /* strings */
    uint32_t upper, number;  /* overlay: string, below the state root, the folder that upper and work are in; its number in the spec */
    uint32_t owner_uid, owner_gid; /* IDMAP: these on disk are 0:0 inside */
    uint64_t max_bytes;      /* tmpfs; overlay: not 0: what is at `upper` is a disk image */
};

/* A cBPF program: struct sock_filter, 8 bytes each. */
struct sb_plan_filter {
    uint32_t offset;
    uint32_t count;
};

struct sb_plan {
    uint32_t magic, version, size, flags;
    struct sb_idmap map;
    uint32_t hostname;              /* string */
    uint32_t folder;                /* string: the sandbox's folder below the state root; "rw" (upper, work) is in it */
    uint32_t n_layers, n_mounts, n_cgroups;
    uint32_t hidden, n_hidden;      /* strings, one after another: paths inside to cover */
    uint32_t layers[SB_PLAN_MAX_LAYERS];          /* strings below the state root, bottom first */
    struct sb_plan_mount mounts[SB_PLAN_MAX_MOUNTS];
    uint32_t cgroups[SB_PLAN_MAX_CGROUPS];        /* strings: v1 cgroup.procs files to enter, absolute */
    struct sb_plan_filter command, daemon;        /* seccomp */
    struct sb_plan_filter command_profile, daemon_profile; /* of the spec, beside those; the last thing before execve */
    uint64_t daemon_capabilities;
    uint64_t nproc_max;                           /* RLIMIT_NPROC of everything inside; 0: as it is */
    uint64_t shm_max;                             /* bytes of /dev/shm */
    uint32_t network, network_reserved;           /* enum sb_plan_network */
};

/* ---- control socket ---- */
/* Descriptors that come with BEGIN: SB_FD_MEMORY's where the message says so, and where the plan has SB_PLAN_CGROUP top, exec, daemon. The plan is
 * complete and sealed then. */
#define SB_BEGIN_CGROUPS 3

enum sb_control_type { SB_CONTROL_BEGIN = 1, SB_CONTROL_CLONED, SB_CONTROL_READY, SB_CONTROL_FAILED, SB_CONTROL_COMMIT, SB_CONTROL_OVERLAY,
                       SB_CONTROL_NETWORK /* to the stage, before BEGIN: with the network namespace and, for a user, the user namespace that owns it */ };

struct sb_control {
    uint32_t type;
    int32_t pid;       /* CLONED: of init, in the sender's pid namespace; its pidfd comes along. BEGIN: 1: the first descriptor is SB_FD_MEMORY's */
    int32_t sys_errno; /* FAILED */
    char phase[24];    /* FAILED: such as "overlay"; OVERLAY: its kind, its mount's number in pid */
    char detail[228];  /* FAILED: for people; OVERLAY: the reason */
};

/* ---- init's socket: a connection carries one request and its answers ---- */
enum sb_request_type {
    SB_REQUEST_EXEC = 1, /* descriptors: stdin, stdout, stderr [, memfd with the blob] */
    SB_REQUEST_START,    /* the daemon, when argc > 0; marks the sandbox started [memfd with the blob] */
    SB_REQUEST_DIAL,
    SB_REQUEST_STATUS,
    SB_REQUEST_KILL,     /* on an exec's connection: that exec; else the daemon */
    SB_REQUEST_SHUTDOWN, /* SIGTERM to the daemon; init ends when it has, or after `timeout_ms` */
    SB_REQUEST_FILES = 7, /* descriptors: channel [, data]; see files-plan.h */
    SB_REQUEST_ATTACH = 8, /* to the exec with that id (all zero: the daemon): STARTED and, once, EXITED; else FAILED with ENOENT */
    SB_REQUEST_MOVE = 12, /* descriptor: a leaf's folder, which init moves into: leaves with limits can't be beside processes */
    SB_REQUEST_LEAF = 13, /* descriptor: the folder in cgroup2 in which the exec starts that is asked for next on this connection [exec_id] */
    SB_REQUEST_DETACH = 17, /* of an exec: its terminal's outer end comes along, and is read here from now on: DONE */
    SB_REQUEST_TERMINAL_BACK = 18, /* of an exec: DONE with it (code 1: without, it has ended), then `journal` bytes of what it showed */
    SB_REQUEST_OUTER = 19, /* for a reset: DIALED with what an overlay is mounted on (port: its number in the spec; -1: that mount namespace) */
    /* for the sandbox's life (init-life.c) */
    SB_REQUEST_RESTART = 14, /* from keeper: the daemon again, as it was started last; SB_EVENT_STARTED or ENDED tell */
    SB_REQUEST_PAUSE = 15,   /* halts all that runs, or lets it go on [SB_REQUEST_RESUME]: DONE, or FAILED (EAGAIN: something is being started) */
    SB_REQUEST_NOTE = 16,    /* from keeper: `signal` (enum sb_watch_what) happened, with `port` as its code; init tells its watchers */
    SB_REQUEST_WATCH = 9 /* one STATUS, then EVENTs until the connection's end [SB_REQUEST_HISTORY] */
};

#define SB_REQUEST_INLINE (64 * 1024) /* a larger blob comes in a sealed memfd */
#define SB_REQUEST_BLOB_MAX (8 * 1024 * 1024)
#define SB_EXECS_MAX 1024
#define SB_EXEC_ID_BYTES 32
#define SB_ATTACHED_MAX 1024 /* further handles of execs and of the daemon, all together */
#define SB_ENDS_KEPT 1024 /* ends of execs that init remembers */
#define SB_LEAF_BYTES 12 /* of an exec's id, in the name of its leaf */
#define SB_LOG_MAX (16 << 20) /* of a daemon's log where the spec does not say */
#define SB_JOURNALS_MAX 64
#define SB_TERMINALS_MAX 64 /* that nobody is attached to */
#define SB_JOURNAL_BYTES_MAX (INT64_C(1) << 30)

enum sb_request_flags { SB_REQUEST_BLOB_FD = 1 << 0, SB_REQUEST_DESCENDANTS = 1 << 1,
                        SB_REQUEST_RESUME = 1 << 5,
                        SB_REQUEST_HISTORY = 1 << 2, /* also what happened before, as far as init knows */
                        SB_REQUEST_IDS = 1 << 4, /* STATUS: where commands run, their ids in one more message, SB_EXEC_ID_BYTES each */
                        SB_REQUEST_TERMINAL = 1 << 3 /* an exec with a terminal: no stdio comes along, its other end goes with STARTED */ };

/* Of a terminal, as struct winsize has it. */
struct sb_window {
    uint16_t rows, columns, width, height;
};

/* Followed by the blob: argc arguments, envc "NAME=VALUE"s, user, workdir, each with its NUL. */
struct sb_request {
    uint32_t type, flags;
    uint32_t argc, envc, blob_size;
    int32_t signal, port;
    uint32_t files_max; /* exec, start: RLIMIT_NOFILE; 0: as init's */
    int64_t timeout_ms; /* exec: deadline; start of it: 0 none. dial, shutdown: bound */
    uint8_t exec_id[32]; /* exec, attach */
    int64_t journal_max; /* exec: bytes; not 0: only stdin comes along, the outputs go to keeper */
    struct sb_window window; /* exec with a terminal */
};

enum sb_reply_type {
    SB_REPLY_STARTED = 1, /* an exec or the daemon was executed */
    SB_REPLY_FAILED,      /* it was not: step, sys_errno */
    SB_REPLY_EXITED,      /* of an exec: once, after STARTED; the connection ends */
    SB_REPLY_STATUS,
    SB_REPLY_DIALED,      /* with the descriptor */
    SB_REPLY_DONE,
    SB_REPLY_EVENT /* struct sb_watch_event */
};

/* Where a start failed. */
enum sb_start_step {
    SB_STEP_REQUEST = 1, SB_STEP_FORK, SB_STEP_USER, SB_STEP_GROUPS, SB_STEP_IDS, SB_STEP_WORKDIR, SB_STEP_CAPABILITIES, SB_STEP_SECCOMP,
    SB_STEP_VERIFY, SB_STEP_EXECVE, SB_STEP_DEADLINE, SB_STEP_BUSY, SB_STEP_STATE, SB_STEP_DIAL, SB_STEP_STDIO,
    SB_STEP_JOURNAL, SB_STEP_TERMINAL, SB_STEP_LEAF, SB_STEP_PAUSED
};

enum sb_daemon_state { SB_DAEMON_NONE = 0, SB_DAEMON_STARTING, SB_DAEMON_RUNNING, SB_DAEMON_EXITED };

struct sb_reply {
    uint32_t type;
    uint32_t step;
    int32_t sys_errno;
    uint32_t kind;         /* EXITED: enum sandbox_exec_kind */
    int32_t code, signal;  /* EXITED; STATUS: of the daemon */
    uint32_t started;      /* STATUS: 1 once START came */
    uint32_t daemon;       /* STATUS: enum sb_daemon_state */
    uint32_t execs;        /* STATUS: running */
    uint32_t starts;       /* STATUS: of the daemon, by this init */
    int64_t user_us, system_us, max_rss;
    /* STARTED: what the command saw of itself by system calls just before execve */
    uint64_t cap_effective, cap_permitted, cap_inheritable, cap_bounding, cap_ambient;
    uint32_t uid, gid, n_groups, no_new_privs, seccomp;
    uint32_t journal; /* STARTED, EXITED of an attach: 1: its output is in a journal */
    uint32_t paused;  /* STATUS: enum sb_pause */
    uint32_t attested; /* STARTED: 1: what the command saw is above */
    uint64_t user_namespace; /* STARTED: its inode */
};

/* By what a sandbox is paused. */
enum sb_pause { SB_PAUSE_NONE = 0, SB_PAUSE_FREEZER, SB_PAUSE_SIGNALS };

/* What init tells its watchers. */
enum sb_watch_what {
    SB_WATCH_STARTED = 1, SB_WATCH_DAEMON_EXITED, SB_WATCH_EXEC_STARTED, SB_WATCH_EXEC_EXITED,
    SB_WATCH_STOPPING, /* a shutdown was asked for */
    SB_WATCH_LOST,     /* `lost` events came too fast for this watcher */
    SB_WATCH_PAUSED, SB_WATCH_RESUMED,
    /* as keeper says: */
    SB_WATCH_RESTARTED, /* code: how often since the start */
    SB_WATCH_HEALTH,    /* code: enum sandbox_health */
    SB_WATCH_TTL, SB_WATCH_IDLE
};

#define SB_WATCHERS_MAX 8

struct sb_watch_event {
    uint32_t type; /* SB_REPLY_EVENT */
    uint32_t event;
    uint32_t kind;        /* of an exit: enum sandbox_exec_kind */
    int32_t code, signal; /* of an exit */
    uint32_t lost;
    int64_t wall_ms;
    uint8_t exec_id[32];  /* all zero: none, or not known */
};

/* ---- an overlay's reset (sandbox-agent reset NUMBER, agent/stage-reset.c) ---- */
enum sb_reset_fd { /* 0, 1, 2 are /dev/null */
    SB_RESET_FD_PLAN = SB_FD_PLAN,       /* of the sandbox as it would be started now */
    SB_RESET_FD_CONTROL = SB_FD_CONTROL, /* it says OVERLAY, then READY or FAILED; when it ends, so does the helper */
    SB_RESET_FD_ROOT = SB_FD_ROOT,
    SB_RESET_FD_OUTER = 6,  /* what init gave: the mount namespace that the sandbox's is a copy of */
    SB_RESET_FD_TARGET = 7, /* and in it, what the overlay is mounted on */
    SB_RESET_FD_END = 8
};
/* The folder that the new layer waits in, beside the overlay's own; after a reset it has the old one. */
#define SB_RESET_SUFFIX ".new"

/* ---- a forward's helper (sandbox-agent forward PORT) ---- */
enum sb_forward_fd { /* 0, 1, 2 are /dev/null */
    SB_FORWARD_FD_LISTEN = 3,  /* bound and listening */
    SB_FORWARD_FD_CONTROL = 4, /* SEQPACKET: it says one byte when it is ready, and ends with what comes or with the end */
    SB_FORWARD_FD_OWNER = 5,   /* pidfd of the process whose death ends it, too */
    SB_FORWARD_FD_FOLDER = 6,  /* the sandbox's, where init's socket is */
    SB_FORWARD_FD_PAGE = 7,    /* memfd: struct sb_forward_page */
    SB_FORWARD_FD_END = 8
};

/* What the helper counts, in memory that the library reads. */
struct sb_forward_page {
    uint64_t accepted, active, failed;
    uint64_t bytes_in, bytes_out; /* towards the sandbox, and from it */
    uint32_t step;                /* the last failure: enum sb_start_step, 0: none yet */
    int32_t sys_errno;
};

#define SB_FORWARD_CONNECTIONS 4096 /* more wait in the listener's queue */

#endif
