"""64-bit hashes of numbers and texts: what streams of chance, keys of blocks, orders and samples of rows are made from.

A hash depends on its numbers alone, so that it is the same on every machine and for every division of the work; that of
a text or of a part of it depends on its UTF-8 bytes alone, and no text is made on the way. Two texts of a million share
one with a chance of about 3e-8.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Integers

Hashes = NDArray[np.uint64]

PRIME = np.uint64(0x100000001B3)
BASIS = np.uint64(0xCBF29CE484222325)
# A product with it is spread over the high bits.
MIXER = np.uint64(0x9E3779B97F4A7C15)
_STIR_1, _STIR_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@kernel
def stir_bits(value: np.uint64) -> np.uint64:
    """The number with each of its bits spread over all; the lowest is set, as the key 0 stands for missing."""
    value = (value ^ (value >> np.uint64(30))) * _STIR_1
    value = (value ^ (value >> np.uint64(27))) * _STIR_2
    return (value ^ (value >> np.uint64(31))) | np.uint64(1)


@kernel
def mix_keys(first: np.uint64, second: np.uint64) -> np.uint64:
    """One key for two; (a, b) and (b, a) differ."""
    return stir_bits((first * PRIME) ^ (second + BASIS))


@kernel
def mix_columns(first: Hashes, second: Hashes, need_both: bool) -> Hashes:
    """One key a record for two; if both are needed, 0 where either is missing."""
    keys = np.zeros(len(first), dtype=np.uint64)
    for row in range(len(first)):
        if not need_both or (first[row] != 0 and second[row] != 0):
            keys[row] = mix_keys(first[row], second[row])
    return keys


@kernel
def scatter_rows(rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """A fixed number for each row by which neighbouring rows are far apart."""
    numbers = np.empty(len(rows), dtype=np.int64)
    for place in range(len(rows)):
        numbers[place] = np.int64(stir_bits(np.uint64(rows[place]) + BASIS) >> np.uint64(1))
    return numbers


# Random pairs of records that show what strangers look like.
N_STRANGERS = 200_000


def draw_strangers(n: int, n_drawn: int = N_STRANGERS) -> tuple[Integers, Integers]:
    """Random pairs of n records: the same on every machine."""
    rng = np.random.default_rng(n)
    one = rng.integers(0, n, n_drawn)
    other = (one + rng.integers(1, max(n, 2), n_drawn)) % n
    return np.minimum(one, other), np.maximum(one, other)


_SPACE, _ZERO, _NINE, _A, _Z, _TO_UPPER = 32, 48, 57, 97, 122, 32
# By letter of the alphabet: the digit of its sound; 0 for those that have none, 9 for h and w, which are passed over.
_SOUNDS = np.array([0, 1, 2, 3, 0, 1, 2, 9, 0, 2, 2, 4, 5, 5, 0, 1, 2, 6, 2, 3, 0, 1, 9, 2, 0, 2], np.int64)
_PASSED_OVER, _SOUNDEX_LENGTH = 9, 4


@kernel
def hash_between(content: NDArray[np.uint8], start: int, stop: int) -> np.uint64:
    """FNV-1a of a slice, its bits spread by `stir_bits`."""
    value = BASIS
    for place in range(start, stop):
        value = (value ^ np.uint64(content[place])) * PRIME
    return stir_bits(value)


@kernel
def hash_bytes(content: NDArray[np.uint8], offsets: Integers) -> Hashes:
    """The hash of each text."""
    hashes = np.empty(len(offsets) - 1, dtype=np.uint64)
    for text in range(len(hashes)):
        hashes[text] = hash_between(content, offsets[text], offsets[text + 1])
    return hashes


@kernel
def begins_character(byte: int) -> bool:
    """Whether a byte of UTF-8 is the first of its character."""
    return (byte & 0xC0) != 0x80


@kernel
def hash_prefixes(content: NDArray[np.uint8], offsets: Integers, length: int) -> Hashes:
    """The hash of the first characters of each text; 0 for an empty one."""
    hashes = np.zeros(len(offsets) - 1, dtype=np.uint64)
    for text in range(len(hashes)):
        stop, n_begun = offsets[text], 0
        while stop < offsets[text + 1]:
            n_begun += begins_character(content[stop])
            if n_begun > length:
                break
            stop += 1
        if stop > offsets[text]:
            hashes[text] = hash_between(content, offsets[text], stop)
    return hashes


@kernel
def hash_last_words(content: NDArray[np.uint8], offsets: Integers) -> Hashes:
    """The hash of what follows the last space of each text; 0 where nothing does."""
    hashes = np.zeros(len(offsets) - 1, dtype=np.uint64)
    for text in range(len(hashes)):
        start = offsets[text + 1]
        while start > offsets[text] and content[start - 1] != _SPACE:
            start -= 1
        if start < offsets[text + 1]:
            hashes[text] = hash_between(content, start, offsets[text + 1])
    return hashes


@kernel
def hash_digits(content: NDArray[np.uint8], offsets: Integers, last: int) -> Hashes:
    """The hash of the digits of each text, at most so many from the end (0: all); 0 where it has none."""
    hashes = np.zeros(len(offsets) - 1, dtype=np.uint64)
    for text in range(len(hashes)):
        start, n_digits = offsets[text + 1], 0
        while start > offsets[text] and (last == 0 or n_digits < last):
            start -= 1
            n_digits += _ZERO <= content[start] <= _NINE
        if n_digits == 0:
            continue
        value = BASIS
        for place in range(start, offsets[text + 1]):
            if _ZERO <= content[place] <= _NINE:
                value = (value ^ np.uint64(content[place])) * PRIME
        hashes[text] = stir_bits(value)
    return hashes


@kernel
def hash_sounds(content: NDArray[np.uint8], offsets: Integers) -> Hashes:
    """The hash of the American Soundex of each text's letters a to z; 0 where it has none."""
    hashes = np.zeros(len(offsets) - 1, dtype=np.uint64)
    for text in range(len(hashes)):
        n_codes, before, value = 0, 0, BASIS
        for place in range(offsets[text], offsets[text + 1]):
            letter = np.int64(content[place])
            if letter < _A or letter > _Z:
                continue
            sound = _SOUNDS[letter - _A]
            if n_codes == 0:
                value = (value ^ np.uint64(letter - _TO_UPPER)) * PRIME
                n_codes = 1
                before = 0 if sound == _PASSED_OVER else sound
                continue
            if sound == _PASSED_OVER:
                continue
            if sound > 0 and sound != before:
                value = (value ^ np.uint64(_ZERO + sound)) * PRIME
                n_codes += 1
                if n_codes == _SOUNDEX_LENGTH:
                    break
            before = sound
        if n_codes > 0:
            for _ in range(n_codes, _SOUNDEX_LENGTH):
                value = (value ^ np.uint64(_ZERO)) * PRIME
            hashes[text] = stir_bits(value)
    return hashes


