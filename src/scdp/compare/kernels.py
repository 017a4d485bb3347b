"""Kernels of comparisons: sorted lists of tokens that are merged, dates and phones by levels. Loaded on first use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Features, Integers
from scdp.compare.content.contacts import APART as PHONES_APART
from scdp.compare.content.contacts import LAST_DIGITS, LOCAL_DIGITS, SAME_AREA, SAME_END
from scdp.compare.content.contacts import ONE_DIGIT as ONE_DIGIT_OF_PHONE
from scdp.compare.content.dates import (
    APART,
    EACH_DIGIT,
    N_DIGITS,
    NEAR,
    NEAR_DAYS,
    NEXT_YEAR,
    NO_DIGIT,
    ONE_DIGIT,
    PARTLY_KNOWN,
    SAME,
    SAME_YEAR,
    SWAPPED,
    TWO_PARTS,
)

Ids = NDArray[np.int32]
Rows = NDArray[np.int64]
Weights = NDArray[np.float64]


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
            out[p] = ONE_DIGIT_OF_PHONE
        else:
            out[p] = SAME_AREA if areas[left[p]] == areas[right[p]] else PHONES_APART
