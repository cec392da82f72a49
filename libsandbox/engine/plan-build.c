/* SPDX-License-Identifier: Apache-2.0
 * See plan-build.h. */
#include "plan-build.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>
#include <rules.h>

#include "filter-programs.h"
#include "network.h"
#include "profile.h"
#include "overlay.h"
#include "secrets.h"
#include "volume.h"

#define SHM_BYTES (64ll << 20)

/* What every daemon has; within the sandbox's own user namespace. */
static const uint64_t basic_capabilities = 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_FSETID |
                                           1u << CAP_KILL | 1u << CAP_SETGID | 1u << CAP_SETUID | 1u << CAP_SETPCAP |
                                           1u << CAP_NET_BIND_SERVICE;

struct builder {
    struct sb_plan *plan; /* grows */
    size_t size, room;
    int failed;
};

static uint32_t add_bytes(struct builder *b, const void *data, size_t size, size_t align)
{
    size_t at = (b->size + align - 1) / align * align;

    if (b->failed || at + size > (32u << 20)) {
        b->failed = 1;
        return 0;
    }
    if (at + size > b->room) {
        size_t room = (at + size) * 2;
        struct sb_plan *more = realloc(b->plan, room);

        if (!more) {
            b->failed = 1;
            return 0;
        }
        memset((char *)more + b->size, 0, room - b->size);
        b->plan = more;
        b->room = room;
    }
    memcpy((char *)b->plan + at, data, size);
    b->size = at + size;
    return (uint32_t)at;
}

static uint32_t add_string(struct builder *b, const char *text)
{
    return text && *text ? add_bytes(b, text, strlen(text) + 1, 1) : 0;
}

static int add_mount(struct builder *b, uint32_t type, uint32_t flags, const char *source, const char *target, uint64_t max_bytes)
{
    struct sb_plan_mount m = { .type = type, .flags = flags, .max_bytes = max_bytes };

    if (b->plan->n_mounts >= SB_PLAN_MAX_MOUNTS)
        return -E2BIG;
    m.source = add_string(b, source);
    m.target = add_string(b, target);
    if (b->failed)
        return -ENOMEM;
    b->plan->mounts[b->plan->n_mounts++] = m;
    return 0;
}

static int add_host_mount(void *data, const char *path)
{
    return add_mount(data, SB_PLAN_MOUNT_BIND, SB_PLAN_MOUNT_READ_ONLY, path, path, 0);
}

/* Of the mount that was added last. */
static void set_owner(struct builder *b, const char *owner)
{
    struct sb_plan_mount *m = &b->plan->mounts[b->plan->n_mounts - 1];

    if (sb_parse_owner(owner, &m->owner_uid, &m->owner_gid)) /* the spec's rules have seen it */
        b->failed = 1;
    m->flags |= SB_PLAN_MOUNT_IDMAP;
}

static int add_overlay(struct builder *b, const struct sb_record *record, size_t i)
{
    const struct sb_mount *m = &record->spec->mounts[i];
    char path[256];
    uint32_t at;
    int r = add_mount(b, SB_PLAN_MOUNT_OVERLAY, 0, m->source, m->target, (uint64_t)m->max_bytes);

    if (r)
        return r;
    sb_overlay_place(record, i, path, sizeof path);
    at = add_string(b, path);
    if (b->failed)
        return -ENOMEM;
    b->plan->mounts[b->plan->n_mounts - 1].upper = at;
    b->plan->mounts[b->plan->n_mounts - 1].number = (uint32_t)i;
    set_owner(b, m->owner ? m->owner : "0:0");
    return 0;
}

static int add_volume(struct builder *b, struct sb_engine *engine, const struct sb_mount *m, uint32_t flags)
{
    char path[256];
    uint32_t uid, gid;
    int r;

    snprintf(path, sizeof path, "volumes/%s/data", m->source);
    flags |= SB_PLAN_MOUNT_BELOW_ROOT | (engine->map.privilege == SB_PRIVILEGE_ROOT ? SB_PLAN_MOUNT_IDMAP : 0);
    r = sb_volume_owner(engine, m->source, &uid, &gid);
    if (!r)
        r = add_mount(b, SB_PLAN_MOUNT_BIND, flags, path, m->target, 0);
    if (!r) {
        b->plan->mounts[b->plan->n_mounts - 1].owner_uid = uid;
        b->plan->mounts[b->plan->n_mounts - 1].owner_gid = gid;
    }
    return r;
}

