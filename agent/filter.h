/* SPDX-License-Identifier: Apache-2.0
 * A process that reads what others wrote keeps the system calls it needs and no others. */
#ifndef SB_AGENT_FILTER_H
#define SB_AGENT_FILTER_H

#include <stddef.h>

enum { AG_FILTER_CALLS_MAX = 128, AG_FILTER_FAMILIES_MAX = 8 };

/* Everything but `allowed`, and memory that can be executed, fails with ENOSYS from here on. 0 or -errno. Needs no_new_privs. */
int ag_filter_calls(const int *allowed, size_t n);

/* Sockets are made of these families alone, any other fails with EAFNOSUPPORT; before ag_filter_calls(). 0 or -errno. Needs no_new_privs. */
int ag_filter_families(const int *allowed, size_t n);

#endif
