"""What people look at: records with their cells, a search over them, and what each comparison says of a pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from scdp._typing import Features, Integers
from scdp.compare.features import Comparer
from scdp.estimators.explanation import lose_each
from scdp.linkage.ensemble import Ensemble
from scdp.table.records import Records
from scdp.table.spec import Spec
from scdp.table.spec_files import in_words

MOST_FOUND = 500
MOST_LOOKED_AT = 20_000
MOST_WORDS = 8
# How much of a long text is looked at to see which of several words is rare.
N_PIECES, PIECE = 32, 8192


class Weight(NamedTuple):
    """What one comparison says of a pair: log-odds, above 0 for the same."""

    name: str
    log_odds: float


class PairEvidence(NamedTuple):
    """Judges pairs of records by comparisons that were prepared once; the ensemble is asked for anew each time."""

    comparer: Comparer
    spec: Spec
    ensemble: Callable[[], Ensemble]

    def weights(self, row: int, other: int) -> list[Weight]:
        """By comparison, how much higher the log-odds are than without it; and the odds of any two records."""
        ensemble = self.ensemble()
        features: Features = self.comparer.compare(np.array([row]), np.array([other]), 1)
        lost = lose_each(ensemble, features, len(self.spec.fields))[0]
        named = [Weight(in_words(f), float(w)) for f, w in zip(self.spec.fields, lost, strict=True)]
        rest = float(ensemble.mean_log_odds(features)[0]) - float(lost.sum())
        return [Weight("any two records", rest), *named]


@dataclass(eq=False)
class TableView:
    """The records as people see them.

    Parameters
    ----------
    records : Records
        All columns.
    ids : sequence of str
        The id of each record.
    columns : tuple of str
        The columns that are shown.
    evidence : PairEvidence, optional
        What comparisons say, where there is a model.
    """

    records: Records
    ids: Sequence[str]
    columns: tuple[str, ...]
    evidence: PairEvidence | None = None

    def cells(self, row: int) -> list[str | None]:
        """Of one record, column by column."""
        return [self.records.columns[name][row] for name in self.columns]

    def title(self, row: int, longest: int = 90) -> str:
        """A record in one line."""
        text = " · ".join(cell for cell in self.cells(row) if cell)
        return text if len(text) <= longest else text[: longest - 1] + "…"

    @cached_property
    def _text(self) -> tuple[str, Integers]:
        """All cells as one text in small letters, a line a record, and where each line begins."""
        columns = [self.records.columns[name] for name in self.columns]
        lines = [
            " ".join(cell.replace("\n", " ") for cell in cells if cell).casefold()
            for cells in zip(self.ids, *columns, strict=True)
        ]
        starts = np.zeros(len(lines) + 1, dtype=np.int64)
        np.cumsum([len(line) + 1 for line in lines], out=starts[1:])
        return "\n".join(lines), starts

    @cached_property
    def _sample(self) -> str:
        """Pieces of the text from its beginning to its end, which tell rare words from frequent ones."""
        text = self._text[0]
        step = max(len(text) // N_PIECES, PIECE)
        return "\n".join(text[start : start + PIECE] for start in range(0, len(text), step))

    def prepare(self) -> None:
        """Make ready what a search needs, so that nobody waits for it."""
        len(self._sample)

    def search(self, words: str) -> list[int]:
        """The first records that hold all words, in any column."""
        text, starts = self._text
        wanted = words.casefold().split()
        if not wanted:
            return []
        # Where the rarest word is, the others are looked for; a search that would take long stops early.
        wanted = sorted(
            dict.fromkeys(wanted[:MOST_WORDS]), key=lambda word: (self._sample.count(word), -len(word))
        )
        found: list[int] = []
        place, looked_at = text.find(wanted[0]), 0
        while place >= 0 and len(found) < MOST_FOUND and looked_at < MOST_LOOKED_AT:
            row = int(np.searchsorted(starts, place, side="right")) - 1
            line = text[starts[row] : starts[row + 1]]
            if all(word in line for word in wanted[1:]):
                found.append(row)
            place, looked_at = text.find(wanted[0], int(starts[row + 1])), looked_at + 1
        return found
