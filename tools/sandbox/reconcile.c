/* SPDX-License-Identifier: Apache-2.0
 * reconcile and leaks: what dead processes left on a host. leaks only looks, and its status tells whether there was something. */
#include "tool.h"

#include <stdio.h>

static void print_table(const struct sandbox_findings *report)
{
    static const char *const titles[] = { "KIND", "ACTION", "NAME", "WHY" };
    struct table *table = table_new(titles, TOOL_ELEMENTS(titles));

    for (size_t i = 0; i < sandbox_findings_get_count(report); i++) {
        table_add(table, 0, sandbox_findings_get_kind(report, i));
        table_add(table, 1, sandbox_findings_get_action(report, i));
        table_add(table, 2, sandbox_findings_get_name(report, i));
        table_add(table, 3, sandbox_findings_get_why(report, i));
    }
    table_print(table);
    table_free(table);
}

static int look(struct tool *tool, unsigned int flags, size_t *ret_count, size_t *ret_failed)
{
    struct sandbox_findings *report = NULL;
    struct sandbox_error *error = NULL;
    int status = tool_open_host(tool);

    *ret_count = *ret_failed = 0;
    if (status)
        return status;
    if (sandbox_host_reconcile(tool->host, flags, -1, &report, &error))
        return report_error(tool, error);
    if (tool->json)
        puts(sandbox_findings_get_json(report));
    else if (sandbox_findings_get_count(report))
        print_table(report);
    else
        puts("nothing was left");
    *ret_count = sandbox_findings_get_count(report);
    for (size_t i = 0; i < *ret_count; i++)
        *ret_failed += sandbox_findings_get_action(report, i)[0] == 'f' && !(flags & SANDBOX_RECONCILE_DRY_RUN);
    sandbox_findings_unref(report);
    return 0;
}

int command_reconcile(struct tool *tool, const struct arguments *arguments)
{
    size_t count, failed;
    int status = look(tool, arguments->dry_run ? SANDBOX_RECONCILE_DRY_RUN : 0, &count, &failed);

    return status ? status : failed != 0;
}

int command_leaks(struct tool *tool, const struct arguments *arguments)
{
    size_t count, failed;
    int status = look(tool, SANDBOX_RECONCILE_DRY_RUN, &count, &failed);

    (void)arguments;
    return status ? status : count != 0;
}
