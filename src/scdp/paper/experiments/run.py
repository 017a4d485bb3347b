"""The run: tasks, systems and settings enter; every part that is not finished yet is made, then all are gathered."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scdp.errors import InputError
from scdp.io.atomic import FolderLock
from scdp.paper.experiments.needs import check_memory
from scdp.paper.experiments.origin import code_origin
from scdp.paper.experiments.parts import Part, Parts
from scdp.paper.experiments.progress import RunProgress
from scdp.paper.experiments.protocol import Effort
from scdp.paper.experiments.scores import scored
from scdp.paper.experiments.settings import Settings
from scdp.paper.experiments.systems import System
from scdp.paper.experiments.tasks import DRAWN_BY_SEED, Problem, load_problem


@dataclass(frozen=True)
class Job:
    """One part: a system on a task, once."""

    task: str
    system: System
    repeat: int

    @property
    def names(self) -> tuple[object, ...]:
        return self.task, self.system.name, self.repeat

    @property
    def label(self) -> str:
        return f"{self.task} {self.system.title}" + (f", repeat {self.repeat + 1}" if self.repeat else "")


def run(
    tasks: Sequence[str], systems: Sequence[System], settings: Settings, out: Path, resume: bool = False
) -> tuple[list[Part], list[str]]:
    """Make what is missing of DIR/parts; all its parts leave, and a sentence for each part that failed.

    A system that fails does not take the others' hours with it; --resume tries it again.
    """
    jobs = planned(tasks, systems, settings.repeats)
    # Data that is not there is told before anything is written.
    problems = {task: load_problem(task, settings.seed) for task in dict.fromkeys(job.task for job in jobs)}
    if out.is_file():
        raise InputError(f"{out}: is a file; give --out a folder")
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


def planned(tasks: Sequence[str], systems: Sequence[System], repeats: int) -> list[Job]:
    """Every system on every task it applies to; a system that applies to none of them is refused."""
    idle = [system.name for system in systems if not any(map(system.applies_to, tasks))]
    if tasks and len(idle) == len(systems):
        raise InputError(f"no system of {', '.join(idle)} applies to {', '.join(tasks)}")
    return [
        Job(task, system, repeat)
        for repeat in range(repeats)
        for task in tasks
        for system in systems
        if system.applies_to(task)
    ]


def _problem_of(job: Job, problems: dict[str, Problem], settings: Settings) -> Problem:
    """The task of the run's seed; each further repeat draws its own where anything is drawn."""
    if not job.repeat or job.task not in DRAWN_BY_SEED:
        return problems[job.task]
    return load_problem(job.task, settings.seed + job.repeat)


def _make(job: Job, problem: Problem, settings: Settings, progress: RunProgress) -> Part:
    progress.begin(job.label, job.system.cost)
    chains, sweeps = settings.effort(job.task)
    effort = Effort(chains, sweeps, settings.seed_of(*job.names), settings.quick, progress.tell)
    with one_thread_a_library():
        start = time.perf_counter()
        outcome = job.system.run(problem, effort)
        seconds = time.perf_counter() - start
    return {
        "task": job.task,
        "system": job.system.name,
        "repeat": job.repeat,
        "seconds": seconds,
        "origin": code_origin(),
        **scored(outcome, problem),
    }


def one_thread_a_library() -> AbstractContextManager[Any]:
    """Keeps libraries from threads of their own: on a busy machine these wait for each other, many times over.

    Chains run side by side all the same.
    """
    # A limit holds for libraries that are loaded already; this loads the last of them.
    import sklearn.ensemble  # noqa: F401
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def _line(job: Job, part: Part) -> str:
    return f"{job.label}: F {part['metrics']['f']:.3f}, {part['clusters']} clusters, {part['seconds']:.1f} s"
