"""Sections of a report: verdicts in words, the most uncertain decisions, what was learned, and all clusters.

A decision is about one cluster (is it one?) or about two (are they one?), and is shown by its least certain pair. The
clusters can be browsed, searched and filtered: names, ids and cells are compressed texts that the page's own script
unpacks; it writes them as plain texts only.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats, Integers
from scdp.report import MISSING, escape, escape_hidden, field_row, footnote, isolate, mark_differences, section, shorten
from scdp.report.charts import cluster_graph, format_short, together_map, weight_bars

if TYPE_CHECKING:
    from scdp.estimators.result import Calibration, ClusterResult, Learned, UncertainPair
    from scdp.posterior import Diagnostic, Posterior


THRESHOLD = 1.05
# A bin of fewer pairs says little, and a share of them this far from the prediction is called off.
FEWEST_PAIRS = 20
LARGEST_GAP = 0.1
# Pairs of such probabilities are in doubt.
DOUBT = (0.1, 0.9)

Verdict = tuple[str, bool]


def judge_chains(posterior: Posterior, rows: list[Diagnostic]) -> Verdict:
    """Whether the chains agree, and if not, what to do."""
    from scdp.posterior.recorder import describe_convergence

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
    """Whether held-out pairs came out as predicted, judged where they were in doubt: easy pairs are right anyway."""
    full = calibration.count >= FEWEST_PAIRS
    low, high = calibration.edges[:-1], calibration.edges[1:]
    doubtful = (low > DOUBT[0] - 1e-9) & (high < DOUBT[1] + 1e-9)
    total, between = calibration.count.sum(), calibration.count[doubtful].sum()
    if not (full & doubtful).any():
        return (
            f"Too few to judge the probabilities: of {total:,} held-out pairs {between:,} were in doubt "
            f"({DOUBT[0]} to {DOUBT[1]}), the others were easy.",
            False,
        )
    gaps = np.where(full, calibration.predicted - calibration.observed, 0.0)
    place = int(np.argmax(np.abs(gaps)))
    if abs(gaps[place]) <= LARGEST_GAP:
        return (
            f"Held-out pairs came out as predicted: no bin with {FEWEST_PAIRS} of them or more is off by more than "
            f"{LARGEST_GAP:.2f} (at most {abs(gaps[place]):.2f}). Of {total:,} pairs {between:,} were in doubt "
            f"({DOUBT[0]} to {DOUBT[1]}).",
            True,
        )
    direction = "too high" if gaps[place] > 0 else "too low"
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
    fields, compared = _fields(result), _list_compared(result)
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
    compared = _list_compared(result)
    return sorted(names, key=lambda name: name not in compared)


def _list_compared(result: ClusterResult) -> set[str]:
    if result.spec is None:
        return set(result.records.names)
    return {column for comparison in result.spec.fields for column in comparison.columns}


def _table(pairs: list[UncertainPair], result: ClusterResult, fields: list[str], compared: set[str]) -> str:
    pair = pairs[0]
    left, right = (isolate(shorten(str(result.ids[row]), 60)) for row in (pair.left, pair.right))
    rows = "".join(_field(name, pair, result, name in compared) for name in fields)
    title = f"The same with probability {pair.probability:.2f} <span>{_words(pairs, result)}</span>"
    return (
        f'<div class="pair"><h3>{title}</h3>'
        f"<table><tr><th></th><th>{left}</th><th>{right}</th></tr>{rows}</table></div>"
    )


def _words(pairs: list[UncertainPair], result: ClusterResult) -> str:
    pair, more = pairs[0], len(pairs) - 1
    left, right = (isolate(shorten(str(result.labels[row]), 40)) for row in (pair.left, pair.right))
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
    return isolate(shorten(text)) if other is None else mark_differences(text, other)


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
        return section(LEARNED_TITLE, f"<p>The model {escape(learned.model)} has no weights for features.</p>")
    weights = np.asarray(learned.weights, np.float64)
    shares = _shares(learned, len(weights))
    features = _heaviest(weights, shares)
    mean = (shares / shares.sum()) @ weights[:, features]
    order = np.argsort(-mean, kind="stable")
    ordered = [shorten(names[features[k]], 60) for k in order.tolist()]
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
        f"{next(word for least, word in words if weight / most >= least)} ({format_short(weight)})"
        for weight in weights.tolist()
    ]


def _types_table(names: Sequence[str], weights: Floats, shares: Floats, types: list[int], features: list[int]) -> str:
    """A row a feature and a column a type, the darker the more a difference there counts."""
    shades = _compute_shades(weights[np.ix_(types, features)])
    rows = [_head(types, shares)]
    for place, feature in enumerate(features):
        cells = "".join(_make_shaded_cell(weights[k, feature], shades[row, place]) for row, k in enumerate(types))
        rows.append(f"<tr><th>{escape(shorten(names[feature], 40))}</th>{cells}</tr>")
    return f'<div class="scroll"><table class="heat">{"".join(rows)}</table></div>'


def _shares(learned: Learned, n_types: int) -> Floats:
    return np.full(n_types, 1 / n_types) if learned.type_shares is None else np.asarray(learned.type_shares)


def _heaviest(weights: Floats, shares: Floats) -> list[int]:
    """Features in their order, or those of most weight where there are too many for a page."""
    order = np.argsort(-(shares @ weights), kind="stable")[:MOST_FEATURES]
    return sorted(order.tolist())


def _compute_shades(weights: Floats) -> Floats:
    """From 0 (the least weight shown) to 1 (the most), by orders of magnitude."""
    logs = np.log10(np.maximum(weights, 1e-12))
    room = logs.max() - logs.min()
    return (logs - logs.min()) / room if room > 0 else np.full(logs.shape, 0.5)


def _head(types: list[int], shares: Floats) -> str:
    cells = "".join(f"<th>type {k + 1}<br>{shares[k]:.0%}</th>" for k in types)
    return f"<tr><th></th>{cells}</tr>"


def _make_shaded_cell(weight: float, shade: float) -> str:
    """Blue mixed with the card's own colour, with ink that is read on both, in the light and in the dark."""
    ink = "on" if shade > 0.5 else "ink"
    mixed = f"color-mix(in srgb,var(--blue) {4 + 96 * shade:.0f}%,var(--card))"
    return f'<td style="background:{mixed};color:var(--{ink})">{format_short(weight)}</td>'


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
    clusters = " and ".join(dict.fromkeys(shorten(str(result.labels[k]), 40) for k in (pair.left, pair.right)))
    note = (
        f"Records of {clusters}, around the least certain decision. The fuller the colour of a square and the "
        "thicker a line, the more often the two are together in the draws; a colour is a cluster of the answer."
    )
    pictures = f"<div>{together_map(together, names)}</div><div>{cluster_graph(together, names, side)}</div>"
    return section(DOUBT_TITLE, f'<div class="figures">{pictures}</div>', note)


