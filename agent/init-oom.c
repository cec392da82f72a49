/* SPDX-License-Identifier: Apache-2.0
 * Who was killed for want of memory: the kernel counts them for the sandbox's control group, and says of none who it was. So a command that
 * SIGKILL ended, and not by our hand, while the count grew is taken for one. */
#include "init.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <util.h>

int64_t ag_oom_kills(void)
{
    static const char name[] = "oom_kill ";
    char text[1024];
    ssize_t n = SB_RETRY(pread(SB_FD_MEMORY, text, sizeof text - 1, 0));

    if (n <= 0)
        return 0;
    text[n] = 0;
    for (char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, name, sizeof name - 1))
            return strtoll(line + sizeof name - 1, NULL, 10);
    return 0;
}
