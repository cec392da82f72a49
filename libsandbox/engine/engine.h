/* SPDX-License-Identifier: Apache-2.0
 * The engine: sandboxes on this kernel. struct sb_engine is one opened state root.
 *
 * Below the state root (0700, the caller's own):
 *   sandboxes/ID/{record, run, deleting, s (init's socket), rw/{upper,work}, log/}   one folder a sandbox, flock'ed while it changes
 *   names/NAME -> ID        keys/KEY -> ID        trash/ID (being removed)        volumes/NAME/data
 *   owners/PROCESS/ID (owners.c): what a process must not die on      timers/ID (lifetime.c): whose time may be over
 *   images/, layers/ (image.c)      skeletons/KEY (hostimage.c) */
#ifndef SB_ENGINE_ENGINE_H
#define SB_ENGINE_ENGINE_H

#include <pthread.h>
#include <string.h>

#include <driver.h>
#include <engine-open.h>
#include <idmap.h>
#include <plan.h>

#include "cgroup.h"
#include "ids.h"
#include "image.h"
#include "locks.h"
#include "scope.h"

/* A process by what can't be reused: valid in one boot. */
struct sb_identity {
    char boot[40];     /* /proc/sys/kernel/random/boot_id */
    int64_t pid;       /* 0: none */
    int64_t start;     /* clock ticks since boot, from /proc/PID/stat */
    int64_t space;     /* inode of the pid namespace that the number is of; 0: unknown */
};

struct sb_engine {
    struct sb_driver driver; /* first: a driver is an engine */
    char *root_path;
    int root, sandboxes, names, keys, trash, volumes, owners, networks, timers;
    int null;                /* /dev/null */
    struct sb_idmap map;     /* for root: without a range */
    struct sb_idmap unpack;  /* the range of the unpack helper */
    struct sb_cgroups cgroups;
    struct sb_limits ceiling; /* of this handle; those stored in the state root: sb_ceiling_hold() */
    struct sb_identity self;
    struct sb_images *images;
    pthread_mutex_t lock;    /* the members below; never held across a wait */
    char *agent_dir;
    int agent, unpack_program, scope_program, pull_program, network_program, proxy_program; /* descriptors of the programs; -1: not yet asked for */
    int *children;           /* pidfds of inits that are this process's children, to be reaped */
    size_t n_children;
    struct sb_known_table *known; /* known.c */
};

/* ---- programs.c ---- */
/* A descriptor of an agent program ("sandbox-agent", "sandbox-unpack", "sandbox-scope"), owned by the engine. */
int sb_engine_program(struct sb_engine *engine, const char *name, int *ret_fd, struct sandbox_error **error);

/* ---- identity.c ---- */
int sb_identity_read(pid_t pid, const char *boot, struct sb_identity *ret);
int sb_identity_boot(char boot[40]);
/* A pidfd of exactly that process; -ESRCH when it is certainly gone (also by a reboot); another -errno when that can't be told. */
int sb_identity_open(const struct sb_identity *identity);
/* The same for one whose own identity is known (boot and space are not looked up again). */
int sb_identity_find(const struct sb_identity *self, const struct sb_identity *identity);
json_t *sb_identity_to_json(const struct sb_identity *identity);
void sb_identity_from_json(const json_t *json, struct sb_identity *ret);
static inline int sb_identity_equal(const struct sb_identity *a, const struct sb_identity *b)
{
    return !strcmp(a->boot, b->boot) && a->pid == b->pid && a->start == b->start && a->space == b->space;
}
/* Remembers a pidfd (dup'ed) of a child of this process; reaps those that have ended. */
void sb_children_add(struct sb_engine *engine, int pidfd);
void sb_children_reap(struct sb_engine *engine);

/* ---- owners.c ---- */
/* Enters a sandbox for this process: 0 or -errno. */
int sb_owner_enter(struct sb_engine *engine, const char *id);
/* Takes an entry away; one that is not there is no fault. */
void sb_owner_leave(struct sb_engine *engine, const struct sb_identity *process, const char *id);
/* The process that a folder of owners/ is named for: 0 or -EINVAL. */
int sb_owner_parse(const char *name, struct sb_identity *ret);
/* 1: a process that lives, or may live, has an entry for it. */
int sb_owner_has(struct sb_engine *engine, const char *id);
/* Removes this process's folder when nothing is left in it. */
void sb_owner_close(struct sb_engine *engine);

