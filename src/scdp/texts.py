"""Texts and numbers by the million: values go in, the place of each among the distinct ones comes out, in kernels."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Integers
from scdp.hashing import MIXER, Hashes, hash_bytes

Codes = NDArray[np.int32]
_SPACE, _HYPHEN, _DOT, _SMALL_A, _SMALL_Z, _TO_SMALL = 32, 45, 46, 97, 122, 32


class TextBytes(NamedTuple):
    """Text i is the UTF-8 bytes content[offsets[i]:offsets[i + 1]]."""

    content: NDArray[np.uint8]
    offsets: Integers

    @classmethod
    def of(cls, texts: Sequence[str]) -> TextBytes:
        whole = "".join(texts)
        if whole.isascii():
            content = whole.encode("ascii")
            lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        else:
            encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
            content = b"".join(encoded)
            lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return cls(np.frombuffer(content, dtype=np.uint8), compute_offsets(lengths))


def hash_texts(texts: Sequence[str]) -> Hashes:
    """A hash of each text's UTF-8 bytes, never 0."""
    return hash_bytes(*TextBytes.of(texts))


def compute_offsets(counts: NDArray[Any]) -> Integers:
    """Offsets from sizes."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def number_values(values: Integers) -> tuple[Codes, Integers]:
    """The place of each number among the distinct ones, in the order of appearance, and where each is first."""
    codes, rows = np.empty(len(values), np.int32), np.empty(len(values), np.int64)
    count = number_numbers(values, make_slots(len(values)), codes, rows)
    return codes, rows[:count].copy()


def make_slots(n_values: int) -> Codes:
    """A table of free slots for so many values, of which at most half are taken in the end."""
    return np.full(1 << max(2 * n_values - 1, 1).bit_length(), -1, np.int32)


@kernel
def number_numbers(values: Integers, slots: Codes, codes: Codes, rows: Integers) -> int:
    """Write codes and first rows; how many distinct values there are. `slots` is a table of free slots."""
    count, last = 0, len(slots) - 1
    for row in range(len(values)):
        hashed = np.uint64(values[row]) * MIXER
        slot = np.int64((hashed ^ (hashed >> np.uint64(32))) & np.uint64(last))
        while slots[slot] >= 0 and values[rows[slots[slot]]] != values[row]:
            slot = (slot + 1) & last
        if slots[slot] < 0:
            slots[slot] = count
            rows[count] = row
            count += 1
        codes[row] = slots[slot]
    return count


class WordLists(NamedTuple):
    """List i has the words words[k] of k in ids[starts[i]:starts[i + 1]]; words ascend, and each is in a list."""

    words: list[str]
    ids: Codes
    starts: Integers

    @classmethod
    def of(cls, lists: Sequence[Sequence[str]]) -> WordLists:
        every = list(chain.from_iterable(lists))
        words = sorted(set(every))
        places = dict(zip(words, range(len(words)), strict=True))
        ids = np.fromiter(map(places.__getitem__, every), np.int32, len(every))
        return cls(words, ids, compute_offsets(np.fromiter(map(len, lists), np.int64, len(lists))))

    def words_of(self, place: int) -> tuple[str, ...]:
        """The words of one list."""
        return tuple(self.words[k] for k in self.ids[self.starts[place] : self.starts[place + 1]].tolist())


def number_lists(ids: NDArray[Any], starts: Integers, more: Integers | None = None) -> tuple[Codes, Integers]:
    """As `number_values`, of lists of ids, which may have one more number each; -1 for an empty list."""
    n_lists = len(starts) - 1
    more = np.zeros(n_lists, np.int64) if more is None else more
    codes, rows = np.empty(n_lists, np.int32), np.empty(n_lists, np.int64)
    count = number_sequences(ids, starts, more, make_slots(n_lists), codes, rows)
    return codes, rows[:count].copy()


@kernel
def number_sequences(
    ids: NDArray[Any], starts: Integers, more: Integers, slots: Codes, codes: Codes, rows: Integers
) -> int:
    """Write codes and first rows; how many distinct lists there are. `slots` is a table of free slots."""
    count, last = 0, len(slots) - 1
    for row in range(len(codes)):
        start, length = starts[row], starts[row + 1] - starts[row]
        if length == 0:
            codes[row] = -1
            continue
        hashed = np.uint64(more[row]) * MIXER
        for k in range(length):
            hashed = (hashed ^ np.uint64(ids[start + k])) * MIXER
            hashed ^= hashed >> np.uint64(32)
        slot = np.int64(hashed & np.uint64(last))
        while slots[slot] >= 0:
            other = rows[slots[slot]]
            same = more[other] == more[row] and starts[other + 1] - starts[other] == length
            k = 0
            while same and k < length:
                same = ids[starts[other] + k] == ids[start + k]
                k += 1
            if same:
                break
            slot = (slot + 1) & last
        if slots[slot] < 0:
            slots[slot] = count
            rows[count] = row
            count += 1
        codes[row] = slots[slot]
    return count


def take_lists(ids: Codes, starts: Integers, rows: Integers) -> tuple[Codes, Integers]:
    """Some of the lists: their ids one after another, and where each starts."""
    counts = starts[rows + 1] - starts[rows]
    begins = compute_offsets(counts)
    return ids[np.repeat(starts[rows] - begins[:-1], counts) + np.arange(begins[-1])], begins


@kernel
def join_words(letters: NDArray[Any], at: Integers, ids: Codes, starts: Integers) -> tuple[NDArray[Any], Integers]:
    """The letters of each list of words as one run, and where each starts; word k has letters[at[k]:at[k + 1]]."""
    begins = np.zeros_like(starts)
    for row in range(len(starts) - 1):
        begins[row + 1] = begins[row]
        for k in range(starts[row], starts[row + 1]):
            begins[row + 1] += at[ids[k] + 1] - at[ids[k]]
    runs = np.empty(begins[-1], letters.dtype)
    end = 0
    for k in ids:
        for place in range(at[k], at[k + 1]):
            runs[end] = letters[place]
            end += 1
    return runs, begins


@kernel
def make_sets(ids: Codes, starts: Integers) -> tuple[Codes, Integers]:
    """Each list with its ids ascending, each once."""
    found, begins = np.empty_like(ids), np.zeros_like(starts)
    n_found = 0
    for row in range(len(starts) - 1):
        first = n_found
        for k in range(starts[row], starts[row + 1]):
            place = n_found
            while place > first and found[place - 1] > ids[k]:
                place -= 1
            if place > first and found[place - 1] == ids[k]:
                continue
            for at in range(n_found, place, -1):
                found[at] = found[at - 1]
            found[place] = ids[k]
            n_found += 1
        begins[row + 1] = n_found
    return found[:n_found].copy(), begins


@kernel
def number_by_appearance(codes: Codes, n_texts: int) -> tuple[Codes, Integers]:
    """Codes in the order in which they appear, and what each was before; -1 stays."""
    number = np.full(n_texts, -1, np.int32)
    used = np.empty(n_texts, np.int64)
    out = np.empty(len(codes), np.int32)
    n_used = 0
    for row in range(len(codes)):
        code = codes[row]
        if code < 0:
            out[row] = -1
            continue
        if number[code] < 0:
            number[code] = n_used
            used[n_used] = code
            n_used += 1
        out[row] = number[code]
    return out, used[:n_used].copy()


class PlainWords(NamedTuple):
    """Words of texts in small letters; `counts` is how many each text has, -1 where it is not plain."""

    words: list[str]
    ids: Codes
    counts: Integers

    @classmethod
    def of(cls, texts: Sequence[str], most_words: int) -> PlainWords:
        content, offsets = TextBytes.of(texts)
        # Every word but the last of a text is followed by what parts it from the next.
        most = int(np.isin(content, (_SPACE, _DOT, _HYPHEN)).sum()) + len(texts)
        ids, counts = np.empty(most, np.int32), np.empty(len(texts), np.int64)
        spans = np.empty((most, 2), np.int64)
        n_words, n_ids = split_plain(content, offsets, most_words, make_slots(most), spans, ids, counts)
        # A character for each byte; those of words are ASCII.
        whole = content.tobytes().decode("latin-1").lower()
        words = [whole[start:stop] for start, stop in spans[:n_words].tolist()]
        return cls(words, ids[:n_ids], counts)

    def without(self, words: Container[str]) -> PlainWords:
        """Texts with one of these words do not count as plain."""
        told = np.array([word in words for word in self.words], dtype=bool)
        plain = self.counts >= 0
        text = np.repeat(np.flatnonzero(plain), self.counts[plain])
        counts = self.counts.copy()
        counts[text[told[self.ids]]] = -1
        return PlainWords(self.words, self.ids[counts[text] >= 0], counts)


@kernel
def is_letter(byte: int) -> bool:
    """Whether a byte is an ASCII letter."""
    return _SMALL_A <= (byte | _TO_SMALL) <= _SMALL_Z


@kernel
def separates_words(byte: int) -> bool:
    """Whether a byte is a space, a dot or a hyphen."""
    return byte in (_SPACE, _DOT, _HYPHEN)


@kernel
def split_plain(
    content: NDArray[np.uint8],
    offsets: Integers,
    most_words: int,
    slots: Codes,
    spans: Integers,
    ids: Codes,
    counts: Integers,
) -> tuple[int, int]:
    """Words of names that are plain: runs of ASCII letters, parted by spaces, dots and hyphens.

    Not plain is a text with anything else, one that has small letters and a run of two or three capitals, which may be
    initials, or one with too many words. Words are equal whatever their case, and numbered in the order of appearance;
    `spans` (word, 2) are where each is first. counts[t] is how many words text t has, -1 where it is not plain. `slots`
    is a table of free slots. Returns how many distinct words and how many ids there are.
    """
    n_words, n_ids, last = 0, 0, len(slots) - 1
    for text in range(len(offsets) - 1):
        plain, has_small, initials, run = True, False, False, 0
        for place in range(offsets[text], offsets[text + 1] + 1):
            letter = content[place] if place < offsets[text + 1] else _SPACE
            if is_letter(letter):
                has_small |= letter >= _SMALL_A
                # A run that can be no initials counts as long.
                run += 1 if letter < _SMALL_A else 4
            elif separates_words(letter):
                initials |= run == 2 or run == 3
                run = 0
            else:
                plain = False
                break
        counts[text] = -1
        if not plain or (has_small and initials):
            continue
        place, n_here = offsets[text], 0
        while place < offsets[text + 1]:
            if not is_letter(content[place]):
                place += 1
                continue
            start, hashed = place, MIXER
            while place < offsets[text + 1] and is_letter(content[place]):
                hashed = (hashed ^ np.uint64(content[place] | _TO_SMALL)) * MIXER
                hashed ^= hashed >> np.uint64(32)
                place += 1
            slot = np.int64(hashed & np.uint64(last))
            while slots[slot] >= 0:
                first = spans[slots[slot], 0]
                same = spans[slots[slot], 1] - first == place - start
                k = 0
                while same and k < place - start:
                    same = (content[first + k] | _TO_SMALL) == (content[start + k] | _TO_SMALL)
                    k += 1
                if same:
                    break
                slot = (slot + 1) & last
            if slots[slot] < 0:
                slots[slot] = n_words
                spans[n_words, 0], spans[n_words, 1] = start, place
                n_words += 1
            ids[n_ids + n_here] = slots[slot]
            n_here += 1
        if 0 < n_here <= most_words:
            counts[text] = n_here
            n_ids += n_here
    return n_words, n_ids
