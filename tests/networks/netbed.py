#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""netbed.py -- COMMAND …: runs a command on a machine whose network is made for it: a network namespace with a loopback, an uplink
198.51.100.1 and, behind that, an internet of one host (internet.py), 198.51.100.2. Nothing reaches or changes the real machine's network. Needs root;
the command itself may become somebody else. Nothing is left: both namespaces end with their last process."""
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run(*words):
    subprocess.run(words, check=True)


def main():
    if os.environ.get('NETBED') != 'inside':
        os.environ['NETBED'] = 'inside'
        os.execvp('unshare', ['unshare', '--net', sys.executable, *sys.argv])
    run('ip', 'link', 'set', 'lo', 'up')
    internet = subprocess.Popen(['unshare', '--net', sys.executable, os.path.join(HERE, 'internet.py')], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert internet.stdout.readline() == b'here\n'  # it is in its namespace
    run('ip', 'link', 'add', 'up0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', str(internet.pid))
    run('ip', 'address', 'add', '198.51.100.1/24', 'dev', 'up0')
    run('ip', 'address', 'add', '10.99.0.1/32', 'dev', 'up0')  # another address of the machine's
    run('ip', 'address', 'add', '1.2.3.4/32', 'dev', 'up0')  # one of the public internet's
    run('ip', 'link', 'set', 'up0', 'up')
    run('ip', 'route', 'add', 'default', 'via', '198.51.100.2')
    internet.stdin.write(b'go\n')
    internet.stdin.flush()
    assert internet.stdout.readline() == b'ready\n'
    words = sys.argv[1:]
    child = subprocess.Popen(words[1:] if words[0] == '--' else words)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda which, frame: child.send_signal(which))
    status = child.wait()
    internet.kill()
    internet.wait()
    sys.exit(status if status >= 0 else 128 - status)


main()
