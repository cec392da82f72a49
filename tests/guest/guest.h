/* SPDX-License-Identifier: Apache-2.0
 * What the programs that run inside sandboxes share. They are static, know nothing of the library, and say what they found as
 * lines "name: value" for a test outside to read. */
#ifndef SB_TESTS_GUEST_H
#define SB_TESTS_GUEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* These programs unmount, kill and write whatever they can reach: never on the machine itself, and never where root is the
 * machine's. They run only where a test says so in the environment, and never in the first user namespace, which has this
 * inode on every kernel (PROC_USER_INIT_INO). */
static inline void guest_only_in_a_sandbox(void)
{
    const char *said = getenv("SBTEST_GUEST");
    struct stat st;

    if (!said || strcmp(said, "in a sandbox") != 0 || stat("/proc/self/ns/user", &st) < 0 || st.st_ino == 0xEFFFFFFDu) {
        fprintf(stderr, "this program is harmful outside of a sandbox and ends here\n");
        exit(3);
    }
}

/* Each prints its findings. Return 0, or 1 when it could not look. */
int probe_status(void);   /* probe-self.c: ids, capabilities, descriptors, cwd */
int probe_fds(void);
int probe_dev(void);
int probe_init(void);     /* what can be done to pid 1 */
int probe_calls(void);    /* probe-calls.c: system calls that must fail, each in a process of its own */
int probe_permissive(void);
int probe_sockets(void);
int probe_mounts(void);   /* probe-mounts.c: clearing flags, unmounting, reaching the machine through fresh file systems */
int probe_escape(void);
int probe_proc(void);
int probe_exes(int seconds); /* probe-self.c: A01 */

int probe_connect(const char *name, int abstract); /* a UNIX socket by path or abstract name */

/* "ok", "EPERM", "killed by SIGSYS", … */
const char *probe_errno(int error);
void probe_say(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
