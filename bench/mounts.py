#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A workspace on an overlay mount, and a database in a volume, beside the same on the machine itself.

mounts.py --build BUILD [--smoke] [--rounds N] [--out FOLDER]    a table; with --out also mounts.json and mounts.svg

Each task of the workspace is timed from outside, in four places: on the machine ("native"); by a whole `sandbox run` with the project on the
kernel's overlay ("run"); the same where the kernel makes none and the project is copied ("copy", root only); and by an exec in a sandbox that
runs already ("exec"). Rounds of all alternate, and the best of each counts, so that a busy moment of the machine falls on none alone.
What a `sandbox run` of `true` takes is told beside it: it is the part of "run" that doesn't depend on the task.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from plot import FLOOR, INK, LEFT, MISSED, MUTED, OURS, PEERS, RIGHT, WIDTH, Drawing

# name, what a shell does in the project, the goal as a ratio, what agentfs published for its kernel backend
TASKS = [
    ('cargo build, incremental', 'echo "// $TAG" >> crate/src/part0.rs && cd crate && cargo build --offline -q', 1.03, 1.02),
    ('grep -r', 'grep -r nowhere-to-be-found source || :', 1.10, 1.16),
    ('git status', 'git status > /dev/null', 1.10, 1.16),
    ('git add + commit', 'echo "$TAG" > new-file && git add -A && git commit -qm "$TAG"', 1.5, 2.72),
    ('python -m compileall', 'rm -rf source/json/__pycache__ source/email/__pycache__ source/asyncio/__pycache__ && '
     'python3 -m compileall -q source/json source/email source/asyncio', 1.1, None),
]
ENV = {'PATH': '/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/tmp', 'CARGO_HOME': '/tmp/cargo', 'GIT_CONFIG_COUNT': '3',
       'GIT_CONFIG_KEY_0': 'safe.directory', 'GIT_CONFIG_VALUE_0': '*', 'GIT_CONFIG_KEY_1': 'user.name', 'GIT_CONFIG_VALUE_1': 'b',
       'GIT_CONFIG_KEY_2': 'user.email', 'GIT_CONFIG_VALUE_2': 'b@example.org'}
WAL = r'''
import sqlite3, sys, time
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute('pragma journal_mode=wal')
c.execute('create table t(x)')
begin = time.perf_counter()
for i in range(int(sys.argv[2])):
    c.execute('insert into t values (?)', (i,))
print(time.perf_counter() - begin)
'''
FILL = r'''
import os, sys
for i in range(int(sys.argv[2])):
    if i % 1000 == 0:
        os.makedirs(f'{sys.argv[1]}/d{i}')
    open(f'{sys.argv[1]}/d{i - i % 1000}/{i}', 'w').close()
'''


def check(*argv, **kwargs):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, **kwargs).stdout


def timed(argv, **kwargs):
    begin = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, **kwargs)
    return time.perf_counter() - begin


