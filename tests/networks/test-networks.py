#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks by the `sandbox` command, on a machine whose network is netbed.py's. Usage: test-networks.py SANDBOX"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, '..', 'cli'))
import tap
from tool import Tool

ROOT = os.geteuid() == 0
SERVER = '198.51.100.2'
PROXY = ('--network', 'proxy', '--dns', f'{SERVER}:53')

# What a program inside finds when it asks for a URL, without and by the proxy of its environment; and when it connects by itself.
FETCH = '''
import sys, urllib.request, urllib.error
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=20).read(100).decode())
    except urllib.error.HTTPError as e:
        print(e.code, e.read(200).decode().strip())
    except OSError as e:
        print(getattr(e, 'reason', e))
'''
REACH = '''
import errno, socket, sys
for what in sys.argv[1:]:
    kind, address, port = what.split(',')
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM if kind == 'udp' else socket.SOCK_STREAM)
    s.settimeout(2)
    try:
        s.connect((address, int(port)))
        s.send(b'x')
        print(what, 'open')
    except TimeoutError:
        print(what, 'silent')
    except OSError as e:
        print(what, errno.errorcode.get(e.errno, e))
'''


def none_left(tool):
    assert tool.ids() == [], tool.good('ls').out
    assert not [name for name in os.listdir('/sys/class/net') if name.startswith('sbn')]
    if ROOT:
        assert subprocess.run(['nft', 'list', 'tables'], capture_output=True, check=True).stdout == b''
        folder, root = '/run/libsandbox/networks', os.stat(tool.root)
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            with open(os.path.join(folder, name), encoding='utf-8') as claim:  # others of the machine's may have some
                assert not claim.read().startswith(f'{root.st_dev:x}:{root.st_ino:x}\t'), name


def python(tool, options, script, *arguments):
    return tool.good('run', *options, '--', '/usr/bin/python3', '-c', script, *arguments).out.splitlines()


def reached(tool, options, *what):
    return dict(line.split() for line in python(tool, options, REACH, *what))


class Listener:
    """A service of the machine, on all its addresses."""

    def __enter__(self):
        self.socket = socket.create_server(('0.0.0.0', 0))
        self.port = self.socket.getsockname()[1]
        self.seen = []
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def serve(self):
        try:
            while True:
                self.seen.append(self.socket.accept()[1])
        except OSError:
            pass

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def test_none_reaches_nothing(tool):
    with Listener() as host:
        found = reached(tool, (), f'tcp,{SERVER},80', f'udp,{SERVER},53', f'tcp,127.0.0.1,{host.port}', 'tcp,2001:db8::1,80')
        assert found == {f'tcp,{SERVER},80': 'ENETUNREACH', f'udp,{SERVER},53': 'ENETUNREACH', f'tcp,127.0.0.1,{host.port}': 'ECONNREFUSED',
                         'tcp,2001:db8::1,80': 'ENETUNREACH'}, found
        assert not host.seen
    none_left(tool)


def test_host_is_by_name_only(tool):
    with Listener() as host:
        assert reached(tool, ('--network', 'host'), f'tcp,127.0.0.1,{host.port}')[f'tcp,127.0.0.1,{host.port}'] == 'open'
    ports = '/proc/sys/net/ipv4/ip_unprivileged_port_start'
    assert tool.good('run', '--network', 'host', '--', 'cat', ports).out == open(ports).read()  # the host's own is left as it is
    assert tool.fails('run', '--network', 'host', '--publish', '80', 'true').err.startswith('sandbox: create: in the host')
    none_left(tool)


def test_nat_leads_out(tool):
    nat = ('--network', 'nat', '--dns', SERVER)
    lines = python(tool, nat, FETCH, f'http://{SERVER}/', 'http://ok.test:8000/', f'http://{SERVER}/who', 'http://none.test/')
    assert lines[:3] == ['hello', 'hello', '198.51.100.1'], lines  # masqueraded
    assert 'not known' in lines[3], lines
    none_left(tool)


