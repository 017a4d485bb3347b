"""What holds a cluster, and what a merge or a split would do."""

from __future__ import annotations

import json

import numpy as np
import pytest

from product_cases import done, read_csv, run
from result_cases import resolved_papers, small_result
from scdp.errors import InputError
from scdp.results.changes import tell_cluster, try_merge, try_split


def test_a_cluster_is_told_as_by_hand():
    story = tell_cluster(small_result(), "c-1")
    assert story.members == ('c"', "1")
    assert story.weakest == ('c"', "1", pytest.approx(2 / 3))
    assert story.probability_all == pytest.approx(2 / 3)
    assert story.nearest == ("c-2", pytest.approx(1 / 3))
    assert tell_cluster(small_result(), "1") == story
    with pytest.raises(InputError, match="there is no cluster or record 'x'"):
        tell_cluster(small_result(), "x")


def test_merges_and_splits_are_weighed_by_the_draws():
    result = small_result()
    merged = try_merge(result, "c-1", "c-2")
    assert merged.probability == pytest.approx(1 / 3)
    assert merged.n_records == 3
    wanted = result.posterior.expected_metrics([0, 0, 1, 1, 1])["f"]["mean"]
    assert merged.expected_f_after == pytest.approx(wanted)
    split = try_split(result, "c-1")
    assert split.probability == pytest.approx(1 / 3)
    assert split.odds == pytest.approx(0.5)
    assert split.expected_f_after == pytest.approx(result.posterior.expected_metrics([0, 0, 1, 2, 3])["f"]["mean"])
    for wrong in (lambda: try_merge(result, "c-1", "1"), lambda: try_split(result, "c-2")):
        with pytest.raises(InputError):
            wrong()


def test_the_command_explains_a_kept_result():
    papers = resolved_papers()
    rows = read_csv(papers / "c.csv")
    names = np.array([row["cluster"] for row in rows])
    large = next(name for name in names if (names == name).sum() > 1)
    one, two = [row["id"] for row in rows if row["cluster"] == large][:2]
    found = json.loads(done("explain", papers / "kept", one, two, "--json").stdout)
    total = found["start"] + sum(feature["contribution"] for feature in found["features"])
    assert total == pytest.approx(found["log_odds"], abs=1e-6)
    assert "any two records of this table" in done("explain", papers / "kept", one, two).stdout
    story = json.loads(done("explain", papers / "kept", "--cluster", one, "--json").stdout)
    assert story["cluster"] == large
    other = next(row["id"] for row in rows if row["cluster"] != large)
    assert "Expected F" in done("explain", papers / "kept", "--merge", one, other).stdout
    assert "Expected F" in done("explain", papers / "kept", "--split", one).stdout
    for wrong in ((one,), ("--cluster", one, "--split", one), (one, two, "--split", one)):
        refused = run("explain", papers / "kept", *wrong)
        assert refused.exit_code == 2
        assert "give two ids, or one of" in refused.stderr
