/* SPDX-License-Identifier: Apache-2.0
 * Networks of a host, and the rules of proxies. */
#include "handles.h"
#include "options.h"
#include "rules.h"

#include <json.h>
#include <string.h>

struct sandbox_networks {
    json_t *documents;
    char **texts; /* of them */
};

static const char *const nothing[] = { NULL };

static int set_allowed(struct sandbox *sandbox, const char *const *rules, struct sandbox_error **error)
{
    int r = sb_sandbox_check(sandbox, error);

    if (!r)
        r = sb_check_allowed_list(rules, error);
    if (r)
        return r;
    if (!sandbox->host->driver->ops->set_allowed)
        return sb_fail_slot(error, sandbox->host, "changing a proxy's rules", NULL);
    return sandbox->host->driver->ops->set_allowed(sandbox->host->driver, sandbox->id, rules, error);
}

int sandbox_set_allowed(struct sandbox *sandbox, const char *const *rules, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(set_allowed(sandbox, rules, &failure), &failure, error, "set allowed", sandbox ? sandbox->host : NULL);
}

/* By the rules that a spec has. */
static int check_dns(const char *const *servers, struct sandbox_error **error)
{
    struct sandbox_spec *spec = sb_spec_new();
    int r = spec ? 0 : sb_fail_memory(error);

    for (size_t i = 0; !r && servers[i]; i++)
        r = sb_spec_add_dns_server(spec, servers[i], error);
    sb_spec_free(spec);
    return r;
}

static int check_network(const struct sandbox_network_options *o, struct sandbox_error **error)
{
    int r;

    if (o->kind != SANDBOX_NETWORK_NONE && o->kind != SANDBOX_NETWORK_NAT && o->kind != SANDBOX_NETWORK_PROXY)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "kind", .hint = "none, nat or proxy"), "kind is no kind of a network that is made");
    r = sb_check_allowed_list(o->allowed, error);
    if (!r && o->allowed[0] && o->kind != SANDBOX_NETWORK_PROXY)
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "allowed"), "only a proxy goes by rules");
    if (!r && o->dns_servers[0] && o->kind == SANDBOX_NETWORK_NONE)
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "dns_servers"), "a network that leads nowhere has no DNS server");
    return r ? r : check_dns(o->dns_servers, error);
}

static int create(struct sandbox_host *host, const char *name, const struct sandbox_network_options *options, struct sandbox_error **error)
{
    struct sandbox_network_options with = SANDBOX_NETWORK_OPTIONS_INIT;
    int r = sb_host_check(host, error);

    if (!r)
        r = sb_check_name(name, "name", error);
    if (!r && options)
        r = sb_options_read(&with, sizeof with, SB_SIZE_TO(struct sandbox_network_options, dns_servers), options, error);
    if (r)
        return r;
    with.allowed = with.allowed ? with.allowed : nothing;
    with.dns_servers = with.dns_servers ? with.dns_servers : nothing;
    r = check_network(&with, error);
    if (r)
        return r;
    if (!host->driver->ops->network_create)
        return sb_fail_slot(error, host, "network create", NULL);
    return host->driver->ops->network_create(host->driver, name, with.kind, with.allowed, with.dns_servers, error);
}

int sandbox_network_create(struct sandbox_host *host, const char *name, const struct sandbox_network_options *options,
                           struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(create(host, name, options, &failure), &failure, error, "network create", host);
}

static int network_set_allowed(struct sandbox_host *host, const char *name, const char *const *rules, struct sandbox_error **error)
{
    int r = sb_host_check(host, error);

    if (!r)
        r = sb_check_name(name, "name", error);
    if (!r)
        r = sb_check_allowed_list(rules, error);
    if (r)
        return r;
    if (!host->driver->ops->network_set_allowed)
        return sb_fail_slot(error, host, "changing a proxy's rules", NULL);
    return host->driver->ops->network_set_allowed(host->driver, name, rules, error);
}

int sandbox_network_set_allowed(struct sandbox_host *host, const char *name, const char *const *rules, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(network_set_allowed(host, name, rules, &failure), &failure, error, "set allowed", host);
}

static int network_remove(struct sandbox_host *host, const char *name, struct sandbox_error **error)
{
    int r = sb_host_check(host, error);

    if (!r)
        r = sb_check_name(name, "name", error);
    if (r)
        return r;
    if (!host->driver->ops->network_remove)
        return sb_fail_slot(error, host, "network remove", NULL);
    return host->driver->ops->network_remove(host->driver, name, error);
}

int sandbox_network_remove(struct sandbox_host *host, const char *name, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(network_remove(host, name, &failure), &failure, error, "network remove", host);
}

struct sandbox_networks *sandbox_networks_unref(struct sandbox_networks *networks)
{
    if (!networks)
        return NULL;
    for (size_t i = 0; networks->texts && i < json_array_size(networks->documents); i++)
        free(networks->texts[i]);
    free(networks->texts);
    json_decref(networks->documents);
    free(networks);
    return NULL;
}

/* Takes the documents. */
static int networks_new(json_t *documents, struct sandbox_networks **ret_networks, struct sandbox_error **error)
{
    struct sandbox_networks *networks = calloc(1, sizeof *networks);
    size_t n = json_array_size(documents);

    if (!networks) {
        json_decref(documents);
        return sb_fail_memory(error);
    }
    networks->documents = documents;
    networks->texts = calloc(n + 1, sizeof *networks->texts);
    for (size_t i = 0; networks->texts && i < n; i++) {
        const json_t *document = json_array_get(documents, i);

        if (!sb_name_valid(sb_json_str(document, "name")) || !sb_json_str(document, "kind")) {
            sandbox_networks_unref(networks);
            return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL), "the host's answer is not a network's document");
        }
        networks->texts[i] = sb_json_dump(document);
    }
    if (!networks->texts || (n && !networks->texts[n - 1])) {
        sandbox_networks_unref(networks);
        return sb_fail_memory(error);
    }
    *ret_networks = networks;
    return 0;
}

static int list(struct sandbox_host *host, struct sandbox_networks **ret_networks, struct sandbox_error **error)
{
    json_t *documents;
    int r = sb_host_check(host, error);

    if (!r && !ret_networks)
        r = sb_fail_null(error, "ret_networks");
    if (r)
        return r;
    if (!host->driver->ops->network_list)
        return sb_fail_slot(error, host, "network list", NULL);
    r = host->driver->ops->network_list(host->driver, &documents, error);
    return r ? r : networks_new(documents, ret_networks, error);
}

int sandbox_host_list_networks(struct sandbox_host *host, struct sandbox_networks **ret_networks, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(list(host, ret_networks, &failure), &failure, error, "network list", host);
}

size_t sandbox_networks_get_count(const struct sandbox_networks *networks)
{
    return networks ? json_array_size(networks->documents) : 0;
}

const char *sandbox_networks_get_name(const struct sandbox_networks *networks, size_t index)
{
    return networks ? sb_json_str(json_array_get(networks->documents, index), "name") : NULL;
}

const char *sandbox_networks_get_json(const struct sandbox_networks *networks, size_t index)
{
    return index < sandbox_networks_get_count(networks) ? networks->texts[index] : NULL;
}
