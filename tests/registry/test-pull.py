#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images from Debian's docker-registry: open, with passwords, with tokens, over TLS; pushed by skopeo, pulled and run by the `sandbox`
command. Usage: test-pull.py SANDBOX OCI-LAYOUT CLI-TESTS"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[3])
import tap
from registries import Docker, Fake, Image, Tokens, certificate, tar
from tool import Tool

LAYOUT = 'oci:' + os.path.abspath(sys.argv[2]) + ':latest'


def left(tool):
    """Files that a pull has left unfinished."""
    folder = os.path.join(tool.root, 'downloads')
    return os.listdir(folder) if os.path.isdir(folder) else []


def clean(tool):
    tool.good('image', 'gc', '--unused')
    assert tool.good('--json', 'image', 'ls').json == []
    assert left(tool) == []
    layers = os.path.join(tool.root, 'layers')
    assert os.listdir(layers) == [], os.listdir(layers)


def config(folder, auths=None, **more):
    path = os.path.join(folder, 'config.json')
    with open(path, 'w') as f:
        json.dump({'auths': auths or {}, **more}, f)
    return path


def helper(folder, name, script):
    path = os.path.join(folder, 'docker-credential-' + name)
    with open(path, 'w') as f:
        f.write('#!/bin/sh\n' + script)
    os.chmod(path, 0o755)
    return folder + ':' + os.environ['PATH']


def test_pull_and_run(tool):
    with Docker() as registry:
        registry.push(LAYOUT, 'team/app:1')
        ref = f'{registry.host}/team/app:1'
        digest = tool.good('image', 'pull', ref).out.strip()
        assert digest.startswith('sha256:') and len(digest) == 71, digest
        peer = subprocess.run(['skopeo', 'inspect', '--tls-verify=false', '--format', '{{.Digest}}', f'docker://{ref}'], capture_output=True, check=True,
                              env=registry.environment)
        assert peer.stdout.decode().strip() == digest, (peer.stdout, digest)
        image = tool.good('--json', 'image', 'inspect', ref).json
        assert image['names'] == [ref] and image['digest'] == digest, image
        assert tool.good('run', '--user', '0:0', '--image', ref, '--', '/bin/echo', 'hello').out == 'hello\n'
        missing = tool.fails('run', '--user', '0:0', '--image', f'{registry.host}/team/app:2', '--', '/bin/true')
        assert 'pull it' in missing.err, missing
        gone = tool.fails('image', 'pull', f'{registry.host}/team/app:2')
        assert 'MANIFEST_UNKNOWN' in gone.err, gone
        assert tool.good('run', '--user', '0:0', '--pull', 'always', '--image', ref, '--', '/bin/echo', 'again').out == 'again\n'
    # everything after this works without the registry
    assert tool.good('run', '--user', '0:0', '--image', f'docker://{ref}', '--', '/bin/echo', 'offline').out == 'offline\n'
    assert tool.good('image', 'pull', f'{registry.host}/team/app@{digest}').out.strip() == digest
    failed = tool.fails('image', 'pull', ref)
    assert 'connect' in failed.err, failed
    tool.fails('run', '--user', '0:0', '--pull', 'always', '--image', ref, '--', '/bin/true')
    clean(tool)


def test_docker_schema2(tool):
    with Docker() as registry:
        registry.push(LAYOUT, 'app:v2', '--format', 'v2s2')
        assert tool.good('run', '--user', '0:0', '--pull', 'missing', '--image', f'{registry.host}/app:v2', '--', '/bin/echo', 'v2').out == 'v2\n'
    clean(tool)


def test_compressions(tool):
    """gzip by skopeo's default, zstd, and plain or xz as nobody pushes but a registry may hold."""
    import lzma
    with Docker() as registry:
        registry.push(LAYOUT, 'app:zstd', '--dest-compress-format', 'zstd', '--format', 'oci')
        assert tool.good('run', '--user', '0:0', '--pull', 'missing', '--image', f'{registry.host}/app:zstd', '--', '/bin/echo', 'z').out == 'z\n'
    plain = tar({'plain': b'1' * 100000})
    with Fake(Image(plain, tar({'x': b'2' * 100000}), compress=lzma.compress), Image(plain, compress=None, layer_type='application/vnd.oci.image.layer.v1.tar')) as fake:
        tool.good('image', 'pull', f'{fake.host}/a:1')
        tool.good('image', 'pull', f'{fake.host}/a:2')
        assert len(fake.asked('blobs')) == 4, fake.asked('blobs')  # two configs, two layers: the second image's is here
    clean(tool)


