/* SPDX-License-Identifier: Apache-2.0
 * A host that breaks its promises, to show that the suite sees it: the same program, with calls of the library replaced at link time
 * (ld --wrap). CONTRACT_FAULTS names what is broken, separated by commas; faults.txt says which rows must fail by it. */
#include <sandbox.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRAP(type, name, ...)                                                                                                    \
    type __real_##name(__VA_ARGS__);                                                                                             \
    type __wrap_##name(__VA_ARGS__);                                                                                             \
    type __wrap_##name(__VA_ARGS__)

static int is_broken(const char *what)
{
    const char *faults = getenv("CONTRACT_FAULTS");

    for (const char *at = faults; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strcspn(at, ",") == strlen(what) && !strncmp(at, what, strlen(what)))
            return 1;
    return 0;
}

/* What ended otherwise is told as a success. */
static void falsify(struct sandbox_exec_result *result)
{
    if (result && result->kind != SANDBOX_EXEC_EXITED && is_broken("invents-exit-code")) {
        result->kind = SANDBOX_EXEC_EXITED;
        result->code = 0;
        result->signal = 0;
    }
}

WRAP(int, sandbox_exec_wait, struct sandbox_exec *exec, int64_t timeout_ms, struct sandbox_exec_result *result,
     struct sandbox_error **error)
{
    int r = __real_sandbox_exec_wait(exec, is_broken("waits-for-ever") ? -1 : timeout_ms, result, error);

    if (!r)
        falsify(result);
    if (!r && result && result->kind == SANDBOX_EXEC_EXITED && is_broken("wait-tells-0"))
        result->code = 0;
    return r;
}

WRAP(int, sandbox_exec_communicate, struct sandbox_exec *exec, const struct sandbox_communicate_options *options,
     struct sandbox_output *output, struct sandbox_exec_result *result, struct sandbox_error **error)
{
    struct sandbox_communicate_options with = SANDBOX_COMMUNICATE_OPTIONS_INIT;
    int r;

    if (options)
        with = *options;
    if (is_broken("loses-last-byte-of-stdin") && with.input_size > 60000)
        with.input_size--;
    r = __real_sandbox_exec_communicate(exec, &with, output, result, error);
    if (!r)
        falsify(result);
    if (!r && is_broken("merges-stderr") && output->err_size) {
        char *both = realloc(output->out, output->out_size + output->err_size + 1);

        if (!both)
            abort();
        memcpy(both + output->out_size, output->err, output->err_size + 1);
        output->out = both;
        output->out_size += output->err_size;
        output->err_size = 0;
    }
    if (!r && is_broken("hides-held-pipe"))
        result->pipe_held = 0;
    return r;
}

/* A helper that is given the environment as arguments. */
static void shout(const char *const *env)
{
    pid_t pid = env && env[0] ? fork() : -1;

    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "sleep 2; :", env[0], (char *)NULL);
        _exit(1);
    }
    if (pid > 0)
        usleep(200000);
}

WRAP(int, sandbox_exec, struct sandbox *sandbox, const char *const *argv, const struct sandbox_exec_options *options,
     struct sandbox_exec **ret_exec, struct sandbox_error **error)
{
    struct sandbox_exec_options with = SANDBOX_EXEC_OPTIONS_INIT;
    int zeros = -1, r;

    if (options)
        with = *options;
    if (is_broken("ignores-deadline"))
        with.deadline_ms = 0;
    if (is_broken("adds-deadline") && argv[1] && argv[2] && strstr(argv[2], "sleep 4; exit 3"))
        with.deadline_ms = 3000;
    if (is_broken("ignores-user"))
        with.user = NULL;
    if (is_broken("ignores-workdir"))
        with.workdir = NULL;
    if (is_broken("opens-stdin") && with.stdin_fd == SANDBOX_STDIO_NULL)
        with.stdin_fd = zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (is_broken("secret-in-arguments"))
        shout(with.env);
    r = __real_sandbox_exec(sandbox, argv, &with, ret_exec, error);
    if (zeros >= 0)
        close(zeros);
    return r;
}

WRAP(int, sandbox_exec_kill, struct sandbox_exec *exec, int number, unsigned int flags, struct sandbox_error **error)
{
    return __real_sandbox_exec_kill(exec, number, is_broken("kills-one-alone") ? 0 : flags, error);
}

WRAP(const char *, sandbox_exec_get_id, const struct sandbox_exec *exec)
{
    return is_broken("one-exec-id") ? "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
                                    : __real_sandbox_exec_get_id(exec);
}

WRAP(const char *, sandbox_info_get_label, const struct sandbox_info *info, const char *key)
{
    return is_broken("loses-labels") ? NULL : __real_sandbox_info_get_label(info, key);
}

WRAP(const char *, sandbox_info_get_image_digest, const struct sandbox_info *info)
{
    return is_broken("forgets-digest") ? "" : __real_sandbox_info_get_image_digest(info);
}

