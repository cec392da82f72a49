/* SPDX-License-Identifier: Apache-2.0
 * What the suites about limits share. Every helper ends the test when something fails that the test did not ask to fail. */
#ifndef TEST_LIMITS_H
#define TEST_LIMITS_H

#include "box.h"

#define MIB (INT64_C(1) << 20)

/* Of the test that runs. */
extern struct sandbox_host *host;
extern struct sandbox *sandbox;
extern struct sandbox_error *error;

void set_up(void);
void tear_down(void);
/* 1: the sandbox's group is in a cgroup2 that has the controller. */
int on_v2(const char *controller);
/* The code, with the field in `error`, must be these. */
void refused(int code, int wanted, const char *field);
/* -1: left as it is. */
struct sandbox_limits limits_of(int64_t memory, int64_t pids, int64_t cpu);
struct sandbox_spec *spec_with(const struct sandbox_limits *limits);
/* Of the sandbox. */
void set(const struct sandbox_limits *limits);
/* A number of what inspect says of the limits. */
int64_t limit_now(struct sandbox *of, const char *name);
struct sandbox_stats stats_now(void);
/* How many processes a command could start at once; 25 is all it tries. */
long started(void);

#endif
