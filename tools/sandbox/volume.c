/* SPDX-License-Identifier: Apache-2.0
 * volume create, ls, rm. */
#include "tool.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

int command_volume_create(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_volume_options options = SANDBOX_VOLUME_OPTIONS_INIT;
    struct sandbox_error *error = NULL;
    const char *name = arguments->operands[0];
    int status = tool_open_host(tool);

    options.kind = arguments->disk_bytes ? SANDBOX_VOLUME_DISK : SANDBOX_VOLUME_FOLDER;
    options.bytes = arguments->disk_bytes;
    options.file_system = arguments->file_system;
    options.owner = arguments->owner;
    options.flags = arguments->any_file_system ? SANDBOX_VOLUME_ANY_FILE_SYSTEM : 0;
    if (!status && sandbox_volume_create_with(tool->host, name, &options, &error))
        status = report_error(tool, error);
    if (!status && tool->json)
        json_print_strings("volumes", &name, 1);
    return status;
}

static void print_json(const struct sandbox_volume_list *list)
{
    json_t *array = json_array();
    char *text;

    for (size_t i = 0; i < sandbox_volume_list_get_count(list); i++) {
        const struct sandbox_volume *volume = sandbox_volume_list_get(list, i);

        json_array_append_new(array, json_pack("{s:s, s:s}", "name", sandbox_volume_get_name(volume), "path",
                                               sandbox_volume_get_path(volume)));
    }
    text = json_dumps(array, JSON_COMPACT | JSON_PRESERVE_ORDER);
    puts(text ? text : "[]");
    free(text);
    json_decref(array);
}

static void print_table(const struct sandbox_volume_list *list)
{
    static const char *const titles[] = { "NAME", "PATH" };
    struct table *table = table_new(titles, TOOL_ELEMENTS(titles));

    for (size_t i = 0; i < sandbox_volume_list_get_count(list); i++) {
        const struct sandbox_volume *volume = sandbox_volume_list_get(list, i);

        table_add(table, 0, sandbox_volume_get_name(volume));
        table_add(table, 1, sandbox_volume_get_path(volume));
    }
    table_print(table);
    table_free(table);
}

int command_volume_inspect(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_volume *volume = NULL;
    struct sandbox_error *error = NULL;
    int status = tool_open_host(tool);

    if (!status && sandbox_volume_open(tool->host, arguments->operands[0], &volume, &error))
        status = report_error(tool, error);
    if (!status && tool->json)
        puts(sandbox_volume_get_json(volume));
    else if (!status)
        json_print_text(sandbox_volume_get_json(volume));
    sandbox_volume_unref(volume);
    return status;
}

int command_volume_ls(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_volume_list *list = NULL;
    struct sandbox_error *error = NULL;
    int status = tool_open_host(tool);

    (void)arguments;
    if (!status && sandbox_host_list_volumes(tool->host, &list, &error))
        status = report_error(tool, error);
    if (!status && tool->json)
        print_json(list);
    else if (!status)
        print_table(list);
    sandbox_volume_list_unref(list);
    return status;
}

int command_volume_rm(struct tool *tool, const struct arguments *arguments)
{
    const char **done = tool_allocate(arguments->n_operands, sizeof *done);
    size_t n_done = 0;
    int status = tool_open_host(tool), failed = status;

    for (size_t i = 0; !status && i < arguments->n_operands; i++) {
        struct sandbox_error *error = NULL;

        if (sandbox_volume_remove(tool->host, arguments->operands[i], &error))
            failed = report_error(tool, error);
        else
            done[n_done++] = arguments->operands[i];
    }
    if (tool->json && !status)
        json_print_strings("volumes", done, n_done);
    free(done);
    return failed;
}
