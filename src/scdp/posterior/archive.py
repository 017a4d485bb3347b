"""The file of a Posterior: one .npz of plain arrays, written whole or not at all and read without pickle."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scdp.errors import InputError
from scdp.io.atomic import Staged
from scdp.io.untrusted import read_arrays
from scdp.posterior.draws import StoredDraws

if TYPE_CHECKING:
    from scdp.posterior.posterior import Posterior

VERSION = 1
TRACE = "trace:"
WORDS = "words:"


def save(posterior: Posterior, path: str | PathLike[str]) -> None:
    """Write beside the target first, so that an interruption leaves no broken file in its place."""

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, **_arrays(posterior))

    with Staged() as staged:
        staged.write(Path(path), write)


def load(path: str | PathLike[str]) -> Posterior:
    """Read a file that `save` wrote; anything else is refused by name."""
    from scdp.posterior.posterior import Posterior

    if not Path(path).exists():
        raise InputError(f"{path}: there is no such file; give the path of a saved posterior")
    try:
        arrays = read_arrays(Path(path))
        version = int(arrays["version"])
        if version == VERSION:
            stored = _stored(arrays)
    except (ValueError, KeyError, AttributeError, TypeError, IndexError, OverflowError, MemoryError):
        raise InputError(f"{path}: not a posterior saved by scdp, or a damaged one; sample again") from None
    if version != VERSION:
        raise InputError(f"{path}: written by another version of scdp; sample again with this one")
    traces = {name[len(TRACE) :]: values for name, values in arrays.items() if name.startswith(TRACE)}
    return Posterior(stored, traces, names=arrays.get("names"))


def _arrays(posterior: Posterior) -> dict[str, Any]:
    stored = posterior.stored
    arrays: dict[str, Any] = {
        "version": np.int64(VERSION),
        "known": stored.known,
        "shared": np.bool_(stored.shared),
        "starts": stored.starts,
        "n_codes": stored.n_codes,
        "n_hidden_clusters": stored.n_hidden_clusters,
    }
    if posterior.names is not None:
        # Objects could only be saved by pickling them.
        arrays["names"] = (
            posterior.names.astype(str) if posterior.names.dtype.kind == "O" else posterior.names
        )
    arrays.update({f"{WORDS}{chain}": words for chain, words in enumerate(stored.words)})
    arrays.update({f"{TRACE}{name}": values for name, values in posterior.traces.items()})
    return arrays


def _stored(arrays: dict[str, NDArray[Any]]) -> StoredDraws:
    starts = arrays["starts"].astype(np.int64)
    stored = StoredDraws(
        known=arrays["known"].astype(np.int32),
        shared=bool(arrays["shared"]),
        words=tuple(arrays[f"{WORDS}{chain}"].astype(np.uint64) for chain in range(len(starts))),
        starts=starts,
        n_codes=arrays["n_codes"].astype(np.int32),
        n_hidden_clusters=arrays["n_hidden_clusters"].astype(np.int32),
    )
    stored.check()
    return stored