/* ---- record.c ---- */
struct sb_record {
    char id[SB_ID_SIZE];
    json_t *json;               /* what was written at create: see sb_record_new() */
    struct sandbox_spec *spec;  /* as json has it, but for its limits: those are as they are now */
    struct sb_idmap map;
    struct sb_known *known;     /* NULL, or where json and spec are borrowed from (known.c) */
    int dir;                    /* its folder; -1: none open */
    int lock;                   /* flock'ed descriptor; -1: not held */
};
enum sb_record_lock { SB_LOCK_NONE, SB_LOCK_EXCLUSIVE };
#define SB_RECORD_INIT { .dir = -1, .lock = -1 }
void sb_record_clear(struct sb_record *record);
void sb_record_unlock(struct sb_record *record);
/* Makes the folder of a new id, holding its lock. */
int sb_record_make(struct sb_engine *engine, const char *id, struct sb_record *ret, struct sandbox_error **error);
/* Writes the record (durably for detached sandboxes). */
int sb_record_write(struct sb_record *record, struct sandbox_error **error);
/* Reads an existing one without keeping its folder open. Codes as below. */
int sb_record_load(struct sb_engine *engine, const char *id, struct sb_record *ret, struct sandbox_error **error);
/* The same, from memory where it has not changed. */
int sb_known_load(struct sb_engine *engine, const char *id, struct sb_record *ret, struct sandbox_error **error);
void sb_known_drop(struct sb_known *known);
/* Around a list: records that none of the last lists has come across are forgotten. */
void sb_known_begin(struct sb_engine *engine);
void sb_known_end(struct sb_engine *engine);
void sb_known_free(struct sb_engine *engine);
/* Opens an existing one. ENOTFOUND; EDAMAGED (dir stays open in ret then, so that it can be deleted). EXCLUSIVE: EBUSY after 5 s of waiting in steps is the
 * caller's to decide: this returns EBUSY at once. */
int sb_record_open(struct sb_engine *engine, const char *id, enum sb_record_lock lock, struct sb_record *ret, struct sandbox_error **error);
/* As sb_record_open() with the exclusive lock, for one that may be dead: no maker can be between making its folder and locking it. */
int sb_record_take(struct sb_engine *engine, const char *id, struct sb_record *ret, struct sandbox_error **error);
/* For who waits for a sandbox's lock and tries every few milliseconds: 1, or EBUSY when its holder is stopped (struct all zero at first). Who is at
 * work is waited for as long as the caller's own timeout allows. */
struct sb_lock_wait {
    int64_t next;  /* when to look at the holder again */
    int64_t since; /* when it was first found stopped; 0: it isn't */
    pid_t pid;
};
int sb_lock_wait(struct sb_engine *engine, const char *id, struct sb_lock_wait *wait, struct sandbox_error **error);
/* The line that names a sandbox as holder of an id range. malloc'ed. */
char *sb_record_holder(const struct sb_engine *engine, const char *id);
/* What all lines of this state root begin with. malloc'ed. */
char *sb_record_holder_prefix(const struct sb_engine *engine);
/* The changing part: {"state": "created|stopped|failed", "init": identity, "keeper": identity, "cause": ""}; NULL: never committed. New reference. */
json_t *sb_record_read_run(const struct sb_engine *engine, const struct sb_record *record);
/* Flushes the folders that a durable record's own folder and claims stand in: what is acknowledged then is found again after a power cut. */
int sb_record_keep(struct sb_engine *engine, const struct sb_record *record, struct sandbox_error **error);
/* Any other document of ours: 0, ENOTFOUND, EDAMAGED, …. */
int sb_document_read(int dir, const char *name, json_t **ret, struct sandbox_error **error);
int sb_document_write(int dir, const char *name, const json_t *json, struct sandbox_error **error);
int sb_record_write_run(struct sb_record *record, const char *state, const struct sb_identity *init, const struct sb_identity *keeper, const char *cause,
                        struct sandbox_error **error);
