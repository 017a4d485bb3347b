"""`scdp reproduce`: a task of the paper and the options of a run enter; a folder of results leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scdp.errors import ScdpError

if TYPE_CHECKING:
    from scdp.paper.experiments.systems import Settings, System

EXAMPLES = """\b
Examples:
  scdp reproduce digits --quick --out out
  scdp reproduce all --quick --out out
  scdp reproduce digits --features raw --out out
  scdp reproduce references --systems coarse,fine,scdp1 --repeats 3 --out out
  scdp reproduce all --out out --resume
"""


@click.command(epilog=EXAMPLES)
@click.argument("task", metavar="TASK|figure1|all")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the results.")
@click.option(
    "--quick", is_flag=True, help="Few chains and sweeps: all tasks in under 15 minutes on 2 cores."
)
@click.option(
    "--features",
    type=click.Choice(["unit", "raw"]),
    help="Scale to unit variance, as the paper says, or take features as they come, as its numbers imply.  "
    "[default: both; unit with --quick]",
)
@click.option("--systems", metavar="A,B,...", help="Only these systems.  [default: all that apply]")
@click.option("--chains", type=int, metavar="N", help="Chains of each sampler.")
@click.option("--sweeps", type=int, metavar="N", help="Sweeps of each chain, the warm-up included.")
@click.option(
    "--repeats", type=int, metavar="R", help="Runs with other seeds.  [default: 5 for digits, 3 for others]"
)
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="S", help="Seed of everything random."
)
@click.option("--resume", is_flag=True, help="Go on with the run that DIR holds.")
def reproduce(
    task: str,
    out: Path,
    quick: bool,
    features: str | None,
    systems: str | None,
    chains: int | None,
    sweeps: int | None,
    repeats: int | None,
    seed: int,
    resume: bool,
) -> None:
    """Run the paper's experiments and make its tables.

    TASK is digits, identity, coreference or references. DIR gets results.json, results.md, pictures and
    results.html, one page that needs nothing else. A full run has every table twice, for features scaled to unit
    variance and for features as they come, and takes an hour or more. Every finished part is kept at once, so an
    interrupted run goes on with the same command and --resume.
    """
    from scdp.paper.experiments.figures import require_matplotlib
    from scdp.paper.experiments.systems import BOTH, Settings, chosen_systems
    from scdp.paper.experiments.tasks import chosen_tasks

    if task == "figure1":
        require_matplotlib()
    settings = Settings(quick, chains, sweeps, repeats, seed, features or ("unit" if quick else BOTH))
    tasks = [] if task == "figure1" else chosen_tasks(task, quick)
    wanted = chosen_systems(systems)
    try:
        written, failures = _run(
            tasks, wanted, settings, out, resume, with_figure1=task in ("figure1", "all")
        )
    except KeyboardInterrupt:
        click.echo(f"{out} keeps what is finished; go on with the same command and --resume", err=True)
        raise
    for path in written:
        click.echo(path)
    if failures:
        raise ScdpError(
            f"{len(failures)} parts are left out, which --resume tries again: {'; '.join(failures)}"
        )


def _run(
    tasks: list[str], systems: list[System], settings: Settings, out: Path, resume: bool, with_figure1: bool
) -> tuple[list[Path], list[str]]:
    from scdp.paper.experiments.figures import fit_tasks
    from scdp.paper.experiments.output import write_results
    from scdp.paper.experiments.run import run

    # First, since it loads all data: what is missing is told before hours of work.
    fits = fit_tasks(settings) if with_figure1 else []
    parts, failures = run(tasks, systems, settings, out, resume)
    return write_results(parts, settings, out, fits, failures), failures
