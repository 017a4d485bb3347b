"""Cells: raw texts enter; cleaned texts or parts of them leave, distinct, with each record's place among them."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Integers
from scdp.errors import InputError, MissingExtraError
from scdp.table import Column, EncodedColumn

STANDARD: tuple[str, ...] = ("lower", "punctuation", "accents", "spaces")


class _Translation(dict[int, int | str | None]):
    """A table for `str.translate` filled as characters are met, so that no million-entry table is built."""

    def __init__(self, replace: Callable[[str], str | None]) -> None:
        super().__init__()
        self._replace = replace

    def __missing__(self, code: int) -> str | None:
        self[code] = replacement = self._replace(chr(code))
        return replacement


_PUNCTUATION = _Translation(lambda c: " " if unicodedata.category(c).startswith("P") else c)
_MARKS = _Translation(lambda c: None if unicodedata.combining(c) else c)


def _accents(text: str) -> str:
    if text.isascii():
        return text
    bare = unicodedata.normalize("NFKD", text).translate(_MARKS)
    return unicodedata.normalize("NFC", bare)


def _latin(text: str) -> str:
    return text if text.isascii() else require_people("anyascii", LATIN).anyascii(text)


LATIN = 'the cleaning step "latin"'


def require_people(package: str, purpose: str) -> Any:
    """A library of the extra `people`; one sentence says how to install it where it is missing."""
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtraError(package, "people", purpose) from error


STEPS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "punctuation": lambda text: text.translate(_PUNCTUATION),
    "accents": _accents,
    "spaces": lambda text: " ".join(text.split()),
    "sorted": lambda text: " ".join(sorted(text.split())),
    "latin": _latin,
}


def clean(text: str, steps: Iterable[str]) -> str:
    """The text after the named steps, in the order given; text of nothing but white space becomes empty."""
    for step in steps:
        text = STEPS[step](text)
    return text if text.strip() else ""


LONGEST_ABBREVIATION = 6

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?|\d+(?:\.\d+)?")
_YEAR = re.compile(r"(?<!\d)[12]\d{3}(?!\d)")
_AND = re.compile(r"\s*(?:(?<!\w)and(?!\w)|&)\s*", re.IGNORECASE)
_INITIALS = re.compile(r"(?:[^\W\d_](?:\.[\s-]*|[\s-]+|$)){1,4}|[A-Z]{2,3}")
_SUFFIX = re.compile(r"(?:jr|sr|ii|iii|iv)\.?", re.IGNORECASE)


def head(text: str) -> str:
    """The last word that holds a letter or a digit."""
    words = [word for word in text.split() if any(map(str.isalnum, word))]
    return words[-1] if words else ""


def abbreviation(text: str) -> str:
    """First letters of the words ("George W. Bush" to "GWB"); "IBM" and "U.S.A." only lose their dots.

    Lower-case words are skipped when others have capitals, so that "United States of America" gives "USA".
    """
    words = [word for word in text.split() if any(map(str.isalnum, word))]
    if len(words) == 1 and _looks_abbreviated(words[0]):
        return words[0].replace(".", "")
    letters = [next(filter(str.isalnum, word)) for word in words]
    capitals = [letter for letter in letters if not letter.islower()]
    return "".join(capitals or letters)


def _looks_abbreviated(word: str) -> bool:
    characters = [character for character in word if character.isalnum()]
    letters = [character for character in characters if character.isalpha()]
    capitals = bool(letters) and all(map(str.isupper, letters))
    return capitals and 2 <= len(characters) <= LONGEST_ABBREVIATION


def digits(text: str) -> str:
    """The digits 0-9 alone, in order."""
    return "".join(character for character in text if character in "0123456789")


def year(text: str) -> str:
    """The first run of exactly four digits that starts with 1 or 2."""
    found = _YEAR.search(text)
    return found.group() if found else ""


def number(text: str) -> float | None:
    """The first number in the text, thousands commas allowed; None when there is none."""
    found = _NUMBER.search(text)
    value = float(found.group().replace(",", "")) if found else float("inf")
    return value if abs(value) < float("inf") else None


def split_names(text: str, separator: str | None = None) -> list[str]:
    """The names in a list. With a separator: split there. Without: as a bibliography writes authors.

    That is at semicolons if there are any, else at "and", "&" and commas, where "Auer, P." stays one name;
    "Last, First" is turned round to "First Last" so that both ways of writing agree.
    """
    if separator is not None:
        return [name for part in text.split(separator) if (name := part.strip())]
    if ";" in text:
        pieces = [piece for part in text.split(";") for piece in _AND.split(part)]
        return [_given_name_first(name) for piece in pieces if (name := piece.strip(" ,"))]
    return [name for piece in _AND.split(text) for name in _comma_names(piece.strip()) if name]


# What parts the members of a list: a mark, and those that part more.
_PARTS_LIST = {",": re.compile("[,;|]"), ";": re.compile("[;|]")}


def split_members(text: str, separator: str) -> list[str]:
    """The members of a list, which may be in brackets and quotes; a stronger mark parts them too.

    Example
    -------
    >>> split_members('["rock", "pop"]', ","), split_members("Drama|Comedy", ",")
    (['rock', 'pop'], ['Drama', 'Comedy'])
    """
    text = text.strip()
    if text[:1] == "[" and text[-1:] == "]":
        text = text[1:-1].replace('"', "").replace("'", "")
    parts = _PARTS_LIST[separator].split(text) if separator in _PARTS_LIST else text.split(separator)
    return [member for part in parts if (member := part.strip())]


def _comma_names(piece: str) -> list[str]:
    parts = [part for raw in piece.split(",") if (part := raw.strip())]
    last_first = len(parts) == 2 and not piece.endswith(",") and not any(" " in part for part in parts)
    if last_first and not _INITIALS.fullmatch(parts[0]):
        return [_given_name_first(", ".join(parts))]
    names: list[str] = []
    for part in parts:
        follows_surname = bool(names) and "," not in names[-1]
        if follows_surname and (_INITIALS.fullmatch(part) or _SUFFIX.fullmatch(part)):
            names[-1] += ", " + part
        else:
            names.append(part)
    return [_given_name_first(name) for name in names]


def _given_name_first(name: str) -> str:
    last, comma, first = name.partition(",")
    if not comma or _SUFFIX.fullmatch(first.strip()):
        return name
    return f"{first.strip()} {last.strip()}"


def first_of_list(text: str, separator: str | None = None) -> str:
    """The first name of a list: the primary author."""
    names = split_names(text, separator)
    return names[0] if names else ""


TRANSFORMS: dict[str, Callable[[str], str]] = {
    "first_of_list": first_of_list,
    "head": head,
    "abbreviation": abbreviation,
    "digits": digits,
    "year": year,
}


Codes = NDArray[np.int32]
_Value = TypeVar("_Value", bound=Hashable)

_BORDER = "\0"
_SPARE_SPACE = ("  ", f" {_BORDER}", f"{_BORDER} ", *"\t\n\v\f\r\x1c\x1d\x1e\x1f")
_SPACES = re.compile(r"\s+")
_AT_BORDER = re.compile(" ?\0 ?")
# Steps that go by single characters of ASCII or, as spaces, mind the borders.
_IN_ONE = {"lower", "punctuation", "accents", "spaces", "latin"}


def encode(values: Sequence[_Value]) -> tuple[Codes, list[_Value]]:
    """Each value's place in the list of distinct values, which are in the order of appearance."""
    distinct = list(dict.fromkeys(values))
    places = dict(zip(distinct, range(len(distinct)), strict=True))
    return np.fromiter(map(places.__getitem__, values), np.int32, len(values)), distinct


