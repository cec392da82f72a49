#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# podman-inside.sh default|unmasked|privileged: what a container of that kind can do, by the sandbox command; see scripts/podman.sh.
set -uo pipefail
. "$(dirname "$0")/rows.sh"
kind=$1 volume=/src/tmp/$1

useradd -m subids && useradd -m single && useradd -m filecaps || exit
sed -i /^single:/d /etc/subuid /etc/subgid
mkdir -p "$volume" && chmod 1777 "$volume"

case $kind in
default) # the profile's seccomp filter allows user namespaces, and forbids much in them
    row $kind root "$volume" EDENIED 'privileged'
    row $kind subids "$volume" EDENIED 'file capabilities'
    row $kind single "$volume" EDENIED 'unmask=ALL'
    ;;
unmasked) # --security-opt unmask=ALL --security-opt seccomp=unconfined: enough for ordinary users
    row $kind root "$volume" EDENIED 'privileged'
    row $kind subids "$volume" EDENIED 'file capabilities'
    row $kind single "$volume" works
    row $kind single /t works
    row $kind single /home/single EUNSUPPORTED 'put the state root' # an overlay
    chmod u-s /usr/bin/newuidmap /usr/bin/newgidmap
    python3 - <<'P'
import os, struct
for name, capability in (('newuidmap', 7), ('newgidmap', 6)):  # cap_setuid=ep, cap_setgid=ep
    os.setxattr(f'/usr/bin/{name}', 'security.capability', struct.pack('<5I', 0x02000001, 1 << capability, 0, 0, 0))
P
    row $kind filecaps "$volume" works
    limits $kind single "$volume" EUNSUPPORTED
    ;;
privileged)
    row $kind root "$volume" works
    row $kind subids "$volume" works
    row $kind single "$volume" works
    row $kind root /t works
    row $kind root /root EUNSUPPORTED 'put the state root'
    row $kind subids /home/subids EUNSUPPORTED 'put the state root'
    limits $kind root "$volume" works
    limits $kind single "$volume" EUNSUPPORTED
    ;;
*) exit 2 ;;
esac
exit $failed
