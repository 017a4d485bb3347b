"""The clusters of a report: a result enters; a section in which they are browsed, searched and filtered leaves.

Names, ids and cells are compressed texts that the page's own script unpacks; it writes them as plain texts only.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers
from scdp.report.layout import footnote, section, shortened, spelled

if TYPE_CHECKING:
    from scdp.estimators.result import ClusterResult

TITLE = "All clusters"
# As text a fourth more bytes: with all the rest the page stays below 5 MB.
MOST_BYTES = 3_300_000
MOST_CLUSTERS = 400_000
MOST_COLUMNS, LONGEST_CELL, LONGEST_NAME = 8, 80, 60
# So many columns are kept where all are too much for a page.
WIDTHS = (5, 3)
SIZES = {"any size": "1-1e9", "one record": "1-1", "2 or more": "2-1e9", "3 or more": "3-1e9", "10 or more": "10-1e9"}
SURE = {"sure or not": "", "in doubt": "doubt", "sure": "sure"}
ORDERS = {"least sure first": "doubt", "largest first": "size", "by name": "name"}

STYLE = """
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
    return section(TITLE, content + footnote(note))


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
    n, names = len(order), _choose_columns(result)
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
    sure = _in_hundred(result.probabilities)
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


def _choose_columns(result: ClusterResult) -> list[str]:
    """Columns that are compared first; one that only has gaps tells nothing."""
    compared = set() if result.spec is None else {name for field in result.spec.fields for name in field.columns}
    names = [name for name in result.records.names if name != result.id_column]
    return sorted(names, key=lambda name: name not in compared)[:MOST_COLUMNS]


def _in_hundred(probabilities: NDArray[np.float64]) -> Integers:
    """Of a hundred, and never a round hundred where there is any doubt."""
    return np.where(probabilities >= 1.0, 100, np.minimum(np.rint(100 * probabilities), 99)).astype(np.int64)


def _cut_all(cells: NDArray[Any], longest: int) -> NDArray[Any]:
    found = np.empty(len(cells), object)
    found[:] = [None if cell is None else _cut(cell, longest) for cell in cells.tolist()]
    return found


def _cut(text: Any, longest: int) -> str:
    return spelled(shortened(str(text), longest))
