"""How names sound: other spellings of one name have the same key, which is one and the same on every machine."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Shorter words sound alike too often.
SHORTEST_SOUND = 4
_TWO_VOWELS = (("ae", "a"), ("oe", "o"), ("ue", "u"))
# Each is replaced in turn. No pattern reaches beyond a line.
SOUNDS = (
    (r"^(?:kn|gn|pn)", "n"), (r"^wr", "r"), (r"^ps", "s"), (r"^wh", "w"), (r"^x", "s"),
    (r"sch|sh", "5"), (r"tch", "4"), (r"ch(?=[rl])|ck|q", "k"), (r"ch", "4"), (r"ph|v", "f"), (r"th|dt", "t"),
    (r"gh(?=[^aeiouy]|$)", ""), (r"gh", "g"), (r"c(?=[eiy])|z", "s"), (r"c", "k"), (r"x", "ks"),
    (r"[ae][iyj]", "7"), (r"mps", "ms"), (r"au|aw|ou|ow", "8"), (r"ee|ie|ea|y", "i"), (r"oo", "u"), (r"ij", "7"),
    (r"(?<=.)h", ""), (r"(?<=..)e$", ""), (r"(?<=[78])e(?=[rln]|$)", ""),
    (r"(.)\1+", r"\1"),
)  # fmt: skip
_PATTERNS = tuple((re.compile(pattern, re.MULTILINE), sound) for pattern, sound in SOUNDS)


def spelling_key(word: str) -> str:
    """The same for "mueller" and "muller", which is what is left of the umlaut.

    Example
    -------
    >>> spelling_key("mueller"), spelling_key("joerg")
    ('muller', 'jorg')
    """
    for two, one in _TWO_VOWELS:
        word = word.replace(two, one)
    return word


def sound_keys(words: Sequence[str]) -> list[str]:
    """The same for names that sound alike; "" where a word is short or holds more than Latin letters.

    All words are written line by line and every sound is replaced in all of them at once.

    Example
    -------
    >>> sound_keys(["meyer", "maier", "moore"])
    ['m7r', 'm7r', 'mur']
    >>> sound_keys(["philips", "fillips", "lee"])
    ['filips', 'filips', '']
    """
    if not words:
        return []
    lines = [word if len(word) >= SHORTEST_SOUND and word.isascii() and word.isalpha() else "" for word in words]
    text = "\n".join(lines)
    for pattern, sound in _PATTERNS:
        text = pattern.sub(sound, text)
    return text.split("\n")
