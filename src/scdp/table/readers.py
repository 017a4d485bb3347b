"""Readers: the path of a file enters, Records leave; the kind of file is told from its name.

CSV, TSV and JSON (also packed by gzip or Zstandard), Parquet and Excel, and queries of a database. A file of
strangers is read with care: what is too large, packed too tightly, damaged or of another kind is refused.
"""

from __future__ import annotations

import datetime
import gzip
import io
import logging
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from scdp.errors import InputError
from scdp.io.memory import Need, require
from scdp.io.untrusted import largest_unpacked, open_ordinary, read_at_most, read_bytes
from scdp.table.database import database_of, is_address, read_parquet, read_plain_text, read_query
from scdp.table.records import LARGEST_SPARSE, SPARSE_TIMES, Records, check_no_zero, column_of, header_names, text_of
from scdp.table.text_files import Reading, decode, find_delimiter, read_delimited, read_json

logger = logging.getLogger(__name__)

# What Excel shows where a formula failed says nothing about the record.
FAILED = frozenset({"#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!"})
# A sheet has no more rows; a file that claims more is damaged.
MOST_ROWS = 1 << 20


def read_workbook(place: Path) -> Records:
    """The first sheet of a workbook, its first row being the header; formulas count as the values they last had."""
    try:
        import openpyxl
    except ImportError as error:
        raise InputError(
            f"{place}: Excel files need one more package; install it with  pip install 'scdp[excel]', "
            "or save the sheet as CSV"
        ) from error
    with open_ordinary(place) as file:
        try:
            _check_size(file, place)
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
            sheet = book.worksheets[0]
            sheet.reset_dimensions()
            if len(book.worksheets) > 1:
                logger.info("%s: only the first of its %d sheets is read, %r", place, len(book.worksheets), sheet.title)
            rows = list(islice(_filled_rows(sheet, place), MOST_ROWS))
        except (InputError, MemoryError):
            raise
        except Exception as error:
            # Each layer (zip, XML, openpyxl's own reading of it) has its own ways to fail.
            raise InputError(f"{place}: not an Excel workbook, or damaged; save it again") from error
    return _from_rows(rows, place)


def _check_size(file: Any, place: Path) -> None:
    """Refuse few bytes that stand for a flood, before any of it is unpacked."""
    with zipfile.ZipFile(file) as archive:
        size = sum(member.file_size for member in archive.infolist())
    packed = file.seek(0, 2)
    file.seek(0)
    if size > largest_unpacked(packed):
        raise InputError(f"{place}: unpacks to {size:,} bytes, which no table does; save it again as CSV")


def _filled_rows(sheet: Any, place: Path) -> Iterator[tuple[int, list[Any]]]:
    """The rows that are not empty, with their numbers, each without the empty cells at its end."""
    n_cells = n_filled = 0
    for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
        cells = list(row)
        while cells and cells[-1] is None:
            cells.pop()
        n_cells += len(cells)
        n_filled += len(cells) - cells.count(None)
        if n_cells > max(LARGEST_SPARSE, SPARSE_TIMES * n_filled):
            raise InputError(f"{place}: hardly any cell of the sheet is filled; leave out the empty columns")
        if cells:
            yield number, cells


def _from_rows(rows: Sequence[tuple[int, list[Any]]], place: Path) -> Records:
    if not rows:
        raise InputError(f"{place}: the first sheet is empty; give a sheet with a header and records")
    names = header_names([text_of(cell) or "" for cell in rows[0][1]], str(place))
    for number, cells in rows[1:]:
        if len(cells) > len(names):
            raise InputError(
                f"{place}: row {number} has {len(cells)} cells and the header has {len(names)}; name every column"
            )
    columns = {
        name: column_of(_cell(cells[k]) if k < len(cells) else None for _, cells in rows[1:])
        for k, name in enumerate(names)
    }
    numbers = np.array([number for number, _ in rows[1:]], dtype=np.int64)
    return check_no_zero(Records(columns, str(place), numbers))


