/* SPDX-License-Identifier: Apache-2.0
 * The small things, and errors. */
#include <sbtest.h>

#include "errors.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

START_TEST(ids_are_random_and_recognised)
{
    char a[SB_ID_SIZE], b[SB_ID_SIZE];

    ck_assert_int_eq(sb_id_new(a), 0);
    ck_assert_int_eq(sb_id_new(b), 0);
    ck_assert_str_ne(a, b);
    ck_assert_int_eq(sb_id_valid(a), 1);
    a[63] = 0;
    ck_assert_int_eq(sb_id_valid(a), 0);
    b[0] = 'G';
    ck_assert_int_eq(sb_id_valid(b), 0);
    b[0] = 'A';
    ck_assert_int_eq(sb_id_valid(b), 0);
    ck_assert_int_eq(sb_id_valid(NULL), 0);
    ck_assert_int_eq(sb_id_valid(""), 0);
    ck_assert_int_eq(sb_id_valid("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0"), 0);
}
END_TEST

START_TEST(utf8_is_strict)
{
    static const struct {
        const char *bytes;
        int valid;
    } samples[] = {
        { "", 1 }, { "a", 1 }, { "\x7f", 1 }, { "\xc2\x80", 1 }, { "\xdf\xbf", 1 }, { "\xe0\xa0\x80", 1 }, { "\xef\xbf\xbf", 1 },
        { "\xf0\x90\x80\x80", 1 }, { "\xf4\x8f\xbf\xbf", 1 }, { "\xed\x9f\xbf", 1 }, { "\xee\x80\x80", 1 },
        { "\x80", 0 }, { "\xc0\x80", 0 }, { "\xc1\xbf", 0 }, { "\xc2", 0 }, { "\xe0\x9f\xbf", 0 }, { "\xed\xa0\x80", 0 }, { "\xe2\x82", 0 },
        { "\xf0\x8f\xbf\xbf", 0 }, { "\xf4\x90\x80\x80", 0 }, { "\xf5\x80\x80\x80", 0 }, { "\xff", 0 }, { "\xc2\xc2", 0 }, { "\xe2\x28\xa1", 0 },
    };

    for (size_t i = 0; i < SB_ELEMENTS(samples); i++)
        ck_assert_msg(sb_utf8_valid(samples[i].bytes, strlen(samples[i].bytes)) == samples[i].valid, "sample %zu", i);
    ck_assert_int_eq(sb_utf8_valid("a\0b", 3), 1);
}
END_TEST

START_TEST(paths_are_absolute_and_without_dotdot)
{
    static const char *const good[] = { "/", "/a", "/a//b/", "/...", "/a/..b", "/a/b..", "/.", "/..a" };
    static const char *const bad[] = { "", "a", "/..", "/../a", "/a/..", "/a/../b", "..", "/.../..", "//..//" };
    char longest[PATH_MAX + 1];

    for (size_t i = 0; i < SB_ELEMENTS(good); i++)
        ck_assert_msg(sb_path_absolute_safe(good[i]), "%s", good[i]);
    for (size_t i = 0; i < SB_ELEMENTS(bad); i++)
        ck_assert_msg(!sb_path_absolute_safe(bad[i]), "%s", bad[i]);
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[PATH_MAX] = 0;
    ck_assert_int_eq(sb_path_absolute_safe(longest), 0);
    longest[PATH_MAX - 1] = 0;
    ck_assert_int_eq(sb_path_absolute_safe(longest), 1);
    ck_assert_int_eq(sb_path_absolute_safe(NULL), 0);
}
END_TEST

START_TEST(integers_are_digits_within_bounds)
{
    int64_t value = 42;

    ck_assert_int_eq(sb_parse_int("0", 0, 10, &value), 0);
    ck_assert_int_eq(value, 0);
    ck_assert_int_eq(sb_parse_int("0010", 0, 10, &value), 0);
    ck_assert_int_eq(value, 10);
    ck_assert_int_eq(sb_parse_int("4294967295", 0, UINT32_MAX, &value), 0);
    ck_assert_int_eq(value, UINT32_MAX);
    value = 42;
    ck_assert_int_eq(sb_parse_int("11", 0, 10, &value), -EINVAL);
    ck_assert_int_eq(sb_parse_int("", 0, 10, &value), -EINVAL);
    ck_assert_int_eq(sb_parse_int(NULL, 0, 10, &value), -EINVAL);
    ck_assert_int_eq(sb_parse_int("+1", 0, 10, &value), -EINVAL);
    ck_assert_int_eq(sb_parse_int("-1", -10, 10, &value), -EINVAL);
    ck_assert_int_eq(sb_parse_int(" 1", 0, 10, &value), -EINVAL);
    ck_assert_int_eq(sb_parse_int("1x", 0, 10, &value), -EINVAL);
    ck_assert_int_eq(sb_parse_int("99999999999999999999999", 0, INT64_MAX, &value), -EINVAL);
    ck_assert_int_eq(value, 42);
}
END_TEST

