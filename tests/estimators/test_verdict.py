"""The verdict on trust: judged on what was clustered, and never green without labels."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from scdp import EntityResolver, metrics
from scdp.datasets import make_records
from scdp.estimators.clustering import cluster_records
from scdp.estimators.result import _judge_interval, _judge_labels


@pytest.fixture(scope="module")
def people():
    made = make_records(400, kind="people", seed=3)
    return made.data, np.unique(made.clusters, return_inverse=True)[1]


@pytest.fixture(scope="module")
def without_labels(people):
    records, _ = people
    return cluster_records(EntityResolver(random_state=0).fit(records), records)


def test_records_are_clustered_without_a_label(people, without_labels):
    _, truth = people
    # Typical curves and the table alone: far better than all apart (F 0) or all together (F .005).
    assert metrics.f_score(truth, np.unique(without_labels.labels, return_inverse=True)[1]) > 0.7


def test_without_a_label_the_verdict_is_never_green(without_labels):
    assert without_labels.verdict.colour != "green"
    assert any("No labelled cluster has two records" in reason for reason in without_labels.verdict.reasons)


def test_labels_that_are_all_duplicates_are_told_of(people):
    records, truth = people
    sizes = np.bincount(truth)
    chosen = np.flatnonzero(np.isin(truth, np.flatnonzero(sizes > 1)[:30]))
    model = EntityResolver(random_state=0).fit(records.take(chosen), truth[chosen])
    single = np.flatnonzero(sizes[truth] == 1)
    result = cluster_records(model, records.take(single))
    assert result.verdict.colour != "green"
    assert any("rests on the table alone" in reason for reason in result.verdict.reasons)


def test_labels_that_teach_nothing_are_no_mistake(people):
    records, truth = people
    first = np.unique(truth, return_index=True)[1][:25]
    apart = EntityResolver(n_draws=40, random_state=0).fit(records.take(first), truth[first])
    one = EntityResolver(n_draws=40, random_state=0).fit(records.take(first), np.zeros(len(first), dtype=int))
    for model in (apart, one):
        assert cluster_records(model, records.take(np.arange(60))).verdict.colour != "green"


def test_a_model_without_labels_is_kept(people, tmp_path):
    records, _ = people
    model = EntityResolver(n_draws=40, random_state=0).fit(records.take(np.arange(120)))
    model.save(tmp_path / "model")
    again = EntityResolver.load(tmp_path / "model")
    new = records.take(np.arange(120, 200))
    np.testing.assert_array_equal(model.predict(new), again.predict(new))


@pytest.mark.parametrize(("n", "interval", "grave"), [(6, (4, 8), False), (6, (2, 9), True), (60, (40, 80), True)])
def test_a_handful_of_clusters_more_or_fewer_is_not_grave(n, interval, grave):
    posterior = SimpleNamespace(n_clusters_interval=lambda level: interval)
    result = SimpleNamespace(posterior=posterior, n_clusters=n, expected={"f": {"mean": 0.86}})
    ((found, reason),) = _judge_interval(result)
    assert found == grave
    assert f"{interval[0]} to {interval[1]}" in reason


@pytest.mark.parametrize(
    ("interval", "expected", "grave"),
    [((990, 1010), 0.85, False), ((900, 1100), 0.85, True), ((990, 1010), 0.75, True), ((900, 1100), 0.95, False)],
)
def test_without_labels_a_well_known_number_of_clusters_is_taken_with_care(interval, expected, grave):
    posterior = SimpleNamespace(n_clusters_interval=lambda level: interval)
    learned = SimpleNamespace(n_repeated=0)
    result = SimpleNamespace(posterior=posterior, learned=learned, n_clusters=1000, expected={"f": {"mean": expected}})
    ((found, reason),) = _judge_labels(result)
    assert found == grave
    assert "No labelled cluster" in reason
