/* SPDX-License-Identifier: Apache-2.0
 * Profiles in the kernel: 200 that chance writes are compiled and installed, and what the kernel then says of calls is what a second
 * reading of the JSON says, which knows neither the parser nor the compiler. The calls that are tried take no arguments, so any may be
 * passed, and do nothing. */
#include <profile.h>
#include <sbtest.h>
#include <util.h>

#include <errno.h>
#include <jansson.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROFILES = 200, PROBES = 60, ALLOWED = 0, TRAPPED = 5000, KILLED = 5001, NOT_YET = 6000 };

static const struct {
    const char *name;
    int nr;
} calls[] = {
    { "getpid", SYS_getpid },   { "getppid", SYS_getppid },         { "getuid", SYS_getuid },
    { "geteuid", SYS_geteuid }, { "getgid", SYS_getgid },           { "getegid", SYS_getegid },
    { "gettid", SYS_gettid },   { "sched_yield", SYS_sched_yield }, { "munlockall", SYS_munlockall },
};

static unsigned int seed;

static unsigned int chance(unsigned int n)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 16) % n;
}

/* ---- what a profile means, from its JSON ---- */

static int severity(const char *action)
{
    static const char *const order[] = { "SCMP_ACT_ALLOW", "SCMP_ACT_LOG",         "SCMP_ACT_ERRNO",
                                         "SCMP_ACT_TRAP",  "SCMP_ACT_KILL_THREAD", "SCMP_ACT_KILL_PROCESS" };

    for (int i = 0; i < 6; i++)
        if (!strcmp(order[i], action))
            return i;
    return 4; /* SCMP_ACT_KILL */
}

static int holds(const json_t *arg, const uint64_t *args)
{
    uint64_t a = args[json_integer_value(json_object_get(arg, "index"))];
    uint64_t value = (uint64_t)json_integer_value(json_object_get(arg, "value")),
             two = (uint64_t)json_integer_value(json_object_get(arg, "valueTwo"));
    const char *op = json_string_value(json_object_get(arg, "op")) + strlen("SCMP_CMP_");

    return !strcmp(op, "NE")   ? a != value
           : !strcmp(op, "LT") ? a < value
           : !strcmp(op, "LE") ? a <= value
           : !strcmp(op, "EQ") ? a == value
           : !strcmp(op, "GE") ? a >= value
           : !strcmp(op, "GT") ? a > value
                               : (a & value) == two;
}

static int errno_of(const json_t *object, const char *key)
{
    const json_t *number = json_object_get(object, key);

    return number ? (int)json_integer_value(number) : EPERM;
}

static int verdict(int level, int error)
{
    return level <= 1 ? ALLOWED : level == 2 ? error : level == 3 ? TRAPPED : KILLED;
}

static int expected(const json_t *profile, const char *name, const uint64_t *args)
{
    int otherwise = severity(json_string_value(json_object_get(profile, "defaultAction"))),
        other_errno = errno_of(profile, "defaultErrnoRet");
    int best = -1, best_errno = 0;
    const json_t *rule, *item;
    size_t i, k;

    json_array_foreach(json_object_get(profile, "syscalls"), i, rule)
    {
        int level = severity(json_string_value(json_object_get(rule, "action"))), error = errno_of(rule, "errnoRet"), named = 0,
            all = 1;

        json_array_foreach(json_object_get(rule, "names"), k, item) named |= !strcmp(json_string_value(item), name);
        json_array_foreach(json_object_get(rule, "args"), k, item) all &= holds(item, args);
        if (!named || !all || (level == otherwise && (level != 2 || error == other_errno)))
            continue;
        if (level > best || (level == 2 && best == 2 && error < best_errno)) {
            best = level;
            best_errno = error;
        }
    }
    return best < 0 ? verdict(otherwise, other_errno) : verdict(best, best_errno);
}

/* ---- chance ---- */

static json_int_t some_value(void)
{
    static const json_int_t values[] = {
        0, 1, 2, 3, 7, 8, 255, 4096, 0x7fffffff, 0x80000000ll, 0xffffffffll, 0x100000000ll, 0x1000000ffll, 0x7fffffffffffffffll
    };

    return values[chance(SB_ELEMENTS(values))];
}

