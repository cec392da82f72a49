#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests need, builds, runs all suites and prints how many tests passed. Arguments go to `meson test`, such as
# `--suite unit`. Root is wanted for all of it: an ordinary user gets the suites that make sense for one.
set -eu
cd "$(dirname "$0")/.."

./scripts/setup.sh build run test
./scripts/build.sh
build=${BUILD:-build}
status=0
echo "==> testing"
meson test -C "$build" --no-rebuild --print-errorlogs "$@" || status=$?
python3 scripts/test-summary "$build" || status=$?
exit $status
