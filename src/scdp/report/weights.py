"""What was learned, for a page: precisions by reference type and feature enter; a heat map leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scdp.report.charts import INK, PAPER, Floats, in_short
from scdp.report.layout import section
from scdp.report.text import shortened, shown

if TYPE_CHECKING:
    from scdp.estimators.result import Learned

TITLE = "What was learned"
MOST_TYPES = 6
MOST_FEATURES = 24
# Types rarer than this are left out: chains always hold a few that were opened a moment ago.
SMALLEST_SHARE = 0.005


def weights_section(learned: Learned) -> str:
    """A table with a row a feature and a column a type, the darker the more an agreement there counts."""
    if learned.weights is None:
        return section(TITLE, f"<p>The model {shown(learned.model)} has no weights for features.</p>")
    weights = np.asarray(learned.weights, np.float64)
    shares = _shares(learned, len(weights))
    types = [k for k, share in enumerate(shares) if share >= SMALLEST_SHARE or k == 0][:MOST_TYPES]
    features = _heaviest(weights, shares)
    shades = _shades(weights[np.ix_(types, features)])
    rows = [_head(types, shares)]
    for place, feature in enumerate(features):
        cells = "".join(_cell(weights[k, feature], shades[row, place]) for row, k in enumerate(types))
        rows.append(f"<tr><th>{shown(shortened(learned.features[feature], 40))}</th>{cells}</tr>")
    table = f'<div class="scroll"><table class="heat">{"".join(rows)}</table></div>'
    left_out = len(weights) - len(types), weights.shape[1] - len(features)
    return section(TITLE, table, _note(*left_out))


def _shares(learned: Learned, n_types: int) -> Floats:
    return np.full(n_types, 1 / n_types) if learned.type_shares is None else np.asarray(learned.type_shares)


def _heaviest(weights: Floats, shares: Floats) -> list[int]:
    """Features in their order, or those of most weight where there are too many for a page."""
    order = np.argsort(-(shares @ weights), kind="stable")[:MOST_FEATURES]
    return sorted(order.tolist())


def _shades(weights: Floats) -> Floats:
    """From 0 (the least weight shown) to 1 (the most), by orders of magnitude."""
    logs = np.log10(np.maximum(weights, 1e-12))
    room = logs.max() - logs.min()
    return (logs - logs.min()) / room if room > 0 else np.full(logs.shape, 0.5)


def _head(types: list[int], shares: Floats) -> str:
    cells = "".join(f"<th>type {k + 1}<br>{shares[k]:.0%}</th>" for k in types)
    return f"<tr><th></th>{cells}</tr>"


def _cell(weight: float, shade: float) -> str:
    red, green, blue = (PAPER + shade * (INK - PAPER)).round().astype(int)
    ink = "#fff" if shade > 0.5 else "#17212b"
    return f'<td style="background:rgb({red},{green},{blue});color:{ink}">{in_short(weight)}</td>'


def _note(types: int, features: int) -> str:
    note = (
        "Weights of the features in each reference type (a way of writing records), with the share of records written "
        "so. The darker, the more records of one cluster agree in that feature, and the more a difference in it counts."
    )
    counted = ((types, "rarer type"), (features, "lighter feature"))
    rest = [f"{number} {what}{'' if number == 1 else 's'}" for number, what in counted if number]
    return f"{note} Not shown: {' and '.join(rest)}." if rest else note
