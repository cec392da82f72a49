#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Registries that lie, stall, loop and end in the middle; pulls that are killed, doubled, and out of disk. Names are of the case lists.
Usage: test-hostile.py SANDBOX OCI-LAYOUT CLI-TESTS"""
import json
import os
import pty
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[3])
import tap
from registries import CONFIG, DOCKER_LIST, INDEX, LAYER, MANIFEST, Fake, Image, certificate, digest, tar
from tool import Tool

BIG = tar({'big': random.Random(1).randbytes(3 << 20)})
SMALL = tar({'small': b'1'})


def left(tool):
    folder = os.path.join(tool.root, 'downloads')
    return os.listdir(folder) if os.path.isdir(folder) else []


def clean(tool):
    tool.good('image', 'gc', '--unused')
    assert tool.good('--json', 'image', 'ls').json == [] and left(tool) == []
    assert os.listdir(os.path.join(tool.root, 'layers')) == [], os.listdir(os.path.join(tool.root, 'layers'))


def fails(tool, fake, code, *says, options=(), stdin=b''):
    """A pull of a:1 that must fail so, with nothing kept but what may be gone on with."""
    result = tool.fails('--json', 'image', 'pull', *options, f'{fake.host}/a:1', stdin=stdin)
    assert result.error['code'] == code and all(word in result.error['message'] for word in says), (code, says, result)
    assert tool.good('--json', 'image', 'ls').json == []
    return result.error


def cut(data, at):
    """Answers that promise all of it and end before."""
    def hook(handler, kind, name):
        if kind != 'blobs' or name != digest(data):
            return False
        start = int(handler.headers.get('Range', 'bytes=0-')[6:].split('-')[0])
        end = min(len(data), start + at)
        handler.send_response(206 if start else 200)
        handler.send_header('Content-Length', str(len(data) - start))
        if start:
            handler.send_header('Content-Range', f'bytes {start}-{len(data) - 1}/{len(data)}')
        handler.end_headers()
        handler.wfile.write(data[start:end])
        handler.close_connection = True
        return True
    return hook


def replace(old, new):
    """The blob `old` is answered by `new`."""
    def hook(handler, kind, name):
        if kind != 'blobs' or name != digest(old):
            return False
        handler.blob(new)
        return True
    return hook


def layer_of(image):
    return image.blobs[image.layers[0]]


def test_redteam_g03_digests(tool):
    image = Image(BIG)
    data = layer_of(image)
    for new, says in ((data[:-1] + bytes([data[-1] ^ 1]), 'another digest'), (data + b'x', 'longer than'), (data[:-1], 'shorter than'), (b'', 'shorter than')):
        with Fake(image, hook=replace(data, new)) as fake:
            fails(tool, fake, 'EDIGEST', says)
            assert left(tool) == []
    with Fake(image, hook=replace(image.config, image.config.replace(b'linux', b'LINUX'))) as fake:
        fails(tool, fake, 'EDIGEST', 'another digest')
    with Fake(image) as fake:  # a manifest by digest that is another one
        other = digest(b'other')
        fake.manifests[other] = (MANIFEST, image.manifest)
        result = tool.fails('--json', 'image', 'pull', f'{fake.host}/a@{other}')
        assert result.error['code'] == 'EDIGEST', result
        result = tool.fails('--json', 'image', 'pull', '--digest', other, f'{fake.host}/a:1')
        assert result.error['code'] == 'EDIGEST' and 'was promised' in result.error['message'], result
    # the manifest lies about a size, in both directions, and so about the digest of what would fit
    for size in (len(data) - 1, len(data) + 1, 0, 1 << 62):
        liar = Image(BIG)
        liar.document['layers'][0]['size'] = size
        liar.change(liar.document)
        with Fake(liar) as fake:
            fails(tool, fake, 'ELIMIT' if size == 1 << 62 else 'EDIGEST')
    liar = Image(BIG)  # and about the layer's content
    liar.document['config'] = Image.describe(Image(SMALL).config, CONFIG)
    liar.add(Image(SMALL).config)
    liar.change(liar.document)
    with Fake(liar) as fake:
        fails(tool, fake, 'EDIGEST')
    clean(tool)


def test_redteam_g03_documents(tool):
    image = Image(SMALL)

    def changed(**more):
        other = Image(SMALL)
        other.change({**other.document, **more})
        return other

    layer = image.document['layers'][0]
    for other, code, says in (
            (changed(manifests=[]), 'EDAMAGED', 'two ways'), (changed(schemaVersion=1), 'EUNSUPPORTED', 'schemaVersion 1'),
            (changed(mediaType=INDEX), 'EDAMAGED', 'another type'), (changed(layers=None), 'EDAMAGED', 'layers'),
            (changed(layers=[{**layer, 'mediaType': 'application/x-unknown'}]), 'EUNSUPPORTED', 'application/x-unknown'),
            (changed(config={**image.document['config'], 'mediaType': 'application/x-thing'}), 'EUNSUPPORTED', 'no container image'),
            (changed(layers=[{**layer, 'digest': 'sha512:' + '0' * 128}]), 'EUNSUPPORTED', 'sha512'),
            (changed(layers=[{**layer, 'digest': '../../etc/passwd'}]), 'EDAMAGED', 'digest'),
            (changed(layers=[layer] * 501), 'ELIMIT', '501 layers'),
            (Image(SMALL, architecture='m68k'), 'EUNSUPPORTED', 'm68k')):
        with Fake(other) as fake:
            fails(tool, fake, code, says)
    for body in (b'', b'{', b'[]', b'null', b'{"schemaVersion":2}', b'\0' * 100, b'{"a":1,"a":2}', b'[' * 100000):
        with Fake() as fake:
            fake.manifests['1'] = (MANIFEST, body)
            fails(tool, fake, 'EDAMAGED')
    with Fake(image) as fake:  # more than a document may have; and one that never ends
        fake.manifests['1'] = (MANIFEST, image.manifest + b' ' * (5 << 20))
        fails(tool, fake, 'ELIMIT', 'longer than')
    # a type that says nothing, or none at all, is no lie
    for kind in ('application/octet-stream', 'text/plain; charset=utf-8', 'application/json'):
        with Fake(image) as fake:
            fake.manifests['1'] = (kind, image.manifest)
            tool.good('image', 'pull', f'{fake.host}/a:1')
            tool.good('image', 'gc', '--unused')
    clean(tool)


def test_redteam_g03_indexes(tool):
    image, other = Image(SMALL), Image(BIG, architecture='m68k')

    def entry(of, kind=MANIFEST, **platform):
        return Image.describe(of, kind, platform={'os': 'linux', 'architecture': 'amd64' if os.uname().machine == 'x86_64' else 'arm64', **platform})

    def index(*entries, kind=INDEX):
        return json.dumps({'schemaVersion': 2, 'mediaType': kind, 'manifests': list(entries)}).encode()

    with Fake(image, other) as fake:
        # the plain one before the variant, wherever it stands; signatures and other machines are passed over
        right = index(entry(b'signature', os='unknown', architecture='unknown'), entry(other.manifest, architecture='m68k'),
                      entry(other.manifest, variant='v99'), entry(image.manifest))
        name = fake.add(right, INDEX, 'index')
        assert tool.good('image', 'pull', f'{fake.host}/a:index').out.strip() == image.digest
        # F55: by the index's digest too, and then without its registry
        assert tool.good('image', 'pull', f'{fake.host}/a@{name}').out.strip() == image.digest
        asked = len(fake.log)
        assert tool.good('image', 'pull', f'{fake.host}/a@{name}').out.strip() == image.digest
        for pin in (f'{fake.host}/a@{name}', f'{fake.host}/a@{image.digest}', image.digest, digest(image.config)):
            assert tool.good('--json', 'image', 'inspect', pin).json['digest'] == image.digest
        assert len(fake.log) == asked
        tool.good('image', 'gc', '--unused')
        fake.add(index(entry(image.manifest), kind=DOCKER_LIST), DOCKER_LIST, 'list')
        assert tool.good('image', 'pull', f'{fake.host}/a:list').out.strip() == image.digest
        tool.good('image', 'gc', '--unused')
        fake.add(index(entry(other.manifest, architecture='m68k')), INDEX, '1')
        fails(tool, fake, 'EUNSUPPORTED', 'no image for linux/')
        fake.add(index(), INDEX, '1')
        fails(tool, fake, 'EDAMAGED', 'names no image')
        nested = image.manifest
        kind = MANIFEST
        for _ in range(8):
            nested, kind = index(entry(nested, kind)), INDEX
            fake.add(nested, INDEX, '1')
        fails(tool, fake, 'EDAMAGED', 'nested')
        # one that leads to itself can't be made: one that claims to
        loop = json.dumps({'schemaVersion': 2, 'mediaType': INDEX, 'manifests': [{'mediaType': INDEX, 'digest': digest(b'loop'), 'size': 10}]}).encode()
        fake.add(loop, INDEX, '1')
        fake.manifests[digest(b'loop')] = (INDEX, loop)
        fails(tool, fake, 'EDIGEST')
    clean(tool)


def test_redteam_g03_foreign_layers(tool):
    with Fake() as elsewhere:
        image = Image(SMALL, layer_type='application/vnd.docker.image.rootfs.foreign.diff.tar.gzip')
        image.document['layers'][0]['urls'] = [f'http://{elsewhere.host}/layer']
        image.change(image.document)
        with Fake(image) as fake:
            held = fake.blobs.pop(image.layers[0])
            fails(tool, fake, 'ENOTFOUND', 'BLOB_UNKNOWN')
            fake.blobs[image.layers[0]] = held
            tool.good('image', 'pull', f'{fake.host}/a:1')
        assert elsewhere.log == [], elsewhere.log  # an image can't send us anywhere
    clean(tool)


def test_resume_in_one_pull(tool):
    image = Image(BIG)
    data = layer_of(image)
    with Fake(image, hook=cut(data, 1 << 20)) as fake:
        tool.good('image', 'pull', f'{fake.host}/a:1')
        ranges = [headers.get('Range') for _, path, headers in fake.log if image.layers[0] in path]
        assert ranges[0] is None and len(ranges) == 4 and all(r.startswith('bytes=') for r in ranges[1:]), ranges
    clean(tool)


def test_resume_by_the_next_pull(tool):
    image = Image(BIG)
    data = layer_of(image)
    begun = threading.Event()

    def stall(handler, kind, name):
        if kind != 'blobs' or name != digest(data) or begun.is_set():
            return False
        handler.send_response(200)
        handler.send_header('Content-Length', str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[:1 << 20])
        begun.set()
        handler.rfile.read(1)  # until it goes
        return True

    with Fake(image, hook=stall) as fake:
        child = tool.start('image', 'pull', f'{fake.host}/a:1', stderr=subprocess.DEVNULL)
        assert begun.wait(60)
        path = os.path.join(tool.root, 'downloads', digest(data)[7:])
        until = time.monotonic() + 60
        while not os.path.exists(path) or os.path.getsize(path) < 1 << 20:
            assert time.monotonic() < until
            time.sleep(0.02)
        # nobody takes it from under the pull
        assert tool.good('--json', 'image', 'gc').json['downloads'] == 0
        child.kill()
        child.wait()
        fake.log.clear()
        tool.good('image', 'pull', f'{fake.host}/a:1')
        (first,) = [headers.get('Range') for _, path, headers in fake.log if image.layers[0] in path]
        assert first == f'bytes={1 << 20}-', first
        # what lies there is hashed like all else: rubbish is not gone on with
        tool.good('image', 'gc', '--unused')
        for rubbish in (b'x' * 1000, b'x' * len(data), b'x' * (len(data) + 1)):
            with open(path, 'wb') as f:
                f.write(rubbish)
            tool.good('image', 'pull', f'{fake.host}/a:1')
            tool.good('image', 'gc', '--unused')
    clean(tool)


def test_ranges(tool):
    """Servers that don't know ranges, that give another one, and that are never done."""
    image = Image(BIG)
    data = layer_of(image)
    state = {'n': 0}

    def first_cut(handler, kind, name):
        if kind == 'blobs' and name == digest(data):
            state['n'] += 1
            if state['n'] == 1:
                return cut(data, 1 << 20)(handler, kind, name)
            if state['then'] == 'whole':
                handler.blob(data, ranges=False)
            elif state['then'] == 'shifted':
                handler.answer(206, data[5:], Content_Range=f'bytes 5-{len(data) - 1}/{len(data)}')
            else:
                handler.answer(206, data[1 << 20:])
            return True
        return False

    for then, fine in (('whole', True), ('shifted', False), ('unsaid', False)):
        state.update(n=0, then=then)
        with Fake(image, hook=first_cut) as fake:
            if fine:
                tool.good('image', 'pull', f'{fake.host}/a:1')
            else:
                fails(tool, fake, 'EPROTOCOL', 'another range')
        tool.good('image', 'gc', '--unused')
    with Fake(image, hook=cut(data, 0)) as fake:
        fails(tool, fake, 'EIO')
        assert 3 <= len([1 for _, path, _ in fake.log if image.layers[0] in path]) <= 10
    clean(tool)


