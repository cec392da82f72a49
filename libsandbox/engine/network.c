/* SPDX-License-Identifier: Apache-2.0
 * The networks that sandboxes are in. */
#include "network.h"

#include <errors.h>

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
    if (spec->n_ports && spec->network == SANDBOX_NETWORK_HOST)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .phase = "network", .field = "ports"),
                       "in the host's network every port is the host's: there is nothing to publish");
    return 0;
}

int sb_network_check(struct sb_engine *engine, const struct sandbox_spec *spec, struct sandbox_error **error)
{
    int r = check_parts(spec, error);

    (void)engine;
    if (!r && spec->network != SANDBOX_NETWORK_NONE && spec->network != SANDBOX_NETWORK_HOST)
        r = sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "network", .field = "network"), "this build has no network %s",
                    sb_network_kinds[spec->network]);
    if (!r && spec->n_ports)
        r = sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "network", .field = "ports", .hint = "use sandbox_forward_open()"),
                    "this build publishes no ports");
    return r;
}