@kernel
def hash_words(content: NDArray[np.uint8], offsets: Integers) -> tuple[Hashes, Integers]:
    """The hashes of each text's words (single spaces stand between them), and offsets; a word may be there twice."""
    ends = np.zeros(len(offsets), dtype=np.int64)
    for text in range(len(offsets) - 1):
        n_words = 1
        for place in range(offsets[text], offsets[text + 1]):
            n_words += content[place] == _SPACE
        ends[text + 1] = ends[text] + n_words
    hashes = np.empty(ends[-1], dtype=np.uint64)
    for text in range(len(offsets) - 1):
        found, start = ends[text], offsets[text]
        for place in range(offsets[text], offsets[text + 1] + 1):
            if place == offsets[text + 1] or content[place] == _SPACE:
                hashes[found] = hash_between(content, start, place)
                found += 1
                start = place + 1
    return hashes, ends


@kernel
def hash_qgrams(content: NDArray[np.uint8], offsets: Integers, length: int) -> tuple[Hashes, Integers]:
    """The hashes of each text's runs of characters, and offsets into them; a shorter text is its own only run."""
    ends = np.zeros(len(offsets), dtype=np.int64)
    longest = 0
    for text in range(len(offsets) - 1):
        n_characters = 0
        for place in range(offsets[text], offsets[text + 1]):
            n_characters += begins_character(content[place])
        longest = max(longest, n_characters)
        ends[text + 1] = ends[text] + (max(n_characters - length + 1, 1) if n_characters > 0 else 0)
    hashes = np.empty(ends[-1], dtype=np.uint64)
    begins = np.empty(longest + 1, dtype=np.int64)
    for text in range(len(offsets) - 1):
        n_characters = 0
        for place in range(offsets[text], offsets[text + 1]):
            if begins_character(content[place]):
                begins[n_characters] = place
                n_characters += 1
        begins[n_characters] = offsets[text + 1]
        for number in range(ends[text + 1] - ends[text]):
            last = min(number + length, n_characters)
            hashes[ends[text] + number] = hash_between(content, begins[number], begins[last])
    return hashes, ends
