/* SPDX-License-Identifier: Apache-2.0
 * image import, ls, inspect, rm. */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_imported(const struct tool *tool, const struct sandbox_image *image)
{
    if (tool->json)
        printf("%s\n", sandbox_image_get_json(image));
    else
        printf("%s\n", sandbox_image_get_digest(image));
}

static int import(struct tool *tool, const char *source, const struct sandbox_image_import_options *options)
{
    struct sandbox_image *image = NULL;
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = NULL;
    struct signals signals;
    int status = signals_open(tool, &signals), r;

    if (status)
        return status;
    r = sandbox_image_import_begin(tool->host, source, options, &op, &error);
    if (!r)
        r = op_drive(tool, op, &signals, &error);
    if (!r)
        r = sandbox_op_take_image(op, &image, &error);
    sandbox_op_unref(op);
    if (!r) {
        print_imported(tool, image);
    } else if (r == SANDBOX_ECANCELLED && signals.last) {
        sandbox_error_unref(error);
        status = 128 + signals.last;
    } else {
        status = report_error(tool, error);
    }
    sandbox_image_unref(image);
    signals_close(&signals);
    return status;
}

int command_image_import(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    int status = tool_open_host(tool);

    if (status)
        return status;
    options.format = (int)arguments->format;
    options.name = arguments->name;
    options.digest = arguments->digest;
    options.select = arguments->select;
    options.max_bytes = arguments->max_bytes;
    options.max_entries = arguments->max_entries;
    return import(tool, arguments->operands[0], &options);
}

static void print_images(const struct sandbox_image_list *list)
{
    static const char *const titles[] = { "NAME", "DIGEST", "SIZE" };
    struct table *table = table_new(titles, TOOL_ELEMENTS(titles));
    char size[32], digest[20];

    for (size_t i = 0; i < sandbox_image_list_get_count(list); i++) {
        const struct sandbox_image *image = sandbox_image_list_get(list, i);

        /* "sha256:" and 12 digits */
        snprintf(digest, sizeof digest, "%.19s", sandbox_image_get_digest(image));
        table_add(table, 0, sandbox_image_get_name(image));
        table_add(table, 1, *digest ? digest : "-");
        table_add(table, 2, text_bytes(sandbox_image_get_bytes(image), size, sizeof size));
    }
    table_print(table);
    table_free(table);
}

int command_image_ls(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_image_list *list = NULL;
    struct sandbox_error *error = NULL;
    int status = tool_open_host(tool);

    (void)arguments;
    if (!status && sandbox_host_list_images(tool->host, &list, &error))
        status = report_error(tool, error);
    if (!status && tool->json) {
        for (size_t i = 0; i < sandbox_image_list_get_count(list); i++)
            printf("%s%s", i ? "," : "[", sandbox_image_get_json(sandbox_image_list_get(list, i)));
        puts(sandbox_image_list_get_count(list) ? "]" : "[]");
    } else if (!status) {
        print_images(list);
    }
    sandbox_image_list_unref(list);
    return status;
}

int command_image_inspect(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_image *image = NULL;
    struct sandbox_error *error = NULL;
    int status = tool_open_host(tool);

    if (!status && sandbox_image_open(tool->host, arguments->operands[0], &image, &error))
        status = report_error(tool, error);
    if (!status && tool->json)
        printf("%s\n", sandbox_image_get_json(image));
    else if (!status)
        json_print_text(sandbox_image_get_json(image));
    sandbox_image_unref(image);
    return status;
}

int command_image_rm(struct tool *tool, const struct arguments *arguments)
{
    const char **done = tool_allocate(arguments->n_operands, sizeof *done);
    size_t n_done = 0;
    int status = tool_open_host(tool), failed = status;

    for (size_t i = 0; !status && i < arguments->n_operands; i++) {
        struct sandbox_error *error = NULL;

        if (sandbox_image_remove(tool->host, arguments->operands[i], &error))
            failed = report_error(tool, error);
        else
            done[n_done++] = arguments->operands[i];
    }
    if (tool->json && !status)
        json_print_strings("images", done, n_done);
    free(done);
    return failed;
}
