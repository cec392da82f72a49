/* SPDX-License-Identifier: Apache-2.0
 * What the tests of lifetimes share: one host, one spec that is filled and then started, one sandbox, and waits for what becomes of it, with
 * generous bounds. */
#ifndef TEST_LIFE_H
#define TEST_LIFE_H

#include "box.h"

extern struct sandbox_host *host;
extern struct sandbox *sandbox;
extern struct sandbox_spec *spec;
extern struct sandbox_events *events;
extern struct sandbox_error *error;

/* A case whose tests begin with an open host and a spec, and end with all of it closed. */
TCase *life_case(Suite *suite, const char *name);
/* The spec's daemon is this shell script. */
void life_daemon_is(const char *script);
/* Creates and starts; the spec is used up. */
void life_start(void);
void life_nap(long ms);
struct sandbox_info *life_look(void);
int life_state(void);
void life_await_state(int wanted);
/* inspect says this somewhere. */
void life_expect_cause(const char *cause);
/* From now on events are told. */
void life_watch(void);
/* The next event but those of commands, creates, starts and ends of daemons; its JSON is good until the next call. */
const char *life_expect_event(int type);
/* Of the daemon's output. */
long life_log_bytes(void);
void life_await_log(const char *text);
struct sandbox_exec *life_begin(const char *script, int out, int64_t deadline_ms);
/* Takes the exec. */
void life_expect_end(struct sandbox_exec *exec, int kind, int code);
void life_pause_it(void);
void life_resume_it(void);
/* How many sandboxes the host lists. */
int life_is_listed(void);

#define TICKS "while :; do echo tick; sleep 0.02; done"

#endif
