/* SPDX-License-Identifier: Apache-2.0
 * The `sandbox` command: its table of commands, and the way to the one that was asked for. */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Name, synopsis, summary, options, fewest and most operands (-1: any), fewest words of a command line (-1: takes none). */
static const struct command commands[] = {
    { "run", "[--] COMMAND…", "run a command in a new sandbox, then delete the sandbox", FOR_RUN, 0, 0, 1, command_run },
    { "shell", "[SANDBOX] [-- COMMAND…]", "a shell in a new sandbox, or in one that is there", FOR_RUN | FOR_SHELL, 0, 1, 0, command_shell },
    { "create", "[-- DAEMON…]", "make a sandbox and print its id", FOR_CREATE, 0, 0, 0, command_create },
    { "start", "SANDBOX…", "start sandboxes, with their daemons", 0, 1, -1, -1, command_start },
    { "exec", "SANDBOX [--] COMMAND…", "run a command in a running sandbox", FOR_EXEC, 1, 1, 1, command_exec },
    { "attach", "SANDBOX EXEC-ID", "wait for a command by its id, with its journal if it has one", FOR_ATTACH, 2, 2, -1,
      command_attach },
    { "wait", "SANDBOX", "wait for a daemon's end, and print its exit code", FOR_WAIT, 1, 1, -1, command_wait },
    { "inspect", "SANDBOX", "all that is known of a sandbox", 0, 1, 1, -1, command_inspect },
    { "ls", "", "list sandboxes", FOR_LS, 0, 0, -1, command_ls },
    { "stop", "SANDBOX…", "stop sandboxes; their files stay", FOR_STOP, 1, -1, -1, command_stop },
    { "pause", "SANDBOX…", "halt all that sandboxes run", 0, 1, -1, -1, command_pause },
    { "resume", "SANDBOX…", "let paused sandboxes go on", 0, 1, -1, -1, command_resume },
    { "extend", "SANDBOX TIME|none", "let a sandbox's time to live end so long from now", 0, 2, 2, -1, command_extend },
    { "kill", "SANDBOX…", "send a signal to daemons", FOR_KILL, 1, -1, -1, command_kill },
    { "rm", "SANDBOX…", "delete sandboxes, running ones too", 0, 1, -1, -1, command_rm },
    { "cp", "SANDBOX:PATH|FOLDER|FILE|- …", "copy files and folders in or out; - is a tar on stdin or stdout", FOR_CP, 2, 2, -1,
      command_cp },
    { "logs", "SANDBOX", "what a sandbox's daemon wrote", FOR_LOGS, 1, 1, -1, command_logs },
    { "diff", "SANDBOX [TARGET]", "what was written over host folders", FOR_DIFF, 1, 2, -1, command_diff },
    { "usage", "SANDBOX [TARGET]", "how much was written over host folders", 0, 1, 2, -1, command_usage },
    { "reset", "SANDBOX [TARGET]", "put away what was written over host folders", 0, 1, 2, -1, command_reset },
    { "limits", "SANDBOX", "show a sandbox's limits, or change those that are given, running or not", FOR_LIMITS, 1, 1, -1, command_limits },
    { "stats", "[SANDBOX]", "what sandboxes use", FOR_STATS, 0, 1, -1, command_stats },
    { "dial", "SANDBOX PORT", "connect stdin and stdout to a TCP port in a sandbox", 0, 2, 2, -1, command_dial },
    { "forward", "SANDBOX PORT [LOCALPORT]", "listen on 127.0.0.1 for a TCP port in a sandbox, until interrupted", 0, 2, 3, -1,
      command_forward },
    { "events", "[SANDBOX]", "what happens to sandboxes, a line for each event, until interrupted", FOR_EVENTS, 0, 1, -1,
      command_events },
    { "image import", "SOURCE", "import a root folder, tar, OCI layout or docker archive", FOR_IMPORT, 1, 1, -1,
      command_image_import },
    { "image pull", "HOST/PATH[:TAG][@DIGEST]", "pull an image from a registry", FOR_PULL, 1, 1, -1, command_image_pull },
    { "image gc", "", "remove layers that no image has, and what killed pulls left", FOR_GC, 0, 0, -1, command_image_gc },
    { "image ls", "", "list images", 0, 0, 0, -1, command_image_ls },
    { "image inspect", "IMAGE", "all that is known of an image", 0, 1, 1, -1, command_image_inspect },
    { "image rm", "IMAGE…", "remove images, by name or digest", 0, 1, -1, -1, command_image_rm },
    { "volume create", "NAME", "make a volume", FOR_VOLUME, 1, 1, -1, command_volume_create },
    { "volume inspect", "NAME", "all that is known of a volume", 0, 1, 1, -1, command_volume_inspect },
    { "volume ls", "", "list volumes", 0, 0, 0, -1, command_volume_ls },
    { "volume rm", "NAME…", "remove volumes with their data", 0, 1, -1, -1, command_volume_rm },
    { "network create", "NAME", "make a network that several sandboxes can be in", FOR_NETWORK, 1, 1, -1, command_network_create },
    { "network ls", "", "list networks", 0, 0, 0, -1, command_network_ls },
    { "network allow", "SANDBOX|NETWORK HOST[:PORT]…", "replace what a proxy lets through; none: nothing", 0, 1, -1, -1, command_network_allow },
    { "network rm", "NAME…", "remove networks", 0, 1, -1, -1, command_network_rm },
    { "doctor", "", "what this host can enforce, by trying it; status 1 when something is impossible", 0, 0, 0, -1,
      command_doctor },
    { "contract", "[URI]", "try what every host must do, a line for each promise", FOR_CONTRACT, 0, 1, -1, command_contract },
    { "reconcile", "", "find and remove what dead processes left", FOR_RECONCILE, 0, 0, -1, command_reconcile },
    { "leaks", "", "find what dead processes left, and touch nothing; status 1 when there is something", 0, 0, 0, -1,
      command_leaks },
    { "version", "", "print the version", 0, 0, 0, -1, command_version },
};

