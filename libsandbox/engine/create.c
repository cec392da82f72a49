/* SPDX-License-Identifier: Apache-2.0
 * create: a new id, a record of everything that will be made, then the making. The operation has two halves: what is quick is done
 * at once, the stage is then waited for by steps. Whatever fails, undoes all of it; whoever dies in between leaves a record without
 * a "run" document, which the next open undoes. With an idempotency key it begins with the question whose that is (claims.c). */
#include "lifetime.h"
#include "network.h"
#include "overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

struct create {
    struct sb_op op;
    struct sb_engine *engine;
    struct sb_record record;
    struct sb_launch launch;
    struct sb_image_ref image; /* held until the record that names it is written */
    int wake;                  /* eventfd: makes the descriptor readable for a cancel */
    int cancelled;
    struct sandbox_spec *spec; /* with a key, until it is the record's; else NULL */
    int timer;                 /* -1: without a key */
    struct sb_lock_wait waited;
};
enum { LOST = 1, KEY_MS = 2 };

/* What a spec names on this machine must be there. */
static int check_mounts(struct sb_engine *engine, const struct sandbox_spec *spec, struct sandbox_error **error)
{
    for (size_t i = 0; i < spec->n_mounts; i++) {
        const struct sb_mount *m = &spec->mounts[i];
        int folder_of_host = m->type == SANDBOX_MOUNT_BIND || m->type == SANDBOX_MOUNT_OVERLAY;
        struct stat st;

        if (folder_of_host && stat(m->source, &st) < 0)
            return sb_fail(error,
                           SB_ARGS(errno == ENOENT ? SANDBOX_ENOTFOUND : sb_code_from_errno(errno), .sys_errno = errno,
                                   .phase = "mounts", .field = "mounts"),
                           "the mount source %s: %s", m->source, strerrordesc_np(errno));
        if (m->type == SANDBOX_MOUNT_BIND && !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
            return sb_fail(error,
                           SB_ARGS(SANDBOX_EINVALID, .phase = "mounts", .field = "mounts",
                                   .hint = "only folders and regular files can be mounted"),
                           "the mount source %s is neither a folder nor a file", m->source);
        if (m->type == SANDBOX_MOUNT_OVERLAY && !S_ISDIR(st.st_mode))
            return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .phase = "mounts", .field = "mounts", .hint = "overlay its folder"),
                           "the source of an overlay, %s, is not a folder", m->source);
        if (m->type == SANDBOX_MOUNT_OVERLAY && m->max_bytes && engine->map.privilege != SB_PRIVILEGE_ROOT)
            return sb_fail(error,
                           SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "mounts", .field = "max_bytes",
                                   .hint = "leave it out, or put the state root on a file system of that size"),
                           "what is written over %s can't be bounded: that takes a disk image, and only root can mount one", m->source);
        if (m->owner && !sb_owner_possible(engine, m->owner))
            return sb_fail(error,
                           SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "mounts", .field = "owner",
                                   .hint = "leave it out: the caller is 0:0 inside"),
                           "only root can map the owner %s; this caller's only one is itself", m->owner);
        if (m->type == SANDBOX_MOUNT_VOLUME && fstatat(engine->volumes, m->source, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return sb_fail(error,
                           SB_ARGS(SANDBOX_ENOTFOUND, .sys_errno = errno, .phase = "mounts", .field = "mounts",
                                   .hint = "create the volume first"),
                           "there is no volume %s", m->source);
    }
    return 0;
}

static json_t *strings(char *const *list)
{
    json_t *array = json_array();

    for (size_t i = 0; list && list[i]; i++)
        json_array_append_new(array, sb_json_bytes(list[i]));
    return array;
}

/* The image's part of the record: pinned digests, layers, and its defaults. */
static int add_image(struct sb_engine *engine, const struct sandbox_spec *spec, struct sb_image_ref *image, json_t *json,
                     struct sandbox_error **error)
{
    SB_JSON json_t *layers = json_array();
    int r;

    if (!strcmp(spec->image, "host")) {
        SB_FREE char *layer = NULL;

        r = sb_hostimage_layer(engine, &layer, error);
        if (r)
            return r;
        json_array_append_new(layers, json_string(layer));
    } else {
        r = sb_image_resolve(engine->images, spec->image, image, error);
        if (r) {
            sb_error_set_field(error, "image");
            return r;
        }
        for (size_t i = 0; i < image->n_layers; i++)
            json_array_append_new(layers, json_string(image->layers[i]));
    }
    json_object_set_new(
        json, "image",
        json_pack("{s:s, s:s, s:s}", "ref", spec->image, "digest", image->digest, "config_digest", image->config_digest));
    json_object_set(json, "layers", layers);
    json_object_set_new(json, "env", strings(image->env));
    json_object_set_new(json, "user", sb_json_bytes(image->user ? image->user : ""));
    json_object_set_new(json, "workdir", sb_json_bytes(image->workdir ? image->workdir : ""));
    return 0;
}

