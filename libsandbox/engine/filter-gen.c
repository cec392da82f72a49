/* SPDX-License-Identifier: Apache-2.0
 * Build-time tool: filter-gen ARCH prints the compiled filters as C. ARCH as meson names it: x86_64 or aarch64. */
#include "filter.h"

#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print(const char *name, enum sb_filter_kind kind, uint32_t arch)
{
    struct sock_filter *program;
    size_t count;
    int r = sb_filter_build(kind, arch, &program, &count);

    if (r) {
        fprintf(stderr, "filter-gen: %s: %s\n", name, strerror(-r));
        return 1;
    }
    printf("static const struct sock_filter %s[] = {\n", name);
    for (size_t i = 0; i < count; i++)
        printf("    { 0x%04x, %u, %u, 0x%08x },\n", program[i].code, program[i].jt, program[i].jf, program[i].k);
    printf("};\n");
    free(program);
    return 0;
}

int main(int argc, char **argv)
{
    uint32_t arch = argc == 2 && !strcmp(argv[1], "x86_64") ? SCMP_ARCH_X86_64 : argc == 2 && !strcmp(argv[1], "aarch64") ? SCMP_ARCH_AARCH64 : 0;

    if (!arch) {
        fprintf(stderr, "usage: filter-gen x86_64|aarch64\n");
        return 2;
    }
    seccomp_api_set(3); /* the program is for another kernel than the one that builds, which may lack seccomp (a container) */
    printf("/* made by filter-gen from filter.c */\n#include <linux/filter.h>\n");
    return print("sb_filter_command", SB_FILTER_COMMAND, arch) || print("sb_filter_daemon", SB_FILTER_DAEMON, arch) ||
           print("sb_filter_command_devel", SB_FILTER_COMMAND_DEVEL, arch) || print("sb_filter_daemon_devel", SB_FILTER_DAEMON_DEVEL, arch) ||
           print("sb_filter_command_strict", SB_FILTER_COMMAND_STRICT, arch) || print("sb_filter_daemon_strict", SB_FILTER_DAEMON_STRICT, arch);
}
