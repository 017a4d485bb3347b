"""Where the files of data sets come from (`sources.toml` lists them), how they are fetched, and R's data files.

Of R's format only what data sets need is read: pairlists, symbols, logical, integer, real and character vectors, lists.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import struct
import tempfile
import tomllib
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from scdp.errors import DataNotFoundError, InputError
from scdp.io.atomic import cache_root


@dataclass(frozen=True)
class File:
    """One file of a set; `url` is None where we derived it and no public copy exists."""

    path: str
    size: int
    sha256: str
    url: str | None = None


@dataclass(frozen=True)
class Source:
    """A data set; `origin` says where it comes from, and so how to get what cannot be fetched."""

    name: str
    loaders: str
    records: int
    clusters: int
    licence: str
    origin: str
    citation: str
    files: tuple[File, ...]

    def file(self, path: str) -> File:
        """The file of that relative path."""
        return next(file for file in self.files if file.path == path)


def _read_sources() -> Iterator[Source]:
    listed = files("scdp.paper").joinpath("sources.toml").read_text(encoding="utf-8")
    for words in tomllib.loads(listed)["source"]:
        yield Source(**(words | {"files": tuple(File(**each) for each in words["files"])}))


_SOURCES = tuple(_read_sources())
NAMES = tuple(source.name for source in _SOURCES)


def find_source(name: str) -> Source:
    """The data set of that name."""
    for source in _SOURCES:
        if source.name == name:
            return source
    raise InputError(f"there is no data set {name!r}; there are: {', '.join(NAMES)}")


TIMEOUT_SECONDS = 30.0
_CHUNK = 1 << 16
# Not pooch: it writes all that a server sends, however much is expected, and follows redirects to plain http
# (benchmarks.dataset_libraries). With a downloader of our own against both, it would spare us some ten lines.
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class _SameRulesAfterRedirect(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> Any:
        _refuse_open_transport(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch_file(url: str, target: Path, *, size: int, sha256: str, timeout: float = TIMEOUT_SECONDS) -> None:
    """Write `target` in one step once all its bytes have come and their digest is right."""
    _refuse_open_transport(url)
    handle, temporary = _temporary_beside(target)
    try:
        with os.fdopen(handle, "wb") as stream:
            digest = _download(url, stream, size, timeout)
            stream.flush()
            os.fsync(stream.fileno())
        if digest != sha256:
            raise InputError(f"{url} gave a file with SHA-256 {digest[:12]}..., not the pinned {sha256[:12]}...")
        os.replace(temporary, target)
    except OSError as error:
        raise InputError(f"{target} cannot be written ({error.strerror or error})") from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _refuse_open_transport(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise InputError(f"{url} is not an https address")


def _temporary_beside(target: Path) -> tuple[int, str]:
    # In the same folder, so that the last step is a rename inside one file system.
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise InputError(f"{target.parent} cannot be written ({error.strerror or error})") from error


def _download(url: str, stream: IO[bytes], size: int, timeout: float) -> str:
    digest, received = hashlib.sha256(), 0
    with closing(_open(url, timeout)) as response:
        # Stops once there is more than expected: a server cannot fill the disk.
        while received <= size and (chunk := _read(url, response)):
            digest.update(chunk)
            stream.write(chunk)
            received += len(chunk)
    if received != size:
        amount = f"{received} bytes" if received < size else "more bytes"
        raise InputError(f"{url} gave {amount} where {size} are expected")
    return digest.hexdigest()


def _open(url: str, timeout: float) -> IO[bytes]:
    try:
        response: IO[bytes] = build_opener(_SameRulesAfterRedirect).open(url, timeout=timeout)
    except HTTPError as error:
        error.close()
        raise InputError(f"{url} answered {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise InputError(f"{url} could not be reached ({getattr(error, 'reason', error)})") from error
    return response


def _read(url: str, response: IO[bytes]) -> bytes:
    try:
        return response.read(_CHUNK)
    except (OSError, HTTPException) as error:
        raise InputError(f"{url} stopped answering ({error})") from error


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error})") from error


def cache_folder() -> Path:
    """Where fetched sets are kept: scdp/data under $SCDP_CACHE, or data in this system's cache folder of scdp."""
    try:
        return cache_root() / "data"
    except RuntimeError as error:
        raise InputError("there is no home folder for the cache: set SCDP_CACHE to a folder") from error


