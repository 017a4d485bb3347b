"""What a command reads and what it writes, in one place: nothing that is read is written to, nothing that is there is
replaced unless the user says so. Files are told apart by what they are and not by how their paths are spelled.

Tables that people get are CSV, TSV, JSON lines or Parquet, written whole or not at all.
"""

from __future__ import annotations

import csv
import errno
import glob
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scdp.errors import InputError
from scdp.io.atomic import COMMIT, Staged, part_of, recover

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = Sequence[Any] | NDArray[Any]


DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".jsonl", ".ndjson", ".json")
# Rows of text files that are written at a time.
ROWS_AT_ONCE = 10_000
PARQUET_KINDS = {float: "DOUBLE", bool: "BOOLEAN", int: "BIGINT"}
# Spreadsheets run a cell that starts like this; a plain number is no formula.
FORMULA = re.compile(r"[\s\ufeff]*[=+\-@＝＋－＠]|[\t\r\n]")
PLAIN_NUMBER = re.compile(r"[-+]?\d{1,15}(?:\.\d{1,15})?")


def stage_table(staged: Staged, path: Path, columns: Mapping[str, Column]) -> None:
    """A table of texts, numbers and truth values as CSV, TSV, JSON lines or Parquet, by the name of the file."""
    kind = path.suffix.lower()
    rows = zip(*columns.values(), strict=True)
    if kind in DELIMITERS:
        plain = _join_plain(columns, DELIMITERS[kind])
        staged.text(path, _delimited(list(columns), rows, DELIMITERS[kind]) if plain is None else plain)
    elif kind in JSON_LINES:
        lines = (json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows)
        staged.text(path, "".join(f"{line}\n" for line in lines))
    else:
        staged.write(path, lambda part: _write_rows(part, columns))


def stage_spreadsheet(staged: Staged, path: Path, columns: Mapping[str, Column]) -> None:
    """A CSV or TSV to be opened in a spreadsheet: what it would run as a formula has a ' in front, and is text."""
    rows = (map(spreadsheet_cell, row) for row in zip(*columns.values(), strict=True))
    text = _delimited([*map(spreadsheet_cell, columns)], map(list, rows), DELIMITERS[path.suffix.lower()])
    # By the mark at the start, spreadsheets know that this is UTF-8.
    staged.text(path, "\ufeff" + text)


def spreadsheet_cell(cell: Any) -> Any:
    """A cell that no spreadsheet runs: a text that starts like a formula gets a ' in front."""
    if not isinstance(cell, str) or PLAIN_NUMBER.fullmatch(cell) or not FORMULA.match(cell):
        return cell
    return f"'{cell}"


def _join_plain(columns: Mapping[str, Column], delimiter: str) -> str | None:
    """Columns of texts and of numbers none of which needs a quote, in a third of a writer's time; None for others."""
    texts = []
    for column in columns.values():
        kinds = set(map(type, column))
        if kinds <= {str}:
            texts.append(column)
        elif kinds == {float}:
            # Of very many probabilities, few differ. The two zeros are equal, and spelled differently.
            spelled = {number: str(number) for number in set(column) if number}
            texts.append([spelled.get(number) or str(number) for number in column])
        else:
            return None
    n_rows, n_columns = 1 + len(texts[0]), len(texts)
    # Cells and what follows each, row by row, as one list to join.
    pieces = [delimiter] * (2 * n_rows * n_columns)
    for place, (name, column) in enumerate(zip(columns, texts, strict=True)):
        pieces[2 * place :: 2 * n_columns] = [name, *column]
    pieces[2 * n_columns - 1 :: 2 * n_columns] = ["\n"] * n_rows
    whole = "".join(pieces)
    if n_columns < 2 or '"' in whole or "\r" in whole:
        return None
    one_each = whole.count("\n") == n_rows and whole.count(delimiter) == n_rows * (n_columns - 1)
    return whole if one_each else None


def _delimited(header: Sequence[str], rows: Iterable[Sequence[Any]], delimiter: str) -> str:
    parts, every = [], chain([header], rows)
    while some := list(islice(every, ROWS_AT_ONCE)):
        text = io.StringIO()
        plain = csv.writer(text, lineterminator="\n", delimiter=delimiter)
        plain.writerows(some)
        parts.append(text.getvalue())
        # A bare carriage return ends a row for every reader, and Python before 3.13 does not quote it.
        if "\r" in parts[-1]:
            parts[-1] = _with_returns(some, delimiter)
    return "".join(parts)


def _with_returns(rows: Iterable[Sequence[Any]], delimiter: str) -> str:
    """Rows in which a cell has a carriage return are quoted."""
    text = io.StringIO()
    plain = csv.writer(text, lineterminator="\n", delimiter=delimiter)
    quoted = csv.writer(text, lineterminator="\n", delimiter=delimiter, quoting=csv.QUOTE_ALL)
    for row in rows:
        ends = any(isinstance(cell, str) and "\r" in cell for cell in row)
        (quoted if ends else plain).writerow(row)
    return text.getvalue()


