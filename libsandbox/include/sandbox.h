/* SPDX-License-Identifier: Apache-2.0
 *
 * sandbox.h - isolated Linux sandboxes as a library
 *
 * A program opens a host (a place that holds sandboxes, named by a URI), asks it for a sandbox and runs commands in
 * it. The header is the reference: ownership, units, ranges, errors and thread-safety stand at each declaration.
 *
 * Conventions that hold for every call:
 *  - A function returns 0 or a negative SANDBOX_E… code (enum sandbox_code), unless it says otherwise. These are this
 *    library's own codes: a remote machine's errno is not ours.
 *  - The last parameter of a call that can fail is `struct sandbox_error **error`, which may be NULL. On failure it is
 *    set to a new object that the caller releases by sandbox_error_unref(); on success it is left as it was.
 *  - Results are stored through `ret_…` parameters, on success only.
 *  - Times are int64_t milliseconds, relative, on CLOCK_MONOTONIC: -1 waits for ever, 0 polls, others < -1 are EINVALID.
 *  - argv, env and paths are any bytes but NUL. Names and label keys and values are bounded UTF-8.
 *  - Handles are thread-safe: calls on one handle may be made from several threads at once, and none holds a lock while
 *    it waits. Strings returned by a getter live as long as the object they were read from.
 *  - Descriptors that a call returns belong to the caller, are close-on-exec and blocking. Descriptors that a caller
 *    passes in are duplicated, never closed, and their flags are never changed.
 *  - A handle used in a forked child gives SANDBOX_EFORKED (its unref in the child releases memory only).
 *  - Option structs begin with `size_t size`: initialise them with their …_INIT macro. Fields are only ever appended;
 *    a size from an older header is accepted, bytes that this library does not know must be zero (else EINVALID).
 *  - The library installs no signal handler, reads no environment variable, prints nothing, and waits for no child that
 *    it did not make.
 */
#ifndef SANDBOX_H
#define SANDBOX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SANDBOX_API __attribute__((visibility("default")))
#else
#define SANDBOX_API
#endif

#define SANDBOX_VERSION_MAJOR 0
#define SANDBOX_VERSION_MINOR 1
#define SANDBOX_VERSION_PATCH 0

/** Length of a sandbox or exec id: 256 random bits as lowercase hexadecimal digits, without the final NUL. */
#define SANDBOX_ID_LENGTH 64
/** Longest sandbox, volume or image name in bytes: [A-Za-z0-9][A-Za-z0-9_.-]*. */
#define SANDBOX_NAME_MAX 128
/** Longest label key and label value in bytes. */
#define SANDBOX_LABEL_KEY_MAX 256
#define SANDBOX_LABEL_VALUE_MAX 4096

struct sandbox_error;      /**< why a call failed */
struct sandbox_host;       /**< a place that holds sandboxes */
struct sandbox_spec;       /**< what a sandbox is to be */
struct sandbox;            /**< one sandbox on a host */
struct sandbox_info;       /**< a sandbox as it was at one moment */
struct sandbox_list;       /**< sandboxes found by sandbox_host_list() */
struct sandbox_exec;       /**< one command in a sandbox */
struct sandbox_op;         /**< a slow call under way */
struct sandbox_image;      /**< an image as it was at one moment */
struct sandbox_image_list; /**< images found by sandbox_image_list() */
struct sandbox_diff;       /**< what a sandbox changed over a folder of the host */
struct sandbox_volume;     /**< a volume as it was at one moment */
struct sandbox_volume_list;
struct sandbox_findings; /**< what sandbox_host_reconcile() found */
struct sandbox_log;     /**< output that was kept, being read */
struct sandbox_events;  /**< a watch over sandboxes */
struct sandbox_event;   /**< something that happened to one */
struct sandbox_report;  /**< what a host can enforce: sandbox_host_doctor() */
struct sandbox_forward; /**< a listener on 127.0.0.1 that leads to a sandbox's port */
struct sandbox_limits;  /**< how much a sandbox or a command may use: below */

/** What a failed call returns. The values are part of the ABI. */
enum sandbox_code {
    SANDBOX_OK = 0,
    SANDBOX_EINVALID = -1,      /**< an argument is wrong; the error's field names it */
    SANDBOX_ENOMEM = -2,        /**< out of memory */
    SANDBOX_ENOTFOUND = -3,     /**< no such sandbox, image, volume, exec, user or file */
    SANDBOX_EEXISTS = -4,       /**< the name is taken */
    SANDBOX_ENOTRUNNING = -5,   /**< the sandbox is not running */
    SANDBOX_EBUSY = -6,         /**< in use; the message says by what */
    SANDBOX_EDENIED = -7,       /**< this host, or its kernel's policy, forbids it; the hint says what to change */
    SANDBOX_EUNSUPPORTED = -8,  /**< this host cannot do it, ever or yet; the message says why */
    SANDBOX_ETIMEDOUT = -9,     /**< the call's own timeout passed; what it began goes on unless it says otherwise */
    SANDBOX_ECANCELLED = -10,   /**< cancelled by sandbox_op_cancel() */
    SANDBOX_ECLOSED = -11,      /**< the host handle was closed */
    SANDBOX_EFORKED = -12,      /**< the handle was made before a fork, by another process */
    SANDBOX_ELOST = -13,        /**< the connection to the host or sandbox was lost; the outcome is unknown */
    SANDBOX_ENOSPACE = -14,     /**< a disk, quota or id range is used up */
    SANDBOX_EREADONLY = -15,    /**< storage is read-only */
    SANDBOX_EDAMAGED = -16,     /**< stored state or an archive does not verify */
    SANDBOX_EDIGEST = -17,      /**< a digest or size is not what was promised */
    SANDBOX_ELIMIT = -18,       /**< a cap on size, count, ratio or depth was reached */
    SANDBOX_EPROTOCOL = -19,    /**< a peer broke its protocol */
    SANDBOX_EIO = -20,          /**< another system call failed; see the error's errno */
    SANDBOX_EINTERNAL = -21,    /**< a bug in this library */
    SANDBOX_ENOTEXECUTABLE = -22, /**< the command exists and cannot be executed */
    SANDBOX_EPAUSED = -23,      /**< the sandbox is paused: sandbox_resume() */
    SANDBOX_ECODE_FORCE_INT = -0x7fffffff
};

/** Version of the library in use, "MAJOR.MINOR.PATCH". Static string. Since 0.1. */
SANDBOX_API const char *sandbox_version(void);
/** Name of a code, such as "ENOTFOUND"; "EUNKNOWN" for values this library does not know. Static string. Since 0.1. */
SANDBOX_API const char *sandbox_code_name(int code);

/* ------------------------------------------------------------------------------------------------- errors ---- */

/** One more reference. NULL is allowed and returned. Since 0.1. */
SANDBOX_API struct sandbox_error *sandbox_error_ref(struct sandbox_error *error);
/** Gives up a reference. NULL is allowed. Returns NULL. Since 0.1. */
SANDBOX_API struct sandbox_error *sandbox_error_unref(struct sandbox_error *error);
/** The code, as the call returned it. Since 0.1. */
SANDBOX_API int sandbox_error_get_code(const struct sandbox_error *error);
/** What was being done, such as "create" or "exec". Never NULL. Since 0.1. */
SANDBOX_API const char *sandbox_error_get_operation(const struct sandbox_error *error);
/** The backend, such as "local". Never NULL; "" before one was chosen. Since 0.1. */
SANDBOX_API const char *sandbox_error_get_backend(const struct sandbox_error *error);
/** The step within the operation, such as "overlay". Never NULL. Since 0.1. */
SANDBOX_API const char *sandbox_error_get_phase(const struct sandbox_error *error);
/** The argument, option or spec field that is at fault; "" when none is. Never NULL. Since 0.1. */
SANDBOX_API const char *sandbox_error_get_field(const struct sandbox_error *error);
/** The errno behind it on the machine where it happened, or 0. Since 0.1. */
SANDBOX_API int sandbox_error_get_errno(const struct sandbox_error *error);
/** One line for people: what failed and why. Never NULL, no trailing newline. Since 0.1. */
SANDBOX_API const char *sandbox_error_get_message(const struct sandbox_error *error);
/** One line for people: what to do about it; "" when there is nothing to say. Never NULL. Since 0.1. */
SANDBOX_API const char *sandbox_error_get_hint(const struct sandbox_error *error);
/** 1 when the same call may succeed later with nothing changed by the caller, else 0. Since 0.1. */
SANDBOX_API int sandbox_error_get_retryable(const struct sandbox_error *error);

/* --------------------------------------------------------------------------------------------- operations ---- */

enum sandbox_unit { SANDBOX_UNIT_NONE = 0, SANDBOX_UNIT_BYTES = 1, SANDBOX_UNIT_ENTRIES = 2 };

/** How far an operation is. */
struct sandbox_progress {
    size_t size;
    int unit;         /**< enum sandbox_unit: what done and total count */
    int64_t done;     /**< so far */
    int64_t total;    /**< -1 when unknown */
    char phase[32];   /**< current step, NUL-terminated, such as "unpack" */
};
#define SANDBOX_PROGRESS_INIT { sizeof(struct sandbox_progress), 0, 0, -1, { 0 } }

/**
 * A slow call exists twice: `sandbox_x()` waits, `sandbox_x_begin()` returns an operation. There is no thread behind
 * an operation: when its descriptor is readable, call sandbox_op_wait(op, 0, …), which does the next piece of work.
 */
/** A descriptor to poll for input (epoll, select, asyncio). It belongs to the operation: do not read or close it. Since 0.1. */
SANDBOX_API int sandbox_op_get_fd(struct sandbox_op *op);
/**
 * Drives the operation until it ends or the timeout passes. Returns 0 when it succeeded, its own error when it failed
 * (as often as it is asked), SANDBOX_ETIMEDOUT when it is still under way. Any thread; several may wait. Since 0.1.
 */
SANDBOX_API int sandbox_op_wait(struct sandbox_op *op, int64_t timeout_ms, struct sandbox_error **error);
/** Reads the progress. progress->size must be set (SANDBOX_PROGRESS_INIT). Since 0.1. */
SANDBOX_API int sandbox_op_get_progress(struct sandbox_op *op, struct sandbox_progress *progress);
/**
 * Asks the operation to end early. It must still be waited for; it then fails with SANDBOX_ECANCELLED, undone, unless it had
 * already succeeded. Idempotent. Since 0.1.
 */
SANDBOX_API int sandbox_op_cancel(struct sandbox_op *op);
/** Gives up the handle; an operation still under way is cancelled and undone before this returns. Returns NULL. Since 0.1. */
SANDBOX_API struct sandbox_op *sandbox_op_unref(struct sandbox_op *op);
/** The host an open operation made; once, after it succeeded. ENOTFOUND otherwise. The caller owns it. Since 0.1. */
SANDBOX_API int sandbox_op_take_host(struct sandbox_op *op, struct sandbox_host **ret_host, struct sandbox_error **error);
/** The sandbox a create operation made; once, after it succeeded. The caller owns it. Since 0.1. */
SANDBOX_API int sandbox_op_take_sandbox(struct sandbox_op *op, struct sandbox **ret_sandbox, struct sandbox_error **error);
/** The image an import operation made; once, after it succeeded. The caller owns it. Since 0.1. */
SANDBOX_API int sandbox_op_take_image(struct sandbox_op *op, struct sandbox_image **ret_image, struct sandbox_error **error);

/* -------------------------------------------------------------------------------------------------- hosts ---- */

struct sandbox_host_options {
    size_t size;
    const char *state_root; /**< local: folder for state and images, absolute; NULL: /var/lib/libsandbox for root, else
                                 ~/.local/share/libsandbox by the account's home. Made 0700 when absent. */
    const char *agent_dir;  /**< folder with the agent programs; NULL: the installed ones, else those the library carries */
    const struct sandbox_limits *ceiling; /**< the most that a sandbox may be given through this handle (its io says nothing; 0 and
                                 SANDBOX_LIMIT_KEEP: no ceiling): more is EDENIED, what a spec leaves open gets the ceiling. NULL: none.
                                 swap_max goes with memory_max alone. The ceilings stored in the state root hold beside them, the lower one counts */
    unsigned int flags;     /**< SANDBOX_HOST_… */
};
#define SANDBOX_HOST_OPTIONS_INIT { sizeof(struct sandbox_host_options), NULL, NULL, NULL, 0 }
/**
 * Stores the ceilings in the state root: from then on they hold for whoever opens it, in any process, until its owner removes the file
 * "ceiling" there. No call raises them: of a stored one and a new one the lower stays.
 */
#define SANDBOX_HOST_KEEP_CEILING (1u << 0)

/**
 * Opens a host. `uri` names it: "local:" is this kernel (also "local:?root=/path", percent-encoded; unknown keys are
 * refused). options may be NULL. What an earlier process left half made is repaired here.
 * Errors: EINVALID (uri, options), EUNSUPPORTED (unknown scheme, not Linux), EDENIED (state root not ours, too open),
 * EREADONLY, ENOSPACE, EIO. The caller owns the host: sandbox_host_unref(). Since 0.1.
 */
SANDBOX_API int sandbox_host_open(const char *uri, const struct sandbox_host_options *options, int64_t timeout_ms,
                                  struct sandbox_host **ret_host, struct sandbox_error **error);
/** The same as an operation; sandbox_op_take_host() gives the host. Since 0.1. */
SANDBOX_API int sandbox_host_open_begin(const char *uri, const struct sandbox_host_options *options, struct sandbox_op **ret_op,
                                        struct sandbox_error **error);
/** One more reference. Since 0.1. */
SANDBOX_API struct sandbox_host *sandbox_host_ref(struct sandbox_host *host);
/** Gives up a reference; the last one closes. NULL is allowed. Returns NULL. Since 0.1. */
SANDBOX_API struct sandbox_host *sandbox_host_unref(struct sandbox_host *host);
/** Closes: calls under way in other threads, and all later ones, return SANDBOX_ECLOSED. Sandboxes live on as their lifetime says. Since 0.1. */
SANDBOX_API int sandbox_host_close(struct sandbox_host *host, struct sandbox_error **error);
/** The URI it was opened by, and the backend's name. Since 0.1. */
SANDBOX_API const char *sandbox_host_get_uri(const struct sandbox_host *host);
SANDBOX_API const char *sandbox_host_get_backend(const struct sandbox_host *host);

