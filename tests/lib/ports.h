/* SPDX-License-Identifier: Apache-2.0
 * What the suites about ports share: servers inside, connections from outside, and what a forward's helper holds. */
#ifndef SBTEST_PORTS_H
#define SBTEST_PORTS_H

#include "box.h"

#include <sys/types.h>

/* Runs /guest/port-server PORT MODE [BYTES] and returns once it listens; its stdout stays open as *ret_out (NULL: dropped). */
struct sandbox_exec *ports_serve(struct sandbox *sandbox, int port, const char *mode, const char *bytes, int *ret_out);
/* A connection to 127.0.0.1:port of this machine, or -errno. With 30 s for each read and write. */
int ports_connect(int port);
/* Writes all, or -1. */
int ports_write(int fd, const void *data, size_t size);
/* Reads to the end: how much it was, -1 when it broke. hash: FNV-1a of it; NULL: not wanted. */
ssize_t ports_drain(int fd, unsigned long long *hash);
/* 1 when what is sent comes back. */
int ports_echoes(int fd);
/* The pattern of port-server's push: fills a block that begins at an offset. */
void ports_pattern(char *block, size_t size, size_t offset);
unsigned long long ports_hash(const char *data, size_t size, unsigned long long hash);
#define PORTS_HASH_INIT 0xcbf29ce484222325ull

/* Processes of a name below this one: how many (at most `max` pids stored). */
int ports_processes(const char *comm, pid_t *pids, int max);
/* Those of forwards. */
int ports_helpers(pid_t *pids, int max);
/* The two of one forward: a port may be listened on before both have their name. */
int ports_await_helpers(pid_t pids[2]);
/* Open descriptors of a process, -1: it can't be looked at. */
int ports_descriptors(pid_t pid);
/* Of a forward's process, once it waits for something to do: the dialer has handed a connection out before it closes its own descriptor of it. */
int ports_settled_descriptors(pid_t pid);
/* Processor time in ms, and resident memory in KiB. */
long ports_cpu_ms(pid_t pid);
long ports_rss_kib(pid_t pid);

#endif
