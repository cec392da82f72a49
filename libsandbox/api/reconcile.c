/* SPDX-License-Identifier: Apache-2.0
 * Reconcile: a host is asked to look for what nobody's record names, and its findings are read. */
#include "handles.h"

#include <json.h>

struct sandbox_findings {
    json_t *findings;
    char *text;
};

static const char *const members[] = { "kind", "name", "why", "action" };

/* The host may be a hostile machine: what the getters rely on is checked here. */
int sb_findings_new(json_t *findings, struct sandbox_findings **ret_findings, struct sandbox_error **error)
{
    struct sandbox_findings *report;
    int good = json_is_array(findings);

    for (size_t i = 0; good && i < json_array_size(findings); i++)
        for (size_t m = 0; good && m < SB_ELEMENTS(members); m++)
            good = sb_json_str(json_array_get(findings, i), members[m]) != NULL;
    if (!good) {
        json_decref(findings);
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL), "the host's answer is not a list of findings");
    }
    report = calloc(1, sizeof *report);
    if (!report || !(report->text = sb_json_dump(findings))) {
        free(report);
        json_decref(findings);
        return sb_fail_memory(error);
    }
    report->findings = findings;
    *ret_findings = report;
    return 0;
}

static int reconcile_begin(struct sandbox_host *host, unsigned int flags, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sb_op *op;
    int r = sb_host_check(host, error);

    if (r)
        return r;
    if (flags & ~SANDBOX_RECONCILE_DRY_RUN)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "flags"), "flags has bits that this version does not know");
    if (!ret_op)
        return sb_fail_null(error, "ret_op");
    if (!host->driver->ops->reconcile)
        return sb_fail_slot(error, host, "reconcile", NULL);
    r = host->driver->ops->reconcile(host->driver, flags, &op, error);
    return r ? r : sb_op_new(op, host, NULL, "reconcile", host->driver->ops->name, ret_op, error);
}

int sandbox_host_reconcile_begin(struct sandbox_host *host, unsigned int flags, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(reconcile_begin(host, flags, ret_op, &failure), &failure, error, "reconcile", host);
}

int sandbox_host_reconcile(struct sandbox_host *host, unsigned int flags, int64_t timeout_ms, struct sandbox_findings **ret_findings,
                           struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = ret_findings ? sb_check_timeout(timeout_ms, "timeout_ms", &failure) : sb_fail_null(&failure, "ret_findings");

    if (!r)
        r = reconcile_begin(host, flags, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    if (!r)
        r = sandbox_op_take_findings(op, ret_findings, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "reconcile", host);
}

struct sandbox_findings *sandbox_findings_unref(struct sandbox_findings *report)
{
    if (report) {
        json_decref(report->findings);
        free(report->text);
        free(report);
    }
    return NULL;
}

size_t sandbox_findings_get_count(const struct sandbox_findings *report)
{
    return report ? json_array_size(report->findings) : 0;
}

static const char *member(const struct sandbox_findings *report, size_t index, const char *key)
{
    return report && index < json_array_size(report->findings) ? sb_json_str(json_array_get(report->findings, index), key) : NULL;
}

const char *sandbox_findings_get_kind(const struct sandbox_findings *report, size_t index)
{
    return member(report, index, "kind");
}

const char *sandbox_findings_get_name(const struct sandbox_findings *report, size_t index)
{
    return member(report, index, "name");
}

const char *sandbox_findings_get_why(const struct sandbox_findings *report, size_t index)
{
    return member(report, index, "why");
}

const char *sandbox_findings_get_action(const struct sandbox_findings *report, size_t index)
{
    return member(report, index, "action");
}

const char *sandbox_findings_get_json(const struct sandbox_findings *report)
{
    return report ? report->text : "";
}
