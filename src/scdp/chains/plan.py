"""What a sweep is asked to do, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class Plan:
    """Which scheme, what is learned, and how many split-merge moves are tried.

    With `conditioning` (SCDP-3) the means are part of the state. New clusters are then weighed by `n_auxiliary`
    means, drawn given the item (`informed`) or from the prior; with `paper_moves` new types are weighed by as many
    precisions from the prior, and means are chosen among `n_candidates` draws from the prior and the current one.
    """

    scheme: Literal["collapsed", "paper"] = "collapsed"
    learn_types: bool = True
    learn_concentrations: bool = True
    learn_mean_variance: bool = False
    separation: bool = False
    split_merge_attempts: int = 5
    conditioning: Literal["published", "normalized", "mean"] | None = None
    n_auxiliary: int = 8
    informed: bool = True
    paper_moves: bool = False
    n_candidates: int = 8
    learn_separation_rate: bool = False


class Info(NamedTuple):
    """What a sweep reports for diagnostics; no later step reads it."""

    moved_clusters: int
    accepted_split_merges: int
    moved_types: int
    opened_clusters: int = 0
    improper_means: int = 0
    negative_norms: int = 0
