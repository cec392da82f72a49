/* SPDX-License-Identifier: Apache-2.0
 * An import as an operation: one run of the helper after the other, each for one document or layer, so that a parser which
 * one layer took over never sees the next. What a run brings leads to the next one in image-import-steps.c. A failure, or a
 * cancel, first undoes: the unfinished folder and the layers that this import brought are removed, unless an image has them. */
#include "image-import.h"
#include "image-pull.h"
#include "sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>

enum { RESTARTS_MAX = 8 };
static const int64_t default_bytes = (int64_t)64 << 30, default_entries = 4000000;

/* ---- running jobs */

static int exe(const struct sb_import *import, struct sandbox_error **error)
{
    return import->images->unpack_exe(import->images->data, error);
}

static const char *phase_name(enum import_state state)
{
    static const char *const names[] = {
        [IMPORT_SCAN] = "scan", [IMPORT_INFLATE] = "decompress", [IMPORT_LAYOUT] = "manifest", [IMPORT_INDEX] = "manifest",
        [IMPORT_MANIFEST] = "manifest", [IMPORT_CONFIG] = "manifest", [IMPORT_DOCKER] = "manifest", [IMPORT_HASH] = "hash",
        [IMPORT_LAYER] = "unpack", [IMPORT_MADE_CONFIG] = "manifest", [IMPORT_MADE_MANIFEST] = "manifest",
        [IMPORT_ADOPT] = "unpack", [IMPORT_DISCARD] = "remove", [IMPORT_NAMED] = "manifest", [IMPORT_FOUND] = "pull", [IMPORT_CREDENTIALS] = "credentials",
        [IMPORT_FETCH] = "pull", [IMPORT_WAIT] = "pull",
    };

    return names[state];
}

static void show_progress(struct sb_import *import)
{
    const struct sb_unpack_progress *progress = &import->helper.progress;
    const char *phase = import->state == IMPORT_LAYER && progress->phase == SB_UNPACK_PHASE_HASH ? "hash" : phase_name(import->state);

    import->op.progress.unit = SANDBOX_UNIT_BYTES;
    import->op.progress.done = progress->done;
    snprintf(import->op.progress.phase, sizeof import->op.progress.phase, "%s", phase);
}

