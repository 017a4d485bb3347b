"""Keys of rules: records and expressions enter; 64-bit hashes leave, 0 where a record has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Integers
from scdp.blocking import Expression
from scdp.blocking.rules import Blocking, Equal, Identical, Overlap, Rule
from scdp.compare.cells import STANDARD, Codes, clean, encode
from scdp.errors import InputError
from scdp.hashing import (
    Hashes,
    hash_bytes,
    hash_digits,
    hash_last_words,
    hash_prefixes,
    hash_qgrams,
    hash_sounds,
    hash_words,
    mix_columns,
    mix_keys,
)
from scdp.table import Records
from scdp.texts import TextBytes, compute_offsets, hash_texts, number_lists

MISSING = -1
_SPACE = 32
# By byte: what cleaning makes of a character of ASCII. White space, and what becomes nothing, is a space here.
_ASCII = np.array([*(ord(clean(chr(code), STANDARD) or " ") for code in range(128)), *range(128, 256)], dtype=np.uint8)


class CleanTexts(Sequence[str]):
    """Distinct texts, held as bytes; they become texts again when they are asked for."""

    def __init__(self, held: TextBytes) -> None:
        self.bytes = held

    def __len__(self) -> int:
        return len(self.bytes.offsets) - 1

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place])
        return self.take(np.array([range(len(self))[place]]))[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.take(np.arange(len(self))))

    def take(self, places: Integers) -> list[str]:
        """The texts at some places."""
        content, offsets = self.bytes
        spans = zip(offsets[places].tolist(), offsets[places + 1].tolist(), strict=True)
        whole = content.data
        return [str(whole[start:stop], "utf-8", "surrogatepass") for start, stop in spans]


class TextColumns:
    """The columns of records, each encoded on first use: -1 is missing, other codes index `texts`."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._encoded: dict[tuple[str, ...], tuple[Codes, Sequence[str]]] = {}
        self._bytes: dict[tuple[str, ...], TextBytes] = {}

    def __len__(self) -> int:
        return len(self.records)

    def encode(self, columns: tuple[str, ...]) -> tuple[Codes, Sequence[str]]:
        """Each record's place in the list of distinct texts; several columns are joined by a space."""
        if columns not in self._encoded:
            several = len(columns) > 1
            self._encoded[columns] = self._encode_joined(columns) if several else self._encode_column(columns[0])
        return self._encoded[columns]

    def bytes_of(self, columns: tuple[str, ...]) -> TextBytes:
        """The bytes of the distinct texts."""
        if columns not in self._bytes:
            texts = self.encode(columns)[1]
            self._bytes[columns] = texts.bytes if isinstance(texts, CleanTexts) else TextBytes.of(texts)
        return self._bytes[columns]

    def _encode_column(self, column: str) -> tuple[Codes, Sequence[str]]:
        found = self.records.encoded(column)
        codes, cells = encode(self.records[column].tolist()) if found is None else (found.codes, found.texts)
        # The code -1 of a missing cell points at the last text, which is empty.
        moved, texts = number_clean([*(cell or "" for cell in cells), ""])
        return moved[codes], texts

    def _encode_joined(self, columns: tuple[str, ...]) -> tuple[Codes, Sequence[str]]:
        parts = [self.encode((column,)) for column in columns]
        keys = np.zeros(len(self), dtype=np.int64)
        for places, texts in parts:
            # Distinct numbers again after each column, so that no product of counts can overflow.
            keys = np.unique(keys * (len(texts) + 1) + places + 1, return_inverse=True)[1]
        _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
        joined = [
            " ".join(texts[places[row]] for places, texts in parts if places[row] != MISSING) for row in first.tolist()
        ]
        return _merge_equal(codes.astype(np.int32), joined)


def _merge_equal(codes: Codes, texts: list[str]) -> tuple[Codes, list[str]]:
    """Equal texts get one place, empty ones none."""
    moved, distinct = encode(texts)
    if "" in distinct:
        empty = distinct.index("")
        moved = np.where(moved == empty, MISSING, moved - (moved > empty)).astype(np.int32)
        del distinct[empty]
    return moved[codes], distinct


