/* SPDX-License-Identifier: Apache-2.0
 * Networks that have a name, and rules that change while a proxy runs. */
#include "network.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>
#include <proxy-plan.h>

enum { ANSWER_MS = 5000 };

static json_t *list_of(const char *const *texts)
{
    json_t *list = json_array();

    for (; *texts; texts++)
        json_array_append_new(list, json_string(*texts));
    return list;
}

static int write_json(int dir, const char *name, const json_t *json, struct sandbox_error **error)
{
    SB_FREE char *text = json ? sb_json_dump(json) : NULL;
    int r = text ? sb_write_file(dir, name, text, strlen(text), 1) : -ENOMEM;

    return r ? sb_fail_errno(error, -r, "network", "%s can't be written", name) : 0;
}

int sb_network_connect_proxy(struct sb_engine *engine, const char *id)
{
    char path[SB_ID_SIZE + 8];

    snprintf(path, sizeof path, "%s/net/p", id);
    return sb_network_connect(engine->sandboxes, path);
}

/* To a proxy that runs, if one does. */
static int send_rules(const struct sb_network *network, struct sandbox_error **error)
{
    SB_CLOSE int proxy = sb_network_connect(network->dir, "p"), rules = -1;
    struct sb_proxy_request request = { .say = SB_PROXY_RULES };
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct iovec iov = { &request, sizeof request };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space };
    struct pollfd p = { .fd = proxy, .events = POLLIN };
    static const char later[] = "the rules are written down for its next start";
    char byte;

    if (proxy < 0)
        return sb_network_is_absent(proxy) ? 0 : sb_fail(error, SB_ARGS(SANDBOX_EIO, .sys_errno = -proxy, .phase = "network", .hint = later),
                                                         "the running proxy can't be reached");
    rules = sb_network_rules_file(network, error);
    if (rules < 0)
        return rules;
    control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof rules) };
    memcpy(CMSG_DATA(&control.header), &rules, sizeof rules);
    if (SB_RETRY(sendmsg(proxy, &msg, MSG_NOSIGNAL)) < 0 || SB_RETRY(poll(&p, 1, ANSWER_MS)) <= 0 || SB_RETRY(recv(proxy, &byte, 1, MSG_DONTWAIT)) != 1)
        return sb_fail(error, SB_ARGS(SANDBOX_EIO, .phase = "network", .hint = later),
                       "the running proxy did not take the rules");
    return 0;
}

static int set_rules(struct sb_network *network, const char *const *rules, struct sandbox_error **error)
{
    int r;

    if (network->kind != SANDBOX_NETWORK_PROXY)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .phase = "network", .field = "network"), "this network is no proxy, which alone goes by rules");
    json_decref(network->allowed);
    network->allowed = list_of(rules);
    r = write_json(network->dir, "allowed", network->allowed, error);
    return r ? r : send_rules(network, error);
}

int sb_engine_set_allowed(struct sb_driver *driver, const char *id, const char *const *rules, struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    struct sb_record record = SB_RECORD_INIT;
    struct sb_network network = SB_NETWORK_INIT;
    int r = sb_record_open(engine, id, SB_LOCK_NONE, &record, error);

    if (!r && record.spec->network == SANDBOX_NETWORK_NAMED)
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .phase = "network", .hint = "sandbox_network_set_allowed()"),
                    "the rules of the network %s are for all that are in it", record.spec->network_name);
    else if (!r && record.spec->network != SANDBOX_NETWORK_PROXY)
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .phase = "network", .field = "network"), "the sandbox's network is no proxy, which alone goes by rules");
    if (!r)
        r = sb_network_open(engine, &record, &network, error);
    if (!r)
        r = set_rules(&network, rules, error);
    sb_network_clear(&network);
    sb_record_clear(&record);
    return r;
}

int sb_engine_network_set_allowed(struct sb_driver *driver, const char *name, const char *const *rules, struct sandbox_error **error)
{
    struct sb_network network;
    int r = sb_network_open_named((struct sb_engine *)driver, name, &network, error);

    if (!r)
        r = set_rules(&network, rules, error);
    sb_network_clear(&network);
    return r;
}

int sb_engine_network_create(struct sb_driver *driver, const char *name, int kind, const char *const *rules, const char *const *dns,
                             struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    SB_JSON json_t *record = json_pack("{s:s, s:o}", "kind", sb_network_kinds[kind], "dns", list_of(dns)), *allowed = list_of(rules);
    char temporary[SB_ID_SIZE + 8] = ".new-";
    SB_CLOSE int dir = -1;
    int r;

    for (size_t i = 0; kind == SANDBOX_NETWORK_NAT && dns[i]; i++)
        if (strchr(dns[i], ':'))
            return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .phase = "network", .field = "dns_servers", .hint = "an IPv4 address without a port"),
                           "network nat can't ask the DNS server %s", dns[i]);
    if (!strcmp(name, "none") || !strcmp(name, "host") || !strcmp(name, "nat") || !strcmp(name, "proxy"))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "name"), "%s is the name of a kind", name);
    r = sb_id_new(temporary + 5);
    if (r)
        return sb_fail_errno(error, -r, "network", "no random bytes");
    dir = sb_open_dir(engine->networks, temporary, 0700);
    if (dir < 0)
        return sb_fail_errno(error, -dir, "network", "the network's folder can't be made");
    r = write_json(dir, "allowed", allowed, error);
    if (!r)
        r = write_json(dir, "record", record, error);
    if (!r && renameat2(engine->networks, temporary, engine->networks, name, RENAME_NOREPLACE) < 0)
        r = errno == EEXIST ? sb_fail(error, SB_ARGS(SANDBOX_EEXISTS, .sys_errno = errno, .field = "name"), "there is a network %s already", name)
                            : sb_fail_errno(error, errno, "network", "the network can't be made");
    if (r)
        sb_remove_tree(engine->networks, temporary);
    return r;
}

static int uses_network(const struct sb_record *record, const char *name)
{
    return record->spec->network == SANDBOX_NETWORK_NAMED && !strcmp(record->spec->network_name, name);
}

int sb_engine_network_remove(struct sb_driver *driver, const char *name, struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    struct sb_network network;
    char user[SB_ID_SIZE];
    int r = sb_network_open_named(engine, name, &network, error); /* its lock keeps creates out */

    if (r)
        return r;
    if (sb_engine_find(engine, uses_network, name, user))
        r = sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .sys_errno = EBUSY, .field = "name", .hint = "delete that sandbox first"),
                    "sandbox %.12s is in the network %s", user, name);
    if (!r)
        r = sb_network_down(&network, error);
    if (!r && (r = sb_remove_tree(engine->networks, name)))
        r = sb_fail_errno(error, -r, "network", "the network's folder can't be removed");
    sb_network_clear(&network);
    return r;
}

int sb_engine_network_list(struct sb_driver *driver, json_t **ret_json, struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    DIR *stream = sb_read_folder(engine->networks);
    json_t *list = json_array();
    struct dirent *d;

    if (!stream) {
        json_decref(list);
        return sb_fail_errno(error, errno, "network", "the networks can't be read");
    }
    while ((d = readdir(stream))) {
        struct sb_network network;

        if (!sb_name_valid(d->d_name) || sb_network_open_named(engine, d->d_name, &network, NULL))
            continue;
        json_array_append_new(list, json_pack("{s:s, s:s, s:O, s:O}", "name", d->d_name, "kind", sb_network_kinds[network.kind], "allowed", network.allowed,
                                              "dns", network.dns));
        sb_network_clear(&network);
    }
    closedir(stream);
    *ret_json = list;
    return 0;
}
