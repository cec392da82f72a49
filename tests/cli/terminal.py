# SPDX-License-Identifier: Apache-2.0
"""A command on a terminal of the test's own, as a person has it: what it shows is awaited, what it wants is typed."""
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time


class Terminal:
    def __init__(self, argv, env, rows=24, columns=80, control=True):
        self.text, self.status = b'', None
        self.outer, self.inner = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.inner)
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            if control:
                fcntl.ioctl(self.inner, termios.TIOCSCTTY, 0)
            for fd in range(3):
                os.dup2(self.inner, fd)
            os.closerange(3, 64)
            try:
                os.execve(argv[0], argv, env)
            finally:
                os._exit(127)

    def resize(self, rows, columns):
        fcntl.ioctl(self.outer, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def type(self, text):
        os.write(self.outer, text if isinstance(text, bytes) else text.encode())

    def read(self, seconds):
        """1: more came, 0: it didn't."""
        if not select.select([self.outer], [], [], seconds)[0]:
            return 0
        self.text += os.read(self.outer, 65536)
        return 1

    def expect(self, pattern, seconds=30):
        """Until what it shows matches; what stands up to there is given back and forgotten."""
        pattern = pattern if isinstance(pattern, bytes) else pattern.encode()
        end = time.monotonic() + seconds
        while not (match := re.search(pattern, self.text, re.S)):
            assert self.read(max(0, end - time.monotonic())), f'no {pattern!r} in {self.text[-2000:]!r}'
        before, self.text = self.text[:match.end()], self.text[match.end():]
        return before

    def wait(self, seconds=30):
        """Its exit status, or minus the signal; the terminal must be as it was before."""
        end = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            assert time.monotonic() < end, f'it does not end: {self.text[-2000:]!r}'
            self.read(0.02)
        while self.read(0.05):
            pass
        self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def modes_restored(self):
        return termios.tcgetattr(self.inner) == self.before

    def close(self):
        os.close(self.outer)
        os.close(self.inner)

    def ends(self, status, seconds=30):
        got = self.wait(seconds)
        assert got == status, f'status {got}, wanted {status}: {self.text[-2000:]!r}'
        assert self.modes_restored(), 'the terminal was left in another mode'
        self.close()
