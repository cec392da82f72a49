/* SPDX-License-Identifier: Apache-2.0
 * What api/'s files share. Every entry point has one shape: check the handle (sb_host_check), check the arguments, call the
 * driver, leave through sb_leave(), which completes the error and hands it over.
 *
 * Threads: reference counts and the closed flag are atomic; what else changes has a mutex, held for a step and never across
 * a poll. Waiters poll the host's close_fd too, an eventfd that stays readable once the handle is closed.
 * Forks: a handle knows its maker's pid. In another process all calls fail with EFORKED, and the last unref frees memory:
 * descriptors are left alone there (the child may have closed and reused their numbers), and so is the driver. */
#ifndef SB_API_HANDLES_H
#define SB_API_HANDLES_H

#include <driver.h>
#include <errors.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

struct sandbox_host {
    atomic_int refs;
    atomic_int closed;
    pid_t pid;
    int close_fd;
    struct sb_driver *driver;
    char *uri;
};

struct sandbox {
    atomic_int refs;
    struct sandbox_host *host;
    char id[SB_ID_SIZE];
};

/* 1 in a process that is not the handle's maker. */
int sb_host_forked(const struct sandbox_host *host);
/* EINVALID for NULL, EFORKED, ECLOSED, or 0. */
int sb_host_check(const struct sandbox_host *host, struct sandbox_error **error);
int sb_sandbox_check(const struct sandbox *sandbox, struct sandbox_error **error);
/* Takes the driver (also when it fails), copies the URI. */
int sb_host_new(struct sb_driver *driver, const char *uri, struct sandbox_host **ret_host, struct sandbox_error **error);
/* A handle with a host reference of its own. */
int sb_sandbox_new(struct sandbox_host *host, const char *id, struct sandbox **ret_sandbox, struct sandbox_error **error);
/* Takes the document (also when it fails) after having checked it. */
int sb_report_new(json_t *document, struct sandbox_report **ret_report, struct sandbox_error **error);
int sb_diff_new(json_t *document, struct sandbox_diff **ret_diff, struct sandbox_error **error);
int sb_image_new(json_t *document, struct sandbox_image **ret_image, struct sandbox_error **error);
int sb_findings_new(json_t *findings, struct sandbox_findings **ret_findings, struct sandbox_error **error);

/* The end of every entry point: gives *failure an operation and a backend, then to the caller or away; returns r. An error
 * that the caller's variable still held is overwritten, as the header says. host may be NULL. failure comes by address, so
 * that the call which sets it may stand among the arguments. */
int sb_leave(int r, struct sandbox_error **failure, struct sandbox_error **error, const char *operation,
             const struct sandbox_host *host);

int sb_fail_null(struct sandbox_error **error, const char *field);
int sb_fail_memory(struct sandbox_error **error);
int sb_fail_timeout(struct sandbox_error **error, int64_t timeout_ms);
int sb_fail_closed(struct sandbox_error **error);
/* EUNSUPPORTED: this driver has no such slot. */
int sb_fail_slot(struct sandbox_error **error, const struct sandbox_host *host, const char *call, const char *hint);
/* What a caller's limits, of any version, set. */
int sb_limits_take(struct sb_limits *limits, const struct sandbox_limits *from, struct sandbox_error **error);
/* EINVALID below -1. */
int sb_check_timeout(int64_t timeout_ms, const char *field, struct sandbox_error **error);
/* The document of an info, borrowed. */
const json_t *sb_info_document(const struct sandbox_info *info);
/* An absolute path inside, without "..". */
int sb_check_inside_path(const char *path, const char *field, struct sandbox_error **error);
/* An id, or -1. */
int sb_check_owner(int64_t id, const char *field, struct sandbox_error **error);
/* EINVALID outside 1 to 64. */
int sb_check_signal(int signal, struct sandbox_error **error);

/* Operations. sb_op_new takes `op`: when it fails the operation was cancelled and undone. `operation` and `backend` are
 * borrowed and must outlive it; host (NULL: an open, with its uri) is referenced. */
int sb_op_new(struct sb_op *op, struct sandbox_host *host, const char *uri, const char *operation, const char *backend,
              struct sandbox_op **ret_op, struct sandbox_error **error);
/* The plain call: waits; when the time is up or the host is closed, cancels and waits for the undoing. */
int sb_op_run(struct sandbox_op *op, int64_t timeout_ms, struct sandbox_error **error);

#endif
