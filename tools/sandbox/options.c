/* SPDX-License-Identifier: Apache-2.0
 * Options as one table: which command takes them, what kind of value they have and where it goes. --help is printed from the
 * same rows, so that it can't tell of an option that isn't there. */
#include "tool.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, TEXT, LIST, NUMBER, GLOBAL_TEXT, GLOBAL_FLAG };

struct option {
    const char *name;
    const char *value; /* what --help calls it; NULL: takes none */
    enum kind kind;
    size_t offset; /* in struct arguments; GLOBAL_…: in struct tool */
    int (*parse)(const char *text, int64_t *ret);
    int64_t min;
    const char *form; /* how a number is written, for messages */
    unsigned int groups;
    const char *help;
};

/* What takes limits. */
#define FOR_LIMITED (FOR_RUN | FOR_CREATE | FOR_EXEC | FOR_LIMITS)
#define AT(member) offsetof(struct arguments, member)

static const struct option options[] = {
    { "image", "IMAGE", TEXT, AT(image), NULL, 0, NULL, FOR_RUN | FOR_CREATE, "image name, sha256:DIGEST, or HOST/PATH:TAG of a registry (default: host)" },
    { "pull", "WHEN", NUMBER, AT(pull), value_pull, 1, "missing, always or never", FOR_RUN | FOR_CREATE,
      "an image from a registry: missing, always or never (default: never; missing for docker://…)" },
    { "authfile", "FILE", TEXT, AT(auth_file), NULL, 0, NULL, FOR_RUN | FOR_CREATE | FOR_PULL,
      "credentials for registries (default: Docker's config.json, else Podman's)" },
    { "ca", "FILE", TEXT, AT(ca_file), NULL, 0, NULL, FOR_RUN | FOR_CREATE | FOR_PULL, "certificates to trust instead of the system's, for the registry" },
    { "plain-http", NULL, FLAG, AT(plain_http), NULL, 0, NULL, FOR_RUN | FOR_CREATE | FOR_PULL, "the registry speaks no TLS" },
    { "username", "NAME", TEXT, AT(username), NULL, 0, NULL, FOR_PULL, "user at the registry, with --password-stdin" },
    { "password-stdin", NULL, FLAG, AT(password_stdin), NULL, 0, NULL, FOR_PULL, "password, or a token without --username, from stdin" },
    { "unnamed", NULL, FLAG, AT(unnamed), NULL, 0, NULL, FOR_GC, "images, too, that have no name and no sandbox" },
    { "unused", NULL, FLAG, AT(unused), NULL, 0, NULL, FOR_GC, "all images on which no sandbox stands" },
    { "name", "NAME", TEXT, AT(name), NULL, 0, NULL, FOR_RUN | FOR_CREATE, "unique name of the sandbox" },
    { "name", "PREFIX", TEXT, AT(name), NULL, 0, NULL, FOR_LS, "only names that begin so" },
    { "name", "NAME", TEXT, AT(name), NULL, 0, NULL, FOR_IMPORT | FOR_PULL, "name for the image; an older holder loses it" },
    { "label", "KEY=VALUE", LIST, AT(labels), NULL, 0, NULL, FOR_RUN | FOR_CREATE, "label; may be repeated" },
    { "label", "KEY[=VALUE]", LIST, AT(labels), NULL, 0, NULL, FOR_LS | FOR_EVENTS, "only sandboxes with this label" },
    { "until-gone", NULL, FLAG, AT(until_gone), NULL, 0, NULL, FOR_EVENTS, "end when the sandbox was deleted" },
    { "user", "USER[:GROUP]", TEXT, AT(user), NULL, 0, NULL, FOR_RUN | FOR_CREATE | FOR_EXEC,
      "numbers, or names of the image (default: the image's, else 0:0)" },
    { "env", "NAME[=VALUE]", LIST, AT(env), NULL, 0, NULL, FOR_RUN | FOR_CREATE | FOR_EXEC,
      "environment; without =VALUE it is taken from here" },
    { "workdir", "FOLDER", TEXT, AT(workdir), NULL, 0, NULL, FOR_RUN | FOR_CREATE | FOR_EXEC, "folder to start in" },
    { "idempotency-key", "KEY", TEXT, AT(key), NULL, 0, NULL, FOR_CREATE, "a repeated create with this key gives the same sandbox" },
    { "hostname", "NAME", TEXT, AT(hostname), NULL, 0, NULL, FOR_RUN | FOR_CREATE, "host name inside" },
    { "seccomp", "PROFILE", TEXT, AT(seccomp), NULL, 0, NULL, FOR_RUN | FOR_CREATE, "system calls: strict, default, devel, or a file in Docker's form" },
    { "memory", "SIZE", NUMBER, AT(memory_max), value_size_or_none, 0, "bytes, or a number with K, M, G or T; none", FOR_LIMITED,
      "memory limit, such as 256M" },
    { "swap", "SIZE", NUMBER, AT(swap_max), value_size_or_none, 0, "bytes, or a number with K, M, G or T; none", FOR_LIMITED,
      "swap beside the memory limit (default: none)" },
    { "pids", "COUNT", NUMBER, AT(pids_max), value_count_or_none, 0, "a whole number, or none", FOR_LIMITED,
      "most processes and threads (default: 4096)" },
    { "cpus", "NUMBER", NUMBER, AT(cpu_max), value_cpus_or_none, 0, "a number of CPUs, at least 0.01; none", FOR_LIMITED,
      "CPU limit, such as 1.5" },
    { "cpu-weight", "NUMBER", NUMBER, AT(cpu_weight), value_count_or_none, 0, "1 to 10000, or none", FOR_LIMITED,
      "share of CPUs that others want, too (default: 100)" },
    { "files", "COUNT", NUMBER, AT(files_max), value_count_or_none, 0, "a whole number, or none", FOR_LIMITED,
      "descriptors each process may have open" },
    { "attest", "FILE", TEXT, AT(attest), NULL, 0, NULL, FOR_EXEC, "write to a file, as JSON, what the command was when it began" },
    { "io", "SPEC", LIST, AT(io), NULL, 0, NULL, FOR_LIMITED,
      "device=D[,rbps=SIZE][,wbps=SIZE][,riops=COUNT][,wiops=COUNT]; D: MAJOR:MINOR, a node or a path" },
    { "timeout", "TIME", NUMBER, AT(timeout_ms), value_duration, 1, "a number with ms, s, m or h; seconds without",
      FOR_RUN | FOR_EXEC, "kill the command and its descendants after this time; status 124" },
    { "mount", "SPEC", LIST, AT(mounts), NULL, 0, NULL, FOR_RUN | FOR_CREATE,
      "type=bind|overlay|volume|tmpfs[,source=S],target=T[,ro][,owner=UID:GID][,size=SIZE]" },
    { "network", "NETWORK", TEXT, AT(network), NULL, 0, NULL, FOR_RUN | FOR_CREATE,
      "none (default), nat, proxy, host, or the name of one that was made" },
    { "allow", "HOST[:PORT]", LIST, AT(allowed), NULL, 0, NULL, FOR_RUN | FOR_CREATE | FOR_NETWORK,
      "let the proxy through to it, *.HOST to all below it; may be repeated" },
    { "dns", "ADDRESS[:PORT]", LIST, AT(dns), NULL, 0, NULL, FOR_RUN | FOR_CREATE | FOR_NETWORK, "DNS server of nat and proxy (default: the host's)" },
    { "publish", "[LOCAL:]PORT", LIST, AT(publish), NULL, 0, NULL, FOR_RUN | FOR_CREATE, "the sandbox's port on 127.0.0.1, by any port or LOCAL" },
    { "kind", "KIND", TEXT, AT(network), NULL, 0, NULL, FOR_NETWORK, "none (default), nat or proxy" },
    { "secrets", "MODE", NUMBER, AT(secrets), value_secrets, 0, "ignore, warn, refuse or hide", FOR_RUN | FOR_CREATE,
      "names of secrets in mounted folders: ignore, warn, refuse or hide" },
    { "secret", "PATTERN", LIST, AT(secret_patterns), NULL, 0, NULL, FOR_RUN | FOR_CREATE, "such a name, or !PATTERN: none" },
    { "cap", "NAME", LIST, AT(capabilities), NULL, 0, NULL, FOR_CREATE, "capability for the daemon, such as SYS_ADMIN" },
    { "fuse", NULL, FLAG, AT(fuse), NULL, 0, NULL, FOR_RUN | FOR_CREATE, "a /dev/fuse of its own" },
    { "read-only", NULL, FLAG, AT(read_only), NULL, 0, NULL, FOR_RUN | FOR_CREATE, "root file system read-only" },
    { "dry-run", NULL, FLAG, AT(dry_run), NULL, 0, NULL, FOR_RECONCILE, "only tell" },
    { "keep", NULL, FLAG, AT(keep), NULL, 0, NULL, FOR_RUN, "leave the sandbox running when the command has ended" },
    { "grace", "TIME", NUMBER, AT(grace_ms), value_duration, 0, "a number with ms, s, m or h; seconds without", FOR_STOP,
      "time between SIGTERM and SIGKILL (default: 10s)" },
    { "signal", "SIGNAL", NUMBER, AT(signal), value_signal, 1, "a name or a number from 1 to 64", FOR_KILL,
      "signal for the daemon (default: KILL)" },
    { "format", "FORMAT", NUMBER, AT(format), value_image_format, 0, "auto, folder, tar, oci or docker", FOR_IMPORT,
      "auto, folder, tar, oci or docker (default: auto)" },
    { "digest", "DIGEST", TEXT, AT(digest), NULL, 0, NULL, FOR_IMPORT | FOR_PULL, "sha256:… it must have, of manifest or config" },
    { "select", "NAME", TEXT, AT(select), NULL, 0, NULL, FOR_IMPORT, "which image of a source that holds several" },
    { "max-size", "SIZE", NUMBER, AT(max_bytes), value_size, 1, "bytes, or a number with K, M, G or T", FOR_IMPORT | FOR_PULL,
      "most bytes when unpacked (default: 64G)" },
    { "max-entries", "COUNT", NUMBER, AT(max_entries), value_count, 1, "a whole number", FOR_IMPORT | FOR_PULL,
      "most files in it (default: 4000000)" },
    { "interactive", NULL, FLAG, AT(interactive), NULL, 0, NULL, FOR_RUN | FOR_EXEC | FOR_ATTACH, "with --tty: type into it; also -i (-it for both)" },
    { "tty", NULL, FLAG, AT(tty), NULL, 0, NULL, FOR_RUN | FOR_EXEC | FOR_ATTACH, "a terminal inside for the command; also -t" },
    { "detach-keys", "KEYS", TEXT, AT(detach_keys), NULL, 0, NULL, FOR_RUN | FOR_EXEC | FOR_ATTACH,
      "keys that leave a terminal (default: ctrl-p,ctrl-q; of run with --keep alone)" },
    { "detach", NULL, FLAG, AT(detach), NULL, 0, NULL, FOR_EXEC, "print the command's id, and don't wait for it" },
    { "journal", "SIZE", NUMBER, AT(journal_max), value_size, 8192, "bytes, 8K to 1G", FOR_EXEC,
      "with --detach: keep so much of its output, for sandbox attach" },
    { "log-max", "SIZE", NUMBER, AT(log_max), value_size, 8192, "bytes, 8K or more", FOR_CREATE,
      "how much of the daemon's output is kept (default: 16M)" },
    { "tar", NULL, FLAG, AT(tar), NULL, 0, NULL, FOR_DIFF, "what was written, as a tar on stdout (.wh.NAME: removed)" },
    { "ttl", "TIME", NUMBER, AT(ttl_ms), value_duration, 100, "a number with ms, s, m or h; seconds without", FOR_RUN | FOR_CREATE,
      "stop the sandbox so long after its create" },
    { "idle", "TIME", NUMBER, AT(idle_ms), value_duration, 100, "a number with ms, s, m or h; seconds without", FOR_RUN | FOR_CREATE,
      "stop it when for so long no command, file call or connection was" },
    { "at-end", "WHAT", NUMBER, AT(at_end), value_end, 0, "stop or delete", FOR_RUN | FOR_CREATE,
      "after --ttl and --idle: stop (default) or delete" },
    { "end-grace", "TIME", NUMBER, AT(end_grace_ms), value_duration, 0, "a number with ms, s, m or h; seconds without", FOR_RUN | FOR_CREATE,
      "time between SIGTERM and SIGKILL then (default: 10s)" },
    { "restart", "POLICY", NUMBER, AT(restart), value_restart, 0, "no, on-failure[:COUNT], always or unless-stopped", FOR_CREATE,
      "start the daemon again: no, on-failure[:COUNT], always or unless-stopped" },
    { "health-cmd", "COMMAND", TEXT, AT(health_command), NULL, 0, NULL, FOR_RUN | FOR_CREATE,
      "a line for sh that says by its status whether all is well" },
    { "health-interval", "TIME", NUMBER, AT(health_interval_ms), value_duration, 10,
      "a number with ms, s, m or h; seconds without", FOR_RUN | FOR_CREATE,
      "time between two of them (default: 30s)" },
    { "health-timeout", "TIME", NUMBER, AT(health_timeout_ms), value_duration, 10,
      "a number with ms, s, m or h; seconds without", FOR_RUN | FOR_CREATE,
      "one that takes longer has failed (default: 30s)" },
    { "health-start-period", "TIME", NUMBER, AT(health_start_period_ms), value_duration, 1,
      "a number with ms, s, m or h; seconds without", FOR_RUN | FOR_CREATE,
      "failures don't count for so long after a start" },
    { "health-start-interval", "TIME", NUMBER, AT(health_start_interval_ms), value_duration, 10,
      "a number with ms, s, m or h; seconds without", FOR_RUN | FOR_CREATE,
      "the interval within that (default: 5s)" },
    { "health-retries", "COUNT", NUMBER, AT(health_retries), value_count, 1, "a whole number", FOR_RUN | FOR_CREATE,
      "so many failures make it unhealthy (default: 3)" },
    { "health", NULL, FLAG, AT(health), NULL, 0, NULL, FOR_WAIT, "wait until its health is known; status 1 when unhealthy" },
    { "archive", NULL, FLAG, AT(archive), NULL, 0, NULL, FOR_CP, "keep owners, as numbers; also -a" },
    { "follow", NULL, FLAG, AT(follow), NULL, 0, NULL, FOR_LOGS | FOR_STATS, "go on with what comes, to the daemon's end; also -f" },
    { "tail", "COUNT", NUMBER, AT(tail), value_count, 0, "a whole number", FOR_LOGS, "begin so many lines before the end" },
    { "since", "TIME", NUMBER, AT(since_ms), value_moment, 1, "10m (ago) or 2026-11-30T21:00:00Z", FOR_LOGS, "only what came then or later" },
    { "until", "TIME", NUMBER, AT(until_ms), value_moment, 1, "10m (ago) or 2026-11-30T21:00:00Z", FOR_LOGS, "only what came before" },
    { "timestamps", NULL, FLAG, AT(timestamps), NULL, 0, NULL, FOR_LOGS | FOR_ATTACH, "when each line came, in front of it" },
    { "stdout", NULL, FLAG, AT(only_stdout), NULL, 0, NULL, FOR_LOGS | FOR_WAIT, "only what it wrote to stdout" },
    { "stderr", NULL, FLAG, AT(only_stderr), NULL, 0, NULL, FOR_LOGS | FOR_WAIT, "only what it wrote to stderr" },
    { "log", "MARKER", TEXT, AT(marker), NULL, 0, NULL, FOR_WAIT, "wait until the daemon's output contains this" },
    { "timeout", "TIME", NUMBER, AT(timeout_ms), value_duration, 1, "a number with ms, s, m or h; seconds without", FOR_WAIT,
      "wait no longer; status 124" },
    { "only", "ROWS", TEXT, AT(only), NULL, 0, NULL, FOR_CONTRACT, "only rows that begin so, such as B3,F20" },
    { "image", "IMAGE", TEXT, AT(image), NULL, 0, NULL, FOR_CONTRACT, "image of the sandboxes, with a shell (default: host)" },
    { "disk", "SIZE", NUMBER, AT(disk_bytes), value_size, 1, "bytes, or a number with K, M, G or T", FOR_VOLUME,
      "a disk image of this size instead of a folder (root only)" },
    { "fs", "TYPE", TEXT, AT(file_system), NULL, 0, NULL, FOR_VOLUME, "of the disk: ext4, xfs or btrfs (default: ext4)" },
    { "owner", "UID:GID", TEXT, AT(owner), NULL, 0, NULL, FOR_VOLUME, "ids on the host that are 0:0 inside" },
    { "any-fs", NULL, FLAG, AT(any_file_system), NULL, 0, NULL, FOR_VOLUME, "also where the state root is not on ext4, xfs or btrfs" },
    { "host", "URI", GLOBAL_TEXT, offsetof(struct tool, uri), NULL, 0, NULL, FOR_ALL, "where sandboxes live (default: local:)" },
    { "root", "FOLDER", GLOBAL_TEXT, offsetof(struct tool, root), NULL, 0, NULL, FOR_ALL, "where local state is kept" },
    { "json", NULL, GLOBAL_FLAG, offsetof(struct tool, json), NULL, 0, NULL, FOR_ALL, "output and errors as JSON" },
    { "help", NULL, GLOBAL_FLAG, offsetof(struct tool, help), NULL, 0, NULL, FOR_ALL, "print this" },
};

