/* SPDX-License-Identifier: Apache-2.0
 * The network options of run and create. */
#include "tool.h"

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

int spec_set_network(struct sandbox_spec *spec, const struct arguments *a, struct sandbox_error **error)
{
    static const char *const kinds[] = {
        [SANDBOX_NETWORK_NONE] = "none",
        [SANDBOX_NETWORK_HOST] = "host",
        [SANDBOX_NETWORK_NAT] = "nat",
        [SANDBOX_NETWORK_PROXY] = "proxy",
    };
    size_t kind = 0;
    int r = 0;

    while (a->network && kind < TOOL_ELEMENTS(kinds) && strcmp(a->network, kinds[kind]) != 0)
        kind++;
    if (a->network)
        r = kind < TOOL_ELEMENTS(kinds) ? sandbox_spec_set_network(spec, (int)kind, error) : sandbox_spec_set_network_name(spec, a->network, error);
    for (size_t i = 0; !r && a->allowed[i]; i++)
        r = sandbox_spec_add_allowed(spec, a->allowed[i], error);
    for (size_t i = 0; !r && a->dns[i]; i++)
        r = sandbox_spec_add_dns_server(spec, a->dns[i], error);
    for (size_t i = 0; !r && a->publish[i]; i++)
        r = publish(spec, a->publish[i], error);
    return r;
}
