#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sandbox` with real sandboxes, as whoever runs this. Usage: test-sandboxes.py SANDBOX [BUSYBOX]

Every test ends with no sandbox left."""
import errno
import hashlib
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

sys.dont_write_bytecode = True
import tap
from tool import Tool

ROOT = os.geteuid() == 0
SERVER = ('use IO::Socket::INET; $| = 1; $l = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1", LocalPort => 7000) or die $!;'
          'while ($c = $l->accept) { $all = ""; while (<$c>) { $all .= $_ } print $c "got " . length($all) . "\\n$all"; close $c }')


# sends 8 MiB and its end, then listens to the peer's end
FIRST = ('use IO::Socket::INET; $| = 1; $l = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1", LocalPort => 7000) or die $!;'
         'while ($c = $l->accept) { print $c "x" x (8 << 20); shutdown($c, 1); $n = 0; while (($r = sysread($c, $b, 65536)) > 0) { $n += $r }'
         ' print "heard $n\\n"; close $c }')


def none_left(tool):
    assert tool.ids() == [], tool.good('ls').out


def until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'it did not come to that'
        time.sleep(0.02)


def test_run_passes_the_status_on(tool):
    tool.good('run', '--', 'true')
    tool.fails('run', 'false', status=1)
    tool.fails('run', '--', 'sh', '-c', 'exit 77', status=77)
    tool.fails('run', '--', 'sh', '-c', 'kill -9 $$', status=137)
    tool.fails('run', '--', 'sh', '-c', 'kill -TERM $$', status=143)
    none_left(tool)


def test_run_streams_are_apart(tool):
    result = tool.good('run', '--', 'sh', '-c', 'echo out; echo err >&2')
    assert (result.out, result.err) == ('out\n', 'err\n'), result


def test_run_stdin_ends(tool):
    assert tool.good('run', 'cat', stdin=b'').out == ''
    assert tool.good('run', 'cat', stdin=b'hello').out == 'hello'
    data = os.urandom(4 << 20)
    result = tool.good('run', 'cat', stdin=data, raw=True)
    assert hashlib.sha256(result.out).digest() == hashlib.sha256(data).digest()


def test_run_profiles(tool):
    profile = os.path.join(tool.root, 'profile.json')
    with open(profile, 'w', encoding='utf-8') as file:
        file.write('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["sync"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95}]}')
    result = tool('run', '--seccomp', profile, '--', 'sh', '-c', 'sync || true; grep Seccomp: /proc/self/status')
    assert result.status == 0 and result.out == 'Seccomp:\t2\n', result
    tool.good('run', '--seccomp', 'strict', 'true')
    with open(profile, 'w', encoding='utf-8') as file:
        file.write('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["sync"], "action": "SCMP_ACT_WISH"}]}')
    assert 'syscalls[0].action' in tool.fails('run', '--seccomp', profile, 'true').err
    assert 'strict, default, devel' in tool.fails('run', '--seccomp', 'lax', 'true').err


def test_run_is_isolated(tool):
    """Its own pids, network, hosts's secrets out of reach."""
    canary = os.path.join(tool.root, 'canary')
    with open(canary, 'w', encoding='utf-8') as file:
        file.write('secret')
    script = ('ls -d /proc/[0-9]* | wc -l; cat /proc/net/dev | grep -c :; cat /etc/shadow "$0" /root/.bashrc 2>/dev/null; '
              'ls -A /root /home /run /var/lib 2>/dev/null | grep -v ":$" | grep -c .; ls -l /proc/self/fd | grep -c " -> "; '
              'grep -E "^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):" /proc/self/status')
    lines = tool('run', '--', 'sh', '-c', script, canary).out.split('\n')
    assert int(lines[0]) < 10, lines
    assert lines[1] == '1', lines
    assert lines[2] == '0', lines
    assert lines[3] in ('3', '4'), lines  # ls has the folder itself open
    status = dict(line.split(':\t') for line in lines[4:] if line)
    assert all(int(status[f'Cap{which}'], 16) == 0 for which in ('Inh', 'Prm', 'Eff', 'Bnd', 'Amb')), status
    assert status['NoNewPrivs'] == '1' and status['Seccomp'] == '2', status
    os.unlink(canary)


