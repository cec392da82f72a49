/* SPDX-License-Identifier: Apache-2.0
 * One command in a sandbox, on this process's own descriptors. Files and pipes are handed to it as they are, and no byte of them passes
 * through here. A terminal isn't: who has one can do more with it than read and write, and it is the caller's. Its bytes are carried. */
#include "relay.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int start_failed(struct tool *tool, struct sandbox_error *error)
{
    int status = TOOL_EXIT_FAILED, code = error ? sandbox_error_get_code(error) : SANDBOX_EINTERNAL;

    if (code == SANDBOX_ENOTFOUND && strcmp(sandbox_error_get_field(error), "argv") == 0)
        status = TOOL_EXIT_NOT_FOUND;
    else if (code == SANDBOX_ENOTEXECUTABLE)
        status = TOOL_EXIT_NOT_EXECUTABLE;
    report_error(tool, error);
    return status;
}

int attend_status(struct tool *tool, const struct sandbox_exec_result *result)
{
    switch (result->kind) {
    case SANDBOX_EXEC_EXITED:
        return result->code;
    case SANDBOX_EXEC_SIGNALLED:
    case SANDBOX_EXEC_KILLED:
        return 128 + result->signal;
    case SANDBOX_EXEC_DEADLINE:
        report(tool, SANDBOX_ETIMEDOUT, "timeout", NULL, "the time given by --timeout passed; the command was killed");
        return TOOL_EXIT_DEADLINE;
    case SANDBOX_EXEC_OOM:
        report(tool, SANDBOX_ENOMEM, "memory", "give more by --memory", "the command was killed for want of memory");
        return 128 + SIGKILL;
    default:
        return report(tool, SANDBOX_ELOST, "", NULL, "the sandbox ended before the command did; how it ended is unknown");
    }
}

static struct relay *new_relay(struct tool *tool, struct sandbox_exec *exec, struct signals *signals)
{
    struct relay *relay = tool_allocate(1, sizeof *relay);

    relay->tool = tool;
    relay->exec = exec;
    relay->signals = signals;
    return relay;
}

/* ---- without a terminal inside ---- */