/** With sandbox_host_reconcile(): find and tell, and touch nothing. */
#define SANDBOX_RECONCILE_DRY_RUN (1u << 0)
/**
 * Finds what is this host's and what no sandbox has any more, and removes it: sandboxes half made, half deleted or without their owner, and
 * trash, volumes, names, idempotency keys, id ranges, control groups, processes and mounts that dead processes left. Safe beside other processes
 * at work, whose unfinished work is never touched; so is what isn't certainly this host's and dead. An open repairs what it can see quickly;
 * this looks everywhere. Errors: EINVALID (flags), EUNSUPPORTED, ETIMEDOUT (what was done by then stays done). The caller owns the findings. Since 0.1.
 */
SANDBOX_API int sandbox_host_reconcile(struct sandbox_host *host, unsigned int flags, int64_t timeout_ms,
                                       struct sandbox_findings **ret_findings, struct sandbox_error **error);
SANDBOX_API int sandbox_host_reconcile_begin(struct sandbox_host *host, unsigned int flags, struct sandbox_op **ret_op,
                                             struct sandbox_error **error);
/** The findings of a reconcile operation; once, after it succeeded. ENOTFOUND otherwise. The caller owns it. Since 0.1. */
SANDBOX_API int sandbox_op_take_findings(struct sandbox_op *op, struct sandbox_findings **ret_findings, struct sandbox_error **error);
SANDBOX_API struct sandbox_findings *sandbox_findings_unref(struct sandbox_findings *report);
/** Number of findings. Since 0.1. */
SANDBOX_API size_t sandbox_findings_get_count(const struct sandbox_findings *report);
/**
 * Of the finding at an index below it, else NULL. The kind: "sandbox", "trash", "volume", "layer", "name", "key", "range", "cgroup", "process",
 * "mount", "network" or "owner"; more may come. The name: id, path or name. Why it is taken for lost. The action: "found" (a dry run), "removed", "failed".
 * Since 0.1.
 */
SANDBOX_API const char *sandbox_findings_get_kind(const struct sandbox_findings *report, size_t index);
SANDBOX_API const char *sandbox_findings_get_name(const struct sandbox_findings *report, size_t index);
SANDBOX_API const char *sandbox_findings_get_why(const struct sandbox_findings *report, size_t index);
SANDBOX_API const char *sandbox_findings_get_action(const struct sandbox_findings *report, size_t index);
/** All findings as one JSON array of {"action", "kind", "name", "why"}. Since 0.1. */
SANDBOX_API const char *sandbox_findings_get_json(const struct sandbox_findings *report);

/* ------------------------------------------------------------------------------------------------- doctor ---- */

/** How strong a promise is on a host. */
enum sandbox_level {
    SANDBOX_LEVEL_ENFORCED = 1,  /**< by the kernel, against everything inside */
    SANDBOX_LEVEL_WRAPPED = 2,   /**< by a weaker means; the cause says by which */
    SANDBOX_LEVEL_ADVISORY = 3,  /**< not against everything inside */
    SANDBOX_LEVEL_IMPOSSIBLE = 4 /**< not here: what needs it fails, and says so */
};

/**
 * Finds out what a host can enforce, by making small sandboxes and trying it in them: user namespace, id range, mounts, seccomp,
 * capabilities, network, limits, FUSE, overlay, the state root's file system, what the kernel has. One pass of a few seconds, once each; nothing
 * is left. What is not enforced is told with its cause and a remedy: that is no error. EUNSUPPORTED on hosts that can't be asked. The
 * caller owns the report. Since 0.1.
 */
SANDBOX_API int sandbox_host_doctor(struct sandbox_host *host, int64_t timeout_ms, struct sandbox_report **ret_report,
                                    struct sandbox_error **error);
/** The same as an operation; sandbox_op_take_report() gives the report. Since 0.1. */
SANDBOX_API int sandbox_host_doctor_begin(struct sandbox_host *host, struct sandbox_op **ret_op, struct sandbox_error **error);
SANDBOX_API int sandbox_op_take_report(struct sandbox_op *op, struct sandbox_report **ret_report, struct sandbox_error **error);
SANDBOX_API struct sandbox_report *sandbox_report_unref(struct sandbox_report *report);
/** Number of features looked at. Since 0.1. */
SANDBOX_API size_t sandbox_report_get_count(const struct sandbox_report *report);
/** Of the feature at an index: its name, such as "memory"; NULL above the count. Names stay what they are. Since 0.1. */
SANDBOX_API const char *sandbox_report_get_feature(const struct sandbox_report *report, size_t index);
/** enum sandbox_level; EINVALID above the count. Since 0.1. */
SANDBOX_API int sandbox_report_get_level(const struct sandbox_report *report, size_t index);
/** What was tried, and what was seen. Since 0.1. */
SANDBOX_API const char *sandbox_report_get_probe(const struct sandbox_report *report, size_t index);
/** Why it isn't enforced, and what to do about it; "" for what is. Since 0.1. */
SANDBOX_API const char *sandbox_report_get_cause(const struct sandbox_report *report, size_t index);
SANDBOX_API const char *sandbox_report_get_remedy(const struct sandbox_report *report, size_t index);
/** {"host": {…}, "entries": [{"feature", "level", "probe", "cause", "remedy"}]}. Since 0.1. */
SANDBOX_API const char *sandbox_report_get_json(const struct sandbox_report *report);

/* -------------------------------------------------------------------------------------------------- specs ---- */

/** Whose death ends a sandbox. */
enum sandbox_lifetime {
    SANDBOX_LIFETIME_OWNED = 0,   /**< ends when the process (not the thread) that created or last started it ends, and is
                                       deleted by the next open of its host */
    SANDBOX_LIFETIME_DETACHED = 1 /**< lives on until it is stopped */
};
enum sandbox_network {
    SANDBOX_NETWORK_NONE = 0,  /**< its own loopback and nothing else */
    SANDBOX_NETWORK_HOST = 1,  /**< the host's own network: all of its interfaces, its loopback and the services there, its abstract UNIX sockets.
                                    Nothing is isolated; ports bound inside are bound on the host */
    SANDBOX_NETWORK_NAT = 2,   /**< outgoing connections through the host's address; the host itself and link-local addresses (a cloud's metadata)
                                    can't be reached, nobody can connect from outside. IPv4 alone */
    SANDBOX_NETWORK_PROXY = 3, /**< no route at all: an HTTP and CONNECT proxy, and a DNS server, on the loopback, which let through what
                                    sandbox_spec_add_allowed() and sandbox_set_allowed() allow */
    SANDBOX_NETWORK_NAMED = 4  /**< a network of the host that several sandboxes are in: sandbox_spec_set_network_name() */
};
enum sandbox_mount_type {
    SANDBOX_MOUNT_BIND = 0,   /**< a folder or file of the host; source is its absolute path. What else is mounted below it stays
                                   out. Ids are the host's: as root's sandbox, what others may do with it; as a user's, the user. */
    SANDBOX_MOUNT_VOLUME = 1, /**< a volume; source is its name */
    SANDBOX_MOUNT_TMPFS = 2,  /**< an empty memory file system; source is NULL */
    SANDBOX_MOUNT_OVERLAY = 3 /**< a folder of the host that can be written to inside and never changes: what is written goes into a
                                   layer of the sandbox's own, which goes with it. source is its absolute path. What else is mounted
                                   below it stays out. See sandbox_mount_diff(), _usage() and _reset(). */
};
#define SANDBOX_MOUNT_READ_ONLY (1u << 0)

struct sandbox_mount_options {
    size_t size;
    int type;           /**< enum sandbox_mount_type */
    const char *source; /**< see the type */
    const char *target; /**< absolute path inside, without ".." */
    unsigned int flags; /**< SANDBOX_MOUNT_… */
    int64_t max_bytes;  /**< tmpfs: its size, 4096 or more; 0: a quarter of the memory limit or 64 MiB. Overlay: what may be written over it, 16 MiB or more,
                             with what the disk image that holds it needs for itself; ENOSPC inside beyond. Only root can have that
                             (else EUNSUPPORTED); 0: as much as the state root's file system has */
    const char *owner;  /**< bind, overlay: "UID:GID", the ids on the host that are 0:0 inside. "0:0": all ids are the same inside and
                             on disk. Another: host's 0 and what has that owner's number inside have no counterpart, so that nothing
                             inside makes a file of the host's root. A bind that can be written to has no owner with a 0 (EINVALID):
                             set-id files that are made inside are the owner's on the host, so let no others reach such a folder.
                             NULL: a bind as said at its type, an overlay as "0:0". Where
                             the caller isn't root the only owner is the caller, and is anyhow 0:0. EUNSUPPORTED at create where
                             the file system can't map ids. */
};
#define SANDBOX_MOUNT_OPTIONS_INIT { sizeof(struct sandbox_mount_options), 0, NULL, NULL, 0, 0, NULL }

/**
 * A new, empty spec: image "host", no daemon, no limits but the default of 4,096 processes, network none, lifetime owned.
 * The caller owns it; it may be used for several creates. Specs are not thread-safe while they are being filled. Since 0.1.
 */
SANDBOX_API int sandbox_spec_new(struct sandbox_spec **ret_spec, struct sandbox_error **error);
SANDBOX_API struct sandbox_spec *sandbox_spec_unref(struct sandbox_spec *spec);
/** A name, unique on the host while the sandbox exists; NULL: none. EINVALID outside [A-Za-z0-9][A-Za-z0-9_.-]{0,127}. Since 0.1. */
SANDBOX_API int sandbox_spec_set_name(struct sandbox_spec *spec, const char *name, struct sandbox_error **error);
/** "host", an image's name, "sha256:…" (manifest or config digest), or a reference by which it was pulled. Nothing is fetched. Since 0.1. */
SANDBOX_API int sandbox_spec_set_image(struct sandbox_spec *spec, const char *image, struct sandbox_error **error);
/** A label; an equal key replaces. ELIMIT above 1,024 labels or 256 KiB of them. Since 0.1. */
SANDBOX_API int sandbox_spec_add_label(struct sandbox_spec *spec, const char *key, const char *value, struct sandbox_error **error);
/** An environment variable for daemon and execs; an equal name replaces. The name has no '='. ELIMIT above 4,096 or 1 MiB of them. Since 0.1. */
SANDBOX_API int sandbox_spec_add_env(struct sandbox_spec *spec, const char *name, const char *value, struct sandbox_error **error);
/** Absolute folder in which daemon and execs start; NULL: the image's, else "/". Since 0.1. */
SANDBOX_API int sandbox_spec_set_workdir(struct sandbox_spec *spec, const char *workdir, struct sandbox_error **error);
/** Default user of execs: "UID:GID", "UID", or names from the image's own passwd and group; NULL: the image's, else 0:0. Since 0.1. */
SANDBOX_API int sandbox_spec_set_user(struct sandbox_spec *spec, const char *user, struct sandbox_error **error);
/** Host name inside; NULL: the first 12 digits of the id. Since 0.1. */
SANDBOX_API int sandbox_spec_set_hostname(struct sandbox_spec *spec, const char *hostname, struct sandbox_error **error);
/**
 * Makes a create repeatable: while a sandbox that was made with this key exists on the host, or is being made, another create with an equal key
 * makes none, and returns that one, in whatever state it is by now, also from another process; it waits while the first create is under way. It
 * fails with EEXISTS (field "idempotency_key") when the specs differ in anything but the order of labels and environment. The key is free again
 * when the sandbox is deleted or its create undone. 1 to 128 of A-Z a-z 0-9 _ . : -, the first one a letter or digit; NULL: none. Since 0.1.
 */
SANDBOX_API int sandbox_spec_set_idempotency_key(struct sandbox_spec *spec, const char *key, struct sandbox_error **error);
/** The daemon: the main process, started by sandbox_start() as root of the sandbox; argv ends with NULL. Empty: none. Since 0.1. */
SANDBOX_API int sandbox_spec_set_daemon(struct sandbox_spec *spec, const char *const *argv, struct sandbox_error **error);
/**
 * A capability for the daemon beside the basic set (CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP
 * NET_BIND_SERVICE), such as "SYS_ADMIN", all within the sandbox's own user namespace. Execs never have any. Since 0.1.
 */
SANDBOX_API int sandbox_spec_add_capability(struct sandbox_spec *spec, const char *capability, struct sandbox_error **error);
/** 1: a /dev/fuse of its own, for the daemon (mode 0600, owned by the sandbox's root). EDENIED at create where impossible. Since 0.1. */
SANDBOX_API int sandbox_spec_set_fuse(struct sandbox_spec *spec, int fuse, struct sandbox_error **error);
/** Memory limit in bytes, at least 4 MiB; 0: none. EUNSUPPORTED at create where no cgroup can enforce it. Since 0.1. */
SANDBOX_API int sandbox_spec_set_memory_max(struct sandbox_spec *spec, int64_t bytes, struct sandbox_error **error);
/** Most processes and threads at once, 3 to 4194304; 0: the default. By a cgroup where there is one, else by RLIMIT_NPROC. Since 0.1. */
SANDBOX_API int sandbox_spec_set_pids_max(struct sandbox_spec *spec, int64_t pids, struct sandbox_error **error);
/** CPU time per time in thousandths of one CPU, 10 or more; 0: no limit. EUNSUPPORTED at create without a cgroup. Since 0.1. */
SANDBOX_API int sandbox_spec_set_cpu_max(struct sandbox_spec *spec, int64_t millicpus, struct sandbox_error **error);
/**
 * How many bytes of the daemon's stdout and stderr are kept, 8 KiB to 1 PiB; 0: the default of 16 MiB. What is older makes room, a
 * daemon never waits for a reader of its log. Since 0.1.
 */
