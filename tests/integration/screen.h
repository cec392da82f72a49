/* SPDX-License-Identifier: Apache-2.0
 * A command with a terminal as a test sees it: what it shows is collected, awaited, and typed to. */
#ifndef SBTEST_SCREEN_H
#define SBTEST_SCREEN_H

#include "box.h"

enum { WAIT_MS = 20000 };

/* A command with a terminal, and what it has shown so far. */
struct screen {
    struct sandbox_exec *exec;
    int fd;
    char text[SANDBOX_TERMINAL_KEPT + 16384];
    size_t n, seen; /* what was searched already */
    int ended;
};

void screen_open_with(struct screen *t, struct sandbox *sandbox, const struct sandbox_exec_options *options, const char *const *argv);
/* `sh -c script`. */
void screen_open(struct screen *t, struct sandbox *sandbox, const char *script);
/* One read; what doesn't fit is dropped from the front. */
void screen_read(struct screen *t);
/* Until it shows `what`, behind what was awaited before. */
void screen_await(struct screen *t, const char *what);
void screen_type(struct screen *t, const char *text);
/* Reads to the end, and gives up the handle. */
struct sandbox_exec_result screen_close(struct screen *t);
void screen_expect(struct screen *t, int code);

#endif
