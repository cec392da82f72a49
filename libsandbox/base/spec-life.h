/* SPDX-License-Identifier: Apache-2.0
 * The part of a spec that says how long a sandbox lives and what is done about a daemon that ends or hangs. */
#ifndef SB_BASE_SPEC_LIFE_H
#define SB_BASE_SPEC_LIFE_H

#include <jansson.h>
#include <sandbox.h>

enum {
    SB_LIFE_GRACE_MS = 10000,
    SB_HEALTH_INTERVAL_MS = 30000,
    SB_HEALTH_TIMEOUT_MS = 30000,
    SB_HEALTH_START_INTERVAL_MS = 5000,
    SB_HEALTH_RETRIES = 3,
    SB_HEALTH_BYTES_MAX = 32768 /* of argv and environment */
};

/* Numbers are as the setters took them: 0 is the default or none. */
struct sb_spec_life {
    int64_t ttl_ms, idle_ms;
    int64_t grace_ms;  /* one more than what was set, so that 0 is the default */
    int ttl_end, idle_end; /* enum sandbox_end */
    int restart;           /* enum sandbox_restart */
    int restart_max;
    char **health;    /* argv, NULL-terminated; NULL: no health check */
    char *health_user; /* NULL: the spec's */
    int64_t interval_ms, timeout_ms, start_period_ms, start_interval_ms;
    int retries;
};

struct sandbox_spec;
void sb_spec_life_clear(struct sb_spec_life *life);
/* 0 or -1 when memory is short; *to is empty before. */
int sb_spec_life_copy(struct sb_spec_life *to, const struct sb_spec_life *from);
json_t *sb_spec_life_to_json(const struct sb_spec_life *life);
int sb_spec_life_read(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error);
/* 1: only a keeper can do what it asks for. */
int sb_spec_life_is_kept(const struct sb_spec_life *life);

int sb_spec_set_ttl(struct sandbox_spec *spec, int64_t ttl_ms, int end, struct sandbox_error **error);
int sb_spec_set_idle(struct sandbox_spec *spec, int64_t idle_ms, int end, struct sandbox_error **error);
int sb_spec_set_end_grace(struct sandbox_spec *spec, int64_t grace_ms, struct sandbox_error **error);
int sb_spec_set_restart(struct sandbox_spec *spec, int policy, int max_retries, struct sandbox_error **error);
/* options is of this library's size. */
int sb_spec_set_health(struct sandbox_spec *spec, const char *const *argv, const struct sandbox_health_options *options,
                       struct sandbox_error **error);
/* The bounds of a time to live, for sandbox_extend(), too. */
int sb_check_ttl(int64_t ttl_ms, struct sandbox_error **error);

#endif
