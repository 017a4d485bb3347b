"""Whether the samplers of a run fit into the memory: its tasks and options enter; what does not fit is refused."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scdp.chains.vectors.items import restaurants_of
from scdp.datasets import Labelled
from scdp.estimators.inputs import Compared, Points
from scdp.estimators.labels import restaurants
from scdp.estimators.needs import FEWER_DRAWS, Extent, chain_needs
from scdp.io.memory import Need, require
from scdp.paper.experiments.settings import Settings
from scdp.paper.experiments.tasks import Problem


def check_memory(problems: Iterable[Problem], settings: Settings) -> None:
    """Refuse the run before any part is made, if a sampler on one of these tasks would take too much."""
    for problem in problems:
        chains, sweeps = settings.effort(problem.name)
        n_draws = chains * (sweeps - sweeps // 2)
        rows = extent(problem)
        room = restaurants_of(rows.known, restaurants(rows.documents, None), False)
        # All draws are unpacked once, to be scored.
        unpacked = Need(f"{n_draws:,} draws of {problem.name}", 2 * n_draws * len(rows), FEWER_DRAWS)
        require([*chain_needs(rows, room, chains, sweeps - sweeps // 2), unpacked])


def extent(problem: Problem) -> Extent:
    """Training and test items together, the test items' clusters hidden."""
    parts: tuple[Labelled, Labelled] = problem.task.train, problem.task.test
    known = np.repeat([0, -1], list(map(len, parts)))
    groups = [part.groups for part in parts if part.groups is not None]
    documents = np.concatenate(groups) if len(groups) == len(parts) else None
    if problem.spec is not None:
        return Extent(Compared, len(problem.spec.fields), known, documents)
    return Extent(Points, np.asarray(parts[0].data).shape[1], known, documents)
