"""The command line: `scdp`. Each command, or a few that belong together, is a module that is loaded when it is called.

Here is what all commands share: words on a terminal, a group that imports commands on use and reports errors, options.
An error made on purpose leaves as one line and its exit code, one of files or memory as one line and exit code 2;
any other one as one line and exit code 1. `--delimiter` and `--encoding` become one `Reading`. `--checkpoint` and
`--resume` name a folder beside the output, which is there while the command runs and gone at success.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import click

from scdp import __version__
from scdp._parallel import require_libraries
from scdp.errors import InputError, ScdpError

LONGEST_SENTENCE, START, END = 1000, 600, 300
PATH = click.Path(path_type=Path)


def tell(text: object, error: bool = False) -> None:
    """Print a text, with characters that would move the cursor or turn the writing round as their escapes."""
    from scdp.report import escape_hidden

    click.echo("\n".join(map(escape_hidden, str(text).split("\n"))), err=error)


def sentence(text: str) -> str:
    """A text on one line, its middle left out where a file has made it very long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_SENTENCE else f"{line[:START]} ... {line[-END:]}"


def is_quiet() -> bool:
    """Whether the command that runs was called with `--quiet`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.params.get("quiet", False))


def show_work(what: str) -> AbstractContextManager[object]:
    """How far the work in here is, unless the command was called with `--quiet`."""
    from scdp._parallel import WorkBar

    return nullcontext() if is_quiet() else WorkBar(what)


def say(message: str) -> None:
    """Say something on stderr, unless with `--quiet`."""
    if not is_quiet():
        tell(sentence(f"scdp: {message}"), error=True)


@contextmanager
def say_notes() -> Iterator[None]:
    """Say what the warnings of a block tell, each once, when the block has ended well."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for note in dict.fromkeys(str(each.message) for each in caught if issubclass(each.category, UserWarning)):
        say(f"note: {note}")


class Teller(logging.Handler):
    """Says on stderr what the package logs, as the command's own words; `--quiet` leaves only what is wrong."""

    def emit(self, record: logging.LogRecord) -> None:
        if not is_quiet() or record.levelno >= logging.WARNING:
            tell(sentence(f"scdp: {record.getMessage()}"), error=True)


# What is said by threads (of their stack), by the loader of libraries, by the system and by DuckDB.
LACK_OF_MEMORY = re.compile(
    r"can't start new thread|failed to map segment|\[Errno 12\]|^Out of Memory Error|std::bad_alloc"
)
# What a RuntimeError of DuckDB says where Ctrl-C is meant.
STOPPED = "Query interrupted"
UNEXPECTED = 1
INTERRUPTED = 130


