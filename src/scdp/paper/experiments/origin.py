"""Which code made a number: the commit of the source tree, or the version where the package was installed."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import scdp


@cache
def code_origin() -> str:
    """Asked once a process: the code that runs is the code that was imported."""
    root = Path(scdp.__file__).parents[2]
    # An installed package may lie inside somebody else's repository, whose commit says nothing.
    if (root / ".git").exists() and (commit := commit_of(root)):
        return f"commit {commit}"
    return f"version {scdp.__version__}"


def commit_of(folder: Path) -> str:
    """The commit checked out in a folder, marked where files differ from it; empty without git."""
    git = shutil.which("git")
    if git is None:
        return ""
    command = [git, "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
