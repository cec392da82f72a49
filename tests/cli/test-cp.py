#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`sandbox cp` with real sandboxes, as whoever runs this. Usage: test-cp.py SANDBOX"""
import io
import os
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
import tap
from tool import Tool

ROOT = os.geteuid() == 0


def test_cp(tool):
    """docker cp's rules, both ways."""
    name = 'cp-box'
    ident = tool.good('create', '--name', name).out.strip()
    with tempfile.TemporaryDirectory() as folder:
        here = lambda *parts: os.path.join(folder, *parts)
        os.makedirs(here('d', 'sub'))
        for path, text in (('f', 'file'), ('d/one', '1'), ('d/sub/two', '2')):
            with open(here(path), 'w', encoding='ascii') as file:
                file.write(text)
        tool.good('cp', here('f'), f'{name}:/root/new')                # a file under a new name
        tool.good('cp', here('f'), f'{name}:/root/')                   # into a folder
        tool.good('cp', here('f'), f'{name}:root/rel')                 # paths inside begin at /
        tool.fails('cp', here('f'), f'{name}:/root/none/', status=125)
        tool.good('cp', here('d'), f'{name}:/root/d2')                 # a folder that becomes a new one
        tool.good('cp', here('d'), f'{name}:/root/d2')                 # into one that is there
        tool.good('cp', here('d') + '/.', f'{ident[:12]}:/root/d2/sub') # what is in it
        tool.fails('cp', here('d'), f'{name}:/root/new', status=125)
        tool.fails('cp', here('absent'), f'{name}:/root/x', status=125)
        tool.good('start', name)
        found = tool.good('exec', name, '--', 'sh', '-c', 'cd /root && find . -type f | sort').out.split()
        assert found == ['./d2/d/one', './d2/d/sub/two', './d2/one', './d2/sub/one', './d2/sub/sub/two', './d2/sub/two', './f', './new', './rel'], found
        os.mkdir(here('out'))
        tool.good('cp', f'{name}:/root/f', here('out'))
        tool.good('cp', f'{name}:/root/f', here('out', 'g'))
        tool.good('cp', f'{name}:/root/d2', here('out'))
        tool.good('cp', f'{name}:/root/d2', here('out', 'fresh'))
        tool.good('cp', f'{name}:/root/d2/.', here('out', 'fresh'))
        tool.fails('cp', f'{name}:/root/d2', here('out', 'f'), status=125)
        tool.fails('cp', f'{name}:/root/absent', here('out'), status=125)
        assert sorted(os.listdir(here('out'))) == ['d2', 'f', 'fresh', 'g'] and sorted(os.listdir(here('out', 'fresh'))) == ['d', 'one', 'sub']
        stream = tool.good('cp', f'{name}:/root/d2', '-', raw=True).out
        names = tarfile.open(fileobj=io.BytesIO(stream)).getnames()
        assert names[0] == 'd2' and 'd2/sub/two' in names, names
        assert tarfile.open(fileobj=io.BytesIO(tool.good('cp', f'{name}:/root/d2/.', '-', raw=True).out)).getnames()[0] == '.'
        tool.good('cp', '-', f'{name}:/root/streamed', stdin=stream)
        assert tool.good('exec', name, '--', 'cat', '/root/streamed/d2/sub/two').out == '2'
        tool.fails('cp', '-', f'{name}:/root/streamed', stdin=b'no tar' * 1000, status=125)
        if ROOT:
            os.chown(here('f'), 1500, 1600)
            tool.good('cp', here('f'), f'{name}:/root/mine')
            tool.good('cp', '-a', here('f'), f'{name}:/root/theirs')
            assert tool.good('exec', name, '--', 'stat', '-c', '%u:%g', '/root/mine', '/root/theirs').out == '0:0\n1500:1600\n'
            tool.good('cp', '--archive', f'{name}:/root/theirs', here('out', 'theirs'))
            assert os.stat(here('out', 'theirs')).st_uid == 1500
    tool.good('rm', name)
    assert tool.ids() == []


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as state:
        tap.main(sys.modules['__main__'], Tool(os.path.abspath(sys.argv[1]), state))
