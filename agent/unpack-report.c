/* SPDX-License-Identifier: Apache-2.0
 * See unpack.h: the records a worker sends. */
#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <util.h>

void au_send(const void *record, size_t size)
{
    if (SB_RETRY(send(SB_UNPACK_FD_SOCKET, record, size, MSG_NOSIGNAL)) != (ssize_t)size)
        _exit(3); /* the library is gone: nobody to tell */
}

void au_send_result(struct sb_unpack_result *result)
{
    result->head.type = SB_UNPACK_RESULT;
    result->head.size = sizeof *result;
    au_send(result, sizeof *result);
}

const char *au_empty_folder;

static void __attribute__((noreturn)) fail(int code, int sys_errno, const char *hint, const char *format, va_list ap)
{
    static struct sb_unpack_result result;
    size_t n;

    result.code = code;
    result.sys_errno = sys_errno;
    if (hint)
        snprintf(result.hint, sizeof result.hint, "%s", hint);
    vsnprintf(result.message, sizeof result.message, format, ap);
    n = strlen(result.message);
    if (sys_errno)
        snprintf(result.message + n, sizeof result.message - n, ": %s", strerror(sys_errno));
    if (au_empty_folder)
        unlinkat(SB_UNPACK_FD_PARENT, au_empty_folder, AT_REMOVEDIR);
    au_send_result(&result);
    _exit(1);
}

void au_fail(int code, int sys_errno, const char *hint, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    fail(code, sys_errno, hint, format, ap);
}

void au_fail_errno(int sys_errno, const char *format, ...)
{
    int code = SANDBOX_EIO;
    const char *hint = NULL;
    va_list ap;

    switch (sys_errno) {
    case ENOSPC:
    case EDQUOT:
        code = SANDBOX_ENOSPACE;
        hint = "free space or inodes on the state root's file system, or choose another state root";
        break;
    case EROFS:
        code = SANDBOX_EREADONLY;
        break;
    case ENOMEM:
        code = SANDBOX_ENOMEM;
        break;
    case EACCES:
    case EPERM:
        code = SANDBOX_EDENIED;
        break;
    case EFBIG:
        code = SANDBOX_ELIMIT;
        break;
    }
    va_start(ap, format);
    fail(code, sys_errno, hint, format, ap);
}

void au_progress(enum sb_unpack_phase phase, int64_t done, int64_t entries)
{
    static int64_t last;
    int64_t now = sb_now_ms();
    struct sb_unpack_progress record = {
        .head = { SB_UNPACK_PROGRESS, sizeof record }, .phase = phase, .done = done, .entries = entries,
    };

    if (now - last < 100)
        return;
    last = now;
    if (send(SB_UNPACK_FD_SOCKET, &record, sizeof record, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EPIPE)
        _exit(3);
}

int au_notes;

void au_note(int64_t bytes, int64_t entries)
{
    if (au_notes)
        au_progress(SB_UNPACK_PHASE_PACK, bytes, entries);
}

void au_digest_text(struct sha256_ctx *sha, char text[SB_UNPACK_DIGEST_SIZE])
{
    unsigned char raw[SHA256_DIGEST_SIZE];
    char *p = text + snprintf(text, SB_UNPACK_DIGEST_SIZE, "sha256:");

    sha256_digest(sha, sizeof raw, raw);
    for (size_t i = 0; i < sizeof raw; i++)
        p += snprintf(p, 3, "%02x", raw[i]);
}
