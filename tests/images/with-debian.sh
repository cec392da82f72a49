#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# with-debian.sh FOLDER COMMAND…: runs a command with SBTEST_DEBIAN_TAR, the tar of the Debian image (debian.sh), in FOLDER where other
# users can read it, too; the variable is empty when it can't be made.
set -eu
folder=$1
shift
SBTEST_DEBIAN_TAR=
if tar=$("$(dirname "$0")/debian.sh") && [ -n "$tar" ]; then
    copy=$folder/$(basename "$tar")
    if [ ! -s "$copy" ]; then
        rm -f "$folder"/debian-*.tar
        cp "$tar" "$copy.$$"
        chmod 0644 "$copy.$$"
        mv "$copy.$$" "$copy"
    fi
    SBTEST_DEBIAN_TAR=$copy
fi
export SBTEST_DEBIAN_TAR
exec "$@"
