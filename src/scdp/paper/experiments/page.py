"""`python -m scdp.paper.experiments.page RUN DOCS`: a finished run enters; docs/results.md and its pictures leave.

The page carries the commit its numbers came from, and the reasons of discussion.toml.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scdp.errors import InputError
from scdp.paper.experiments.discussion import written_remarks
from scdp.paper.experiments.document import Paragraph, to_markdown
from scdp.paper.experiments.figures import fit_tasks
from scdp.paper.experiments.output import contents
from scdp.paper.experiments.parts import Part, Parts, read_json, write_atomically
from scdp.paper.experiments.settings import Settings
from scdp.paper.experiments.tasks import TASKS


def write_page(run: Path, docs: Path) -> Path:
    """Write DOCS/results.md, with its pictures in DOCS/figures, from the parts of a run."""
    if not (run / "parts" / "settings.json").is_file():
        raise InputError(f"{run}: holds no run; make one with  scdp reproduce all --out {run}")
    given: dict[str, Any] = read_json(run / "parts" / "settings.json")
    settings = Settings(**given)
    parts = Parts(run, settings, resume=True).all()
    first, *rest = contents(parts, settings, docs, fit_tasks(settings), written_remarks())
    origin = Paragraph(
        "`make results` makes this page. Its numbers come from the code of "
        f"{origins(parts)}.{left_out(parts)} Each row says how many chains and sweeps it had."
    )
    write_atomically(docs / "results.md", to_markdown([first, origin, *rest], docs))
    return docs / "results.md"


def origins(parts: Sequence[Part]) -> str:
    """Every code that made a part: a resumed run may have seen several."""
    return ", ".join(sorted({str(part.get("origin", "an unknown commit")) for part in parts}))


def left_out(parts: Sequence[Part]) -> str:
    """The tasks a run has not come to, which a reader would not miss."""
    done = {part["task"] for part in parts}
    titles = [entry.title for task, entry in TASKS.items() if task not in done]
    return f" Not run yet: {'; '.join(titles)}." if titles else ""


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m scdp.paper.experiments.page RUN DOCS", file=sys.stderr)
        return 2
    try:
        print(write_page(Path(arguments[0]), Path(arguments[1])))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
