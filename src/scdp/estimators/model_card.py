"""The card of a model: what was fitted enters; a page leaves that says what it is, what it learned, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scdp import __version__
from scdp.estimators.result import FEW, Calibration, Learned

if TYPE_CHECKING:
    from scdp.estimators.base import Estimator

MEANING = {
    "resolver": "the resolver: evidence of pairs, and the law of a partition, learned from known groups",
    "cdp": "the paper's Dirichlet process mixture without reference types",
    "scdp1": "the paper's first supervised model, with reference types",
    "scdp2": "the paper's second supervised model, with reference types",
    "scdp3": "the paper's third supervised model, with reference types",
}
KINDS = {
    "spec.toml": "how records are compared",
    "records.jsonl": "the compared columns of training records, where they are kept",
    "model.json": "settings, and what was learned",
    "arrays.npz": "numbers",
    "posterior.npz": "draws of fit",
}


def write_card(model: Estimator, settings: Mapping[str, Any], files: list[str]) -> str:
    """The page, in Markdown.

    Parameters
    ----------
    model
        A fitted estimator.
    settings
        Its arguments, as they are stored.
    files
        The names of the other files of the folder.

    Returns
    -------
    str
    """
    learned = model.fitted_.learned()
    parts = [
        f"# Model card\n\nscdp {__version__} made this model: {MEANING[model.model]}.\nIt groups records "
        "that are the same thing, and says how sure it is.\n",
        _training(learned),
        _features(learned),
        _held_out(learned.calibration),
        _limits(learned),
        _contents(files, len(model.fitted_.rows)),
        "## Settings\n\n" + "".join(f"- `{name}`: {value!r}\n" for name, value in settings.items()),
    ]
    return "\n".join(parts)


def _training(learned: Learned) -> str:
    lines = ["## Learned from\n"]
    if not learned.n_records:
        return "\n".join([*lines, "No labels. It starts from what such columns usually tell.\n"])
    lines.append(f"- labelled records: {learned.n_records:,}")
    lines.append(f"- groups they are in: {learned.n_clusters:,}")
    if learned.n_repeated is not None:
        lines.append(f"- groups of two records or more: {learned.n_repeated:,}")
    return "\n".join(lines) + "\n"


def _features(learned: Learned) -> str:
    """What is compared, and how much hangs on each."""
    if learned.model != "resolver" or learned.weights is None:
        return "## Compared\n\n" + "".join(f"- {_plain(name)}\n" for name in learned.features)
    weights = learned.weights[0]
    rows = [
        f"| {_plain(learned.features[k])} | {weights[k]:.2f} |" for k in np.argsort(-weights, kind="stable")
    ]
    head = "## Compared\n\nThe second column is the mean change of the evidence, in nats, if the first were missing.\n"
    return "\n".join([head, "| comparison | nats |", "|---|---|", *rows]) + "\n"


def _plain(name: str) -> str:
    """A name of a column as a cell of a table: on one line, and with no mark that ends the cell or opens a tag."""
    shown = "".join(character if character.isprintable() else " " for character in name)
    return shown.replace("|", "\\|").replace("<", "&lt;")


def _held_out(calibration: Calibration | None) -> str:
    head = "## On groups that were held out\n\n"
    if calibration is None or not calibration.count.sum():
        return head + "Nothing was held out, so nothing was measured.\n"
    full = np.flatnonzero(calibration.count)
    share = calibration.count[full] / calibration.count.sum()
    error = float((share * np.abs(calibration.predicted[full] - calibration.observed[full])).sum())
    rows = [
        f"| {calibration.edges[b]:.1f} to {calibration.edges[b + 1]:.1f} | {calibration.count[b]:,} | "
        f"{calibration.predicted[b]:.3f} | {calibration.observed[b]:.3f} |"
        for b in full
    ]
    told = f"\nProbability and share differ by {error:.4f} in the mean over pairs.\n"
    table = ["| probability | pairs | mean probability | share together |", "|---|---|---|---|", *rows]
    return head + "\n".join(table) + "\n" + told


def _limits(learned: Learned) -> str:
    lines = ["## Limits\n", "- It is for tables of the same kind as the one it learned from."]
    lines.append("- A mistake in the labels is learned like a fact.")
    if learned.n_repeated is not None and learned.n_repeated < FEW:
        lines.append(f"- Few groups taught it: fewer than {FEW} have two records or more.")
    lines.append("- Every result has a verdict of its own. Read it before you use the result.")
    lines.append(
        "- Do not use it alone for decisions about people: ask for a second look at what is uncertain."
    )
    return "\n".join(lines) + "\n"


def _contents(files: list[str], n_rows: int) -> str:
    lines = ["## What the folder holds\n", *(f"- `{name}`: {KINDS[name]}" for name in files)]
    if n_rows:
        lines.append(
            f"\nIt holds {n_rows:,} training records. Pass it on only if you may pass on the records."
        )
    else:
        lines.append("\nIt holds no training records, but the names of columns and how values are spread.")
    return "\n".join([*lines, "No file holds code.\n"])