/* For whoever looks later: a start that failed left it as it was, and this is why. */
void sb_record_note_failure(struct sb_engine *engine, struct sb_record *record, const struct sandbox_error *why);
/* 1 and the id of a sandbox whose record is wanted(). */
int sb_engine_find(struct sb_engine *engine, int (*wanted)(const struct sb_record *record, const char *what), const char *what, char id[SB_ID_SIZE]);
int sb_record_uses_image(const struct sb_record *record, const char *digest);
/* ---- claims.c: names and idempotency keys, links from names/NAME and keys/KEY to an id ---- */
/* EEXISTS when another sandbox has the name. A claim whose sandbox is no more is taken over. */
int sb_name_claim(struct sb_engine *engine, const char *name, const char *id, struct sandbox_error **error);
void sb_name_release(struct sb_engine *engine, const char *name, const char *id);
/* For the sandbox whose folder and record are there: 0, or 1 when another was faster. */
int sb_key_claim(struct sb_engine *engine, const char *key, const char *id, struct sandbox_error **error);
void sb_key_release(struct sb_engine *engine, const char *key, const char *id);
enum sb_key_state { SB_KEY_FREE, SB_KEY_WAIT, SB_KEY_TAKEN };
/* Whose the spec's key is: nobody's; one that is just being made or deleted (ask again in a few milliseconds); or `id`'s, whose spec is equal (else
 * EEXISTS). What is left half made under the key by a process that died is undone here. `wait` is all zero at first. */
int sb_key_find(struct sb_engine *engine, const struct sandbox_spec *spec, struct sb_lock_wait *wait, char id[SB_ID_SIZE],
                struct sandbox_error **error);

/* ---- link.c: talking to a sandbox's init ---- */
/* A connected socket, or ENOTRUNNING. */
int sb_link_open(struct sb_engine *engine, const char *id, int *ret_fd, struct sandbox_error **error);
/* Sends a request; the blob goes along or, when large, in a memfd. */
int sb_link_send(int fd, const struct sb_request *request, const char *blob, const int *fds, size_t n_fds, struct sandbox_error **error);
/* Waits up to timeout_ms for a reply; ret_fd (may be NULL) gets a descriptor that came along, or -1. ELOST when init is gone. */
int sb_link_receive(int fd, int64_t timeout_ms, struct sb_reply *ret, int *ret_fd, struct sandbox_error **error);
/* The same, and ECLOSED from the moment when close_fd is readable (-1: there is none). */
int sb_link_await(int fd, int close_fd, int64_t timeout_ms, struct sb_reply *ret, int *ret_fd, struct sandbox_error **error);
/* The descriptor that came with a message, -1: none. What came beside it is closed. */
struct msghdr;
int sb_message_fd(struct msghdr *msg);
/* The error of a SB_REPLY_FAILED for a command. */
int sb_link_start_error(const struct sb_reply *reply, const char *command, const char *user, const char *workdir, struct sandbox_error **error);
/* argv, env ("K=V"), user, workdir as a blob. */
struct sb_blob {
    char *data;
    size_t size;
    uint32_t argc, envc;
};
int sb_blob_make(const char *const *argv, const char *const *env, size_t n_env, const char *user, const char *workdir, struct sb_blob *ret,
                 struct sandbox_error **error);

/* ---- defaults.c: what daemon and execs get where a request doesn't say ---- */
/* The image's environment, then the spec's, then `more` ("K=V"; NULL-terminated or NULL), equal names replaced, PATH and HOME added when missing.
 * A NULL-terminated list of malloc'ed strings, released by sb_list_free(). */
int sb_environment(const struct sb_record *record, const char *const *more, int for_root, char ***ret_env, size_t *ret_n, struct sandbox_error **error);
void sb_list_free(char **list);
char *sb_default_workdir(const struct sb_record *record); /* malloc'ed; NULL when memory is short */
char *sb_default_user(const struct sb_record *record);

/* ---- launch.c: from a record to a live init ---- */
/* What the agent program is started with, before most of it is made: it takes the machine as long to start a program as it takes us to
 * make the rest. The plan is still empty, the socket without a name; the cgroups come with BEGIN. */
