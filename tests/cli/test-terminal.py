#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sandbox shell`, `run -it`, `exec -it` and `attach -it` on a terminal, as whoever runs this. Usage: test-terminal.py SANDBOX BUSYBOX

Every test ends with no sandbox left, and with the terminal as it was."""
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import tap
from terminal import Terminal
from tool import Tool


def on_terminal(tool, *arguments, env=None, rows=24, columns=80, control=True):
    return Terminal([tool.program, *arguments], {**tool.environment(env), 'TERM': 'xterm'}, rows, columns, control)


def none_left(tool):
    assert tool.ids() == [], tool.good('ls').out


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'it did not come to that'
        time.sleep(0.05)


def runs(tool, sandbox, what):
    script = f'for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline 2>/dev/null | grep -q "^{what}" && exit 0; done; exit 1'
    return tool('exec', sandbox, 'sh', '-c', script).status == 0


class Box:
    """A sandbox that stays for a test."""
    def __init__(self, tool, *options):
        self.tool = tool
        self.id = tool.good('create', *options).out.strip()
        tool.good('start', self.id)

    def __enter__(self):
        return self.id

    def __exit__(self, *_):
        self.tool.good('rm', self.id)


def test_shell_is_pleasant(tool):
    t = on_terminal(tool, 'shell', '--hostname', 'playground', rows=30, columns=100, env={'LANG': 'de_DE.UTF-8'})
    t.expect(r'@playground:/\S* ?[#$] ')
    t.type('echo "term=$TERM lang=$LANG home=$HOME shell=$SHELL"; tty; stty size; [ -e /proc/self/fd/3 ] || echo none-""more\r')
    seen = t.expect('none-more\r').decode()
    assert re.search(r'term=xterm lang=C.UTF-8 home=/root shell=/bin/bash\r', seen) and '/dev/pts/0' in seen and '30 100' in seen, seen
    t.resize(44, 111)
    until(lambda: (t.type('stty size\r'), t.expect(r'\d+ \d+\r'))[1].strip().endswith(b'44 111'))
    t.type('exit 6\r')
    t.ends(6)
    none_left(tool)


def test_shell_of_the_images_own_user(tool):
    with tempfile.TemporaryDirectory() as folder:
        for name in ('bin', 'etc', 'home/dev', 'proc', 'dev', 'tmp', 'sys'):
            os.makedirs(f'{folder}/root/{name}')
        shutil.copy(tool.busybox, f'{folder}/root/bin/busybox')
        for name in ('sh', 'ash', 'hush', 'cat', 'ls', 'tty', 'id', 'stty'):
            os.symlink('busybox', f'{folder}/root/bin/{name}')
        with open(f'{folder}/root/etc/passwd', 'w', encoding='ascii') as passwd:
            passwd.write('root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n'
                         'dev:x:0:0::/home/dev:/bin/ash\nodd:x:0:0::/home/dev:/no/such/shell\n')
        os.chmod(folder, 0o755)
        tool.good('image', 'import', '--name', 'small', f'{folder}/root')
    for user, shell, home in (('dev', '/bin/ash', '/home/dev'), ('odd', '/bin/sh', '/home/dev'), ('0', '/bin/sh', '/')):
        t = on_terminal(tool, 'shell', '--image', 'small', '--user', user)
        t.type('echo "is=$SHELL home=$HOME"\r')
        t.expect(f'is={shell} home={home}\r')
        t.type('exit\r')
        t.ends(0)
    none_left(tool)
    tool.good('image', 'rm', 'small')


def test_shell_in_one_that_is_there(tool):
    with Box(tool, '--name', 'there') as box:
        t = on_terminal(tool, 'shell', 'there', '--env', 'ONE=two', '--', 'sh')
        t.type('echo "$ONE $(id -u)"; exit 3\r')
        t.expect('two 0\r')
        t.ends(3)
        tool.good('exec', box, 'true')
        t = on_terminal(tool, 'shell', '--name', 'x', 'there')
        t.expect("don't go with one that is there")
        t.ends(125)


def test_shell_with_a_mount_leaves_nothing(tool):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        t = on_terminal(tool, 'shell', '--mount', f'type=overlay,source={folder},target=/work', '--workdir', '/work')
        t.type('touch new && pwd && ls\r')
        t.expect('/work\r\nnew\r.*# ')
        t.type('\x04')
        t.ends(0)
        assert os.listdir(folder) == []
    none_left(tool)


def test_without_a_terminal(tool):
    for arguments in (['shell'], ['run', '-it', 'true'], ['run', '-i', '-t', 'true'], ['run', '--interactive', '--tty', '--', 'true']):
        failed = tool.fails('--json', *arguments)
        assert (failed.error['code'], failed.error['field']) == ('EINVALID', 'stdin'), failed
    # -t alone takes no input, and its output may go anywhere
    result = tool.fails('run', '-t', '--', 'sh', '-c', 'tty; stty size; exit 4', status=4)
    assert result.out == '/dev/pts/0\r\n24 80\r\n', result
    assert tool.fails('--json', 'run', '--keep', '-t', '--detach-keys', 'ctrl', 'true').error['field'] == 'detach-keys'
    assert tool.fails('--json', 'run', '-t', '--detach-keys', 'ctrl-x', 'true').error['field'] == 'detach-keys'
    assert tool.fails('--json', 'run', '-x', 'true').error['field'] == 'options'
    none_left(tool)


def test_status_and_keys(tool):
    with Box(tool) as box:
        t = on_terminal(tool, 'exec', '-it', box, 'bash', '--norc')
        t.expect(r'\$ |# ')
        t.type('sleep 1000\r')
        until(lambda: runs(tool, box, 'sleep 1000'))
        t.type('\x1a')
        t.expect('Stopped')
        t.type('fg\r')
        t.expect('sleep 1000\r')
        time.sleep(0.2)
        t.type('\x03')
        t.type('echo code=$?\r')
        t.expect('code=130\r')
        t.type('cat\r')
        until(lambda: runs(tool, box, 'cat'))
        t.type('abc\r\x04')
        t.expect('abc\r\nabc\r')
        t.type('exit 77\r')
        t.ends(77)
        t = on_terminal(tool, 'exec', '-it', box, 'sh', '-c', 'kill -9 $$')
        t.ends(137)
        t = on_terminal(tool, 'exec', '-it', box, '/no/such')
        t.expect('no such command')
        t.ends(127)
        t = on_terminal(tool, 'exec', '-it', '--timeout', '300ms', box, 'sleep', '100')
        t.ends(124)


def test_the_callers_terminal_stays_outside(tool):
    t = on_terminal(tool, 'run', '--', 'sh', '-c', 'for f in 0 1 2; do readlink /proc/self/fd/$f; done; tty; read x; echo "got $x" >&2; cat; exit 5')
    seen = t.expect('not a tty').decode()
    assert seen.count('pipe:[') == 3 and 'pts' not in seen, seen
    t.type('line\r')
    t.expect('got line\r')
    t.type('more\r\x04')
    t.expect('more\r\nmore\r')
    t.ends(5)
    t = on_terminal(tool, 'run', '--', 'sh', '-c', 'echo ready; exec sleep 100')
    t.expect('ready')
    t.type('\x03')
    t.ends(130)
    none_left(tool)


def test_signals_put_the_terminal_back(tool):
    with Box(tool) as box:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            t = on_terminal(tool, 'exec', '-it', box, 'sleep', '1001')
            until(lambda: runs(tool, box, 'sleep 1001') and not t.modes_restored())
            os.kill(t.pid, number)
            t.ends(128 + number)
        t = on_terminal(tool, 'exec', '-it', box, 'sh', '-c', 'trap "" TERM; while :; do sleep 1002; done')
        until(lambda: runs(tool, box, 'sleep 1002'))
        os.kill(t.pid, signal.SIGTERM)
        time.sleep(0.2)
        os.kill(t.pid, signal.SIGTERM)
        t.ends(137)
        t = on_terminal(tool, 'exec', '-it', box, 'sleep', '1003')
        until(lambda: runs(tool, box, 'sleep 1003') and not t.modes_restored())
        os.kill(t.pid, signal.SIGABRT)  # a crash
        t.ends(-signal.SIGABRT)
        until(lambda: not runs(tool, box, 'sleep 1003'))
        for number in (signal.SIGHUP, signal.SIGKILL):  # nothing is left inside
            t = on_terminal(tool, 'exec', '-it', box, 'sleep', '1004')
            until(lambda: runs(tool, box, 'sleep 1004'))
            os.kill(t.pid, number)
            assert t.wait() == (129 if number == signal.SIGHUP else -number)
            assert t.modes_restored() == (number == signal.SIGHUP)
            t.close()
            until(lambda: not runs(tool, box, 'sleep 1004'))
        t = on_terminal(tool, 'exec', '-it', box, 'sleep', '1005')  # the window is closed
        until(lambda: runs(tool, box, 'sleep 1005'))
        t.close()
        os.waitpid(t.pid, 0)
        until(lambda: not runs(tool, box, 'sleep 1005'))


def test_stop_and_go_on(tool):
    with Box(tool) as box:
        for number in (signal.SIGTSTP, signal.SIGSTOP):
            t = on_terminal(tool, 'exec', '-it', box, 'sh')
            t.type('echo read""y\r')
            t.expect('ready\r')
            os.kill(t.pid, number)
            os.waitpid(t.pid, os.WUNTRACED)
            assert t.modes_restored() == (number == signal.SIGTSTP)
            t.resize(33, 99)
            os.kill(t.pid, signal.SIGCONT)
            until(lambda: not t.modes_restored())
            until(lambda: (t.type('stty size\r'), t.expect(r'\d+ \d+\r'))[1].strip().endswith(b'33 99'))
            t.type('exit\r')
            t.ends(0)


def test_terminal_of_another_session(tool):
    """As under setsid(1): it controls nobody, and is put back all the same."""
    with Box(tool) as box:
        t = on_terminal(tool, 'exec', '-it', box, 'sh', control=False)
        t.type('echo read""y\r')
        t.expect('ready\r')
        assert not t.modes_restored()
        t.type('exit 3\r')
        t.ends(3)


def test_in_the_background(tool):
    """There the terminal's modes are somebody else's, until a shell brings us to the front."""
    with Box(tool) as box, tempfile.TemporaryDirectory() as folder:
        script = (f'set -m; {tool.program} exec -it {box} sh -c "echo sho""ws; exec sh" & until [ -e {folder}/go ]; do sleep 0.1; done; '
                  'fg; echo "le""ft $?"')
        t = Terminal(['/bin/bash', '-c', script], {**tool.environment(), 'TERM': 'xterm'})
        t.expect('shows')
        assert t.modes_restored()
        os.close(os.open(f'{folder}/go', os.O_CREAT, 0o600))
        until(lambda: not t.modes_restored())
        t.type('echo read""y; exit 3\r')
        t.expect('ready\r')
        t.expect('left 3\r')
        t.ends(0)


def test_detach_and_attach(tool):
    with Box(tool) as box:
        t = on_terminal(tool, 'exec', '-it', box, 'sh', '-c', 'echo ready; while read -r x; do sleep 0.3; echo "got <$x>"; [ "$x" = end ] && exit 9; done')
        t.expect('ready\r')
        t.type('a\x10b\r')  # ctrl-p alone passes
        t.expect('got <a\x10b>')
        t.type('meanwhile\r\x10\x11')
        said = t.expect(r'attach -it \S+ [0-9a-f]{64}').decode()
        t.ends(0)
        exec_id = said.split()[-1]
        assert tool.fails('--json', 'exec', '-it', box, 'true').error['field'] == 'stdin'
        t = on_terminal(tool, 'attach', '-it', box, exec_id)
        t.expect('got <meanwhile>')
        second = on_terminal(tool, 'attach', '-it', box, exec_id)
        second.expect('somebody is attached')
        second.ends(125)
        t.type('again\r')
        t.expect('got <again>')
        t.type('\x10\x11')
        t.ends(0)
        t = on_terminal(tool, 'attach', '-it', '--detach-keys', 'ctrl-x,d', box, exec_id)
        t.type('\x10\x11\x18\x18d')
        t.ends(0)
        t = on_terminal(tool, 'attach', '-it', '--detach-keys', '', box, exec_id)
        t.type('\rend\r')
        t.expect('got <end>')
        t.ends(9)
        gone = on_terminal(tool, 'attach', '-it', box, exec_id)
        gone.expect('has ended')
        gone.ends(125)


def test_detach_that_is_refused(tool):
    """Who can't leave stays: the command would be hung up on."""
    with Box(tool) as box:
        for left in range(100):
            t = on_terminal(tool, 'exec', '-it', box, 'sh', '-c', 'echo sho""ws; exec sh')
            t.expect('shows')
            t.type(b'\x10\x11')
            if b'no more' in t.expect('it goes on|no more'):
                break
            t.ends(0)
        assert left == 64
        until(lambda: not t.modes_restored())
        t.type('echo al""ive; exit 5\r')
        t.expect('alive\r')
        t.ends(5)


