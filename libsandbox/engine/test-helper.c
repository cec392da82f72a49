/* SPDX-License-Identifier: Apache-2.0
 * The records of the unpack helper, right ones, and what a helper that was taken over might send. */
#include "helper.h"

#include <errno.h>
#include <sbtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <util.h>

static struct sb_helper helper;
static char packet[SB_UNPACK_PACKET_MAX];

static void setup(void)
{
    helper = (struct sb_helper)SB_HELPER_INIT;
}

static void teardown(void)
{
    sb_helper_clear(&helper);
}

static int parse(const void *data, size_t size)
{
    /* exactly as many bytes as there are, so that a sanitizer sees a read beyond them */
    SB_FREE char *copy = malloc(size + 1);

    memcpy(copy, data, size);
    copy = realloc(copy, size ? size : 1);
    return sb_helper_parse(&helper, copy, size, NULL);
}

static int send_result(const struct sb_unpack_result *result)
{
    struct sb_unpack_result copy = *result;

    copy.head = (struct sb_unpack_head){ SB_UNPACK_RESULT, sizeof copy };
    return parse(&copy, sizeof copy);
}

static int send_member(unsigned int type, const char *name, size_t name_length, const char *link, size_t link_length, int64_t offset, int64_t length)
{
    struct sb_unpack_member member = {
        .head = { SB_UNPACK_MEMBER, (uint32_t)(sizeof member + name_length + link_length) }, .type = type,
        .name_length = (uint16_t)name_length, .link_length = (uint16_t)link_length, .offset = offset, .length = length,
    };

    memcpy(packet, &member, sizeof member);
    memcpy(packet + sizeof member, name, name_length);
    memcpy(packet + sizeof member + name_length, link, link_length);
    return parse(packet, sizeof member + name_length + link_length);
}

static int send_data(size_t size)
{
    struct sb_unpack_head head = { SB_UNPACK_DATA, (uint32_t)(sizeof head + size) };

    memcpy(packet, &head, sizeof head);
    memset(packet + sizeof head, 'x', size);
    return parse(packet, sizeof head + size);
}

START_TEST(results)
{
    struct sb_unpack_result result = { .code = SANDBOX_EIO, .message = "why" };

    snprintf(result.digest, sizeof result.digest, "sha256:%064d", 7);
    ck_assert_int_eq(send_result(&result), 0);
    ck_assert_int_eq(helper.answered, 1);
    ck_assert_str_eq(helper.result.message, "why");
    result.code = 0;
    ck_assert_int_eq(send_result(&result), 0);
    ck_assert_int_eq(helper.result.code, SANDBOX_EIO); /* the first one counts */
}
END_TEST

START_TEST(results_that_lie)
{
    struct sb_unpack_result result = { 0 };

    memset(result.message, 'x', sizeof result.message);
    ck_assert_int_eq(send_result(&result), SANDBOX_EPROTOCOL);
    result = (struct sb_unpack_result){ 0 };
    memset(result.hint, 'x', sizeof result.hint);
    ck_assert_int_eq(send_result(&result), SANDBOX_EPROTOCOL);
    result = (struct sb_unpack_result){ 0 };
    memset(result.diff_id, 'a', sizeof result.diff_id);
    ck_assert_int_eq(send_result(&result), SANDBOX_EPROTOCOL);
    result = (struct sb_unpack_result){ .digest = "sha256:../../../etc/passwd" };
    ck_assert_int_eq(send_result(&result), SANDBOX_EPROTOCOL);
    result = (struct sb_unpack_result){ .code = 1 };
    ck_assert_int_eq(send_result(&result), SANDBOX_EPROTOCOL);
    result = (struct sb_unpack_result){ .code = -1000 };
    ck_assert_int_eq(send_result(&result), SANDBOX_EPROTOCOL);
    result = (struct sb_unpack_result){ .bytes = -1 };
    ck_assert_int_eq(send_result(&result), SANDBOX_EPROTOCOL);
    result = (struct sb_unpack_result){ .head = { SB_UNPACK_RESULT, sizeof result } };
    ck_assert_int_eq(parse(&result, sizeof result - 1), SANDBOX_EPROTOCOL);
    ck_assert_int_eq(helper.answered, 0);
}
END_TEST

START_TEST(documents)
{
    for (int i = 0; i < 128; i++)
        ck_assert_int_eq(send_data(SB_UNPACK_CHUNK), 0);
    ck_assert_uint_eq(helper.document_size, 4 << 20);
    ck_assert_int_eq(helper.document[helper.document_size], 0);
    ck_assert_int_eq(send_data(0), 0);
    ck_assert_int_eq(send_data(1), SANDBOX_EPROTOCOL); /* 4 MiB are the most */
}
END_TEST

START_TEST(chunks_too_long)
{
    ck_assert_int_eq(send_data(SB_UNPACK_CHUNK + 1), SANDBOX_EPROTOCOL);
}
END_TEST

