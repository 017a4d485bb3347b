"""The command line: `scdp`. Each command lives in a module of its own that is loaded when it is called."""

from __future__ import annotations

import click

from scdp import __version__
from scdp.cli.terminal import LazyGroup

__all__ = ["main"]

COMMANDS = {
    "demo": ("scdp.cli.demo_commands", "Cluster an embedded example and write a report."),
    "fit": ("scdp.cli.fit_command", "Learn from records with known clusters."),
    "cluster": ("scdp.cli.cluster_command", "Group records, by a fitted model or without one."),
    "link": ("scdp.cli.link_command", "Link the records of two tables."),
    "update": ("scdp.cli.store_commands", "Put new records into a store of entities."),
    "lookup": ("scdp.cli.store_commands", "Say which entity of a store a record is."),
    "resolve": ("scdp.cli.store_commands", "Say what has become of an entity of a store."),
    "explain": ("scdp.cli.result_commands", "Say why two records are or are not together."),
    "estimate": ("scdp.cli.result_commands", "Say how good a kept result is, without gold clusters."),
    "compare": ("scdp.cli.result_commands", "Say what changed between two kept results."),
    "query": ("scdp.cli.result_commands", "Ask a question in SQL of a kept result, with intervals."),
    "label": ("scdp.cli.review_commands", "Answer questions about records that have no labels."),
    "review": ("scdp.cli.review_commands", "Look through a result and decide what is in doubt."),
    "evaluate": ("scdp.cli.evaluate_commands", "Compare predicted clusters with gold clusters."),
    "reproduce": ("scdp.cli.evaluate_commands", "Run the paper's experiments and make its tables."),
    "datasets": ("scdp.cli.demo_commands", "Make tables for tutorials; list, find or fetch data sets."),
}

EXAMPLES = """\b
Examples:
  scdp demo people
  scdp fit train.csv --entity person --out model
  scdp cluster model new.csv --out clusters.csv
  scdp evaluate clusters.csv gold.csv
  scdp COMMAND --help
"""


@click.group(cls=LazyGroup, commands_by_name=COMMANDS, epilog=EXAMPLES)
@click.version_option(__version__, prog_name="scdp")
def main() -> None:
    """Find which records are the same person, paper or thing, and say how sure that is.

    It learns from groups that are known, or begins without any. Start with  scdp demo.
    """
