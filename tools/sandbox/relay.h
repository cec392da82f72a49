/* SPDX-License-Identifier: Apache-2.0
 * Carrying bytes between this process's descriptors and a command's: where a terminal is at either end. What the caller's terminal is
 * stays the caller's: it is never passed into a sandbox, its flags are never changed, and its modes are put back whatever happens. */
#ifndef TOOL_RELAY_H
#define TOOL_RELAY_H

#include "tool.h"

#include <stddef.h>
#include <sys/ioctl.h>
#include <termios.h>

enum { KEYS_MAX = 16, CHANNEL_BYTES = 65536 };

/* keys.c */
struct keys {
    char bytes[KEYS_MAX];
    size_t n, matched;
};
/* "ctrl-p,ctrl-q" or "": none. 0 or -1. */
int keys_parse(const char *text, struct keys *ret);
/* Appends what may pass to `out` (room for n_in + KEYS_MAX). 1: the sequence is complete, what stands behind it is dropped. */
int keys_feed(struct keys *keys, const char *in, size_t n_in, char *out, size_t *n_out);

/* terminal.c: the caller's own. */
struct terminal {
    int fd;        /* it; -1: none here */
    int raw;       /* it is in raw mode by us */
    int wanted;    /* it is to be, whenever we are in the foreground */
    int signal_fd; /* SIGWINCH, SIGTSTP, SIGCONT */
    struct termios before;
};
/* fd: a terminal, or -1. */
int terminal_open(struct tool *tool, int fd, struct terminal *ret);
/* 0 or -errno. In the background nothing is done, but that it is wanted. */
int terminal_raw(struct terminal *terminal);
void terminal_restore(struct terminal *terminal);
void terminal_close(struct terminal *terminal);
/* Of the terminal, else of none: 24 by 80. */
void terminal_size(const struct terminal *terminal, struct winsize *ret);
/* Reads a signal; 1: the size may have changed. Stops this process when that was asked for, and goes on in raw mode when it is continued. */
int terminal_signal(struct terminal *terminal);

/* One direction. */
struct channel {
    int from, to; /* from -1: it has ended; to -1: nobody takes it any more, it is dropped */
    int own_to;   /* `to` is ours: closed at the end of what comes */
    int typed;    /* it is looked through for detach keys */
    size_t at, n; /* what waits in data: n bytes from at */
    char data[CHANNEL_BYTES + KEYS_MAX];
};

struct relay {
    struct tool *tool;
    struct sandbox_exec *exec;
    struct signals *signals;
    struct terminal *terminal; /* NULL: the command has none */
    struct keys keys;
    int detached;             /* out: the detach keys were typed */
    size_t n_channels;
    struct channel channels[3];
};
/* Until the command has ended and its output is whole, or the detach keys came. Returns the exit status. */
int relay_run(struct relay *relay);

#endif
