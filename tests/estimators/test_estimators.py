"""The SCDP estimator: scikit-learn's conventions, known and unknown clusters, documents, missing values, streams."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from scdp import SCDP, EntityResolver, metrics
from scdp.chains import Priors, initial_state
from scdp.chains.items import lay_out_vectors
from scdp.errors import InputError, UnitsWarning
from scdp.posterior import ConvergenceWarning

# These short runs are not meant to converge; what a warning says is tested on its own.
pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning")


def blobs(seed: int = 0, n: int = 120, n_clusters: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_clusters, 4)) * 4
    truth = rng.integers(n_clusters, size=n)
    return centres[truth] + rng.normal(size=(n, 4)) * 0.4, truth


def quick(**parameters) -> SCDP:
    return SCDP(**({"n_chains": 2, "n_sweeps": 80, "random_state": 0} | parameters))


@pytest.mark.parametrize("model", ["cdp", "scdp2", "scdp3"])
def test_scikit_learn_conventions(model: str):
    reason = "predict partitions the new rows jointly, so a subset may be partitioned differently"
    expected = {"check_methods_subset_invariance": reason}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(quick(model=model, conditioning="mean", n_sweeps=30), expected_failed_checks=expected)


@pytest.mark.parametrize("scheme", ["collapsed", "paper"])
@pytest.mark.parametrize("model", ["cdp", "scdp1", "scdp2"])
def test_clusters_never_seen_are_found(model: str, scheme: str):
    X, truth = blobs()
    y = np.where(truth < 3, truth, -1)
    fitted = quick(model=model, scheme=scheme, n_sweeps=300).fit(X, y)
    hidden = y < 0
    assert (fitted.labels_[~hidden] == y[~hidden]).all()
    assert fitted.labels_[hidden].min() > y.max()
    assert metrics.f_score(truth[hidden], fitted.labels_[hidden]) > 0.95


def test_unknown_rows_join_known_clusters_only_when_shared():
    X, truth = blobs()
    y = np.where(np.arange(len(X)) % 2, truth, -1)
    shared = quick(share_clusters=True).fit(X, y)
    assert metrics.f_score(truth, shared.labels_) > 0.95
    assert set(shared.labels_[y < 0]) & set(y[y >= 0])
    apart = quick(share_clusters=False).fit(X, y)
    assert not set(apart.labels_[y < 0]) & set(y[y >= 0])


def test_documents_make_separate_clusterings():
    X, truth = blobs()
    groups = np.arange(len(X)) % 3
    fitted = quick().fit(X, groups=groups)
    documents_of = [set(groups[fitted.labels_ == k]) for k in np.unique(fitted.labels_)]
    assert all(len(documents) == 1 for documents in documents_of)
    inside = [metrics.f_score(truth[groups == g], fitted.labels_[groups == g]) for g in range(3)]
    assert min(inside) > 0.9


def test_missing_values_are_left_out_not_filled_in():
    X, truth = blobs(n=200)
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    fitted = quick(n_sweeps=300).fit(X, np.where(truth < 3, truth, -1))
    hidden = truth >= 3
    assert metrics.f_score(truth[hidden], fitted.labels_[hidden]) > 0.9


def test_same_draws_for_any_number_of_workers_and_chains():
    X, truth = blobs()
    y = np.where(truth < 3, truth, -1)
    reference = quick(n_chains=4, n_jobs=1).fit(X, y)
    for n_jobs in (2, 8):
        again = quick(n_chains=4, n_jobs=n_jobs).fit(X, y)
        np.testing.assert_array_equal(again.posterior_.draws, reference.posterior_.draws)
        np.testing.assert_array_equal(again.posterior_.traces["log_joint"], reference.posterior_.traces["log_joint"])
    fewer = quick(n_chains=2).fit(X, y)
    np.testing.assert_array_equal(fewer.posterior_.draws, reference.posterior_.draws[:2])


def test_chains_start_from_different_places_and_a_start_can_be_given():
    X, truth = blobs()
    laid_out = lay_out_vectors(X, np.full(len(X), -1))
    given = initial_state(np.random.default_rng(0), laid_out, truth, Priors())
    assert metrics.f_score(truth, given.cluster) == 1.0
    assert metrics.f_score(truth, quick(init=truth).fit(X).labels_) > 0.95
    ones = quick(init="one", n_sweeps=1).fit(X).posterior_.traces["n_clusters"]
    singles = quick(init="singletons", n_sweeps=1).fit(X).posterior_.traces["n_clusters"]
    assert ones.mean() != singles.mean()


def test_predict_gives_new_rows_new_clusters_and_learns_from_fit():
    X, truth = blobs(n=240)
    train = truth < 3
    fitted = quick(n_sweeps=300).fit(X[train], truth[train])
    labels = fitted.predict(X[~train])
    assert metrics.f_score(truth[~train], labels) > 0.95
    assert labels.min() > truth[train].max()
    shuffled = np.random.default_rng(2).permutation((~train).sum())
    np.testing.assert_array_equal(fitted.predict(X[~train][shuffled]), labels[shuffled])
    posterior = fitted.sample_new(X[~train])
    assert posterior.draws.shape[2] == len(X)


def test_predict_joins_known_clusters_when_shared():
    X, truth = blobs(n=200)
    fitted = quick(share_clusters=True, n_sweeps=200).fit(X[:150], truth[:150])
    assert (fitted.predict(X[150:]) == truth[150:]).mean() > 0.95


def test_mean_variance_can_be_learned():
    X, truth = blobs()
    fitted = quick(standardize=False, mean_variance="learn", n_sweeps=200).fit(X)
    learned = fitted.posterior_.traces["mean_variance"].mean()
    assert 5 < learned < 60  # the centres have variance 16
    assert metrics.f_score(truth, fitted.labels_) > 0.95


def test_read_only_and_fortran_input_and_clone():
    X, _ = blobs()
    expected = quick().fit(X).labels_
    locked = np.asfortranarray(X)
    locked.setflags(write=False)
    np.testing.assert_array_equal(quick().fit(locked).labels_, expected)
    np.testing.assert_array_equal(clone(quick()).fit(X).labels_, expected)


def test_one_row_identical_rows_and_a_constant_feature():
    assert quick().fit([[1.0, 2.0]]).labels_.tolist() == [0]
    assert len(quick(n_sweeps=200).fit(np.ones((12, 2))).labels_) == 12
    X, truth = blobs()
    X = np.column_stack([X, np.full(len(X), 7.0)])
    assert metrics.f_score(truth, quick(n_sweeps=200).fit(X).labels_) > 0.9


def test_progress_is_shown_when_asked_for(capsys, monkeypatch):
    # Outside a terminal a line is shown every few seconds; here as often as there is something to say.
    monkeypatch.setattr("scdp._parallel.LINE_SECONDS", 0.0)
    X, _ = blobs(n=30)
    quick(verbose=1).fit(X)
    assert "scdp: sampling: 100% done" in capsys.readouterr().err


def test_chains_that_disagree_give_a_warning_that_names_what():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8))
    with pytest.warns(ConvergenceWarning, match="not converged"):
        SCDP("scdp1", n_chains=3, n_sweeps=12, random_state=0).fit(X)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"model": "scdp9"}, "model must be one of"),
        ({"scheme": "fast"}, "scheme must be one of"),
        ({"init": "guess"}, "init must be one of"),
        ({"n_sweeps": 0}, "n_sweeps must be at least 1"),
        ({"mean_variance": -1.0}, "mean_variance must be above 0"),
    ],
)
def test_wrong_parameters_are_named(parameters: dict, says: str):
    with pytest.raises(InputError, match=says):
        quick(**parameters).fit(blobs(n=10)[0])


@pytest.mark.parametrize("label", [{"a": 1}, {1}, [1]])
def test_labels_that_are_no_names_are_refused(label):
    y = np.empty(4, dtype=object)
    y[:] = [label, "a", "b", None]
    with pytest.raises(InputError, match="y must hold names or whole numbers"):
        SCDP().fit(np.zeros((4, 1)), y)


@pytest.mark.parametrize("largest", [2**63 - 1, 2**62 + 1])
@pytest.mark.parametrize("dtype", [np.int64, object])
def test_labels_that_leave_no_room_for_new_ones_are_refused(largest, dtype):
    y = np.array([largest, largest, 0, 0, -1, -1], dtype=dtype)
    for model in (SCDP(n_chains=1, n_sweeps=2, random_state=0), EntityResolver(random_state=0)):
        with pytest.raises(InputError, match="which is too large; give clusters smaller numbers or names"):
            model.fit(np.arange(6.0)[:, None], y)


def test_wrong_labels_and_groups_are_named():
    X, _ = blobs(n=10)
    with pytest.raises(InputError, match="whole numbers"):
        quick().fit(X, np.linspace(0, 1, 10))
    with pytest.raises(InputError, match="y has shape"):
        quick().fit(X, [0, 1])
    with pytest.raises(InputError, match="groups has shape"):
        quick().fit(X, groups=[0, 1])
    with pytest.raises(InputError, match="only one of fit and predict"):
        quick().fit(X).predict(X, groups=np.zeros(10))


@pytest.mark.parametrize("conditioning", ["normalized", "mean"])
@pytest.mark.parametrize("scheme", ["collapsed", "paper"])
def test_scdp3_finds_clusters_and_reports_its_rate(conditioning: str, scheme: str):
    X, truth = blobs()
    y = np.where(truth < 3, truth, -1)
    fitted = quick(model="scdp3", conditioning=conditioning, scheme=scheme, rate="learn", n_sweeps=200).fit(X, y)
    assert (fitted.posterior_.traces["separation_rate"] > 0).all()
    if conditioning == "mean" and scheme == "collapsed":
        assert metrics.f_score(truth[y < 0], fitted.labels_[y < 0]) > 0.9


def test_scdp3_as_published_is_found_to_be_improper():
    X, truth = blobs(n=60)
    with pytest.warns(ConvergenceWarning, match="not a proper distribution"):
        quick(model="scdp3", conditioning="published", n_sweeps=20).fit(X, np.where(truth < 3, truth, -1))


def test_scdp3_says_when_no_cluster_was_ever_opened():
    X, truth = blobs(n=200, n_clusters=20)
    with pytest.warns(ConvergenceWarning, match="Not one new cluster"):
        quick(model="scdp3", conditioning="normalized", init="one", rate=5.0).fit(X, np.where(truth < 16, truth, -1))


class TestUnits:
    """`predict` measures in the units of `fit`, and says where one fit of all rows would have had others."""

    X = np.random.default_rng(0).normal(size=(24, 2))
    y = np.repeat(np.arange(4), 6)

    def fitted(self, **options):
        model = SCDP("scdp1", n_chains=1, n_sweeps=4, random_state=0, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(self.X, self.y)

    def told(self, model, new):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.predict(new)
        return [str(each.message) for each in caught if each.category is UnitsWarning]

    def test_other_spreads_are_told(self):
        [sentence] = self.told(self.fitted(), self.X * [1.0, 40.0])
        assert sentence.startswith("'feature 2' has 29 times the spread")

    def test_rows_of_the_same_kind_are_not(self):
        assert self.told(self.fitted(), self.X[::-1] + 0.01) == []

    def test_features_far_from_the_prior_are_told(self):
        model = SCDP("cdp", n_chains=1, n_sweeps=4, random_state=0, standardize=False)
        with pytest.warns(UnitsWarning, match="what these models find hangs on that ratio"):
            model.fit(self.X * [1.0, 40.0])
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnitsWarning)
            model.fit(self.X)

    def test_nor_are_units_that_nobody_made(self):
        assert self.told(self.fitted(standardize=False), self.X * 40.0) == []
