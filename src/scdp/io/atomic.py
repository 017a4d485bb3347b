"""Files that appear whole or not at all: alone, as a set, or sealed with a checksum.

A set is written beside its targets and brought to the disk. Then a note of it is written, and by that the set counts
as finished: every file gets its name, and the note is removed. What a process that was killed in between left is
finished by `recover`; an error in between is undone at once.

Before a file gets its name it lies beside its target. The name there has the process, so that what dead processes left
is known, and 64 random bits, so that nobody can put a link there beforehand.

Sealed are files that are kept between runs: words and arrays enter, an .npz leaves. It is read without pickle and never
through a link; a truncated or altered file is found out and raises `Damaged`. Of stored words and arrays those that
belong there leave by name, and others are refused.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Arrays
from scdp.errors import InputError
from scdp.io import NO_FOLLOW, cannot_write, parse_json, read_arrays, read_bytes, remove

PART, OLD, COMMIT = ".part", ".old", ".commit"
STAMP = r"(\d+)-[0-9a-f]{16}"
# What this process is writing; under its number there may also be what an earlier one of that number left.
_own_stamps: set[str] = set()


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


def leftovers_of(target: Path, *endings: str) -> list[tuple[Path, str]]:
    """What dead processes left beside the target, in the order of names, each with the stamp in its name.

    A process of another machine that shares the folder is taken for dead: two machines must not write one file.
    """
    return find_leftovers(target.parent, re.escape(target.name), *endings)


def find_leftovers(folder: Path, names: str, *endings: str, locked: bool = False) -> list[tuple[Path, str]]:
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
                found.append((Path(entry.path), match[1]))
    return sorted(found)


def remove_leftovers(target: Path) -> None:
    """Remove the halves of a target that dead processes left."""
    for path, _ in leftovers_of(target, PART):
        remove(path)


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


# A note of a set lists a handful of paths.
LONGEST_NOTE = 1 << 20


class Staged:
    """Files written beside their targets, which all appear when the block ends without an error.

    A file that is there keeps its mode, its owner, and the links that lead to it. With `replace=False` nothing that
    is there is replaced, also if it came while the block ran.
    """

    def __init__(self, replace: bool = True) -> None:
        self._replace = replace
        self._stamp = make_stamp()
        self._parts: dict[Path, Path] = {}

    def __enter__(self) -> Self:
        return self

    def text(self, target: Path, text: str) -> None:
        self.binary(target, text.encode())

    def binary(self, target: Path, content: bytes) -> None:
        self.write(target, lambda part: part.write_bytes(content))

    def write(self, target: Path, write: Callable[[Path], object]) -> None:
        """Let `write` make a file at the place it is given; an error of the disk names the target."""
        try:
            real = follow(target)
            recover(real.parent)
            remove_leftovers(real)
            part = part_of(real, self._stamp)
            self._parts[real] = part
            before = _status(real)
            os.close(create_exclusively(part, 0o666 if before is None else 0o600))
            write(part)
            if before is not None:
                _take_after(part, before)
            sync(part)
        except OSError as error:
            raise cannot_write(target, error) from error

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            for part in self._parts.values():
                remove(part)
            release_stamp(self._stamp)

    def _commit(self) -> None:
        if not self._replace:
            for target in self._parts:
                if os.path.lexists(target):
                    raise InputError(f"{target}: is there now, and was not before; move it away and try again")
        if len(self._parts) > 1:
            _sync_folders(self._parts)
            _commit_set(list(self._parts), self._stamp)
        else:
            for target, part in self._parts.items():
                _replace(part, target)
        _sync_folders(self._parts)


def follow(target: Path) -> Path:
    """The file that a link leads to; what is no link stays as it is."""
    return Path(os.path.realpath(target)) if target.is_symlink() else target


def _status(path: Path) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return path.stat()
    return None


def _take_after(part: Path, before: os.stat_result) -> None:
    """Give a file the owner and the mode of the one that it is to replace."""
    if hasattr(os, "chown"):
        # Only root may give a file away; for others it is their own from now on, as the folder allows.
        with suppress(OSError):
            os.chown(part, before.st_uid, before.st_gid)
    part.chmod(stat.S_IMODE(before.st_mode))


def _commit_set(targets: list[Path], stamp: str) -> None:
    note = part_of(targets[0].absolute(), stamp, COMMIT)
    try:
        _write_note(note, targets)
        for target in targets:
            _keep_old(target, part_of(target, stamp, OLD))
        for target in targets:
            _replace(part_of(target, stamp), target)
    except BaseException:
        remove(note)
        _undo(targets, stamp)
        raise
    _forget(note, targets, stamp)


def _write_note(note: Path, targets: Iterable[Path]) -> None:
    content = json.dumps([str(target.absolute()) for target in targets]).encode()
    try:
        handle = create_exclusively(note, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        sync(note.parent)
    except OSError as error:
        raise cannot_write(note.parent, error) from error


def _keep_old(target: Path, old: Path) -> None:
    """Keep what is there under a second name, so that it can come back."""
    if not os.path.lexists(target):
        return
    try:
        os.link(target, old)
    except OSError:
        # Some disks have no second names.
        _replace(target, old)


def _undo(targets: Iterable[Path], stamp: str) -> None:
    for target in targets:
        old = part_of(target, stamp, OLD)
        if os.path.lexists(old):
            with suppress(OSError):
                _bring_back(old, target)
        elif not os.path.lexists(part_of(target, stamp)):
            remove(target)


def _bring_back(old: Path, target: Path) -> None:
    old.replace(target)
    # Where both are names of one file, renaming does nothing.
    remove(old)


def _forget(note: Path, targets: Iterable[Path], stamp: str) -> None:
    """Remove what a finished set needs no more; the note goes last, since without it what is old comes back."""
    for target in targets:
        remove(part_of(target, stamp, OLD))
    remove(note)


def recover(folder: Path) -> None:
    """Finish the sets that killed processes had written in full, and undo those that were being undone."""
    for note, stamp in find_leftovers(folder, ".+", COMMIT):
        targets = _noted(note)
        for target in targets:
            with suppress(FileNotFoundError):
                part_of(target, stamp).replace(target)
        _forget(note, targets, stamp)
    for old, stamp in find_leftovers(folder, ".+", OLD):
        # A folder of this ending is a model, which its own module puts back.
        if old.is_file():
            _bring_back(old, old.with_name(old.name[1 : -len(f".{stamp}{OLD}")]))


def _noted(note: Path) -> list[Path]:
    """The targets of a note; none of one that is not whole, whose set was not finished."""
    try:
        names = parse_json(read_bytes(note, LONGEST_NOTE).decode())
    except ValueError:
        return []
    return [Path(name) for name in names if isinstance(name, str)] if isinstance(names, list) else []


def sync(path: Path) -> None:
    """Have the disk keep a file, or the names in a folder."""
    if os.name == "nt":
        if path.is_dir():
            return
        handle = os.open(path, os.O_RDWR)
    else:
        handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace(part: Path, target: Path) -> None:
    try:
        part.replace(target)
    except OSError as error:
        raise cannot_write(target, error) from error


def _sync_folders(targets: Iterable[Path]) -> None:
    """Without it, a power cut could bring back the names from before."""
    for folder in dict.fromkeys(target.parent for target in targets):
        try:
            sync(folder)
        except OSError as error:
            raise cannot_write(folder, error) from error


def write_text(path: Path, text: str, replace: bool = True) -> None:
    """Write beside the target, then rename: a reader never meets half a file."""
    write_bytes(path, text.encode(), replace)


def write_bytes(path: Path, content: bytes, replace: bool = True) -> None:
    """As `write_text`, of bytes."""
    with Staged(replace) as staged:
        staged.binary(path, content)


Words = dict[str, Any]
ABOUT, CHECKSUM = "about", "checksum"


class Damaged(Exception):
    """The file is not what was once written."""


def write_sealed(path: Path, about: Words, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write beside the target, have the disk keep it, then rename."""
    text = json.dumps(about).encode()
    members: dict[str, Any] = {**arrays, ABOUT: np.frombuffer(text, np.uint8)}
    members[CHECKSUM] = np.frombuffer(bytes.fromhex(sum_arrays(members)), np.uint8)

    def save(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, allow_pickle=False, **members)

    with Staged() as staged:
        staged.write(path, save)


