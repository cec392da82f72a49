/* SPDX-License-Identifier: Apache-2.0
 * What a sandbox is: its record, checked against the kernel. The state that is told is never a file's word alone: running is only
 * who answers, and who doesn't answer is looked for by its identity. */
#include "lifetime.h"
#include "network.h"
#include "overlay.h"
#include "secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <errors.h>
#include <json.h>

json_t *sb_inspect_damaged(const char *id)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:s, s:s}, s:I, s:{}, s:{}, s:{s:s, s:i, s:i}, s:{}, s:[], s:[], s:{}}", "id", id, "name", "",
                     "state", "damaged", "cause", "its record does not verify", "image", "ref", "", "digest", "", "config_digest",
                     "", "created_ms", (json_int_t)0, "labels", "spec", "daemon", "state", "none", "code", -1, "signal", 0,
                     "isolation", "mounts", "secrets", "life");
}

static const char *daemon_state(uint32_t state)
{
    static const char *const names[] = { "none", "created", "running", "exited" };

    return state < SB_ELEMENTS(names) ? names[state] : "none";
}

/* The owner of an owned sandbox is gone: then its end was meant. */
static int owner_is_gone(const struct sb_engine *engine, const struct sb_record *record)
{
    struct sb_identity owner;
    int fd;

    if (record->spec->lifetime != SANDBOX_LIFETIME_OWNED)
        return 0;
    sb_identity_from_json(json_object_get(record->json, "owner"), &owner);
    fd = sb_identity_find(&engine->self, &owner);
    if (fd >= 0)
        sb_close(fd);
    return fd == -ESRCH;
}

static int is_deaf(struct sb_engine *engine, const char *id)
{
    SB_CLOSE int link = -1;

    return sb_link_open(engine, id, &link, NULL) == SANDBOX_ENOTRUNNING;
}

static void copy_cause(const json_t *run, char cause[256])
{
    const char *text = sb_json_str(run, "cause");

    if (text && strlen(text) < 256) /* whole, so that it stays UTF-8 */
        snprintf(cause, 256, "%s", text);
}

/* Of one whose init does not answer. */
static void find_silent(struct sb_engine *engine, const struct sb_record *record, const json_t *run, const char **ret_state, char cause[256])
{
    const char *recorded = sb_json_str(run, "state");

    if (!run) {
        *ret_state = "creating";
    } else {
        struct sb_identity init;
        int fd;

        sb_identity_from_json(json_object_get(run, "init"), &init);
        fd = sb_identity_find(&engine->self, &init);
        if ((fd == -EXDEV || fd == -EACCES) &&
            is_deaf(engine, record->id)) /* it can't be seen from here, but nobody listens any more */
            fd = -ESRCH;
        if (fd != -ESRCH) {
            sb_close(fd);
            *ret_state = recorded && !strcmp(recorded, "stopped") ? "stopped" : "running";
            snprintf(cause, 256, "its init lives and does not answer");
        } else if (recorded && !strcmp(recorded, "stopped")) {
            *ret_state = "stopped";
            copy_cause(run, cause);
        } else if (sb_lifetime_ended(engine, record)) {
            *ret_state = "stopped";
            snprintf(cause, 256, "%s", sb_lifetime_ended(engine, record));
        } else if (strcmp(init.boot, engine->self.boot)) {
            *ret_state = "stopped";
            snprintf(cause, 256, "the machine was restarted");
        } else if (owner_is_gone(engine, record)) {
            *ret_state = "stopped";
            snprintf(cause, 256, "its owner ended");
        } else {
            *ret_state = "failed";
            snprintf(cause, 256, sb_keeper_was_killed(engine, record) ? "its keeper was killed" : "its init died");
        }
    }
}

/* An answer means that it was committed: init serves nobody before. So the run document is only read for one that is silent. */
static void find_state(struct sb_engine *engine, const struct sb_record *record, const struct sb_reply *status, const char **ret_state,
                       char cause[256], json_t **ret_daemon)
{
    *cause = 0;
    if (status) {
        *ret_state = status->paused ? "paused" : status->started ? "running" : "created";
        if (!status->started) { /* a start may have failed */
            SB_JSON json_t *run = sb_record_read_run(engine, record);

            copy_cause(run, cause);
        }
        *ret_daemon =
            json_pack("{s:s, s:i, s:i}", "state",
                      daemon_state(record->spec->daemon && status->daemon == SB_DAEMON_NONE ? SB_DAEMON_STARTING : status->daemon),
                      "code", status->daemon == SB_DAEMON_EXITED && !status->signal ? status->code : -1, "signal", status->signal);
    } else {
        SB_JSON json_t *run = sb_record_read_run(engine, record);

        find_silent(engine, record, run, ret_state, cause);
        *ret_daemon = json_pack("{s:s, s:i, s:i}", "state",
                                !record->spec->daemon             ? "none"
                                : !strcmp(*ret_state, "running") ? "unknown" /* init lives and does not answer */
                                                                  : "exited",
                                "code", -1, "signal", 0);
    }
}

