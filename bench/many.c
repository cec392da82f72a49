/* SPDX-License-Identifier: Apache-2.0
 * many ROOT IMAGE N: a host that has N sandboxes, all running, which this program makes before the first sample and deletes after the last. A
 * sample is a list of them all; its parts: a handle by id in this host ("reopen"), the whole document of one ("inspect"), and the host opened
 * once more, beside the one that has them ("open"). */
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

static int64_t list(void)
{
    struct sandbox_error *error = NULL;
    struct sandbox_list *list = NULL;
    int64_t begin = bench_now_ns(), end;

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

static void reopen(struct sandbox *one)
{
    struct sandbox_error *error = NULL;
    struct sandbox *same = NULL;
    int64_t begin = bench_now_ns();

    bench_check(sandbox_open(many.host, sandbox_get_id(one), &same, &error), &error, "open");
    bench_part("reopen", bench_now_ns() - begin);
    sandbox_unref(same);
}

static void inspect(struct sandbox *one)
{
    struct sandbox_error *error = NULL;
    struct sandbox_info *info = NULL;
    int64_t begin = bench_now_ns();

    bench_check(sandbox_inspect(one, &info, &error), &error, "inspect");
    bench_part("inspect", bench_now_ns() - begin);
    sandbox_info_unref(info);
}

static int64_t once(void *data)
{
    struct sandbox *one = many.all[many.next++ % many.n];
    int64_t total = list(), begin;
    struct sandbox_host *again;

    (void)data;
    reopen(one);
    inspect(one);
    begin = bench_now_ns();
    again = bench_open_host(many.root);
    bench_part("open", bench_now_ns() - begin);
    sandbox_host_unref(again);
    return total;
}

int main(int argc, char **argv)
{
    struct sandbox_spec *spec;

    if (argc != 4 || atoi(argv[3]) < 1)
        bench_fail("usage: many ROOT IMAGE N");
    many.root = argv[1];
    many.host = bench_open_host(many.root);
    many.all = calloc((size_t)atoi(argv[3]), sizeof *many.all);
    if (!many.all)
        bench_fail("out of memory");
    spec = bench_new_spec(argv[2]);
    for (; many.n < (size_t)atoi(argv[3]); many.n++)
        many.all[many.n] = bench_start_sandbox(many.host, spec);
    sandbox_spec_unref(spec);
    bench_serve(once, NULL);
    while (many.n > 0)
        bench_delete_sandbox(many.all[--many.n]);
    free(many.all);
    sandbox_host_unref(many.host);
    return 0;
}
