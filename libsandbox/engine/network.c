/* SPDX-License-Identifier: Apache-2.0
 * See network.h: which network a sandbox is in, and its way in and out. */
#include "network.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>
#include <network-plan.h>

static int check_parts(const struct sandbox_spec *spec, struct sandbox_error **error)
{
    if (spec->n_allowed && spec->network != SANDBOX_NETWORK_PROXY)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .phase = "network", .field = "allowed",
                                      .hint = spec->network == SANDBOX_NETWORK_NAMED ? "give them to the network" : "use network proxy"),
                       "only a proxy goes by rules");
    if (spec->n_dns && spec->network != SANDBOX_NETWORK_PROXY && spec->network != SANDBOX_NETWORK_NAT)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .phase = "network", .field = "dns",
                                      .hint = spec->network == SANDBOX_NETWORK_NAMED ? "give them to the network" : "use network nat or proxy"),
                       "only networks nat and proxy have DNS servers");
    for (size_t i = 0; i < spec->n_dns && spec->network == SANDBOX_NETWORK_NAT; i++)
        if (strchr(spec->dns[i], ':'))
            return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .phase = "network", .field = "dns", .hint = "an IPv4 address without a port"),
                           "network nat can't ask the DNS server %s", spec->dns[i]);
    if (spec->n_ports && spec->network == SANDBOX_NETWORK_HOST)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .phase = "network", .field = "ports"),
                       "in the host's network every port is the host's: there is nothing to publish");
    return 0;
}

int sb_network_check(struct sb_engine *engine, const struct sandbox_spec *spec, struct sandbox_error **error)
{
    int r = check_parts(spec, error);

    (void)engine;
    return r;
}

static int open_named(struct sb_engine *engine, const char *name, struct sb_network *ret, struct sandbox_error **error)
{
    SB_FREE char *text = NULL;
    SB_JSON json_t *record = NULL;
    const char *kind;
    size_t size;
    int r;

    ret->dir = sb_open_beneath(engine->networks, name, O_RDONLY | O_DIRECTORY, 0);
    if (ret->dir < 0) {
        r = ret->dir;
        ret->dir = -1;
        return sb_fail(error, SB_ARGS(r == -ENOENT ? SANDBOX_ENOTFOUND : SANDBOX_EIO, .sys_errno = -r, .phase = "network", .field = "network_name",
                                      .hint = "make it first: sandbox network create"),
                       "there is no network %s", name);
    }
    ret->lock = sb_folder_lock(ret->dir, LOCK_EX, error);
    if (ret->lock < 0)
        return ret->lock;
    r = sb_read_file(ret->dir, "record", 1 << 20, &text, &size);
    r = r ? sb_fail_errno(error, -r, "network", "the record of the network %s can't be read", name) : sb_json_parse(text, size, "network", &record, error);
    if (r)
        return r;
    kind = sb_json_str(record, "kind");
    for (size_t i = 0; kind && i < SANDBOX_NETWORK_NAMED; i++)
        if (!strcmp(kind, sb_network_kinds[i]))
            ret->kind = (int)i;
    ret->dns = json_incref(json_object_get(record, "dns"));
    ret->named = 1;
    snprintf(ret->name, sizeof ret->name, "%s", name);
    return 0;
}

static int open_private(const struct sb_record *record, struct sb_network *ret, struct sandbox_error **error)
{
    ret->dir = sb_open_dir(record->dir, "net", 0700);
    if (ret->dir < 0) {
        int r = ret->dir;

        ret->dir = -1;
        return sb_fail_errno(error, -r, "network", "the network's folder can't be made");
    }
    ret->lock = sb_folder_lock(ret->dir, LOCK_EX, error); /* rules that are set while it comes up are its proxy's, too */
    if (ret->lock < 0)
        return ret->lock;
    ret->kind = record->spec ? record->spec->network : SANDBOX_NETWORK_NONE;
    if (record->spec)
        ret->dns = sb_strings_to_json(record->spec->dns, record->spec->n_dns);
    snprintf(ret->name, sizeof ret->name, "%s", record->id);
    return 0;
}

/* The rules as they were last set; those of the spec where they never were. */
static int read_rules(const struct sandbox_spec *spec, struct sb_network *network, struct sandbox_error **error)
{
    SB_FREE char *text = NULL;
    size_t size;

    if (!sb_read_file(network->dir, "allowed", 1 << 20, &text, &size))
        return sb_json_parse(text, size, "the network's rules", &network->allowed, error);
    network->allowed = spec ? sb_strings_to_json(spec->allowed, spec->n_allowed) : json_array();
    return 0;
}

