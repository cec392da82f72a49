/* SPDX-License-Identifier: Apache-2.0
 * Between the files that filter-gen is made of. */
#ifndef SB_ENGINE_FILTER_RULES_H
#define SB_ENGINE_FILTER_RULES_H

#include "filter.h"

#include <seccomp.h>

/* A rule for a call by name; none when that architecture has no such call. 0 or -errno. */
int sb_filter_rule(scmp_filter_ctx ctx, uint32_t arch, const char *name, uint32_t action, const struct scmp_arg_cmp *cmp, unsigned int n);
int sb_filter_strict_rules(scmp_filter_ctx ctx, enum sb_filter_kind kind, uint32_t arch);

#endif
