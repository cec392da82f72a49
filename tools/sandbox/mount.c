/* SPDX-License-Identifier: Apache-2.0
 * diff, usage and reset of overlay mounts. Without a target: all that the sandbox has. */
#include "tool.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int act_fn(struct tool *tool, struct sandbox *sandbox, const char *target, json_t *output);

static const char *kind_name(int kind)
{
    static const char *const names[] = { "?", "added", "changed", "removed" };

    return names[kind > 0 && kind < 4 ? kind : 0];
}

static const char *type_name(int type)
{
    static const char *const names[] = { "?", "regular", "folder", "link", "fifo", "socket", "device" };

    return names[type > 0 && type < 7 ? type : 0];
}

/* Bytes that are no UTF-8 as the library's own documents have them. */
static json_t *path_json(const char *path)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    json_t *json = json_string(path);
    size_t n = strlen(path);
    char *text;

    if (json)
        return json;
    text = tool_allocate((n + 2) / 3 * 4 + 1, 1);
    for (size_t i = 0, at = 0; i < n; i += 3) {
        unsigned int group = (unsigned int)(unsigned char)path[i] << 16;

        if (i + 1 < n)
            group |= (unsigned int)(unsigned char)path[i + 1] << 8;
        if (i + 2 < n)
            group |= (unsigned char)path[i + 2];
        text[at++] = digits[group >> 18];
        text[at++] = digits[group >> 12 & 63];
        text[at++] = i + 1 < n ? digits[group >> 6 & 63] : '=';
        text[at++] = i + 2 < n ? digits[group & 63] : '=';
    }
    json = json_pack("{s:s}", "base64", text);
    free(text);
    return json;
}

static void print_diff(const struct sandbox_diff *diff, const char *target, json_t *output)
{
    json_t *list = json_array();

    for (size_t i = 0; i < sandbox_diff_get_count(diff); i++) {
        struct sandbox_diff_entry e = SANDBOX_DIFF_ENTRY_INIT;
        char size[32];

        sandbox_diff_get(diff, i, &e);
        if (output) {
            json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:I}", "path", path_json(e.path), "kind", kind_name(e.kind), "type",
                                                  type_name(e.type), "bytes", (json_int_t)e.bytes));
            continue;
        }
        printf("%-8s %-8s %8s  ", kind_name(e.kind), type_name(e.type), text_bytes(e.bytes, size, sizeof size));
        print_safe(target);
        putchar('/');
        print_safe(e.path);
        putchar('\n');
    }
    if (output)
        json_array_append_new(output, json_pack("{s:s, s:o, s:b}", "target", target, "entries", list, "truncated",
                                                sandbox_diff_get_truncated(diff)));
    else
        json_decref(list);
    if (!output && sandbox_diff_get_truncated(diff))
        puts("… and more");
}

static int diff_one(struct tool *tool, struct sandbox *sandbox, const char *target, json_t *output)
{
    struct sandbox_diff *diff = NULL;
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = NULL;
    int status = 0;

    if (sandbox_mount_diff_begin(sandbox, target, NULL, &op, &error) || op_drive(tool, op, NULL, &error) ||
        sandbox_op_take_diff(op, &diff, &error))
        status = report_error(tool, error);
    else
        print_diff(diff, target, output);
    sandbox_diff_unref(diff);
    sandbox_op_unref(op);
    return status;
}

/* Onto stdout, which has nothing else then. */
static int tar_one(struct tool *tool, struct sandbox *sandbox, const char *target, json_t *output)
{
    struct sandbox_error *error = NULL;
    struct sandbox_diff *diff = NULL;
    struct sandbox_op *op = NULL;
    int status = 0;

    (void)output;
    if (sandbox_mount_tar_begin(sandbox, target, STDOUT_FILENO, &op, &error) || op_drive(tool, op, NULL, &error) ||
        sandbox_op_take_diff(op, &diff, &error))
        status = report_error(tool, error);
    else if (sandbox_diff_get_truncated(diff))
        fputs("sandbox: diff: sockets, devices, files named .wh.*, or what is too deep to look into was left out\n", stderr);
    sandbox_diff_unref(diff);
    sandbox_op_unref(op);
    return status;
}

