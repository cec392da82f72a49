/* SPDX-License-Identifier: Apache-2.0
 * sandbox-contract: the contract suite against any host. Each row once, in a process of its own, two minutes at most; a line
 * KEY=VALUE for each, then "contract=passed N unsupported N failed N". Exit status 0, 1 when a row failed, 2 when it was called
 * wrongly. `sandbox contract` runs it for people. */
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROW_SECONDS = 120 };
static int row_seconds = ROW_SECONDS;
enum verdict { PASSED, UNSUPPORTED, FAILED };

struct contract contract = { .uri = "local:", .image = "host" };
static const char *only;
static int json, list;
static unsigned int counts[3];

static const struct rows *const all[] = { &rows_life, &rows_daemon, &rows_log,     &rows_files, &rows_copy,   &rows_store,
                                          &rows_exec, &rows_flow,   &rows_network, &rows_image, &rows_library };

static int usage(void)
{
    fputs("usage: sandbox-contract [URI] [--only B3,F20,…] [--image REF] [--root FOLDER] [--seconds N] [--json] [--list]\n"
          "  URI     where the sandboxes are to be (default: local:)\n"
          "  --only  rows that begin so, separated by commas\n"
          "  --image image of the sandboxes, with a shell (default: host)\n"
          "  --seconds  what each row may take, at most and by default 120\n",
          stderr);
    return 2;
}

static const char *value(int argc, char **argv, int *at)
{
    return *at + 1 < argc ? argv[++*at] : NULL;
}

static int parse(int argc, char **argv)
{
    const char *seconds = NULL;
    int uris = 0;

    for (int i = 1; i < argc; i++) {
        const char **place = !strcmp(argv[i], "--only")      ? &only
                             : !strcmp(argv[i], "--image")   ? &contract.image
                             : !strcmp(argv[i], "--root")    ? &contract.root
                             : !strcmp(argv[i], "--seconds") ? &seconds
                                                             : NULL;

        if (place && !(*place = value(argc, argv, &i)))
            return usage();
        if (place)
            continue;
        if (!strcmp(argv[i], "--json"))
            json = 1;
        else if (!strcmp(argv[i], "--list"))
            list = 1;
        else if (argv[i][0] == '-' || uris++)
            return usage();
        else
            contract.uri = argv[i];
    }
    if (seconds)
        row_seconds = atoi(seconds);
    return row_seconds >= 1 && row_seconds <= ROW_SECONDS ? 0 : usage();
}

/* "B3" means b3_…; "b3_upload" that row and those that begin so. */
static int is_wanted(const char *name)
{
    for (const char *at = only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t n = strcspn(at, ",");

        if (n && !strncasecmp(name, at, n) && (!name[n] || name[n] == '_' || memchr(at, '_', n)))
            return 1;
    }
    return !only;
}

/* Bytes from elsewhere on one line of a terminal, or in a JSON string. */
static void put_text(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (json && (*p == '"' || *p == '\\'))
            printf("\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            putchar(*p == '\n' || *p == '\t' ? ' ' : '?');
        else
            putchar(*p);
}

static void tell(const char *name, enum verdict verdict, const char *cause)
{
    static const char *const words[] = { "ok", "unsupported", "failed" };
    static int told;

    counts[verdict]++;
    if (json)
        printf("%s\"%s\":{\"result\":\"%s\",\"cause\":\"", told++ ? "," : "", name, words[verdict]);
    else
        printf("%s=%s%s", name, words[verdict], *cause ? ": " : "");
    put_text(cause);
    puts(json ? "\"}" : "");
    fflush(stdout);
}

/* Reads what the row's process has to say; 0 when it said nothing before its end or the time was up. */
static size_t listen_to(int fd, char *text, size_t size, int *ret_late)
{
    int64_t until = row_now() + row_seconds * 1000;
    size_t n = 0;

    for (;;) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        int64_t left = until - row_now();
        ssize_t r;

        if (left <= 0 || poll(&wait, 1, (int)left) == 0) {
            *ret_late = 1;
            break;
        }
        r = read(fd, text + n, size - 1 - n);
        if (r <= 0 && errno == EINTR)
            continue;
        if (r <= 0)
            break;
        n += (size_t)r;
    }
    text[n] = 0;
    return n;
}

/* In a process of its own and a process group of its own, which is killed when the time is up. */
static enum verdict run_row(const struct row *row, char *cause, size_t size)
{
    char text[2048];
    int p[2], late = 0, status = 0;
    size_t n;
    pid_t pid;

    *cause = 0;
    if (pipe2(p, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
        snprintf(cause, size, "no process for it: %s", strerror(errno));
        return FAILED;
    }
    if (pid == 0) {
        setpgid(0, 0);
        close(p[0]);
        row_run(row, p[1]);
    }
    close(p[1]);
    n = listen_to(p[0], text, sizeof text, &late);
    close(p[0]);
    if (late)
        kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (n && !late && text[0] >= '0' && text[0] <= '2') {
        snprintf(cause, size, "%s", text + 1);
        return (enum verdict)(text[0] - '0');
    }
    if (late)
        snprintf(cause, size, "not done after %d s", row_seconds);
    else
        snprintf(cause, size, WIFSIGNALED(status) ? "its process was ended by signal %d" : "its process ended with %d",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return FAILED;
}

/* The last row: nothing of this run is left. A row that was killed may have left something, so this also tidies up. */
static void check_left(void)
{
    size_t left = row_sweep();

    ROW_CHECK(!left, "%zu things that other rows made were still there", left);
}

static void run_all(void)
{
    static const struct row last = { "clean", check_left };
    char cause[2048];

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < all[i]->n; k++) {
            const struct row *row = &all[i]->rows[k];

            if (!is_wanted(row->name))
                continue;
            if (list) {
                puts(row->name);
                continue;
            }
            tell(row->name, run_row(row, cause, sizeof cause), cause);
        }
    if (list)
        puts(last.name);
    else
        tell(last.name, run_row(&last, cause, sizeof cause), cause);
}

int main(int argc, char **argv)
{
    struct timespec t;

    if (parse(argc, argv))
        return 2;
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(contract.run, sizeof contract.run, "%llx%05x", (unsigned long long)t.tv_sec, (unsigned int)(getpid() & 0xfffff));
    if (json && !list)
        printf("{\"rows\":{");
    run_all();
    if (list)
        return 0;
    if (json)
        printf("},\"passed\":%u,\"unsupported\":%u,\"failed\":%u}\n", counts[PASSED], counts[UNSUPPORTED], counts[FAILED]);
    else
        printf("contract=passed %u unsupported %u failed %u\n", counts[PASSED], counts[UNSUPPORTED], counts[FAILED]);
    return counts[FAILED] != 0;
}
