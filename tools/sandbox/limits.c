/* SPDX-License-Identifier: Apache-2.0
 * Limits from options, `limits` and `stats`. */
#include "tool.h"

#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SET_MS = 30000, EVERY_MS = 1000 };

/* "device=D,rbps=SIZE,wbps=SIZE,riops=COUNT,wiops=COUNT": the kernel's own names. 0, or -1. */
static int read_io(char *text, struct sandbox_io_limit *io)
{
    static const char *const names[] = { "rbps", "wbps", "riops", "wiops" };
    int64_t *const values[] = { &io->read_bps, &io->write_bps, &io->read_iops, &io->write_iops };
    char *save = NULL;

    for (char *part = strtok_r(text, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
        char *value = strchr(part, '=');
        size_t i = 0;

        if (!value)
            return -1;
        *value++ = 0;
        if (!strcmp(part, "device")) {
            io->device = value;
            continue;
        }
        while (i < TOOL_ELEMENTS(names) && strcmp(part, names[i]))
            i++;
        if (i == TOOL_ELEMENTS(names) || (i < 2 ? value_size : value_count)(value, values[i]))
            return -1;
    }
    return io->device ? 0 : -1;
}

int limits_take(struct tool *tool, const struct arguments *a, struct limits *ret)
{
    size_t n = 0;

    *ret = (struct limits){ .limits = SANDBOX_LIMITS_INIT };
    ret->limits.memory_max = a->memory_max;
    ret->limits.swap_max = a->swap_max;
    ret->limits.pids_max = a->pids_max;
    ret->limits.cpu_max = a->cpu_max;
    ret->limits.cpu_weight = a->cpu_weight;
    ret->limits.files_max = a->files_max;
    for (; a->io[n]; n++) {
        if (n + 1 == TOOL_ELEMENTS(ret->list))
            return report(tool, SANDBOX_ELIMIT, "io", NULL, "too many disks");
        if (n == 0 && !strcmp(a->io[0], "none") && !a->io[1])
            break;
        ret->texts[n] = tool_format("%s", a->io[n]);
        ret->io[n] = (struct sandbox_io_limit)SANDBOX_IO_LIMIT_INIT;
        ret->list[n] = &ret->io[n];
        if (read_io(ret->texts[n], &ret->io[n]))
            return report(tool, SANDBOX_EINVALID, "io", "device=PATH or MAJOR:MINOR[,rbps=SIZE][,wbps=SIZE][,riops=COUNT][,wiops=COUNT]",
                          "--io %s is not understood", a->io[n]);
    }
    if (a->io[0])
        ret->limits.io = ret->list;
    ret->any = a->io[0] || a->memory_max >= 0 || a->swap_max >= 0 || a->pids_max >= 0 || a->cpu_max >= 0 || a->cpu_weight >= 0 ||
               a->files_max >= 0;
    return 0;
}

void limits_clear(struct limits *limits)
{
    for (size_t i = 0; i < TOOL_ELEMENTS(limits->texts); i++)
        free(limits->texts[i]);
}

/* ---- limits ---- */

static int show(struct tool *tool, struct sandbox *sandbox)
{
    struct sandbox_error *error = NULL;
    struct sandbox_info *info = NULL;
    json_t *document, *limits, *value;
    const char *key;

    if (sandbox_inspect(sandbox, &info, &error))
        return report_error(tool, error);
    document = json_loads(sandbox_info_get_json(info), 0, NULL);
    limits = json_object_get(document, "limits");
    if (tool->json) {
        json_dumpf(limits, stdout, JSON_COMPACT | JSON_SORT_KEYS);
        putchar('\n');
    } else {
        json_object_foreach(limits, key, value)
            if (json_integer_value(value))
                printf("%-11s %lld\n", key, (long long)json_integer_value(value));
            else if (json_is_integer(value))
                printf("%-11s none\n", key);
        for (size_t i = 0; i < json_array_size(json_object_get(limits, "io")); i++) {
            char *text = json_dumps(json_array_get(json_object_get(limits, "io"), i), JSON_COMPACT | JSON_SORT_KEYS);

            printf("%-11s ", "io");
            print_safe(text ? text : "?");
            putchar('\n');
            free(text);
        }
    }
    json_decref(document);
    sandbox_info_unref(info);
    return 0;
}

int command_limits(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_error *error = NULL;
    struct sandbox *sandbox = NULL;
    struct limits limits;
    int status = limits_take(tool, arguments, &limits);

    if (!status)
        status = tool_open_host(tool);
    if (!status)
        status = tool_open_sandbox(tool, arguments->operands[0], &sandbox);
    if (!status && limits.any && sandbox_set_limits(sandbox, &limits.limits, SET_MS, &error))
        status = report_error(tool, error);
    if (!status && !limits.any)
        status = show(tool, sandbox);
    sandbox_unref(sandbox);
    limits_clear(&limits);
    return status;
}

/* ---- stats ---- */

static const char *const levels[] = { "", "enforced", "wrapped", "advisory", "impossible" };

static const char *level(int number)
{
    return number > 0 && number < (int)TOOL_ELEMENTS(levels) ? levels[number] : "";
}

static void put_pressure(json_t *object, const char *name, const struct sandbox_pressure *p)
{
    json_object_set_new(object, name,
                        json_pack("{s:I, s:I, s:I, s:I}", "some_us", (json_int_t)p->some_us, "full_us", (json_int_t)p->full_us, "some_avg10",
                                  (json_int_t)p->some_avg10, "full_avg10", (json_int_t)p->full_avg10));
}

static void print_json(const char *id, const char *name, const struct sandbox_stats *s)
{
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        { "time_ns", s->time_ns },           { "memory", s->memory },
        { "memory_peak", s->memory_peak },   { "memory_max", s->memory_max },
        { "memory_hits", s->memory_hits },   { "oom_kills", s->oom_kills },
        { "swap", s->swap },                 { "swap_max", s->swap_max },
        { "pids", s->pids },                 { "pids_max", s->pids_max },
        { "pids_hits", s->pids_hits },       { "cpu_us", s->cpu_us },
        { "cpu_user_us", s->cpu_user_us },   { "cpu_system_us", s->cpu_system_us },
        { "cpu_max", s->cpu_max },           { "cpu_periods", s->cpu_periods },
        { "cpu_throttled", s->cpu_throttled }, { "cpu_throttled_us", s->cpu_throttled_us },
        { "io_read_bytes", s->io_read_bytes }, { "io_write_bytes", s->io_write_bytes },
        { "io_reads", s->io_reads },         { "io_writes", s->io_writes },
    };
    json_t *object = json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:s, s:s}}", "id", id, "name", name, "levels", "memory", level(s->memory_level),
                               "pids", level(s->pids_level), "cpu", level(s->cpu_level), "io", level(s->io_level), "pressure",
                               level(s->pressure_level));

    for (size_t i = 0; i < TOOL_ELEMENTS(numbers); i++)
        json_object_set_new(object, numbers[i].name, json_integer(numbers[i].value));
    put_pressure(object, "memory_pressure", &s->memory_pressure);
    put_pressure(object, "cpu_pressure", &s->cpu_pressure);
    put_pressure(object, "io_pressure", &s->io_pressure);
    json_dumpf(object, stdout, JSON_COMPACT | JSON_SORT_KEYS);
    putchar('\n');
    json_decref(object);
}

