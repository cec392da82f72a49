#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images from a registry, beside skopeo and tar.

pull.py --build BUILD [--smoke] [--rounds N] [--size MIB]

An image of this machine's own files, in four layers, lies in Debian's docker-registry on the loopback.
  fetch    what sandbox-pull does of a pull: manifest, config and layers into files, hashed; compared with `skopeo copy` of the same into an
           OCI layout
  pull     `sandbox image pull`: fetched, checked, unpacked; compared with `skopeo copy` and then `tar -x` of each layer
  unpack   `sandbox image import` of the OCI layout; compared with `tar -x` of the same compressed layers, one after the other
Rounds of both alternate, and the best of each counts. What is removed again in between isn't counted.
"""
import argparse
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tests', 'registry'))
from registries import Docker, Image


def some_files(most):
    """Layers of /usr, up to so many bytes in all."""
    layers, total = [], 0
    for top in ('/usr/bin', '/usr/lib', '/usr/share', '/usr/sbin'):
        names, room = [], most // 4
        for folder, _, files in os.walk(top):
            for name in files:
                path = os.path.join(folder, name)
                if os.path.islink(path) or not os.path.isfile(path) or not os.access(path, os.R_OK) or os.path.getsize(path) > room:
                    continue
                room -= os.path.getsize(path)
                names.append(path[1:])
        layers.append(subprocess.run(['tar', '-C', '/', '--hard-dereference', '--no-acls', '--no-xattrs', '-cf', '-', '-T', '-'],
                                     input='\n'.join(sorted(names)).encode(), stdout=subprocess.PIPE, check=True).stdout)
        total += len(layers[-1])
    return layers, total


def write_layout(image, folder):
    os.makedirs(os.path.join(folder, 'blobs', 'sha256'))
    for name, data in {**image.blobs, image.digest: image.manifest}.items():
        with open(os.path.join(folder, 'blobs', 'sha256', name[7:]), 'wb') as f:
            f.write(data)
    index = {'schemaVersion': 2, 'manifests': [Image.describe(image.manifest, 'application/vnd.oci.image.manifest.v1+json')]}
    for name, document in (('oci-layout', {'imageLayoutVersion': '1.0.0'}), ('index.json', index)):
        with open(os.path.join(folder, name), 'w', encoding='ascii') as f:
            json.dump(document, f)


def fetch(program, host, repository, image, folder):
    """Speaks to the helper as the library does (plan/pull-plan.h)."""
    os.mkdir(folder)
    begin = time.perf_counter()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = subprocess.Popen([program], stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={})
    theirs.close()
    plan = struct.pack('8I256s256s512s8192s1024s1024s', 0x70756c31, 11296, 2, 0, 0, 0, 0, 4, host.encode(), repository.encode(), b'', b'', b'', b'')
    ours.send(plan)
    # kind, digest, length: the manifest first, then the config, then all layers, as a pull must
    manifest = [(1, image.digest, len(image.manifest))]
    config = [(2, image.document['config']['digest'], len(image.config))]
    layers = [(2, name, len(image.blobs[name])) for name in image.layers]
    number = 0
    for batch in (manifest, config, layers):
        for kind, name, length in batch:
            with open(os.path.join(folder, name[7:]), 'w+b') as f:
                request = struct.pack('3Ii2q72s136s', 240, number, kind, 0, length, length, name.encode(), b'')
                socket.send_fds(ours, [request], [f.fileno()])
            number += 1
        left = len(batch)
        while left:
            report = ours.recv(4096)
            _, kind, _, code = struct.unpack_from('3Ii', report)
            if kind == 2:
                assert code == 0, report[360:]
                left -= 1
    ours.close()
    child.wait()
    return time.perf_counter() - begin


def timed(*argv, **options):
    begin = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, **options)
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', required=True)
    parser.add_argument('--smoke', action='store_true')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--size', type=int, default=170, help='MiB, unpacked')
    options = parser.parse_args()
    rounds, size = (1, 4) if options.smoke else (options.rounds, options.size)
    tool = os.path.join(os.path.abspath(options.build), 'tools', 'sandbox')
    layers, total = some_files(size << 20)
    image = Image(*layers)
    best = {}
    with tempfile.TemporaryDirectory(prefix='bench-pull-', dir='/var/tmp') as work, Docker() as registry:
        layout, out, state = (os.path.join(work, name) for name in ('layout', 'out', 'state'))
        env = {**registry.environment, 'SANDBOX_ROOT': state}
        os.mkdir(state, 0o700)
        write_layout(image, layout)
        registry.push('oci:' + layout, 'bench:1')

        def note(name, seconds):
            best[name] = min(best.get(name, seconds), seconds)

        def forget():
            subprocess.run([tool, 'image', 'gc', '--unused'], env=env, check=True, stdout=subprocess.DEVNULL)
            shutil.rmtree(out, ignore_errors=True)
            os.sync()

        for _ in range(rounds):
            note('skopeo copy', timed('skopeo', 'copy', '-q', '--src-tls-verify=false', f'docker://{registry.host}/bench:1', 'oci:' + out, env=env))
            forget()
            note('fetch', fetch(os.path.join(os.path.abspath(options.build), 'agent', 'sandbox-pull'), registry.host, 'bench', image, out))
            forget()
            note('pull', timed(tool, 'image', 'pull', f'{registry.host}/bench:1', env=env))
            forget()
            os.mkdir(out)
            note('tar -x', sum(timed('tar', '-C', out, '-xzf', os.path.join(layout, 'blobs', 'sha256', name[7:])) for name in image.layers))
            forget()
            note('unpack', timed(tool, 'image', 'import', layout, env=env))
            forget()
    print(f'an image of {total >> 20} MiB, {sum(len(image.blobs[name]) for name in image.layers) >> 20} MiB compressed, {rounds} rounds')
    best['copy, tar -x'] = best['skopeo copy'] + best['tar -x']
    for ours, peer in (('fetch', 'skopeo copy'), ('pull', 'copy, tar -x'), ('unpack', 'tar -x')):
        print(f'{ours:8} {best[ours]:7.3f} s   {peer:12} {best[peer]:7.3f} s   ratio {best[ours] / best[peer]:.2f}')


if __name__ == '__main__':
    main()
