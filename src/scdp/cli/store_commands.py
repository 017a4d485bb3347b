"""`scdp update`, `scdp lookup` and `scdp resolve`: a store of entities that lives on."""

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
    from scdp.io.untrusted import read_bytes
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
    from scdp.io.untrusted import parse_json
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
