"""`scdp review`: a kept result or a store enters; a person decides what is in doubt, each time in a line of a file."""

from __future__ import annotations

from pathlib import Path

import click

from scdp.cli.fit_command import say
from scdp.cli.review.label_command import ask_people, check_decisions, page_options
from scdp.errors import InputError

DECISIONS = "decisions.jsonl"
EXAMPLES = """\b
Examples:
  scdp cluster model records.csv --out clusters.csv --draws result
  scdp review result
  scdp cluster model records.csv --decisions result/decisions.jsonl --out clusters.csv --force
  scdp review store
  scdp update store
"""
_PATH = click.Path(path_type=Path)


@click.command(epilog=EXAMPLES)
@click.argument("result", type=_PATH, metavar="RESULT|STORE")
@click.option(
    "--decisions", type=_PATH, metavar="FILE", help=f"JSON lines, added to.  [default: RESULT/{DECISIONS}]"
)
@click.option("--seed", type=click.IntRange(min=0, max=2**31 - 1), default=0, show_default=True, metavar="N")
@page_options
def review(
    result: Path,
    decisions: Path | None,
    seed: int,
    who: str | None,
    terminal: bool,
    host: str,
    port: int,
    opens: bool,
    quiet: bool,
) -> None:
    """Look through RESULT, the folder that `scdp cluster --draws` kept, or a STORE, and decide what is in doubt.

    What would remove most errors is asked first; clusters can be searched, split and merged. Every decision is on the
    disk before the next question is shown, takes effect at once in what is shown, and counts in later runs that are
    given the file. Decisions about a store are kept in it; the next  scdp update  acts on them.
    """
    import threading

    from scdp.io.targets import Given, check_files, check_target, is_same_file
    from scdp.results import read_result
    from scdp.review.log import DecisionLog
    from scdp.review.result import ResultSource, StoreSource
    from scdp.review.session import Session
    from scdp.store.files import MANIFEST
    from scdp.store.store import Store

    kept = decisions or result / DECISIONS
    check_decisions(kept)
    if not is_same_file(kept, result / DECISIONS):
        check_files([Given("RESULT", result)], [], False, added=[Given("--decisions", kept)])
    source: ResultSource | StoreSource
    if (result / MANIFEST).is_file():
        store = Store(result)
        if not store.entities:
            raise InputError(f"{result}: holds no records yet; put some in by  scdp update")
        if decisions is not None:
            raise InputError("--decisions: a store keeps its own decisions; leave this out")
        n_records, source = len(store.entities), StoreSource(store)
    else:
        stored = read_result(result)
        n_records, source = stored.n_records, ResultSource(stored)
    check_target(kept)
    say(f"reading {n_records:,} records", quiet)
    view = source.view()
    before = source.store.decisions_of_updates() if isinstance(source, StoreSource) else []
    log = DecisionLog(kept, view.ids, before)
    session = Session(log, source, seed)
    beliefs = session.beliefs.snapshot()
    threading.Thread(target=source.explain, args=(view, beliefs), daemon=True).start()
    ask_people(session, view, f"Review of {result.name}", True, who, terminal, host, port, opens, quiet)
    say(f"{kept}: {len(log.decisions) - len(before)} decisions", quiet)