def test_run_not_found_and_not_executable(tool):
    result = tool.fails('--json', 'run', '--', 'no-such-command', status=127)
    assert result.error['code'] == 'ENOTFOUND' and result.error['field'] == 'argv', result
    tool.fails('run', '--', '/no/such/command', status=127)
    tool.fails('run', '--', '/etc/passwd', status=126)
    tool.fails('run', '--', '/usr', status=126)
    tool.fails('run', '--workdir', '/no/such/folder', '--', 'true', status=125)
    none_left(tool)


def test_run_timeout(tool):
    result = tool.fails('run', '--timeout', '300ms', '--', 'sh', '-c', 'setsid sleep 50 & sleep 60', status=124)
    assert 0.3 <= result.seconds < 5 and 'timeout' in result.err, result
    none_left(tool)
    tool.good('run', '--timeout', '1m', '--', 'true')


def test_run_environment(tool):
    result = tool.good('run', '--env', 'A=1=2', '--env', 'B=', '--env', 'FROM_HERE', '--', 'sh', '-c', 'echo "$A|$B|$FROM_HERE|$SECRET"',
                       env={'FROM_HERE': 'here', 'SECRET': 'x'})
    assert result.out == '1=2||here|\n', result


def test_run_workdir_hostname_user(tool):
    assert tool.good('run', '--workdir', '/usr', 'pwd').out == '/usr\n'
    assert tool.good('run', '--hostname', 'box', 'cat', '/proc/sys/kernel/hostname').out == 'box\n'
    assert tool.good('run', '--', 'sh', '-c', 'id -u; id -g').out == '0\n0\n'
    if ROOT:
        assert tool.good('run', '--user', '1500:1600', '--', 'sh', '-c', 'id -u; id -g; id -G').out == '1500\n1600\n1600\n'


def test_run_pids(tool):
    script = 'i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done 2>/dev/null; echo all'
    result = tool('run', '--pids', '16', '--timeout', '20s', '--', 'sh', '-c', script)
    assert 'all' not in result.out and result.status != 0, result
    none_left(tool)


def test_run_memory_and_cpus(tool):
    """Enforced, or refused: never accepted and ignored."""
    script = 'head -c 200000000 /dev/zero | tail; echo survived'
    result = tool('--json', 'run', '--memory', '32M', '--cpus', '0.5', '--timeout', '30s', '--', 'sh', '-c', script)
    if result.status == 125:
        assert not ROOT and 'SBTEST_SCOPES' not in os.environ and result.error['code'] == 'EUNSUPPORTED' and 'limit' in result.error['message'], result
        assert tool.ids() == []
    else:
        assert 'survived' not in result.out or 'Killed' in result.err, result
    none_left(tool)


def test_run_read_only(tool):
    tool.good('run', '--', 'sh', '-c', 'echo x >/file && cat /file')
    tool.fails('run', '--read-only', '--', 'sh', '-c', 'echo x >/file', status=2)


def test_run_keep(tool):
    result = tool.good('run', '--keep', '--name', 'kept', '--', 'sh', '-c', 'echo data >/tmp/file')
    identity = re.search(r'kept ([0-9a-f]{64})', result.err).group(1)
    assert tool.ids() == [identity]
    assert tool.good('exec', 'kept', '--', 'cat', '/tmp/file').out == 'data\n'
    tool.good('rm', 'kept')
    none_left(tool)


def test_signals_are_forwarded(tool):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        child = tool.start('run', '--', 'sh', '-c', 'trap "echo caught; exit 42" INT TERM HUP; echo ready; while :; do sleep 0.05; done',
                           stdout=subprocess.PIPE)
        assert child.stdout.readline() == b'ready\n'
        child.send_signal(number)
        out = child.communicate(timeout=20)[0]
        assert (child.returncode, out) == (42, b'caught\n'), (number, child.returncode, out)
    none_left(tool)