void options_print(unsigned int group)
{
    for (size_t i = 0; i < TOOL_ELEMENTS(options); i++) {
        const struct option *o = &options[i];
        char left[64];

        if (!(group ? o->groups & group : o->groups == FOR_ALL))
            continue;
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
        printf("  %-24s %s\n", left, o->help);
    }
}

/* An option's row by the text after "--", up to '='. */
static const struct option *find(const char *text, unsigned int group)
{
    size_t length = strcspn(text, "=");

    for (size_t i = 0; i < TOOL_ELEMENTS(options); i++) {
        const struct option *o = &options[i];

        if ((group ? o->groups & group : o->groups == FOR_ALL) && strlen(o->name) == length && memcmp(o->name, text, length) == 0)
            return o;
    }
    return NULL;
}

static int fail_usage(struct tool *tool, const char *field, const char *problem, const char *what)
{
    char hint[128];

    snprintf(hint, sizeof hint, "see: sandbox %s%s--help", tool->command ? tool->command : "", tool->command ? " " : "");
    return report(tool, SANDBOX_EINVALID, field, hint, "%s: %s", what, problem);
}

static int store(struct tool *tool, struct arguments *arguments, const struct option *o, const char *value)
{
    char *base = o->kind >= GLOBAL_TEXT ? (char *)tool : (char *)arguments;
    void *place = base + o->offset;
    const char **list;
    int64_t number;

    switch (o->kind) {
    case FLAG:
        *(int64_t *)place = 1;
        return 0;
    case GLOBAL_FLAG:
        *(int *)place = 1;
        return 0;
    case LIST:
        for (list = *(const char ***)place; *list; list++)
            ;
        *list = value;
        return 0;
    case NUMBER:
        if (o->parse(value, &number) || number < o->min) {
            char problem[128];

            snprintf(problem, sizeof problem, "not understood: \"%.40s\"; wanted: %s", value, o->form);
            return fail_usage(tool, o->name, problem, o->name);
        }
        *(int64_t *)place = number;
        return 0;
    default:
        *(const char **)place = value;
        return 0;
    }
}

