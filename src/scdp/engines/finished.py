"""Finished shards: draws are kept under a name that follows from all that led to them, and found again by it.

Each file has a checksum and says of which run it is. What does not fit is made again with a note; a disk that is full
is told of once, and the run goes on.
"""

from __future__ import annotations

import re
import warnings
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp import __version__
from scdp.errors import InputError
from scdp.io.leftovers import PART, find_leftovers, remove
from scdp.io.sealed import Damaged, read, write
from scdp.linkage.ensemble import Ensemble
from scdp.linkage.shards import Draws, Shard

FORMAT = "scdp-shard"
NAMES = r"shard-[0-9a-f]{32}\.npz"


class ShardWarning(UserWarning):
    """A finished shard could not be kept or found again; the run goes on without it."""


class FinishedShards:
    """Of one ensemble, number of draws and seed; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, ensemble: Ensemble, n_draws: int, seed: int) -> None:
        self.folder = folder
        self._n_draws = n_draws
        self._run = blake2b(f"{FORMAT} {__version__} {np.__version__}".encode(), digest_size=16)
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._give_up(f"{folder}: cannot be written ({error.strerror})")
        _add(self._run, np.array([n_draws, seed, ensemble.n_rescans]))
        for array in _arrays_of(ensemble):
            _add(self._run, array)

    def find(self, shard: Shard) -> Draws | None:
        """The draws of a shard that was finished before."""
        path = self._path(shard)
        if path is None:
            return None
        if not path.is_symlink() and not path.exists():
            return None
        try:
            about, arrays = read(path)
            draws = arrays["draws"]
        except (Damaged, KeyError):
            draws, about = np.empty(0), {}
        fits = draws.dtype == np.int32 and draws.shape == (self._n_draws, len(shard.items))
        # Labels are items; whoever can write here could make a checksum too, and kernels follow labels.
        if fits and about == self._about(path) and np.isin(draws, shard.items).all():
            return draws
        self._tell_damaged()
        return None

    def keep(self, shard: Shard, draws: Draws) -> None:
        """Keep the draws of a shard, if the disk takes them."""
        path = self._path(shard)
        if path is None:
            return
        try:
            if path.is_symlink() or (path.exists() and not path.is_file()):
                remove(path)
            write(path, self._about(path), {"draws": draws})
        except InputError as error:
            self._give_up(str(error))

    def _tell_damaged(self) -> None:
        warnings.warn(
            f"{self.folder}: some of what was kept is damaged or of another run; it is made again",
            ShardWarning,
            stacklevel=3,
        )

    def _give_up(self, why: str) -> None:
        warnings.warn(f"{why}; the run goes on, and keeps nothing for --resume", ShardWarning, stacklevel=3)
        self.folder = None

    def _about(self, path: Path) -> dict[str, Any]:
        return {"format": FORMAT, "run": self._run.hexdigest(), "shard": path.name}

    def _path(self, shard: Shard) -> Path | None:
        # Threads share this, and any of them may give the folder up.
        folder = self.folder
        if folder is None:
            return None
        digest = self._run.copy()
        arrays: list[NDArray[Any]] = [shard.items, shard.left, shard.right, shard.features, shard.known]
        if shard.conditions is not None:
            arrays += shard.conditions.arrays()
        for array in arrays:
            _add(digest, array)
        return folder / f"shard-{digest.hexdigest()}.npz"


def shard_files(folder: Path) -> list[Path]:
    """The finished shards in a folder, by their exact names."""
    return sorted(path for path in folder.glob("shard-*.npz") if re.fullmatch(NAMES, path.name))


def discard(folder: Path) -> None:
    """Remove the finished shards, and the folder if nothing else is in it."""
    for path in (*shard_files(folder), *(half for half, _ in find_leftovers(folder, NAMES, PART))):
        remove(path)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _add(digest: Any, array: NDArray[Any]) -> None:
    digest.update(str((array.shape, array.dtype.str)).encode())
    digest.update(np.ascontiguousarray(array).data)


def _arrays_of(ensemble: Ensemble) -> list[NDArray[Any]]:
    """All that the draws of a shard hang on."""
    arrays: list[NDArray[Any]] = [ensemble.knots.at, ensemble.knots.sign, np.array([ensemble.log_odds])]
    for member in ensemble.members:
        arrays += [member.heights, member.missing, np.array(member[2:])]
    for trees in ensemble.trees:
        arrays += list(trees.arrays().values())
    if ensemble.table is not None:
        arrays += [ensemble.table.ratio, ensemble.table.exact, *ensemble.table.layout]
    return arrays if ensemble.floors is None else [*arrays, ensemble.floors]
