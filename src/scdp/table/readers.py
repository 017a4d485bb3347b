"""Readers: the path of a file enters, Records leave; the kind of file is told from its name.

CSV, TSV and JSON (also packed by gzip or Zstandard), Parquet and Excel, and queries of a database. A file of
strangers is read with care: what is too large, packed too tightly, damaged or of another kind is refused.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from pathlib import Path
from urllib.parse import unquote

from scdp.errors import InputError
from scdp.io.memory import Need, require
from scdp.io.untrusted import largest_unpacked, open_ordinary, read_at_most, read_bytes
from scdp.table.database import database_of, is_address, read_plain_text, read_query
from scdp.table.parquet import read_parquet
from scdp.table.records import Records
from scdp.table.text_files import Reading, decode, find_delimiter, read_delimited, read_json
from scdp.table.workbooks import read_workbook

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
    require(
        [Need(f"the cells of {place}", n_bytes, "split the file, or leave out columns that are not compared")]
    )


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