def test_busy_registries(tool):
    image, state = Image(SMALL), {'left': 2}

    def hook(handler, kind, name):
        if kind != 'blobs' or not state['left']:
            return False
        state['left'] -= 1
        handler.answer(429 if state['left'] else 503, b'busy', Retry_After='1')
        return True

    with Fake(image, hook=hook) as fake:
        tool.good('image', 'pull', f'{fake.host}/a:1')
        state['left'] = 1000
    clean(tool)


def test_redirects(tool):
    image = Image(SMALL)
    with Fake(image) as storage:
        def away(handler, kind, name):
            if not handler.headers.get('Authorization'):
                handler.answer(401, WWW_Authenticate='Basic realm="x"')
            elif kind == 'blobs':
                handler.answer(307, Location=f'http://{storage.host}{handler.path}?signature=1')
            else:
                return False
            return True

        with Fake(image, hook=away) as fake:
            options = ('--username', 'u', '--password-stdin')
            tool.good('image', 'pull', *options, f'{fake.host}/a:1', stdin=b'hush')
            assert storage.log and all('Authorization' not in headers for _, _, headers in storage.log), storage.log
            assert all(headers.get('Authorization') for _, _, headers in fake.log[1:])
    tool.good('image', 'gc', '--unused')

    def loop(handler, kind, name):
        handler.answer(302, Location=handler.path)
        return True

    with Fake(image, hook=loop) as fake:
        fails(tool, fake, 'EPROTOCOL', 'redirects')
        assert len(fake.log) <= 8, fake.log
    for location in ('', 'file:///etc/passwd', 'gopher://127.0.0.1/', 'http://' + 'a' * 9000):
        def bad(handler, kind, name):
            handler.answer(302, Location=location)
            return True
        with Fake(image, hook=bad) as fake:
            fails(tool, fake, 'EPROTOCOL')
    with tempfile.TemporaryDirectory() as folder, Fake(image) as plain:
        pair = certificate(folder, '127.0.0.1')

        def down(handler, kind, name):
            handler.answer(307, Location=f'http://{plain.host}{handler.path}')
            return True

        with Fake(image, hook=down, tls=pair) as fake:
            fails(tool, fake, 'EPROTOCOL', 'without TLS', options=('--ca', pair[0]))
            assert plain.log == []
    clean(tool)


