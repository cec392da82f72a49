#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# (A copy of the LayerFS project's own acceptance probe, unchanged but for these two lines: see README.md.)
# LayerFS route-A probe: can this environment REPLACE the Docker container,
# i.e. host the daemon's FUSE mount and LayerFS's privilege split with no
# Docker? Prints KEY=VALUE lines. Writes only under /tmp/lfsrouteA, and adds a
# throwaway user `lfsprobe` (uid/gid 1500) if missing.
#
# LayerFS today (Docker backend): the daemon runs as root with CAP_SYS_ADMIN
# and /dev/fuse and mounts with allow_other; commands run as a separate nonroot
# uid:gid with no capabilities, no-new-privileges, and a seccomp filter that
# forbids user namespaces, so a command cannot unmount the Workspace or copy
# the mount into a namespace of its own. Route A needs the same split here.
#
# Needs root or passwordless sudo. Each step is one attempt with a timeout.
# Usage: sh lfs-route-a-probe.sh   (PROBE_INSTALL=1 installs fuse3 +
# fuse-overlayfs + util-linux via apt/apk if missing)
set -u
W=/tmp/lfsrouteA
say() { printf '%s=%s\n' "$1" "$2"; }
T() { if command -v timeout >/dev/null 2>&1; then timeout "$@"; else shift; "$@"; fi; }
SUDO=""
if [ "$(id -u)" != 0 ]; then
  if sudo -n true 2>/dev/null; then SUDO="sudo -n"; else say route_a "skipped: needs root or passwordless sudo"; exit 0; fi
fi
say route_a_version 2
# error and output files are written by this (maybe nonroot) shell, so they go
# in a directory it owns, not under the root-owned $W
E=$(mktemp -d)
$SUDO mkdir -p "$W/src/pub" "$W/up" "$W/wk" "$W/mnt" "$W/copy"
echo "probe-file" | $SUDO tee "$W/src/hello.txt" >/dev/null
$SUDO chmod 0777 "$W/src/pub"; $SUDO chmod 0755 "$W" "$W/src" "$W/mnt" "$W/copy"

if [ "${PROBE_INSTALL:-0}" = 1 ]; then
  if command -v apt-get >/dev/null 2>&1; then
    T 110 $SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq fuse3 fuse-overlayfs util-linux >/dev/null 2>&1 \
      || { T 110 $SUDO env DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null 2>&1; \
           T 110 $SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq fuse3 fuse-overlayfs util-linux >/dev/null 2>&1; }
  elif command -v apk >/dev/null 2>&1; then
    T 110 $SUDO apk add --no-cache fuse3 fuse-overlayfs util-linux setpriv shadow >/dev/null 2>&1
  fi
fi
if ! command -v fuse-overlayfs >/dev/null 2>&1; then say route_a "skipped: no fuse-overlayfs"; exit 0; fi

# the command identity: a plain nonroot user, like LayerFS's CommandIdentity
if ! id lfsprobe >/dev/null 2>&1; then
  if command -v useradd >/dev/null 2>&1; then $SUDO useradd -u 1500 -U -M -s /bin/sh lfsprobe 2>/dev/null
  else $SUDO addgroup -g 1500 lfsprobe 2>/dev/null; $SUDO adduser -D -H -u 1500 -G lfsprobe -s /bin/sh lfsprobe 2>/dev/null; fi
fi
say cmd_user "$(id lfsprobe 2>/dev/null || echo absent)"
# run a shell snippet as the command identity, dropping every capability and
# setting no-new-privileges, as LayerFS's Docker Exec does
if command -v setpriv >/dev/null 2>&1; then
  AS() { T 20 $SUDO setpriv --reuid=1500 --regid=1500 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs sh -c "$1"; }
  say cmd_launcher "setpriv"
else
  AS() { T 20 $SUDO su -s /bin/sh lfsprobe -c "$1"; }
  say cmd_launcher "su (no no-new-privs, no bounding-set drop)"
fi

# 1. the daemon side: root mounts with allow_other
if T 30 $SUDO fuse-overlayfs -o "allow_other,lowerdir=$W/src,upperdir=$W/up,workdir=$W/wk" "$W/mnt" 2>"$E/mount.err"; then
  say daemon_mount_allow_other "ok $(awk -v m="$W/mnt" '$2==m{print $3" "$4}' /proc/mounts)"
else
  say daemon_mount_allow_other "failed: $(head -c 200 "$E/mount.err" | tr '\n' ' ')"
  say done ok; exit 0
fi

# 2. the command side, as uid 1500 with no capabilities
say cmd_caps "$(AS 'awk "/^CapEff|^CapBnd|^NoNewPrivs|^Seccomp:/{printf \"%s%s \", \$1, \$2}" /proc/self/status' 2>&1)"
say cmd_read "$(AS "cat $W/mnt/hello.txt" 2>&1 | head -c 120)"
say cmd_write "$(AS "echo from-cmd > $W/mnt/pub/c.txt && cat $W/mnt/pub/c.txt" 2>&1 | head -c 120)"
say cmd_write_owner "$(stat -c '%u:%g' "$W/mnt/pub/c.txt" 2>/dev/null || echo none)"
# must FAIL for parity: the command cannot unmount the Workspace
if AS "umount $W/mnt 2>/dev/null || fusermount3 -u $W/mnt 2>/dev/null || fusermount -u $W/mnt" >/dev/null 2>&1; then
  say cmd_unmount "SUCCEEDED (parity broken)"
  T 30 $SUDO fuse-overlayfs -o "allow_other,lowerdir=$W/src,upperdir=$W/up,workdir=$W/wk" "$W/mnt" 2>/dev/null
else say cmd_unmount "denied (parity ok)"; fi
# must FAIL for parity: no user namespace, so no private mount namespace
if AS "unshare -U true" >/dev/null 2>&1; then
  say cmd_userns "allowed (parity broken: needs a seccomp/sysctl block)"
  if AS "unshare -Urm sh -c 'mount --bind $W/mnt $W/copy && cat $W/copy/hello.txt'" >"$E/copy.out" 2>&1; then
    say cmd_copy_mount "SUCCEEDED $(head -c 60 "$E/copy.out" | tr '\n' ' ') (a command can hold its own copy of the mount)"
  else say cmd_copy_mount "failed: $(head -c 120 "$E/copy.out" | tr '\n' ' ')"; fi
else say cmd_userns "denied (parity ok)"; fi
say userns_sysctl "max_user_namespaces=$(cat /proc/sys/user/max_user_namespaces 2>/dev/null || echo ?) unprivileged_userns_clone=$(cat /proc/sys/kernel/unprivileged_userns_clone 2>/dev/null || echo n/a) apparmor_restrict=$(cat /proc/sys/kernel/apparmor_restrict_unprivileged_userns 2>/dev/null || echo n/a)"
# can root here deny user namespaces for commands without Docker? (sysctl)
say root_can_block_userns "$([ -w /proc/sys/user/max_user_namespaces ] || $SUDO sh -c '[ -w /proc/sys/user/max_user_namespaces ]' && echo yes-sysctl-writable || echo no)"

# 3. a process left behind by a command is reaped (LayerFS uses an init as PID 1)
say pid1 "$(cat /proc/1/comm 2>/dev/null)"

# 4. teardown: the daemon side can unmount
if T 20 $SUDO fusermount3 -u "$W/mnt" 2>/dev/null || T 20 $SUDO umount "$W/mnt" 2>/dev/null; then say daemon_unmount ok; else say daemon_unmount failed; fi
$SUDO rm -rf "$W"; rm -rf "$E"
say done ok
