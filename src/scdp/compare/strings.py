"""Edit distance and Jaro-Winkler of texts as letters' numbers, compiled: one step a letter where masks of 64 bits hold
a text, and plainly otherwise. Distances are those of RapidFuzz.

A text is a part of one long array of letters, from its first letter up to the first of the next text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel, kernel_as_written
from scdp._typing import Integers

Masks = NDArray[np.uint64]
# Texts up to this length fit into the masks.
MOST_LETTERS = 64
_ONE, _ZERO = np.uint64(1), np.uint64(0)
# Jaro-Winkler: above this similarity every equal letter at the start, of so many, closes a share of what is missing.
BOOSTED, PREFIX, SHARE = 0.7, 4, 0.1


@kernel
def set_masks(masks: Masks, row: int, letters: Any, first: int, end: int) -> None:
    """`masks[row, letter]`, zero before, gets a bit for each place of the letter in the text."""
    for place in range(first, end):
        masks[row, letters[place]] |= _ONE << np.uint64(place - first)


@kernel
def clear_masks(masks: Masks, row: int, letters: Any, first: int, end: int) -> None:
    for place in range(first, end):
        masks[row, letters[place]] = _ZERO


@kernel
def edits(masks: Masks, row: int, length: int, letters: Any, first: int, end: int) -> int:
    """Levenshtein distance of a text from that of the masks, by Myers' bits in the form of Hyyro (2003)."""
    up, down = ~_ZERO, _ZERO
    last = np.uint64(length - 1)
    distance = length
    for place in range(first, end):
        equal = masks[row, letters[place]]
        same = (((equal & up) + up) ^ up) | equal | down
        right, left = down | ~(same | up), same & up
        # As signed numbers: mixed with unsigned ones they would become floats.
        distance += int(np.int64((right >> last) & _ONE)) - int(np.int64((left >> last) & _ONE))
        right, left = (right << _ONE) | _ONE, left << _ONE
        up, down = left | ~(same | right), right & same
    return distance


@kernel
def edits_plainly(letters: Any, first: int, end: int, other_first: int, other_end: int) -> int:
    """Levenshtein distance by the table, a row at a time."""
    row = np.arange(other_end - other_first + 1)
    for i in range(end - first):
        corner, row[0] = row[0], i + 1
        for j in range(other_end - other_first):
            changed = corner + (letters[first + i] != letters[other_first + j])
            corner = row[j + 1]
            row[j + 1] = min(changed, corner + 1, row[j] + 1)
    return int(row[-1])


@kernel_as_written
def edit(
    masks: Masks, row: int, letters: Any, first: int, end: int, other_first: int, other_end: int
) -> float:
    """Levenshtein distance by the longer length; `masks[row]` are those of the first text if it is short enough."""
    if end - first <= MOST_LETTERS:
        n_edits = edits(masks, row, end - first, letters, other_first, other_end)
    else:
        n_edits = edits_plainly(letters, first, end, other_first, other_end)
    return n_edits / max(end - first, other_end - other_first)


