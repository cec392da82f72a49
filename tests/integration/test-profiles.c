/* SPDX-License-Identifier: Apache-2.0
 * Profiles of system calls in real sandboxes: what runs under each of ours, and that a caller's own is enforced, on the daemon too. */
#include "box.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const profiles[] = { "strict", "default", "devel" };
enum { STRICT, DEFAULT, DEVEL };

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static void start(const char *profile)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_seccomp(spec, profile, &error), &error);
    sandbox = box_start(host, spec);
}

static void expect(const char *script, const char *output)
{
    char *text = box_sh(sandbox, box_user(), script);

    ck_assert_msg(strcmp(text, output) == 0, "\"%s\" says \"%s\"", script, text);
    free(text);
}

/* ---- what runs under each ---- */

START_TEST(profile_shell)
{
    start(profiles[_i]);
    expect("cd /tmp; mkdir d; seq 1000 | sort -n | tail -1 >d/f; (sleep 0.01 & wait); cp -a d e; mv e g; ln -s f g/l; cat g/l | "
           "(read a; echo $a); rm -r d g",
           "1000");
}
END_TEST

START_TEST(profile_python)
{
    if (access("/usr/bin/python3", X_OK))
        sbtest_skip("no python3 in /usr/bin");
    start(profiles[_i]);
    expect("/usr/bin/python3 -c '\n"
           "import threading, subprocess, tempfile, sqlite3, socket, select, os, mmap, asyncio\n"
           "n = []\n"
           "threads = [threading.Thread(target=lambda: n.append(1)) for i in range(20)]\n"
           "[t.start() for t in threads]; [t.join() for t in threads]\n"
           "out = subprocess.run([\"/bin/echo\", \"hi\"], capture_output=True, text=True).stdout.strip()\n"
           "f = tempfile.NamedTemporaryFile(); d = sqlite3.connect(f.name); d.execute(\"pragma journal_mode=wal\"); "
           "d.execute(\"create table t(a)\")\n"
           "s = socket.create_server((\"127.0.0.1\", 0)); c = socket.create_connection(s.getsockname())\n"
           "async def main(): await asyncio.sleep(0.001); return 7\n"
           "print(len(n), out, asyncio.run(main()))'",
           "20 hi 7");
}
END_TEST

START_TEST(profile_gcc)
{
    if (access("/usr/bin/gcc", X_OK))
        sbtest_skip("no gcc in /usr/bin");
    start(profiles[_i]);
    expect("cd /tmp; echo 'int puts(const char *); int main(void) { return puts(\"made here\") < 0; }' >a.c; gcc -pipe -O1 a.c "
           "-o a; ./a; rm a a.c",
           "made here");
}
END_TEST

START_TEST(profile_git)
{
    if (access("/usr/bin/git", X_OK))
        sbtest_skip("no git in /usr/bin");
    start(profiles[_i]);
    expect("cd /tmp; export HOME=/tmp GIT_CONFIG_NOSYSTEM=1; git init -q r; cd r; echo a >a; git add a; git -c user.name=n -c "
           "user.email=e commit -qm first; "
           "git gc -q; git clone -q . ../c; git -C ../c log --format=%s; rm -rf /tmp/r /tmp/c",
           "first");
}
END_TEST

START_TEST(profile_node)
{
    if (access("/usr/bin/node", X_OK))
        sbtest_skip("no node in /usr/bin");
    start(profiles[_i]);
    expect("node -e 'const {Worker} = require(\"worker_threads\"); new "
           "Worker(\"require(\\\"worker_threads\\\").parentPort.postMessage(6*7)\", {eval: true})"
           ".on(\"message\", m => console.log(m))'",
           "42");
}
END_TEST

START_TEST(profile_go)
{
    const char *go = access("/usr/bin/gofmt", X_OK) == 0 ? "/usr/bin/gofmt" : "/usr/local/go/bin/gofmt";
    char script[200];

    if (access(go, X_OK))
        sbtest_skip("no program made by go in /usr");
    start(profiles[_i]);
    snprintf(script, sizeof script, "echo 'package   a' | %s", go);
    expect(script, "package a");
}
END_TEST

/* Tracers are what "strict" is there to refuse. */
START_TEST(profile_strace)
{
    if (access("/usr/bin/strace", X_OK))
        sbtest_skip("no strace in /usr/bin");
    start(profiles[_i]);
    if (_i == STRICT)
        ck_assert_int_ne(box_code(sandbox, box_user(), "strace -o /dev/null true 2>/dev/null"), 0);
    else
        expect("strace -f -o /tmp/t sh -c 'true; echo traced' && grep -q exit_group /tmp/t; rm /tmp/t", "traced");
}
END_TEST

