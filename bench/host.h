/* SPDX-License-Identifier: Apache-2.0
 * What the programs that measure the library share. They know sandbox.h only, like any other user. */
#ifndef BENCH_HOST_H
#define BENCH_HOST_H

#include <sandbox.h>

/* Ends the program with the library's own words when `code` is not 0. By address: the call that sets it stands beside it. */
void bench_check(int code, struct sandbox_error **error, const char *what);
/* Opens the local host with its state below `root`. */
struct sandbox_host *bench_open_host(const char *root);
/* A spec for an image; owned by the caller. */
struct sandbox_spec *bench_new_spec(const char *image);
/* A started sandbox; the process that made it is its owner. */
struct sandbox *bench_start_sandbox(struct sandbox_host *host, const struct sandbox_spec *spec);
void bench_delete_sandbox(struct sandbox *sandbox);
/* Waits for the end of an exec; it must have exited with 0. */
void bench_wait_exec(struct sandbox_exec *exec);

#endif
