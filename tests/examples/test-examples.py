#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every example, and the program that stands in README.md, and looks at what they print.
Usage: test-examples.py SOURCE-FOLDER BUILD-FOLDER COMPILER…"""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'cli'))
import tap  # noqa: E402


class Examples:
    def __init__(self, source, build, compiler, state):
        self.source, self.build, self.compiler, self.state = source, build, compiler, state

    def run(self, name, *arguments):
        done = subprocess.run([os.path.join(self.build, 'examples', name), *arguments], capture_output=True, text=True, timeout=120,
                              check=False)
        return done.returncode, done.stdout, done.stderr

    def left(self):
        tool = os.path.join(self.build, 'tools/sandbox')
        return subprocess.run([tool, '--root', self.state, '--json', 'ls'], capture_output=True, text=True, check=True).stdout.strip()


def test_quickstart(examples):
    status, out, err = examples.run('quickstart', examples.state)
    assert status == 0 and err == '', (status, out, err)
    wanted = (r'sandbox [0-9a-f]{12} made\nstdout: hello, sandbox\nstderr: a warning\nexit code: 3\n'
              r'port 7777 says: echo: is anybody there\?\nsandbox deleted\n')
    assert re.fullmatch(wanted, out), out
    assert examples.left() == '[]'


def test_run_untrusted(examples):
    def untrusted(script):
        status, out, err = examples.run('run-untrusted', '--state', examples.state, script)
        err = ''.join(line for line in err.splitlines(True) if not line.startswith('without limits'))
        return status, out, err
    assert untrusted('echo fine; exit 5') == (5, 'fine\n', '')
    assert untrusted('sleep 100 & sleep 100') == (124, '', 'killed after 2000 ms\n')
    assert untrusted('kill -KILL $$')[0] == 137
    status, out, err = untrusted('head -c 1000000 /dev/zero')
    assert (status, out, err) == (0, '\0' * 65536, 'output cut after 65536 bytes\n'), (status, len(out), err)
    status, out, err = untrusted('echo x >/etc/file || echo x >/tmp/file && cat /tmp/file')
    assert (status, out) == (0, 'x\n'), (status, out, err)
    status, out, err = untrusted('f() { f | f & }; f; sleep 1; echo alive')
    assert status in (0, 2, 124), (status, out, err)  # a fork bomb: it ends at the limit or at the deadline
    assert examples.left() == '[]'


def test_readme_program(examples):
    with open(os.path.join(examples.source, 'README.md'), encoding='utf-8') as file:
        program = re.search(r'^```c\n(.*?)^```$', file.read(), re.S | re.M).group(1)
    assert program.count('"local:"') == 1
    source, binary = os.path.join(examples.state, 'readme.c'), os.path.join(examples.state, 'readme')
    with open(source, 'w', encoding='utf-8') as file:
        file.write(program.replace('"local:"', f'"local:?root={examples.state}"'))
    subprocess.run([*examples.compiler, '-std=c99', '-Wall', '-Wextra', '-Werror', '-I', os.path.join(examples.source, 'libsandbox/include'),
                    source, '-o', binary, '-L', examples.build, '-lsandbox', f'-Wl,-rpath,{examples.build}'], check=True)
    done = subprocess.run([binary], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and 'uid=0' in done.stdout and 'exit code 0' in done.stdout, done
    assert examples.left() == '[]'
    os.unlink(source)
    os.unlink(binary)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as folder:
        tap.main(sys.modules['__main__'], Examples(sys.argv[1], sys.argv[2], sys.argv[3:], folder))
