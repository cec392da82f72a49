/* SPDX-License-Identifier: Apache-2.0
 * The networks that sandboxes are in. A network beyond a loopback of the sandbox's own has a folder: "net" in a sandbox's, or networks/NAME:
 *
 *   record     of a named one: {"kind", "dns": []}
 *   allowed    the proxy's rules, a JSON list, where they were changed (and of a named one, always)
 *   run        {"number" (root's nat; -1), "holder": identity, "helpers": [identity]}: written before each thing is made
 *   s, p       sockets of the holder (agent/network.c) and of the proxy
 *   resolv.conf
 *
 * Machine-wide, root's numbers are claimed as id ranges are: /run/libsandbox/networks/NUMBER names the holder. */
#ifndef SB_ENGINE_NETWORK_H
#define SB_ENGINE_NETWORK_H

#include "engine.h"

struct sb_network {
    struct sb_engine *engine;
    int dir, lock;
    int kind;            /* enum sandbox_network: NONE, NAT, PROXY */
    int named;
    char name[160];      /* for messages, and what holds its number */
    json_t *allowed, *dns;
};
#define SB_NETWORK_INIT { .dir = -1, .lock = -1 }

/* ---- network.c ---- */
/* Whether what a spec asks for goes together, and this machine has it. */
int sb_network_check(struct sb_engine *engine, const struct sandbox_spec *spec, struct sandbox_error **error);
/* Before a record is written: what of the network is to be known without its folder. */
int sb_network_record(struct sb_engine *engine, struct sb_record *record, struct sandbox_error **error);
/* enum sandbox_network, a named one's own kind. */
int sb_network_kind(const struct sb_record *record);
/* 1: the sandbox has a network with a folder. */
int sb_network_has_folder(const struct sb_record *record);
/* The folder of a sandbox's network, locked; it is made for a private one. ENOTFOUND. */
int sb_network_open(struct sb_engine *engine, const struct sb_record *record, struct sb_network *ret, struct sandbox_error **error);
int sb_network_open_named(struct sb_engine *engine, const char *name, struct sb_network *ret, struct sandbox_error **error);
void sb_network_clear(struct sb_network *network);
/* A connection to a socket below a folder that is the holder's or a proxy's, without waiting, or -errno. */
int sb_network_connect(int dir, const char *path);
/* Whether such an error says that nobody is there; any other says nothing about that. */
int sb_network_is_absent(int error);
/* Puts the sandbox that is being launched into its network, which is brought up if it isn't: tells the stage. */
int sb_network_attach(struct sb_engine *engine, const struct sb_record *record, struct sb_launch *launch, struct sandbox_error **error);
/* The init lives in it: from now on the network lives as long. */
int sb_network_commit(struct sb_launch *launch, struct sandbox_error **error);
/* Of a sandbox whose processes are gone: takes its network down, a named one only when nobody else is in it. Restartable. */
int sb_network_detach(struct sb_engine *engine, const struct sb_record *record, struct sandbox_error **error);
/* For inspect: {"kind", "name", "allowed": []}, and how strong it is. New references. */
json_t *sb_network_document(struct sb_engine *engine, const struct sb_record *record);
json_t *sb_network_fact(const struct sb_engine *engine, const struct sb_record *record);
/* The file for /etc/resolv.conf below the state root, malloc'ed; NULL: none. */
char *sb_network_resolv(const struct sb_record *record);

/* ---- network-up.c ---- */
int sb_network_up(struct sb_network *network, int *ret_holder, int ret_spaces[2], struct sandbox_error **error);
int sb_network_down(struct sb_network *network, struct sandbox_error **error);
/* Runs sandbox-network to its end. spaces may be NULL. */
int sb_network_setup(struct sb_engine *engine, char *const argv[], const int spaces[2], struct sandbox_error **error);
int sb_network_write_run(const struct sb_network *network, json_t *run, struct sandbox_error **error);
/* One message to the holder and its answer, within some seconds. */
int sb_network_say(int holder, unsigned int say, int fd, int *ret_members, int *ret_fds, size_t *ret_n, struct sandbox_error **error);

/* ---- network-numbers.c ---- */
int sb_network_number_claim(const char *holder, int *ret_number, struct sandbox_error **error);
void sb_network_number_release(int number, const char *holder);
/* 1: it was given back, and another has it now. */
int sb_network_number_is_others(int number, const char *holder);
void sb_network_numbers_each(void (*each)(void *data, int number, const char *holder), void *data);

/* Of a number that nothing has any more: its interfaces and rules, and the claim. */
int sb_network_number_undo(struct sb_engine *engine, int number, const char *holder, struct sandbox_error **error);

/* ---- network-helpers.c: what carries a network's traffic; its identity goes into run's "helpers" ---- */
/* 1: pasta or slirp4netns is here. */
int sb_network_has_user_nat(void);
int sb_network_start_user_nat(struct sb_network *network, pid_t holder_pid, json_t *run, int holder, const int spaces[2], struct sandbox_error **error);
int sb_network_start_proxy(struct sb_network *network, int holder_pidfd, json_t *run, const int listeners[2], struct sandbox_error **error);

/* A sealed file with the rules and DNS servers, as the proxy reads it: a descriptor or a code. */
int sb_network_rules_file(const struct sb_network *network, struct sandbox_error **error);

/* ---- publish.c ---- */
int sb_publish(struct sb_launch *launch, struct sandbox_error **error);
void sb_unpublish(const struct sb_record *record);
/* [{"port", "local_port"}] of a sandbox that lives. New reference. */
json_t *sb_published(const struct sb_engine *engine, const struct sb_record *record);
/* forward.c: a forward that ends with `owner`, a pidfd; *local_port 0: any. */
int sb_forward_publish(struct sb_engine *engine, const char *id, int owner, int port, int *local_port, struct sandbox_error **error);

/* ---- network-named.c ---- */
int sb_engine_set_allowed(struct sb_driver *driver, const char *id, const char *const *rules, struct sandbox_error **error);
int sb_engine_network_create(struct sb_driver *driver, const char *name, int kind, const char *const *rules, const char *const *dns,
                             struct sandbox_error **error);
int sb_engine_network_set_allowed(struct sb_driver *driver, const char *name, const char *const *rules, struct sandbox_error **error);
int sb_engine_network_remove(struct sb_driver *driver, const char *name, struct sandbox_error **error);
int sb_engine_network_list(struct sb_driver *driver, json_t **ret_json, struct sandbox_error **error);
/* A connection to the proxy of a sandbox's network, or -1. */
int sb_network_connect_proxy(struct sb_engine *engine, const char *id);

#endif
