"""Large delimited texts: a text of rows enters, encoded columns leave, in kernels.

`text_files.read_delimited` is the plain twin, by Python's reader of CSV. What it would refuse is not read here, so that
it can say what is wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._parallel import count_workers, map_in_threads
from scdp._typing import Integers
from scdp.hashing import MIXER
from scdp.table import MOSTLY_DISTINCT, Column, EncodedColumn, Records, header_names, records_of_encoded
from scdp.texts import Codes

Bytes = NDArray[np.uint8]
_LINE_FEED, _RETURN, _QUOTE = 10, 13, 34
_FEWEST_SLOTS = 1 << 12


def read_large(text: str, delimiter: str, source: str) -> Records | None:
    """A text of rows, as `read_delimited` reads it; None where that would refuse it, or the separator is not ASCII.

    None as well where the text has a NUL, which here ends a cell.
    """
    try:
        content = np.frombuffer(text.encode("utf-8"), np.uint8)
    except UnicodeEncodeError:
        return None
    if not delimiter.isascii() or "\0" in text:
        return None
    n_separators, n_lines = count_marks(content, ord(delimiter))
    starts, all_ends, numbers = (np.empty(n, np.int64) for n in (n_lines, n_separators + n_lines, n_lines))
    n_rows, width = split_cells(content, ord(delimiter), starts, all_ends, numbers)
    if n_rows == 0:
        return None
    ends = all_ends[: n_rows * width].reshape(n_rows, width)
    first = [0, *(ends[0, :-1] + 1).tolist()]
    header = [_text(content[start:end]) for start, end in zip(first, ends[0].tolist(), strict=True)]
    names = header_names(header, source)

    def read_one(column: int) -> Column | EncodedColumn:
        # Cells of a row stand one behind another, with a separator between them.
        begins = starts[1:n_rows] if column == 0 else ends[1:, column - 1] + 1
        return _encode(content, begins, np.ascontiguousarray(ends[1:, column]))

    columns = map_in_threads(read_one, range(width), count_workers(-1))
    records = records_of_encoded(dict(zip(names, columns, strict=True)), source)
    return records.with_numbers(numbers[1:n_rows].copy())


def _text(cell: Bytes) -> str:
    """What a cell says, without its quotes."""
    text = cell.tobytes().decode("utf-8")
    return text[1:-1].replace('""', '"') if text.startswith('"') else text


def _encode(content: Bytes, starts: Integers, ends: Integers) -> Column | EncodedColumn:
    """The cells between these places; as they are where nearly all differ. What is white space alone is missing."""
    codes, joined = encode_cells(content, starts, ends)
    texts = joined.tobytes().decode("utf-8").split("\0")[:-1]
    column = EncodedColumn(codes, texts).with_texts(texts)
    return column.cells if len(column.texts) > MOSTLY_DISTINCT * len(codes) else column


@kernel
def count_marks(content: Bytes, delimiter: int) -> tuple[int, int]:
    """How many separators there are, and how many lines there may be at most."""
    n_separators, n_lines = 0, 1
    for byte in content:
        n_separators += byte == delimiter
        n_lines += byte in (_LINE_FEED, _RETURN)
    return n_separators, n_lines


@kernel
def split_cells(content: Bytes, delimiter: int, starts: Integers, ends: Integers, numbers: Integers) -> tuple[int, int]:
    """Write where rows start, where cells end, and the numbers of rows; empty lines count as rows, but are none.

    Returns how many rows there are, with the header, and how many cells each has. Both are 0 where rows differ, the
    first line is empty, or a quote is neither at both ends of a cell nor doubled in it.
    """
    n_bytes = len(content)
    at, n_cells, n_rows, number, width = 0, 0, 0, 0, 0
    while at < n_bytes:
        first, number = n_cells, number + 1
        in_row = content[at] != _LINE_FEED and content[at] != _RETURN
        if not in_row and number == 1:
            return 0, 0
        if in_row:
            starts[n_rows] = at
            numbers[n_rows] = number
            n_rows += 1
        while in_row:
            at = pass_cell(content, at, delimiter)
            if at < 0:
                return 0, 0
            ends[n_cells] = at
            n_cells += 1
            in_row = at < n_bytes and content[at] == delimiter
            at += in_row
        if number == 1:
            width = n_cells
        elif n_cells != first and n_cells - first != width:
            return 0, 0
        # A line ends with one or both of these, in this order.
        if at < n_bytes:
            at += 1 + (content[at] == _RETURN and at + 1 < n_bytes and content[at + 1] == _LINE_FEED)
    return n_rows, width


@kernel
def pass_cell(content: Bytes, at: int, delimiter: int) -> int:
    """The place behind the cell that begins here; -1 where a quote is astray."""
    n_bytes = len(content)
    if at < n_bytes and content[at] == _QUOTE:
        inside = True
        while inside:
            at += 1
            while at < n_bytes and content[at] != _QUOTE:
                at += 1
            if at == n_bytes:
                return -1
            at += 1
            inside = at < n_bytes and content[at] == _QUOTE
        astray = at < n_bytes and content[at] != delimiter and content[at] != _LINE_FEED and content[at] != _RETURN
        return -1 if astray else at
    while at < n_bytes and content[at] != delimiter and content[at] != _LINE_FEED and content[at] != _RETURN:
        at += 1
    return at


@kernel
def encode_cells(content: Bytes, starts: Integers, ends: Integers) -> tuple[Codes, Bytes]:
    """Codes of cells in the order of appearance, -1 for empty ones, and the texts, with a zero byte behind each."""
    n_cells = len(starts)
    codes, offsets = np.empty(n_cells, np.int32), np.empty(n_cells + 1, np.int64)
    hashes, slots = np.empty(n_cells, np.uint64), np.full(_FEWEST_SLOTS, -1, np.int32)
    # As much as all cells would take; what is not written takes no memory.
    joined = np.empty((ends - starts).sum() + n_cells, np.uint8)
    count, offsets[0] = 0, 0
    for cell in range(n_cells):
        # The text is written behind the others, and stays there if it is new.
        start = offsets[count]
        end, hashed = copy_cell(content, starts[cell], ends[cell], joined, start)
        if end == start:
            codes[cell] = -1
            continue
        slot = np.int64(hashed & np.uint64(len(slots) - 1))
        while slots[slot] >= 0 and not is_same(joined, offsets[slots[slot]], start, end):
            slot = (slot + 1) & (len(slots) - 1)
        codes[cell] = slots[slot]
        if slots[slot] < 0:
            slots[slot] = codes[cell] = count
            hashes[count], joined[end] = hashed, 0
            count += 1
            offsets[count] = end + 1
            if 2 * count > len(slots):
                slots = more_slots(hashes[:count], 4 * len(slots))
    return codes, joined[: offsets[count]].copy()


@kernel
def copy_cell(content: Bytes, start: int, end: int, joined: Bytes, at: int) -> tuple[int, np.uint64]:
    """Copy a cell without its quotes; the place behind the copy, and a hash of it."""
    hashed = MIXER
    quoted = start < end and content[start] == _QUOTE
    place, last = (start + 1, end - 1) if quoted else (start, end)
    while place < last:
        byte = content[place]
        joined[at] = byte
        hashed = (hashed ^ np.uint64(byte)) * MIXER
        hashed ^= hashed >> np.uint64(32)
        at += 1
        # Within quotes, a quote stands there twice.
        place += 2 if quoted and byte == _QUOTE else 1
    return at, hashed


@kernel
def is_same(joined: Bytes, first: int, start: int, end: int) -> bool:
    """Whether the text that is there from `first` to a zero byte is the one between `start` and `end`."""
    for k in range(end - start):
        if joined[first + k] != joined[start + k]:
            return False
    return joined[first + end - start] == 0


@kernel
def more_slots(hashes: NDArray[np.uint64], n_slots: int) -> Codes:
    """A table of so many slots, in which the texts with these hashes have theirs."""
    slots = np.full(n_slots, -1, np.int32)
    for code in range(len(hashes)):
        slot = np.int64(hashes[code] & np.uint64(n_slots - 1))
        while slots[slot] >= 0:
            slot = (slot + 1) & (n_slots - 1)
        slots[slot] = code
    return slots
