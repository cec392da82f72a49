#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the packages that are missing for the purposes named (build, run, test, deep; default: build run), by apt-get, with
# sudo when not root. Nothing is asked of the network when all are there, so that it can be run again at no cost.
set -eu
cd "$(dirname "$0")/.."

names=
for purpose in "${@:-build}"; do
    line=$(sed -n "s/^$purpose: //p" scripts/packages)
    [ -n "$line" ] || { echo "setup: no list of packages for \"$purpose\" in scripts/packages" >&2; exit 2; }
    names="$names $line"
done

missing=
for name in $names; do
    case $(dpkg-query -W -f '${Status}' "$name" 2>/dev/null) in
    *' installed') ;;
    *) missing="$missing $name" ;;
    esac
done
[ -n "$missing" ] || exit 0

command -v apt-get >/dev/null || { echo "setup: no apt-get here; install the counterparts of:$missing" >&2; exit 1; }
sudo=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup: run this as root once, or install sudo; missing:$missing" >&2; exit 1; }
    sudo=sudo
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# apt's own output is shown on a terminal, else kept for the case that it fails
apt() {
    if [ -t 1 ]; then
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 "$@"
    else
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1 || { tail -n 30 "$log" >&2; return 1; }
    fi
}
echo "==> installing packages:$missing"
apt update
# shellcheck disable=SC2086
apt install -y --no-install-recommends $missing
