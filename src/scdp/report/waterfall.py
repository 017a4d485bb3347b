"""The waterfall of a pair: an explanation enters; a picture of its own leaves, as one SVG text.

Each bar starts where the one before it ended: from any two records, by what each comparison says, to these two.
"""

from __future__ import annotations

from math import ceil, floor
from typing import TYPE_CHECKING

from scdp.report.layout import shortened, shown

if TYPE_CHECKING:
    from scdp.estimators.explanation import Explanation, FeatureEvidence

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
        name = shown(shortened(step.name, LONGEST_NAME))
        parts.append(
            f'<text x="{LEFT - 10}" y="{y + 13:.0f}" text-anchor="end">{name}</text>'
            f'<rect class="{kind}" x="{start:.1f}" y="{y:.0f}" width="{max(end - start, 1.5):.1f}" height="{BAR}"/>'
            f'<text x="{end + 5:.1f}" y="{y + 13:.0f}">{change:+.2f}</text>'
        )
        if not is_end:
            words = shown(_say_cells(ordered[place - 1]))
            parts.append(f'<text class="soft" x="{LEFT + WIDE + 10:.0f}" y="{y + 13:.0f}">{words}</text>')
        if place < len(steps) - 2:
            at = x(step.after)
            parts.append(
                f'<line class="link" x1="{at:.1f}" x2="{at:.1f}" y1="{y + BAR:.0f}" y2="{y + ROW:.0f}"/>'
            )
    label = "log-odds: to the right for the same, to the left for different"
    parts.append(
        f'<text class="soft" x="{LEFT + WIDE / 2:.0f}" y="{bottom + 34:.0f}" text-anchor="middle">{label}</text>'
    )
    title = f"Waterfall of the log-odds of {explanation.first} and {explanation.second}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{shown(title)}"><style>{STYLE}</style>{"".join(parts)}</svg>\n'
    )


def _heading(explanation: Explanation) -> str:
    names = " and ".join(shortened(name, 30) for name in (explanation.first, explanation.second))
    words = f"the same with probability {explanation.probability:.3f}, with all other records weighed too"
    return (
        f'<text x="14" y="22" style="font-weight:600">{shown(names)}</text>'
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
        return shortened(f"both {feature.first}", LONGEST_CELLS)
    half = LONGEST_CELLS // 2 - 1
    one, two = (
        "nothing" if cell is None else shortened(cell, half) for cell in (feature.first, feature.second)
    )
    return f"{one} | {two}"
