"""How kernels are compiled: one decorator, one set of flags, and a disk cache that cannot go stale."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# Reordering sums is what makes loops vectorise; NaN and infinity keep their meaning, unlike in full fastmath.
FLAGS = frozenset({"reassoc", "contract", "nsz", "arcp"})
_PACKAGE = Path(__file__).parent
_lock = threading.Lock()


@cache
def kernel_sources_digest() -> str:
    """A digest of every file that holds kernels: a changed callee must not leave a caller's old code in use."""
    digest = hashlib.sha256(numba.__version__.encode() + repr(sorted(FLAGS)).encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        text = path.read_bytes()
        if b"@kernel" in text:
            digest.update(path.relative_to(_PACKAGE).as_posix().encode() + text)
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """Where compiled kernels are kept, or None when no folder can be written (they are then compiled anew)."""
    base = os.environ.get("SCDP_CACHE") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        folder = Path(base).expanduser() / "scdp" / "kernels" / kernel_sources_digest()
        folder.mkdir(parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK)
    except (OSError, RuntimeError):
        return None
    return folder if usable else None


@contextmanager
def _numba_cache_at(folder: Path | None) -> Iterator[None]:
    # Numba reads this setting while decorating; it is put back so that other users of Numba see no change.
    with _lock:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder) if folder else before
        try:
            yield
        finally:
            numba.config.CACHE_DIR = before


def kernel(function: Function) -> Function:
    """Compile on first call, release the interpreter's lock while running, and keep the result on disk."""
    return _compiled(function, FLAGS)


def kernel_as_written(function: Function) -> Function:
    """As `kernel`, but sums and quotients are rounded in the order written: for what must equal another's last bit."""
    return _compiled(function, frozenset())


def _compiled(function: Function, flags: frozenset[str]) -> Function:
    folder = cache_folder()
    with _numba_cache_at(folder):
        compiled = numba.njit(
            cache=folder is not None, nogil=True, fastmath=set(flags) or False, error_model="numpy"
        )(function)
    return compiled
