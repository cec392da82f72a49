/* SPDX-License-Identifier: Apache-2.0
 * shell: a person's way in. Which shell it is says the image's own passwd, looked at inside; what stands there is a stranger's, so it is
 * only ever a path to execute in the sandbox. */
#include "tool.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PASSWD_MAX = 1 << 20, FILE_MS = 10000 };

struct person {
    char *shell, *home; /* malloc'ed; NULL: not said */
};

/* The field of a line of passwd; NULL: there are fewer. */
static char *field(const char *line, int number)
{
    for (; number > 0; number--) {
        line += strcspn(line, ":\n");
        if (*line++ != ':')
            return NULL;
    }
    return tool_format("%.*s", (int)strcspn(line, ":\n"), line);
}

static void find_person(const char *passwd, const char *user, struct person *ret)
{
    size_t length = strcspn(user, ":");

    for (const char *line = passwd; *line;) {
        TOOL_FREE char *name = field(line, 0), *uid = field(line, 2);

        if ((name && strlen(name) == length && !strncmp(name, user, length)) || (uid && strlen(uid) == length && !strncmp(uid, user, length))) {
            ret->home = field(line, 5);
            ret->shell = field(line, 6);
            return;
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
}

/* Who commands run as: as asked, or the spec's, or the image's. malloc'ed. */
static char *whose(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments)
{
    struct sandbox_image *image = NULL;
    struct sandbox_info *info = NULL;
    const char *user = arguments->user;
    json_t *document = NULL, *config = NULL;
    char *copy;

    if (!user && sandbox_inspect(sandbox, &info, NULL) == 0) {
        document = json_loads(sandbox_info_get_json(info), 0, NULL);
        user = json_string_value(json_object_get(json_object_get(document, "spec"), "user"));
        if ((!user || !*user) && sandbox_image_open(tool->host, sandbox_info_get_image(info), &image, NULL) == 0) {
            config = json_loads(sandbox_image_get_json(image), 0, NULL);
            user = json_string_value(json_object_get(json_object_get(config, "config"), "User"));
        }
    }
    copy = tool_format("%s", user && *user ? user : "0");
    json_decref(config);
    json_decref(document);
    sandbox_image_unref(image);
    sandbox_info_unref(info);
    return copy;
}

static int can_run(struct sandbox *sandbox, const char *path)
{
    struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;

    return path && path[0] == '/' && sandbox_file_stat(sandbox, path, SANDBOX_FILE_FOLLOW, FILE_MS, &info, NULL) == 0 &&
           info.type == SANDBOX_FILE_REGULAR && (info.mode & 0111);
}

static int no_login(const char *shell)
{
    const char *name = strrchr(shell, '/');

    return name && (!strcmp(name, "/nologin") || !strcmp(name, "/false") || !strcmp(name, "/true") || !strcmp(name, "/sync"));
}

static const char *choose(struct sandbox *sandbox, const struct person *person)
{
    /* /bin/sh is what stands there when nobody chose one */
    if (person->shell && *person->shell && strcmp(person->shell, "/bin/sh") && !no_login(person->shell) && can_run(sandbox, person->shell))
        return person->shell;
    return can_run(sandbox, "/bin/bash") ? "/bin/bash" : "/bin/sh";
}

/* UTF-8 where the caller has it: C.UTF-8 is what an image has without packages of languages. */
static const char *language(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

    for (size_t i = 0; i < TOOL_ELEMENTS(names); i++) {
        const char *value = getenv(names[i]);

        if (value && *value)
            return strcasestr(value, "UTF-8") || strcasestr(value, "UTF8") ? "C.UTF-8" : "C";
    }
    return "C";
}

/* What a shell needs to be pleasant, but for what --env says. A list of its own, whose strings are `env`'s or in `texts`. */
static char **complete(char **env, char *const texts[], size_t n_texts)
{
    char **whole;
    size_t n = 0, all;

    while (env[n])
        n++;
    whole = tool_allocate(n + n_texts + 1, sizeof *whole);
    for (all = 0; all < n; all++)
        whole[all] = env[all];
    for (size_t t = 0; t < n_texts; t++) {
        int said = 0;

        for (size_t i = 0; i < n; i++)
            said |= !strncmp(env[i], texts[t], strcspn(texts[t], "=") + 1);
        if (!said)
            whole[all++] = texts[t];
    }
    return whole;
}

static int attend_shell(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments, char **env, struct signals *signals)
{
    TOOL_FREE char *user = whose(tool, sandbox, arguments);
    struct arguments own = *arguments;
    struct person person = { 0 };
    const char *argv[2] = { NULL };
    char *passwd = NULL, *texts[4];
    char **whole;
    size_t size;
    int status;

    if (sandbox_file_read(sandbox, "/etc/passwd", 0, PASSWD_MAX, FILE_MS, &passwd, &size, NULL) == 0)
        find_person(passwd, user, &person);
    argv[0] = choose(sandbox, &person);
    texts[0] = tool_format("LANG=%s", language());
    texts[1] = tool_format("SHELL=%s", argv[0]);
    texts[2] = tool_format("PS1=%s", strstr(argv[0], "bash") ? "\\u@\\h:\\w\\$ " : "$PWD $ "); /* plain sh expands what begins with $ */
    texts[3] = tool_format("HOME=%s", person.home ? person.home : "");
    whole = complete(env, texts, person.home && person.home[0] == '/' ? 4 : 3);
    own.tty = own.interactive = 1;
    if (!own.n_argv) {
        own.argv = argv;
        own.n_argv = 1;
    }
    status = attend_exec(tool, sandbox, &own, whole, signals);
    free(whole);
    for (size_t i = 0; i < TOOL_ELEMENTS(texts); i++)
        free(texts[i]);
    free(person.shell);
    free(person.home);
    sandbox_buffer_free(passwd);
    return status;
}

int command_shell(struct tool *tool, const struct arguments *arguments)
{
    struct arguments own = *arguments;
    int for_new = arguments->image || arguments->name || arguments->hostname || arguments->mounts[0] || arguments->labels[0] ||
                  arguments->memory_max >= 0 || arguments->pids_max >= 0 || arguments->cpu_max >= 0 || arguments->fuse ||
                  arguments->read_only || arguments->keep;

    if (!isatty(STDIN_FILENO))
        return report(tool, SANDBOX_EINVALID, "stdin", "without one: sandbox run -- COMMAND, or sandbox exec SANDBOX COMMAND",
                      "a shell is for a terminal, and stdin is none");
    if (arguments->n_operands && for_new)
        return report(tool, SANDBOX_EINVALID, "options", "leave them away, or the sandbox's name",
                      "options that make a sandbox don't go with one that is there");
    if (arguments->n_operands)
        return run_in_old(tool, arguments, attend_shell);
    own.no_detach = !arguments->keep;
    if (own.no_detach && own.detach_keys)
        return report(tool, SANDBOX_EINVALID, "detach-keys", "add --keep", "the sandbox of a shell without --keep ends with it");
    return run_in_new(tool, &own, attend_shell);
}
