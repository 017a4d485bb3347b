"""Pictures of a run as PNG files: fitted curves or learned types enter, the bytes of a picture leave (matplotlib)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from scdp.errors import MissingExtraError
from scdp.paper.experiments.curves import Curve, Fits

MOST_TYPES = 8
DATA, DIRICHLET, PITMAN_YOR = "#1f5fbf", "#111111", "#c8501e"


def require_matplotlib() -> None:
    """Refuse at once what could only be refused after the work."""
    _pyplot()


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
    figure.legend(
        *axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
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