START_TEST(profile_gdb)
{
    if (access("/usr/bin/gdb", X_OK))
        sbtest_skip("no gdb in /usr/bin");
    start(profiles[_i]);
    if (_i == STRICT)
        ck_assert_int_ne(box_code(sandbox, box_user(), "gdb -nx -batch -ex run /bin/true 2>&1 | grep -q 'exited normally'"), 0);
    else
        expect("HOME=/tmp gdb -nx -batch -ex run /bin/true 2>/dev/null | grep -c 'exited normally'", "1");
}
END_TEST

/* The errors of a few calls, by number: not there, refused, or the kernel's own. */
#if defined(__x86_64__)
#define ERRNO_OF(nr, arguments)                                                                                                  \
    "/usr/bin/python3 -c 'import ctypes, os; c = ctypes.CDLL(None, use_errno=True); c.syscall(" nr ", " arguments                \
    "); print(ctypes.get_errno())'"

START_TEST(profile_calls)
{
    static const struct {
        const char *script, *says[3]; /* under strict, default, devel */
    } samples[] = {
        { ERRNO_OF("298", "0, 0, -1, -1, 0"), { "38", "1", "14" } }, /* perf_event_open: EFAULT is the kernel's */
        { ERRNO_OF("312", "os.getpid(), os.getpid(), 0, 1, 1"), { "38", "1", "0" } }, /* kcmp */
        { ERRNO_OF("101", "99, 0, 0, 0"), { "38", "5|3", "5|3" } },                   /* ptrace */
        { ERRNO_OF("310", "1, 0, 0, 0, 0, 0"), { "38", "0|1|3", "0|1|3" } },          /* process_vm_readv */
        { ERRNO_OF("206", "1, 0"), { "38", "14", "14" } },                            /* io_setup */
        { ERRNO_OF("135", "0x0040000"), { "38", "0", "0" } },                         /* personality: no randomisation */
        { ERRNO_OF("135", "0xffffffff"), { "0", "0", "0" } },                         /* and what it is */
        { ERRNO_OF("272", "0x10000000"), { "38", "1", "1" } },                        /* unshare, a user namespace */
        { ERRNO_OF("425", "1, 0"), { "38", "38", "38" } },                            /* io_uring_setup */
        { ERRNO_OF("41", "38, 5, 0"), { "97", "97", "97" } },                         /* socket, AF_ALG */
    };

    if (access("/usr/bin/python3", X_OK))
        sbtest_skip("no python3 in /usr/bin");
    start(profiles[_i]);
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        char *text = box_sh(sandbox, box_user(), samples[i].script), line[64];

        snprintf(line, sizeof line, "said: %s\n", text);
        box_expect(line, "said", samples[i].says[_i]);
        free(text);
    }
}
END_TEST
#endif

/* ---- a caller's own ---- */

/* LayerFS's, as its client sends it. */
static const char layerfs[] =
    "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"unshare\",\"clone\"],\"action\":\"SCMP_ACT_ERRNO\","
    "\"errnoRet\":1,"
    "\"args\":[{\"index\":0,\"value\":268435456,\"valueTwo\":268435456,\"op\":\"SCMP_CMP_MASKED_EQ\"}]},"
    "{\"names\":[\"clone3\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":38}]}";

START_TEST(profile_layerfs)
{
    struct sandbox_info *info = NULL;

    start(layerfs);
    expect("unshare -U true 2>/dev/null || echo refused", "refused");
    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    ck_assert_ptr_nonnull(strstr(sandbox_info_get_json(info), "SCMP_CMP_MASKED_EQ"));
    sandbox_info_unref(info);
}
END_TEST

/* It can't open what the isolation stands on. */
START_TEST(profile_only_takes_away)
{
    start("{\"defaultAction\":\"SCMP_ACT_ALLOW\"}");
    expect("unshare -U true 2>/dev/null || echo refused", "refused");
    expect("unshare -m true 2>/dev/null || echo refused", "refused");
}
END_TEST