def _write_rows(path: Path, columns: Mapping[str, Column]) -> None:
    import duckdb

    arrays, chosen = {}, []
    for k, (title, column) in enumerate(columns.items()):
        arrays[f"column{k}"], kind = _array_of(list(column))
        # Names of columns are the user's: quotes in them are doubled, as SQL wants.
        chosen.append(f"CAST(column{k} AS {kind}) AS {quote_name(title)}")
    with database_errors(), duckdb.connect() as connection:
        _take_arrays(connection)
        connection.register("block", arrays)
        copied = f"COPY (SELECT {', '.join(chosen)} FROM block) TO '{_quoted(path)}'"
        connection.execute(f"{copied} (FORMAT parquet, USE_TMP_FILE false)")


def _array_of(cells: list[Any]) -> tuple[NDArray[Any], str]:
    """Cells as an array that the database reads, and their kind there: numbers only where none is missing."""
    import numpy as np

    kinds = set(map(type, cells))
    kind = PARQUET_KINDS.get(next(iter(kinds)), "VARCHAR") if len(kinds) == 1 else "VARCHAR"
    if kind != "VARCHAR":
        return np.array(cells), kind
    if kinds - {str, type(None)}:
        kind = PARQUET_KINDS.get(type(cells[0]), "VARCHAR")
        cells = [None if cell is None else str(cell) for cell in cells]
    texts = np.empty(len(cells), dtype=object)
    texts[:] = cells
    return texts, kind


def _take_arrays(connection: Any) -> None:
    """Cells are texts or numbers by the kind of their array, not by what they look like; nothing is said meanwhile."""
    connection.execute("SET pandas_analyze_sample = 0")
    connection.execute("SET enable_progress_bar = false")


def quote_name(name: str) -> str:
    """A name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def write_parquet(path: Path, *blocks: Mapping[str, NDArray[Any]]) -> None:
    """Write columns to a file that is there and empty, one block of rows after another."""
    import duckdb

    with database_errors(), duckdb.connect() as connection:
        _take_arrays(connection)
        parts = []
        for number, block in enumerate(blocks):
            names = {f"column{k}": values for k, values in enumerate(block.values())}
            connection.register(f"block{number}", names)
            titles = ", ".join(f"column{k} AS {quote_name(name)}" for k, name in enumerate(block))
            parts.append(f"SELECT {titles} FROM block{number}")
        options = "FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, USE_TMP_FILE false"
        connection.execute(f"COPY ({' UNION ALL BY NAME '.join(parts)}) TO '{_quoted(path)}' ({options})")


def read_parquet(path: Path, names: Sequence[str] | None, where: str = "true") -> dict[str, NDArray[Any]]:
    """Columns of a file in the order of its rows, all of them unless named."""
    import duckdb

    chosen = "*" if names is None else ", ".join(map(quote_name, names))
    try:
        with duckdb.connect() as connection:
            found = connection.execute(
                f"SELECT {chosen} FROM read_parquet(?) WHERE {where}", [glob.escape(str(path))]
            ).fetchnumpy()
    except duckdb.OutOfMemoryException as error:
        raise MemoryError from error
    except duckdb.Error as error:
        raise InputError(f"{path}: cannot be read ({str(error).splitlines()[0]}); make it again") from error
    return {name: _fill(values, path) for name, values in found.items()}


def parquet_names(path: Path) -> list[str]:
    """The names of the columns of a file."""
    import duckdb

    with duckdb.connect() as connection:
        found = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [glob.escape(str(path))])
        return [str(row[0]) for row in found.fetchall()]


def _fill(values: NDArray[Any], path: Path) -> NDArray[Any]:
    """Gaps among numbers are NaN; elsewhere there are none."""
    import numpy as np

    plain: NDArray[Any] = np.ma.getdata(values)
    gaps = np.ma.getmask(values)
    if gaps is np.ma.nomask or not gaps.any():
        return plain
    if plain.dtype.kind != "f":
        raise InputError(f"{path}: has gaps; make it again")
    return np.where(gaps, np.nan, plain)


@contextmanager
def database_errors() -> Iterator[None]:
    """What DuckDB says of a disk or of memory becomes the error that Python has for it."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise MemoryError from error
    except duckdb.IOException as error:
        full = "No space left" in str(error)
        code = errno.ENOSPC if full else errno.EIO
        raise OSError(code, os.strerror(code) if full else str(error).splitlines()[0]) from error


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


# As long as a stamp can be.
LONGEST_STAMP = f"{2**22}-{'f' * 16}"


