"""Codes: postcodes, account and model numbers, alone in a cell or inside a long text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from scdp._typing import Features, Integers
from scdp.compare.content.names import to_latin, words_of
from scdp.compare.scorers import PairScorer

if TYPE_CHECKING:
    from scdp.compare.rarity import Tokens

# A code inside a text has so many letters and digits at least; one of digits alone needs more.
SHORTEST_CODE, SHORTEST_NUMBER = 3, 4
SHORTEST_STEM = 5
MOST_CODES = 200
# The run of digits by which codes of several forms are said to be shared.
LONG_RUN = 5
# A weak form of a code, such as one without the letters at its end, says less than the whole.
WEAK_SHARE = 0.7
WEAK = "~"
LONGEST_PREFIX = 5

_DIGITS = re.compile(r"\d+")
_PIECES = re.compile(r"[0-9a-z]+(?:[-/.][0-9a-z]+)*")
_MEASURE = re.compile(
    r"\d+(?:\.\d+)?(?:x\d+)*(?:st|nd|rd|th|in|inch|inches|ft|feet|mm|cm|m|km|gb|mb|tb|kb|g|kg|lb|lbs|oz|ml|l|w|kw|v|a|ah|mah|"
    r"hz|khz|mhz|ghz|mp|mbps|gbps|bit|btu|dpi|rpm|pc|pk|pack|port|ports|way|x|k|p|i|s|d|hr|hrs|min|yr|yrs|cu|sq|watt|"
    r"watts|volt|volts|channel|disc|piece|speed|series)?"
)  # fmt: skip
_TRAILING_LETTERS = re.compile(r"[a-z]{1,3}$")


def parse_code(text: str) -> str | None:
    """Letters and digits of a code in lower case, without spaces and marks.

    Example
    -------
    >>> parse_code("C74 6AC"), parse_code("CRM-0010303")
    ('c746ac', 'crm0010303')
    """
    plain = text.replace(" ", "").replace("-", "")
    return plain.lower() if plain.isascii() and plain.isalnum() else "".join(words_of(text)) or None


def code_tokens(code: str) -> tuple[str, ...]:
    """The longest run of digits without leading zeros if it is long, so that "CRM-0010303" shares it with "10303"."""
    runs = [run.lstrip("0") for run in _DIGITS.findall(code)]
    longest = max(runs, key=len, default="")
    return (longest if len(longest) >= LONG_RUN else code,)


class CodeScorer(PairScorer):
    """0 equal; 0.1 where one ends the other; 0.2 one edit; else from 0.5 to 1 by how much of the start is the same."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        from scdp.compare.alignment import Letters

        self._letters = Letters.of(vocabulary)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        from scdp.compare.alignment import fill_codes, in_threads

        fill = partial(fill_codes, self._letters.letters, self._letters.starts)
        return in_threads(fill, left, right, workers).astype(np.float32)


def parse_codes_in_text(text: str) -> tuple[str, ...] | None:
    """The codes inside a text: pieces with a digit that are no measure, joined over marks; then their weak forms.

    Weak forms, marked "~", are the code itself, the code without the letters at its end, joined with a short word next
    to it, and its long run of digits: others may write it so.

    Example
    -------
    >>> parse_codes_in_text("Camera DSC-T700/B")
    ('dsct700b', 't700', '~dsct700', '~dsct700b')
    """
    pieces = _PIECES.findall(to_latin(text))
    found: dict[str, None] = {}
    weak: set[str] = set()
    for place, piece in enumerate(pieces):
        parts = re.split(r"[-/.]", piece)
        whole = "".join(parts)
        if not _is_code(whole):
            continue
        found[whole] = None
        found.update(dict.fromkeys(part for part in parts if len(parts) > 1 and _is_part(part)))
        before = pieces[place - 1] if place and _is_short_word(pieces[place - 1]) else ""
        after = pieces[place + 1] if place + 1 < len(pieces) and _is_short_word(pieces[place + 1]) else ""
        weak.update(form for each in {whole, before + whole, whole + after} for form in _weak_forms(each))
    return tuple([*found, *sorted(WEAK + form for form in weak)][:MOST_CODES]) or None


def _is_code(form: str) -> bool:
    if not any(map(str.isdigit, form)) or (_MEASURE.fullmatch(form) and not form.isdigit()):
        return False
    return len(form) >= (SHORTEST_NUMBER if form.isdigit() else SHORTEST_CODE)


def _is_part(form: str) -> bool:
    return _is_code(form) and (not form.isdigit() or len(form) >= LONG_RUN)


def _is_short_word(piece: str) -> bool:
    return piece.isalpha() and len(piece) <= LONGEST_PREFIX


def _weak_forms(code: str) -> set[str]:
    forms = {code, _TRAILING_LETTERS.sub("", code)}
    return {form for form in forms if len(form) >= SHORTEST_STEM} | {
        run for run in _DIGITS.findall(code) if len(run) >= LONG_RUN
    }


class CodesInTextScorer(PairScorer):
    """Below 0.5 where a code is shared, 0 where it is rare; above where none is, 1 where both have rare ones.

    A code is as rare as can be, 1, if two records have it, and less by the cube of the nats it carries. Where both also
    have codes that are not shared, 0.3 of the less rare one is added.
    """

    def __init__(self, tokens: Tokens) -> None:
        top = np.log(max(tokens.n_records / 2, np.e))
        self._strong = np.array([not text.startswith(WEAK) for text in tokens.texts], dtype=bool)
        self._rarity = np.clip(tokens.nats / top, 0.0, 1.0) ** 3 * np.where(self._strong, 1.0, WEAK_SHARE)
        self._tokens = tokens

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        from scdp.compare.alignment import in_threads
        from scdp.compare.kernels import fill_shared_codes

        fill = partial(fill_shared_codes, self._tokens.ids, self._tokens.starts, self._rarity, self._strong)
        return in_threads(fill, left, right, workers).astype(np.float32)
