/* SPDX-License-Identifier: Apache-2.0
 * What the library tells a keeper about its sandbox's life, and what keeper tells those who look, as two files in the folder "log". Each is
 * replaced by rename, so that a reader has all of the old or all of the new one.
 *
 *   life   struct sb_life and the health check's blob, from the library: read at the start, and again at SIGUSR1, which says that
 *          it is another one. Only keeper and library reach it; nothing inside does.
 *   state  one line of JSON, from keeper: {"schema":1,"health":H,"health_failures":N,"restarts":N,"restart_at_ms":T,
 *          "restarting":0 or 1,"end":E}
 *          H is "", "starting", "healthy" or "unhealthy"; T on CLOCK_MONOTONIC, 0: none is due; E is "", "ttl" or "idle"
 */
#ifndef SB_PLAN_LIFE_PLAN_H
#define SB_PLAN_LIFE_PLAN_H

#include <stdint.h>

#define SB_LIFE_MAGIC 0x4546494cu

/* Times in milliseconds; 0: none. */
struct sb_life {
    uint32_t magic, size; /* of this struct; the blob follows it */
    int64_t ttl_until_ms; /* CLOCK_BOOTTIME */
    int64_t idle_ms, grace_ms;
    uint32_t restart, restart_max; /* enum sandbox_restart */
    int64_t interval_ms, timeout_ms, start_period_ms, start_interval_ms;
    uint32_t retries;
    uint32_t argc, envc, blob_size; /* of the health check, as in struct sb_request; argc 0: none */
};

/* As in sandbox.h, which keeper does not include. */
enum { SB_LIFE_RESTART_NO, SB_LIFE_RESTART_ON_FAILURE, SB_LIFE_RESTART_ALWAYS, SB_LIFE_RESTART_UNLESS_STOPPED };

#endif
