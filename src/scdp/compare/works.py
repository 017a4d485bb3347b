"""Titles of songs, albums and films, and names of anything that a text speaks of: words, and what keeps them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Integers
from scdp.compare.names import MOST_WORDS, initials_of, nickname_groups, parse_person_name, word_set, words_of
from scdp.compare.scorers import PairScorer

# What is added where one title tells of a version and the other does not; the least distance of two versions, and of
# titles with different numbers.
ONE_VERSION, OTHER_VERSION, OTHER_NUMBER = 0.15, 0.4, 0.4
# Names: one the acronym of the other, words that are near, and the least distance of others; "Mr" and "Mrs".
ACRONYM, NEAR, NEAR_WORDS, OTHER_WORDS, OTHER_SEX = 0.05, 0.25, 0.4, 0.75, 0.9

_ASIDE = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]")
_GUEST = re.compile(r"\b(?:feat|ft|featuring)\b.*", re.IGNORECASE)
_TRACK_NUMBER = re.compile(r"^\s*[a-d]?\d{1,3}\s*[-._)]+\s*(?=\D*[^\W\d_]{2})", re.IGNORECASE)
_AFTER_DASH = re.compile(r"\s[-–—]\s+([^-–—]*)$")
_VERSIONS = word_set(
    "live remix mix acoustic instrumental demo karaoke edit reprise unplugged dub cover extended radio interlude "
    "soundtrack tribute trailer sequel"
)
_NEUTRAL = word_set(
    "version versions edition deluxe explicit album single ep original remaster remastered bonus track tracks mono "
    "stereo clean special limited expanded anniversary from disc cd dvd vol volume the"
)
_ROMAN = {"ii": "2", "iii": "3", "iv": "4", "vi": "6", "vii": "7", "viii": "8", "ix": "9"}
_SMALL_WORDS = word_set("the a an and")
_DETERMINERS = word_set("the a an this that his her its their our my your")
_POSSESSIVE = re.compile(r"['’](?:s\b|(?=\s|$))")
# A name with one of these words is that of another thing than the name without it.
SORTS = word_set(
    "university college school institute department faculty academy museum library church cathedral temple hospital "
    "street road avenue square park bridge station airport port harbour harbor river lake sea ocean bay island islands "
    "peninsula mountain mountains mount valley desert county province state district city town village region north "
    "south east west northern southern eastern western new old upper lower great company bank party association "
    "society committee council court ministry army club team league festival award prize times post news journal "
    "family house hall center centre foundation act treaty war"
)


class Title(NamedTuple):
    """The words of a title, the version it tells of ("live"), and its numbers."""

    words: tuple[str, ...]
    versions: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


def parse_title(text: str) -> Title | None:
    """The parts of a title; None where there is no word.

    Track numbers, guests and what is said in brackets are not words of it, but for what opens it in brackets.

    Example
    -------
    >>> parse_title("03 - The Wild River, Pt. II (feat. Ann Lee) [Live]")
    Title(words=('wild', 'river', 'pt', '2'), versions=('live',), numbers=('2',))
    """
    text = _TRACK_NUMBER.sub("", text)
    asides = [words_of(_GUEST.sub("", one or other)) for one, other in _ASIDE.findall(text)]
    bare = _GUEST.sub("", _ASIDE.sub(" ", text))
    after = _AFTER_DASH.search(bare)
    if after is not None and set(words_of(after.group(1))) & (_VERSIONS | _NEUTRAL):
        asides.append(words_of(after.group(1)))
        bare = bare[: after.start()]
    words = words_of(bare) or words_of(text)
    if text.lstrip().startswith(("(", "[")) and asides:
        words = [*asides[0], *words]
    words = [_ROMAN.get(word, word) for word in words]
    words = [word for word in words if word not in _SMALL_WORDS] or words
    if not words:
        return None
    versions = tuple(sorted({word for aside in asides for word in aside} & _VERSIONS))
    kept = tuple(words[:MOST_WORDS])
    return Title(kept, versions, tuple(sorted({word for word in kept if word.isdigit()})))


class TitleScorer(PairScorer):
    """Words matched with words; other versions and numbers keep titles apart."""

    def __init__(self, vocabulary: Sequence[Title]) -> None:
        from scdp.compare.alignment import TITLE, WordTable

        self._words = WordTable.of([title.words for title in vocabulary], TITLE)
        self._versions = _numbered([title.versions for title in vocabulary])
        self._numbers = _numbered([title.numbers for title in vocabulary])

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        distances = self._words.pairs(left, right, workers)
        one, other = self._versions[left], self._versions[right]
        differ = one != other
        told = (one > 0) & (other > 0)
        distances[differ & ~told] += ONE_VERSION
        numbers, other_numbers = self._numbers[left], self._numbers[right]
        clash = (numbers != other_numbers) & (numbers > 0) & (other_numbers > 0)
        for holds, least in ((differ & told, OTHER_VERSION), (clash, OTHER_NUMBER)):
            distances[holds] = np.maximum(distances[holds], least)
        return np.minimum(distances, 1.0).astype(np.float32)


def _numbered(values: Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
    """A number for each distinct value, 0 for the empty one."""
    places: dict[tuple[str, ...], int] = {(): 0}
    return np.array([places.setdefault(value, len(places)) for value in values], dtype=np.int64)


class Noun(NamedTuple):
    """The words of a proper noun, its sex as `PersonName` has it, its letters, and those of its acronym."""

    words: tuple[str, ...]
    sex: int
    letters: str
    acronym: str


def parse_proper_noun(text: str) -> Noun | None:
    """The parts of a name in a text, without determiners, titles and "'s"; None where there is no word.

    Example
    -------
    >>> parse_proper_noun("Mrs. Bennet's")
    Noun(words=('bennet',), sex=2, letters='bennet', acronym='')
    >>> parse_proper_noun("the United Nations").acronym
    'un'
    """
    words = _POSSESSIVE.sub("", text.strip()).split()
    while len(words) > 1 and words[0].lower() in _DETERMINERS:
        words = words[1:]
    person = parse_person_name(" ".join(words))
    if person is None:
        return None
    short = initials_of(person.words) if len(person.words) > 1 else ""
    return Noun(person.words, person.sex, "".join(person.words), short)


class NounScorer(PairScorer):
    """Levels by how one name is a part of the other; where it is none, by words matched with words."""

    def __init__(self, vocabulary: Sequence[Noun]) -> None:
        from scdp.compare.alignment import PERSON, WordTable
        from scdp.compare.nouns import NounTable

        lists = [noun.words for noun in vocabulary]
        self._words = WordTable.of(lists, PERSON)
        self._parts = NounTable.of(lists, _is_given_name, SORTS.__contains__)
        self._sexes = np.array([noun.sex for noun in vocabulary])
        places: dict[str, int] = {"": -1}
        self._letters = np.array([places.setdefault(noun.letters, len(places)) for noun in vocabulary])
        self._acronyms = np.array([places.get(noun.acronym, -1) for noun in vocabulary])

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        out = self._parts.pairs(left, right, workers)
        matched = self._words.pairs(left, right, workers)
        far = OTHER_WORDS + (1.0 - OTHER_WORDS) * matched
        out = np.where(out >= 0.0, out, np.where(matched <= NEAR, NEAR_WORDS, far))
        letters, short = self._letters, self._acronyms
        is_acronym = (letters[left] == short[right]) | (letters[right] == short[left])
        out[is_acronym] = np.minimum(out[is_acronym], ACRONYM)
        one, other = self._sexes[left], self._sexes[right]
        clash = (one != other) & (one > 0) & (other > 0)
        out[clash] = np.maximum(out[clash], OTHER_SEX)
        return out.astype(np.float32)


def _is_given_name(word: str) -> bool:
    return bool(nickname_groups(word))
