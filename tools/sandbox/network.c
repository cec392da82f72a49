/* SPDX-License-Identifier: Apache-2.0
 * The network options of run and create; network create, ls, allow, rm. */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int publish(struct sandbox_spec *spec, const char *text, struct sandbox_error **error)
{
    const char *colon = strchr(text, ':');
    TOOL_FREE char *front = colon ? tool_format("%.*s", (int)(colon - text), text) : NULL;
    int64_t port, local = 0;

    if (value_count(colon ? colon + 1 : text, &port) || port > 65535)
        port = -1; /* refused, by the library's own words */
    if (front && (value_count(front, &local) || local > 65535))
        local = -1;
    return sandbox_spec_add_port(spec, (int)local, (int)port, error);
}

/* enum sandbox_network, -1: the name of none. */
static int kind_of(const char *name)
{
    static const char *const kinds[] = {
        [SANDBOX_NETWORK_NONE] = "none",
        [SANDBOX_NETWORK_HOST] = "host",
        [SANDBOX_NETWORK_NAT] = "nat",
        [SANDBOX_NETWORK_PROXY] = "proxy",
    };

    for (size_t i = 0; i < TOOL_ELEMENTS(kinds); i++)
        if (strcmp(name, kinds[i]) == 0)
            return (int)i;
    return -1;
}

int spec_set_network(struct sandbox_spec *spec, const struct arguments *a, struct sandbox_error **error)
{
    int kind = a->network ? kind_of(a->network) : -1, r = 0;

    if (a->network)
        r = kind >= 0 ? sandbox_spec_set_network(spec, kind, error) : sandbox_spec_set_network_name(spec, a->network, error);
    for (size_t i = 0; !r && a->allowed[i]; i++)
        r = sandbox_spec_add_allowed(spec, a->allowed[i], error);
    for (size_t i = 0; !r && a->dns[i]; i++)
        r = sandbox_spec_add_dns_server(spec, a->dns[i], error);
    for (size_t i = 0; !r && a->publish[i]; i++)
        r = publish(spec, a->publish[i], error);
    return r;
}

int command_network_create(struct tool *tool, const struct arguments *a)
{
    struct sandbox_network_options options = SANDBOX_NETWORK_OPTIONS_INIT;
    struct sandbox_error *error = NULL;
    const char *name = a->operands[0];
    int status = tool_open_host(tool);

    options.kind = a->network ? kind_of(a->network) : SANDBOX_NETWORK_NONE;
    options.allowed = a->allowed;
    options.dns_servers = a->dns;
    if (!status && sandbox_network_create(tool->host, name, &options, &error))
        status = report_error(tool, error);
    if (!status && tool->json)
        json_print_strings("networks", &name, 1);
    return status;
}

int command_network_ls(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox_networks *networks = NULL;
    struct sandbox_error *error = NULL;
    int status = tool_open_host(tool);

    (void)arguments;
    if (!status && sandbox_host_list_networks(tool->host, &networks, &error))
        status = report_error(tool, error);
    if (!status && tool->json)
        putchar('[');
    for (size_t i = 0; !status && i < sandbox_networks_get_count(networks); i++)
        if (tool->json)
            printf("%s%s", i ? "," : "", sandbox_networks_get_json(networks, i));
        else
            json_print_text(sandbox_networks_get_json(networks, i));
    if (!status && tool->json)
        puts("]");
    sandbox_networks_unref(networks);
    return status;
}

/* A network's name comes first: a sandbox can be named by its id. */
int command_network_allow(struct tool *tool, const struct arguments *a)
{
    struct sandbox *sandbox = NULL;
    struct sandbox_error *error = NULL;
    int status = tool_open_host(tool), r;

    if (status)
        return status;
    r = sandbox_network_set_allowed(tool->host, a->operands[0], a->operands + 1, &error);
    if (r == SANDBOX_ENOTFOUND) {
        sandbox_error_unref(error);
        error = NULL;
        status = tool_open_sandbox(tool, a->operands[0], &sandbox);
        if (status)
            return status;
        r = sandbox_set_allowed(sandbox, a->operands + 1, &error);
        sandbox_unref(sandbox);
    }
    return r ? report_error(tool, error) : 0;
}

int command_network_rm(struct tool *tool, const struct arguments *a)
{
    const char **done = tool_allocate(a->n_operands, sizeof *done);
    size_t n_done = 0;
    int status = tool_open_host(tool), failed = status;

    for (size_t i = 0; !status && i < a->n_operands; i++) {
        struct sandbox_error *error = NULL;

        if (sandbox_network_remove(tool->host, a->operands[i], &error))
            failed = report_error(tool, error);
        else
            done[n_done++] = a->operands[i];
    }
    if (tool->json && !status)
        json_print_strings("networks", done, n_done);
    free(done);
    return failed;
}
