/* SPDX-License-Identifier: Apache-2.0
 * How long sandboxes of this kernel live: what the library does of it. A sandbox's keeper (agent/keeper-life.c) does the rest, and is told by
 * the files of life-plan.h. The end of its time to live stands in the record:
 *
 *   "life": {"boot": whose CLOCK_BOOTTIME "until_ms" is on, "wall_ms": the same on the wall clock, "ttl_ms"}; absent: none
 *
 * and timers/ID says that the sandbox is one that a process which opens the host, lists or reconciles has to look at. */
#ifndef SB_ENGINE_LIFETIME_H
#define SB_ENGINE_LIFETIME_H

#include "engine.h"

/* What a create asks for that can't be had anywhere. */
int sb_lifetime_check(const struct sandbox_spec *spec, struct sandbox_error **error);
/* Puts the end of a time to live (0: none) that begins now into the record, which the caller writes. */
int sb_lifetime_set(struct sb_engine *engine, struct sb_record *record, int64_t ttl_ms);
/* Enters the sandbox, whose record says what it says now, in timers/, or takes its entry away. */
int sb_lifetime_enter(struct sb_engine *engine, const struct sb_record *record, struct sandbox_error **error);
void sb_lifetime_leave(struct sb_engine *engine, const char *id);
/* Writes what keeper reads; `log` is the folder. */
int sb_lifetime_tell_keeper(struct sb_engine *engine, const struct sb_record *record, int log, struct sandbox_error **error);
/* ELIMIT when its time to live is over. */
int sb_lifetime_may_start(const struct sb_engine *engine, const struct sb_record *record, struct sandbox_error **error);
/* Why a sandbox whose init is gone was ended by its keeper; NULL: it was not. */
const char *sb_lifetime_ended(const struct sb_engine *engine, const struct sb_record *record);
/* Why it is to be deleted now; NULL: it is not. */
const char *sb_lifetime_is_over(struct sb_engine *engine, const struct sb_record *record);
/* 1: its daemon ended, and is to be started again by its policy. */
int sb_lifetime_is_restarting(const struct sb_engine *engine, const char *id);
/* The document's member "life". */
json_t *sb_lifetime_document(const struct sb_engine *engine, const struct sb_record *record, const struct sb_reply *status);
/* Deletes, or stops, all whose time is over and whose keeper could not do it. */
void sb_lifetime_sweep(struct sb_engine *engine);

/* ---- lifetime-ops.c ---- */
int sb_engine_pause(struct sb_driver *driver, const char *id, struct sb_op **ret_op, struct sandbox_error **error);
int sb_engine_resume(struct sb_driver *driver, const char *id, struct sb_op **ret_op, struct sandbox_error **error);
int sb_engine_extend(struct sb_driver *driver, const char *id, int64_t ttl_ms, struct sb_op **ret_op, struct sandbox_error **error);

#endif
