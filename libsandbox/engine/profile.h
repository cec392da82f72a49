/* SPDX-License-Identifier: Apache-2.0
 * A caller's own profile, compiled. */
#ifndef SB_ENGINE_PROFILE_H
#define SB_ENGINE_PROFILE_H

#include <linux/filter.h>
#include <profile-json.h>
#include <stddef.h>

/* For who has these capabilities: a program to be installed after all else that needs system calls; malloc'ed, at most BPF_MAXINSNS long.
 * EUNSUPPORTED, ELIMIT, ENOMEM. */
int sb_profile_compile(const struct sb_profile *profile, uint64_t capabilities, struct sock_filter **ret_program, size_t *ret_count,
                       struct sandbox_error **error);

#endif
