#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian or Ubuntu to a sandbox: installs packages, builds, then makes a sandbox with a server in it, runs a
# command in it, talks to the server's port and removes it all. May be run again, as root or as an ordinary user.
set -eu
cd "$(dirname "$0")/.."

# Prints a command as a person would type it, then runs it.
show() {
    echo
    printf '$ sandbox'
    for word; do
        case $word in
        "$id") printf ' %.12s' "$word" ;;
        *[!a-zA-Z0-9_=:,./-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$sandbox" "$@"
}

./scripts/setup.sh build run
./scripts/build.sh
sandbox=$PWD/build/tools/sandbox
id=none
trap '[ "$id" = none ] || "$sandbox" rm "$id"' EXIT
trap 'exit 130' INT TERM

show run -- sh -c 'echo "hello from a sandbox:"; id; echo "processes: $(ls /proc | grep -c "^[0-9]")"; ls /'

server='use IO::Socket::INET; $l = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1", LocalPort => 8080) or die $!;
while ($c = $l->accept) { print $c "the sandbox heard: $_" while <$c>; close $c }'
echo
echo "$ sandbox create --label demo=first-light -- perl -e '(a server on port 8080)'"
id=$("$sandbox" create --label demo=first-light -- perl -e "$server")
echo "$id"
show start "$id"
show ls
show exec "$id" -- sh -c 'hostname; echo "an error goes to stderr" >&2'
echo
echo "$ echo ping | sandbox dial $(printf %.12s "$id") 8080"
tries=0
until answer=$(echo ping | "$sandbox" dial "$id" 8080 2>/dev/null) && [ -n "$answer" ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { echo ping | "$sandbox" dial "$id" 8080; echo "the server did not answer" >&2; exit 1; }
    sleep 0.1
done
echo "$answer"
[ "$answer" = "the sandbox heard: ping" ]
show rm "$id"
gone=$id
id=none
show ls
if "$sandbox" ls --json | grep -q "$gone"; then
    echo "the sandbox is still there" >&2
    exit 1
fi
echo
echo "==> all done: a sandbox was made, a command run, its port reached, all removed. The command is build/tools/sandbox."
