#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The suites on another kind of Linux: a machine made of the suite's own packages (kernel, systemd as PID 1, cgroup v2 alone), booted by
# QEMU without a network. The tree is built in a chroot of the same packages here, since compiling under TCG is slow.
# usage: guest.sh SUITE [PART…]     SUITE: bookworm, trixie; PART: of scripts/guest-inside.sh, default all of them;
#                                  plain: with no systemd, PID 1 being a shell
#        guest.sh SUITE --root      makes its root folder only and prints the path; --tree: the tree built in it
# The machine's packages are kept below ${XDG_CACHE_HOME:-~/.cache}/libsandbox under a hash of their list, of what
# is made of them, and of the week.
# GUEST_ACCEL=kvm: where KVM works (it is not tried by itself: a /dev/kvm that opens may still run nothing).
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:?usage: guest.sh SUITE [PART…]}
shift
[ "$(id -u)" = 0 ] || { echo "guest: needs root, to make a root file system" >&2; exit 2; }
for tool in mmdebstrap qemu-system-x86_64 mkfs.ext4 busybox modprobe; do
    command -v $tool >/dev/null || { echo "guest: needs $tool: ./scripts/setup.sh test deep" >&2; exit 2; }
done
minutes=${GUEST_MINUTES:-90} # of each boot
packages=$(sed -n 's/^\(build\|run\|test\|guest\): //p' scripts/packages | tr ' \n' ',,' | sed 's/,*$//')

# What boots: busybox and the modules that the disks and the channel need, which are not in every kernel.
make_initrd() { # ROOT RELEASE OUT
    local root=$1 release=$2 out=$3 work=$3.d module path
    mkdir -p "$work/bin" "$work/m" "$work/dev" "$work/proc" "$work/new"
    cp "$(command -v busybox)" "$work/bin/busybox"
    : >"$work/m/order"
    for module in virtio_pci virtio_blk virtio_console; do
        while read -r kind path _; do
            [ "$kind" = insmod ] || continue
            case $path in
            *.xz) xz -dc "$path" >"$work/m/$(basename "$path" .xz)" ;;
            *.zst) zstd -qdc "$path" >"$work/m/$(basename "$path" .zst)" ;;
            *) cp "$path" "$work/m/" ;;
            esac
            basename "$path" | sed 's/\.ko.*/.ko/' >>"$work/m/order"
        done < <(modprobe -d "$root" -S "$release" --show-depends "$module")
    done
    cat >"$work/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
while read -r m; do /bin/busybox insmod /m/$m 2>/dev/null; done </m/order
n=0
while [ ! -b /dev/vda ] && [ $n -lt 300 ]; do /bin/busybox usleep 100000; n=$((n + 1)); done
/bin/busybox mount -t ext4 /dev/vda /new || { echo "initrd: no root"; exec /bin/busybox poweroff -f; }
init=/sbin/init
/bin/busybox mount -t proc proc /proc
/bin/busybox grep -q guest.plain /proc/cmdline && init=/usr/local/sbin/guest
/bin/busybox umount /dev /proc
exec /bin/busybox switch_root /new $init
INIT
    chmod 755 "$work/init"
    (cd "$work" && find . | busybox cpio -o -H newc 2>/dev/null) | gzip -1 >"$out"
    rm -rf "$work"
}

