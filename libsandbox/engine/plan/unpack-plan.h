/* SPDX-License-Identifier: Apache-2.0
 * What the library tells the unpack helper and what the helper answers, over one SOCK_SEQPACKET pair: first the plan, one
 * packet; then records, one packet each, of which SB_UNPACK_RESULT is the answer. The library closing its end (or shutting
 * down its sending side) is the order to stop: the helper then kills its worker, removes what it wrote and ends.
 *
 * The worker that reads archives may have been taken over by what it read: the library checks every length and string of a
 * record (sb_helper_parse) and believes it nothing but about that one archive. */
#ifndef SB_PLAN_UNPACK_PLAN_H
#define SB_PLAN_UNPACK_PLAN_H

#include "idmap.h"

#define SB_UNPACK_MAGIC 0x75706b31u
#define SB_UNPACK_DIGEST_SIZE 72 /* "sha256:" and 64 digits and NUL */
#define SB_UNPACK_CHUNK 32768
#define SB_UNPACK_PACKET_MAX 65536

/* The helper's descriptors: 1 and 2 are /dev/null. */
enum sb_unpack_fd {
    SB_UNPACK_FD_SOCKET = 0,
    SB_UNPACK_FD_SOURCE = 3,
    SB_UNPACK_FD_DEST = 4,
    SB_UNPACK_FD_PARENT = 5 /* LAYER, FOLDER, TREE: the folder that dest lies in by `name`, so that a failed dest can be removed */
};

enum sb_unpack_job {
    SB_UNPACK_DOCUMENT = 1, /* source window → DATA records and its digest */
    SB_UNPACK_SCAN = 2,     /* source is a tar → MEMBER records; kind and compression in the result */
    SB_UNPACK_INFLATE = 3,  /* source decompressed into the file that dest is, or only hashed */
    SB_UNPACK_LAYER = 4,    /* source is a layer → unpacked into the folder that dest is */
    SB_UNPACK_FOLDER = 5,   /* source is a folder → packed as a tar, unpacked into dest */
    SB_UNPACK_REMOVE = 6,   /* `name` below dest is removed with all in it */
    SB_UNPACK_ADOPT = 7,    /* folders of the unpacked layer `name` below dest, which its archive didn't describe, get owner, mode and
                             * time from the layers below it; source: those layers' names from the top, each ended by a NUL, an empty
                             * one, then the folders' paths, each ended by a NUL */
    SB_UNPACK_PACK = 8,     /* source is a folder of this machine → a tar into the pipe that dest is; the caller's own ids become 0 */
    SB_UNPACK_TREE = 9      /* source is a sandbox's tar → a folder of this machine: made as `name` in parent and called `final` when it is
                             * whole; or (MERGE) dest, as it is */
};

enum sb_unpack_flags {
    SB_UNPACK_STOP_AT_ROOTFS = 1 << 0, /* SCAN: end at the first member that no image archive has */
    SB_UNPACK_FOREIGN_FOLDER = 1 << 1, /* FOLDER: the folder belongs to somebody else; its ids are kept as they are */
    SB_UNPACK_HASH_ONLY = 1 << 2,      /* INFLATE: there is no dest */
    SB_UNPACK_MERGE = 1 << 3,          /* TREE */
    SB_UNPACK_KEEP_OWNERS = 1 << 4,    /* TREE: else everything belongs to the caller */
    SB_UNPACK_ONE_OWNER = 1 << 5       /* PACK: everything belongs to 0:0 */
};

struct sb_unpack_plan {
    uint32_t magic, size;
    uint32_t job, flags;
    struct sb_idmap map;
    int64_t offset, length; /* of the source; length -1: to its end */
    int64_t max_bytes, max_entries;
    char digest[SB_UNPACK_DIGEST_SIZE];  /* the source's, checked before it is parsed; "": unknown */
    char diff_id[SB_UNPACK_DIGEST_SIZE]; /* LAYER: of the decompressed stream; "": unknown */
    char name[256];                      /* REMOVE, LAYER, FOLDER, TREE */
    char final[256];                     /* TREE */
};

enum sb_unpack_record_type {
    SB_UNPACK_PROGRESS = 1,
    SB_UNPACK_DATA = 2,
    SB_UNPACK_MEMBER = 3,
    SB_UNPACK_RESULT = 4
};

struct sb_unpack_head {
    uint32_t type;
    uint32_t size; /* of the whole record */
};

enum sb_unpack_phase { SB_UNPACK_PHASE_HASH = 1, SB_UNPACK_PHASE_UNPACK = 2, SB_UNPACK_PHASE_SCAN = 3, SB_UNPACK_PHASE_REMOVE = 4, SB_UNPACK_PHASE_PACK = 5 };

struct sb_unpack_progress {
    struct sb_unpack_head head;
    uint32_t phase, reserved;
    int64_t done, entries; /* bytes of the source; archive entries */
};

/* Followed by size - sizeof bytes, at most SB_UNPACK_CHUNK. */
struct sb_unpack_data {
    struct sb_unpack_head head;
};

enum sb_unpack_member_type {
    SB_UNPACK_MEMBER_FILE = 1,
    SB_UNPACK_MEMBER_LINK = 2,
    SB_UNPACK_MEMBER_IMPLIED = 3 /* LAYER: a folder that had to be made for an entry below it */
};

/* Followed by the name (normalised: no "/" in front, no "." or "..") and a link's target, without NULs. */
struct sb_unpack_member {
    struct sb_unpack_head head;
    uint32_t type;
    uint16_t name_length, link_length;
    int64_t offset, length; /* within the source when that is not compressed */
};

enum sb_unpack_kind { SB_UNPACK_KIND_ROOTFS = 1, SB_UNPACK_KIND_IMAGE = 2 };

struct sb_unpack_result {
    struct sb_unpack_head head;
    int32_t code;      /* 0 or SANDBOX_E… */
    int32_t sys_errno;
    int32_t kind;       /* SCAN */
    int32_t compressed; /* SCAN, LAYER: 1 when the source was */
    int32_t root_opaque; /* LAYER: hides every layer below it */
    int32_t reserved;
    int64_t source_bytes, stream_bytes; /* of the source; decompressed */
    int64_t bytes, entries;             /* written; in the archive */
    int64_t skipped;                    /* devices and sockets left out */
    int64_t xattrs_skipped;             /* extended attributes left out */
    char digest[SB_UNPACK_DIGEST_SIZE];  /* of the source */
    char diff_id[SB_UNPACK_DIGEST_SIZE]; /* of the decompressed stream */
    char hint[256];
    char message[1024];
};

#endif
