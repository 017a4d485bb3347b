"""What lives on after a run: a store of entities, and the answers of people.

`scdp update`, `scdp lookup` and `scdp resolve` keep a store and ask it; `scdp label` and `scdp review` ask people about
records, a result or a store, and write each answer as a line.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scdp.cli import PATH, RecordsType, json_option, reading_options, say, say_notes, tell
from scdp.cli.cluster_commands import learn_here, open_model
from scdp.errors import InputError

if TYPE_CHECKING:
    from scdp.table.readers import Reading
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from scdp.cli.fit_command import spec_of

if TYPE_CHECKING:
    from socket import socket

    from scdp.review import Session
    from scdp.review.beliefs import Beliefs
    from scdp.review.server import Site
    from scdp.review.view import TableView
    from scdp.table import Records

EXAMPLES = """\b
Examples:
  scdp update store first.csv --model model
  scdp update store more.csv --decisions decisions.jsonl
  scdp lookup store '{"name": "Ada Lovelace"}'
  scdp resolve store e-17
"""


@click.command(epilog=EXAMPLES)
@click.argument("store", type=PATH)
@click.argument("new", type=RecordsType(), required=False)
@click.option("--model", type=PATH, metavar="DIR", help="Of a new store: its model.  [default: learned from NEW]")
@click.option("--decisions", type=PATH, metavar="FILE", help="What people know; kept for ever.")
@click.option("--delete", type=PATH, metavar="FILE", help="Ids of records to remove, one a line.")
@reading_options
@json_option
@click.option("--quiet", is_flag=True, help="Say nothing unless something is wrong.")
def update(
    store: Path,
    new: Path | None,
    model: Path | None,
    decisions: Path | None,
    delete: Path | None,
    reading: Reading,
    as_json: bool,
    quiet: bool,
) -> None:
    """Put new records into a store of entities; known ids are corrections.

    Records join entities, open new ones, or bring two together. Ids of entities never change their meaning: every
    merge and split is kept as an event, and  scdp resolve  follows old ids.
    """
    from scdp.io.targets import lies_in, list_given
    from scdp.store import Store
    from scdp.store.files import MANIFEST
    from scdp.table.decisions import read_decisions
    from scdp.table.readers import file_of, read_records

    read = {"NEW": new and file_of(new), "--model": model, "--decisions": decisions, "--delete": delete}
    for option, path in list_given(read):
        if lies_in(path, store):
            raise InputError(f"{path}: lies in the store itself; give {option} a place outside it")
    if model is not None and lies_in(store, model):
        raise InputError(f"{store}: lies in the folder {model}, which --model reads; give another folder")
    table = None if new is None else read_records(new, reading)
    said = [] if decisions is None else read_decisions(decisions)
    gone = [] if delete is None else _listed_ids(delete, reading)
    if not (store / MANIFEST).exists():
        if model is not None:
            fitted = open_model(model)
        elif table is not None:
            fitted, _ = learn_here(table, said)
        else:
            raise InputError(f"{store}: there is no store; make one from records, with --model if there is one")
        kept = Store.create(store, fitted)
    elif model is not None:
        raise InputError(f"{store}: has its own model; leave --model out")
    else:
        kept = Store(store)
    kept.model.set_params(n_jobs=-1)
    with say_notes():
        happened = kept.update(table, delete=gone, decisions=said)
    lost = [one for line in said for one in line.ids if one not in kept.entities]
    if lost:
        say(f"note: no record is named {lost[0]!r}, as a decision says; it counts once there is one")
    counts = Counter(one["event"] for one in happened)
    n_entities = len(set(kept.entities.values()))
    if as_json:
        numbers = {"n_records": len(kept.entities), "n_entities": n_entities, "events": counts}
        click.echo(json.dumps({"store": str(store)} | numbers))
    elif not quiet:
        told_of = ", ".join(f"{count} x {kind}" for kind, count in counts.items()) or "nothing changed"
        tell(f"{store}: {len(kept.entities)} records of {n_entities} entities; {told_of}")


def _listed_ids(path: Path, reading: Reading) -> list[str]:
    """The ids of a file, one a line: an id may have spaces in it."""
    from scdp.io import read_bytes
    from scdp.table.text_files import decode

    content = read_bytes(path)
    lines = decode(content, path, reading.encoding, guesses=False).split("\n") if content.strip() else []
    return [line.strip() for line in lines if line.strip()]


@click.command(epilog=EXAMPLES)
@click.argument("store", type=PATH)
@click.argument("cells", metavar="JSON")
@json_option
def lookup(store: Path, cells: str, as_json: bool) -> None:
    """Say which entity of a store a record is, with probabilities; nothing is changed."""
    from scdp.io import parse_json
    from scdp.store import Store

    try:
        query = parse_json(cells)
    except ValueError as error:
        raise InputError(f'the record is not JSON ({error}); write \'{{"name": "..."}}\'') from error
    if not isinstance(query, dict):
        raise InputError('the record is not a JSON object; write \'{"name": "..."}\'')
    found = Store(store).lookup(query)
    words = [
        {"entity": match.entity, "probability": round(match.probability, 4), "records": list(match.records)}
        for match in found
    ]
    if as_json:
        click.echo(json.dumps(words, ensure_ascii=False, indent=1))
        return
    for match in found:
        name = match.entity or "none of these"
        click.echo(f"{match.probability:.3f}  {name}  {' '.join(match.records[:8])}".rstrip())


@click.command(epilog=EXAMPLES)
@click.argument("store", type=PATH)
@click.argument("name", metavar="ID")
@json_option
def resolve(store: Path, name: str, as_json: bool) -> None:
    """Say under which id an entity goes on, which records it has, and what happened to it."""
    from scdp.store import Store

    found = Store(store).resolve(name)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False, indent=1))
        return
    click.echo(f"{found['id']} is {found['entity']}: {' '.join(found['records']) or 'no records'}")
    for event in found["history"]:
        come = f" from {event['from']}" if "from" in event else ""
        what = f"{event['event']}  {event['entity']}{come}"
        click.echo(f"{event['time']}  {what}: {' '.join(event['records'])} ({event['reason']})")


LOOPBACK = "127.0.0.1"
LABEL_EXAMPLES = """\b
Examples:
  scdp label records.csv --out decisions.jsonl
  scdp label records.csv --out decisions.jsonl --terminal
  scdp label records.csv --out decisions.jsonl --clusters clusters.csv
