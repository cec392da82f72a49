/* SPDX-License-Identifier: Apache-2.0
 * The file server of a sandbox: a child of init that does one request and ends. See files.c. */
#ifndef SB_AGENT_FILES_H
#define SB_AGENT_FILES_H

#include "tree.h"

#include <files-plan.h>

struct ag_files {
    int channel;
    int data; /* -1: none */
    int root; /* what paths begin at */
    const struct sb_idmap *map;
    struct sb_files_request q; /* filled by ag_files_serve() */
    const char *path, *other;
};

/* Does the request and tells the outcome on the channel. */
void ag_files_serve(struct ag_files *f, const void *request, size_t size) __attribute__((noreturn));

/* ---- files-report.c */
/* Where records go: to be called before anything can fail. */
/* Failures go to this function instead. */
typedef void ag_report_fn(int code, int sys_errno, const char *message);
void ag_files_report_to(ag_report_fn *report);
void ag_files_report_on(int channel);
void ag_files_send(const void *record, size_t size);
void ag_files_done(int64_t bytes, int64_t entries) __attribute__((noreturn));
/* On errno, with the code that it has for files. */
void ag_files_fail(const char *what, const char *path, int sys_errno) __attribute__((noreturn));

/* ---- files.c */
void ag_files_stat_of(const struct stat *st, struct sb_files_stat *ret);
/* The folder that the path's last part lies in, made where the request wants that; *ret_name is that part, never "" or ".". */
int ag_files_parent(const struct ag_files *f, const char *path, const char **ret_name);
/* Opened for reading, a link at the end followed; never what the kernel shows of itself. */
int ag_files_open(const struct ag_files *f, int flags, struct stat *ret_st);
/* An owner of the request, or `otherwise`; one that can't be fails. */
uid_t ag_files_owner(const struct ag_files *f, int64_t id, uid_t otherwise);

/* ---- files-copy.c, files-put.c: the operations with data */
void ag_files_read(struct ag_files *f);
void ag_files_write(struct ag_files *f);
void ag_files_get_file(struct ag_files *f);
void ag_files_get_tar(struct ag_files *f);
void ag_files_put_tar(struct ag_files *f);

#endif
