/* SPDX-License-Identifier: Apache-2.0
 * Limits as the kernel has them: one set of files in cgroup2, another in each hierarchy of v1. A new folder is written what was asked for
 * and nothing else; one in use is written all that differs. */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <util.h>

enum { PERIOD_US = 100000, WEIGHT = 100, SHARES = 1024 };

int sb_cgroups_wanted(const struct sb_limits *limits, int controller)
{
    switch (controller) {
    case SB_CONTROLLER_PIDS:
        return limits->pids_max != 0;
    case SB_CONTROLLER_MEMORY:
        return limits->memory_max != 0;
    case SB_CONTROLLER_CPU:
        return limits->cpu_max || limits->cpu_weight;
    default:
        return limits->n_io != 0;
    }
}

int sb_cgroups_needed(const struct sb_limits *limits)
{
    for (int c = 0; c < SB_CONTROLLERS; c++)
        if (c != SB_CONTROLLER_PIDS && sb_cgroups_wanted(limits, c))
            return 1;
    return 0;
}

int sb_cgroups_counts_pids(const struct sb_cgroups *cgroups, const json_t *folders, const struct sb_limits *limits)
{
    return (sb_cgroups_has_leaves(folders) && cgroups->delegated >> SB_CONTROLLER_PIDS & 1) ||
           (limits->pids_max && cgroups->v1[SB_CONTROLLER_PIDS]);
}

static int read_disk(const char *sys, char ret[SB_DISK_SIZE])
{
    SB_FREE char *text = NULL;
    unsigned int major, minor;
    int r = sb_read_file(AT_FDCWD, sys, 64, &text, NULL);

    if (r)
        return r;
    if (sscanf(text, "%u:%u", &major, &minor) != 2)
        return -EINVAL;
    snprintf(ret, SB_DISK_SIZE, "%u:%u", major, minor);
    return 0;
}

int sb_cgroups_disk(const char *device, char ret[SB_DISK_SIZE], struct sandbox_error **error)
{
    unsigned int numbers[2];
    char sys[128], end;
    struct stat st;

    if (sscanf(device, "%u:%u%c", &numbers[0], &numbers[1], &end) != 2) {
        if (*device != '/' || stat(device, &st) < 0)
            return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .sys_errno = errno, .field = "io.device"), "%s can't be found", device);
        numbers[0] = major(S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev);
        numbers[1] = minor(S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev);
    }
    /* the kernel limits disks; a partition's folder in /sys is below its disk's */
    snprintf(sys, sizeof sys, "/sys/dev/block/%u:%u/partition", numbers[0], numbers[1]);
    snprintf(sys, sizeof sys, access(sys, F_OK) == 0 ? "/sys/dev/block/%u:%u/../dev" : "/sys/dev/block/%u:%u/dev", numbers[0], numbers[1]);
    if (read_disk(sys, ret))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "io.device", .hint = "name the disk itself, by its node or \"MAJOR:MINOR\""),
                       "%s is on %u:%u, which is no disk of this machine", device, numbers[0], numbers[1]);
    return 0;
}

__attribute__((format(printf, 4, 5))) static int put(const char *folder, const char *file, struct sandbox_error **error, const char *format,
                                                     ...)
{
    char text[256];
    va_list list;
    int r;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    r = sb_cgroups_write(folder, file, text);
    if (r == -EBUSY)
        return sb_fail(error,
                       SB_ARGS(SANDBOX_EBUSY, .sys_errno = EBUSY, .phase = "cgroup", .field = "memory_max", .retryable = 1,
                               .hint = "end something inside, or stop the sandbox first"),
                       "more memory is in use than the new limit");
    return r ? sb_fail_errno(error, -r, "cgroup", "%s can't be written in %s", file, folder) : 0;
}

static int64_t number_in(const char *folder, const char *file)
{
    SB_FREE char *text = NULL;
    char path[4300];

    snprintf(path, sizeof path, "%s/%s", folder, file);
    return sb_read_file(AT_FDCWD, path, 64, &text, NULL) || *text < '0' || *text > '9' ? -1 : strtoll(text, NULL, 10);
}

/* ---- memory ---- */

static int64_t swap_and(const struct sb_limits *limits)
{
    int64_t sum;

    return !limits->memory_max ? -1 : __builtin_add_overflow(limits->memory_max, limits->swap_max, &sum) ? INT64_MAX : sum;
}

/* Written in two steps when something lives in it: memory.high makes the kernel take back what it can, and kills nobody. */
static int lower_memory(const char *folder, int64_t bytes, struct sandbox_error **error)
{
    int64_t now = number_in(folder, "memory.current");

    if (now > bytes) {
        char text[32];

        snprintf(text, sizeof text, "%lld", (long long)bytes);
        sb_cgroups_write(folder, "memory.high", text);
        now = number_in(folder, "memory.current");
        sb_cgroups_write(folder, "memory.high", "max");
    }
    if (now > bytes)
        return sb_fail(error,
                       SB_ARGS(SANDBOX_EBUSY, .sys_errno = EBUSY, .phase = "cgroup", .field = "memory_max", .retryable = 1,
                               .hint = "end something inside, or stop the sandbox first"),
                       "%lld bytes of memory are in use, more than the new limit of %lld", (long long)now, (long long)bytes);
    return put(folder, "memory.max", error, "%lld", (long long)bytes);
}