"""


@dataclass(frozen=True)
class Page:
    """Where people are asked, and who answers."""

    who: str | None
    terminal: bool
    host: str
    port: int
    opens: bool


def page_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a page and `--quiet`, for a command that takes them as `page`."""

    @wraps(command)
    def with_page(
        *args: Any, who: str | None, terminal: bool, host: str, port: int, opens: bool, quiet: bool, **kwargs: Any
    ) -> Any:
        return command(*args, page=Page(who, terminal, host, port, opens), **kwargs)

    options = [
        click.option("--who", metavar="NAME", help="Written beside each decision.  [default: your login name]"),
        click.option("--terminal", is_flag=True, help="Ask in the terminal; no browser is needed."),
        click.option("--host", default=LOOPBACK, show_default=True, metavar="ADDRESS", help="Where to listen."),
        click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="[default: a free one]"),
        click.option("--open/--no-open", "opens", default=True, help="Open the page in a browser."),
        click.option("--quiet", is_flag=True, help="Print nothing but the address."),
    ]
    for option in reversed(options):
        with_page = option(with_page)
    return with_page


@click.command(epilog=LABEL_EXAMPLES)
@click.argument("records", type=PATH)
@click.option("--out", required=True, type=PATH, metavar="FILE", help="Decisions, as JSON lines; added to.")
@click.option("--clusters", type=PATH, metavar="FILE", help="At the end, write: id, cluster, probability.")
@click.option("--spec", "spec_file", type=PATH, metavar="FILE", help="How to compare records.")
@click.option("--id", "id_column", metavar="COLUMN", help="Ids.  [default: the column that sounds like ids]")
@click.option("--seed", type=click.IntRange(min=0, max=2**31 - 1), default=0, show_default=True, metavar="N")
@click.option("--force", is_flag=True, help="Replace the file of --clusters.")
@page_options
def label(
    records: Path,
    out: Path,
    clusters: Path | None,
    spec_file: Path | None,
    id_column: str | None,
    seed: int,
    force: bool,
    page: Page,
) -> None:
    """Answer questions about RECORDS, and see how good their clusters are and when to stop.

    No labels are needed to begin. What is asked is what is expected to improve the result most; one question in four
    is drawn at random, so that the estimate of quality stays honest. Every answer is on the disk before the next
    question is shown, and the same command goes on from there.
    """
    from scdp.io.targets import Given, check_files, check_table_target, check_target, list_given
    from scdp.review import Session
    from scdp.review.sources import Learner
    from scdp.table.decisions import DecisionLog
    from scdp.table.readers import read_records

    check_decisions(out)
    check_target(out)
    inputs = list_given({"RECORDS": records, "--spec": spec_file})
    check_files(inputs, list_given({"--clusters": clusters}), force, added=[Given("--out", out)])
    if clusters is not None:
        check_table_target(clusters)
    table = read_records(records)
    spec = spec_of(table, spec_file, None, id_column, None)
    ids = ids_of(table, spec.id)
    log = DecisionLog(out, ids)
    say(f"comparing {len(table):,} records")
    learner = Learner(table, spec, seed)
    session = Session(log, learner, seed)
    view = learner.view(table, ids)
    ask_people(session, view, f"Labels for {records.name}", False, page)
    say(f"{out}: {len(log.decisions)} decisions")
    if clusters is not None:
        write_clusters(clusters, session.settle(), ids, spec.id, force)
        say(f"{clusters}: {session.beliefs.n_clusters:,} clusters of {len(table):,} records")


