/* SPDX-License-Identifier: Apache-2.0
 * The host that the options name, and sandboxes as people name them. Prefixes of ids exist in this tool only: the library
 * takes exact ids, so that no program ever acts on a sandbox that merely looks like the one it meant. */
#include "tool.h"

#include <string.h>

#define PREFIX_MIN 4

int tool_open_host(struct tool *tool)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_error *error = NULL;

    options.state_root = tool->root;
    if (sandbox_host_open(tool->uri, &options, -1, &tool->host, &error))
        return report_error(tool, error);
    return 0;
}

static int is_hex(const char *text, size_t length)
{
    return length > 0 && strspn(text, "0123456789abcdef") == length;
}

/* Looks through the list: *ret_id is set when exactly one sandbox is meant. */
static int find_id(struct tool *tool, const char *what, char ret_id[SANDBOX_ID_LENGTH + 1])
{
    size_t length = strlen(what), matches = 0;
    int prefix = length >= PREFIX_MIN && is_hex(what, length);
    struct sandbox_list_options options = SANDBOX_LIST_OPTIONS_INIT;
    struct sandbox_list *list = NULL;
    struct sandbox_error *error = NULL;

    if (!prefix && length <= SANDBOX_NAME_MAX)
        options.name_prefix = what; /* then only those are asked */
    if (sandbox_host_list(tool->host, &options, &list, &error))
        return report_error(tool, error);
    for (size_t i = 0; i < sandbox_list_get_count(list); i++) {
        const struct sandbox_info *info = sandbox_list_get(list, i);
        const char *id = sandbox_info_get_id(info);

        if (strcmp(sandbox_info_get_name(info), what) != 0 && !(prefix && strncmp(id, what, length) == 0))
            continue;
        memcpy(ret_id, id, SANDBOX_ID_LENGTH + 1);
        matches++;
    }
    sandbox_list_unref(list);
    if (matches > 1)
        return report(tool, SANDBOX_EINVALID, "id", "give more digits, or the whole id: sandbox ls --json",
                      "\"%s\" could mean %zu sandboxes", what, matches);
    if (matches == 0)
        return report(tool, SANDBOX_ENOTFOUND, "id", "list them by: sandbox ls", "no sandbox has the name or id \"%s\"%s", what,
                      is_hex(what, length) && length < PREFIX_MIN ? " (a prefix needs 4 digits)" : "");
    return 0;
}

int tool_open_sandbox(struct tool *tool, const char *what, struct sandbox **ret_sandbox)
{
    struct sandbox_error *error = NULL;
    char id[SANDBOX_ID_LENGTH + 1];
    size_t length = strlen(what);

    if (length == SANDBOX_ID_LENGTH && is_hex(what, length)) {
        memcpy(id, what, sizeof id);
    } else {
        int status = find_id(tool, what, id);

        if (status)
            return status;
    }
    if (sandbox_open(tool->host, id, ret_sandbox, &error))
        return report_error(tool, error);
    return 0;
}
