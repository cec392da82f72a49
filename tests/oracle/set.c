/* SPDX-License-Identifier: Apache-2.0
 * Sets of lines, and the wait until two of them agree. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "oracle.h"

static void *must(void *p)
{
    if (!p) {
        perror("oracle");
        abort();
    }
    return p;
}

void oracle_add(struct oracle_set *set, const char *kind, const char *format, ...)
{
    char *identity, *line;
    va_list ap;

    va_start(ap, format);
    if (vasprintf(&identity, format, ap) < 0)
        must(NULL);
    va_end(ap);
    if (asprintf(&line, "%s\t%s", kind, identity) < 0)
        must(NULL);
    free(identity);
    for (char *c = line; *c; c++) /* one line each, whatever a name holds */
        if (*c == '\n')
            *c = '?';
    if (set->n == set->room) {
        set->room = set->room ? 2 * set->room : 256;
        set->lines = must(realloc(set->lines, set->room * sizeof *set->lines));
    }
    set->lines[set->n++] = line;
}

static int by_line(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void oracle_sort(struct oracle_set *set)
{
    size_t kept = 0;

    if (set->n == 0)
        return;
    qsort(set->lines, set->n, sizeof *set->lines, by_line);
    for (size_t i = 1; i < set->n; i++) {
        if (strcmp(set->lines[i], set->lines[kept]) == 0)
            free(set->lines[i]);
        else
            set->lines[++kept] = set->lines[i];
    }
    set->n = kept + 1;
}

void oracle_clear(struct oracle_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        free(set->lines[i]);
    free(set->lines);
    *set = (struct oracle_set){ 0 };
}

int oracle_save(const struct oracle_set *set, FILE *out)
{
    for (size_t i = 0; i < set->n; i++)
        fprintf(out, "%s\n", set->lines[i]);
    return ferror(out) ? -EIO : 0;
}

int oracle_load(struct oracle_set *set, FILE *in)
{
    char *line = NULL, *tab;
    size_t room = 0;
    ssize_t n;

    while ((n = getline(&line, &room, in)) > 0) {
        if (line[n - 1] == '\n')
            line[n - 1] = 0;
        tab = strchr(line, '\t');
        if (!tab) {
            free(line);
            return -EINVAL;
        }
        *tab = 0;
        oracle_add(set, line, "%s", tab + 1);
    }
    free(line);
    oracle_sort(set);
    return 0;
}

/* Calls back for each difference; returns how many there were. */
static size_t differences(const struct oracle_set *a, const struct oracle_set *b, void (*each)(char, const char *, void *),
                          void *arg)
{
    size_t i = 0, j = 0, n = 0;

    while (i < a->n || j < b->n) {
        int c = i == a->n ? 1 : j == b->n ? -1 : strcmp(a->lines[i], b->lines[j]);

        if (c == 0) {
            i++;
            j++;
            continue;
        }
        if (c < 0 && strncmp(a->lines[i], "fuse\t", 5) == 0) { /* one that nobody's namespace shows, a neighbour's on its way out: no leak */
            i++;
            continue;
        }
        n++;
        if (c < 0)
            each('-', a->lines[i++], arg);
        else
            each('+', b->lines[j++], arg);
    }
    return n;
}

struct printer {
    FILE *out;
    char last[4200]; /* the file that was printed last: what is below it goes without saying */
};

static void print(char sign, const char *line, void *arg)
{
    struct printer *p = arg;
    size_t n = strlen(p->last);
    const char *end;

    if (n && strncmp(line, p->last, n) == 0 && line[n] == '/')
        return;
    fprintf(p->out, "%c %s\n", sign, line);
    end = strncmp(line, "file\t", 5) == 0 ? strrchr(line, '(') : NULL;
    snprintf(p->last, sizeof p->last, "%.*s", end && end > line ? (int)(end - line - 1) : 0, line);
}

size_t oracle_diff(const struct oracle_set *before, const struct oracle_set *after, FILE *out)
{
    struct printer p = { .out = out };

    return differences(before, after, print, &p);
}

static void longest(char sign, const char *line, void *ret_ms)
{
    /* what the machine's pid 1 has to reap takes it its time */
    long ms = strncmp(line, "zombie\t", 7) == 0 || strncmp(line, "process\t", 8) == 0 || strncmp(line, "namespace", 9) == 0 ? 5000 : 1000;

    (void)sign;
    if (ms > *(long *)ret_ms)
        *(long *)ret_ms = ms;
}

static long now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

size_t oracle_compare(const struct oracle_scope *scope, const struct oracle_set *before, FILE *out)
{
    long begin = now_ms();

    for (;;) {
        struct oracle_set after = { 0 };
        long patience = 0;
        size_t n;

        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        oracle_snapshot(scope, &after);
        n = differences(before, &after, longest, &patience);
        if (n > 0 && now_ms() - begin >= patience)
            oracle_diff(before, &after, out);
        oracle_clear(&after);
        if (n == 0 || now_ms() - begin >= patience)
            return n;
        usleep(50000);
    }
}

void oracle_snapshot(const struct oracle_scope *scope, struct oracle_set *ret_set)
{
    struct oracle_processes all = { 0 };

    oracle_scan_processes(scope, ret_set, &all);
    oracle_scan_namespaces(&all, ret_set);
    oracle_scan_mounts(&all, ret_set);
    oracle_scan_cgroups(scope, &all, ret_set);
    oracle_scan_links(ret_set);
    oracle_scan_loops(scope, ret_set);
    oracle_scan_fuse(&all, ret_set);
    oracle_scan_files(scope, ret_set);
    if (scope->fd_pid)
        oracle_scan_fds(scope->fd_pid, ret_set);
    free(all.p);
    oracle_sort(ret_set);
}