def check_decisions(path: Path) -> None:
    """Refuse a file that answers cannot be added to."""
    if path.suffix.lower() not in (".jsonl", ".ndjson"):
        raise InputError(f"{path}: decisions are kept as JSON lines; name the file .jsonl")


def write_clusters(path: Path, beliefs: Beliefs, ids: list[str], id_column: str | None, force: bool) -> None:
    """The clusters that follow from all answers, as `scdp cluster` writes them."""
    import numpy as np

    from scdp.estimators.clustering import cluster_names
    from scdp.io.atomic import Staged
    from scdp.io.targets import stage_table

    names = cluster_names(beliefs.answer, np.array(ids, dtype=object), [])
    title = "id" if id_column in (None, "cluster", "probability") else str(id_column)
    probability = [round(p, 4) for p in beliefs.membership().tolist()]
    columns = {title: ids, "cluster": names.tolist(), "probability": probability}
    with Staged(replace=force) as staged:
        stage_table(staged, path, columns)


def ids_of(records: Records, column: str | None) -> list[str]:
    """The ids of records; without a column of them, their row numbers."""
    from scdp.estimators.clustering import ids_of as read_ids

    return [str(one) for one in read_ids(records, column).tolist()]


def ask_people(session: Session, view: TableView, title: str, preset: bool, page: Page) -> None:
    """Ask in the terminal, or on a page until Ctrl-C."""
    import getpass
    from contextlib import suppress

    who = page.who
    if who is None:
        with suppress(OSError, KeyError):
            who = getpass.getuser()
    if page.terminal:
        from scdp.review.view import ask_in_terminal

        session.start()
        try:
            ask_in_terminal(session, view, who, preset, tell, input)
        finally:
            session.stop()
        return
    import secrets

    from scdp.review.server import Site, listen, names_of

    taken = listen(page.host, page.port)
    hosts = names_of(page.host, taken.getsockname()[1])
    _serve(Site(title, session, view, preset, secrets.token_urlsafe(24), hosts, who), taken, page)


def _serve(site: Site, taken: socket, page: Page) -> None:
    import threading
    import webbrowser

    from scdp.review.server import address_of, serve

    threading.Thread(target=site.view.prepare, daemon=True).start()
    address = address_of(site)
    tell(address)
    say("the page is at the address above; Ctrl-C ends it, and every answer is kept")
    if page.host not in (LOOPBACK, "::1", "localhost"):
        say("note: others on the network can reach this page; give the address only to whom you trust")
    if page.opens:
        threading.Thread(target=lambda: webbrowser.open(address), daemon=True).start()
    serve(site, taken)


DECISIONS = "decisions.jsonl"
REVIEW_EXAMPLES = """\b
Examples:
  scdp cluster model records.csv --out clusters.csv --draws result
  scdp review result
  scdp cluster model records.csv --decisions result/decisions.jsonl --out clusters.csv --force
  scdp review store
  scdp update store
"""


@click.command(epilog=REVIEW_EXAMPLES)
@click.argument("result", type=PATH, metavar="RESULT|STORE")
@click.option("--decisions", type=PATH, metavar="FILE", help=f"JSON lines, added to.  [default: RESULT/{DECISIONS}]")
@click.option("--seed", type=click.IntRange(min=0, max=2**31 - 1), default=0, show_default=True, metavar="N")
@page_options
def review(result: Path, decisions: Path | None, seed: int, page: Page) -> None:
    """Look through RESULT, the folder that `scdp cluster --draws` kept, or a STORE, and decide what is in doubt.

    What would remove most errors is asked first; clusters can be searched, split and merged. Every decision is on the
    disk before the next question is shown, takes effect at once in what is shown, and counts in later runs that are
    given the file. Decisions about a store are kept in it; the next  scdp update  acts on them.
    """
    import threading

    from scdp.io.targets import Given, check_files, check_target, is_same_file
    from scdp.results import read_result
    from scdp.review import Session
    from scdp.review.sources import ResultSource, StoreSource
    from scdp.store import Store
    from scdp.store.files import MANIFEST
    from scdp.table.decisions import DecisionLog

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
    say(f"reading {n_records:,} records")
    view = source.view()
    before = source.store.decisions_of_updates() if isinstance(source, StoreSource) else []
    log = DecisionLog(kept, view.ids, before)
    session = Session(log, source, seed)
    beliefs = session.beliefs.snapshot()
    threading.Thread(target=source.explain, args=(view, beliefs), daemon=True).start()
    ask_people(session, view, f"Review of {result.name}", True, page)
    say(f"{kept}: {len(log.decisions) - len(before)} decisions")
