"""Transforms: a cell's raw text goes in, one part of it (its head, first author, year, ...) comes out."""

from __future__ import annotations

import re
from collections.abc import Callable

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