def test_nat_refuses_the_host(tool):
    """Not its services by any of its addresses, not by the gateway, not a cloud's metadata."""
    with Listener() as host:
        what = [f'tcp,{address},{host.port}' for address in ('198.51.100.1', '10.99.0.1', '127.0.0.1', '10.0.2.2')] + ['tcp,169.254.169.254,80']
        found = reached(tool, ('--network', 'nat', '--dns', SERVER), *what)
        assert set(found.values()) <= {'ECONNREFUSED', 'silent', 'EHOSTUNREACH', 'ENETUNREACH'}, found
        assert 'open' not in found.values() and not host.seen, (found, host.seen)
    script = "ip route | sed -n 's/^default via \\([0-9.]*\\).*/\\1/p'"
    gateway = tool.good('run', '--network', 'nat', '--', 'sh', '-c', script).out.strip()
    with Listener() as host:
        found = reached(tool, ('--network', 'nat'), f'tcp,{gateway},{host.port}')
        assert 'open' not in found.values() and not host.seen, found
    none_left(tool)


def test_nat_is_closed_to_others(tool):
    """The host connects to nothing in it, and no sandbox to another; IPv6 is not there."""
    ids = [tool.good('create', '--network', 'nat', '--', '/usr/bin/python3', '-m', 'http.server', '8080').out.split()[-1] for _ in range(2)]
    try:
        for one in ids:
            tool.good('start', one)
        addresses = [tool.good('exec', one, '--', 'sh', '-c', "ip -4 -o address show eth0 | awk '{print $4}'").out.split('/')[0] for one in ids]
        assert tool.good('exec', ids[0], '--', 'sh', '-c', 'ip -6 -o address show scope global').out == ''
        if ROOT:
            try:
                socket.create_connection((addresses[0], 8080), timeout=1.5).close()
                raise AssertionError('the host connected')
            except OSError:
                pass
            found = tool.good('exec', ids[0], '--', '/usr/bin/python3', '-c', REACH, f'tcp,{addresses[1]},8080').out
            assert found.split()[1] == 'silent', found
            # a source that isn't its own: nothing inside may add one, and raw sockets are nobody's
            assert tool('exec', ids[0], '--', 'ip', 'address', 'add', '10.1.1.1/32', 'dev', 'eth0').status != 0
        raw = 'import socket\ntry: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\nexcept OSError as e: print(e.errno)'
        assert tool.good('exec', ids[0], '--', '/usr/bin/python3', '-c', raw).out == '1\n'
    finally:
        tool.good('rm', *ids)
    none_left(tool)


def test_nat_survives_a_restart(tool):
    one = tool.good('create', '--network', 'nat', '--dns', SERVER, '--', 'sleep', '1000').out.split()[-1]
    try:
        for _ in range(2):
            tool.good('start', one)
            assert tool.good('exec', one, '--', '/usr/bin/python3', '-c', FETCH, f'http://{SERVER}/').out == 'hello\n'
            tool.good('stop', '--grace', '0', one)
            assert not [name for name in os.listdir('/sys/class/net') if name.startswith('sbn')]
    finally:
        tool.good('rm', one)
    none_left(tool)


def test_field_f45(tool):
    """A proxy lets through what the rules name, and a literal address does not slip past a host's rule."""
    rules = ('--allow', 'ok.test:8000', '--allow', f'{SERVER}:8000', '--allow', '*.ok.test')
    lines = python(tool, (*PROXY, *rules), FETCH, 'http://ok.test:8000/', 'http://ok.test:8000/host', f'http://{SERVER}:8000/', 'http://ok.test/',
                   'http://other.test:8000/', f'http://{SERVER}/', 'http://0x7f000001/', 'http://127.1:8000/')
    assert lines[0] == 'hello' and lines[1] == 'ok.test:8000' and lines[2] == 'hello', lines
    assert all(line.startswith(('403', '400')) for line in lines[3:]), lines
    found = reached(tool, (*PROXY, *rules), f'tcp,{SERVER},8000', f'udp,{SERVER},53', 'udp,2001:db8::1,53', 'tcp,2001:db8::1,80', 'tcp,169.254.169.254,80')
    assert set(found.values()) <= {'EPERM', 'ECONNREFUSED'}, found
    none_left(tool)


