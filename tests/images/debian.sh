#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# debian.sh [--cached]: makes the large test image, a minimal Debian with python3, fuse3 and fuse-overlayfs, by mmdebstrap, and prints
# the path of its tar. It takes a minute and is kept below ${XDG_CACHE_HOME:-~/.cache}/libsandbox under a hash of the suite, the
# packages and the week, so that it is made anew when the mirror has moved on. --cached: prints it when it is there, else fails.
set -eu
suite=bookworm
packages=fuse-overlayfs,fuse3,python3-minimal,procps
cache=${XDG_CACHE_HOME:-$HOME/.cache}/libsandbox
key=$(printf '%s %s %s' "$suite" "$packages" "$(date -u +%G-%V)" | sha256sum | cut -c1-16)
tar=$cache/debian-$key.tar

if [ ! -s "$tar" ]; then
    [ "${1:-}" != --cached ] || exit 1
    command -v mmdebstrap >/dev/null || { echo "debian.sh: no mmdebstrap" >&2; exit 1; }
    mkdir -p "$cache"
    rm -f "$cache"/debian-*.tar
    work=$(mktemp -d "$cache/work-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    mmdebstrap --quiet --variant=minbase --include="$packages" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        "$suite" "$work/debian.tar" >&2
    mv "$work/debian.tar" "$tar"
fi
echo "$tar"
