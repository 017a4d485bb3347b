"""Latin letters for other writing: Greek and Cyrillic and special letters are known; others stay as they are."""

from __future__ import annotations

import re
import unicodedata

_LATIN = {
    "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ħ": "h",
    "ŋ": "ng", "ĸ": "k", "ŧ": "t", "ə": "e", "ƒ": "f",
}  # fmt: skip
_GREEK = {
    "α": "a", "β": "v", "γ": "g", "δ": "d", "ε": "e", "ζ": "z", "η": "i", "θ": "th", "ι": "i", "κ": "k", "λ": "l",
    "μ": "m", "ν": "n", "ξ": "x", "ο": "o", "π": "p", "ρ": "r", "σ": "s", "ς": "s", "τ": "t", "υ": "y", "φ": "f",
    "χ": "ch", "ψ": "ps", "ω": "o",
}  # fmt: skip
_CYRILLIC = {
    "а": "a", "б": "b", "в": "v", "г": "g", "д": "d", "е": "e", "ж": "zh", "з": "z", "и": "i", "й": "i", "к": "k",
    "л": "l", "м": "m", "н": "n", "о": "o", "п": "p", "р": "r", "с": "s", "т": "t", "у": "u", "ф": "f", "х": "kh",
    "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "", "ы": "y", "ь": "", "э": "e", "ю": "yu", "я": "ya",
    "є": "ye", "і": "i", "ї": "yi", "ґ": "g", "ў": "u", "ђ": "dj", "ј": "j", "љ": "lj", "њ": "nj", "ћ": "c",
    "џ": "dz", "ѓ": "g", "ќ": "k", "ѕ": "dz",
}  # fmt: skip
# Apostrophes join ("O'Brien"), other marks part.
_APOSTROPHES = dict.fromkeys(map(ord, "'’‘`´ʼ"))
_LETTERS = str.maketrans({**_LATIN, **_GREEK, **_CYRILLIC})
_PARTS = re.compile(r"[^\W_]+")


def to_latin(text: str) -> str:
    """The text in lower case, without accents, in Latin letters where these are known.

    Example
    -------
    >>> to_latin("Łukasz Müller"), to_latin("Иванов")
    ('lukasz muller', 'ivanov')
    """
    text = text.lower()
    if text.isascii():
        return text
    bare = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", bare.translate(_LETTERS))


def words_of(text: str) -> list[str]:
    """The words of a text in Latin letters: runs of letters and digits; an apostrophe does not part them."""
    return _PARTS.findall(to_latin(text).translate(_APOSTROPHES))


def word_set(words: str) -> frozenset[str]:
    """The words of a table that is written as one text."""
    return frozenset(words.split())