def distinct_texts(
    columns: Sequence[Column | EncodedColumn], missing: Sequence[str] = ()
) -> tuple[Codes, list[str]] | None:
    """Distinct texts of cells, those of a row joined by a space ("" = missing); None if a cell has no text.

    Cells that say no more than one of `missing`, in capitals or not, are missing.
    """
    placeholders = set(map(placeholder_key, missing))
    parts = []
    for column in columns:
        if isinstance(column, EncodedColumn):
            codes, texts = np.where(column.codes < 0, len(column.texts), column.codes), [*column.texts, ""]
        else:
            # Cells such as 1, 1.0 and True are equal to Python but not to people: they become texts first.
            cells = list(map(cell_text, column.tolist()))
            if None in cells:
                return None
            codes, texts = encode([cell or "" for cell in cells])
        if placeholders:
            texts = ["" if placeholder_key(text) in placeholders else text for text in texts]
        parts.append((codes, texts))
    return parts[0] if len(parts) == 1 else _joined(parts)


def placeholder_key(text: str) -> str:
    """Equal for texts that are the same placeholder."""
    return text.strip().casefold()


def _joined(parts: Sequence[tuple[Codes, list[str]]]) -> tuple[Codes, list[str]]:
    from scdp.texts import number_values

    keys = np.zeros(len(parts[0][0]), dtype=np.int64)
    for codes, texts in parts:
        # Distinct numbers again after each column, so that no product of counts can overflow.
        places, rows = number_values(keys * len(texts) + codes)
        keys = places.astype(np.int64)
    cells = (map(texts.__getitem__, codes[rows].tolist()) for codes, texts in parts)
    return places, [" ".join(row) if all(row) else " ".join(filter(None, row)) for row in zip(*cells, strict=True)]