static int open_dest(struct sb_import *import, enum sb_unpack_job job, struct sandbox_error **error)
{
    if (job == SB_UNPACK_LAYER || job == SB_UNPACK_FOLDER) {
        import->dest = sb_close(import->dest);
        import->dest = sb_layer_begin(import->images, import->temporary, error);
        if (import->dest >= 0)
            return 0;
        import->temporary[0] = 0;
        return import->dest;
    }
    if (job == SB_UNPACK_INFLATE && import->state == IMPORT_INFLATE) {
        import->spool = openat(import->images->layers, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (import->spool < 0)
            return sb_fail_errno(error, errno, "decompress", "making a file for the decompressed archive");
    }
    return 0;
}

static int dest_of(const struct sb_import *import)
{
    switch (import->state) {
    case IMPORT_INFLATE:
        return import->spool;
    case IMPORT_LAYER:
        return import->dest;
    case IMPORT_ADOPT:
        return import->images->layers;
    default:
        return -1;
    }
}

int sb_import_run(struct sb_import *import, enum import_state state, enum sb_unpack_job job, const struct sb_window *window,
                  const char *digest, struct sandbox_error **error)
{
    struct sb_unpack_plan plan = {
        .job = job, .map = import->images->map, .offset = window->offset, .length = window->length,
        .max_bytes = import->bytes_left, .max_entries = import->entries_left,
    };
    int program = exe(import, error), r;

    if (program < 0)
        return program;
    import->state = state;
    r = open_dest(import, job, error);
    if (r)
        return r;
    if (state == IMPORT_SCAN && import->format == SANDBOX_IMAGE_FORMAT_AUTO)
        plan.flags |= SB_UNPACK_STOP_AT_ROOTFS;
    if (state == IMPORT_HASH)
        plan.flags |= SB_UNPACK_HASH_ONLY;
    if (job == SB_UNPACK_FOLDER)
        plan.flags |= import->folder_flags;
    if (digest)
        snprintf(plan.digest, sizeof plan.digest, "%s", digest);
    if (state == IMPORT_LAYER && import->kind != IMPORT_ROOTFS)
        snprintf(plan.diff_id, sizeof plan.diff_id, "%s", import->config.diff_ids[import->layer]);
    snprintf(plan.name, sizeof plan.name, "%s", import->temporary);
    sb_helper_clear(&import->helper);
    r = sb_helper_start(&import->helper, program, import->op.fd, &plan, window->fd, dest_of(import), import->images->layers, error);
    import->op.progress.total = job == SB_UNPACK_FOLDER ? -1 : window->length;
    import->helper.progress.done = 0;
    show_progress(import);
    return r;
}

int sb_import_read(struct sb_import *import, enum import_state state, const char *name, const struct sb_oci_descriptor *blob,
                   struct sandbox_error **error)
{
    struct sb_window window = { .fd = -1 };
    int r;

    if (import->pull)
        return sb_pull_fetch(import, state, blob, error);
    r = name ? sb_bundle_open(&import->bundle, name, &window, error)
                 : sb_bundle_open_blob(&import->bundle, blob->digest, blob->size, &window, error);

    if (!r)
        r = sb_import_run(import, state, SB_UNPACK_DOCUMENT, &window, blob && blob->digest[0] ? blob->digest : NULL, error);
    sb_close(window.fd);
    return r;
}

int sb_import_run_on_text(struct sb_import *import, enum import_state state, enum sb_unpack_job job, const char *text, size_t size,
                          struct sandbox_error **error)
{
    SB_CLOSE int fd = memfd_create("document", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : sb_write_all(fd, text, size);

    if (!r && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    if (r)
        return sb_fail_errno(error, -r, "manifest", "writing a document to memory");
    return sb_import_run(import, state, job, &(struct sb_window){ fd, 0, (int64_t)size }, NULL, error);
}

/* ---- the end */

static int record_image(struct sb_import *import, struct sandbox_error **error)
{
    const struct sb_images *images = import->images;
    struct sb_image_record there = { 0 };
    int r = sb_image_record_read(images, import->record.digest, &there, NULL);

    /* one that is right is left alone: who uses it holds a lock on that very file */
    if (r && r != SANDBOX_ENOMEM)
        r = sb_image_record_write(images, &import->record, error);
    sb_image_record_clear(&there);
    if (!r && import->name)
        r = sb_image_name_write(images, import->name, import->record.digest, error);
    if (!r && import->pull)
        r = sb_pull_name(import, error);
    return r;
}

static int restart(struct sb_import *import, struct sandbox_error **error)
{
    if (++import->restarts > RESTARTS_MAX || (import->kind == IMPORT_OCI && !import->config.diff_ids))
        return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .retryable = 1), "other processes keep removing the image's layers");
    import->layer = import->record.n_layers = 0;
    import->bytes_left = import->max_bytes;
    return import->kind == IMPORT_ROOTFS ? sb_import_rootfs(import, error) : sb_import_next_layer(import, error);
}

int sb_import_commit(struct sb_import *import, struct sandbox_error **error)
{
    SB_CLOSE int lock = sb_images_lock(import->images, error);
    struct sb_layer layer;
    int r;

    if (lock < 0)
        return lock;
    for (size_t i = 0; i < import->record.n_layers; i++)
        if (!sb_layer_find(import->images, import->record.layers[i].diff_id, import->record.config_digest, i, &layer)) {
            lock = sb_close(lock);
            return restart(import, error);
        }
    r = record_image(import, error);
    if (r)
        return r;
    lock = sb_close(lock);
    return sb_image_document(import->images, &import->record, &import->op.image, error);
}

int sb_import_discard_folder(struct sb_import *import, struct sandbox_error **error)
{
    int program, r;

    if (!import->temporary[0])
        return 0;
    if (faccessat(import->images->layers, import->temporary, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
        import->temporary[0] = 0;
        import->dest = sb_close(import->dest);
        return 0;
    }
    program = exe(import, error);
    if (program < 0)
        return program;
    sb_helper_clear(&import->helper);
    import->state = IMPORT_DISCARD;
    r = sb_sweep_start(&import->helper, &import->images->map, program, import->op.fd, import->images->layers, import->temporary, error);
    import->temporary[0] = 0;
    return r ? r : 1;
}

/* Starts removing the next of what is left: 1; 0: nothing is. */
static int discard_next(struct sb_import *import)
{
    int r = sb_import_discard_folder(import, NULL);

    while (r <= 0 && json_array_size(import->discard)) {
        snprintf(import->temporary, sizeof import->temporary, "%s", json_string_value(json_array_get(import->discard, 0)));
        json_array_remove(import->discard, 0);
        r = sb_import_discard_folder(import, NULL);
    }
    return r == 1;
}

static int end(struct sb_import *import, struct sandbox_error **error)
{
    int r = import->result;

    if (error && !*error)
        *error = SB_TAKE_PTR(import->failure);
    return r;
}

/* The outcome is known. What this import unpacked for nothing goes, and what others left because of it. */
static int wind_up(struct sb_import *import, int result, struct sandbox_error **error)
{
    import->result = result;
    import->ending = 1;
    sb_helper_clear(&import->helper);
    import->hold = sb_close(import->hold);
    import->discard = json_array();
    if ((result && import->made) || sb_layers_left(import->images))
        sb_layers_take_unused(import->images, import->discard, NULL, NULL);
    if (import->pull)
        sb_pull_end(import);
    return discard_next(import) || sb_pull_alive(import) ? 1 : end(import, error);
}

static int fail(struct sb_import *import, int code, struct sandbox_error **error)
{
    if (import->cancelled)
        code = SANDBOX_ECANCELLED;
    if (code == SANDBOX_ECANCELLED) {
        import->failure = sandbox_error_unref(import->failure);
        sb_fail(&import->failure, SB_ARGS(SANDBOX_ECANCELLED, .phase = phase_name(import->state)), "%s the image was cancelled",
                import->pull ? "pulling" : "importing");
    }
    return wind_up(import, code, error);
}

/* What is wanted next is on its way. */
static int step_waiting(struct sb_import *import, struct sandbox_error **error)
{
    int r = import->pull_failed ? import->pull_failed : import->cancelled ? SANDBOX_ECANCELLED : sb_pull_advance(import, &import->failure);

    if (r)
        return fail(import, r, error);
    sb_pull_show_progress(import);
    return import->op.image ? wind_up(import, 0, error) : 1;
}

static int step(struct sb_op *op, struct sandbox_error **error)
{
    struct sb_import *import = (struct sb_import *)op;
    int r;

    if (import->pull && !import->ending && !import->pull_failed) {
        import->pull_failed = sb_pull_step(import, &import->failure);
        if (import->pull_failed)
            sb_helper_stop(&import->helper); /* and its end is awaited */
    }
    if (import->pull && !import->ending && sb_pull_is_waiting(import))
        return step_waiting(import, error);
    r = sb_helper_step(&import->helper, import->ending || import->pull_failed ? NULL : &import->failure);
    if (r == 1) {
        if (!import->pull || import->ending || !sb_pull_show_progress(import))
            show_progress(import);
        return 1;
    }
    if (import->ending)
        return discard_next(import) || sb_pull_alive(import) ? 1 : end(import, error);
    if (import->cancelled)
        return fail(import, SANDBOX_ECANCELLED, error);
    if (import->pull_failed)
        return fail(import, import->pull_failed, error);
    if (r == 0)
        r = sb_import_finished(import, &import->failure);
    if (r)
        return fail(import, r, error);
    return import->op.image ? wind_up(import, 0, error) : 1;
}

static void cancel(struct sb_op *op)
{
    struct sb_import *import = (struct sb_import *)op;

    import->cancelled = 1;
    if (!import->ending && import->state != IMPORT_DISCARD)
        sb_helper_stop(&import->helper);
    if (import->pull)
        sb_pull_end(import);
}

static void free_import(struct sb_op *op)
{
    struct sb_import *import = (struct sb_import *)op;

    sb_helper_clear(&import->helper);
    sb_pull_free(import);
    sb_close(import->hold);
    sb_close(import->dest);
    sb_close(import->spool);
    sb_close(import->source);
    sb_bundle_clear(&import->bundle);
    sb_oci_manifest_clear(&import->manifest);
    sb_oci_config_clear(&import->config);
    sb_oci_docker_clear(&import->docker);
    sb_image_record_clear(&import->record);
    free(import->name);
    free(import->select);
    json_decref(import->discard);
    json_decref(op->image);
    json_decref(op->document);
    sandbox_error_unref(import->failure);
    sb_close(op->fd);
    free(import);
}

static const struct sb_op_ops import_ops = { step, cancel, free_import };

/* ---- the beginning */

/* Whose folder is it? See unpack.c: root reads as itself, a user as root of its range, or, of a stranger's folder, as itself. */
static unsigned int folder_flags(const struct sb_idmap *map, const struct stat *st)
{
    int own = st->st_uid == map->uid || (map->privilege == SB_PRIVILEGE_SUBIDS && st->st_uid - map->uid_start < map->count - 1);

    return map->privilege == SB_PRIVILEGE_ROOT || own ? 0 : SB_UNPACK_FOREIGN_FOLDER;
}

static int open_source(struct sb_import *import, const char *source, struct sandbox_error **error)
{
    struct stat st;

    import->source = open(source, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (import->source < 0 || fstat(import->source, &st) < 0) {
        int r = sb_fail_errno(error, errno, "open", "opening the image's source '%s'", source);

        sb_error_set_field(error, "source");
        return r;
    }
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "source"), "the image's source '%s' is neither a file nor a folder", source);
    import->is_folder = S_ISDIR(st.st_mode);
    import->source_size = import->is_folder ? -1 : st.st_size;
    import->folder_flags = folder_flags(&import->images->map, &st);
    return 0;
}

static int begin_folder(struct sb_import *import, struct sandbox_error **error)
{
    const struct sb_bundle look = { .fd = import->source, .is_folder = 1 };
    int is_bundle = (sb_bundle_has(&look, "oci-layout") && sb_bundle_has(&look, "index.json")) || sb_bundle_has(&look, "manifest.json");

    if (import->format == SANDBOX_IMAGE_FORMAT_ROOTFS_TAR)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "format"), "the source is a folder and no tar");
    if (import->format == SANDBOX_IMAGE_FORMAT_ROOTFS_FOLDER || (import->format == SANDBOX_IMAGE_FORMAT_AUTO && !is_bundle))
        return sb_import_rootfs(import, error);
    import->bundle.fd = SB_TAKE_FD(import->source);
    import->bundle.is_folder = 1;
    return sb_import_begin_bundle(import, error);
}