/* "12.0 MiB / 64.0 MiB"; "-" for what isn't known. */
static void add_pair(struct table *table, size_t column, int64_t value, int64_t most, int bytes)
{
    TOOL_FREE char *text = NULL;
    char a[32], b[32];

    if (bytes && value >= 0)
        text = tool_format("%s%s%s", text_bytes(value, a, sizeof a), most >= 0 ? " / " : "", most >= 0 ? text_bytes(most, b, sizeof b) : "");
    else if (value >= 0)
        text = most >= 0 ? tool_format("%lld / %lld", (long long)value, (long long)most) : tool_format("%lld", (long long)value);
    table_add(table, column, text ? text : "-");
}

static void add_row(struct table *table, const char *id, const char *name, const struct sandbox_stats *s)
{
    const struct sandbox_pressure *const pressures[] = { &s->memory_pressure, &s->cpu_pressure, &s->io_pressure };
    TOOL_FREE char *seconds = s->cpu_us >= 0 ? tool_format("%.2f s", (double)s->cpu_us / 1e6) : NULL;
    TOOL_FREE char *short_id = tool_format("%.12s", id);

    table_add(table, 0, short_id);
    table_add(table, 1, *name ? name : "-");
    table_add(table, 2, seconds ? seconds : "-");
    add_pair(table, 3, s->memory, s->memory_max, 1);
    add_pair(table, 4, s->pids, s->pids_max, 0);
    add_pair(table, 5, s->io_read_bytes, -1, 1);
    add_pair(table, 6, s->io_write_bytes, -1, 1);
    for (size_t i = 0; i < TOOL_ELEMENTS(pressures); i++) {
        TOOL_FREE char *text = pressures[i]->some_avg10 >= 0 ? tool_format("%.2f%%", (double)pressures[i]->some_avg10 / 100) : NULL;

        table_add(table, 7 + i, text ? text : "-");
    }
}

