/* SPDX-License-Identifier: Apache-2.0
 * Events: what a driver hears of, one at a time. */
#include "handles.h"
#include "options.h"

#include <errno.h>
#include <json.h>
#include <poll.h>
#include <string.h>

struct sandbox_events {
    struct sandbox_host *host;
    struct sb_events *events;
    pthread_mutex_t lock; /* around next() */
};

struct sandbox_event {
    json_t *document;
    char *text;
    int type;
};

static const char *const types[] = {
    [SANDBOX_EVENT_CREATED] = "created",           [SANDBOX_EVENT_STARTED] = "started",
    [SANDBOX_EVENT_DAEMON_EXITED] = "daemon-exited", [SANDBOX_EVENT_EXEC_STARTED] = "exec-started",
    [SANDBOX_EVENT_EXEC_EXITED] = "exec-exited",   [SANDBOX_EVENT_STOPPED] = "stopped",
    [SANDBOX_EVENT_FAILED] = "failed",             [SANDBOX_EVENT_DELETED] = "deleted",
    [SANDBOX_EVENT_OVERRUN] = "overrun",           [SANDBOX_EVENT_PAUSED] = "paused",
    [SANDBOX_EVENT_RESUMED] = "resumed",           [SANDBOX_EVENT_RESTARTED] = "restarted",
    [SANDBOX_EVENT_HEALTH] = "health",             [SANDBOX_EVENT_TTL] = "ttl",
    [SANDBOX_EVENT_IDLE] = "idle",
    [SANDBOX_EVENT_OOM] = "oom",                   [SANDBOX_EVENT_LIMIT] = "limit",
    [SANDBOX_EVENT_LIMITS] = "limits",
    [SANDBOX_EVENT_NETWORK_ALLOWED] = "network-allowed", [SANDBOX_EVENT_NETWORK_DENIED] = "network-denied",
};

static int check_options(const struct sandbox_events_options *o, struct sandbox_error **error)
{
    if (o->id && !sb_id_valid(o->id))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "id", .hint = "64 lowercase hexadecimal digits"), "id is no sandbox's id");
    if (o->label_value && !o->label_key)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "label_key"), "a label's value was given and no key");
    return 0;
}

static int open_events(struct sandbox_host *host, const struct sandbox_events_options *options, struct sandbox_events **ret_events,
                       struct sandbox_error **error)
{
    struct sandbox_events_options o = SANDBOX_EVENTS_OPTIONS_INIT;
    struct sandbox_events *events;
    int r = sb_host_check(host, error);

    if (!r && !ret_events)
        r = sb_fail_null(error, "ret_events");
    if (!r)
        r = sb_options_read(&o, sizeof o, SB_SIZE_TO(struct sandbox_events_options, label_value), options, error);
    if (!r)
        r = check_options(&o, error);
    if (r)
        return r;
    if (!host->driver->ops->events_open)
        return sb_fail_slot(error, host, "events", NULL);
    events = calloc(1, sizeof *events);
    if (!events)
        return sb_fail_memory(error);
    r = host->driver->ops->events_open(host->driver, &o, &events->events, error);
    if (r) {
        free(events);
        return r;
    }
    pthread_mutex_init(&events->lock, NULL);
    events->host = sandbox_host_ref(host);
    *ret_events = events;
    return 0;
}

int sandbox_events_open(struct sandbox_host *host, const struct sandbox_events_options *options, struct sandbox_events **ret_events,
                        struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(open_events(host, options, ret_events, &failure), &failure, error, "events", host);
}

int sandbox_events_get_fd(struct sandbox_events *events)
{
    if (!events)
        return SANDBOX_EINVALID;
    return sb_host_forked(events->host) ? SANDBOX_EFORKED : events->events->fd;
}

/* Takes the document. The host may be a hostile machine. */
static int event_new(json_t *document, struct sandbox_event **ret_event, struct sandbox_error **error)
{
    const char *type = sb_json_str(document, "type"), *id = sb_json_str(document, "id");
    struct sandbox_event *event;

    if (!type || !id || (*id && !sb_id_valid(id)) || !sb_json_str(document, "name") ||
        !json_is_object(json_object_get(document, "attributes"))) {
        json_decref(document);
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL), "the host's answer is not an event");
    }
    event = calloc(1, sizeof *event);
    if (!event || !(event->text = sb_json_dump(document))) {
        free(event);
        json_decref(document);
        return sb_fail_memory(error);
    }
    for (size_t i = 1; i < SB_ELEMENTS(types); i++)
        if (types[i] && !strcmp(types[i], type)) /* numbers are kept free for what is being made */
            event->type = (int)i;
    event->document = document;
    *ret_event = event;
    return 0;
}

static int next(struct sandbox_events *events, json_t **ret_document, struct sandbox_error **error)
{
    int r = sb_host_check(events->host, error);

    if (r)
        return r;
    pthread_mutex_lock(&events->lock);
    r = events->events->ops->next(events->events, ret_document, error);
    pthread_mutex_unlock(&events->lock);
    return r;
}

static int read_event(struct sandbox_events *events, int64_t timeout_ms, struct sandbox_event **ret_event, struct sandbox_error **error)
{
    int64_t until = sb_deadline(timeout_ms);
    json_t *document;
    int r = events ? sb_check_timeout(timeout_ms, "timeout_ms", error) : sb_fail_null(error, "events");

    if (!r && !ret_event)
        r = sb_fail_null(error, "ret_event");
    if (r)
        return r;
    while ((r = next(events, &document, error)) == 1) {
        struct pollfd p[] = { { .fd = events->events->fd, .events = POLLIN }, { .fd = events->host->close_fd, .events = POLLIN } };
        int left = sb_left_ms(until);

        if (left == 0)
            return sb_fail_timeout(error, timeout_ms);
        if (SB_RETRY(poll(p, 2, left)) < 0)
            return sb_fail_errno(error, errno, "wait", "waiting for an event");
    }
    return r ? r : event_new(document, ret_event, error);
}

int sandbox_events_read(struct sandbox_events *events, int64_t timeout_ms, struct sandbox_event **ret_event, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(read_event(events, timeout_ms, ret_event, &failure), &failure, error, "events", events ? events->host : NULL);
}

struct sandbox_events *sandbox_events_close(struct sandbox_events *events)
{
    if (!events)
        return NULL;
    if (!sb_host_forked(events->host)) {
        events->events->ops->free(events->events);
        pthread_mutex_destroy(&events->lock);
    }
    sandbox_host_unref(events->host);
    free(events);
    return NULL;
}

struct sandbox_event *sandbox_event_unref(struct sandbox_event *event)
{
    if (event) {
        json_decref(event->document);
        free(event->text);
        free(event);
    }
    return NULL;
}

int sandbox_event_get_type(const struct sandbox_event *event)
{
    return event ? event->type : SANDBOX_EINVALID;
}

const char *sandbox_event_get_id(const struct sandbox_event *event)
{
    return event ? sb_json_str(event->document, "id") : "";
}

const char *sandbox_event_get_name(const struct sandbox_event *event)
{
    return event ? sb_json_str(event->document, "name") : "";
}

int64_t sandbox_event_get_time_ms(const struct sandbox_event *event)
{
    return event ? sb_json_int(event->document, "time_ms", 0) : 0;
}

const char *sandbox_event_get_json(const struct sandbox_event *event)
{
    return event ? event->text : "";
}
