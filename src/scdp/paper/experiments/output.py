"""Files of a run: its parts enter; results.json, results.md, pictures and results.html leave, each whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scdp.errors import InputError
from scdp.paper.experiments import chapters, figures
from scdp.paper.experiments.curves import Fits
from scdp.paper.experiments.discussion import Remarks, claims_chapter, comparison_chapter, written_remarks
from scdp.paper.experiments.document import Block, Heading, Paragraph, to_html, to_markdown
from scdp.paper.experiments.figures import fit_tasks
from scdp.paper.experiments.results import Part, Parts, read_json, rows_of, write_atomically
from scdp.paper.experiments.systems import SYSTEMS, Settings
from scdp.paper.experiments.tasks import TASKS

TITLE = "The paper's tables, run again"
DETAILS = "Behind the paper's tables"


def write_results(
    parts: Sequence[Part],
    settings: Settings,
    out: Path,
    fits: Sequence[Fits] = (),
    failures: Sequence[str] = (),
) -> list[Path]:
    """Write what a run has found and return the files."""
    blocks = [
        *contents(parts, settings, out, fits),
        *details(parts),
        *chapters.failures_chapter(failures),
    ]
    names = ("results.json", "results.md", "results.html")
    texts = (
        json.dumps(rows_of(parts), indent=1) + "\n",
        to_markdown(blocks, out),
        to_html(blocks, TITLE),
    )
    if fits:
        write_atomically(out / "figure1.json", json.dumps([fit.as_dict() for fit in fits], indent=1) + "\n")
    for name, text in zip(names, texts, strict=True):
        write_atomically(out / name, text)
    return [out / name for name in names]


def contents(
    parts: Sequence[Part],
    settings: Settings,
    out: Path,
    fits: Sequence[Fits],
    remarks: Remarks | None = None,
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
    if not (run / "parts" / "settings.json").is_file():
        raise InputError(f"{run}: holds no run; make one with  scdp reproduce all --out {run}")
    given: dict[str, Any] = read_json(run / "parts" / "settings.json")
    settings = Settings(**given)
    parts = Parts(run, settings, resume=True).all()
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
    if len(arguments) != 2:
        print("usage: python -m scdp.paper.experiments.output RUN DOCS", file=sys.stderr)
        return 2
    try:
        print(write_page(Path(arguments[0]), Path(arguments[1])))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
