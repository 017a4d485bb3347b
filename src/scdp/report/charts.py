"""Small charts: arrays enter, inline SVG or PNG text for an HTML page leaves, without a plotting library.

Waterfall. Each bar starts where the one before it ended: from any two records, by what each comparison says, to these
two.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import ceil, floor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats
from scdp.report import escape, shorten

if TYPE_CHECKING:
    from scdp.estimators.explanation import Explanation, FeatureEvidence


# Okabe and Ito's colours: they differ for colour-blind readers too, and are seen on white and on black.
LINES = ("var(--blue)", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
MOST_BARS = 48
MOST_POINTS = 400
SIZE_STARTS = (1, 2, 3, 4, 5, 10, 20, 50, 100, 1000)
# Links less often drawn than this are left out of a graph.
LEAST_DRAWN = 0.02
LONGEST_LABEL = 12

Integers = NDArray[np.integer[Any]]


def histogram(counts: Integers, interval: tuple[int, int], truth: int | None = None, word: str = "true") -> str:
    """How often each whole number occurs, as bars; those in the interval are dark, the truth is a line.

    Where there are too many numbers for a bar each, neighbours share one. `word` is what the line is called.
    """
    counts = np.asarray(counts).ravel()
    ends = [counts.min(), counts.max()] + ([] if truth is None else [truth])
    low, high = int(min(ends)) - 1, int(max(ends)) + 1
    width = 1 + (high - low) // MOST_BARS
    shares = np.bincount((counts - low) // width, minlength=(high - low) // width + 1) / len(counts)
    step, base, tall = 420 / len(shares), 190.0, 150.0
    parts = []
    for place, share in enumerate(shares.tolist()):
        first, height = low + place * width, tall * share / float(shares.max())
        last = first + width - 1
        shade = "blue" if interval[0] <= last and first <= interval[1] else "pale"
        x = 20 + place * step
        if share > 0:
            values = f"{first}" if width == 1 else f"{first} to {last}"
            parts.append(_bar(x, base - height, step, height, shade, f"{values}: {share:.1%}"))
        if _is_ticked(place, len(shares), len(str(high))):
            parts.append(f'<text x="{x + step / 2:.1f}" y="208" text-anchor="middle">{first}</text>')
    parts.append(f'<line x1="20" y1="{base}" x2="440" y2="{base}" style="stroke:var(--axis)"/>')
    if truth is not None:
        parts.append(_truth_line(20 + (truth - low + 0.5) * step / width, f"{word}: {truth}"))
    return make_svg(460, 216, parts, "Histogram of the number of clusters over the draws")


def _bar(x: float, y: float, step: float, height: float, colour: str, title: str) -> str:
    return (
        f'<rect x="{x + 0.08 * step:.1f}" y="{y:.1f}" width="{0.84 * step:.1f}" '
        f'height="{height:.1f}" rx="2" style="fill:var(--{colour})"><title>{title}</title></rect>'
    )


def _is_ticked(place: int, bars: int, digits: int) -> bool:
    most = int(420 // (9 * digits + 8))
    return place % (1 + (bars - 1) // most) == 0


def _truth_line(x: float, text: str) -> str:
    # The text keeps clear of the edges.
    middle = min(max(x, 45.0), 415.0)
    return (
        f'<line x1="{x:.1f}" y1="24" x2="{x:.1f}" y2="190" style="stroke:var(--orange);stroke-width:2;'
        'stroke-dasharray:4 3"/>'
        f'<text x="{middle:.1f}" y="16" text-anchor="middle" style="fill:var(--orange)">{text}</text>'
    )


def size_bars(sizes: Integers) -> str:
    """How many clusters there are of each size; large sizes share a bar."""
    classes = size_classes(np.asarray(sizes))
    step, base, tall = 420 / len(classes), 190.0, 150.0
    most = max(number for _, number in classes)
    parts = []
    for place, (name, number) in enumerate(classes):
        x, height = 20 + place * step, tall * number / most
        middle = f'x="{x + step / 2:.1f}" text-anchor="middle"'
        parts.append(f'<text {middle} y="208">{name}</text>')
        if number:
            parts.append(_bar(x, base - height, step, height, "green", f"{number} clusters of {name}"))
            parts.append(f'<text {middle} y="{base - height - 5:.1f}">{number}</text>')
    parts.append(f'<line x1="20" y1="{base}" x2="440" y2="{base}" style="stroke:var(--axis)"/>')
    return make_svg(460, 216, parts, "Bars: how many clusters there are of each size")


def size_classes(sizes: Integers) -> list[tuple[str, int]]:
    """Names of sizes, such as 4 and 5-9, up to the largest there is, and how many clusters have them."""
    starts = [start for start in SIZE_STARTS if start <= sizes.max()]
    ends = [after - 1 for after in SIZE_STARTS[1 : len(starts) + 1]]
    classes = []
    for place, start in enumerate(starts):
        end = ends[place] if place < len(ends) else None
        name = f"{start}+" if end is None else f"{start}" if end == start else f"{start}–{end}"
        here = (sizes >= start) & (sizes <= (sizes.max() if end is None else end))
        classes.append((name, int(here.sum())))
    return classes


def calibration_plot(predicted: Floats, observed: Floats, count: Integers) -> str:
    """The observed share against the predicted probability, a dot a bin as large as it is full; best on the line."""
    left, top, edge = 56.0, 14.0, 320.0
    parts = [
        f'<rect x="{left}" y="{top}" width="{edge}" height="{edge}" style="fill:var(--field);stroke:var(--line)"/>',
        f'<path d="M{left} {top + edge}L{left + edge} {top}" style="stroke:var(--axis)" stroke-dasharray="4 3"/>',
    ]
    for tick in (0.0, 0.5, 1.0):
        parts.append(f'<text x="{left - 6}" y="{top + edge * (1 - tick) + 4:.0f}" text-anchor="end">{tick:g}</text>')
        parts.append(f'<text x="{left + edge * tick:.0f}" y="{top + edge + 17}" text-anchor="middle">{tick:g}</text>')
    full = np.flatnonzero(count)
    largest = np.sqrt(count.max(initial=1))
    for place in full:
        x, y = left + edge * predicted[place], top + edge * (1 - observed[place])
        radius = 4 + 10 * np.sqrt(count[place]) / largest
        title = f"{count[place]} pairs: predicted {predicted[place]:.2f}, observed {observed[place]:.2f}"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill-opacity=".75" '
            f'style="fill:var(--blue);stroke:var(--card)"><title>{title}</title></circle>'
        )
    parts.append(f'<text x="{left + edge / 2}" y="{top + edge + 34}" text-anchor="middle">predicted probability</text>')
    parts.append(
        f'<text transform="translate(16 {top + edge / 2}) rotate(-90)" text-anchor="middle">truly together</text>'
    )
    return make_svg(400, 372, parts, "Calibration: observed share against predicted probability")


def trace_lines(values: Floats, name: str) -> str:
    """A scalar along the draws, a line a chain; values (chain, draw)."""
    left, top, wide, tall = 56.0, 8.0, 392.0, 96.0
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    room = (high - low) or 1.0
    draws = np.unique(np.linspace(0, values.shape[1] - 1, MOST_POINTS).round().astype(int))
    parts = [f'<path d="M{left} {top}V{top + tall}H{left + wide}" fill="none" style="stroke:var(--axis)"/>']
    for chain, row in enumerate(values[:, draws]):
        kept = np.isfinite(row)
        x = left + wide * draws[kept] / max(values.shape[1] - 1, 1)
        y = top + tall * (1 - (row[kept] - low) / room)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
        colour = LINES[chain % len(LINES)]
        parts.append(f'<polyline points="{points}" fill="none" style="stroke:{colour}" stroke-opacity=".8"/>')
    for value, y in {high: top + 10, low: top + tall}.items():
        parts.append(f'<text x="{left - 5}" y="{y:.0f}" text-anchor="end">{format_short(value)}</text>')
    return make_svg(460, 112, parts, f"Trace of {name} along the draws, a line for each chain")


def weight_bars(names: Sequence[str], weights: Floats, words: Sequence[str]) -> str:
    """A bar for each name as long as its weight, with words beside it; HTML, as names are long."""
    most = float(np.max(weights, initial=0.0)) or 1.0
    lines = [
        f'<div><span>{escape(name)}</span><i style="width:{100 * weight / most:.1f}%"></i>'
        f"<small>{escape(word)}</small></div>"
        for name, weight, word in zip(names, weights.tolist(), words, strict=True)
    ]
    return f'<div class="bars">{"".join(lines)}</div>'


def together_map(together: Floats, names: Sequence[str]) -> str:
    """A square for each pair of items, the darker the more often they are together."""
    n, left, top = len(names), 92.0, 8.0
    edge = 320.0 / n
    parts = []
    for i, j in np.ndindex(n, n):
        title = f"{escape(names[i])} and {escape(names[j])}: {together[i, j]:.2f}"
        parts.append(
            f'<rect x="{left + j * edge:.1f}" y="{top + i * edge:.1f}" width="{edge - 1:.1f}" height="{edge - 1:.1f}" '
            f'style="fill:var(--blue)" fill-opacity="{0.06 + 0.94 * together[i, j]:.2f}"><title>{title}</title></rect>'
        )
    for i, name in enumerate(names):
        y = top + (i + 0.5) * edge + 4
        parts.append(f'<text x="{left - 6}" y="{y:.1f}" text-anchor="end">{_label(name)}</text>')
    return make_svg(420, 336, parts, "Map: how often any two of these records are together")


def cluster_graph(together: Floats, names: Sequence[str], side: Integers) -> str:
    """Items on a circle, joined by lines as thick as they are often together; `side` is the cluster of each."""
    n = len(names)
    angle = 2 * np.pi * np.arange(n) / max(n, 1) - np.pi / 2
    x, y = 210 + 110 * np.cos(angle), 168 + 120 * np.sin(angle)
    parts = []
    for i, j in combinations(range(n), 2):
        p = float(together[i, j])
        if p >= LEAST_DRAWN:
            parts.append(
                f'<line x1="{x[i]:.1f}" y1="{y[i]:.1f}" x2="{x[j]:.1f}" y2="{y[j]:.1f}" stroke-width="{1 + 5 * p:.1f}" '
                f'stroke-opacity="{0.15 + 0.75 * p:.2f}" style="stroke:var(--blue)"><title>{escape(names[i])} and '
                f"{escape(names[j])}: {p:.2f}</title></line>"
            )
    for i, name in enumerate(names):
        colour = ("green", "amber", "orange")[int(side[i]) % 3]
        anchor = "middle" if abs(x[i] - 210) < 20 else "start" if x[i] > 210 else "end"
        away = 0 if anchor == "middle" else 12 if anchor == "start" else -12
        down = 4 if anchor != "middle" else -13 if y[i] < 168 else 22
        parts.append(
            f'<circle cx="{x[i]:.1f}" cy="{y[i]:.1f}" r="7" style="fill:var(--{colour});stroke:var(--card)"/>'
            f'<text x="{x[i] + away:.1f}" y="{y[i] + down:.1f}" text-anchor="{anchor}">{_label(name)}</text>'
        )
    return make_svg(420, 336, parts, "Graph: these records, joined the more strongly the more often they are together")


def _label(name: str) -> str:
    return escape(shorten(name, LONGEST_LABEL))


def format_short(value: float) -> str:
    """A number in about three digits, never in powers of ten where plain digits are short enough."""
    if not np.isfinite(value):
        return "–"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.0e}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def make_svg(width: int, height: int, parts: list[str], title: str) -> str:
    """A picture from parts that are markup already; the title is for those who cannot see it."""
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


LEFT, WIDE, RIGHT = 240.0, 420.0, 250.0
# Room for the number beside the longest bar.
NUMBER = 52.0
TOP, ROW, BAR = 56.0, 30.0, 16.0
LONGEST_NAME, LONGEST_CELLS = 30, 36
# A picture that is opened by itself brings its colours, for the light and for the dark.
STYLE = """
svg{--card:#fff;--ink:#17212b;--soft:#566471;--line:#dde3e9;--for:#0072b2;--against:#b34700;--sum:#566471;
font:13px system-ui,-apple-system,"Segoe UI",sans-serif}
@media(prefers-color-scheme:dark){svg{--card:#1b2229;--ink:#e6ebf0;--soft:#a3b1be;--line:#323c46;--for:#62b5ea;
--against:#f29a5b;--sum:#a3b1be}}
.card{fill:var(--card)}text{fill:var(--ink)}.soft{fill:var(--soft)}.grid{stroke:var(--line)}.zero{stroke:var(--soft)}
.for{fill:var(--for)}.against{fill:var(--against)}.sum{fill:var(--sum)}.link{stroke:var(--soft);stroke-dasharray:2 2}
"""


def waterfall_svg(explanation: Explanation) -> str:
    """The picture; the title is for those who cannot see it."""
    steps = explanation.steps()
    values = [0.0, *(value for step in steps for value in (step.before, step.after))]
    low, high = floor(min(values)) - 0.5, ceil(max(values)) + 0.5
    width, height = LEFT + WIDE + RIGHT, TOP + ROW * len(steps) + 44

    def x(value: float) -> float:
        return LEFT + (WIDE - NUMBER) * (value - low) / (high - low)

    bottom = TOP + ROW * len(steps)
    parts = [f'<rect class="card" width="{width:.0f}" height="{height:.0f}"/>', _heading(explanation)]
    for tick in _choose_ticks(low, high):
        kind = "zero" if tick == 0 else "grid"
        parts.append(
            f'<line class="{kind}" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP - 6}" y2="{bottom:.0f}"/>'
            f'<text class="soft" x="{x(tick):.1f}" y="{bottom + 16:.0f}" text-anchor="middle">{tick:+d}</text>'
        )
    ordered = sorted(explanation.features, key=lambda each: -abs(each.contribution))
    for place, step in enumerate(steps):
        y = TOP + ROW * place
        change = step.after - step.before
        is_end = place in (0, len(steps) - 1)
        kind = "sum" if is_end else "for" if change >= 0 else "against"
        start, end = sorted((x(step.before), x(step.after)))
        name = escape(shorten(step.name, LONGEST_NAME))
        parts.append(
            f'<text x="{LEFT - 10}" y="{y + 13:.0f}" text-anchor="end">{name}</text>'
            f'<rect class="{kind}" x="{start:.1f}" y="{y:.0f}" width="{max(end - start, 1.5):.1f}" height="{BAR}"/>'
            f'<text x="{end + 5:.1f}" y="{y + 13:.0f}">{change:+.2f}</text>'
        )
        if not is_end:
            words = escape(_say_cells(ordered[place - 1]))
            parts.append(f'<text class="soft" x="{LEFT + WIDE + 10:.0f}" y="{y + 13:.0f}">{words}</text>')
        if place < len(steps) - 2:
            at = x(step.after)
            parts.append(f'<line class="link" x1="{at:.1f}" x2="{at:.1f}" y1="{y + BAR:.0f}" y2="{y + ROW:.0f}"/>')
    label = "log-odds: to the right for the same, to the left for different"
    parts.append(
        f'<text class="soft" x="{LEFT + WIDE / 2:.0f}" y="{bottom + 34:.0f}" text-anchor="middle">{label}</text>'
    )
    title = f"Waterfall of the log-odds of {explanation.first} and {explanation.second}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}"><style>{STYLE}</style>{"".join(parts)}</svg>\n'
    )


def _heading(explanation: Explanation) -> str:
    names = " and ".join(shorten(name, 30) for name in (explanation.first, explanation.second))
    words = f"the same with probability {explanation.probability:.3f}, with all other records weighed too"
    return (
        f'<text x="14" y="22" style="font-weight:600">{escape(names)}</text>'
        f'<text class="soft" x="14" y="40">{words}</text>'
    )


def _choose_ticks(low: float, high: float) -> list[int]:
    step = max(1, ceil((high - low) / 8))
    first = ceil(low / step) * step
    return list(range(first, floor(high) + 1, step))


def _say_cells(feature: FeatureEvidence) -> str:
    if feature.first is None and feature.second is None:
        return "" if feature.distance is not None else "missing in both"
    if feature.first == feature.second:
        return shorten(f"both {feature.first}", LONGEST_CELLS)
    half = LONGEST_CELLS // 2 - 1
    one, two = ("nothing" if cell is None else shorten(cell, half) for cell in (feature.first, feature.second))
    return f"{one} | {two}"
