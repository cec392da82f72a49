#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Kinds of one machine: file systems of the state root, and settings that forbid something. Run by scripts/guest-inside.sh, as root, in a
# machine that is thrown away. A setting that this kernel doesn't have is left out, and said.
set -uo pipefail
. "$(dirname "$0")/rows.sh"
cd "$(dirname "$0")/.."

id subids >/dev/null 2>&1 || { useradd -m subids && useradd -m single; } || exit
sed -i /^single:/d /etc/subuid /etc/subgid
place=/var/tmp/kinds
mkdir -p $place && chmod 1777 $place

setting() { # SYSCTL VALUE: 1 when this kernel hasn't got it
    if ! sysctl -q -w "$1=$2" 2>/dev/null; then
        echo "left out - $1: not in $(uname -r)"
        return 1
    fi
}

# The state root on other file systems, and on mounts that forbid programs.
for kind in ext4 xfs btrfs tmpfs noexec; do
    disk=/var/tmp/$kind.img where=/mnt/$kind
    mkdir -p "$where"
    case $kind in
    tmpfs) mount -t tmpfs -o mode=1777 none "$where" ;;
    noexec) mount -t tmpfs -o mode=1777,noexec,nosuid,nodev none "$where" ;;
    *)
        truncate -s 400M "$disk"
        "mkfs.$kind" -q "$disk" >/dev/null && mount -o loop "$disk" "$where" && chmod 1777 "$where"
        ;;
    esac || { said 1 "$kind" "can't be mounted"; continue; }
    for user in root subids single; do
        if [ $user = root ] && [ "$(stat -f -c %T "$where")" = tmpfs ] && [ "$(printf '%s\n6.3\n' "$(uname -r)" | sort -V | head -n 1)" != 6.3 ]; then
            row $kind $user "$where" EUNSUPPORTED 'Linux 6.3'
        else
            row $kind $user "$where" works
        fi
    done
done

if setting kernel.unprivileged_userns_clone 0; then
    row userns-clone root $place works
    row userns-clone subids $place EDENIED 'kernel.unprivileged_userns_clone'
    setting kernel.unprivileged_userns_clone 1
fi
if setting kernel.apparmor_restrict_unprivileged_userns 1; then
    row apparmor root $place works
    row apparmor subids $place EDENIED 'kernel.apparmor_restrict_unprivileged_userns'
    setting kernel.apparmor_restrict_unprivileged_userns 0
fi
was=$(sysctl -n user.max_user_namespaces)
if setting user.max_user_namespaces 0; then
    row max-userns root $place EDENIED 'user.max_user_namespaces'
    row max-userns single $place EDENIED 'user.max_user_namespaces'
    setting user.max_user_namespaces "$was"
fi
was=$(sysctl -n user.max_net_namespaces)
if setting user.max_net_namespaces 0; then
    row max-netns root $place EDENIED 'user.max_net_namespaces'
    setting user.max_net_namespaces "$was"
fi

mount -o remount,hidepid=2 /proc
for user in root subids single; do
    row hidepid $user $place works
done
mount -o remount,hidepid=0 /proc

# a service that gave up new privileges: newuidmap has none
as() {
    local user=$1
    shift
    setpriv --no-new-privs --reuid "$user" --regid "$user" --clear-groups "$@"
}
row no-new-privs subids $place EDENIED 'no_new_privs'
row no-new-privs single $place works
as() {
    local user=$1
    shift
    runuser -u "$user" -- "$@"
}

# last: some kernels let it only be made stricter
if setting vm.memfd_noexec 2; then
    row memfd root $place EDENIED 'install the agent programs'
    row memfd single $place EDENIED 'install the agent programs'
    meson install -C build --no-rebuild >/dev/null || said 1 'memfd' "can't be installed"
    row memfd+install root $place works
    row memfd+install single $place works
    setting vm.memfd_noexec 0
fi
exit $failed
