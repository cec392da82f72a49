# SPDX-License-Identifier: Apache-2.0
"""Registries for tests: Debian's docker-registry, with what its kinds of credentials need, and one of our own that can be told to lie."""
import base64
import contextlib
import gzip
import hashlib
import http.server
import io
import json
import os
import socket
import ssl
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.parse
import urllib.request

INDEX = 'application/vnd.oci.image.index.v1+json'
MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
CONFIG = 'application/vnd.oci.image.config.v1+json'
LAYER = 'application/vnd.oci.image.layer.v1.tar'
DOCKER_LIST = 'application/vnd.docker.distribution.manifest.list.v2+json'
DOCKER_MANIFEST = 'application/vnd.docker.distribution.manifest.v2+json'
ARCHITECTURE = {'x86_64': 'amd64', 'aarch64': 'arm64'}[os.uname().machine]


def digest(data):
    return 'sha256:' + hashlib.sha256(data).hexdigest()


def tar(files):
    """A layer's tar: {name: bytes}."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w', format=tarfile.PAX_FORMAT) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def gz(data):
    return gzip.compress(data, mtime=0)  # the same for the same


class Image:
    """An OCI image in memory: documents and blobs by digest."""
    def __init__(self, *layers, compress=gz, layer_type=LAYER + '+gzip', architecture=ARCHITECTURE, **changes):
        self.blobs = {}
        packed = [compress(layer) if compress else layer for layer in layers]
        self.config = json.dumps({'architecture': architecture, 'os': 'linux', 'config': {'Cmd': ['/bin/sh']},
                                  'rootfs': {'type': 'layers', 'diff_ids': [digest(layer) for layer in layers]}}).encode()
        self.layers = [self.add(layer) for layer in packed]
        manifest = {'schemaVersion': 2, 'mediaType': MANIFEST, 'config': self.describe(self.config, CONFIG),
                    'layers': [self.describe(layer, layer_type) for layer in packed]}
        self.add(self.config)
        manifest.update(changes)
        self.change(manifest)

    def change(self, manifest):
        self.document, self.manifest = manifest, json.dumps(manifest).encode()
        self.digest = digest(self.manifest)

    def add(self, data):
        self.blobs[digest(data)] = data
        return digest(data)

    @staticmethod
    def describe(data, kind, **more):
        return {'mediaType': kind, 'digest': digest(data), 'size': len(data), **more}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *arguments):
        pass

    def answer(self, status, body=b'', **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        if 'Content_Length' not in headers:
            self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def fault(self, status, code):
        self.answer(status, json.dumps({'errors': [{'code': code, 'message': code.lower()}]}).encode())

    def blob(self, data, ranges=True):
        first = self.headers.get('Range', '')
        if ranges and first.startswith('bytes='):
            start = int(first[6:].split('-')[0])
            if start >= len(data):
                self.answer(416)
            else:
                self.answer(206, data[start:], Content_Range=f'bytes {start}-{len(data) - 1}/{len(data)}')
        else:
            self.answer(200, data)

    def respond(self):
        fake = self.server.fake
        path = self.path.split('?')[0]
        parts = path.split('/')
        kind, name = (parts[-2], parts[-1]) if len(parts) > 3 else ('', '')
        size = int(self.headers.get('Content-Length') or 0)
        self.body = self.rfile.read(size).decode() if size else ''
        with fake.lock:
            fake.log.append((self.command, self.path, dict(self.headers)))
        if fake.hook and fake.hook(self, kind, name):
            return
        if kind == 'manifests' and name in fake.manifests:
            self.answer(200, fake.manifests[name][1], Content_Type=fake.manifests[name][0])
        elif kind == 'blobs' and name in fake.blobs:
            self.blob(fake.blobs[name])
        else:
            self.fault(404, 'MANIFEST_UNKNOWN' if kind == 'manifests' else 'BLOB_UNKNOWN')

    def do_GET(self):
        try:
            self.respond()
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    do_POST = do_GET


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, client_address):
        pass


class Fake:
    """A registry of one's own. `hook(handler, kind, name)` answers first, and returns True when it did."""
    def __init__(self, *images, hook=None, tls=None):
        self.hook, self.log, self.lock, self.blobs, self.manifests = hook, [], threading.Lock(), {}, {}
        for number, image in enumerate(images):
            self.serve(image, str(number + 1))
        self.server = Server(('127.0.0.1', 0), Handler)
        self.server.fake = self
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={'poll_interval': 0.02}, daemon=True)
        self.thread.start()
        self.host = f'127.0.0.1:{self.server.server_port}'

    def serve(self, image, tag):
        self.blobs.update(image.blobs)
        self.add(image.manifest, MANIFEST, tag)

    def add(self, manifest, kind, *tags):
        for name in (digest(manifest), *tags):
            self.manifests[name] = (kind, manifest)
        return digest(manifest)

    def asked(self, kind):
        return [path for _, path, _ in self.log if f'/{kind}/' in path]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def certificate(folder, *names):
    """A self-signed certificate for addresses and names: (certificate, key)."""
    cert, key = os.path.join(folder, 'cert.pem'), os.path.join(folder, 'key.pem')
    subject = ','.join(f'IP:{name}' if name[0].isdigit() else f'DNS:{name}' for name in names)
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=test',
                    '-addext', f'subjectAltName={subject}'], check=True, capture_output=True)
    return cert, key


