"""Text files: bytes enter; their encoding and their separator are found; Records leave.

What is guessed is logged, so that the command line can say it.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import logging
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from scdp.errors import InputError
from scdp.io import largest_unpacked, parse_json, parse_json_object, read_at_most
from scdp.table import (
    LARGEST_SPARSE,
    SPARSE_TIMES,
    KnownTexts,
    Records,
    check_no_zero,
    check_width,
    filled,
    header_names,
    records_from_rows,
)

logger = logging.getLogger(__name__)

# Rows of a text file that are taken apart at a time.
ROWS_AT_ONCE = 10_000
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# So much of a file is looked at to find its separator.
GUESS_CHARACTERS, GUESS_ROWS = 1 << 16, 50
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# What stands in Western text beside letters, of the signs that Windows-1252 has.
WESTERN_SIGNS = frozenset("€‚„…‘’“”•–—™\u00a0¡¢£§©ª«®°±²³´µ·¹º»¼½¾¿×÷")
ODD_LETTERS = frozenset("ÿþðÞÐ")
LONGEST_RUN = 2
# A kilobyte of Zstandard unpacks to 32 MB at most; windows are no larger than its own tool allows.
PACKED_AT_ONCE, LARGEST_WINDOW = 1 << 10, 1 << 27


@dataclass(frozen=True)
class Reading:
    """How to read text files, where it is not to be guessed.

    Parameters
    ----------
    delimiter : str, optional
        One character, or the word "tab".
    encoding : str, optional
        Any encoding that Python knows, such as "latin-1".

    Examples
    --------
    >>> Reading(delimiter="tab").delimiter
    '\\t'
    """

    delimiter: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter in ("tab", "\\t"):
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '\r\n"'):
            raise InputError(f"--delimiter must be one character or  tab, not {self.delimiter!r}")
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
                b"".decode(self.encoding)
            except (LookupError, ValueError, TypeError) as error:
                raise InputError(
                    f"--encoding: there is no encoding {self.encoding!r}; give one such as utf-8 or latin-1"
                ) from error


def unpack(place: Path, packed: bytes, packing: str) -> bytes:
    most = largest_unpacked(len(packed))
    unpacker = _unpack_gzip if packing == "gzip" else _unpack_zstandard
    try:
        content = unpacker(packed, most)
    except ImportError as error:
        raise InputError(
            f"{place}: Zstandard files need one more package; install it with  pip install 'scdp[zstd]'"
        ) from error
    except (EOFError, ValueError, OSError, zlib.error) as error:
        raise InputError(f"{place}: the {packing} file is damaged or cut off; make it again") from error
    if len(content) > most:
        raise InputError(
            f"{place}: {len(packed):,} bytes that unpack to more than {most:,}, which no table does; "
            "unpack it yourself if you trust it"
        )
    return content


def _unpack_gzip(packed: bytes, most: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        return read_at_most(file, most + 1)


def _unpack_zstandard(packed: bytes, most: int) -> bytes:
    """A little at a time, since few bytes can stand for very many; frames that follow one another are one file."""
    import zstandard

    unpacker = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
    frame = unpacker.decompressobj()
    parts, size = [], 0
    try:
        for start in range(0, len(packed), PACKED_AT_ONCE):
            piece = packed[start : start + PACKED_AT_ONCE]
            while piece:
                frame = unpacker.decompressobj() if frame.eof else frame
                parts.append(frame.decompress(piece))
                size += len(parts[-1])
                piece = frame.unused_data if frame.eof else b""
            if size > most:
                return b"".join(parts)
    except zstandard.ZstdError as error:
        raise ValueError("no Zstandard file") from error
    if not frame.eof:
        raise EOFError
    return b"".join(parts)


def decode(content: bytes, place: Path, encoding: str | None, guesses: bool) -> str:
    """The text of a file. Without an encoding it is UTF-8; else it may be guessed to be Western (Windows-1252)."""
    if encoding is not None:
        text = _decode_as(content, place, encoding)
    elif guesses and content.startswith(UTF_16_MARKS) and not content.startswith(codecs.BOM_UTF32_LE):
        text = _decode_as(content, place, "utf-16")
    else:
        text = _decode_unnamed(content, place, guesses)
    # Files that went through several hands have the mark of UTF-8 more than once.
    text = text.lstrip("\ufeff")
    if "\0" in text:
        row = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{place}: row {row} holds a zero byte, not UTF-8 text; save the file as UTF-8")
    if not text.strip():
        raise InputError(f"{place}: the file is empty; give a file with a header and records")
    return text


def _decode_as(content: bytes, place: Path, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except (UnicodeDecodeError, UnicodeError) as error:
        raise InputError(f"{place}: this is not {encoding} text; give another --encoding") from error


def _decode_unnamed(content: bytes, place: Path, guesses: bool) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        if guesses and (text := _western(content)) is not None:
            logger.info("%s: not UTF-8, read as Windows-1252 (name another by --encoding)", place)
            return text
        row = content.count(b"\n", 0, error.start) + 1
        where = f"row {row} (byte {error.start})"
        raise InputError(
            f"{place}: {where} is not UTF-8 text; save the file as UTF-8, or name its encoding by --encoding"
        ) from error


def _western(content: bytes) -> str | None:
    """The text of Western Europe that these bytes may be; None if they look like anything else.

    Letters with accents stand alone or in twos between plain ones. Where a part is UTF-8, damage is more likely.
    """
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError:
        return None
    special = {character for character in text if character > "~" or (character < " " and character not in "\t\r\n\f")}
    if any(
        character in ODD_LETTERS or not (character.isalpha() or character in WESTERN_SIGNS) for character in special
    ):
        return None
    runs = [match[0] for match in re.finditer(r"[^\x00-\x7f]+", text)]
    if max(map(len, runs), default=0) > LONGEST_RUN or any(_is_utf_8(run) for run in set(runs)):
        return None
    return text


def _is_utf_8(run: str) -> bool:
    try:
        run.encode("cp1252").decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def find_delimiter(text: str, usual: str, source: str) -> str:
    """The separator that gives the rows at the top equally many cells, the most of them; the usual one if none does."""
    top = text[:GUESS_CHARACTERS]
    whole = len(top) == len(text)
    widths = {mark: _widths(top, mark, whole) for mark in SEPARATORS}
    even = [mark for mark, found in widths.items() if len(set(found)) == 1 and found[0] > 1]
    if usual in even or not even:
        return usual
    found = max(even, key=lambda mark: widths[mark][0])
    logger.info("%s: read as separated by %s (name another by --delimiter)", source, SEPARATORS[found])
    return found


def _widths(text: str, delimiter: str, whole: bool) -> list[int]:
    """The numbers of cells of the first rows; none where a quote does not end."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        found = [len(row) for row in islice(rows, GUESS_ROWS) if row]
    except csv.Error:
        return []
    # The last row of a text that goes on is cut off.
    return found if whole or len(found) == GUESS_ROWS else found[:-1]


