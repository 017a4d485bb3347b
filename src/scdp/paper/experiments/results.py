"""Rows of results.json: the finished parts of a run enter, one row a task and system leaves, in the tables' order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scdp.paper.experiments.paper import METRICS, published
from scdp.paper.experiments.parts import Part
from scdp.paper.experiments.systems import SYSTEMS, System
from scdp.paper.experiments.tasks import TASKS

Row = dict[str, Any]


def rows_of(parts: Sequence[Part]) -> list[Row]:
    """One row for each task and system that has a finished repeat."""
    rows = []
    for task in TASKS:
        for name, system in SYSTEMS.items():
            repeats = [part for part in parts if part["task"] == task and part["system"] == name]
            if repeats:
                rows.append(_row(task, system, sorted(repeats, key=lambda part: part["repeat"])))
    return rows


def _row(task: str, system: System, repeats: list[Part]) -> Row:
    first = repeats[0]
    return {
        "task": task,
        "system": system.name,
        "title": system.title,
        "metrics": _means(part["metrics"] for part in repeats),
        "paper": published(task, system.name),
        "clusters": _mean(part["clusters"] for part in repeats),
        "gold_clusters": _mean(part["gold_clusters"] for part in repeats),
        "items": _mean(part["items"] for part in repeats),
        "seconds": _mean(part["seconds"] for part in repeats),
        "chains": first["chains"],
        "sweeps": first["sweeps"],
        "repeats": len(repeats),
        "standard_error": _standard_errors([part["metrics"] for part in repeats]),
        "more_metrics": _means(part["more_metrics"] for part in repeats),
        "draws": _draws([part["draws"] for part in repeats if part["draws"]]),
        "sweep_seconds": _mean_or_none(part["sweep_seconds"] for part in repeats),
        "oracle": system.oracle,
        "note": " ".join(dict.fromkeys(filter(None, (system.note, *(part["note"] for part in repeats))))),
        "data": first["data"],
        "stands_in": TASKS[task].stands_in,
    }


def _mean(values: Iterable[float]) -> float | int:
    """The mean, whole where it is."""
    mean = float(np.mean(list(values)))
    return int(mean) if mean.is_integer() else mean


def _mean_or_none(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _means(scores: Iterable[dict[str, float]]) -> dict[str, float]:
    table = list(scores)
    return {name: float(np.mean([row[name] for row in table])) for name in table[0]}


def _standard_errors(scores: list[dict[str, float]]) -> dict[str, float] | None:
    if len(scores) < 2:
        return None
    root = len(scores) ** 0.5
    return {name: float(np.std([row[name] for row in scores], ddof=1)) / root for name in METRICS}


def _draws(draws: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not draws:
        return None
    spreads = [each["spread"] for each in draws if each["spread"]]
    return {
        "mean": _means(each["mean"] for each in draws),
        "spread": _means(spreads) if spreads else None,
        "clusters": float(np.mean([each["clusters"] for each in draws])),
        "clusters_spread": _mean_or_none(each["clusters_spread"] for each in draws),
        "scored": sum(each["scored"] for each in draws),
    }
