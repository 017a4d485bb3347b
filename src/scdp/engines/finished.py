"""Finished shards: draws are kept under a name that follows from all that led to them, and found again by it."""

from __future__ import annotations

from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.io.atomic import write_bytes
from scdp.linkage.ensemble import Ensemble
from scdp.linkage.shards import Draws, Shard

PREFIX = "shard-"


class FinishedShards:
    """Of one ensemble, number of draws and seed; without a folder nothing is kept."""

    def __init__(self, folder: Path | None, ensemble: Ensemble, n_draws: int, seed: int) -> None:
        self.folder = folder
        self._run = blake2b(digest_size=16)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            _add(self._run, np.array([n_draws, seed, ensemble.n_rescans]))
            for array in _arrays_of(ensemble):
                _add(self._run, array)

    def find(self, shard: Shard) -> Draws | None:
        """The draws of a shard that was finished before."""
        if self.folder is None:
            return None
        try:
            draws: NDArray[Any] = np.load(self._path(shard), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            # Missing or damaged: it is only sampled again.
            return None
        fits = draws.dtype == np.int32 and draws.ndim == 2 and draws.shape[1] == len(shard.items)
        return draws if fits else None

    def keep(self, shard: Shard, draws: Draws) -> None:
        if self.folder is not None:
            content = BytesIO()
            np.save(content, draws)
            write_bytes(self._path(shard), content.getvalue())

    def _path(self, shard: Shard) -> Path:
        assert self.folder is not None
        digest = self._run.copy()
        for array in (shard.items, shard.left, shard.right, shard.features, shard.known):
            _add(digest, array)
        return self.folder / f"{PREFIX}{digest.hexdigest()}.npy"


def _add(digest: Any, array: NDArray[Any]) -> None:
    digest.update(str((array.shape, array.dtype.str)).encode())
    digest.update(np.ascontiguousarray(array).data)


def _arrays_of(ensemble: Ensemble) -> list[NDArray[Any]]:
    """All that the draws of a shard hang on."""
    arrays: list[NDArray[Any]] = [ensemble.knots.at, ensemble.knots.sign, np.array([ensemble.log_odds])]
    for member in ensemble.members:
        arrays += [member.heights, member.missing, np.array([member.bias, member.growth, member.third])]
    for trees in ensemble.trees:
        arrays += list(trees.arrays().values())
    if ensemble.table is not None:
        arrays += [ensemble.table.ratio, ensemble.table.exact, *ensemble.table.layout]
    return arrays if ensemble.floors is None else [*arrays, ensemble.floors]