def read_delimited(text: str, delimiter: str, source: str) -> Records:
    """A text of rows, every cell as it is written; the first row names the columns."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    # The text is in memory already, so a long cell is no danger; the limit is put back for other users of csv.
    limit = csv.field_size_limit(max(len(text), csv.field_size_limit()))
    try:
        header = next(reader)
        cells, texts, numbers, wrong = _read_rows(reader, len(header))
    except csv.Error as error:
        line = reader.line_num
        raise InputError(f"{source}: line {line} cannot be read ({error}); check its quotes") from error
    finally:
        csv.field_size_limit(limit)
    names = header_names(header, source)
    if wrong is not None:
        number, n_cells = wrong
        raise InputError(
            f"{source}: row {number} has {n_cells} cells and the header has {len(names)}; "
            "put cells that hold the separator in quotes"
        )
    columns = {name: filled(cells.pop(0), texts.pop(0)) for name in names}
    return Records(columns, source, np.array(numbers, dtype=np.int64))


def _read_rows(
    reader: Iterator[list[str]], width: int
) -> tuple[list[list[str | None]], list[KnownTexts], list[int], tuple[int, int] | None]:
    """Cells and distinct cells by column; numbers of rows that are not empty; the first of another width, and it.

    Rows are taken apart some at a time, and equal cells are one text: all rows at once would take twice the memory.
    """
    columns: list[list[str | None]] = [[] for _ in range(width)]
    texts = [KnownTexts() for _ in range(width)]
    numbers: list[int] = []
    wrong: tuple[int, int] | None = None
    next_number = 2
    while rows := list(islice(reader, ROWS_AT_ONCE)):
        places = [next_number + index for index, row in enumerate(rows) if row]
        next_number += len(rows)
        rows = list(filter(None, rows))
        if wrong is None and not set(map(len, rows)) <= {width}:
            wrong = next((place, len(row)) for place, row in zip(places, rows, strict=True) if len(row) != width)
        if wrong is None and rows:
            numbers += places
            for column, known, cells in zip(columns, texts, zip(*rows, strict=True), strict=True):
                column += map(known.setdefault, cells, cells)
    return columns, texts, numbers, wrong


def read_json(text: str, source: str) -> Records:
    """An array of objects, or one object a line."""
    if text.lstrip().startswith("["):
        return _read_json_array(text, source)
    return _read_json_lines(text, source)


def _read_json_array(text: str, source: str) -> Records:
    try:
        rows = parse_json(text)
    except ValueError as error:
        where = f"row {line}" if (line := getattr(error, "lineno", None)) else "the array"
        reason = getattr(error, "msg", error)
        raise InputError(f"{source}: {where} is not JSON ({reason}); write an array of objects") from error
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise InputError(f"{source}: item {number} is not a JSON object; write an array of objects")
    return _from_objects(rows, range(1, len(rows) + 1), source)


def _read_json_lines(text: str, source: str) -> Records:
    # Not splitlines(): it also splits at separators that may stand inside a JSON string.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    advice = "write one object a line"
    rows = [parse_json_object(line, f"{source}: row {number}", advice) for number, line in lines]
    return _from_objects(rows, [number for number, _ in lines], source)


def _from_objects(rows: list[dict[str, Any]], numbers: Iterable[int], source: str) -> Records:
    names = {name for row in rows for name in row}
    check_width(len(names), source)
    if len(names) * len(rows) > max(LARGEST_SPARSE, SPARSE_TIMES * sum(map(len, rows))):
        raise InputError(f"{source}: the rows have hardly any names in common; give them the same ones")
    records = records_from_rows(rows, source)
    return check_no_zero(Records(records.columns, source, np.array(list(numbers), dtype=np.int64)))
