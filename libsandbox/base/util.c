/* SPDX-License-Identifier: Apache-2.0
 * See util.h. */
#include "util.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int sb_close(int fd)
{
    int saved = errno;

    if (fd >= 0)
        close(fd);
    errno = saved;
    return -1;
}

ssize_t sb_recvmsg(int fd, struct msghdr *msg, int flags)
{
    const struct msghdr asked = *msg;
    ssize_t n = SB_RETRY(recvmsg(fd, msg, flags));

    if (n)
        return n;
    *msg = asked;
    return SB_RETRY(recvmsg(fd, msg, flags));
}

ssize_t sb_recv(int fd, void *data, size_t size, int flags)
{
    struct iovec iov = { data, size };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    return sb_recvmsg(fd, &msg, flags);
}

int64_t sb_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t sb_now_ms(void)
{
    return sb_now_us() / 1000;
}

int64_t sb_deadline(int64_t timeout_ms)
{
    int64_t now = sb_now_ms();

    if (timeout_ms < 0 || timeout_ms > INT64_MAX - now)
        return -1;
    return now + timeout_ms;
}

int sb_left_ms(int64_t deadline)
{
    int64_t left;

    if (deadline < 0)
        return -1;
    left = deadline - sb_now_ms();
    return left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

int sb_id_new(char id[SB_ID_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char raw[32];
    size_t have = 0;

    while (have < sizeof raw) {
        ssize_t n = getrandom(raw + have, sizeof raw - have, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        have += (size_t)n;
    }
    for (size_t i = 0; i < sizeof raw; i++) {
        id[2 * i] = digits[raw[i] >> 4];
        id[2 * i + 1] = digits[raw[i] & 15];
    }
    id[64] = 0;
    return 0;
}

int sb_id_valid(const char *id)
{
    return id && strlen(id) == 64 && strspn(id, "0123456789abcdef") == 64;
}

static int is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static int is_word(const char *text, const char *marks)
{
    size_t n;

    if (!text || !is_alnum(text[0]))
        return 0;
    for (n = 1; text[n]; n++)
        if (n >= 128 || (!is_alnum(text[n]) && !strchr(marks, text[n])))
            return 0;
    return n <= 128;
}

int sb_name_valid(const char *name)
{
    return is_word(name, "_.-");
}

int sb_key_valid(const char *key)
{
    return is_word(key, "_.:-");
}

int sb_utf8_valid(const char *bytes, size_t size)
{
    const unsigned char *p = (const unsigned char *)bytes, *end = p + size;

    while (p < end) {
        unsigned int c = *p++, more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 9;

        if (more == 9 || (size_t)(end - p) < more)
            return 0;
        if (more == 2 && ((c == 0xe0 && p[0] < 0xa0) || (c == 0xed && p[0] >= 0xa0)))
            return 0;
        if (more == 3 && ((c == 0xf0 && p[0] < 0x90) || (c == 0xf4 && p[0] >= 0x90)))
            return 0;
        for (; more; more--, p++)
            if (*p < 0x80 || *p >= 0xc0)
                return 0;
    }
    return 1;
}

int sb_path_absolute_safe(const char *path)
{
    if (!path || path[0] != '/' || strlen(path) >= PATH_MAX)
        return 0;
    for (const char *p = path; (p = strstr(p, "/..")); p += 3)
        if (p[3] == 0 || p[3] == '/')
            return 0;
    return 1;
}

int sb_parse_int(const char *text, int64_t min, int64_t max, int64_t *ret)
{
    int64_t value = 0;

    if (!text || !*text)
        return -EINVAL;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || value > (INT64_MAX - 9) / 10)
            return -EINVAL;
        value = value * 10 + (*text - '0');
    }
    if (value < min || value > max)
        return -EINVAL;
    *ret = value;
    return 0;
}
