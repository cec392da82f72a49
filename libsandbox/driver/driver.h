/* SPDX-License-Identifier: Apache-2.0
 * The one driver table: everything that a host can do. It has two implementations, the engine (this kernel) and the wire
 * client (any other machine); api/ checks arguments, keeps handles, waits and closes, and knows nothing else.
 *
 * Rules for an implementation:
 *  - Functions are called from any thread, several at once; no lock is held across a wait.
 *  - A slow call returns an operation: `fd` (an epoll descriptor as a rule) is readable whenever step() has work, also for
 *    timers of its own. step() never blocks for long. api/ calls it from one thread at a time.
 *  - What an inspect or list returns is JSON (the documents below), so that a remote client passes it through.
 *
 * Documents (all members always there):
 *  sandbox: {"id", "name" (""), "state" ("creating created running paused stopped failed damaged"), "cause" ("" or why it failed),
 *            "image": {"ref", "digest", "config_digest"}, "created_ms", "labels": {}, "spec": {sb_spec_to_json},
 *            "daemon": {"state": "none created running exited unknown", "code", "signal"}, "isolation": {name: {"level", "why"}},
 *            "mounts": [the spec's; an overlay's with "overlay": {"kind": "kernel copy", "reason"}],
 *            "secrets": [{"target", "path", "type"}], "limits": {the spec's limits as they are now},
 *            "execs": [ids of the commands that run; of inspect alone],
 *            "life": {"health" ("" starting healthy unhealthy), "health_failures", "restarts", "restart_in_ms" (-1: none is due), "ttl_ms" (left;
 *            -1: none)}, …}
 *  image:   {"digest", "config_digest", "names": [], "bytes", "architecture", "created", "layers": [diff ids], "config": {…}}
 *  report:  {"host": {…}, "entries": [{"feature", "level" ("enforced wrapped advisory impossible"), "probe", "cause", "remedy"}]}
 *  network: {"name", "kind" ("none nat proxy"), "allowed": [], "dns": []}
 *  volume:  {"name", "path", "created_ms", "kind": "folder disk", "file_system", "bytes" (disk), "owner": "UID:GID" or "", "vm"}
 *  event:   {"type" ("created started daemon-exited exec-started exec-exited stopped failed deleted overrun paused
 *            resumed restarted health ttl idle oom limit limits"), "id", "name", "time_ms",
 *            "attributes": {"exec" (""), "kind", "code", "signal", "cause", "lost", "count", "health", …, as the type has them}}
 */
#ifndef SB_DRIVER_DRIVER_H
#define SB_DRIVER_DRIVER_H

#include <jansson.h>
#include <sandbox.h>

#include "spec.h"
#include "util.h"

struct sb_driver;
struct sb_op;
struct sb_exec;
struct sb_forward;
struct sb_folder;
struct sb_events;

struct sb_op_ops {
    /* 0: succeeded, 1: still under way, negative: failed (and undone). Not called again after 0 or negative. */
    int (*step)(struct sb_op *op, struct sandbox_error **error);
    /* Asks it to end; later steps undo and fail with ECANCELLED. */
    void (*cancel)(struct sb_op *op);
    /* Called once, when it has ended. */
    void (*free)(struct sb_op *op);
};

struct sb_op {
    const struct sb_op_ops *ops;
    int fd;
    struct sandbox_progress progress;
    /* results, by kind */
    char id[SB_ID_SIZE];       /* create */
    json_t *image;             /* import: owned reference */
    json_t *report;            /* doctor: owned reference */
    json_t *findings;          /* reconcile: owned reference; an array of {"kind", "name", "why", "action"} */
    json_t *document;          /* diff: {"entries": [{"path", "kind", "type", "bytes"}], "truncated"}; usage: {"bytes", "count", "truncated"};
                                  collect: {"images", "layers", "downloads", "bytes"} */
    struct sb_driver *driver;  /* host open */
};

/* All strings are borrowed for the call. */
struct sb_exec_request {
    char id[SB_ID_SIZE];        /* of the exec, made by api/ */
    const char *const *argv;
    const char *user;           /* NULL: the spec's */
    const char *workdir;        /* NULL: the spec's */
    const char *const *env;     /* NULL or added to the spec's */
    int fds[3];                 /* the command's own ends (0 stdin, 1 stdout, 2 stderr), never -1 (but see journal_max); borrowed for the call */
    int64_t deadline_ms;        /* 0: none */
    int64_t journal_max;        /* 0: none; else fds[1] and fds[2] are -1 */
    int terminal;               /* 1: all fds are -1, and sb_exec.terminal_fd is the caller's end */
    int rows, columns;          /* of the terminal */
    const struct sb_limits *limits; /* NULL: none */
};

