"""Words on a terminal: any text enters; lines that show every character of it, and only show it, leave."""

from __future__ import annotations

import logging

import click

LONGEST_SENTENCE, START, END = 1000, 600, 300


def tell(text: object, error: bool = False) -> None:
    """Print a text, with characters that would move the cursor or turn the writing round as their escapes."""
    from scdp.report.layout import spelled

    click.echo("\n".join(map(spelled, str(text).split("\n"))), err=error)


def sentence(text: str) -> str:
    """A text on one line, its middle left out where a file has made it very long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_SENTENCE else f"{line[:START]} ... {line[-END:]}"


class Teller(logging.Handler):
    """Says on stderr what the package logs, as the command's own words; `--quiet` leaves only what is wrong."""

    def emit(self, record: logging.LogRecord) -> None:
        context = click.get_current_context(silent=True)
        quiet = context is not None and context.params.get("quiet", False)
        if not quiet or record.levelno >= logging.WARNING:
            tell(sentence(f"scdp: {record.getMessage()}"), error=True)
