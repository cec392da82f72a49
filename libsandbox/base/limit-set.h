/* SPDX-License-Identifier: Apache-2.0
 * Limits: of a sandbox, of one exec, and the ceilings of a host. One set of rules and one JSON form for all of them. */
#ifndef SB_BASE_LIMIT_SET_H
#define SB_BASE_LIMIT_SET_H

#include <jansson.h>
#include <sandbox.h>

enum {
    SB_IO_MAX = 8,        /* disks */
    SB_DEVICE_MAX = 255,  /* bytes of a disk's name */
    SB_MEMORY_LEAST = 4 << 20, /* init, and a command that does something: below that the kernel ends what it has just let start */
    SB_PIDS_DEFAULT = 4096,
    SB_PIDS_LEAST = 3,    /* init, a command, and a call on files */
    SB_FILES_LEAST = 16,  /* stdio and what a program's loader opens */
    SB_CPU_LEAST = 10     /* thousandths: the kernel's shortest quota in the period that is used */
};
enum sb_io_rate { SB_IO_READ_BPS, SB_IO_WRITE_BPS, SB_IO_READ_IOPS, SB_IO_WRITE_IOPS, SB_IO_RATES };

struct sb_io_limit {
    char device[SB_DEVICE_MAX + 1]; /* "MAJOR:MINOR", or the absolute path of a disk's node or of something on it */
    int64_t rates[SB_IO_RATES];     /* a second; 0: none */
};

struct sb_limits {
    int64_t memory_max, swap_max, pids_max, cpu_max, cpu_weight, files_max; /* 0: none, or the default */
    size_t n_io;
    struct sb_io_limit io[SB_IO_MAX];
};

/* The numbers of a sb_limits, by their JSON and error field's name; NULL beyond the last. */
const char *sb_limits_field(size_t index);
int64_t sb_limits_get(const struct sb_limits *limits, size_t index);
/* EINVALID with the least and greatest value. */
int sb_limits_set(struct sb_limits *limits, const char *field, int64_t value, struct sandbox_error **error);
/* Takes over what a caller's struct (of this library's size) doesn't leave as it is (SANDBOX_LIMIT_KEEP); nothing when it fails. The entries
 * of its list are of any version. */
int sb_limits_apply(struct sb_limits *limits, const struct sandbox_limits *from, struct sandbox_error **error);
/* 1: they ask for the same. */
int sb_limits_equal(const struct sb_limits *a, const struct sb_limits *b);
/* Puts the members into an object: 0, or -1 when memory is short. */
int sb_limits_to_json(const struct sb_limits *limits, json_t *object);
/* One member: 1 when it is one of limits, 0 when not; negative: its value does not verify. */
int sb_limits_read(struct sb_limits *limits, const char *key, const json_t *value, struct sandbox_error **error);
/* A whole object, which has nothing else. */
int sb_limits_from_json(const json_t *object, struct sb_limits *ret, struct sandbox_error **error);
/* EDENIED, naming field and ceiling, when a number is above that of `ceiling` (0 there: none). What is not limited at all gets the ceiling. */
int sb_limits_hold(struct sb_limits *limits, const struct sb_limits *ceiling, struct sandbox_error **error);
/* The lower of both, number by number. */
void sb_limits_lower(struct sb_limits *to, const struct sb_limits *other);

#endif
