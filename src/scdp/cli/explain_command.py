"""`scdp explain`: a model, records and two ids enter; why these two are or are not together leaves, in words."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scdp.cli.cluster_command import open_model, require_columns
from scdp.cli.fit_command import say
from scdp.cli.reading_options import reading_options
from scdp.cli.terminal import tell
from scdp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scdp.posterior import Posterior
    from scdp.table.text_files import Reading

EXAMPLES = """\b
Examples:
  scdp explain model new.csv r17 r208
  scdp explain model new.csv r17 r208 --draws draws
"""


@click.command(epilog=EXAMPLES)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("records", type=click.Path(path_type=Path))
@click.argument("first", metavar="ID1")
@click.argument("second", metavar="ID2")
@click.option(
    "--draws",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Draws kept by  scdp cluster --draws  of the same records; without them they are made again.",
)
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")
@click.option("--quiet", is_flag=True, help="Say nothing but the explanation.")
def explain(
    model: Path,
    records: Path,
    first: str,
    second: str,
    draws: Path | None,
    reading: Reading,
    as_json: bool,
    quiet: bool,
) -> None:
    """Say why two records are or are not together.

    Each comparison's distance and what it contributes, the reference types involved, and the probability.
    """
    from scdp.estimators.clustering import ids_of
    from scdp.table.readers import read_records

    fitted = open_model(model, quiet)
    table = read_records(records, reading)
    require_columns(table, fitted)
    assert fitted.spec is not None
    ids = ids_of(table, fitted.spec.id)
    rows = {str(identifier): row for row, identifier in enumerate(ids)}
    for identifier in (first, second):
        if identifier not in rows:
            raise InputError(f"{records}: there is no record {identifier!r}; give two ids of its records")
    if first == second:
        raise InputError(f"{first!r} is given twice; give the ids of two different records")
    posterior = None if draws is None else _posterior(draws, ids)
    if posterior is None:
        say(f"clustering {len(table)} records", quiet)
    found = fitted.explain(table, rows[first], rows[second], posterior=posterior, names=(first, second))
    tell(json.dumps(asdict(found), indent=1) if as_json else str(found))


def _posterior(folder: Path, ids: NDArray[Any]) -> Posterior:
    """Kept draws, in the order of the records."""
    from scdp.results import read_result

    kept = read_result(folder)
    place = {name: item for item, name in enumerate(kept.ids.tolist())}
    lost = [identifier for identifier in ids if str(identifier) not in place]
    if lost:
        raise InputError(f"{folder}: draws of other records, without {lost[0]!r}; make them again")
    return kept.posterior.restricted([place[str(identifier)] for identifier in ids])
