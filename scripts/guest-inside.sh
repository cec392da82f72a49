#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What scripts/guest.sh runs inside the machine: as a service, as root, the tree mounted at /src, already built.
# usage: guest-inside.sh PART…    cost systemd root session kinds plain. Also "test:NAME" (one of meson's tests) and "user:NAME" (a suite in a session).
set -uo pipefail
cd "$(dirname "$0")/.."
export SBTEST_SLOW=16 # in place of the multiplier that the tests set; bounds only: whoever is well is as quick as without
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root XDG_CACHE_HOME=$PWD/cache

part_about() {
    echo "$(. /etc/os-release && echo "$PRETTY_NAME"), Linux $(uname -r), PID 1: $(cat /proc/1/comm)"
    echo "cgroups: $(stat -fc %T /sys/fs/cgroup); here: $(cat /proc/self/cgroup)"
    echo "controllers: $(cat /sys/fs/cgroup/cgroup.controllers)"
}

# The suites that meet the kernel, as root, some as users without a session; the session's part has the users. Left out, for the time they
# take here, is what is the same on every Linux: what looks at the tree and what the compiler made of it, one part in one process,
# archives and images, and the many places where a process is killed ("test:redteam-faults-root" runs that); and the exhaustion suite, which
# holds a clock against the machine.
part_root() {
    local status=0 tests
    tests=$(meson introspect --tests build | python3 -c '
import json, re, sys
print(*[test["name"] for test in json.load(sys.stdin)
        if re.fullmatch(r"(oracle|cli|examples|contract|integration|field|redteam)(-.*)?-root|(integration-inside|redteam-kernel)-sbtest2?", test["name"])
        and not re.search("faults|exhaustion", test["name"])])')
    SBTEST_SCOPES=root meson test -C build --no-rebuild --num-processes 2 --timeout-multiplier 16 --print-errorlogs $tests || status=$?
    python3 scripts/test-summary build || status=$?
    return $status
}

part_test() {
    SBTEST_SCOPES=root meson test -C build --no-rebuild --timeout-multiplier 16 --print-errorlogs "$name"
}

part_user() {
    make_users && scripts/guest-session build sblogin service "$name" && python3 scripts/test-summary build-sblogin-service
}

# A user who is logged in has a systemd of its own, which gives scopes, too: with subordinate ids, and without.
make_users() {
    local user
    ! id sblogin >/dev/null 2>&1 || return 0
    useradd --create-home --uid 4720 sblogin && useradd --create-home --uid 4721 sblogin2 || return
    sed -i /^sblogin2:/d /etc/subuid /etc/subgid
    grep -q ^sblogin: /etc/subuid || usermod --add-subuids 300000-365535 --add-subgids 300000-365535 sblogin
    for user in sblogin sblogin2; do
        loginctl enable-linger "$user" || return
    done
}

part_session() {
    local status=0 user
    make_users || return
    scripts/guest-session build sblogin service integration-scope integration-inside integration-sandbox integration-logs integration-files \
        integration-endpoints field-exec field-lifecycle redteam-kernel redteam-plumbing || status=$?
    scripts/guest-session build sblogin2 service integration-scope integration-inside || status=$?
    scripts/guest-session build sblogin login integration-scope integration-inside || status=$?
    for user in sblogin-service sblogin2-service sblogin-login; do
        echo "==> $user"
        python3 scripts/test-summary "build-$user" || status=$?
    done
    return $status
}

# What an administrator does to a scope: reloads systemd, looks at it, restarts the service that made it, stops it.
part_systemd() {
    local status=0 id scope begun
    (
        . scripts/rows.sh
        root=/var/tmp/systemd
        systemd-run --quiet --wait --collect --pipe "$sandbox" --root $root create --memory 64M --pids 40 -- sleep 1000 >/var/tmp/id || exit
        id=$(cat /var/tmp/id) scope=libsandbox-$(cat /var/tmp/id).scope
        "$sandbox" --root $root start "$id" >/dev/null
        "$sandbox" --root $root exec "$id" -- true
        said $? 'made in a service that has ended since' ''
        systemctl daemon-reload
        [ "$(cat "/sys/fs/cgroup/system.slice/$scope/box/memory.max")" = 67108864 ]
        said $? 'limits stay when systemd reloads' "$(cat "/sys/fs/cgroup/system.slice/$scope/box/memory.max" 2>&1)"
        systemctl show -p Delegate,TasksMax,ActiveState "$scope" | grep -qx Delegate=yes
        said $? 'the scope is delegated' "$(systemctl show -p Delegate,TasksMax,ActiveState "$scope")"
        begun=$SECONDS
        systemctl stop "$scope"
        [ $((SECONDS - begun)) -lt 60 ] && [ ! -e "/sys/fs/cgroup/system.slice/$scope" ]
        said $? "systemctl stop ends it, in $((SECONDS - begun)) s" "$(systemctl status "$scope" 2>&1)"
        out=$("$sandbox" --root $root exec "$id" -- true 2>&1)
        [ $? = 125 ]
        said $? 'it is known to have ended' "$out"
        "$sandbox" --root $root rm "$id" >/dev/null
        said $? 'it can be deleted' ''
        ! systemctl list-units --all --plain --no-legend 'libsandbox-*' | grep -q .
        said $? 'no scope is left' "$(systemctl list-units --all --plain --no-legend 'libsandbox-*')"
        exit $failed
    ) || status=$?
    return $status
}

# What a scope costs: the same cycles with systemd asked, and with its bus out of sight. Emulated figures: only their ratio says something.
part_cost() {
    echo "with scopes:    $(build/tests/soak/cycles 40)" || return
    echo "without scopes: $(unshare --mount sh -c 'mount --bind /dev/null /run/dbus/system_bus_socket && build/tests/soak/cycles 40')"
}

# cgroup v2 without systemd: sandboxes below the root of all groups, with limits; then below a group of the caller's own, in which it is
# itself, or, with limits again, in a leaf.
part_plain() {
    local status=0 group=/sys/fs/cgroup/own
    (
        . scripts/rows.sh
        mkdir -p $group/leaf /var/tmp/plain
        limits root root /var/tmp/plain works
        echo '+memory +pids +cpu' >/sys/fs/cgroup/cgroup.subtree_control
        echo $BASHPID >$group/cgroup.procs
        row crowded root /var/tmp/plain works
        limits crowded root /var/tmp/plain EUNSUPPORTED
        echo $BASHPID >$group/leaf/cgroup.procs
        row leaf root /var/tmp/plain works
        limits leaf root /var/tmp/plain works
        exit $failed
    ) || status=$?
    meson test -C build --no-rebuild --timeout-multiplier 16 --print-errorlogs integration-inside-root integration-sandbox-root \
        integration-scope-root integration-inside-sbtest redteam-kernel-root || status=$?
    python3 scripts/test-summary build || status=$?
    return $status
}

part_kinds() { scripts/guest-kinds.sh; }

failed=0
part_about
# Debian 13 has /tmp in memory, where volumes are refused and a full disk is a full machine: the suites get one on the disk. State in memory is a
# part of its own.
mkdir -p /var/tmp/tmp && chmod 1777 /var/tmp/tmp && mount --bind /var/tmp/tmp /tmp || exit
for part; do
    name=${part#*:} begun=$SECONDS
    declare -F "part_${part%%:*}" >/dev/null || { echo "guest-inside: no part $part" >&2; exit 2; }
    if "part_${part%%:*}"; then result=passed; else result=FAILED failed=1; fi
    echo "==> $part: $result, $((SECONDS - begun)) s"
done
exit $failed
