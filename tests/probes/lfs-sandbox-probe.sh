#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# (A copy of the LayerFS project's own acceptance probe, unchanged but for these two lines: see README.md.)
# LayerFS sandbox probe: can this environment host LayerFS's FUSE mounts?
# Prints KEY=VALUE lines. Writes only under /tmp/lfsprobe (and, with
# PROBE_INSTALL=1, installs fuse3 + fuse-overlayfs through the package manager).
#
# Levels:
#   L1  inside this environment: /dev/fuse, capabilities, privilege to mount,
#       a real FUSE mount (fuse-overlayfs) as root and as a plain user.
#   L2  nested Docker with LayerFS's exact Sandbox flags: /dev/fuse device,
#       CAP_SYS_ADMIN, apparmor=unconfined, no-new-privileges and LayerFS's
#       seccomp filter (no user namespaces); a FUSE mount inside it; and the
#       filesystem a Docker volume gets (the Store needs ext4, xfs or btrfs).
#
# Every step is one attempt with its own timeout; a failure is reported, not
# retried. Usage: sh lfs-sandbox-probe.sh   (env PROBE_INSTALL=1 to apt/apk
# install fuse3 and fuse-overlayfs if missing; PROBE_DOCKER=0 to skip L2).
set -u
W=/tmp/lfsprobe
mkdir -p "$W/src" "$W/mnt" "$W/mnt2" "$W/up" "$W/wk"
echo "probe-file" > "$W/src/hello.txt"
say() { printf '%s=%s\n' "$1" "$2"; }
T() { if command -v timeout >/dev/null 2>&1; then timeout -k 5 "$@"; else shift; "$@"; fi; }
SUDO=""
if [ "$(id -u)" != 0 ]; then
  if sudo -n true 2>/dev/null; then SUDO="sudo -n"; fi
fi

say probe_version 3
say uid "$(id -u)"
say root_route "$([ "$(id -u)" = 0 ] && echo root || { [ -n "$SUDO" ] && echo sudo || echo none; })"
say kernel "$(uname -srm)"
say os "$(. /etc/os-release 2>/dev/null; echo "${PRETTY_NAME:-unknown}")"
say virt "$(systemd-detect-virt 2>/dev/null || echo unknown)"

# --- L1: device, module, capabilities -------------------------------------
if [ -c /dev/fuse ]; then say dev_fuse "$(ls -l /dev/fuse | awk '{print $1" "$3":"$4}')"; else say dev_fuse absent; fi
say fuse_in_kernel "$(grep -qw fuse /proc/filesystems && echo yes || echo no)"
say dev_kvm "$([ -c /dev/kvm ] && echo present || echo absent)"
capbit() { v=$(printf '%d' "0x$1" 2>/dev/null || echo 0); echo $(( (v >> 21) & 1 )); }
ce=$(awk '/^CapEff/{print $2}' /proc/self/status)
say cap_eff "$ce sys_admin=$(capbit "$ce")"
if [ -n "$SUDO" ]; then
  cr=$($SUDO awk '/^CapEff/{print $2}' /proc/self/status)
  say cap_eff_root "$cr sys_admin=$(capbit "$cr")"
fi
say no_new_privs "$(awk '/^NoNewPrivs/{print $2}' /proc/self/status)"
say seccomp_mode "$(awk '/^Seccomp:/{print $2}' /proc/self/status)"
say userns "$(T 10 unshare -U true 2>/dev/null && echo allowed || echo denied)"
fstype() { awk -v p="$1" 'index(p, $2) == 1 && (p == $2 || substr(p, length($2) + 1, 1) == "/" || $2 == "/") { if (length($2) >= n) { n = length($2); t = $3 } } END { print t }' /proc/mounts; }
say fs_root "$(fstype /)"
say fs_tmp "$(fstype /tmp)"
fm=$(command -v fusermount3 || command -v fusermount || true)
if [ -n "$fm" ]; then say fusermount "$fm mode=$(stat -c %A "$(readlink -f "$fm")")"; else say fusermount absent; fi
say user_allow_other "$(grep -qs '^user_allow_other' /etc/fuse.conf && echo yes || echo no)"

# privilege to mount at all (tmpfs needs CAP_SYS_ADMIN)
if [ "$(id -u)" = 0 ] || [ -n "$SUDO" ]; then
  if T 20 $SUDO mount -t tmpfs lfsprobe "$W/mnt2" 2>"$W/tmpfs.err"; then
    say mount_tmpfs ok; T 20 $SUDO umount "$W/mnt2"
  else say mount_tmpfs "failed: $(head -c 160 "$W/tmpfs.err" | tr '\n' ' ')"; fi