static int finish_open(int r, const struct sandbox_spec *spec, struct sb_network *network, struct sandbox_error **error)
{
    if (!r)
        r = read_rules(spec, network, error);
    if (r)
        sb_network_clear(network);
    return r;
}

int sb_network_open_named(struct sb_engine *engine, const char *name, struct sb_network *ret, struct sandbox_error **error)
{
    *ret = (struct sb_network)SB_NETWORK_INIT;
    ret->engine = engine;
    return finish_open(open_named(engine, name, ret, error), NULL, ret, error);
}

int sb_network_open(struct sb_engine *engine, const struct sb_record *record, struct sb_network *ret, struct sandbox_error **error)
{
    const struct sandbox_spec *spec = record->spec;

    if (spec && spec->network == SANDBOX_NETWORK_NAMED)
        return sb_network_open_named(engine, spec->network_name, ret, error);
    *ret = (struct sb_network)SB_NETWORK_INIT;
    ret->engine = engine;
    return finish_open(open_private(record, ret, error), spec, ret, error);
}

void sb_network_clear(struct sb_network *network)
{
    sb_folder_unlock(network->lock);
    sb_close(network->dir);
    json_decref(network->allowed);
    json_decref(network->dns);
    *network = (struct sb_network)SB_NETWORK_INIT;
}

int sb_network_record(struct sb_engine *engine, struct sb_record *record, struct sandbox_error **error)
{
    struct sb_network network = SB_NETWORK_INIT;
    int r;

    if (record->spec->network != SANDBOX_NETWORK_NAMED)
        return 0;
    r = open_named(engine, record->spec->network_name, &network, error);
    if (!r && json_object_set_new(record->json, "network_kind", json_integer(network.kind)))
        r = sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    sb_network_clear(&network);
    return r;
}

int sb_network_kind(const struct sb_record *record)
{
    return record->spec->network == SANDBOX_NETWORK_NAMED ? (int)sb_json_int(record->json, "network_kind", SANDBOX_NETWORK_NONE)
                                                          : record->spec->network;
}

int sb_network_has_folder(const struct sb_record *record)
{
    int network = record->spec->network;

    return network == SANDBOX_NETWORK_NAT || network == SANDBOX_NETWORK_PROXY || network == SANDBOX_NETWORK_NAMED;
}

/* NETWORK, before BEGIN. */
static int tell_stage(const struct sb_launch *launch, const int spaces[2], struct sandbox_error **error)
{
    struct sb_control message = { .type = SB_CONTROL_NETWORK };
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control = { 0 };
    struct iovec iov = { &message, sizeof message };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space };

    control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(2 * sizeof(int)) };
    memcpy(CMSG_DATA(&control.header), spaces, 2 * sizeof(int));
    return SB_RETRY(sendmsg(launch->control, &msg, MSG_NOSIGNAL)) < 0 ? sb_fail_errno(error, errno, "stage", "the stage ended early") : 0;
}

int sb_network_attach(struct sb_engine *engine, const struct sb_record *record, struct sb_launch *launch, struct sandbox_error **error)
{
    struct sb_network network;
    int spaces[2] = { -1, -1 }, r;

    if (!sb_network_has_folder(record))
        return 0;
    r = sb_network_open(engine, record, &network, error);
    if (r)
        return r;
    r = sb_network_up(&network, &launch->network, spaces, error);
    if (!r)
        r = tell_stage(launch, spaces, error);
    sb_close(spaces[0]);
    sb_close(spaces[1]);
    sb_network_clear(&network);
    return r;
}

int sb_network_commit(struct sb_launch *launch, struct sandbox_error **error)
{
    int r;

    if (launch->network < 0)
        return 0;
    r = sb_network_say(launch->network, SB_NETWORK_MEMBER, launch->init, NULL, NULL, NULL, error);
    launch->network = sb_close(launch->network);
    return r;
}