def test_run_without_keep_has_no_detach_keys(tool):
    t = on_terminal(tool, 'run', '-it', '--', 'sh', '-c', 'stty raw -echo; echo ready; head -c 3 | od -An -tx1; stty sane')
    t.expect('ready')
    t.type('\x10\x11x')
    t.expect('10 11 78')
    t.ends(0)
    none_left(tool)
    t = on_terminal(tool, 'run', '-it', '--keep', '--name', 'kept', '--', 'sh')
    t.expect('# ')
    t.type('echo o""k\r')
    t.expect('ok\r')
    t.type('\x10\x11')
    t.ends(0)
    assert len(tool.ids()) == 1
    tool.good('rm', 'kept')


def test_paste_both_ways(tool):
    data = bytes(range(32, 127)) * 11038  # 1 MiB
    with Box(tool) as box:
        t = on_terminal(tool, 'exec', '-it', '--detach-keys', '', box, 'sh', '-c',
                        'stty raw -echo; printf ready; head -c 1048610 | tee /tmp/pasted; sha256sum </tmp/pasted; stty sane')
        t.expect('ready')
        sent, back = 0, b''
        os.set_blocking(t.outer, False)
        while len(back) < len(data):
            if sent < len(data):
                try:
                    sent += os.write(t.outer, data[sent:sent + 65536])
                except BlockingIOError:
                    pass
            if t.read(0.01):
                back, t.text = back + t.text, b''
        os.set_blocking(t.outer, True)
        t.text = back[len(data):]
        assert back[:len(data)] == data
        t.expect(hashlib.sha256(data).hexdigest())
        t.ends(0)