struct sb_early {
    int plan, control, listen, log, owner; /* -1: none */
};
struct sb_launch {
    struct sb_engine *engine;
    struct sb_record *record;      /* the caller's, for as long as the launch */
    struct sb_early early;         /* until BEGIN */
    struct sb_scope_report report; /* waited for before BEGIN */
    int control, stage, init; /* socket; pidfds: stage is the keeper's where there is one */
    int epoll;
    int kept;                 /* a keeper stands between: init's parent, which lives as long */
    struct sb_identity identity, keeper;
    int ready;
    char id[SB_ID_SIZE];
    int network;      /* connection to the network's holder; -1: none */
    json_t *overlays; /* what came of them; NULL: there are none */
};
#define SB_LAUNCH_INIT \
    { .early = { -1, -1, -1, -1, -1 }, .report = SB_SCOPE_REPORT_INIT, .control = -1, .stage = -1, .init = -1, .epoll = -1, .network = -1 }
/* Makes folders and socket, starts the stage; then cgroups and plan, at once or, where systemd is asked for a scope, when it has answered. */
int sb_launch_begin(struct sb_engine *engine, struct sb_record *record, struct sb_launch *ret, struct sandbox_error **error);
/* 0: init is ready and waits for sb_launch_commit(); 1: not yet (poll launch->epoll); negative: failed, nothing lives. */
int sb_launch_step(struct sb_launch *launch, struct sandbox_error **error);
int sb_launch_commit(struct sb_launch *launch, struct sandbox_error **error);
/* Ends what was begun and not committed, waits for its end; releases the rest. */
void sb_launch_clear(struct sb_launch *launch);

/* 1: sandboxes of this record have a keeper. */
int sb_launch_is_kept(const struct sb_record *record);

/* ---- exits.c: what keeper wrote down of execs, and keeper itself ---- */
struct sb_ring_entry;
struct sb_exit {
    int known, has_ended;
    struct sb_ring_event started, ended; /* in this machine's byte order */
};
/* 64 digits as bytes. 0 or -EINVAL. */
int sb_exec_id_parse(const char *text, uint8_t ret[32]);
/* The folder "log", or -errno. */
int sb_log_folder(const struct sb_record *record);
/* 1 when the entry carries an event. */
int sb_ring_event_of(const struct sb_ring_entry *entry, struct sb_ring_event *ret);
/* Of an exec, or (all zero) of the daemon's last start. 0, also when it isn't known, or -errno. */
int sb_exits_find(const struct sb_record *record, const uint8_t exec_id[32], struct sb_exit *ret);
/* LOST when it has not ended. */
void sb_exit_result(const struct sb_exit *exit, struct sandbox_exec_result *ret);
/* A pidfd; -ESRCH: there is none, or none any more. */
int sb_keeper_open(const struct sb_engine *engine, const struct sb_record *record);
/* 1: the record says that there was one, and it ended before it could say how its init did. */
int sb_keeper_was_killed(const struct sb_engine *engine, const struct sb_record *record);
/* Puts how the daemon ended into an inspect document that doesn't know. */
void sb_exits_complete(struct sb_engine *engine, const char *id, json_t *document);
/* Waits for a keeper whose init is gone, so that all is written down. */
void sb_keeper_await(const struct sb_engine *engine, const struct sb_record *record, int64_t timeout_ms);

/* ---- the driver's calls ---- */
int sb_engine_exec_open(struct sb_driver *driver, const char *id, const char *exec_id, struct sb_exec **ret_exec,
                        struct sandbox_error **error);
int sb_engine_log_open(struct sb_driver *driver, const char *id, const struct sb_log_request *request, struct sb_log **ret_log,
                       struct sandbox_error **error);
