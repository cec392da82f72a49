/* SPDX-License-Identifier: Apache-2.0
 * A command's terminal. It is made in the child that becomes the command, as its user, from a descriptor of /dev/pts that init took before
 * anything ran inside: what is mounted there later, or lies there as a link, is never looked at. Both ends are of one open call, so that
 * no path leads to the wrong one. */
#include "init.h"

#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <util.h>

int ag_pty_open(const struct sb_window *window)
{
    struct winsize size = { window->rows, window->columns, window->width, window->height };
    int unlock = 0;
    SB_CLOSE int outer = openat(0, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), inner = -1;
    struct termios settings;

    if (outer < 0 || ioctl(outer, TIOCSPTLCK, &unlock) < 0)
        return -errno;
    inner = ioctl(outer, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (inner < 0 || ioctl(inner, TCGETS, &settings) < 0)
        return -errno;
    settings.c_iflag |= IUTF8; /* erasing takes a character, not a byte */
    if (ioctl(inner, TCSETS, &settings) < 0 || ioctl(inner, TIOCSWINSZ, &size) < 0 || ioctl(inner, TIOCSCTTY, 0) < 0)
        return -errno;
    for (int i = 0; i < 3; i++)
        if (dup2(inner, i) < 0)
            return -errno;
    return SB_TAKE_FD(outer);
}
