"""Blocking: which pairs of records are worth comparing, and the components they fall into.

Here are expressions: what a rule takes from a record. Cleaned text goes in, keys come out (none = missing). The set is
closed and computed here, never by a database: a column's name is only ever looked up as a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from scdp.compare.cells import year as year_of
from scdp.errors import InputError

if TYPE_CHECKING:
    from scdp.blocking.candidates import CandidatePairs, candidate_pairs, read_pair_chunks, stream_candidate_pairs
    from scdp.blocking.learn import LearnedRules, learn_blocking, learn_blockings
    from scdp.blocking.rules import Blocking, Rule, equal, identical, neighbourhood, overlap
    from scdp.partitions import Components, connected_components

__all__ = [
    "Blocking",
    "CandidatePairs",
    "Components",
    "Expression",
    "LearnedRules",
    "Rule",
    "candidate_pairs",
    "connected_components",
    "digits",
    "equal",
    "identical",
    "last_word",
    "learn_blocking",
    "learn_blockings",
    "neighbourhood",
    "overlap",
    "prefix",
    "qgrams",
    "read_pair_chunks",
    "soundex",
    "stream_candidate_pairs",
    "text",
    "tokens",
    "year",
]

# Loaded on first use: a blocking is described without compiling kernels.
_HOME = {
    "Blocking": "scdp.blocking.rules",
    "Rule": "scdp.blocking.rules",
    "equal": "scdp.blocking.rules",
    "identical": "scdp.blocking.rules",
    "neighbourhood": "scdp.blocking.rules",
    "overlap": "scdp.blocking.rules",
    "CandidatePairs": "scdp.blocking.candidates",
    "Components": "scdp.partitions",
    "LearnedRules": "scdp.blocking.learn",
    "candidate_pairs": "scdp.blocking.candidates",
    "connected_components": "scdp.partitions",
    "learn_blocking": "scdp.blocking.learn",
    "learn_blockings": "scdp.blocking.learn",
    "read_pair_chunks": "scdp.blocking.candidates",
    "stream_candidate_pairs": "scdp.blocking.candidates",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'scdp.blocking' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


# Docstrings below repeat their sections: each is what `help` shows of one public function.
PARTS = ("text", "prefix", "last_word", "soundex", "digits", "year", "tokens", "qgrams")
EXPLODED = ("tokens", "qgrams")
NEEDS_LENGTH = ("prefix", "qgrams")
TAKES_LENGTH = (*NEEDS_LENGTH, "digits")

_NO_DIGIT = re.compile(r"[^0-9\n]+")
_SOUND_CODES = {
    letter: code
    for letters, code in {"bfpv": "1", "cgjkqsxz": "2", "dt": "3", "l": "4", "mn": "5", "r": "6"}.items()
    for letter in letters
}


@dataclass(frozen=True)
class Expression:
    """A part of one column's cleaned text, or of several columns' texts joined by a space.

    Parameters
    ----------
    part : str
        What is taken: "text", "prefix", "last_word", "soundex", "digits", "year", "tokens" or "qgrams".
    columns : tuple of str
        The names of the columns.
    length : int, optional
        How many characters, where the part needs or takes a length.

    Example
    -------
    >>> print(Expression("prefix", ("last",), 3))
    prefix(last, 3)
    """

    part: str
    columns: tuple[str, ...]
    length: int | None = None

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise InputError(f"blocking: there is no part {self.part!r}; there are: {', '.join(PARTS)}")
        named = isinstance(self.columns, tuple) and bool(self.columns)
        if not named or not all(isinstance(column, str) and column for column in self.columns):
            raise InputError(f"blocking: {self.columns!r} is not a column's name; give it as text")
        self._check_length()

    def _check_length(self) -> None:
        if self.part in NEEDS_LENGTH and self.length is None:
            raise InputError(f"blocking: {self.part} needs a length, a whole number of 1 or more")
        if self.length is None:
            return
        if self.part not in TAKES_LENGTH:
            raise InputError(f"blocking: {self.part} takes no length; leave it out")
        if isinstance(self.length, bool) or not isinstance(self.length, int) or self.length < 1:
            raise InputError(f"blocking: the length of {self.part} is {self.length!r}; use a whole number of 1 or more")

    @property
    def exploded(self) -> bool:
        """Whether a record can have several keys."""
        return self.part in EXPLODED

    def __str__(self) -> str:
        inner = " + ".join(self.columns)
        inner += "" if self.length is None else f", {self.length}"
        return inner if self.part == "text" else f"{self.part}({inner})"

    def value_of_each(self, texts: Sequence[str]) -> list[str]:
        """The key of each cleaned text; "" where there is none.

        Parameters
        ----------
        texts : sequence of str
            Cleaned texts.

        Returns
        -------
        list of str

        Example
        -------
        >>> prefix("last", 2).value_of_each(["miller", ""])
        ['mi', '']
        """
        length = self.length
        if self.part == "digits":
            return digits_of_each(texts, length)
        functions: dict[str, Callable[[str], str]] = {
            "text": str,
            "prefix": lambda text: text[:length],
            "last_word": lambda text: text.rpartition(" ")[2],
            "soundex": soundex_of,
            "year": year_of,
        }
        return list(map(functions[self.part], texts))

    def values(self) -> Callable[[str], list[str]]:
        """The function from a cleaned text to its distinct keys, of which a record can have several.

        Returns
        -------
        function from str to list of str

        Example
        -------
        >>> qgrams("name", 3).values()("anna")
        ['ann', 'nna']
        """
        if self.part == "tokens":
            return lambda text: list(dict.fromkeys(text.split()))
        assert self.part == "qgrams", "only exploded parts have several values"
        assert self.length is not None, "checked when the expression was made"
        length = self.length
        return lambda text: qgrams_of(text, length)


def text(*columns: str) -> Expression:
    """The whole cleaned text: lower case, no accents and punctuation, single spaces.

    Parameters
    ----------
    *columns : str
        The names of the columns; the texts of several are joined by a space.

    Returns
    -------
    Expression

    Example
    -------
    >>> print(text("first", "last"))
    first + last
    """
    return Expression("text", columns)


def prefix(column: str, length: int) -> Expression:
    """The first letters of the text, as substr(column, 1, length) in SQL.

    Parameters
    ----------
    column : str
        The name of the column.
    length : int
        How many letters.

    Returns
    -------
    Expression

    Example
    -------
    >>> print(prefix("last", 3))
    prefix(last, 3)
    """
    return Expression("prefix", (column,), length)


def last_word(column: str) -> Expression:
    """The last word.

    Parameters
    ----------
    column : str
        The name of the column.

    Returns
    -------
    Expression

    Example
    -------
    >>> print(last_word("name"))
    last_word(name)
    """
    return Expression("last_word", (column,))


def soundex(column: str) -> Expression:
    """How the text sounds in English: its first letter and three digits for the consonants that follow.

    Parameters
    ----------
    column : str
        The name of the column.

    Returns
    -------
    Expression

    Example
    -------
    >>> print(soundex("last"))
    soundex(last)
    """
    return Expression("soundex", (column,))


def digits(column: str, last: int | None = None) -> Expression:
    """The digits alone; with `last`, at most so many from the end (a telephone number without its prefix).

    Parameters
    ----------
    column : str
        The name of the column.
    last : int, optional
        How many digits from the end at most; without it all.

    Returns
    -------
    Expression

    Example
    -------
    >>> print(digits("phone", 7))
    digits(phone, 7)
    """
    return Expression("digits", (column,), last)


def year(column: str) -> Expression:
    """The first four digits that look like a year.

    Parameters
    ----------
    column : str
        The name of the column.

    Returns
    -------
    Expression

    Example
    -------
    >>> print(year("born"))
    year(born)
    """
    return Expression("year", (column,))


def tokens(*columns: str) -> Expression:
    """Every distinct word: a record has several keys.

    Parameters
    ----------
    *columns : str
        The names of the columns; the texts of several are joined by a space.

    Returns
    -------
    Expression

    Example
    -------
    >>> print(tokens("title"))
    tokens(title)
    """
    return Expression("tokens", columns)


def qgrams(column: str, length: int = 3) -> Expression:
    """Every distinct run of `length` characters: a record has several keys.

    Parameters
    ----------
    column : str
        The name of the column.
    length : int
        How many characters a run has.

    Returns
    -------
    Expression

    Example
    -------
    >>> print(qgrams("name"))
    qgrams(name, 3)
    """
    return Expression("qgrams", (column,), length)


def digits_of_each(texts: Sequence[str], last: int | None) -> list[str]:
    """The digits of each cleaned text; all are handled as one, which no line break can be part of."""
    if not texts:
        return []
    found = _NO_DIGIT.sub("", "\n".join(texts)).split("\n")
    return found if last is None else [text[-last:] for text in found]


def soundex_of(text: str) -> str:
    """American Soundex of the letters a to z; h and w do not part equal codes, vowels do."""
    letters = [letter for letter in text if "a" <= letter <= "z"]
    if not letters:
        return ""
    code, before = letters[0].upper(), _SOUND_CODES.get(letters[0], "")
    for letter in letters[1:]:
        if letter in "hw":
            continue
        sound = _SOUND_CODES.get(letter, "")
        if sound and sound != before:
            code += sound
            if len(code) == 4:
                return code
        before = sound
    return code.ljust(4, "0")


def qgrams_of(text: str, length: int) -> list[str]:
    """Distinct q-grams in order; a shorter text is its own only q-gram."""
    if len(text) <= length:
        return [text] if text else []
    return list(dict.fromkeys(text[start : start + length] for start in range(len(text) - length + 1)))