WRAP(int, sandbox_create, struct sandbox_host *host, const struct sandbox_spec *spec, int64_t timeout_ms,
     struct sandbox **ret_sandbox, struct sandbox_error **error)
{
    struct sandbox_list *list = NULL;
    int r = __real_sandbox_create(host, spec, timeout_ms, ret_sandbox, error);

    if (r != SANDBOX_EEXISTS || !is_broken("adopts-by-name"))
        return r;
    sandbox_error_unref(error ? *error : NULL);
    if (sandbox_host_list(host, NULL, &list, NULL) || !sandbox_list_get_count(list))
        abort();
    return sandbox_open(host, sandbox_info_get_id(sandbox_list_get(list, 0)), ret_sandbox, error);
}

WRAP(int, sandbox_spec_set_lifetime, struct sandbox_spec *spec, int lifetime, struct sandbox_error **error)
{
    if (is_broken("detached-dies"))
        lifetime = SANDBOX_LIFETIME_OWNED;
    if (is_broken("owned-lives"))
        lifetime = SANDBOX_LIFETIME_DETACHED;
    return __real_sandbox_spec_set_lifetime(spec, lifetime, error);
}

WRAP(int, sandbox_spec_set_read_only, struct sandbox_spec *spec, int read_only, struct sandbox_error **error)
{
    return __real_sandbox_spec_set_read_only(spec, is_broken("writable") ? 0 : read_only, error);
}

WRAP(int, sandbox_spec_set_pids_max, struct sandbox_spec *spec, int64_t pids, struct sandbox_error **error)
{
    return __real_sandbox_spec_set_pids_max(spec, is_broken("no-pids-limit") ? 0 : pids, error);
}

WRAP(int, sandbox_spec_add_capability, struct sandbox_spec *spec, const char *capability, struct sandbox_error **error)
{
    return is_broken("drops-capability") ? 0 : __real_sandbox_spec_add_capability(spec, capability, error);
}

WRAP(int, sandbox_spec_add_mount, struct sandbox_spec *spec, const struct sandbox_mount_options *options,
     struct sandbox_error **error)
{
    struct sandbox_mount_options with = *options;

    if (is_broken("writable"))
        with.flags = 0;
    if (is_broken("volume-not-shared") && with.type == SANDBOX_MOUNT_VOLUME) {
        with.type = SANDBOX_MOUNT_TMPFS;
        with.source = NULL;
    }
    if (is_broken("no-size-limit"))
        with.max_bytes = 0;
    return __real_sandbox_spec_add_mount(spec, &with, error);
}

WRAP(int, sandbox_stop, struct sandbox *sandbox, int64_t grace_ms, int64_t timeout_ms, struct sandbox_error **error)
{
    return is_broken("never-stops") && grace_ms >= 0 ? 0 : __real_sandbox_stop(sandbox, grace_ms, timeout_ms, error);
}

WRAP(int, sandbox_host_list, struct sandbox_host *host, const struct sandbox_list_options *options,
     struct sandbox_list **ret_list, struct sandbox_error **error)
{
    struct sandbox_list_options with = SANDBOX_LIST_OPTIONS_INIT;

    if (options)
        with = *options;
    if (is_broken("ignores-name-prefix"))
        with.name_prefix = NULL;
    return __real_sandbox_host_list(host, &with, ret_list, error);
}

static void on_child(int number)
{
    (void)number;
}

WRAP(int, sandbox_host_open, const char *uri, const struct sandbox_host_options *options, int64_t timeout_ms,
     struct sandbox_host **ret_host, struct sandbox_error **error)
{
    if (is_broken("installs-handler"))
        signal(SIGUSR2, on_child);
    if (is_broken("leaks-descriptor") && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
        abort();
    return __real_sandbox_host_open(strstr(uri, "no-such-key") && is_broken("takes-any-key") ? "local:" : uri, options,
                                    timeout_ms, ret_host, error);
}

WRAP(int, sandbox_dial, struct sandbox *sandbox, int port, int64_t timeout_ms, int *ret_fd, struct sandbox_error **error)
{
    int r = __real_sandbox_dial(sandbox, port, timeout_ms, ret_fd, error), pair[2];

    for (int i = 0; i < 50 && r == SANDBOX_EIO && is_broken("dials-nothing"); i++) { /* a daemon that is about to listen */
        if (error)
            *error = sandbox_error_unref(*error);
        usleep(50000);
        r = __real_sandbox_dial(sandbox, port, timeout_ms, ret_fd, error);
    }
    if (r == SANDBOX_EIO && is_broken("dials-nothing") && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        *ret_fd = pair[0];
        r = 0;
    }
    return r;
}

WRAP(int, shutdown, int fd, int how)
{
    return is_broken("no-half-close") ? 0 : __real_shutdown(fd, how);
}

WRAP(const char *, sandbox_error_get_field, const struct sandbox_error *error)
{
    return is_broken("no-error-field") ? "" : __real_sandbox_error_get_field(error);
}

WRAP(int, sandbox_spec_set_idempotency_key, struct sandbox_spec *spec, const char *key, struct sandbox_error **error)
{
    return is_broken("ignores-key") ? 0 : __real_sandbox_spec_set_idempotency_key(spec, key, error);
}

WRAP(int, sandbox_log_read, struct sandbox_log *log, int64_t timeout_ms, struct sandbox_log_record *ret_record,
     struct sandbox_error **error)
{
    int r = __real_sandbox_log_read(log, timeout_ms, ret_record, error);

