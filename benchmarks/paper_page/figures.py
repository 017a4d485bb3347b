"""Chapters with pictures: tasks or parts enter; Figure 1 and the reference types leave, as files and their captions."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper_page.chapters import score
from benchmarks.paper_page.curves import Curve, Fits, fit_priors
from benchmarks.paper_page.document import Block, Figure, Heading, Paragraph, TextTable
from scdp.errors import MissingExtraError
from scdp.io.atomic import write_bytes
from scdp.paper.results import Part
from scdp.paper.systems import SYSTEMS, Settings
from scdp.paper.tasks import TASKS, load_problem

MOST_TYPES = 8
DATA, DIRICHLET, PITMAN_YOR = "#1f5fbf", "#111111", "#c8501e"


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots", "a picture") from error
    # No window and no display: pictures are only written.
    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def _png(figure: Any) -> bytes:
    content = io.BytesIO()
    # Without a date and a version in it the same numbers give the same file.
    figure.savefig(content, format="png", dpi=150, metadata={"Software": None})
    _pyplot().close(figure)
    return content.getvalue()


def clusters_by_items(fits: Sequence[Fits]) -> bytes:
    """Figure 1: for each data set the expected number of clusters of both priors and of the data, with two sd."""
    columns = min(len(fits), 2)
    rows = -(-len(fits) // columns)
    figure, axes = _pyplot().subplots(
        rows, columns, figsize=(5.2 * columns, 3.7 * rows), squeeze=False, layout="constrained"
    )
    for place, axis in enumerate(axes.flat):
        if place < len(fits):
            _draw_fits(axis, fits[place])
        else:
            axis.set_visible(False)
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return _png(figure)


def _draw_fits(axis: Any, fits: Fits) -> None:
    _draw_curve(axis, fits.n, fits.dirichlet, DIRICHLET, "-", ":", "Dirichlet process")
    _draw_curve(axis, fits.n, fits.pitman_yor, PITMAN_YOR, "-", (0, (1, 3)), "Pitman-Yor")
    _draw_curve(axis, fits.n, fits.data, DATA, "--", "-.", "data, resampled")
    axis.set_title(fits.title, fontsize=11)
    axis.set_xlabel("items")
    axis.set_ylabel("clusters")
    axis.set_xlim(0, fits.n[-1])
    axis.set_ylim(bottom=0)
    text = (
        rf"$\alpha$ = {fits.concentration:.3g};  $\theta$ = {fits.strength:.3g}, d = {fits.discount:.2f}"
        f"\nbetter: {fits.winner}"
    )
    axis.text(0.97, 0.04, text, transform=axis.transAxes, ha="right", va="bottom", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_curve(axis: Any, n: Any, curve: Curve, color: str, line: Any, edge: Any, label: str) -> None:
    axis.plot(n, curve.mean, color=color, linestyle=line, linewidth=1.8, label=f"{label} (and two sd)")
    for side in (-2, 2):
        bound = np.maximum(curve.mean + side * curve.deviation, 0)
        axis.plot(n, bound, color=color, linestyle=edge, linewidth=1.0)


def reference_types(types: dict[str, Any], title: str) -> bytes:
    """What each learned type weighs: a heat map of log precisions by feature, with the type's share of records."""
    precision = np.log10(np.array(types["precision"])[:MOST_TYPES])
    names = [f"type {place + 1}: {share:.0%}" for place, share in enumerate(types["share"][:MOST_TYPES])]
    if is_image(types["features"]):
        return _image_types(precision, names, title)
    figure, axis = _pyplot().subplots(
        figsize=(2.6 + 0.95 * precision.shape[1], 2.1 + 0.42 * len(names)), layout="constrained"
    )
    picture = axis.imshow(precision, cmap="viridis", aspect="auto")
    _write_values(axis, precision, picture)
    axis.set_xticks(range(len(types["features"])), types["features"], rotation=30, ha="right", fontsize=9)
    axis.set_yticks(range(len(names)), names, fontsize=9)
    axis.set_title(title, fontsize=11)
    figure.colorbar(picture, ax=axis, label="log10 precision")
    return _png(figure)


def is_image(features: Sequence[str]) -> bool:
    """Whether the features are the pixels of a square image."""
    return all(name.startswith("pixel ") for name in features)


def _write_values(axis: Any, values: Any, picture: Any) -> None:
    middle = (picture.norm.vmin + picture.norm.vmax) / 2
    for row, column in np.ndindex(values.shape):
        color = "black" if values[row, column] > middle else "white"
        # Adding zero turns -0.0 into 0.0.
        text = f"{round(values[row, column], 1) + 0.0:.1f}"
        axis.text(column, row, text, ha="center", va="center", color=color, fontsize=8)


def _image_types(precision: Any, names: Sequence[str], title: str) -> bytes:
    side = round(precision.shape[1] ** 0.5)
    figure, axes = _pyplot().subplots(
        1, len(names), figsize=(1.7 * len(names) + 1.2, 2.6), squeeze=False, layout="constrained"
    )
    low, high = precision.min(), precision.max()
    for axis, row, name in zip(axes.flat, precision, names, strict=True):
        picture = axis.imshow(row.reshape(side, side), cmap="viridis", vmin=low, vmax=high)
        axis.set_title(name, fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.suptitle(title, fontsize=11)
    figure.colorbar(picture, ax=axes, label="log10 precision", shrink=0.7)
    return _png(figure)


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
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, clusters_by_items(fits))
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
        TextTable(FIT_COLUMNS, tuple(map(_fit_row, fits)), words=(0, len(FIT_COLUMNS) - 1)),
    ]


def _against_the_paper(fits: Sequence[Fits]) -> str:
    outside = [fit.title for fit in fits if fit.shares_within[0] < MOSTLY]
    better = [fit.title for fit in fits if fit.winner == "Pitman-Yor"]
    return (
        "The paper finds the Dirichlet process an excellent match on all sets but the digits, and there within two "
        f"standard deviations. Here the data are outside of these for more than {1 - MOSTLY:.0%} of the curve on: "
        f"{_list_names(outside)}. It expects a better fit of Pitman-Yor; here that is so on: {_list_names(better)}."
    )


def _list_names(names: Sequence[str]) -> str:
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
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, reference_types(shown, title))
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
        TextTable(("type", "share", "a record", "another"), rows, words=(0, 2, 3)),
    ]


def common_types(types: dict[str, Any]) -> dict[str, Any]:
    """The types with a share worth showing, at most as many as fit a picture; they come largest first."""
    n = max(1, sum(share >= SMALLEST_SHARE for share in types["share"][:MOST_TYPES]))
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
