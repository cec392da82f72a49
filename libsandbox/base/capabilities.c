/* SPDX-License-Identifier: Apache-2.0
 * The names of Linux's capabilities by number, so that a spec reads the same on every machine and no libcap is needed. */
#include "spec.h"

#include "util.h"


static const char *const names[] = {
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO",
    "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME",
    "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
    "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
};

/* ASCII only: strcasecmp() follows the host program's locale, and in a Turkish one "sys_admin" would not be SYS_ADMIN. */
static int same(const char *name, const char *upper)
{
    for (; *name && *upper; name++, upper++)
        if ((*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name) != *upper)
            return 0;
    return !*name && !*upper;
}

int sb_capability_from_name(const char *name)
{
    char prefix[5] = { 0 };

    for (size_t i = 0; i < 4 && name[i]; i++)
        prefix[i] = name[i];
    if (same(prefix, "CAP_"))
        name += 4;
    for (size_t i = 0; i < SB_ELEMENTS(names); i++)
        if (same(name, names[i]))
            return (int)i;
    return -1;
}

const char *sb_capability_name(int capability)
{
    return capability >= 0 && (size_t)capability < SB_ELEMENTS(names) ? names[capability] : NULL;
}
