"""What a spec may name a file for: how common values are elsewhere, such as names in a country, and nicknames."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from scdp.errors import InputError
from scdp.io.untrusted import read_bytes
from scdp.table.readers import read_records

VALUE, COUNT = "value", "count"
WANTED_NAMES = 'a file with the names of one person a line, or lists such as [["Margaret", "Peggy"]]'
LARGEST_FILE = 4 << 20
WANTED = 'a file with the columns value and count, or pairs such as [["Smith", 120]]'


def read_frequencies(path: Path) -> dict[str, int]:
    """The counts by value in a table with the columns value and count; a value that is there twice counts as both."""
    records = read_records(path)
    records.require(VALUE, COUNT)
    found: Counter[str] = Counter()
    for row, (value, count) in enumerate(zip(records[VALUE].tolist(), records[COUNT].tolist(), strict=True)):
        try:
            number = int(str(count).replace(",", ""))
        except ValueError:
            number = 0
        if number < 1 or value is None:
            what = "has no value" if value is None else f"the count {count!r} is no whole number from 1 on"
            raise InputError(
                f"{records.source}, row {records.row_number(row)}: {what}; correct it or leave the row out"
            )
        found[str(value)] += number
    return dict(found)


def find_frequencies(given: object, folder: Path | None) -> dict[str, int] | None:
    """The counts by value of a file in a folder, or of pairs such as ["Smith", 120]; None where it is neither."""
    if isinstance(given, str) and folder is not None:
        return read_frequencies(folder / given)
    found: Counter[str] = Counter()
    for pair in given if isinstance(given, list) else [None]:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and type(pair[1]) is int):
            return None
        found[pair[0]] += pair[1]
    return dict(found)


def find_nicknames(given: object, folder: Path | None) -> list[list[str]] | None:
    """The groups of names of a file in a folder, those of a person a line, or of lists; None where it is neither."""
    if isinstance(given, str) and folder is not None:
        try:
            lines = read_bytes(folder / given, LARGEST_FILE).decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise InputError(f"{folder / given}: not UTF-8 text at byte {error.start}; save it as UTF-8") from error
        return [names for line in lines if (names := [name for name in re.split(r"[,;\s]+", line) if name])]
    if not isinstance(given, list) or not all(isinstance(group, list) for group in given):
        return None
    return given if all(isinstance(name, str) for group in given for name in group) else None
