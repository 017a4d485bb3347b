"""The run: tasks, systems and settings enter; every part that is not finished yet is made, then all are gathered."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

import scdp
from scdp._parallel import Need, one_thread_a_library, require
from scdp.chains.items import number_groups
from scdp.datasets import Labelled
from scdp.errors import InputError
from scdp.estimators.checks import FEWER_DRAWS, Extent, chain_needs, split_groups
from scdp.estimators.inputs import Compared, Points
from scdp.io import FolderLock
from scdp.paper.results import Part, Parts, check_results_target, score_part
from scdp.paper.systems import Effort, Settings, System
from scdp.paper.tasks import DRAWN_BY_SEED, Problem, load_problem


def check_memory(problems: Iterable[Problem], settings: Settings) -> None:
    """Refuse the run before any part is made, if a sampler on one of these tasks would take too much."""
    for problem in problems:
        chains, sweeps = settings.effort(problem.name)
        n_draws = chains * (sweeps - sweeps // 2)
        rows = extent(problem)
        room = number_groups(rows.known, split_groups(rows.groups, None), False)
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


@cache
def code_origin() -> str:
    """Asked once a process: the code that runs is the code that was imported."""
    root = Path(scdp.__file__).parents[2]
    # An installed package may lie inside somebody else's repository, whose commit says nothing.
    if (root / ".git").exists() and (commit := commit_of(root)):
        return f"commit {commit}"
    return f"version {scdp.__version__}"


def commit_of(folder: Path) -> str:
    """The commit checked out in a folder, marked where files differ from it; empty without git."""
    git = shutil.which("git")
    if git is None:
        return ""
    command = [git, "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

REFRESH_SECONDS = 0.2
EARLY = 0.03


def in_words(seconds: float) -> str:
    """A length of time as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class RunProgress:
    """Parts weigh what they are expected to cost, so that the time left is not fooled by cheap ones."""

    def __init__(self, n_parts: int, total_cost: float) -> None:
        self._n_parts, self._total = n_parts, max(total_cost, 1e-9)
        self._n_done, self._done, self._cost = 0, 0.0, 0.0
        self._start = self._shown = time.monotonic()

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._bars: Progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[left]}"),
            console=Console(stderr=True, soft_wrap=True, highlight=False),
            transient=True,
        )
        self._bar: TaskID = self._bars.add_task("starting", total=self._total, left="")
        # Without a terminal the bar would leave only its last state in a log file.
        if self._bars.console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def say(self, line: str) -> None:
        self._bars.console.print(line, markup=False)

    def begin(self, label: str, cost: float) -> None:
        self._cost = cost
        self._bars.update(self._bar, description=label, completed=self._done, left=self._left(0.0))

    def tell(self, share: float) -> None:
        """The share of the part at work that is done; called by the threads of the chains, often."""
        now = time.monotonic()
        if now - self._shown > REFRESH_SECONDS:
            self._shown = now
            self._bars.update(self._bar, completed=self._done + share * self._cost, left=self._left(share * self._cost))

    def finish(self, line: str) -> None:
        self._n_done += 1
        self._done += self._cost
        self._bars.update(self._bar, completed=self._done)
        left = self._left(0.0)
        counted = f"{self._n_done} of {self._n_parts} done"
        self.say(f"{line}; {counted}{', ' + left if left else ''}")

    def _left(self, begun: float) -> str:
        done = self._done + begun
        # Before that the guess would be made of import times.
        if done < EARLY * self._total or done >= self._total:
            return ""
        elapsed = time.monotonic() - self._start
        return f"about {in_words(elapsed / done * (self._total - done))} left"


@dataclass(frozen=True)
class ExperimentJob:
    """One part: a system on a task, once."""

    task: str
    system: System
    repeat: int
    features: str = "unit"

    @property
    def names(self) -> tuple[object, ...]:
        return self.task, self.system.name, self.features, self.repeat

    @property
    def label(self) -> str:
        raw = ", raw" if self.features == "raw" else ""
        return f"{self.task} {self.system.title}{raw}" + (f", repeat {self.repeat + 1}" if self.repeat else "")


