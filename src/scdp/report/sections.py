"""Sections of a report: verdicts in words, the most uncertain decisions, and what was learned.

A decision is about one cluster (is it one?) or about two (are they one?), and is shown by its least certain pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scdp._typing import Floats
from scdp.report.charts import cluster_graph, in_short, together_map, weight_bars
from scdp.report.layout import MISSING, field_row, isolated, marked, section, shortened, shown

if TYPE_CHECKING:
    from scdp.estimators.result import Calibration, ClusterResult, Learned, UncertainPair
    from scdp.posterior import Diagnostic, Posterior


THRESHOLD = 1.05
# A bin of fewer pairs says little, and a share of them this far from the prediction is called off.
FEWEST_PAIRS = 20
LARGEST_GAP = 0.1

Verdict = tuple[str, bool]


def judge_chains(posterior: Posterior, rows: list[Diagnostic]) -> Verdict:
    """Whether the chains agree, and if not, what to do."""
    from scdp.posterior.diagnostics import describe_convergence

    problem = describe_convergence(rows, posterior.n_chains, posterior.n_draws, THRESHOLD)
    if problem is not None:
        return problem, False
    worst = max((row.rhat for row in rows if not np.isnan(row.rhat)), default=1.0)
    halves = "the two halves of the chain" if posterior.n_chains == 1 else f"the {posterior.n_chains} chains"
    words = f"Converged as far as can be told: {halves} agree (the largest R-hat is {worst:.2f}, 1 is best)."
    if posterior.n_chains == 1:
        return f"{words} Several chains (n_chains) would tell more.", True
    return words, True


def judge_independent(posterior: Posterior) -> Verdict:
    """Draws that come from no chain need no convergence, only enough of them."""
    total = posterior.n_chains * posterior.n_draws
    error = 0.5 / np.sqrt(total)
    return (
        f"This model draws each of its {total} clusterings anew, from no Markov chain: there are no chains to "
        f"disagree. A probability is read from them with a standard error of at most {error:.3f}.",
        True,
    )


def judge_calibration(calibration: Calibration) -> Verdict:
    """Whether probabilities can be taken at their word, or the bin in which they are furthest off."""
    full = np.flatnonzero(calibration.count >= FEWEST_PAIRS)
    if not len(full):
        return f"No bin has {FEWEST_PAIRS} held-out pairs: too few to judge the probabilities.", False
    gaps = calibration.predicted[full] - calibration.observed[full]
    worst = int(np.argmax(np.abs(gaps)))
    place = full[worst]
    if abs(gaps[worst]) <= LARGEST_GAP:
        return (
            f"The probabilities can be taken at their word: no bin with {FEWEST_PAIRS} held-out pairs or more is "
            f"off by more than {LARGEST_GAP:.2f} (at most {abs(gaps[worst]):.2f}).",
            True,
        )
    direction = "too high" if gaps[worst] > 0 else "too low"
    return (
        f"Take the probabilities with care: those near {calibration.predicted[place]:.2f} are {direction}, "
        f"{calibration.observed[place]:.2f} of such held-out pairs are truly together.",
        False,
    )


UNCERTAIN_TITLE = "The most uncertain decisions"
MOST_DECISIONS = 50
# A page that is opened on a phone has an end in sight; the others are one touch away.
FIRST_DECISIONS = 10


def uncertain_section(result: ClusterResult) -> str:
    """Up to fifty decisions, the least certain first."""
    if not result.uncertain:
        return section(UNCERTAIN_TITLE, "<p>No pair of records is uncertain.</p>")
    fields, compared = _fields(result), _compared(result)
    decisions = _decisions(result)
    tables = [_table(pairs, result, fields, compared) for pairs in decisions[:MOST_DECISIONS]]
    content = "\n".join(tables[:FIRST_DECISIONS])
    rest = tables[FIRST_DECISIONS:]
    if rest:
        content += f"<details><summary>Show {len(rest)} more</summary>{chr(10).join(rest)}</details>"
    note = "Words that the other record has not are marked."
    if not set(fields) <= compared:
        note += " Fields in grey are not compared by the model."
    if len(decisions) > MOST_DECISIONS:
        note += f" Not shown: {len(decisions) - MOST_DECISIONS:,} decisions that are less uncertain."
    return section(UNCERTAIN_TITLE, content, note)


def _decisions(result: ClusterResult) -> list[list[UncertainPair]]:
    """The pairs of each decision, in the order of their least certain ones."""
    found: dict[frozenset[Any], list[UncertainPair]] = {}
    for pair in result.uncertain:
        clusters = frozenset((result.labels[pair.left], result.labels[pair.right]))
        found.setdefault(clusters, []).append(pair)
    return list(found.values())


def _fields(result: ClusterResult) -> list[str]:
    """Compared fields first; the id stands above."""
    names = [name for name in result.records.names if name != result.id_column]
    compared = _compared(result)
    return sorted(names, key=lambda name: name not in compared)


def _compared(result: ClusterResult) -> set[str]:
    if result.spec is None:
        return set(result.records.names)
    return {column for comparison in result.spec.fields for column in comparison.columns}


def _table(pairs: list[UncertainPair], result: ClusterResult, fields: list[str], compared: set[str]) -> str:
    pair = pairs[0]
    left, right = (isolated(shortened(str(result.ids[row]), 60)) for row in (pair.left, pair.right))
    rows = "".join(_field(name, pair, result, name in compared) for name in fields)
    title = f"The same with probability {pair.probability:.2f} <span>{_words(pairs, result)}</span>"
    return (
        f'<div class="pair"><h3>{title}</h3>'
        f"<table><tr><th></th><th>{left}</th><th>{right}</th></tr>{rows}</table></div>"
    )


def _words(pairs: list[UncertainPair], result: ClusterResult) -> str:
    pair, more = pairs[0], len(pairs) - 1
    left, right = (isolated(shortened(str(result.labels[row]), 40)) for row in (pair.left, pair.right))
    words = f"put together, in {left}" if pair.together else f"kept apart, in {left} and {right}"
    return f"{words}; {more} more such pair{'' if more == 1 else 's'}" if more else words


def _field(name: str, pair: UncertainPair, result: ClusterResult, is_compared: bool) -> str:
    cells = result.records[name]
    left, right = cells[pair.left], cells[pair.right]
    if left is None and right is None:
        return ""
    kinds = ["differs"] * (left != right) + ["aside"] * (not is_compared)
    return field_row(name, _cell(left, right), _cell(right, left), *kinds)


def _cell(text: str | None, other: str | None) -> str:
    if text is None:
        return MISSING
    return isolated(shortened(text)) if other is None else marked(text, other)


LEARNED_TITLE = "What was learned"
MOST_TYPES = 6
MOST_FEATURES = 24
# Types rarer than this are left out: chains always hold a few that were opened a moment ago.
SMALLEST_SHARE = 0.005


def weights_section(learned: Learned, names: Sequence[str]) -> str:
    """What counts, as bars with words; where there are several types, a table of them too.

    `names` are the features in words.
    """
    if learned.weights is None:
        return section(LEARNED_TITLE, f"<p>The model {shown(learned.model)} has no weights for features.</p>")
    weights = np.asarray(learned.weights, np.float64)
    shares = _shares(learned, len(weights))
    features = _heaviest(weights, shares)
    mean = (shares / shares.sum()) @ weights[:, features]
    order = np.argsort(-mean, kind="stable")
    ordered = [shortened(names[features[k]], 60) for k in order.tolist()]
    content = weight_bars(ordered, mean[order], _say_weights(mean[order]))
    types = [k for k, share in enumerate(shares) if share >= SMALLEST_SHARE or k == 0][:MOST_TYPES]
    if len(weights) > 1:
        content += _types_table(names, weights, shares, types, features)
    left_out = len(weights) - len(types), weights.shape[1] - len(features)
    return section(LEARNED_TITLE, content, _note(len(weights) > 1, *left_out))


def _say_weights(weights: Floats) -> list[str]:
    """How much each counts beside the heaviest."""
    most = float(weights.max(initial=0.0)) or 1.0
    words = ((0.5, "counts much"), (0.15, "counts"), (0.03, "counts little"), (-1.0, "counts hardly at all"))
    return [
        f"{next(word for least, word in words if weight / most >= least)} ({in_short(weight)})"
        for weight in weights.tolist()
    ]


def _types_table(names: Sequence[str], weights: Floats, shares: Floats, types: list[int], features: list[int]) -> str:
    """A row a feature and a column a type, the darker the more a difference there counts."""
    shades = _shades(weights[np.ix_(types, features)])
    rows = [_head(types, shares)]
    for place, feature in enumerate(features):
        cells = "".join(_shaded_cell(weights[k, feature], shades[row, place]) for row, k in enumerate(types))
        rows.append(f"<tr><th>{shown(shortened(names[feature], 40))}</th>{cells}</tr>")
    return f'<div class="scroll"><table class="heat">{"".join(rows)}</table></div>'


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


def _shaded_cell(weight: float, shade: float) -> str:
    """Blue mixed with the card's own colour, with ink that is read on both, in the light and in the dark."""
    ink = "on" if shade > 0.5 else "ink"
    mixed = f"color-mix(in srgb,var(--blue) {4 + 96 * shade:.0f}%,var(--card))"
    return f'<td style="background:{mixed};color:var(--{ink})">{in_short(weight)}</td>'


