#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# busybox.sh OUT GUESTS: makes the small test image from busybox-static, in all the forms that an import takes:
#   OUT/rootfs, OUT/rootfs.tar, OUT/oci (by umoci), OUT/oci.tar, OUT/docker.tar (by skopeo)
# GUESTS is the folder of the programs that run inside sandboxes; they are in /guest. Forms whose tool isn't there are left out.
set -eu
out=$1 guests=$2
busybox=$(command -v busybox) || { echo "busybox.sh: no busybox (package busybox-static)" >&2; exit 1; }
case $(LC_ALL=C "$busybox" ldd "$busybox" 2>&1 || true) in *"=>"*) echo "busybox.sh: $busybox is not static (package busybox-static)" >&2; exit 1 ;; esac

rm -rf "$out"
umask 022
mkdir -p "$out/rootfs"
out=$(realpath "$out")
cd "$out/rootfs"
mkdir -p bin sbin usr/bin etc root home/agent guest dev proc sys var/lib srv opt tmp run
chmod 1777 tmp
chmod 0700 root
cp "$busybox" bin/busybox
for applet in $(./bin/busybox --list); do
    [ "$applet" = busybox ] || ln -s busybox "bin/$applet"
done
cat > etc/passwd <<P
root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/:/bin/false
agent:x:1500:1500:agent:/home/agent:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false
P
cat > etc/group <<G
root:x:0:
daemon:x:1:
staff:x:50:agent
agent:x:1500:
nogroup:x:65534:
G
echo 'busybox test image' > etc/motd
for guest in probe bombs hungfuse echo-server; do
    cp "$guests/$guest" guest/
done
# setuid-root, world-executable: must give a command nothing (redteam A11)
cp guest/probe guest/probe-setuid
if [ "$(id -u)" = 0 ]; then
    chown -R 0:0 .
    chown 1500:1500 home/agent
fi
chmod 4755 guest/probe-setuid
chmod 0755 guest/probe guest/bombs guest/hungfuse guest/echo-server

cd ..
tar --numeric-owner --owner=0 --group=0 --sort=name --mtime=@0 -C rootfs -cf rootfs.tar .
if command -v umoci >/dev/null; then
    umoci init --layout oci
    umoci new --image oci:latest
    umoci unpack --image oci:latest $([ "$(id -u)" = 0 ] || echo --rootless) bundle >/dev/null 2>&1
    rm -rf bundle/rootfs
    cp -a rootfs bundle/rootfs
    umoci repack --image oci:latest bundle >/dev/null 2>&1
    umoci config --image oci:latest --config.user 1500 --config.workingdir /home/agent --config.env FROM_IMAGE=yes
    umoci gc --layout oci >/dev/null 2>&1
    rm -rf bundle
    chmod -R a+rX oci
    tar -C oci -cf oci.tar .
    if command -v skopeo >/dev/null; then
        skopeo --insecure-policy --tmpdir "$out" copy -q oci:oci:latest docker-archive:docker.tar:sbtest/busybox:latest
    fi
fi
