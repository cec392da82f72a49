/* SPDX-License-Identifier: Apache-2.0
 * B4: the daemon, its capabilities, its FUSE, and the init above it. */
#include "contract.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sandbox_error *error;

/* The daemon writes down what it sees; a command reads it. */
static void b4_daemon(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox;

    row_need(sandbox_spec_set_daemon(spec,
                                     ROW_ARGV("/bin/sh", "-c",
                                              "mkdir -p /tmp; { id -u; echo $PPID; readlink /proc/self/fd/0; } >/tmp/seen.new; "
                                              "mv /tmp/seen.new /tmp/seen; exec sleep 1000"),
                                     &error),
             &error, "set the daemon");
    sandbox = row_start(spec);
    row_await(sandbox, "test -e /tmp/seen", "the daemon writes what it sees");
    row_says(sandbox, NULL, "cat /tmp/seen", "0\n1\n/dev/null");
}

static void b4_capability(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox;
    unsigned long long effective;
    char *text;

    row_need(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error, "add SYS_ADMIN");
    row_need(sandbox_spec_set_daemon(spec,
                                     ROW_ARGV("/bin/sh", "-c",
                                              "mkdir -p /tmp /tmp/t; grep CapEff: /proc/self/status >/tmp/seen.new; "
                                              "mount -t tmpfs contract /tmp/t && echo inside >/tmp/t/file; "
                                              "mv /tmp/seen.new /tmp/seen; exec sleep 1000"),
                                     &error),
             &error, "set the daemon");
    sandbox = row_start(spec);
    row_await(sandbox, "test -e /tmp/seen", "the daemon writes what it sees");
    text = row_sh(sandbox, NULL, "cat /tmp/seen");
    ROW_CHECK(sscanf(text, "CapEff: %llx", &effective) == 1 && effective >> 21 & 1, "the daemon has not SYS_ADMIN: %.100s", text);
    free(text);
    row_says(sandbox, NULL, "cat /tmp/t/file", "inside");
}

static void b4_init_reaps(void)
{
    struct sandbox *sandbox = row_guest_daemon(NULL, "orphans 50; ");

    row_await(sandbox, "test $(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ') = 0", "orphans are reaped");
    free(row_sh(sandbox, NULL, "/tmp/contract-guest orphans 50"));
    row_await(sandbox, "test $(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ') = 0", "orphans of a command are reaped");
}

static struct sandbox *fuse_sandbox(const char *folders)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox;
    char arguments[200];

    row_need(sandbox_spec_set_fuse(spec, 1, &error), &error, "ask for FUSE");
    row_need(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error, "add SYS_ADMIN");
    snprintf(arguments, sizeof arguments, "fuse %s >/tmp/fuse.log 2>&1", folders);
    sandbox = row_guest_daemon(spec, arguments);
    row_await(sandbox, "grep -q mounted /tmp/fuse.log", "the daemon mounts");
    return sandbox;
}

static void b4_fuse_device(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox;

    row_need(sandbox_spec_set_fuse(spec, 1, &error), &error, "ask for FUSE");
    sandbox = row_start(spec);
    row_says(sandbox, NULL, "stat -c '%F %t:%T' /dev/fuse", "character special file a:e5");
    /* and nobody has it who did not ask */
    row_says(row_start(NULL), NULL, "test -e /dev/fuse || echo none", "none");
}

/* The node is the sandbox's own: root's alone, and a chmod of it is nobody else's business. */
static void b4_fuse_node(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox;

    row_need(sandbox_spec_set_fuse(spec, 1, &error), &error, "ask for FUSE");
    row_need(sandbox_spec_set_daemon(spec,
                                     ROW_ARGV("/bin/sh", "-c",
                                              "mkdir -p /tmp; chmod 640 /dev/fuse; chmod 600 /dev/fuse && touch /tmp/done; "
                                              "exec sleep 1000"),
                                     &error),
             &error, "set the daemon");
    sandbox = row_start(spec);
    row_isolation(sandbox, "fuse");
    row_await(sandbox, "test -e /tmp/done", "the daemon may chmod its node");
    row_says(sandbox, NULL, "stat -c '%a %u:%g' /dev/fuse", "600 0:0");
    row_says(sandbox, "501:20", "cat /dev/fuse 2>/dev/null || echo refused", "refused");
}

/* The daemon mounts by mount(2) with allow_other; root's command works in it. */
static void b4_fuse(void)
{
    struct sandbox *sandbox = fuse_sandbox("/desk");

    row_says(sandbox, NULL, "cat /desk/hello; echo written >/desk/note; cat /desk/note; ls /desk",
             "hello from /desk\nwritten\nhello\nnote");
    row_says(sandbox, NULL, "grep ' /desk ' /proc/self/mounts | cut -d' ' -f3", "fuse");
}

