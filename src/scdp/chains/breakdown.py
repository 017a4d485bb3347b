"""When numbers break down: the state before a sweep and its generator enter; a file for a report and an error leave."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from scdp.chains.checkpoint_files import write
from scdp.chains.state import State
from scdp.errors import InputError, NumericalError


def check_numbers(state: State, *more: float) -> None:
    """FloatingPointError if anything of a state, or one of the other numbers, is no number."""
    scalars = (
        state.cluster_concentration,
        state.type_concentration,
        state.mean_variance,
        state.separation_rate,
    )
    # Sums, which are no number as soon as a part is none: this is asked after every sweep.
    if math.isnan(sum(scalars, state.precision.sum() + state.means.sum())):
        names = [name for name, value in state._asdict().items() if np.isnan(value).any()]
        raise FloatingPointError(f"{', '.join(names) or 'a sum'} is no number")
    if any(map(math.isnan, more)):
        raise FloatingPointError("the log joint is no number")


def broken_down(
    reason: FloatingPointError,
    chain: int,
    sweep: int,
    before: State,
    generator: Mapping[str, Any],
    folder: Path | None,
) -> NumericalError:
    """The error to raise; what the sweep began with is kept, so that it can be made again. Rows are not."""
    place = folder or Path(tempfile.gettempdir())
    path = place / f"broken-chain{chain + 1}-{os.getpid()}.npz"
    fields = before._asdict()
    arrays = {name: value for name, value in fields.items() if np.ndim(value)}
    scalars = {name: float(value) for name, value in fields.items() if not np.ndim(value)}
    about = {"chain": chain, "sweep": sweep, "state": scalars, "generator": generator, "reason": str(reason)}
    try:
        write(path, about, arrays)
        kept = f"{path} keeps the state before it, without the rows: please send it with a report"
    except InputError as error:
        kept = f"its state could not be kept ({error})"
    return NumericalError(f"chain {chain + 1}, sweep {sweep}: {reason}, so nothing was drawn from it; {kept}")