def test_whole_output_at_the_end(tool):
    with Box(tool) as box:
        out = tool.good('exec', '-t', box, 'sh', '-c', 'stty -opost; seq 200000; printf last').out
        assert out == ''.join(f'{n}\n' for n in range(1, 200001)) + 'last'
        # somebody in the background holds the terminal, and ignores its end
        begun = time.monotonic()
        assert tool.fails('exec', '-t', box, 'sh', '-c', 'trap "" HUP; sleep 60 & echo done; exit 3', status=3).out == 'done\r\n'
        assert time.monotonic() - begun < 30


def test_programs_that_fill_the_screen(tool):
    with Box(tool) as box:
        t = on_terminal(tool, 'exec', '-it', box, 'top', '-d', '60', rows=30, columns=90)
        t.expect(r'PID')
        t.type('q')
        t.ends(0)
        t = on_terminal(tool, 'exec', '-it', box, 'sh', '-c', 'seq 1000 | less', rows=20, columns=90)
        t.expect(r'\b19\b')
        t.type('G')
        t.expect('1000')
        t.type('q')
        t.ends(0)
        t = on_terminal(tool, 'exec', '-it', box, 'script', '-qc', 'tty; stty size', '/dev/null', rows=21, columns=91)
        t.expect('/dev/pts/1\r\n21 91\r')
        t.ends(0)