/* What stands above which command in the help. */
static const struct {
    const char *first, *title;
} heads[] = {
    { "run", "Sandboxes" },       { "cp", "Files and output" },   { "dial", "Ports and events" },
    { "image import", "Images" }, { "volume create", "Volumes" }, { "network create", "Networks" }, { "doctor", "This machine" },
};

int command_version(struct tool *tool, const struct arguments *arguments)
{
    (void)arguments;
    printf(tool->json ? "{\"version\":\"%s\"}\n" : "sandbox %s\n", sandbox_version());
    return 0;
}

static void print_usage(void)
{
    puts("usage: sandbox [--host URI] [--root FOLDER] [--json] COMMAND [OPTION…] …\n");
    for (size_t i = 0; i < TOOL_ELEMENTS(commands); i++) {
        for (size_t h = 0; h < TOOL_ELEMENTS(heads); h++)
            if (!strcmp(heads[h].first, commands[i].name))
                printf("%s%s:\n", i ? "\n" : "", heads[h].title);
        printf("  %-14s %s\n", commands[i].name, commands[i].summary);
    }
    puts("\nOptions of every command:");
    options_print(0);
    puts("\nA sandbox is named by its id, by 4 or more digits that begin it, or by its name. SANDBOX_HOST and\n"
         "SANDBOX_ROOT stand in for --host and --root. The exit status is the command's, or 128 and the number of\n"
         "the signal that ended it; 124 after --timeout, 125 when the sandbox could not be had, 126 when the command\n"
         "can't be executed, 127 when there is none.");
}

static void print_help(const struct command *command)
{
    if (!command) {
        print_usage();
        return;
    }
    printf("usage: sandbox %s [OPTION…]%s%s\n\n%s\n\n", command->name, *command->synopsis ? " " : "", command->synopsis,
           command->summary);
    options_print(command->group ? command->group : 0);
}

/* The command that argv begins with; *ret_words is 1 or 2. */
static const struct command *find(int argc, char **argv, int *ret_words)
{
    for (size_t i = 0; i < TOOL_ELEMENTS(commands); i++) {
        const char *name = commands[i].name, *space = strchr(name, ' ');
        size_t first = space ? (size_t)(space - name) : strlen(name);

        if (argc < 1 || strlen(argv[0]) != first || memcmp(argv[0], name, first) != 0)
            continue;
        if (space && (argc < 2 || strcmp(argv[1], space + 1) != 0))
            continue;
        *ret_words = space ? 2 : 1;
        return &commands[i];
    }
    return NULL;
}

/* A descriptor 0, 1 or 2 that is closed would be given to the next file that is opened, and then to the command. */
static int fill_stdio(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_WRONLY : O_RDONLY) != fd) /* inherited: it is stdio */
            return -1;
    return 0;
}

static int dispatch(struct tool *tool, int argc, char **argv)
{
    struct arguments arguments = { 0 };
    const struct command *command;
    int words = 0, status, two = argc > 1 && (!strcmp(argv[0], "image") || !strcmp(argv[0], "volume") || !strcmp(argv[0], "network"));

    if (argc > 0 && strcmp(argv[0], "help") == 0) {
        command = find(argc - 1, argv + 1, &words);
        print_help(command);
        return 0;
    }
    command = find(argc, argv, &words);
    if (!command && tool->help) {
        print_usage();
        return 0;
    }
    if (!command && argc == 0)
        return report(tool, SANDBOX_EINVALID, "command", "see: sandbox --help", "no command was given");
    if (!command)
        return report(tool, SANDBOX_EINVALID, "command", "see: sandbox --help", "there is no command \"%.40s%s%.40s\"", argv[0],
                      two ? " " : "", two ? argv[1] : "");
    tool->command = command->name;
    status = options_parse(tool, command, argc - words, argv + words, &arguments);
    if (status)
        return status;
    if (tool->help)
        print_help(command);
    else
        status = command->run(tool, &arguments);
    arguments_clear(&arguments);
    return status;
}

int main(int argc, char **argv)
{
    const char *uri = getenv("SANDBOX_HOST"), *root = getenv("SANDBOX_ROOT");
    struct tool tool = { .uri = uri && *uri ? uri : "local:", .root = root && *root ? root : NULL };
    int index = 1, status;

    if (fill_stdio())
        return TOOL_EXIT_FAILED;
    signal(SIGPIPE, SIG_IGN); /* a reader that left is an error like any other, and no reason to leave a sandbox behind */
    status = options_parse_global(&tool, argc, argv, &index);
    if (!status)
        status = dispatch(&tool, argc - index, argv + index);
    sandbox_host_unref(tool.host);
    return report_output(&tool, status);
}
