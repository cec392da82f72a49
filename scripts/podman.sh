#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The suites in containers, whose root is an overlay: all of them in a privileged one, and in others what each kind of container and user
# can and can't do, which docs/hosts.md says (scripts/podman-inside.sh has the table). No registry is asked: the root is that of guest.sh.
# usage: podman.sh [PART…]      PART: matrix first suites, default all of them; test:NAME, one of meson's tests
set -euo pipefail
cd "$(dirname "$0")/.."
parts=("$@")
[ $# -gt 0 ] || parts=(matrix first suites)
[ "$(id -u)" = 0 ] || { echo "podman: needs root" >&2; exit 2; }
command -v podman >/dev/null || { echo "podman: no podman: ./scripts/setup.sh test deep" >&2; exit 2; }
root=$(./scripts/guest.sh bookworm --root)
work=$(mktemp -d "${TMPDIR:-/var/tmp}/podman-XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM

# Everything of podman's in a folder of ours, and limits that any root may set.
cat >"$work/containers.conf" <<'CONF'
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=16384:16384"]
netns = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
CONF
printf '[storage]\ndriver = "overlay"\nrunroot = "%s/run"\ngraphroot = "%s/graph"\n' "$work" "$work" >"$work/storage.conf"
export CONTAINERS_CONF=$work/containers.conf CONTAINERS_STORAGE_CONF=$work/storage.conf

inside() { # NAME, podman's options, --, command; the tree is a volume, of the machine's own file system
    local options=() name=$1
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    timeout -k 10 5400 podman run --rm --name "$name-$$" --tmpfs /t:exec,mode=1777 --volume "$work/src:/src" "${options[@]}" --rootfs "$root:O" "$@"
}

# built as the guest's, at the same path in the same root
cp -a "$(./scripts/guest.sh bookworm --tree)" "$work/src"
mkdir "$work/src/tmp"
chmod 1777 "$work/src/tmp"

part_matrix() {
    local status=0
    inside default -- /src/scripts/podman-inside.sh default || status=1
    inside unmasked --security-opt unmask=ALL --security-opt seccomp=unconfined -- /src/scripts/podman-inside.sh unmasked || status=1
    inside privileged --privileged -- /src/scripts/podman-inside.sh privileged || status=1
    return $status
}

# The host program is PID 1: of a container, where nobody else reaps, too.
part_first() {
    inside first --privileged --env TMPDIR=/src/tmp -- /src/build/tests/soak/cycles 40
}

part_suites() {
    local status=0
    inside suites --privileged --env TMPDIR=/src/tmp --env XDG_CACHE_HOME=/src/cache -- \
        sh -c 'cd /src && SBTEST_SLOW=4 meson test -C build --no-rebuild --timeout-multiplier 4 --print-errorlogs --no-suite header --no-suite symbols --no-suite abi --no-suite style --no-suite bench-smoke' || status=$?
    python3 scripts/test-summary "$work/src/build" || status=$?
    return $status
}

part_test() {
    inside test --privileged --env TMPDIR=/src/tmp -- sh -c "cd /src && meson test -C build --no-rebuild --print-errorlogs $name"
}

failed=0
for part in "${parts[@]}"; do
    name=${part#*:} begun=$SECONDS
    declare -F "part_${part%%:*}" >/dev/null || { echo "podman: no part $part" >&2; exit 2; }
    if "part_${part%%:*}"; then result=passed; else result=FAILED failed=1; fi
    echo "==> $part: $result, $((SECONDS - begun)) s"
done
exit $failed
