# SPDX-License-Identifier: Apache-2.0
"""From samples to figures: medians, 95th percentiles, and the ratios with the goals they are held against."""
import math


def quantile(values, q):
    """The smallest value that at least the share q of all is not above."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def summary(samples):
    """{part: {n, median, p95, min}} in nanoseconds; the part "total" is the whole sample."""
    out = {}
    for key in dict.fromkeys(key for sample in samples for key in sample):
        values = [sample[key] for sample in samples if key in sample]
        out[key] = {'n': len(values), 'median': median(values), 'p95': quantile(values, 0.95), 'min': min(values)}
    return out


class Goal:
    """`value(figures)` is None where a figure is missing; met when it is not above (or, `at_least`, not below) the limit."""

    def __init__(self, key, title, limit, unit, value, at_least=False):
        self.key, self.title, self.limit, self.unit, self.value, self.at_least = key, title, limit, unit, value, at_least

    def result(self, figures, mode):
        value = self.value(figures, mode)
        if value is None:
            return None
        met = value >= self.limit if self.at_least else value <= self.limit
        return {'key': self.key, 'title': self.title, 'mode': mode, 'value': value, 'limit': self.limit, 'unit': self.unit,
                'at_least': self.at_least, 'met': met}


def _figure(figures, mode, group, name, part='total'):
    try:
        return figures['groups'][group]['contenders'][name]['modes'][mode][part]['median']
    except KeyError:
        return None


def _ratio(group, name, other, part='total', inverse=False):
    def value(figures, mode):
        a, b = _figure(figures, mode, group, name, part), _figure(figures, mode, group, other, part)
        if a is None or b is None:
            return None
        return b / a if inverse else a / b
    return value


def _ms(group, name, part='total'):
    def value(figures, mode):
        ns = _figure(figures, mode, group, name, part)
        return None if ns is None else ns / 1e6
    return value


def _part_ratio(part):
    def value(figures, mode):
        a, b = _figure(figures, mode, 'many', 'library', part), _figure(figures, mode, 'many', 'crun')
        return None if a is None or b is None else a / b
    return value


def _stats_ratio(figures, mode):
    a, b = _figure(figures, mode, 'stats', 'library'), _figure(figures, mode, 'stats', 'library', 'raw')
    return None if a is None or b is None else a / b


def _log_speed(figures, mode):
    ns = _figure(figures, mode, 'log', 'library')
    return None if ns is None else figures.get('log_bytes', 1 << 30) / (1 << 20) / (ns / 1e9)


def _size(figures, mode):
    size = figures.get('library_bytes')
    return size / 1e6 if size and mode == 'tight' else None


GOALS = [
    Goal('lifecycle', 'create + start + true + delete, C API / bwrap --unshare-all', 1.0, '×', _ratio('lifecycle', 'library', 'bwrap')),
    Goal('command', 'sandbox run --image / bwrap --unshare-all', 1.5, '×', _ratio('lifecycle', 'command', 'bwrap')),
    Goal('exec', 'exec of the smallest program in a live sandbox, C API', 0.3, 'ms', _ms('exec', 'library-tiny')),
    Goal('exec-true', 'exec of busybox true in a live sandbox, C API', 0.3, 'ms', _ms('exec', 'library')),
    Goal('exec-crun', 'exec of busybox true, C API / crun exec', 1 / 15, '×', _ratio('exec', 'library', 'crun')),
    Goal('stdout', '1 GiB of stdout, speed / a plain pipe', 0.95, '×', _ratio('stdout', 'library', 'plain', inverse=True), at_least=True),
    Goal('log', '1 GiB into a daemon\'s log, with its cap', 500, 'MiB/s', _log_speed, at_least=True),
    Goal('open', 'open a host', 2.0, 'ms', _ms('open', 'library')),
    Goal('reopen', 'reopen a sandbox by its id', 1.0, 'ms', _ms('many', 'library', 'reopen')),
    Goal('list', 'list 1,000 sandboxes', 50.0, 'ms', _ms('many', 'library')),
    Goal('open-many', 'open a host with 1,000 sandboxes', 2.0, 'ms', _ms('many', 'library', 'open')),
    Goal('dial-open', 'dial and first byte / raw connect', 2.0, '×', _ratio('dial', 'library', 'raw')),
    Goal('dial-bulk', '64 MiB through dial, speed / raw TCP', 0.95, '×', _ratio('dial', 'library', 'raw', 'bulk', inverse=True), at_least=True),
    Goal('dial-first', 'the first connection after a server is ready', 10.0, 'ms', _ms('dial', 'library', 'first')),
    Goal('upload', 'upload of a tar with 1 GiB, speed / tar -x', 0.8, '×', _ratio('upload', 'library', 'tar', inverse=True), at_least=True),
    Goal('upload-small', 'upload of a tar with 10,000 small files / tar -x', 1.5, '×', _ratio('upload-small', 'library', 'tar')),
    Goal('size', 'libsandbox.so with the agents, stripped', 3.0, 'MB', _size),
]
# Shown beside them, without a goal: what it is made of.
RATIOS = [
    ('C API / raw calls with user namespace', _ratio('lifecycle', 'library', 'floor-sandbox-user')),
    ('C API / bwrap on an overlay', _ratio('lifecycle', 'library', 'bwrap-overlay')),
    ('C API / crun run', _ratio('lifecycle', 'library', 'crun')),
    ('C API / runc run', _ratio('lifecycle', 'library', 'runc')),
    ('sandbox run (image host) / bwrap --unshare-all', _ratio('lifecycle', 'command-host', 'bwrap')),
    ('sandbox run --image / crun run', _ratio('lifecycle', 'command', 'crun')),
    ('exec of busybox true, C API / vfork + exec of it on the host', _ratio('exec', 'library', 'floor-vfork')),
    ('exec of the smallest program, C API / vfork + exec of it', _ratio('exec', 'library-tiny', 'floor-vfork-tiny')),
    ('exec, C API / runc exec', _ratio('exec', 'library', 'runc')),
    ('1 GiB into a daemon\'s log, speed / a pipe into cat into a file', _ratio('log', 'library', 'plain', inverse=True)),
    ('100 connections through a forward / a plain relay', _ratio('forward', 'library', 'relay', 'many')),
    ('64 MiB through a forward, speed / a plain relay', _ratio('forward', 'library', 'relay', 'bulk', inverse=True)),
    ('100 connections through a forward / socat', _ratio('forward', 'library', 'socat', 'many')),
    ('64 MiB through a forward, speed / socat', _ratio('forward', 'library', 'socat', 'bulk', inverse=True)),
    ('reopen by id / crun state', _part_ratio('reopen')),
    ('inspect / crun state', _part_ratio('inspect')),
    ('statistics of 100 sandboxes / their files read in a loop', _stats_ratio),
    ('sandbox exec / crun exec', _ratio('exec', 'command', 'crun')),
]


def goals(figures, modes):
    return [r for goal in GOALS for mode in modes for r in [goal.result(figures, mode)] if r]


def ratios(figures, modes):
    out = []
    for title, value in RATIOS:
        for mode in modes:
            v = value(figures, mode)
            if v is not None:
                out.append({'title': title, 'mode': mode, 'value': v})
    return out


def time_text(ns):
    return f'{ns / 1e3:,.0f} µs' if ns < 1e6 else f'{ns / 1e6:,.2f} ms' if ns < 1e9 else f'{ns / 1e9:,.3f} s'


def shorten(text, most):
    return text if len(text) <= most else text[:most - 1] + '…'


def table(figures, modes):
    """The whole result as text for people."""
    lines = []
    for key, group in figures['groups'].items():
        lines += ['', group['title'], f'  {"":34}' + ''.join(f'{mode + " median":>18}{"p95":>12}' for mode in modes)]
        for entry in group['contenders'].values():
            cells = ''
            for mode in modes:
                total = entry['modes'].get(mode, {}).get('total')
                cells += f'{time_text(total["median"]):>18}{time_text(total["p95"]):>12}' if total else f'{"-":>18}{"-":>12}'
            lines.append(f'  {entry["title"]:34}{cells}' + (f'   {shorten(entry["note"], 90)}' if entry['note'] else ''))
            for part, s in entry['modes'].get(modes[0], {}).items():
                if part != 'total':
                    lines.append(f'    · {part:30}{time_text(s["median"]):>18}{time_text(s["p95"]):>12}')
    lines += ['', f'{"Goal":62}{"mode":>8}{"figure":>12}{"goal":>12}']
    for g in figures['goals']:
        sign = '≥' if g['at_least'] else '≤'
        lines.append(f'{g["title"]:62}{g["mode"]:>8}{g["value"]:>9.3f} {g["unit"]:2}{sign + " " + format(g["limit"], ".3g"):>9} {g["unit"]:2} '
                     + ('met' if g['met'] else 'MISSED'))
    lines += ['', f'{"Ratio":62}{"mode":>8}{"":>3}']
    lines += [f'{r["title"]:62}{r["mode"]:>8}{r["value"]:>9.3f} ×' for r in figures['ratios']]
    return '\n'.join(lines) + '\n'
