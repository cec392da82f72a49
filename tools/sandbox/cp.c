/* SPDX-License-Identifier: Apache-2.0
 * cp: files and folders in and out, by the rules that people know from docker cp. One of the two is NAME:PATH; "-" is a tar on stdin or
 * stdout. A folder's path that ends with "/." means what is in it. Without --archive what comes in belongs to the sandbox's root. */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_MS 30000

struct place {
    char *sandbox; /* NULL: on this machine */
    char *path;    /* inside: absolute. Without "/." and slashes at its end */
    int content;   /* it ended with "/." */
    int folder;    /* it ended with "/" */
};

/* "NAME:PATH", unless a "/" or "." says that it is a path. */
static void take_place(const char *text, struct place *ret)
{
    size_t name = strcspn(text, ":/"), end;

    *ret = (struct place){ 0 };
    if (text[name] == ':' && name && text[0] != '.') {
        ret->sandbox = tool_format("%.*s", (int)name, text);
        text += name + 1;
        ret->path = tool_format("%s%s", text[0] == '/' ? "" : "/", text);
    } else {
        ret->path = tool_format("%s", text);
    }
    for (end = strlen(ret->path); end > 1; ret->path[--end] = 0) {
        if (ret->path[end - 1] == '/')
            ret->folder = 1;
        else if (ret->path[end - 1] == '.' && (end == 1 || ret->path[end - 2] == '/'))
            ret->content = 1;
        else
            break;
    }
}

static void forget_place(struct place *place)
{
    free(place->sandbox);
    free(place->path);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static char *below(const char *folder, const char *name)
{
    return tool_format("%s/%s", strcmp(folder, "/") ? folder : "", name);
}

/* What is at the place: 1 a folder, 0 something else, -1 nothing, -2 after a message. Links are followed. */
static int look_inside(struct tool *tool, struct sandbox *sandbox, const char *path)
{
    struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;
    struct sandbox_error *error = NULL;
    int r = sandbox_file_stat(sandbox, path, SANDBOX_FILE_FOLLOW, LOOK_MS, &info, &error);

    if (!r)
        return info.type == SANDBOX_FILE_FOLDER;
    if (r == SANDBOX_ENOTFOUND) {
        sandbox_error_unref(error);
        return -1;
    }
    report_error(tool, error);
    return -2;
}

static int look_here(const char *path)
{
    struct stat st;

    return stat(path, &st) < 0 ? -1 : S_ISDIR(st.st_mode);
}

/* Where it really goes: docker's rules. Its path, or NULL after a message. malloc'ed */
static char *choose_target(struct tool *tool, const struct place *source, int is_folder, const struct place *target, int there)
{
    const char *name = name_of(source->path);

    if (there == 1 && (source->content || !name[0]) && is_folder)
        return tool_format("%s", target->path);
    if (there == 1)
        return below(target->path, name);
    if (there == 0 && is_folder) {
        report(tool, SANDBOX_EEXISTS, "operands", NULL, "%s is no folder, and a folder can't replace it", target->path);
        return NULL;
    }
    if (there == 0 && target->folder) {
        report(tool, SANDBOX_EEXISTS, "operands", NULL, "%s is no folder", target->path);
        return NULL;
    }
    if (there < 0 && !is_folder && (target->folder || target->content)) {
        report(tool, SANDBOX_ENOTFOUND, "operands", "make the folder first", "there is no folder %s", target->path);
        return NULL;
    }
    return tool_format("%s", target->path);
}

static int finish(struct tool *tool, struct sandbox_op *op, struct sandbox_error *error, struct signals *signals)
{
    if (op && op_finish(tool, op, signals, &error) == 0)
        return 0;
    return report_error(tool, error);
}

static int copy_in(struct tool *tool, struct sandbox *sandbox, const struct place *from, const struct place *to, int archive,
                   struct signals *signals)
{
    struct sandbox_upload_options options = SANDBOX_UPLOAD_OPTIONS_INIT;
    int stream = !strcmp(from->path, "-") && !from->sandbox, is_folder = stream ? 1 : look_here(from->path);
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = NULL;
    TOOL_FREE char *target = NULL;
    int there = look_inside(tool, sandbox, to->path);

    if (there == -2)
        return TOOL_EXIT_FAILED;
    if (is_folder < 0)
        return report(tool, SANDBOX_ENOTFOUND, "operands", NULL, "there is no %s", from->path);
    if (!archive)
        options.uid = options.gid = 0;
    if (stream) {
        if (isatty(STDIN_FILENO))
            return report(tool, SANDBOX_EINVALID, "operands", "give it one by < or |", "stdin is a terminal and no tar");
        options.format = SANDBOX_STREAM_TAR;
        options.source_fd = STDIN_FILENO;
        target = tool_format("%s", to->path);
    } else {
        target = choose_target(tool, from, is_folder, to, there);
    }
    if (!target)
        return TOOL_EXIT_FAILED;
    sandbox_upload_begin(sandbox, stream ? NULL : from->path, target, &options, &op, &error);
    return finish(tool, op, error, signals);
}

static int copy_out(struct tool *tool, struct sandbox *sandbox, const struct place *from, const struct place *to, int archive,
                    struct signals *signals)
{
    struct sandbox_download_options options = SANDBOX_DOWNLOAD_OPTIONS_INIT;
    int stream = !strcmp(to->path, "-"), is_folder = look_inside(tool, sandbox, from->path);
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = NULL;
    TOOL_FREE char *target = NULL;

    if (is_folder == -2)
        return TOOL_EXIT_FAILED;
    if (stream) {
        if (isatty(STDOUT_FILENO))
            return report(tool, SANDBOX_EINVALID, "operands", "send it somewhere by > or |", "stdout is a terminal, and a tar is no text");
        options.format = SANDBOX_STREAM_TAR;
        options.target_fd = STDOUT_FILENO;
        options.top = from->content || !name_of(from->path)[0] ? "." : name_of(from->path);
    } else {
        target = choose_target(tool, from, is_folder == 1, to, look_here(to->path));
        if (!target)
            return TOOL_EXIT_FAILED;
        options.flags = SANDBOX_FILE_MERGE | (archive ? SANDBOX_FILE_KEEP_OWNERS : 0);
    }
    sandbox_download_begin(sandbox, from->path, target, &options, &op, &error);
    return finish(tool, op, error, signals);
}

int command_cp(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox *sandbox = NULL;
    struct signals signals;
    struct place from, to;
    int status;

    take_place(arguments->operands[0], &from);
    take_place(arguments->operands[1], &to);
    if (!from.sandbox == !to.sandbox)
        status = report(tool, SANDBOX_EINVALID, "operands", "a path of this machine with a \":\" in it begins with \"./\" or \"/\"",
                        from.sandbox ? "both are in a sandbox" : "neither is in a sandbox: SANDBOX:PATH");
    else
        status = tool_open_host(tool);
    if (!status)
        status = tool_open_sandbox(tool, from.sandbox ? from.sandbox : to.sandbox, &sandbox);
    if (!status)
        status = signals_open(tool, &signals);
    if (!status) {
        status = from.sandbox ? copy_out(tool, sandbox, &from, &to, (int)arguments->archive, &signals)
                              : copy_in(tool, sandbox, &from, &to, (int)arguments->archive, &signals);
        if (status && signals.last)
            status = 128 + signals.last;
        signals_close(&signals);
    }
    sandbox_unref(sandbox);
    forget_place(&from);
    forget_place(&to);
    return status;
}
