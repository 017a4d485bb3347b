"""Words as kernels take them: letters as numbers, and which words are nicknames of each other or sound alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp.compare.languages.sounds import sound_keys, spelling_key


def numbered_letters(texts: Sequence[Sequence[str]]) -> tuple[NDArray[Any], int]:
    """All texts one after another, their letters numbered from 0 in the smallest type that holds these."""
    parts = [_points(each) for each in texts]
    used = np.zeros(0x110000, dtype=bool)
    for part in parts:
        used[part] = True
    n_letters = int(used.sum())
    number = np.zeros(len(used), dtype=np.min_scalar_type(max(n_letters - 1, 0)))
    number[used] = np.arange(n_letters)
    return np.concatenate([number[:0], *(number[part] for part in parts)]), n_letters


def _points(texts: Sequence[str]) -> NDArray[np.uint32]:
    return np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _held(letters: NDArray[Any], at: NDArray[np.int64]) -> NDArray[np.uint64]:
    """By word, the letters that it has, as bits."""
    bits = np.append(np.uint64(1) << (letters & 63).astype(np.uint64), np.uint64(0))
    return np.bitwise_or.reduceat(bits, at[:-1]) if len(at) > 1 else bits[:0]


class Letters(NamedTuple):
    """All texts one after another, and where each starts (one more entry than texts)."""

    letters: NDArray[Any]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Letters:
        starts = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in texts], out=starts[1:])
        return cls(numbered_letters([texts])[0], starts)


class Lexicon(NamedTuple):
    """Distinct words in ascending order: their letters, whether they hold a digit, their groups of nicknames.

    `held` are the letters that a word has, as bits; some letters may share a bit. `sounds` are numbers of how words
    sound, 0 where no other word sounds so.
    """

    letters: NDArray[Any]
    at: NDArray[np.int64]
    n_letters: int
    held: NDArray[np.uint64]
    digit: NDArray[np.bool_]
    group_at: NDArray[np.int64]
    groups: NDArray[np.int32]
    sounds: NDArray[np.int32]

    @classmethod
    def of(cls, words: Sequence[str], nicknames: Mapping[str, frozenset[int]] | None = None) -> Lexicon:
        """With `nicknames`, the groups of each given name, words are names: they may sound alike, too."""
        letters, n_letters = numbered_letters([words])
        at = _ends(list(map(len, words)))
        groups_of = nicknames or {}
        names = [] if nicknames is None else words
        # Two spellings of an umlaut are as near as a name and its nickname.
        spellings = _shared_keys(list(map(spelling_key, names)))
        groups = [
            [*sorted(groups_of.get(name, ())), *([-spelling] if spelling > 0 else [])]
            for name, spelling in zip(names, spellings, strict=True)
        ] or [[] for _ in words]
        sounds = _shared_keys(sound_keys(names)) if names else [0] * len(words)
        return cls(
            letters,
            at,
            max(n_letters, 1),
            _held(letters, at),
            np.array([any(map(str.isdigit, word)) for word in words], dtype=bool),
            _ends(list(map(len, groups))),
            np.array([group for each in groups for group in each], dtype=np.int32),
            np.array(sounds, dtype=np.int32),
        )


def _shared_keys(keys: Sequence[str]) -> list[int]:
    """A number from 1 for each key that several have, 0 for others and the empty one."""
    counts = Counter(keys)
    shared = (key for key, count in counts.items() if count > 1 and key)
    numbers = {key: number for number, key in enumerate(shared, start=1)}
    return [numbers.get(key, 0) for key in keys]


def _ends(sizes: Sequence[int]) -> NDArray[np.int64]:
    ends = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends
