/* SPDX-License-Identifier: Apache-2.0
 * The one table of backends: what a URI's scheme may be. */
#include <driver.h>

#include <string.h>

#include "local.h"

static const struct sb_backend *const table[] = {
    &sb_backend_local,
    NULL,
};

const struct sb_backend *sb_backend_find(const char *scheme, size_t length)
{
    for (size_t i = 0; table[i]; i++)
        if (strlen(table[i]->scheme) == length && !strncmp(table[i]->scheme, scheme, length))
            return table[i];
    return NULL;
}