static json_t *map_to_json(const struct sb_idmap *map)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "privilege", (json_int_t)map->privilege, "uid", (json_int_t)map->uid,
                     "gid", (json_int_t)map->gid, "uid_start", (json_int_t)map->uid_start, "gid_start",
                     (json_int_t)map->gid_start, "count", (json_int_t)map->count);
}

static int fill_record(struct sb_engine *engine, const struct sandbox_spec *spec, struct sb_image_ref *image,
                       struct sb_record *record, struct sandbox_error **error)
{
    json_t *cgroups = NULL;
    struct timespec now;
    int r;

    clock_gettime(CLOCK_REALTIME, &now);
    record->spec = sb_spec_copy(spec);
    record->json = json_object();
    if (!record->spec || !record->json)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    r = add_image(engine, spec, image, record->json, error);
    if (!r)
        r = sb_ceiling_hold(engine, &record->spec->limits, error);
    if (!r)
        r = sb_cgroups_plan(&engine->cgroups, record->id, &record->spec->limits, &cgroups, error);
    if (r)
        return r;
    json_object_set_new(record->json, "id", json_string(record->id));
    json_object_set_new(record->json, "created_ms", json_integer((json_int_t)now.tv_sec * 1000 + now.tv_nsec / 1000000));
    json_object_set_new(record->json, "cgroups", cgroups);
    json_object_set_new(record->json, "map", map_to_json(&record->map));
    json_object_set_new(record->json, "owner", sb_identity_to_json(&engine->self));
    json_object_set_new(record->json, "spec", sb_spec_to_json(spec));
    if (sb_lifetime_set(engine, record, spec->life.ttl_ms))
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    return sb_record_set_limits(record, &record->spec->limits, error);
}

/* Everything up to the start of the stage. The record is complete before the first resource beside its own folder and range is made. LOST: another
 * create has the key. */
static int prepare(struct create *c, const struct sandbox_spec *spec, struct sandbox_error **error)
{
    struct sb_engine *engine = c->engine;
    char id[SB_ID_SIZE];
    int r = sb_id_new(id), volumes;

    if (r)
        return sb_fail_errno(error, -r, "id", "no random bytes");
    r = sb_record_make(engine, id, &c->record, error);
    if (r)
        return r;
    memcpy(c->op.id, id, SB_ID_SIZE);
    c->record.map = engine->map;
    r = sb_range_claim(engine, &c->record, 0, error);
    if (!r)
        r = fill_record(engine, spec, &c->image, &c->record, error);
    /* whoever removes a volume looks at the records: no volume may go between the look at it and the record */
    volumes = r ? -1 : sb_folder_lock(engine->volumes, LOCK_SH, error);
    if (!r && volumes < 0)
        r = volumes;
    if (!r)
        r = check_mounts(engine, spec, error);
    if (!r)
        r = sb_network_check(engine, spec, error);
    if (!r)
        r = sb_network_record(engine, &c->record, error);
    if (!r)
        r = sb_record_write(&c->record, error);
    sb_folder_unlock(volumes);
    sb_image_ref_clear(&c->image);
    if (!r && spec->idempotency_key)
        r = sb_key_claim(engine, spec->idempotency_key, id, error); /* before the name, which both would want */
    if (!r && spec->name)
        r = sb_name_claim(engine, spec->name, id, error);
    if (!r)
        r = sb_lifetime_enter(engine, &c->record, error);
    if (!r)
        r = sb_launch_begin(engine, &c->record, &c->launch, error);
    return r;
}

static void undo(struct create *c)
{
    sb_launch_clear(&c->launch);
    if (c->record.dir < 0)
        return;
    if (sb_undo(c->engine, &c->record, NULL) == 1)
        while (sb_undo_trash(c->engine, c->record.id, &c->record.map, NULL) == 1)
            ;
}

static int launch(struct create *c, const struct sandbox_spec *spec, struct sandbox_error **error)
{
    struct epoll_event e = { .events = EPOLLIN };
    int r = prepare(c, spec, error);

    if (!r && epoll_ctl(c->op.fd, EPOLL_CTL_ADD, c->launch.epoll, &e) < 0)
        r = sb_fail_errno(error, errno, "create", "the stage can't be watched");
    return r;
}

