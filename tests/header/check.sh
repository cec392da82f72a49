#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles the public header, alone, by every C and C++ compiler that is here, in every language version that it promises.
# usage: check.sh INCLUDE_DIR SOURCE LAYOUT
set -eu
include=$1 source=$2 layout=$3
compiled=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

try() { # language standards compilers
    language=$1 standards=$2
    shift 2
    for compiler; do
        command -v "$compiler" >/dev/null || { echo "$compiler is not here"; continue; }
        for standard in $standards; do
            # first: does the compiler know the standard at all? then nothing that follows is its fault
            echo 'int x;' | "$compiler" -x "$language" -std="$standard" -fsyntax-only - 2>/dev/null ||
                { echo "$compiler does not know $standard"; continue; }
            flags='-pedantic -Wall -Wextra -Wundef -Wconversion -Werror'
            # C++ would have it that sandbox_exec() shadows the constructor of struct sandbox_exec, as stat() does
            [ "$language" = c++ ] || flags="$flags -Wshadow -Wstrict-prototypes"
            "$compiler" -x "$language" -std="$standard" $flags -I"$include" -fsyntax-only "$source" ||
                { echo "$compiler -std=$standard: the header does not compile"; exit 1; }
            echo "$compiler -std=$standard"
            compiled=$((compiled + 1))
        done
    done
}
try c 'c99 c11 c17 gnu89 gnu17 c2x' gcc clang
try c++ 'c++98 c++11 c++17 c++20' g++ clang++
[ $compiled -ge 6 ] || { echo "only $compiled compilations: is there a compiler?"; exit 1; }

# and a header that is not valid must be found out
echo 'struct s { int a; } // not C90' >"$work/sandbox.h"
if gcc -std=c99 -pedantic -Werror -I"$work" -fsyntax-only "$source" 2>/dev/null; then
    echo "a broken header compiles: this test tests nothing"
    exit 1
fi

# the ABI: nothing has moved, and a field that has moved is found out
gcc -std=c11 -Werror -I"$include" -fsyntax-only "$layout" || { echo "the ABI has changed"; exit 1; }
sed 's/^    int stdin_fd;/    int new_field; int stdin_fd;/' "$include/sandbox.h" >"$work/sandbox.h"
if gcc -std=c11 -I"$work" -fsyntax-only "$layout" 2>/dev/null; then
    echo "a field put in between is not found: this test tests nothing"
    exit 1
fi
