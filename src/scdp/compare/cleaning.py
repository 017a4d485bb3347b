"""Text cleaning: a cell and the names of the steps go in, the text to compare comes out (empty = missing)."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable

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


STEPS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "punctuation": lambda text: text.translate(_PUNCTUATION),
    "accents": _accents,
    "spaces": lambda text: " ".join(text.split()),
    "sorted": lambda text: " ".join(sorted(text.split())),
}


def clean(text: str, steps: Iterable[str]) -> str:
    """The text after the named steps, in the order given; text of nothing but white space becomes empty."""
    for step in steps:
        text = STEPS[step](text)
    return text if text.strip() else ""
