"""Ways in and out: a Posterior enters; its file, tables, pictures or an arviz object leave, and a file comes back.

The file is one .npz of plain arrays, written whole or not at all and read without pickle.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Floats, Integers, SmallIntegers
from scdp.errors import InputError, MissingExtraError
from scdp.io import read_arrays
from scdp.io.atomic import Staged
from scdp.partitions import name_by_first
from scdp.posterior.draws import PackedDraws, StoredDraws
from scdp.posterior.recorder import pack_draws
from scdp.table import records_from

if TYPE_CHECKING:
    from scdp.posterior import Posterior

VERSION = 1
# Items whose names fit beside a map, and links so rarely drawn that a graph leaves them out.
MOST_NAMED, LEAST_DRAWN = 40, 0.02
TRACE = "trace:"
WORDS = "words:"


def save(posterior: Posterior, path: str | PathLike[str]) -> None:
    """Write beside the target first, so that an interruption leaves no broken file in its place."""

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, **_collect_arrays(posterior))

    with Staged() as staged:
        staged.write(Path(path), write)


def load(path: str | PathLike[str]) -> Posterior:
    """Read a file that `save` wrote; anything else is refused by name."""
    from scdp.posterior import Posterior

    if not Path(path).exists():
        raise InputError(f"{path}: there is no such file; give the path of a saved posterior")
    try:
        arrays = read_arrays(Path(path))
        version = int(arrays["version"])
        if version == VERSION:
            stored = _read_draws(arrays)
    except (ValueError, KeyError, AttributeError, TypeError, IndexError, OverflowError, MemoryError):
        raise InputError(f"{path}: not a posterior saved by scdp, or a damaged one; sample again") from None
    if version != VERSION:
        raise InputError(f"{path}: written by another version of scdp; sample again with this one")
    traces = {name[len(TRACE) :]: values for name, values in arrays.items() if name.startswith(TRACE)}
    return Posterior(stored, traces, names=arrays.get("names"))


def _collect_arrays(posterior: Posterior) -> dict[str, Any]:
    stored = pack_draws(posterior.stored)
    arrays: dict[str, Any] = {
        "version": np.int64(VERSION),
        "known": stored.known,
        "shared": np.bool_(stored.shared),
        "starts": stored.starts,
        "n_codes": stored.n_codes,
        "n_hidden_clusters": stored.n_hidden_clusters,
    }
    if posterior.names is not None:
        # Objects could only be saved by pickling them.
        arrays["names"] = posterior.names.astype(str) if posterior.names.dtype.kind == "O" else posterior.names
    arrays.update({f"{WORDS}{chain}": words for chain, words in enumerate(stored.words)})
    arrays.update({f"{TRACE}{name}": values for name, values in posterior.traces.items()})
    return arrays


def _read_draws(arrays: dict[str, NDArray[Any]]) -> PackedDraws:
    def whole(name: str, kind: Any) -> NDArray[Any]:
        if arrays[name].dtype.kind not in "iu":
            raise ValueError(f"{name} has no whole numbers")
        return arrays[name].astype(kind)

    starts = whole("starts", np.int64)
    stored = PackedDraws(
        known=whole("known", np.int32),
        shared=bool(arrays["shared"]),
        words=tuple(whole(f"{WORDS}{chain}", np.uint64) for chain in range(len(starts))),
        starts=starts,
        n_codes=whole("n_codes", np.int32),
        n_hidden_clusters=whole("n_hidden_clusters", np.int32),
    )
    stored.check()
    return stored


def to_dict(posterior: Posterior) -> dict[str, Any]:
    """Groups "posterior" and "sample_stats" of arrays (chain, draw, ...), with "coords" and "dims"."""
    traces = dict(posterior.traces)
    log_joint = traces.pop("log_joint", None)
    # The number of clusters is read from the draws, so it cannot contradict them.
    variables = {**traces, "n_clusters": posterior.n_clusters, "labels": posterior.draws}
    names = np.arange(posterior.n_items) if posterior.names is None else posterior.names
    return {
        "posterior": variables,
        "sample_stats": {} if log_joint is None else {"lp": log_joint},
        "coords": {"item": names},
        "dims": {"labels": ["item"]},
    }


def to_arviz(posterior: Posterior) -> Any:
    """What `arviz.from_dict` makes of the draws."""
    try:
        import arviz
    except ImportError:
        raise MissingExtraError("arviz", "arviz", "Exporting a posterior to arviz") from None
    parts = to_dict(posterior)
    groups = {name: parts[name] for name in ("posterior", "sample_stats") if parts[name]}
    layout = {"coords": parts["coords"], "dims": parts["dims"]}
    # Before version 1.0 groups were separate arguments; since then they come in one mapping.
    if "posterior" in inspect.signature(arviz.from_dict).parameters:
        return arviz.from_dict(**groups, **layout)
    return arviz.from_dict(groups, **layout)


def to_pandas(posterior: Posterior, labels: SmallIntegers) -> Any:
    """One row for each item: the label of its cluster, and how sure it is that it belongs there."""
    columns = {"label": labels, "probability": posterior.membership_probability(labels)}
    return make_pandas(columns, posterior.names)


def to_polars(posterior: Posterior, labels: SmallIntegers) -> Any:
    """As `to_pandas`, with the items' names as a column."""
    names = {} if posterior.names is None else {"id": list(map(str, posterior.names.tolist()))}
    return make_polars({**names, "label": labels, "probability": posterior.membership_probability(labels)})


