"""Pages about a run: its parts enter; pages with pictures leave, each whole.

python -m benchmarks.paper_page.output RUN [DOCS]      (page.md and page.html in RUN, or tables.md and more in DOCS)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.paper_page import chapters, figures
from benchmarks.paper_page.curves import Fits
from benchmarks.paper_page.discussion import Remarks, claims_chapter, comparison_chapter, written_remarks
from benchmarks.paper_page.document import Block, Heading, Paragraph, to_html, to_markdown
from benchmarks.paper_page.figures import fit_tasks
from scdp.errors import InputError
from scdp.paper.results import Part, Parts, read_json, rows_of, write_atomically
from scdp.paper.systems import SYSTEMS, Settings
from scdp.paper.tasks import TASKS

TITLE = "The paper's tables, run again"
DETAILS = "Behind the paper's tables"


def write_run_page(run: Path) -> list[Path]:
    """Write page.md and page.html, with pictures in RUN/figures, beside the results of a run; the files leave."""
    parts, settings = read_run(run)
    return write_pages(parts, settings, run, fit_tasks(settings))


def write_pages(parts: Sequence[Part], settings: Settings, out: Path, fits: Sequence[Fits] = ()) -> list[Path]:
    """The same of parts, with the curves of Figure 1 where they are given."""
    blocks = [*contents(parts, settings, out, fits), *details(parts)]
    if fits:
        write_atomically(out / "figure1.json", json.dumps([fit.as_dict() for fit in fits], indent=1) + "\n")
    write_atomically(out / "page.md", to_markdown(blocks, out))
    write_atomically(out / "page.html", to_html(blocks, TITLE))
    return [out / "page.md", out / "page.html"]


def read_run(run: Path) -> tuple[list[Part], Settings]:
    """The finished parts of a run, and its settings."""
    if not (run / "parts" / "settings.json").is_file():
        raise InputError(f"{run}: holds no run; make one with  scdp reproduce all --out {run}")
    given: dict[str, Any] = read_json(run / "parts" / "settings.json")
    settings = Settings(**given)
    return Parts(run, settings, resume=True).all(), settings


def contents(
    parts: Sequence[Part], settings: Settings, out: Path, fits: Sequence[Fits], remarks: Remarks | None = None
) -> list[Block]:
    """Every chapter that these parts fill, with reasons for what differs from the paper where there are remarks."""
    rows = rows_of(parts)
    blocks = chapters.opening(TITLE, settings)
    if rows:
        blocks += [*chapters.reading(), *chapters.summary_chapter(rows)]
    for task in TASKS:
        blocks += chapters.task_chapter(task, rows)
    blocks += chapters.authors_chapter(rows)
    blocks += [*comparison_chapter(rows, remarks), *claims_chapter(rows)]
    blocks += chapters.speed_chapter(rows)
    blocks += figures.or_what_is_missing(figures.types_chapter, parts, out)
    if fits:
        blocks += figures.or_what_is_missing(figures.figure1_chapter, fits, out)
    return blocks


def details(parts: Sequence[Part]) -> list[Block]:
    """What stands behind the tables: draws, starts, edit distances with free merges, notes."""
    rows = rows_of(parts)
    return [block for task in TASKS for block in chapters.details_chapter(task, rows)]


def write_page(run: Path, docs: Path) -> Path:
    """Write DOCS/tables.md and tables_draws.md, with pictures in DOCS/figures, from the parts of a run."""
    parts, settings = read_run(run)
    first, *rest = contents(parts, settings, docs, fit_tasks(settings), written_remarks())
    origin = Paragraph(
        "`make results` makes this page. Its numbers come from the code of "
        f"{origins(parts)}.{left_out(parts)} Each row says how many chains and sweeps it had. What follows from "
        "these numbers, and why, is in [what was found](results.md); draws, chains by their start, edit distances with "
        "free merges and notes are in [behind the tables](tables_draws.md)."
    )
    behind = [Heading(DETAILS, 1), Paragraph("Of the same run as [the tables](tables.md)."), *details(parts)]
    write_atomically(docs / "tables_draws.md", to_markdown(behind, docs))
    write_atomically(docs / "tables.md", to_markdown([first, origin, *rest], docs))
    return docs / "tables.md"


def origins(parts: Sequence[Part]) -> str:
    """Every code that made a part: a resumed run may have seen several."""
    return ", ".join(sorted({str(part.get("origin", "an unknown commit")) for part in parts}))


def left_out(parts: Sequence[Part]) -> str:
    """The tasks, and the systems on a task, that a run has not come to, which a reader would not miss."""
    done = {(part["task"], part["system"]) for part in parts}
    tasks = {task for task, _ in done}
    titles = [entry.title for task, entry in TASKS.items() if task not in tasks]
    titles += [
        f"{system.title} on {TASKS[task].title.lower()}"
        for task in TASKS
        for system in SYSTEMS.values()
        if task in tasks and system.applies_to(task) and (task, system.name) not in done
    ]
    return f" Not run yet: {'; '.join(titles)}." if titles else ""


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2):
        print("usage: python -m benchmarks.paper_page.output RUN [DOCS]", file=sys.stderr)
        return 2
    run, *docs = map(Path, arguments)
    try:
        for path in [write_page(run, docs[0])] if docs else write_run_page(run):
            print(path)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
