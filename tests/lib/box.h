/* SPDX-License-Identifier: Apache-2.0
 * What the suites that make real sandboxes share: a host in the test's own folder, a sandbox with the guest programs in /guest,
 * and commands run to their end. Every helper ends the test, with the library's words, when something fails that the test did
 * not ask to fail. The environment variables SBTEST_GUESTS and SBTEST_IMAGES name the folders that the build made. */
#ifndef SBTEST_BOX_H
#define SBTEST_BOX_H

#include "sbtest.h"

#include <sandbox.h>
#include <sys/types.h>

/* What a caller may do on this machine. */
enum box_privilege {
    BOX_ROOT,   /* id ranges, idmapped layers, cgroups */
    BOX_SUBIDS, /* a user with ids in /etc/subuid */
    BOX_SINGLE  /* a user without: uid 0 inside is all there is */
};
enum box_privilege box_privilege(void);

/* A host whose state root is in sbtest_dir(), or the suite's (box_main()). */
struct sandbox_host *box_host(void);
const char *box_root(void);
/* sbtest_main() with one state root for all tests of the suite: what image "host" needs is then made once. For suites whose
 * tests don't look into the root. */
int box_main(Suite *suite);
/* Image "host", /guest read-only, SBTEST_GUEST in the environment, lifetime owned. */
struct sandbox_spec *box_spec(void);
/* Creates and starts; consumes the spec (NULL: box_spec()). */
struct sandbox *box_start(struct sandbox_host *host, struct sandbox_spec *spec);
/* Deletes the sandbox (NULL: none), removes images and volumes, closes the host; both become NULL. */
void box_end(struct sandbox_host **host, struct sandbox **sandbox);

/* A command and how it ended. */
struct box_run {
    struct sandbox_exec_result result;
    struct sandbox_output output;
};
/* Runs argv with options (NULL: defaults) and input until its end; cleared by box_clear(). */
void box_run(struct sandbox *sandbox, const struct sandbox_exec_options *options, const void *input, size_t input_size,
             struct box_run *ret, const char *const *argv);
#define BOX_ARGV(...) ((const char *const[]){ __VA_ARGS__, NULL })
void box_clear(struct box_run *run);
/* `sh -c script` as `user` (NULL: the default one); what it printed, NUL-terminated, without the last newline: free() it. The
 * script must end with 0. */
char *box_sh(struct sandbox *sandbox, const char *user, const char *script);
/* Its exit code alone; output is dropped. */
int box_code(struct sandbox *sandbox, const char *user, const char *script);

/* The sandbox's init, as its record says. */
pid_t box_init(const struct sandbox *sandbox);
/* An ordinary user inside, "1500:1500"; NULL (uid 0) where there is only one id. */
const char *box_user(void);
/* The value of the line "name: value" in a probe's output, copied: free() it. NULL: no such line. */
char *box_finding(const char *output, const char *name);
/* Ends the test unless the finding is one of `allowed`, separated by '|'. */
void box_expect(const char *output, const char *name, const char *allowed);
/* Every line whose name begins with `prefix` must have one of the allowed values; there must be one at least. */
void box_expect_all(const char *output, const char *prefix, const char *allowed);

/* Whether memory and CPU limits must work here: for root, and for whoever the environment variable SBTEST_SCOPES says that systemd gives scopes to. */
int box_limits(void);
/* The sandbox's folder in cgroup2, which has its leaves: below our own group, or in a scope of systemd's. 0: it has none. */
int box_cgroup(const struct sandbox *sandbox, char *path, size_t size);

/* Imports the busybox image under the name "busybox". */
void box_busybox(struct sandbox_host *host);
/* Milliseconds on CLOCK_MONOTONIC. */
long box_now(void);
/* A file below a folder of the machine: made with text; its text (free() it). */
void box_write(const char *folder, const char *name, const char *text);
char *box_read(const char *path);
/* Mounts a memory file system of a size (mount's options) on a new folder, for state that runs out of room. Else why the test is to be skipped: for
 * who can't, and where root's sandboxes can't be in memory. */
const char *box_small_disk(const char *folder, const char *options);
/* Number of entries of a folder, -1: it is not there. */
int box_entries(const char *folder);

#endif