static int memory_v2(const char *folder, const struct sb_limits *limits, int fresh, struct sandbox_error **error)
{
    int r;

    if (!limits->memory_max) {
        r = fresh ? 0 : put(folder, "memory.max", error, "max");
        if (!fresh)
            sb_cgroups_write(folder, "memory.swap.max", "max");
        return r;
    }
    r = fresh ? put(folder, "memory.max", error, "%lld", (long long)limits->memory_max) : lower_memory(folder, limits->memory_max, error);
    if (!r) { /* there without swap accounting, or not */
        char text[32];

        snprintf(text, sizeof text, "%lld", (long long)limits->swap_max);
        sb_cgroups_write(folder, "memory.swap.max", text);
    }
    return r;
}

/* The sum may never be below the memory alone: what goes first depends on what stands there. */
static int memory_v1(const char *folder, const struct sb_limits *limits, struct sandbox_error **error)
{
    char memory[32], sum[32];
    int r;

    snprintf(memory, sizeof memory, "%lld", limits->memory_max ? (long long)limits->memory_max : -1);
    snprintf(sum, sizeof sum, "%lld", (long long)swap_and(limits));
    r = sb_cgroups_write(folder, "memory.limit_in_bytes", memory);
    if (r == -EINVAL && !(r = sb_cgroups_write(folder, "memory.memsw.limit_in_bytes", sum)))
        r = sb_cgroups_write(folder, "memory.limit_in_bytes", memory);
    if (r)
        return put(folder, "memory.limit_in_bytes", error, "%s", memory);
    /* there without swap accounting, or not */
    return sb_cgroups_write(folder, "memory.memsw.limit_in_bytes", sum) == -EBUSY
               ? put(folder, "memory.memsw.limit_in_bytes", error, "%s", sum)
               : 0;
}

/* ---- disks ---- */

static int io_v2(const char *folder, const char *disk, const int64_t rates[SB_IO_RATES], struct sandbox_error **error)
{
    static const char *const names[SB_IO_RATES] = { "rbps", "wbps", "riops", "wiops" };
    char text[200];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", disk);

    for (int i = 0; i < SB_IO_RATES; i++)
        n += (size_t)(rates[i] ? snprintf(text + n, sizeof text - n, " %s=%lld", names[i], (long long)rates[i])
                               : snprintf(text + n, sizeof text - n, " %s=max", names[i]));
    return put(folder, "io.max", error, "%s", text);
}

static const char *const v1_files[SB_IO_RATES] = { "blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device",
                                                   "blkio.throttle.read_iops_device", "blkio.throttle.write_iops_device" };

static int io_v1(const char *folder, const char *disk, const int64_t rates[SB_IO_RATES], struct sandbox_error **error)
{
    int r = 0;

    for (int i = 0; i < SB_IO_RATES && !r; i++) /* 0 takes the limit away; v1 counts operations in 32 bits */
        r = put(folder, v1_files[i], error, "%s %lld", disk,
                (long long)(i >= SB_IO_READ_IOPS && rates[i] > UINT32_MAX ? UINT32_MAX : rates[i]));
    return r;
}

/* Every disk that a file of limits names is free again. */
static void free_disks(const char *folder, const char *file, int v2)
{
    static const int64_t none[SB_IO_RATES];
    SB_FREE char *text = NULL;
    char path[4300], *save = NULL;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    if (sb_read_file(AT_FDCWD, path, 1 << 16, &text, NULL))
        return;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        line[strcspn(line, " ")] = 0;
        if (line[strspn(line, "0123456789:")])
            continue;
        (void)(v2 ? io_v2(folder, line, none, NULL) : io_v1(folder, line, none, NULL));
    }
}

static int io_of(const char *folder, int v2, const struct sb_limits *limits, int fresh, struct sandbox_error **error)
{
    char disk[SB_DISK_SIZE];
    int r = 0;

    if (!fresh && v2)
        free_disks(folder, "io.max", 1);
    for (int i = 0; i < SB_IO_RATES && !fresh && !v2; i++)
        free_disks(folder, v1_files[i], 0);
    for (size_t i = 0; i < limits->n_io && !r; i++) {
        r = sb_cgroups_disk(limits->io[i].device, disk, error);
        if (!r)
            r = (v2 ? io_v2 : io_v1)(folder, disk, limits->io[i].rates, error);
    }
    return r;
}

/* ---- all of them ---- */

static int cpu_v2(const char *folder, const struct sb_limits *limits, int fresh, struct sandbox_error **error)
{
    int r = 0;

    if (limits->cpu_max)
        r = put(folder, "cpu.max", error, "%lld %d", (long long)limits->cpu_max * (PERIOD_US / 1000), PERIOD_US);
    else if (!fresh)
        r = put(folder, "cpu.max", error, "max %d", PERIOD_US);
    if (!r && (limits->cpu_weight || !fresh))
        r = put(folder, "cpu.weight", error, "%lld", (long long)(limits->cpu_weight ? limits->cpu_weight : WEIGHT));
    return r;
}

