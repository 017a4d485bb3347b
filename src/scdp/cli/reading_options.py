"""`--delimiter` and `--encoding` of commands that read tables: options enter, one `Reading` leaves."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options, for a command that takes them as `reading`."""

    @wraps(command)
    def with_reading(*args: Any, delimiter: str | None, encoding: str | None, **kwargs: Any) -> Any:
        from scdp.table.text_files import Reading

        return command(*args, reading=Reading(delimiter, encoding), **kwargs)

    for option in (
        click.option(
            "--encoding", metavar="NAME", help="Encoding of text files, such as latin-1.  [default: guessed]"
        ),
        click.option(
            "--delimiter", metavar="C", help="Separator of text files; the word tab too.  [default: guessed]"
        ),
    ):
        with_reading = option(with_reading)
    return with_reading