    if (r > 0 && ret_record->kind == SANDBOX_LOG_OUTPUT && ret_record->position == 0 && is_broken("log-loses-first-byte")) {
        ret_record->data = (const char *)ret_record->data + 1;
        ret_record->data_size--;
    }
    if (r > 0 && ret_record->kind == SANDBOX_LOG_ENDED && is_broken("log-tells-0"))
        ret_record->code = 0;
    return r;
}

WRAP(int, sandbox_spec_set_log_max, struct sandbox_spec *spec, int64_t bytes, struct sandbox_error **error)
{
    return is_broken("log-grows") ? 0 : __real_sandbox_spec_set_log_max(spec, bytes, error);
}

WRAP(int, sandbox_log_wait, struct sandbox *sandbox, const void *marker, size_t marker_size, unsigned int streams,
     int64_t timeout_ms, int64_t *ret_position, struct sandbox_error **error)
{
    return __real_sandbox_log_wait(sandbox, marker, is_broken("marker-by-halves") ? 1 : marker_size, streams, timeout_ms,
                                   ret_position, error);
}

WRAP(int, sandbox_file_write, struct sandbox *sandbox, const char *path, const void *data, size_t size,
     const struct sandbox_file_write_options *options, int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_file_write_options with = *options;

    if (is_broken("file-loses-mode"))
        with.mode = 0644;
    if (is_broken("file-loses-owner"))
        with.uid = with.gid = -1;
    if (is_broken("file-in-place")) {
        with.flags |= SANDBOX_FILE_APPEND;
        (void)sandbox_file_remove(sandbox, path, 0, timeout_ms, NULL);
        usleep(2000);
    }
    return __real_sandbox_file_write(sandbox, path, data, size, &with, timeout_ms, error);
}

WRAP(int, sandbox_folder_next, struct sandbox_folder *folder, int64_t timeout_ms, const char **ret_name,
     struct sandbox_file_info *info, struct sandbox_error **error)
{
    int r = __real_sandbox_folder_next(folder, timeout_ms, ret_name, info, error);

    if (!r && *ret_name && !strcmp(*ret_name, "1234") && is_broken("list-skips-one"))
        r = __real_sandbox_folder_next(folder, timeout_ms, ret_name, info, error);
    return r;
}

WRAP(int, sandbox_event_get_type, const struct sandbox_event *event)
{
    int type = __real_sandbox_event_get_type(event);

    return type == SANDBOX_EVENT_STOPPED && is_broken("event-is-lost") ? SANDBOX_EVENT_UNKNOWN : type;
}

WRAP(int, sandbox_forward_get_status, struct sandbox_forward *forward, struct sandbox_forward_status *status,
     struct sandbox_error **error)
{
    int r = __real_sandbox_forward_get_status(forward, status, error);

    if (!r && is_broken("forward-claims-health"))
        status->healthy = 1;
    return r;
}

WRAP(int, sandbox_upload, struct sandbox *sandbox, const char *source, const char *target, const struct sandbox_upload_options *options,
     int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_upload_options with = SANDBOX_UPLOAD_OPTIONS_INIT;

    if (options)
        with = *options;
    if (is_broken("upload-loses-mode"))
        with.mode = 0664;
    return __real_sandbox_upload(sandbox, source, target, &with, timeout_ms, error);
}

WRAP(int, sandbox_spec_set_ttl, struct sandbox_spec *spec, int64_t ttl_ms, int end, struct sandbox_error **error)
{
    return is_broken("ignores-ttl") ? 0 : __real_sandbox_spec_set_ttl(spec, ttl_ms, end, error);
}

WRAP(int, sandbox_spec_set_idle, struct sandbox_spec *spec, int64_t idle_ms, int end, struct sandbox_error **error)
{
    return is_broken("ignores-idle") ? 0 : __real_sandbox_spec_set_idle(spec, idle_ms, end, error);
}

WRAP(int, sandbox_pause, struct sandbox *sandbox, int64_t timeout_ms, struct sandbox_error **error)
{
    return is_broken("pauses-nothing") ? 0 : __real_sandbox_pause(sandbox, timeout_ms, error);
}
