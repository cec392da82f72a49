#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the tests of uploads and downloads need of a machine's side.

copy-tools.py tree FOLDER         makes a folder with one of everything
copy-tools.py show FOLDER         says what is in a folder, one line an entry, sorted: for comparing
copy-tools.py show-tar FILE       the same of a tar, by Python's own reader
copy-tools.py many FOLDER N       N small files in folders of 100
"""
import hashlib
import os
import stat
import sys
import tarfile


def put(path, data, mode, mtime_ns=1234567890123456789):
    with open(path, 'wb') as file:
        file.write(data)
    os.chmod(path, mode)
    os.utime(path, ns=(mtime_ns, mtime_ns))


def tree(top):
    top = os.fsencode(top)
    os.makedirs(top + b'/folder/empty')
    os.makedirs(top + b'/folder/sticky')
    for mode in (0o755, 0o700, 0o644, 0o600, 0o444, 0o000):
        put(top + b'/mode-%03o' % mode, b'mode', mode, 1600000000000000000 + mode)
    put(top + b'/any \n\xff\xfe bytes', b'x', 0o644)
    put(top + b'/-rf', b'x', 0o644)
    put(top + b'/empty', b'', 0o644, 1)
    put(top + b'/old', b'', 0o600, -86400 * 10**9 + 5)
    deep = top
    for _ in range(12):
        deep += b'/' + b'd' * 100
        os.mkdir(deep)
    put(deep + b'/' + b'n' * 255, b'deep', 0o640)
    put(top + b'/folder/large', os.urandom(1 << 20) + b'odd', 0o644)
    os.link(top + b'/folder/large', top + b'/folder/hard')
    os.link(top + b'/folder/large', top + b'/hard')
    os.symlink(b'folder/large', top + b'/link')
    os.symlink(b'/nowhere/' + b'l' * 200, top + b'/dangling')
    os.symlink(b'..', top + b'/folder/up')
    os.mkfifo(top + b'/fifo', 0o640)
    with open(top + b'/sparse', 'wb') as file:
        file.truncate(1 << 30)
        file.seek(100 << 20)
        file.write(b'middle')
        file.seek((1 << 30) - 3)
        file.write(b'end')
    with open(top + b'/hole-at-end', 'wb') as file:
        file.write(b'begin')
        file.truncate(10 << 20)
    try:
        os.setxattr(top + b'/mode-644', b'user.note', b'any \0 bytes\xff\n')
        os.setxattr(top + b'/folder', b'user.of-a-folder', b'1')
    except OSError:
        pass
    os.chmod(top + b'/folder/sticky', 0o1777)
    os.chmod(top + b'/folder', 0o751)
    for folder, _, _ in os.walk(top, topdown=False):
        os.utime(folder, ns=(1500000000000000007, 1500000000000000007))


def digest_of(path, size):
    sha = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY)
    at = 0
    while at < size:
        try:
            data = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            break
        hole = os.lseek(fd, data, os.SEEK_HOLE)
        os.lseek(fd, data, os.SEEK_SET)
        while data < hole:
            chunk = os.read(fd, min(1 << 20, hole - data))
            if chunk.strip(b'\0'):
                sha.update(b'%d:' % (data + len(chunk) - len(chunk.lstrip(b'\0'))) + chunk.strip(b'\0'))
            data += len(chunk)
        at = hole
    os.close(fd)
    return sha.hexdigest()[:16]


def show(top, owners):
    top = os.fsencode(top)
    lines = []
    for folder, folders, files in os.walk(top):
        for name in [b''] * (folder == top) + folders + files:
            path = os.path.join(folder, name) if name else folder
            st = os.lstat(path)
            kind = stat.filemode(st.st_mode)
            line = [repr(os.path.relpath(path, top)), kind, str(st.st_mtime_ns)]
            if owners:
                line.append('%d:%d' % (st.st_uid, st.st_gid))
            if stat.S_ISLNK(st.st_mode):
                line.append(repr(os.readlink(path)))
            if stat.S_ISREG(st.st_mode):
                line.append(str(st.st_size))
                try:
                    line.append(digest_of(path, st.st_size))
                except PermissionError:
                    pass
                if st.st_size > 1 << 25:
                    line.append('sparse' if st.st_blocks * 512 < st.st_size // 16 else 'full')
                if st.st_nlink > 1:
                    line.append('links %d' % st.st_nlink)
            if not stat.S_ISLNK(st.st_mode):
                try:
                    line += sorted('%s=%r' % (key, os.getxattr(path, key)) for key in os.listxattr(path) if key.startswith('user.'))
                except OSError:
                    pass
            lines.append(' '.join(line))
    print('\n'.join(sorted(lines)))


def show_tar(path):
    with tarfile.open(path, 'r:', encoding='latin-1') as archive:
        for member in sorted(archive.getmembers(), key=lambda m: m.name):
            print(repr(member.name), member.type, oct(member.mode), member.uid, member.gid, member.size, member.linkname[:40])


def many(top, count):
    for i in range(count):
        if i % 100 == 0:
            folder = '%s/folder-%d' % (top, i // 100)
            os.makedirs(folder)
        with open('%s/file-%d' % (folder, i), 'w', encoding='ascii') as file:
            file.write('small file number %d\n' % i * 20)


def main():
    what, path = sys.argv[1:3]
    if what == 'tree':
        tree(path)
    elif what == 'show':
        show(path, len(sys.argv) > 3)
    elif what == 'show-tar':
        show_tar(path)
    else:
        many(path, int(sys.argv[3]))


main()
