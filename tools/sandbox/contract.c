/* SPDX-License-Identifier: Apache-2.0
 * contract: hands over to the contract suite, a program of its own in the libexec folder, so that what runs is what this host was
 * tested with. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "sandbox-contract"

/* Where it was installed; SANDBOX_LIBEXEC names another folder; beside the command when the whole tree was moved. */
static char *find_program(void)
{
    const char *folder = getenv("SANDBOX_LIBEXEC");
    char self[4096], *path, *slash;
    ssize_t n;

    path = tool_format("%s/" PROGRAM, folder && *folder ? folder : SANDBOX_LIBEXECDIR);
    if ((folder && *folder) || access(path, X_OK) == 0)
        return path;
    free(path);
    n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    return tool_format("%s/../libexec/libsandbox/" PROGRAM, self);
}

int command_contract(struct tool *tool, const struct arguments *arguments)
{
    TOOL_FREE char *program = find_program();
    const char *argv[12] = { program };
    size_t n = 1;

    argv[n++] = arguments->n_operands ? arguments->operands[0] : tool->uri;
    if (tool->root) {
        argv[n++] = "--root";
        argv[n++] = tool->root;
    }
    if (arguments->image) {
        argv[n++] = "--image";
        argv[n++] = arguments->image;
    }
    if (arguments->only) {
        argv[n++] = "--only";
        argv[n++] = arguments->only;
    }
    if (tool->json)
        argv[n++] = "--json";
    execv(program, (char *const *)argv);
    return report(tool, SANDBOX_ENOTFOUND, "program",
                  "install the whole package, or name the folder with " PROGRAM " by SANDBOX_LIBEXEC", "%s can't be run: %s",
                  program, strerror(errno));
}