static int begin(struct sb_import *import, struct sandbox_error **error)
{
    if (import->is_folder)
        return begin_folder(import, error);
    if (import->format == SANDBOX_IMAGE_FORMAT_ROOTFS_FOLDER)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "format"), "the source is a file and no folder");
    if (import->format == SANDBOX_IMAGE_FORMAT_ROOTFS_TAR)
        return sb_import_rootfs(import, error);
    return sb_import_run(import, IMPORT_SCAN, SB_UNPACK_SCAN, &(struct sb_window){ import->source, 0, import->source_size }, NULL, error);
}

int sb_import_take_options(struct sb_import *import, const char *name, const char *digest, int64_t max_bytes, int64_t max_entries,
                           struct sandbox_error **error)
{
    import->max_bytes = max_bytes ? max_bytes : default_bytes;
    import->max_entries = max_entries ? max_entries : default_entries;
    if (import->max_bytes < 0 || import->max_entries < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = import->max_bytes < 0 ? "max_bytes" : "max_entries"), "a cap is negative");
    import->bytes_left = import->max_bytes;
    import->entries_left = import->max_entries;
    if (name && (!sb_name_valid(name) || !strcmp(name, "host")))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "name"), "'%.128s' can't be an image's name%s", name,
                       strcmp(name, "host") ? "" : ": it stands for this machine's own programs");
    if (digest && !sb_digest_valid(digest))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "digest", .hint = "a digest is \"sha256:\" and 64 lowercase hexadecimal digits"),
                       "'%.100s' is not a digest", digest);
    if (digest)
        snprintf(import->digest, sizeof import->digest, "%s", digest);
    import->name = name ? strdup(name) : NULL;
    if (name && !import->name)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "importing the image: out of memory");
    return 0;
}

