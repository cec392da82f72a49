#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `sandbox` says of wrong calls, and its help. None of these needs a sandbox. Usage: test-usage.py SANDBOX"""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap
from tool import Tool

COMMANDS = ['run', 'create', 'start', 'exec', 'inspect', 'ls', 'stop', 'kill', 'rm', 'cp', 'dial', 'forward', 'events', 'logs', 'wait', 'attach', 'image import', 'image ls', 'image inspect',
            'image rm', 'volume create', 'volume ls', 'volume rm', 'doctor', 'contract', 'version']


def refused(tool, *arguments, says, field=None):
    """Status 125, nothing on stdout, one message and a hint for people; the same as one JSON object."""
    result = tool.fails(*arguments)
    assert result.out == '', result
    assert result.err.startswith('sandbox: ') and says in result.err.split('\n')[0], result
    error = tool.fails('--json', *arguments).error
    assert error['code'] == 'EINVALID' and says in error['message'], error
    if field:
        assert error['field'] == field, error
    return result


def test_help_lists_every_command(tool):
    text = tool.good('--help').out
    for command in COMMANDS:
        assert f'\n  {command} ' in text, command
    assert tool.good('help').out == text == tool.good('-h').out


def test_each_command_has_help(tool):
    for command in COMMANDS:
        text = tool.good(*command.split(), '--help').out
        assert text.startswith(f'usage: sandbox {command} ') and '--json' in text, text
        assert tool.good('help', *command.split()).out == text


def test_version(tool):
    plain = tool.good('version').out.split()
    assert plain[0] == 'sandbox' and plain[1] == tool.good('--json', 'version').json['version'] == \
        tool.good('version', '--json').json['version']


def test_unknown_command(tool):
    refused(tool, 'frobnicate', says='frobnicate', field='command')
    refused(tool, 'image', 'frobnicate', says='image frobnicate', field='command')
    refused(tool, 'image', says='image', field='command')
    refused(tool, says='no command was given', field='command')


def test_unknown_option(tool):
    result = refused(tool, 'run', '--frobnicate', '--', 'true', says='--frobnicate', field='options')
    assert 'hint: see: sandbox run --help' in result.err, result
    refused(tool, '--frobnicate', 'ls', says='--frobnicate', field='options')
    refused(tool, 'ls', '--keep', says='--keep', field='options')
    refused(tool, 'run', '-x', 'true', says='-x', field='options')
    refused(tool, 'run', '--keepsake', 'true', says='--keepsake', field='options')


def test_option_values(tool):
    for option, bad in [('memory', ['', 'x', '-1', '0', '1X', '1KB', '99999999999999999999', '9999999999G', ' 1', '1 ']),
                        ('pids', ['', '-1', '0', '1.5', '0x10', '99999999999999999999']),
                        ('cpus', ['', '-1', '0', '0.001', '1.', '.5', '1.2345', 'many']),
                        ('timeout', ['', '0', '-1', '5d', '1.2345s', 's', 'ms', '1 s', '99999999999999999h'])]:
        for value in bad:
            refused(tool, 'run', f'--{option}={value}', '--', 'true', says=option, field=option)
    refused(tool, 'kill', '--signal', 'WHAT', 'x', says='signal', field='signal')
    refused(tool, 'kill', '--signal', '0', 'x', says='signal', field='signal')
    refused(tool, 'kill', '--signal', '65', 'x', says='signal', field='signal')
    refused(tool, 'image', 'import', '--format', 'zip', '/nonexistent', says='format', field='format')
    refused(tool, 'logs', '--since', 'yesterday', 'x', says='not understood', field='since')
    refused(tool, 'logs', '--tail', '-1', 'x', says='not understood', field='tail')
    refused(tool, 'create', '--log-max', '1K', says='not understood', field='log-max')
    refused(tool, 'cp', 'a', 'b', says='neither is in a sandbox', field='operands')
    refused(tool, 'cp', 'a:/b', 'c:/d', says='both are in a sandbox', field='operands')
    refused(tool, 'dial', 'x', '0', says='no port', field='port')
    refused(tool, 'dial', 'x', '65536', says='no port', field='port')
    refused(tool, 'dial', 'x', 'http', says='no port', field='port')
    refused(tool, 'events', '--until-gone', says='one sandbox', field='until-gone')
    refused(tool, 'events', '--label', 'a', '--label', 'b', says='one --label', field='label')
    refused(tool, 'forward', 'x', '0', says='no port', field='port')
    refused(tool, 'forward', 'x', '80', '65536', says='no port', field='local_port')
    refused(tool, 'forward', 'x', '80', '-1', says='-1')


def test_value_given_and_not(tool):
    refused(tool, 'run', '--image', says='needs a value', field='image')
    refused(tool, 'run', '--keep=1', '--', 'true', says='takes no value', field='keep')
    refused(tool, '--root', says='needs a value', field='root')


def test_operands(tool):
    refused(tool, 'run', says='no command was given', field='argv')
    refused(tool, 'run', '--', says='no command was given', field='argv')
    refused(tool, 'exec', 'abc', says='no command was given', field='argv')
    refused(tool, 'exec', says='too few', field='operands')
    refused(tool, 'inspect', says='too few', field='operands')
    refused(tool, 'inspect', 'a', 'b', says='one argument too many', field='operands')
    refused(tool, 'ls', 'a', says='one argument too many', field='operands')
    refused(tool, 'volume', 'create', 'a', 'b', says='one argument too many', field='operands')


def test_mounts(tool):
    for bad, says in [('target=/x', 'it needs type='), ('type=nfs,target=/x', 'type is bind'), ('type=bind,rw,target=/x', 'ro'),
                      ('type=bind,from=/x,target=/y', 'it has type'), ('type=tmpfs,target=/x,size=big', 'size is a number'),
                      ('type=bind,source=no/such/folder,target=/x', 'No such file')]:
        refused(tool, 'run', '--mount', bad, '--', 'true', says=says, field='mount')


def test_environment_and_labels(tool):
    for command in (['create'], ['run', 'true'], ['exec', 'x', 'true']):
        refused(tool, command[0], '--env', 'CERTAINLY_UNSET', *command[1:], says='CERTAINLY_UNSET', field='env')
    refused(tool, 'create', '--label', 'novalue', says='novalue', field='label')
    refused(tool, 'ls', '--label', 'a', '--label', 'b', says='only one', field='label')


def test_messages_drive_no_terminal(tool):
    result = tool.fails('image', 'frob\x1b[2Jnicate\u009b1m')
    assert '\x1b' not in result.err and '\u009b' not in result.err and 'frob?[2Jnicate?1m' in result.err, result


def test_output_that_cannot_be_written(tool):
    with open('/dev/full', 'w', encoding='utf-8') as full:
        done = subprocess.run([tool.program, '--help'], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 125 and b'No space left' in done.stderr, done


def test_output_that_nobody_reads(tool):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([tool.program, '--help'], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert done.returncode == 125 and b'Broken pipe' in done.stderr, done


def test_closed_descriptors(tool):
    """0, 1 and 2 closed: nothing that is opened takes their place."""
    done = subprocess.run(['sh', '-c', '"$0" version <&- >&- 2>&-', tool.program], check=False)
    assert done.returncode in (0, 125), done
    done = subprocess.run(['sh', '-c', '"$0" version <&-', tool.program], capture_output=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith(b'sandbox '), done


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as folder:
        tap.main(sys.modules['__main__'], Tool(os.path.abspath(sys.argv[1]), folder))
