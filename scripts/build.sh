#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Configures the folder build/ when it isn't there yet, and builds. Arguments are options for meson, such as -Dtests=enabled; a
# folder that was configured without them is configured anew.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}

if [ ! -e "$build/build.ninja" ]; then
    echo "==> configuring $build/"
    meson setup "$build" "$@" >"$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
    rm -f "$build.log"
elif [ $# -gt 0 ]; then
    meson configure "$build" "$@"
fi
echo "==> building"
if [ -t 1 ]; then
    ninja -C "$build"
else
    ninja -C "$build" >"$build/build.log" 2>&1 || { tail -n 60 "$build/build.log" >&2; exit 1; }
fi
