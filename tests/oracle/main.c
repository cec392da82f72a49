/* SPDX-License-Identifier: Apache-2.0
 * oracle snapshot FILE [--tree PID] [--fds PID] [--root DIR]…   writes what is there
 * oracle compare FILE  [the same options]                       prints what differs since; exit status 1 when anything does
 * oracle run [--root DIR]… -- COMMAND …                         runs a suite between the two (see run.c) */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oracle.h"

static int usage(void)
{
    fprintf(stderr, "usage: oracle snapshot|compare FILE [--tree PID] [--fds PID] [--root DIR]…\n"
                    "       oracle run [--root DIR]… -- COMMAND …\n");
    return 125;
}

static int options(int argc, char **argv, struct oracle_scope *scope)
{
    scope->tree = getppid();
    for (int i = 0; i < argc; i += 2) {
        if (i + 1 >= argc)
            return -1;
        if (strcmp(argv[i], "--tree") == 0)
            scope->tree = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--fds") == 0)
            scope->fd_pid = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--root") == 0 && scope->n_roots < ORACLE_ROOTS_MAX)
            scope->roots[scope->n_roots++] = argv[i + 1];
        else
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct oracle_scope scope = { 0 };
    struct oracle_set set = { 0 };
    int r = 0;
    FILE *f;

    if (argc > 2 && strcmp(argv[1], "run") == 0)
        return oracle_run(argc - 2, argv + 2);
    if (argc < 3 || options(argc - 3, argv + 3, &scope) < 0)
        return usage();
    if (strcmp(argv[1], "snapshot") == 0) {
        oracle_snapshot(&scope, &set);
        f = fopen(argv[2], "we");
        if (!f || oracle_save(&set, f) < 0 || fclose(f) != 0) {
            perror(argv[2]);
            r = 125;
        }
    } else if (strcmp(argv[1], "compare") == 0) {
        f = fopen(argv[2], "re");
        if (!f || oracle_load(&set, f) < 0) {
            perror(argv[2]);
            r = 125;
        } else {
            r = oracle_compare(&scope, &set, stdout) ? 1 : 0;
        }
        if (f)
            fclose(f);
    } else {
        r = usage();
    }
    oracle_clear(&set);
    return r;
}