SANDBOX_API int sandbox_spec_set_log_max(struct sandbox_spec *spec, int64_t bytes, struct sandbox_error **error);
/** enum sandbox_lifetime. Since 0.1. */
SANDBOX_API int sandbox_spec_set_lifetime(struct sandbox_spec *spec, int lifetime, struct sandbox_error **error);
/** enum sandbox_network, but NAMED. EUNSUPPORTED at create where the machine lacks what it needs; the hint names the package. Since 0.1. */
SANDBOX_API int sandbox_spec_set_network(struct sandbox_spec *spec, int network, struct sandbox_error **error);
/**
 * The network of that name (sandbox_network_create()), shared with the other sandboxes in it: one network stack, so that they have the same
 * addresses and ports and reach each other on the loopback. ENOTFOUND at create. Since 0.1.
 */
SANDBOX_API int sandbox_spec_set_network_name(struct sandbox_spec *spec, const char *name, struct sandbox_error **error);
/**
 * Network proxy: lets through what a rule names, nothing else. "example.org" is that name and ports 80 and 443; "*.example.org" every name
 * below it, "*" every name; "192.0.2.1", "192.0.2.0/24", "[2001:db8::1]" addresses; ":8080" behind it another port, ":*" any. A name's
 * addresses must be of the public internet, or allowed by a rule with an address. Rules stay when the kind of network is another: then create
 * fails with EINVALID. ELIMIT above 1,024. Since 0.1.
 */
SANDBOX_API int sandbox_spec_add_allowed(struct sandbox_spec *spec, const char *rule, struct sandbox_error **error);
/** A DNS server, at most three, in place of the host's: for nat "ADDRESS", for proxy also "ADDRESS:PORT" ("[IPv6]:PORT"). Since 0.1. */
SANDBOX_API int sandbox_spec_add_dns_server(struct sandbox_spec *spec, const char *server, struct sandbox_error **error);
/**
 * Publishes a TCP port of the sandbox's loopback on 127.0.0.1 of the host while the sandbox lives, as sandbox_forward_open() does, with no
 * process of the caller's: local_port 0 is chosen at each start, and inspect tells it: {"ports": [{"port", "local_port"}]}. At most 64.
 * EBUSY at create or start: the local port is in use. EINVALID at create for the host's own network. Since 0.1.
 */
SANDBOX_API int sandbox_spec_add_port(struct sandbox_spec *spec, int local_port, int port, struct sandbox_error **error);
/** 1: the root file system is read-only for everything inside. Since 0.1. */
SANDBOX_API int sandbox_spec_set_read_only(struct sandbox_spec *spec, int read_only, struct sandbox_error **error);
/**
 * Which system calls daemon and commands may make. "default" (NULL is the same): what programs need, and not the parts of the kernel that few
 * do. "strict": a list of the calls that ordinary programs make, everything else does not exist; no tracing. "devel": default, and
 * perf_event_open, userfaultfd and kcmp. Or the text of a profile in Docker's JSON form, 256 KiB at most, which is enforced beside
 * what the isolation stands on: it can take away, and give no more than "devel". Rules with includes or excludes by capability are looked at
 * once for the daemon's capabilities, once for commands, which have none. docs/profiles.md has the lists. EINVALID (the place is in the
 * message), EUNSUPPORTED (actions TRACE and NOTIFY; two comparisons of one argument in one rule), ELIMIT. Since 0.1.
 */
SANDBOX_API int sandbox_spec_set_seccomp(struct sandbox_spec *spec, const char *profile, struct sandbox_error **error);
/** What becomes of names of secrets (.env, id_*, *.pem, credentials, tokens, .ssh and the like) in host folders that are mounted. */
enum sandbox_secrets_mode {
    SANDBOX_SECRETS_IGNORE = 0,
    SANDBOX_SECRETS_WARN = 1,   /**< inspect lists them: {"secrets": [{"target", "path", "type"}]} */
    SANDBOX_SECRETS_REFUSE = 2, /**< create and start fail with EDENIED, naming the first ones */
    SANDBOX_SECRETS_HIDE = 3    /**< something empty that nobody can open lies over each, as it is called at the start; ELIMIT above 4,096 */
};
/**
 * Looks for names of secrets before each start, in binds and overlays of folders; no file is opened, no link followed. patterns (NULL:
 * none) add to the known ones: shell patterns of one name, without regard to case, with '/' at the end for folders; '!' in front takes a
 * name out; the last that matches decides. Since 0.1.
 */
SANDBOX_API int sandbox_spec_set_secrets(struct sandbox_spec *spec, int mode, const char *const *patterns, struct sandbox_error **error);
/**
 * A mount, in the order added. Always nosuid and nodev. EINVALID for the targets /, /proc, /sys and /dev and all that is below the
 * last three, on which the isolation stands; /dev/shm is free. Since 0.1.
 */
SANDBOX_API int sandbox_spec_add_mount(struct sandbox_spec *spec, const struct sandbox_mount_options *options,
                                       struct sandbox_error **error);

/* ---------------------------------------------------------------------------------------------- sandboxes ---- */

enum sandbox_state {
    SANDBOX_STATE_CREATING = 0, /**< being made, or its maker died and no open repaired it yet */
    SANDBOX_STATE_CREATED = 1,  /**< made; its init lives, nothing was started */
    SANDBOX_STATE_RUNNING = 2,  /**< started */
    SANDBOX_STATE_STOPPED = 3,  /**< stopped on request, or its owner ended; its root is kept */
    SANDBOX_STATE_FAILED = 4,   /**< its init died; the cause is in the info. A start that fails leaves the state as it was, and its cause in the info */
    SANDBOX_STATE_DAMAGED = 5,  /**< its record does not verify; it can only be deleted */
    SANDBOX_STATE_PAUSED = 6    /**< started, and all that it runs is halted: sandbox_pause() */
};

/**
 * Makes a sandbox from a spec; its init runs, its daemon does not. Returns once it exists: exactly one id.
 * Errors: EINVALID, ENOTFOUND (image, volume), EEXISTS (name), EDENIED (kernel policy), EUNSUPPORTED, ENOSPACE, ETIMEDOUT
 * (then it is undone). A failed create leaves nothing behind. The caller owns the handle. Since 0.1.
 */
SANDBOX_API int sandbox_create(struct sandbox_host *host, const struct sandbox_spec *spec, int64_t timeout_ms,
                               struct sandbox **ret_sandbox, struct sandbox_error **error);
SANDBOX_API int sandbox_create_begin(struct sandbox_host *host, const struct sandbox_spec *spec, struct sandbox_op **ret_op,
                                     struct sandbox_error **error);
/** A handle on an existing sandbox by its exact id. ENOTFOUND. The caller owns it. Since 0.1. */
SANDBOX_API int sandbox_open(struct sandbox_host *host, const char *id, struct sandbox **ret_sandbox, struct sandbox_error **error);
SANDBOX_API struct sandbox *sandbox_ref(struct sandbox *sandbox);
/** Gives up the handle; the sandbox itself stays. NULL is allowed. Returns NULL. Since 0.1. */
SANDBOX_API struct sandbox *sandbox_unref(struct sandbox *sandbox);
/** Its id. Since 0.1. */
SANDBOX_API const char *sandbox_get_id(const struct sandbox *sandbox);
/** Starts it, with its daemon when the spec named one. Starting a running one is success. Since 0.1. */
SANDBOX_API int sandbox_start(struct sandbox *sandbox, int64_t timeout_ms, struct sandbox_error **error);
SANDBOX_API int sandbox_start_begin(struct sandbox *sandbox, struct sandbox_op **ret_op, struct sandbox_error **error);
/**
 * Stops it: SIGTERM to the daemon, `grace_ms` (-1: no bound, 0: none) for it to end, then everything inside is killed. Legal in every
 * state, idempotent. timeout_ms bounds the whole call and must not be shorter than the grace. Since 0.1.
 */
SANDBOX_API int sandbox_stop(struct sandbox *sandbox, int64_t grace_ms, int64_t timeout_ms, struct sandbox_error **error);
SANDBOX_API int sandbox_stop_begin(struct sandbox *sandbox, int64_t grace_ms, struct sandbox_op **ret_op, struct sandbox_error **error);
/** Sends a signal (1 to 64) to the daemon. ENOTRUNNING without a live daemon. SIGKILL to everything: sandbox_stop() with grace 0. Since 0.1. */
SANDBOX_API int sandbox_kill(struct sandbox *sandbox, int signal, struct sandbox_error **error);
/**
 * Deletes it, its root and its record, from any state; a running one is killed first. Idempotent: one that is gone already is
 * success. Volumes stay. Since 0.1.
 */
SANDBOX_API int sandbox_delete(struct sandbox *sandbox, int64_t timeout_ms, struct sandbox_error **error);
SANDBOX_API int sandbox_delete_begin(struct sandbox *sandbox, struct sandbox_op **ret_op, struct sandbox_error **error);
/** What was asked and what is, checked against the kernel. The caller owns the info. Since 0.1. */
SANDBOX_API int sandbox_inspect(struct sandbox *sandbox, struct sandbox_info **ret_info, struct sandbox_error **error);
SANDBOX_API struct sandbox_info *sandbox_info_unref(struct sandbox_info *info);
SANDBOX_API const char *sandbox_info_get_id(const struct sandbox_info *info);
/** Its name, "" without one. Since 0.1. */
SANDBOX_API const char *sandbox_info_get_name(const struct sandbox_info *info);
/** enum sandbox_state. Since 0.1. */
SANDBOX_API int sandbox_info_get_state(const struct sandbox_info *info);
/** The image as it was asked for, and the manifest digest it is pinned to ("" for image host). Since 0.1. */
SANDBOX_API const char *sandbox_info_get_image(const struct sandbox_info *info);
SANDBOX_API const char *sandbox_info_get_image_digest(const struct sandbox_info *info);
/** Wall-clock time of its creation, milliseconds since 1970. For people; nothing is decided by it. Since 0.1. */
SANDBOX_API int64_t sandbox_info_get_created_ms(const struct sandbox_info *info);
/** A label's value, or NULL. Since 0.1. */
SANDBOX_API const char *sandbox_info_get_label(const struct sandbox_info *info, const char *key);
/**
 * Everything as one JSON object; byte strings that are not UTF-8 are {"base64": …}; an empty list is []. What sandbox_inspect() gives has also
 * "execs", the ids of the commands that run, for sandbox_exec_open(). "" when memory is short. Since 0.1.
 */
SANDBOX_API const char *sandbox_info_get_json(const struct sandbox_info *info);

/** Which sandboxes to list; NULL fields don't filter. */
struct sandbox_list_options {
    size_t size;
    const char *name_prefix;
    const char *label_key;   /**< only those that have this label … */
    const char *label_value; /**< … with this value (NULL: any) */
};
#define SANDBOX_LIST_OPTIONS_INIT { sizeof(struct sandbox_list_options), NULL, NULL, NULL }
/** Lists what is there, each checked against the kernel; a damaged one is listed as such. options may be NULL. The caller owns the list. Since 0.1. */
SANDBOX_API int sandbox_host_list(struct sandbox_host *host, const struct sandbox_list_options *options,
                                  struct sandbox_list **ret_list, struct sandbox_error **error);
/** Number of entries; the entry at an index below it (owned by the list), else NULL. Since 0.1. */
SANDBOX_API size_t sandbox_list_get_count(const struct sandbox_list *list);
SANDBOX_API const struct sandbox_info *sandbox_list_get(const struct sandbox_list *list, size_t index);
SANDBOX_API struct sandbox_list *sandbox_list_unref(struct sandbox_list *list);

/* ---------------------------------------------------------------------------------------------- lifetimes ---- */

/*
 * How long a sandbox lives, and what is done about a daemon that ends or hangs. All of it is kept by the sandbox's keeper, a process outside
 * the sandbox that lives as long as its init does: no process of the caller is needed for it, and nothing inside can prolong or block it.
 * docs/lifetimes.md has the rules in full.
 */
/** What becomes of a sandbox whose time is over. */
enum sandbox_end {
    SANDBOX_END_STOP = 0,  /**< it is stopped; its root is kept */
    SANDBOX_END_DELETE = 1 /**< it is stopped, and deleted by the next process that opens its host, lists, or reconciles */
};
/**
 * Time to live: so many milliseconds (100 or more; 0: no end) after its create the sandbox is stopped, whatever it does: SIGTERM to the daemon,
 * then the end grace. The time while the machine sleeps counts, clock changes don't. sandbox_extend() moves the end. end: enum
 * sandbox_end. After the end a start is ELIMIT (field "ttl") until it was extended. Since 0.1.
 */
SANDBOX_API int sandbox_spec_set_ttl(struct sandbox_spec *spec, int64_t ttl_ms, int end, struct sandbox_error **error);
/**
 * Idle limit: started, and for so many milliseconds (100 or more; 0: no limit) without a running command, a connection by sandbox_dial() or a
 * forward, or a call on its files, the sandbox is stopped as by its time to live. What runs inside by itself (the daemon, health checks) is no
 * activity; while paused the time stands still. end: enum sandbox_end. Since 0.1.
 */
SANDBOX_API int sandbox_spec_set_idle(struct sandbox_spec *spec, int64_t idle_ms, int end, struct sandbox_error **error);
/** How long the daemon gets between SIGTERM and SIGKILL when time to live or idle limit end: 0 to 600,000 ms; the default is 10,000. Since 0.1. */
SANDBOX_API int sandbox_spec_set_end_grace(struct sandbox_spec *spec, int64_t grace_ms, struct sandbox_error **error);

enum sandbox_restart {
    SANDBOX_RESTART_NO = 0,
    SANDBOX_RESTART_ON_FAILURE = 1,    /**< when it ended with a code other than 0, or by a signal */
    SANDBOX_RESTART_ALWAYS = 2,
    SANDBOX_RESTART_UNLESS_STOPPED = 3 /**< as ALWAYS; different in what starts again after the machine did, see docs/lifetimes.md */
};
/**
 * Whether the daemon is started again when it ends: enum sandbox_restart. max_retries: with ON_FAILURE, at most so often since the sandbox's start
 * (0: no bound), else 0. Between an end and the next start are 100 ms, doubled each time up to one minute; a daemon that has run for 10
 * seconds begins at 100 ms again. One that was ended by sandbox_kill() or sandbox_stop() stays ended. The sandbox itself, with its
 * files and commands, goes on meanwhile. Since 0.1.
 */
