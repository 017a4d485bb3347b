"""Amounts, places on the earth and categories: texts go in, numbers or one of few words come out."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from scdp._typing import Features, Integers
from scdp.compare.content.names import words_of
from scdp.compare.scorers import PairScorer

EARTH_RADIUS = 6371.0

_AMOUNT = re.compile(r"[-+(]?\s*[^\w\s.,()+-]{0,3}\s*[-+]?(\d[\d.,'’\s]*\d|\d)")
# Hours, minutes and seconds: "3:45", "1:02:03", "3m 45sec".
DURATION = re.compile(
    r"(?:(\d+):)??(\d+):([0-5]\d)|(?:(\d+)h\s*)?(\d+)\s*m(?:in)?\.?\s*(\d+)\s*s(?:ec)?\.?", re.IGNORECASE
)
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

    A duration becomes seconds.

    Example
    -------
    >>> parse_amount("$1,234.50"), parse_amount("1.234,50 EUR"), parse_amount("2.5k"), parse_amount("3:45")
    (1234.5, 1234.5, 2500.0, 225.0)
    """
    duration = DURATION.fullmatch(text.strip())
    if duration is not None:
        parts = duration.groups()[:3] if duration[2] else duration.groups()[3:]
        hours, minutes, seconds = (float(part or 0) for part in parts)
        return 3600 * hours + 60 * minutes + seconds
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
        a, b = self._numbers[left], self._numbers[right]
        larger = np.maximum(np.abs(a), np.abs(b))
        with np.errstate(over="ignore", invalid="ignore"):
            # Halves, so that no difference of finite numbers is infinite.
            share = np.abs(a / 2 - b / 2) / (larger / 2)
        return np.where(a == b, 0.0, np.minimum(share, 1.0)).astype(np.float32)


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
