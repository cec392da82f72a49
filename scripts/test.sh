#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests need, builds, runs all suites and prints how many tests passed. Arguments go to `meson test`, such as
# `--suite unit`. Root is wanted for all of it: an ordinary user gets the suites that make sense for one.
set -eu
cd "$(dirname "$0")/.."

./scripts/setup.sh build run test

# As root, parts of the suites run as ordinary users, who must be able to read the tree: not so below /root, or with umask 077.
if [ "$(id -u)" = 0 ] && ! setpriv --reuid 65534 --regid 65534 --clear-groups test -r "$PWD/scripts/test.sh"; then
    copy=$(mktemp -d "${TMPDIR:-/var/tmp}/libsandbox-test-XXXXXX")
    trap 'rm -rf "$copy"' EXIT
    echo "==> other users can't read $PWD: testing in a copy, $copy"
    chmod 755 "$copy"
    tar -cf - --exclude='./build*' . | tar -C "$copy" -xf -
    chmod -R go+rX "$copy"
    "$copy/scripts/test.sh" "$@"
    exit
fi

./scripts/build.sh -Dtests=enabled
build=${BUILD:-build}
status=0
echo "==> testing"
# it also builds what only tests need: since 1.7 meson leaves that out of "all"
meson test -C "$build" --print-errorlogs "$@" || status=$?
python3 scripts/test-summary "$build" || status=$?
exit $status