/* Streams that are a terminal's here go by pipes. */
static int attend_streams(struct tool *tool, struct sandbox_exec *exec, const struct sandbox_exec_options *options, struct signals *signals)
{
    struct relay *relay = new_relay(tool, exec, signals);
    struct sandbox_error *error = NULL;
    int ends[3] = { -1, -1, -1 }, status = 0;

    if (options->stdin_fd == SANDBOX_STDIO_PIPE && sandbox_exec_take_stdin(exec, &ends[0], &error))
        status = report_error(tool, error);
    if (!status && options->stdout_fd == SANDBOX_STDIO_PIPE && sandbox_exec_take_stdout(exec, &ends[1], &error))
        status = report_error(tool, error);
    if (!status && options->stderr_fd == SANDBOX_STDIO_PIPE && sandbox_exec_take_stderr(exec, &ends[2], &error))
        status = report_error(tool, error);
    relay->n_channels = 3;
    relay->channels[0] = (struct channel){ .from = ends[0] >= 0 ? 0 : -1, .to = ends[0], .own_to = 1 };
    for (int i = 1; i < 3; i++)
        relay->channels[i] = (struct channel){ .from = ends[i], .to = ends[i] >= 0 ? i : -1 };
    if (ends[0] >= 0) /* a description of our own, unlike what is on its other side here */
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
    if (!status)
        status = relay_run(relay);
    if (relay->channels[0].to >= 0)
        close(relay->channels[0].to);
    for (int i = 1; i < 3; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    free(relay);
    return status;
}

/* ---- with a terminal inside ---- */

/* A descriptor of our terminal that can't stop us, as when somebody else has read what poll promised: a description of its own, where it
 * can be had. */
static int open_own(int of, int access)
{
    TOOL_FREE char *path = tool_format("/proc/self/fd/%d", of);
    int fd = isatty(of) ? open(path, access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;

    return fd >= 0 ? fd : fcntl(of, F_DUPFD_CLOEXEC, 3);
}

static int leave(struct tool *tool, struct sandbox_exec *exec, const char *sandbox, int master)
{
    struct sandbox_error *error = NULL;

    fcntl(master, F_SETFL, 0);
    if (sandbox_exec_detach_terminal(exec, &error))
        return report_error(tool, error);
    if (tool->json)
        printf("{\"exec_id\":\"%s\"}\n", sandbox_exec_get_id(exec));
    else
        fprintf(stderr, "\r\nsandbox: detached; it goes on. Back to it: sandbox attach -it %.12s %s\n", sandbox, sandbox_exec_get_id(exec));
    return 0;
}

/* Carries the command's terminal to ours; `shown` is written first. */
static int attend_terminal(struct tool *tool, struct sandbox_exec *exec, const char *sandbox, const struct arguments *arguments,
                           struct terminal *terminal, int master, struct signals *signals)
{
    struct relay *relay = new_relay(tool, exec, signals);
    int in = arguments->interactive ? open_own(STDIN_FILENO, O_RDONLY) : -1, out = open_own(STDOUT_FILENO, O_WRONLY), status = 0;

    relay->terminal = terminal;
    if (!arguments->no_detach)
        keys_parse(arguments->detach_keys ? arguments->detach_keys : "ctrl-p,ctrl-q", &relay->keys); /* it was looked at before */
    relay->n_channels = 2;
    relay->channels[0] = (struct channel){ .from = in, .to = master, .typed = (int)arguments->interactive };
    relay->channels[1] = (struct channel){ .from = master, .to = out };
    do { /* again, when nobody there takes the terminal: the command would be hung up on */
        relay->detached = 0;
        relay->keys.matched = 0;
        fcntl(master, F_SETFL, O_NONBLOCK);
        if (arguments->interactive && terminal_raw(terminal))
            status = report(tool, SANDBOX_EIO, "stdin", NULL, "this terminal's modes can't be set");
        else
            status = relay_run(relay);
        terminal_restore(terminal);
    } while (relay->detached && (status = leave(tool, exec, sandbox, master)));
    terminal_close(terminal);
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    free(relay);
    return status;
}

int attend_check(struct tool *tool, const struct arguments *arguments)
{
    struct keys keys;

    if (arguments->interactive && arguments->tty && !isatty(STDIN_FILENO))
        return report(tool, SANDBOX_EINVALID, "stdin", "leave -t away to pass a file or pipe on",
                      "-it is for a terminal, and stdin is none");
    if (arguments->tty && arguments->detach)
        return report(tool, SANDBOX_EINVALID, "detach", "start it with -it, and leave it by the detach keys", "--tty is not for --detach");
    if (arguments->detach_keys && keys_parse(arguments->detach_keys, &keys))
        return report(tool, SANDBOX_EINVALID, "detach-keys", "such as ctrl-p,ctrl-q or ctrl-@,x; \"\" for none", "\"%s\" is no sequence of keys",
                      arguments->detach_keys);
    return 0;
}

/* The environment with TERM in it. */
static const char **with_term(char **env, char **ret_term)
{
    const char *term = getenv("TERM");
    const char **more;
    size_t n = 0, has = 0;

    for (; env && env[n]; n++)
        has |= !strncmp(env[n], "TERM=", 5);
    if (!term || !*term || strlen(term) > 64 || strspn(term, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-") != strlen(term))
        term = "xterm";
    more = tool_allocate(n + 2, sizeof *more);
    for (size_t i = 0; i < n; i++)
        more[i] = env[i];
    *ret_term = tool_format("TERM=%s", term);
    if (!has)
        more[n] = *ret_term;
    return more;
}

static int exec_with_terminal(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments, char **env,
                              struct sandbox_exec_options *options, struct signals *signals)
{
    struct sandbox_exec *exec = NULL;
    int status, master = -1;
    struct sandbox_error *error = NULL;
    TOOL_FREE char *term = NULL;
    const char **whole = NULL;
    struct terminal terminal;
    struct winsize size;

    status = terminal_open(tool, isatty(STDIN_FILENO) ? STDIN_FILENO : isatty(STDOUT_FILENO) ? STDOUT_FILENO : -1, &terminal);
    if (status)
        return status;
    terminal_size(&terminal, &size);
    whole = with_term(env, &term);
    options->env = whole;
    options->terminal = 1;
    options->rows = size.ws_row;
    options->columns = size.ws_col;
    if (sandbox_exec(sandbox, arguments->argv, options, &exec, &error))
        status = start_failed(tool, error);
    else if (sandbox_exec_take_terminal(exec, &master, &error))
        status = report_error(tool, error);
    else
        status = attend_terminal(tool, exec, sandbox_get_id(sandbox), arguments, &terminal, master, signals);
    terminal_close(&terminal);
    sandbox_exec_unref(exec);
    if (master >= 0)
        close(master);
    free(whole);
    return status;
}

int attend_again(struct tool *tool, struct sandbox *sandbox, struct sandbox_exec *exec, const struct arguments *arguments)
{
    int status = attend_check(tool, arguments), master = -1;
    struct terminal terminal = { .fd = -1, .signal_fd = -1 };
    struct sandbox_error *error = NULL;
    struct signals signals;
    struct winsize size;
    char *shown = NULL;
    size_t n = 0;

    if (!status)
        status = signals_open(tool, &signals);
    if (status)
        return status;
    status = terminal_open(tool, isatty(STDIN_FILENO) ? STDIN_FILENO : isatty(STDOUT_FILENO) ? STDOUT_FILENO : -1, &terminal);
    if (!status && sandbox_exec_attach_terminal(exec, &master, &shown, &n, &error))
        status = report_error(tool, error);
    if (!status) {
        terminal_size(&terminal, &size);
        if (size.ws_row > 1) /* a full-screen program draws anew when the size changes, and only then */
            sandbox_exec_resize_terminal(exec, size.ws_row - 1, size.ws_col, size.ws_xpixel, size.ws_ypixel, NULL);
        sandbox_exec_resize_terminal(exec, size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel, NULL);
        fwrite(shown, 1, n, stdout);
        fflush(stdout);
        status = attend_terminal(tool, exec, sandbox_get_id(sandbox), arguments, &terminal, master, &signals);
        close(master);
    }
    terminal_close(&terminal);
    signals_close(&signals);
    sandbox_buffer_free(shown);
    return status;
}

/* Ids, capabilities and so on, as the library read them from the command itself. */
static int attest(struct tool *tool, const struct sandbox_exec *exec, const char *path)
{
    struct sandbox_attestation a = SANDBOX_ATTESTATION_INIT;
    struct sandbox_error *error = NULL;
    FILE *file;
    int failed;

    if (sandbox_exec_get_attestation(exec, &a, &error))
        return report_error(tool, error);
    file = fopen(path, "we");
    if (!file)
        return report(tool, SANDBOX_EIO, "attest", NULL, "%s can't be written", path);
    fprintf(file,
            "{\"exec\":\"%s\",\"uid\":%lld,\"gid\":%lld,\"groups\":%lld,\"no_new_privs\":%s,\"seccomp\":%d,"
            "\"capabilities\":{\"effective\":\"%016llx\",\"permitted\":\"%016llx\",\"inheritable\":\"%016llx\",\"bounding\":\"%016llx\","
            "\"ambient\":\"%016llx\"},\"user_namespace\":%llu}\n",
            sandbox_exec_get_id(exec), (long long)a.uid, (long long)a.gid, (long long)a.groups, a.no_new_privs ? "true" : "false", a.seccomp,
            (unsigned long long)a.cap_effective, (unsigned long long)a.cap_permitted, (unsigned long long)a.cap_inheritable,
            (unsigned long long)a.cap_bounding, (unsigned long long)a.cap_ambient, (unsigned long long)a.user_namespace);
    failed = ferror(file);
    if (fclose(file) || failed)
        return report(tool, SANDBOX_EIO, "attest", NULL, "%s can't be written", path);
    return 0;
}

int attend_exec(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments, char **env, struct signals *signals)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;
    struct sandbox_error *error = NULL;
    struct limits limits;
    int status = limits_take(tool, arguments, &limits), unattested = 0;

    if (limits.any && !strcmp(tool->command, "exec")) /* those of `run` are the sandbox's */
        options.limits = &limits.limits;
    options.user = arguments->user;
    options.workdir = arguments->workdir;
    options.env = (const char *const *)env;
    options.deadline_ms = arguments->timeout_ms;
    options.journal_max = arguments->journal_max;
    if (arguments->tty) {
        if (!status)
            status = exec_with_terminal(tool, sandbox, arguments, env, &options, signals);
        limits_clear(&limits);
        return status;
    }
    if (!arguments->detach) {
        options.stdin_fd = isatty(0) ? SANDBOX_STDIO_PIPE : 0;
        options.stdout_fd = isatty(1) ? SANDBOX_STDIO_PIPE : 1;
        options.stderr_fd = isatty(2) ? SANDBOX_STDIO_PIPE : 2;
    } else if (!arguments->journal_max) {
        options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    }
    if (!status && arguments->journal_max && !arguments->detach)
        status = report(tool, SANDBOX_EINVALID, "journal", "add --detach, and read it by: sandbox attach", "--journal is for --detach");
    else if (!status && sandbox_exec(sandbox, arguments->argv, &options, &exec, &error))
        status = start_failed(tool, error);
    if (exec && arguments->attest)
        unattested = attest(tool, exec, arguments->attest); /* it runs by now: its end is awaited all the same */
    if (!status && arguments->detach)
        status = printf(tool->json ? "{\"exec_id\":\"%s\"}\n" : "%s\n", sandbox_exec_get_id(exec)) < 0;
    else if (!status)
        status = attend_streams(tool, exec, &options, signals);
    sandbox_exec_unref(exec);
    limits_clear(&limits);
    return status ? status : unattested;
}
