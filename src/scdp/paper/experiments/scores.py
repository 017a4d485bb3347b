"""Scores of one finished part: clusters of test items and their gold enter, a dict for JSON leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp import metrics
from scdp.paper.experiments.paper import METRICS
from scdp.paper.experiments.protocol import Outcome
from scdp.paper.experiments.tasks import Problem

MORE_METRICS = ("ari", "b3", "nmi")


def scored(outcome: Outcome, problem: Problem) -> dict[str, Any]:
    """The metrics of the point estimate, and of the draws where there are any; only test items count."""
    gold = problem.task.test.clusters
    found = metrics.evaluate(outcome.labels, gold)
    return {
        "metrics": {name: found[name] for name in METRICS},
        "more_metrics": {name: found[name] for name in MORE_METRICS},
        "clusters": n_clusters(outcome.labels),
        "gold_clusters": problem.task.test.n_clusters,
        "items": len(gold),
        "draws": None if outcome.draws is None else score_draws(outcome.draws, gold),
        "chains": outcome.chains,
        "sweeps": outcome.sweeps,
        "sweep_seconds": outcome.sweep_seconds,
        "types": outcome.types,
        "note": outcome.note,
        "data": problem.task.note,
    }


def n_clusters(labels: NDArray[Any]) -> int:
    return len(set(labels.tolist()))


def score_draws(draws: NDArray[Any], gold: NDArray[Any]) -> dict[str, Any]:
    """The mean over draws, and the standard deviation over chains of the chains' means (None for one chain)."""
    by_chain = [_mean_scores(chain, gold) for chain in draws]
    names = (*METRICS, "clusters")
    table = np.array([[scores[name] for name in names] for scores in by_chain])
    mean = dict(zip(names, table.mean(axis=0).tolist(), strict=True))
    several = len(table) > 1
    spread = dict(zip(names, table.std(axis=0, ddof=1).tolist(), strict=True)) if several else None
    return {
        "clusters": mean.pop("clusters"),
        "clusters_spread": spread.pop("clusters") if spread else None,
        "mean": mean,
        "spread": spread,
        "scored": int(draws.shape[0] * draws.shape[1]),
    }


def _mean_scores(chain: NDArray[Any], gold: NDArray[Any]) -> dict[str, float]:
    scores = [{**metrics.evaluate(draw, gold), "clusters": n_clusters(draw)} for draw in chain]
    return {name: float(np.mean([score[name] for score in scores])) for name in (*METRICS, "clusters")}