/* 1: waits for whoever has the key, or it is launched now; 0: the sandbox was there. */
static int step_key(struct create *c, struct sandbox_error **error)
{
    const struct itimerspec soon = { .it_value = { .tv_nsec = KEY_MS * 1000000 } };
    char id[SB_ID_SIZE];
    uint64_t ticks;
    int r;

    while (read(c->timer, &ticks, sizeof ticks) > 0)
        ;
    r = sb_key_find(c->engine, c->spec, &c->waited, id, error);
    if (r == SB_KEY_TAKEN) {
        memcpy(c->op.id, id, SB_ID_SIZE);
        return 0;
    }
    if (r == SB_KEY_FREE) {
        r = launch(c, c->spec, error);
        if (!r) {
            c->spec = sb_spec_free(c->spec);
            return 1;
        }
        undo(c);
        sb_record_clear(&c->record);
        *c->op.id = 0;
    }
    if (r < 0)
        return r;
    timerfd_settime(c->timer, 0, &soon, NULL);
    return 1;
}

static int create_step(struct sb_op *op, struct sandbox_error **error)
{
    struct create *c = (struct create *)op;
    int r;

    if (c->cancelled) {
        undo(c);
        return sb_fail(error, SB_ARGS(SANDBOX_ECANCELLED), "the create was cancelled");
    }
    if (c->spec)
        return step_key(c, error);
    r = sb_launch_step(&c->launch, error);
    if (r == 1)
        return 1;
    /* committed in this order: who we are is on disk before init lives on without us */
    if (!r)
        r = sb_record_write_run(&c->record, "created", &c->launch.identity, &c->launch.keeper, "", error);
    if (!r)
        r = sb_record_keep(c->engine, &c->record, error);
    if (!r)
        r = sb_launch_commit(&c->launch, error);
    if (r) {
        undo(c);
        return r;
    }
    if (c->record.spec->lifetime == SANDBOX_LIFETIME_DETACHED)
        sb_owner_leave(c->engine, &c->engine->self, c->record.id);
    sb_launch_clear(&c->launch);
    sb_record_unlock(&c->record);
    return 0;
}

static void create_cancel(struct sb_op *op)
{
    struct create *c = (struct create *)op;

    c->cancelled = 1;
    eventfd_write(c->wake, 1);
}

static void create_free(struct sb_op *op)
{
    struct create *c = (struct create *)op;

    sb_record_clear(&c->record);
    sb_image_ref_clear(&c->image);
    sb_spec_free(c->spec);
    sb_close(c->timer);
    sb_close(c->wake);
    sb_close(c->op.fd);
    free(c);
}

/* The first step is due at once; everything that may fail comes then. */
static int begin_with_key(struct create *c, const struct sandbox_spec *spec, struct sandbox_error **error)
{
    const struct itimerspec now = { .it_value = { .tv_nsec = 1 } };
    struct epoll_event e = { .events = EPOLLIN };

    c->spec = sb_spec_copy(spec);
    if (!c->spec)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (c->timer < 0 || timerfd_settime(c->timer, 0, &now, NULL) < 0 || epoll_ctl(c->op.fd, EPOLL_CTL_ADD, c->timer, &e) < 0)
        return sb_fail_errno(error, errno, "create", "no timer");
    return 0;
}

static const struct sb_op_ops create_ops = { create_step, create_cancel, create_free };

int sb_engine_create(struct sb_driver *driver, const struct sandbox_spec *spec, struct sb_op **ret_op,
                     struct sandbox_error **error)
{
    struct epoll_event e = { .events = EPOLLIN };
    struct create *c = calloc(1, sizeof *c);
    int r;

    if (!c)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    c->op.ops = &create_ops;
    c->op.progress = (struct sandbox_progress)SANDBOX_PROGRESS_INIT;
    snprintf(c->op.progress.phase, sizeof c->op.progress.phase, "create");
    c->engine = (struct sb_engine *)driver;
    c->record = (struct sb_record)SB_RECORD_INIT;
    c->launch = (struct sb_launch)SB_LAUNCH_INIT;
    c->image = (struct sb_image_ref)SB_IMAGE_REF_INIT;
    c->timer = -1;
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->op.fd = epoll_create1(EPOLL_CLOEXEC);
    if (c->wake < 0 || c->op.fd < 0 || epoll_ctl(c->op.fd, EPOLL_CTL_ADD, c->wake, &e) < 0)
        r = sb_fail_errno(error, errno, "create", "no descriptor");
    else
        r = sb_lifetime_check(spec, error);
    if (!r)
        r = spec->idempotency_key ? begin_with_key(c, spec, error) : check_mounts(c->engine, spec, error);
    if (!r && !spec->idempotency_key)
        r = launch(c, spec, error);
    if (r) {
        undo(c);
        create_free(&c->op);
        return r;
    }
    *ret_op = &c->op;
    return 0;
}