SANDBOX_API int sandbox_spec_set_restart(struct sandbox_spec *spec, int policy, int max_retries, struct sandbox_error **error);

/** How often a health check runs; 0 in any field: the default. */
struct sandbox_health_options {
    size_t size;
    int64_t interval_ms;       /**< between the end of one and the next; 10 or more, default 30,000 */
    int64_t timeout_ms;        /**< one that takes longer is killed with all its descendants and has failed; 10 or more, default 30,000 */
    int64_t start_period_ms;   /**< after a start failures don't count for so long, until one has passed; default none */
    int64_t start_interval_ms; /**< the interval within the start period; 10 or more, default 5,000 */
    int retries;               /**< so many failures one after another make it unhealthy; 1 to 1,000, default 3 */
    const char *user;          /**< as in sandbox_exec_options; NULL: the spec's */
};
#define SANDBOX_HEALTH_OPTIONS_INIT { sizeof(struct sandbox_health_options), 0, 0, 0, 0, 0, NULL }
/**
 * A command that says whether the sandbox is well: it runs as any exec does, again and again, and passes with exit code 0. Its output is dropped.
 * argv ends with NULL (empty or NULL: no health check); at most 32 KiB with the spec's environment. options may be NULL. Nothing is done
 * about an unhealthy sandbox: who wants to know asks sandbox_info_get_health(), sandbox_wait_health() or the events. Since 0.1.
 */
SANDBOX_API int sandbox_spec_set_health(struct sandbox_spec *spec, const char *const *argv, const struct sandbox_health_options *options,
                                        struct sandbox_error **error);

/**
 * Halts daemon and commands, with all their processes, until sandbox_resume(). By the cgroup freezer where the sandbox has groups in cgroup2,
 * else by SIGSTOP to all (inspect: isolation "pause"). Meanwhile an exec is EPAUSED, files can be read and written, ports accept and nobody
 * answers, deadlines of commands and the time to live go on. Stop and delete work as ever: a stop resumes first, so that the
 * daemon can end by itself. Pausing a paused one is success. ENOTRUNNING, ETIMEDOUT (it is resumed then). Since 0.1.
 */
SANDBOX_API int sandbox_pause(struct sandbox *sandbox, int64_t timeout_ms, struct sandbox_error **error);
SANDBOX_API int sandbox_pause_begin(struct sandbox *sandbox, struct sandbox_op **ret_op, struct sandbox_error **error);
/** Ends a pause; of a sandbox that runs: success. ENOTRUNNING. Since 0.1. */
SANDBOX_API int sandbox_resume(struct sandbox *sandbox, int64_t timeout_ms, struct sandbox_error **error);
SANDBOX_API int sandbox_resume_begin(struct sandbox *sandbox, struct sandbox_op **ret_op, struct sandbox_error **error);
/**
 * Its time to live ends ttl_ms (100 or more; 0: never) from now, sooner or later than before; in every state. EUNSUPPORTED for a sandbox that
 * lives without a keeper: an owned one whose spec had neither daemon, time to live, idle limit nor health check. Since 0.1.
 */
SANDBOX_API int sandbox_extend(struct sandbox *sandbox, int64_t ttl_ms, int64_t timeout_ms, struct sandbox_error **error);
SANDBOX_API int sandbox_extend_begin(struct sandbox *sandbox, int64_t ttl_ms, struct sandbox_op **ret_op, struct sandbox_error **error);

enum sandbox_health {
    SANDBOX_HEALTH_NONE = 0, /**< it has no health check, or does not run */
    SANDBOX_HEALTH_STARTING = 1,
    SANDBOX_HEALTH_HEALTHY = 2,
    SANDBOX_HEALTH_UNHEALTHY = 3
};
/** enum sandbox_health. Since 0.1. */
SANDBOX_API int sandbox_info_get_health(const struct sandbox_info *info);
/** What was left of its time to live, in milliseconds, 0 or more; -1: it has none. Since 0.1. */
SANDBOX_API int64_t sandbox_info_get_ttl_ms(const struct sandbox_info *info);
/** How often its daemon was restarted by its policy since the sandbox's start. Since 0.1. */
SANDBOX_API int64_t sandbox_info_get_restarts(const struct sandbox_info *info);
/**
 * Waits until the health is known: *ret_health (may be NULL) is SANDBOX_HEALTH_HEALTHY or _UNHEALTHY. EINVALID: it has no health check; ENOTRUNNING: it
 * ended, or was never started; ETIMEDOUT. Since 0.1.
 */
SANDBOX_API int sandbox_wait_health(struct sandbox *sandbox, int64_t timeout_ms, int *ret_health, struct sandbox_error **error);

/* -------------------------------------------------------------------------------------------------- execs ---- */

/** For the stdin, stdout and stderr options, beside a descriptor of the caller's (0 or more). */
#define SANDBOX_STDIO_NULL (-1) /**< /dev/null */
#define SANDBOX_STDIO_PIPE (-2) /**< a new pipe; take_stdin() and so on give the caller's end */

struct sandbox_exec_options {
    size_t size;
    const char *user;        /**< as sandbox_spec_set_user(); NULL: the spec's */
    const char *workdir;     /**< absolute; NULL: the spec's */
    const char *const *env;  /**< "NAME=VALUE", NULL-terminated, added to the spec's, an equal name replaces; NULL: none */
    int stdin_fd;            /**< default SANDBOX_STDIO_NULL */
    int stdout_fd;           /**< default SANDBOX_STDIO_PIPE */
    int stderr_fd;           /**< default SANDBOX_STDIO_PIPE */
    int64_t deadline_ms;     /**< 1 or more: after this time the command and all its descendants are killed; 0: none */
    int64_t journal_max;     /**< 8 KiB to 1 GiB: so much of stdout and stderr is kept in a journal, to be read from any offset by
                                  sandbox_exec_log_open(), also after this process is gone; stdout_fd and stderr_fd must be
                                  SANDBOX_STDIO_PIPE or SANDBOX_STDIO_NULL then, and there are no pipes to take; 0: no journal */
    int terminal;            /**< 1: a terminal instead of the three above, which are not looked at then; without a journal */
    int rows;                /**< of the terminal, 1 to 65,535; 0: 24 */
    int columns;             /**< 1 to 65,535; 0: 80 */
    const struct sandbox_limits *limits; /**< of this command and all its descendants, below those of the sandbox; NULL: none. All but
                                  files_max need cgroup v2 with the controller: EUNSUPPORTED elsewhere, naming the field */
};
#define SANDBOX_EXEC_OPTIONS_INIT                                                                                                \
    { sizeof(struct sandbox_exec_options), NULL, NULL, NULL, SANDBOX_STDIO_NULL, SANDBOX_STDIO_PIPE, SANDBOX_STDIO_PIPE, 0, 0, 0, 0, 0, NULL }

enum sandbox_exec_kind {
    SANDBOX_EXEC_EXITED = 1,    /**< ended by itself; code is its exit code */
    SANDBOX_EXEC_SIGNALLED = 2, /**< ended by a signal that this library did not send */
    SANDBOX_EXEC_DEADLINE = 3,  /**< its deadline passed; it and its descendants are dead */
    SANDBOX_EXEC_KILLED = 4,    /**< ended by a signal sent through sandbox_exec_kill() */
    SANDBOX_EXEC_OOM = 5,       /**< killed for want of memory */
    SANDBOX_EXEC_LOST = 6       /**< sandbox or connection ended first; there is no code */
};

/** How a command ended. */
struct sandbox_exec_result {
    size_t size;
    int kind;          /**< enum sandbox_exec_kind */
    int code;          /**< 0 to 255 when exited, else -1 */
    int signal;        /**< the signal when signalled, deadline, killed or oom, else 0 */
    int pipe_held;     /**< 1: a descendant still held stdout or stderr when sandbox_exec_communicate() gave up waiting for its end */
    int64_t user_us;   /**< CPU time of the command and the children it waited for, microseconds */
    int64_t system_us;
    int64_t max_rss;   /**< largest resident set, bytes */
};
#define SANDBOX_EXEC_RESULT_INIT { sizeof(struct sandbox_exec_result), 0, -1, 0, 0, 0, 0, 0 }

/**
 * Runs a command: argv, ended by NULL, with no shell between. argv[0] is searched in the PATH of the command's environment
 * when it has no '/'. It has no capabilities, no_new_privs and a seccomp filter. Returns once it was executed, or why not:
 * ENOTFOUND (no such command: field "argv"; workdir; user), ENOTEXECUTABLE, ENOTRUNNING, EPAUSED, EINVALID, EUNSUPPORTED (a user
 * id that this host cannot map; a journal in a sandbox that keeps none), ELIMIT (too many processes). The caller owns the handle. Since 0.1.
 */
SANDBOX_API int sandbox_exec(struct sandbox *sandbox, const char *const *argv, const struct sandbox_exec_options *options,
                             struct sandbox_exec **ret_exec, struct sandbox_error **error);
SANDBOX_API struct sandbox_exec *sandbox_exec_ref(struct sandbox_exec *exec);
/** Gives up the handle; pipes that were not taken are closed, the command goes on. NULL is allowed. Returns NULL. Since 0.1. */
SANDBOX_API struct sandbox_exec *sandbox_exec_unref(struct sandbox_exec *exec);
/** Its id: SANDBOX_ID_LENGTH hexadecimal digits, never reused. Since 0.1. */
SANDBOX_API const char *sandbox_exec_get_id(const struct sandbox_exec *exec);
/** The caller's end of a pipe, once; EINVALID when there was none or it was taken. The caller closes it. Since 0.1. */
SANDBOX_API int sandbox_exec_take_stdin(struct sandbox_exec *exec, int *ret_fd, struct sandbox_error **error);
SANDBOX_API int sandbox_exec_take_stdout(struct sandbox_exec *exec, int *ret_fd, struct sandbox_error **error);
SANDBOX_API int sandbox_exec_take_stderr(struct sandbox_exec *exec, int *ret_fd, struct sandbox_error **error);
/**
 * A further handle of an exec by its whole id, from any process, while it runs or after: it waits and kills as the first one does, and
 * any number of them tell the same end. It has no pipes (take_…: EINVALID). The ends of the last 1,024 commands are known as long as the
 * sandbox runs; in a sandbox with a daemon or of lifetime detached, the last 1,800 or more also after it ended, and then a command that was
 * running is SANDBOX_EXEC_LOST. ENOTFOUND: no such exec, or forgotten.
 * The caller owns the handle. Since 0.1.
 */
SANDBOX_API int sandbox_exec_open(struct sandbox *sandbox, const char *id, struct sandbox_exec **ret_exec, struct sandbox_error **error);
/** What a command was when it began, read by system calls in its own process just before it was executed. Capabilities are bits by number. */
struct sandbox_attestation {
    size_t size;
    int64_t uid;            /**< inside: real, effective and saved, which are the same */
    int64_t gid;
    int64_t groups;         /**< number of supplementary groups; only where there is one id (a user without subordinate ids) not 0 */
    int no_new_privs;       /**< 1: nothing it executes gets rights by set-id bits or file capabilities */
    int seccomp;            /**< 2: a filter */
    uint64_t cap_effective;
    uint64_t cap_permitted;
    uint64_t cap_inheritable;
    uint64_t cap_bounding;
    uint64_t cap_ambient;
    uint64_t user_namespace; /**< inode number of its user namespace, the same for all of a sandbox, another than the caller's */
};
#define SANDBOX_ATTESTATION_INIT { sizeof(struct sandbox_attestation), -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0 }
/**
 * Reads it, any time after the start; attestation->size must be set (SANDBOX_ATTESTATION_INIT). What could not be reached as it was asked for
 * was never executed: this is for the caller's own records and checks. ENOTFOUND: of an exec opened by id after its end, or of a host that
 * can't tell. Since 0.1.
 */
SANDBOX_API int sandbox_exec_get_attestation(const struct sandbox_exec *exec, struct sandbox_attestation *attestation,
                                             struct sandbox_error **error);
/** A descriptor that polls readable from the moment the command ended. It belongs to the exec: do not read or close it. Since 0.1. */
SANDBOX_API int sandbox_exec_get_fd(struct sandbox_exec *exec);
/** Waits for the command's end; result may be NULL. ETIMEDOUT: it still runs. As often as wanted. Since 0.1. */
SANDBOX_API int sandbox_exec_wait(struct sandbox_exec *exec, int64_t timeout_ms, struct sandbox_exec_result *result,
                                  struct sandbox_error **error);
/** With sandbox_exec_kill(): the signal goes to all descendants too, also those that made sessions of their own. */
#define SANDBOX_KILL_DESCENDANTS (1u << 0)
/** Sends a signal (1 to 64). Success when it had already ended. Since 0.1. */
SANDBOX_API int sandbox_exec_kill(struct sandbox_exec *exec, int signal, unsigned int flags, struct sandbox_error **error);

/*
 * Terminals. A command with a terminal has stdin, stdout and stderr on a pseudo-terminal of the sandbox's own /dev/pts, which belongs to
 * its user, is its controlling terminal and has a session to itself: job control works. It begins with the kernel's settings and UTF-8.
 * Set TERM in the options' env; nothing is set here. No terminal of the caller's comes into the sandbox.
 *
 * The caller's end is the pseudo-terminal's own other end: nothing stands between. When the caller has closed it and given up the handle,
 * or has died, the terminal hangs up: SIGHUP to the command's session. sandbox_exec_detach_terminal() lets it go on instead.
 */
/**
 * The caller's end of the command's terminal, once: what is typed is written to it, what is shown is read from it. A read that fails with
 * EIO, or gives 0, is the end: all output came, and no process has the terminal any more. To end the input write the terminal's end-of-file
 * character (byte 4, unless the command changed it), at the beginning of a line. A write may wait until the command reads. The caller closes
 * it. EINVALID: the command has no terminal here, or it was taken. Since 0.1.
 */
