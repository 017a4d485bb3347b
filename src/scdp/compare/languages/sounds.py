"""How names sound: other spellings of one name have the same key, which is one and the same on every machine."""

from __future__ import annotations

import re

# Shorter words sound alike too often.
SHORTEST_SOUND = 4
_TWO_VOWELS = (("ae", "a"), ("oe", "o"), ("ue", "u"))
_SOUNDS = tuple(
    (re.compile(pattern), sound)
    for pattern, sound in (
        (r"^(?:kn|gn|pn)", "n"), (r"^wr", "r"), (r"^ps", "s"), (r"^wh", "w"), (r"^x", "s"),
        (r"sch|sh", "5"), (r"tch", "4"), (r"ch(?=[rl])|ck|q", "k"), (r"ch", "4"), (r"ph|v", "f"), (r"th|dt", "t"),
        (r"gh(?=[^aeiouy]|$)", ""), (r"gh", "g"), (r"c(?=[eiy])|z", "s"), (r"c", "k"), (r"x", "ks"),
        (r"[ae][iyj]", "7"), (r"mps", "ms"), (r"au|aw|ou|ow", "8"), (r"ee|ie|ea|y", "i"), (r"oo", "u"), (r"ij", "7"),
        (r"(?<=.)h", ""), (r"(?<=..)e$", ""), (r"(?<=[78])e(?=[rln]|$)", ""),
        (r"(.)\1+", r"\1"),
    )
)  # fmt: skip


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


def sound_key(word: str) -> str:
    """The same for names that sound alike; "" where a word is short or holds more than Latin letters.

    Example
    -------
    >>> sound_key("meyer") == sound_key("maier"), sound_key("philips") == sound_key("fillips")
    (True, True)
    >>> sound_key("meyer") == sound_key("moore"), sound_key("lee")
    (False, '')
    """
    if len(word) < SHORTEST_SOUND or not (word.isascii() and word.isalpha()):
        return ""
    for pattern, sound in _SOUNDS:
        word = pattern.sub(sound, word)
    return word
