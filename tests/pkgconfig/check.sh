#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the project into a folder of its own, then builds and runs a dynamic and a static program with nothing but what is
# installed there and what pkg-config says of it. usage: check.sh BUILD CONSUMER CC
set -eu
build=$1 consumer=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

# MESON_INSTALL… may name the build that runs this test; a log that says nothing helps nobody when it fails
DESTDIR=$root meson install -C "$build" --no-rebuild >"$work/install.log" 2>&1 || { cat "$work/install.log"; exit 1; }
pc=$(find "$root" -name libsandbox.pc)
[ -n "$pc" ] || { echo "no libsandbox.pc was installed"; exit 1; }
header=$(find "$root" -path '*/include/sandbox.h')
[ -n "$header" ] || { echo "sandbox.h is not at the root of an include folder"; exit 1; }
library=$(dirname "$(dirname "$pc")")

# paths in the file are those of the final place, which the sysroot puts below ours
export PKG_CONFIG_PATH="$(dirname "$pc")" PKG_CONFIG_SYSROOT_DIR="$root"
version=$(pkg-config --modversion libsandbox)
! grep -F "$work" "$pc" || { echo "the installed file knows where it was installed from"; exit 1; }

"$cc" -Werror -o "$work/dynamic" "$consumer" $(pkg-config --cflags --libs libsandbox)
needed=$(readelf -d "$work/dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | tr '\n' ' ')
[ "$needed" = "libc.so.6 libsandbox.so.0 " ] || { echo "a dynamic program needs $needed"; exit 1; }
LD_LIBRARY_PATH=$library "$work/dynamic" "$version"

"$cc" -Werror -static -o "$work/static" "$consumer" $(pkg-config --static --cflags --libs libsandbox)
! readelf -d "$work/static" 2>/dev/null | grep NEEDED || { echo "a static program needs libraries"; exit 1; }
"$work/static" "$version"

# the check can fail: without the library there is nothing to run
if LD_LIBRARY_PATH=$work "$work/dynamic" "$version" 2>/dev/null; then
    echo "the dynamic program runs without the library that was installed"
    exit 1
fi