def rust():
    """The folder of a Rust toolchain that can be mounted, or None."""
    if not shutil.which('rustc') or not shutil.which('cc'):
        return None
    found = subprocess.run(['rustc', '--print', 'sysroot'], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    return found if found and os.path.exists(os.path.join(found, 'bin', 'cargo')) else None


def make_project(folder, toolchain, smoke):
    """The standard library of Python, as a git repository: real sources of which every machine has some. And a crate, with its first build done."""
    source = check('/usr/bin/python3', '-c', 'import json, os; print(os.path.dirname(os.path.dirname(json.__file__)))').strip()
    names = ['json', 'email', 'asyncio'] if smoke else [n for n in os.listdir(source) if n not in ('dist-packages', 'site-packages')]
    os.makedirs(os.path.join(folder, 'source'))
    for name in names:
        path = os.path.join(source, name)
        if os.path.isdir(path):
            shutil.copytree(path, os.path.join(folder, 'source', name), ignore=shutil.ignore_patterns('__pycache__', '*.so', '*.a'))
        elif name.endswith('.py'):
            shutil.copy(path, os.path.join(folder, 'source'))
    crate = os.path.join(folder, 'crate')
    os.makedirs(os.path.join(crate, 'src'))
    parts = 3 if smoke else 30
    with open(os.path.join(crate, 'Cargo.toml'), 'w', encoding='ascii') as f:
        f.write('[package]\nname = "crate"\nversion = "0.1.0"\nedition = "2021"\n')
    for i in range(parts):
        with open(os.path.join(crate, 'src', f'part{i}.rs'), 'w', encoding='ascii') as f:
            f.write(''.join(f'pub fn f{n}(v: &[u64]) -> Vec<String> {{ v.iter().map(|x| format!("{{}} {n} {i}", x.wrapping_mul({n + 1}))).collect() }}\n'
                            for n in range(60)))
    with open(os.path.join(crate, 'src', 'main.rs'), 'w', encoding='ascii') as f:
        f.write('#![allow(dead_code)]\n' + ''.join(f'mod part{i};\n' for i in range(parts)) + 'fn main() {\n'
                + ''.join(f'    println!("{{}}", part{i}::f1(&[1]).len());\n' for i in range(parts)) + '}\n')
    with open(os.path.join(folder, '.gitignore'), 'w', encoding='ascii') as f:
        f.write('target\n__pycache__\n')
    for argv in (('git', 'init', '-q'), ('git', 'add', '-A'), ('git', 'commit', '-qm', 'begin')):
        check(*argv, cwd=folder, env={**os.environ, **ENV, 'PATH': os.environ['PATH']})
    check('/usr/bin/python3', '-m', 'compileall', '-q', 'source', cwd=folder)


class Bench:
    def __init__(self, options, work):
        self.work, self.smoke = work, options.smoke
        self.rounds = 1 if options.smoke else options.rounds
        self.tool = [os.path.join(options.build, 'tools', 'sandbox'), '--root', os.path.join(work, 'root')]
        self.toolchain = rust()
        self.project, self.native, self.refused = (os.path.join(work, name) for name in ('project', 'native', 'refused'))
        self.box = None
        self.best = {}

    def mounts(self, source):
        yield from ('--mount', f'type=overlay,source={source},target=/project')
        if self.toolchain:
            yield from ('--mount', f'type=bind,source={self.toolchain},target=/opt/rust,ro')

    def environment(self):
        for name, value in ENV.items():
            yield from ('--env', f'{name}={value}')

    def prepare(self):
        make_project(self.project, self.toolchain, self.smoke)
        shutil.copytree(self.project, self.native, symlinks=True)
        if self.toolchain:
            env = {**os.environ, **ENV, 'PATH': f'{self.toolchain}/bin:' + ENV['PATH']}
            check('cargo', 'build', '--offline', '-q', cwd=os.path.join(self.native, 'crate'), env=env)
            self.build_inside()
        if os.getuid() == 0: # a lower that can't map ids: the kernel makes no overlay over it for a sandbox
            os.makedirs(self.refused)
            os.makedirs(os.path.join(self.work, 'empty'))
            check('mount', '-t', 'overlay', '-o', f'lowerdir={self.project}:{self.work}/empty', 'overlay', self.refused)
        self.box = check(*self.tool, 'create', *self.environment(), *self.mounts(self.project), '--', 'sleep', '100000').strip()
        check(*self.tool, 'start', self.box)

    def build_inside(self):
        """The crate's first build, by a sandbox over the project; what it wrote is then part of the project."""
        box = check(*self.tool, 'create', *self.environment(), *self.mounts(self.project), '--', 'sleep', '100000').strip()
        check(*self.tool, 'start', box)
        check(*self.tool, 'exec', box, '--', 'sh', '-c', 'cd /project/crate && cargo build --offline -q')
        tar = os.path.join(self.work, 'target.tar')
        with open(tar, 'wb') as f:
            subprocess.run([*self.tool, 'diff', '--tar', box, '/project'], check=True, stdout=f)
        check('tar', '-xf', tar, '--no-same-owner', '-C', self.project)
        check(*self.tool, 'rm', box)

    def places(self, command):
        script = 'cd /project && ' + command
        native = {**os.environ, **ENV, 'PATH': (f'{self.toolchain}/bin:' if self.toolchain else '') + ENV['PATH']}
        yield 'native', ['sh', '-c', command], {'cwd': self.native, 'env': native}
        yield 'run', [*self.tool, 'run', *self.environment(), *self.mounts(self.project), '--', 'sh', '-c', script], {}
        if os.path.ismount(self.refused):
            yield 'copy', [*self.tool, 'run', *self.environment(), *self.mounts(self.refused), '--', 'sh', '-c', script], {}
        yield 'exec', [*self.tool, 'exec', *self.environment(), self.box, '--', 'sh', '-c', script], {}

    def workspace(self):
        tasks = [t for t in TASKS if self.toolchain or not t[0].startswith('cargo')]
        for number in range(self.rounds):
            self.note('sandbox run true', 'run', timed([*self.tool, 'run', *self.mounts(self.project), '--', 'true']))
            for name, command, _, _ in tasks:
                for where, argv, kwargs in self.places(command.replace('$TAG', f'round-{number}')):
                    self.note(name, where, timed(argv, **kwargs))

    def note(self, task, where, took):
        self.best.setdefault(task, {}).setdefault(where, []).append(took)

    def database(self):
        store, rows = os.path.join(self.work, 'store'), 20 if self.smoke else 5000
        os.mkdir(store)
        check(*self.tool, 'volume', 'create', '--any-fs', 'store')
        box = check(*self.tool, 'create', '--mount', 'type=volume,source=store,target=/store', '--', 'sleep', '100000').strip()
        check(*self.tool, 'start', box)
        for number in range(self.rounds):
            self.note('SQLite WAL in a volume', 'native', float(check('/usr/bin/python3', '-c', WAL, f'{store}/db{number}', str(rows))))
            self.note('SQLite WAL in a volume', 'exec', float(check(*self.tool, 'exec', box, '--', '/usr/bin/python3', '-c', WAL, f'/store/db{number}', str(rows))))
        check(*self.tool, 'rm', box)
        check(*self.tool, 'volume', 'rm', 'store')

    def reset(self):
        count = 200 if self.smoke else 100000
        check(*self.tool, 'exec', self.box, '--', '/usr/bin/python3', '-c', FILL, '/project/many', str(count))
        self.note(f'reset of {count} files, running', 'exec', timed([*self.tool, 'reset', self.box]))
        check(*self.tool, 'exec', self.box, '--', 'sh', '-c', '! test -e /project/many')

    def secrets(self):
        count, folder = 2000 if self.smoke else 1000000, os.path.join(self.work, 'names')
        check('/usr/bin/python3', '-c', FILL, folder, str(count))
        argv = [*self.tool, 'run', '--mount', f'type=bind,source={folder},target=/names,ro']
        without, with_look = (min(timed([*argv, *more, '--', 'true']) for _ in range(min(self.rounds, 3))) for more in ([], ['--secrets', 'refuse']))
        self.note(f'names of secrets among {count}', 'exec', with_look - without)

    def clean(self):
        if self.box:
            subprocess.run([*self.tool, 'rm', self.box], check=False, stdout=subprocess.DEVNULL)
        if os.path.ismount(self.refused):
            subprocess.run(['umount', self.refused], check=False)
        trash, until = os.path.join(self.work, 'root', 'trash'), time.monotonic() + 120
        while os.path.isdir(trash) and os.listdir(trash) and time.monotonic() < until:
            time.sleep(0.05)


def table(best):
    lines = [f'{"task":32} {"native":>10} {"run":>10} {"copy":>10} {"exec":>10}   run/native  exec/native  goal']
    goals = {name: goal for name, _, goal, _ in TASKS}
    goals['SQLite WAL in a volume'] = 1 / 0.97
    for task, took in best.items():
        low = {where: min(times) for where, times in took.items()}
        cells = ' '.join(f'{low[w] * 1e3:7.1f} ms' if w in low else ' ' * 10 for w in ('native', 'run', 'copy', 'exec'))
        ratios = ['%10.2f' % (low[w] / low['native']) if w in low and 'native' in low else ' ' * 10 for w in ('run', 'exec')]
        lines.append(f'{task:32} {cells}   {ratios[0]}   {ratios[1]}  {goals.get(task, 0):4.2f}' if task in goals else f'{task:32} {cells}')
    return '\n'.join(lines)


def draw(best):
    """For each task the ratios to native as bars, with the goal as a line."""
    drawing, span = Drawing(), WIDTH - LEFT - RIGHT
    drawing.text(20, drawing.y + 14, 'A project on an overlay, relative to the machine itself', 15, weight='bold')
    drawing.text(20, drawing.y + 32, 'best of alternating rounds; run, copy: a whole `sandbox run`; exec: in a sandbox that runs; agentfs: as published, elsewhere', 11, MUTED)
    drawing.y += 50
    for task, _, goal, peer in TASKS:
        took = {where: min(times) for where, times in best.get(task, {}).items()}
        if 'native' not in took:
            continue
        rows = [('exec', took.get('exec'), OURS), ('run', took.get('run'), OURS), ('copy', took.get('copy'), FLOOR)]
        rows = [(name, value / took['native'], fill) for name, value, fill in rows if value] + ([('agentfs', peer, PEERS)] if peer else [])
        most = max(3.0, goal * 1.5)
        drawing.text(20, drawing.y + 12, task, 12, INK, weight='bold')
        drawing.text(20, drawing.y + 28, f'native {took["native"] * 1e3:.1f} ms', 11, MUTED)
        top = drawing.y
        for name, ratio, fill in rows:
            drawing.rect(LEFT, drawing.y, span * min(ratio, most) / most, 13, fill)
            drawing.text(LEFT + span * min(ratio, most) / most + 6, drawing.y + 11, f'{name} {ratio:.2f}' + (' →' if ratio > most else ''), 11)
            drawing.y += 17
        drawing.line(LEFT + span * goal / most, top - 3, LEFT + span * goal / most, drawing.y, MISSED, 1.5, '4 3')
        drawing.text(WIDTH - 20, top + 12, f'goal {goal:.2f}', 11, MISSED, 'end')
        drawing.y += 12
    return drawing.svg()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--build', required=True)
    parser.add_argument('--smoke', action='store_true')
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--out')
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was mounted is unmounted then, too
    if not shutil.which('git') or not os.path.exists('/usr/bin/python3'):
        print('git or /usr/bin/python3 is missing')
        return 77
    with tempfile.TemporaryDirectory(prefix='bench-mounts-') as work:
        bench = Bench(options, work)
        try:
            for part in (bench.prepare, bench.workspace, bench.database, bench.reset, bench.secrets):
                print(f'==> {part.__name__}', file=sys.stderr, flush=True)
                part()
        finally:
            bench.clean()
        print(table(bench.best))
        drawing = draw(bench.best)
        if options.out:
            os.makedirs(options.out, exist_ok=True)
            for name, text in (('mounts.json', json.dumps(bench.best, indent=1)), ('mounts.svg', drawing)):
                with open(os.path.join(options.out, name), 'w', encoding='utf-8') as f:
                    f.write(text)
    return 0


if __name__ == '__main__':
    sys.exit(main())