static int add_spec_mount(struct builder *b, struct sb_engine *engine, const struct sb_record *record, size_t i)
{
    const struct sb_mount *m = &record->spec->mounts[i];
    uint32_t flags = m->flags & SANDBOX_MOUNT_READ_ONLY ? SB_PLAN_MOUNT_READ_ONLY : 0;
    int64_t bytes = m->max_bytes;
    int r;

    switch (m->type) {
    case SANDBOX_MOUNT_BIND:
        r = add_mount(b, SB_PLAN_MOUNT_BIND, flags, m->source, m->target, 0);
        if (!r && m->owner)
            set_owner(b, m->owner);
        return r;
    case SANDBOX_MOUNT_OVERLAY:
        return add_overlay(b, record, i);
    case SANDBOX_MOUNT_VOLUME:
        return add_volume(b, engine, m, flags);
    default:
        if (!bytes)
            bytes = record->spec->limits.memory_max ? record->spec->limits.memory_max / 4 : SHM_BYTES;
        return add_mount(b, SB_PLAN_MOUNT_TMPFS, flags, NULL, m->target, (uint64_t)bytes);
    }
}

static int add_hidden(struct builder *b, const struct sb_record *record)
{
    SB_JSON json_t *found = record->spec->secrets == SANDBOX_SECRETS_HIDE ? sb_secrets_found(record) : NULL;
    const json_t *entry;
    size_t i;

    json_array_foreach(found, i, entry)
    {
        SB_FREE char *target = sb_json_get_bytes(json_object_get(entry, "target"));
        SB_FREE char *path = sb_json_get_bytes(json_object_get(entry, "path"));
        SB_FREE char *whole = NULL;
        uint32_t at;

        if (!target || !path || asprintf(&whole, "%s/%s", target, path) < 0)
            return -ENOMEM;
        at = add_string(b, whole); /* strings have no gaps between them */
        if (!i)
            b->plan->hidden = at;
        b->plan->n_hidden++;
    }
    return 0;
}

static int add_resolv(struct builder *b, const struct sb_record *record)
{
    SB_FREE char *path = sb_network_resolv(record);

    return path ? add_mount(b, SB_PLAN_MOUNT_BIND, SB_PLAN_MOUNT_READ_ONLY | SB_PLAN_MOUNT_BELOW_ROOT, path, "/etc/resolv.conf", 0) : 0;
}

static int add_mounts(struct builder *b, struct sb_engine *engine, const struct sb_record *record)
{
    int r = 0;

    if (!strcmp(record->spec->image, "host"))
        r = sb_hostimage_mounts(add_host_mount, b);
    if (!r)
        r = add_resolv(b, record);
    for (size_t i = 0; i < record->spec->n_mounts && !r; i++)
        r = add_spec_mount(b, engine, record, i);
    return r;
}

static struct sb_plan_filter add_filter(struct builder *b, const struct sock_filter *code, size_t count)
{
    return (struct sb_plan_filter){ .offset = add_bytes(b, code, count * sizeof *code, 8), .count = (uint32_t)count };
}
#define ADD_FILTER(b, program) add_filter(b, program, SB_ELEMENTS(program))

/* A caller's own profile for one of the two kinds. SANDBOX_E… */
static int add_profile(struct builder *b, const struct sb_profile *profile, uint64_t capabilities, struct sb_plan_filter *ret,
                       struct sandbox_error **error)
{
    SB_FREE struct sock_filter *code = NULL;
    size_t count;
    int r = sb_profile_compile(profile, capabilities, &code, &count, error);

    if (!r)
        *ret = add_filter(b, code, count);
    return r;
}

/* What the isolation stands on is in the first filter, whatever the profile; a caller's own comes after the least of them. */
static int add_filters(struct builder *b, const char *seccomp, struct sandbox_error **error)
{
    int is_default = !seccomp || !strcmp(seccomp, "default"), is_strict = seccomp && !strcmp(seccomp, "strict");
    struct sb_plan_filter command = is_default || is_strict ? ADD_FILTER(b, sb_filter_command) : ADD_FILTER(b, sb_filter_command_devel);
    struct sb_plan_filter daemon = is_default || is_strict ? ADD_FILTER(b, sb_filter_daemon) : ADD_FILTER(b, sb_filter_daemon_devel);
    struct sb_plan_filter command_profile = { 0 }, daemon_profile = { 0 };
    SB_PROFILE struct sb_profile *profile = NULL;
    int r = 0;

    if (is_strict) {
        command_profile = ADD_FILTER(b, sb_filter_command_strict);
        daemon_profile = ADD_FILTER(b, sb_filter_daemon_strict);
    } else if (!is_default && strcmp(seccomp, "devel")) {
        r = sb_profile_parse(seccomp, strlen(seccomp), &profile, error);
        if (!r)
            r = add_profile(b, profile, 0, &command_profile, error);
        if (!r)
            r = add_profile(b, profile, b->plan->daemon_capabilities, &daemon_profile, error);
    }
    b->plan->command = command; /* now: the plan moves when it grows */
    b->plan->daemon = daemon;
    b->plan->command_profile = command_profile;
    b->plan->daemon_profile = daemon_profile;
    return r;
}

