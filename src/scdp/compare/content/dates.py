"""Dates: texts of any format go in, year, month and day come out; two dates are compared by levels."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

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
    if len(text) == 10 and text[4] == text[7] == "-" and text.isascii():
        numbers = text.split("-")
        if len(numbers) == 3 and "".join(numbers).isdigit():
            return _from_numbers(numbers, order)
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


class DateScorer(PairScorer):
    """Levels: the same, day and month swapped, agreeing as far as known, one digit off, near, same year, else 1.

    Whole dates of the last levels are at most 0.4 + 0.075 a digit in which they differ apart.
    """

    def __init__(self, vocabulary: Sequence[Date]) -> None:
        self._dates = np.array(vocabulary, dtype=np.int64).reshape(-1, 3)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        from scdp.compare.kernels import fill_dates

        out = np.empty(len(left), dtype=np.float32)
        fill_dates(self._dates, left, right, out)
        return out
