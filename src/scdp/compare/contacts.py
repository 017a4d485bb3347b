"""Phones, emails, web and postal addresses: texts go in, the parts that identify come out, and who scores them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Integers
from scdp.compare.names import MOST_WORDS, to_latin, word_set, words_of
from scdp.compare.scorers import PairScorer, RapidFuzzScorer

if TYPE_CHECKING:
    from scdp.compare.alignment import Letters


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


# How much each part counts; those that both addresses have are averaged.
NUMBER, UNIT, POSTCODE, WORDS = 0.3, 0.1, 0.1, 0.5
ONE_EDIT = 0.4

# Words that are written in several ways, by the form they are compared in.
_FORMS = {
    "st": "street str strasse straat saint", "rd": "road", "ave": "avenue av aven avenida avda",
    "blvd": "boulevard blv bd",
    "dr": "drive drv", "ln": "lane la", "ct": "court crt", "pl": "place plaza plz platz", "sq": "square",
    "hwy": "highway", "pkwy": "parkway pky", "ter": "terrace terr tce", "cres": "crescent cr crs",
    "cir": "circle circuit cct",
    "cl": "close", "gr": "grove grv", "gdns": "gardens gdn garden", "pde": "parade", "wy": "way",
    "mt": "mount mountain",
    "ft": "fort", "n": "north nord", "s": "south", "e": "east", "w": "west", "nw": "northwest", "ne": "northeast",
    "sw": "southwest", "se": "southeast", "pk": "park", "hl": "hill", "hts": "heights", "ctr": "center centre",
    "bldg": "building", "rte": "route", "vlg": "village vlge", "1": "first 1st", "2": "second 2nd", "3": "third 3rd",
    "4": "fourth 4th", "5": "fifth 5th", "6": "sixth 6th", "7": "seventh 7th", "8": "eighth 8th", "9": "ninth 9th",
    "10": "tenth 10th",
}  # fmt: skip
_FORM_OF = {word: form for form, words in _FORMS.items() for word in words.split()} | {
    "la": "la",
    "saint": "st",
}
_STREETS = word_set("st rd ave blvd ln ct pl sq hwy pkwy ter cres cir cl pde dr")
_SMALL_WORDS = word_set("the of and at near in on off between bet corner by")
_ENDING = re.compile(r"(\w{3,})(strasse|str|straat)$")
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")
_UNIT = re.compile(
    r"(?:\b(?:apt|apartment|unit|suite|ste|flat|room|rm|floor|fl|level|lvl|no)\b\.?\s*#?\s*|#\s*)([0-9]+[a-z]?|[a-z])\b"
)
_UNIT_WORDS = word_set("apt apartment unit suite ste flat room rm floor fl level lvl no")
# A number and words: most addresses of a table are no more than that.
_PLAIN = re.compile(r"(\d+[a-z]?) ([a-z]+(?: [a-z]+)*)")
_UK_POSTCODE = re.compile(r"\b([a-z]{1,2}\d[a-z\d]?)\s*(\d[a-z]{2})\b")
_LONG_POSTCODE = re.compile(r"(?<=\S)[\s,]+(\d{5})(?:-\d{4})?\b(?!.*\d{5})")
_NUMBER = re.compile(r"^\D{0,3}?(\d+[a-z]?)\b(?!(?:st|nd|rd|th)\b)")
_NUMBER_ANYWHERE = re.compile(r"\b(\d{1,5}[a-z]?)\b")


class Address(NamedTuple):
    """Parts of an address; "" where it has none."""

    number: str
    unit: str
    postcode: str
    words: tuple[str, ...]


def parse_address(text: str) -> Address | None:
    """The parts of an address; None where there is nothing.

    Example
    -------
    >>> parse_address("114 Station Street, Flat 2, Leeds LS1 4AB")
    Address(number='114', unit='2', postcode='ls14ab', words=('station', 'st', 'leeds'))
    """
    text = to_latin(text).strip()
    plain = _PLAIN.fullmatch(text)
    if plain is not None and _UNIT_WORDS.isdisjoint(found_words := plain.group(2).split(" ")):
        return Address(plain.group(1), "", "", _words(found_words))
    unit, text = _taken(_UNIT, text)
    postcode, text = _taken(_UK_POSTCODE, text)
    if not postcode:
        postcode, text = _taken(_LONG_POSTCODE, text)
    number, text = _taken(_NUMBER, text)
    if not number:
        number, text = _taken(_NUMBER_ANYWHERE, text)
    found = Address(number, unit, postcode, _words(words_of(text)))
    return found if any(found) else None


def _words(found: Sequence[str]) -> tuple[str, ...]:
    return tuple(form for word in found if word not in _SMALL_WORDS for form in _forms(word))[:MOST_WORDS]


def _taken(pattern: re.Pattern[str], text: str) -> tuple[str, str]:
    """What the pattern finds, and the text without it."""
    found = pattern.search(text)
    if found is None:
        return "", text
    return "".join(filter(None, found.groups())), text[: found.start()] + " " + text[found.end() :]


@lru_cache(maxsize=1 << 16)
def _forms(word: str) -> tuple[str, ...]:
    ending = _ENDING.match(word)
    if ending:
        return ending.group(1), "st"
    word = _FORM_OF.get(word, word)
    ordinal = _ORDINAL.fullmatch(word)
    return (ordinal.group(1) if ordinal else word,)


def has_street_word(text: str) -> bool:
    """Whether a word is a sort of street, in full or short, or ends like one."""
    found = words_of(text)
    return len(found) > 1 and any(
        _FORM_OF.get(word, word) in _STREETS or _ENDING.match(word) for word in found[1:]
    )


def address_tokens(address: Address) -> tuple[str, ...]:
    """The words, and the number and postcode marked as such."""
    marked = (f"{mark}{part}" for mark, part in (("#", address.number), ("@", address.postcode)) if part)
    return (*address.words, *marked)


class AddressScorer(PairScorer):
    """The mean of the parts both have: words matched; number, unit and postcode equal or one edit apart."""

    def __init__(self, vocabulary: Sequence[Address]) -> None:
        from scdp.compare.alignment import ADDRESS, Letters, WordTable

        self._words = WordTable.of([address.words for address in vocabulary], ADDRESS)
        columns = (
            [getattr(address, name) for address in vocabulary] for name in ("number", "unit", "postcode")
        )
        self._parts = [
            _Part(Letters.of(texts), np.array([bool(text) for text in texts])) for texts in columns
        ]

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        from scdp.compare.alignment import fill_one_edit, in_threads

        total, weights = np.zeros(len(left)), np.zeros(len(left))
        for part, weight in zip(self._parts, (NUMBER, UNIT, POSTCODE), strict=True):
            both = part.present[left] & part.present[right]
            places = np.flatnonzero(both)
            fill = partial(fill_one_edit, part.letters.letters, part.letters.starts, ONE_EDIT)
            total[places] += weight * in_threads(fill, left[places], right[places], workers)
            weights[places] += weight
        words = self._words.pairs(left, right, workers)
        both = ~np.isnan(words)
        total[both] += WORDS * words[both]
        weights += WORDS * both
        # Addresses without any part in common say nothing alike: as far apart as can be.
        return np.where(weights > 0, total / np.maximum(weights, NUMBER / 10), 1.0).astype(np.float32)


class _Part(NamedTuple):
    letters: Letters
    present: NDArray[np.bool_]
