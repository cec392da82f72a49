# SPDX-License-Identifier: Apache-2.0
"""One contender: how it is set up, and the measuring program (sample.h) that takes its samples."""
import os
import selectors
import subprocess
import time


class Failed(Exception):
    """A contender that is there and does not work."""


class Contender:
    """`command` is a measuring program's argv; `absent` says why it can't take part (then nothing is started)."""

    def __init__(self, name, title, does, command, absent='', setup=None, teardown=None, timeout=120):
        self.name, self.title, self.does, self.command, self.absent = name, title, does, command, absent
        self.setup, self.teardown, self.timeout = setup, teardown, timeout
        self.process = None
        self.errors = None
        self.failure = ''
        self.samples = {}  # mode: [{'total': ns, part: ns, …}]

    def start(self, folder):
        if self.absent:
            return
        try:
            if self.setup:
                self.setup()
            self.errors = open(os.path.join(folder, self.name + '.stderr'), 'w+', encoding='utf-8', errors='replace')
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                            text=True, bufsize=1)
            line = self._answer()
            if line != 'ready':
                raise Failed(line)
        except (Failed, OSError, subprocess.SubprocessError) as e:
            self._fail(e)

    def _fail(self, cause):
        text = ''
        if self.errors:
            self.errors.flush()
            self.errors.seek(0)
            text = self.errors.read().strip()[-400:]
        self.failure = ' | '.join(t for t in (str(cause), text) if t)
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _answer(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(self.timeout):
                raise Failed(f'no answer within {self.timeout} s')
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f'ended with status {self.process.wait()}')
        if line.startswith('error: '):
            raise Failed(line[7:].strip())
        return line.strip()

    def sample(self, mode):
        """Takes one sample; mode None: a warm-up that is thrown away."""
        if not self.process:
            return
        try:
            self.process.stdin.write('\n')
            words = self._answer().split()
        except (Failed, OSError) as e:
            self._fail(e)
            return
        figures = {'total': int(words[0])}
        for word in words[1:]:
            key, value = word.split('=')
            figures[key] = int(value)
        if mode:
            self.samples.setdefault(mode, []).append(figures)

    def stop(self):
        if self.process:
            try:
                self.process.stdin.close()
                status = self.process.wait(timeout=30)
                if status and not self.failure:
                    self.failure = f'cleaning up: status {status}: ' + self.process.stdout.read().strip()
            except subprocess.TimeoutExpired:
                self.failure = 'did not end'
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            self.process = None
        if self.errors:
            self.errors.close()
            self.errors = None
        if self.teardown and not self.absent:
            self.teardown()


def run_group(contenders, folder, modes, generator, progress):
    """`modes` is [(name, rounds, (least, most) pause in seconds)]. One sample of each contender a round, in a new order each round, so
    that whatever drifts, and whatever one leaves to the kernel to finish later, hits all alike."""
    try:
        for contender in contenders:
            contender.start(folder)
        for contender in contenders:
            for _ in range(2):
                contender.sample(None)
        for mode, rounds, pause in modes:
            for i in range(rounds):
                order = list(contenders)
                generator.shuffle(order)
                for contender in order:
                    if pause[1] and contender.process:
                        time.sleep(generator.uniform(*pause))
                    contender.sample(mode)
                progress(mode, i + 1, rounds)
    finally:
        for contender in contenders:
            contender.stop()
