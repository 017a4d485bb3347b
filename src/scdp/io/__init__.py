"""Files: what every other part uses to read and to write.

Here are files of strangers: a path or a text enters; bytes, JSON or arrays leave, without waiting, without running
anything. What is wrong with a file is an InputError, or a ValueError where the caller knows better how to name the
place. And here is the lock of a folder that one process has to itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import zipfile
from collections import Counter
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, Protocol, Self

from scdp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
# What a packed file may unpack to: so many times its size, and this many bytes in any case.
MOST_TIMES, ALWAYS_ALLOWED = 200, 64 << 20
AT_ONCE = 1 << 20


class Readable(Protocol):
    """What bytes can be read from, some at a time."""

    def read(self, size: int, /) -> bytes: ...


def open_ordinary(path: Path, follow: bool = True) -> IO[bytes]:
    """An ordinary file, open for reading; a pipe or a device, which may never end, is refused."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    flags |= 0 if follow else NO_FOLLOW
    try:
        # Without waiting: a pipe that nobody writes to would hold us up for ever.
        handle = os.open(path, flags)
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file; check the path") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason}); check the path and its permissions") from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        what = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise InputError(f"{path}: this is {what}; give an ordinary file")
    return os.fdopen(handle, "rb")


def read_bytes(path: Path, at_most: int | None = None) -> bytes:
    """The content of an ordinary file, of at most so many bytes."""
    with open_ordinary(path) as file:
        try:
            content = file.read() if at_most is None else read_at_most(file, at_most + 1)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); try again") from error
    if at_most is not None and len(content) > at_most:
        raise InputError(f"{path}: has more than the {at_most:,} bytes that are read of such a file; shorten it")
    return content


def read_at_most(file: Readable, n_bytes: int) -> bytes:
    """Up to so many bytes; no more memory is taken than the file fills."""
    parts: list[bytes] = []
    while n_bytes > 0 and (part := file.read(min(n_bytes, AT_ONCE))):
        parts.append(part)
        n_bytes -= len(part)
    return b"".join(parts)


def sum_file(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    total = sha256()
    with open_ordinary(path) as file:
        while some := file.read(AT_ONCE):
            total.update(some)
    return total.hexdigest()


def parse_json(text: str) -> Any:
    """A JSON value. A name that occurs twice, half a character and nesting without end are ValueErrors as well."""
    try:
        value = json.loads(text, object_pairs_hook=_named_once)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except UnicodeEncodeError as error:
        raise ValueError(f"it holds half a character, {error.object[error.start]!r}") from error
    return value


def parse_json_object(text: str, where: str, advice: str) -> dict[str, Any]:
    """A JSON object, or an InputError that says where there is none and what to do."""
    try:
        value = parse_json(text)
    except ValueError as error:
        raise InputError(f"{where} is not JSON ({getattr(error, 'msg', error)}); {advice}") from error
    if not isinstance(value, dict):
        raise InputError(f"{where} is not a JSON object; {advice}")
    return value


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"it has {max(counts, key=counts.__getitem__)!r} twice")
    return content


def largest_unpacked(packed: int) -> int:
    """How many bytes so many packed ones may become."""
    return max(ALWAYS_ALLOWED, MOST_TIMES * packed)


def read_arrays(path: Path, follow: bool = True) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file, by name: never unpickled, never unpacked to disk, never larger than they may be."""
    import numpy as np

    try:
        with open_ordinary(path, follow) as file, zipfile.ZipFile(file) as archive:
            members = {info.filename: info for info in archive.infolist()}
            size = sum(info.file_size for info in members.values())
            if size > largest_unpacked(os.fstat(file.fileno()).st_size):
                raise InputError(f"{path}: unpacks to {size:,} bytes, which no such file does")
            arrays = {}
            for name, info in members.items():
                with archive.open(info) as member:
                    _check_array_size(member, info.file_size)
                with archive.open(info) as member:
                    arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
            return arrays
    except (InputError, MemoryError):
        raise
    except Exception as error:
        # Each layer (zip, inflate, NumPy's header, which is Python's syntax) has its own ways to fail.
        reason = "it holds pickled objects" if "allow_pickle" in str(error) else "it is damaged"
        raise InputError(f"{path}: {reason}") from error


def _check_array_size(member: IO[bytes], size: int) -> None:
    """Refuse a header that promises more than its file holds, before memory is asked for."""
    from numpy.lib import format as npy

    version = npy.read_magic(member)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(member)
    length = 1
    for extent in shape:
        length *= int(extent)
    if dtype.kind in "cmMV" and not dtype.hasobject:
        raise ValueError(f"an array of {dtype}, which nothing here has")
    if not dtype.hasobject and (length < 0 or length * dtype.itemsize > size or length > 8 * size):
        raise ValueError(f"an array of shape {shape} in {size} bytes")


def remove(path: Path) -> None:
    """Remove a file or folder that may not be there; of a link only the link."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def cannot_write(path: Path, error: OSError) -> InputError:
    """The sentence about a file or folder that the system refuses."""
    return InputError(f"{path}: cannot be written ({error.strerror or error}); choose another folder")


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
        from filelock import lock_descriptor

        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            while not self._is_held():
                self.release()
                # Neither through a link nor waiting for a pipe.
                flags = os.O_RDWR | os.O_CREAT | NO_FOLLOW | getattr(os, "O_NONBLOCK", 0)
                self._handle = os.open(self.path, flags, 0o644)
                self._check_ordinary()
                if not lock_descriptor(self._handle, blocking=False):
                    self._refuse()
            self._check_content()
            with suppress(OSError):
                # For others to read; on a full disk the lock holds without it.
                os.ftruncate(self._handle, 0)
                os.lseek(self._handle, 0, os.SEEK_SET)
                os.write(self._handle, f"{os.getpid()}\n".encode())
        except OSError as error:
            # A file of the user's own that has this name would hold something.
            if self._is_held() and not os.fstat(self._handle).st_size:
                remove(self.path)
            self.release()
            raise cannot_write(self.path if self.path.is_symlink() else self._folder, error) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        with suppress(OSError):
            self.path.unlink()
        self.release()
        if os.name == "nt":
            # There, an open file cannot be removed.
            remove(self.path)

    def release(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _check_ordinary(self) -> None:
        """Refuse what has another name as well, or is no file: it is not ours to write to."""
        status = os.fstat(self._handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            self._refuse_other()

    def _check_content(self) -> None:
        """Refuse a file of the user's own that happens to have this name."""
        if not re.fullmatch(rb"(\d+\n)?", os.read(self._handle, 100)):
            self._refuse_other()

    def _refuse_other(self) -> NoReturn:
        self.release()
        raise InputError(f"{self.path}: is not a lock of scdp; remove it, or give another {self._where}")

    def _refuse(self) -> NoReturn:
        holder = ""
        with suppress(OSError):
            holder = os.read(self._handle, 20).decode(errors="replace").strip()
        self.release()
        raise InputError(
            f"{self._folder}: another run (process {holder or 'unknown'}) works in it; "
            f"wait for it, or give another {self._where}"
        )

    def _is_held(self) -> bool:
        # Between opening and locking, the holder may have gone and taken the file with it.
        with suppress(OSError):
            return self._handle >= 0 and os.path.samestat(os.fstat(self._handle), os.lstat(self.path))
        return False