static json_t *fact(const char *level, const char *why)
{
    return json_pack("{s:s, s:s}", "level", level, "why", why);
}

static int binds(const struct sandbox_spec *spec)
{
    for (size_t i = 0; i < spec->n_mounts; i++)
        if (spec->mounts[i].type == SANDBOX_MOUNT_BIND)
            return 1;
    return 0;
}

/* How strong each promise is here (design: enforced, wrapped, advisory, impossible). */
static json_t *isolation(const struct sb_engine *engine, const struct sb_record *record)
{
    const struct sandbox_spec *spec = record->spec;
    int root = record->map.privilege == SB_PRIVILEGE_ROOT;
    unsigned int delegated = sb_cgroups_has_leaves(json_object_get(record->json, "cgroups")) ? engine->cgroups.delegated : 0;
    int pids = (delegated >> SB_CONTROLLER_PIDS & 1) || (spec->limits.pids_max && engine->cgroups.v1[SB_CONTROLLER_PIDS]);
    int memory = (delegated >> SB_CONTROLLER_MEMORY & 1) || engine->cgroups.v1[SB_CONTROLLER_MEMORY];
    json_t *j = json_object();

    json_object_set_new(
        j, "user_namespace",
        fact("enforced", "init, daemon and commands are in a user namespace of their own, which makes no others"));
    json_object_set_new(j, "id_range",
                        root ? fact("enforced", "a range of its own")
                             : fact("wrapped", record->map.privilege == SB_PRIVILEGE_SUBIDS
                                                   ? "all sandboxes of this user share its ranges"
                                                   : "the user's own id is the only one"));
    json_object_set_new(j, "mounts", fact("enforced", "locked: their flags and places can't be changed inside"));
    json_object_set_new(j, "seccomp", fact("enforced", "a filter each for commands and daemon"));
    json_object_set_new(j, "capabilities", fact("enforced", "commands have none"));
    json_object_set_new(j, "network", sb_network_fact(engine, record));
    if (binds(spec))
        json_object_set_new(j, "bind_sockets",
                            fact("advisory", "a UNIX socket in a bound folder can be connected to, as its mode lets a stranger"));
    if (spec->fuse)
        json_object_set_new(j, "fuse", root ? fact("enforced", "a node of its own, for the daemon alone")
                                            : fact("wrapped", "the machine's node: commands may open it, but can't mount by it"));
    json_object_set_new(
        j, "pids", pids ? fact("enforced", "by a cgroup") : fact("wrapped", "by RLIMIT_NPROC in the sandbox's user namespace"));
    json_object_set_new(j, "pause",
                        sb_cgroups_has_leaves(json_object_get(record->json, "cgroups"))
                            ? fact("enforced", "by the freezer of cgroup2")
                            : fact("wrapped", "by SIGSTOP to all: what was stopped before goes on at the end, too"));
    json_object_set_new(j, "memory",
                        spec->limits.memory_max ? fact("enforced", "by a cgroup")
                        : memory         ? fact("advisory", "no limit was asked for")
                                         : fact("impossible", "no cgroup with the memory controller can be written"));
    return j;
}

/* Most sandboxes of a host have the same report: new references to one document. */
static json_t *shared_isolation(const struct sb_engine *engine, const struct sb_record *record, struct sb_isolations *isolations)
{
    size_t kind = record->map.privilege % 3 * 64 + (size_t)sb_network_kind(record) % 4 * 16 +
                  (size_t)binds(record->spec) * 8 + (record->spec->fuse != 0) * 4 +
                  (record->spec->limits.pids_max != 0) * 2 + (record->spec->limits.memory_max != 0);

    if (!isolations->made[kind])
        isolations->made[kind] = isolation(engine, record);
    return json_incref(isolations->made[kind]);
}

void sb_isolations_clear(struct sb_isolations *isolations)
{
    for (size_t i = 0; i < SB_ELEMENTS(isolations->made); i++)
        json_decref(isolations->made[i]);
}

