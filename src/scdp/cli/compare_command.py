"""`scdp compare`: two kept results enter; what became of the entities leaves, in words."""

from __future__ import annotations

import json
from pathlib import Path

import click

from scdp.cli.terminal import tell

EXAMPLES = """\b
Examples:
  scdp compare may june
  scdp compare may june --json
"""


@click.command(epilog=EXAMPLES)
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")
def compare(old: Path, new: Path, as_json: bool) -> None:
    """Say what changed between two results that  scdp cluster --draws  has kept.

    Which entities merged, split, appeared or vanished, by the ids of the records; and whether the new table looks
    unlike the old one.
    """
    from scdp.results import read_result
    from scdp.results.drift import compare_results

    found = compare_results(read_result(old), read_result(new))
    tell(json.dumps(found.to_words(), indent=1) if as_json else str(found))
