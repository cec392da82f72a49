#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""image-tools.py DRIVER UNPACK CACHE: images as umoci, skopeo and mmdebstrap make them; what is unpacked, merged by the kernel's overlay, is
compared with what umoci itself unpacks, entry by entry: type, mode, owner, time, size, content, links, attributes."""
import ctypes
import gzip
import hashlib
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'cli'))
import tap  # noqa: E402

libc = ctypes.CDLL(None, use_errno=True)


class Place:
    """A folder for one test, with a store in it."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix='image-tools-')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def at(self, *names):
        return os.path.join(self.path, *names)

    def run(self, *words):
        result = subprocess.run(words, cwd=self.path, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
        assert result.returncode == 0, (words, result.stderr.decode(errors='replace'))
        return result.stdout

    def load(self, source, *select):
        return json.loads(self.run(driver, unpack, self.at('state'), self.at(source), *select))


def scan(root):
    found, inodes = {}, {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in folders + files + ([b'.'] if folder == os.fsencode(root) else []):
            path = os.path.join(folder, name)
            st = os.lstat(path)
            relative = os.path.relpath(path, os.fsencode(root))
            entry = [oct(st.st_mode), st.st_uid, st.st_gid]
            if relative != b'.':  # the root's time is the writable folder's in a sandbox
                entry.append(int(st.st_mtime))
            if stat.S_ISREG(st.st_mode):
                with open(path, 'rb') as f:
                    entry += [st.st_size, hashlib.sha256(f.read()).hexdigest()]
                inodes.setdefault(st.st_ino, []).append(relative)
            if stat.S_ISLNK(st.st_mode):
                entry.append(os.readlink(path))
            else:
                names = [n for n in os.listxattr(path, follow_symlinks=False) if not n.startswith('user.overlay.')]
                entry.append([(n, os.getxattr(path, n, follow_symlinks=False)) for n in sorted(names)])
            found[relative] = entry
    links = sorted(sorted(names) for names in inodes.values() if len(names) > 1)
    return found, links


def same(ours, theirs):
    (a, a_links), (b, b_links) = scan(ours), scan(theirs)
    differing = [(path, a.get(path), b.get(path)) for path in sorted(set(a) | set(b)) if a.get(path) != b.get(path)]
    assert not differing, (len(differing), differing[:10])
    assert a_links == b_links, (a_links[:5], b_links[:5])
    return len(a)


def merged(place, image, theirs):
    """Compares the image's overlay with a folder."""
    target = place.at('merged')
    os.makedirs(target, exist_ok=True)
    layers = [os.path.relpath(path, place.path) for path in reversed(image['paths'])]
    if len(layers) == 1:
        return same(os.path.join(place.path, layers[0]), theirs)
    before = os.getcwd()
    os.chdir(place.path)
    try:
        r = libc.mount(b'overlay', os.fsencode(target), b'overlay', 1, ('userxattr,lowerdir=' + ':'.join(layers)).encode())
        assert r == 0, os.strerror(ctypes.get_errno())
    finally:
        os.chdir(before)
    try:
        return same(target, theirs)
    finally:
        assert libc.umount2(os.fsencode(target), 0) == 0, os.strerror(ctypes.get_errno())


def write(path, text=b'x', mode=None):
    with open(path, 'wb') as f:
        f.write(text)
    if mode is not None:
        os.chmod(path, mode)


def busybox_layers(place):
    """Three layers: files of all kinds; removals and replacements; an addition in folders that the layer's tar leaves out."""
    place.run('umoci', 'init', '--layout', place.at('oci'))
    place.run('umoci', 'new', '--image', place.at('oci') + ':one')
    place.run('umoci', 'unpack', '--image', place.at('oci') + ':one', place.at('b'))
    root = place.at('b', 'rootfs')
    for name in ['bin', 'etc', 'gone/deep', 'mixed', 'tmp', 'root', 'locked']:
        os.makedirs(os.path.join(root, name))
    shutil.copy('/bin/busybox', root + '/bin/busybox')
    os.symlink('busybox', root + '/bin/sh')
    os.symlink('/nowhere', root + '/dangling')
    write(root + '/mixed/a')
    write(root + '/mixed/b')
    write(root + '/gone/deep/f')
    write(root + '/suid', mode=0o6755)
    write(root + '/closed', b'secret', 0)
    write(root + '/tmp/old')
    write(root + '/root/old')
    os.link(root + '/mixed/a', root + '/hard')
    os.mkfifo(root + '/fifo')
    os.chown(root + '/mixed/b', 12, 34)
    os.setxattr(root + '/mixed/a', 'user.note', b'\x00\xff')
    os.makedirs(root.encode() + b'/\xff\xfe')
    os.chmod(root + '/tmp', 0o1777)
    os.chmod(root + '/root', 0o700)
    os.chmod(root + '/locked', 0)
    os.chown(root + '/tmp', 5, 6)
    place.run('umoci', 'repack', '--refresh-bundle', '--image', place.at('oci') + ':one', place.at('b'))
    shutil.rmtree(root + '/gone')
    os.remove(root + '/mixed/a')
    os.remove(root + '/dangling')
    os.makedirs(root + '/dangling/now/a/folder')
    os.remove(root + '/bin/sh')
    os.mkdir(root + '/bin/sh')
    shutil.rmtree(root + '/etc')
    write(root + '/etc', b'a file')
    deep = '/'.join(['n' * 60] * 8)
    os.makedirs(os.path.join(root, deep))
    write(os.path.join(root, deep, 'm' * 200))
    with open(root + '/holes', 'wb') as f:
        f.seek(3 << 20)
        f.write(b'end')
    place.run('umoci', 'repack', '--refresh-bundle', '--image', place.at('oci') + ':two', place.at('b'))
    os.remove(root + '/tmp/old')
    os.remove(root + '/root/old')
    place.run('umoci', 'repack', '--image', place.at('oci') + ':three', place.at('b'))
    for tag in ['one', 'two', 'three']:
        place.run('umoci', 'unpack', '--image', place.at('oci') + ':' + tag, place.at('ref-' + tag))


def test_umoci_layers(_):
    with Place() as place:
        busybox_layers(place)
        for tag, layers in [('one', 1), ('two', 2), ('three', 3)]:
            image = place.load('oci', tag)
            assert len(image['paths']) == layers, image['paths']
            assert merged(place, image, place.at('ref-' + tag, 'rootfs')) > 15


def test_digests_are_the_documents_own(_):
    with Place() as place:
        busybox_layers(place)
        image = place.load('oci', 'three')
        manifest = place.run('skopeo', 'inspect', '--raw', 'oci:' + place.at('oci') + ':three')
        assert image['digest'] == 'sha256:' + hashlib.sha256(manifest).hexdigest()
        assert image['config_digest'] == json.loads(manifest)['config']['digest']


def test_docker_archives(_):
    with Place() as place:
        busybox_layers(place)
        by_layout = place.load('oci', 'three')
        place.run('skopeo', 'copy', 'oci:' + place.at('oci') + ':three', 'docker-archive:' + place.at('docker.tar') + ':example/three:1')
        with open(place.at('docker.tar'), 'rb') as f, gzip.open(place.at('docker.tar.gz'), 'wb', 1) as out:
            shutil.copyfileobj(f, out)
        place.run('tar', '-C', place.at('oci'), '-cf', place.at('layout.tar'), '.')
        for source, select in [('docker.tar', []), ('docker.tar', ['example/three:1']), ('docker.tar.gz', []), ('layout.tar', ['three'])]:
            image = place.load(source, *select)
            for key in ['config_digest', 'layers', 'paths', 'config']:
                assert image[key] == by_layout[key], (source, key, image[key], by_layout[key])


def test_docker_archives_unpack_as_layouts_do(_):
    with Place() as place:
        busybox_layers(place)
        place.run('skopeo', 'copy', 'oci:' + place.at('oci') + ':three', 'docker-archive:' + place.at('docker.tar') + ':example/three:1')
        merged(place, place.load('docker.tar'), place.at('ref-three', 'rootfs'))


def test_opaque_folders(_):
    with Place() as place:
        busybox_layers(place)
        os.makedirs(place.at('new', 'sub'))
        write(place.at('new', 'sub', 'f'))
        place.run('umoci', 'insert', '--image', place.at('oci') + ':one', '--tag', 'opaque', '--opaque', place.at('new'), '/mixed')
        place.run('umoci', 'unpack', '--image', place.at('oci') + ':opaque', place.at('ref-opaque'))
        image = place.load('oci', 'opaque')
        merged(place, image, place.at('ref-opaque', 'rootfs'))
        assert not os.path.exists(place.at('ref-opaque', 'rootfs', 'mixed', 'a'))


def test_folders_and_tars(_):
    with Place() as place:
        busybox_layers(place)
        root = place.at('ref-two', 'rootfs')
        image = place.load('ref-two/rootfs')
        merged(place, image, root)
        assert place.load('ref-two/rootfs')['digest'] == image['digest']
        shutil.copytree(root, place.at('copy'), symlinks=True, ignore=lambda *_: ['fifo', 'hard'])
        assert place.load('copy')['digest'] != image['digest']
        place.run('tar', '-C', root, '--xattrs', '--xattrs-include=user.*', '-cJf', place.at('root.tar.xz'), '.')
        merged(place, place.load('root.tar.xz'), root)


def test_full_disk(_):
    with Place() as place:
        os.mkdir(place.at('state'))
        os.mkdir(place.at('root'))
        for number in range(40):
            write(place.at('root', str(number)), os.urandom(100000))
        r = libc.mount(b'tmpfs', os.fsencode(place.at('state')), b'tmpfs', 0, b'size=2m')
        assert r == 0, os.strerror(ctypes.get_errno())
        try:
            result = subprocess.run([driver, unpack, place.at('state'), place.at('root')], capture_output=True, timeout=60)
            assert result.returncode == 1 and b'ENOSPACE' in result.stderr, result
            assert os.listdir(place.at('state', 'layers')) == []
            for number in range(10, 40):
                os.remove(place.at('root', str(number)))
            assert merged(place, place.load('root'), place.at('root')) == 11
        finally:
            assert libc.umount2(os.fsencode(place.at('state')), 0) == 0, os.strerror(ctypes.get_errno())


def test_debian(cache):
    with Place() as place:
        tar = os.path.join(cache, 'debian.tar')
        if not os.path.exists(tar):
            place.run('mmdebstrap', '--variant=minbase', platform.freedesktop_os_release()['VERSION_CODENAME'], place.at('new.tar'))
            shutil.move(place.at('new.tar'), tar)
        os.mkdir(place.at('ref'))
        # what an image may not bring is left out of the comparison
        place.run('tar', '-C', place.at('ref'), '--xattrs', '--xattrs-include=*', '--numeric-owner', '--exclude=./dev/*', '-xpf', tar)
        os.symlink(tar, place.at('debian.tar'))
        image = place.load('debian.tar')
        assert image['skipped'] > 0, 'mmdebstrap writes device nodes'
        for name in os.listdir(os.path.join(image['paths'][0], 'dev')):
            path = os.path.join(image['paths'][0], 'dev', name)
            (shutil.rmtree if os.path.isdir(path) and not os.path.islink(path) else os.remove)(path)
        dev = os.lstat(place.at('ref', 'dev'))
        os.utime(os.path.join(image['paths'][0], 'dev'), ns=(dev.st_mtime_ns, dev.st_mtime_ns))
        assert merged(place, image, place.at('ref')) > 3000


if os.geteuid() != 0:
    print('1..0 # SKIP needs root to mount overlays')
    sys.exit(0)
driver, unpack, cache_folder = map(os.path.abspath, sys.argv[1:])
tap.main(sys.modules['__main__'], cache_folder)
