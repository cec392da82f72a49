/* SPDX-License-Identifier: Apache-2.0
 * What a sandbox uses, from the files of its cgroups; where a controller has none for it, from the processes in its group. Nothing inside is
 * asked, and nothing is kept: a reading is a handful of small files. */
#include "engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <errors.h>

enum { FILE_MAX = 16384, PAGES_MAX = 1 << 20 };

/* The start of a small file, with a NUL; 0 or -errno. */
static int read_small(int dir, const char *name, char *text, size_t size)
{
    SB_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : SB_RETRY(read(fd, text, size - 1));

    if (n < 0)
        return -errno;
    text[n] = 0;
    return 0;
}

/* -1: no number ("max", or no file). */
static int64_t number(int dir, const char *name)
{
    char text[64];

    return read_small(dir, name, text, sizeof text) || *text < '0' || *text > '9' ? -1 : strtoll(text, NULL, 10);
}

/* What stands behind "key " at the start of a line; -1: it isn't there. */
static int64_t field(const char *text, const char *key)
{
    size_t n = strlen(key);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, key, n) && line[n] == ' ')
            return strtoll(line + n + 1, NULL, 10);
    }
    return -1;
}

/* v1 has no "max" but a number that no machine has. */
static int64_t v1_limit(int dir, const char *name)
{
    int64_t value = number(dir, name);

    return value >= INT64_MAX / 2 ? -1 : value;
}

/* ---- memory ---- */

static void memory_v2(int dir, struct sandbox_stats *s)
{
    char text[512];

    s->memory = number(dir, "memory.current");
    if (s->memory < 0)
        return;
    s->memory_level = SANDBOX_LEVEL_ENFORCED;
    s->memory_peak = number(dir, "memory.peak");
    s->memory_max = number(dir, "memory.max");
    s->swap = number(dir, "memory.swap.current");
    s->swap_max = number(dir, "memory.swap.max");
    if (!read_small(dir, "memory.events", text, sizeof text)) {
        s->memory_hits = field(text, "max");
        s->oom_kills = field(text, "oom_kill");
    }
}

static void memory_v1(int dir, struct sandbox_stats *s)
{
    int64_t both, both_max;
    char text[256];

    s->memory = number(dir, "memory.usage_in_bytes");
    if (s->memory < 0)
        return;
    s->memory_level = SANDBOX_LEVEL_ENFORCED;
    s->memory_peak = number(dir, "memory.max_usage_in_bytes");
    s->memory_max = v1_limit(dir, "memory.limit_in_bytes");
    s->memory_hits = number(dir, "memory.failcnt");
    both = number(dir, "memory.memsw.usage_in_bytes");
    both_max = v1_limit(dir, "memory.memsw.limit_in_bytes");
    if (both >= 0) /* read a moment later: never negative */
        s->swap = both > s->memory ? both - s->memory : 0;
    if (both_max >= 0 && s->memory_max >= 0)
        s->swap_max = both_max > s->memory_max ? both_max - s->memory_max : 0;
    if (!read_small(dir, "memory.oom_control", text, sizeof text))
        s->oom_kills = field(text, "oom_kill");
}

/* ---- processes ---- */

static void pids_of(int dir, struct sandbox_stats *s)
{
    char text[256];

    s->pids = number(dir, "pids.current");
    if (s->pids < 0)
        return;
    s->pids_level = SANDBOX_LEVEL_ENFORCED;
    s->pids_max = number(dir, "pids.max");
    if (!read_small(dir, "pids.events", text, sizeof text))
        s->pids_hits = field(text, "max");
}

struct count {
    int64_t threads, pages;
    int memory; /* wanted */
};

static void add_memory(struct count *c, const char *pid)
{
    char path[64], text[128];
    long long pages;

    snprintf(path, sizeof path, "/proc/%.20s/statm", pid);
    if (!read_small(AT_FDCWD, path, text, sizeof text) && sscanf(text, "%*s %lld", &pages) == 1)
        c->pages += pages;
}

