"""Export: a Posterior enters, plain arrays by group or an arviz object leave."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from scdp.errors import MissingExtraError

if TYPE_CHECKING:
    from scdp.posterior.posterior import Posterior


def to_dict(posterior: Posterior) -> dict[str, Any]:
    """Groups "posterior" and "sample_stats" of arrays (chain, draw, ...), with "coords" and "dims"."""
    traces = dict(posterior.traces)
    log_joint = traces.pop("log_joint", None)
    # The number of clusters is read from the draws, so it cannot contradict them.
    variables = {**traces, "n_clusters": posterior.n_clusters, "labels": posterior.draws}
    names = np.arange(posterior.n_items) if posterior.names is None else posterior.names
    return {
        "posterior": variables,
        "sample_stats": {} if log_joint is None else {"lp": log_joint},
        "coords": {"item": names},
        "dims": {"labels": ["item"]},
    }


def to_arviz(posterior: Posterior) -> Any:
    """What `arviz.from_dict` makes of the draws."""
    try:
        import arviz
    except ImportError:
        raise MissingExtraError("arviz", "arviz", "Exporting a posterior to arviz") from None
    parts = to_dict(posterior)
    groups = {name: parts[name] for name in ("posterior", "sample_stats") if parts[name]}
    layout = {"coords": parts["coords"], "dims": parts["dims"]}
    # Before version 1.0 groups were separate arguments; since then they come in one mapping.
    if "posterior" in inspect.signature(arviz.from_dict).parameters:
        return arviz.from_dict(**groups, **layout)
    return arviz.from_dict(groups, **layout)