static int usage_one(struct tool *tool, struct sandbox *sandbox, const char *target, json_t *output)
{
    struct sandbox_mount_usage usage = SANDBOX_MOUNT_USAGE_INIT;
    struct sandbox_error *error = NULL;
    char size[32];

    if (sandbox_mount_usage(sandbox, target, -1, &usage, &error))
        return report_error(tool, error);
    if (output) {
        json_array_append_new(output, json_pack("{s:s, s:I, s:I, s:b}", "target", target, "bytes", (json_int_t)usage.bytes, "entries",
                                                (json_int_t)usage.entries, "truncated", usage.truncated));
        return 0;
    }
    printf("%8s  %lld entries  ", text_bytes(usage.bytes, size, sizeof size), (long long)usage.entries);
    print_safe(target);
    puts(usage.truncated ? " (and what is too deep to look into)" : "");
    return 0;
}

static int reset_one(struct tool *tool, struct sandbox *sandbox, const char *target, json_t *output)
{
    struct sandbox_error *error = NULL;

    if (sandbox_mount_reset(sandbox, target, -1, &error))
        return report_error(tool, error);
    if (output)
        json_array_append_new(output, json_pack("{s:s}", "target", target));
    return 0;
}

static size_t count_overlays(const json_t *document)
{
    json_t *mount;
    size_t i, n = 0;

    json_array_foreach(json_object_get(document, "mounts"), i, mount)
        n += json_object_get(mount, "overlay") != NULL;
    return n;
}

/* The overlays of a sandbox, from what inspect says. */
static int each_overlay(struct tool *tool, struct sandbox *sandbox, act_fn *act, json_t *output)
{
    struct sandbox_info *info = NULL;
    struct sandbox_error *error = NULL;
    json_t *json, *mount;
    size_t i, found = 0;
    int status = 0;

    if (sandbox_inspect(sandbox, &info, &error))
        return report_error(tool, error);
    json = json_loads(sandbox_info_get_json(info), 0, NULL);
    if (act == tar_one && count_overlays(json) > 1)
        status = report(tool, SANDBOX_EINVALID, "target", "name a target", "the sandbox has several overlay mounts, and one makes a tar");
    json_array_foreach(json_object_get(json, "mounts"), i, mount)
    {
        const char *target = json_string_value(json_object_get(mount, "target"));

        if (!json_object_get(mount, "overlay") || !target || status)
            continue;
        found++;
        status = act(tool, sandbox, target, output);
    }
    json_decref(json);
    sandbox_info_unref(info);
    return !status && !found ? report(tool, SANDBOX_ENOTFOUND, "target", "make one with --mount type=overlay,source=…,target=…",
                                      "the sandbox has no overlay mount")
                             : status;
}

static int command(struct tool *tool, const struct arguments *arguments, act_fn *act)
{
    struct sandbox *sandbox = NULL;
    json_t *output = tool->json && act != tar_one ? json_array() : NULL;
    int status = tool_open_host(tool);

    if (!status)
        status = tool_open_sandbox(tool, arguments->operands[0], &sandbox);
    if (!status)
        status = arguments->n_operands > 1 ? act(tool, sandbox, arguments->operands[1], output) : each_overlay(tool, sandbox, act, output);
    if (!status && output) {
        char *text = json_dumps(output, JSON_COMPACT | JSON_PRESERVE_ORDER);

        puts(text ? text : "[]");
        free(text);
    }
    json_decref(output);
    sandbox_unref(sandbox);
    return status;
}

int command_diff(struct tool *tool, const struct arguments *arguments)
{
    return command(tool, arguments, arguments->tar ? tar_one : diff_one);
}

int command_usage(struct tool *tool, const struct arguments *arguments)
{
    return command(tool, arguments, usage_one);
}

int command_reset(struct tool *tool, const struct arguments *arguments)
{
    return command(tool, arguments, reset_one);
}