def read_sealed(path: Path) -> tuple[Words, Arrays]:
    """Words and arrays, checked against the checksum."""
    try:
        members = read_arrays(path, follow=False)
        expected = members.pop(CHECKSUM).tobytes().hex()
        if sum_arrays(members) != expected:
            raise Damaged(f"{path}: its checksum is another")
        about = parse_json(members.pop(ABOUT).tobytes().decode())
    except (KeyError, ValueError) as error:
        raise Damaged(f"{path}: cannot be read ({error})") from error
    if not isinstance(about, dict):
        raise Damaged(f"{path}: has no words")
    return about, members


def sum_arrays(arrays: Mapping[str, NDArray[Any]]) -> str:
    """A sum over names, kinds, shapes and values, in any order of the names."""
    total = blake2b(digest_size=32)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        total.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return total.hexdigest()


PlainParts = dict[str, Any]


def part(parts: Mapping[str, Any], name: str) -> Any:
    """A stored part that must be there."""
    if name not in parts:
        raise InputError(f"{name!r} is missing")
    return parts[name]


def array_part(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...], kinds: str = "f"
) -> NDArray[Any]:
    """A stored array of the given shape (None = any length) and kind of numbers."""
    array: NDArray[Any] = part(arrays, name)
    fits = len(shape) == array.ndim and all(
        wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise InputError(f"{name!r} has shape {array.shape}, and it should be ({wanted})")
    if array.dtype.kind not in kinds:
        raise InputError(f"{name!r} holds {array.dtype}, which is not what belongs there")
    if array.dtype.kind == "f" and not np.isfinite(array).all() and "nan" not in kinds:
        raise InputError(f"{name!r} holds a number that is not finite")
    return array