def free_port():
    with contextlib.closing(socket.socket()) as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Docker:
    """docker-registry on the loopback."""
    def __init__(self, auth='', tls=None):
        self.folder = tempfile.TemporaryDirectory()
        self.host = f'127.0.0.1:{free_port()}'
        self.accept = ssl._create_unverified_context() if tls else None
        path = os.path.join(self.folder.name, 'config.yml')
        with open(path, 'w') as f:
            f.write(f'version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\n'
                    f'storage: {{filesystem: {{rootdirectory: {self.folder.name}/data}}}}\n'
                    f'http:\n  addr: {self.host}\n' + (f'  tls: {{certificate: {tls[0]}, key: {tls[1]}}}\n' if tls else '') + auth)
        self.process = subprocess.Popen(['docker-registry', 'serve', path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        self.tls = tls

    def __enter__(self):
        until = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(f'http{"s" if self.tls else ""}://{self.host}/v2/', timeout=5, context=self.accept).close()
                return self
            except urllib.error.HTTPError:
                return self
            except OSError:
                assert time.monotonic() < until and self.process.poll() is None, 'docker-registry does not start'
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    @property
    def environment(self):
        """skopeo keeps a cache at home."""
        return {'PATH': os.environ['PATH'], 'HOME': self.folder.name}

    def push(self, layout, name, *options):
        subprocess.run(['skopeo', 'copy', '-q', '--dest-tls-verify=false', *options, layout, f'docker://{self.host}/{name}'], check=True, timeout=120, env=self.environment)


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


def jwt(key, cert, claims):
    """A token as the distribution project's specification has it, signed with RS256, its certificate in the header."""
    with open(cert) as f:
        der = ''.join(line.strip() for line in f if 'CERTIFICATE' not in line)
    text = base64url(json.dumps({'typ': 'JWT', 'alg': 'RS256', 'x5c': [der]}).encode()) + '.' + base64url(json.dumps(claims).encode())
    signature = subprocess.run(['openssl', 'dgst', '-sha256', '-sign', key], input=text.encode(), capture_output=True, check=True).stdout
    return text + '.' + base64url(signature)


class Tokens:
    """A token server by that specification: GET with user and password, POST with a refresh token. `transcript` has what was asked."""
    def __init__(self, users, refresh=None, lifetime=60):
        self.folder = tempfile.TemporaryDirectory()
        self.cert, self.key = certificate(self.folder.name, '127.0.0.1')
        self.users, self.refresh, self.lifetime, self.transcript = users, refresh, lifetime, []
        self.fake = Fake(hook=self.answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.fake.__exit__()
        self.folder.cleanup()

    @property
    def auth(self):
        return (f'auth:\n  token:\n    realm: http://{self.fake.host}/token\n    service: test-registry\n    issuer: test-issuer\n'
                f'    rootcertbundle: {self.cert}\n')

    def answer(self, handler, kind, name):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(handler.path).query or handler.body))
        login = handler.headers.get('Authorization', '')
        user = base64.b64decode(login[6:]).decode().split(':', 1) if login.startswith('Basic ') else None
        known = (user and self.users.get(user[0]) == user[1]) or (handler.command == 'POST' and self.refresh and query.get('refresh_token') == self.refresh)
        self.transcript.append((handler.command, query, user[0] if user else None))
        if not known:
            handler.fault(401, 'UNAUTHORIZED')
            return True
        now = int(time.time())
        scope = query.get('scope', '')
        access = [{'type': s.split(':')[0], 'name': s.split(':', 1)[1].rsplit(':', 1)[0], 'actions': s.rsplit(':', 1)[1].split(',')} for s in scope.split() if s]
        token = jwt(self.key, self.cert, {'iss': 'test-issuer', 'sub': 'u', 'aud': query.get('service'), 'exp': now + self.lifetime, 'nbf': now - 5, 'iat': now,
                                          'jti': str(len(self.transcript)), 'access': access})
        field = 'access_token' if handler.command == 'POST' else 'token'
        handler.answer(200, json.dumps({field: token, 'expires_in': self.lifetime}).encode(), Content_Type='application/json')
        return True
