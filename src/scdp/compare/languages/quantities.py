"""Quantities: numbers with currencies, multiples and units are read as one number."""

from __future__ import annotations

import math
import re

_UNIT = re.compile(r"\s*([a-z]+|[\"'])", re.IGNORECASE)
_AMOUNT = re.compile(r"[-+(]?\s*[^\w\s.,()+-]{0,3}\s*[-+]?(\d[\d.,'’\s]*\d|\d)")
_TIMES = {
    "k": 1e3,
    "m": 1e6,
    "mio": 1e6,
    "mln": 1e6,
    "million": 1e6,
    "thousand": 1e3,
    "mn": 1e6,
    "bn": 1e9,
    "billion": 1e9,
}
# Grams, centimetres, millilitres, megabytes, megahertz and watts.
UNITS = {
    "mg": 1e-3, "g": 1.0, "gr": 1.0, "gram": 1.0, "grams": 1.0, "kg": 1e3, "kgs": 1e3, "kilo": 1e3, "kilos": 1e3,
    "lb": 453.592, "lbs": 453.592, "oz": 28.3495, "ounce": 28.3495, "ounces": 28.3495,
    "mm": 0.1, "cm": 1.0, "m": 100.0, "meter": 100.0, "meters": 100.0, "metres": 100.0, "km": 1e5,
    "in": 2.54, "inch": 2.54, "inches": 2.54, '"': 2.54, "ft": 30.48, "feet": 30.48, "foot": 30.48, "'": 30.48,
    "mi": 160934.4, "miles": 160934.4, "ml": 1.0, "cl": 10.0, "l": 1e3, "ltr": 1e3, "liter": 1e3, "litre": 1e3,
    "kb": 1 / 1024, "mb": 1.0, "gb": 1024.0, "tb": 1024.0**2, "hz": 1e-6, "khz": 1e-3, "mhz": 1.0, "ghz": 1e3,
    "w": 1.0, "kw": 1e3,
}  # fmt: skip
_FEET_AND_INCHES = re.compile(
    r"\s*(\d+)\s*(?:'|ft\.?|feet)\s*(\d{1,2}(?:\.\d+)?)\s*(?:\"|''|in\.?|inches)?\s*", re.IGNORECASE
)


def parse_amount(text: str) -> float | None:
    """The first number in a text, with currency signs, thousands and decimals of either style, "k" and "million".

    Units of one sort are made one: lengths are centimetres, weights grams, memory megabytes.

    Example
    -------
    >>> parse_amount("$1,234.50"), parse_amount("1.234,50 EUR"), parse_amount("2.5k"), parse_amount("1.5 kg")
    (1234.5, 1234.5, 2500.0, 1500.0)
    """
    found = _AMOUNT.search(text)
    if found is None:
        return None
    feet = _FEET_AND_INCHES.fullmatch(text)
    if feet is not None:
        return float(feet.group(1)) * UNITS["ft"] + float(feet.group(2)) * UNITS["in"]
    digits = _plain(re.sub(r"[\s'’]", "", found.group(1)))
    sign = -1.0 if re.search(r"[-(]", text[found.start() : found.start(1)]) else 1.0
    value = sign * float(digits) * _times(text[found.end() :])
    return value if math.isfinite(value) else None


def _times(after: str) -> float:
    """What the word or mark behind a number multiplies it by; "5m" is five million, and "5 m" are metres."""
    unit = _UNIT.match(after)
    word = unit.group(1).lower() if unit else ""
    metres = word == "m" and after.startswith(" m")
    return _TIMES[word] if word in _TIMES and not metres else UNITS.get(word, 1.0)


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
