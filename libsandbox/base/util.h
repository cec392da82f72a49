/* SPDX-License-Identifier: Apache-2.0
 * Small things that every module needs: ownership by attribute, descriptors, clocks, ids, names. No I/O beyond them. */
#ifndef SB_BASE_UTIL_H
#define SB_BASE_UTIL_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

struct msghdr;

#define SB_ID_SIZE 65 /* SANDBOX_ID_LENGTH and its NUL */

static inline void sb_cleanup_freep(void *p)
{
    free(*(void **)p);
}
/* Closes a descriptor if it is one, keeps errno, returns -1: fd = sb_close(fd). */
int sb_close(int fd);
static inline void sb_cleanup_closep(int *fd)
{
    sb_close(*fd);
}
#define SB_FREE __attribute__((cleanup(sb_cleanup_freep)))
#define SB_CLOSE __attribute__((cleanup(sb_cleanup_closep)))
#define SB_TAKE_PTR(p) ({ __typeof__(p) sb_taken_ = (p); (p) = NULL; sb_taken_; })
#define SB_TAKE_FD(fd) ({ int sb_taken_ = (fd); (fd) = -1; sb_taken_; })
#define SB_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))
#define SB_RETRY(expression) ({ long sb_r_; do sb_r_ = (expression); while (sb_r_ == -1 && errno == EINTR); sb_r_; })

/* recv(2) and recvmsg(2) on a SOCK_SEQPACKET socket, without EINTR. The kernel may say "end" although there is a message: it looks at the queue,
 * then at whether the peer has shut down, and who sends and closes between the two looks is heard only by who asks again. An empty message,
 * which none of our protocols has, is passed over. */
ssize_t sb_recv(int fd, void *data, size_t size, int flags);
ssize_t sb_recvmsg(int fd, struct msghdr *msg, int flags);

/* CLOCK_MONOTONIC in milliseconds and in microseconds. */
int64_t sb_now_ms(void);
int64_t sb_now_us(void);
/* A deadline on sb_now_ms() for a timeout of the public API: -1 → -1 (never). */
int64_t sb_deadline(int64_t timeout_ms);
/* What is left of it for poll(2): -1 for ever, 0 passed, at most INT_MAX. */
int sb_left_ms(int64_t deadline);

/* 64 lowercase hex digits from getrandom(2) and a NUL. 0 or -errno. */
int sb_id_new(char id[SB_ID_SIZE]);
/* 1 when it is exactly 64 lowercase hex digits. */
int sb_id_valid(const char *id);
/* 1 when it is [A-Za-z0-9][A-Za-z0-9_.-]{0,127}. */
int sb_name_valid(const char *name);
/* 1 when it is [A-Za-z0-9][A-Za-z0-9_.:-]{0,127}. */
int sb_key_valid(const char *key);
/* 1 when `size` bytes are well-formed UTF-8 (no surrogates, no overlong forms, at most U+10FFFF). */
int sb_utf8_valid(const char *bytes, size_t size);
/* 1 when it is an absolute path without NUL, "..", and of at most PATH_MAX-1 bytes. */
int sb_path_absolute_safe(const char *path);
/* 0 on success and *ret set, else -EINVAL: decimal digits only, within [min, max]. */
int sb_parse_int(const char *text, int64_t min, int64_t max, int64_t *ret);

#endif