static void b4_fuse_other_user(void)
{
    struct sandbox *sandbox = fuse_sandbox("/desk");

    row_says(sandbox, "501:20", "cat /desk/hello; echo mine >/desk/note; cat /desk/note; stat -c %u:%g /desk/note",
             "hello from /desk\nmine\n501:20");
}

/* Whoever works in it can't take it away, nor open the device. */
static void b4_fuse_locked(void)
{
    struct sandbox *sandbox = fuse_sandbox("/desk");

    row_says(sandbox, NULL, "umount /desk 2>/dev/null; umount -l /desk 2>/dev/null; cat /desk/hello", "hello from /desk");
    row_says(sandbox, NULL, "mkdir -p /tmp/copy; mount --bind /desk /tmp/copy 2>/dev/null; ls /tmp/copy", "");
}

/* The daemon itself can unmount: refused while somebody is in it, done when nobody is. */
static void b4_fuse_unmount(void)
{
    struct sandbox *sandbox = fuse_sandbox("/desk");
    struct sandbox_exec *exec =
        row_begin(sandbox, ROW_ARGV("/bin/sh", "-c", "cd /desk && touch /tmp/inside && exec sleep 1000"), NULL);

    row_await(sandbox, "test -e /tmp/inside", "a command is in the workspace");
    row_need(sandbox_kill(sandbox, SIGUSR1, &error), &error, "signal the daemon");
    row_await(sandbox, "grep -q 'umount /desk: EBUSY' /tmp/fuse.log", "an unmount is refused while a command is inside");
    row_need(sandbox_exec_kill(exec, SIGKILL, 0, &error), &error, "kill the command");
    row_end(exec, 20000);
    row_need(sandbox_kill(sandbox, SIGUSR1, &error), &error, "signal the daemon");
    row_await(sandbox, "grep -q 'umount /desk: ok' /tmp/fuse.log", "an unmount succeeds");
    row_says(sandbox, NULL, "grep -c ' /desk ' /proc/self/mounts || true", "0");
    sandbox_exec_unref(exec);
}

static void b4_fuse_many(void)
{
    struct sandbox *sandbox = fuse_sandbox("/w1 /w2 /w3 /w4 /w5 /w6 /w7 /w8 /w9 /w10 /w11 /w12 /w13 /w14 /w15 /w16");
    char want[512] = "";

    for (int i = 1; i <= 16; i++)
        snprintf(want + strlen(want), sizeof want - strlen(want), "%shello from /w%d", i > 1 ? "\n" : "", i);
    row_says(sandbox, NULL, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do cat /w$i/hello; done", want);
}

/* Two sandboxes, different file systems at one path. */
static void b4_fuse_two(void)
{
    struct sandbox *a = fuse_sandbox("/desk"), *b = fuse_sandbox("/desk");

    free(row_sh(a, NULL, "echo of a >/desk/note"));
    free(row_sh(b, NULL, "echo of b >/desk/note"));
    row_says(a, NULL, "cat /desk/note", "of a");
    row_says(b, NULL, "cat /desk/note", "of b");
}

/* A daemon that does not answer any more: who looks below its mount waits; others, a stop and a delete do not. */
static void b4_fuse_hung(void)
{
    struct sandbox *sandbox = fuse_sandbox("/desk");
    struct sandbox_exec *stuck;
    int64_t begun;

    row_need(sandbox_kill(sandbox, SIGSTOP, &error), &error, "halt the daemon");
    stuck = row_begin(sandbox, ROW_ARGV("/bin/sh", "-c", "cat /desk/hello"), NULL);
    row_sleep(300);
    begun = row_now();
    row_says(sandbox, NULL, "echo others go on", "others go on");
    ROW_CHECK(row_now() - begun < 5000, "another command took %lld ms", (long long)(row_now() - begun));
    begun = row_now();
    row_need(sandbox_stop(sandbox, 0, 60000, &error), &error, "stop");
    ROW_CHECK(row_now() - begun < 10000, "the stop took %lld ms", (long long)(row_now() - begun));
    sandbox_exec_unref(stuck);
    begun = row_now();
    row_need(sandbox_delete(sandbox, 60000, &error), &error, "delete");
    ROW_CHECK(row_now() - begun < 10000, "the delete took %lld ms", (long long)(row_now() - begun));
}

static const struct row rows[] = {
    { "b4_daemon", b4_daemon },
    { "b4_capability", b4_capability },
    { "b4_init_reaps", b4_init_reaps },
    { "b4_fuse_device", b4_fuse_device },
    { "b4_fuse_node", b4_fuse_node },
    { "b4_fuse", b4_fuse },
    { "b4_fuse_other_user", b4_fuse_other_user },
    { "b4_fuse_locked", b4_fuse_locked },
    { "b4_fuse_unmount", b4_fuse_unmount },
    { "b4_fuse_many", b4_fuse_many },
    { "b4_fuse_two", b4_fuse_two },
    { "b4_fuse_hung", b4_fuse_hung },
};
const struct rows rows_daemon = { rows, sizeof rows / sizeof *rows };
