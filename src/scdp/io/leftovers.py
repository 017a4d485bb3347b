"""Where a file is written before it gets its name, and what a killed process left of that: a target enters, the place
beside it leaves, with the process in its name, so that what dead processes wrote is known and removed."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

# A table of Parquet has its rows in a second file while it is made.
ENDINGS = (".part", ".part.jsonl")


def part_of(target: Path, ending: str = ".part") -> Path:
    """The place beside the target that is this process's alone."""
    return target.with_name(f".{target.name}.{os.getpid()}{ending}")


def leftovers_of(target: Path, *endings: str) -> list[Path]:
    """Files and folders beside the target that processes which are no more left behind, in the order of their names.

    A process of another machine that shares the folder is taken for dead: two machines must not write one file.
    """
    pattern = re.compile(rf"\.{re.escape(target.name)}\.(\d+)(?:{'|'.join(map(re.escape, endings))})")
    found = []
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            match = pattern.fullmatch(entry.name)
            if match and not _lives(int(match[1])):
                found.append(Path(entry.path))
    return sorted(found)


def remove_leftovers(target: Path) -> None:
    """Remove the halves of a target that dead processes left."""
    for path in leftovers_of(target, *ENDINGS):
        remove(path)


def remove(path: Path) -> None:
    """Remove a file or folder that may not be there."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _lives(process: int) -> bool:
    # This process writes a target once at a time: under its number is what an earlier one of that number left.
    if process == os.getpid():
        return False
    # Elsewhere than on POSIX systems, signal 0 would end the process.
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
