/* SPDX-License-Identifier: Apache-2.0
 * What the library asks of a sandbox's file server (agent/files.c), and what that answers.
 *
 * SB_REQUEST_FILES goes to init with one or two descriptors: the channel, a SOCK_SEQPACKET whose other end the library keeps, and the
 * data, where the request has some. Its blob is a struct sb_files_request and two strings. init answers on its own connection only
 * when it can't fork (FAILED) and when the server has ended (EXITED); everything else comes on the channel: any number of records, then
 * SB_FILES_DONE. Closing the connection ends the server.
 *
 * The library believes the server nothing but what it says of the sandbox's files: every size is checked (engine/files.c). */
#ifndef SB_PLAN_FILES_PLAN_H
#define SB_PLAN_FILES_PLAN_H

#include <stdint.h>

#define SB_FILES_MAGIC 0x66696c65u
#define SB_FILES_PATH_MAX 4096 /* with its NUL */
#define SB_FILES_CHUNK 32768
#define SB_FILES_PACKET_MAX (SB_FILES_CHUNK + 256)
#define SB_FILES_MAX 64 /* servers of one sandbox at once */

enum sb_files_op {
    SB_FILES_STAT = 1, /* INFO */
    SB_FILES_READ,     /* DATA; at most `length` bytes from `offset` */
    SB_FILES_WRITE,    /* the data becomes the file, or is appended to it */
    SB_FILES_REMOVE,
    SB_FILES_MAKE_FOLDER,
    SB_FILES_RENAME,   /* to `other` */
    SB_FILES_LIST,     /* ENTRIES, as fast as they are read */
    SB_FILES_PUT_TAR,  /* the data is a tar, unpacked below the folder */
    SB_FILES_GET_TAR,  /* packed into the data; `other` is what its first entry is called */
    SB_FILES_GET_FILE  /* into the data */
};

enum sb_files_flags {
    SB_FILES_FOLLOW = 1 << 0,     /* STAT: also a link at the path's end */
    SB_FILES_APPEND = 1 << 1,     /* WRITE */
    SB_FILES_EXCLUSIVE = 1 << 2,  /* WRITE, RENAME, MAKE_FOLDER: nothing may be there */
    SB_FILES_PARENTS = 1 << 3,    /* missing folders above are made */
    SB_FILES_RECURSIVE = 1 << 4,  /* REMOVE */
    SB_FILES_XATTRS = 1 << 5,     /* WRITE: the data is a file whose user attributes go along */
    SB_FILES_ROOT_OWNS = 1 << 6   /* PUT_TAR: there is one id inside: whoever owns an entry, it becomes 0:0 */
};

/* Followed by path and other, each with its NUL. */
struct sb_files_request {
    uint32_t magic, op, flags;
    uint32_t path_size, other_size; /* with the NULs */
    int32_t mode;                   /* -1: as it comes */
    int64_t uid, gid;               /* -1: as they come */
    int64_t offset, length;
    int64_t mtime_ns;               /* WRITE: INT64_MIN: now */
    int64_t max_bytes, max_entries; /* PUT_TAR, WRITE, GET: -1 none */
};

enum sb_files_record_type { SB_FILES_INFO = 1, SB_FILES_DATA, SB_FILES_ENTRIES, SB_FILES_PROGRESS, SB_FILES_DONE };

struct sb_files_head {
    uint32_t type;
    uint32_t size; /* of the whole record */
};

struct sb_files_stat {
    uint32_t type; /* enum sandbox_file_type */
    uint32_t mode; /* permission bits */
    int64_t uid, gid, bytes, mtime_ns;
};

/* Followed by a link's target. */
struct sb_files_info {
    struct sb_files_head head;
    struct sb_files_stat stat;
};

/* Followed by size - sizeof bytes, at most SB_FILES_CHUNK. */
struct sb_files_data {
    struct sb_files_head head;
};

/* Followed by entries: a struct sb_files_entry, its name, padding to 8. */
struct sb_files_entries {
    struct sb_files_head head;
    uint32_t n, reserved;
};
struct sb_files_entry {
    struct sb_files_stat stat;
    uint32_t name_size, reserved; /* without a NUL */
};

struct sb_files_progress {
    struct sb_files_head head;
    int64_t bytes, entries;
};

struct sb_files_done {
    struct sb_files_head head;
    int32_t code; /* 0 or SANDBOX_E… */
    int32_t sys_errno;
    int64_t bytes, entries;
    char hint[256];
    char message[1024]; /* ends with a NUL */
};

#endif
