# SPDX-License-Identifier: Apache-2.0
"""The `sandbox` command as a test sees it: a state folder of its own, and a check that nothing stays in it."""
import json
import os
import signal
import subprocess
import time


class Result:
    def __init__(self, status, out, err, seconds):
        self.status, self.out, self.err, self.seconds = status, out, err, seconds

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def error(self):
        """With --json: the one object on the last line of stderr."""
        return json.loads(self.err.strip().split('\n')[-1])['error']

    def __repr__(self):
        return f'status {self.status}, stdout {self.out[-2000:]!r}, stderr {self.err[-2000:]!r}'


class Tool:
    def __init__(self, program, root):
        self.program, self.root, self.started = program, root, []
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # a job in the background has some ignored, and the command respects that

    def environment(self, more=None):
        kept = {key: os.environ[key] for key in ('PATH', 'HOME', 'ASAN_OPTIONS', 'UBSAN_OPTIONS', 'LSAN_OPTIONS', 'LD_LIBRARY_PATH')
                if key in os.environ}
        return {**kept, 'SANDBOX_ROOT': self.root, **(more or {})}

    def start(self, *arguments, env=None, **options):
        child = subprocess.Popen([self.program, *arguments], env=self.environment(env), **options)
        self.started.append(child)
        return child

    def clean_up(self):
        """After a test that failed: what it left must not be the next one's failure."""
        for child in self.started:
            if child.poll() is None:
                child.kill()
                child.wait()
        self.started = []
        subprocess.run([self.program, 'rm', *self.ids()], env=self.environment(), stderr=subprocess.DEVNULL, check=False)

    def __call__(self, *arguments, stdin=b'', env=None, timeout=120, raw=False):
        begun = time.monotonic()
        done = subprocess.run([self.program, *arguments], input=stdin, capture_output=True, env=self.environment(env),
                              timeout=timeout, check=False)
        out, err = (done.stdout, done.stderr) if raw else (done.stdout.decode(), done.stderr.decode())
        return Result(done.returncode, out, err, time.monotonic() - begun)

    def good(self, *arguments, **options):
        result = self(*arguments, **options)
        assert result.status == 0, f'{arguments}: {result}'
        return result

    def fails(self, *arguments, status=125, **options):
        result = self(*arguments, **options)
        assert result.status == status, f'{arguments}: wanted status {status}: {result}'
        return result

    def ids(self):
        return [entry['id'] for entry in self.good('--json', 'ls').json]
