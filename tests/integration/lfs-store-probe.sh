#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# LayerFS Store-volume probe: could a LayerFS Store live in DIR?
# LayerFS accepts a Store only on ext4, xfs or btrfs, checked with statfs
# (core/crates/layerfs-store-service/src/kernel_guard.rs), and uses SQLite in
# WAL mode with several processes, file locks, renames and in-place writes.
#
# Usage: sh lfs-store-probe.sh DIR
#   PROBE_LOOP=1  instead of testing DIR itself, make a sparse ext4 image file
#                 DIR/lfs-store.img (PROBE_LOOP_MB, default 512), loop-mount it
#                 at /tmp/lfsstore-loop and test that (needs root or sudo).
#   PROBE_KEEP=1  leave the loop mount in place (to test it again after a restart)
# Prints KEY=VALUE lines. One attempt per step, each with a timeout.
set -u
say() { printf '%s=%s\n' "$1" "$2"; }
T() { if command -v timeout >/dev/null 2>&1; then timeout -k 5 "$@"; else shift; "$@"; fi; }
D=${1:?usage: lfs-store-probe.sh DIR}
SUDO=""
if [ "$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then SUDO="sudo -n"; fi
say store_probe_version 1
fsinfo() { # path -> type and magic as LayerFS's guard sees them
  m=$(stat -f -c %t "$1" 2>/dev/null)
  case "$m" in ef53) g=ext4;; 58465342) g=xfs;; 9123683e) g=btrfs;; *) g="rejected";; esac
  echo "magic=0x$m guard=$g mount=$(awk -v p="$1" 'index(p,$2)==1 && length($2)>=n {n=length($2); l=$1" "$3} END{print l}' /proc/mounts)"
}
if [ "${PROBE_LOOP:-0}" = 1 ]; then
  say dir_fs "$(fsinfo "$D")"
  IMG="$D/lfs-store.img"; MNT=/tmp/lfsstore-loop
  $SUDO mkdir -p "$MNT"
  if ! grep -qs " $MNT " /proc/mounts; then
    if [ ! -e "$IMG" ]; then
      T 30 $SUDO truncate -s "${PROBE_LOOP_MB:-512}M" "$IMG" && T 60 $SUDO mkfs.ext4 -q -F "$IMG" >/dev/null 2>&1 \
        && say loop_image "created $IMG" || { say loop_image "failed to create (truncate/mkfs.ext4)"; exit 0; }
    else say loop_image "reused existing $IMG"; fi
    if T 30 $SUDO mount -o loop "$IMG" "$MNT" 2>/tmp/lfsstore-mount.err; then say loop_mount ok
    else say loop_mount "failed: $(head -c 200 /tmp/lfsstore-mount.err | tr '\n' ' ')"; exit 0; fi
  else say loop_mount "already mounted"; fi
  $SUDO chmod 1777 "$MNT"
  say loop_dev "$(awk -v m="$MNT" '$2==m{print $1}' /proc/mounts)"
  D="$MNT"
fi
say store_fs "$(fsinfo "$D")"
P="$D/lfsstoreprobe.$$"
mkdir -p "$P" || { say store_write "failed: cannot mkdir in $D"; exit 0; }
[ -f "$D/marker" ] && say marker_before "$(cat "$D/marker")" || say marker_before none
date -u +%Y-%m-%dT%H:%M:%SZ > "$D/marker"
# in-place write at an offset, then read back
if command -v python3 >/dev/null 2>&1; then
  say pwrite "$(T 20 python3 -c "
import os,sys
p=sys.argv[1]+'/f'; fd=os.open(p,os.O_RDWR|os.O_CREAT,0o600); os.pwrite(fd,b'A'*8192,0); os.pwrite(fd,b'B',4096); os.fsync(fd)
print('ok' if os.pread(fd,1,4096)==b'B' else 'mismatch')" "$P" 2>&1 | tail -1)"
  # rename over an existing file
  say rename_over "$(T 20 python3 -c "
import os,sys
d=sys.argv[1]; open(d+'/a','w').write('new'); open(d+'/b','w').write('old'); os.rename(d+'/a',d+'/b'); print('ok' if open(d+'/b').read()=='new' else 'mismatch')" "$P" 2>&1 | tail -1)"
  # SQLite WAL with a writer process and a separate reader process
  say sqlite_wal "$(T 60 python3 -c "
import sqlite3,sys,subprocess
db=sys.argv[1]+'/s.sqlite'
c=sqlite3.connect(db); m=c.execute('pragma journal_mode=wal').fetchone()[0]
c.execute('create table t(x)'); c.execute('insert into t values (1)'); c.commit()
c.execute('begin immediate'); c.execute('insert into t values (2)')
code='import sqlite3,sys; r=sqlite3.connect(sys.argv[1],timeout=0); print(r.execute(\"select count(*) from t\").fetchone()[0]);\ntry:\n  r.execute(\"begin immediate\"); print(\"second-writer-allowed\")\nexcept sqlite3.OperationalError as e: print(\"second-writer-refused:\"+str(e))'
out=subprocess.run([sys.executable,'-c',code,db],capture_output=True,text=True,timeout=20)
c.commit()
w=out.stdout.split()
print(('mode='+m+' reader_saw='+w[0]+' second_writer='+('refused (ok)' if 'refused' in out.stdout else 'ALLOWED')) if w else 'reader-failed:'+out.stderr[-120:])" "$P" 2>&1 | tail -1 | tr '\n' ' ')"
else
  say pwrite "skipped: no python3"; say rename_over "skipped: no python3"; say sqlite_wal "skipped: no python3"
fi
# advisory locks across processes (LayerFS also takes a Linux directory lock)
if command -v flock >/dev/null 2>&1; then
  ( flock -x 9; sleep 3 ) 9>"$P/lock" &
  sleep 1
  if T 5 flock -n -x "$P/lock" true 2>/dev/null; then say flock "NOT exclusive (second lock granted)"; else say flock "exclusive ok"; fi
  wait
else say flock "skipped: no flock"; fi
rm -rf "$P"
if [ "${PROBE_LOOP:-0}" = 1 ] && [ "${PROBE_KEEP:-0}" != 1 ]; then
  T 20 $SUDO umount /tmp/lfsstore-loop && say loop_unmount ok || say loop_unmount failed
fi
say done ok
