"""The exceptions a user can meet, each carrying one sentence that names the place and the fix."""

from __future__ import annotations


class ScdpError(Exception):
    """Base of every error scdp raises on purpose; the command line prints it and exits with `exit_code`."""

    exit_code = 1


class InputError(ScdpError, ValueError):
    """The user's input (a file, a label, an option) is wrong: nothing was written."""

    exit_code = 2


class NumericalError(ScdpError, ArithmeticError):
    """A number of a sampler is none any more: nothing was drawn from it, and its state is kept for a report."""


class UnitsWarning(UserWarning):
    """What is found hangs on the units of features: those of new rows are others, or they are far from the prior's."""


class DataNotFoundError(InputError):
    """A data set is not on this machine and could not be fetched."""


class MissingExtraError(ScdpError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: install it with  pip install 'scdp[{extra}]'")
