/* SPDX-License-Identifier: Apache-2.0
 * What the library and `sandbox-agent layer` say to each other (agent/layer.c): a look at what a sandbox wrote over a host folder.
 *   argv: layer JOB PRIVILEGE UID GID UID_START GID_START COUNT MOST [NAME]     descriptors: enum sb_layer_fd
 * The helper writes records; the last one is END or FAILED. All of one build. */
#ifndef SB_PLAN_LAYER_PLAN_H
#define SB_PLAN_LAYER_PLAN_H

#include <stdint.h>

enum sb_layer_fd {
    SB_LAYER_FD_OUT = 3,    /* a pipe; /dev/null for remove */
    SB_LAYER_FD_PLACE = 4,  /* the folder with upper or copy in it; for remove: the one that NAME is in; for scan: the one to look at */
    SB_LAYER_FD_LOWER = 5,  /* diff, tar: the host's folder; else /dev/null */
    SB_LAYER_FD_WORDS = 6,  /* scan: patterns, one after another, each with its NUL; else /dev/null */
    SB_LAYER_FD_DATA = 7,   /* tar: where it goes; else /dev/null */
    SB_LAYER_FD_END = 8
};

enum sb_layer_kind { SB_LAYER_ADDED = 1, SB_LAYER_CHANGED, SB_LAYER_REMOVED, SB_LAYER_FOUND, SB_LAYER_PROGRESS, SB_LAYER_END, SB_LAYER_FAILED };

#define SB_LAYER_PATH_MAX 4096

struct sb_layer_record {
    uint16_t size;      /* with the path */
    uint8_t kind, type; /* enum sandbox_file_type */
    uint32_t truncated; /* END: 1: there was more than MOST, or folders too deep to look into */
    int64_t bytes;      /* occupied; END: of all; FAILED: errno */
    int64_t entries;    /* END, PROGRESS: how many were seen; FAILED: 0, or a SANDBOX_E… whose message stands in place of the path */
    /* the path, relative, without a NUL */
};

#endif
