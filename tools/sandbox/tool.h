/* SPDX-License-Identifier: Apache-2.0
 * The `sandbox` command: what its files share. It is written against sandbox.h alone, like any other user of the library;
 * what it can't do through that header, no program can. */
#ifndef TOOL_H
#define TOOL_H

#include <sandbox.h>

#define TOOL_FREE __attribute__((cleanup(tool_cleanup_free)))
#define TOOL_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

/* Exit statuses beside a command's own. */
enum {
    TOOL_EXIT_DEADLINE = 124,
    TOOL_EXIT_FAILED = 125,
    TOOL_EXIT_NOT_EXECUTABLE = 126,
    TOOL_EXIT_NOT_FOUND = 127,
};

struct tool {
    const char *uri;     /* --host or SANDBOX_HOST */
    const char *root;    /* --root or SANDBOX_ROOT; NULL: the library's default */
    const char *command; /* its name, for messages: "image import" */
    int json;
    int help;
    struct sandbox_host *host; /* opened by tool_open_host() */
};

/* All values that options can set; which of them a command takes is said in the table of options.c. */
struct arguments {
    const char *file_system, *owner; /* of a volume */
    int64_t disk_bytes, any_file_system;
    const char *network; /* of a sandbox, or the kind of a network */
    const char **allowed, **dns, **publish;
    const char *image, *name, *user, *workdir, *hostname, *seccomp, *digest, *select, *key;
    const char *only; /* contract */
    const char **secret_patterns;
    int64_t secrets;
    const char **labels, **env, **mounts, **capabilities; /* NULL-terminated */
    int64_t memory_max, swap_max, pids_max, cpu_max, cpu_weight, files_max; /* -1: not said, 0: none */
    const char **io;
    const char *attest; /* exec: a file */
    int64_t timeout_ms, grace_ms, max_bytes, max_entries;
    int64_t signal, format;
    int64_t fuse, read_only, keep, dry_run;
    int64_t until_gone;
    const char *marker;
    int64_t follow, tail, since_ms, until_ms, timestamps, only_stdout, only_stderr; /* times: milliseconds since 1970 */
    int64_t log_max, journal_max, detach;
    int64_t archive; /* cp */
    int64_t pull, plain_http, password_stdin, unnamed, unused; /* images from registries, image gc */
    const char *auth_file, *ca_file, *username;
    int64_t tar;     /* diff */
    const char *health_command;
    int64_t ttl_ms, idle_ms, at_end, end_grace_ms, restart; /* restart: policy, and 256 times the number of retries */
    int64_t health_interval_ms, health_timeout_ms, health_start_period_ms, health_start_interval_ms, health_retries, health;
    int64_t tty, interactive;
    const char *detach_keys; /* NULL: the default */
    int no_detach;           /* the sandbox goes with this process */
    const char **operands; /* NULL-terminated */
    size_t n_operands;
    const char **argv; /* the command to run, NULL-terminated */
    size_t n_argv;
};

enum {
    FOR_RUN = 1u << 0,
    FOR_CREATE = 1u << 1,
    FOR_EXEC = 1u << 2,
    FOR_LS = 1u << 3,
    FOR_STOP = 1u << 4,
    FOR_KILL = 1u << 5,
    FOR_IMPORT = 1u << 6,
    FOR_EVENTS = 1u << 16,
    FOR_LOGS = 1u << 12,
    FOR_WAIT = 1u << 13,
    FOR_ATTACH = 1u << 14,
    FOR_CP = 1u << 8,
    FOR_CONTRACT = 1u << 24,
    FOR_RECONCILE = 1u << 20,
    FOR_VOLUME = 1u << 25,
    FOR_NETWORK = 1u << 26,
    FOR_PULL = 1u << 28,
    FOR_GC = 1u << 29,
    FOR_DIFF = 1u << 27,
    FOR_LIMITS = 1u << 9,
    FOR_STATS = 1u << 10,
    FOR_SHELL = 1u << 30,
    FOR_ALL = ~0u,
};

struct command {
    const char *name;     /* one word or two: "image import" */
    const char *synopsis; /* what follows the name and the options */
    const char *summary;
    unsigned int group; /* FOR_…: which options it takes */
    int min_operands, max_operands;
    int min_argv; /* -1: takes no command line */
    int (*run)(struct tool *tool, const struct arguments *arguments);
};

