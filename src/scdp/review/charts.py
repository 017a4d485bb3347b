"""Pictures of the pages: what each comparison adds to the log-odds of a pair, and the graph of a cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scdp._typing import Integers
from scdp.report.layout import shown
from scdp.review.beliefs import Beliefs
from scdp.review.view import TableView, Weight

# Bars of a waterfall; smaller ones are left out.
MOST_BARS = 12
LEAST_SHOWN = 0.05


def waterfall(weights: Sequence[Weight]) -> str:
    """Log-odds added up from top to bottom, one bar a comparison."""
    steps = [weights[0], *sorted(weights[1:], key=lambda each: -abs(each.log_odds))]
    steps = [each for each in steps if abs(each.log_odds) >= LEAST_SHOWN][:MOST_BARS] or steps[:1]
    sums = np.cumsum([each.log_odds for each in steps])
    low, high = min(0.0, float(sums.min())), max(0.0, float(sums.max()))
    scale = 100.0 / max(high - low, 1e-9)
    zero, before, lines = -low * scale, 0.0, []
    for each in steps:
        begin, end = sorted((before, before + each.log_odds))
        kind = "for" if each.log_odds > 0 else "against"
        lines.append(
            f'<li><span>{shown(each.name)}</span><svg viewBox="0 0 100 16" preserveAspectRatio="none" '
            f'aria-hidden="true"><rect class="{kind}" x="{(begin - low) * scale:.1f}" y="3" '
            f'width="{max((end - begin) * scale, 0.3):.1f}" height="10"></rect>'
            f'<line class="axis" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="16"></line></svg>'
            f"<b>{each.log_odds:+.1f}</b></li>"
        )
        before += each.log_odds
    total = sum(each.log_odds for each in weights)
    lines.append(f"<li><span>log-odds of the two alone</span><i></i><b>{total:+.1f}</b></li>")
    return f'<ul class="waterfall">{"".join(lines)}</ul>'


def graph(beliefs: Beliefs, view: TableView, members: Integers, near: Sequence[int]) -> str:
    """Records on a circle; the thicker a line, the likelier its two are the same. Near records are dashed."""
    rows = [*members.tolist(), *near]
    if len(rows) < 2:
        return '<p class="soft">One record, and none near it.</p>'
    draws = beliefs.columns(np.array(rows, dtype=np.int64))
    angle = [2.0 * math.pi * place / len(rows) - math.pi / 2 for place in range(len(rows))]
    at = [(380 + 150 * math.cos(each), 190 + 150 * math.sin(each)) for each in angle]
    lines = []
    for one in range(len(rows)):
        for other in range(one + 1, len(rows)):
            p = float((draws[:, one] == draws[:, other]).mean())
            if p > 0.02:
                dashed = " near" if other >= len(members) else ""
                (x1, y1), (x2, y2) = at[one], at[other]
                lines.append(
                    f'<line class="edge{dashed}" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" '
                    f'stroke-width="{0.5 + 4 * p:.1f}" stroke-opacity="{0.25 + 0.6 * p:.2f}">'
                    f"<title>{p:.2f}</title></line>"
                )
    for place, (row, (x, y)) in enumerate(zip(rows, at, strict=True)):
        dashed = " near" if place >= len(members) else ""
        anchor = "start" if x > 380.5 else "end" if x < 379.5 else "middle"
        shift = 12 if anchor == "start" else -12 if anchor == "end" else 0
        lines.append(
            f'<a href="/cluster?row={row}"><circle class="node{dashed}" cx="{x:.0f}" cy="{y:.0f}" r="8"></circle>'
            f'<text x="{x + shift:.0f}" y="{y + (5 if shift else -14):.0f}" text-anchor="{anchor}">'
            f"{shown(_short(str(view.ids[row])))}</text></a>"
        )
    return f'<svg viewBox="0 0 760 390" role="img" aria-label="graph of the cluster">{"".join(lines)}</svg>'


def _short(name: str, longest: int = 24) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
