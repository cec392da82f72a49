/* SPDX-License-Identifier: Apache-2.0
 * Overlay mounts: host folders with a layer of the sandbox's own (agent/stage-overlay.c mounts them). In a sandbox's folder:
 *   mounts/N/{upper,work}, or mounts/N/copy    of the spec's mount number N, owned by the sandbox's root
 *   overlays                                   {"N": {"kind": "kernel|copy", "reason"}}: what came of it at the last start */
#ifndef SB_ENGINE_OVERLAY_H
#define SB_ENGINE_OVERLAY_H

#include "engine.h"

/* Before a start: makes the layers' folders, with work folders anew. */
int sb_overlays_make(struct sb_engine *engine, struct sb_record *record, struct sandbox_error **error);
/* A new folder for a layer, beside the one of that mount that there is (SB_RESET_SUFFIX). */
int sb_overlay_make_next(struct sb_engine *engine, struct sb_record *record, size_t mount, struct sandbox_error **error);
/* Moves a folder below "mounts" into the trash, where its removal goes on in the background, or at the next open. ENOENT is no fault. 0 or -errno. */
int sb_overlay_throw(struct sb_engine *engine, const struct sb_record *record, const char *name);
/* The number of the overlay at a target; of several at one place the last, which is the one that is seen. */
int sb_overlay_find(const struct sb_record *record, const char *target, size_t *ret, struct sandbox_error **error);
/* The folder of a mount's layer, below the state root. */
void sb_overlay_place(const struct sb_record *record, size_t mount, char *path, size_t size);
/* Takes a SB_CONTROL_OVERLAY into *json, which begins as NULL. */
void sb_overlays_note(json_t **json, const struct sb_control *message);
/* Writes what was noted into the folder of the sandbox `id`; nothing for NULL. */
int sb_overlays_keep(struct sb_engine *engine, const char *id, const json_t *json, struct sandbox_error **error);
/* The document's "mounts": the spec's, those of overlays with {"overlay": {"kind", "reason"}}. New reference. */
json_t *sb_overlays_document(const struct sb_record *record);

/* 1 when this caller can have the owner "UID:GID" shown as 0:0 inside. */
int sb_owner_possible(const struct sb_engine *engine, const char *owner);

#endif
