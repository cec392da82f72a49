/* SPDX-License-Identifier: Apache-2.0
 * The seccomp filters of commands and daemons, compiled by libseccomp. filter-gen runs this at build time, so that a program
 * pays nothing for it when it makes its first sandbox. */
#ifndef SB_ENGINE_FILTER_H
#define SB_ENGINE_FILTER_H

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

enum sb_filter_kind {
    SB_FILTER_COMMAND,
    SB_FILTER_DAEMON,
    SB_FILTER_COMMAND_DEVEL,
    SB_FILTER_DAEMON_DEVEL,
    SB_FILTER_COMMAND_STRICT, /* beside the first two, not instead of them */
    SB_FILTER_DAEMON_STRICT
};

/* arch: SCMP_ARCH_…. The program is malloc'ed. 0 or -errno. */
int sb_filter_build(enum sb_filter_kind kind, uint32_t arch, struct sock_filter **ret_program, size_t *ret_count);

#endif