START_TEST(members)
{
    ck_assert_int_eq(send_member(SB_UNPACK_MEMBER_FILE, "a/b", 3, "", 0, 512, 10), 0);
    ck_assert_int_eq(send_member(SB_UNPACK_MEMBER_LINK, "l", 1, "a/b", 3, 0, 0), 0);
    ck_assert_int_eq(send_member(SB_UNPACK_MEMBER_IMPLIED, "i", 1, "", 0, 0, 0), 0);
    ck_assert_uint_eq(helper.n_members, 3);
    ck_assert_str_eq(helper.members[0].name, "a/b");
    ck_assert_ptr_null(helper.members[0].link);
    ck_assert_str_eq(helper.members[1].link, "a/b");
    ck_assert_int_eq(helper.members[2].is_implied, 1);
}
END_TEST

START_TEST(members_that_lie)
{
    struct sb_unpack_member member = { .head = { SB_UNPACK_MEMBER, sizeof member }, .type = SB_UNPACK_MEMBER_FILE, .name_length = 60000 };

    ck_assert_int_eq(parse(&member, sizeof member), SANDBOX_EPROTOCOL);
    ck_assert_int_eq(parse(&member, sizeof member.head), SANDBOX_EPROTOCOL);
    ck_assert_int_eq(send_member(SB_UNPACK_MEMBER_FILE, "", 0, "", 0, 0, 0), SANDBOX_EPROTOCOL);
    ck_assert_int_eq(send_member(SB_UNPACK_MEMBER_FILE, "a\0b", 3, "", 0, 0, 0), SANDBOX_EPROTOCOL);
    ck_assert_int_eq(send_member(SB_UNPACK_MEMBER_FILE, "a", 1, "b", 1, 0, 0), SANDBOX_EPROTOCOL);
    ck_assert_int_eq(send_member(SB_UNPACK_MEMBER_LINK, "a", 1, "", 0, 0, 0), SANDBOX_EPROTOCOL);
    ck_assert_int_eq(send_member(SB_UNPACK_MEMBER_FILE, "a", 1, "", 0, -1, 0), SANDBOX_EPROTOCOL);
    ck_assert_int_eq(send_member(SB_UNPACK_MEMBER_FILE, "a", 1, "", 0, 0, -1), SANDBOX_EPROTOCOL);
    ck_assert_int_eq(send_member(99, "a", 1, "", 0, 0, 0), SANDBOX_EPROTOCOL);
    ck_assert_uint_eq(helper.n_members, 0);
    for (int i = 0; i < 16384; i++)
        ck_assert_int_eq(send_member(SB_UNPACK_MEMBER_FILE, "a", 1, "", 0, 0, 0), 0);
    ck_assert_int_eq(send_member(SB_UNPACK_MEMBER_FILE, "a", 1, "", 0, 0, 0), SANDBOX_EPROTOCOL);
}
END_TEST

START_TEST(heads_that_lie)
{
    struct sb_unpack_head head = { SB_UNPACK_DATA, 1000 };

    ck_assert_int_eq(parse("", 0), SANDBOX_EPROTOCOL);
    ck_assert_int_eq(parse(&head, 3), SANDBOX_EPROTOCOL);
    ck_assert_int_eq(parse(&head, sizeof head), SANDBOX_EPROTOCOL);
    head = (struct sb_unpack_head){ 77, sizeof head };
    ck_assert_int_eq(parse(&head, sizeof head), SANDBOX_EPROTOCOL);
    head = (struct sb_unpack_head){ SB_UNPACK_PROGRESS, sizeof head };
    ck_assert_int_eq(parse(&head, sizeof head), SANDBOX_EPROTOCOL);
}
END_TEST

/* Random records with a right head: whatever they hold, what was taken can be used and released. */
START_TEST(random_records)
{
    unsigned int seed = 20261130;

    for (int i = 0; i < 200000; i++) {
        struct sb_unpack_head head = { 1 + (uint32_t)rand_r(&seed) % 5, 0 };
        size_t size = sizeof head + (size_t)rand_r(&seed) % (i % 8 ? 120 : 3000);

        if (i % 5 == 0 && head.type == SB_UNPACK_RESULT)
            size = sizeof(struct sb_unpack_result);
        head.size = (uint32_t)size;
        for (size_t j = 0; j < size; j++)
            packet[j] = (char)(rand_r(&seed) % 3 ? 0 : rand_r(&seed));
        memcpy(packet, &head, sizeof head);
        parse(packet, size);
        for (size_t j = helper.n_members > 4 ? helper.n_members - 4 : 0; j < helper.n_members; j++)
            ck_assert_uint_gt(strlen(helper.members[j].name), 0);
        if (i % 5000 == 0)
            sb_helper_clear(&helper);
    }
}
END_TEST

/* One that doesn't end when it is told to, as after it was taken over, is killed and leaves nothing of itself. */
START_TEST(one_that_stays)
{
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (!child)
        for (;;)
            pause();
    helper.pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    ck_assert_int_ge(helper.pidfd, 0);
    sb_helper_clear(&helper);
    ck_assert_int_eq(helper.pidfd, -1);
    ck_assert_int_eq(waitpid(child, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { results, results_that_lie, documents, chunks_too_long, members, members_that_lie, heads_that_lie, random_records,
                                  one_that_stays };
    Suite *suite = suite_create("helper");
    TCase *cases = sbtest_case("records");

    tcase_add_checked_fixture(cases, setup, teardown);
    for (size_t i = 0; i < SB_ELEMENTS(tests); i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    return sbtest_main(suite);
}