def _expand(folder: str) -> Path:
    try:
        return Path(folder).expanduser()
    except RuntimeError as error:
        raise InputError("there is no home folder for the cache: set SCDP_CACHE to a folder") from error


def search_folders() -> list[Path]:
    """The folders looked into, first the one that wins."""
    data = os.environ.get("SCDP_DATA")
    return ([_expand(data)] if data else []) + [cache_folder()]


def find(source: Source, file: File) -> Path | None:
    """The file on this machine, or None; never fetches."""
    places = (folder / source.name / file.path for folder in search_folders())
    return next((place for place in places if place.is_file()), None)


def require(name: str, path: str) -> Path:
    """The file of the named set, fetched where it is missing and SCDP_OFFLINE does not forbid it."""
    source = find_source(name)
    file = source.file(path)
    return find(source, file) or fetch(source, file)


def fetch(source: Source, file: File) -> Path:
    """Fetch one file into the cache and return where it is."""
    reason = _why_not(source, file)
    if reason:
        raise DataNotFoundError(_not_found(source, file, reason))
    target = cache_folder() / source.name / file.path
    try:
        fetch_file(str(file.url), target, size=file.size, sha256=file.sha256)
    except InputError as error:
        raise DataNotFoundError(_not_found(source, file, str(error))) from error
    return target


def _why_not(source: Source, file: File) -> str:
    if file.url is None:
        return f"it has no public copy to fetch ({source.origin})"
    if os.environ.get("SCDP_OFFLINE", "") not in ("", "0"):
        return "SCDP_OFFLINE forbids fetching it (unset that, then `scdp datasets fetch " + source.name + "`)"
    return ""


def _not_found(source: Source, file: File, reason: str) -> str:
    folders = " or ".join(str(folder) for folder in search_folders())
    hint = "" if "SCDP_DATA" in os.environ else ", or set SCDP_DATA to the folder that holds it"
    return f"{source.name}/{file.path} is not in {folders}, and {reason}: put the file there{hint}"


def check(source: Source, file: File) -> str:
    """What is wrong with the file on this machine: empty when its digest is the pinned one."""
    place = find(source, file)
    if place is None:
        return "not here"
    return "" if digest_of(place) == file.sha256 else "digest differs from the published file's"


# Not rdata: a file of 73 bytes makes it ask for 16 GB, one of 254 bytes keeps it busy for longer than 20 seconds, and
# it has no bound on what a file unpacks to (benchmarks.dataset_libraries). It needs pandas and xarray, and would spare
# us some 120 lines.
_SYMBOL, _PAIRLIST, _CHARACTERS, _LOGICAL, _INTEGER, _REAL, _STRINGS, _LIST = 1, 2, 9, 10, 13, 14, 16, 19
_NIL, _REFERENCE = 254, 255
_HAS_ATTRIBUTES, _HAS_TAG = 1 << 9, 1 << 10
_MISSING_INTEGER = -(2**31)
_DEEPEST = 50
_LARGEST = 1 << 28


@dataclass(frozen=True)
class Vector:
    """An R vector: values (missing ones are None) and its attributes, such as names, levels and class."""

    values: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)


def read_rda(path: Path) -> dict[str, Any]:
    """The objects of an .rda file by name."""
    try:
        return _Reader(_unpack(path), str(path)).objects()
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{path}: cannot be unpacked ({error}); the file may be cut short") from error


def columns_of(frame: Vector, source: str) -> dict[str, list[str | None]]:
    """The columns of a data frame as text; whole numbers lose their point."""
    names = frame.attributes.get("names")
    if not isinstance(names, Vector) or len(names.values) != len(frame.values):
        raise InputError(f"{source}: the object is not a data frame with named columns")
    return {name: _texts(column, source) for name, column in zip(names.values, frame.values, strict=True)}


def _texts(column: Any, source: str) -> list[str | None]:
    if not isinstance(column, Vector):
        raise InputError(f"{source}: a column of the data frame is not a vector")
    levels = column.attributes.get("levels")
    if isinstance(levels, Vector):
        return [_level(levels.values, code, source) for code in column.values]
    return [None if value is None else _text(value) for value in column.values]


