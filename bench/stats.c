/* SPDX-License-Identifier: Apache-2.0
 * stats ROOT IMAGE N: the statistics of N sandboxes with limits, which this program makes before the first sample and deletes after the last. Its
 * part "raw": the same files of the same groups, found beforehand, opened and read by their paths in a loop. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"
#include "sample.h"

/* What the statistics are made of, in cgroup2 and in v1's hierarchies. */
static const char *const names[] = {
    "cgroup.events", "cpu.stat", "cpu.max", "cpu.pressure", "memory.pressure", "io.pressure", "io.stat", "memory.current", "memory.peak",
    "memory.max", "memory.events", "memory.swap.current", "memory.swap.max", "pids.current", "pids.max", "pids.events", "memory.usage_in_bytes",
    "memory.max_usage_in_bytes", "memory.limit_in_bytes", "memory.failcnt", "memory.oom_control", "memory.memsw.usage_in_bytes",
    "memory.memsw.limit_in_bytes", "cpu.cfs_quota_us", "cpu.cfs_period_us",
};

static struct {
    struct sandbox_host *host;
    struct sandbox **all;
    size_t n;
    char **files;
    size_t n_files;
    const char *wanted;
} stats;

static int64_t once(void *data)
{
    struct sandbox_error *error = NULL;
    int64_t begin = bench_now_ns(), total;
    char text[4096];

    (void)data;
    for (size_t i = 0; i < stats.n; i++) {
        struct sandbox_stats one = SANDBOX_STATS_INIT;

        bench_check(sandbox_get_stats(stats.all[i], &one, &error), &error, "stats");
        if (one.memory <= 0 || one.pids <= 0)
            bench_fail("a sandbox that runs uses nothing");
    }
    total = bench_now_ns() - begin;
    begin = bench_now_ns();
    for (size_t i = 0; i < stats.n_files; i++) {
        int fd = open(stats.files[i], O_RDONLY | O_CLOEXEC);

        if (fd < 0 || read(fd, text, sizeof text) < 0)
            bench_fail("%s: %s", stats.files[i], strerror(errno));
        close(fd);
    }
    bench_part("raw", bench_now_ns() - begin);
    return total;
}

static int look(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    const char *name = path + ftw->base;

    (void)st;
    if (type != FTW_D || !strstr(name, stats.wanted))
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *file = NULL;

        if (asprintf(&file, "%s%s/%s", path, strstr(name, ".scope") ? "/box" : "", names[i]) < 0)
            bench_fail("out of memory");
        if (access(file, R_OK) < 0) {
            free(file);
            continue;
        }
        stats.files = realloc(stats.files, (stats.n_files + 1) * sizeof *stats.files);
        if (!stats.files)
            bench_fail("out of memory");
        stats.files[stats.n_files++] = file;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct sandbox_limits limits = SANDBOX_LIMITS_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_spec *spec;

    if (argc != 4 || atoi(argv[3]) < 1)
        bench_fail("usage: stats ROOT IMAGE N");
    stats.host = bench_open_host(argv[1]);
    stats.all = calloc((size_t)atoi(argv[3]), sizeof *stats.all);
    if (!stats.all)
        bench_fail("out of memory");
    spec = bench_new_spec(argv[2]);
    limits.memory_max = 64 << 20;
    limits.pids_max = 100;
    limits.cpu_max = 1000;
    bench_check(sandbox_spec_set_limits(spec, &limits, &error), &error, "limits");
    for (; stats.n < (size_t)atoi(argv[3]); stats.n++) {
        stats.all[stats.n] = bench_start_sandbox(stats.host, spec);
        stats.wanted = sandbox_get_id(stats.all[stats.n]);
        nftw("/sys/fs/cgroup", look, 16, FTW_PHYS);
    }
    sandbox_spec_unref(spec);
    bench_serve(once, NULL);
    while (stats.n > 0)
        bench_delete_sandbox(stats.all[--stats.n]);
    for (size_t i = 0; i < stats.n_files; i++)
        free(stats.files[i]);
    free(stats.files);
    free(stats.all);
    sandbox_host_unref(stats.host);
    return 0;
}