def query(posterior: Posterior, sql: str, table: Any, level: float) -> IntervalTable:
    """Run a SELECT on every draw; `table` has a row for each item."""
    from scdp.posterior.query import DrawTable, free_names, load_columns, query_draws

    columns: dict[str, NDArray[Any]] = {"record": np.arange(posterior.n_items)}
    given = {} if table is None else records_from(table).columns
    if any(len(cells) != posterior.n_items for cells in given.values()):
        raise InputError(f"the table has not a row for each of the {posterior.n_items} items; give one an item")
    shown = {free: given[name] for free, name in free_names(list(given)).items()}
    if posterior.names is not None and "id" not in map(str.casefold, shown):
        columns["id"] = posterior.names.astype(str).astype(object)
    columns |= shown
    draws = [name_by_first(row) for _, some in posterior.stored.label_chunks() for row in some]
    return query_draws(DrawTable(load_columns(columns), list(columns), draws), sql, level)


def to_html(posterior: Posterior, labels: SmallIntegers) -> str:
    """A small table: records, clusters and the expected F of the labels, with 90 % intervals."""
    expected = posterior.expected_metrics(labels)["f"]
    low, high = posterior.n_clusters_interval()
    draws = f"{posterior.n_chains * posterior.n_draws:,} in {posterior.n_chains} chains"
    return rows_to_html(
        {
            "Records": f"{posterior.n_items:,}",
            "Draws": draws if posterior.n_chains > 1 else f"{posterior.n_draws:,}",
            "Clusters": f"{int(labels.max(initial=-1)) + 1:,} (90 % interval {low:,} to {high:,})",
            "Expected F": f"{expected['mean']:.3f} (90 % interval {expected['low']:.3f} to {expected['high']:.3f})",
        }
    )


