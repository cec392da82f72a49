#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# podman-inside.sh default|unmasked|privileged: what a container of that kind can do, by the sandbox command; see scripts/podman.sh. Each row
# is a user, where the state is, and what must come of it: "works", or the error's code with a part of its hint.
set -uo pipefail
kind=$1
sandbox=/src/build/tools/sandbox
failed=0

useradd -m subids && useradd -m single && useradd -m filecaps || exit
sed -i /^single:/d /etc/subuid /etc/subgid
mkdir -p /src/tmp/"$kind" && chmod 1777 /src/tmp/"$kind"

row() { # USER PLACE WANTED [HINT]
    local user=$1 place=$2 wanted=$3 hint=${4:-} state=$2/state-$1 out status=0 code
    out=$(runuser -u "$user" -- "$sandbox" --root "$state" --json run --timeout 20s -- sh -c 'echo ran as $(id -u)' 2>&1) || status=$?
    code=$(printf '%s' "$out" | sed -n 's/.*"code":"\([A-Z]*\)".*/\1/p')
    if [ "$wanted" = works ]; then
        [ $status = 0 ] && [ "$out" = "ran as 0" ]
    else
        [ $status = 125 ] && [ "$code" = "$wanted" ] && printf '%s' "$out" | grep -q "\"hint\":\"[^\"]*$hint"
    fi
    if [ $? = 0 ]; then
        printf 'ok - %-10s %-8s %-18s %s\n' "$kind" "$user" "$place" "$wanted"
    else
        printf 'not ok - %-10s %-8s %-18s wanted %s: %s\n' "$kind" "$user" "$place" "$wanted" "$out"
        failed=1
    fi
}

limits() { # USER WANTED
    local out status=0
    out=$(runuser -u "$1" -- "$sandbox" --root "/src/tmp/$kind/limits-$1" --json run --memory 64M --timeout 20s -- true 2>&1) || status=$?
    case "$2 $status $out" in
    "works 0 "* | EUNSUPPORTED\ 125\ *'"code":"EUNSUPPORTED"'*'"hint":"'[a-z]*) printf 'ok - %-10s %-8s memory limit       %s\n' "$kind" "$1" "$2" ;;
    *) printf 'not ok - %s %s memory limit, wanted %s: %s\n' "$kind" "$1" "$2" "$out"; failed=1 ;;
    esac
}

home=/home volume=/src/tmp/$kind
case $kind in
default) # the profile's seccomp filter allows user namespaces, and forbids much in them
    row root "$volume" EDENIED 'privileged'
    row subids "$volume" EDENIED 'file capabilities'
    row single "$volume" EDENIED 'unmask=ALL'
    ;;
unmasked) # --security-opt unmask=ALL --security-opt seccomp=unconfined: enough for ordinary users
    row root "$volume" EDENIED 'privileged'
    row subids "$volume" EDENIED 'file capabilities'
    row single "$volume" works
    row single /t works
    row single "$home/single" EUNSUPPORTED 'put the state root'
    chmod u-s /usr/bin/newuidmap /usr/bin/newgidmap
    python3 - <<'P'
import os, struct
for name, capability in (('newuidmap', 7), ('newgidmap', 6)):  # cap_setuid=ep, cap_setgid=ep
    os.setxattr(f'/usr/bin/{name}', 'security.capability', struct.pack('<5I', 0x02000001, 1 << capability, 0, 0, 0))
P
    row filecaps "$volume" works
    limits single EUNSUPPORTED
    ;;
privileged)
    row root "$volume" works
    row subids "$volume" works
    row single "$volume" works
    row root /t works
    row root /root EUNSUPPORTED 'put the state root' # an overlay
    row subids "$home/subids" EUNSUPPORTED 'put the state root'
    limits root works
    limits single EUNSUPPORTED
    ;;
*) exit 2 ;;
esac
exit $failed