def test_a_redirect_is_a_new_request(tool):
    lines = python(tool, (*PROXY, '--allow', 'ok.test:8000', '--allow', f'{SERVER}:8000'), FETCH, 'http://ok.test:8000/moved')
    assert lines[0].startswith('403') and 'no rule allows this host' in lines[0], lines
    none_left(tool)


def test_dns_that_lies(tool):
    """An allowed name that leads to the machine, to a private address or to the metadata service is refused, unless the address is allowed, too."""
    with Listener() as host:
        rules = [word for name in ('lie', 'meta', 'host', 'ten', 'mine') for word in ('--allow', f'{name}.test:*')]
        lines = python(tool, (*PROXY, *rules), FETCH, f'http://lie.test:{host.port}/', 'http://meta.test/', f'http://host.test:{host.port}/',
                       f'http://ten.test:{host.port}/', f'http://mine.test:{host.port}/')
        assert all('private address' in line for line in lines), lines
        assert not host.seen and len(lines) == 5, lines
        script = 'import socket\nfor n in ("lie.test", "other.test"):\n try: print(socket.gethostbyname(n))\n except OSError as e: print(e.args[0])'
        assert python(tool, (*PROXY, *rules), script) == ['-2', '-2']
        assert python(tool, (*PROXY, *rules, '--allow', '127.0.0.0/8:*'), script) == ['127.0.0.1', '-2']
    none_left(tool)


TUNNEL = '''
import socket, ssl, sys
def hello(name):
    out = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    tls = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    try: tls.do_handshake()
    except ssl.SSLWantReadError: pass
    return out.read()
def tunnel(target, first, pieces=1):
    s = socket.create_connection(('127.0.0.1', 3128), timeout=20)
    s.sendall(b'CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (target, target))
    if not s.recv(4096).startswith(b'HTTP/1.1 200'): return 'refused'
    for i in range(pieces):
        s.sendall(first[i * len(first) // pieces:(i + 1) * len(first) // pieces])
    try: return s.recv(100).decode().strip().split()[0] if pieces == 1 else s.recv(100).decode().strip()[:3]
    except (ConnectionResetError, IndexError): return 'cut'
print(tunnel(b'ok.test:443', hello('ok.test')))
print(tunnel(b'ok.test:443', hello('OK.test')))
print(tunnel(b'ok.test:443', hello('ok.test'), 5))
print(tunnel(b'ok.test:443', hello('other.test')))
print(tunnel(b'ok.test:443', hello(None)))
print(tunnel(b'ok.test:443', b'GET / HTTP/1.1\\r\\n\\r\\n'))
print(tunnel(b'ok.test:443', b'\\x16\\x03\\x01\\x00\\x05\\x01\\x00\\x00\\x01\\x00'))
print(tunnel(b'other.test:443', hello('other.test')))
print(tunnel(b'ok.test', hello('ok.test')))
'''


def test_sni_must_be_the_host(tool):
    lines = python(tool, (*PROXY, '--allow', 'ok.test', '--allow', f'{SERVER}:443'), TUNNEL)
    assert lines == ['got', 'got', 'got', 'cut', 'cut', 'cut', 'cut', 'refused', 'refused'], lines
    none_left(tool)


RAW = '''
import socket, sys
for text in sys.argv[1:]:
    s = socket.create_connection(('127.0.0.1', 3128), timeout=20)
    s.sendall(text.encode().decode('unicode_escape').encode('latin-1'))
    print(s.makefile('rb').readline().decode().strip().split(' ', 1)[1][:3])
'''


