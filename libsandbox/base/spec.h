/* SPDX-License-Identifier: Apache-2.0
 * What a sandbox is to be, and its one JSON form: the record on disk, the inspect answer and the wire use the same. */
#ifndef SB_BASE_SPEC_H
#define SB_BASE_SPEC_H

#include <jansson.h>
#include <sandbox.h>

#include "limit-set.h"
#include "spec-life.h"

struct sb_pair {
    char *key;
    char *value;
};

struct sb_mount {
    int type; /* enum sandbox_mount_type */
    char *source;
    char *target;
    unsigned int flags;
    int64_t max_bytes;
    char *owner; /* "UID:GID" in its shortest form; NULL: none */
};

struct sb_port {
    int port;       /* of the sandbox */
    int local_port; /* on 127.0.0.1; 0: any */
};

struct sandbox_spec {
    char *name;     /* NULL: none */
    char *image;    /* never NULL: "host" by default */
    char *workdir;  /* NULL: the image's */
    char *user;     /* NULL: the image's */
    char *hostname; /* NULL: from the id */
    char *idempotency_key; /* NULL: none */
    char *seccomp;         /* "strict", "devel" or a profile's text; NULL: default */
    char **daemon;  /* NULL-terminated; NULL: none */
    struct sb_pair *labels;
    size_t n_labels;
    struct sb_pair *env;
    size_t n_env;
    struct sb_mount *mounts;
    size_t n_mounts;
    uint64_t capabilities; /* bits beside the basic set */
    int secrets;            /* enum sandbox_secrets_mode */
    char **secret_patterns; /* NULL-terminated; NULL: none */
    int fuse;
    int read_only;
    int lifetime;
    int network;          /* enum sandbox_network */
    char *network_name;   /* NAMED */
    char **allowed, **dns; /* NULL-terminated; NULL: none */
    size_t n_allowed, n_dns;
    struct sb_port *ports;
    size_t n_ports;
    struct sb_limits limits;               /* of a record (engine): as they are now */
    int64_t log_max;                       /* 0: default */
    struct sb_spec_life life;
    size_t labels_bytes, env_bytes, mounts_bytes; /* in use, so that the record on disk stays readable (rules.h) */
};

/* An empty spec; NULL when memory is short. */
struct sandbox_spec *sb_spec_new(void);
/* Frees what a spec holds and the spec. NULL is allowed. Returns NULL. */
struct sandbox_spec *sb_spec_free(struct sandbox_spec *spec);
/* A deep copy; NULL when memory is short. */
struct sandbox_spec *sb_spec_copy(const struct sandbox_spec *spec);
/* 1: both ask for the same sandbox, whatever the order in which labels and environment were set, and whatever their idempotency keys; 0: not;
 * negative: memory is short. */
int sb_spec_equal(const struct sandbox_spec *a, const struct sandbox_spec *b);
/* New reference, NULL when memory is short. Byte strings (daemon, env, paths) by sb_json_bytes(). */
json_t *sb_spec_to_json(const struct sandbox_spec *spec);
/* The reverse, with every rule of the public setters checked again: the JSON may come from a damaged disk or a peer. */
int sb_spec_from_json(const json_t *json, struct sandbox_spec **ret_spec, struct sandbox_error **error);
/* What the public setters do, with their rules (rules.h); nothing of a spec changes when one fails. */
int sb_spec_set_name(struct sandbox_spec *spec, const char *name, struct sandbox_error **error);
int sb_spec_set_image(struct sandbox_spec *spec, const char *image, struct sandbox_error **error);
int sb_spec_set_idempotency_key(struct sandbox_spec *spec, const char *key, struct sandbox_error **error);
int sb_spec_set_seccomp(struct sandbox_spec *spec, const char *profile, struct sandbox_error **error);
int sb_spec_add_label(struct sandbox_spec *spec, const char *key, const char *value, struct sandbox_error **error);
int sb_spec_add_env(struct sandbox_spec *spec, const char *name, const char *value, struct sandbox_error **error);
int sb_spec_set_workdir(struct sandbox_spec *spec, const char *workdir, struct sandbox_error **error);
int sb_spec_set_user(struct sandbox_spec *spec, const char *user, struct sandbox_error **error);
int sb_spec_set_hostname(struct sandbox_spec *spec, const char *hostname, struct sandbox_error **error);
int sb_spec_set_daemon(struct sandbox_spec *spec, const char *const *argv, struct sandbox_error **error);
int sb_spec_add_capability(struct sandbox_spec *spec, const char *capability, struct sandbox_error **error);
int sb_spec_set_fuse(struct sandbox_spec *spec, int fuse, struct sandbox_error **error);
int sb_spec_set_memory_max(struct sandbox_spec *spec, int64_t bytes, struct sandbox_error **error);
int sb_spec_set_pids_max(struct sandbox_spec *spec, int64_t pids, struct sandbox_error **error);
int sb_spec_set_cpu_max(struct sandbox_spec *spec, int64_t millicpus, struct sandbox_error **error);
int sb_spec_set_log_max(struct sandbox_spec *spec, int64_t bytes, struct sandbox_error **error);
int sb_spec_set_lifetime(struct sandbox_spec *spec, int lifetime, struct sandbox_error **error);
int sb_spec_set_network(struct sandbox_spec *spec, int network, struct sandbox_error **error);
int sb_spec_set_network_name(struct sandbox_spec *spec, const char *name, struct sandbox_error **error);
int sb_spec_add_allowed(struct sandbox_spec *spec, const char *rule, struct sandbox_error **error);
int sb_spec_add_dns_server(struct sandbox_spec *spec, const char *server, struct sandbox_error **error);
int sb_spec_add_port(struct sandbox_spec *spec, int local_port, int port, struct sandbox_error **error);
int sb_spec_set_read_only(struct sandbox_spec *spec, int read_only, struct sandbox_error **error);
int sb_spec_set_secrets(struct sandbox_spec *spec, int mode, const char *const *patterns, struct sandbox_error **error);
int sb_spec_add_mount(struct sandbox_spec *spec, const struct sandbox_mount_options *mount, struct sandbox_error **error);
/* ---- spec-network.c ---- */
extern const char *const sb_network_kinds[]; /* by enum sandbox_network */
extern const size_t sb_network_kinds_count;
int sb_check_allowed(const char *rule, struct sandbox_error **error);
int sb_check_allowed_list(const char *const *rules, struct sandbox_error **error); /* NULL-terminated */
void sb_spec_network_clear(struct sandbox_spec *spec);
int sb_spec_network_copy(struct sandbox_spec *to, const struct sandbox_spec *from); /* 0, or -1 when memory is short */
int sb_spec_network_to_json(const struct sandbox_spec *spec, json_t *object); /* 0, or not when memory is short */
typedef int sb_spec_read_fn(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error);
sb_spec_read_fn sb_spec_read_network, sb_spec_read_network_name, sb_spec_read_allowed, sb_spec_read_dns, sb_spec_read_ports;
json_t *sb_strings_to_json(char *const *list, size_t n);

/* "SYS_ADMIN" or "CAP_SYS_ADMIN" in any case → its number, else -1. */
int sb_capability_from_name(const char *name);
/* "SYS_ADMIN" or NULL */
const char *sb_capability_name(int capability);

#endif