@kernel
def matches(masks: Masks, row: int, length: int, letters: Any, first: int, end: int) -> tuple[int, int]:
    """Letters that Jaro's window matches, and how many of them stand in another order."""
    reach = max(max(length, end - first) // 2 - 1, 0)
    found, found_in_text = _ZERO, _ZERO
    n_found = 0
    for place in range(min(end - first, length + reach)):
        low, high = max(place - reach, 0), min(place + reach, length - 1)
        window = (~_ZERO >> np.uint64(63 - (high - low))) << np.uint64(low)
        free = masks[row, letters[first + place]] & window & ~found
        # The lowest bit alone, if there is any.
        found |= free & (~free + _ONE)
        any_free = np.uint64(free != _ZERO)
        found_in_text |= any_free << np.uint64(place)
        n_found += int(np.int64(any_free))
    n_moved = 0
    place = first
    while found_in_text:
        if found_in_text & _ONE:
            lowest = found & (~found + _ONE)
            found ^= lowest
            n_moved += int((masks[row, letters[place]] & lowest) == _ZERO)
        found_in_text >>= _ONE
        place += 1
    return n_found, n_moved


@kernel
def matches_plainly(letters: Any, first: int, end: int, other_first: int, other_end: int) -> tuple[int, int]:
    """The same, letter by letter."""
    one, other = letters[first:end], letters[other_first:other_end]
    reach = max(max(len(one), len(other)) // 2 - 1, 0)
    taken, matched = np.zeros(len(one), np.bool_), np.zeros(len(other), np.bool_)
    for j in range(len(other)):
        for i in range(max(j - reach, 0), min(j + reach + 1, len(one))):
            if not taken[i] and not matched[j] and one[i] == other[j]:
                taken[i] = matched[j] = True
    n_moved, i = 0, 0
    for j in range(len(other)):
        if matched[j]:
            while not taken[i]:
                i += 1
            n_moved += one[i] != other[j]
            i += 1
    return int(matched.sum()), n_moved


@kernel_as_written
def jaro_winkler(
    masks: Masks, row: int, letters: Any, first: int, end: int, other_first: int, other_end: int
) -> float:
    """1 - Jaro-Winkler similarity; `masks[row]` are those of the first text if it is short enough."""
    length, other_length = end - first, other_end - other_first
    if max(length, other_length) <= MOST_LETTERS:
        n_found, n_moved = matches(masks, row, length, letters, other_first, other_end)
    else:
        n_found, n_moved = matches_plainly(letters, first, end, other_first, other_end)
    if n_found == 0:
        return 1.0
    similarity = (n_found / length + n_found / other_length + (n_found - n_moved // 2) / n_found) / 3.0
    if similarity > BOOSTED:
        n_equal, most = 0, min(length, other_length, PREFIX)
        while n_equal < most and letters[first + n_equal] == letters[other_first + n_equal]:
            n_equal += 1
        similarity += n_equal * SHARE * (1.0 - similarity)
    return 1.0 - similarity


@kernel
def is_one_edit(letters: Any, first: int, end: int, other_first: int, other_end: int) -> bool:
    """Whether one letter is changed, added, left out, or swapped with its neighbour; not where the texts are equal."""
    length, other_length = end - first, other_end - other_first
    if length > other_length:
        first, end, other_first, other_end = other_first, other_end, first, end
        length, other_length = other_length, length
    if other_length - length > 1:
        return False
    ahead = 0
    while ahead < length and letters[first + ahead] == letters[other_first + ahead]:
        ahead += 1
    behind = 0
    while behind < length - ahead and letters[end - 1 - behind] == letters[other_end - 1 - behind]:
        behind += 1
    left, other_left = length - ahead - behind, other_length - ahead - behind
    if left == 2 and other_left == 2:
        one, other = first + ahead, other_first + ahead
        return letters[one] == letters[other + 1] and letters[one + 1] == letters[other]
    return left <= 1 and other_left == 1


def encode(texts: list[str]) -> tuple[NDArray[np.uint32], Integers]:
    """All code points one after the other, and where each text starts (one more entry than texts)."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    starts = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in texts], out=starts[1:])
    return codes, starts


@kernel
def longest_run(a: Any, b: Any, before: Any, now: Any) -> Any:
    """Length of the longest common substring; `before` and `now` are scratch of len(b) + 1 entries."""
    width = len(b)
    before[: width + 1] = 0
    now[0] = 0
    best = np.int32(0)
    for i in range(len(a)):
        letter = a[i]
        for j in range(width):
            # Two rows and no branch: this is the form the compiler turns into vector instructions.
            run = np.int32(before[j] + 1) if b[j] == letter else np.int32(0)
            now[j + 1] = run
            best = max(best, run)
        before, now = now, before
        now[0] = 0
    return best


@kernel
def fill_pairs(codes: Any, starts: Any, left: Any, right: Any, out: Any) -> None:
    """out[p] = 1 - longest common substring / longer length, for the pairs (left[p], right[p])."""
    longest = 0
    for text in range(len(starts) - 1):
        longest = max(longest, starts[text + 1] - starts[text])
    before = np.zeros(longest + 1, dtype=np.int32)
    now = np.zeros(longest + 1, dtype=np.int32)
    for p in range(len(left)):
        a = codes[starts[left[p]] : starts[left[p] + 1]]
        b = codes[starts[right[p]] : starts[right[p] + 1]]
        if len(a) > len(b):
            a, b = b, a
        out[p] = 1.0 - longest_run(a, b, before, now) / max(len(b), 1)
