/* SPDX-License-Identifier: Apache-2.0
 * B2 and S1: a volume, and what several sandboxes do to it at once; F50 and F54, what is read-only and what is full. */
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sandbox_error *error;

static struct sandbox *with_volume(const char *volume, unsigned int flags)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = row_spec();

    mount.type = SANDBOX_MOUNT_VOLUME;
    mount.source = volume;
    mount.target = "/store";
    mount.flags = flags;
    row_need(sandbox_spec_add_mount(spec, &mount, &error), &error, "mount the volume");
    return row_start(spec);
}

static void b2_shared(void)
{
    const char *volume = row_volume();
    struct sandbox *a = with_volume(volume, 0), *b = with_volume(volume, 0);

    free(row_sh(a, NULL, "echo one >/store/file; mkdir /store/folder"));
    row_says(b, NULL, "cat /store/file", "one");
    free(row_sh(b, NULL,
                "mv /store/file /store/folder/renamed; printf ONE | dd of=/store/folder/renamed conv=notrunc 2>/dev/null"));
    row_says(a, NULL, "cat /store/folder/renamed", "ONE");
    /* the same file: a link made in one is seen as the second name in the other */
    free(row_sh(a, NULL, "ln /store/folder/renamed /store/link"));
    row_says(b, NULL, "stat -c %h /store/link", "2");
}

static void b2_filesystem(void)
{
    char *type = row_sh(with_volume(row_volume(), 0), NULL, "stat -f -c %t /store");

    if (strcmp(type, "ef53") && strcmp(type, "58465342") && strcmp(type, "9123683e"))
        row_unsupported("the volume is on a file system of type 0x%.20s, not on ext4, xfs or btrfs", type);
    free(type);
}

/* A lock that one holds keeps the other out, and is free at the holder's end. */
static void b2_locks(void)
{
    const char *volume = row_volume();
    struct sandbox *a = with_volume(volume, 0), *b = with_volume(volume, 0);
    struct sandbox_exec *holder;
    struct row_output run = row_run_command(a, ROW_ARGV("/bin/sh", "-c", "command -v flock"), NULL, NULL, 0);

    if (run.result.code != 0)
        row_unsupported("the image has no flock");
    holder = row_begin(a, ROW_ARGV("/bin/sh", "-c", "exec 9>/store/lock; flock 9; touch /store/held; exec sleep 1000"), NULL);
    row_await(b, "test -e /store/held", "the lock is held");
    row_says(b, NULL, "flock -n /store/lock true && echo free || echo held", "held");
    row_need(sandbox_exec_kill(holder, 9, SANDBOX_KILL_DESCENDANTS, &error), &error, "kill the holder");
    row_end(holder, 20000);
    row_await(b, "flock -n /store/lock true", "the lock is free");
    sandbox_exec_unref(holder);
    sandbox_output_clear(&run.output);
}

static void b2_sqlite(void)
{
    static const char write_all[] = "import sqlite3,sys\n"
                                    "d=sqlite3.connect('/store/db',timeout=55,isolation_level=None)\n"
                                    "for n in range(100): d.execute('insert into t values(?,?)',(sys.argv[1],n))\n";
    const char *volume = row_volume();
    struct sandbox *a = with_volume(volume, 0), *b = with_volume(volume, 0);
    struct sandbox_exec *one, *two;
    struct row_output run = row_run_command(a, ROW_ARGV("/bin/sh", "-c", "python3 -c 'import sqlite3'"), NULL, NULL, 0);

    if (run.result.code != 0)
        row_unsupported("the image has no python3 with sqlite3");
    /* by one: two that turn to WAL at the same moment don't wait for each other, anywhere ("database is locked" at once) */
    row_says(a, NULL,
             "python3 -c \"import sqlite3; d=sqlite3.connect('/store/db'); print(d.execute('pragma journal_mode=wal').fetchone()[0]); "
             "d.execute('create table t(who,n)')\"",
             "wal");
    one = row_begin(a, ROW_ARGV("python3", "-c", write_all, "a"), NULL);
    two = row_begin(b, ROW_ARGV("python3", "-c", write_all, "b"), NULL);
    ROW_CHECK(row_end(one, 60000).code == 0 && row_end(two, 60000).code == 0, "a writer failed");
    row_says(a, NULL,
             "python3 -c \"import sqlite3; d=sqlite3.connect('/store/db'); print(d.execute('pragma journal_mode').fetchone()[0], "
             "d.execute('select count(*) from t').fetchone()[0], d.execute('pragma integrity_check').fetchone()[0])\"",
             "wal 200 ok");
    sandbox_exec_unref(one);
    sandbox_exec_unref(two);
    sandbox_output_clear(&run.output);
}