def test_challenges(tool):
    """401 for ever; token servers that give nonsense, too much, or another header; a realm without TLS."""
    image, options = Image(SMALL), ('--username', 'u', '--password-stdin')
    state = {}

    def hook(handler, kind, name):
        if handler.path.startswith('/token'):
            state['reply'](handler)
            return True
        realm = state.get('realm') or f'http://{fake.host}/token'
        handler.answer(401, WWW_Authenticate=state.get('challenge') or f'Bearer realm="{realm}",service="s"')
        return True

    def token(text):
        return lambda handler: handler.answer(200, json.dumps({'token': text}).encode())

    with Fake(image, hook=hook) as fake:
        for reply, code in ((token('right'), 'EDENIED'), (token('x\r\nInjected: yes'), 'EPROTOCOL'), (token(''), 'EPROTOCOL'), (token('x' * 50000), 'EPROTOCOL'),
                            (lambda handler: handler.answer(200, b'x' * 200000), 'ELIMIT'), (lambda handler: handler.answer(200, b'{"token":'), 'EPROTOCOL'),
                            (lambda handler: handler.answer(403), 'EDENIED'), (lambda handler: handler.answer(302, Location='/token'), 'EPROTOCOL')):
            state['reply'] = reply
            fake.log.clear()
            error = fails(tool, fake, code, options=options, stdin=b'hush-hush')
            assert len(fake.log) <= 10 and 'hush-hush' not in json.dumps(error), (fake.log, error)
            assert not any('Injected' in headers for _, _, headers in fake.log)
        state['reply'] = token('right')
        for challenge, code in (('Basic realm="x"', 'EDENIED'), ('Digest realm="x"', 'EPROTOCOL'), ('Bearer realm="open', 'EPROTOCOL'), ('', 'EDENIED')):
            state['challenge'] = challenge
            fake.log.clear()
            fails(tool, fake, code, options=options, stdin=b'hush-hush')
            assert len(fake.log) <= 10
        state['challenge'] = None
        for realm in ('file:///etc/passwd', 'gopher://127.0.0.1/x', 'http://192.0.2.7/token', 'http://127.0.0.1@192.0.2.7/token'):
            state['realm'] = realm
            fails(tool, fake, 'EPROTOCOL', options=options, stdin=b'hush-hush')
    with tempfile.TemporaryDirectory() as folder, Fake() as plain:
        pair = certificate(folder, '127.0.0.1')
        state.update(realm=f'http://{plain.host}/token')
        with Fake(image, hook=hook, tls=pair) as fake:
            fails(tool, fake, 'EPROTOCOL', 'without TLS', options=('--ca', pair[0], *options), stdin=b'hush-hush')
        assert plain.log == []
    clean(tool)


