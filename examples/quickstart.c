/* SPDX-License-Identifier: Apache-2.0
 * The first program to read: make a sandbox with a server in it, run a command with separate outputs, talk to the server's
 * port, remove it all. Usage: quickstart [STATE-FOLDER]. Build: cc quickstart.c $(pkg-config --cflags --libs libsandbox) */
#include <sandbox.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TRY(call)             \
    do {                      \
        if ((call) < 0)       \
            goto out;         \
    } while (0)

static void print_error(struct sandbox_error *error)
{
    if (!error)
        return;
    fprintf(stderr, "%s: %s\n", sandbox_error_get_operation(error), sandbox_error_get_message(error));
    if (*sandbox_error_get_hint(error))
        fprintf(stderr, "  hint: %s\n", sandbox_error_get_hint(error));
}

/* A server of one line, in the Perl that every Debian and Ubuntu has: it answers each line it gets with "echo: " before it. */
static const char *const daemon_argv[] = {
    "perl", "-MIO::Socket::INET", "-e",
    "$l = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', LocalPort => 7777) or die $!;"
    "while ($c = $l->accept) { while (<$c>) { print $c \"echo: $_\" } close $c }",
    NULL,
};

/* The daemon takes a moment until it listens: until then a dial fails with an error that says it may be tried again. */
static int dial_when_ready(struct sandbox *sandbox, int port, int *ret_fd, struct sandbox_error **error)
{
    const struct timespec pause = { 0, 20 * 1000 * 1000 };
    int tries = 500, r;

    for (;;) {
        r = sandbox_dial(sandbox, port, 5000, ret_fd, error);
        if (r == 0 || !*error || !sandbox_error_get_retryable(*error) || --tries == 0)
            return r;
        *error = sandbox_error_unref(*error);
        nanosleep(&pause, NULL);
    }
}

/* One command: its stdin, stdout and stderr are apart, and so is the way it ended. */
static int run_command(struct sandbox *sandbox, struct sandbox_error **error)
{
    static const char *const argv[] = { "sh", "-c", "read name; echo \"hello, $name\"; echo 'a warning' >&2; exit 3", NULL };
    struct sandbox_communicate_options input = SANDBOX_COMMUNICATE_OPTIONS_INIT;
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_output output = SANDBOX_OUTPUT_INIT;
    struct sandbox_exec *exec = NULL;
    int r;

    options.stdin_fd = SANDBOX_STDIO_PIPE;
    options.deadline_ms = 10000;
    input.input = "sandbox\n";
    input.input_size = strlen(input.input);
    r = sandbox_exec(sandbox, argv, &options, &exec, error);
    if (r == 0)
        r = sandbox_exec_communicate(exec, &input, &output, &result, error);
    if (r == 0)
        printf("stdout: %sstderr: %sexit code: %d\n", output.out, output.err, result.code);
    sandbox_output_clear(&output);
    sandbox_exec_unref(exec);
    return r;
}

static int talk(int fd)
{
    static const char line[] = "is anybody there?\n";
    char answer[256];
    size_t length = 0;
    ssize_t n;

    if (write(fd, line, strlen(line)) != (ssize_t)strlen(line))
        return -1;
    shutdown(fd, SHUT_WR); /* passes: the server sees the end of its input and closes */
    while (length < sizeof answer - 1 && (n = read(fd, answer + length, sizeof answer - 1 - length)) > 0)
        length += (size_t)n;
    answer[length] = 0;
    printf("port 7777 says: %s", answer);
    return strcmp(answer, "echo: is anybody there?\n") == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_host *host = NULL;
    struct sandbox_spec *spec = NULL;
    struct sandbox *sandbox = NULL;
    int fd = -1, status = 1;

    if (argc > 1)
        options.state_root = argv[1];
    TRY(sandbox_host_open("local:", &options, -1, &host, &error));
    TRY(sandbox_spec_new(&spec, &error)); /* image "host": the programs of this machine, and none of its secrets */
    TRY(sandbox_spec_add_label(spec, "example", "quickstart", &error));
    TRY(sandbox_spec_set_daemon(spec, daemon_argv, &error));
    TRY(sandbox_create(host, spec, 30000, &sandbox, &error));
    printf("sandbox %.12s made\n", sandbox_get_id(sandbox));
    TRY(sandbox_start(sandbox, 30000, &error));
    TRY(run_command(sandbox, &error));
    TRY(dial_when_ready(sandbox, 7777, &fd, &error));
    TRY(talk(fd));
    TRY(sandbox_delete(sandbox, 30000, &error));
    printf("sandbox deleted\n");
    status = 0;

out:
    if (status) {
        print_error(error);
        if (sandbox)
            sandbox_delete(sandbox, 30000, NULL);
    }
    if (fd >= 0)
        close(fd);
    sandbox_unref(sandbox);
    sandbox_spec_unref(spec);
    sandbox_host_unref(host);
    sandbox_error_unref(error);
    return status;
}