int sb_import_hold(struct sb_import *import, struct sandbox_error **error)
{
    import->hold = sb_layers_hold(import->images, error);
    return import->hold < 0 ? import->hold : 0;
}

void sb_import_only_discard(struct sb_import *import, json_t *names)
{
    import->discard = names;
    import->ending = 1;
}

void sb_import_abandon(struct sb_import *import)
{
    if (import->temporary[0])
        unlinkat(import->images->layers, import->temporary, AT_REMOVEDIR);
    free_import(&import->op);
}

int sb_import_new(struct sb_images *images, struct sb_import **ret_import, struct sandbox_error **error)
{
    struct sb_import *import = calloc(1, sizeof *import);

    if (!import)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "importing the image: out of memory");
    import->op = (struct sb_op){ .ops = &import_ops, .fd = epoll_create1(EPOLL_CLOEXEC), .progress = SANDBOX_PROGRESS_INIT };
    import->images = images;
    import->helper = (struct sb_helper)SB_HELPER_INIT;
    import->bundle = (struct sb_bundle)SB_BUNDLE_INIT;
    import->source = import->dest = import->spool = import->hold = -1;
    if (import->op.fd < 0) {
        int r = sb_fail_errno(error, errno, "open", "importing the image");

        free_import(&import->op);
        return r;
    }
    *ret_import = import;
    return 0;
}

