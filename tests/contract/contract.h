/* SPDX-License-Identifier: Apache-2.0
 * The contract suite: what every host must do, whatever it is made of, as a list of rows that are tried once each. A row runs in a
 * process of its own, so that one which hangs or crashes is a row and not the end; it opens the host by the URI and knows nothing
 * but sandbox.h. What it claims it looks at from both sides: what the library says, and what a command in the sandbox sees. */
#ifndef CONTRACT_H
#define CONTRACT_H

#include <sandbox.h>
#include <stddef.h>
#include <stdint.h>

/* What the program was asked. */
struct contract {
    const char *uri;
    const char *root;  /* state root for local hosts; NULL: the default */
    const char *image; /* image of the sandboxes */
    char run[24];      /* this run, in labels and names: what a row leaves is found by it */
    char row[16];      /* in names, so that what one row leaves is not in the next one's way */
};
extern struct contract contract;

struct row {
    const char *name; /* "b1_create": stable, compared between hosts and versions */
    void (*check)(void);
};
struct rows {
    const struct row *rows;
    size_t n;
};
extern const struct rows rows_life, rows_daemon, rows_store, rows_exec, rows_flow, rows_network, rows_image, rows_library,
    rows_log, rows_files, rows_copy;

/* How a row ends; returning from check() means ok. The sandboxes and the rest that the row made are removed. */
_Noreturn void row_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void row_unsupported(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* For the process of one row: the verdict goes to `fd`, and the process ends. */
_Noreturn void row_run(const struct row *row, int fd);

/* Goes on when the call succeeded. EUNSUPPORTED and EDENIED end the row as unsupported, with the library's words, all else as failed. */
void row_need(int result, struct sandbox_error **error, const char *what);
/* Goes on when it failed with that code, and the error tells what every error must (F74). */
void row_refused(int result, int code, struct sandbox_error **error, const char *what);
#define ROW_CHECK(condition, ...)                                                                                                \
    do {                                                                                                                         \
        if (!(condition))                                                                                                        \
            row_failed(__VA_ARGS__);                                                                                             \
    } while (0)

/* ---- tools.c ---- */
struct sandbox_host *row_host(void); /* opened once in this process */
struct sandbox_spec *row_spec(void); /* with the image and this run's label */
struct sandbox *row_create(struct sandbox_spec *spec); /* consumes the spec (NULL: row_spec()); deleted when the row ends */
struct sandbox *row_start(struct sandbox_spec *spec);  /* the same, started */
void row_keep(struct sandbox *sandbox);                /* deleted with the others when the row ends */
const char *row_volume(void);                          /* the name of a new volume, removed when the row ends */
/* Imports an image, removed when the row ends: its digest. */
char *row_import(const char *tar, const char *name);
void row_clean(void);                                  /* removes all of it */
void row_at_end(void (*clean)(void)); /* called when the row ends, once */
void row_forked(void); /* in a child process of a row: forgets what is the parent's */
size_t row_sweep(void); /* what this run made and anybody left: removed, and counted */
char *row_name(const char *what); /* "contract-RUN-ROW-what"; NULL: what all names of this run begin with */

struct row_output {
    struct sandbox_exec_result result;
    struct sandbox_output output;
};
#define ROW_ARGV(...) ((const char *const[]){ __VA_ARGS__, NULL })
/* A command to its end, within a minute. */
struct row_output row_run_command(struct sandbox *sandbox, const char *const *argv, const struct sandbox_exec_options *options,
                                  const void *input, size_t input_size);
/* `sh -c script` as user (NULL: the default), which must end with 0: what it printed, without the last newline. */
char *row_sh(struct sandbox *sandbox, const char *user, const char *script);
/* The same, and the text must be this one. */
void row_says(struct sandbox *sandbox, const char *user, const char *script, const char *wanted);
/* Waits up to 20 s for `sh -c script` to end with 0. */
void row_await(struct sandbox *sandbox, const char *script, const char *what);
struct sandbox_exec *row_begin(struct sandbox *sandbox, const char *const *argv, const struct sandbox_exec_options *options);
struct sandbox_exec_result row_end(struct sandbox_exec *exec, int64_t timeout_ms);
int row_take(int (*take)(struct sandbox_exec *, int *, struct sandbox_error **), struct sandbox_exec *exec);
struct sandbox_info *row_info(struct sandbox *sandbox);
/* Ends the row as unsupported where the library says itself that this part is not enforced here, and why. */
void row_isolation(struct sandbox *sandbox, const char *part);
void row_state(struct sandbox *sandbox, int state);
/* Brings the suite's own static program into a running sandbox as /tmp/contract-guest, by a command's stdin. */
void row_bring_guest(struct sandbox *sandbox);
/* A sandbox whose daemon waits for that program and becomes it, with these arguments. Started, the guest brought in. */
struct sandbox *row_guest_daemon(struct sandbox_spec *spec, const char *arguments);
int row_dial(struct sandbox *sandbox, int port); /* within 20 s, also while nobody listens yet */

int64_t row_now(void); /* milliseconds, CLOCK_MONOTONIC */
void row_sleep(int ms);
size_t row_read(int fd, void *buffer, size_t size, int timeout_ms); /* until size, the end, or the time is up (fails) */
void row_write(int fd, const void *data, size_t size);
void *row_data(size_t size); /* bytes that repeat nowhere nearby */
void row_sha256(const void *data, size_t size, char hex[65]);
/* A tar with one root: motd, and an entry of the caller's (NULL: none) with this link target (NULL: a file). */
char *row_tar(const char *motd, const char *name, const char *link); /* path of a file, removed when the row ends */

#endif