def test_requests_that_two_read_differently(tool):
    """Nothing of them reaches a server."""
    target = f'http://{SERVER}:8000/'
    bad = [f'GET {target} HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n', f'GET {target} HTTP/1.1\\r\\nHost: {SERVER}:8000\\r\\nHost: a.test\\r\\n\\r\\n',
           'GET / HTTP/1.1\\r\\nHost: ok.test\\r\\n\\r\\n', f'GET {target} HTTP/1.1\\nHost: {SERVER}:8000\\n\\n', f'GET http://a@{SERVER}:8000/ HTTP/1.1\\r\\n\\r\\n',
           f'POST {target} HTTP/1.1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n', f'POST {target} HTTP/1.1\\r\\nContent-Length: 1\\r\\nContent-Length: 2\\r\\n\\r\\n',
           f'GET {target} HTTP/1.1\\r\\nX: a\\r\\n folded\\r\\n\\r\\n', f'GET {target} HTTP/1.1\\r\\nBad Name: a\\r\\n\\r\\n', f'GET {target}\\x00 HTTP/1.1\\r\\n\\r\\n',
           f'GET  {target} HTTP/1.1\\r\\n\\r\\n', f'GET {target} HTTP/2.0\\r\\n\\r\\n', 'X' * 40000]
    lines = python(tool, (*PROXY, '--allow', f'{SERVER}:8000'), RAW, *bad)
    assert lines == ['400'] * 5 + ['411'] + ['400'] * 6 + ['431'], lines
    good = [f'GET {target} HTTP/1.1\\r\\nHost: {SERVER}:8000\\r\\n\\r\\n', f'POST {target} HTTP/1.1\\r\\nContent-Length: 3\\r\\n\\r\\nabcGET http://x/ HTTP/1.1\\r\\n\\r\\n']
    assert python(tool, (*PROXY, '--allow', f'{SERVER}:8000'), RAW, *good) == ['200', '200']
    none_left(tool)


def test_field_f46(tool):
    """Rules are each sandbox's own, change while it runs, and stay changed; each decision is an event."""
    ids = [tool.good('create', *PROXY, '--allow', rule, '--', 'sleep', '1000').out.split()[-1] for rule in (f'{SERVER}:8000', f'{SERVER}:80')]
    events = None
    try:
        for one in ids:
            tool.good('start', one)
        events = tool.start('--json', 'events', ids[0], stdout=subprocess.PIPE)

        def fetch(one):
            return [line[:5] for line in tool.good('exec', one, '--', '/usr/bin/python3', '-c', FETCH, f'http://{SERVER}:8000/', f'http://{SERVER}/').out.splitlines()]

        assert fetch(ids[1]) == ['403 s', 'hello'] and fetch(ids[0]) == ['hello', '403 s']
        tool.good('network', 'allow', ids[0], f'{SERVER}:80')
        assert fetch(ids[0]) == ['403 s', 'hello']
        tool.good('stop', '--grace', '0', ids[0])
        tool.good('start', ids[0])
        assert fetch(ids[0]) == ['403 s', 'hello']
        assert tool.good('--json', 'inspect', ids[0]).json['network'] == {'allowed': [f'{SERVER}:80'], 'kind': 'proxy', 'name': ''}
        told = []
        while len(told) < 4:
            event = json.loads(events.stdout.readline())
            if event['type'].startswith('network-'):
                told.append((event['type'], event['attributes']['host'], event['attributes']['port']))
        assert told[:4] == [('network-allowed', SERVER, 8000), ('network-denied', SERVER, 80), ('network-denied', SERVER, 8000), ('network-allowed', SERVER, 80)], told
        assert 'only a proxy' not in tool.fails('network', 'allow', ids[0], 'not a host').err
    finally:
        if events:
            events.kill()
            events.wait()
            events.stdout.close()
        tool.good('rm', *ids)
    none_left(tool)


