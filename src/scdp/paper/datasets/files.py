"""Fetching one pinned file: an https address enters, a whole file with the right SHA-256 leaves, or none."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import closing, suppress
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from scdp.errors import DataNotFoundError, InputError
from scdp.io.cache import cache_root
from scdp.paper.datasets.sources import File, Source, find_source

TIMEOUT_SECONDS = 30.0
_CHUNK = 1 << 16
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class _SameRulesAfterRedirect(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
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
            raise InputError(
                f"{url} gave a file with SHA-256 {digest[:12]}..., not the pinned {sha256[:12]}..."
            )
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
