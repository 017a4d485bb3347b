"""Chapters with pictures: tasks or parts enter; Figure 1 and the reference types leave, as files and their captions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scdp.errors import MissingExtraError
from scdp.paper.experiments import pictures
from scdp.paper.experiments.chapters import score
from scdp.paper.experiments.curves import Fits, fit_priors
from scdp.paper.experiments.document import Block, Figure, Heading, Paragraph, Table
from scdp.paper.experiments.parts import Part, write_bytes_atomically
from scdp.paper.experiments.settings import Settings
from scdp.paper.experiments.systems import SYSTEMS
from scdp.paper.experiments.tasks import TASKS, load_problem

LONGEST_EXAMPLE = 160
# Types rarer than this are not shown: chains always hold a few that were opened a sweep ago.
SMALLEST_SHARE = 0.005
# A curve that leaves the band of the prior for more than the rest of this is called outside of it.
MOSTLY = 0.9
FIT_COLUMNS = (
    "data",
    "items",
    "clusters",
    "log P: DP, alpha of the paper",
    "DP, likeliest",
    "Pitman-Yor",
    "gap: DP",
    "gap: Pitman-Yor",
    "within 2 sd: DP",
    "within 2 sd: Pitman-Yor",
    "better",
)


def fit_tasks(settings: Settings) -> list[Fits]:
    """Both priors fitted to all clusters, training and test, of each of the four tasks."""
    return [_fit_task(name, settings) for name in TASKS if not TASKS[name].extra]


def _fit_task(name: str, settings: Settings) -> Fits:
    task = load_problem(name, settings.seed).task
    clusters = [*map(str, task.train.clusters), *map(str, task.test.clusters)]
    sizes = np.unique(clusters, return_counts=True)[1].astype(np.int64)
    return fit_priors(TASKS[name].title, sizes, np.random.default_rng(settings.seed_of("figure1", name)))


def figure1_chapter(fits: Sequence[Fits], out: Path) -> list[Block]:
    """Figure 1 with the table of scores; writes figures/figure1.png."""
    path = out / "figures" / "figure1.png"
    write_bytes_atomically(path, pictures.clusters_by_items(fits))
    return [
        Heading("Is a Dirichlet process the right prior? (Figure 1)"),
        Figure(
            path,
            "Expected number of clusters by number of items, with two standard deviations. Alpha has its posterior "
            "mean given the numbers of items and clusters under the Gamma(1, 1) prior; Pitman-Yor has its "
            "likeliest parameters; the data are resampled without replacement in random orders.",
        ),
        Paragraph(
            "Scores: the log probability of the partition per item, in nats, and the root mean square gap between "
            "the expected curve and that of the data, in clusters. Pitman-Yor is called better where its "
            "likelihood beats that of the likeliest Dirichlet process by more than its second parameter costs "
            "(one nat, Akaike's rule). Within 2 sd is the share of the numbers of items at which the data lie within "
            "two standard deviations of the prior. The documents of the coreference task are pooled. Where the "
            "likeliest discount d is 0, the curve of Pitman-Yor is that of the likeliest Dirichlet process, and what "
            "parts it from the black one is the Gamma(1, 1) prior on alpha, which pulls large alphas down."
        ),
        Paragraph(_against_the_paper(fits)),
        Table(FIT_COLUMNS, tuple(map(_fit_row, fits)), words=(0, len(FIT_COLUMNS) - 1)),
    ]


def _against_the_paper(fits: Sequence[Fits]) -> str:
    outside = [fit.title for fit in fits if fit.shares_within[0] < MOSTLY]
    better = [fit.title for fit in fits if fit.winner == "Pitman-Yor"]
    return (
        "The paper finds the Dirichlet process an excellent match on all sets but the digits, and there within two "
        f"standard deviations. Here the data are outside of these for more than {1 - MOSTLY:.0%} of the curve on: "
        f"{_listed(outside)}. It expects a better fit of Pitman-Yor; here that is so on: {_listed(better)}."
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"


def _fit_row(fits: Fits) -> tuple[str, ...]:
    total = int(fits.sizes.sum())
    logs = (score(value / total) for value in fits.log_probabilities)
    gaps = (f"{gap:.1f}" for gap in fits.gaps)
    within = (f"{share:.0%}" for share in fits.shares_within)
    return fits.title, str(total), str(len(fits.sizes)), *logs, *gaps, *within, fits.winner


def types_chapter(parts: Sequence[Part], out: Path) -> list[Block]:
    """For each task the types of the model with the best F: heat map and two records of each."""
    blocks: list[Block] = []
    for task in TASKS:
        typed = [part for part in parts if part["task"] == task and part["types"] and not part["repeat"]]
        if typed:
            best = max(typed, key=lambda part: float(part["metrics"]["f"]))
            blocks += _types(task, best, out)
    return [Heading("What the reference types weigh"), *blocks] if blocks else []


def _types(task: str, part: Part, out: Path) -> list[Block]:
    shown = common_types(part["types"])
    title = f"{TASKS[task].title}: types of {SYSTEMS[part['system']].title}"
    path = out / "figures" / f"types-{task}.png"
    write_bytes_atomically(path, pictures.reference_types(shown, title))
    rest = len(part["types"]["share"]) - len(shown["share"])
    caption = (
        f"{title}, the model with the best test F, at the end of its chain with the greatest log joint. "
        "A high precision means that records of this type agree with their cluster in this feature."
        + (f" Rarer types that are not shown: {rest}." if rest else "")
    )
    rows = tuple(
        (f"{place + 1}", f"{share:.1%}", *_two([shorten(text) for text in examples]))
        for place, (share, examples) in enumerate(zip(shown["share"], shown["examples"], strict=True))
    )
    return [
        Heading(title, 3),
        Figure(path, caption),
        Table(("type", "share", "a record", "another"), rows, words=(0, 2, 3)),
    ]


def common_types(types: dict[str, Any]) -> dict[str, Any]:
    """The types with a share worth showing, at most as many as fit a picture; they come largest first."""
    n = max(1, sum(share >= SMALLEST_SHARE for share in types["share"][: pictures.MOST_TYPES]))
    return {name: values if name == "features" else values[:n] for name, values in types.items()}


def _two(texts: list[str]) -> tuple[str, str]:
    return texts[0], texts[1] if len(texts) > 1 else ""


def shorten(text: str) -> str:
    return text if len(text) <= LONGEST_EXAMPLE else text[: LONGEST_EXAMPLE - 1].rstrip() + "…"


def or_what_is_missing(make: Any, *arguments: Any) -> list[Block]:
    """The chapter, or a sentence where pictures cannot be drawn: numbers do not wait for matplotlib."""
    try:
        return list(make(*arguments))
    except MissingExtraError as error:
        return [Paragraph(f"A picture is left out: {error}")]