def test_passwords(tool):
    with tempfile.TemporaryDirectory() as folder:
        htpasswd = os.path.join(folder, 'htpasswd')
        with open(htpasswd, 'wb') as f:
            f.write(subprocess.run(['htpasswd', '-Bbn', 'alice', 'pass:word'], capture_output=True, check=True).stdout)
        with Docker(f'auth:\n  htpasswd: {{realm: test, path: {htpasswd}}}\n') as registry:
            registry.push(LAYOUT, 'app:1', '--dest-creds', 'alice:pass:word')
            ref = f'{registry.host}/app:1'
            refused = tool.fails('image', 'pull', ref)
            assert 'credentials' in refused.err, refused
            refused = tool.fails('image', 'pull', '--username', 'alice', '--password-stdin', ref, stdin=b'wrong-secret\n')
            assert 'credentials' in refused.err and 'wrong-secret' not in refused.err, refused
            tool.good('image', 'pull', '--username', 'alice', '--password-stdin', ref, stdin=b'pass:word\n')
            tool.good('image', 'gc', '--unused')
            # Docker's file, as DOCKER_CONFIG and as an option
            config(folder, {registry.host: {'auth': 'YWxpY2U6cGFzczp3b3Jk'}})
            tool.good('image', 'pull', ref, env={'DOCKER_CONFIG': folder})
            tool.good('image', 'gc', '--unused')
            link = os.path.join(folder, 'link.json')  # many keep theirs elsewhere
            os.symlink('config.json', link)
            tool.good('image', 'pull', '--authfile', link, ref)
            tool.good('image', 'gc', '--unused')
            # a helper for this registry, one for all, and one that has nothing
            path = helper(folder, 'good', f'[ "$1" = get ] && [ "$(cat)" = {registry.host} ] || exit 3\n'
                          'echo \'{"ServerURL":"x","Username":"alice","Secret":"pass:word"}\'\n')
            for more in ({'credHelpers': {registry.host: 'good'}}, {'credsStore': 'good'}):
                config(folder, **more)
                tool.good('image', 'pull', ref, env={'DOCKER_CONFIG': folder, 'PATH': path})
                tool.good('image', 'gc', '--unused')
            helper(folder, 'empty', 'echo "credentials not found in native keychain"; exit 1\n')
            config(folder, {registry.host: {'auth': 'YWxpY2U6cGFzczp3b3Jk'}}, credsStore='empty')
            tool.good('image', 'pull', ref, env={'DOCKER_CONFIG': folder, 'PATH': path})
    clean(tool)


def test_helpers_that_fail(tool):
    with tempfile.TemporaryDirectory() as folder, Fake(Image(tar({'a': b'1'}))) as fake:
        ref = f'{fake.host}/a:1'
        for script, says in (('echo garbage-secret', 'is not a JSON object'), ('echo garbage-secret; exit 1', 'exit status 1'), ('kill -9 $$', 'signal 9'),
                             ('echo garbage-secret >&2; exit 1', 'exit status 1'), ('yes garbage-secret', 'more than a helper has to say')):
            path = helper(folder, 'bad', script + '\n')
            config(folder, credsStore='bad')
            failed = tool.fails('image', 'pull', ref, env={'DOCKER_CONFIG': folder, 'PATH': path})
            assert says in failed.err and 'garbage-secret' not in failed.err, (script, failed)
        config(folder, credsStore='absent')
        assert 'docker-credential-absent' in tool.fails('image', 'pull', ref, env={'DOCKER_CONFIG': folder}).err
        with open(os.path.join(folder, 'config.json'), 'w') as f:
            f.write('{"auths": {"x": {"auth": "hush')
        failed = tool.fails('image', 'pull', ref, env={'DOCKER_CONFIG': folder})
        assert 'hush' not in failed.err and 'JSON' in failed.err, failed
        # one that hangs is ended with the pull
        path = helper(folder, 'hung', f'echo > {folder}/began; exec sleep 1000\n')
        config(folder, credsStore='hung')
        child = tool.start('image', 'pull', ref, env={'DOCKER_CONFIG': folder, 'PATH': path}, stderr=subprocess.PIPE)
        until = time.monotonic() + 60
        while not os.path.exists(f'{folder}/began'):
            assert time.monotonic() < until
            time.sleep(0.02)
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)
        assert child.returncode == 128 + signal.SIGTERM, child.returncode
        assert fake.log == [], fake.log  # none of these got as far as the registry
    clean(tool)


