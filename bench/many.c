/* SPDX-License-Identifier: Apache-2.0
 * A host that has many sandboxes, all running, which this program makes before the first sample and deletes after the last.
 *   many list ROOT IMAGE N      lists them all
 *   many reopen ROOT IMAGE N    a handle by id, in a host that is open
 *   many open ROOT IMAGE N      opens the host once more, beside the one that has them
 *   many inspect ROOT IMAGE N   the whole document of one */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "sample.h"

static struct {
    const char *root;
    struct sandbox_host *host;
    struct sandbox **all;
    size_t n, next;
} many;

static int64_t list(void *data)
{
    struct sandbox_error *error = NULL;
    struct sandbox_list *list = NULL;
    int64_t begin = bench_now_ns(), end;

    (void)data;
    bench_check(sandbox_host_list(many.host, NULL, &list, &error), &error, "list");
    end = bench_now_ns();
    if (sandbox_list_get_count(list) != many.n)
        bench_fail("%zu of %zu sandboxes were listed", sandbox_list_get_count(list), many.n);
    for (size_t i = 0; i < many.n; i++)
        if (sandbox_info_get_state(sandbox_list_get(list, i)) != SANDBOX_STATE_RUNNING)
            bench_fail("%s does not run", sandbox_info_get_id(sandbox_list_get(list, i)));
    sandbox_list_unref(list);
    return end - begin;
}

static const char *next_id(void)
{
    return sandbox_get_id(many.all[many.next++ % many.n]);
}

static int64_t reopen(void *data)
{
    const char *id = next_id();
    struct sandbox_error *error = NULL;
    struct sandbox *sandbox = NULL;
    int64_t begin = bench_now_ns(), end;

    (void)data;
    bench_check(sandbox_open(many.host, id, &sandbox, &error), &error, "open");
    end = bench_now_ns();
    sandbox_unref(sandbox);
    return end - begin;
}

static int64_t inspect(void *data)
{
    struct sandbox *sandbox = many.all[many.next++ % many.n];
    struct sandbox_error *error = NULL;
    struct sandbox_info *info = NULL;
    int64_t begin = bench_now_ns(), end;

    (void)data;
    bench_check(sandbox_inspect(sandbox, &info, &error), &error, "inspect");
    end = bench_now_ns();
    sandbox_info_unref(info);
    return end - begin;
}

static int64_t open_again(void *data)
{
    int64_t begin = bench_now_ns(), end;
    struct sandbox_host *host = bench_open_host(many.root);

    (void)data;
    end = bench_now_ns();
    sandbox_host_unref(host);
    return end - begin;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int64_t (*once)(void *data);
    } what[] = { { "list", list }, { "reopen", reopen }, { "open", open_again }, { "inspect", inspect } };
    struct sandbox_spec *spec;
    size_t i = 0;

    while (argc == 5 && i < sizeof what / sizeof *what && strcmp(argv[1], what[i].name))
        i++;
    if (argc != 5 || i == sizeof what / sizeof *what || atoi(argv[4]) < 1)
        bench_fail("usage: many list|reopen|open|inspect ROOT IMAGE N");
    many.root = argv[2];
    many.host = bench_open_host(many.root);
    many.all = calloc((size_t)atoi(argv[4]), sizeof *many.all);
    if (!many.all)
        bench_fail("out of memory");
    spec = bench_new_spec(argv[3]);
    for (; many.n < (size_t)atoi(argv[4]); many.n++)
        many.all[many.n] = bench_start_sandbox(many.host, spec);
    sandbox_spec_unref(spec);
    bench_serve(what[i].once, NULL);
    while (many.n > 0)
        bench_delete_sandbox(many.all[--many.n]);
    free(many.all);
    sandbox_host_unref(many.host);
    return 0;
}