struct sb_exec_ops {
    /* Without waiting: 0 and *ret_result set when it has ended (as often as asked), 1: it still runs, negative: failed. */
    int (*collect)(struct sb_exec *exec, struct sandbox_exec_result *ret_result, struct sandbox_error **error);
    int (*kill)(struct sb_exec *exec, int signal, unsigned int flags, struct sandbox_error **error);
    void (*free)(struct sb_exec *exec);
    /* Of its terminal; all in range. */
    int (*resize)(struct sb_exec *exec, int rows, int columns, int width, int height, struct sandbox_error **error);
};

struct sb_exec {
    const struct sb_exec_ops *ops;
    int fd; /* polls readable (level-triggered) once it has ended */
    int journal; /* 1: it has one */
    int attested; /* 1: what it saw of itself is known: */
    struct sandbox_attestation attestation;
    int terminal; /* 1: it has one, as far as is known */
    int terminal_fd; /* with a terminal: of one that was begun here the caller's end, else -1; the driver closes it */
};

struct sb_log;
struct sb_log_ops {
    /* Without waiting: 1: a record; 0: the end (as often as asked); 2: nothing yet; negative: failed. */
    int (*next)(struct sb_log *log, struct sandbox_log_record *ret_record, struct sandbox_error **error);
    void (*free)(struct sb_log *log);
};

struct sb_log {
    const struct sb_log_ops *ops;
    int fd; /* followed: polls readable when there may be more, after a 2; else -1 */
};

struct sb_log_request {
    const char *exec_id;  /* NULL: the sandbox's own */
    int ended;            /* the exec is known to have ended */
    int this_run;         /* from the daemon's last start on; nothing before it was started */
    struct sandbox_log_options options;
};

struct sb_events_ops {
    /* Without waiting: 0 and *ret_event, 1: none now, negative: failed. */
    int (*next)(struct sb_events *events, json_t **ret_event, struct sandbox_error **error);
    void (*free)(struct sb_events *events);
};

struct sb_events {
    const struct sb_events_ops *ops;
    int fd; /* polls readable (level-triggered) when next() has work */
};

struct sb_forward_ops {
    /* Fills what it knows; *ret is empty (SANDBOX_FORWARD_STATUS_INIT) and of this library's size. Without waiting. */
    int (*get_status)(struct sb_forward *forward, struct sandbox_forward_status *ret, struct sandbox_error **error);
    /* Closes the listener and all connections; bounded. */
    void (*free)(struct sb_forward *forward);
};

struct sb_forward {
    const struct sb_forward_ops *ops;
    int port; /* on 127.0.0.1 */
};

/* A quick call on one file. Strings and data are borrowed for the call; flags are SANDBOX_FILE_…, all checked. */
enum sb_file_op { SB_FILE_STAT = 1, SB_FILE_READ, SB_FILE_WRITE, SB_FILE_REMOVE, SB_FILE_MAKE_FOLDER, SB_FILE_RENAME };
struct sb_file_call {
    enum sb_file_op op;
    unsigned int flags;
    const char *path;
    const char *other;  /* RENAME: to */
    int mode;           /* -1: unsaid, as are the ids */
    int64_t uid, gid;
    int64_t offset;     /* READ */
    size_t size;        /* READ: most; WRITE: of data */
    const void *data;
    int64_t timeout_ms;
};
struct sb_file_answer {
    struct sandbox_file_info info; /* STAT */
    char *data;                    /* READ: content, STAT: a link's target (NULL: no link); with a NUL, malloc'ed */
    size_t size;
};

struct sb_folder_ops {
    /* 0; *ret_name is NULL at the end. */
    int (*next)(struct sb_folder *folder, int64_t timeout_ms, const char **ret_name, struct sandbox_file_info *ret_info,
                struct sandbox_error **error);
    void (*free)(struct sb_folder *folder);
};
struct sb_folder {
    const struct sb_folder_ops *ops;
};

