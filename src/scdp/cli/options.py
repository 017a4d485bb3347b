"""Options that several commands share.

`--delimiter` and `--encoding` become one `Reading`. `--checkpoint` and `--resume` name a folder beside the output,
which is there while the command runs and gone at success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from scdp.cli.terminal import sentence, tell
from scdp.errors import InputError

PARTS = ("fit", "predict")
# Of many records, the resolver keeps the components that are done.
SHARDS = "shards"


class RecordsType(click.Path):
    """A path, or a query of a database, whose slashes are encoded so that a path keeps them."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            from scdp.table.database import is_address

            value = quote(value, safe=" :?=*(),'\"<>") if is_address(value) else value
        return super().convert(value, param, ctx)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`, for a command that takes it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")(command)


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


def checkpoint_options(output: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options, for a command whose output is called so."""

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            click.option("--resume", is_flag=True, help="Go on with a run that was interrupted or killed."),
            click.option(
                "--checkpoint-seconds", "seconds", type=click.FloatRange(min=0), default=30.0, metavar="S",
                show_default=True, help="Time between checkpoints.",
            ),
            click.option(
                "--checkpoint", type=click.Path(path_type=Path), metavar="DIR",
                help=f"Folder of what --resume needs.  [default: {output}.checkpoint]",
            ),
        ):  # fmt: skip
            command = option(command)
        return command

    return with_options


@contextmanager
def checkpoint_folder(given: Path | None, output: Path, resume: bool, samples: bool) -> Iterator[Path]:
    """The folder, this process's own while the block runs; what it holds is removed when the block ends well.

    `samples` is whether the model has chains: what it learns otherwise takes minutes and starts again.
    """
    from scdp.io.atomic import FolderLock

    folder = given or output.absolute().with_name(f"{output.absolute().name}.checkpoint")
    shown = given or output.with_name(f"{output.absolute().name}.checkpoint")
    try:
        with FolderLock(folder, "--checkpoint"):
            if not resume:
                _refuse_used(folder, shown)
            yield folder
            _discard(folder)
    except KeyboardInterrupt:
        tell(sentence(f"scdp: {_how_to_go_on(folder, shown, samples)}"), error=True)
        raise
    except MemoryError:
        if _holds_any(folder):
            tell(sentence(f"scdp: {_how_to_go_on(folder, shown, samples)}"), error=True)
        raise
    finally:
        _remove_if_empty(folder)


def _refuse_used(folder: Path, shown: Path) -> None:
    if _holds_any(folder):
        raise InputError(
            f"{shown}: holds the checkpoint of an earlier run; "
            "go on with it by the same command and --resume, or remove that folder to start again"
        )


def _holds_any(folder: Path) -> bool:
    from scdp.chains.checkpoint import checkpoint_files
    from scdp.engines.finished import shard_files

    return any(checkpoint_files(folder / part) for part in PARTS) or bool(shard_files(folder / SHARDS))


def _how_to_go_on(folder: Path, shown: Path, samples: bool) -> str:
    if _holds_any(folder):
        return f"{shown} keeps what was sampled; go on with the same command and --resume"
    if samples:
        return "nothing was sampled yet; the same command starts again"
    return "this model keeps no checkpoint; the same command starts again, and ends the same by its seed"


def _discard(folder: Path) -> None:
    from scdp.chains import checkpoint
    from scdp.engines import finished

    for part in PARTS:
        checkpoint.discard(folder / part)
    finished.discard(folder / SHARDS)


def _remove_if_empty(folder: Path) -> None:
    for place in (*(folder / part for part in (*PARTS, SHARDS)), folder):
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