def test_second_signal_kills(tool):
    child = tool.start('run', '--', 'sh', '-c', 'trap "echo caught" INT; echo ready; while :; do sleep 0.05; done',
                       stdout=subprocess.PIPE)
    assert child.stdout.readline() == b'ready\n'
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == b'caught\n'
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=20)
    assert child.returncode == 137, child.returncode
    none_left(tool)


def test_nohup_is_respected(tool):
    child = tool.start('run', '--', 'sh', '-c', 'echo ready; sleep 0.5; echo done', stdout=subprocess.PIPE,
                       preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert child.stdout.readline() == b'ready\n'
    child.send_signal(signal.SIGHUP)
    assert child.communicate(timeout=20)[0] == b'done\n' and child.returncode == 0, child.returncode
    none_left(tool)


def test_killed_tool_takes_its_sandbox_along(tool):
    child = tool.start('run', '--name', 'orphan', '--', 'sh', '-c', 'echo ready; sleep 1000', stdout=subprocess.PIPE)
    assert child.stdout.readline() == b'ready\n'
    child.kill()
    child.wait()
    assert child.stdout.read() == b''  # the end of the pipe: nobody inside lives that could write to it
    states = [entry['state'] for entry in tool.good('--json', 'ls').json if entry['name'] == 'orphan']
    assert states in ([], ['stopped']), states
    if states:
        tool.good('rm', 'orphan')
    none_left(tool)


def test_life_of_a_sandbox(tool):
    identity = tool.good('create', '--name', 'web', '--label', 'k=v', '--env', 'E=1', '--', 'sleep', '1000').out.strip()
    assert re.fullmatch('[0-9a-f]{64}', identity)
    entry = tool.good('--json', 'inspect', 'web').json
    assert (entry['id'], entry['name'], entry['state'], entry['labels']) == (identity, 'web', 'created', {'k': 'v'}), entry
    result = tool.fails('--json', 'exec', 'web', 'true')
    assert result.error['code'] == 'ENOTRUNNING', result
    tool.good('start', identity[:8])
    tool.good('start', 'web')  # starting a running one is success
    assert tool.good('--json', 'inspect', identity).json['state'] == 'running'
    assert tool.good('exec', '--env', 'F=2', 'web', '--', 'sh', '-c', 'echo $E$F').out == '12\n'
    text = tool.good('inspect', 'web').out
    assert text.startswith(f'id: {identity}\n') and '\nstate: running\n' in text, text
    tool.good('stop', '--grace', '100ms', 'web')
    assert tool.good('--json', 'ls').json[0]['state'] == 'stopped'
    tool.fails('exec', 'web', 'true')
    assert tool.good('--json', 'rm', 'web').json == {'ids': [identity]}
    assert tool.fails('--json', 'inspect', identity).error['code'] == 'ENOTFOUND'
    none_left(tool)


def test_kill_signals_the_daemon(tool):
    tool.good('create', '--name', 'd', '--', 'sh', '-c', 'trap "exit 9" USR1; while :; do sleep 0.05; done')
    tool.good('start', 'd')
    until(lambda: 'sleep' in tool.good('exec', 'd', '--', 'sh', '-c', 'cat /proc/[0-9]*/comm 2>/dev/null; true').out)
    tool.good('kill', '--signal', 'usr1', 'd')

    def daemon():
        return tool.good('--json', 'inspect', 'd').json['daemon']
    until(lambda: daemon()['state'] == 'exited')
    assert daemon()['code'] == 9, daemon()
    tool.good('rm', 'd')
    none_left(tool)


def test_leaks_and_reconcile(tool):
    tool.good('ls')
    assert tool.good('--json', 'leaks').json == []
    assert tool.good('leaks').out == 'nothing was left\n'
    os.symlink('0' * 64, os.path.join(tool.root, 'names', 'lost'))
    found = tool('--json', 'leaks')
    assert found.status == 1 and [(f['kind'], f['name'], f['action']) for f in found.json] == [('name', 'lost', 'found')], found
    assert 'lost' in tool.good('reconcile', '--dry-run').out
    assert tool.good('--json', 'reconcile').json[0]['action'] == 'removed'
    assert tool.good('--json', 'reconcile').json == []


def test_create_is_repeatable(tool):
    first = tool.good('create', '--idempotency-key', 'job:1', '--label', 'a=b').out.strip()
    assert tool.good('create', '--idempotency-key', 'job:1', '--label', 'a=b').out.strip() == first
    refused = tool.fails('--json', 'create', '--idempotency-key', 'job:1').error
    assert (refused['code'], refused['field']) == ('EEXISTS', 'idempotency_key')
    assert tool.fails('--json', 'create', '--idempotency-key', 'no key').error['field'] == 'idempotency_key'
    tool.good('rm', first)
    second = tool.good('create', '--idempotency-key', 'job:1').out.strip()
    assert second != first
    tool.good('rm', second)


def test_names_of_sandboxes(tool):
    identity = tool.good('create', '--name', 'one').out.strip()
    other = tool.good('create', '--name', identity[:6]).out.strip()  # a name that begins another's id
    assert tool.fails('--json', 'inspect', identity[:6]).error['message'].count('could mean 2') == 1
    assert tool.fails('--json', 'inspect', identity[:3]).error['code'] == 'ENOTFOUND'
    assert tool.good('--json', 'inspect', identity[:7]).json['id'] == identity
    assert tool.fails('--json', 'create', '--name', 'one').error['code'] == 'EEXISTS'
    tool.fails('rm', 'absent', 'one')  # one that fails keeps no other from it
    assert tool.ids() == [other]
    tool.good('rm', other)
    none_left(tool)


def test_ls(tool):
    assert tool.good('ls').out == 'ID   NAME   STATE   IMAGE   CREATED\n'
    ids = [tool.good('create', '--name', f'n{i}', '--label', f'i={i}', '--label', 'all=yes').out.strip() for i in range(3)]
    lines = tool.good('ls').out.rstrip('\n').split('\n')
    assert len(lines) == 4 and len({line.index(word) for line, word in zip(lines, ['STATE'] + ['created'] * 3)}) == 1, lines
    assert {line.split()[0] for line in lines[1:]} == {identity[:12] for identity in ids}, lines
    assert [e['id'] for e in tool.good('--json', 'ls', '--label', 'i=1').json] == [ids[1]]
    assert len(tool.good('--json', 'ls', '--label', 'all').json) == 3
    assert [e['id'] for e in tool.good('--json', 'ls', '--name', 'n2').json] == [ids[2]]
    assert tool.good('--json', 'ls', '--label', 'all=no').json == []
    tool.good('rm', *ids)
    none_left(tool)


def dial(tool, data):
    return tool('dial', 'server', '7000', stdin=data, raw=True)


def test_dial(tool):
    tool.good('create', '--name', 'server', '--', 'perl', '-e', SERVER)
    tool.good('start', 'server')
    until(lambda: dial(tool, b'').status == 0)
    result = dial(tool, b'ping')
    assert result.out == b'got 4\nping', result
    data = os.urandom(3 << 20)
    result = dial(tool, data)
    head, _, body = result.out.partition(b'\n')
    assert head == b'got %d' % len(data) and body == data
    # the server's end comes first, with stdin still open: its output is whole, and what stdin brings later is still sent
    tool.good('create', '--name', 'first', '--', 'perl', '-e', FIRST)
    tool.good('start', 'first')
    until(lambda: tool('dial', 'first', '7000').status == 0)
    child = tool.start('dial', 'first', '7000', stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.read() == b'x' * (8 << 20)
    child.stdin.write(b'y' * 100000)
    child.stdin.close()
    assert child.wait(30) == 0
    child.stdout.close()
    until(lambda: 'heard 100000\n' in tool('logs', 'first').out)
    tool.good('rm', 'first')
    error = tool.fails('--json', 'dial', 'server', '7001').error
    assert error['code'] == 'EIO' and error['retryable'] is True, error
    tool.good('rm', 'server')
    none_left(tool)


def connect(port):
    with socket.create_connection(('127.0.0.1', port), timeout=30) as connection:
        connection.sendall(b'ping')
        connection.shutdown(socket.SHUT_WR)
        return b''.join(iter(lambda: connection.recv(65536), b''))


def test_forward(tool):
    tool.good('create', '--name', 'server', '--', 'perl', '-e', SERVER)
    tool.good('start', 'server')
    until(lambda: dial(tool, b'').status == 0)
    child = tool.start('forward', 'server', '7000', stdout=subprocess.PIPE, text=True)
    address, port = child.stdout.readline().strip().split(':')
    assert address == '127.0.0.1' and connect(int(port)) == b'got 4\nping'
    error = tool.fails('--json', 'forward', 'server', '7000', port).error
    assert error['code'] == 'EBUSY' and error['field'] == 'local_port' and error['errno'] == errno.EADDRINUSE, error
    # it stays when the sandbox stops, and serves again
    tool.good('stop', '--grace', '0', 'server')
    tool.good('start', 'server')
    until(lambda: dial(tool, b'').status == 0)
    assert connect(int(port)) == b'got 4\nping'
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 128 + signal.SIGINT and child.stdout.read() == ''
    child.stdout.close()
    child = tool.start('--json', 'forward', 'server', '7000', port, stdout=subprocess.PIPE, text=True)
    assert json.loads(child.stdout.readline()) == {'address': '127.0.0.1', 'port': int(port)}
    tool.good('rm', 'server')
    assert child.wait(30) == 125  # nothing is left that it could lead to
    child.stdout.close()
    none_left(tool)


def test_events(tool):
    other = tool.good('create', '--label', 'watched=no').out.strip()
    child = tool.start('--json', 'events', '--label', 'watched=yes', stdout=subprocess.PIPE, text=True)
    # it says nothing when it begins: that it watches shows by the first event
    probe = until_event(tool, child)
    identity = tool.good('create', '--label', 'watched=yes', '--name', 'web').out.strip()
    tool.good('start', 'web', other)
    tool('exec', 'web', '--', 'false')
    plain = tool.start('events', '--until-gone', 'web', stdout=subprocess.PIPE, text=True)
    time.sleep(0.3)
    tool.good('rm', 'web', other)
    wanted = ['created', 'started', 'exec-started', 'exec-exited', 'stopped', 'deleted']
    got = [json.loads(child.stdout.readline()) for _ in wanted]
    assert [e['type'] for e in got] == wanted and {e['id'] for e in got} == {identity} and {e['name'] for e in got} == {'web'}, got
    assert got[3]['attributes']['code'] == 1 and got[3]['attributes']['exec'] == got[2]['attributes']['exec'] != '', got
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == 128 + signal.SIGTERM and child.stdout.read() == ''
    child.stdout.close()
    assert plain.wait(30) == 0
    lines = plain.stdout.read().split('\n')
    assert re.fullmatch(r'\d{4}-\d\d-\d\dT[\d:.]+Z deleted +' + identity[:12] + ' web', lines[-2]), lines
    plain.stdout.close()
    assert probe != identity
    none_left(tool)


def until_event(tool, child):
    """Makes watched sandboxes until the watcher tells of one from its beginning to its end; its id."""
    for _ in range(200):
        identity = tool.good('create', '--label', 'watched=yes').out.strip()
        ready, _, _ = select.select([child.stdout], [], [], 0.2)
        tool.good('rm', identity)
        while ready:
            event = json.loads(child.stdout.readline())
            if event['type'] == 'deleted':
                return event['id']
    raise AssertionError('no event came')


def test_volumes(tool):
    tool.good('volume', 'create', '--any-fs', 'store')
    assert tool.fails('--json', 'volume', 'create', '--any-fs', 'store').error['code'] == 'EEXISTS'
    mount = ('--mount', 'type=volume,source=store,target=/store')
    tool.good('run', *mount, '--', 'sh', '-c', 'echo kept >/store/file')
    assert tool.good('run', *mount, 'cat', '/store/file').out == 'kept\n'
    tool.fails('run', '--mount', 'type=volume,source=store,target=/store,ro', '--', 'sh', '-c', 'echo x >/store/file', status=2)
    entry, = tool.good('--json', 'volume', 'ls').json
    assert entry['name'] == 'store' and os.path.isdir(entry['path']), entry
    assert 'store' in tool.good('volume', 'ls').out
    tool.good('volume', 'rm', 'store')
    assert tool.good('--json', 'volume', 'ls').json == [] and not os.path.exists(entry['path'])
    assert tool.fails('--json', 'volume', 'rm', 'store').error['code'] == 'ENOTFOUND'


def test_mounts(tool):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with open(os.path.join(folder, 'file'), 'w', encoding='utf-8') as file:
            file.write('from the host\n')
        assert tool.good('run', '--mount', f'type=bind,source={folder},target=/mnt/here,ro', 'cat', '/mnt/here/file').out == 'from the host\n'
        tool.fails('run', '--mount', f'type=bind,source={folder},target=/mnt/here,ro', '--', 'sh', '-c', 'echo x >/mnt/here/file', status=2)
        relative = os.path.relpath(folder)
        assert tool.good('run', '--mount', f'type=bind,source={relative},target=/b,ro', 'ls', '/b').out == 'file\n'
    out = tool.good('run', '--mount', 'type=tmpfs,target=/scratch,size=1M', '--', 'sh', '-c',
                    'head -c 4000000 /dev/zero >/scratch/a 2>/dev/null; wc -c </scratch/a').out
    assert 0 < int(out) <= 1 << 20, out
    none_left(tool)


def image_folder(tool, folder):
    for name in ('bin', 'etc', 'tmp', 'proc', 'dev'):
        os.mkdir(os.path.join(folder, name))
    shutil.copy(tool.busybox, os.path.join(folder, 'bin/busybox'))
    os.chmod(os.path.join(folder, 'bin/busybox'), 0o755)
    for name in ('sh', 'cat', 'echo', 'id', 'ls'):
        os.symlink('busybox', os.path.join(folder, 'bin', name))
    with open(os.path.join(folder, 'etc/passwd'), 'w', encoding='utf-8') as file:
        file.write('root:x:0:0::/:/bin/sh\n')
    with open(os.path.join(folder, 'marker'), 'w', encoding='utf-8') as file:
        file.write('of the image\n')


def test_images(tool):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        image_folder(tool, folder)
        digest = tool.good('image', 'import', '--name', 'box', folder).out.strip()
        assert re.fullmatch('sha256:[0-9a-f]{64}', digest), digest
        assert tool.good('image', 'import', '--name', 'box', folder).out.strip() == digest
        tar = os.path.join(tool.root, 'box.tar')
        subprocess.run(['tar', '-C', folder, '-cf', tar, '.'], check=True)
    assert tool.good('run', '--image', 'box', 'cat', '/marker').out == 'of the image\n'
    assert tool.good('run', '--image', digest, 'cat', '/marker').out == 'of the image\n'
    tool.good('image', 'import', '--name', 'fromtar', '--format', 'tar', tar)
    os.unlink(tar)
    assert tool.good('run', '--image', 'fromtar', '/bin/sh', '-c', 'cat /marker; ls /').out.startswith('of the image\nbin\n')
    assert 'box' in tool.good('image', 'ls').out
    assert digest in [entry['digest'] for entry in tool.good('--json', 'image', 'ls').json]
    assert tool.good('--json', 'image', 'inspect', 'box').json['digest'] == digest
    assert f'digest: {digest}\n' in tool.good('image', 'inspect', 'box').out
    tool.good('create', '--name', 'user', '--image', 'box')
    assert tool.fails('--json', 'image', 'rm', 'box').error['code'] == 'EBUSY'
    tool.good('rm', 'user')
    tool.good('image', 'rm', 'box', 'fromtar')
    assert tool.fails('--json', 'run', '--image', 'box', 'true').error['code'] == 'ENOTFOUND'
    none_left(tool)


def large_tar(path, entries):
    with tarfile.open(path, 'w') as tar:
        for i in range(entries):
            entry = tarfile.TarInfo(f'usr/{i % 100}/file-{i}')
            entry.size = 5
            tar.addfile(entry, io.BytesIO(b'bytes'))


def test_import_shows_progress_and_is_cancelled(tool):
    tar = os.path.join(tool.root, 'large.tar')
    large_tar(tar, 15000)
    master, terminal = pty.openpty()
    child = tool.start('image', 'import', '--name', 'large', tar, stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    seen = b''
    while b'image import: ' not in seen:
        assert select.select([master], [], [], 20)[0], (seen, child.poll())
        seen += os.read(master, 4096)
    assert child.poll() is None and seen.startswith(b'\r'), seen
    child.send_signal(signal.SIGINT)
    out = child.communicate(timeout=20)[0]
    os.close(master)
    assert (child.returncode, out) == (130, b''), (child.returncode, out)
    assert 'large' not in tool.good('image', 'ls').out
    result = tool.good('image', 'import', '--name', 'large', tar)
    assert result.err == '', result  # no progress where there is no terminal
    assert tool.good('run', '--image', 'large', '--mount', f'type=bind,source={tool.busybox},target=/bin/sh,ro', '/bin/sh', '-c',
                     'cat /usr/7/file-14907').out == 'bytes'
    tool.good('image', 'rm', 'large')
    os.unlink(tar)


def test_image_that_is_none(tool):
    assert tool.fails('--json', 'image', 'import', '/no/such/file').error['code'] == 'ENOTFOUND'
    with tempfile.NamedTemporaryFile() as file:
        file.write(b'neither a tar nor a folder' * 1000)
        file.flush()
        assert tool.fails('--json', 'image', 'import', file.name).error['code'] in ('EINVALID', 'EDAMAGED')


def on_terminal(tool, arguments, last, prompt=None):
    """Run on a terminal until `last` is seen; at `prompt` something is typed."""
    pid, master = pty.fork()
    if pid == 0:
        os.execve(tool.program, [tool.program, *arguments], tool.environment())
    seen = b''
    while last not in seen:
        assert select.select([master], [], [], 20)[0], seen
        seen += os.read(master, 4096)
        if prompt and prompt in seen:
            os.write(master, b'typed\n')
            prompt = None
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(master)


def test_terminal(tool):
    """With -it the command has a terminal, its own; without it none, whatever the caller has."""
    on_terminal(tool, ['run', '--', 'sh', '-c', 'test -t 0 || test -t 1 || echo none'], b'none')
    script = 'test -t 0 && test -t 1 && echo terminal; read line; echo "[$line]"'
    on_terminal(tool, ['run', '-it', '--', 'sh', '-c', script], b'[typed]', b'terminal')
    none_left(tool)


def test_parallel_runs(tool):
    children = [tool.start('run', '--', 'sh', '-c', f'echo {i}', stdout=subprocess.PIPE) for i in range(12)]
    outs = [(child.communicate(timeout=60)[0], child.returncode) for child in children]
    assert outs == [(b'%d\n' % i, 0) for i in range(12)], outs
    none_left(tool)


def test_root_option_and_environment(tool):
    """--root wins over SANDBOX_ROOT; --host names the backend."""
    with tempfile.TemporaryDirectory() as folder:
        tool.good('--root', folder, 'create', '--name', 'elsewhere')
        assert tool.ids() == []
        assert len(tool.good('--root', folder, '--json', 'ls').json) == 1
        assert len(tool.good('--json', '--host', f'local:?root={folder}', 'ls', env={'SANDBOX_ROOT': ''}).json) == 1
        assert len(tool.good('--json', 'ls', env={'SANDBOX_HOST': f'local:?root={folder}', 'SANDBOX_ROOT': ''}).json) == 1
        tool.good('--root', folder, 'rm', 'elsewhere')
    assert tool.fails('--json', '--host', 'nowhere:', 'ls').error['code'] == 'EUNSUPPORTED'


def test_documents_are_json(tool):
    identity = tool.good('--json', 'create').json['id']
    assert json.loads(tool.good('--json', 'inspect', identity).out)['spec'] is not None
    assert tool.good('--json', 'start', identity).json == {'ids': [identity]}
    assert tool.good('--json', 'rm', identity).json == {'ids': [identity]}


def test_logs_wait_attach(tool):
    tool.good('create', '--name', 'talker', '--log-max', '1M', '--', 'sh', '-c',
              'echo one; sleep .1; printf "\\377two" >&2; sleep .1; echo three; exit 4')
    tool.fails('wait', 'talker')
    tool.good('start', 'talker')
    follow = tool.good('logs', '-f', 'talker', raw=True)
    assert (follow.out, follow.err) == (b'one\nthree\n', b'\xfftwo'), follow
    assert tool.good('wait', 'talker').out == '4\n'
    assert tool.good('--json', 'wait', 'talker').json == {'code': 4}
    assert tool.good('wait', '--log', 'three', '--timeout', '10', 'talker').out == ''
    assert 'three' in tool.fails('wait', '--log', 'four', '--timeout', '10', 'talker').err
    assert tool.good('logs', '--stdout', '--tail', '1', 'talker').out == 'three\n'
    assert tool.good('logs', '--stdout', '--since', '1h', 'talker').out == 'one\nthree\n'
    assert tool.good('logs', '--stdout', '--until', '2026-01-01T00:00:00Z', 'talker').out == ''
    stamped = tool.good('logs', '--stdout', '--timestamps', 'talker').out.splitlines()
    assert [re.sub(r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ', '', line) for line in stamped] == ['one', 'three'], stamped
    lines = [json.loads(line) for line in tool.good('--json', 'logs', 'talker').out.splitlines()]
    assert [line['kind'] for line in lines] == ['started', 'output', 'output', 'output', 'ended'], lines
    assert lines[2]['data'] == {'base64': '/3R3bw=='} and lines[2]['stream'] == 'stderr' and lines[2]['position'] == 4, lines[2]
    assert lines[4]['code'] == 4
    silent = tool.good('exec', '--detach', 'talker', 'sh', '-c', 'sleep .2; exit 6').out.strip()
    kept = tool.good('exec', '--detach', '--journal', '64K', 'talker', 'sh', '-c', 'echo out; echo err >&2; exit 7').out.strip()
    assert re.fullmatch('[0-9a-f]{64}', silent)
    tool.fails('attach', 'talker', silent, status=6)
    attached = tool.fails('attach', 'talker', kept, status=7)
    assert (attached.out, attached.err) == ('out\n', 'err\n')
    tool.fails('exec', '--journal', '64K', 'talker', 'true')
    tool.good('stop', 'talker')
    tool.fails('attach', 'talker', silent, status=6)
    assert tool.fails('attach', 'talker', kept, status=7).out == 'out\n'
    assert tool.fails('--json', 'attach', 'talker', '0' * 64).error['code'] == 'ENOTFOUND'
    assert tool.fails('--json', 'attach', 'talker', '1' * 64).error['code'] == 'ENOTFOUND'
    tool.good('rm', 'talker')


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as state:
        the_tool = Tool(os.path.abspath(sys.argv[1]), state)
        the_tool.busybox = sys.argv[2] if len(sys.argv) > 2 else '/bin/busybox'
        tap.main(sys.modules['__main__'], the_tool)
