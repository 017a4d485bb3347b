"""The one place where the digests touch the package: settings and rows enter, draws and labels leave.

Where a public name changes, this file changes, and the digests do not.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

from digests.rows import Rows
from scdp import SCDP, EntityResolver, compare
from scdp.table.spec import Spec

Results = dict[str, np.ndarray]
# Baselines that are told the true number of clusters.
ORACLES = ("OracleKMeans", "XingK")


def run_chains(model: str, rows: Rows, new: Rows | None, settings: dict[str, Any]) -> Results:
    """Fit one of the paper's models, and cluster new rows with it."""
    return _fit_and_predict(SCDP(model, random_state=0, **_described(rows), **settings), rows, new)


def run_resolver(rows: Rows, new: Rows | None, settings: dict[str, Any], candidates: bool = False) -> Results:
    """The same with the resolver; with `candidates` it compares candidate pairs only."""
    settings = {"n_draws": 12, "n_chains": 2} | settings
    with _few_pairs_allowed() if candidates else nullcontext():
        return _fit_and_predict(EntityResolver(random_state=0, **_described(rows), **settings), rows, new)


def run_on_spark(rows: Rows, new: Rows, session: Any) -> Results:
    """The resolver's candidates and draws, made on Spark; they equal those of one machine."""
    from scdp.engines import SparkEngine

    return run_resolver(rows, new, {"engine": SparkEngine(session), "boosted": False}, candidates=True)


def run_baseline(name: str, rows: Rows, new: Rows, settings: dict[str, Any]) -> Results:
    """Fit a baseline of the paper, and cluster new rows with it."""
    from scdp.paper import baselines

    baseline = getattr(baselines, name)(**settings)
    told = {"gold": new.clusters} if name in ORACLES else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"new labels": baseline.fit(rows.values, rows.clusters).predict(new.values, **told)}


def _described(rows: Rows) -> dict[str, Any]:
    if rows.kind == "records":
        return {
            "spec": Spec("entity", (compare.edit("name"), compare.jaro_winkler("street"), compare.absolute("year")))
        }
    return {"metric": "precomputed"} if rows.kind == "distances" else {}


def _fit_and_predict(model: Any, rows: Rows, new: Rows | None) -> Results:
    with warnings.catch_warnings():
        # Chains this short have not converged.
        warnings.simplefilter("ignore")
        model.fit(rows.values, rows.known, groups=rows.groups)
        results = {"draws": model.posterior_.draws, "labels": model.labels_}
        if new is not None:
            labels, posterior = model.predict_with_posterior(new.values, groups=new.groups, known=new.known)
            results |= {"new draws": posterior.draws, "new labels": labels}
    return results


@contextmanager
def _few_pairs_allowed() -> Iterator[None]:
    """Take a few hundred records for more than can all be compared with each other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scdp.resolver_fit.MOST_PAIRS", 1_000)
        patch.setattr("scdp.engines.candidates.MOST_CANDIDATES", 500)
        patch.setattr("scdp.linkage.prefilter.MOST_UNFILTERED", 500)
        yield
