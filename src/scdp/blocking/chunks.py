"""Pairs in chunks: a kernel that finds the partners of records goes in, all pairs come out in order."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import IO

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._parallel import map_in_threads

Pairs = tuple[NDArray[np.int32], NDArray[np.int32]]


# The partners of some records, one after the other, and how many each has.
Partners = Callable[[NDArray[np.int32]], tuple[NDArray[np.int64], NDArray[np.int32]]]

# Records are taken together until so many meetings are to be looked at: it bounds a worker's memory.
MEETINGS_AT_ONCE = 4_000_000


@dataclass(frozen=True, eq=False)
class Search:
    """How the pairs of a blocking are found, record by record; `meetings` is how many others each looks at.

    In the order of `homes` records share most of those that they look at.
    """

    partners: Partners
    meetings: NDArray[np.int64]
    homes: NDArray[np.int64]

    def parts(self, rows: NDArray[np.int32]) -> list[NDArray[np.int32]]:
        """Rows in parts that make about as many pairs each."""
        edges = row_ranges(self.meetings[rows])
        return [rows[first:last] for first, last in pairwise(edges)]

    def pairs(self, rows: NDArray[np.int32]) -> Pairs:
        """The pairs of these records with later ones."""
        counts, right = self.partners(rows)
        return np.repeat(rows, counts), right

    def chunks(self, threads: int) -> Iterator[Pairs]:
        """All pairs (left < right), sorted; the same whatever the number of threads."""
        return map_in_threads(self.pairs, self.parts(np.arange(len(self.meetings), dtype=np.int32)), threads)


def row_ranges(meetings: NDArray[np.int64]) -> NDArray[np.int64]:
    """Edges between which records have about MEETINGS_AT_ONCE meetings, or are one record."""
    total = np.concatenate([[0], np.cumsum(meetings)])
    steps = np.arange(0, total[-1] + MEETINGS_AT_ONCE, MEETINGS_AT_ONCE)
    edges = np.searchsorted(total, steps, side="right") - 1
    return np.unique(np.concatenate([[0], edges, [len(meetings)]]))


def collected(chunks: Iterable[Pairs], limit: int) -> Pairs:
    """All chunks as two arrays: in memory while they and their joined copy fit, else in mapped files."""
    held: list[Pairs] = []
    files: tuple[IO[bytes], IO[bytes]] | None = None
    size = 0
    for chunk in chunks:
        held.append(chunk)
        size += sum(part.nbytes for part in chunk)
        if 2 * size > limit or files:
            files = files or (tempfile.TemporaryFile(), tempfile.TemporaryFile())  # noqa: SIM115
            _append(held, files)
    if files:
        return _mapped(files[0]), _mapped(files[1])
    empty = np.empty(0, dtype=np.int32)
    return (
        np.concatenate([empty, *(left for left, _ in held)]),
        np.concatenate([empty, *(right for _, right in held)]),
    )


def _append(held: list[Pairs], files: tuple[IO[bytes], IO[bytes]]) -> None:
    for chunk in held:
        for part, file in zip(chunk, files, strict=True):
            file.write(part.data)
    held.clear()


def _mapped(file: IO[bytes]) -> NDArray[np.int32]:
    # The file has no name; the map has its own hold on it and is all that keeps it.
    with file:
        file.flush()
        empty = file.tell() == 0
        return np.empty(0, dtype=np.int32) if empty else np.memmap(file, dtype=np.int32, mode="r")


@kernel
def roomy(found: NDArray[np.int32], needed: int) -> NDArray[np.int32]:
    """The array, or a longer copy when it is shorter than needed."""
    if needed <= len(found):
        return found
    longer = np.empty(max(needed, 2 * len(found)), dtype=np.int32)
    longer[: len(found)] = found
    return longer
