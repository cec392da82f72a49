/* SPDX-License-Identifier: Apache-2.0
 * The helper that looks at what was written over a host folder. */
#ifndef SB_AGENT_LAYER_H
#define SB_AGENT_LAYER_H

#define AG_LAYER_NORETURN __attribute__((noreturn))

/* `sandbox-agent layer …`: see layer.c. */
int ag_layer_main(int argc, char **argv);

#endif
