/* SPDX-License-Identifier: Apache-2.0
 * sandbox-agent network: the process that holds a network (network-plan.h). */
#ifndef SB_AGENT_NETWORK_H
#define SB_AGENT_NETWORK_H

int ag_network_main(int argc, char **argv);

#endif
