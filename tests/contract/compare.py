#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the contract suite and compares it with what is committed.

compare.py matrix PROGRAM COLUMN    every row is as matrix.txt says for this host; one that is "unsupported" has its transcript, with
                                    the cause that the row must give
compare.py faults PROGRAM           with each line of faults.txt broken, exactly its rows fail, and no other
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))


def run(program, *arguments, faults=''):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, 'CONTRACT_FAULTS': faults}
        # the oracle looks for what is left of it; here it is only removed
        done = subprocess.run([program, f'local:?root={folder}/state', *arguments], capture_output=True, text=True, check=False,
                              env=environment, timeout=1000)
        subprocess.run(['chmod', '-R', 'u+rwX', folder], check=False)
    lines = [line.partition('=')[::2] for line in done.stdout.splitlines()]
    rows = {name: value for name, value in lines if name != 'contract'}
    assert len(rows) == len(lines) - 1, f'a row twice, or no summary: {done.stdout} {done.stderr}'
    summary = dict(lines)['contract']
    verdicts = {name: value.partition(': ')[0] for name, value in rows.items()}
    counted = [sum(v == word for v in verdicts.values()) for word in ('ok', 'unsupported', 'failed')]
    assert summary == 'passed {} unsupported {} failed {}'.format(*counted), (summary, counted)
    assert done.returncode == (1 if counted[2] else 0), done.returncode
    return rows, verdicts


def table(name):
    with open(os.path.join(HERE, name), encoding='utf-8') as f:
        return [line.split() for line in f if line.strip() and not line.startswith('#')]


def transcript(column, row):
    """The last line of the transcript, "cause: …", is what the row must say."""
    path = os.path.join(HERE, 'transcripts', column.replace(':', '-'), row + '.txt')
    if not os.path.exists(path):
        return None
    with open(path, encoding='utf-8') as f:
        found = re.fullmatch(r'cause: (.+)', f.read().rstrip('\n').split('\n')[-1])
    return found and found.group(1)


def test_matrix(program, column):
    head, *body = table('matrix.txt')
    at = head.index(column)
    wanted = {line[0]: line[at] for line in body}
    rows, verdicts = run(program)
    results = []
    for name in sorted(set(wanted) | set(rows)):
        problem = ''
        if name not in rows or name not in wanted:
            problem = 'it is not in ' + ('the suite' if name in wanted else 'matrix.txt')
        elif verdicts[name] != wanted[name]:
            problem = f'{rows[name]}, where matrix.txt says {wanted[name]}'
        elif verdicts[name] == 'unsupported':
            cause = transcript(column, name)
            if not cause:
                problem = f'no transcript shows why: {rows[name]}'
            elif cause not in rows[name]:
                problem = f'another cause than the transcript\'s "{cause}": {rows[name]}'
        results.append((name, problem))
    return results


def test_faults(program):
    results = []
    lines = table('faults.txt')
    with concurrent.futures.ThreadPoolExecutor() as pool:  # a row that fails mostly waits
        ran = list(pool.map(lambda line: run(program, '--seconds', '60', faults=line[0]), lines))
    for (faults, *wanted), (rows, verdicts) in zip(lines, ran):
        failed = {name for name, verdict in verdicts.items() if verdict != 'ok'}
        missed, more = sorted(set(wanted) - failed), sorted(failed - set(wanted))
        told = '; '.join(f'{name}={rows[name]}' for name in more)
        results.append((faults, f'not seen by {missed}; others: {told}' if missed or more else ''))
    return results


def test_output(program):
    """The same words with --json, one document; --only takes what it names."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, f'local:?root={folder}/state', '--json', '--only', 'F01,b7_argv'], capture_output=True, text=True,
                              check=False, timeout=200)
        subprocess.run(['chmod', '-R', 'u+rwX', folder], check=False)
    document = json.loads(done.stdout)
    good = sorted(document['rows']) == ['b7_argv', 'clean', 'f01_stdin_null'] and document['passed'] == 3 and done.returncode == 0
    wrong = [subprocess.run([program, *a], capture_output=True, check=False).returncode for a in (['--what'], ['local:', 'local:'], ['--only'])]
    return [('json', '' if good else done.stdout), ('usage', '' if wrong == [2, 2, 2] else str(wrong))]


def main(what, program, column=None):
    results = test_matrix(program, column) + test_output(program) if what == 'matrix' else test_faults(program)
    print(f'1..{len(results)}')
    for number, (name, problem) in enumerate(results, 1):
        print(f'{"not ok" if problem else "ok"} {number} - {name}')
        if problem:
            print(f'# {problem}', flush=True)
            print(f'{name}: {problem}', file=sys.stderr, flush=True)
    return any(problem for _, problem in results)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