/* Errors, death, and rules for who has a right: the daemon has it, commands have none. */
START_TEST(profile_own)
{
    static const char text[] = "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"mkdir\",\"mkdirat\"],"
                               "\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":122},"
                               "{\"names\":[\"sync\"],\"action\":\"SCMP_ACT_KILL_PROCESS\"},"
                               "{\"names\":[\"link\",\"linkat\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":95,\"includes\":{"
                               "\"caps\":[\"CAP_SYS_ADMIN\"]}}]}";
    struct sandbox_spec *spec = box_spec();
    struct box_run run;
    char *log;

    sbtest_ok(sandbox_spec_set_seccomp(spec, text, &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error);
    sbtest_ok(
        sandbox_spec_set_daemon(
            spec,
            BOX_ARGV("/bin/sh", "-c",
                     "(mkdir /tmp/d; touch /tmp/a; ln /tmp/a /tmp/b; sync; echo $?) >/tmp/log 2>&1; touch /tmp/done; sleep 1000"),
            &error),
        &error);
    sandbox = box_start(host, spec);
    box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("/bin/mkdir", "/tmp/c"));
    ck_assert_int_eq(run.result.code, 1);
    ck_assert_msg(strstr(run.output.err, strerror(122)), "%s", run.output.err);
    box_clear(&run);
    box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("/bin/sync"));
    ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_SIGNALLED);
    ck_assert_int_eq(run.result.signal, SIGSYS);
    box_clear(&run);
    ck_assert_int_eq(box_code(sandbox, NULL, "touch /tmp/e; ln /tmp/e /tmp/f"), 0);
    for (int i = 0; i < 500 && box_code(sandbox, NULL, "[ -e /tmp/done ]"); i++)
        usleep(20000);
    log = box_sh(sandbox, NULL, "cat /tmp/log");
    ck_assert_msg(strstr(log, strerror(122)) && strstr(log, strerror(95)) && strstr(log, "159"), "%s", log);
    free(log);
}
END_TEST

/* A profile that leaves hardly anything: what it must leave does. */
START_TEST(profile_least)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;
    struct box_run run;

    start("{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":38,\"syscalls\":[{\"names\":[\"execve\",\"write\",\"exit_"
          "group\",\"brk\",\"mmap\",\"mprotect\",\"arch_prctl\",\"set_tid_address\",\"newfstatat\"],\"action\":\"SCMP_ACT_"
          "ALLOW\"}]}");
    box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("/guest/bombs"));
    ck_assert_int_eq(run.result.code, 2);
    box_clear(&run);
    ck_assert_int_eq(sandbox_exec(sandbox, BOX_ARGV("/no/such"), &options, &exec, NULL), SANDBOX_ENOTFOUND);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox = sandbox_unref(sandbox);
    start("{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"execve\",\"execveat\"],\"action\":\"SCMP_ACT_"
          "ERRNO\"}]}");
    sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("/bin/true"), &options, &exec, &error), SANDBOX_ENOTEXECUTABLE, &error);
}
END_TEST

START_TEST(profile_refused)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_fails(sandbox_spec_set_seccomp(spec, "unconfined", &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_spec_set_seccomp(spec, "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"more\":1}", &error), SANDBOX_EINVALID,
                 &error);
    /* known only where it is compiled */
    sbtest_ok(
        sandbox_spec_set_seccomp(
            spec,
            "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"teleport\"],\"action\":\"SCMP_ACT_ERRNO\"}]}",
            &error),
        &error);
    sbtest_fails(sandbox_create(host, spec, 10000, &sandbox, &error), SANDBOX_EUNSUPPORTED, &error);
    sandbox_spec_unref(spec);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-profiles");
    TCase *tc = sbtest_case("profiles");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, profile_shell, 0, 3);
    tcase_add_loop_test(tc, profile_python, 0, 3);
    tcase_add_loop_test(tc, profile_gcc, 0, 3);
    tcase_add_loop_test(tc, profile_git, 0, 3);
    tcase_add_loop_test(tc, profile_node, 0, 3);
    tcase_add_loop_test(tc, profile_go, 0, 3);
    tcase_add_loop_test(tc, profile_strace, 0, 3);
    tcase_add_loop_test(tc, profile_gdb, 0, 3);
#if defined(__x86_64__)
    tcase_add_loop_test(tc, profile_calls, 0, 3);
#endif
    tcase_add_test(tc, profile_layerfs);
    tcase_add_test(tc, profile_only_takes_away);
    tcase_add_test(tc, profile_own);
    tcase_add_test(tc, profile_least);
    tcase_add_test(tc, profile_refused);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
