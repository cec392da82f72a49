# SPDX-License-Identifier: Apache-2.0
"""The figures as one SVG: bars of medians with a mark at the 95th percentile, and each goal as a bar against its limit."""
from xml.sax.saxutils import escape

from figures import time_text

WIDTH, LEFT, RIGHT, ROW, HEAD = 940, 270, 150, 24, 58
INK, MUTED, GRID = '#1d2733', '#657282', '#dfe4ea'
OURS, FLOOR, PEERS, MISSED = '#0a7d6c', '#b9c2cc', '#6d8fb8', '#c2472b'
FONT = 'font-family="Inter, \'DejaVu Sans\', Helvetica, Arial, sans-serif"'


class Drawing:
    def __init__(self):
        self.parts, self.y = [], 24

    def text(self, x, y, text, size=12, fill=INK, anchor='start', weight='normal'):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
                          f'font-weight="{weight}">{escape(text)}</text>')

    def rect(self, x, y, width, height, fill, radius=2):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height}" rx="{radius}" fill="{fill}"/>')

    def line(self, x1, y1, x2, y2, stroke, width=1, dash=''):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" stroke-width="{width}"'
                          + (f' stroke-dasharray="{dash}"' if dash else '') + '/>')

    def svg(self):
        height = self.y + 16
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" {FONT}>\n'
                f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n' + '\n'.join(self.parts) + '\n</svg>\n')


def step(most):
    """A round distance between grid lines that gives three to seven of them."""
    size = 1.0
    while size * 7 < most:
        size *= 10
    while size * 3 > most:
        size /= 10
    return next(size * f for f in (1, 2, 5, 10) if size * f * 7 >= most)


def axis_text(ns):
    return '0' if not ns else f'{ns / 1e3:g} µs' if ns < 1e6 else f'{ns / 1e6:g} ms'


def colour(name):
    return OURS if name.startswith(('library', 'command')) else FLOOR if name.startswith('floor') or name.startswith(('plain', 'raw')) \
        else PEERS


def bars(drawing, title, note, rows):
    """rows: (label, colour, median ns, p95 ns or None)."""
    if not rows:
        return
    middle = max(row[2] for row in rows)
    most = max(middle, *(min(row[3], middle * 1.4) for row in rows)) * 1.03  # one wild percentile does not flatten the rest
    span = WIDTH - LEFT - RIGHT
    drawing.text(20, drawing.y + 14, title, 15, weight='bold')
    drawing.text(20, drawing.y + 33, note, 11, MUTED)
    top, bottom = drawing.y + HEAD - 8, drawing.y + HEAD + ROW * len(rows)
    at, size = 0.0, step(most)
    while at <= most:
        x = LEFT + span * at / most
        drawing.line(x, top, x, bottom, GRID)
        drawing.text(x, bottom + 14, axis_text(at), 10, MUTED, 'middle')
        at += size
    for i, (label, fill, middle, high) in enumerate(rows):
        y = drawing.y + HEAD + i * ROW
        x = LEFT + span * middle / most
        drawing.text(LEFT - 10, y + 13, label, 12, anchor='end')
        drawing.rect(LEFT, y + 2, x - LEFT, ROW - 8, fill)
        end = x
        if high is not None:
            end = min(LEFT + span * high / most, LEFT + span)
            drawing.line(x, y + 10, end, y + 10, INK)
            if LEFT + span * high / most > end:  # beyond the picture
                drawing.text(end - 3, y + 14, '›', 13, INK)
            else:
                drawing.line(end, y + 5, end, y + 15, INK)
        drawing.text(max(end, x) + 6, y + 14, time_text(middle), 11, INK)
    drawing.y = bottom + 34


def goal_bars(drawing, goals):
    """Each goal on a scale of its own, its limit always at the same place; what is met ends on the good side of the line."""
    span, limit_at = WIDTH - LEFT - 250 - RIGHT, 0.6
    left = LEFT + 190
    drawing.text(20, drawing.y + 14, 'Goals', 15, weight='bold')
    drawing.text(20, drawing.y + 33, 'the line is the goal; green: met', 11, MUTED)
    for i, goal in enumerate(goals):
        y = drawing.y + HEAD - 8 + i * ROW
        share = min(goal['value'] / goal['limit'] * limit_at, 1.0)
        sign = '≥' if goal['at_least'] else '≤'
        drawing.text(left - 10, y + 13, goal['title'], 12, anchor='end')
        drawing.rect(left, y + 2, span * share, ROW - 8, OURS if goal['met'] else MISSED)
        drawing.line(left + span * limit_at, y, left + span * limit_at, y + ROW - 4, INK, 2)
        drawing.text(left + span + 10, y + 14, f'{goal["value"]:.3g} {goal["unit"]}  ({sign} {goal["limit"]:.3g})', 11, INK)
    drawing.y += HEAD - 8 + len(goals) * ROW + 26


def draw(figures, modes):
    drawing = Drawing()
    drawing.text(20, drawing.y + 8, 'libsandbox against other ways to run a command apart', 18, weight='bold')
    drawing.text(20, drawing.y + 28, figures['caption'], 11, MUTED)
    drawing.y += 52
    names = {'tight': 'back to back', 'paused': 'after pauses of 200 to 300 ms'}
    for key in ('lifecycle', 'exec'):
        group = figures['groups'].get(key)
        if not group:
            continue
        for mode in modes:
            rows = []
            for name, entry in group['contenders'].items():
                total = entry['modes'].get(mode, {}).get('total')
                if total:
                    rows.append((entry['title'], colour(name), total['median'], total['p95']))
            bars(drawing, f'{group["title"]}, {names.get(mode, mode)}', 'median; the thin line ends at the 95th percentile', rows)
    tight = [g for g in figures['goals'] if g['mode'] == modes[0]]
    if tight:
        goal_bars(drawing, tight)
    return drawing.svg()
