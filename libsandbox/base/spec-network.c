/* SPDX-License-Identifier: Apache-2.0
 * The network part of a spec: kind, rules, DNS servers, published ports. */
#include "spec.h"

#include "allow.h"
#include "errors.h"
#include "json.h"
#include "rules.h"
#include "util.h"

#include <string.h>

enum { DNS_MAX = 3 /* as many as a resolver asks */, PORTS_MAX = 64 };

const char *const sb_network_kinds[] = { [SANDBOX_NETWORK_NONE] = "none", [SANDBOX_NETWORK_HOST] = "host", [SANDBOX_NETWORK_NAT] = "nat",
                                         [SANDBOX_NETWORK_PROXY] = "proxy", [SANDBOX_NETWORK_NAMED] = "named" };
const size_t sb_network_kinds_count = SB_ELEMENTS(sb_network_kinds);

static int no_memory(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
}

void sb_spec_network_clear(struct sandbox_spec *spec)
{
    free(spec->network_name);
    for (size_t i = 0; i < spec->n_allowed; i++)
        free(spec->allowed[i]);
    free(spec->allowed);
    for (size_t i = 0; i < spec->n_dns; i++)
        free(spec->dns[i]);
    free(spec->dns);
    free(spec->ports);
}

/* 1: it was there; 0: added; negative: memory is short. */
static int add_text(char ***list, size_t *n, const char *text)
{
    char **more;

    for (size_t i = 0; i < *n; i++)
        if (!strcmp((*list)[i], text))
            return 1;
    more = realloc(*list, (*n + 2) * sizeof *more);
    if (!more)
        return -1;
    *list = more;
    more[*n] = strdup(text);
    if (!more[*n])
        return -1;
    more[++*n] = NULL;
    return 0;
}

int sb_spec_network_copy(struct sandbox_spec *to, const struct sandbox_spec *from)
{
    to->network = from->network;
    to->network_name = from->network_name ? strdup(from->network_name) : NULL;
    if (from->network_name && !to->network_name)
        return -1;
    for (size_t i = 0; i < from->n_allowed; i++)
        if (add_text(&to->allowed, &to->n_allowed, from->allowed[i]) < 0)
            return -1;
    for (size_t i = 0; i < from->n_dns; i++)
        if (add_text(&to->dns, &to->n_dns, from->dns[i]) < 0)
            return -1;
    if (from->n_ports) {
        to->ports = malloc(from->n_ports * sizeof *to->ports);
        if (!to->ports)
            return -1;
        memcpy(to->ports, from->ports, from->n_ports * sizeof *to->ports);
        to->n_ports = from->n_ports;
    }
    return 0;
}

int sb_spec_set_network(struct sandbox_spec *spec, int network, struct sandbox_error **error)
{
    if (network < SANDBOX_NETWORK_NONE || network >= SANDBOX_NETWORK_NAMED)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "network", .hint = network == SANDBOX_NETWORK_NAMED ? "set its name" : NULL),
                       "network is not a sandbox_network that is set like this");
    free(spec->network_name);
    spec->network_name = NULL;
    spec->network = network;
    return 0;
}

int sb_spec_set_network_name(struct sandbox_spec *spec, const char *name, struct sandbox_error **error)
{
    int r = sb_check_name(name, "network_name", error);
    char *copy;

    if (r)
        return r;
    copy = strdup(name);
    if (!copy)
        return no_memory(error);
    free(spec->network_name);
    spec->network_name = copy;
    spec->network = SANDBOX_NETWORK_NAMED;
    return 0;
}

int sb_check_allowed(const char *rule, struct sandbox_error **error)
{
    struct sb_allow parsed;

    if (rule && !sb_allow_parse(rule, &parsed))
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "allowed",
                                  .hint = "such as example.org, *.example.org, example.org:8080, example.org:*, 192.0.2.0/24:5432, [2001:db8::1]:443"),
                   "allowed: \"%.100s\" is no host with or without a port", rule ? rule : "");
}

int sb_check_allowed_list(const char *const *rules, struct sandbox_error **error)
{
    int r = rules ? 0 : sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "rules"), "rules is NULL");

    for (size_t i = 0; !r && rules[i]; i++)
        r = i >= SB_ALLOW_RULES_MAX ? sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "allowed"), "more than %d rules", SB_ALLOW_RULES_MAX)
                                    : sb_check_allowed(rules[i], error);
    return r;
}

int sb_spec_add_allowed(struct sandbox_spec *spec, const char *rule, struct sandbox_error **error)
{
    int r = sb_check_allowed(rule, error);

    if (r)
        return r;
    if (spec->n_allowed >= SB_ALLOW_RULES_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "allowed"), "more than %d rules", SB_ALLOW_RULES_MAX);
    return add_text(&spec->allowed, &spec->n_allowed, rule) < 0 ? no_memory(error) : 0;
}

