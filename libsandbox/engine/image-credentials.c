/* SPDX-License-Identifier: Apache-2.0
 * See image-credentials.h. A helper is a program of the caller's: it gets the server's name on stdin, its stderr goes nowhere, what it
 * writes is bounded in time and size, and none of it appears in an error. */
#include "image-credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <process.h>
#include <util.h>

enum { CONFIG_MAX = 1 << 20, ANSWER_MAX = 65536, HELPER_SECONDS = 30, SIGNAL_PROCESS_GROUP = 1 << 2 };

static int no_memory(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "looking for credentials: out of memory");
}

static int watch(int epoll, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* In the first of the folders that has it. malloc'ed; NULL: in none. Relative folders don't count. */
static char *find_helper(const char *folders, const char *helper)
{
    while (folders && *folders) {
        size_t n = strcspn(folders, ":");
        char *path = NULL;

        if (*folders == '/' && asprintf(&path, "%.*s/%s", (int)n, folders, helper) < 0)
            return NULL;
        if (path && access(path, X_OK) == 0)
            return path;
        free(path);
        folders += n + (folders[n] == ':');
    }
    return NULL;
}

static int start(struct sb_credential_search *search, const char *path, const char *const *env, struct sandbox_error **error)
{
    static const char *const none[] = { NULL };
    char *const argv[] = { search->helper, (char[]){ "get" }, NULL };
    SB_CLOSE int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct itimerspec after = { .it_value.tv_sec = HELPER_SECONDS };
    int in[2] = { -1, -1 }, out[2] = { -1, -1 }, r = 0;

    if (null < 0 || pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        r = -errno;
    if (!r) { /* less than a pipe holds: this can't wait */
        struct sb_spawn_fd map[] = { { in[0], 0 }, { out[1], 1 }, { null, 2 } };

        r = sb_write_all(in[1], search->config.server, strlen(search->config.server));
        if (!r)
            r = sb_spawn_path(path, argv, (char *const *)(env ? env : none), map, SB_ELEMENTS(map), &search->pidfd);
    }
    if (!r) {
        search->output = SB_TAKE_FD(out[0]);
        search->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (search->timer < 0 || timerfd_settime(search->timer, 0, &after, NULL) < 0 || fcntl(search->output, F_SETFL, O_NONBLOCK) < 0)
            r = -errno;
    }
    for (int i = 0; i < 2; i++) {
        sb_close(in[i]);
        sb_close(out[i]);
    }
    if (!r)
        r = watch(search->epoll, search->output);
    if (!r)
        r = watch(search->epoll, search->timer);
    if (!r)
        r = watch(search->epoll, search->pidfd);
    return r ? sb_fail_errno(error, -r, "credentials", "starting %s", search->helper) : 1;
}

/* The caller's own file, and where it really lies is the caller's affair: a link is followed. */
static int read_config(const char *path, char **ret_text, size_t *ret_size)
{
    SB_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? sb_read_fd(fd, CONFIG_MAX, ret_text, ret_size) : -EINVAL;
}

int sb_credentials_begin(struct sb_credential_search *search, int epoll, const struct sb_reference *reference,
                         const struct sandbox_image_pull_options *options, struct sandbox_error **error)
{
    SB_FREE char *text = NULL;
    SB_FREE char *path = NULL;
    size_t size;
    int r;

    search->epoll = epoll;
    if (options->username || options->password) {
        search->found = (struct sb_credentials){
            .kind = options->username ? SB_CREDENTIALS_PASSWORD : SB_CREDENTIALS_BEARER,
            .user = strdup(options->username ? options->username : ""), .secret = strdup(options->password ? options->password : ""),
        };
        return search->found.user && search->found.secret ? 0 : no_memory(error);
    }
    if (!options->docker_config)
        return 0;
    r = read_config(options->docker_config, &text, &size);
    if (r)
        return sb_fail(error, SB_ARGS(sb_code_from_errno(-r), .sys_errno = -r, .field = "docker_config", .phase = "credentials"),
                       "reading the file of credentials '%s': %s", options->docker_config, strerrordesc_np(-r));
    r = sb_docker_config_read(text, size, reference, &search->config, error);
    explicit_bzero(text, size);
    if (r)
        return r;
    if (!search->config.helper[0]) {
        search->found = search->config.stored;
        search->config.stored = (struct sb_credentials){ 0 };
        return 0;
    }
    snprintf(search->helper, sizeof search->helper, "docker-credential-%s", search->config.helper);
    path = find_helper(options->helper_path ? options->helper_path : "/usr/local/bin:/usr/bin:/bin", search->helper);
    if (!path)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .field = "docker_config", .phase = "credentials", .hint = "install it, or take it out of the file"),
                       "the file of credentials names the helper program %s, which is not here", search->helper);
    search->answer = malloc(ANSWER_MAX);
    return search->answer ? start(search, path, options->helper_env, error) : no_memory(error);
}