static json_t *labels_of(const struct sandbox_spec *spec)
{
    json_t *labels = json_object();

    for (size_t i = 0; i < spec->n_labels; i++)
        json_object_set_new(labels, spec->labels[i].key, json_string(spec->labels[i].value));
    return labels;
}

/* As they are now. */
static json_t *limits_of(const struct sb_record *record)
{
    json_t *object = json_object_get(record->json, "limits");

    if (object)
        return json_incref(object);
    object = json_object();
    if (object && sb_limits_to_json(&record->spec->limits, object)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *sb_inspect_document(struct sb_engine *engine, const struct sb_record *record, const struct sb_reply *status,
                            struct sb_isolations *isolations)
{
    const char *state;
    json_t *daemon;
    char cause[256];

    find_state(engine, record, status, &state, cause, &daemon);
    return json_pack("{s:s, s:s, s:s, s:s, s:O, s:I, s:o, s:O, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id", record->id, "name",
                     record->spec->name ? record->spec->name : "", "state", state, "cause", cause, "image",
                     json_object_get(record->json, "image"), "created_ms", (json_int_t)sb_json_int(record->json, "created_ms", 0),
                     "labels", labels_of(record->spec), "spec", json_object_get(record->json, "spec"), "daemon", daemon,
                     "isolation", shared_isolation(engine, record, isolations), "mounts", sb_overlays_document(record), "secrets",
                     sb_secrets_found(record), "limits", limits_of(record), "life", sb_lifetime_document(engine, record, status), "network",
                     sb_network_document(engine, record), "ports", sb_published(engine, record));
}

int sb_inspect_one(struct sb_engine *engine, const char *id, json_t **ret_json, struct sandbox_error **error)
{
    struct sb_record record = SB_RECORD_INIT;
    struct sandbox_error *why = NULL;
    json_t *json;
    int r = sb_record_open(engine, id, SB_LOCK_NONE, &record, &why);

    if (r == SANDBOX_EDAMAGED) {
        struct sb_record probe = SB_RECORD_INIT;
        /* being made just now, or its maker died before the record was written? Then it is no more damaged than unborn. */
        int p = sb_record_take(engine, id, &probe, NULL);
        /* or deleted while it was read */
        int busy = p == SANDBOX_EBUSY || p == SANDBOX_ENOTFOUND;

        sb_record_clear(&probe);
        json = busy ? NULL : sb_inspect_damaged(id);
        r = busy ? SANDBOX_ENOTFOUND : 0;
    } else {
        struct sb_isolations isolations = { 0 };
        struct sb_reply status;
        json_t *execs = NULL;

        json = r ? NULL : sb_inspect_document(engine, &record, sb_status_ask(engine, id, &status, &execs) ? NULL : &status, &isolations);
        sb_isolations_clear(&isolations);
        if (json)
            json_object_set_new(json, "execs", execs ? execs : json_array());
        else
            json_decref(execs);
    }
    sb_record_clear(&record);
    if (!r && !json)
        r = sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    if (r && error && !*error)
        *error = SB_TAKE_PTR(why);
    sandbox_error_unref(why);
    if (!r)
        *ret_json = json;
    return r;
}

int sb_engine_inspect(struct sb_driver *driver, const char *id, json_t **ret_json, struct sandbox_error **error)
{
    int r;

    sb_children_reap((struct sb_engine *)driver);
    r = sb_inspect_one((struct sb_engine *)driver, id, ret_json, error);
    if (!r)
        sb_exits_complete((struct sb_engine *)driver, id, *ret_json);
    return r;
}

/* A handle needs no document: only that there is something which is not still being made. */
int sb_engine_open_sandbox(struct sb_driver *driver, const char *id, struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    struct sb_record probe = SB_RECORD_INIT;
    char path[SB_ID_SIZE + 16];
    int r;

    snprintf(path, sizeof path, "%s/record", id);
    if (faccessat(engine->sandboxes, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    r = sb_record_take(engine, id, &probe, error);
    sb_record_clear(&probe);
    if (r == SANDBOX_EDAMAGED || r == SANDBOX_EBUSY) {
        if (error)
            *error = sandbox_error_unref(*error);
        r = r == SANDBOX_EDAMAGED ? 0
                                  : sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .field = "id", .hint = "it is being made"),
                                            "there is no sandbox %.12s yet", id);
    }
    return r;
}