def _cell(value: Any) -> str | None:
    """A cell as Excel shows it: a day without a time of day, a whole number without a point."""
    if isinstance(value, str) and value in FAILED:
        return None
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return text_of(value)


__all__ = ["Reading", "file_of", "read_records"]

DELIMITED = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
JSON = (".jsonl", ".ndjson", ".json")
WORKBOOKS = (".xlsx", ".xlsm")
PACKED = {".gz": "gzip", ".zst": "Zstandard"}
# Cells take more memory than their characters take on the disk, 8 to 22 times while they are read.
TIMES_IN_MEMORY = 8
# A kilobyte of Zstandard unpacks to 32 MB at most; windows are no larger than its own tool allows.
PACKED_AT_ONCE, LARGEST_WINDOW = 1 << 10, 1 << 27


def read_records(path: str | Path, reading: Reading | None = None) -> Records:
    """Read a CSV, TSV, JSON (an array, or an object a line), Parquet or Excel file, every cell as text.

    Parameters
    ----------
    path : str or Path
        Its name says what kind of file it is. Text files may end in .gz or .zst as well. Or a query of a database:
        "duckdb:FILE?SELECT ..." or "postgresql:dbname=NAME host=HOST?SELECT ...".
    reading : Reading, optional
        Separator and encoding of text files. What is not given is guessed, and the guess is logged.

    Returns
    -------
    Records

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("id;name\\n1;Ann\\n2;\\n")
    >>> read_records(path)["name"].tolist()
    ['Ann', None]
    """
    address = _address(path)
    if is_address(address):
        return read_query(address)
    place, reading = Path(path), reading or Reading()
    _check_file(place)
    packing = PACKED.get(place.suffix.lower())
    kind = Path(place.stem if packing else place.name).suffix.lower()
    if kind in DELIMITED or kind in JSON:
        records = _read_text(place, kind, packing, reading)
    elif kind == ".parquet" and not packing:
        records = read_parquet(place)
    elif kind in WORKBOOKS and not packing:
        records = read_workbook(place)
    else:
        raise InputError(
            f"{place}: the kind of file cannot be told from its name; "
            "name it .csv, .tsv, .jsonl, .ndjson, .json (or these with .gz or .zst), .parquet or .xlsx"
        )
    if not len(records):
        raise InputError(f"{place}: the file holds no records; give it at least one")
    return records


def file_of(path: Path) -> Path:
    """The file that records are read from: of a query, its database."""
    return database_of(_address(path)) or path


def _address(path: str | Path) -> str:
    # In a path, the slashes of a query are encoded.
    return unquote(str(path)) if isinstance(path, Path) else path


def _check_file(place: Path) -> None:
    with open_ordinary(place) as file:
        if not file.read(1):
            raise InputError(f"{place}: the file is empty; give a file with a header and records")
        n_bytes = TIMES_IN_MEMORY * os.fstat(file.fileno()).st_size
    require([Need(f"the cells of {place}", n_bytes, "split the file, or leave out columns that are not compared")])


def _read_text(place: Path, kind: str, packing: str | None, reading: Reading) -> Records:
    content = read_bytes(place)
    if packing is not None:
        content = _unpacked(place, content, packing)
    text = decode(content, place, reading.encoding, guesses=kind in DELIMITED)
    if kind in JSON:
        return read_json(text, str(place))
    delimiter = reading.delimiter or find_delimiter(text, DELIMITED[kind], str(place))
    # What the database reads is the file itself.
    in_file = packing is None and reading.encoding is None and _is_utf_8(content, text)
    found = read_plain_text(text, place, delimiter) if in_file else None
    return read_delimited(text, delimiter, str(place)) if found is None else found


def _is_utf_8(content: bytes, text: str) -> bool:
    """Whether a text is what the bytes say in UTF-8, with no mark before it."""
    return (content.isascii() and len(content) == len(text)) or text.encode("utf-8") == content


def _unpacked(place: Path, packed: bytes, packing: str) -> bytes:
    most = largest_unpacked(len(packed))
    unpack = _unpack_gzip if packing == "gzip" else _unpack_zstandard
    try:
        content = unpack(packed, most)
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