make_base() {
    local new=$base.new root=$base.new/root release
    echo "==> making $suite of packages"
    mkdir -p "$cache"
    find "$cache" -maxdepth 1 -name "guest-$suite-*" -exec rm -rf --one-file-system {} +
    mkdir -p "$new"
    mmdebstrap --variant=minbase --include="$packages" "$suite" "$root" >"$new/log" 2>&1 || { tail -n 20 "$new/log" >&2; return 1; }
    release=$(basename "$root"/lib/modules/*)
    cp "$root/boot/vmlinuz-$release" "$new/vmlinuz"
    make_initrd "$root" "$release" "$new/initrd"
    rm -rf "$root"/boot/initrd* "$root"/usr/share/{doc,man,locale}
    echo "$suite" >"$root/etc/hostname"
    echo "/dev/vda / ext4 defaults 0 0" >"$root/etc/fstab"
    # the one thing that this machine does; what it says goes out by channels of its own, found by their names, not by the console
    cat >"$root/usr/local/sbin/guest" <<'PROGRAM'
#!/bin/sh
port() { echo "/dev/$(basename "$(dirname "$(grep -lx "$1" /sys/class/virtio-ports/*/name)")")"; }
parts() { sed -n 's/.*guest\.parts=\([^ ]*\).*/\1/p' /proc/cmdline | tr , ' '; }
case $$:$1 in
1:*) # PID 1 itself: no systemd, cgroup v2 alone
    export PATH=/usr/sbin:/usr/bin:/sbin:/bin
    mount -t devtmpfs none /dev && mount -t proc none /proc && mount -t sysfs none /sys && mount -t cgroup2 none /sys/fs/cgroup
    mkdir -p /dev/pts /dev/shm
    mount -t devpts -o ptmxmode=666 none /dev/pts && mount -t tmpfs none /dev/shm && mount -t tmpfs -o mode=755 none /run
    mount -o remount,rw /
    mount /dev/vdb /src && /src/scripts/guest-inside.sh $(parts) >"$(port out)" 2>&1
    echo $? >"$(port status)"
    sync
    exec busybox poweroff -f
    ;;
*:start) mount /dev/vdb /src && exec /src/scripts/guest-inside.sh $(parts) >"$(port out)" 2>&1 ;;
*:stop)
    echo "$EXIT_STATUS" >"$(port status)"
    sync
    exec systemctl poweroff --force --force
    ;;
esac
PROGRAM
    chmod 755 "$root/usr/local/sbin/guest"
    cat >"$root/etc/systemd/system/guest.service" <<'UNIT'
[Unit]
Description=tests of libsandbox
After=multi-user.target
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/guest start
ExecStopPost=/usr/local/sbin/guest stop
StandardOutput=journal+console
StandardError=inherit
Delegate=yes
TimeoutStartSec=infinity
[Install]
WantedBy=graphical.target
UNIT
    mkdir "$root/src"
    chroot "$root" systemctl -q set-default graphical.target
    chroot "$root" systemctl -q enable guest.service
    chroot "$root" systemctl -q mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer e2scrub_all.timer \
        man-db.timer systemd-networkd-wait-online.service getty@tty1.service serial-getty@ttyS0.service
    mv "$new" "$base"
}

