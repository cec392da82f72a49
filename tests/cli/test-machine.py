#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sandbox doctor` and `sandbox contract` on this machine, as whoever runs this. Usage: test-machine.py SANDBOX"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap
from tool import Tool

ROOT = os.geteuid() == 0


def none_left(tool):
    assert tool.ids() == [], tool.good('ls').out


def test_doctor(tool):
    result = tool('--json', 'doctor')
    report = result.json
    levels = {entry['feature']: entry['level'] for entry in report['entries']}
    assert set(levels.values()) <= {'enforced', 'wrapped', 'advisory', 'impossible'}, levels
    assert result.status == ('impossible' in levels.values()), result
    assert levels['mounts'] == levels['seccomp'] == levels['capabilities'] == 'enforced', levels
    assert (levels['id_range'] == 'enforced') == ROOT, levels
    for entry in report['entries']:
        assert (entry['level'] == 'enforced') == (entry['cause'] == '') == (entry['remedy'] == ''), entry
    text = tool('doctor')
    assert text.status == result.status and '\033' not in text.out, text
    for feature, level in levels.items():
        line = [line for line in text.out.splitlines() if line.split()[1:2] == [feature]]
        assert len(line) == 1 and line[0].startswith('ok ' if level == 'enforced' else level), (feature, text.out)
    assert text.out.count('cause:') == text.out.count('remedy:') == sum(level != 'enforced' for level in levels.values()), text.out
    none_left(tool)


def test_contract(tool):
    program = os.path.join(os.path.dirname(os.path.abspath(tool.program)), '..', 'tests', 'contract')
    result = tool.good('contract', '--only', 'b7_argv,F01', env={'SANDBOX_LIBEXEC': program})
    assert result.out.splitlines() == ['b7_argv=ok', 'f01_stdin_null=ok', 'clean=ok', 'contract=passed 3 unsupported 0 failed 0'], result
    document = tool.good('--json', 'contract', 'local:', '--only', 'b7_argv', env={'SANDBOX_LIBEXEC': program}).json
    assert document['rows']['b7_argv'] == {'result': 'ok', 'cause': ''} and document['failed'] == 0, document
    missing = tool.fails('contract', env={'SANDBOX_LIBEXEC': tool.root})
    assert 'can\'t be run' in missing.err and 'SANDBOX_LIBEXEC' in missing.err, missing
    none_left(tool)


CALL = re.compile(r'^\d+ +(\w+)\((?:AT_FDCWD|(\d+))(?:<[^>]*>)?(.*)\) += (\d+)$')


def test_old_kernels_clone_it(tool):
    """Before Linux 6.15 only a mount that is attached can be cloned; a newer kernel hides that one isn't. So the calls themselves are looked at."""
    if not ROOT:
        raise tap.Skip('only root can trace the agent')
    if not shutil.which('strace'):
        raise tap.Skip('there is no strace')
    project, trace = os.path.join(tool.root, 'project'), os.path.join(tool.root, 'trace')
    os.makedirs(os.path.join(project, '.ssh'))
    open(os.path.join(project, '.env'), 'wb').close()
    subprocess.run(['strace', '-f', '-o', trace, '-e', 'trace=fsmount,open_tree,move_mount,openat,openat2,close', tool.program, 'run',
                    '--mount', f'type=bind,source={project},target=/bind', '--mount', f'type=overlay,source={project},target=/over',
                    '--mount', 'type=tmpfs,target=/memory', '--secrets', 'hide', '--', 'true'], env=tool.environment(), check=True)
    detached, clones, made = set(), 0, 0
    with open(trace, encoding='utf-8', errors='replace') as file:
        for match in filter(None, map(CALL.match, file)):
            call, at, rest, result = match[1], match[2], match[3], match[4]
            if call == 'open_tree' and 'OPEN_TREE_CLONE' in rest:
                clones += 1
                assert at not in detached, match[0]
                detached.add(result)
            elif call == 'fsmount' or call in ('openat', 'openat2') and at in detached:
                made += call == 'fsmount'
                detached.add(result)
            elif call in ('move_mount', 'close'):
                detached.discard(at)
    assert clones > 10 and made > 3, (clones, made)
    none_left(tool)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as state:
        tap.main(sys.modules['__main__'], Tool(os.path.abspath(sys.argv[1]), state))
