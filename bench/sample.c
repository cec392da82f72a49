/* SPDX-License-Identifier: Apache-2.0
 * See sample.h. */
#include "sample.h"

#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static char parts[512];

int64_t bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

_Noreturn void bench_fail(const char *format, ...)
{
    va_list ap;

    fputs("error: ", stdout);
    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
    putchar('\n');
    exit(1);
}

void bench_part(const char *name, int64_t ns)
{
    size_t have = strlen(parts);

    snprintf(parts + have, sizeof parts - have, " %s=%lld", name, (long long)ns);
}

void bench_serve(int64_t (*once)(void *data), void *data)
{
    char line[64];

    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int64_t ns;

        parts[0] = 0;
        ns = once(data);
        printf("%lld%s\n", (long long)ns, parts);
        fflush(stdout);
    }
}

int bench_spawn(char *const argv[], int out)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int r;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_adddup2(&actions, out < 0 ? 2 : out, 1);
    r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (r)
        bench_fail("%s: %s", argv[0], strerror(r));
    return pid;
}

int bench_reap(int pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            bench_fail("waitpid: %s", strerror(errno));
    return status;
}

int64_t bench_drain(int fd)
{
    static char buffer[1 << 20];
    int64_t total = 0;
    ssize_t n;

    while ((n = read(fd, buffer, sizeof buffer)) != 0) {
        if (n > 0)
            total += n;
        else if (errno != EINTR)
            bench_fail("read: %s", strerror(errno));
    }
    return total;
}
