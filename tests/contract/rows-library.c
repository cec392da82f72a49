/* SPDX-License-Identifier: Apache-2.0
 * F60, F61, F71 and F74: what the library does to the program that holds it, and what its errors tell. */
#include "contract.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sandbox_error *error;

/* No command line on this machine holds what was given as environment. */
static void f60_secrets(void)
{
    static const char *const env[] = { "CONTRACT_SECRET=zebra-7741-quagga", NULL };
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *exec;
    DIR *proc = opendir("/proc");
    struct dirent *e;

    options.env = env;
    exec = row_begin(sandbox, ROW_ARGV("sleep", "1000"), &options);
    while (proc && (e = readdir(proc))) {
        char path[300], text[4096];
        ssize_t n;
        int fd;

        snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        fd = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        n = fd < 0 ? 0 : read(fd, text, sizeof text);
        close(fd);
        ROW_CHECK(n <= 0 || !memmem(text, (size_t)n, "zebra-7741", 10), "process %s has the secret in its command line",
                  e->d_name);
    }
    if (proc)
        closedir(proc);
    row_need(sandbox_exec_kill(exec, SIGKILL, 0, &error), &error, "kill");
    row_end(exec, 20000);
    sandbox_exec_unref(exec);
}

static void f71_host_process(void)
{
    struct sigaction before[65], after;
    char cwd[2][4096];
    mode_t mask = umask(027);

    for (int s = 1; s <= 64; s++)
        sigaction(s, NULL, &before[s]);
    ROW_CHECK(getcwd(cwd[0], sizeof cwd[0]) != NULL, "no working folder");
    row_says(row_start(NULL), NULL, "echo x", "x");
    row_clean();
    for (int s = 1; s <= 64; s++)
        if (sigaction(s, NULL, &after) == 0)
            ROW_CHECK(before[s].sa_handler == after.sa_handler, "the handling of signal %d was changed", s);
    ROW_CHECK(getcwd(cwd[1], sizeof cwd[1]) && !strcmp(cwd[0], cwd[1]), "the working folder was changed");
    ROW_CHECK(umask(mask) == 027, "the umask was changed");
}

static size_t descriptors(void)
{
    size_t n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void f71_descriptors(void)
{
    size_t before = descriptors();

    for (int i = 0; i < 3; i++) {
        struct sandbox *sandbox = row_start(NULL);

        row_says(sandbox, NULL, "echo x", "x");
        row_clean();
        ROW_CHECK(descriptors() == before, "%zu descriptors are left open", descriptors() - before);
    }
}

/* A wrong argument: which, and by whose word. */
static void f74_errors(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;
    int fd = -1;

    ROW_CHECK(sandbox_exec(sandbox, ROW_ARGV("contract-no-such-command"), NULL, &exec, &error) == SANDBOX_ENOTFOUND,
              "no ENOTFOUND");
    ROW_CHECK(!strcmp(sandbox_error_get_field(error), "argv") && !strcmp(sandbox_error_get_operation(error), "exec") &&
                  *sandbox_error_get_message(error) && !strchr(sandbox_error_get_message(error), '\n'),
              "the error names \"%s\" in \"%s\"", sandbox_error_get_field(error), sandbox_error_get_operation(error));
    error = sandbox_error_unref(error);
    options.workdir = "relative";
    row_refused(sandbox_exec(sandbox, ROW_ARGV("true"), &options, &exec, &error), SANDBOX_EINVALID, &error, "a relative folder");
    row_refused(sandbox_dial(sandbox, 0, 1000, &fd, &error), SANDBOX_EINVALID, &error, "port 0");
    row_refused(sandbox_stop(sandbox, -7, 1000, &error), SANDBOX_EINVALID, &error, "a grace of -7");
}

static void f61_unknown_key(void)
{
    struct sandbox_host *host = NULL;
    char *uri = NULL;
    int r;

    ROW_CHECK(asprintf(&uri, "%s%scontract-no-such-key=1", contract.uri, strchr(contract.uri, '?') ? "&" : "?") > 0,
              "out of memory");
    r = sandbox_host_open(uri, NULL, 20000, &host, &error);
    ROW_CHECK(r == SANDBOX_EINVALID && *sandbox_error_get_message(error), "an unknown key in the URI: %s", sandbox_code_name(r));
    error = sandbox_error_unref(error);
    free(uri);
}

static const struct row rows[] = {
    { "f60_secrets", f60_secrets },         { "f61_unknown_key", f61_unknown_key }, { "f71_host_process", f71_host_process },
    { "f71_descriptors", f71_descriptors }, { "f74_errors", f74_errors },
};
const struct rows rows_library = { rows, sizeof rows / sizeof *rows };
