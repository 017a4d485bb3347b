"""Where files lie: before they get their names, what a killed process left of that, and what can be made again.

Such a place lies beside its target. Its name has the process, so that what dead processes wrote is known, and 64 random
bits, so that nobody can put a link there beforehand.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PART, OLD, COMMIT = ".part", ".old", ".commit"
# A table of Parquet has its rows in a second file while it is made.
ROWS = ".part.jsonl"
STAMP = r"(\d+)-[0-9a-f]{16}"
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
# What this process is writing; under its number there may also be what an earlier one of that number left.
_own_stamps: set[str] = set()


class Leftover(NamedTuple):
    """A file or folder that a dead process left, and the stamp in its name."""

    path: Path
    stamp: str


def make_stamp() -> str:
    """The middle of the names of one set of files: this process and 64 random bits."""
    stamp = f"{os.getpid()}-{os.urandom(8).hex()}"
    _own_stamps.add(stamp)
    return stamp


def release_stamp(stamp: str) -> None:
    """Say that nothing is written under this stamp any more."""
    _own_stamps.discard(stamp)


def part_of(target: Path, stamp: str, ending: str = PART) -> Path:
    """The place beside the target under this stamp."""
    return target.with_name(f".{target.name}.{stamp}{ending}")


def create_exclusively(path: Path, mode: int = 0o666) -> int:
    """A new file, open for writing; whatever is there already, a link included, is an error."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | getattr(os, "O_BINARY", 0), mode)


def leftovers_of(target: Path, *endings: str) -> list[Leftover]:
    """What dead processes left beside the target, in the order of names.

    A process of another machine that shares the folder is taken for dead: two machines must not write one file.
    """
    return find_leftovers(target.parent, re.escape(target.name), *endings)


def find_leftovers(folder: Path, names: str, *endings: str, locked: bool = False) -> list[Leftover]:
    """What dead processes left in a folder of targets whose names match a pattern; only what is this user's own.

    In a folder that this process has locked, every other process counts as dead.
    """
    pattern = re.compile(rf"\.(?:{names})\.({STAMP})(?:{'|'.join(map(re.escape, endings))})", re.DOTALL)
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = pattern.fullmatch(entry.name)
            if not match or not _is_own(entry):
                continue
            if match[1] not in _own_stamps and (locked or not _lives(int(match[2]))):
                found.append(Leftover(Path(entry.path), match[1]))
    return sorted(found)


def remove_leftovers(target: Path) -> None:
    """Remove the halves of a target that dead processes left."""
    for path, _ in leftovers_of(target, PART, ROWS):
        remove(path)


def remove(path: Path) -> None:
    """Remove a file or folder that may not be there; of a link only the link."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _is_own(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        status = entry.stat(follow_symlinks=False)
        ordinary = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
        return ordinary and (not hasattr(os, "geteuid") or status.st_uid == os.geteuid())
    return False


def _lives(process: int) -> bool:
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


def cache_root() -> Path:
    """scdp under $SCDP_CACHE, or the folder that this system has for caches."""
    given = os.environ.get("SCDP_CACHE")
    if given:
        return Path(given).expanduser() / "scdp"
    from platformdirs import user_cache_path

    return user_cache_path("scdp", appauthor=False)