def number_clean(texts: list[str]) -> tuple[Codes, CleanTexts]:
    """The place of each text, cleaned, among the distinct ones in the order of appearance, and these; -1 if empty.

    Characters of ASCII are cleaned in a kernel.
    """
    if not "".join(texts).isascii():
        texts = [text if text.isascii() else clean(text, STANDARD) for text in texts]
    content, offsets = TextBytes.of(texts)
    cleaned, starts = clean_bytes(content, offsets, _ASCII)
    codes, rows = number_lists(cleaned, starts)
    return codes, CleanTexts(TextBytes(*take_bytes(cleaned, starts, rows)))


@dataclass(frozen=True)
class KeyTable:
    """The keys of record i are keys[offsets[i]:offsets[i + 1]]; without offsets keys[i], 0 if it has none."""

    keys: Hashes
    offsets: Integers | None = None

    @property
    def n_records(self) -> int:
        return len(self.keys) if self.offsets is None else len(self.offsets) - 1

    def entries(self) -> tuple[NDArray[np.int32], Hashes]:
        """Every key that is there, and the record that has it, by record."""
        if self.offsets is None:
            rows = np.flatnonzero(self.keys).astype(np.int32)
            return rows, self.keys[rows]
        return np.repeat(np.arange(self.n_records, dtype=np.int32), np.diff(self.offsets)), self.keys

    def to_lists(self) -> tuple[Integers, Hashes]:
        """Offsets and keys."""
        if self.offsets is not None:
            return self.offsets, self.keys
        present = self.keys != 0
        return compute_offsets(present), self.keys[present]


class KeyMaker:
    """Makes the keys of records; what is taken from a distinct text is computed once."""

    def __init__(self, columns: TextColumns) -> None:
        self.columns = columns
        self._of_texts: dict[Expression, KeyTable] = {}

    def rule_keys(self, rule: Equal | Identical | Overlap) -> KeyTable:
        """The keys by which a rule puts records into blocks."""
        if isinstance(rule, Identical):
            return self._identity(rule)
        tables = [self.expression_keys(key) for key in rule.keys]
        joined = tables[0]
        for table in tables[1:]:
            joined = combine_tables(joined, table)
        return joined

    def expression_keys(self, expression: Expression) -> KeyTable:
        """The keys of every record for one expression."""
        parts = split_columns(expression)
        if len(parts) > 1:
            return reduce(_unite_tables, map(self.expression_keys, parts))
        table = self._keys_of_texts(expression)
        codes = self.columns.encode(expression.columns)[0]
        if table.offsets is None:
            # The last place stands for missing, where the code -1 points.
            return KeyTable(np.append(table.keys, np.uint64(0))[codes])
        return KeyTable(*spread_to_records(codes, table.offsets, table.keys))

    def describe(self, rule: Rule, row: int) -> str:
        """What a rule takes from one record, for people."""
        parts = []
        for key in rule.keys:
            codes, texts = self.columns.encode(key.columns)
            text = "" if codes[row] == MISSING else texts[codes[row]]
            parts.append(text if key.exploded else key.value_of_each([text])[0])
        return ", ".join(filter(None, parts))

    def make_ready(self, rule: Rule) -> None:
        """Make the keys of the distinct texts that a rule needs, so that threads do not make them twice."""
        for key in rule.keys:
            for part in split_columns(key):
                self._keys_of_texts(part)

    def _keys_of_texts(self, expression: Expression) -> KeyTable:
        if expression not in self._of_texts:
            columns = expression.columns
            texts = self.columns.encode(columns)[1]
            self._of_texts[expression] = make_text_keys(expression, texts, self.columns.bytes_of(columns))
        return self._of_texts[expression]

    def ranks(self, expression: Expression, rows: NDArray[Any]) -> NDArray[np.int64]:
        """The place of each row's value in the order of those rows' values; missing ones come last."""
        codes, texts = self.columns.encode(expression.columns)
        used, places = np.unique(codes[rows], return_inverse=True)
        # In ascending order: what is missing comes first.
        there = used[used != MISSING]
        found = texts.take(there) if isinstance(texts, CleanTexts) else [texts[code] for code in there.tolist()]
        values = expression.value_of_each([*[""] * (len(used) - len(there)), *found])
        order = {value: rank for rank, value in enumerate(sorted(set(values)))}
        last = len(order)
        return np.array([order[value] if value else last for value in values], dtype=np.int64)[places]

    def find_present(self, expression: Expression) -> NDArray[np.bool_]:
        """Whether each record has a value for an expression of one key a record."""
        return self.expression_keys(expression).keys != 0

    def _identity(self, rule: Identical) -> KeyTable:
        anything = np.zeros(len(self.columns), dtype=bool)
        key: Hashes = np.zeros(len(self.columns), dtype=np.uint64)
        for expression in rule.keys:
            keys = self.expression_keys(expression).keys
            anything |= keys != 0
            key = mix_columns(key, keys, False)
        return KeyTable(np.where(anything, key, np.uint64(0)))