int sb_engine_create(struct sb_driver *driver, const struct sandbox_spec *spec, struct sb_op **ret_op, struct sandbox_error **error);
int sb_engine_start(struct sb_driver *driver, const char *id, struct sb_op **ret_op, struct sandbox_error **error);
int sb_engine_stop(struct sb_driver *driver, const char *id, int64_t grace_ms, struct sb_op **ret_op, struct sandbox_error **error);
int sb_engine_remove(struct sb_driver *driver, const char *id, struct sb_op **ret_op, struct sandbox_error **error);
int sb_engine_kill(struct sb_driver *driver, const char *id, int signal, struct sandbox_error **error);
int sb_engine_inspect(struct sb_driver *driver, const char *id, json_t **ret_json, struct sandbox_error **error);
int sb_engine_list(struct sb_driver *driver, const struct sandbox_list_options *options, json_t **ret_json, struct sandbox_error **error);
int sb_engine_exec(struct sb_driver *driver, const char *id, const struct sb_exec_request *request, struct sb_exec **ret_exec,
                   struct sandbox_error **error);
int sb_engine_terminal_detach(struct sb_driver *driver, const char *id, const char *exec_id, int fd, struct sandbox_error **error); /* pty.c */
int sb_engine_terminal_attach(struct sb_driver *driver, const char *id, const char *exec_id, int *ret_fd, char **ret_shown, size_t *ret_size,
                              struct sandbox_error **error);
int sb_engine_dial(struct sb_driver *driver, const char *id, int port, int64_t timeout_ms, int *ret_fd, struct sandbox_error **error);
int sb_engine_forward_open(struct sb_driver *driver, const char *id, int port, int local_port, struct sb_forward **ret_forward,
                           struct sandbox_error **error); /* forward.c */
int sb_engine_events_open(struct sb_driver *driver, const struct sandbox_events_options *options, struct sb_events **ret_events,
                          struct sandbox_error **error); /* events.c */
int sb_engine_secrets_scan(struct sb_driver *driver, const char *folder, char *const *patterns, int64_t most, struct sb_op **ret_op,
                           struct sandbox_error **error);
int sb_engine_mount_diff(struct sb_driver *driver, const char *id, const char *target, int64_t most, struct sb_op **ret_op,
                         struct sandbox_error **error);
int sb_engine_mount_tar(struct sb_driver *driver, const char *id, const char *target, int fd, struct sb_op **ret_op,
                        struct sandbox_error **error);
int sb_engine_mount_usage(struct sb_driver *driver, const char *id, const char *target, struct sb_op **ret_op, struct sandbox_error **error);
int sb_engine_mount_reset(struct sb_driver *driver, const char *id, const char *target, struct sb_op **ret_op, struct sandbox_error **error);
int sb_engine_volume_create(struct sb_driver *driver, const char *name, struct sandbox_error **error);
int sb_engine_volume_create_with(struct sb_driver *driver, const char *name, const struct sandbox_volume_options *options,
                                 struct sandbox_error **error);
int sb_engine_volume_inspect(struct sb_driver *driver, const char *name, json_t **ret_json, struct sandbox_error **error);
int sb_engine_volume_list(struct sb_driver *driver, json_t **ret_json, struct sandbox_error **error);
int sb_engine_volume_remove(struct sb_driver *driver, const char *name, struct sandbox_error **error);

int sb_engine_file(struct sb_driver *driver, const char *id, const struct sb_file_call *call, struct sb_file_answer *ret_answer,
                   struct sandbox_error **error);
int sb_engine_upload(struct sb_driver *driver, const char *id, const char *source, const char *target,
                     const struct sandbox_upload_options *options, struct sb_op **ret_op, struct sandbox_error **error);
int sb_engine_download(struct sb_driver *driver, const char *id, const char *source, const char *target,
                       const struct sandbox_download_options *options, struct sb_op **ret_op, struct sandbox_error **error);
int sb_engine_folder_open(struct sb_driver *driver, const char *id, const char *path, int64_t timeout_ms, struct sb_folder **ret_folder,
                          struct sandbox_error **error);
int sb_engine_reconcile(struct sb_driver *driver, unsigned int flags, struct sb_op **ret_op, struct sandbox_error **error);
int sb_engine_open_sandbox(struct sb_driver *driver, const char *id, struct sandbox_error **error);