SANDBOX_API int sandbox_exec_take_terminal(struct sandbox_exec *exec, int *ret_fd, struct sandbox_error **error);
/**
 * Sets the terminal's size, in characters (1 to 65,535) and, where known, pixels (0 to 65,535; 0: unknown). The command's foreground
 * processes get SIGWINCH when it changed. EINVALID: no terminal here. ENOTRUNNING: it has ended. Since 0.1.
 */
SANDBOX_API int sandbox_exec_resize_terminal(struct sandbox_exec *exec, int rows, int columns, int width, int height,
                                             struct sandbox_error **error);

/** How much of what a terminal shows is kept while nobody is attached to it. */
#define SANDBOX_TERMINAL_KEPT 65536
/**
 * Leaves the command's terminal to the sandbox, so that it goes on without this handle and process: what it shows is read and the last
 * SANDBOX_TERMINAL_KEPT bytes are kept. The handle's part ends here; the caller closes its own descriptor, and doesn't read from it any
 * more. EINVALID: no terminal here. ELIMIT: 64 are left so in this sandbox. ENOTRUNNING. Since 0.1.
 */
SANDBOX_API int sandbox_exec_detach_terminal(struct sandbox_exec *exec, struct sandbox_error **error);
/**
 * Takes over a terminal that was left so, by any handle of the command, from any process: *ret_fd is the caller's end, as
 * sandbox_exec_take_terminal() gives it. *ret_shown (may be NULL, with ret_size) gets what is kept of what it showed meanwhile, to be released
 * by sandbox_buffer_free(). When the command has ended meanwhile *ret_fd reads its end at once; that is known of the last 64. EBUSY:
 * somebody is attached to it, or being attached. ENOTFOUND: the command has ended, or has no terminal. Since 0.1.
 */
SANDBOX_API int sandbox_exec_attach_terminal(struct sandbox_exec *exec, int *ret_fd, char **ret_shown, size_t *ret_size,
                                             struct sandbox_error **error);

/** Input and limits of sandbox_exec_communicate(). */
struct sandbox_communicate_options {
    size_t size;
    const void *input;    /**< written to stdin, which is then closed; NULL with input_size 0: just closed */
    size_t input_size;
    size_t max_output;    /**< most bytes kept of each stream, the rest is read and dropped; 0: 64 MiB */
    int64_t timeout_ms;   /**< -1: for ever */
    int64_t drain_ms;     /**< how long to wait for the end of output after the command ended; default 500 */
};
#define SANDBOX_COMMUNICATE_OPTIONS_INIT { sizeof(struct sandbox_communicate_options), NULL, 0, 0, -1, 500 }

/** What sandbox_exec_communicate() collected. Released by sandbox_output_clear(). */
struct sandbox_output {
    size_t size;
    char *out;            /**< stdout, with a NUL after it that out_size does not count; NULL when it was not a pipe */
    size_t out_size;
    char *err;
    size_t err_size;
    int out_truncated;    /**< 1: more than max_output came */
    int err_truncated;
};
#define SANDBOX_OUTPUT_INIT { sizeof(struct sandbox_output), NULL, 0, NULL, 0, 0, 0 }

/**
 * Feeds stdin and reads both outputs at the same time until they and the command have ended. Takes the exec's pipes. A command
 * that closes its stdin early is no error. What comes is appended to what output holds. On ETIMEDOUT the command still runs, output
 * holds what came and a second call goes on with the rest, of the input too: its own input is not looked at. One thread at a time:
 * EBUSY. Since 0.1.
 */
SANDBOX_API int sandbox_exec_communicate(struct sandbox_exec *exec, const struct sandbox_communicate_options *options,
                                         struct sandbox_output *output, struct sandbox_exec_result *result,
                                         struct sandbox_error **error);
/** Releases what communicate stored and makes it empty again. NULL is allowed. Since 0.1. */
SANDBOX_API void sandbox_output_clear(struct sandbox_output *output);

/* --------------------------------------------------------------------------------------------------- logs ---- */

enum sandbox_log_stream { SANDBOX_LOG_STDOUT = 1, SANDBOX_LOG_STDERR = 2 };

enum sandbox_log_kind {
    SANDBOX_LOG_OUTPUT = 1,  /**< bytes of a stream, as they were read from it: a line may be in several, several in one */
    SANDBOX_LOG_LOST = 2,    /**< output is missing here: the cap, a full disk, or (damaged) storage that does not verify */
    SANDBOX_LOG_STARTED = 3, /**< the daemon (or the exec) begins here */
    SANDBOX_LOG_ENDED = 4    /**< it ended, and all it had written is above; kind, code and signal say how */
};

struct sandbox_log_options {
    size_t size;
    unsigned int streams; /**< 1 << SANDBOX_LOG_STDOUT | 1 << SANDBOX_LOG_STDERR; 0: both */
    int follow;           /**< 1: go on with what comes, to the end of the daemon or the sandbox; 0: to the end of what is there */
    int64_t tail;         /**< begin so many lines before the end of what is there; -1: with all of it */
    int64_t since_ms;     /**< only what came then or later, wall-clock milliseconds since 1970; 0: any */
    int64_t until_ms;     /**< only what came before; 0: any */
    int64_t position;     /**< only what stands at this position or behind, see the record's; 0: any */
};
#define SANDBOX_LOG_OPTIONS_INIT { sizeof(struct sandbox_log_options), 0, 0, -1, 0, 0, 0 }

struct sandbox_log_record {
    size_t size;
    int kind;          /**< enum sandbox_log_kind */
    int stream;        /**< output: enum sandbox_log_stream; else 0 */
    int64_t time_ns;   /**< when it came, wall clock, nanoseconds since 1970; 0: unknown */
    int64_t position;  /**< bytes of both streams that came before, ever: position + data_size is where to go on another time */
    const void *data;  /**< output: its bytes, until the next call on this log; any bytes at all. Else NULL */
    size_t data_size;
    int64_t lost;      /**< lost: how many bytes; -1: unknown */
    int damaged;       /**< lost: 1: what is stored does not verify */
    int exec_kind;     /**< ended: enum sandbox_exec_kind; 0: it was never executed */
    int code;          /**< ended: as in sandbox_exec_result */
    int signal;
};
#define SANDBOX_LOG_RECORD_INIT { sizeof(struct sandbox_log_record), 0, 0, 0, 0, NULL, 0, 0, 0, 0, -1, 0 }

/**
 * Opens the log of a sandbox: what its daemon wrote, from the first byte, as far as sandbox_spec_set_log_max() keeps it. From any process,
 * whatever the sandbox's state. A sandbox that is started again goes on in the same log. options may be NULL. One without a daemon has an
 * empty log. ENOTFOUND. The caller owns the log. Since 0.1.
 */
SANDBOX_API int sandbox_log_open(struct sandbox *sandbox, const struct sandbox_log_options *options, struct sandbox_log **ret_log,
                                 struct sandbox_error **error);
/** The same for the journal of an exec (sandbox_exec_options.journal_max). EINVALID when it has none; ENOTFOUND when it is gone: 64 are kept,
 * of one run of the sandbox. Since 0.1. */
SANDBOX_API int sandbox_exec_log_open(struct sandbox_exec *exec, const struct sandbox_log_options *options, struct sandbox_log **ret_log,
                                      struct sandbox_error **error);
/**
 * The next record. Returns 1 with a record; 0 at the end; ETIMEDOUT when nothing came in time (timeout_ms 0: polls). A reader that is slower
 * than the cap gets a record of what it lost, never silence. One call at a time on one log: EBUSY. Since 0.1.
 */
SANDBOX_API int sandbox_log_read(struct sandbox_log *log, int64_t timeout_ms, struct sandbox_log_record *ret_record,
                                 struct sandbox_error **error);
/** With follow: a descriptor that polls readable when there may be more, once a read has told ETIMEDOUT. It belongs to the log. Negative:
 * not followed, it never waits. Since 0.1. */
SANDBOX_API int sandbox_log_get_fd(struct sandbox_log *log);
/** NULL is allowed. Returns NULL. Since 0.1. */
SANDBOX_API struct sandbox_log *sandbox_log_close(struct sandbox_log *log);
/**
 * Waits until the daemon, as it was last started, has written the marker (1 to 65,536 bytes, in one of the streams; 0: both), from its first
 * byte on. ret_position (may be NULL) is the position behind it. ETIMEDOUT; ENOTRUNNING when the daemon ended without it: the hint has the
 * end of its log. Since 0.1.
 */
SANDBOX_API int sandbox_log_wait(struct sandbox *sandbox, const void *marker, size_t marker_size, unsigned int streams, int64_t timeout_ms,
                                 int64_t *ret_position, struct sandbox_error **error);
/**
 * Waits until the daemon has ended; result (may be NULL) says how. At once when it had already, also in a sandbox that was stopped. A log
 * that is opened after that has all that the daemon wrote (but for one whose keeper hangs: then what is there after a second).
 * ENOTRUNNING: it was never started. Since 0.1.
 */
SANDBOX_API int sandbox_wait(struct sandbox *sandbox, int64_t timeout_ms, struct sandbox_exec_result *result, struct sandbox_error **error);

/* ---------------------------------------------------------------------------------------------- endpoints ---- */

/**
 * Connects to a TCP port (1 to 65535) on the sandbox's own loopback. The descriptor is a connected stream socket that belongs to the
 * caller; shutdown(SHUT_WR) passes. ENOTRUNNING, EIO with ECONNREFUSED (retryable), ETIMEDOUT. Since 0.1.
 */
SANDBOX_API int sandbox_dial(struct sandbox *sandbox, int port, int64_t timeout_ms, int *ret_fd, struct sandbox_error **error);
/**
 * Listens on 127.0.0.1:local_port (0: a free one is chosen) and carries each connection to the TCP port (1 to 65535) on the sandbox's own
 * loopback; half-closes and resets pass. Every user of this machine can connect to it: sandbox_dial() is the private way. A
 * connection for which nobody answers inside is reset. The sandbox needn't run yet: the forward stays, too, when it stops
 * (its connections end), and serves again when it was started again. 4,096 connections at once, fewer under a low limit of
 * descriptors; more wait. It ends with this process. EBUSY (the local port is in use), EDENIED (a local port below 1024),
 * ENOTFOUND, EUNSUPPORTED on hosts that cannot. The caller owns the forward: sandbox_forward_close(). Since 0.1.
 */
SANDBOX_API int sandbox_forward_open(struct sandbox *sandbox, int port, int local_port, struct sandbox_forward **ret_forward,
                                     struct sandbox_error **error);
/** The port on 127.0.0.1 (1 to 65535); EINVALID for NULL, EFORKED. Since 0.1. */
SANDBOX_API int sandbox_forward_get_port(const struct sandbox_forward *forward);

/** How a forward is. */
struct sandbox_forward_status {
    size_t size;
    int healthy;            /**< 1: it listens, and the sandbox's end can be reached */
    int listening;          /**< 1: it listens; 0: it never will again, open another */
    int64_t accepted;       /**< connections since it was opened */
    int64_t active;         /**< of them, those that stand or are being made */
    int64_t failed;         /**< of them, those for which nobody answered inside */
    int64_t bytes_in;       /**< carried into the sandbox */
    int64_t bytes_out;      /**< carried out of it */
    char cause[128];        /**< when not healthy: why, NUL-terminated */
    char last_failure[128]; /**< of the last failed connection: why; "" when there was none */
};
#define SANDBOX_FORWARD_STATUS_INIT { sizeof(struct sandbox_forward_status), 0, 0, 0, 0, 0, 0, 0, { 0 }, { 0 } }
/** Looks how it is, now; does not wait. status->size must be set (SANDBOX_FORWARD_STATUS_INIT). Since 0.1. */
SANDBOX_API int sandbox_forward_get_status(struct sandbox_forward *forward, struct sandbox_forward_status *status,
                                           struct sandbox_error **error);
/** Closes the listener and all its connections; they are gone when it returns. NULL is allowed. Returns NULL. Since 0.1. */
SANDBOX_API struct sandbox_forward *sandbox_forward_close(struct sandbox_forward *forward);

/* ------------------------------------------------------------------------------------------------- events ---- */

enum sandbox_event_type {
    SANDBOX_EVENT_UNKNOWN = 0,       /**< of a newer library; the JSON has it */
    SANDBOX_EVENT_CREATED = 1,
    SANDBOX_EVENT_STARTED = 2,
    SANDBOX_EVENT_DAEMON_EXITED = 3, /**< attributes "kind", "code", "signal" */
    SANDBOX_EVENT_EXEC_STARTED = 4,  /**< attribute "exec", its id, "" where it is not known */
    SANDBOX_EVENT_EXEC_EXITED = 5,   /**< attributes "exec", "kind" (exited signalled deadline killed oom lost), "code", "signal" */
    SANDBOX_EVENT_STOPPED = 6,       /**< on request, or its owner ended: attribute "cause" */
    SANDBOX_EVENT_FAILED = 7,        /**< its init died: attribute "cause" */
    SANDBOX_EVENT_DELETED = 8,
    SANDBOX_EVENT_OVERRUN = 9,       /**< events are missing here: attributes "lost" (how many, -1: not known), "cause" */
    SANDBOX_EVENT_PAUSED = 10,
    SANDBOX_EVENT_RESUMED = 11,
    SANDBOX_EVENT_RESTARTED = 12,    /**< its daemon, by its restart policy: attribute "count", of restarts since its start */
    SANDBOX_EVENT_HEALTH = 13,       /**< attribute "health" (starting healthy unhealthy) */
    SANDBOX_EVENT_TTL = 14,          /**< its time to live ended: it is being stopped */
    SANDBOX_EVENT_IDLE = 15,         /**< it was idle for too long: it is being stopped */
    SANDBOX_EVENT_OOM = 16,          /**< the kernel killed inside for want of memory: attribute "kills", how often since the last */
    SANDBOX_EVENT_LIMIT = 17,        /**< a limit was run into: attributes "limit" ("memory", "pids"), "hits" since the last, at most one a
                                          second for each */
    SANDBOX_EVENT_LIMITS = 18,       /**< its limits were changed: attribute "limits", as inspect has them */
    SANDBOX_EVENT_NETWORK_ALLOWED = 19, /**< a proxy of the sandbox's own connected: attributes "host", "port" */
    SANDBOX_EVENT_NETWORK_DENIED = 20   /**< it did not: attributes "host", "port" (0: only the name was asked for), "cause" */
};

