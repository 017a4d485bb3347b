"""Excel workbooks: a path enters, the Records of its first sheet leave, read by openpyxl."""

from __future__ import annotations

import datetime
import logging
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from scdp.errors import InputError
from scdp.io.untrusted import largest_unpacked, open_ordinary
from scdp.table.records import (
    LARGEST_SPARSE,
    SPARSE_TIMES,
    Records,
    check_no_zero,
    column_of,
    header_names,
    text_of,
)

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
                logger.info(
                    "%s: only the first of its %d sheets is read, %r",
                    place,
                    len(book.worksheets),
                    sheet.title,
                )
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