def test_in_tmux(tool):
    """A terminal that people use: what a person would see on its screen."""
    with Box(tool) as box, tempfile.TemporaryDirectory() as folder:
        def tmux(*arguments):
            return subprocess.run(['tmux', '-S', f'{folder}/socket', '-f', '/dev/null', *arguments], env=tool.environment({'TERM': 'xterm'}),
                                  capture_output=True, text=True, check=True, timeout=60).stdout

        def shows(text):
            return text in tmux('capture-pane', '-p')
        try:
            tmux('new-session', '-d', '-x', '70', '-y', '15', f'{tool.program} exec -it {box} bash --norc; echo status=$?; sleep 600')
            until(lambda: shows('bash-'))
            tmux('send-keys', 'seq 100 | less', 'Enter')
            until(lambda: shows('14\n:'))
            tmux('resize-window', '-x', '60', '-y', '10')
            until(lambda: tmux('capture-pane', '-p').count('\n') == 10 and shows('9\n:'))
            tmux('send-keys', 'q')
            tmux('send-keys', 'stty size; exit 5', 'Enter')
            until(lambda: shows('10 60') and shows('status=5'))
        finally:
            tmux('kill-server')


def test_names_do_no_harm(tool):
    """Control characters of a sandbox's own never reach the terminal in what the tool itself says."""
    with Box(tool) as box:
        evil = '\x1b]0;owned\x07\x1b[2Jx\x9by'
        for arguments in (['exec', box, evil], ['exec', '--user', evil, box, 'true'], ['exec', '--workdir', '/' + evil, box, 'true'],
                          ['run', '--image', evil, 'true'], ['inspect', evil], ['shell', evil], ['attach', box, evil], ['cp', f'{box}:/{evil}', '/tmp'],
                          ['volume', 'inspect', evil], ['image', 'inspect', evil], ['dial', box, evil], [evil], ['run', '--' + evil],
                          ['run', '--detach-keys', evil, '-t', 'true'], ['run', '--mount', evil, 'true'], ['run', '--memory', evil, 'true'],
                          ['run', '--label', evil, 'true'], ['run', '--env', evil, 'true'], ['kill', '--signal', evil, box]):
            result = tool(*arguments, raw=True)
            assert result.status != 0 and not re.search(rb'[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]', result.err + result.out), (arguments, result)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as state:
        the_tool = Tool(os.path.abspath(sys.argv[1]), state)
        the_tool.busybox = sys.argv[2]
        tap.main(sys.modules['__main__'], the_tool)