class Given(NamedTuple):
    """A file or folder, and the word or option of the command line that names it."""

    option: str
    path: Path


def list_given(paths: Mapping[str, Path | None]) -> list[Given]:
    """What is given, by option; None is not."""
    return [Given(option, path) for option, path in paths.items() if path is not None]


def check_files(
    inputs: Sequence[Given],
    outputs: Sequence[Given],
    force: bool,
    updated: tuple[str, str] | None = None,
    added: Sequence[Given] = (),
) -> None:
    """Refuse a command that would overwrite what it reads, name a file twice, or replace something without `force`.

    Call it before anything is read: what a killed command had written in full is brought to its end first.

    Parameters
    ----------
    inputs, outputs : sequences of Given
        All files that the command reads and writes, and folders that it has to itself. Into a folder that is read, such
        as a model or a result, nothing is written.
    force : bool
        Whether outputs that are there may be replaced. Inputs never are.
    updated : tuple of str, optional
        An input and an output that may be one file, with `force`: what is read is carried over into what is written.
    added : sequence of Given
        Outputs that are only added to, and so may be there.
    """
    _recover({given.path.absolute().parent for given in (*inputs, *added, *outputs)})
    written = (*added, *outputs)
    for number, output in enumerate(written):
        for other in (*inputs, *written[:number]):
            if is_same_file(output.path, other.path) and not (force and (other.option, output.option) == updated):
                raise InputError(
                    f"{output.path}: is named twice, by {other.option} and by {output.option}; "
                    f"give {output.option} a file of its own"
                )
        for option, path in inputs:
            if lies_in(output.path, path):
                raise InputError(
                    f"{output.path}: lies in the folder {path}, which {option} reads; "
                    f"give {output.option} a place outside it"
                )
    if not force:
        check_absent(outputs)


def lies_in(path: Path, folder: Path) -> bool:
    """Whether a file is, or would be, somewhere in a folder."""
    if not folder.is_dir():
        return False
    return any(is_same_file(parent, folder) for parent in Path(os.path.realpath(path)).parents)


def check_absent(outputs: Iterable[Given]) -> None:
    """Refuse to replace what is there; folders are for others to judge."""
    for option, path in outputs:
        if os.path.lexists(path) and not path.is_dir():
            raise InputError(f"{path}: is there already; give {option} another name, or --force to replace it")


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, or would if it were there."""
    with suppress(OSError, ValueError):
        return os.path.samefile(one, other)
    try:
        first, second = (Path(os.path.realpath(path)) for path in (one, other))
    except (OSError, ValueError):
        return False
    if first.exists() or second.exists():
        return False
    # Some disks do not tell capitals from small letters.
    same_name = first == second or first.name.casefold() == second.name.casefold()
    with suppress(OSError):
        return same_name and os.path.samefile(first.parent, second.parent)
    return first == second


def _recover(folders: Iterable[Path]) -> None:
    for folder in folders:
        # A folder that is only read may be one that cannot be written.
        with suppress(OSError):
            recover(folder)


def open_folder(folder: Path) -> Path:
    """The folder, made if need be and found writable, so that a long job does not fail at its end."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(f"{folder}: there is a file of this name; give another folder with --out") from error
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{folder}: cannot be written ({reason}); choose another folder") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: cannot be written; give another folder with --out")
    return folder


def check_target(path: Path) -> Path:
    """A file that can be written later, so that a long job does not fail at its end."""
    if path.is_dir():
        raise InputError(f"{path}: this is a directory; give the name of a file")
    if path.exists() and not path.is_file():
        # It would be replaced by a file.
        raise InputError(f"{path}: this is a pipe or a device; give the name of a file")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it, or give another file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{path}: its folder cannot be written; give another file")
    if path.exists() and not os.access(path, os.W_OK):
        raise InputError(f"{path}: is only to be read; give another file, or allow writing to it")
    try:
        with suppress(FileNotFoundError):
            part_of(path, LONGEST_STAMP, COMMIT).lstat()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written ({error}); give another name") from error
    return path


def check_folder_target(folder: Path) -> Path:
    """A folder that can be put in the place of another: not the one that we are in, nor one around it."""
    here = Path.cwd()
    if any(is_same_file(folder, place) for place in (here, *here.parents)):
        raise InputError(f"{folder}: is the folder that you are in, or one around it; give a folder in it")
    return folder


def check_table_target(path: Path) -> Path:
    """As `check_target`, of a table, whose kind is told by its name."""
    if path.suffix.lower() not in (*DELIMITERS, *JSON_LINES, ".parquet"):
        raise InputError(
            f"{path}: the kind of file cannot be told from its name; name it .csv, .tsv, .jsonl or .parquet"
        )
    return check_target(path)
