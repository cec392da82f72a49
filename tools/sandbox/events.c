/* SPDX-License-Identifier: Apache-2.0
 * events: a line for each thing that happens to sandboxes, from now until interrupted. */
#include "tool.h"

#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void print_attributes(const char *text)
{
    json_t *event = json_loads(text, 0, NULL), *value;
    const char *key;

    json_object_foreach(json_object_get(event, "attributes"), key, value) {
        putchar(' ');
        print_safe(key);
        if (json_is_string(value)) {
            putchar('=');
            print_safe(json_string_value(value));
        } else if (json_is_object(value)) {
            char *inner = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);

            putchar('=');
            print_safe(inner ? inner : "?");
            free(inner);
        } else {
            printf("=%lld", (long long)json_integer_value(value));
        }
    }
    json_decref(event);
}

/* As the library calls it: also one that this program doesn't know. */
static void print_type(const char *text)
{
    json_t *event = json_loads(text, 0, NULL);
    const char *type = json_string_value(json_object_get(event, "type"));

    print_safe(type ? type : "?");
    printf("%*s", type && strlen(type) < 13 ? (int)(13 - strlen(type)) : 0, "");
    json_decref(event);
}

static void print_event(const struct tool *tool, const struct sandbox_event *event)
{
    int64_t ms = sandbox_event_get_time_ms(event);
    time_t seconds = (time_t)(ms / 1000);
    char when[32] = "";
    struct tm tm;

    if (tool->json) {
        puts(sandbox_event_get_json(event));
        return;
    }
    if (gmtime_r(&seconds, &tm))
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
    printf("%s.%03dZ ", when, (int)(ms % 1000));
    print_type(sandbox_event_get_json(event));
    printf(" %.12s ", sandbox_event_get_id(event));
    print_safe(*sandbox_event_get_name(event) ? sandbox_event_get_name(event) : "-");
    print_attributes(sandbox_event_get_json(event));
    putchar('\n');
}

static int follow(struct tool *tool, struct sandbox_events *events, const char *until, struct signals *signals)
{
    struct pollfd p[] = { { .fd = sandbox_events_get_fd(events), .events = POLLIN }, { .fd = signals->fd, .events = POLLIN } };

    for (;;) {
        struct sandbox_event *event = NULL;
        struct sandbox_error *error = NULL;
        int signal, last, r = sandbox_events_read(events, 0, &event, &error);

        if (!r) {
            last = until && sandbox_event_get_type(event) == SANDBOX_EVENT_DELETED && !strcmp(sandbox_event_get_id(event), until);
            print_event(tool, event);
            sandbox_event_unref(event);
            if (fflush(stdout) || last) /* nobody reads any more, or it is gone */
                return 0;
            continue;
        }
        if (r != SANDBOX_ETIMEDOUT)
            return report_error(tool, error);
        sandbox_error_unref(error);
        if (poll(p, 2, -1) > 0 && p[1].revents && (signal = signals_read(signals)))
            return 128 + signal;
    }
}

int command_events(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_events_options options = SANDBOX_EVENTS_OPTIONS_INIT;
    TOOL_FREE char *key = NULL;
    struct sandbox_events *events = NULL;
    struct sandbox *sandbox = NULL;
    struct sandbox_error *error = NULL;
    struct signals signals;
    int status;

    if (arguments->labels[0] && arguments->labels[1])
        return report(tool, SANDBOX_EINVALID, "label", NULL, "events takes one --label");
    if (arguments->until_gone && !arguments->n_operands)
        return report(tool, SANDBOX_EINVALID, "until-gone", "name the sandbox", "--until-gone is about one sandbox");
    if (arguments->labels[0]) {
        const char *equals = strchr(arguments->labels[0], '=');

        key = tool_format("%.*s", (int)strcspn(arguments->labels[0], "="), arguments->labels[0]);
        options.label_key = key;
        options.label_value = equals ? equals + 1 : NULL;
    }
    status = tool_open_host(tool);
    if (!status && arguments->n_operands)
        status = tool_open_sandbox(tool, arguments->operands[0], &sandbox);
    if (!status)
        status = signals_open(tool, &signals);
    if (status) {
        sandbox_unref(sandbox);
        return status;
    }
    if (sandbox)
        options.id = sandbox_get_id(sandbox);
    status = sandbox_events_open(tool->host, &options, &events, &error)
                 ? report_error(tool, error)
                 : follow(tool, events, arguments->until_gone ? options.id : NULL, &signals);
    sandbox_events_close(events);
    sandbox_unref(sandbox);
    signals_close(&signals);
    return status;
}
