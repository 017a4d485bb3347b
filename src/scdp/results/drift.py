"""Drift: two results enter, an old and a new one; what became of the entities, and how the evidence changed, leaves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scdp.results.folder import StoredResult

# A share that differs by this much, and by this many standard errors, is unlike what it was.
LEAST_CHANGE, LEAST_ERRORS = 0.03, 4.0
MOST_NAMED = 20
DOUBT = 0.9


@dataclass(frozen=True)
class Shift:
    """A share of the records that is unlike what it was."""

    what: str
    old: float
    new: float


@dataclass(frozen=True)
class Drift:
    """What changed between two results.

    `merged` and `split` are lists of (clusters before, clusters after), by the records that both results have;
    `appeared` are clusters of new records alone, `vanished` those none of whose records is left. `shifts` tell how the
    new records look unlike the old ones.
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
            lines += [f"  {shift.what}: {shift.old:.1%} before, {shift.new:.1%} now" for shift in self.shifts]
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
        tuple(_find_shifts(old, new)),
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


def _is_shared(kept: StoredResult) -> Any:
    _, place, counts = np.unique(kept.labels.astype(str), return_inverse=True, return_counts=True)
    return counts[place] > 1


def _is_missing(cells: Any) -> Any:
    return np.array([cell is None for cell in cells])
