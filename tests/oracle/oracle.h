/* SPDX-License-Identifier: Apache-2.0
 * The leak oracle: what a suite must leave as it found it, by identity and not by count. A snapshot is a sorted set of
 * lines "kind<TAB>identity"; comparing takes a new one and names each line that came or went.
 *
 * Machines are shared, so each kind has a scope that makes it exact without seeing the neighbours: processes are those that
 * descend from `tree` (which is a subreaper, so that orphans can't leave it), mounts and namespaces are those that these
 * processes and this one can see, control groups are those below the runner's own or named after a sandbox of ours, and files
 * are those below the folders that were named. */
#ifndef SB_TESTS_ORACLE_H
#define SB_TESTS_ORACLE_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#define ORACLE_ROOTS_MAX 16

struct oracle_scope {
    pid_t tree;                          /* its descendants are ours; 0: this process */
    pid_t fd_pid;                        /* whose descriptors are watched; 0: nobody's */
    const char *roots[ORACLE_ROOTS_MAX]; /* state roots and other folders of ours */
    size_t n_roots;
    const char *own_cgroup;              /* name of the group that the runner made for itself, NULL: none */
};

struct oracle_set {
    char **lines;
    size_t n, room;
};

/* set.c */
void oracle_add(struct oracle_set *set, const char *kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
void oracle_sort(struct oracle_set *set);
void oracle_clear(struct oracle_set *set);
int oracle_save(const struct oracle_set *set, FILE *out);
int oracle_load(struct oracle_set *set, FILE *in);
/* Prints "+ line" for what came and "- line" for what went, of a folder without what is in it; returns how many there are. */
size_t oracle_diff(const struct oracle_set *before, const struct oracle_set *after, FILE *out);

/* Everything in scope now. */
void oracle_snapshot(const struct oracle_scope *scope, struct oracle_set *ret_set);
/* Compares until nothing differs or the patience of what differs is over: 5 s for zombies, which a PID 1 may reap late, and 1 s
 * for all else. Reaps orphans that came to this process meanwhile. Returns the number of differences, printed to `out`. */
size_t oracle_compare(const struct oracle_scope *scope, const struct oracle_set *before, FILE *out);

/* scan_*.c: each adds its kinds */
struct oracle_process {
    pid_t pid, parent;
    unsigned long long start;
    char state;
    char comm[64];
    int ours;
};
struct oracle_processes {
    struct oracle_process *p;
    size_t n;
};
void oracle_scan_processes(const struct oracle_scope *scope, struct oracle_set *set, struct oracle_processes *ret_all);
void oracle_scan_namespaces(const struct oracle_processes *all, struct oracle_set *set);
void oracle_scan_fds(pid_t pid, struct oracle_set *set);
void oracle_scan_mounts(const struct oracle_processes *all, struct oracle_set *set);
void oracle_scan_cgroups(const struct oracle_scope *scope, const struct oracle_processes *all, struct oracle_set *set);
void oracle_scan_links(struct oracle_set *set);
void oracle_scan_loops(const struct oracle_scope *scope, struct oracle_set *set);
void oracle_scan_fuse(const struct oracle_processes *all, struct oracle_set *set);
void oracle_scan_files(const struct oracle_scope *scope, struct oracle_set *set);

/* run.c: `oracle run` */
int oracle_run(int argc, char **argv);

#endif