int sb_network_connect(int dir, const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    SB_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    if (snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", dir, path) >= (int)sizeof address.sun_path)
        return -ENAMETOOLONG;
    return connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ? -errno : SB_TAKE_FD(fd);
}

int sb_network_is_absent(int error)
{
    return error == -ENOENT || error == -ECONNREFUSED;
}

/* How many are in a named network, or on their way into it. A code: nobody knows. */
static int count_members(const struct sb_network *network, int *ret, struct sandbox_error **error)
{
    SB_CLOSE int holder = sb_network_connect(network->dir, "s");

    if (holder < 0 && !sb_network_is_absent(holder))
        return sb_fail_errno(error, -holder, "network", "it can't be asked who is in the network %s", network->name);
    if (holder < 0 || sb_network_say(holder, SB_NETWORK_COUNT, -1, ret, NULL, NULL, NULL))
        *ret = 0; /* it ends just now, or hangs */
    return 0;
}

int sb_network_detach(struct sb_engine *engine, const struct sb_record *record, struct sandbox_error **error)
{
    struct sb_network network;
    int r = 0, members = 0;

    sb_unpublish(record);
    if (record->dir < 0 || (record->spec && !sb_network_has_folder(record)) ||
        (!record->spec && faccessat(record->dir, "net", F_OK, AT_SYMLINK_NOFOLLOW) < 0))
        return 0;
    r = sb_network_open(engine, record, &network, error);
    if (r)
        return record->spec && record->spec->network == SANDBOX_NETWORK_NAMED && r == SANDBOX_ENOTFOUND ? 0 : r;
    if (network.named)
        r = count_members(&network, &members, error);
    if (!r && !members)
        r = sb_network_down(&network, error);
    sb_network_clear(&network);
    return r;
}

/* What of /etc a network needs, unless the caller mounts something there himself. */
char *sb_network_resolv(const struct sb_record *record)
{
    const struct sandbox_spec *spec = record->spec;
    char *path;

    if (!sb_network_has_folder(record) || sb_network_kind(record) == SANDBOX_NETWORK_NONE)
        return NULL;
    for (size_t i = 0; i < spec->n_mounts; i++)
        if (!strcmp(spec->mounts[i].target, "/etc") || !strcmp(spec->mounts[i].target, "/etc/resolv.conf"))
            return NULL;
    if ((spec->network == SANDBOX_NETWORK_NAMED ? asprintf(&path, "networks/%s/resolv.conf", spec->network_name)
                                                : asprintf(&path, "sandboxes/%s/net/resolv.conf", record->id)) < 0)
        return NULL;
    return path;
}

/* As they are now, and not as they were asked for. */
static json_t *rules_now(struct sb_engine *engine, const struct sb_record *record)
{
    SB_FREE char *text = NULL;
    char path[160];
    json_t *rules = NULL;
    size_t size;
    int named = record->spec->network == SANDBOX_NETWORK_NAMED;

    snprintf(path, sizeof path, named ? "%s/allowed" : "%s/net/allowed", named ? record->spec->network_name : record->id);
    if (!sb_read_file(named ? engine->networks : engine->sandboxes, path, 1 << 20, &text, &size) && !sb_json_parse(text, size, "rules", &rules, NULL))
        return rules;
    return sb_strings_to_json(record->spec->allowed, record->spec->n_allowed);
}

json_t *sb_network_document(struct sb_engine *engine, const struct sb_record *record)
{
    int kind = sb_network_kind(record);

    return json_pack("{s:s, s:s, s:o}", "kind", sb_network_kinds[kind], "name", record->spec->network_name ? record->spec->network_name : "", "allowed",
                     kind == SANDBOX_NETWORK_PROXY ? rules_now(engine, record) : json_array());
}

json_t *sb_network_fact(const struct sb_engine *engine, const struct sb_record *record)
{
    static const char *const whys[] = {
        [SANDBOX_NETWORK_NONE] = "loopback only",
        [SANDBOX_NETWORK_HOST] = "the host's own network, with all that is on it",
        [SANDBOX_NETWORK_NAT] = "out by the host's address; the host and link-local addresses are refused, nobody comes in",
        [SANDBOX_NETWORK_PROXY] = "no route: a proxy lets through what the rules allow",
    };
    int kind = sb_network_kind(record), user = engine->map.privilege != SB_PRIVILEGE_ROOT;

    if (kind == SANDBOX_NETWORK_NAT && user)
        return json_pack("{s:s, s:s}", "level", "wrapped", "why", "by pasta or slirp4netns; of the host the addresses that it had at the start are refused");
    return json_pack("{s:s, s:s}", "level", kind == SANDBOX_NETWORK_HOST ? "advisory" : "enforced", "why", whys[kind]);
}