/** Which sandboxes to watch; NULL fields don't filter. */
struct sandbox_events_options {
    size_t size;
    const char *id;          /**< this one alone, by its exact id; it must exist */
    const char *label_key;   /**< only those that have this label … */
    const char *label_value; /**< … with this value (NULL: any) */
};
#define SANDBOX_EVENTS_OPTIONS_INIT { sizeof(struct sandbox_events_options), NULL, NULL, NULL }

/**
 * Watches what happens to sandboxes of a host from now on, also when other processes cause it. There is no thread and no daemon behind
 * it: nothing is collected but when sandbox_events_read() is called, and who calls late may get an overrun; a sandbox that came
 * and went between two calls is not told of. options may be NULL. ENOTFOUND, ELIMIT (descriptors, inotify), EUNSUPPORTED.
 * The caller owns it: sandbox_events_close(). Since 0.1.
 */
SANDBOX_API int sandbox_events_open(struct sandbox_host *host, const struct sandbox_events_options *options,
                                    struct sandbox_events **ret_events, struct sandbox_error **error);
/** A descriptor to poll for input; it belongs to the events: do not read or close it. It may be readable and no event there yet. Since 0.1. */
SANDBOX_API int sandbox_events_get_fd(struct sandbox_events *events);
/** The next event; ETIMEDOUT when none came in time. The caller owns it: sandbox_event_unref(). Since 0.1. */
SANDBOX_API int sandbox_events_read(struct sandbox_events *events, int64_t timeout_ms, struct sandbox_event **ret_event,
                                    struct sandbox_error **error);
/** Ends it. NULL is allowed. Returns NULL. Since 0.1. */
SANDBOX_API struct sandbox_events *sandbox_events_close(struct sandbox_events *events);
SANDBOX_API struct sandbox_event *sandbox_event_unref(struct sandbox_event *event);
/** enum sandbox_event_type. Since 0.1. */
SANDBOX_API int sandbox_event_get_type(const struct sandbox_event *event);
/** Id of the sandbox, "" when it is about all of them (an overrun). Since 0.1. */
SANDBOX_API const char *sandbox_event_get_id(const struct sandbox_event *event);
/** Name of the sandbox, "" without one. Since 0.1. */
SANDBOX_API const char *sandbox_event_get_name(const struct sandbox_event *event);
/** Wall-clock time, milliseconds since 1970. For people: events come in order, their times needn't. Since 0.1. */
SANDBOX_API int64_t sandbox_event_get_time_ms(const struct sandbox_event *event);
/** Everything as one JSON object: "type" (as "exec-exited"), "id", "name", "time_ms", "attributes". Since 0.1. */
SANDBOX_API const char *sandbox_event_get_json(const struct sandbox_event *event);

/* ------------------------------------------------------------------------------------ limits and statistics ---- */

/** In a sandbox_limits: this number stays as it is. */
#define SANDBOX_LIMIT_KEEP (-1)

/** How fast a disk may be used. 0: as fast as it is. */
struct sandbox_io_limit {
    size_t size;
    const char *device; /**< of the host: "MAJOR:MINOR", a disk's node, or an absolute path of something on it; up to 255 bytes. A partition
                             stands for its disk. EINVALID at create for a file system without a disk of its own (overlay, tmpfs, btrfs) */
    int64_t read_bps;   /**< bytes a second */
    int64_t write_bps;
    int64_t read_iops;  /**< operations a second */
    int64_t write_iops;
};
#define SANDBOX_IO_LIMIT_INIT { sizeof(struct sandbox_io_limit), NULL, 0, 0, 0, 0 }

/**
 * How much may be used. Each number: SANDBOX_LIMIT_KEEP leaves it as it is, 0 is no limit (or the default), others are EINVALID below the
 * least that a sandbox can live with, and the message names that.
 */
struct sandbox_limits {
    size_t size;
    int64_t memory_max; /**< bytes, at least 4 MiB. Beyond it the kernel kills inside; its init last */
    int64_t swap_max;   /**< bytes of swap beside memory_max; 0: none while there is a memory_max */
    int64_t pids_max;   /**< processes and threads, at least 3; 0: 4,096 */
    int64_t cpu_max;    /**< thousandths of one CPU, at least 10 */
    int64_t cpu_weight; /**< share of CPUs that others want, too: 1 to 10,000; 0: 100 */
    int64_t files_max;  /**< descriptors that each process may have open, at least 16 (all processes together: times pids_max; what the
                             kernel holds for them counts as memory). 0: as many as the caller's process. For what is started from then on */
    const struct sandbox_io_limit *const *io; /**< ended by NULL, up to 8 disks: all that are limited; NULL: stays as it is */
};
#define SANDBOX_LIMITS_INIT { sizeof(struct sandbox_limits), -1, -1, -1, -1, -1, -1, NULL }

/** All limits of a spec in one call. Nothing of the spec changes when it fails. Since 0.1. */
SANDBOX_API int sandbox_spec_set_limits(struct sandbox_spec *spec, const struct sandbox_limits *limits, struct sandbox_error **error);
/**
 * Changes the limits of a sandbox, in any state, now and for every later start. What runs is limited at once (files_max: what is started from
 * then on). EBUSY (retryable) when memory_max is below what is in use and can't be taken back: nothing is killed by it. EDENIED above the
 * host's ceiling; EUNSUPPORTED, naming the field, where a running sandbox can't get this limit: stop it first. After a failure all is
 * as it was; when this process dies within it the new limits stand in the record, and hold from the next start or set on. Since 0.1.
 */
SANDBOX_API int sandbox_set_limits(struct sandbox *sandbox, const struct sandbox_limits *limits, int64_t timeout_ms,
                                   struct sandbox_error **error);

/** What waits for a resource: PSI. */
struct sandbox_pressure {
    int64_t some_us;    /**< how long something waited, all in all; -1: not known */
    int64_t full_us;    /**< how long everything did */
    int64_t some_avg10; /**< share of the last 10 s, in hundredths of a percent; -1: not known */
    int64_t full_avg10;
};
/**
 * What a sandbox uses, from the kernel. A number is -1 where it isn't known, a limit -1 where there is none. The levels (enum
 * sandbox_level) say whose numbers they are: ENFORCED: the kernel's, of all that is inside; WRAPPED: summed up from the processes that live;
 * IMPOSSIBLE: none, for want of the controller.
 */
struct sandbox_stats {
    size_t size;
    int memory_level, pids_level, cpu_level, io_level, pressure_level;
    int64_t time_ns;          /**< CLOCK_MONOTONIC, when it was read */
    int64_t memory;           /**< bytes */
    int64_t memory_peak;      /**< the most there ever was */
    int64_t memory_max;
    int64_t memory_hits;      /**< how often memory_max was run into */
    int64_t oom_kills;
    int64_t swap;             /**< bytes */
    int64_t swap_max;
    int64_t pids;             /**< processes and threads */
    int64_t pids_max;
    int64_t pids_hits;        /**< how often pids_max refused one */
    int64_t cpu_us;           /**< time on CPUs */
    int64_t cpu_user_us;
    int64_t cpu_system_us;
    int64_t cpu_max;          /**< thousandths of one CPU */
    int64_t cpu_periods;      /**< in which there was something to run */
    int64_t cpu_throttled;    /**< of them, those in which cpu_max held it up */
    int64_t cpu_throttled_us;
    int64_t io_read_bytes;    /**< all disks together */
    int64_t io_write_bytes;
    int64_t io_reads;
    int64_t io_writes;
    struct sandbox_pressure memory_pressure, cpu_pressure, io_pressure;
};
#define SANDBOX_STATS_INIT                                                                                                       \
    { sizeof(struct sandbox_stats), 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,    \
      -1, -1, -1, { -1, -1, -1, -1 }, { -1, -1, -1, -1 }, { -1, -1, -1, -1 } }
/**
 * Reads what a sandbox uses now. stats->size must be set (SANDBOX_STATS_INIT). ENOTRUNNING, ENOTFOUND. Does not wait, and needs nothing of
 * what is inside. Since 0.1.
 */
SANDBOX_API int sandbox_get_stats(struct sandbox *sandbox, struct sandbox_stats *stats, struct sandbox_error **error);

/* -------------------------------------------------------------------------------------------------- files ---- */

enum sandbox_file_type {
    SANDBOX_FILE_REGULAR = 1,
    SANDBOX_FILE_FOLDER = 2,
    SANDBOX_FILE_LINK = 3, /**< a symbolic link */
    SANDBOX_FILE_FIFO = 4,
    SANDBOX_FILE_SOCKET = 5,
    SANDBOX_FILE_DEVICE = 6
};

/** What calls on files may be told; each call names those that it knows. */
#define SANDBOX_FILE_FOLLOW (1u << 0)    /**< a link at the path's end is followed */
#define SANDBOX_FILE_APPEND (1u << 1)    /**< write at the end of what is there */
#define SANDBOX_FILE_EXCLUSIVE (1u << 2) /**< EEXISTS when something is there */
#define SANDBOX_FILE_PARENTS (1u << 3)   /**< make missing folders above (0755, owned by the sandbox's root) */
#define SANDBOX_FILE_RECURSIVE (1u << 4) /**< a folder with all that is in it */

#define SANDBOX_FILE_MERGE (1u << 5)     /**< into a folder that is there: its other files stay */
#define SANDBOX_FILE_KEEP_OWNERS (1u << 6) /**< owners as numbers, as they are inside; root only */

/** A file as it was at one moment. */
struct sandbox_file_info {
    size_t size;
    int type;         /**< enum sandbox_file_type */
    int mode;         /**< permission bits, set-id and sticky bits: 0 to 07777 */
    int64_t uid;      /**< as the sandbox sees it; 65534 for an id that it has not */
    int64_t gid;
    int64_t bytes;    /**< its size, holes included */
    int64_t mtime_ns; /**< time of its last change, nanoseconds since 1970 */
};
#define SANDBOX_FILE_INFO_INIT { sizeof(struct sandbox_file_info), 0, 0, 0, 0, 0, 0 }

/*
 * Calls on files work in the states created and running (else ENOTRUNNING). The path is absolute, without "..", and means what it means
 * to the sandbox's root, who does the work, inside: links on the way lead where they lead there, never out of the sandbox. Files that
 * the kernel shows of itself (/proc, /sys) are neither read nor written: EDENIED.
 * Errors of all of them: EINVALID, ENOTFOUND, EEXISTS, EDENIED, ENOSPACE, EREADONLY, ELIMIT (64 calls on one sandbox's files at a time, its
 * processes), EBUSY, ENOTRUNNING, ETIMEDOUT; the error's field is "path" where the path is at fault. A path in a file system that hangs
 * makes the call time out and hurts nothing else.
 */
/** What is at a path. Flags: FOLLOW. Since 0.1. */
SANDBOX_API int sandbox_file_stat(struct sandbox *sandbox, const char *path, unsigned int flags, int64_t timeout_ms,
                                  struct sandbox_file_info *info, struct sandbox_error **error);
/** Where a symbolic link leads: any bytes but NUL. EINVALID for another thing. Released by sandbox_buffer_free(). Since 0.1. */
SANDBOX_API int sandbox_file_read_link(struct sandbox *sandbox, const char *path, int64_t timeout_ms, char **ret_target,
                                       struct sandbox_error **error);
/**
 * Reads at most `max` bytes of a regular file from an offset (0 or more); fewer at its end, none behind it. A link at the path's end is
 * followed. *ret_data has a NUL after it that *ret_size does not count; released by sandbox_buffer_free(). Since 0.1.
 */
SANDBOX_API int sandbox_file_read(struct sandbox *sandbox, const char *path, int64_t offset, size_t max, int64_t timeout_ms,
                                  char **ret_data, size_t *ret_size, struct sandbox_error **error);
/** Releases what a call on files gave. NULL is allowed. Since 0.1. */
SANDBOX_API void sandbox_buffer_free(char *buffer);

struct sandbox_file_write_options {
    size_t size;
    int mode;           /**< 0 to 07777; -1: as the file that is replaced, else 0644 */
    unsigned int flags; /**< APPEND, EXCLUSIVE, PARENTS */
    int64_t uid;        /**< -1: as the file that is replaced, else 0 */
    int64_t gid;
};
#define SANDBOX_FILE_WRITE_OPTIONS_INIT { sizeof(struct sandbox_file_write_options), -1, 0, -1, -1 }
/**
 * Makes `data` a file's content. Who reads it sees the old content or the new one, never a part, whatever fails (but for APPEND, which
 * writes in place). A link at the path's end is replaced, not followed. options may be NULL. Since 0.1.
 */
SANDBOX_API int sandbox_file_write(struct sandbox *sandbox, const char *path, const void *data, size_t size,
                                   const struct sandbox_file_write_options *options, int64_t timeout_ms, struct sandbox_error **error);
/** Removes a file, a link (never what it leads to) or a folder: an empty one, or with RECURSIVE. EEXISTS: it is not empty. Since 0.1. */
SANDBOX_API int sandbox_file_remove(struct sandbox *sandbox, const char *path, unsigned int flags, int64_t timeout_ms,
                                    struct sandbox_error **error);
/**
 * Makes a folder owned by the sandbox's root; one that is there is success without EXCLUSIVE. mode -1: 0755. Flags: EXCLUSIVE, PARENTS.
 * Since 0.1.
 */
SANDBOX_API int sandbox_file_make_folder(struct sandbox *sandbox, const char *path, int mode, unsigned int flags, int64_t timeout_ms,
                                         struct sandbox_error **error);
/**
 * Renames, replacing what is at `to` but a folder that is not empty. Flags: EXCLUSIVE, PARENTS (of `to`). EUNSUPPORTED across mounts and
 * for folders of the image. Since 0.1.
 */
SANDBOX_API int sandbox_file_rename(struct sandbox *sandbox, const char *from, const char *to, unsigned int flags, int64_t timeout_ms,
                                    struct sandbox_error **error);

