/* SPDX-License-Identifier: Apache-2.0
 * See ports.h. */
#include "ports.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

struct sandbox_exec *ports_serve(struct sandbox *sandbox, int port, const char *mode, const char *bytes, int *ret_out)
{
    struct sandbox_exec *exec = NULL;
    struct sandbox_error *error = NULL;
    char text[8], line[16] = "";
    int out;

    snprintf(text, sizeof text, "%d", port);
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/guest/port-server", text, mode, bytes), NULL, &exec, &error), &error);
    sbtest_ok(sandbox_exec_take_stdout(exec, &out, &error), &error);
    ck_assert_int_eq(read(out, line, 10), 10);
    if (ret_out)
        *ret_out = out;
    else
        close(out);
    return exec;
}

int ports_connect(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct timeval patience = { 30, 0 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        int r = -errno;

        close(fd);
        return r;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return fd;
}

int ports_write(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

        if (n <= 0)
            return -1;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

unsigned long long ports_hash(const char *data, size_t size, unsigned long long hash)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3ull;
    return hash;
}

ssize_t ports_drain(int fd, unsigned long long *hash)
{
    static _Thread_local char block[1 << 16];
    ssize_t n, all = 0;

    if (hash)
        *hash = PORTS_HASH_INIT;
    while ((n = read(fd, block, sizeof block)) > 0) {
        all += n;
        if (hash)
            *hash = ports_hash(block, (size_t)n, *hash);
    }
    return n < 0 ? -1 : all;
}

int ports_echoes(int fd)
{
    char back[4] = "";
    size_t got = 0;
    ssize_t n = 1;

    if (ports_write(fd, "ping", 4) < 0)
        return 0;
    while (got < sizeof back && (n = read(fd, back + got, sizeof back - got)) > 0)
        got += (size_t)n;
    return got == sizeof back && memcmp(back, "ping", 4) == 0;
}

void ports_pattern(char *block, size_t size, size_t offset)
{
    for (size_t i = 0; i < size; i++)
        block[i] = (char)((offset + i) * 2654435761u >> 11);
}

static int parent_of(pid_t pid, char comm[32])
{
    char path[64], text[512], *end;
    FILE *f;
    size_t n;
    int parent = -1;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return -1;
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    end = strrchr(text, ')');
    if (!end || sscanf(end, ") %*c %d", &parent) != 1)
        return -1;
    *end = 0;
    snprintf(comm, 32, "%s", strchr(text, '(') ? strchr(text, '(') + 1 : "");
    return parent;
}

static int below(pid_t pid, pid_t top)
{
    char comm[32];

    for (int depth = 0; pid > 1 && depth < 16; depth++) {
        pid = parent_of(pid, comm);
        if (pid == top)
            return 1;
    }
    return 0;
}

int ports_processes(const char *name, pid_t *pids, int max)
{
    DIR *proc = opendir("/proc");
    struct dirent *d;
    int n = 0;

    ck_assert_ptr_nonnull(proc);
    while ((d = readdir(proc))) {
        pid_t pid = isdigit((unsigned char)d->d_name[0]) ? atoi(d->d_name) : 0;
        char comm[32];

        if (pid > 0 && parent_of(pid, comm) > 0 && strcmp(comm, name) == 0 && below(pid, getpid())) {
            if (n < max)
                pids[n] = pid;
            n++;
        }
    }
    closedir(proc);
    return n;
}

int ports_helpers(pid_t *pids, int max)
{
    return ports_processes("sandbox-forward", pids, max);
}

int ports_await_helpers(pid_t pids[2])
{
    int n = ports_helpers(pids, 2);

    for (long until = box_now() + 5000; n != 2 && box_now() < until; n = ports_helpers(pids, 2))
        usleep(5000);
    return n;
}

/* What stands in /proc/PID/stat from the state on; free() what *ret_text is. */
static const char *stat_of(pid_t pid, char **ret_text)
{
    char path[64], *end;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    *ret_text = box_read(path);
    end = strrchr(*ret_text, ')');
    ck_assert(end && end[1] == ' ');
    return end + 2;
}

long ports_cpu_ms(pid_t pid)
{
    unsigned long user = 0, system = 0;
    char *text;

    ck_assert_int_eq(sscanf(stat_of(pid, &text), "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system), 2);
    free(text);
    return (long)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

long ports_rss_kib(pid_t pid)
{
    char path[64], *text, *at;
    long kib = -1;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    text = box_read(path);
    at = strstr(text, "VmRSS:");
    if (at)
        sscanf(at, "VmRSS: %ld", &kib);
    free(text);
    return kib;
}

int ports_descriptors(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    return box_entries(path);
}

int ports_settled_descriptors(pid_t pid)
{
    for (long until = box_now() + sbtest_slowly(10000);; usleep(1000)) {
        char *text;
        int waits = *stat_of(pid, &text) == 'S';

        free(text);
        if (waits)
            return ports_descriptors(pid);
        ck_assert_int_lt(box_now(), until);
    }
}
