/* SPDX-License-Identifier: Apache-2.0
 * The families of sockets that are left to a helper, asked of the kernel. */
#include "filter.h"

#include <sbtest.h>
#include <util.h>

#include <errno.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int said(long family)
{
    int fd = socket((int)family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return fd < 0 ? errno : close(fd);
}

START_TEST(families_of_sockets)
{
    static const int allowed[] = { AF_INET, AF_INET6 };
    int pair[2], status;
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (!child) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || said(AF_UNIX) || ag_filter_families(allowed, SB_ELEMENTS(allowed)))
            _exit(1);
        if (said(AF_INET) || said(AF_UNIX) != EAFNOSUPPORT || said(AF_NETLINK) != EAFNOSUPPORT || said(AF_UNSPEC) != EAFNOSUPPORT)
            _exit(2);
        _exit(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) ? 3 : 0); /* leads to nobody else */
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(ag_filter_families(allowed, AG_FILTER_FAMILIES_MAX + 1), -E2BIG);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("agent-filter");
    TCase *tc = sbtest_case("filter");

    tcase_add_test(tc, families_of_sockets);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