struct sandbox_folder; /**< a folder being listed */
/**
 * Lists a folder, page by page with bounded memory, however many entries it has; in its own order, without "." and "..". What is made or
 * removed meanwhile may be there or not. While it is open a process of the sandbox stands by (it counts among the 64). The caller owns it;
 * one thread at a time. Since 0.1.
 */
SANDBOX_API int sandbox_folder_open(struct sandbox *sandbox, const char *path, int64_t timeout_ms, struct sandbox_folder **ret_folder,
                                    struct sandbox_error **error);
/**
 * The next entry: its name (any bytes but NUL and '/'; it lives until the next call), links not followed; *ret_name is NULL at the end.
 * info may be NULL. Since 0.1.
 */
SANDBOX_API int sandbox_folder_next(struct sandbox_folder *folder, int64_t timeout_ms, const char **ret_name,
                                    struct sandbox_file_info *info, struct sandbox_error **error);
/** Ends the listing. NULL is allowed. Returns NULL. Since 0.1. */
SANDBOX_API struct sandbox_folder *sandbox_folder_close(struct sandbox_folder *folder);

/** What goes in or comes out. */
enum sandbox_stream {
    SANDBOX_STREAM_AUTO = 0, /**< a file or a folder, by what is there; not for descriptors */
    SANDBOX_STREAM_TAR = 1,  /**< a tar (ustar, pax, GNU), not compressed */
    SANDBOX_STREAM_FILE = 2  /**< one file's bytes */
};

struct sandbox_upload_options {
    size_t size;
    int format;           /**< enum sandbox_stream */
    int source_fd;        /**< with source NULL: read to its end (a file: from where it stands; where it stands then is not said); -1: none */
    unsigned int flags;   /**< PARENTS; EXCLUSIVE for one file */
    int mode;             /**< of files, 0 to 07777; -1: as they come (bytes from a descriptor: as what is replaced, else 0644) */
    int64_t uid;          /**< owner of everything; -1: as it comes */
    int64_t gid;
    int64_t max_bytes;    /**< ELIMIT beyond so many bytes of content; 0: no limit */
    int64_t max_entries;  /**< ELIMIT beyond so many files and folders; 0: no limit */
};
#define SANDBOX_UPLOAD_OPTIONS_INIT { sizeof(struct sandbox_upload_options), 0, -1, 0, -1, -1, -1, 0, 0 }

/**
 * Copies into a sandbox that is created or running: a file of this machine to the path `target`, which it replaces when it is whole; or a
 * folder's or tar's content into the folder `target`, made (0755) when it is not there. Modes, owners, times to the nanosecond, user
 * attributes, symbolic and hard links, fifos and holes are kept; file capabilities are not. Names are any bytes; an entry may lie 128
 * folders deep and have a path of 4,095 bytes.
 *
 * Owners from a path of this machine: the caller's own become 0:0, others stay as numbers. Where a sandbox has one id only everything
 * becomes 0:0; elsewhere an owner that it has not is EUNSUPPORTED, naming the entry.
 * A folder may change while it is read: what vanishes is left out, what shrinks is EBUSY. Sockets are left out.
 * What an archive says is not believed: an absolute name, "..", or a name behind a symbolic link is EDAMAGED and a device EUNSUPPORTED, naming
 * the entry; a folder never takes another file's place, nor the other way round (EEXISTS). A tar without its end mark is EDAMAGED.
 * What was unpacked before a failure stays, but for the file under way. Other errors: as all calls on files; ENOTFOUND and EDENIED also for
 * the source (field "source").
 */
SANDBOX_API int sandbox_upload(struct sandbox *sandbox, const char *source, const char *target,
                               const struct sandbox_upload_options *options, int64_t timeout_ms, struct sandbox_error **error);
/** The same as an operation; its progress counts bytes of content. Descriptors are duplicated here. Since 0.1. */
SANDBOX_API int sandbox_upload_begin(struct sandbox *sandbox, const char *source, const char *target,
                                     const struct sandbox_upload_options *options, struct sandbox_op **ret_op,
                                     struct sandbox_error **error);

struct sandbox_download_options {
    size_t size;
    int format;           /**< enum sandbox_stream; with a descriptor TAR or FILE */
    int target_fd;        /**< with target NULL: written to; -1: none */
    unsigned int flags;   /**< to a path: EXCLUSIVE (one file), MERGE, KEEP_OWNERS */
    const char *top;      /**< TAR: what the first entry is called, a plain name; NULL: a folder ".", a file by its own name */
    int64_t max_bytes;    /**< ELIMIT beyond so many bytes of content; 0: no limit. A sandbox is not trusted: choose one */
    int64_t max_entries;  /**< ELIMIT beyond so many files and folders; 0: no limit */
};
#define SANDBOX_DOWNLOAD_OPTIONS_INIT { sizeof(struct sandbox_download_options), 0, -1, 0, NULL, 0, 0 }

/**
 * Copies out of a sandbox that is created or running: a file to the path `target` of this machine, which it replaces when it is whole; a
 * folder to `target`, where nothing is or an empty folder (else EEXISTS), and which appears when it is whole; with MERGE into the folder
 * that is there. Or as a stream into a descriptor. A link at the end of `source` is followed to a file or folder.
 *
 * What comes is hostile: a folder is unpacked by a confined helper process, which follows no link and makes nothing outside of it. Everything
 * belongs to the caller unless KEEP_OWNERS asks otherwise; set-id bits are dropped, devices are EUNSUPPORTED, sockets left out.
 * After a failure, a cancel or the death of this process nothing is left of it (with MERGE: what was copied before stays). Not flushed to
 * the disk.
 */
SANDBOX_API int sandbox_download(struct sandbox *sandbox, const char *source, const char *target,
                                 const struct sandbox_download_options *options, int64_t timeout_ms, struct sandbox_error **error);
/** The same as an operation; its progress counts bytes of content. Descriptors are duplicated here. Since 0.1. */
SANDBOX_API int sandbox_download_begin(struct sandbox *sandbox, const char *source, const char *target,
                                       const struct sandbox_download_options *options, struct sandbox_op **ret_op,
                                       struct sandbox_error **error);

/* ------------------------------------------------------------------------------------------------- images ---- */

enum sandbox_image_format {
    SANDBOX_IMAGE_FORMAT_AUTO = 0,           /**< found out by looking */
    SANDBOX_IMAGE_FORMAT_ROOTFS_FOLDER = 1,  /**< a folder that is a root file system; copied */
    SANDBOX_IMAGE_FORMAT_ROOTFS_TAR = 2,     /**< a tar of a root file system; plain, gzip, zstd or xz */
    SANDBOX_IMAGE_FORMAT_OCI_LAYOUT = 3,     /**< a folder or tar with an oci-layout file */
    SANDBOX_IMAGE_FORMAT_DOCKER_ARCHIVE = 4  /**< what `docker save` writes */
};

struct sandbox_image_import_options {
    size_t size;
    int format;           /**< enum sandbox_image_format */
    const char *name;     /**< a name for the image, replacing an older holder of it; NULL: none */
    const char *digest;   /**< "sha256:…": the manifest or config digest it must have; NULL: any */
    const char *select;   /**< which image of a source that holds several, by reference name or tag; NULL: the only one */
    int64_t max_bytes;    /**< most bytes after decompression; 0: 64 GiB */
    int64_t max_entries;  /**< most archive entries; 0: 4,000,000 */
};
#define SANDBOX_IMAGE_IMPORT_OPTIONS_INIT { sizeof(struct sandbox_image_import_options), 0, NULL, NULL, NULL, 0, 0 }

/**
 * Imports an image from a file or folder of this machine. Every digest is checked; layers are unpacked once, by digest, in a
 * confined helper process. Importing the same image again is cheap and gives the same digests. Errors: EINVALID, ENOTFOUND, EDIGEST, EDAMAGED (not an
 * image, an entry that leaves the root), ELIMIT, EUNSUPPORTED (architecture, media type), ENOSPACE. The caller owns the image. Since 0.1.
 */
SANDBOX_API int sandbox_image_import(struct sandbox_host *host, const char *source, const struct sandbox_image_import_options *options,
                                     int64_t timeout_ms, struct sandbox_image **ret_image, struct sandbox_error **error);
SANDBOX_API int sandbox_image_import_begin(struct sandbox_host *host, const char *source,
                                           const struct sandbox_image_import_options *options, struct sandbox_op **ret_op,
                                           struct sandbox_error **error);
/** What a pull may use of what is here. */
enum sandbox_pull_policy {
    SANDBOX_PULL_ALWAYS = 0, /**< the registry says what a tag stands for now; what is pinned by digest and here needs no registry */
    SANDBOX_PULL_MISSING = 1 /**< the registry is asked only for what isn't here */
};
#define SANDBOX_PULL_PLAIN_HTTP (1u << 0) /**< without TLS: whoever is between can read credentials and choose what a tag means */

struct sandbox_image_pull_options {
    size_t size;
    int policy;                    /**< enum sandbox_pull_policy */
    unsigned int flags;            /**< SANDBOX_PULL_… */
    const char *name;              /**< a name besides the reference, as at import; NULL: none */
    const char *digest;            /**< "sha256:…" that the image must have, of its manifest or its config; NULL: any */
    const char *username;          /**< with password: credentials for this registry */
    const char *password;          /**< without username: a token that the registry itself takes */
    const char *docker_config;     /**< file with credentials in the form of Docker's config.json; NULL: none is looked for */
    const char *helper_path;       /**< folders, separated by ':', for the credential helpers that it names; NULL: /usr/local/bin:/usr/bin:/bin */
    const char *const *helper_env; /**< their environment, "NAME=VALUE", NULL-terminated; NULL: empty */
    const char *ca_file;           /**< certificates (PEM) to trust, instead of the system's; NULL: the system's */
    const char *proxy;             /**< URL of an HTTP proxy; NULL: none */
    const char *no_proxy;          /**< hosts that are reached without it, separated by commas; NULL: none */
    int64_t max_bytes;             /**< as at import, for the compressed layers too; 0: 64 GiB */
    int64_t max_entries;           /**< as at import; 0: 4,000,000 */
    int parallel;                  /**< transfers at once, 1 to 16; 0: 4 */
};
#define SANDBOX_IMAGE_PULL_OPTIONS_INIT                                                                                          \
    { sizeof(struct sandbox_image_pull_options), 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0 }
/**
 * Pulls an image from a registry: [docker://][HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]. It is found afterwards by that reference and by its
 * digests. https, but for registries on this machine's loopback that speak http alone, and where PLAIN_HTTP asks for it. Every digest and
 * size is checked; layers that are here are not fetched; what a failed pull has fetched is gone on with by the next one, until
 * sandbox_images_collect(). Credentials are sent to this registry, and the token server that it names, alone. A helper process talks to
 * the network; the library opens no connection. options may be NULL. Errors: EINVAL, EDENIED (credentials, certificates), ENOTFOUND,
 * EDIGEST, EDAMAGED, ELIMIT, EUNSUPPORTED (architecture, media type; built without libcurl), EBUSY (too many requests), EPROTOCOL, EIO (the
 * network; retryable), ENOSPACE. The caller owns the image. Since 0.1.
 */
SANDBOX_API int sandbox_image_pull(struct sandbox_host *host, const char *reference, const struct sandbox_image_pull_options *options,
                                   int64_t timeout_ms, struct sandbox_image **ret_image, struct sandbox_error **error);
SANDBOX_API int sandbox_image_pull_begin(struct sandbox_host *host, const char *reference, const struct sandbox_image_pull_options *options,
                                         struct sandbox_op **ret_op, struct sandbox_error **error);

#define SANDBOX_COLLECT_UNNAMED (1u << 0) /**< images, too, that have no name and no sandbox */
#define SANDBOX_COLLECT_UNUSED (1u << 1)  /**< all images on which no sandbox stands */
struct sandbox_collected {
    size_t size;
    int64_t images;
    int64_t layers;
    int64_t downloads; /**< layers that were downloaded and not unpacked, whole or in part */
    int64_t bytes;     /**< of layers and downloads, about */
};
#define SANDBOX_COLLECTED_INIT { sizeof(struct sandbox_collected), 0, 0, 0, 0 }
/**
 * Removes what no image needs: unused layers, what killed imports and pulls left behind, and, where flags say so, images. What a sandbox
 * stands on, or is being imported, pulled or created in any process, stays. While an import or pull is under way the layers are left to
 * it. ret_collected may be NULL. Since 0.1.
 */
SANDBOX_API int sandbox_images_collect(struct sandbox_host *host, unsigned int flags, int64_t timeout_ms, struct sandbox_collected *ret_collected,
                                       struct sandbox_error **error);
SANDBOX_API int sandbox_images_collect_begin(struct sandbox_host *host, unsigned int flags, struct sandbox_op **ret_op,
                                             struct sandbox_error **error);
/** What a collect removed, as often as asked, after it succeeded. Since 0.1. */
SANDBOX_API int sandbox_op_get_collected(struct sandbox_op *op, struct sandbox_collected *ret_collected, struct sandbox_error **error);

/** An image by name, reference or digest ("sha256:…", manifest or config). The caller owns it. Since 0.1. */
SANDBOX_API int sandbox_image_open(struct sandbox_host *host, const char *name, struct sandbox_image **ret_image,
                                   struct sandbox_error **error);
SANDBOX_API struct sandbox_image *sandbox_image_unref(struct sandbox_image *image);
/** Manifest digest; "" for image "host". Since 0.1. */
SANDBOX_API const char *sandbox_image_get_digest(const struct sandbox_image *image);
/** Config digest; "" for image "host". Since 0.1. */
SANDBOX_API const char *sandbox_image_get_config_digest(const struct sandbox_image *image);
/** Its name, "" without one. Since 0.1. */
SANDBOX_API const char *sandbox_image_get_name(const struct sandbox_image *image);
/** Bytes its layers occupy when unpacked, shared ones included. Since 0.1. */
SANDBOX_API int64_t sandbox_image_get_bytes(const struct sandbox_image *image);
/** Everything as one JSON object. Since 0.1. */
SANDBOX_API const char *sandbox_image_get_json(const struct sandbox_image *image);
/** All images. The caller owns the list. Since 0.1. */
SANDBOX_API int sandbox_host_list_images(struct sandbox_host *host, struct sandbox_image_list **ret_list, struct sandbox_error **error);
SANDBOX_API size_t sandbox_image_list_get_count(const struct sandbox_image_list *list);
SANDBOX_API const struct sandbox_image *sandbox_image_list_get(const struct sandbox_image_list *list, size_t index);
SANDBOX_API struct sandbox_image_list *sandbox_image_list_unref(struct sandbox_image_list *list);
/** Removes a name or reference (the image goes with its last one) or, by digest, the image. EBUSY while a sandbox stands on it, naming it. Since 0.1. */
SANDBOX_API int sandbox_image_remove(struct sandbox_host *host, const char *name, struct sandbox_error **error);

