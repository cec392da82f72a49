/* SPDX-License-Identifier: Apache-2.0
 * What is on disk of execs and daemons that began and ended: the ring "exits", which outlives init. */
#include "engine.h"
#include "ring.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <errors.h>
#include <json.h>

int sb_exec_id_parse(const char *text, uint8_t ret[32])
{
    if (!sb_id_valid(text))
        return -EINVAL;
    for (int i = 0; i < 32; i++) {
        int high = text[2 * i] <= '9' ? text[2 * i] - '0' : text[2 * i] - 'a' + 10;
        int low = text[2 * i + 1] <= '9' ? text[2 * i + 1] - '0' : text[2 * i + 1] - 'a' + 10;

        ret[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

int sb_log_folder(const struct sb_record *record)
{
    int fd = openat(record->dir, "log", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* A plain struct of this machine's numbers. */
static struct sb_ring_event to_host(const struct sb_ring_entry *entry)
{
    struct sb_ring_event e;

    memcpy(&e, entry->data, sizeof e);
    e.type = le32toh(e.type);
    e.number = le32toh(e.number);
    e.kind = le32toh(e.kind);
    e.code = (int32_t)le32toh((uint32_t)e.code);
    e.signal = (int32_t)le32toh((uint32_t)e.signal);
    e.sys_errno = (int32_t)le32toh((uint32_t)e.sys_errno);
    e.user_us = (int64_t)le64toh((uint64_t)e.user_us);
    e.system_us = (int64_t)le64toh((uint64_t)e.system_us);
    e.max_rss = (int64_t)le64toh((uint64_t)e.max_rss);
    e.wall_ns = le64toh(e.wall_ns);
    e.max_bytes = le64toh(e.max_bytes);
    return e;
}

int sb_ring_event_of(const struct sb_ring_entry *entry, struct sb_ring_event *ret)
{
    if (entry->stream != SB_RING_EVENT && entry->stream != SB_RING_STARTED && entry->stream != SB_RING_ENDED)
        return 0;
    *ret = to_host(entry);
    return 1;
}

int sb_exits_find(const struct sb_record *record, const uint8_t exec_id[32], struct sb_exit *ret)
{
    SB_CLOSE int folder = sb_log_folder(record);
    struct sb_ring_entry entry;
    struct sb_ring_event e;
    struct sb_exit found = { 0 };
    struct sb_ring ring;
    int r;

    if (folder == -ENOENT) {
        *ret = found;
        return 0;
    }
    r = folder < 0 ? folder : sb_ring_open(folder, "exits", &ring);
    if (r)
        return r;
    while ((r = sb_ring_next(&ring, &entry)) == 1) {
        if (!sb_ring_event_of(&entry, &e) || memcmp(e.exec_id, exec_id, sizeof e.exec_id))
            continue;
        if (e.type == SB_EVENT_STARTED)
            found = (struct sb_exit){ .known = 1, .started = e };
        else if (e.type == SB_EVENT_ENDED)
            found = (struct sb_exit){ .known = 1, .has_ended = 1, .started = found.started, .ended = e };
    }
    sb_ring_close(&ring);
    if (!r)
        *ret = found;
    return r;
}

void sb_exit_result(const struct sb_exit *exit, struct sandbox_exec_result *ret)
{
    *ret = (struct sandbox_exec_result)SANDBOX_EXEC_RESULT_INIT;
    ret->kind = SANDBOX_EXEC_LOST;
    if (!exit->has_ended || exit->ended.kind < SANDBOX_EXEC_EXITED || exit->ended.kind > SANDBOX_EXEC_OOM)
        return;
    ret->kind = (int)exit->ended.kind;
    ret->code = ret->kind == SANDBOX_EXEC_EXITED ? exit->ended.code & 255 : -1;
    ret->signal = ret->kind == SANDBOX_EXEC_EXITED ? 0 : exit->ended.signal;
    ret->user_us = exit->ended.user_us;
    ret->system_us = exit->ended.system_us;
    ret->max_rss = exit->ended.max_rss;
}

int sb_keeper_open(const struct sb_engine *engine, const struct sb_record *record)
{
    SB_JSON json_t *run = sb_record_read_run(engine, record);
    struct sb_identity keeper;

    sb_identity_from_json(json_object_get(run, "keeper"), &keeper);
    return keeper.pid ? sb_identity_open(&keeper) : -ESRCH;
}

void sb_keeper_await(const struct sb_engine *engine, const struct sb_record *record, int64_t timeout_ms)
{
    SB_CLOSE int fd = sb_keeper_open(engine, record);
    struct pollfd p = { .fd = fd, .events = POLLIN };

    if (fd >= 0)
        SB_RETRY(poll(&p, 1, (int)timeout_ms));
}

int sb_keeper_was_killed(const struct sb_engine *engine, const struct sb_record *record)
{
    SB_CLOSE int folder = -1;
    int fd;

    if (!sb_launch_is_kept(record))
        return 0;
    fd = sb_keeper_open(engine, record);
    sb_close(fd);
    if (fd != -ESRCH)
        return 0;
    folder = sb_log_folder(record);
    return folder >= 0 && faccessat(folder, "exit", F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

void sb_exits_complete(struct sb_engine *engine, const char *id, json_t *document)
{
    static const uint8_t of_daemon[32];
    json_t *daemon = json_object_get(document, "daemon");
    struct sb_record record = SB_RECORD_INIT;
    struct sandbox_exec_result result;
    struct sb_exit found = { 0 };
    const char *state = sb_json_str(daemon, "state");

    if (!state || strcmp(state, "exited") || sb_json_int(daemon, "code", 0) != -1 || sb_json_int(daemon, "signal", 0))
        return;
    if (!sb_record_open(engine, id, SB_LOCK_NONE, &record, NULL) && !sb_exits_find(&record, of_daemon, &found) && found.has_ended) {
        sb_exit_result(&found, &result);
        json_object_set_new(daemon, "code", json_integer(result.code));
        json_object_set_new(daemon, "signal", json_integer(result.signal));
    }
    sb_record_clear(&record);
}
