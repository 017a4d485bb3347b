"""Kernels of comparisons: sorted lists of tokens that are merged, dates and phones by levels. Loaded on first use.

A text is a part of one long array of letters, from its first letter up to the first of the next text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel, kernel_as_written
from scdp._typing import Features, Integers
from scdp.compare.amounts import (
    APART,
    EACH_DIGIT,
    FEWEST_DIGITS,
    LAST_DIGITS,
    LOCAL_DIGITS,
    MOST_DIGITS,
    N_DIGITS,
    NEAR,
    NEAR_DAYS,
    NEXT_YEAR,
    NO_DIGIT,
    ONE_DIGIT,
    PARTLY_KNOWN,
    SAME,
    SAME_AREA,
    SAME_END,
    SAME_YEAR,
    SWAPPED,
    TWO_PARTS,
)
from scdp.hashing import MIXER

Ids = NDArray[np.int32]
Rows = NDArray[np.int64]
Weights = NDArray[np.float64]


@kernel
def take_part(keys: Integers, n_parts: int) -> Integers:
    """The keys that fall into the first of so many parts by their value, as often as they occur."""
    below = ~np.uint64(0) // np.uint64(n_parts)
    taken = np.empty(len(keys), np.int64)
    n_taken = 0
    for key in keys:
        if np.uint64(key) * MIXER < below:
            taken[n_taken] = key
            n_taken += 1
    return taken[:n_taken]


@kernel
def fill_shared(
    ids: Ids, starts: Integers, weights: Weights, left: Rows, right: Rows, out: NDArray[np.float64]
) -> None:
    """out[p] = the sum of the weights of the ids that lists left[p] and right[p] share; ids ascend in a list."""
    for p in range(len(left)):
        i, j = starts[left[p]], starts[right[p]]
        end_i, end_j = starts[left[p] + 1], starts[right[p] + 1]
        total = 0.0
        while i < end_i and j < end_j:
            a, b = ids[i], ids[j]
            if a == b:
                total += weights[a]
            i += a <= b
            j += b <= a
        out[p] = total


@kernel
def fill_largest_shared(
    ids: Ids, starts: Integers, weights: Weights, left: Rows, right: Rows, out: NDArray[np.float64]
) -> None:
    """out[p] = the largest weight of an id that lists left[p] and right[p] share; -1 where they share none."""
    for p in range(len(left)):
        i, j = starts[left[p]], starts[right[p]]
        end_i, end_j = starts[left[p] + 1], starts[right[p] + 1]
        largest = -1.0
        while i < end_i and j < end_j:
            a, b = ids[i], ids[j]
            if a == b:
                largest = max(largest, weights[a])
            i += a <= b
            j += b <= a
        out[p] = largest


@kernel
def fill_shared_codes(
    ids: Ids,
    starts: Integers,
    rarity: Weights,
    strong: NDArray[np.bool_],
    left: Rows,
    right: Rows,
    out: NDArray[np.float64],
) -> None:
    """out[p] = 0.5 (1 - rarest shared) + 0.3 x the less rare of two that are not; 0.6 and more where none is shared."""
    for p in range(len(left)):
        i, j = starts[left[p]], starts[right[p]]
        end_i, end_j = starts[left[p] + 1], starts[right[p] + 1]
        shared, own, other = -1.0, 0.0, 0.0
        while i < end_i or j < end_j:
            if j == end_j or (i < end_i and ids[i] < ids[j]):
                if strong[ids[i]]:
                    own = max(own, rarity[ids[i]])
                i += 1
            elif i == end_i or ids[j] < ids[i]:
                if strong[ids[j]]:
                    other = max(other, rarity[ids[j]])
                j += 1
            else:
                shared = max(shared, rarity[ids[i]])
                i += 1
                j += 1
        if shared >= 0.0:
            out[p] = 0.5 * (1.0 - shared) + 0.3 * min(own, other)
        else:
            out[p] = 0.6 + 0.4 * min(own, other)


@kernel
def digits_off(one: int, other: int) -> tuple[int, bool]:
    """In how many of eight digits two numbers differ; and whether in one, or in two neighbours that are turned."""
    count, turned = 0, False
    digit_before, other_before, differed = 0, 0, False
    for _ in range(N_DIGITS):
        digit, other_digit = one % 10, other % 10
        differs = digit != other_digit
        count += differs
        turned |= differs and differed and digit == other_before and other_digit == digit_before
        digit_before, other_before, differed = digit, other_digit, differs
        one, other = one // 10, other // 10
    return count, count == 1 or (count == 2 and turned)


@kernel
def fill_dates(dates: Integers, left: Integers, right: Integers, out: Features) -> None:
    """out[p] = the level of two dates (year, month, day; 0 = not told)."""
    for p in range(len(left)):
        year, month, day = dates[left[p], 0], dates[left[p], 1], dates[left[p], 2]
        other_year, other_month, other_day = dates[right[p], 0], dates[right[p], 1], dates[right[p], 2]
        same_year, same_month, same_day = year == other_year, month == other_month, day == other_day
        whole = day > 0 and other_day > 0
        if same_year and same_month and same_day:
            out[p] = SAME
            continue
        if whole and same_year and month == other_day and day == other_month:
            out[p] = SWAPPED
            continue
        if not whole and same_year and (same_month or month == 0 or other_month == 0):
            out[p] = PARTLY_KNOWN
            continue
        n_digits, one_digit = digits_off(
            year * 10_000 + month * 100 + day, other_year * 10_000 + other_month * 100 + other_day
        )
        # Days of a calendar whose months all have 31: near enough for what is near.
        gap = abs(((year - other_year) * 12 + month - other_month) * NEAR_DAYS + day - other_day)
        if whole and one_digit:
            out[p] = ONE_DIGIT
        elif whole and gap <= NEAR_DAYS:
            out[p] = NEAR
        elif whole and same_year + same_month + same_day == 2:
            out[p] = TWO_PARTS
        else:
            level = SAME_YEAR if same_year else NEXT_YEAR if abs(year - other_year) == 1 else APART
            out[p] = min(level, NO_DIGIT + EACH_DIGIT * n_digits) if whole else level


@kernel
def fill_phones(
    numbers: Integers, lengths: Integers, areas: Integers, left: Integers, right: Integers, out: Features
) -> None:
    """out[p] = the level of two phone numbers."""
    for p in range(len(left)):
        a, b = numbers[left[p]], numbers[right[p]]
        shorter = min(lengths[left[p]], lengths[right[p]])
        if a == b:
            out[p] = 0.0
            continue
        n_equal = 0
        while n_equal < shorter and a % 10 == b % 10:
            a, b = a // 10, b // 10
            n_equal += 1
        if shorter >= LOCAL_DIGITS and n_equal >= LOCAL_DIGITS:
            out[p] = 0.0 if n_equal == shorter else SAME_END
            continue
        count, turned = 0, False
        before, other_before, differed = 0, 0, False
        for _ in range(n_equal, min(shorter, LAST_DIGITS + 1)):
            digit, other = a % 10, b % 10
            differs = digit != other
            turned |= differs and differed and digit == other_before and other == before
            count += differs
            before, other_before, differed = digit, other, differs
            a, b = a // 10, b // 10
        if count == 1 or (count == 2 and turned):
            out[p] = ONE_DIGIT
        else:
            out[p] = SAME_AREA if areas[left[p]] == areas[right[p]] else APART


_DIGIT_0, _OPENS, _CLOSES = 48, 40, 41
NOT_PLAIN = -1


@kernel
def read_phones(content: NDArray[np.uint8], offsets: Integers, marks: NDArray[np.bool_]) -> Integers:
    """The digits of each text as a number, without zeros at the start; 0 where they are too few.

    `NOT_PLAIN` where there is anything but digits and marks, a zero in brackets, or too many digits.
    """
    numbers = np.empty(len(offsets) - 1, np.int64)
    for text in range(len(numbers)):
        number, n_digits, plain = 0, 0, True
        for place in range(offsets[text], offsets[text + 1]):
            digit = int(np.int64(content[place])) - _DIGIT_0
            if 0 <= digit <= 9:
                if n_digits > 0 or digit > 0:
                    n_digits += 1
                plain = plain and n_digits <= MOST_DIGITS
                inside = place > offsets[text] and place + 1 < offsets[text + 1]
                if digit == 0 and inside and content[place - 1] == _OPENS and content[place + 1] == _CLOSES:
                    plain = False
                if plain:
                    number = number * 10 + digit
            else:
                plain = plain and marks[content[place]]
        numbers[text] = NOT_PLAIN if not plain else number if n_digits >= FEWEST_DIGITS else 0
    return numbers


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
def edit(masks: Masks, row: int, letters: Any, first: int, end: int, other_first: int, other_end: int) -> float:
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
def jaro_winkler(masks: Masks, row: int, letters: Any, first: int, end: int, other_first: int, other_end: int) -> float:
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
