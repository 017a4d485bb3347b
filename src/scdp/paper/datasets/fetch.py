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

from scdp.errors import InputError

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
