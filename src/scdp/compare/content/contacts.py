"""Phones, emails and web addresses: texts go in, the parts that identify come out, and who scores them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Integers
from scdp.compare.content.names import to_latin
from scdp.compare.scorers import PairScorer, RapidFuzzScorer

# A phone number has so many digits at least; a shorter one says nothing about country and area.
FEWEST_DIGITS, MOST_DIGITS = 5, 18
# Numbers that end with all digits of the other agree if those are as many as this.
LOCAL_DIGITS = 7
# The digits at the end by which two numbers are said to be shared.
LAST_DIGITS = 9
SAME_END, ONE_DIGIT, SAME_AREA, APART = 0.1, 0.2, 0.8, 1.0
AREA_DIGITS = 4

_EXTENSION = re.compile(r"(?:ext\.?|extension|x|#|durchwahl)\s*\d{1,6}\s*$", re.IGNORECASE)
_TRUNK = re.compile(r"\(0\)")
_NO_DIGIT = re.compile(r"[^0-9]")
_MARKS = dict.fromkeys(map(ord, " +-./()"))
_SEPARATORS = re.compile(r"[._-]+")
_SAME_DOMAIN = {"googlemail.com": "gmail.com"}
_TRACKING = re.compile(r"utm_\w+|gclid|fbclid|ref|session\w*|sid", re.IGNORECASE)
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def parse_phone(text: str) -> str | None:
    """The digits of a phone number without extension, leading zeros and "(0)"; None where there are too few.

    Example
    -------
    >>> parse_phone("+44 (0)3501-146662"), parse_phone("03501 146662")
    ('443501146662', '3501146662')
    """
    plain = text.translate(_MARKS)
    if not (plain.isascii() and plain.isdigit() and "(0)" not in text):
        plain = _NO_DIGIT.sub("", _TRUNK.sub("", _EXTENSION.sub("", text)))
    digits = plain.lstrip("0")
    return digits[-MOST_DIGITS:] if len(digits) >= FEWEST_DIGITS else None


def phone_tokens(digits: str) -> tuple[str, ...]:
    return (digits[-LAST_DIGITS:],)


class PhoneScorer(PairScorer):
    """0 where the shorter number ends the longer; then the same end, one digit, the same area; else 1."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = np.fromiter(map(int, vocabulary), np.int64, len(vocabulary))
        self._lengths = np.fromiter(map(len, vocabulary), np.int64, len(vocabulary))
        width = LAST_DIGITS + 1
        first = np.maximum(np.minimum(self._lengths, width) - AREA_DIGITS, 0)
        self._areas = self._numbers % 10**width // 10**first

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        from scdp.compare.kernels import fill_phones

        out = np.empty(len(left), dtype=np.float32)
        fill_phones(self._numbers, self._lengths, self._areas, left, right, out)
        return out


def parse_email(text: str) -> tuple[str, str] | None:
    """The local part without dots, plus-tag and capitals, and the domain; None where there is no "@".

    Example
    -------
    >>> parse_email("Rebecca.Taylor+shop@GoogleMail.com")
    ('rebeccataylor', 'gmail.com')
    """
    local, at, domain = to_latin(text).strip().strip("<>;,").removeprefix("mailto:").rpartition("@")
    local = _SEPARATORS.sub("", local.partition("+")[0].strip())
    domain = domain.strip()
    return (local, _SAME_DOMAIN.get(domain, domain)) if at and local and domain else None


def email_tokens(parts: tuple[str, str]) -> tuple[str, ...]:
    """The local part: nearly all that an address tells."""
    return parts[:1]


def parse_url(text: str) -> tuple[str, str] | None:
    """Host and path of a web address, without scheme, "www", tracking and a slash at the end.

    Example
    -------
    >>> parse_url("https://www.Example.org/a/?utm_source=x&q=1"), parse_url("example.org/a")
    (('example.org', '/a?q=1'), ('example.org', '/a'))
    """
    text = text.strip()
    try:
        parts = urlsplit(text if _SCHEME.match(text) else f"http://{text}")
        host = (parts.hostname or "").removeprefix("www.").strip(".")
    except ValueError:
        return None
    kept = sorted(
        f"{name}={value}" for name, value in parse_qsl(parts.query) if not _TRACKING.fullmatch(name)
    )
    path = parts.path.rstrip("/").lower()
    return (
        (host, path + ("?" + "&".join(kept) if kept else "")) if host and not re.search(r"\s", host) else None
    )


class TwoPartScorer(PairScorer):
    """Edit distances by the longer length of a main and a lesser part: `weight` x main + the rest x lesser."""

    def __init__(self, vocabulary: Sequence[tuple[str, str]], main: int, weight: float) -> None:
        self._weight = weight
        self._parts = [_PartScorer([parts[place] for parts in vocabulary]) for place in (main, 1 - main)]

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        main, lesser = (part.pairs(left, right, workers) for part in self._parts)
        return (self._weight * main + (1 - self._weight) * lesser).astype(np.float32)


class _PartScorer:
    def __init__(self, texts: Sequence[str]) -> None:
        from rapidfuzz.distance import Levenshtein

        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        self._codes = np.array([places[text] for text in texts], dtype=np.int64)
        self._scorer = RapidFuzzScorer(list(places), Levenshtein.normalized_distance)

    def pairs(self, left: Integers, right: Integers, workers: int) -> NDArray[np.float64]:
        a, b = self._codes[left], self._codes[right]
        out = np.zeros(len(a))
        other = np.flatnonzero(a != b)
        out[other] = self._scorer.pairs(a[other], b[other], workers)
        return out
