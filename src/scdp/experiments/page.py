"""`python -m scdp.experiments.page RUN DOCS`: a finished run enters; docs/results.md and its pictures leave.

The page carries the commit it came from, and what we make of the numbers.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from scdp.errors import InputError
from scdp.experiments.discussion import DISCUSSION
from scdp.experiments.document import Heading, Paragraph, to_markdown
from scdp.experiments.figures import fit_tasks
from scdp.experiments.output import contents
from scdp.experiments.parts import Parts, read_json, write_atomically
from scdp.experiments.settings import Settings


def write_page(run: Path, docs: Path) -> Path:
    """Write DOCS/results.md, with its pictures in DOCS/figures, from the parts of a run."""
    if not (run / "parts" / "settings.json").is_file():
        raise InputError(f"{run}: holds no run; make one with  scdp reproduce all --out {run}")
    given: dict[str, Any] = read_json(run / "parts" / "settings.json")
    settings = Settings(**given)
    parts = Parts(run, settings, resume=True).all()
    first, *rest = contents(parts, settings, docs, fit_tasks(settings))
    origin = Paragraph(f"Made by `make results` from commit `{commit_of(Path.cwd())}`.")
    told = [block for title, text in DISCUSSION for block in (Heading(title), Paragraph(text))]
    write_atomically(docs / "results.md", to_markdown([first, origin, *rest, *told], docs))
    return docs / "results.md"


def commit_of(folder: Path) -> str:
    """The commit checked out in a folder, marked where files differ from it."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    command = [git, "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m scdp.experiments.page RUN DOCS", file=sys.stderr)
        return 2
    try:
        print(write_page(Path(arguments[0]), Path(arguments[1])))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