static int take_options(struct sb_import *import, const struct sandbox_image_import_options *options, struct sandbox_error **error)
{
    int r = options ? sb_import_take_options(import, options->name, options->digest, options->max_bytes, options->max_entries, error)
                    : sb_import_take_options(import, NULL, NULL, 0, 0, error);

    if (r || !options)
        return r;
    import->format = options->format;
    if (options->format < SANDBOX_IMAGE_FORMAT_AUTO || options->format > SANDBOX_IMAGE_FORMAT_DOCKER_ARCHIVE)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "format"), "%d is no image format", options->format);
    import->select = options->select ? strdup(options->select) : NULL;
    if (options->select && !import->select)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "importing the image: out of memory");
    return 0;
}

int sb_image_import(struct sb_images *images, const char *source, const struct sandbox_image_import_options *options,
                    struct sb_op **ret_op, struct sandbox_error **error)
{
    struct sb_import *import;
    int r = sb_import_new(images, &import, error);

    if (r)
        return r;
    r = take_options(import, options, error);
    if (!r)
        r = open_source(import, source, error);
    if (!r)
        r = sb_import_hold(import, error);
    if (!r)
        r = begin(import, error);
    if (r) {
        sb_import_abandon(import);
        return r;
    }
    *ret_op = &import->op;
    return 0;
}
