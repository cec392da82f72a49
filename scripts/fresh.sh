#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The README's commands on a machine that has nothing: a minimal root of a Debian or Ubuntu suite is made, this project (what is
# committed) cloned into it, and the commands run there as root, in a PID and mount namespace of their own.
# usage: fresh.sh SUITE [COMMAND…]    SUITE: bookworm, trixie, noble …; COMMAND: default both of the README, in their order
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:?usage: fresh.sh SUITE [COMMAND…]}
shift
[ $# -gt 0 ] || mapfile -t commands < <(sed -n 's/^    \(\.\/scripts\/[a-z-]*\.sh\)$/\1/p' README.md)
[ $# -eq 0 ] || commands=("$@")
[ ${#commands[@]} -gt 0 ] || { echo "fresh: README.md names no commands" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "fresh: needs root, to make a root file system" >&2; exit 2; }
command -v mmdebstrap >/dev/null || { echo "fresh: needs mmdebstrap: ./scripts/setup.sh test" >&2; exit 2; }

work=$(mktemp -d "${TMPDIR:-/var/tmp}/fresh-XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
echo "==> making a minimal $suite"
mmdebstrap --variant=minbase --include=git,ca-certificates "$suite" "$root" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 2; }
# what git clones is what is committed, as a user would get it
git clone -q --no-hardlinks . "$root/src"

cat >"$work/inside" <<'INSIDE'
set -eu
mount --make-rprivate /
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
[ ! -e /etc/resolv.conf ] || { cat /etc/resolv.conf >"$root/etc/resolv.conf"; }
exec chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} sh -c "cd /src && $command"
INSIDE
for command in "${commands[@]}"; do
    echo "==> $suite: $command"
    begun=$SECONDS
    root=$root command=$command unshare --mount --pid --fork sh "$work/inside"
    echo "==> $suite: $command: passed in $((SECONDS - begun)) s"
done
