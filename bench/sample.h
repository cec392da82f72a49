/* SPDX-License-Identifier: Apache-2.0
 * What every measuring program shares. Each is one contender that lives as long as the benchmark: it says "ready", and for each line
 * on stdin it takes one sample and answers with a line "NANOSECONDS [part=NANOSECONDS …]". So bench/run can interleave the contenders
 * sample by sample, and nothing of Python is within a figure. At the end of stdin it cleans up and ends. */
#ifndef BENCH_SAMPLE_H
#define BENCH_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* CLOCK_MONOTONIC. */
int64_t bench_now_ns(void);
/* Says why and ends the program. */
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Adds " name=NANOSECONDS" to the answer to the present request. */
void bench_part(const char *name, int64_t ns);
/* Serves requests until stdin ends. `once` takes a sample and returns its nanoseconds. */
void bench_serve(int64_t (*once)(void *data), void *data);
/* Starts a program with stdin from /dev/null and stdout on `out` (-1: where stderr goes); by vfork, whatever the size of the caller. */
int bench_spawn(char *const argv[], int out);
/* Waits for it; its wait status. */
int bench_reap(int pid);
/* Reads a descriptor to its end and throws it away; the number of bytes. */
int64_t bench_drain(int fd);

#endif
