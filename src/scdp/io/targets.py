"""What a command reads and what it writes, in one place: nothing that is read is written to, nothing that is there is
replaced unless the user says so. Files are told apart by what they are and not by how their paths are spelled."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from scdp.errors import InputError
from scdp.io.atomic import recover
from scdp.io.leftovers import ROWS, part_of
from scdp.io.tables import DELIMITERS, JSON_LINES

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
            part_of(path, LONGEST_STAMP, ROWS).lstat()
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