class LazyGroup(click.Group):
    """`commands_by_name` maps a command's name to (its module, its line in the list of commands).

    The command is the module's attribute of the same name.
    """

    def __init__(self, *args: Any, commands_by_name: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.commands_by_name = commands_by_name

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands_by_name:
            return None
        command: click.Command = getattr(import_module(self.commands_by_name[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # click would import every command to ask for its help.
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.commands_by_name.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings(), _telling():
                warnings.showwarning = _show_warning
                if "--help" not in ctx.args:
                    require_libraries()
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            _leave(ctx, "scdp: interrupted", INTERRUPTED)
        except ScdpError as error:
            _leave(ctx, f"scdp: error: {error}", error.exit_code)
        except Exception as error:
            if str(error) == STOPPED:
                _leave(ctx, "scdp: interrupted", INTERRUPTED)
            if os.environ.get("SCDP_DEBUG") == "1":
                raise
            _leave(ctx, *_describe(error))


def _describe(error: Exception) -> tuple[str, int]:
    """The sentence for an error that was not made on purpose, and its exit code."""
    if isinstance(error, MemoryError) or LACK_OF_MEMORY.search(str(error)):
        what = "the memory is used up; free some, give fewer records, or allow the process more"
        return f"scdp: error: {what}", InputError.exit_code
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{error.filename}: "
        return f"scdp: error: {where}{error.strerror or error}; nothing was done", InputError.exit_code
    what = f"unexpected {type(error).__name__}: {error}"
    return f"scdp: error: {what} (set SCDP_DEBUG=1 to see where)", UNEXPECTED


@contextmanager
def _telling() -> Iterator[None]:
    """While a command runs, what the package logs is said on stderr."""
    logger, teller = logging.getLogger("scdp"), Teller()
    level = logger.level
    logger.addHandler(teller)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(teller)
        logger.setLevel(level)


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    tell(sentence(f"scdp: note: {message}"), error=True)


def _leave(ctx: click.Context, message: str, exit_code: int) -> NoReturn:
    _drop_what_cannot_be_printed()
    tell(sentence(message), error=True)
    ctx.exit(exit_code)


def _drop_what_cannot_be_printed() -> None:
    """Give up on a full disk behind standard output, or Python would fail once more when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


PARTS = ("fit", "predict")
# Of many records, the resolver keeps the components that are done.
SHARDS = "shards"


class RecordsType(click.Path):
    """A path, or a query of a database, whose slashes are encoded so that a path keeps them."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            from scdp.table.readers import is_address

            value = quote(value, safe=" :?=*(),'\"<>") if is_address(value) else value
        return super().convert(value, param, ctx)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`, for a command that takes it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")(command)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options, for a command that takes them as `reading`."""

    @wraps(command)
    def with_reading(*args: Any, delimiter: str | None, encoding: str | None, **kwargs: Any) -> Any:
        from scdp.table.readers import Reading

        return command(*args, reading=Reading(delimiter, encoding), **kwargs)

    for option in (
        click.option("--encoding", metavar="NAME", help="Encoding of text files, such as latin-1.  [default: guessed]"),
        click.option("--delimiter", metavar="C", help="Separator of text files; the word tab too.  [default: guessed]"),
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
                "--checkpoint", type=PATH, metavar="DIR",
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
    from scdp.io import FolderLock

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
    from scdp.chains import checkpoint_files
    from scdp.engines.local import shard_files

    return any(checkpoint_files(folder / part) for part in PARTS) or bool(shard_files(folder / SHARDS))


def _how_to_go_on(folder: Path, shown: Path, samples: bool) -> str:
    if _holds_any(folder):
        return f"{shown} keeps what was sampled; go on with the same command and --resume"
    if samples:
        return "nothing was sampled yet; the same command starts again"
    return "this model keeps no checkpoint; the same command starts again, and ends the same by its seed"


def _discard(folder: Path) -> None:
    from scdp import chains
    from scdp.engines import local

    for part in PARTS:
        chains.discard(folder / part)
    local.discard(folder / SHARDS)


def _remove_if_empty(folder: Path) -> None:
    for place in (*(folder / part for part in (*PARTS, SHARDS)), folder):
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()


COMMANDS = {
    "demo": ("scdp.cli.demo_commands", "Cluster an embedded example and write a report."),
    "fit": ("scdp.cli.fit_command", "Learn from records with known clusters."),
    "cluster": ("scdp.cli.cluster_commands", "Group records, by a fitted model or without one."),
    "link": ("scdp.cli.cluster_commands", "Link the records of two tables."),
    "update": ("scdp.cli.store_commands", "Put new records into a store of entities."),
    "lookup": ("scdp.cli.store_commands", "Say which entity of a store a record is."),
    "resolve": ("scdp.cli.store_commands", "Say what has become of an entity of a store."),
    "explain": ("scdp.cli.result_commands", "Say why two records are or are not together."),
    "estimate": ("scdp.cli.result_commands", "Say how good a kept result is, without gold clusters."),
    "compare": ("scdp.cli.result_commands", "Say what changed between two kept results."),
    "query": ("scdp.cli.result_commands", "Ask a question in SQL of a kept result, with intervals."),
    "label": ("scdp.cli.store_commands", "Answer questions about records that have no labels."),
    "review": ("scdp.cli.store_commands", "Look through a result and decide what is in doubt."),
    "evaluate": ("scdp.cli.result_commands", "Compare predicted clusters with gold clusters."),
    "reproduce": ("scdp.cli.demo_commands", "Run the paper's experiments and make its tables."),
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
