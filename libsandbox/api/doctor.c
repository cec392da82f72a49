/* SPDX-License-Identifier: Apache-2.0
 * doctor: what a host can enforce, as a report that getters read. */
#include "handles.h"

#include <json.h>
#include <string.h>

struct sandbox_report {
    json_t *document;
    char *text;
    const json_t *entries;
};

static const char *const levels[] = {
    [SANDBOX_LEVEL_ENFORCED] = "enforced",
    [SANDBOX_LEVEL_WRAPPED] = "wrapped",
    [SANDBOX_LEVEL_ADVISORY] = "advisory",
    [SANDBOX_LEVEL_IMPOSSIBLE] = "impossible",
};

static int level_of(const json_t *entry)
{
    const char *name = sb_json_str(entry, "level");

    for (int i = SANDBOX_LEVEL_ENFORCED; name && i < (int)SB_ELEMENTS(levels); i++)
        if (!strcmp(levels[i], name))
            return i;
    return -1;
}

/* The host may be a hostile machine: what the getters rely on is checked here. */
static int is_report(const json_t *document)
{
    const json_t *entries = json_object_get(document, "entries"), *entry;
    size_t i;

    if (!json_is_array(entries) || !json_is_object(json_object_get(document, "host")))
        return 0;
    json_array_foreach(entries, i, entry)
    {
        if (level_of(entry) < 0 || !sb_json_str(entry, "feature") || !sb_json_str(entry, "probe") ||
            !sb_json_str(entry, "cause") || !sb_json_str(entry, "remedy"))
            return 0;
    }
    return 1;
}

int sb_report_new(json_t *document, struct sandbox_report **ret_report, struct sandbox_error **error)
{
    struct sandbox_report *report;

    if (!is_report(document)) {
        json_decref(document);
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL), "the host's answer is not a report");
    }
    report = calloc(1, sizeof *report);
    if (!report || !(report->text = sb_json_dump(document))) {
        free(report);
        json_decref(document);
        return sb_fail_memory(error);
    }
    report->document = document;
    report->entries = json_object_get(document, "entries");
    *ret_report = report;
    return 0;
}

static int doctor_begin(struct sandbox_host *host, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sb_op *op;
    int r = sb_host_check(host, error);

    if (r)
        return r;
    if (!ret_op)
        return sb_fail_null(error, "ret_op");
    if (!host->driver->ops->doctor)
        return sb_fail_slot(error, host, "doctor", NULL);
    r = host->driver->ops->doctor(host->driver, &op, error);
    return r ? r : sb_op_new(op, host, NULL, "doctor", host->driver->ops->name, ret_op, error);
}

int sandbox_host_doctor_begin(struct sandbox_host *host, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(doctor_begin(host, ret_op, &failure), &failure, error, "doctor", host);
}

int sandbox_host_doctor(struct sandbox_host *host, int64_t timeout_ms, struct sandbox_report **ret_report,
                        struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = ret_report ? sb_check_timeout(timeout_ms, "timeout_ms", &failure) : sb_fail_null(&failure, "ret_report");

    if (!r)
        r = doctor_begin(host, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    if (!r)
        r = sandbox_op_take_report(op, ret_report, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "doctor", host);
}

struct sandbox_report *sandbox_report_unref(struct sandbox_report *report)
{
    if (report) {
        json_decref(report->document);
        free(report->text);
        free(report);
    }
    return NULL;
}

size_t sandbox_report_get_count(const struct sandbox_report *report)
{
    return report ? json_array_size(report->entries) : 0;
}

static const char *member(const struct sandbox_report *report, size_t index, const char *key)
{
    return report ? sb_json_str(json_array_get(report->entries, index), key) : NULL;
}

const char *sandbox_report_get_feature(const struct sandbox_report *report, size_t index)
{
    return member(report, index, "feature");
}

int sandbox_report_get_level(const struct sandbox_report *report, size_t index)
{
    return index < sandbox_report_get_count(report) ? level_of(json_array_get(report->entries, index)) : SANDBOX_EINVALID;
}

const char *sandbox_report_get_probe(const struct sandbox_report *report, size_t index)
{
    return member(report, index, "probe");
}

const char *sandbox_report_get_cause(const struct sandbox_report *report, size_t index)
{
    return member(report, index, "cause");
}

const char *sandbox_report_get_remedy(const struct sandbox_report *report, size_t index)
{
    return member(report, index, "remedy");
}

const char *sandbox_report_get_json(const struct sandbox_report *report)
{
    return report ? report->text : "";
}