key=$(printf '%s %s %s %s' "$suite" "$packages" "$(date -u +%G-%V)" "$(declare -f make_initrd make_base)" | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/libsandbox
mkdir -p "$cache"
base=$cache/guest-$suite-$key

# The tree, built by the machine's own compiler, with the large test image beside it: there is no network inside. Kept under a hash of all of it,
# the last two of each suite.
build_tree() {
    local work=$tree.new debian
    debian=$(./tests/images/debian.sh)
    rm -rf --one-file-system "$cache/tree-$suite-"*.new # also of a run that was cut off
    mkdir -p "$work/upper/src/cache/libsandbox" "$work/work" "$work/root"
    own_files | tar -C "$work/upper/src" --no-same-owner -xf -
    cp "$debian" "$work/upper/src/cache/libsandbox/"
    chmod -R go+rX "$work/upper/src"
    cat >"$work/inside" <<'INSIDE'
set -eu
mount --make-rprivate /
mount -t overlay -o "lowerdir=$base/root,upperdir=$work/upper,workdir=$work/work" none "$work/root"
mount --rbind /dev "$work/root/dev"
mount -t proc proc "$work/root/proc"
exec chroot "$work/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 sh -c '
    cd /src && umask 022 && meson setup build -Dtests=enabled >build.log 2>&1 && ninja -C build >>build.log 2>&1 &&
        { ninja -C build meson-test-prereq >>build.log 2>&1 || :; } || { tail -n 40 build.log; exit 1; }
    ln cache/libsandbox/debian-*.tar build/tests/integration/debian.tar # where image-tools looks for one'
INSIDE
    base=$base work=$work unshare --mount --pid --fork sh "$work/inside" || return
    mkdir -p "$tree.done"
    mv "$work/upper/src" "$tree.done/src"
    rm -rf --one-file-system "$work"
    mv "$tree.done" "$tree"
    find "$cache" -maxdepth 1 -name "tree-$suite-*" ! -name '*.*' -printf '%T@ %p\n' | sort -rn | tail -n +3 | cut -d' ' -f2- |
        xargs -r rm -rf --one-file-system
}

own_files() { tar --sort=name --owner=0 --group=0 --numeric-owner -cf - --exclude='./build*' --exclude=./.git --exclude=__pycache__ "$@" .; }

image() { # FOLDER SIZE OUT
    truncate -s "$2" "$3.new"
    mkfs.ext4 -q -F -d "$1" "$3.new"
    mv "$3.new" "$3"
}

# One run of the machine; nothing of what it writes stays.
boot() { # WORD of the kernel's command line, PART…
    local word=$1 status=0 begun=$SECONDS tail accel=${GUEST_ACCEL:-tcg,thread=multi} cpu=max,la57=off
    [ "$accel" != kvm ] || cpu=host # else: five-level paging costs an emulated machine dearly
    shift
    : >"$work/out"
    : >"$work/status"
    tail -f "$work/out" &
    tail=$!
    TMPDIR=$work timeout -k 10 $((minutes * 60)) qemu-system-x86_64 -machine q35 -accel "$accel" -cpu "$cpu" -smp 2 -m 4096 \
        -nodefaults -no-user-config -display none -no-reboot -serial "file:$work/console" \
        -kernel "$work/vmlinuz" -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1 $word guest.parts=$(echo "$*" | tr ' ' ,)" \
        -drive "if=none,id=d0,file=$work/root.img,format=raw,snapshot=on" -device virtio-blk-pci,drive=d0 \
        -drive "if=none,id=d1,file=$work/src.img,format=raw,snapshot=on" -device virtio-blk-pci,drive=d1 \
        -device virtio-serial-pci -chardev "file,id=c0,path=$work/out" -device virtserialport,chardev=c0,name=out \
        -chardev "file,id=c1,path=$work/status" -device virtserialport,chardev=c1,name=status \
        -device virtio-rng-pci || status=$?
    sleep 1
    kill $tail
    wait $tail 2>/dev/null || :
    if [ "$status" != 0 ]; then
        echo "guest: QEMU ended with $status after $((SECONDS - begun)) s (124: not done within $minutes minutes)"
    elif [ "$(cat "$work/status")" != 0 ]; then
        echo "guest: the tests ended with \"$(cat "$work/status")\""
        status=1
    fi
    [ "$status" = 0 ] || { echo "==> the end of the console"; tail -n 30 "$work/console"; }
    echo "==> $suite${word:+ ($word)}: $((SECONDS - begun)) s in the machine"
    return "$status"
}

exec 9>"$cache/guest-$suite.lock"
flock 9 # another run may be making the same
[ -e "$base" ] || make_base >&2
[ "${1:-}" != --root ] || { echo "$base/root"; exit 0; }
begun=$SECONDS
tree=$cache/tree-$suite-$({ echo "$key"; own_files --mtime=@0; } | sha256sum | cut -c1-16)
[ -e "$tree" ] || { echo "==> building for $suite" && build_tree; } >&2 || exit
touch "$tree"
[ "${1:-}" != --tree ] || { echo "$tree/src"; exit 0; }
work=$(mktemp -d "${TMPDIR:-/var/tmp}/guest-XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM
[ -e "$base/root.img" ] || image "$base/root" 6G "$base/root.img"
[ -e "$tree/src.img" ] || image "$tree/src" 3G "$tree/src.img"
for name in "$base/root.img" "$base/vmlinuz" "$base/initrd" "$tree/src.img"; do # another run may throw ours away
    ln "$name" "$work/" 2>/dev/null || cp --sparse=always "$name" "$work/"
done
flock -u 9
echo "==> made in $((SECONDS - begun)) s; booting $suite"
failed=0
case "$*" in
plain*) boot guest.plain "$@" || failed=1 ;;
?*) boot '' "$@" || failed=1 ;;
*)
    boot '' cost systemd root session kinds || failed=1
    boot guest.plain plain || failed=1
    ;;
esac
exit $failed