CLUSTERS_TITLE = "All clusters"
# As text a fourth more bytes: with all the rest the page stays below 5 MB.
MOST_BYTES = 3_300_000
MOST_CLUSTERS = 400_000
MOST_COLUMNS, LONGEST_CELL, LONGEST_NAME = 8, 80, 60
# So many columns are kept where all are too much for a page.
WIDTHS = (5, 3)
SIZES = {"any size": "1-1e9", "one record": "1-1", "2 or more": "2-1e9", "3 or more": "3-1e9", "10 or more": "10-1e9"}
SURE = {"sure or not": "", "in doubt": "doubt", "sure": "sure"}
ORDERS = {"least sure first": "doubt", "largest first": "size", "by name": "name"}

CLUSTERS_STYLE = """
.find{display:grid;grid-template-columns:2fr 1fr 1fr 1fr;gap:8px;margin:0 0 10px}
.find[hidden],.pages[hidden]{display:none}
.find input,.find select,.pages button{font:inherit;color:var(--ink);background:var(--card);
border:1px solid var(--axis);border-radius:8px;padding:8px 10px;min-height:44px;min-width:0;width:100%}
.pages{display:flex;gap:8px;margin:12px 0 0}.pages button{width:auto;cursor:pointer}
.pages button:disabled{opacity:.45;cursor:default}
.cluster{border-top:1px solid var(--line)}
.cluster summary{display:flex;gap:10px;align-items:center;color:var(--ink);padding:10px 2px;min-width:0;min-height:44px}
.cluster summary b{max-width:14rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.count{color:var(--soft);font-size:.85rem;white-space:nowrap;font-variant-numeric:tabular-nums}
.gist{color:var(--soft);font-size:.85rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;min-width:0;flex:1}
.meter{flex:0 0 40px;height:8px;border-radius:4px;background:var(--line);overflow:hidden}
.meter i{display:block;height:100%;background:var(--green)}.meter i.doubt{background:var(--amber)}
.cluster th,.cluster td{text-align:left;vertical-align:top;white-space:normal;min-width:3.5rem;max-width:18rem;
overflow-wrap:break-word}
.cluster td:first-child,.cluster td:nth-child(2){white-space:nowrap}
.cluster .differs{background:var(--differs)}.cluster .gap{color:var(--soft);font-size:.85em}
.find :focus-visible,.pages :focus-visible,summary:focus-visible{outline:3px solid var(--blue);outline-offset:1px}
@media(max-width:760px){.find{grid-template-columns:1fr 1fr}.find input{grid-column:1/-1}
.cluster summary{flex-wrap:wrap;gap:2px 10px}.cluster summary b{max-width:60%}.gist{flex:1 0 100%}}
"""


