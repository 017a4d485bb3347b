"""Verdicts in words: diagnostics of chains or a calibration enter; a sentence and whether it is a good one leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scdp.estimators.result import Calibration
    from scdp.posterior import Diagnostic, Posterior

THRESHOLD = 1.05
# A bin of fewer pairs says little, and a share of them this far from the prediction is called off.
FEWEST_PAIRS = 20
LARGEST_GAP = 0.1

Verdict = tuple[str, bool]


def judge_chains(posterior: Posterior, rows: list[Diagnostic]) -> Verdict:
    """Whether the chains agree, and if not, what to do."""
    from scdp.posterior.diagnostics import describe_convergence

    problem = describe_convergence(rows, posterior.n_chains, posterior.n_draws, THRESHOLD)
    if problem is not None:
        return problem, False
    worst = max((row.rhat for row in rows if not np.isnan(row.rhat)), default=1.0)
    halves = "the two halves of the chain" if posterior.n_chains == 1 else f"the {posterior.n_chains} chains"
    words = f"Converged as far as can be told: {halves} agree (the largest R-hat is {worst:.2f}, 1 is best)."
    if posterior.n_chains == 1:
        return f"{words} Several chains (n_chains) would tell more.", True
    return words, True


def judge_independent(posterior: Posterior) -> Verdict:
    """Draws that come from no chain need no convergence, only enough of them."""
    total = posterior.n_chains * posterior.n_draws
    error = 0.5 / np.sqrt(total)
    return (
        f"This model draws each of its {total} clusterings anew, from no Markov chain: there are no chains to "
        f"disagree. A probability is read from them with a standard error of at most {error:.3f}.",
        True,
    )


def judge_calibration(calibration: Calibration) -> Verdict:
    """Whether probabilities can be taken at their word, or the bin in which they are furthest off."""
    full = np.flatnonzero(calibration.count >= FEWEST_PAIRS)
    if not len(full):
        return f"No bin has {FEWEST_PAIRS} held-out pairs: too few to judge the probabilities.", False
    gaps = calibration.predicted[full] - calibration.observed[full]
    worst = int(np.argmax(np.abs(gaps)))
    place = full[worst]
    if abs(gaps[worst]) <= LARGEST_GAP:
        return (
            f"The probabilities can be taken at their word: no bin with {FEWEST_PAIRS} held-out pairs or more is "
            f"off by more than {LARGEST_GAP:.2f} (at most {abs(gaps[worst]):.2f}).",
            True,
        )
    direction = "too high" if gaps[worst] > 0 else "too low"
    return (
        f"Take the probabilities with care: those near {calibration.predicted[place]:.2f} are {direction}, "
        f"{calibration.observed[place]:.2f} of such held-out pairs are truly together.",
        False,
    )