def rows_to_html(rows: Mapping[str, str]) -> str:
    """A table of names and values."""
    cells = (
        f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table>{''.join(cells)}</table>"


def plot_n_clusters(posterior: Posterior, labels: SmallIntegers | None, level: float, axes: Any) -> Any:
    """A histogram of the number of clusters over draws, with its interval and the number in `labels`."""
    axes = make_axes() if axes is None else axes
    low, high = posterior.n_clusters_interval(level)
    counts = posterior.n_clusters.ravel()
    # Bars stand over whole numbers, and there are never more than thirty.
    step = -(-(int(counts.max()) - int(counts.min()) + 1) // 30)
    edges = np.arange(counts.min(), counts.max() + step + 1, step) - 0.5
    axes.hist(counts, edges, weights=np.full(len(counts), 1.0 / len(counts)), color="0.6")
    axes.axvspan(low - 0.5, high + 0.5, alpha=0.15, label=f"{100 * level:g} % interval, {low:,} to {high:,}")
    if labels is not None:
        found = int(labels.max(initial=-1)) + 1
        axes.axvline(found, color="black", linestyle="--", label=f"the answer, {found:,}")
    axes.set(xlabel="number of clusters", ylabel="share of draws")
    axes.legend()
    return axes


def plot_cluster_sizes(posterior: Posterior, labels: SmallIntegers | None, level: float, axes: Any) -> Any:
    """How many clusters there are of each size: mean and interval over draws, and the number in `labels`."""
    axes = make_axes() if axes is None else axes
    sizes, counts = count_sizes(posterior.stored)
    low, high = np.quantile(counts, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0, method="inverted_cdf")
    axes.vlines(sizes, low, high, color="0.6", linewidth=3, label=f"{100 * level:g} % interval")
    axes.plot(sizes, counts.mean(axis=0), "_", color="0.3", label="mean over draws")
    if labels is not None:
        found = np.bincount(np.bincount(labels))
        axes.plot(np.flatnonzero(found), found[found > 0], "o", color="black", markersize=4, label="the answer")
    axes.set(xlabel="records in a cluster", ylabel="number of clusters")
    axes.set_yscale("symlog", linthresh=1.0)
    axes.legend()
    return axes


def count_sizes(stored: StoredDraws) -> tuple[SmallIntegers, Floats]:
    """The sizes of clusters that occur, and how many clusters have each (draw, size)."""
    found = [np.bincount(np.bincount(draw)) for _, draws in stored.label_chunks() for draw in draws]
    counts = np.zeros((len(found), max(map(len, found))))
    for row, each in zip(counts, found, strict=True):
        row[: len(each)] = each
    sizes = np.flatnonzero(counts.any(axis=0)).astype(np.int32)
    return sizes, counts[:, sizes]


def plot_co_clustering(posterior: Posterior, items: Integers, labels: SmallIntegers, axes: Any) -> Any:
    """A map of how often items are together, those of one cluster side by side."""
    axes = make_axes() if axes is None else axes
    ordered = items[np.argsort(labels[items], kind="stable")]
    image = axes.imshow(posterior.co_clustering_matrix(ordered), vmin=0.0, vmax=1.0, cmap="Blues")
    axes.figure.colorbar(image, ax=axes, label="probability of being together")
    if len(ordered) <= MOST_NAMED:
        names = name_items(posterior, ordered)
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
    return axes


def plot_cluster(posterior: Posterior, items: Integers, labels: SmallIntegers, axes: Any) -> Any:
    """Items on a circle, joined by lines as strong as they are often together; colours are clusters."""
    axes = make_axes() if axes is None else axes
    together = posterior.co_clustering_matrix(items)
    angle = 2.0 * np.pi * np.arange(len(items)) / max(len(items), 1)
    x, y = np.sin(angle), np.cos(angle)
    for i, j in combinations(range(len(items)), 2):
        if together[i, j] >= LEAST_DRAWN:
            axes.plot(x[[i, j]], y[[i, j]], color="C0", alpha=float(together[i, j]), zorder=1)
    axes.scatter(x, y, c=[f"C{1 + k % 8}" for k in np.unique(labels[items], return_inverse=True)[1]], zorder=2)
    for name, one, two in zip(name_items(posterior, items), x.tolist(), y.tolist(), strict=True):
        axes.annotate(name, (1.12 * one, 1.12 * two), ha="center", va="center")
    axes.set(xlim=(-1.4, 1.4), ylim=(-1.3, 1.3), aspect="equal")
    axes.set_axis_off()
    return axes


def plot_reliability(predicted: Floats, observed: Floats, count: Integers, axes: Any) -> Any:
    """Bin by bin the observed share against the predicted probability, a dot as large as its bin is full."""
    axes = make_axes() if axes is None else axes
    full = np.flatnonzero(count)
    axes.plot([0, 1], [0, 1], linestyle="--", color="0.6")
    axes.scatter(predicted[full], observed[full], s=20.0 + 180.0 * np.sqrt(count[full] / count.max()), alpha=0.75)
    axes.set(xlabel="predicted probability", ylabel="truly together", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    return axes


def plot_steps(names: Sequence[str], before: Floats, after: Floats, label: str, axes: Any) -> Any:
    """A bar for each name from one number to another, in another colour where it falls; the first is on top."""
    axes = make_axes() if axes is None else axes
    colours = np.where(after >= before, "C0", "C1")
    axes.barh(range(len(names)), np.abs(after - before), left=np.minimum(before, after), color=colours)
    for place, change in enumerate((after - before).tolist()):
        end = float(max(before[place], after[place]))
        axes.annotate(f"{change:+.3g}", (end, place), xytext=(3, -3), textcoords="offset points")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set(xlabel=label)
    return axes


def name_items(posterior: Posterior, items: Integers) -> list[str]:
    """What items are called, or their numbers."""
    return [str(item) if posterior.names is None else str(posterior.names[item]) for item in items.tolist()]


def make_axes() -> Any:
    """New axes of matplotlib."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtraError("matplotlib", "plots", "A picture") from None
    return pyplot.subplots()[1]


def make_pandas(columns: Mapping[str, Any], index: Any = None) -> Any:
    """Columns as pandas has them."""
    try:
        import pandas
    except ImportError:
        raise MissingExtraError("pandas", "pandas", "A data frame") from None
    return pandas.DataFrame(columns, index=index)


def make_polars(columns: Mapping[str, Any]) -> Any:
    """Columns as polars has them."""
    try:
        import polars
    except ImportError:
        raise MissingExtraError("polars", "polars", "A data frame") from None
    return polars.DataFrame(columns)


@dataclass(frozen=True, eq=False)
class IntervalTable:
    """A table some of whose columns are numbers with an interval.

    Parameters
    ----------
    columns : dict of lists
        The columns by name. The interval of a number `n` is in the columns `n_low` and `n_high`.
    numbers : tuple of str
        The columns that have an interval.
    level : float
        The probability that each interval holds.

    Example
    -------
    >>> table = IntervalTable({"city": ["Ulm"], "n": [3.5], "n_low": [3.0], "n_high": [4.0]}, ("n",), 0.9)
    >>> print(table)
    city  n    90 % interval
    Ulm   3.5  3 to 4
    """

    columns: dict[str, list[Any]]
    numbers: tuple[str, ...]
    level: float

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> list[dict[str, Any]]:
        """One dict a row."""
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]

    def to_json(self) -> str:
        """A JSON list with an object for each row; numbers that JSON has not are null."""
        rows = [{name: _to_json_value(value) for name, value in row.items()} for row in self.rows()]
        return json.dumps(rows, indent=1, default=str, allow_nan=False)

    def to_pandas(self) -> Any:
        """The table as pandas has it."""
        return make_pandas(self.columns)

    def to_polars(self) -> Any:
        """The table as polars has it."""
        return make_polars(self.columns)

    def _make_cells(self) -> tuple[list[str], list[list[str]]]:
        """Titles and cells: a number and its interval are two columns."""
        ends = {f"{name}{end}" for name in self.numbers for end in ("_low", "_high")}
        titles: list[str] = []
        columns: list[list[str]] = []
        for name, values in self.columns.items():
            if name in ends:
                continue
            titles.append(name)
            columns.append([_spell_value(value) for value in values])
            if name in self.numbers:
                low, high = self.columns[f"{name}_low"], self.columns[f"{name}_high"]
                titles.append(f"{100 * self.level:g} % interval")
                columns.append([f"{_spell_value(a)} to {_spell_value(b)}" for a, b in zip(low, high, strict=True)])
        return titles, [list(row) for row in zip(*columns, strict=True)]

    def __str__(self) -> str:
        titles, rows = self._make_cells()
        wide = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, wide, strict=True)) for row in (titles, *rows)]
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        titles, rows = self._make_cells()
        head = "".join(f"<th>{escape(title)}</th>" for title in titles)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><tr>{head}</tr>{body}</table>"


def _to_json_value(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _spell_value(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))
    if not np.isfinite(value):
        return "-" if np.isnan(value) else "infinite" if value > 0 else "minus infinite"
    return (
        f"{value:,.0f}"
        if value == round(value) and abs(value) < 1e15
        else f"{value:,.4g}"
        if abs(value) < 1e4
        else f"{value:,.1f}"
    )