def test_tokens(tool):
    with Tokens({'bob': 'b0b'}, refresh='refresh-me') as tokens, tempfile.TemporaryDirectory() as folder, Docker(tokens.auth) as registry:
        registry.push(LAYOUT, 'team/app:1', '--dest-creds', 'bob:b0b')
        ref = f'{registry.host}/team/app:1'
        refused = tool.fails('image', 'pull', ref)
        assert 'token server answered 401' in refused.err, refused
        tokens.transcript.clear()
        tool.good('image', 'pull', '--username', 'bob', '--password-stdin', ref, stdin=b'b0b')
        # the transcript, as the specification has it: one token for the whole pull
        assert tokens.transcript == [('GET', {'service': 'test-registry', 'scope': 'repository:team/app:pull'}, 'bob')], tokens.transcript
        tool.good('image', 'gc', '--unused')
        tokens.transcript.clear()
        config(folder, {registry.host: {'auth': 'PHRva2VuPjo=', 'identitytoken': 'refresh-me'}})
        tool.good('image', 'pull', '--authfile', os.path.join(folder, 'config.json'), ref)
        (command, query, user), = tokens.transcript
        assert (command, user) == ('POST', None) and query['grant_type'] == 'refresh_token' and query['refresh_token'] == 'refresh-me', tokens.transcript
        assert query['scope'] == 'repository:team/app:pull' and query['service'] == 'test-registry', query
    clean(tool)


def test_tls(tool):
    with tempfile.TemporaryDirectory() as folder:
        pair = certificate(folder, '127.0.0.1')
        with Docker(tls=pair) as registry:
            registry.push(LAYOUT, 'app:1')
            ref = f'{registry.host}/app:1'
            failed = tool.fails('image', 'pull', ref)  # nobody vouches for it; and no fall-back to http
            assert 'certificate' in failed.err, failed
            tool.good('image', 'pull', '--ca', pair[0], ref)
        os.mkdir(os.path.join(folder, 'other'))
        other = certificate(os.path.join(folder, 'other'), 'other.example')
        with Fake(Image(tar({'a': b'1'})), tls=other) as fake:
            failed = tool.fails('image', 'pull', '--ca', other[0], f'{fake.host}/a:1')  # vouched for, with another name
            assert 'certificate' in failed.err or 'SSL' in failed.err, failed
            assert fake.log == [], fake.log
    clean(tool)


def test_collect(tool):
    with Fake(Image(tar({'a': b'1'})), Image(tar({'a': b'1'}), tar({'b': b'2'}))) as fake:
        tool.good('image', 'pull', f'{fake.host}/a:1')
        tool.good('image', 'pull', f'{fake.host}/a:2')
        assert len(fake.asked('blobs')) == 4, fake.asked('blobs')  # the layer that both have came once
        tool.good('image', 'rm', f'{fake.host}/a:1')
        assert tool.good('--json', 'image', 'gc').json == {'images': 0, 'layers': 0, 'downloads': 0, 'bytes': 0}
        names = [image['names'] for image in tool.good('--json', 'image', 'ls').json]
        assert names == [[f'{fake.host}/a:2']], names
        # a tag that moves leaves its old image without a name
        fake.serve(Image(tar({'c': b'3'})), '2')
        tool.good('image', 'pull', f'{fake.host}/a:2')
        assert len(tool.good('--json', 'image', 'ls').json) == 2
        collected = tool.good('--json', 'image', 'gc', '--unnamed').json
        assert collected['images'] == 1 and collected['layers'] == 2, collected
    clean(tool)


def test_collect_in_use(tool):
    with Docker() as registry:
        registry.push(LAYOUT, 'app:1')
        ref = f'{registry.host}/app:1'
        box = tool.good('create', '--user', '0:0', '--pull', 'missing', '--image', ref, '--', '/bin/sleep', '1000').out.strip()
        assert tool.good('--json', 'image', 'gc', '--unused').json['images'] == 0
        assert 'stands on' in tool.fails('image', 'rm', ref).err
        tool.good('start', box)
        assert tool.good('exec', box, '--', '/bin/echo', 'here').out == 'here\n'
        tool.good('rm', box)
        assert tool.good('--json', 'image', 'gc', '--unused').json['images'] == 1
    clean(tool)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as state:
        tap.main(sys.modules['__main__'], Tool(os.path.abspath(sys.argv[1]), state))
