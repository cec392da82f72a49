/* SPDX-License-Identifier: Apache-2.0
 * A contender that is a command: from before its start to after its end. The command's output goes to stderr.
 *   spawn COMMAND ARGUMENT … */
#include <stdio.h>
#include <sys/wait.h>

#include "sample.h"

static int64_t once(void *data)
{
    char *const *argv = data;
    int64_t begin = bench_now_ns(), end;
    int status = bench_reap(bench_spawn(argv, -1));

    end = bench_now_ns();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_fail("%s ended with status 0x%x", argv[0], (unsigned int)status);
    return end - begin;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        bench_fail("usage: spawn COMMAND ARGUMENT …");
    bench_serve(once, argv + 1);
    return 0;
}
