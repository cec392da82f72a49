/* SPDX-License-Identifier: Apache-2.0
 * probe [-o FILE] [-n] WHAT [ARGUMENT]: looks at the sandbox from the inside. -o writes to a file instead of stdout, for daemons, and
 * ends it with a line "end: probe"; -n stays alive afterwards. */
#include "guest.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *probe_errno(int error)
{
    return error == 0 ? "ok" : strerrorname_np(error) ? strerrorname_np(error) : "E?";
}

void probe_say(const char *name, const char *format, ...)
{
    va_list ap;

    printf("%s: ", name);
    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout); /* what follows may kill us */
}

static int look(const char *what, const char *argument)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } probes[] = {
        { "status", probe_status }, { "fds", probe_fds }, { "dev", probe_dev }, { "init", probe_init }, { "calls", probe_calls },
        { "permissive", probe_permissive }, { "sockets", probe_sockets }, { "mounts", probe_mounts }, { "escape", probe_escape }, { "proc", probe_proc },
    };

    if (strcmp(what, "abstract") == 0 || strcmp(what, "socket") == 0)
        return probe_connect(argument ? argument : "", *what == 'a');
    if (strcmp(what, "exes") == 0)
        return probe_exes(argument ? atoi(argument) : 3);
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        if (strcmp(what, probes[i].name) == 0)
            return probes[i].run();
    fprintf(stderr, "probe: what is %s?\n", what);
    return 2;
}

int main(int argc, char **argv)
{
    int at = 1, stay = 0, r;

    guest_only_in_a_sandbox();
    if (argc > at + 1 && strcmp(argv[at], "-o") == 0) {
        if (!freopen(argv[at + 1], "we", stdout))
            return 3;
        at += 2;
    }
    if (argc > at && strcmp(argv[at], "-n") == 0) {
        stay = 1;
        at++;
    }
    if (at >= argc)
        return 2;
    r = look(argv[at], at + 1 < argc ? argv[at + 1] : NULL);
    probe_say("end", "probe");
    while (stay)
        pause();
    return r;
}