START_TEST(deadlines)
{
    int64_t now = sb_now_ms();

    ck_assert_int_eq(sb_deadline(-1), -1);
    ck_assert_int_eq(sb_deadline(INT64_MAX), -1);
    ck_assert_int_ge(sb_deadline(1000), now + 1000);
    ck_assert_int_eq(sb_left_ms(-1), -1);
    ck_assert_int_eq(sb_left_ms(0), 0);
    ck_assert_int_eq(sb_left_ms(now), 0);
    ck_assert_int_eq(sb_left_ms(now + (int64_t)INT_MAX * 4), INT_MAX);
    ck_assert_int_gt(sb_left_ms(now + 100000), 90000);
}
END_TEST

START_TEST(close_keeps_errno)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    errno = ENOTTY;
    ck_assert_int_eq(sb_close(fd), -1);
    ck_assert_int_eq(errno, ENOTTY);
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
    errno = ENOTTY;
    ck_assert_int_eq(sb_close(-1), -1);
    ck_assert_int_eq(errno, ENOTTY);
}
END_TEST

START_TEST(the_first_cause_wins)
{
    struct sandbox_error *error = NULL;

    ck_assert_int_eq(sb_fail(&error, SB_ARGS(SANDBOX_EBUSY, .phase = "p", .field = "f", .hint = "h", .retryable = 1, .sys_errno = 7),
                             "first %d", 1), SANDBOX_EBUSY);
    ck_assert_int_eq(sb_fail(&error, SB_ARGS(SANDBOX_EIO), "second"), SANDBOX_EIO);
    sb_error_set_operation(&error, "create", "local");
    sb_error_set_operation(&error, "start", "ssh");
    sb_error_set_field(&error, "g");
    sb_error_set_hint(&error, "i");
    ck_assert_int_eq(sandbox_error_get_code(error), SANDBOX_EBUSY);
    ck_assert_int_eq(sandbox_error_get_errno(error), 7);
    ck_assert_int_eq(sandbox_error_get_retryable(error), 1);
    ck_assert_str_eq(sandbox_error_get_message(error), "first 1");
    ck_assert_str_eq(sandbox_error_get_operation(error), "create");
    ck_assert_str_eq(sandbox_error_get_backend(error), "local");
    ck_assert_str_eq(sandbox_error_get_phase(error), "p");
    ck_assert_str_eq(sandbox_error_get_field(error), "f");
    ck_assert_str_eq(sandbox_error_get_hint(error), "h");
    ck_assert_ptr_eq(sandbox_error_ref(error), error);
    ck_assert_ptr_null(sandbox_error_unref(error));
    ck_assert_str_eq(sandbox_error_get_message(error), "first 1");
    sandbox_error_unref(error);
}
END_TEST

START_TEST(errors_may_be_unwanted_or_absent)
{
    ck_assert_int_eq(sb_fail(NULL, SB_ARGS(SANDBOX_EIO), "unwanted"), SANDBOX_EIO);
    sb_error_set_operation(NULL, "create", "local");
    ck_assert_ptr_null(sandbox_error_unref(NULL));
    ck_assert_ptr_null(sandbox_error_ref(NULL));
    ck_assert_int_eq(sandbox_error_get_code(NULL), 0);
    ck_assert_str_eq(sandbox_error_get_message(NULL), "");
    ck_assert_str_eq(sandbox_error_get_hint(NULL), "");
}
END_TEST