def _note(by_type: bool, types: int, features: int) -> str:
    if by_type:
        note = (
            "Weights of the features in each reference type (a way of writing records), with the share of records "
            "written so; the bars are their mean. The fuller the colour, the more records of one cluster agree in "
            "that feature, and the more a difference in it counts."
        )
    else:
        note = (
            "In brackets, how much the log-odds of two records change in the mean if this is not looked at. "
            "The longer the bar, the more the answer hangs on it."
        )
    counted = ((types, "rarer type"), (features, "lighter feature"))
    rest = [f"{number} {what}{'' if number == 1 else 's'}" for number, what in counted if number]
    return f"{note} Not shown: {' and '.join(rest)}." if rest else note


DOUBT_TITLE = "The clusters most in doubt, as pictures"
MOST_DRAWN = 14


def doubt_section(result: ClusterResult) -> str:
    """The records of the least certain decision, as a map and as a graph; nothing where there is none."""
    if not result.uncertain:
        return ""
    pair = result.uncertain[0]
    asked = [result.codes[pair.left], result.codes[pair.right]]
    rows = np.flatnonzero(np.isin(result.codes, asked))
    rows = np.unique([pair.left, pair.right, *rows[: MOST_DRAWN - 2].tolist()])
    together = result.posterior.co_clustering_matrix(rows)
    names = [str(identifier) for identifier in result.ids[rows].tolist()]
    side = (result.codes[rows] != asked[0]).astype(np.int64)
    clusters = " and ".join(dict.fromkeys(shortened(str(result.labels[k]), 40) for k in (pair.left, pair.right)))
    note = (
        f"Records of {clusters}, around the least certain decision. The fuller the colour of a square and the "
        "thicker a line, the more often the two are together in the draws; a colour is a cluster of the answer."
    )
    pictures = f"<div>{together_map(together, names)}</div><div>{cluster_graph(together, names, side)}</div>"
    return section(DOUBT_TITLE, f'<div class="figures">{pictures}</div>', note)