def make_key_maker(records: Records, blocking: Blocking) -> KeyMaker:
    """What makes the keys of a blocking, whose columns must be there."""
    records.require(*blocking.columns)
    if len(records) >= 2**31:
        raise InputError(f"{records.source}: {len(records):,} records are more than 2^31; split the file")
    return KeyMaker(TextColumns(records))


def split_columns(expression: Expression) -> list[Expression]:
    """Words and q-grams are those of each column; other parts are of the columns' texts joined."""
    if not expression.exploded:
        return [expression]
    return [replace(expression, columns=(column,)) for column in expression.columns]


def combine_tables(first: KeyTable, second: KeyTable) -> KeyTable:
    """Keys that stand for both: every combination of a record's keys, none if it misses either."""
    if first.offsets is None and second.offsets is None:
        return KeyTable(mix_columns(first.keys, second.keys, True))
    return KeyTable(*cross_keys(*first.to_lists(), *second.to_lists()))


def _unite_tables(first: KeyTable, second: KeyTable) -> KeyTable:
    return KeyTable(*unite_keys(*first.to_lists(), *second.to_lists()))


def make_text_keys(expression: Expression, texts: Sequence[str], found: TextBytes) -> KeyTable:
    """The keys of distinct texts, of which `found` are the bytes."""
    part, length = expression.part, expression.length
    if part == "tokens" or part == "qgrams":
        keys, ends = hash_words(*found) if part == "tokens" else hash_qgrams(*found, length or 1)
        return KeyTable(*drop_repeated_keys(ends, keys))
    if part == "year":
        years = expression.value_of_each(texts)
        keys = hash_texts(years)
        keys[np.array([not year for year in years], dtype=bool)] = 0
        return KeyTable(keys)
    kernels: dict[str, Callable[[], Hashes]] = {
        "text": lambda: hash_bytes(*found),
        "prefix": lambda: hash_prefixes(*found, length or 1),
        "last_word": lambda: hash_last_words(*found),
        "soundex": lambda: hash_sounds(*found),
        "digits": lambda: hash_digits(*found, length or 0),
    }
    return KeyTable(kernels[part]())


@kernel
def clean_bytes(
    content: NDArray[np.uint8], offsets: Integers, becomes: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], Integers]:
    """Texts whose bytes became others, with single spaces between words and none at the ends."""
    cleaned, starts = np.empty_like(content), np.zeros_like(offsets)
    end = 0
    for text in range(len(offsets) - 1):
        start = end
        for place in range(offsets[text], offsets[text + 1]):
            byte = becomes[content[place]]
            if byte != _SPACE or (end > start and cleaned[end - 1] != _SPACE):
                cleaned[end] = byte
                end += 1
        if end > start and cleaned[end - 1] == _SPACE:
            end -= 1
        starts[text + 1] = end
    return cleaned[:end].copy(), starts


