#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A workspace on an overlay mount, and a database in a volume, beside the same on the machine itself.

mounts.py --build BUILD [--smoke] [--rounds N]    one line a task: native, inside, their ratio

What runs inside is started in a sandbox that runs already and times itself, as it does on the machine: what is compared is the file
system. Rounds of both alternate, and the best of each counts, so that a busy moment of the machine falls on neither alone.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

TASKS = r'''
import json, os, sqlite3, subprocess, sys, time
os.environ.update(HOME='/tmp', GIT_CONFIG_COUNT='3', GIT_CONFIG_KEY_0='safe.directory', GIT_CONFIG_VALUE_0='*', GIT_CONFIG_KEY_1='user.name',
                  GIT_CONFIG_VALUE_1='b', GIT_CONFIG_KEY_2='user.email', GIT_CONFIG_VALUE_2='b@example.org')
work, store, tag, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
def run(*argv):
    begin = time.perf_counter()
    subprocess.run(argv, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - begin
def commit():
    with open(os.path.join(work, 'new-' + tag), 'w') as f:
        f.write(tag)
    return run('git', 'add', '-A') + run('git', 'commit', '-qm', tag)
def wal():
    path = os.path.join(store, 'db-' + tag)
    c = sqlite3.connect(path, isolation_level=None)
    c.execute('pragma journal_mode=wal')
    c.execute('create table t(x)')
    begin = time.perf_counter()
    for i in range(count):
        c.execute('insert into t values (?)', (i,))
    took = time.perf_counter() - begin
    c.close()
    return took
def compiled():
    subprocess.run('find . -name __pycache__ -prune -exec rm -rf {} +', shell=True, cwd=work, check=False)
    return run(sys.executable, '-m', 'compileall', '-q', 'source')
print(json.dumps({'git status': min(run('git', 'status') for _ in range(3)), 'grep -r': min(run('grep', '-r', 'nowhere-to-be-found', '.') for _ in range(3)),
                  'python -m compileall': compiled(), 'git add + commit': commit(), 'SQLite WAL in a volume': wal()}))
'''


def check(*argv, **kwargs):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, **kwargs).stdout


def make_project(folder, files):
    os.makedirs(os.path.join(folder, 'source'))
    for i in range(files):
        with open(os.path.join(folder, 'source', f'part{i}.py'), 'w', encoding='ascii') as f:
            f.write(''.join(f'def f{n}(a, b={n}):\n    return [a + b + {i} for _ in range({n})]\n\n' for n in range(40)))
    env = {**os.environ, 'GIT_AUTHOR_NAME': 'b', 'GIT_AUTHOR_EMAIL': 'b@example.org', 'GIT_COMMITTER_NAME': 'b', 'GIT_COMMITTER_EMAIL': 'b@example.org'}
    for argv in (('git', 'init', '-q'), ('git', 'add', '-A'), ('git', 'commit', '-qm', 'begin')):
        check(*argv, cwd=folder, env=env)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--build', required=True)
    parser.add_argument('--smoke', action='store_true')
    parser.add_argument('--rounds', type=int, default=7)
    options = parser.parse_args()
    if not shutil.which('git') or not os.path.exists('/usr/bin/python3'):
        print('git or /usr/bin/python3 is missing')
        return 77
    rounds, files, rows = (1, 20, 20) if options.smoke else (options.rounds, 1500, 5000)
    with tempfile.TemporaryDirectory(prefix='bench-mounts-') as work:
        tool = [os.path.join(options.build, 'tools', 'sandbox'), '--root', os.path.join(work, 'root')]
        project, native, store = (os.path.join(work, name) for name in ('project', 'native', 'store'))
        make_project(project, files)
        shutil.copytree(project, native, symlinks=True)
        os.mkdir(store)
        check(*tool, 'volume', 'create', '--any-fs', 'store')
        box = check(*tool, 'create', '--mount', f'type=overlay,source={project},target=/project', '--mount',
                    'type=volume,source=store,target=/store', '--', 'sleep', '100000').strip()
        best = {}
        try:
            check(*tool, 'start', box)
            for number in range(rounds):
                for where, argv in (('native', ['/usr/bin/python3', '-c', TASKS, native, store]),
                                    ('inside', [*tool, 'exec', box, '--', '/usr/bin/python3', '-c', TASKS, '/project', '/store'])):
                    for task, took in json.loads(check(*argv, f'{where}{number}', str(rows))).items():
                        best.setdefault(task, {}).setdefault(where, []).append(took)
            print(f'{"task":28} {"native":>10} {"inside":>10}  ratio')
            for task, took in best.items():
                outer, inner = min(took['native']), min(took['inside'])
                print(f'{task:28} {outer * 1e3:7.1f} ms {inner * 1e3:7.1f} ms  {inner / outer:.2f}')
            count = 200 if options.smoke else 100000
            check(*tool, 'exec', box, '--', '/usr/bin/python3', '-c',
                  f'import os\nfor i in range({count}):\n  if i % 1000 == 0: os.mkdir("/project/d%d" % i)\n  open("/project/d%d/%d" % (i - i % 1000, i), "w").close()')
            check(*tool, 'stop', box)
            begin = time.perf_counter()
            check(*tool, 'reset', box)
            print(f'{f"reset of {count} files":28} {"":10} {(time.perf_counter() - begin) * 1e3:7.1f} ms')
        finally:
            subprocess.run([*tool, 'rm', box], check=False, stdout=subprocess.DEVNULL)
            subprocess.run([*tool, 'volume', 'rm', 'store'], check=False, stdout=subprocess.DEVNULL)
            trash = os.path.join(work, 'root', 'trash')
            until = time.monotonic() + 60
            while os.path.isdir(trash) and os.listdir(trash) and time.monotonic() < until:
                time.sleep(0.05)
    return 0


if __name__ == '__main__':
    sys.exit(main())
