"""The generator's noise: true values and reference types enter, cells as somebody wrote them down leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scdp.table.records import Column

MORE_TYPOS = 0.25  # chance that a mistyped cell gets one more typo: their number is geometric
INSERT, DELETE, TRANSPOSE, SUBSTITUTE = range(4)


@dataclass(frozen=True)
class ReferenceType:
    """How one kind of record is written: its share, the fields not written in full, and its care."""

    name: str
    share: float
    short: tuple[str, ...] = ()
    swapped: tuple[str, ...] = ()
    missing_factor: float = 1.0
    typo_factor: float = 1.0

    def form(self, field: str) -> str:
        return "short" if field in self.short else "swapped" if field in self.swapped else "full"


PEOPLE_TYPES = (
    ReferenceType("full", 0.40),
    ReferenceType("initials", 0.18, short=("first_name",)),
    ReferenceType("sparse", 0.14, missing_factor=6),
    ReferenceType("abbreviated", 0.12, short=("street", "city", "phone")),
    ReferenceType("sloppy", 0.10, missing_factor=2, typo_factor=6),
    ReferenceType("swapped", 0.06, swapped=("first_name", "surname")),
)
CITATION_TYPES = (
    ReferenceType("full", 0.34),
    ReferenceType("initials", 0.24, short=("author",)),
    ReferenceType("sparse", 0.12, short=("title",), missing_factor=6),
    ReferenceType("abbreviated", 0.16, short=("author", "title", "venue", "pages")),
    ReferenceType("sloppy", 0.08, missing_factor=2, typo_factor=6),
    ReferenceType("swapped", 0.06, swapped=("author",)),
)
# What a record is named by is always there; everything else may be missing.
REQUIRED_FIELDS = frozenset({"surname", "title"})


def write_cells(
    forms: Mapping[str, Column], named_forms: list[str], types: NDArray[np.int64], rows: NDArray[np.int64]
) -> Column:
    """Cell i is entity `rows[i]`'s value in the form of its reference type, `named_forms[types[i]]`."""
    cells = forms["full"][rows]
    for code, form in enumerate(named_forms):
        if form != "full":
            written = np.flatnonzero(types == code)
            cells[written] = forms[form][rows[written]]
    return cells


def add_typos(cells: Column, chance: NDArray[np.float64], rng: np.random.Generator) -> None:
    """Mistype cell i with probability `chance[i]`, in place."""
    rows = np.flatnonzero(rng.random(len(cells)) < chance)
    while rows.size:
        kinds = rng.integers(4, size=rows.size).tolist()
        places = rng.random(rows.size).tolist()
        shifts = rng.integers(1, 26, size=rows.size).tolist()
        for row, kind, place, shift in zip(rows.tolist(), kinds, places, shifts, strict=True):
            cells[row] = mistype(cells[row], kind, place, shift)
        rows = rows[rng.random(rows.size) < MORE_TYPOS]


def mistype(cell: str, kind: int, place: float, shift: int) -> str:
    """One typo at the given fraction of the cell; the result differs from `cell` and is never empty."""
    at = int(place * len(cell))
    here, rest = cell[at], cell[at + 1 :]
    if kind == INSERT:
        typed = cell[:at] + _another(here, shift) + cell[at:]
    elif kind == DELETE and len(cell) > 1:
        typed = cell[:at] + rest
    elif kind == TRANSPOSE and rest and rest[0] != here:
        typed = cell[:at] + rest[0] + here + rest[1:]
    else:
        typed = cell[:at] + _another(here, shift) + rest
    return typed.strip()


def _another(character: str, shift: int) -> str:
    """A different character of the same class (digit, capital); any other becomes a small letter."""
    if character.isdigit():
        return str((int(character) + shift % 9 + 1) % 10)
    base = ord("A") if "A" <= character <= "Z" else ord("a")
    position = ord(character) - base if character.isalpha() else 0
    return chr(base + (position + shift) % 26)
