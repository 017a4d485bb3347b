"""Drift: two results enter, an old and a new one; what became of the entities, and how the evidence changed, leaves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scdp._typing import Integers
from scdp.posterior.tables import number_first
from scdp.results.folder import StoredResult

# A share that differs by this much, and by this many standard errors, is unlike what it was.
LEAST_CHANGE, LEAST_ERRORS = 0.03, 4.0
# What linked records say is unlike what it was from this change of the mean on; so many links are looked at.
LEAST_LOG_ODDS, FEWEST_LINKS, MOST_LINKS = 0.5, 20, 1000
MOST_NAMED = 20
DOUBT = 0.9


@dataclass(frozen=True)
class Shift:
    """A share of the records that is unlike what it was, or the mean of what a comparison says in log-odds."""

    what: str
    old: float
    new: float
    unit: str = "share"

    def __str__(self) -> str:
        if self.unit == "share":
            return f"{self.what}: {self.old:.1%} before, {self.new:.1%} now"
        return f"{self.what}: {self.old:+.2f} before, {self.new:+.2f} now ({self.unit})"


@dataclass(frozen=True)
class Drift:
    """What changed between two results.

    `merged` and `split` are lists of (clusters before, clusters after), by the records that both results have;
    `appeared` are clusters of new records alone, `vanished` those none of whose records is left. `shifts` tell how the
    new records look unlike the old ones: shares of records, and what the old model's comparisons say of linked ones.
    """

    n_common: int
    n_new: int
    n_gone: int
    unchanged: int
    merged: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    split: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    appeared: tuple[str, ...]
    vanished: tuple[str, ...]
    shifts: tuple[Shift, ...]

    def to_words(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{self.n_common:,} records are in both, {self.n_new:,} are new, {self.n_gone:,} are gone.",
            f"{self.unchanged:,} entities are as they were, {len(self.merged):,} merged, {len(self.split):,} split, "
            f"{len(self.appeared):,} appeared, {len(self.vanished):,} vanished.",
        ]
        for title, changes in (("Merged", self.merged), ("Split", self.split)):
            if changes:
                lines.append(f"{title}:")
                lines += [f"  {', '.join(old)} -> {', '.join(new)}" for old, new in changes[:MOST_NAMED]]
                lines += [f"  and {len(changes) - MOST_NAMED:,} more"] if len(changes) > MOST_NAMED else []
        if self.shifts:
            lines.append("This table looks unlike the last one:")
            lines += [f"  {shift}" for shift in self.shifts]
        else:
            lines.append("This table looks like the last one.")
        return "\n".join(lines)


def compare_results(old: StoredResult, new: StoredResult) -> Drift:
    """Say what changed.

    Parameters
    ----------
    old, new : StoredResult
        Two kept results, whose records are told apart by their ids.

    Returns
    -------
    Drift
    """
    before = dict(zip(old.ids.tolist(), old.labels.tolist(), strict=True))
    after = dict(zip(new.ids.tolist(), new.labels.tolist(), strict=True))
    common = [name for name in before if name in after]
    to_new: dict[str, set[str]] = {}
    to_old: dict[str, set[str]] = {}
    for name in common:
        to_new.setdefault(before[name], set()).add(after[name])
        to_old.setdefault(after[name], set()).add(before[name])
    merged = [(tuple(sorted(olds)), (name,)) for name, olds in to_old.items() if len(olds) > 1]
    split = [((name,), tuple(sorted(news))) for name, news in to_new.items() if len(news) > 1]
    unchanged = sum(len(news) == 1 and len(to_old[next(iter(news))]) == 1 for news in to_new.values())
    return Drift(
        len(common),
        len(after) - len(common),
        len(before) - len(common),
        unchanged,
        tuple(sorted(merged)),
        tuple(sorted(split)),
        tuple(sorted(set(after.values()) - to_old.keys())),
        tuple(sorted(set(before.values()) - to_new.keys())),
        (*_find_shifts(old, new), *_find_evidence_shifts(old, new)),
    )


def _find_shifts(old: StoredResult, new: StoredResult) -> list[Shift]:
    shares = {
        "records whose cluster is in doubt": [kept.probabilities < DOUBT for kept in (old, new)],
        "records that share their cluster": [_is_shared(kept) for kept in (old, new)],
    }
    for name in old.records.names:
        if name in new.records.names and name != old.id_column:
            first, second = old.records[name], new.records[name]
            seen = set(filter(None, first.tolist()))
            shares[f"no {name}"] = [_is_missing(cells) for cells in (first, second)]
            if len(seen) <= len(first) // 5:
                known = [np.array([cell is not None and cell not in seen for cell in second])]
                shares[f"a {name} that was not there before"] = [np.zeros(len(first), dtype=bool), *known]
    found = []
    for what, (one, two) in shares.items():
        before, now = float(np.mean(one)), float(np.mean(two))
        pooled = (np.sum(one) + np.sum(two)) / (len(one) + len(two))
        error = np.sqrt(pooled * (1.0 - pooled) * (1.0 / len(one) + 1.0 / len(two)))
        if abs(now - before) >= LEAST_CHANGE and abs(now - before) >= LEAST_ERRORS * error:
            found.append(Shift(what, before, now))
    return found


def _find_evidence_shifts(old: StoredResult, new: StoredResult) -> list[Shift]:
    """What comparisons of the old model say of linked records, where that is unlike what it was."""
    model = old.model
    if model is None or model.fitted_spec_ is None:
        return []
    wanted = {name for field in model.fitted_spec_.fields for name in field.columns}
    if not wanted <= set(new.records.names):
        return []
    weighed = []
    for kept in (old, new):
        left, right = _choose_links(kept)
        if len(left) < FEWEST_LINKS:
            return []
        weighed.append(model.weigh_pairs(kept.records, left, right))
    before, now = weighed
    found = []
    for name in before:
        if name == "any two records":
            continue
        one, two = (values[np.isfinite(values)] for values in (before[name], now[name]))
        if min(len(one), len(two)) < FEWEST_LINKS:
            continue
        error = np.sqrt(one.var() / len(one) + two.var() / len(two))
        change = abs(float(two.mean() - one.mean()))
        if change >= LEAST_LOG_ODDS and change >= LEAST_ERRORS * error:
            what = "all that is compared" if name == "log-odds" else name
            found.append(Shift(f"what linked records say by {what}", float(one.mean()), float(two.mean()), "log-odds"))
    return found


def _choose_links(kept: StoredResult) -> tuple[Integers, Integers]:
    """Some pairs of records that follow each other in their cluster, by chance but always the same."""
    labels = number_first(kept.labels)
    order = np.argsort(labels, kind="stable")
    linked = np.flatnonzero(np.diff(labels[order]) == 0)
    if len(linked) > MOST_LINKS:
        linked = np.sort(np.random.default_rng(0).choice(linked, MOST_LINKS, replace=False))
    return order[linked], order[linked + 1]


def _is_shared(kept: StoredResult) -> Any:
    _, place, counts = np.unique(kept.labels.astype(str), return_inverse=True, return_counts=True)
    return counts[place] > 1


def _is_missing(cells: Any) -> Any:
    return np.array([cell is None for cell in cells])
