/* SPDX-License-Identifier: Apache-2.0
 * See lifetime.h. */
#include "lifetime.h"

#include <errors.h>

int sb_lifetime_check(const struct sandbox_spec *spec, struct sandbox_error **error)
{
    if (sb_spec_life_is_kept(&spec->life) || spec->life.restart)
        return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .field = "life"), "a time to live, restarts and health checks are not kept here");
    return 0;
}