static int cpu_v1(const char *folder, const struct sb_limits *limits, int fresh, struct sandbox_error **error)
{
    int64_t shares = limits->cpu_weight * SHARES / WEIGHT;
    int r = 0;

    if (limits->cpu_max)
        r = put(folder, "cpu.cfs_period_us", error, "%d", PERIOD_US);
    if (!r && (limits->cpu_max || !fresh))
        r = put(folder, "cpu.cfs_quota_us", error, "%lld", limits->cpu_max ? (long long)limits->cpu_max * (PERIOD_US / 1000) : -1);
    if (!r && (limits->cpu_weight || !fresh))
        r = put(folder, "cpu.shares", error, "%lld", (long long)(!shares ? SHARES : shares < 2 ? 2 : shares));
    return r;
}

int sb_cgroups_write_v2(const char *folder, unsigned int delegated, const struct sb_limits *limits, int fresh,
                        struct sandbox_error **error)
{
    int r = 0;

    if (delegated >> SB_CONTROLLER_PIDS & 1)
        r = put(folder, "pids.max", error, "%lld", (long long)(limits->pids_max ? limits->pids_max : SB_PIDS_DEFAULT));
    if (!r && delegated >> SB_CONTROLLER_MEMORY & 1)
        r = memory_v2(folder, limits, fresh, error);
    if (!r && delegated >> SB_CONTROLLER_CPU & 1)
        r = cpu_v2(folder, limits, fresh, error);
    if (!r && delegated >> SB_CONTROLLER_IO & 1)
        r = io_of(folder, 1, limits, fresh, error);
    return r;
}

int sb_cgroups_write_v1(const char *folder, int controller, const struct sb_limits *limits, int fresh,
                        struct sandbox_error **error)
{
    switch (controller) {
    case SB_CONTROLLER_PIDS:
        return put(folder, "pids.max", error, "%lld", (long long)(limits->pids_max ? limits->pids_max : SB_PIDS_DEFAULT));
    case SB_CONTROLLER_MEMORY:
        return memory_v1(folder, limits, error);
    case SB_CONTROLLER_CPU:
        return cpu_v1(folder, limits, fresh, error);
    default:
        return io_of(folder, 0, limits, fresh, error);
    }
}

const char *sb_cgroups_folder_of(const struct sb_cgroups *cgroups, const json_t *folders, const char *id, int controller, int *ret_v2)
{
    size_t first = sb_cgroups_has_leaves(folders) ? 3 : 0;
    const char *top = json_string_value(json_array_get(folders, 0));

    *ret_v2 = 0;
    if (first && cgroups->delegated >> controller & 1) {
        *ret_v2 = 1;
        return sb_cgroups_is_ours(top, id) ? top : NULL;
    }
    for (size_t i = first; cgroups->v1[controller] && i < json_array_size(folders); i++) {
        const char *path = json_string_value(json_array_get(folders, i));
        size_t n = strlen(cgroups->v1[controller]);

        if (sb_cgroups_is_ours(path, id) && !strncmp(path, cgroups->v1[controller], n) && path[n] == '/')
            return path;
    }
    return NULL;
}

/* 1: nothing of this controller differs. */
static int is_same(const struct sb_limits *a, const struct sb_limits *b, int controller)
{
    struct sb_limits x = *b;

    switch (controller) {
    case SB_CONTROLLER_PIDS:
        return a->pids_max == b->pids_max;
    case SB_CONTROLLER_MEMORY:
        return a->memory_max == b->memory_max && (a->swap_max == b->swap_max || !a->memory_max);
    case SB_CONTROLLER_CPU:
        return a->cpu_max == b->cpu_max && a->cpu_weight == b->cpu_weight;
    default:
        x = *a;
        x.n_io = b->n_io;
        memcpy(x.io, b->io, sizeof x.io);
        return sb_limits_equal(a, &x);
    }
}

int sb_cgroups_change(const struct sb_cgroups *cgroups, const json_t *folders, const char *id, const struct sb_limits *limits,
                      const struct sb_limits *before, struct sandbox_error **error)
{
    static const char *const names[SB_CONTROLLERS] = { "pids_max", "memory_max", "cpu_max", "io" };
    int r = 0;

    for (int c = 0; c < SB_CONTROLLERS && !r; c++) {
        const char *folder;
        int v2;

        folder = sb_cgroups_folder_of(cgroups, folders, id, c, &v2);
        if (!folder && is_same(limits, before, c))
            continue;
        /* written also when it is the same: who set it last may have died before he did it */
        if (!folder)
            r = sb_fail(error,
                        SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "cgroup", .field = names[c],
                                .hint = "stop the sandbox, set it, and start it; or create it with such a limit, which can be changed then"),
                        "the running sandbox has no cgroup for %s", names[c]);
        else
            r = v2 ? sb_cgroups_write_v2(folder, 1u << c, limits, 0, error) : sb_cgroups_write_v1(folder, c, limits, 0, error);
    }
    return r;
}
