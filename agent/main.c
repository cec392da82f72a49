/* SPDX-License-Identifier: Apache-2.0
 * sandbox-agent: the static program that the library starts. argv[1] names the mode. It is for the library alone: descriptors
 * and messages are an internal matter of one build (plan.h). */
#include <string.h>
#include <unistd.h>

#include "forward.h"
#include "keeper.h"
#include "layer.h"
#include "network.h"
#include "stage.h"

int main(int argc, char **argv)
{
    static const char usage[] = "sandbox-agent: started by libsandbox only\n";

    if (argc >= 2 && !strcmp(argv[1], "stage"))
        return ag_stage_main(argc, argv);
    if (argc >= 2 && !strcmp(argv[1], "keeper"))
        return ag_keeper_main(argc, argv);
    if (argc >= 2 && !strcmp(argv[1], "forward"))
        return ag_forward_main(argc, argv);
    if (argc >= 2 && !strcmp(argv[1], "network"))
        return ag_network_main(argc, argv);
    if (argc >= 2 && !strcmp(argv[1], "layer"))
        return ag_layer_main(argc, argv);
    if (argc >= 2 && !strcmp(argv[1], "reset"))
        return ag_reset_main(argc, argv);
    if (write(2, usage, sizeof usage - 1) < 0)
        return 3;
    return 2;
}