/* ---- limits.c, stats.c ---- */
/* Takes the ceiling of the options, and stores it where they say so. */
int sb_ceiling_open(struct sb_engine *engine, const struct sandbox_host_options *options, struct sandbox_error **error);
/* EDENIED when limits are above a ceiling, of this handle or stored; EINVALID when a disk can't be found. What is open gets the ceiling. */
int sb_ceiling_hold(struct sb_engine *engine, struct sb_limits *limits, struct sandbox_error **error);
/* Puts limits into a record's document: 0 or ENOMEM. */
int sb_record_set_limits(struct sb_record *record, const struct sb_limits *limits, struct sandbox_error **error);
int sb_engine_set_limits(struct sb_driver *driver, const char *id, const struct sandbox_limits *limits, int64_t timeout_ms,
                         struct sandbox_error **error);
int sb_engine_get_stats(struct sb_driver *driver, const char *id, struct sandbox_stats *ret, struct sandbox_error **error);

/* ---- status.c ---- */
/* 0: init has answered; the ids of the commands that run are a new reference. */
int sb_status_ask(struct sb_engine *engine, const char *id, struct sb_reply *ret, json_t **ret_execs);

/* ---- inspect.c: documents of driver.h ---- */
struct sb_isolations {
    json_t *made[192];
};
/* `status` is what init answered; NULL: it did not. */
json_t *sb_inspect_document(struct sb_engine *engine, const struct sb_record *record, const struct sb_reply *status,
                            struct sb_isolations *isolations);
void sb_isolations_clear(struct sb_isolations *isolations);
json_t *sb_inspect_damaged(const char *id);
int sb_inspect_one(struct sb_engine *engine, const char *id, json_t **ret_json, struct sandbox_error **error);

/* ---- doctor.c ---- */
int sb_engine_doctor(struct sb_driver *driver, struct sb_op **ret_op, struct sandbox_error **error);

/* ---- remove.c ---- */
/* Undoes everything that a record intended, whose processes are gone: cgroups, name, folder, range. Restartable. 1: more is left to
 * remove in the trash (call sb_undo_trash() again). */
int sb_undo(struct sb_engine *engine, struct sb_record *record, struct sandbox_error **error);
int sb_undo_trash(struct sb_engine *engine, const char *id, const struct sb_idmap *map, struct sandbox_error **error);
/* ---- repair.c: what an earlier process left half done. ---- */
/* Everything that processes which are gone have left in owners/. */
int sb_repair(struct sb_engine *engine, struct sandbox_error **error);
enum sb_repaired {
    SB_REPAIR_LATER,  /* somebody is at work on it, or it can't be told: nothing was done */
    SB_REPAIR_KEPT,   /* it is whole, and to stay */
    SB_REPAIR_UNDONE, /* it was half made, half deleted or without its owner, or not there: nothing is left */
};
/* 0: the process that an owned sandbox ends with is gone. */
int sb_owner_lives(struct sb_engine *engine, const struct sb_record *record);
/* dry: nothing is done, and UNDONE means that it would be. ret_why: what is wrong with it, or NULL. */
enum sb_repaired sb_repair_look(struct sb_engine *engine, const char *id, int dry, const char **ret_why);
/* Calls each(engine, name, data) for every entry of a folder of the state root. */
void sb_each_entry(struct sb_engine *engine, int dir, void (*each)(struct sb_engine *, const char *, void *), void *data);
enum sb_repaired sb_repair_one(struct sb_engine *engine, const char *id);
/* Kills all that lives of a sandbox. 1: it is gone; 0: it can't be told. */
int sb_repair_end_init(struct sb_engine *engine, const struct sb_record *record);
/* Claims a new range for the sandbox of a record (again: the one its map has). */
int sb_range_claim(struct sb_engine *engine, struct sb_record *record, int again, struct sandbox_error **error);

/* ---- hostimage.c ---- */
/* The read-only layer of image "host" (below the state root, malloc'ed), made when its sources changed. */
int sb_hostimage_layer(struct sb_engine *engine, char **ret_layer, struct sandbox_error **error);
/* Adds the machine's /usr and what belongs to it as mounts: calls add(data, path). */
int sb_hostimage_mounts(int (*add)(void *data, const char *path), void *data);

#endif