def test_headers(tool):
    image = Image(SMALL)

    def many(handler, kind, name):
        handler.send_response(200)
        for i in range(2000):
            handler.send_header(f'X-{i}', 'x' * 1000)
        handler.end_headers()
        return True

    def escape(handler, kind, name):
        handler.answer(404, json.dumps({'errors': [{'code': '\033[2J', 'message': 'a\nb' * 1000}]}).encode())
        return True

    with Fake(image, hook=many) as fake:
        fails(tool, fake, 'ELIMIT', 'headers')
    with Fake(image, hook=escape) as fake:
        error = fails(tool, fake, 'ENOTFOUND')
        assert '\033' not in error['message'] and '\n' not in error['message'] and len(error['message']) < 600, error
    clean(tool)


def test_secrets_are_not_shown(tool):
    """In no argument, environment or file of any process of ours, while a registry keeps the pull waiting; and a signal ends it at once."""
    entered = threading.Event()

    def hang(handler, kind, name):
        if not handler.headers.get('Authorization'):
            handler.answer(401, WWW_Authenticate='Basic realm="x"')
        else:
            entered.set()
            handler.rfile.read(1)
        return True

    with Fake(Image(SMALL), hook=hang) as fake:
        child = tool.start('image', 'pull', '--username', 'u', '--password-stdin', f'{fake.host}/a:1', stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        child.stdin.write(b'hush-hush\n')
        child.stdin.close()
        assert entered.wait(60)
        with open(f'/proc/{child.pid}/task/{child.pid}/children') as f:
            helpers = f.read().split()
        assert len(helpers) == 1, helpers
        for pid in (str(child.pid), *helpers):
            for name in ('cmdline', 'environ'):
                try:
                    with open(f'/proc/{pid}/{name}', 'rb') as f:
                        assert b'hush-hush' not in f.read(), (pid, name)
                except PermissionError:
                    pass
        with open(f'/proc/{helpers[0]}/status') as f:
            status = dict(line.rstrip('\n').split(':\t', 1) for line in f if ':\t' in line)
        assert status['CapEff'] == status['CapPrm'] == '0' * 16 and status['NoNewPrivs'] == '1' and status['Seccomp'] == '2', status
        assert '0' not in status['Uid'].split(), status['Uid']
        begun = time.monotonic()
        child.send_signal(signal.SIGINT)
        err = child.stderr.read()
        assert child.wait(60) == 128 + signal.SIGINT and b'hush-hush' not in err, (child.returncode, err)
        assert time.monotonic() - begun < 30
        assert not os.path.exists(f'/proc/{helpers[0]}')
    clean(tool)


def test_f37_progress(tool):
    """A slow pull tells how far it is, on a terminal."""
    image = Image(BIG)
    data = layer_of(image)

    def slow(handler, kind, name):
        if kind != 'blobs' or name != digest(data):
            return False
        handler.send_response(200)
        handler.send_header('Content-Length', str(len(data)))
        handler.end_headers()
        for at in range(0, len(data), 200 << 10):
            handler.wfile.write(data[at:at + (200 << 10)])
            time.sleep(0.1)
        return True

    with Fake(image, hook=slow) as fake:
        master, slave = pty.openpty()
        child = tool.start('image', 'pull', f'{fake.host}/a:1', stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        text = b''
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:
                break
            if not part:
                break
            text += part
        os.close(master)
        assert child.wait(60) == 0 and b'pull' in text and b' of 3.' in text, text
    clean(tool)


def test_f56_two_at_once(tool):
    image = Image(BIG, SMALL)

    def slow(handler, kind, name):
        if kind == 'blobs':
            time.sleep(0.3)
        return False

    with Fake(image, hook=slow) as fake:
        children = [tool.start('image', 'pull', f'{fake.host}/a:1', stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
        for child in children:
            out, err = child.communicate(timeout=120)
            assert child.returncode == 0 and out.decode().strip() == image.digest, err
        for layer in image.layers:
            assert len([1 for path in fake.asked('blobs') if layer in path]) == 1, fake.asked('blobs')
    clean(tool)


def test_same_layer_twice(tool):
    image = Image(SMALL, BIG, SMALL)
    with Fake(image) as fake:
        tool.good('image', 'pull', f'{fake.host}/a:1')
        assert len(fake.asked('blobs')) == 3, fake.asked('blobs')
    clean(tool)


def test_killed_at_any_moment(tool):
    """What a killed pull leaves is gone after a collect, and the next pull works."""
    image = Image(BIG, SMALL, tar({'c': b'3' * 1000}))
    moments = random.Random(2)
    with Fake(image) as fake:
        for _ in range(12):
            child = tool.start('image', 'pull', f'{fake.host}/a:1', stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(moments.random() * 0.6)
            child.kill()
            child.wait()
        until = time.monotonic() + 60  # its helpers end with it, in their own time
        while True:
            tool.good('image', 'gc', '--unused')
            if left(tool) == [] and os.listdir(os.path.join(tool.root, 'layers')) == []:
                break
            assert time.monotonic() < until, (left(tool), os.listdir(os.path.join(tool.root, 'layers')))
            time.sleep(0.1)
        tool.good('image', 'pull', f'{fake.host}/a:1')
    clean(tool)


if os.geteuid() == 0:  # only root can have a disk of its own
    def test_f54_full_disk(tool):
        with tempfile.TemporaryDirectory() as folder, Fake(Image(BIG)) as fake:
            subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=2m,mode=0700', 'none', folder], check=True)
            try:
                small = Tool(tool.program, folder)
                result = small.fails('--json', 'image', 'pull', f'{fake.host}/a:1')
                assert result.error['code'] == 'ENOSPACE', result
                assert left(small) == [] and small.good('--json', 'image', 'ls').json == []
            finally:
                subprocess.run(['umount', folder], check=True)


if os.environ.get('SBTEST_DEEP'):  # it takes minutes
    def test_slow_loris(tool):
        """A registry that drips is given up, and one that is silent too."""
        stop = threading.Event()

        def drip(handler, kind, name):
            try:
                handler.wfile.write(b'HTTP/1.1 200 OK\r\nX-Drip: ')
                for _ in range(100000):
                    handler.wfile.write(b'x')
                    if stop.wait(1):
                        break
            except OSError:
                pass
            handler.close_connection = True
            return True

        with Fake(Image(SMALL), hook=drip) as fake:
            begun = time.monotonic()
            result = tool.fails('--json', 'image', 'pull', f'{fake.host}/a:1', timeout=600)
            assert result.error['code'] == 'EIO' and time.monotonic() - begun < 400, result
            stop.set()
        clean(tool)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as state:
        tap.main(sys.modules['__main__'], Tool(os.path.abspath(sys.argv[1]), state))
