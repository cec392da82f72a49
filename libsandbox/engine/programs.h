/* SPDX-License-Identifier: Apache-2.0
 * The agent programs as bytes; the table is made at build time by embed.py. */
#ifndef SB_ENGINE_PROGRAMS_H
#define SB_ENGINE_PROGRAMS_H

#include <stddef.h>

struct sb_program {
    const char *name;
    const char *begin, *end;
};

extern const struct sb_program sb_programs[];
extern const size_t sb_programs_count;

#endif
