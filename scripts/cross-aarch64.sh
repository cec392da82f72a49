#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds for aarch64 and runs the unit tests under qemu-user. The libraries come from Debian's arm64 packages, extracted into a
# folder of the cache and never installed. usage: cross-aarch64.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build-aarch64}
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
packages=check$(sed -n "s/^build: //p" scripts/packages | tr " " "\n" | grep -e "-dev$" | sed "s/^/,/" | tr -d "\n")
key=$(printf '%s %s' "$suite" "$packages" | sha256sum | cut -c1-16)
sysroot=${XDG_CACHE_HOME:-$HOME/.cache}/libsandbox/sysroot-aarch64-$key

if [ ! -e "$sysroot" ]; then
    echo "==> extracting arm64 packages"
    mkdir -p "$(dirname "$sysroot")"
    rm -rf "$(dirname "$sysroot")"/sysroot-aarch64-* # of older lists of packages
    # "extract" unpacks packages and what they need, and runs nothing of them
    mmdebstrap --architectures=arm64 --variant=extract --include="$packages" "$suite" "$sysroot.new" 2>"$build.log" ||
        { tail -n 20 "$build.log" >&2; exit 1; }
    rm -f "$build.log"
    # only what the linker and the loader need
    find "$sysroot.new" -mindepth 1 -maxdepth 1 ! -name usr ! -name 'lib*' -exec rm -rf --one-file-system {} +
    find "$sysroot.new/usr" -mindepth 1 -maxdepth 1 ! -name lib ! -name include -exec rm -rf {} +
    mv "$sysroot.new" "$sysroot"
fi
cat >"$build.ini.new" <<INI
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
cmp -s "$build.ini.new" "$build.ini" || rm -rf "$build" # other libraries: nothing of it can be used again
mv "$build.ini.new" "$build.ini"
[ -e "$build/build.ninja" ] || meson setup "$build" --cross-file "$build.ini"
ninja -C "$build"

# Tests start programs of their own: the kernel has to know what to do with them. A user namespace has a binfmt_misc of its own
# (Linux 6.7), so that nothing changes for the machine.
cat >"$build.sh" <<'INSIDE'
set -eu
# the libraries where the loader looks; qemu's own way (-L) would redirect the tests' paths too
layers=$1/usr/lib
[ -L "$1/lib" ] || layers=$1/lib:$layers
mount -t overlay -o "lowerdir=$layers:/usr/lib" none /usr/lib
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":qemu-aarch64:M::$magic:$mask:$(command -v qemu-aarch64-static):F" >/proc/sys/fs/binfmt_misc/register
skips=$2 failed=0
shift 2
for program; do
    name=$(basename "$program")
    if grep -q "^$name: \*: " "$skips"; then
        grep "^$name: " "$skips" | sed 's/^/skipped: /'
        continue
    fi
    "$program" >"$program.log" 2>&1 || :
    if ! result=$(grep '^[0-9]*%: Checks:' "$program.log"); then
        cat "$program.log"
        failed=$((failed + 1))
    fi
    echo "$name: ${result:-ended without a result}"
    for test in $(sed -n 's/^[^ ]*:[0-9]*:[FES]:[^:]*:\([^:]*\):.*/\1/p' "$program.log" | sort -u); do
        if grep "^$name: $test: " "$skips"; then
            continue
        fi
        grep ":[FES]:[^:]*:$test:" "$program.log"
        failed=$((failed + 1))
    done
done
echo "aarch64: $failed failed"
[ $failed = 0 ]
INSIDE
unshare --user --map-root-user --mount sh "$build.sh" "$sysroot" scripts/cross-skips \
    $(find "$build/tests/unit" -maxdepth 1 -type f -name 'test-*' -executable | sort)