START_TEST(messages_are_one_line_and_bounded)
{
    struct sandbox_error *error = NULL;
    char text[4000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    memcpy(text, "a\nb\x1b[31m\x7f", 9);
    sb_fail(&error, SB_ARGS(SANDBOX_EIO, .hint = text, .field = text), "%s", text);
    ck_assert_int_eq(strncmp(sandbox_error_get_message(error), "a?b?[31m?", 9), 0);
    ck_assert_uint_lt(strlen(sandbox_error_get_message(error)), 1000);
    sandbox_error_unref(error);
}
END_TEST

START_TEST(errnos_become_codes)
{
    static const struct {
        int sys_errno, code, retryable;
    } samples[] = {
        { ENOSPC, SANDBOX_ENOSPACE, 0 }, { EDQUOT, SANDBOX_ENOSPACE, 0 }, { EROFS, SANDBOX_EREADONLY, 0 }, { ENOMEM, SANDBOX_ENOMEM, 1 },
        { EACCES, SANDBOX_EDENIED, 0 }, { EPERM, SANDBOX_EDENIED, 0 }, { ENOENT, SANDBOX_ENOTFOUND, 0 }, { EEXIST, SANDBOX_EEXISTS, 0 },
        { EMFILE, SANDBOX_ELIMIT, 1 }, { ENFILE, SANDBOX_ELIMIT, 1 }, { EAGAIN, SANDBOX_ELIMIT, 1 }, { EXDEV, SANDBOX_EIO, 0 },
    };

    for (size_t i = 0; i < SB_ELEMENTS(samples); i++) {
        struct sandbox_error *error = NULL;

        ck_assert_int_eq(sb_fail_errno(&error, samples[i].sys_errno, "phase", "doing %s", "it"), samples[i].code);
        ck_assert_int_eq(sandbox_error_get_errno(error), samples[i].sys_errno);
        ck_assert_int_eq(sandbox_error_get_retryable(error), samples[i].retryable);
        ck_assert_ptr_nonnull(strstr(sandbox_error_get_message(error), strerror(samples[i].sys_errno)));
        ck_assert_ptr_eq(strstr(sandbox_error_get_message(error), "doing it: "), sandbox_error_get_message(error));
        sandbox_error_unref(error);
    }
}
END_TEST

START_TEST(every_code_has_a_name)
{
    for (int code = -23; code <= 0; code++)
        ck_assert_str_ne(sandbox_code_name(code), "EUNKNOWN");
    ck_assert_str_eq(sandbox_code_name(0), "OK");
    ck_assert_str_eq(sandbox_code_name(SANDBOX_ENOTEXECUTABLE), "ENOTEXECUTABLE");
    ck_assert_str_eq(sandbox_code_name(SANDBOX_EPAUSED), "EPAUSED");
    ck_assert_str_eq(sandbox_code_name(1), "EUNKNOWN");
    ck_assert_str_eq(sandbox_code_name(-24), "EUNKNOWN");
}
END_TEST

static _Atomic int given = -1;

static void *send_and_close(void *data)
{
    (void)data;
    for (int fd = -1; fd != -2;) {
        while ((fd = given) == -1)
            continue;
        if (fd < 0)
            break;
        given = -1;
        send(fd, "last", 4, MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

/* Who sends and closes is heard, at whichever moment the other end looks. Without the second look some ten of these are not. */
START_TEST(a_last_message_is_heard)
{
    int64_t until = sb_now_ms() + 8000;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, send_and_close, NULL), 0);
    for (int i = 0; i < 100000 && sb_now_ms() < until; i++) {
        char text[8];
        int pair[2];
        ssize_t n;

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        given = pair[1];
        while ((n = sb_recv(pair[0], text, sizeof text, MSG_DONTWAIT | MSG_PEEK)) < 0 && errno == EAGAIN)
            continue;
        ck_assert_int_eq(n, 4);
        ck_assert_int_eq(sb_recv(pair[0], text, sizeof text, MSG_DONTWAIT), 4);
        while ((n = sb_recv(pair[0], text, sizeof text, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
            continue;
        ck_assert_int_eq(n, 0);
        close(pair[0]);
    }
    given = -2;
    pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base-util");
    TCase *tc = sbtest_case("util");

    tcase_add_test(tc, ids_are_random_and_recognised);
    tcase_add_test(tc, utf8_is_strict);
    tcase_add_test(tc, paths_are_absolute_and_without_dotdot);
    tcase_add_test(tc, integers_are_digits_within_bounds);
    tcase_add_test(tc, deadlines);
    tcase_add_test(tc, close_keeps_errno);
    tcase_add_test(tc, a_last_message_is_heard);
    suite_add_tcase(suite, tc);
    tc = sbtest_case("errors");
    tcase_add_test(tc, the_first_cause_wins);
    tcase_add_test(tc, errors_may_be_unwanted_or_absent);
    tcase_add_test(tc, messages_are_one_line_and_bounded);
    tcase_add_test(tc, errnos_become_codes);
    tcase_add_test(tc, every_code_has_a_name);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
