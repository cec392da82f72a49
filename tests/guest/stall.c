/* SPDX-License-Identifier: Apache-2.0
 * A program that takes any arguments and never says anything, in place of one that should. */
#include <unistd.h>

int main(void)
{
    for (;;)
        pause();
}
