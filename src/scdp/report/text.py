"""Text of others on a page: any string enters; HTML that shows every character of it, and only shows it, leaves."""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher
from html import escape
from typing import Any

# Words of some scripts and joined pictures need these two, and they move nothing.
JOINERS = "\u200c\u200d"
# Control, format, surrogate and separator characters are not seen, or turn what follows around.
HIDDEN_KINDS = {"Cc", "Cf", "Cs", "Zl", "Zp"}
LONGEST = 600
WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)


def spelled(text: Any) -> str:
    """The text with characters that cannot be seen written as their escapes, such as \\u202e."""
    return "".join(_spelled(character) for character in str(text))


def _spelled(character: str) -> str:
    if unicodedata.category(character) not in HIDDEN_KINDS or character in JOINERS:
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown(text: Any) -> str:
    """The text as HTML, for content and for quoted attributes."""
    return escape(spelled(text))


def isolated(text: Any) -> str:
    """As `shown`, with letters that run from right to left kept from turning their neighbours around."""
    return f"<bdi>{shown(text)}</bdi>"


def shortened(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def marked(text: str, other: str) -> str:
    """The text as HTML, with the words that `other` has not in the same order marked."""
    words, others = (WORDS.findall(spelled(shortened(each))) for each in (text, other))
    pieces = []
    for kind, start, end, _, _ in SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        piece = escape("".join(words[start:end]))
        if piece:
            pieces.append(piece if kind == "equal" else f"<mark>{piece}</mark>")
    return f"<bdi>{''.join(pieces)}</bdi>"
