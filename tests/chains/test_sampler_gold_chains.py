"""Gold tests 2 and 3: long-run frequencies against the exact posterior, and Geweke's joint test.

Total variation may be twice what chance is expected to make of it (error bars by batch means).
That bound has no exact error rate: in the six longer runs of docs/correctness.md the ratio was 0.95 to 1.17.
Geweke compares 15 means in each of four runs, every one at a false alarm of 1e-4.
"""

from __future__ import annotations

import pytest

import gold_chains


@pytest.mark.parametrize("scheme", ["collapsed", "paper"])
@pytest.mark.parametrize("layout", gold_chains.LONG_RUNS)
def test_long_run_frequencies(layout: str, scheme: str, record_property):
    found = gold_chains.long_run(layout, scheme, 20_000)
    record_property("total_variation", found.distance)
    assert found.distance < 2 * found.expected, found
    assert found.expected < 0.15


@pytest.mark.parametrize(
    ("layout", "scheme", "learn_mean_variance"),
    [
        ("two documents", "collapsed", True),
        ("three known", "collapsed", False),
        ("two documents", "paper", False),
        ("three known", "paper", True),
    ],
)
def test_geweke(layout: str, scheme: str, learn_mean_variance: bool):
    found = gold_chains.geweke(layout, scheme, learn_mean_variance, 5_000, 12_000)
    assert min(found.values()) > 1e-4, found