def test_a_network_that_several_are_in(tool):
    tool.good('network', 'create', '--kind', 'proxy', '--dns', f'{SERVER}:53', '--allow', f'{SERVER}:8000', 'team')
    ids = [tool.good('create', '--network', 'team', '--', 'sleep', '1000').out.split()[-1] for _ in range(2)]
    try:
        for one in ids:
            tool.good('start', one)
        assert tool.good('exec', ids[1], '--', '/usr/bin/python3', '-c', FETCH, f'http://{SERVER}:8000/').out == 'hello\n'
        server = tool.start('exec', ids[0], '--', '/usr/bin/python3', '-m', 'http.server', '8080', '--bind', '127.0.0.1', stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
        tool.good('exec', ids[1], '--', '/usr/bin/python3', '-c',
                  'import socket, time\nfor i in range(200):\n try: socket.create_connection(("127.0.0.1", 8080)); break\n except OSError: time.sleep(0.1)\nelse: raise SystemExit(1)')
        tool.good('network', 'allow', 'team')
        assert tool.good('exec', ids[0], '--', '/usr/bin/python3', '-c', FETCH, f'http://{SERVER}:8000/').out.startswith('403')
        assert 'is in the network team' in tool.fails('network', 'rm', 'team').err
        tool.good('rm', ids[0])
        server.wait(30)
        assert tool.good('exec', ids[1], '--', '/usr/bin/python3', '-c', FETCH, f'http://{SERVER}:8000/').out.startswith('403')  # it goes on
    finally:
        tool.good('rm', *tool.ids())
        tool.good('network', 'rm', 'team')
    assert tool.good('--json', 'network', 'ls').json == []
    assert 'there is no network team' in tool.fails('run', '--network', 'team', 'true').err
    none_left(tool)


def test_a_network_is_not_taken_from_under_others(tool):
    """Whoever is on the way into a network is counted, and that its holder or proxy can't be reached is no sign that nobody is there."""
    tool.good('network', 'create', '--kind', 'proxy', '--dns', f'{SERVER}:53', '--allow', f'{SERVER}:8000', 'team')
    folder, create = os.path.join(tool.root, 'networks', 'team'), ('create', '--network', 'team', '--', 'sleep', '1000')

    def make():
        one = tool.good(*create).out.split()[-1]
        tool.good('start', one)
        return one

    def fetch(one):
        return tool.good('exec', one, '--', '/usr/bin/python3', '-c', FETCH, f'http://{SERVER}:8000/').out

    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as joining:
            first = make()
            joining.connect(os.path.join(folder, 's'))
            tool.good('rm', first)
            assert os.path.exists(os.path.join(folder, 'run'))
            second = make()
            assert fetch(second) == 'hello\n'
        if not ROOT:  # who reaches every socket
            os.chmod(os.path.join(folder, 's'), 0)
            os.chmod(os.path.join(folder, 'p'), 0)
            assert 'the network team can\'t be joined' in tool.fails(*create).err
            assert 'can\'t be reached' in tool.fails('network', 'allow', 'team', 'ok.test').err
            os.chmod(os.path.join(folder, 's'), 0o700)
            os.chmod(os.path.join(folder, 'p'), 0o700)
            tool.good('network', 'allow', 'team', f'{SERVER}:8000')
        assert fetch(second) == 'hello\n'
        assert fetch(make()) == 'hello\n'
    finally:
        tool.good('rm', *tool.ids())
        assert not os.path.exists(os.path.join(folder, 'run'))
        tool.good('network', 'rm', 'team')
    none_left(tool)


def test_published_ports(tool):
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        refused = tool('run', '--publish', f'{port}:80', 'true')
        assert refused.status == 125 and f'port {port} of 127.0.0.1 is in use' in refused.err, refused
    for network in (('--network', 'none'), ('--network', 'nat'), PROXY):
        one = tool.good('create', *network, '--publish', '8080', '--', '/usr/bin/python3', '-m', 'http.server', '8080', '--bind', '127.0.0.1').out.split()[-1]
        try:
            for _ in range(2):
                tool.good('start', one)
                (published,) = tool.good('--json', 'inspect', one).json['ports']
                assert published['port'] == 8080
                for attempt in range(100):
                    try:
                        with socket.create_connection(('127.0.0.1', published['local_port']), timeout=20) as s:
                            s.sendall(b'GET / HTTP/1.0\r\n\r\n')
                            if s.recv(100).startswith(b'HTTP/1.0 200'):
                                break
                    except (ConnectionResetError, BrokenPipeError):
                        pass
                    subprocess.run(['sleep', '0.1'], check=True)
                else:
                    raise AssertionError('the published port does not answer')
                tool.good('stop', '--grace', '0', one)
                assert tool.good('--json', 'inspect', one).json['ports'] == []
                try:
                    socket.create_connection(('127.0.0.1', published['local_port']), timeout=5).close()
                    raise AssertionError('it is still listened on')
                except ConnectionRefusedError:
                    pass
        finally:
            tool.good('rm', one)
    none_left(tool)


def test_owner_is_killed(tool):
    """Nothing of a network outlives a caller that was killed, but what the next open takes away."""
    for network in (('--network', 'nat'), PROXY):
        child = tool.start('run', *network, '--', 'sh', '-c', 'echo up; exec sleep 1000', stdout=subprocess.PIPE)
        assert child.stdout.readline() == b'up\n'
        child.kill()
        child.wait()
        child.stdout.close()
        tool.good('reconcile')
        none_left(tool)


def test_a_caller_whose_children_nobody_waits_for(tool):
    """A caller that ignores SIGCHLD has no exit statuses: what sandbox-network did is known all the same."""
    for network in (('--network', 'nat', '--dns', SERVER), (*PROXY, '--allow', f'{SERVER}:80')):
        child = tool.start('run', *network, '--', '/usr/bin/python3', '-c', FETCH, f'http://{SERVER}/', stdout=subprocess.PIPE,
                           preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        assert child.communicate()[0] == b'hello\n'
    none_left(tool)


def test_an_image_whose_resolv_conf_leads_nowhere(tool):
    """As those of systemd-resolved: what the link names is made, inside; one that names itself is refused."""
    for link in ('../run/systemd/resolve/stub-resolv.conf', '/../../run/absolute', 'resolv.conf'):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            for name in ('bin', 'etc', 'run'):
                os.mkdir(os.path.join(folder, name), 0o755)
            shutil.copy('/bin/busybox', os.path.join(folder, 'bin/busybox'))
            os.symlink(link, os.path.join(folder, 'etc/resolv.conf'))
            tool.good('image', 'import', '--name', 'resolved', folder)
        command = ('run', '--image', 'resolved', '--network', 'nat', '--dns', SERVER, '--', '/bin/busybox', 'cat', '/etc/resolv.conf')
        if link == 'resolv.conf':
            assert 'resolv.conf can\'t be made' in tool.fails(*command).err
        else:
            assert tool.good(*command).out == f'nameserver {SERVER}\n'
        tool.good('image', 'rm', 'resolved')
    none_left(tool)


def test_a_number_that_another_has_now(tool):
    """What is taken down twice, since who did it first died then, leaves the network alone that has its number meanwhile."""
    if not ROOT:
        return
    one = tool.good('create', '--network', 'nat', '--', 'sleep', '1000').out.split()[-1]
    with open(os.path.join(tool.root, 'sandboxes', one, 'net', 'run'), encoding='utf-8') as run:
        number = json.load(run)['number']
    claim, link = f'/run/libsandbox/networks/{number}', f'/sys/class/net/sbn{number}'
    with open(claim, 'r+', encoding='utf-8') as file:
        ours = file.read()
        file.seek(0)
        file.write('x' + ours[1:])
        file.flush()
        tool.good('stop', '--grace', '0', one)
        tool.good('rm', one)
        assert subprocess.run(['nft', 'list', 'table', 'inet', f'libsandbox_{number}'], capture_output=True, check=False).returncode == 0
        file.seek(0)
        file.write(ours)
    tool.good('reconcile')
    assert not os.path.exists(link)
    none_left(tool)


def test_field_leaks_of_a_removed_folder(tool):
    """Somebody removed a sandbox's folder by hand: its interfaces, rules and claim are found, and taken away by a reconcile."""
    if not ROOT:
        return
    one = tool.good('create', '--network', 'nat', '--', 'sleep', '1000').out.split()[-1]
    shutil.rmtree(os.path.join(tool.root, 'sandboxes', one))
    found = tool('--json', 'leaks')
    assert found.status == 1 and 'network' in [finding['kind'] for finding in found.json], found
    tool.good('reconcile')
    none_left(tool)


def main():
    if not os.path.exists('/usr/bin/python3'):
        raise SystemExit('there is no python3')
    root = tempfile.mkdtemp(prefix='networks-')
    os.chmod(root, 0o700)
    try:
        tap.main(sys.modules['__main__'], Tool(sys.argv[1], root))
    finally:
        shutil.rmtree(root)


if __name__ == '__main__':
    main()