/* One letter or several: "-it". All of them are flags. */
static int parse_letters(struct tool *tool, struct arguments *arguments, unsigned int group, const char *word)
{
    static const struct {
        char letter;
        const char *name;
    } letters[] = { { 'h', "help" }, { 'f', "follow" }, { 'a', "archive" }, { 'i', "interactive" }, { 't', "tty" } };

    for (const char *at = word + 1; *at; at++) {
        const struct option *o = NULL;

        for (size_t i = 0; i < TOOL_ELEMENTS(letters) && !o; i++)
            if (letters[i].letter == *at)
                o = find(letters[i].name, group);
        if (!o)
            return fail_usage(tool, "options", "no such option", word);
        store(tool, arguments, o, NULL);
    }
    return 0;
}

/* Reads the option at argv[*index], with its value; *index moves past it. */
static int parse_option(struct tool *tool, struct arguments *arguments, unsigned int group, int argc, char **argv, int *index)
{
    const char *word = argv[*index], *text = word + 2;
    const struct option *o = word[1] == '-' ? find(text, group) : NULL;
    const char *equals = o ? strchr(text, '=') : NULL;

    if (word[1] != '-') {
        ++*index;
        return parse_letters(tool, arguments, group, word);
    }
    if (!o)
        return fail_usage(tool, "options", "no such option", argv[*index]);
    ++*index;
    if (!o->value)
        return equals ? fail_usage(tool, o->name, "takes no value", o->name) : store(tool, arguments, o, NULL);
    if (equals)
        return store(tool, arguments, o, equals + 1);
    if (*index >= argc)
        return fail_usage(tool, o->name, "needs a value", o->name);
    return store(tool, arguments, o, argv[(*index)++]);
}

