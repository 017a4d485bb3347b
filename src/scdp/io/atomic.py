"""Files that people get: text, rows or whole folders enter; what appears is whole, or nothing appears at all."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from scdp.errors import InputError
from scdp.io.leftovers import part_of, remove, remove_leftovers

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


def open_folder(folder: Path) -> Path:
    """The folder, made if need be and found writable, so that a long job does not fail at its end."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(f"{folder}: there is a file of this name; give another folder with --out") from error
    except OSError as error:
        raise _cannot_write(folder, error) from error
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
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it, or give another file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"{path}: its folder cannot be written; give another file")
    try:
        with suppress(FileNotFoundError):
            part_of(path).lstat()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written ({error}); give another name") from error
    return path


def check_table_target(path: Path) -> Path:
    """As `check_target`, of a table, whose kind is told by its name."""
    if path.suffix.lower() not in (*DELIMITERS, *JSON_LINES, ".parquet"):
        raise InputError(
            f"{path}: the kind of file cannot be told from its name; name it .csv, .tsv, .jsonl or .parquet"
        )
    return check_target(path)


class Staged:
    """Files and folders written beside their targets, which all appear when the block ends without an error."""

    def __init__(self) -> None:
        self._parts: dict[Path, Path] = {}

    def __enter__(self) -> Self:
        return self

    def place(self, target: Path) -> Path:
        """Where to write what is to become `target`."""
        remove_leftovers(target)
        self._parts[target] = part_of(target)
        return self._parts[target]

    def text(self, target: Path, text: str) -> None:
        self.binary(target, text.encode())

    def binary(self, target: Path, content: bytes) -> None:
        self.write(target, lambda part: part.write_bytes(content))

    def write(self, target: Path, write: Callable[[Path], object]) -> None:
        """Let `write` make a file at the place it is given; an error of the disk names the target."""
        try:
            part = self.place(target)
            write(part)
            sync(part)
        except OSError as error:
            raise _cannot_write(target, error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for target, part in self._parts.items():
                    _replace(part, target)
                _sync_folders(self._parts)
        finally:
            for part in self._parts.values():
                remove(part)


class FolderLock:
    """A folder for one process at a time, made if need be; another one is refused with the process id of the first.

    The system lets go of the lock when its process dies, however it dies: what a dead process held is free.
    """

    def __init__(self, folder: Path, where: str = "folder") -> None:
        self._folder, self._where, self._handle = folder, where, -1

    @property
    def path(self) -> Path:
        return self._folder / "lock"

    def __enter__(self) -> Self:
        import fcntl

        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            while not self._is_held():
                self.release()
                self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._handle, 0)
            os.write(self._handle, f"{os.getpid()}\n".encode())
        except BlockingIOError:
            holder = os.read(self._handle, 20).decode(errors="replace").strip() or "unknown"
            self.release()
            raise InputError(
                f"{self._folder}: another run (process {holder}) works in it; "
                f"wait for it, or give another {self._where}"
            ) from None
        except OSError as error:
            self.release()
            raise _cannot_write(self._folder, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self.path.unlink()
        self.release()

    def release(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _is_held(self) -> bool:
        # Between opening and locking, the holder may have gone and taken the file with it.
        with suppress(OSError):
            return self._handle >= 0 and os.path.samestat(os.fstat(self._handle), os.stat(self.path))
        return False


def sync(path: Path) -> None:
    """Have the disk keep a file, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace(part: Path, target: Path) -> None:
    try:
        part.replace(target)
    except OSError as error:
        raise _cannot_write(target, error) from error


def _sync_folders(targets: Iterable[Path]) -> None:
    """Without it, a power cut could bring back the names from before."""
    for folder in dict.fromkeys(target.parent for target in targets):
        try:
            sync(folder)
        except OSError as error:
            raise _cannot_write(folder, error) from error


def write_text(path: Path, text: str) -> None:
    """Write beside the target, then rename: a reader never meets half a file."""
    with Staged() as staged:
        staged.text(path, text)


def write_bytes(path: Path, content: bytes) -> None:
    """As `write_text`, of bytes."""
    with Staged() as staged:
        staged.binary(path, content)


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file."""
    write_text(path, _delimited(header, rows, ","))


def stage_table(staged: Staged, path: Path, columns: Mapping[str, Column]) -> None:
    """A table of texts, numbers and truth values as CSV, TSV, JSON lines or Parquet, by the name of the file."""
    kind = path.suffix.lower()
    rows = zip(*columns.values(), strict=True)
    if kind in DELIMITERS:
        staged.text(path, _delimited(list(columns), rows, DELIMITERS[kind]))
    elif kind in JSON_LINES:
        lines = (json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows)
        staged.text(path, "".join(f"{line}\n" for line in lines))
    else:
        staged.write(path, lambda part: _write_parquet(part, columns))


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


def _write_parquet(path: Path, columns: Mapping[str, Column]) -> None:
    # By way of JSON lines: DuckDB reads no Python lists, and neither pandas nor Arrow need be here.
    import duckdb

    names = [f"column{k}" for k in range(len(columns))]
    kinds = [PARQUET_KINDS.get(type(next(iter(column), None)), "VARCHAR") for column in columns.values()]
    between = path.with_name(f"{path.name}.jsonl")
    rows = zip(*columns.values(), strict=True)
    lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
    try:
        between.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        # Names of columns are the user's: quotes in them are doubled, as SQL wants.
        titles = ['"' + name.replace('"', '""') + '"' for name in columns]
        chosen = ", ".join(f"{name} AS {title}" for name, title in zip(names, titles, strict=True))
        types = ", ".join(f"{name}: '{kind}'" for name, kind in zip(names, kinds, strict=True))
        reader = f"read_json(?, format = 'newline_delimited', columns = {{{types}}})"
        with duckdb.connect() as connection:
            connection.execute(
                f"COPY (SELECT {chosen} FROM {reader}) TO '{_quoted(path)}' (FORMAT parquet)", [str(between)]
            )
    finally:
        remove(between)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _cannot_write(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: cannot be written ({error.strerror or error}); choose another folder")