/* Those of one group. Bounded: what is counted may fork faster than it is read. */
static void count_group(int dir, struct count *c)
{
    int fd = openat(dir, c->memory ? "cgroup.procs" : "cgroup.threads", O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    char line[32];

    if (!file) {
        sb_close(fd);
        return;
    }
    for (int i = 0; i < PAGES_MAX && fgets(line, sizeof line, file); i++) {
        line[strcspn(line, "\n")] = 0;
        if (c->memory)
            add_memory(c, line);
        else
            c->threads++;
    }
    fclose(file);
}

/* The sandbox's group and the leaves below it. */
static struct count count_all(int top, int memory)
{
    struct count c = { .memory = memory };
    int copy = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *d;

    count_group(top, &c);
    if (!stream)
        sb_close(copy);
    while (stream && (d = readdir(stream)))
        if (d->d_type == DT_DIR && d->d_name[0] != '.') {
            SB_CLOSE int leaf = openat(top, d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

            if (leaf >= 0)
                count_group(leaf, &c);
        }
    if (stream)
        closedir(stream);
    return c;
}

/* For want of a controller. */
static void wrap(int top, struct sandbox_stats *s)
{
    if (!s->memory_level) {
        s->memory = count_all(top, 1).pages * sysconf(_SC_PAGESIZE);
        s->memory_level = SANDBOX_LEVEL_WRAPPED;
    }
    if (!s->pids_level) {
        s->pids = count_all(top, 0).threads;
        s->pids_level = SANDBOX_LEVEL_WRAPPED;
    }
}

/* ---- CPU and disks ---- */

/* "QUOTA PERIOD" as thousandths. */
static int64_t quota(int64_t quota_us, int64_t period_us)
{
    return quota_us < 0 || period_us <= 0 ? -1 : quota_us * 1000 / period_us;
}

static void throttling(const char *text, const char *time, int64_t per_us, struct sandbox_stats *s)
{
    int64_t held = field(text, time);

    s->cpu_periods = field(text, "nr_periods");
    s->cpu_throttled = field(text, "nr_throttled");
    s->cpu_throttled_us = held < 0 ? -1 : held / per_us;
}

/* In cgroup2 the time is there without the controller, too. */
static void cpu_v2(int dir, struct sandbox_stats *s)
{
    long long us = -1, period = 0;
    char text[1024];

    if (read_small(dir, "cpu.stat", text, sizeof text))
        return;
    s->cpu_us = field(text, "usage_usec");
    if (s->cpu_us >= 0)
        s->cpu_level = SANDBOX_LEVEL_ENFORCED;
    s->cpu_user_us = field(text, "user_usec");
    s->cpu_system_us = field(text, "system_usec");
    throttling(text, "throttled_usec", 1, s);
    if (!read_small(dir, "cpu.max", text, sizeof text) && sscanf(text, "%lld %lld", &us, &period) == 2)
        s->cpu_max = quota(us, period);
}

static void cpu_v1(int dir, struct sandbox_stats *s)
{
    char text[512];

    if (read_small(dir, "cpu.stat", text, sizeof text))
        return;
    throttling(text, "throttled_time", 1000, s);
    s->cpu_max = quota(number(dir, "cpu.cfs_quota_us"), number(dir, "cpu.cfs_period_us"));
    if (s->cpu_us < 0) { /* there where it is mounted together */
        int64_t ns = number(dir, "cpuacct.usage");

        s->cpu_us = ns < 0 ? -1 : ns / 1000;
        s->cpu_level = ns < 0 ? 0 : SANDBOX_LEVEL_ENFORCED;
    }
}

/* Lines of "MAJOR:MINOR rbytes=N wbytes=N rios=N wios=N …". */
static void io_v2(int dir, struct sandbox_stats *s)
{
    static const char *const keys[] = { " rbytes=", " wbytes=", " rios=", " wios=" };
    int64_t *const sums[] = { &s->io_read_bytes, &s->io_write_bytes, &s->io_reads, &s->io_writes };
    char text[FILE_MAX];

    if (read_small(dir, "io.stat", text, sizeof text))
        return;
    s->io_level = SANDBOX_LEVEL_ENFORCED;
    for (size_t i = 0; i < SB_ELEMENTS(keys); i++) {
        *sums[i] = 0;
        for (const char *at = text; (at = strstr(at, keys[i])); at++)
            *sums[i] += strtoll(at + strlen(keys[i]), NULL, 10);
    }
}

/* Lines of "MAJOR:MINOR Read N" and so on. */
static void io_v1_file(int dir, const char *name, int64_t *reads, int64_t *writes)
{
    char text[FILE_MAX];

    if (read_small(dir, name, text, sizeof text))
        return;
    *reads = *writes = 0;
    for (const char *at = text; (at = strstr(at, " Read ")); at++)
        *reads += strtoll(at + 6, NULL, 10);
    for (const char *at = text; (at = strstr(at, " Write ")); at++)
        *writes += strtoll(at + 7, NULL, 10);
}

static void io_v1(int dir, struct sandbox_stats *s)
{
    io_v1_file(dir, "blkio.throttle.io_service_bytes", &s->io_read_bytes, &s->io_write_bytes);
    io_v1_file(dir, "blkio.throttle.io_serviced", &s->io_reads, &s->io_writes);
    s->io_level = s->io_reads < 0 ? 0 : SANDBOX_LEVEL_ENFORCED;
}

/* ---- pressure ---- */

static void pressure_line(const char *text, const char *kind, int64_t *ret_us, int64_t *ret_avg10)
{
    const char *line = strstr(text, kind), *total = line ? strstr(line, "total=") : NULL;
    int whole, hundredths;

    if (!total || sscanf(line + strlen(kind), " avg10=%d.%2d", &whole, &hundredths) != 2)
        return;
    *ret_avg10 = whole * 100 + hundredths;
    *ret_us = strtoll(total + strlen("total="), NULL, 10);
}

static void pressure(int dir, const char *name, struct sandbox_stats *s, struct sandbox_pressure *p)
{
    char text[512];

    if (read_small(dir, name, text, sizeof text)) /* a kernel without, or one that was told not to count it */
        return;
    pressure_line(text, "some", &p->some_us, &p->some_avg10);
    pressure_line(text, "full", &p->full_us, &p->full_avg10);
    if (p->some_us >= 0)
        s->pressure_level = SANDBOX_LEVEL_ENFORCED;
}

/* ---- all ---- */

static int stopped(const char *id, struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ENOTRUNNING, .phase = "stats", .hint = "start it"), "sandbox %.12s is not running", id);
}