def _level(levels: list[Any], code: Any, source: str) -> str | None:
    if code is None:
        return None
    if not isinstance(code, int) or not 1 <= code <= len(levels):
        raise InputError(f"{source}: factor code {code} has no level")
    return levels[code - 1] or None


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _unpack(path: Path) -> bytes:
    raw = path.read_bytes()
    openers: dict[bytes, Callable[[Path], IO[bytes] | gzip.GzipFile]] = {
        b"\x1f\x8b": gzip.open,
        b"BZ": bz2.open,
        b"\xfd7": lzma.open,
    }
    if raw[:2] not in openers:
        return raw
    with openers[raw[:2]](path) as stream:
        content = stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise InputError(f"{path}: unpacks to more than {_LARGEST} bytes")
    return content


class _Reader:
    def __init__(self, content: bytes, source: str) -> None:
        self._content, self._source, self._at = content, source, 0
        self._symbols: list[str] = []

    def objects(self) -> dict[str, Any]:
        header = self._take(7)
        if header not in (b"RDX2\nX\n", b"RDX3\nX\n"):
            raise self._error("is not an R data file in XDR format")
        self._take(12)
        if header.startswith(b"RDX3"):
            self._take(self._length())
        found = self._item(0)
        if not isinstance(found, dict):
            raise self._error("does not hold named objects")
        return found

    def _item(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise self._error("is nested too deeply")
        flags = self._integer()
        kind = flags & 0xFF
        if kind == _PAIRLIST:
            return self._pairlist(flags, depth)
        if kind == _SYMBOL:
            self._symbols.append(self._item(depth + 1))
            return self._symbols[-1]
        if kind == _REFERENCE:
            return self._reference(flags >> 8)
        if kind == _CHARACTERS:
            return self._characters()
        if kind == _NIL:
            return None
        values = self._values(kind, depth)
        attributes = self._item(depth + 1) if flags & _HAS_ATTRIBUTES else None
        return Vector(values, attributes if isinstance(attributes, dict) else {})

    def _values(self, kind: int, depth: int) -> list[Any]:
        if kind in (_LOGICAL, _INTEGER):
            return [None if value == _MISSING_INTEGER else value for value in self._numbers("i", 4)]
        if kind == _REAL:
            return [None if value != value else value for value in self._numbers("d", 8)]
        if kind in (_STRINGS, _LIST):
            # An element takes at least four bytes, so a false length cannot ask for more than the file holds.
            return [self._item(depth + 1) for _ in range(self._length(4))]
        raise self._error(f"holds an R object of type {kind}, which is not read here")

    def _pairlist(self, flags: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while flags & 0xFF == _PAIRLIST:
            if flags & _HAS_ATTRIBUTES:
                self._item(depth + 1)
            tag = self._item(depth + 1) if flags & _HAS_TAG else None
            found[str(tag)] = self._item(depth + 1)
            flags = self._integer()
        if flags & 0xFF != _NIL:
            raise self._error("has a pairlist without an end")
        return found

    def _reference(self, index: int) -> str:
        index = index or self._integer()
        if not 1 <= index <= len(self._symbols):
            raise self._error("refers to a symbol it does not define")
        return self._symbols[index - 1]

    def _characters(self) -> str | None:
        length = self._integer()
        if length == -1:
            return None
        try:
            return self._take(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._error("holds text that is not UTF-8") from error

    def _numbers(self, code: str, width: int) -> tuple[Any, ...]:
        length = self._length(width)
        return struct.unpack(f">{length}{code}", self._take(length * width))

    def _length(self, width: int = 1) -> int:
        length = self._integer()
        if length < 0 or length * width > len(self._content) - self._at:
            raise self._error("is cut short")
        return length

    def _integer(self) -> int:
        value: int = struct.unpack(">i", self._take(4))[0]
        return value

    def _take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._content):
            raise self._error("is cut short")
        self._at += count
        return self._content[self._at - count : self._at]

    def _error(self, what: str) -> InputError:
        return InputError(f"{self._source} {what} (byte {self._at}): get the file again")


def read_text(path: Path) -> str:
    """The text of a UTF-8 file of a data set."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); get the file again") from error
