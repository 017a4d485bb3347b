"""Contacts, addresses, titles and names of things: texts go in, what identifies comes out, and who scores it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Integers
from scdp.compare.languages import Letters, nickname_groups, to_latin, word_set, words_of
from scdp.compare.names import MOST_WORDS, initials_of, parse_person_name
from scdp.compare.scorers import PairScorer, RapidFuzzScorer, in_threads
from scdp.compare.words import WordTable

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
_LINKING_WORDS = word_set("the a an and")
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
    words = [word for word in words if word not in _LINKING_WORDS] or words
    if not words:
        return None
    versions = tuple(sorted({word for aside in asides for word in aside} & _VERSIONS))
    kept = tuple(words[:MOST_WORDS])
    return Title(kept, versions, tuple(sorted({word for word in kept if word.isdigit()})))


class TitleScorer(PairScorer):
    """Words matched with words; other versions and numbers keep titles apart."""

    def __init__(self, vocabulary: Sequence[Title]) -> None:
        from scdp.compare.alignment import TITLE

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
    person = parse_person_name(" ".join(words), in_text=True)
    if person is None:
        return None
    short = initials_of(person.words) if len(person.words) > 1 else ""
    return Noun(person.words, person.sex, "".join(person.words), short)


class NounTable(NamedTuple):
    """Lists of words by number, and which words are given names or sorts of things."""

    ids: NDArray[np.int32]
    starts: Integers
    given: NDArray[np.bool_]
    sort: NDArray[np.bool_]

    @classmethod
    def of(
        cls, lists: Sequence[Sequence[str]], is_given: Callable[[str], bool], is_sort: Callable[[str], bool]
    ) -> NounTable:
        words = sorted({word for each in lists for word in each})
        places = {word: place for place, word in enumerate(words)}
        starts = np.zeros(len(lists) + 1, dtype=np.int64)
        np.cumsum([len(each) for each in lists], out=starts[1:])
        return cls(
            np.array([places[word] for each in lists for word in each], dtype=np.int32),
            starts,
            np.array(list(map(is_given, words)), dtype=bool),
            np.array(list(map(is_sort, words)), dtype=bool),
        )

    def pairs(self, left: Integers, right: Integers, workers: int) -> NDArray[np.float64]:
        """Levels, -1 where neither name is a part of the other."""
        from scdp.compare.alignment import fill_parts

        return in_threads(partial(fill_parts, *self), left, right, workers)


class NounScorer(PairScorer):
    """Levels by how one name is a part of the other; where it is none, by words matched with words."""

    def __init__(self, vocabulary: Sequence[Noun]) -> None:
        from scdp.compare.alignment import PERSON

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


_SEPARATORS = re.compile(r"[._-]+")
_SAME_DOMAIN = {"googlemail.com": "gmail.com"}
_TRACKING = re.compile(r"utm_\w+|gclid|fbclid|ref|session\w*|sid", re.IGNORECASE)
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)


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
    """The local part, and the domain marked as such: "info" tells little, and the domain of a firm much."""
    return (parts[0], "@" + parts[1])


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
    kept = sorted(f"{name}={value}" for name, value in parse_qsl(parts.query) if not _TRACKING.fullmatch(name))
    path = parts.path.rstrip("/").lower()
    return (host, path + ("?" + "&".join(kept) if kept else "")) if host and not re.search(r"\s", host) else None


def url_tokens(parts: tuple[str, str]) -> tuple[str, ...]:
    """The page, and the host alone: the rarer of those shared counts."""
    return (parts[0], "".join(parts)) if parts[1] else parts[:1]


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
_FORM_OF = {word: form for form, words in _FORMS.items() for word in words.split()} | {"la": "la", "saint": "st"}
_STREETS = word_set("st rd ave blvd ln ct pl sq hwy pkwy ter cres cir cl pde dr")
_SMALL_WORDS = word_set("the of and at near in on off between bet corner by")
_ENDING = re.compile(r"(\w{3,})(strasse|str|straat)$")
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")
_UNIT = re.compile(
    r"(?:\b(?:apt|apartment|unit|suite|ste|flat|room|rm|floor|fl|level|lvl|no)\b\.?\s*#?\s*|#\s*)([0-9]+[a-z]?|[a-z])\b"
)
_UNIT_WORDS = word_set("apt apartment unit suite ste flat room rm floor fl level lvl no")
# A number and words: most addresses of a table are no more than that.
_HOUSE, _STREET = re.compile(r"\d+[a-z]?"), re.compile(r"[a-z]+(?: [a-z]+)*")
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
    house, _, street = text.partition(" ")
    plain = _plain_street(street)
    if plain is not None and _HOUSE.fullmatch(house):
        return Address(house, "", "", plain)
    unit, text = _taken(_UNIT, text)
    postcode, text = _taken(_UK_POSTCODE, text)
    if not postcode:
        postcode, text = _taken(_LONG_POSTCODE, text)
    number, text = _taken(_NUMBER, text)
    if not number:
        number, text = _taken(_NUMBER_ANYWHERE, text)
    found = Address(number, unit, postcode, _words(words_of(text)))
    return found if any(found) else None


@lru_cache(maxsize=1 << 16)
def _plain_street(street: str) -> tuple[str, ...] | None:
    """The words of a street that is words alone, which many addresses have; None for others."""
    found = street.split(" ")
    return _words(found) if _STREET.fullmatch(street) and _UNIT_WORDS.isdisjoint(found) else None


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
    return len(found) > 1 and any(_FORM_OF.get(word, word) in _STREETS or _ENDING.match(word) for word in found[1:])


def address_tokens(address: Address) -> tuple[str, ...]:
    """The words, and the number and postcode marked as such."""
    number, _, postcode, words = address
    if number and not postcode:
        return (*words, f"#{number}")
    marked = (f"{mark}{part}" for mark, part in (("#", number), ("@", postcode)) if part)
    return (*words, *marked)


class AddressScorer(PairScorer):
    """The mean of the parts both have: words matched; number, unit and postcode equal or one edit apart."""

    def __init__(self, vocabulary: Sequence[Address]) -> None:
        from scdp.compare.alignment import ADDRESS

        self._words = WordTable.of([address.words for address in vocabulary], ADDRESS)
        columns = ([getattr(each, name) for each in vocabulary] for name in Address._fields[:3])
        # What no address has is not looked for.
        self._parts = [
            _Part(Letters.of(texts), np.array([bool(text) for text in texts]), weight)
            for texts, weight in zip(columns, (NUMBER, UNIT, POSTCODE), strict=True)
            if any(texts)
        ]

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        from scdp.compare.alignment import fill_one_edit

        total, weights = np.zeros(len(left)), np.zeros(len(left))
        for part in self._parts:
            places = np.flatnonzero(part.present[left] & part.present[right])
            fill = partial(fill_one_edit, part.letters.letters, part.letters.starts, ONE_EDIT)
            total[places] += part.weight * in_threads(fill, left[places], right[places], workers)
            weights[places] += part.weight
        words = self._words.pairs(left, right, workers)
        both = ~np.isnan(words)
        total[both] += WORDS * words[both]
        weights += WORDS * both
        # Addresses without any part in common say nothing alike: as far apart as can be.
        return np.where(weights > 0, total / np.maximum(weights, NUMBER / 10), 1.0).astype(np.float32)


class _Part(NamedTuple):
    letters: Letters
    present: NDArray[np.bool_]
    weight: float
