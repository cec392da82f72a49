/* SPDX-License-Identifier: Apache-2.0
 * Structs that begin with `size_t size`, from callers that were compiled with an older or a newer header. */
#ifndef SB_API_OPTIONS_H
#define SB_API_OPTIONS_H

#include <sandbox.h>
#include <stddef.h>

/* Size of a struct whose last member was `member`, to name the first version of it. */
#define SB_SIZE_TO(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

/* EINVALID when the size is below the first version's, absurd, or bytes beyond what is known are not zero. */
int sb_options_check(const void *options, size_t known, size_t first, struct sandbox_error **error);
/* Checks, then copies into *to, which holds the defaults, what the caller's struct has. from may be NULL: all defaults. */
int sb_options_read(void *to, size_t known, size_t first, const void *from, struct sandbox_error **error);
/* Copies into the caller's struct what it has room for; its size member stays. */
void sb_options_write(void *to, const void *from, size_t known);

#endif
