/* SPDX-License-Identifier: Apache-2.0
 * The caller's terminal: raw while a command has it, and put back as it was at every end that a process can see coming: its return, a
 * signal, a stop, a crash. After SIGKILL `stty sane` does it. */
#include "relay.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* For the handler of a crash. */
static volatile sig_atomic_t crash_fd = -1;
static struct termios crash_before;

static void on_crash(int signal)
{
    if (crash_fd >= 0)
        tcsetattr(crash_fd, TCSANOW, &crash_before);
    raise(signal); /* as it would have been: the handler is gone by now */
}

static void watch_crashes(void)
{
    static const int fatal[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS };
    struct sigaction action = { .sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND | SA_NODEFER };

    for (size_t i = 0; i < TOOL_ELEMENTS(fatal); i++)
        sigaction(fatal[i], &action, NULL);
}

int terminal_open(struct tool *tool, int fd, struct terminal *ret)
{
    sigset_t set;
    int signals;

    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGTSTP);
    sigaddset(&set, SIGCONT);
    sigaddset(&set, SIGTTOU); /* so that our own modes can be put back; never read */
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return report(tool, SANDBOX_EIO, "", NULL, "watching for signals: %s", strerror(errno));
    *ret = (struct terminal){ .fd = fd, .signal_fd = signals };
    return 0;
}

/* In the background it is somebody else's, who has set it as he likes. ENOTTY: it is not our session's, and so nobody's in turn. */
static int is_ours(const struct terminal *terminal)
{
    pid_t group = terminal->fd >= 0 ? tcgetpgrp(terminal->fd) : 0;

    return group == getpgrp() || (group < 0 && errno == ENOTTY);
}

static int set_raw(struct terminal *terminal)
{
    struct termios raw = terminal->before;

    cfmakeraw(&raw);
    crash_before = terminal->before;
    crash_fd = terminal->fd;
    watch_crashes();
    if (tcsetattr(terminal->fd, TCSADRAIN, &raw) < 0)
        return -errno;
    terminal->raw = 1;
    return 0;
}

int terminal_raw(struct terminal *terminal)
{
    if (terminal->fd < 0 || terminal->raw)
        return 0;
    terminal->wanted = 1;
    if (!is_ours(terminal))
        return 0;
    return tcgetattr(terminal->fd, &terminal->before) < 0 ? -errno : set_raw(terminal);
}

void terminal_restore(struct terminal *terminal)
{
    if (!terminal->raw)
        return;
    if (is_ours(terminal))
        tcsetattr(terminal->fd, TCSADRAIN, &terminal->before);
    terminal->raw = 0;
    crash_fd = -1;
}

void terminal_close(struct terminal *terminal)
{
    terminal_restore(terminal);
    if (terminal->signal_fd >= 0)
        close(terminal->signal_fd);
    terminal->signal_fd = -1;
}

void terminal_size(const struct terminal *terminal, struct winsize *ret)
{
    if (terminal->fd < 0 || ioctl(terminal->fd, TIOCGWINSZ, ret) < 0)
        *ret = (struct winsize){ 0 };
    if (!ret->ws_row || !ret->ws_col)
        *ret = (struct winsize){ .ws_row = 24, .ws_col = 80 };
}

int terminal_signal(struct terminal *terminal)
{
    struct signalfd_siginfo info;

    if (read(terminal->signal_fd, &info, sizeof info) != sizeof info)
        return 0;
    if (info.ssi_signo == SIGTSTP) {
        terminal_restore(terminal);
        raise(SIGSTOP);
        if (terminal->wanted)
            terminal_raw(terminal);
    } else if (info.ssi_signo == SIGCONT && terminal->raw && is_ours(terminal)) {
        set_raw(terminal); /* after a stop that nobody could see coming: somebody else has set it since */
    }
    return info.ssi_signo != SIGTTOU;
}