struct sb_driver_ops {
    const char *name; /* the backend's name, such as "local" */
    void (*free)(struct sb_driver *driver);
    int (*create)(struct sb_driver *driver, const struct sandbox_spec *spec, struct sb_op **ret_op, struct sandbox_error **error);
    int (*start)(struct sb_driver *driver, const char *id, struct sb_op **ret_op, struct sandbox_error **error);
    int (*stop)(struct sb_driver *driver, const char *id, int64_t grace_ms, struct sb_op **ret_op, struct sandbox_error **error);
    int (*remove)(struct sb_driver *driver, const char *id, struct sb_op **ret_op, struct sandbox_error **error);
    int (*kill)(struct sb_driver *driver, const char *id, int signal, struct sandbox_error **error);
    /* Is there a sandbox of this id (also a damaged one)? NULL: inspect answers that. */
    int (*open)(struct sb_driver *driver, const char *id, struct sandbox_error **error);
    int (*inspect)(struct sb_driver *driver, const char *id, json_t **ret_json, struct sandbox_error **error);
    /* flags: SANDBOX_RECONCILE_… */
    int (*reconcile)(struct sb_driver *driver, unsigned int flags, struct sb_op **ret_op, struct sandbox_error **error);
    /* An array of sandbox documents, filtered. */
    int (*list)(struct sb_driver *driver, const struct sandbox_list_options *options, json_t **ret_json, struct sandbox_error **error);
    /* Bounded (5 s) wait for the start, then returns. */
    int (*exec)(struct sb_driver *driver, const char *id, const struct sb_exec_request *request, struct sb_exec **ret_exec,
                struct sandbox_error **error);
    /* By its id; NULL: the daemon. */
    int (*exec_open)(struct sb_driver *driver, const char *id, const char *exec_id, struct sb_exec **ret_exec, struct sandbox_error **error);
    int (*log_open)(struct sb_driver *driver, const char *id, const struct sb_log_request *request, struct sb_log **ret_log,
                    struct sandbox_error **error);
    int (*dial)(struct sb_driver *driver, const char *id, int port, int64_t timeout_ms, int *ret_fd, struct sandbox_error **error);
    /* It stays when the sandbox stops, and serves again when that was started again. */
    int (*forward_open)(struct sb_driver *driver, const char *id, int port, int local_port, struct sb_forward **ret_forward,
                        struct sandbox_error **error);
    int (*events_open)(struct sb_driver *driver, const struct sandbox_events_options *options, struct sb_events **ret_events,
                       struct sandbox_error **error);
    int (*image_import)(struct sb_driver *driver, const char *source, const struct sandbox_image_import_options *options,
                        struct sb_op **ret_op, struct sandbox_error **error);
    /* options are of this library's size, with every field checked. */
    int (*image_pull)(struct sb_driver *driver, const char *reference, const struct sandbox_image_pull_options *options, struct sb_op **ret_op,
                      struct sandbox_error **error);
    /* flags: SANDBOX_COLLECT_… */
    int (*images_collect)(struct sb_driver *driver, unsigned int flags, struct sb_op **ret_op, struct sandbox_error **error);
    int (*image_inspect)(struct sb_driver *driver, const char *name, json_t **ret_json, struct sandbox_error **error);
    int (*image_list)(struct sb_driver *driver, json_t **ret_json, struct sandbox_error **error);
    int (*image_remove)(struct sb_driver *driver, const char *name, struct sandbox_error **error);
    /* Names of secrets in a folder of the host's machine; at most so many names are looked at (0: the default). */
    int (*secrets_scan)(struct sb_driver *driver, const char *folder, char *const *patterns, int64_t max_names, struct sb_op **ret_op,
                        struct sandbox_error **error);
    /* Of the overlay mount at a target. */
    int (*mount_diff)(struct sb_driver *driver, const char *id, const char *target, int64_t max_entries, struct sb_op **ret_op,
                      struct sandbox_error **error);
    /* What a diff lists as a tar (an OCI layer's form) onto a descriptor, which is borrowed for the call. The document as above, without entries. */
    int (*mount_tar)(struct sb_driver *driver, const char *id, const char *target, int fd, struct sb_op **ret_op, struct sandbox_error **error);
    int (*mount_usage)(struct sb_driver *driver, const char *id, const char *target, struct sb_op **ret_op, struct sandbox_error **error);
    int (*mount_reset)(struct sb_driver *driver, const char *id, const char *target, struct sb_op **ret_op, struct sandbox_error **error);
    int (*volume_create)(struct sb_driver *driver, const char *name, struct sandbox_error **error);
    int (*volume_create_with)(struct sb_driver *driver, const char *name, const struct sandbox_volume_options *options,
                              struct sandbox_error **error);
    int (*volume_inspect)(struct sb_driver *driver, const char *name, json_t **ret_json, struct sandbox_error **error);
    int (*volume_list)(struct sb_driver *driver, json_t **ret_json, struct sandbox_error **error);
    int (*volume_remove)(struct sb_driver *driver, const char *name, struct sandbox_error **error);
    /* Fills *ret_answer on success only. */
    int (*file)(struct sb_driver *driver, const char *id, const struct sb_file_call *call, struct sb_file_answer *ret_answer,
                struct sandbox_error **error);
    int (*folder_open)(struct sb_driver *driver, const char *id, const char *path, int64_t timeout_ms, struct sb_folder **ret_folder,
                       struct sandbox_error **error);
    int (*doctor)(struct sb_driver *driver, struct sb_op **ret_op, struct sandbox_error **error);
    /* Of this library's size, its entries of any. Waits for the sandbox's lock. */
    int (*set_limits)(struct sb_driver *driver, const char *id, const struct sandbox_limits *limits, int64_t timeout_ms,
                      struct sandbox_error **error);
    /* *ret is empty (SANDBOX_STATS_INIT) and of this library's size. Without waiting. */
    int (*get_stats)(struct sb_driver *driver, const char *id, struct sandbox_stats *ret, struct sandbox_error **error);
    /* One of path and descriptor is there; options are of this library's size, with every field checked. */
    int (*upload)(struct sb_driver *driver, const char *id, const char *source, const char *target,
                  const struct sandbox_upload_options *options, struct sb_op **ret_op, struct sandbox_error **error);
    int (*download)(struct sb_driver *driver, const char *id, const char *source, const char *target,
                    const struct sandbox_download_options *options, struct sb_op **ret_op, struct sandbox_error **error);
    int (*pause)(struct sb_driver *driver, const char *id, struct sb_op **ret_op, struct sandbox_error **error);
    int (*resume)(struct sb_driver *driver, const char *id, struct sb_op **ret_op, struct sandbox_error **error);
    /* From now on, 0: without an end. */
    int (*extend)(struct sb_driver *driver, const char *id, int64_t ttl_ms, struct sb_op **ret_op, struct sandbox_error **error);
    /* Lists are NULL-terminated, never NULL, and checked. */
    int (*set_allowed)(struct sb_driver *driver, const char *id, const char *const *rules, struct sandbox_error **error);
    int (*network_create)(struct sb_driver *driver, const char *name, int kind, const char *const *rules, const char *const *dns,
                          struct sandbox_error **error);
    int (*network_set_allowed)(struct sb_driver *driver, const char *name, const char *const *rules, struct sandbox_error **error);
    int (*network_remove)(struct sb_driver *driver, const char *name, struct sandbox_error **error);
    int (*network_list)(struct sb_driver *driver, json_t **ret_json, struct sandbox_error **error);
    /* fd, the caller's end, is borrowed. */
    int (*terminal_detach)(struct sb_driver *driver, const char *id, const char *exec_id, int fd, struct sandbox_error **error);
    /* *ret_shown is malloc'ed, of *ret_size bytes. */
    int (*terminal_attach)(struct sb_driver *driver, const char *id, const char *exec_id, int *ret_fd, char **ret_shown, size_t *ret_size,
                           struct sandbox_error **error);
    /* NULL where a host cannot: api/ then fails with EUNSUPPORTED naming the call and the backend. Any slot may be NULL. */
};

struct sb_driver {
    const struct sb_driver_ops *ops;
    int close_fd; /* set by api/ once it is open: readable from the moment the caller closed the host; a wait in exec or dial polls
                     it too and then fails with ECLOSED. 0 until then: an open can't be closed */
};

/* A backend: how a machine comes to be and is reached. backends/table.c lists them. */
struct sb_backend {
    const char *scheme; /* "local" for "local:…" */
    /* `rest` is what follows "scheme:". The operation's result is op->driver. */
    int (*open)(const char *rest, const struct sandbox_host_options *options, struct sb_op **ret_op, struct sandbox_error **error);
};
const struct sb_backend *sb_backend_find(const char *scheme, size_t length); /* NULL: none */

#endif