/* ----------------------------------------------------------------------------------------- overlay mounts ---- */

/*
 * What a sandbox wrote over a folder of the host (SANDBOX_MOUNT_OVERLAY), by the target of the mount as the spec has it, in every state.
 * It is looked at from outside, by a helper process that opens nothing but folders and follows no link; while the sandbox runs it is a
 * picture of a moving thing. inspect says of each overlay how it is made: {"overlay": {"kind": "kernel" or "copy", "reason"}}.
 */
enum sandbox_diff_kind {
    SANDBOX_DIFF_ADDED = 1,
    SANDBOX_DIFF_CHANGED = 2, /**< it was opened for writing, or its mode or type changed; also when it is the same again */
    SANDBOX_DIFF_REMOVED = 3, /**< with all that is below it */
    SANDBOX_DIFF_FOUND = 4    /**< of sandbox_secrets_scan(): it has a secret's name */
};
struct sandbox_diff_options {
    size_t size;
    int64_t max_entries; /**< most entries to list, up to 1,000,000; 0: 100,000 */
};
#define SANDBOX_DIFF_OPTIONS_INIT { sizeof(struct sandbox_diff_options), 0 }
struct sandbox_diff_entry {
    size_t size;
    const char *path; /**< relative to the folder, any bytes; lives as long as the diff */
    int kind;         /**< enum sandbox_diff_kind */
    int type;         /**< enum sandbox_file_type, of what is there now; removed: of what was */
    int64_t bytes;    /**< what it takes on the disk; 0: removed */
};
#define SANDBOX_DIFF_ENTRY_INIT { sizeof(struct sandbox_diff_entry), NULL, 0, 0, 0 }
/**
 * What differs from the host's folder as it is now, sorted by path. options may be NULL. ENOTFOUND (no such sandbox or target), EINVALID
 * (no overlay). The caller owns the diff. Since 0.1.
 */
SANDBOX_API int sandbox_mount_diff(struct sandbox *sandbox, const char *target, const struct sandbox_diff_options *options,
                                   int64_t timeout_ms, struct sandbox_diff **ret_diff, struct sandbox_error **error);
SANDBOX_API int sandbox_mount_diff_begin(struct sandbox *sandbox, const char *target, const struct sandbox_diff_options *options,
                                         struct sandbox_op **ret_op, struct sandbox_error **error);
/**
 * The same as a tar onto a descriptor, in the form of an OCI layer: what is new or changed, with its content, and for what was removed an
 * empty file ".wh.NAME". It is made by a confined helper process. Owners are the inside's ids; xattrs are those of "user."; set-id bits are kept: who
 * unpacks it must not trust them. Left out are sockets, devices, and files whose own names begin with ".wh."; ret_truncated (may be NULL) is
 * 1 then. EBUSY: a file shrank while it was read; EIO: the reader is gone. What was written before stays. The descriptor is duplicated,
 * and stays the caller's. Since 0.1.
 */
SANDBOX_API int sandbox_mount_tar(struct sandbox *sandbox, const char *target, int fd, int64_t timeout_ms, int *ret_truncated,
                                  struct sandbox_error **error);
/** As an operation; what it leaves out is then told by sandbox_op_take_diff(), whose diff has no entries. Since 0.1. */
SANDBOX_API int sandbox_mount_tar_begin(struct sandbox *sandbox, const char *target, int fd, struct sandbox_op **ret_op,
                                        struct sandbox_error **error);
/** The result of a diff; once, after it succeeded. The caller owns it. Since 0.1. */
SANDBOX_API int sandbox_op_take_diff(struct sandbox_op *op, struct sandbox_diff **ret_diff, struct sandbox_error **error);
SANDBOX_API struct sandbox_diff *sandbox_diff_unref(struct sandbox_diff *diff);
SANDBOX_API size_t sandbox_diff_get_count(const struct sandbox_diff *diff);
/** Fills the entry at an index; ENOTFOUND beyond the last. entry->size must be set (SANDBOX_DIFF_ENTRY_INIT). Since 0.1. */
SANDBOX_API int sandbox_diff_get(const struct sandbox_diff *diff, size_t index, struct sandbox_diff_entry *ret_entry);
/** 1: there are more than were asked for, or folders too deep (800 levels) or too hidden to look into. Since 0.1. */
SANDBOX_API int sandbox_diff_get_truncated(const struct sandbox_diff *diff);

/**
 * Looks for names of secrets in a folder of the host's machine, as a create does whose spec says so (sandbox_spec_set_secrets()), with
 * progress. Entries are of kind SANDBOX_DIFF_FOUND, of a folder with a secret's name that alone; truncated: not everything was looked
 * at. patterns may be NULL; max_names 0: 5,000,000. Since 0.1.
 */
SANDBOX_API int sandbox_secrets_scan(struct sandbox_host *host, const char *folder, const char *const *patterns, int64_t max_names,
                                     int64_t timeout_ms, struct sandbox_diff **ret_diff, struct sandbox_error **error);
SANDBOX_API int sandbox_secrets_scan_begin(struct sandbox_host *host, const char *folder, const char *const *patterns, int64_t max_names,
                                           struct sandbox_op **ret_op, struct sandbox_error **error);

struct sandbox_mount_usage {
    size_t size;
    int64_t bytes;   /**< what the layer takes on the disk; of a copy, all of it */
    int64_t entries; /**< files, folders and marks of removal in it */
    int truncated;   /**< 1: there are folders too deep to look into */
};
#define SANDBOX_MOUNT_USAGE_INIT { sizeof(struct sandbox_mount_usage), 0, 0, 0 }
/** How much a layer takes. Errors as above. Since 0.1. */
SANDBOX_API int sandbox_mount_usage(struct sandbox *sandbox, const char *target, int64_t timeout_ms, struct sandbox_mount_usage *ret_usage,
                                    struct sandbox_error **error);
SANDBOX_API int sandbox_mount_usage_begin(struct sandbox *sandbox, const char *target, struct sandbox_op **ret_op,
                                          struct sandbox_error **error);
/** The result of a usage, as often as asked, after it succeeded. Since 0.1. */
SANDBOX_API int sandbox_op_get_mount_usage(struct sandbox_op *op, struct sandbox_mount_usage *ret_usage, struct sandbox_error **error);
/**
 * Begins anew: the target is as the host's folder is. While the sandbox runs the mount is exchanged, and for a moment there is an empty folder
 * at its place; EBUSY, naming them, when processes inside have files, folders or maps of it in use, and when another mount lies on it.
 * Cancelled, or when this process dies, it is done, or it isn't, or (between the two) the place is an empty folder until the next reset or start.
 * Returns before the old layer is gone from the disk: a helper process removes it. Since 0.1.
 */
SANDBOX_API int sandbox_mount_reset(struct sandbox *sandbox, const char *target, int64_t timeout_ms, struct sandbox_error **error);
SANDBOX_API int sandbox_mount_reset_begin(struct sandbox *sandbox, const char *target, struct sandbox_op **ret_op,
                                          struct sandbox_error **error);

/* ----------------------------------------------------------------------------------------------- networks ---- */

struct sandbox_networks; /**< networks found by sandbox_host_list_networks() */

/**
 * Replaces the rules of a sandbox's proxy (NULL-terminated, as sandbox_spec_add_allowed(); an empty list lets nothing through), at once when it
 * runs and for its next start. Connections that stand stay. EINVALID (a rule; another kind of network; a named one: sandbox_network_set_allowed()),
 * ELIMIT, ENOTFOUND. Since 0.1.
 */
SANDBOX_API int sandbox_set_allowed(struct sandbox *sandbox, const char *const *rules, struct sandbox_error **error);

struct sandbox_network_options {
    size_t size;
    int kind;                       /**< SANDBOX_NETWORK_NONE, _NAT or _PROXY */
    const char *const *allowed;     /**< proxy: rules, NULL-terminated; NULL: none */
    const char *const *dns_servers; /**< as sandbox_spec_add_dns_server(), NULL-terminated; NULL: the host's */
};
#define SANDBOX_NETWORK_OPTIONS_INIT { sizeof(struct sandbox_network_options), 0, NULL, NULL }
/**
 * Makes a network of a name that sandboxes of this host can be in, until it is removed. It takes nothing of the machine while no sandbox of
 * it runs. options may be NULL: none. EEXISTS, EINVALID. Since 0.1.
 */
SANDBOX_API int sandbox_network_create(struct sandbox_host *host, const char *name, const struct sandbox_network_options *options,
                                       struct sandbox_error **error);
/** As sandbox_set_allowed(), for all sandboxes in it. Since 0.1. */
SANDBOX_API int sandbox_network_set_allowed(struct sandbox_host *host, const char *name, const char *const *rules,
                                            struct sandbox_error **error);
/** Removes it. EBUSY while a sandbox, running or not, names it. ENOTFOUND. Since 0.1. */
SANDBOX_API int sandbox_network_remove(struct sandbox_host *host, const char *name, struct sandbox_error **error);
/** All networks. The caller owns the list. Since 0.1. */
SANDBOX_API int sandbox_host_list_networks(struct sandbox_host *host, struct sandbox_networks **ret_networks, struct sandbox_error **error);
SANDBOX_API size_t sandbox_networks_get_count(const struct sandbox_networks *networks);
/** Name of the network at an index below the count, else NULL. Since 0.1. */
SANDBOX_API const char *sandbox_networks_get_name(const struct sandbox_networks *networks, size_t index);
/** The same as JSON: {"name", "kind", "allowed": [], "dns": []}. Since 0.1. */
SANDBOX_API const char *sandbox_networks_get_json(const struct sandbox_networks *networks, size_t index);
SANDBOX_API struct sandbox_networks *sandbox_networks_unref(struct sandbox_networks *networks);

/* ------------------------------------------------------------------------------------------------ volumes ---- */

/** Makes a volume: a folder that outlives sandboxes, on the state root's file system. EEXISTS. Since 0.1. */
SANDBOX_API int sandbox_volume_create(struct sandbox_host *host, const char *name, struct sandbox_error **error);
enum sandbox_volume_kind {
    SANDBOX_VOLUME_FOLDER = 0, /**< a folder on the state root's file system; as large as that */
    SANDBOX_VOLUME_DISK = 1    /**< an image with a file system of its own, made by this machine's mkfs and mounted by a loop device; root only */
};
/** Also on a file system that isn't ext4, xfs or btrfs: whether locks and databases of several sandboxes are safe there is the caller's to know. */
#define SANDBOX_VOLUME_ANY_FILE_SYSTEM (1u << 0)
struct sandbox_volume_options {
    size_t size;
    int kind;                /**< enum sandbox_volume_kind */
    int64_t bytes;           /**< disk: its size, 1 MiB or more (a file system may want more); folder: 0 */
    const char *file_system; /**< disk: "ext4" (NULL), "xfs" or "btrfs"; folder: NULL */
    const char *owner;       /**< "UID:GID", the ids on the host that are 0:0 in every sandbox, as a mount's owner; NULL: root's, or the caller's */
    unsigned int flags;      /**< SANDBOX_VOLUME_… */
};
#define SANDBOX_VOLUME_OPTIONS_INIT { sizeof(struct sandbox_volume_options), 0, 0, NULL, NULL, 0 }
/**
 * Makes a volume as the options say (NULL: as sandbox_volume_create(), which makes a folder). Several sandboxes may have it at once. It
 * is refused to a second kernel: EBUSY when a sandbox with it is created or started. EEXISTS, EINVALID, EUNSUPPORTED (file system, mkfs,
 * a user's disk or owner), ENOSPACE. Waits for mkfs, two minutes at most. Since 0.1.
 */
SANDBOX_API int sandbox_volume_create_with(struct sandbox_host *host, const char *name, const struct sandbox_volume_options *options,
                                           struct sandbox_error **error);
/** A volume by name; a disk is mounted, if it was not, so that its path leads somewhere. The caller owns it. Since 0.1. */
SANDBOX_API int sandbox_volume_open(struct sandbox_host *host, const char *name, struct sandbox_volume **ret_volume,
                                    struct sandbox_error **error);
SANDBOX_API struct sandbox_volume *sandbox_volume_unref(struct sandbox_volume *volume);
SANDBOX_API const char *sandbox_volume_get_name(const struct sandbox_volume *volume);
/** Where its data is on this machine; "" where it is not on this kernel. Since 0.1. */
SANDBOX_API const char *sandbox_volume_get_path(const struct sandbox_volume *volume);
/** Everything as one JSON object. Lives as long as the volume. Since 0.1. */
SANDBOX_API const char *sandbox_volume_get_json(const struct sandbox_volume *volume);
/** All volumes. The caller owns the list. Since 0.1. */
SANDBOX_API int sandbox_host_list_volumes(struct sandbox_host *host, struct sandbox_volume_list **ret_list, struct sandbox_error **error);
SANDBOX_API size_t sandbox_volume_list_get_count(const struct sandbox_volume_list *list);
SANDBOX_API const struct sandbox_volume *sandbox_volume_list_get(const struct sandbox_volume_list *list, size_t index);
SANDBOX_API struct sandbox_volume_list *sandbox_volume_list_unref(struct sandbox_volume_list *list);
/** Removes a volume and its data. EBUSY while a sandbox names it. ENOTFOUND. Since 0.1. */
SANDBOX_API int sandbox_volume_remove(struct sandbox_host *host, const char *name, struct sandbox_error **error);

#ifdef __cplusplus
}
#endif
#endif
