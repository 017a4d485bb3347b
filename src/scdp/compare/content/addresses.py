"""Postal addresses: texts go in; house number, unit, postcode and words come out, which are compared part by part."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Integers
from scdp.compare.content.names import MOST_WORDS, to_latin, word_set, words_of
from scdp.compare.scorers import PairScorer

if TYPE_CHECKING:
    from scdp.compare.alignment import Letters

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
