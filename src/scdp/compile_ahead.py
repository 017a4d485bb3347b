"""Kernels compiled ahead: at the first use on a machine, processes side by side call what most commands need.

Otherwise kernels would be compiled one after another, each when it is first called. A job that fails, or what it left
out, costs no more than that.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from scdp._compile import cache_folder
from scdp._parallel import WorkBar, count_workers

# Stands among the kernels of a machine when this was done.
DONE = "compiled-ahead"
# Each is a function of this module, and the work of one process.
JOBS = ("compile_ends", "compile_learning")
# About so many kernels are compiled; it is only there to tell how much is done.
N_KERNELS = 135
LOOK_SECONDS = 0.1


def compile_ahead() -> None:
    """Compile what is not compiled yet, with a word on stderr about how far it is."""
    folder = cache_folder()
    if folder is None or (folder / DONE).exists() or count_workers(-1) < len(JOBS):
        return
    processes: list[subprocess.Popen[bytes]] = []
    with WorkBar("compiling, once for this machine") as advance:
        try:
            processes += map(start_job, JOBS)
            while any(process.poll() is None for process in processes):
                advance(min(count_kernels(folder), N_KERNELS), N_KERNELS)
                time.sleep(LOOK_SECONDS)
        finally:
            for process in processes:
                process.kill()
                process.wait()
    with suppress(OSError):
        (folder / DONE).touch()


def start_job(job: str) -> subprocess.Popen[bytes]:
    """A process of its own: in one process only one thread compiles at a time."""
    command = [sys.executable, "-P", "-c", f"from scdp import compile_ahead; compile_ahead.{job}()"]
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)


def count_kernels(folder: Path) -> int:
    """How many kernels are compiled."""
    return sum(1 for _ in folder.glob("*/*.nbi"))


def compile_ends() -> None:
    """What comes before pairs are compared, and what comes after something is learned of them."""
    compile_blocking()
    compile_answers()


def compile_blocking() -> None:
    """What proposes candidates, and learns which rules do."""
    from scdp.blocking import candidate_pairs
    from scdp.blocking.by_size import learn_ladder

    records, spec, clusters = made_people()
    ladder = learn_ladder(records, spec, clusters, 0)
    candidate_pairs(records, ladder.choose(records, spec).blocking)


def compile_answers() -> None:
    """What samples, and chooses an answer; of pairs that nobody compared, by a law that nobody taught."""
    import numpy as np

    from scdp.compare.features import Columns, Pairs
    from scdp.engines import InThreads
    from scdp.linkage.fit import Choices, draw_from_prior
    from scdp.posterior import Posterior
    from scdp.posterior.draws import ComponentDraws

    records, spec, _ = made_people()
    columns, n = Columns.of(spec.fields), len(records)
    left = np.repeat(np.arange(n - 4), 4)
    right = left + np.tile(np.arange(1, 5), n - 4)
    features = np.random.default_rng(0).random((len(left), len(columns.sign)), dtype=np.float32)
    pairs, nobody = Pairs(n, left, right, features), np.full(n, -1)
    ensemble = draw_from_prior(pairs, nobody, columns.layout, columns.sign, Choices(n_members=2), 0)
    drawn = InThreads(1).sample(ensemble, pairs, nobody, 8, 0)
    summarise(Posterior(ComponentDraws.of(drawn, n, (1, 8), False)))


def compile_learning() -> None:
    """What compares, learns, samples and chooses an answer; within a group nothing is blocked."""
    import numpy as np

    from scdp.resolver import EntityResolver

    records, spec, clusters = made_people()
    group = np.zeros(len(records), dtype=np.int64)
    model = EntityResolver(spec=spec, n_draws=8, n_jobs=-1, random_state=0)
    model.fit(records, clusters, groups=group)
    summarise(model.predict_posterior(records, groups=group))


def summarise(posterior: Any) -> None:
    """An answer, and how sure it is."""
    from scdp.estimators.clustering import uncertain_pairs

    labels = posterior.point_estimate(random_state=0)
    posterior.membership_probability(labels)
    posterior.expected_metrics(labels)
    uncertain_pairs(posterior, labels)


def made_people() -> tuple[Any, Any, Any]:
    """The people of `scdp demo`, with a spec and their clusters."""
    import numpy as np

    from scdp.datasets import make_tables
    from scdp.table import Records
    from scdp.table.propose import propose

    records = Records(make_tables("people")["people"], source="made-up people")
    known = np.array([entity is not None for entity in records["entity"]])
    records = records.take(known)
    clusters = np.unique(records["entity"].astype(str), return_inverse=True)[1]
    return records, propose(records, "entity", "id", None), clusters