/* One sandbox; 0, or an exit status. What isn't running is passed over when all are asked for. */
static int read_one(struct tool *tool, struct sandbox *sandbox, const char *name, int alone, struct table *table)
{
    struct sandbox_stats stats = SANDBOX_STATS_INIT;
    struct sandbox_error *error = NULL;

    if (sandbox_get_stats(sandbox, &stats, &error)) {
        if (alone)
            return report_error(tool, error);
        sandbox_error_unref(error);
        return 0;
    }
    if (tool->json)
        print_json(sandbox_get_id(sandbox), name, &stats);
    else
        add_row(table, sandbox_get_id(sandbox), name, &stats);
    return 0;
}

static int read_every(struct tool *tool, struct table *table)
{
    struct sandbox_error *error = NULL;
    struct sandbox_list *list = NULL;

    if (sandbox_host_list(tool->host, NULL, &list, &error))
        return report_error(tool, error);
    for (size_t i = 0; i < sandbox_list_get_count(list); i++) {
        const struct sandbox_info *info = sandbox_list_get(list, i);
        struct sandbox *sandbox = NULL;

        if (sandbox_open(tool->host, sandbox_info_get_id(info), &sandbox, NULL)) /* deleted since */
            continue;
        read_one(tool, sandbox, sandbox_info_get_name(info), 0, table);
        sandbox_unref(sandbox);
    }
    sandbox_list_unref(list);
    return 0;
}

static int one_look(struct tool *tool, struct sandbox *sandbox, const char *name)
{
    static const char *const titles[] = { "SANDBOX", "NAME", "CPU", "MEMORY", "PIDS", "READ", "WRITTEN", "MEM WAIT", "CPU WAIT", "IO WAIT" };
    struct table *table = table_new(titles, TOOL_ELEMENTS(titles));
    int status = sandbox ? read_one(tool, sandbox, name, 1, table) : read_every(tool, table);

    if (!status && !tool->json)
        table_print(table);
    table_free(table);
    return status;
}

int command_stats(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_info *info = NULL;
    struct sandbox *sandbox = NULL;
    struct signals signals;
    int status = signals_open(tool, &signals);

    if (status)
        return status;
    status = tool_open_host(tool);
    if (!status && arguments->n_operands)
        status = tool_open_sandbox(tool, arguments->operands[0], &sandbox);
    if (!status && sandbox)
        sandbox_inspect(sandbox, &info, NULL);
    while (!status) {
        struct pollfd p = { .fd = signals.fd, .events = POLLIN };

        status = one_look(tool, sandbox, info ? sandbox_info_get_name(info) : "");
        if (status || !arguments->follow || fflush(stdout))
            break;
        if (poll(&p, 1, EVERY_MS) > 0 && signals_read(&signals))
            status = 128 + signals.last;
    }
    sandbox_info_unref(info);
    sandbox_unref(sandbox);
    signals_close(&signals);
    return status;
}
