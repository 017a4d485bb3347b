"""Names that are parts of other names, compiled: lists of words go in, levels for how one is in the other come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp.compare.alignment import in_threads

Rows = NDArray[np.int64]
Values = NDArray[np.float64]

# The last name and the whole, the given name and the whole, a part with one word less, a part elsewhere, and a name
# with a word for a sort of thing that the other has not.
LAST_NAME, GIVEN_NAME, ONE_MORE, ELSEWHERE, OTHER_SORT = 0.12, 0.15, 0.25, 0.6, 0.7


class NounTable(NamedTuple):
    """Lists of words by number, and which words are given names or sorts of things."""

    ids: NDArray[np.int32]
    starts: Rows
    given: NDArray[np.bool_]
    sort: NDArray[np.bool_]

    @classmethod
    def of(
        cls, lists: Sequence[Sequence[str]], is_given: Callable[[str], bool], is_sort: Callable[[str], bool]
    ) -> NounTable:
        words = sorted({word for each in lists for word in each})
        places = {word: place for place, word in enumerate(words)}
        starts = np.zeros(len(lists) + 1, dtype=np.int64)
        np.cumsum([len(each) for each in lists], out=starts[1:])
        return cls(
            np.array([places[word] for each in lists for word in each], dtype=np.int32),
            starts,
            np.array(list(map(is_given, words)), dtype=bool),
            np.array(list(map(is_sort, words)), dtype=bool),
        )

    def pairs(self, left: Rows, right: Rows, workers: int) -> Values:
        """Levels, -1 where neither name is a part of the other."""
        return in_threads(partial(fill_parts, *self), left, right, workers)


@kernel
def fill_acronyms(
    letters: NDArray[Any], short: Rows, initials: Rows, fewest: Rows, left: Rows, right: Rows, out: Values
) -> None:
    """out[p] = 1 where the acronym of one has, in order, first letters of the words of the other, and enough of them.

    Text k has letters[short[k]:short[k + 1]] as its acronym, letters[initials[k]:initials[k + 1]] as its first letters.
    """
    for p in range(len(left)):
        out[p] = 0.0
        for turned in range(2):
            a, b = (left[p], right[p]) if turned == 0 else (right[p], left[p])
            at, end = short[a], short[a + 1]
            if end - at < fewest[b]:
                continue
            for place in range(initials[b], initials[b + 1]):
                if at < end and letters[place] == letters[at]:
                    at += 1
            if at == end:
                out[p] = 1.0


@kernel
def fill_parts(
    ids: NDArray[np.int32],
    starts: Rows,
    given: NDArray[np.bool_],
    sort: NDArray[np.bool_],
    left: Rows,
    right: Rows,
    out: Values,
) -> None:
    """out[p] = 0 for the same words, a level where the words of one are in the other, else -1."""
    for p in range(len(left)):
        a, b = left[p], right[p]
        if starts[a + 1] - starts[a] > starts[b + 1] - starts[b]:
            a, b = b, a
        at, to, end_at, end_to = starts[a], starts[b], starts[a + 1], starts[b + 1]
        n_few, n_more = end_at - at, (end_to - to) - (end_at - at)
        inside, equal, other_sort = True, True, False
        for i in range(at, end_at):
            found = False
            for j in range(to, end_to):
                found = found or ids[i] == ids[j]
            inside = inside and found
        for j in range(to, end_to):
            found = False
            for i in range(at, end_at):
                found = found or ids[i] == ids[j]
            equal = equal and found
            other_sort = other_sort or (sort[ids[j]] and not found)
        if not inside or (n_more == 0 and not equal):
            out[p] = -1.0
            continue
        first, last = True, True
        for i in range(n_few):
            first = first and ids[at + i] == ids[to + i]
            last = last and ids[at + i] == ids[to + n_more + i]
        if n_more == 0:
            out[p] = 0.0
        elif other_sort:
            out[p] = OTHER_SORT
        elif last and (n_more == 1 or given[ids[to]]):
            out[p] = LAST_NAME
        elif first and n_few == 1 and given[ids[at]]:
            out[p] = GIVEN_NAME
        elif last or (first and n_more == 1):
            out[p] = ONE_MORE
        else:
            out[p] = ELSEWHERE