/* commands; each returns the exit status */
int command_run(struct tool *tool, const struct arguments *arguments);
int command_exec(struct tool *tool, const struct arguments *arguments);
int command_shell(struct tool *tool, const struct arguments *arguments);
int command_create(struct tool *tool, const struct arguments *arguments);
int command_start(struct tool *tool, const struct arguments *arguments);
int command_inspect(struct tool *tool, const struct arguments *arguments);
int command_ls(struct tool *tool, const struct arguments *arguments);
int command_stop(struct tool *tool, const struct arguments *arguments);
int command_kill(struct tool *tool, const struct arguments *arguments);
int command_rm(struct tool *tool, const struct arguments *arguments);
int command_cp(struct tool *tool, const struct arguments *arguments);
int command_pause(struct tool *tool, const struct arguments *arguments);
int command_resume(struct tool *tool, const struct arguments *arguments);
int command_extend(struct tool *tool, const struct arguments *arguments);
int command_dial(struct tool *tool, const struct arguments *arguments);
int command_forward(struct tool *tool, const struct arguments *arguments);
int command_events(struct tool *tool, const struct arguments *arguments);
int command_logs(struct tool *tool, const struct arguments *arguments);
int command_limits(struct tool *tool, const struct arguments *arguments);
int command_stats(struct tool *tool, const struct arguments *arguments);
int command_wait(struct tool *tool, const struct arguments *arguments);
int command_attach(struct tool *tool, const struct arguments *arguments);
int command_diff(struct tool *tool, const struct arguments *arguments);
int command_usage(struct tool *tool, const struct arguments *arguments);
int command_reset(struct tool *tool, const struct arguments *arguments);
int command_image_import(struct tool *tool, const struct arguments *arguments);
int command_image_ls(struct tool *tool, const struct arguments *arguments);
int command_image_inspect(struct tool *tool, const struct arguments *arguments);
int command_image_rm(struct tool *tool, const struct arguments *arguments);
int command_image_pull(struct tool *tool, const struct arguments *arguments);
int command_image_gc(struct tool *tool, const struct arguments *arguments);
int command_volume_create(struct tool *tool, const struct arguments *arguments);
int command_volume_inspect(struct tool *tool, const struct arguments *arguments);
int command_volume_ls(struct tool *tool, const struct arguments *arguments);
int command_volume_rm(struct tool *tool, const struct arguments *arguments);
int command_network_create(struct tool *tool, const struct arguments *arguments);
int command_network_ls(struct tool *tool, const struct arguments *arguments);
int command_network_allow(struct tool *tool, const struct arguments *arguments);
int command_network_rm(struct tool *tool, const struct arguments *arguments);
int command_doctor(struct tool *tool, const struct arguments *arguments);
int command_contract(struct tool *tool, const struct arguments *arguments);
int command_reconcile(struct tool *tool, const struct arguments *arguments);
int command_leaks(struct tool *tool, const struct arguments *arguments);
int command_version(struct tool *tool, const struct arguments *arguments);

/* options.c: reads options and operands of `command`. 0, or an exit status after the message was printed. */
int options_parse(struct tool *tool, const struct command *command, int argc, char **argv, struct arguments *ret);
/* Reads the options that stand before the command's name; *index moves to it. */
int options_parse_global(struct tool *tool, int argc, char **argv, int *index);
void options_print(unsigned int group); /* their help, one a line */
void arguments_clear(struct arguments *arguments);

/* values.c: 0 or -1, *ret set on success only. */
int value_size(const char *text, int64_t *ret);         /* "64M": bytes, K M G T are powers of 1024 */
int value_size_or_none(const char *text, int64_t *ret); /* the same, not 0, or "none": 0; so the next two */
int value_count_or_none(const char *text, int64_t *ret);
int value_cpus_or_none(const char *text, int64_t *ret); /* at least 0.01 */
int value_duration(const char *text, int64_t *ret);     /* "1.5s", "200ms", "2m", "1h", "10" (seconds): milliseconds */
int value_thousandths(const char *text, int64_t *ret);  /* "1.5": 1500 */
int value_secrets(const char *text, int64_t *ret);      /* "ignore warn refuse hide" */
int value_count(const char *text, int64_t *ret);        /* decimal digits */
int value_moment(const char *text, int64_t *ret);       /* "10m": so long ago, "2026-11-30T21:00:00Z": milliseconds since 1970 */
int value_signal(const char *text, int64_t *ret);       /* "TERM", "SIGTERM", "15" */
int value_pull(const char *text, int64_t *ret);         /* enum pull_when: "missing always never" */
int value_end(const char *text, int64_t *ret);          /* "stop delete" */
int value_restart(const char *text, int64_t *ret);      /* "no on-failure[:COUNT] always unless-stopped" */
int value_image_format(const char *text, int64_t *ret); /* "auto folder tar oci docker" */

/* pull.c: the image that was asked for, when that is in a registry and --pull, or "docker://", says so. 0, or the exit status. */
enum pull_when { PULL_UNSAID, PULL_MISSING, PULL_ALWAYS, PULL_NEVER };
struct signals;
int pull_image(struct tool *tool, const struct arguments *arguments, struct signals *signals);

/* spec.c: a spec from --image, --mount and so on, without --env. `lifetime` is enum sandbox_lifetime. */
int spec_from_arguments(struct tool *tool, const struct arguments *arguments, int lifetime, struct sandbox_spec **ret_spec);
/* Puts --env into a spec, and so into the sandbox's record on disk. */
int spec_add_environment(struct tool *tool, struct sandbox_spec *spec, const struct arguments *arguments);
/* The --env options as NAME=VALUE, malloc'ed, NULL-terminated; --env NAME takes its value from this process. */
int spec_environment(struct tool *tool, const struct arguments *arguments, char ***ret_env);
void spec_environment_free(char **env);