def run(
    tasks: Sequence[str], systems: Sequence[System], settings: Settings, out: Path, resume: bool = False
) -> tuple[list[Part], list[str]]:
    """Make what is missing of DIR/parts; all its parts leave, and a sentence for each part that failed.

    A system that fails does not take the others' hours with it; --resume tries it again.
    """
    jobs = plan_jobs(tasks, systems, settings)
    # Data that is not there is told before anything is written.
    problems = {task: load_problem(task, settings.seed) for task in dict.fromkeys(job.task for job in jobs)}
    check_results_target(out)
    sampled = dict.fromkeys(job.task for job in jobs if job.system.samples)
    check_memory([problems[task] for task in sampled], settings)
    with FolderLock(out / "parts", "--out"):
        parts = Parts(out, settings, resume)
        waiting = [job for job in jobs if parts.find(*job.names) is None]
        failures: list[str] = []
        with RunProgress(len(waiting), sum(job.system.cost for job in waiting)) as progress:
            for task in dict.fromkeys(job.task for job in waiting):
                progress.say(f"{task} data: {problems[task].task.note}")
            for job in waiting:
                try:
                    part = _make(job, _problem_of(job, problems, settings), settings, progress)
                except Exception as error:
                    if os.environ.get("SCDP_DEBUG") == "1":
                        raise
                    failures.append(f"{job.label} failed ({type(error).__name__}: {error})")
                    progress.finish(failures[-1])
                    continue
                parts.write(part, *job.names)
                progress.finish(_line(job, part))
        return parts.all(), failures


def plan_jobs(tasks: Sequence[str], systems: Sequence[System], settings: Settings) -> list[ExperimentJob]:
    """Every system on every task it applies to, at every scale that matters to it.

    A system that applies to none of the tasks is refused.
    """
    idle = [system.name for system in systems if not any(map(system.applies_to, tasks))]
    if tasks and len(idle) == len(systems):
        raise InputError(f"no system of {', '.join(idle)} applies to {', '.join(tasks)}")
    most = max(map(settings.repeats_of, tasks), default=0)
    return [
        ExperimentJob(task, system, repeat, features)
        for repeat in range(most)
        for task in tasks
        for place, features in enumerate(settings.features_of(task))
        for system in systems
        if system.applies_to(task)
        and repeat < (1 if system.once and not settings.repeats else settings.repeats_of(task))
        and not (place and system.scale_free)
    ]


def _problem_of(job: ExperimentJob, problems: dict[str, Problem], settings: Settings) -> Problem:
    """The task of the run's seed at the job's scale; each further repeat draws its own where anything is drawn."""
    drawn = job.repeat if job.task in DRAWN_BY_SEED else 0
    if not drawn and job.features == "unit":
        return problems[job.task]
    return load_problem(job.task, settings.seed + drawn, job.features)


def _make(job: ExperimentJob, problem: Problem, settings: Settings, progress: RunProgress) -> Part:
    progress.begin(job.label, job.system.cost)
    chains, sweeps = settings.effort(job.task)
    effort = Effort(chains, sweeps, settings.seed_of(*job.names), settings.quick, progress.tell)
    # Chains run side by side all the same.
    with one_thread_a_library("sklearn.ensemble"):
        start = time.perf_counter()
        outcome = job.system.run(problem, effort)
        seconds = time.perf_counter() - start
    return {
        "task": job.task,
        "system": job.system.name,
        "features": job.features,
        "repeat": job.repeat,
        "seconds": seconds,
        "origin": code_origin(),
        **score_part(outcome, problem),
    }


def _line(job: ExperimentJob, part: Part) -> str:
    return f"{job.label}: F {part['metrics']['f']:.3f}, {part['clusters']} clusters, {part['seconds']:.1f} s"
