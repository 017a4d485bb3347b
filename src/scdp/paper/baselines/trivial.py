"""Baselines that learn nothing: items enter; everything together, everything apart, or equal names leave."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable

from scdp.errors import InputError
from scdp.paper.baselines.surface import Baseline, Items
from scdp.table.records import Records


class Coarse(Baseline):
    """Everything is one cluster (one a document where groups are given)."""

    def _cluster(self, items: Items) -> list[Hashable]:
        return [0] * len(items)


class Fine(Baseline):
    """Every item is a cluster of its own."""

    def _cluster(self, items: Items) -> list[Hashable]:
        return list(range(len(items)))


class NameMatch(Baseline):
    """The same last name and the same first initial, whatever the case and accents.

    A record without a last name stays alone; records without a first name match each other.
    """

    def __init__(self, first: str = "first", last: str = "last") -> None:
        self.first = first
        self.last = last

    def _cluster(self, items: Items) -> list[Hashable]:
        records = _need_records(items, self)
        return [
            _alone(row) if last is None else (fold(last), fold(first or "")[:1])
            for row, (first, last) in enumerate(zip(records[self.first], records[self.last], strict=True))
        ]


class SameHead(Baseline):
    """The same last word of the column `text`, or the same cell of the column `head`, whatever the case.

    `head` is used instead of `text` where it is given; a mention without a head stays alone.
    """

    def __init__(self, text: str = "name", head: str | None = None) -> None:
        self.text = text
        self.head = head

    def _cluster(self, items: Items) -> list[Hashable]:
        records = _need_records(items, self)
        if self.head is None:
            heads = [_last_word(cell) for cell in records[self.text]]
        else:
            heads = list(records[self.head])
        return [_alone(row) if head is None else head.casefold() for row, head in enumerate(heads)]


def fold(text: str) -> str:
    """Without case, accents and outer blanks: "  Müller" is "muller"."""
    decomposed = unicodedata.normalize("NFKD", text.strip())
    return "".join(sign for sign in decomposed if not unicodedata.combining(sign)).casefold()


def _last_word(cell: str | None) -> str | None:
    words = (cell or "").split()
    return words[-1] if words else None


def _alone(row: int) -> Hashable:
    # A tuple with None equals no folded name, so such a record matches nothing.
    return (None, row)


def _need_records(items: Items, baseline: Baseline) -> Records:
    if not isinstance(items, Records):
        raise InputError(f"{type(baseline).__name__} compares text: give Records, not an array of numbers")
    return items