/* network.c: --network, --allow, --dns, --publish. */
int spec_set_network(struct sandbox_spec *spec, const struct arguments *arguments, struct sandbox_error **error);

/* limits.c: limits from --memory and so on, with what they point to. 0, or an exit status after the message; limits_clear() in any case. */
#define LIMITS_IO_MAX 8
struct limits {
    struct sandbox_limits limits;
    int any; /* something was said */
    struct sandbox_io_limit io[LIMITS_IO_MAX];
    const struct sandbox_io_limit *list[LIMITS_IO_MAX + 1];
    char *texts[LIMITS_IO_MAX];
};
int limits_take(struct tool *tool, const struct arguments *arguments, struct limits *ret);
void limits_clear(struct limits *limits);

/* life.c */
int spec_set_life(struct sandbox_spec *spec, const struct arguments *arguments, struct sandbox_error **error);
int wait_for_health(struct tool *tool, struct sandbox *sandbox, int64_t timeout_ms); /* an exit status: 1 when it is unhealthy */
const char *text_health(int health);

/* sandbox-cmds.c: does one thing to each sandbox that is named; one that fails doesn't keep the others from it. */
int for_each_sandbox(struct tool *tool, const struct arguments *arguments,
                     int (*act)(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments,
                                struct sandbox_error **error));

/* host.c */
int tool_open_host(struct tool *tool);
/* A handle for an id, a unique prefix of one (at least 4 digits) or a name. */
int tool_open_sandbox(struct tool *tool, const char *what, struct sandbox **ret_sandbox);

/* signals.c: SIGINT, SIGTERM, SIGHUP and SIGQUIT as a descriptor; nothing is done in a handler. */
struct signals {
    int fd;   /* polls readable when one came */
    int last; /* the last one read, 0: none yet */
};
int signals_open(struct tool *tool, struct signals *ret);
int signals_read(struct signals *signals); /* the signal, or 0 when none is there */
void signals_close(struct signals *signals);

/* op.c: drives an operation to its end with a progress line on a terminal, and unrefs it. A signal cancels it, unless signals is
 * NULL. Returns the operation's result; the error is the caller's. */
int op_finish(struct tool *tool, struct sandbox_op *op, struct signals *signals, struct sandbox_error **error);
/* The same, but keeps the operation for its results. */
int op_drive(struct tool *tool, struct sandbox_op *op, struct signals *signals, struct sandbox_error **error);

/* run.c: a new sandbox by the options, for as long as attend() takes; --keep leaves it. */
typedef int attend_fn(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments, char **env, struct signals *signals);
int run_in_new(struct tool *tool, const struct arguments *arguments, attend_fn *attend);
int run_in_old(struct tool *tool, const struct arguments *arguments, attend_fn *attend); /* in the one that operands[0] names */

/* attend.c: runs a command with this process's own stdin, stdout and stderr, forwards signals; returns the exit status. */
int attend_exec(struct tool *tool, struct sandbox *sandbox, const struct arguments *arguments, char **env, struct signals *signals);
/* Whether what --tty, --interactive and --detach-keys ask for can be had here; before anything is made. */
int attend_check(struct tool *tool, const struct arguments *arguments);
/* Goes back to the terminal of a command that was left alone. */
int attend_again(struct tool *tool, struct sandbox *sandbox, struct sandbox_exec *exec, const struct arguments *arguments);
/* The exit status that stands for the way a command ended, with a message where a number says too little. */
int attend_status(struct tool *tool, const struct sandbox_exec_result *result);

/* report.c: messages on stderr, JSON with --json. Both return TOOL_EXIT_FAILED. */
int report_error(struct tool *tool, struct sandbox_error *error); /* takes the reference */
int report(struct tool *tool, int code, const char *field, const char *hint, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Exit status after output on stdout: an error when it could not be written. */
int report_output(struct tool *tool, int status);
/* Prints text for people: control characters, which could drive a terminal, become '?'. */
void print_safe(const char *text);

/* json.c: a document of the library, for people. */
void json_print_text(const char *json);
/* {"ids": […]} or the like on stdout. */
void json_print_strings(const char *key, const char *const *values, size_t n_values);

/* table.c: columns aligned to their widest cell. */
struct table;
struct table *table_new(const char *const *titles, size_t n_columns);
void table_add(struct table *table, size_t column, const char *text); /* the last column ends the row */
void table_print(const struct table *table);
struct table *table_free(struct table *table);

/* text.c */
void tool_cleanup_free(void *p);
/* calloc and strdup that end the process (status 125) when memory is short: nothing else could be done about it. */
void *tool_allocate(size_t count, size_t size);
char *tool_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Writes all of it: 0 or -errno. */
int write_whole(int fd, const char *data, size_t size);
/* "3 minutes ago" for a time in milliseconds since 1970; buffer of 32. */
const char *text_age(int64_t created_ms, char *buffer, size_t size);
const char *text_bytes(int64_t bytes, char *buffer, size_t size);
const char *text_state(int state);

#endif
