#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds for aarch64 and runs the unit tests under qemu-user. The libraries come from Debian's arm64 packages, extracted into a
# folder of the cache and never installed. usage: cross-aarch64.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build-aarch64}
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
packages=libc6-dev,libseccomp-dev,libjansson-dev,libarchive-dev,libzstd-dev,liblzma-dev,zlib1g-dev,libacl1-dev,libbz2-dev,liblz4-dev,check
key=$(printf '%s %s' "$suite" "$packages" | sha256sum | cut -c1-16)
sysroot=${XDG_CACHE_HOME:-$HOME/.cache}/libsandbox/sysroot-aarch64-$key

if [ ! -e "$sysroot" ]; then
    echo "==> extracting arm64 packages"
    mkdir -p "$(dirname "$sysroot")"
    rm -rf "$sysroot.new"
    # "extract" unpacks packages and what they need, and runs nothing of them
    mmdebstrap --architectures=arm64 --variant=extract --include="$packages" "$suite" "$sysroot.new" 2>"$build.log" ||
        { tail -n 20 "$build.log" >&2; exit 1; }
    rm -f "$build.log"
    mv "$sysroot.new" "$sysroot"
fi
cat >"$build.ini" <<INI
[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64-static', '-L', '$sysroot']

[properties]
sys_root = '$sysroot'
pkg_config_libdir = '$sysroot/usr/lib/aarch64-linux-gnu/pkgconfig:$sysroot/usr/share/pkgconfig'

[built-in options]
c_args = ['--sysroot=$sysroot']
c_link_args = ['--sysroot=$sysroot']

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'armv8-a'
endian = 'little'
INI
[ -e "$build/build.ninja" ] || meson setup "$build" --cross-file "$build.ini"
ninja -C "$build"
meson test -C "$build" --no-rebuild --suite unit --timeout-multiplier 5
