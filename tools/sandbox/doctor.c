/* SPDX-License-Identifier: Apache-2.0
 * doctor: what this host can enforce. A short line for what is well, cause and remedy for what isn't. Status 1 when something is
 * impossible here. */
#include "tool.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *word, *colour;
} levels[] = {
    [SANDBOX_LEVEL_ENFORCED] = { "ok", "\033[32m" },
    [SANDBOX_LEVEL_WRAPPED] = { "wrapped", "\033[33m" },
    [SANDBOX_LEVEL_ADVISORY] = { "advisory", "\033[33m" },
    [SANDBOX_LEVEL_IMPOSSIBLE] = { "impossible", "\033[31m" },
};

static void print_entry(const struct sandbox_report *report, size_t i, int colours)
{
    int level = sandbox_report_get_level(report, i);

    printf("%s%-10s%s  %-16s  ", colours ? levels[level].colour : "", levels[level].word, colours ? "\033[0m" : "",
           sandbox_report_get_feature(report, i));
    print_safe(sandbox_report_get_probe(report, i));
    putchar('\n');
    if (level == SANDBOX_LEVEL_ENFORCED)
        return;
    printf("%12s%-16s  cause:  ", "", "");
    print_safe(sandbox_report_get_cause(report, i));
    printf("\n%12s%-16s  remedy: ", "", "");
    print_safe(sandbox_report_get_remedy(report, i));
    putchar('\n');
}

static int print_report(const struct sandbox_report *report)
{
    size_t n = sandbox_report_get_count(report), counts[5] = { 0 };
    int colours = isatty(STDOUT_FILENO);

    for (size_t i = 0; i < n; i++) {
        print_entry(report, i, colours);
        counts[sandbox_report_get_level(report, i)]++;
    }
    printf("\n%zu enforced, %zu wrapped, %zu advisory, %zu impossible\n", counts[SANDBOX_LEVEL_ENFORCED],
           counts[SANDBOX_LEVEL_WRAPPED], counts[SANDBOX_LEVEL_ADVISORY], counts[SANDBOX_LEVEL_IMPOSSIBLE]);
    return counts[SANDBOX_LEVEL_IMPOSSIBLE] != 0;
}

static int is_lacking(const struct sandbox_report *report)
{
    for (size_t i = 0; i < sandbox_report_get_count(report); i++)
        if (sandbox_report_get_level(report, i) == SANDBOX_LEVEL_IMPOSSIBLE)
            return 1;
    return 0;
}

int command_doctor(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_report *report = NULL;
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = NULL;
    struct signals signals;
    int status = signals_open(tool, &signals), r;

    (void)arguments;
    if (status)
        return status;
    status = tool_open_host(tool);
    if (!status) {
        r = sandbox_host_doctor_begin(tool->host, &op, &error);
        if (!r)
            r = op_drive(tool, op, &signals, &error);
        if (!r)
            r = sandbox_op_take_report(op, &report, &error);
        sandbox_op_unref(op);
        if (r == SANDBOX_ECANCELLED && signals.last) {
            sandbox_error_unref(error);
            status = 128 + signals.last;
        } else if (r) {
            status = report_error(tool, error);
        } else if (tool->json) {
            puts(sandbox_report_get_json(report));
            status = is_lacking(report);
        } else {
            status = print_report(report);
        }
    }
    sandbox_report_unref(report);
    signals_close(&signals);
    return status;
}