static void read_top(const struct sb_cgroups *cgroups, int top, struct sandbox_stats *s)
{
    if (cgroups->delegated >> SB_CONTROLLER_MEMORY & 1)
        memory_v2(top, s);
    if (cgroups->delegated >> SB_CONTROLLER_PIDS & 1)
        pids_of(top, s);
    cpu_v2(top, s);
    if (cgroups->delegated >> SB_CONTROLLER_IO & 1)
        io_v2(top, s);
    pressure(top, "memory.pressure", s, &s->memory_pressure);
    pressure(top, "cpu.pressure", s, &s->cpu_pressure);
    pressure(top, "io.pressure", s, &s->io_pressure);
}

static void read_v1(const struct sb_cgroups *cgroups, const json_t *folders, const char *id, struct sandbox_stats *s)
{
    static void (*const readers[SB_CONTROLLERS])(int, struct sandbox_stats *) = { pids_of, memory_v1, cpu_v1, io_v1 };

    for (int c = 0; c < SB_CONTROLLERS; c++) {
        int v2;
        const char *folder = sb_cgroups_folder_of(cgroups, folders, id, c, &v2);
        SB_CLOSE int dir = folder && !v2 ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

        if (dir >= 0)
            readers[c](dir, s);
    }
}

static int read_all(struct sb_engine *engine, const struct sb_record *record, struct sandbox_stats *s, struct sandbox_error **error)
{
    const json_t *folders = json_object_get(record->json, "cgroups");
    const char *path = sb_cgroups_has_leaves(folders) ? json_string_value(json_array_get(folders, 0)) : NULL;
    SB_CLOSE int top = -1;
    char text[256];

    if (path) {
        top = sb_cgroups_is_ours(path, record->id) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        if (top < 0 || read_small(top, "cgroup.events", text, sizeof text) || field(text, "populated") != 1)
            return stopped(record->id, error);
        read_top(&engine->cgroups, top, s);
    } else {
        SB_CLOSE int link = -1;

        if (sb_link_open(engine, record->id, &link, NULL))
            return stopped(record->id, error);
    }
    read_v1(&engine->cgroups, folders, record->id, s);
    if (top >= 0)
        wrap(top, s);
    return 0;
}

int sb_engine_get_stats(struct sb_driver *driver, const char *id, struct sandbox_stats *ret, struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    struct sb_record record = SB_RECORD_INIT;
    struct timespec now;
    int *const levels[] = { &ret->memory_level, &ret->pids_level, &ret->cpu_level, &ret->io_level, &ret->pressure_level };
    int r = sb_known_load(engine, id, &record, NULL);

    if (r) { /* rarely, and then with the right words */
        sb_record_clear(&record);
        r = sb_record_open(engine, id, SB_LOCK_NONE, &record, error);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    ret->time_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (!r)
        r = read_all(engine, &record, ret, error);
    sb_record_clear(&record);
    for (size_t i = 0; i < SB_ELEMENTS(levels); i++)
        if (!*levels[i])
            *levels[i] = SANDBOX_LEVEL_IMPOSSIBLE;
    return r;
}