def cluster_script() -> str:
    """The script of the section."""
    return files("scdp.report").joinpath("clusters.js").read_text(encoding="utf-8")


def clusters_section(result: ClusterResult) -> str:
    """Controls, and the clusters as data: those with more records and in doubt first, as many as a page can hold."""
    order = _order_clusters(result)
    packed, n_packed = pack_clusters(result, order)
    content = (
        '<form id="clusters-find" class="find" role="search" hidden>'
        '<input id="clusters-search" type="search" placeholder="Search names, ids and cells" '
        'aria-label="Search names, ids and cells">'
        f"{_select('size', 'Size', SIZES)}{_select('sure', 'How sure', SURE)}{_select('order', 'Order', ORDERS)}</form>"
        '<p id="clusters-status" class="count" role="status">To browse the clusters, allow the script of this page.</p>'
        '<div id="clusters-list"></div><div id="clusters-pages" class="pages" hidden>'
        '<button id="clusters-before" type="button">Before</button>'
        '<button id="clusters-after" type="button">Next</button></div>'
        f'<script id="clusters-data" type="text/plain">{packed}</script>'
    )
    note = "The bar and the number beside it: the probability with which the least sure record belongs to the cluster."
    if n_packed < len(order):
        note += (
            f" The page holds {n_packed:,} of {len(order):,} clusters, those of several records and in doubt "
            "first; all are in the file of clusters."
        )
    return section(CLUSTERS_TITLE, content + footnote(note))


def _select(name: str, title: str, choices: dict[str, str]) -> str:
    options = "".join(f'<option value="{value}">{words}</option>' for words, value in choices.items())
    return f'<select id="clusters-{name}" aria-label="{title}">{options}</select>'


def _order_clusters(result: ClusterResult) -> list[NDArray[np.int64]]:
    """The rows of each cluster: several records before one, the less sure the earlier."""
    codes = result.codes
    rows = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    least = np.full(len(sizes), np.inf)
    np.minimum.at(least, codes, result.probabilities)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    wanted = np.lexsort((least, sizes == 1))[:MOST_CLUSTERS]
    return [rows[starts[k] : starts[k + 1]] for k in wanted.tolist()]


def pack_clusters(result: ClusterResult, order: list[NDArray[np.int64]]) -> tuple[str, int]:
    """These clusters, compressed, and how many they are: first columns are left out, then clusters, until all fits."""
    n, names = len(order), _fields(result)[:MOST_COLUMNS]
    columns = {name: _cut_all(result.records[name], LONGEST_CELL) for name in names}
    ids = _cut_all(result.ids, LONGEST_NAME)
    widths = [width for width in WIDTHS if width < len(names)]
    while True:
        packed = zlib.compress(_encode(result, order[:n], ids, columns), 6)
        if len(packed) <= MOST_BYTES or n <= 1:
            return b64encode(packed).decode(), n
        if widths:
            columns = {name: columns[name] for name in names[: widths.pop(0)]}
        else:
            n = max(min(n - 1, int(0.97 * n * MOST_BYTES / len(packed))), 1)


def _encode(
    result: ClusterResult, clusters: list[NDArray[np.int64]], ids: NDArray[Any], columns: dict[str, NDArray[Any]]
) -> bytes:
    names, ordered = [], []
    for rows in clusters:
        name = str(result.labels[rows[0]])
        own = [row for row in rows.tolist() if name == f"c-{result.ids[row]}"]
        # A cluster that is named by its first record needs no name here.
        names.append(None if own else _cut(name, LONGEST_NAME))
        ordered.append(np.array([*own, *(row for row in rows.tolist() if row not in own)], np.int64))
    rows = np.concatenate(ordered) if ordered else np.empty(0, np.int64)
    sure = _count_in_hundred(result.probabilities)
    content: dict[str, Any] = {
        "columns": [_cut(name, LONGEST_NAME) for name in columns],
        "names": names,
        "sizes": list(map(len, clusters)),
        "least": [int(sure[each].min()) for each in clusters],
        "ids": ids[rows].tolist(),
        "sure": sure[rows].tolist(),
        "cells": [cells[rows].tolist() for cells in columns.values()],
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _count_in_hundred(probabilities: NDArray[np.float64]) -> Integers:
    """Of a hundred, and never a round hundred where there is any doubt."""
    return np.where(probabilities >= 1.0, 100, np.minimum(np.rint(100 * probabilities), 99)).astype(np.int64)


def _cut_all(cells: NDArray[Any], longest: int) -> NDArray[Any]:
    found = np.empty(len(cells), object)
    found[:] = [None if cell is None else _cut(cell, longest) for cell in cells.tolist()]
    return found


def _cut(text: Any, longest: int) -> str:
    return escape_hidden(shorten(str(text), longest))
