"""Files of a run: its parts enter; results.json, results.md, pictures and results.html leave, each whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from scdp.paper.experiments import chapters, figures
from scdp.paper.experiments.claims import claims_chapter
from scdp.paper.experiments.curves import Fits
from scdp.paper.experiments.discussion import Remarks, comparison_chapter
from scdp.paper.experiments.document import Block, to_html, to_markdown
from scdp.paper.experiments.parts import Part, write_atomically
from scdp.paper.experiments.results import rows_of
from scdp.paper.experiments.settings import Settings
from scdp.paper.experiments.tasks import TASKS

TITLE = "The paper's experiments"


def write_results(
    parts: Sequence[Part],
    settings: Settings,
    out: Path,
    fits: Sequence[Fits] = (),
    failures: Sequence[str] = (),
) -> list[Path]:
    """Write what a run has found and return the files."""
    blocks = [*contents(parts, settings, out, fits), *chapters.failures_chapter(failures)]
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
