"""SCDP on records with a spec, and on distances handed over: the same model, the same surface."""

from __future__ import annotations

import numpy as np
import pytest

from scdp import SCDP, Spec, compare, metrics
from scdp.datasets import make_records
from scdp.errors import InputError
from scdp.estimators.checks import row_order, take_rows
from scdp.table import Records, records_from
from scdp.table.propose import proposed_comparisons

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning")
SPEC = Spec(
    entity="entity",
    fields=[compare.edit("title"), compare.edit("author"), compare.absolute("year"), compare.edit("venue")],
)


def citations(n: int = 160) -> tuple[Records, np.ndarray]:
    made = make_records(n, kind="citations", seed=3)
    return made.data, np.unique(made.clusters, return_inverse=True)[1]


def quick(**parameters) -> SCDP:
    return SCDP(**({"n_chains": 2, "n_sweeps": 60, "random_state": 0, "init": "singletons"} | parameters))


def euclidean(seed: int = 0, n: int = 80) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(5, size=n)
    points = rng.normal(size=(5, 3))[truth] * 4 + rng.normal(size=(n, 3)) * 0.3
    return points, np.abs(points[:, None, :] - points[None, :, :]), truth


@pytest.mark.parametrize("model", ["scdp1", "scdp2"])
def test_records_are_clustered_and_new_records_too(model: str):
    records, truth = citations()
    known = np.where(truth % 2 == 0, truth, -1)
    fitted = quick(model=model, spec=SPEC).fit(records, known)
    hidden = known < 0
    assert metrics.f_score(truth[hidden], fitted.labels_[hidden]) > 0.6
    train = quick(model=model, spec=SPEC).fit(records.take(~hidden), truth[~hidden])
    found = train.predict(records.take(hidden))
    assert found.min() > truth[~hidden].max()
    assert metrics.f_score(truth[hidden], found) > 0.6


@pytest.mark.parametrize("conditioning", ["normalized", "mean"])
def test_scdp3_on_distances_learns_its_rate_and_predicts(conditioning: str):
    _, square, truth = euclidean(n=60)
    square[3, :, 1] = square[:, 3, 1] = np.nan
    known = np.where(truth < 3, truth, -1)
    model = quick(model="scdp3", conditioning=conditioning, rate="learn", metric="precomputed")
    hidden = known < 0
    fitted = model.fit(square, known)
    assert metrics.f_score(truth[hidden], fitted.labels_[hidden]) > 0.6
    traces = fitted.posterior_.traces
    assert len(np.unique(traces["separation_rate"])) > 10
    assert np.isfinite(traces["log_joint"]).all()
    assert (traces["improper_means"] == 0).all()
    assert len(fitted.predict(square[np.ix_(hidden, hidden)])) == hidden.sum()


def test_scdp3_takes_its_rate_on_distances_too():
    _, square, _ = euclidean(n=20)
    traces = quick(model="scdp3", rate=0.25, metric="precomputed", n_sweeps=6).fit(square).posterior_.traces
    assert (traces["separation_rate"] == 0.25).all()


def test_documents_keep_records_apart():
    records, truth = citations()
    documents = np.arange(len(truth)) % 4
    fitted = quick(spec=SPEC).fit(records, groups=documents)
    assert all(len(set(documents[fitted.labels_ == k])) == 1 for k in np.unique(fitted.labels_))


def test_distances_handed_over_find_what_vectors_find():
    _, square, truth = euclidean()
    known = np.where(truth < 2, truth, -1)
    fitted = quick(metric="precomputed").fit(square, known)
    hidden = known < 0
    assert metrics.f_score(truth[hidden], fitted.labels_[hidden]) > 0.9
    train = quick(metric="precomputed").fit(square[np.ix_(~hidden, ~hidden)], truth[~hidden])
    found = train.predict(square[np.ix_(hidden, hidden)])
    assert metrics.f_score(truth[hidden], found) > 0.9


def test_columns_from_a_dictionary_and_what_is_refused():
    records, truth = citations(40)
    table = {name: records[name].tolist() for name in records.names}
    assert len(quick(spec=SPEC).fit(table, truth).labels_) == 40
    # Without a spec comparisons are proposed, for all columns.
    proposed = quick().fit(records, truth).fitted_spec_
    assert {name for field in proposed.fields for name in field.columns} == set(records.names)
    with pytest.raises(InputError, match="scheme='paper' samples cluster means, which distances do not have"):
        quick(scheme="paper", spec=SPEC).fit(records)
    with pytest.raises(InputError, match="use conditioning='normalized' or 'mean'"):
        quick(model="scdp3", conditioning="published", spec=SPEC).fit(records)
    with pytest.raises(InputError, match="there is no column 'title'"):
        quick(spec=SPEC).fit({"name": ["a", "b"]})
    with pytest.raises(InputError, match="precomputed"):
        quick(metric="precomputed").fit(np.zeros((3, 4, 2)))
    _, square, _ = euclidean(n=12)
    shared = quick(metric="precomputed", share_clusters=True).fit(square)
    with pytest.raises(InputError, match="call fit with all rows"):
        shared.predict(square)


def test_rows_in_the_order_of_ids_are_taken_as_they_are():
    ids = ["a", "b", "c", "d"]
    for shuffled in (ids, ["c", "a", "d", "b"], ["b", "b", "a", "c"], ["a", None, "b", "c"]):
        records = records_from({"id": shuffled, "name": ["w", "x", "y", "z"]})
        spec = Spec("entity", proposed_comparisons(records, ["name"]), id="id")
        order = row_order(records, None, None, spec)
        taken = take_rows(records, order)
        if shuffled == ids:
            assert taken is records
        elif len(set(shuffled)) == 4 and None not in shuffled:
            assert taken["id"].tolist() == ids
        assert sorted(order.tolist()) == [0, 1, 2, 3]
