"""A click group that knows its commands by name and a line of help, imports them on use and reports errors.

An error made on purpose leaves as one line and its exit code, one of files or memory as one line and exit code 2;
any other one as one line and exit code 1.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

import click

from scdp.cli.terminal import Teller, sentence, tell
from scdp.errors import InputError, ScdpError

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
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            _leave(ctx, "scdp: interrupted", INTERRUPTED)
        except ScdpError as error:
            _leave(ctx, f"scdp: error: {error}", error.exit_code)
        except Exception as error:
            if os.environ.get("SCDP_DEBUG") == "1":
                raise
            _leave(ctx, *_describe(error))


def _describe(error: Exception) -> tuple[str, int]:
    """The sentence for an error that was not made on purpose, and its exit code."""
    # A thread that cannot be started lacks memory for its stack.
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
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
