/* SPDX-License-Identifier: Apache-2.0
 * See options.h. */
#include "options.h"

#include <errors.h>
#include <string.h>

enum { ABSURD = 4096 }; /* no struct of ours will ever be larger: a size above it is a wild pointer or an unset struct */

static size_t size_of(const void *options)
{
    size_t size;

    memcpy(&size, options, sizeof size);
    return size;
}

int sb_options_check(const void *options, size_t known, size_t first, struct sandbox_error **error)
{
    static const char hint[] = "initialise the struct by its _INIT macro";
    size_t size = size_of(options);

    if (size < first || size > ABSURD)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "size", .hint = hint), "size is %zu, which no version of the struct has",
                       size);
    for (size_t i = known; i < size; i++)
        if (((const unsigned char *)options)[i])
            return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "size", .hint = "use the library that the header belongs to"),
                           "an option is set that library version %s does not know", sandbox_version());
    return 0;
}

int sb_options_read(void *to, size_t known, size_t first, const void *from, struct sandbox_error **error)
{
    size_t size;
    int r;

    if (!from)
        return 0;
    r = sb_options_check(from, known, first, error);
    if (r)
        return r;
    size = size_of(from);
    memcpy(to, from, size < known ? size : known);
    memcpy(to, &known, sizeof known);
    return 0;
}

void sb_options_write(void *to, const void *from, size_t known)
{
    size_t size = size_of(to);

    if (size <= sizeof size) /* never initialised: nothing can be told */
        return;
    memcpy((char *)to + sizeof size, (const char *)from + sizeof size, (size < known ? size : known) - sizeof size);
}