else say mount_tmpfs "skipped: no root"; fi

# optional install of a FUSE test program
if ! command -v fuse-overlayfs >/dev/null 2>&1 && [ "${PROBE_INSTALL:-0}" = 1 ]; then
  if command -v apt-get >/dev/null 2>&1; then
    T 110 $SUDO env DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null 2>&1
    T 110 $SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq fuse3 fuse-overlayfs >/dev/null 2>&1
  elif command -v apk >/dev/null 2>&1; then
    T 110 $SUDO apk add --no-cache fuse3 fuse-overlayfs >/dev/null 2>&1
  fi
fi
say fuse_overlayfs "$(command -v fuse-overlayfs || echo absent)"

fuse_try() { # $1 label, $2.. command prefix
  label=$1; shift
  rm -rf "$W/up" "$W/wk"; mkdir -p "$W/up" "$W/wk"
  if T 30 "$@" fuse-overlayfs -o "lowerdir=$W/src,upperdir=$W/up,workdir=$W/wk" "$W/mnt" 2>"$W/$label.err"; then
    got=$(T 10 cat "$W/mnt/hello.txt" 2>/dev/null)
    typ=$(awk -v m="$W/mnt" '$2==m{print $3}' /proc/mounts)
    say "$label" "ok type=$typ read=$got"
    T 20 $SUDO fusermount3 -u "$W/mnt" 2>/dev/null || T 20 $SUDO umount "$W/mnt" 2>/dev/null
  else
    say "$label" "failed: $(head -c 200 "$W/$label.err" | tr '\n' ' ')"
  fi
}
if command -v fuse-overlayfs >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ] || [ -n "$SUDO" ]; then fuse_try fuse_mount_root $SUDO; else say fuse_mount_root "skipped: no root"; fi
  if [ "$(id -u)" != 0 ]; then fuse_try fuse_mount_user env; fi
else
  say fuse_mount_root "skipped: no fuse-overlayfs"
fi

# --- L2: nested Docker with LayerFS's Sandbox flags ------------------------
if [ "${PROBE_DOCKER:-1}" = 1 ]; then
  if command -v docker >/dev/null 2>&1 && T 20 $SUDO docker info >/dev/null 2>&1; then
    say docker "$($SUDO docker info --format '{{.ServerVersion}} runtime={{.DefaultRuntime}} storage={{.Driver}} cgroup={{.CgroupVersion}}' 2>/dev/null)"
    cat > "$W/seccomp.json" <<'EOF'
{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["unshare","clone"],"action":"SCMP_ACT_ERRNO","errnoRet":1,"args":[{"index":0,"value":268435456,"valueTwo":268435456,"op":"SCMP_CMP_MASKED_EQ"}]},{"names":["clone3"],"action":"SCMP_ACT_ERRNO","errnoRet":38}]}
EOF
    if T 110 $SUDO docker run --rm --pull=missing \
        --device /dev/fuse --cap-add SYS_ADMIN \
        --security-opt apparmor=unconfined --security-opt no-new-privileges=true \
        --security-opt seccomp="$W/seccomp.json" \
        alpine:3.20 sh -c 'apk add --no-cache -q fuse3 fuse-overlayfs >/dev/null 2>&1; mkdir -p /s /m /u /w; echo nested > /s/f; fuse-overlayfs -o lowerdir=/s,upperdir=/u,workdir=/w /m && cat /m/f && grep " /m " /proc/mounts | cut -d" " -f3; unshare -U true 2>/dev/null && echo userns=allowed || echo userns=denied' \
        >"$W/l2.out" 2>"$W/l2.err"; then
      say l2_fuse_in_container "ok $(tr '\n' ' ' < "$W/l2.out")"
    else
      say l2_fuse_in_container "failed: $(tail -c 240 "$W/l2.err" | tr '\n' ' ')"
    fi
    if T 60 $SUDO docker run --rm -v lfsprobe-vol:/v alpine:3.20 stat -f -c %T /v >"$W/vol.out" 2>&1; then
      say l2_volume_fs "$(cat "$W/vol.out")"
    else say l2_volume_fs "failed: $(head -c 160 "$W/vol.out")"; fi
    T 30 $SUDO docker volume rm lfsprobe-vol >/dev/null 2>&1
  else
    say docker "absent or not running"
  fi
fi
say done ok