/* The whole answer is there and its writer has ended. */
static int conclude(struct sb_credential_search *search, struct sandbox_error **error)
{
    siginfo_t info = { 0 };
    int seen = SB_RETRY(waitid(P_PIDFD, (id_t)search->pidfd, &info, WEXITED)) == 0; /* else somebody else has reaped it */

    search->pidfd = sb_close(search->pidfd);
    if (!seen || (info.si_code == CLD_EXITED && info.si_status == 0))
        return sb_docker_config_read_answer(search->answer, search->answer_size, &search->found, error);
    if (info.si_code == CLD_EXITED && sb_docker_config_is_not_found(search->answer, search->answer_size)) {
        search->found = search->config.stored;
        search->config.stored = (struct sb_credentials){ 0 };
        return 0;
    }
    return sb_fail(error, SB_ARGS(SANDBOX_EDENIED, .field = "docker_config", .phase = "credentials", .hint = "run it by hand to see what it says"),
                   "%s failed (%s %d)", search->helper, info.si_code == CLD_EXITED ? "exit status" : "signal", info.si_status);
}

int sb_credentials_step(struct sb_credential_search *search, struct sandbox_error **error)
{
    struct pollfd fds[] = { { search->timer, POLLIN, 0 }, { search->pidfd, POLLIN, 0 } };
    ssize_t n;

    poll(fds, SB_ELEMENTS(fds), 0);
    if (fds[0].revents)
        return sb_fail(error, SB_ARGS(SANDBOX_ETIMEDOUT, .field = "docker_config", .phase = "credentials"), "%s did not answer in %d seconds", search->helper,
                       HELPER_SECONDS);
    if (search->output >= 0) {
        n = SB_RETRY(read(search->output, search->answer + search->answer_size, ANSWER_MAX - search->answer_size));
        if (n < 0 && errno == EAGAIN)
            n = -1;
        else if (n < 0)
            return sb_fail_errno(error, errno, "credentials", "reading from %s", search->helper);
        search->answer_size += n > 0 ? (size_t)n : 0;
        if (search->answer_size == ANSWER_MAX)
            return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "docker_config", .phase = "credentials"), "%s writes more than a helper has to say",
                           search->helper);
        /* who ends may have left the pipe to somebody */
        if (n > 0 || (n < 0 && !fds[1].revents))
            return 1;
        search->output = sb_close(search->output);
    }
    return fds[1].revents ? conclude(search, error) : 1;
}

void sb_credential_search_clear(struct sb_credential_search *search)
{
    if (search->pidfd >= 0) {
        /* with what it has started, where the kernel can (6.9): it leads a session of its own */
        if (syscall(SYS_pidfd_send_signal, search->pidfd, SIGKILL, NULL, SIGNAL_PROCESS_GROUP) < 0)
            syscall(SYS_pidfd_send_signal, search->pidfd, SIGKILL, NULL, 0);
        SB_RETRY(waitid(P_PIDFD, (id_t)search->pidfd, &(siginfo_t){ 0 }, WEXITED));
    }
    search->pidfd = sb_close(search->pidfd);
    search->output = sb_close(search->output);
    search->timer = sb_close(search->timer);
    if (search->answer)
        explicit_bzero(search->answer, search->answer_size);
    free(search->answer);
    sb_credentials_clear(&search->config.stored);
    sb_credentials_clear(&search->found);
    *search = (struct sb_credential_search)SB_CREDENTIAL_SEARCH_INIT;
}
