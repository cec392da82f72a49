/* SPDX-License-Identifier: Apache-2.0
 * What the library and sandbox-scope (agent/scope.c) agree on beside the command line: descriptors, behind those of the stage. */
#ifndef SB_PLAN_SCOPE_PLAN_H
#define SB_PLAN_SCOPE_PLAN_H

#include "plan.h"

enum { SB_SCOPE_FD_AGENT = SB_FD_STAGE_END, SB_SCOPE_FD_REPORT, SB_SCOPE_FD_END };
#define SB_SCOPE_REPORT_MAX 1024 /* one write, which a pipe takes whole */

#endif