static json_t *some_rule(void)
{
    static const char *const ops[] = { "NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ" };
    static const char *const actions[] = { "ALLOW", "ALLOW", "ALLOW", "ERRNO", "ERRNO", "LOG", "TRAP", "KILL", "KILL_PROCESS" };
    const char *action = actions[chance(SB_ELEMENTS(actions))];
    json_t *rule =
        json_pack("{s:[s], s:o}", "names", calls[chance(SB_ELEMENTS(calls))].name, "action", json_sprintf("SCMP_ACT_%s", action));
    json_t *args = json_array();
    unsigned int used = 0;

    if (chance(3) == 0)
        json_array_append_new(json_object_get(rule, "names"), json_string(calls[chance(SB_ELEMENTS(calls))].name));
    if (!strcmp(action, "ERRNO") && chance(4))
        json_object_set_new(rule, "errnoRet", json_integer(1 + chance(4000)));
    for (unsigned int n = chance(4), i; n; n--) {
        const char *op = ops[chance(SB_ELEMENTS(ops))];
        json_int_t value = some_value();

        i = chance(6);
        if (used >> i & 1)
            continue;
        used |= 1u << i;
        json_array_append_new(args, json_pack("{s:i, s:I, s:I, s:o}", "index", (int)i, "value", value, "valueTwo",
                                              strcmp(op, "MASKED_EQ") ? (json_int_t)0 : value & some_value(), "op",
                                              json_sprintf("SCMP_CMP_%s", op)));
    }
    json_object_set_new(rule, "args", args);
    return rule;
}

static json_t *some_profile(void)
{
    static const char *const defaults[] = { "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_TRAP",
                                            "SCMP_ACT_LOG" };
    static const char *const harness[] = {
        "write", "exit_group", "rt_sigreturn", "rt_sigaction", "mmap", "munmap", "brk", "futex"
    };
    const char *otherwise = defaults[chance(SB_ELEMENTS(defaults))];
    json_t *profile = json_pack("{s:s, s:[]}", "defaultAction", otherwise, "syscalls"),
           *rules = json_object_get(profile, "syscalls");

    if (!strcmp(otherwise, "SCMP_ACT_ERRNO") && chance(2))
        json_object_set_new(profile, "defaultErrnoRet", json_integer(1 + chance(4000)));
    for (unsigned int n = 1 + chance(12); n; n--)
        json_array_append_new(rules, some_rule());
    for (size_t i = 0; i < SB_ELEMENTS(harness); i++) /* what the child itself cannot do without */
        json_array_append_new(rules, json_pack("{s:[s], s:s}", "names", harness[i], "action", "SCMP_ACT_ALLOW"));
    return profile;
}

/* ---- the kernel's word ---- */

struct probe {
    size_t call;
    uint64_t args[6];
    int said; /* ALLOWED, an error, TRAPPED, KILLED */
};

static volatile sig_atomic_t trapped;

static void on_trap(int signal)
{
    (void)signal;
    trapped = 1;
}

static void child(const struct sock_fprog *program, struct probe *probes, size_t from)
{
    signal(SIGSYS, on_trap);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _exit(2);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program))
        _exit(3);
    for (size_t i = from; i < PROBES; i++) {
        const uint64_t *a = probes[i].args;
        long r;

        trapped = 0;
        probes[i].said = KILLED; /* for who doesn't come back */
        errno = 0;
        r = syscall(calls[probes[i].call].nr, a[0], a[1], a[2], a[3], a[4], a[5]);
        probes[i].said = trapped ? TRAPPED : r < 0 ? errno : ALLOWED;
    }
    _exit(0);
}