/* The path that the caller is given holds the same bytes, both ways. */
static void s1_path(void)
{
    struct sandbox_volume *volume = NULL;
    const char *name = row_volume();
    struct sandbox *sandbox = with_volume(name, 0);
    char path[4200], text[32] = "";
    int fd;

    row_need(sandbox_volume_open(row_host(), name, &volume, &error), &error, "open the volume");
    if (!*sandbox_volume_get_path(volume))
        row_unsupported("the volume is not on this kernel");
    free(row_sh(sandbox, NULL, "umask 0; echo from inside >/store/file"));
    snprintf(path, sizeof path, "%s/file", sandbox_volume_get_path(volume));
    fd = open(path, O_RDWR | O_CLOEXEC);
    ROW_CHECK(fd >= 0, "the volume's path: %s", strerror(errno));
    row_read(fd, text, 12, 10000);
    ROW_CHECK(!strcmp(text, "from inside\n"), "the volume's path holds \"%.20s\"", text);
    ROW_CHECK(pwrite(fd, "FROM", 4, 0) == 4, "the volume's path: %s", strerror(errno));
    close(fd);
    row_says(sandbox, NULL, "cat /store/file", "FROM inside");
    sandbox_volume_unref(volume);
}

static void b9_volume_busy(void)
{
    const char *volume = row_volume();
    struct sandbox *sandbox = with_volume(volume, 0);

    row_refused(sandbox_volume_remove(row_host(), volume, &error), SANDBOX_EBUSY, &error, "remove a volume in use");
    row_says(sandbox, NULL, "echo works >/store/file; cat /store/file", "works");
}

/* Read-only is enforced outside: root inside, with SYS_ADMIN, can't remount it. */
static void f50_read_only_root(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox;

    row_need(sandbox_spec_set_read_only(spec, 1, &error), &error, "read-only");
    row_need(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error, "add SYS_ADMIN");
    row_need(sandbox_spec_set_daemon(spec,
                                     ROW_ARGV("/bin/sh", "-c",
                                              "mount -o remount,rw / ; mount -o remount,bind,rw /; echo x >/file; "
                                              "echo done >/dev/shm/done; exec sleep 1000"),
                                     &error),
             &error, "daemon");
    sandbox = row_start(spec);
    row_await(sandbox, "test -e /dev/shm/done", "the daemon tries");
    row_says(sandbox, NULL, "test -e /file && echo written || echo refused; echo x 2>/dev/null >/file || echo refused",
             "refused\nrefused");
}

static void f50_read_only_volume(void)
{
    const char *volume = row_volume();
    struct sandbox *writer = with_volume(volume, 0), *reader = with_volume(volume, SANDBOX_MOUNT_READ_ONLY);

    free(row_sh(writer, NULL, "echo text >/store/file"));
    row_says(reader, NULL,
             "cat /store/file; echo x 2>/dev/null >/store/file || echo refused; mount -o remount,bind,rw /store 2>/dev/null; "
             "echo x 2>/dev/null >/store/file || echo refused",
             "text\nrefused\nrefused");
}

static void f54_full(void)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox;

    mount.type = SANDBOX_MOUNT_TMPFS;
    mount.target = "/small";
    mount.max_bytes = 1 << 20;
    row_need(sandbox_spec_add_mount(spec, &mount, &error), &error, "mount a small tmpfs");
    sandbox = row_start(spec);
    row_says(
        sandbox, NULL,
        "head -c 5000000 /dev/zero 2>/dev/null >/small/file && echo all || echo full; rm /small/file; echo again >/small/file; "
        "cat /small/file",
        "full\nagain");
}

static const struct row rows[] = {
    { "b2_shared", b2_shared },
    { "b2_filesystem", b2_filesystem },
    { "b2_locks", b2_locks },
    { "b2_sqlite", b2_sqlite },
    { "s1_path", s1_path },
    { "b9_volume_busy", b9_volume_busy },
    { "f50_read_only_root", f50_read_only_root },
    { "f50_read_only_volume", f50_read_only_volume },
    { "f54_full", f54_full },
};
const struct rows rows_store = { rows, sizeof rows / sizeof *rows };
