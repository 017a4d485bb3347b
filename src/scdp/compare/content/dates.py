"""Dates: texts of any format go in, year, month and day come out; two dates are compared by levels."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from scdp._compile import kernel
from scdp._typing import Features, Integers
from scdp.compare.content.names import to_latin
from scdp.compare.scorers import PairScorer

# Year, month and day; 0 where the text does not tell.
Date = tuple[int, int, int]
ORDERS = ("dmy", "mdy")
# A year of two digits above this belongs to the 20th century.
LATEST_SHORT_YEAR = 30
EARLIEST, LATEST = 1000, 2199

SAME, SWAPPED, PARTLY_KNOWN, ONE_DIGIT, NEAR, TWO_PARTS, SAME_YEAR, NEXT_YEAR, APART = (
    0.0, 0.1, 0.15, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0,
)  # fmt: skip
NEAR_DAYS = 31
# Whole dates are not farther apart than by the digits in which they differ.
NO_DIGIT, EACH_DIGIT = 0.4, 0.075
N_DIGITS = 8

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january januar janvier enero gennaio janeiro",
            "feb february februar fevrier febrero febbraio fevereiro",
            "mar march marz mars marzo marco maerz mrz", "apr april avril abril aprile", "may mai mayo maggio maio",
            "jun june juni juin junio giugno junho", "jul july juli juillet julio luglio julho",
            "aug august aout agosto", "sep sept september septembre septiembre settembre setembro",
            "oct okt october oktober octobre octubre ottobre outubro", "nov november novembre noviembre novembro",
            "dec dez december dezember decembre diciembre dicembre dezembro",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_PARTS = re.compile(r"\d+|[^\W\d_]+")
_TIME = re.compile(r"[ t]\d{1,2}:\d{2}.*$")
_TWO_NUMBERS = re.compile(r"\s*(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{2})(?:\D.*)?")


def learn_order(texts: Sequence[str]) -> str:
    """Whether the day or the month is first where numbers leave it open, by those that leave it not open."""
    votes = 0
    for text in texts:
        found = _TWO_NUMBERS.fullmatch(text)
        if found:
            first, second = int(found.group(1)), int(found.group(3))
            votes += (first > 12 >= second) - (second > 12 >= first)
    return ORDERS[votes < 0]


def parse_date(text: str, order: str = "dmy") -> Date | None:
    """Year, month and day of a text; None where no year is found or the numbers are no date.

    Example
    -------
    >>> parse_date("May 16, 1946"), parse_date("16.05.46"), parse_date("19460516"), parse_date("(1995).")
    ((1946, 5, 16), (1946, 5, 16), (1946, 5, 16), (1995, 0, 0))
    """
    found = _PARTS.findall(_TIME.sub("", to_latin(text)))
    months = [_MONTHS[part] for part in found if part in _MONTHS]
    numbers = [part for part in found if part.isdecimal() and part.isascii()]
    if len(numbers) == 1 and not months:
        return _from_one(numbers[0], order)
    if months:
        return _from_named_month(months[0], numbers)
    return _from_numbers(numbers, order) if len(numbers) >= 2 else None


def _from_one(number: str, order: str) -> Date | None:
    if len(number) == 4:
        return _checked(int(number), 0, 0)
    if len(number) == 6:
        return _checked(int(number[:4]), int(number[4:]), 0)
    if len(number) == 8:
        ahead = _checked(int(number[:4]), int(number[4:6]), int(number[6:]))
        return ahead or _ordered(int(number[:2]), int(number[2:4]), int(number[4:]), order)
    return None


def _from_named_month(month: int, numbers: Sequence[str]) -> Date | None:
    if not numbers or len(numbers) > 2:
        return None
    year = next((number for number in numbers if len(number) == 4), numbers[-1])
    days = [number for number in numbers if number is not year]
    return _checked(_full_year(year), month, int(days[0]) if days else 0)


def _from_numbers(numbers: Sequence[str], order: str) -> Date | None:
    if len(numbers[0]) == 4:
        month, day = int(numbers[1]), int(numbers[2]) if len(numbers) > 2 else 0
        return _checked(int(numbers[0]), month, day) or _checked(int(numbers[0]), day, month)
    if len(numbers) == 2:
        return _checked(_full_year(numbers[1]), int(numbers[0]), 0) if len(numbers[1]) == 4 else None
    return _ordered(int(numbers[0]), int(numbers[1]), _full_year(numbers[2]), order)


def _ordered(first: int, second: int, year: int, order: str) -> Date | None:
    dates = _checked(year, second, first), _checked(year, first, second)
    if not first or not second:
        return None
    return (dates[0] or dates[1]) if order == "dmy" else (dates[1] or dates[0])


def _full_year(text: str) -> int:
    year = int(text) if len(text) <= 4 else 0
    return year if len(text) != 2 else year + (1900 if year > LATEST_SHORT_YEAR else 2000)


def _checked(year: int, month: int, day: int) -> Date | None:
    if not (EARLIEST <= year <= LATEST and 0 <= month <= 12 and 0 <= day <= 31):
        return None
    return (year, month, day) if month or not day else None


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


class DateScorer(PairScorer):
    """Levels: the same, day and month swapped, agreeing as far as known, one digit off, near, same year, else 1.

    Whole dates of the last levels are at most 0.4 + 0.075 a digit in which they differ apart.
    """

    def __init__(self, vocabulary: Sequence[Date]) -> None:
        self._dates = np.array(vocabulary, dtype=np.int64).reshape(-1, 3)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        out = np.empty(len(left), dtype=np.float32)
        fill_dates(self._dates, left, right, out)
        return out