int sb_spec_add_dns_server(struct sandbox_spec *spec, const char *server, struct sandbox_error **error)
{
    unsigned char address[16];
    int port;

    if (!server || sb_server_parse(server, address, &port))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "dns", .hint = "such as 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:5353"),
                       "dns is not an address, with or without a port");
    if (spec->n_dns >= DNS_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "dns"), "more than %d DNS servers", DNS_MAX);
    return add_text(&spec->dns, &spec->n_dns, server) < 0 ? no_memory(error) : 0;
}

int sb_spec_add_port(struct sandbox_spec *spec, int local_port, int port, struct sandbox_error **error)
{
    struct sb_port *more;

    if (port < 1 || port > 65535)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "port"), "port is not from 1 to 65535");
    if (local_port < 0 || local_port > 65535)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "local_port"), "local_port is neither 0 nor from 1 to 65535");
    for (size_t i = 0; i < spec->n_ports; i++)
        if (spec->ports[i].port == port || (local_port && spec->ports[i].local_port == local_port))
            return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = spec->ports[i].port == port ? "port" : "local_port"),
                           "port %d is published twice", spec->ports[i].port == port ? port : local_port);
    if (spec->n_ports >= PORTS_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "port"), "more than %d published ports", PORTS_MAX);
    more = realloc(spec->ports, (spec->n_ports + 1) * sizeof *more);
    if (!more)
        return no_memory(error);
    spec->ports = more;
    more[spec->n_ports++] = (struct sb_port){ .port = port, .local_port = local_port };
    return 0;
}

/* ---- JSON: "network" is the kind; "network_name", "allowed": [], "dns": [], "ports": [{"port", "local_port"}] ---- */

json_t *sb_strings_to_json(char *const *list, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < n; i++)
        if (json_array_append_new(array, json_string(list[i]))) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static json_t *ports_to_json(const struct sandbox_spec *spec)
{
    json_t *array = json_array();

    for (size_t i = 0; array && i < spec->n_ports; i++)
        if (json_array_append_new(array, json_pack("{s:i, s:i}", "port", spec->ports[i].port, "local_port", spec->ports[i].local_port))) {
            json_decref(array);
            return NULL;
        }
    return array;
}

int sb_spec_network_to_json(const struct sandbox_spec *spec, json_t *object)
{
    return json_object_set_new(object, "network", json_string(sb_network_kinds[spec->network])) ||
           json_object_set_new(object, "network_name", json_string(spec->network_name ? spec->network_name : "")) ||
           json_object_set_new(object, "allowed", sb_strings_to_json(spec->allowed, spec->n_allowed)) ||
           json_object_set_new(object, "dns", sb_strings_to_json(spec->dns, spec->n_dns)) ||
           json_object_set_new(object, "ports", ports_to_json(spec));
}

static int wrong(const char *field, struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is not what it has to be", field);
}

int sb_spec_read_network(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    for (size_t i = 0; json_is_string(value) && i < sb_network_kinds_count; i++)
        if (!strcmp(json_string_value(value), sb_network_kinds[i])) {
            if (i == SANDBOX_NETWORK_NAMED) /* the name says it, before or after this */
                return 0;
            return spec->network == SANDBOX_NETWORK_NAMED ? wrong(key, error) : sb_spec_set_network(spec, (int)i, error);
        }
    return wrong(key, error);
}

int sb_spec_read_network_name(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    const char *name = json_string_value(value);

    return !name ? wrong(key, error) : !*name ? 0 : spec->network ? wrong(key, error) : sb_spec_set_network_name(spec, name, error);
}

int sb_spec_read_allowed(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    int r = json_is_array(value) ? 0 : wrong(key, error);

    for (size_t i = 0; !r && i < json_array_size(value); i++)
        r = sb_spec_add_allowed(spec, json_string_value(json_array_get(value, i)), error);
    return r;
}

int sb_spec_read_dns(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    int r = json_is_array(value) ? 0 : wrong(key, error);

    for (size_t i = 0; !r && i < json_array_size(value); i++)
        r = sb_spec_add_dns_server(spec, json_string_value(json_array_get(value, i)), error);
    return r;
}

int sb_spec_read_ports(struct sandbox_spec *spec, const char *key, const json_t *value, struct sandbox_error **error)
{
    int r = json_is_array(value) ? 0 : wrong(key, error);

    for (size_t i = 0; !r && i < json_array_size(value); i++) {
        const json_t *port = json_array_get(value, i);

        r = sb_spec_add_port(spec, (int)sb_json_int(port, "local_port", -1), (int)sb_json_int(port, "port", -1), error);
    }
    return r;
}
