# SPDX-License-Identifier: Apache-2.0
"""Tests as functions, results as TAP. A test is a function whose name begins with test_; it fails by raising."""
import inspect
import sys
import traceback


class Skip(Exception):
    """The reason must stand in tests/skips."""


def main(module, argument=None):
    tests = [(name, f) for name, f in inspect.getmembers(module, inspect.isfunction) if name.startswith('test_')]
    tests.sort(key=lambda test: test[1].__code__.co_firstlineno)
    failed = 0
    print(f'1..{len(tests)}')
    for number, (name, function) in enumerate(tests, 1):
        name = name[len('test_'):]
        try:
            function(argument)
            print(f'ok {number} - {name}', flush=True)
        except Skip as reason:
            print(f'ok {number} - {name} # SKIP {reason}', flush=True)
        except Exception:  # an assertion, a timeout, a broken pipe: each is a failure of this test alone
            failed += 1
            print(f'not ok {number} - {name}')
            text = '\n'.join('# ' + line for line in traceback.format_exc().rstrip().split('\n'))
            print(text, flush=True)
            print(f'# {name}\n{text}', file=sys.stderr, flush=True)  # the part that `meson test --print-errorlogs` shows
            if hasattr(argument, 'clean_up'):
                argument.clean_up()
    sys.exit(1 if failed else 0)