static void ask_kernel(const struct sock_fprog *program, struct probe *probes)
{
    for (size_t from = 0; from < PROBES;) {
        int status;
        pid_t pid = fork();

        if (pid == 0)
            child(program, probes, from);
        ck_assert_int_gt(pid, 0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(!WIFEXITED(status) || WEXITSTATUS(status) == 0, "the filter can't be installed: %d", WEXITSTATUS(status));
        while (from < PROBES && probes[from].said != NOT_YET)
            from++;
    }
}

START_TEST(profiles_in_the_kernel)
{
    struct probe *probes = mmap(NULL, PROBES * sizeof *probes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t seen[4] = { 0 };

    ck_assert_ptr_ne(probes, MAP_FAILED);
    for (unsigned int n = 0; n < PROFILES; n++) {
        struct sandbox_error *error = NULL;
        struct sb_profile *parsed = NULL;
        struct sock_fprog program;
        size_t count;
        json_t *profile;
        char *text;

        seed = n + 1;
        profile = some_profile();
        text = json_dumps(profile, 0);
        sbtest_ok(sb_profile_parse(text, strlen(text), &parsed, &error), &error);
        sbtest_ok(sb_profile_compile(parsed, 0, &program.filter, &count, &error), &error);
        program.len = (unsigned short)count;
        for (size_t i = 0; i < PROBES; i++) {
            probes[i] = (struct probe){ .call = chance(SB_ELEMENTS(calls)), .said = NOT_YET };
            for (int a = 0; a < 6; a++)
                probes[i].args[a] = (uint64_t)some_value() + chance(3) - 1;
        }
        ask_kernel(&program, probes);
        for (size_t i = 0; i < PROBES; i++) {
            int right = expected(profile, calls[probes[i].call].name, probes[i].args);

            seen[right == ALLOWED ? 0 : right == TRAPPED ? 1 : right == KILLED ? 2 : 3]++;
            ck_assert_msg(probes[i].said == right,
                          "profile %u, %s(%#lx, %#lx, %#lx, %#lx, %#lx, %#lx): the kernel says %d, right is %d: %s", n,
                          calls[probes[i].call].name, probes[i].args[0], probes[i].args[1], probes[i].args[2], probes[i].args[3],
                          probes[i].args[4], probes[i].args[5], probes[i].said, right, text);
        }
        free(program.filter);
        sb_profile_free(parsed);
        json_decref(profile);
        free(text);
    }
    for (int i = 0; i < 4; i++) /* chance has tried all kinds of answers */
        ck_assert_uint_gt(seen[i], 200);
    munmap(probes, PROBES * sizeof *probes);
}
END_TEST

static int compile(const char *text, uint64_t capabilities, size_t *ret_count, struct sandbox_error **error)
{
    SB_PROFILE struct sb_profile *profile = NULL;
    SB_FREE struct sock_filter *program = NULL;
    int r = sb_profile_parse(text, strlen(text), &profile, error);

    return r ? r : sb_profile_compile(profile, capabilities, &program, ret_count, error);
}

START_TEST(profiles_that_cannot_be)
{
    struct sandbox_error *error = NULL;
    char *text, *at;
    size_t count;

    /* a call that nobody knows: what would have closed it can't be left out, what would have opened it can */
    sbtest_fails(
        compile("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"teleport\"],\"action\":\"SCMP_ACT_ERRNO\"}]}",
                0, &count, &error),
        SANDBOX_EUNSUPPORTED, &error);
    sbtest_ok(
        compile("{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[{\"names\":[\"teleport\"],\"action\":\"SCMP_ACT_ALLOW\"}]}",
                0, &count, &error),
        &error);
    sbtest_fails(compile("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"architectures\":[\"SCMP_ARCH_S390X\"]}", 0, &count, &error),
                 SANDBOX_EUNSUPPORTED, &error);
    /* 1,000 rules of six conditions for one call */
    text = malloc(1 << 20);
    at = stpcpy(text, "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[");
    for (int i = 0; i < 1000; i++) {
        at += snprintf(at, 200, "%s{\"names\":[\"getpid\"],\"action\":\"SCMP_ACT_ERRNO\",\"args\":[", i ? "," : "");
        for (int a = 0; a < 2; a++)
            at += snprintf(at, 200, "%s{\"index\":%d,\"value\":%d,\"op\":\"SCMP_CMP_EQ\"}", a ? "," : "", a, i);
        at = stpcpy(at, "]}");
    }
    stpcpy(at, "]}");
    sbtest_fails(compile(text, 0, &count, &error), SANDBOX_ELIMIT, &error);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine-profile");
    TCase *tc = sbtest_case("profile");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, profiles_in_the_kernel);
    tcase_add_test(tc, profiles_that_cannot_be);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
