/* SPDX-License-Identifier: Apache-2.0
 * What the file server says. There is one request a process, so that what is half done is known here, too. */
#include "files.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <util.h>

static int channel = -1;
static ag_report_fn *elsewhere;

void ag_files_report_to(ag_report_fn *report)
{
    elsewhere = report;
}

void ag_files_report_on(int fd)
{
    channel = fd;
}

void ag_files_send(const void *record, size_t size)
{
    if (SB_RETRY(send(channel, record, size, MSG_NOSIGNAL)) == (ssize_t)size)
        return;
    au_tree_drop_partial(); /* the library is gone: nobody to tell */
    _exit(3);
}

void ag_files_done(int64_t bytes, int64_t entries)
{
    struct sb_files_done done = { .head = { SB_FILES_DONE, sizeof done }, .bytes = bytes, .entries = entries };

    ag_files_send(&done, sizeof done);
    _exit(0);
}

/* A server that fails leaves no half-written file. Names are cut and made printable where they are shown, not here. */
static void __attribute__((noreturn)) fail(int code, int sys_errno, const char *hint, const char *format, va_list ap)
{
    static struct sb_files_done done;
    size_t n;

    au_tree_drop_partial();
    done.head = (struct sb_files_head){ SB_FILES_DONE, sizeof done };
    done.code = code;
    done.sys_errno = sys_errno;
    if (hint)
        snprintf(done.hint, sizeof done.hint, "%s", hint);
    vsnprintf(done.message, sizeof done.message - 64, format, ap);
    n = strlen(done.message);
    if (sys_errno)
        snprintf(done.message + n, sizeof done.message - n, ": %s", strerrordesc_np(sys_errno) ? strerrordesc_np(sys_errno) : "?");
    if (elsewhere)
        elsewhere(code, sys_errno, done.message);
    else
        ag_files_send(&done, sizeof done);
    _exit(1);
}

void au_fail(int code, int sys_errno, const char *hint, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    fail(code, sys_errno, hint, format, ap);
}

static int code_of(int sys_errno, const char **hint)
{
    switch (sys_errno) {
    case ENOSPC:
    case EDQUOT:
        *hint = "free space in the sandbox, or give its volume more";
        return SANDBOX_ENOSPACE;
    case EROFS:
        return SANDBOX_EREADONLY;
    case ENOMEM:
        return SANDBOX_ENOMEM;
    case EACCES:
    case EPERM:
        return SANDBOX_EDENIED;
    case ENOENT:
    case ENOTDIR:
        return SANDBOX_ENOTFOUND;
    case EEXIST:
    case ENOTEMPTY:
        return SANDBOX_EEXISTS;
    case EBUSY:
    case ETXTBSY:
        return SANDBOX_EBUSY;
    case EFBIG:
    case EMFILE:
    case ENFILE:
        return SANDBOX_ELIMIT;
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EINVAL:
    case EXDEV:
        return SANDBOX_EINVALID;
    default:
        return SANDBOX_EIO;
    }
}

void au_fail_errno(int sys_errno, const char *format, ...)
{
    const char *hint = NULL;
    int code = code_of(sys_errno, &hint);
    va_list ap;

    va_start(ap, format);
    fail(code, sys_errno, hint, format, ap);
}

void ag_files_fail(const char *what, const char *path, int sys_errno)
{
    au_fail_errno(sys_errno, "%s '%.512s'", what, path);
}

void au_note(int64_t bytes, int64_t entries)
{
    static int64_t last;
    static unsigned int calls;
    struct sb_files_progress record = { .head = { SB_FILES_PROGRESS, sizeof record }, .bytes = bytes, .entries = entries };
    int64_t now;

    if (calls++ % 16)
        return;
    now = sb_now_ms();
    if (now - last < 100)
        return;
    last = now;
    if (send(channel, &record, sizeof record, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EPIPE) {
        au_tree_drop_partial();
        _exit(3);
    }
}
