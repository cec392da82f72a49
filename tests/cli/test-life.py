#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lifetimes by the `sandbox` command, as whoever runs this. Usage: test-life.py SANDBOX"""
import os
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import tap
from tool import Tool


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'it did not come to that'
        time.sleep(0.02)


def test_pause_and_lifetimes(tool):
    identity = tool.good('create', '--name', 'd', '--ttl', '1h', '--idle', '30m', '--restart', 'on-failure:3', '--health-cmd', 'test -e /tmp/well',
                         '--health-interval', '100ms', '--health-retries', '2', '--', 'sh', '-c', 'trap "exit 0" TERM; while :; do sleep 0.05; done').out.strip()
    life = tool.good('--json', 'inspect', 'd').json['spec']['life']
    assert (life['ttl_ms'], life['idle_ms'], life['restart'], life['restart_max']) == (3600000, 1800000, 'on-failure', 3), life
    tool.fails('wait', '--health', 'd')
    tool.good('start', 'd')
    assert tool.fails('wait', '--health', '--timeout', '20', 'd', status=1).out == 'unhealthy\n'
    tool.good('exec', 'd', 'touch', '/tmp/well')
    until(lambda: 'running (healthy)' in tool.good('ls').out, 20)
    assert tool.good('--json', 'wait', '--health', 'd').json == {'health': 'healthy'}
    assert tool.good('--json', 'pause', 'd').json == {'ids': [identity]}
    assert 'paused' in tool.good('ls').out
    assert tool.fails('--json', 'exec', 'd', 'true').error['code'] == 'EPAUSED'
    tool.good('resume', 'd')
    tool.good('exec', 'd', 'true')
    tool.good('extend', 'd', 'none')
    assert tool.good('--json', 'inspect', 'd').json['life']['ttl_ms'] == -1
    assert tool.fails('--json', 'extend', 'd', 'soon').error['field'] == 'ttl'
    tool.good('extend', 'd', '200ms')
    until(lambda: tool.good('--json', 'inspect', 'd').json['state'] == 'stopped', 20)
    assert tool.fails('--json', 'start', 'd').error['field'] == 'ttl'
    tool.good('rm', 'd')


def test_ends_and_wrong_words(tool):
    tool.fails('create', '--restart', 'sometimes', '--', 'true')
    tool.fails('create', '--restart', 'always:3', '--', 'true')
    assert tool.fails('--json', 'create', '--restart', 'always').error['field'] == 'restart'
    tool.fails('run', '--ttl', '500ms', '--', 'sleep', '1000')
    tool.good('create', '--ttl', '200ms', '--at-end', 'delete', '--end-grace', '0')
    until(lambda: tool.ids() == [], 20)
    assert tool.ids() == []


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as state:
        tap.main(sys.modules['__main__'], Tool(os.path.abspath(sys.argv[1]), state))
