/* SPDX-License-Identifier: Apache-2.0
 * Volumes. A volume's folder (0700, the state root's owner's):
 *   data/      the folder that sandboxes get, or where the disk is mounted
 *   record     {"kind": "folder|disk", "file_system", "bytes", "owner": "UID:GID", "vm"}; absent: a folder of 0:0
 *   image      of a disk
 *   kernel     {"boot", "machine"}: whose kernel had it in use last */
#ifndef SB_ENGINE_VOLUME_H
#define SB_ENGINE_VOLUME_H

#include "engine.h"

/* The record of a volume whose folder is open; defaults when there is none. New reference. */
int sb_volume_record(int folder, const char *name, json_t **ret_json, struct sandbox_error **error);
/* Makes the data of the volume `name` ready for use on this kernel: mounts its disk, refuses it where it must not be used. */
int sb_volume_attach(struct sb_engine *engine, const char *name, struct sandbox_error **error);
/* All volumes of a spec. */
int sb_volumes_attach(struct sb_engine *engine, const struct sandbox_spec *spec, struct sandbox_error **error);
/* The ids on disk that are 0:0 inside. */
int sb_volume_owner(struct sb_engine *engine, const char *name, uint32_t *ret_uid, uint32_t *ret_gid);

/* ---- volume-disk.c ---- */
#define SB_DISK_UNFINISHED "image.new"
/* Makes an image of `bytes` with a file system ("ext4 xfs btrfs") in a folder, whose path is for mkfs. */
int sb_disk_make(struct sb_engine *engine, int folder, const char *path, const char *file_system, int64_t bytes, struct sandbox_error **error);
/* Mounts the image of a volume's folder at its data, unless it is; the folder's lock is held. */
int sb_disk_mount(int folder, const char *path, const char *file_system, struct sandbox_error **error);
/* 1: something is mounted at data. */
int sb_disk_is_mounted(int folder);

#endif