static int is_option(const char *text)
{
    return text[0] == '-' && text[1] != 0;
}

int options_parse_global(struct tool *tool, int argc, char **argv, int *index)
{
    while (*index < argc && is_option(argv[*index])) {
        int status = parse_option(tool, NULL, 0, argc, argv, index);

        if (status)
            return status;
    }
    return 0;
}

static int fail_too_few(struct tool *tool, const struct command *command, const char *field, const char *problem)
{
    char hint[128];

    snprintf(hint, sizeof hint, "usage: sandbox %s %s", command->name, command->synopsis);
    return report(tool, SANDBOX_EINVALID, field, hint, "%s", problem);
}

static int check_counts(struct tool *tool, const struct command *command, const struct arguments *a)
{
    if (a->n_operands < (size_t)command->min_operands)
        return fail_too_few(tool, command, "operands", "too few arguments");
    if (command->max_operands >= 0 && a->n_operands > (size_t)command->max_operands)
        return fail_usage(tool, "operands", "one argument too many", a->operands[command->max_operands]);
    if (command->min_argv > 0 && a->n_argv < (size_t)command->min_argv)
        return fail_too_few(tool, command, "argv", "no command was given");
    return 0;
}

int options_parse(struct tool *tool, const struct command *command, int argc, char **argv, struct arguments *ret)
{
    struct arguments a = { .grace_ms = 10000, .signal = 9, .tail = -1, .end_grace_ms = -1,
                           .memory_max = -1, .swap_max = -1, .pids_max = -1, .cpu_max = -1, .cpu_weight = -1, .files_max = -1 };
    const char ***const lists[] = { &a.labels, &a.env, &a.mounts, &a.capabilities, &a.io, &a.secret_patterns, &a.allowed, &a.dns, &a.publish,
                                       &a.operands, &a.argv };
    int i = 0, status = 0;

    for (size_t l = 0; l < TOOL_ELEMENTS(lists); l++)
        *lists[l] = tool_allocate((size_t)argc + 1, sizeof **lists[l]);
    while (i < argc && status == 0) {
        if (strcmp(argv[i], "--") == 0) {
            for (i++; i < argc; i++)
                if (command->min_argv >= 0)
                    a.argv[a.n_argv++] = argv[i];
                else
                    a.operands[a.n_operands++] = argv[i];
        } else if (is_option(argv[i])) {
            status = parse_option(tool, &a, command->group, argc, argv, &i);
        } else if (command->min_argv >= 0 && a.n_operands == (size_t)command->max_operands) {
            for (; i < argc; i++) /* the command begins here, without "--" */
                a.argv[a.n_argv++] = argv[i];
        } else {
            a.operands[a.n_operands++] = argv[i++];
        }
    }
    if (!status && !tool->help)
        status = check_counts(tool, command, &a);
    if (status) {
        arguments_clear(&a);
        return status;
    }
    *ret = a;
    return 0;
}

void arguments_clear(struct arguments *arguments)
{
    free(arguments->labels);
    free(arguments->env);
    free(arguments->mounts);
    free(arguments->capabilities);
    free(arguments->io);
    free(arguments->secret_patterns);
    free(arguments->allowed);
    free(arguments->dns);
    free(arguments->publish);
    free(arguments->operands);
    free(arguments->argv);
    *arguments = (struct arguments){ 0 };
}
