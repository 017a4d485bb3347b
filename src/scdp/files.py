"""Files that people get: text, rows or whole folders enter; what appears is whole, or nothing appears at all."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from scdp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = Sequence[Any] | NDArray[Any]

DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".jsonl", ".ndjson", ".json")
PARQUET_KINDS = {float: "DOUBLE", bool: "BOOLEAN", int: "BIGINT"}


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
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it, or give another file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"{path}: its folder cannot be written; give another file")
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
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        self._parts[target] = part
        return part

    def text(self, target: Path, text: str) -> None:
        self.write(target, lambda part: part.write_text(text, encoding="utf-8", newline=""))

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
        finally:
            for part in self._parts.values():
                remove(part)


def sync(path: Path) -> None:
    """Have the disk keep a file, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Remove a file or folder that may not be there."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _replace(part: Path, target: Path) -> None:
    try:
        os.replace(part, target)
    except OSError as error:
        raise _cannot_write(target, error) from error


def write_text(path: Path, text: str) -> None:
    """Write beside the target, then rename: a reader never meets half a file."""
    with Staged() as staged:
        staged.text(path, text)


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


def _delimited(header: Sequence[str], rows: Iterable[Sequence[Any]], delimiter: str) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", delimiter=delimiter)
    writer.writerow(header)
    writer.writerows(rows)
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