@kernel
def take_bytes(content: NDArray[np.uint8], offsets: Integers, rows: Integers) -> tuple[NDArray[np.uint8], Integers]:
    """Some of the texts."""
    starts = np.zeros(len(rows) + 1, np.int64)
    for k in range(len(rows)):
        starts[k + 1] = starts[k] + offsets[rows[k] + 1] - offsets[rows[k]]
    taken = np.empty(starts[-1], np.uint8)
    for k in range(len(rows)):
        first = offsets[rows[k]] - starts[k]
        for place in range(starts[k], starts[k + 1]):
            taken[place] = content[first + place]
    return taken, starts


@kernel
def spread_to_records(codes: NDArray[np.int32], offsets: Integers, keys: Hashes) -> tuple[Hashes, Integers]:
    """The keys of every record, from those of the distinct texts; code -1 has none."""
    ends = np.zeros(len(codes) + 1, dtype=np.int64)
    for row in range(len(codes)):
        code = codes[row]
        ends[row + 1] = ends[row] + (0 if code == MISSING else offsets[code + 1] - offsets[code])
    spread_keys = np.empty(ends[-1], dtype=np.uint64)
    for row in range(len(codes)):
        if codes[row] != MISSING:
            first = offsets[codes[row]]
            for place in range(ends[row], ends[row + 1]):
                spread_keys[place] = keys[first + place - ends[row]]
    return spread_keys, ends


@kernel
def holds_key(keys: Hashes, start: int, stop: int, key: np.uint64) -> bool:
    """Whether a key is at one of the places from start to stop - 1."""
    place = start
    while place < stop and keys[place] != key:
        place += 1
    return place < stop


@kernel
def drop_repeated_keys(offsets: Integers, keys: Hashes) -> tuple[Hashes, Integers]:
    """The same keys, each once a record."""
    ends = np.zeros(len(offsets), dtype=np.int64)
    kept = np.empty(len(keys), dtype=np.uint64)
    for row in range(len(offsets) - 1):
        place = ends[row]
        for entry in range(offsets[row], offsets[row + 1]):
            if not holds_key(kept, ends[row], place, keys[entry]):
                kept[place] = keys[entry]
                place += 1
        ends[row + 1] = place
    return kept[: ends[-1]].copy(), ends


@kernel
def unite_keys(offsets_a: Integers, keys_a: Hashes, offsets_b: Integers, keys_b: Hashes) -> tuple[Hashes, Integers]:
    """A record's keys in either table, each once."""
    n = len(offsets_a) - 1
    ends = np.zeros(n + 1, dtype=np.int64)
    keys = np.empty(len(keys_a) + len(keys_b), dtype=np.uint64)
    for row in range(n):
        start = place = ends[row]
        for a in range(offsets_a[row], offsets_a[row + 1]):
            keys[place] = keys_a[a]
            place += 1
        own = place
        for b in range(offsets_b[row], offsets_b[row + 1]):
            if not holds_key(keys, start, own, keys_b[b]):
                keys[place] = keys_b[b]
                place += 1
        ends[row + 1] = place
    return keys[: ends[-1]].copy(), ends


@kernel
def cross_keys(offsets_a: Integers, keys_a: Hashes, offsets_b: Integers, keys_b: Hashes) -> tuple[Hashes, Integers]:
    """Every combination of a record's keys in one table with its keys in the other."""
    n = len(offsets_a) - 1
    ends = np.zeros(n + 1, dtype=np.int64)
    for row in range(n):
        ends[row + 1] = ends[row] + (offsets_a[row + 1] - offsets_a[row]) * (offsets_b[row + 1] - offsets_b[row])
    crossed = np.empty(ends[-1], dtype=np.uint64)
    for row in range(n):
        place = ends[row]
        for a in range(offsets_a[row], offsets_a[row + 1]):
            for b in range(offsets_b[row], offsets_b[row + 1]):
                crossed[place] = mix_keys(keys_a[a], keys_b[b])
                place += 1
    return crossed, ends
