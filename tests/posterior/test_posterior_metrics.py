"""Expected metrics against the metrics of each draw, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from scdp import metrics
from scdp.errors import InputError
from scdp.posterior import Posterior
from scdp.posterior.summaries import count_against_draws

BY_NAME = {
    "precision": metrics.precision,
    "recall": metrics.recall,
    "f": metrics.f_score,
    "b_cubed_precision": metrics.b_cubed_precision,
    "b_cubed_recall": metrics.b_cubed_recall,
    "b_cubed": metrics.b_cubed,
}


def plain_metrics(draw, labels, known):
    """All metrics, by pairs and items one by one; pairs of known items and known items are not judged."""
    judged = np.triu(~(known[:, None] & known), k=1)
    true, linked = draw[:, None] == draw, labels[:, None] == labels
    right, n_links, n_true = (x[judged].sum() for x in (true & linked, linked, true))
    shared = (true & linked).sum(axis=1)
    b_precision = (shared / linked.sum(axis=1))[~known].mean() if not known.all() else 1.0
    b_recall = (shared / true.sum(axis=1))[~known].mean() if not known.all() else 1.0
    return {
        "precision": right / n_links if n_links else 1.0,
        "recall": right / n_true if n_true else 1.0,
        "f": 2 * right / (n_links + n_true) if n_links + n_true else 1.0,
        "b_cubed_precision": b_precision,
        "b_cubed_recall": b_recall,
        "b_cubed": 2 * b_precision * b_recall / (b_precision + b_recall),
    }


def test_metrics_of_each_draw_are_those_of_the_package():
    rng = np.random.default_rng(1)
    for n in (1, 2, 5, 30):
        raw, labels = rng.integers(0, n, (2, 6, n)), rng.integers(0, max(1, n // 2), n)
        found = count_against_draws(Posterior(raw).stored, Posterior(raw)._labels(labels)).metrics()
        assert set(found) == {*BY_NAME, "n_clusters"}
        for name, metric in BY_NAME.items():
            wanted = [metric(draw, labels) for draw in raw.reshape(12, n)]
            assert found[name] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("shared", [True, False])
def test_what_is_given_is_not_judged(shared):
    rng = np.random.default_rng(2)
    for _ in range(30):
        n = int(rng.integers(2, 12))
        fixed = np.where(rng.random(n) < rng.choice([0.5, 1.0]), rng.integers(0, 3, n), -1)
        raw = np.where(fixed >= 0, fixed, rng.integers(0 if shared else 3, 6, (1, 4, n)))
        post = Posterior(raw, fixed=fixed, shared=shared)
        labels = post._labels(rng.integers(0, 4, n))
        found = count_against_draws(post.stored, labels).metrics()
        for row, draw in enumerate(raw[0]):
            for name, value in plain_metrics(draw, labels, fixed >= 0).items():
                assert found[name][row] == pytest.approx(value, abs=1e-12)


def test_means_and_intervals_are_those_over_draws(monkeypatch):
    monkeypatch.setattr("scdp.posterior.draws.CHUNK_LABELS", 50)
    rng = np.random.default_rng(3)
    raw, labels = rng.integers(0, 5, (2, 50, 12)), rng.integers(0, 5, 12)
    found = Posterior(raw).expected_metrics(labels, level=0.8)
    values = np.sort([metrics.recall(draw, labels) for draw in raw.reshape(100, 12)])
    assert found["recall"]["mean"] == pytest.approx(values.mean())
    assert (found["recall"]["low"], found["recall"]["high"]) == pytest.approx((values[9], values[89]))
    counts = Posterior(raw).n_clusters
    assert found["n_clusters"]["mean"] == counts.mean()
    assert (found["n_clusters"]["low"], found["n_clusters"]["high"]) == Posterior(raw).n_clusters_interval(0.8)


def test_the_answer_itself_is_judged_unless_labels_are_given():
    rng = np.random.default_rng(4)
    post = Posterior(rng.integers(0, 4, (1, 20, 10)))
    assert post.expected_metrics() == post.expected_metrics(post.point_estimate("f"))


def test_expected_metrics_of_nothing_and_of_one_item():
    for n in (0, 1):
        found = Posterior(np.zeros((1, 2, n), int)).expected_metrics()
        assert all(found[name] == {"mean": 1.0, "low": 1.0, "high": 1.0} for name in BY_NAME)
        assert found["n_clusters"]["mean"] == n


def test_wrong_levels_and_labels_are_refused():
    post = Posterior(np.zeros((1, 2, 3), int))
    with pytest.raises(InputError, match="level is 2"):
        post.expected_metrics(level=2)
    with pytest.raises(InputError, match="2 labels for 3 items"):
        post.expected_metrics([0, 1])