def clean_all(texts: Sequence[str], steps: tuple[str, ...]) -> list[str]:
    """`clean` for many texts: they are cleaned as one long one where that is the same, as it is for ASCII."""
    if steps[-1:] == ("sorted",):
        return list(map(STEPS["sorted"], clean_all(texts, steps[:-1])))
    whole = _BORDER.join(texts) if _IN_ONE.issuperset(steps) else ""
    if not whole or not whole.isascii() or whole.count(_BORDER) != len(texts) - 1:
        return [clean(text, steps) for text in texts]
    for step in steps:
        whole = _without_spare_spaces(whole) if step == "spaces" else STEPS[step](whole)
    cleaned = whole.split(_BORDER)
    return cleaned if steps[-1:] == ("spaces",) else [text if text.strip() else "" for text in cleaned]


def _without_spare_spaces(whole: str) -> str:
    # Looking for fixed texts takes a hundredth of the time of a pattern.
    if not any(spare in whole for spare in _SPARE_SPACE):
        return whole.strip(" ")
    return _AT_BORDER.sub(_BORDER, _SPACES.sub(" ", whole)).strip(" ")


def cell_text(cell: object) -> str | None:
    """A cell's text, "" if missing, None if it is something that has no text."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, bool | np.bool_):
        return str(cell).lower()
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    if isinstance(cell, float | np.floating):
        value = float(cell)
        return "" if math.isnan(value) else str(int(value)) if value.is_integer() else repr(value)
    return None


# A user gives the frequencies of at most so many values: rarer ones weigh much the same.
MOST_GIVEN = 20_000


@dataclass(frozen=True)
class Frequencies:
    """How many of `n_records` records (those with a value) have each token; one that is not listed has `unlisted`.

    Where the records at hand are a part of all, give those of all; or those of a country for names.
    """

    n_records: int
    counts: Mapping[Hashable, int]
    unlisted: int = 1

    def __hash__(self) -> int:
        return hash((self.n_records, len(self.counts), self.unlisted))

    @classmethod
    def given(cls, counts: Mapping[str, int]) -> Frequencies:
        """From counts of texts; one that is not listed is as rare as the rarest that is."""
        if not 0 < len(counts) <= MOST_GIVEN:
            what = "no value" if not counts else f"{len(counts):,} values, more than {MOST_GIVEN:,}"
            raise InputError(f"frequencies have {what}; give the commonest")
        for text, count in counts.items():
            if not (isinstance(text, str) and text.strip()):
                raise InputError(f"frequencies have the value {text!r}; values must be texts that are not blank")
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                raise InputError(f"frequencies: the count of {text!r} must be a whole number from 1 on, not {count!r}")
        own: dict[Hashable, int] = {text: int(count) for text, count in counts.items()}
        return cls(sum(own.values()), own, min(own.values()))

    def of(self, tokens: Sequence[Hashable]) -> NDArray[np.float64]:
        """The counts of tokens, at least 1 and at most `n_records`."""
        found = np.fromiter((self.counts.get(token, self.unlisted) for token in tokens), np.float64, len(tokens))
        return np.clip(found, 1, max(self.n_records, 1))


@runtime_checkable
class ListsTokens(Protocol):
    """Values that are kept as arrays and list their tokens faster than one by one."""

    def list_tokens(self) -> tuple[Sequence[Any], NDArray[np.int32], Integers]:
        """Tokens, the ids of each value's one after the other, and where each value's start."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of a vocabulary: value v has `ids[starts[v]:starts[v + 1]]`, ascending, each once.

    `texts` are the tokens by id, `counts` how many of `n_records` records have each. With `whole`, the token of a
    value is the value itself.
    """

    texts: Sequence[Any]
    ids: NDArray[np.int32]
    starts: Integers
    counts: NDArray[np.float64]
    n_records: int
    whole: bool = False

    @classmethod
    def of(
        cls,
        values: Sequence[Any],
        n_of_value: NDArray[np.int64],
        tokens_of: Callable[[Any], Iterable[Any]] | None,
        frequencies: Frequencies | None = None,
    ) -> Tokens:
        """`n_of_value` is how many records have each value; without `tokens_of` the value is the only token."""
        whole = tokens_of is None
        texts: Sequence[Any]
        if tokens_of is None:
            texts, ids = list(values), np.arange(len(values), dtype=np.int32)
            starts = np.arange(len(values) + 1, dtype=np.int64)
        elif isinstance(values, ListsTokens):
            texts, ids, starts = values.list_tokens()
        else:
            texts, ids, starts = _listed([tuple(tokens_of(value)) for value in values])
        n_records = int(n_of_value.sum())
        if frequencies is not None:
            return cls(texts, ids, starts, frequencies.of(texts), max(frequencies.n_records, 1), whole)
        weights = np.repeat(n_of_value, np.diff(starts))
        counts = np.bincount(ids, weights=weights, minlength=len(texts))
        return cls(texts, ids, starts, np.maximum(counts, 1.0), max(n_records, 1), whole)

    @property
    def nats(self) -> NDArray[np.float64]:
        """What sharing each token tells."""
        return np.log(self.n_records / self.counts)

    @property
    def frequencies(self) -> Frequencies:
        """The counts by token, to be supplied elsewhere."""
        counts = self.counts.astype(np.int64).tolist()
        return Frequencies(self.n_records, dict(zip(self.texts, counts, strict=True)))

    def shared_nats(self, left: Integers, right: Integers, forms: bool = False) -> NDArray[np.float64]:
        """The nats of the tokens that the values left[p] and right[p] share: their sum, or with `forms` the largest."""
        if self.whole:
            return np.where(left == right, self.nats[left], 0.0)
        from scdp.compare.kernels import fill_largest_shared, fill_shared

        out = np.empty(len(left))
        fill = fill_largest_shared if forms else fill_shared
        fill(self.ids, self.starts, self.nats, left, right, out)
        return np.maximum(out, 0.0)


def _listed(tokens: Sequence[Sequence[Any]]) -> tuple[list[Any], NDArray[np.int32], Integers]:
    """Distinct tokens in ascending order, the ids of each list one after the other, and where each list starts.

    Within a list ids ascend, and each is there once.
    """
    every = list(chain.from_iterable(tokens))
    texts = sorted(set(every))
    places = dict(zip(texts, range(len(texts)), strict=True))
    ids = np.fromiter(map(places.__getitem__, every), np.int64, len(every))
    counts = np.fromiter(map(len, tokens), np.int64, len(tokens))
    if counts.max(initial=0) > 1:
        keys = np.unique(np.repeat(np.arange(len(tokens)), counts) * max(len(texts), 1) + ids)
        ids = keys % max(len(texts), 1)
        counts = np.bincount(keys // max(len(texts), 1), minlength=len(tokens))
    starts = np.zeros(len(tokens) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return texts, ids.astype(np.int32), starts
