"""How kernels are compiled: one decorator, one set of flags, and a disk cache that cannot go stale.

The cache is only there to save time: what is damaged or cannot be written is told of once, and compiled anew.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator

from scdp.errors import InputError
from scdp.io import read_bytes
from scdp.io.atomic import cache_root

Function = TypeVar("Function", bound=Callable[..., Any])

# Reordering sums is what makes loops vectorise; NaN and infinity keep their meaning, unlike in full fastmath.
FLAGS = frozenset({"reassoc", "contract", "nsz", "arcp"})
DIGEST_BYTES = 32
# No file of compiled code is nearly as large.
MOST_BYTES = 256 << 20
CONSTANTS = re.compile(r"^from (scdp[\w.]*) import (\([^)]*\)|[^(\n]*)", re.MULTILINE)
_PACKAGE = Path(__file__).parent
_told = False


class KernelCacheWarning(UserWarning):
    """Compiled kernels could not be kept or found again; they are compiled anew."""


@cache
def kernel_sources_digest() -> str:
    """A digest of every file that holds kernels or their constants: a changed callee must not leave old code in use."""
    digest = hashlib.sha256(numba.__version__.encode() + repr(sorted(FLAGS)).encode())
    texts = {path: path.read_bytes() for path in sorted(_PACKAGE.rglob("*.py"))}
    used = {path for path, text in texts.items() if b"@kernel" in text}
    waiting = list(used)
    while waiting:
        homes = {_PACKAGE.parent / name for name in _constant_homes(texts[waiting.pop()])}
        new = {path for path in homes if path in texts} - used
        used |= new
        waiting += new
    for path in sorted(used):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + texts[path])
    return digest.hexdigest()[:16]


def _constant_homes(text: bytes) -> Iterator[str]:
    """The files of the package from which a source takes names in capitals."""
    for module, names in CONSTANTS.findall(text.decode("utf-8")):
        if re.search(r"\b[A-Z][A-Z0-9_]+\b", names):
            yield from (f"{module.replace('.', '/')}{end}" for end in (".py", "/__init__.py"))


@cache
def cache_folder() -> Path | None:
    """Where compiled kernels are kept, or None when no folder can be written (they are then compiled anew)."""
    try:
        folder = cache_root() / "kernels" / kernel_sources_digest()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        usable = os.access(folder, os.W_OK) and _is_safe(folder)
    except (OSError, RuntimeError):
        return None
    return folder if usable else None


def _is_safe(folder: Path) -> bool:
    """Whether nobody else can put code there: what is found in it is run."""
    if not hasattr(os, "geteuid"):
        return True
    status = folder.stat()
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & stat.S_IWOTH


class CheckedFiles(IndexDataCacheFile):
    """The files of a kernel's cache, each with a checksum before its content."""

    def _load_index(self) -> dict[Any, str]:
        try:
            content = self._read(self._index_path)
        except FileNotFoundError:
            return {}
        version, stamp, overloads = pickle.loads(content)
        return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, self._dump((self._version, self._source_stamp, overloads)))

    def _load_data(self, name: str) -> Any:
        return pickle.loads(self._read(self._data_path(name)))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), self._dump(data))

    def _read(self, path: str) -> bytes:
        place = Path(path)
        if not place.exists():
            raise FileNotFoundError(path)
        try:
            content = read_bytes(place, MOST_BYTES)
            found, data = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
            if hashlib.sha256(data).digest() != found:
                raise InputError(f"{path} is damaged")
        except InputError:
            with suppress(OSError):
                place.unlink()
            raise
        return data

    def _write(self, path: str, data: bytes) -> None:
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(data).digest() + data)


class ModuleFolder(_CacheLocator):
    """A folder for each module. Where its file lies and when it was written does not matter.

    The folder above is named after what the files hold, so another environment with the same kernels finds them here.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        folder = cache_folder()
        assert folder is not None, "kernels are only kept where there is a folder"
        self._path = folder / function.__module__
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(self._path)

    def get_source_stamp(self) -> tuple[()]:
        return ()

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> ModuleFolder:
        return cls(py_func)


class KernelFiles(CompileResultCacheImpl):
    """Says where the cache of a kernel is."""

    _locator_classes = (ModuleFolder,)


class KernelCache(FunctionCache):
    """The cache of one kernel; no failure of it is more than a warning."""

    _impl_class = KernelFiles

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file: IndexDataCacheFile = CheckedFiles(self._cache_path, self._impl.filename_base, ())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        start_without_blas()
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:
            _tell(error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _tell(error)


@cache
def start_without_blas() -> None:
    """Let Numba start without SciPy's linear algebra, which it would load only to see whether it is there.

    That is a tenth of the start of a command. No kernel here multiplies matrices; one of somebody else's still may, as
    Numba looks again where it does.
    """
    from numba.np import linalg

    look, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        linalg.ensure_blas = look


def _tell(error: Exception) -> None:
    """Warn, once a process: there are many kernels."""
    global _told
    if not _told:
        _told = True
        what = f"compiled kernels cannot be kept there or read again ({error}); they are compiled anew"
        warnings.warn(f"{cache_root()}: {what}", KernelCacheWarning, stacklevel=3)


def kernel(function: Function) -> Function:
    """Compile on first call, release the interpreter's lock while running, and keep the result on disk."""
    return _compile(function, FLAGS)


def kernel_as_written(function: Function) -> Function:
    """As `kernel`, but sums and quotients are rounded in the order written: for what must equal another's last bit."""
    return _compile(function, frozenset())


def _compile(function: Function, flags: frozenset[str]) -> Function:
    compiled = numba.njit(nogil=True, fastmath=set(flags) or False, error_model="numpy")(function)
    folder = cache_folder()
    # With the compiler off it is the function itself.
    if folder is not None and compiled is not function:
        kept = KernelCache(function)
        # A setting of Numba may name another place, where code can go stale.
        if Path(kept.cache_path).is_relative_to(folder):
            compiled._cache = kept
    return compiled