static int fill(struct builder *b, struct sb_engine *engine, const struct sb_record *record)
{
    const struct sandbox_spec *spec = record->spec;
    const json_t *layers = json_object_get(record->json, "layers"), *layer;
    char text[256];
    uint32_t at;
    size_t i;
    int r;

    *b->plan = (struct sb_plan){
        .magic = SB_PLAN_MAGIC,
        .version = SB_PLAN_VERSION,
        .map = record->map,
        .flags = (spec->fuse ? SB_PLAN_FUSE : 0u) | (spec->read_only ? SB_PLAN_READ_ONLY : 0u) |
                 (spec->lifetime == SANDBOX_LIFETIME_OWNED ? SB_PLAN_OWNED | SB_PLAN_VOLATILE : 0u) |
                 (sb_cgroups_has_leaves(json_object_get(record->json, "cgroups")) ? SB_PLAN_CGROUP : 0u),
        .network = spec->network == SANDBOX_NETWORK_NONE ? SB_PLAN_NETWORK_OWN
                   : spec->network == SANDBOX_NETWORK_HOST ? SB_PLAN_NETWORK_HOST
                                                           : SB_PLAN_NETWORK_GIVEN,
        .daemon_capabilities = spec->daemon ? basic_capabilities | spec->capabilities : 0,
        /* a group can be given another limit while it runs, this one not */
        .nproc_max = sb_cgroups_counts_pids(&engine->cgroups, json_object_get(record->json, "cgroups"), &spec->limits) ? 0
                     : spec->limits.pids_max ? (uint64_t)spec->limits.pids_max
                                             : SB_PIDS_DEFAULT,
        .shm_max = (uint64_t)(spec->limits.memory_max && spec->limits.memory_max / 2 < SHM_BYTES ? spec->limits.memory_max / 2 : SHM_BYTES),
    };
    snprintf(text, sizeof text, "%.12s", record->id);
    at = add_string(b, spec->hostname ? spec->hostname : text); /* b->plan may move in there */
    b->plan->hostname = at;
    snprintf(text, sizeof text, "sandboxes/%s", record->id);
    at = add_string(b, text);
    b->plan->folder = at;
    json_array_foreach(layers, i, layer)
    {
        if (i >= SB_PLAN_MAX_LAYERS)
            return -E2BIG;
        at = add_string(b, json_string_value(layer));
        b->plan->layers[b->plan->n_layers++] = at;
    }
    r = add_mounts(b, engine, record);
    if (!r)
        r = add_hidden(b, record);
    for (int c = 0; c < SB_CONTROLLERS && !r; c++) {
        char path[4300];

        if (!sb_cgroups_wanted(&spec->limits, c) || (engine->cgroups.delegated >> c & 1) || !engine->cgroups.v1[c])
            continue;
        snprintf(path, sizeof path, "%s/%s/cgroup.procs", engine->cgroups.v1[c], record->id);
        at = add_string(b, path);
        b->plan->cgroups[b->plan->n_cgroups++] = at;
    }
    return r;
}

static int finish(struct builder *b)
{
    add_bytes(b, "", 1, 1); /* so that no string goes beyond it */
    b->plan->size = (uint32_t)b->size;
    return b->failed ? -ENOMEM : 0;
}

int sb_plan_write(struct sb_engine *engine, const struct sb_record *record, int memfd, struct sandbox_error **error)
{
    struct builder b = { .size = sizeof(struct sb_plan), .room = sizeof(struct sb_plan) + 16384 };
    int r;

    b.plan = calloc(1, b.room);
    r = b.plan ? fill(&b, engine, record) : -ENOMEM;
    if (!r) {
        int refused = add_filters(&b, record->spec->seccomp, error);

        if (refused) {
            free(b.plan);
            return refused;
        }
        r = finish(&b);
    }
    if (!r)
        r = sb_write_all(memfd, b.plan, b.size);
    if (!r && fcntl(memfd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        r = -errno;
    free(b.plan);
    if (r == -E2BIG)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .phase = "plan", .field = "mounts"), "too many layers (%d) or mounts (%d)",
                       SB_PLAN_MAX_LAYERS, SB_PLAN_MAX_MOUNTS);
    return r ? sb_fail_errno(error, -r, "plan", "the plan can't be made") : 0;
}
