/* SPDX-License-Identifier: Apache-2.0
 * Signals as something to read. They are blocked from the first moment of a command that has something to undo, so that none
 * can end this process between two steps. One that was ignored when the tool was started (nohup) stays ignored. */
#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

int signals_open(struct tool *tool, struct signals *ret)
{
    static const int watched[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct sigaction action;
    sigset_t set;
    int fd;

    sigemptyset(&set);
    for (size_t i = 0; i < TOOL_ELEMENTS(watched); i++)
        if (sigaction(watched[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&set, watched[i]);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return report(tool, SANDBOX_EIO, "", NULL, "watching for signals: %s", strerror(errno));
    *ret = (struct signals){ .fd = fd };
    return 0;
}

int signals_read(struct signals *signals)
{
    struct signalfd_siginfo info;

    if (read(signals->fd, &info, sizeof info) != sizeof info)
        return 0;
    signals->last = (int)info.ssi_signo;
    return signals->last;
}

void signals_close(struct signals *signals)
{
    close(signals->fd);
    signals->fd = -1;
}
