"""Where the time of `scdp cluster` goes: processor and wall seconds by stage, and the memory at the end of each.

python -m benchmarks.scale_profile MODEL RECORDS [option of scdp cluster ...]
A stage's seconds are its own, without those of stages inside it; processor seconds are those of all threads.
"""

from __future__ import annotations

import functools
import importlib
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# What is timed, in the order of the work: the stage, and the function (module:name) that does it.
STAGES = (
    ("open the model", "scdp.estimators.model_folder:load_model"),
    ("read records", "scdp.table.readers:read_records"),
    ("ids, names, the rest of the result", "scdp.estimators.clustering:cluster_records"),
    ("find copies", "scdp.compare.features:Copies.find"),
    ("clean and parse columns, choose and index blocks", "scdp.engines.candidates:index_records"),
    ("settle the match rate", "scdp.engines.candidates:settle"),
    ("candidates and prefilter", "scdp.engines:compare_candidates"),
    ("sample", "scdp.engines.local:LocalEngine.sample"),
    ("keep draws", "scdp.resolver_fit:ResolverFit.posterior"),
    ("point estimate", "scdp.posterior:Posterior.point_estimate"),
    ("probabilities", "scdp.posterior:Posterior.membership_probability"),
    ("draws in the order of rows", "scdp.posterior:Posterior.restrict"),
    ("uncertain pairs", "scdp.estimators.clustering:uncertain_pairs"),
    ("expected precision and recall", "scdp.posterior:Posterior.expected_metrics"),
    ("write", "scdp.report.outputs:write_outputs"),
)


@dataclass
class Spent:
    """Seconds of one stage, the memory when it last ended, and the peak until then."""

    cpu: float = 0.0
    wall: float = 0.0
    held: int = 0
    peak: int = 0


@dataclass
class Clock:
    """Stages as they are entered and left; only the innermost is charged."""

    spent: dict[str, Spent] = field(default_factory=dict)
    inside: list[str] = field(default_factory=list)
    last: tuple[float, float] = field(default_factory=lambda: (time.process_time(), time.perf_counter()))

    def charge(self) -> None:
        """Put what has passed down to the stage that is under way."""
        now = time.process_time(), time.perf_counter()
        spent = self.spent.setdefault(self.inside[-1] if self.inside else "imports and the rest", Spent())
        spent.cpu += now[0] - self.last[0]
        spent.wall += now[1] - self.last[1]
        spent.held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024
        spent.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.last = now

    def wrap(self, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same work, charged to a stage."""

        @functools.wraps(work)
        def timed(*arguments: Any, **named: Any) -> Any:
            self.charge()
            self.inside.append(stage)
            try:
                return work(*arguments, **named)
            finally:
                self.charge()
                self.inside.pop()

        return timed


def watch(clock: Clock, stage: str, place: str) -> None:
    """Replace a function, or a method of a class, by one that is timed."""
    module, _, path = place.partition(":")
    holder: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for each in outer:
        holder = getattr(holder, each)
    found = holder.__dict__[name]
    if isinstance(found, classmethod):
        setattr(holder, name, classmethod(clock.wrap(stage, found.__func__)))
    else:
        setattr(holder, name, clock.wrap(stage, found))


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    clock = Clock()
    for stage, place in STAGES:
        watch(clock, stage, place)
    from scdp.cli import main as scdp

    with tempfile.TemporaryDirectory(prefix="scdp-profile-") as folder:
        out = ["--out", str(Path(folder) / "clusters.csv"), "--summary", str(Path(folder) / "summary.json"), "--quiet"]
        sys.argv = ["scdp", "cluster", *sys.argv[1:], *out]
        try:
            scdp()
        except SystemExit as end:
            if end.code:
                return int(end.code)
        clock.charge()
    print("| stage | processor s | wall s | memory then, MB | peak memory so far, MB |\n|---|---|---|---|---|")
    for stage, spent in clock.spent.items():
        print(f"| {stage} | {spent.cpu:.1f} | {spent.wall:.1f} | {spent.held / 1024:.0f} | {spent.peak / 1024:.0f} |")
    total = (sum(spent.cpu for spent in clock.spent.values()), sum(spent.wall for spent in clock.spent.values()))
    print(f"| all | {total[0]:.1f} | {total[1]:.1f} | | |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
