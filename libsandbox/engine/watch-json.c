/* SPDX-License-Identifier: Apache-2.0
 * What init says to its watchers, as attributes of events. */
#include "limit-watch.h"

#include <stdio.h>
#include <string.h>

json_t *sb_watch_exit(const struct sb_watch_event *e)
{
    static const char *const kinds[] = { "lost", "exited", "signalled", "deadline", "killed", "oom", "lost" };

    return json_pack("{s:s, s:i, s:i}", "kind", e->kind < SB_ELEMENTS(kinds) ? kinds[e->kind] : "lost", "code", e->code, "signal", e->signal);
}

json_t *sb_watch_exec(const struct sb_watch_event *e)
{
    static const uint8_t none[sizeof e->exec_id];
    char id[SB_ID_SIZE] = "";

    for (size_t i = 0; memcmp(e->exec_id, none, sizeof none) && i < sizeof none; i++)
        snprintf(id + 2 * i, 3, "%02x", e->exec_id[i]);
    return json_string(id);
}
