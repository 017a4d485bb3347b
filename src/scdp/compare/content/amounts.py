"""Amounts, durations, years, places and categories: texts go in, numbers or one of few words come out."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Integers
from scdp.compare.cells import year
from scdp.compare.content.names import words_of
from scdp.compare.scorers import PairScorer

EARTH_RADIUS = 6371.0
# Years apart at which the distance is 0.5.
HALF_WAY = 5.0
# What one number without a unit may have to be multiplied by to be in the unit of the other.
UNITS = (60.0, 1000.0, 60000.0)
OTHER_UNIT = 0.02

_AMOUNT = re.compile(r"[-+(]?\s*[^\w\s.,()+-]{0,3}\s*[-+]?(\d[\d.,'’\s]*\d|\d)")
# Hours, minutes and seconds.
_CLOCK = re.compile(r"(?:(\d+):)??(\d+):([0-5]\d)(?:\.\d+)?")
_TIMED = re.compile(r"(\d+(?:\.\d+)?)\s*(h(?:ours?|rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![a-z])")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_SHORT_YEAR = re.compile(r"\(?['’]?(\d\d)\)?\.?")
_COORDINATE = re.compile(r"[-+]?\d+(?:\.\d+)?")
_TIMES = {"k": 1e3, "m": 1e6, "mio": 1e6, "mln": 1e6, "million": 1e6, "bn": 1e9, "billion": 1e9}
_SAME_WORDS = {
    word: words[0]
    for words in (
        ("yes", "y", "true", "1"),
        ("no", "n", "false", "0"),
    )
    for word in words
}
_SEXES = {"m": "male", "man": "male", "f": "female", "w": "female", "woman": "female"}


def parse_amount(text: str) -> float | None:
    """The first number in a text, with currency signs, thousands and decimals of either style, "k" and "million".

    Example
    -------
    >>> parse_amount("$1,234.50"), parse_amount("1.234,50 EUR"), parse_amount("2.5k")
    (1234.5, 1234.5, 2500.0)
    """
    found = _AMOUNT.search(text)
    if found is None:
        return None
    digits = _plain(re.sub(r"[\s'’]", "", found.group(1)))
    sign = -1.0 if re.search(r"[-(]", text[found.start() : found.start(1)]) else 1.0
    unit = re.match(r"\s*([a-z]+)", text[found.end() :].lower())
    value = sign * float(digits) * _TIMES.get(unit.group(1) if unit else "", 1.0)
    return value if math.isfinite(value) else None


def _plain(digits: str) -> str:
    """The number with a point for its decimals: the last mark is one if it is the only one of its sort."""
    marks = [c for c in digits if c in ".,"]
    if not marks:
        return digits
    last = marks[-1]
    after = len(digits) - digits.rfind(last) - 1
    thousands = marks.count(last) > 1 or (after == 3 and last == "," and len(set(marks)) == 1)
    whole, fraction = (digits, "") if thousands else (digits[: -after - 1], digits[-after:])
    return re.sub(r"[.,]", "", whole) + ("." + fraction if fraction else "")


class RelativeScorer(PairScorer):
    """|difference| / the larger of the two, capped at 1 where signs differ."""

    def __init__(self, vocabulary: Sequence[float]) -> None:
        self._numbers = np.asarray(vocabulary, dtype=np.float64)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        return _relative(self._numbers[left], self._numbers[right]).astype(np.float32)


class Duration(NamedTuple):
    """Seconds where the unit is known; else a number of seconds, minutes or milliseconds."""

    value: float
    known: bool


def parse_duration(text: str) -> Duration | None:
    """How long something lasts; a number alone may be of any unit.

    Example
    -------
    >>> parse_duration("3:45"), parse_duration("1 hr. 54 min."), parse_duration("225000")
    (Duration(value=225.0, known=True), Duration(value=6840.0, known=True), Duration(value=225000.0, known=False))
    """
    text = text.strip().lower()
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return Duration(3600 * hours + 60 * minutes + seconds, True)
    parts = _TIMED.findall(text)
    if parts:
        return Duration(sum(float(number) * _SECONDS[unit[0]] for number, unit in parts), True)
    value = parse_amount(text)
    return None if value is None else Duration(value, False)


class DurationScorer(PairScorer):
    """|difference| / the longer; numbers without a unit may be of others, which adds a little."""

    def __init__(self, vocabulary: Sequence[Duration]) -> None:
        self._values = np.array([each.value for each in vocabulary], dtype=np.float64)
        self._known = np.array([each.known for each in vocabulary], dtype=bool)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        a, b = self._values[left], self._values[right]
        known, other = self._known[left], self._known[right]
        # Where one is known it comes first, else the smaller one: the result does not depend on the order.
        swap = np.where(known == other, a > b, other)
        a, b = np.where(swap, b, a), np.where(swap, a, b)
        out = _relative(a, b)
        for may, factors in ((~(known | other), UNITS), (known ^ other, (1 / 60, 1000.0))):
            for times in factors:
                out[may] = np.minimum(out[may], OTHER_UNIT + _relative(a[may] * times, b[may]))
        return np.minimum(out, 1.0).astype(np.float32)


def _relative(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """|difference| / the larger amount, at most 1."""
    larger = np.maximum(np.abs(a), np.abs(b))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # Halves, so that no difference of finite numbers is infinite.
        share = np.abs(a / 2 - b / 2) / (larger / 2)
    return np.where(a == b, 0.0, np.minimum(share, 1.0))


def parse_year(text: str) -> int | None:
    """The year in a text; one of two digits stays below 100.

    Example
    -------
    >>> parse_year("(1995)."), parse_year("'97"), parse_year("n.d.")
    (1995, 97, None)
    """
    found = year(text)
    if found:
        return int(found)
    short = _SHORT_YEAR.fullmatch(text.strip())
    return int(short.group(1)) if short else None


class YearScorer(PairScorer):
    """Years apart / (years apart + 5), within the century where one has two digits."""

    def __init__(self, vocabulary: Sequence[int]) -> None:
        self._years = np.array(vocabulary, dtype=np.int64)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        a, b = self._years[left], self._years[right]
        gap = np.abs(a - b)
        within = np.abs(a % 100 - b % 100)
        gap = np.where((a < 100) | (b < 100), np.minimum(within, 100 - within), gap)
        return (gap / (gap + HALF_WAY)).astype(np.float32)


def parse_place(text: str) -> tuple[float, float] | None:
    """Latitude and longitude in degrees; None where there are not two numbers that can be these.

    Example
    -------
    >>> parse_place("48.137 11.575"), parse_place("48.137, 11.575"), parse_place("99 0")
    ((48.137, 11.575), (48.137, 11.575), None)
    """
    found = _COORDINATE.findall(text)
    if len(found) != 2:
        return None
    latitude, longitude = map(float, found)
    return (latitude, longitude) if abs(latitude) <= 90 and abs(longitude) <= 360 else None


class PlaceScorer(PairScorer):
    """Kilometres over the great circle, km / (km + scale): 0.5 at the scale."""

    def __init__(self, vocabulary: Sequence[tuple[float, float]], scale: float) -> None:
        latitude, longitude = np.radians(np.array(vocabulary, dtype=np.float64).reshape(-1, 2)).T
        around = np.cos(latitude)
        self._points = np.stack(
            [around * np.cos(longitude), around * np.sin(longitude), np.sin(latitude)], axis=1
        )
        self._scale = scale

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        chord = np.linalg.norm(self._points[left] - self._points[right], axis=1)
        km = 2 * EARTH_RADIUS * np.arcsin(np.minimum(chord / 2, 1.0))
        return (km / (km + self._scale)).astype(np.float32)


def parse_category(text: str) -> str | None:
    """The words of a category; yes and true, no and false, m and male are the same.

    Example
    -------
    >>> parse_category(" TRUE"), parse_category("Y"), parse_category("M"), parse_category("New York")
    ('yes', 'yes', 'male', 'new york')
    """
    word = " ".join(words_of(text))
    return _SEXES.get(word) or _SAME_WORDS.get(word, word) or None
