/* SPDX-License-Identifier: Apache-2.0
 * What a live init says of itself: its state and, for inspect, which commands run. */
#include "engine.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <json.h>

enum { ANSWER_MS = 2000 };

/* The message behind the status: 32 bytes for each. */
static json_t *receive_ids(int link)
{
    static const char digits[] = "0123456789abcdef";
    const size_t most = (size_t)SB_EXECS_MAX * SB_EXEC_ID_BYTES;
    SB_FREE uint8_t *bytes = malloc(most);
    struct pollfd p = { .fd = link, .events = POLLIN };
    json_t *ids = json_array();
    ssize_t n;

    if (!bytes || SB_RETRY(poll(&p, 1, ANSWER_MS)) <= 0)
        return ids;
    n = SB_RETRY(recv(link, bytes, most, MSG_DONTWAIT | MSG_TRUNC));
    if (n < 0 || (size_t)n > most || n % SB_EXEC_ID_BYTES)
        return ids;
    for (const uint8_t *at = bytes; at < bytes + n; at += SB_EXEC_ID_BYTES) {
        char id[SB_ID_SIZE] = "";

        for (size_t i = 0; i < SB_EXEC_ID_BYTES; i++) {
            id[2 * i] = digits[at[i] >> 4];
            id[2 * i + 1] = digits[at[i] & 15];
        }
        json_array_append_new(ids, json_string(id));
    }
    return ids;
}

int sb_status_ask(struct sb_engine *engine, const char *id, struct sb_reply *ret, json_t **ret_execs)
{
    struct sb_request request = { .type = SB_REQUEST_STATUS, .flags = SB_REQUEST_IDS };
    SB_CLOSE int link = -1;

    if (sb_link_open(engine, id, &link, NULL) || sb_link_send(link, &request, NULL, NULL, 0, NULL) ||
        sb_link_receive(link, ANSWER_MS, ret, NULL, NULL) || ret->type != SB_REPLY_STATUS)
        return -1;
    *ret_execs = ret->execs ? receive_ids(link) : json_array();
    return 0;
}
