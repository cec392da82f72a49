/* SPDX-License-Identifier: Apache-2.0
 * create, start, inspect, ls, stop, kill, rm. Sandboxes made here are detached: this process ends at once. */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_ID 12

static int create(struct tool *tool, const struct arguments *arguments, struct sandbox_spec *spec, struct signals *signals)
{
    struct sandbox_error *error = NULL;
    struct sandbox *sandbox = NULL;
    struct sandbox_op *op = NULL;
    int r = 0;

    if (arguments->n_argv)
        r = sandbox_spec_set_daemon(spec, arguments->argv, &error);
    if (!r)
        r = sandbox_create_begin(tool->host, spec, &op, &error);
    if (!r)
        r = op_drive(tool, op, signals, &error);
    if (!r)
        r = sandbox_op_take_sandbox(op, &sandbox, &error);
    sandbox_op_unref(op);
    if (r == SANDBOX_ECANCELLED && signals->last) {
        sandbox_error_unref(error);
        return 128 + signals->last;
    }
    if (r)
        return report_error(tool, error);
    printf(tool->json ? "{\"id\":\"%s\"}\n" : "%s\n", sandbox_get_id(sandbox));
    sandbox_unref(sandbox);
    return 0;
}

int command_create(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_spec *spec = NULL;
    struct signals signals;
    int status = signals_open(tool, &signals);

    if (status)
        return status;
    status = spec_from_arguments(tool, arguments, SANDBOX_LIFETIME_DETACHED, &spec);
    if (!status)
        status = spec_add_environment(tool, spec, arguments);
    if (!status)
        status = tool_open_host(tool);
    if (!status)
        status = pull_image(tool, arguments, &signals);
    if (!status)
        status = create(tool, arguments, spec, &signals);
    sandbox_spec_unref(spec);
    signals_close(&signals);
    return status;
}

int for_each_sandbox(struct tool *tool, const struct arguments *arguments,
                     int (*act)(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments,
                                struct sandbox_error **error))
{
    const char **ids = tool_allocate(arguments->n_operands, sizeof *ids);
    struct sandbox **done = tool_allocate(arguments->n_operands, sizeof *done);
    size_t n_done = 0;
    int status = tool_open_host(tool), failed = status;

    for (size_t i = 0; !status && i < arguments->n_operands; i++) {
        struct sandbox *sandbox = NULL;
        struct sandbox_error *error = NULL;

        if (tool_open_sandbox(tool, arguments->operands[i], &sandbox)) {
            failed = TOOL_EXIT_FAILED;
        } else if (act(tool, sandbox, arguments, &error)) {
            failed = report_error(tool, error);
            sandbox_unref(sandbox);
        } else {
            ids[n_done] = sandbox_get_id(sandbox);
            done[n_done++] = sandbox;
        }
    }
    if (tool->json && !status)
        json_print_strings("ids", ids, n_done);
    while (n_done > 0)
        sandbox_unref(done[--n_done]);
    free(done);
    free(ids);
    return failed;
}

static int start_one(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments, struct sandbox_error **error)
{
    struct sandbox_op *op = NULL;
    int r = sandbox_start_begin(sandbox, &op, error);

    (void)arguments;
    return r ? r : op_finish(tool, op, NULL, error);
}

static int stop_one(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments, struct sandbox_error **error)
{
    struct sandbox_op *op = NULL;
    int r = sandbox_stop_begin(sandbox, arguments->grace_ms, &op, error);

    return r ? r : op_finish(tool, op, NULL, error);
}

static int delete_one(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments, struct sandbox_error **error)
{
    struct sandbox_op *op = NULL;
    int r = sandbox_delete_begin(sandbox, &op, error);

    (void)arguments;
    return r ? r : op_finish(tool, op, NULL, error);
}

static int kill_one(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments, struct sandbox_error **error)
{
    (void)tool;
    return sandbox_kill(sandbox, (int)arguments->signal, error);
}

int command_start(struct tool *tool, const struct arguments *arguments)
{
    return for_each_sandbox(tool, arguments, start_one);
}

int command_stop(struct tool *tool, const struct arguments *arguments)
{
    return for_each_sandbox(tool, arguments, stop_one);
}

int command_kill(struct tool *tool, const struct arguments *arguments)
{
    return for_each_sandbox(tool, arguments, kill_one);
}

int command_rm(struct tool *tool, const struct arguments *arguments)
{
    return for_each_sandbox(tool, arguments, delete_one);
}

int command_inspect(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_error *error = NULL;
    struct sandbox_info *info = NULL;
    struct sandbox *sandbox = NULL;
    int status = tool_open_host(tool);

    if (!status)
        status = tool_open_sandbox(tool, arguments->operands[0], &sandbox);
    if (!status && sandbox_inspect(sandbox, &info, &error))
        status = report_error(tool, error);
    if (!status && tool->json)
        printf("%s\n", sandbox_info_get_json(info));
    else if (!status)
        json_print_text(sandbox_info_get_json(info));
    sandbox_info_unref(info);
    sandbox_unref(sandbox);
    return status;
}

static void print_list(const struct sandbox_list *list)
{
    static const char *const titles[] = { "ID", "NAME", "STATE", "IMAGE", "CREATED" };
    struct table *table = table_new(titles, TOOL_ELEMENTS(titles));
    char age[32], id[SHORT_ID + 1];

    for (size_t i = 0; i < sandbox_list_get_count(list); i++) {
        const struct sandbox_info *info = sandbox_list_get(list, i);
        const char *state = text_state(sandbox_info_get_state(info)), *health = text_health(sandbox_info_get_health(info));
        TOOL_FREE char *both = *health ? tool_format("%s (%s)", state, health) : tool_format("%s", state);

        snprintf(id, sizeof id, "%.*s", SHORT_ID, sandbox_info_get_id(info));
        table_add(table, 0, id);
        table_add(table, 1, sandbox_info_get_name(info));
        table_add(table, 2, both);
        table_add(table, 3, sandbox_info_get_image(info));
        table_add(table, 4, text_age(sandbox_info_get_created_ms(info), age, sizeof age));
    }
    table_print(table);
    table_free(table);
}

int command_ls(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_list_options options = SANDBOX_LIST_OPTIONS_INIT;
    TOOL_FREE char *key = NULL;
    struct sandbox_list *list = NULL;
    struct sandbox_error *error = NULL;
    int status;

    if (arguments->labels[0] && arguments->labels[1])
        return report(tool, SANDBOX_EINVALID, "label", NULL, "only one --label can be asked for");
    if (arguments->labels[0]) {
        const char *equals = strchr(arguments->labels[0], '=');

        key = tool_format("%.*s", (int)strcspn(arguments->labels[0], "="), arguments->labels[0]);
        options.label_key = key;
        options.label_value = equals ? equals + 1 : NULL;
    }
    options.name_prefix = arguments->name;
    status = tool_open_host(tool);
    if (!status && sandbox_host_list(tool->host, &options, &list, &error))
        status = report_error(tool, error);
    if (!status && tool->json) {
        for (size_t i = 0; i < sandbox_list_get_count(list); i++)
            printf("%s%s", i ? "," : "[", sandbox_info_get_json(sandbox_list_get(list, i)));
        puts(sandbox_list_get_count(list) ? "]" : "[]");
    } else if (!status) {
        print_list(list);
    }
    sandbox_list_unref(list);
    return status;
}
