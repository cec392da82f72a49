/* SPDX-License-Identifier: Apache-2.0
 * Terminals of commands, as seen from here: the outer end came from inside the sandbox, and is believed to be one only after a look. */
#include "exec.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <errors.h>

#define DEVPTS_MAGIC 0x1cd1

/* All three answers are the kernel's own: no file system of the sandbox's can have a device, or that kind. */
int sb_pty_check(int fd, struct sandbox_error **error)
{
    struct statfs fs;
    struct stat st;
    int number;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && fstatfs(fd, &fs) == 0 && fs.f_type == DEVPTS_MAGIC &&
        ioctl(fd, TIOCGPTN, &number) == 0)
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "terminal"), "the sandbox's init gave something else than a terminal");
}

int sb_pty_resize(struct sb_exec *exec, int rows, int columns, int width, int height, struct sandbox_error **error)
{
    struct winsize size = { (unsigned short)rows, (unsigned short)columns, (unsigned short)width, (unsigned short)height };

    if (exec->terminal_fd < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "exec", .hint = "who started it has its terminal"),
                       "this handle has no terminal");
    return ioctl(exec->terminal_fd, TIOCSWINSZ, &size) < 0 ? sb_fail_errno(error, errno, "terminal", "the terminal's size can't be set") : 0;
}
