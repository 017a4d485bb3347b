"""The baselines' shared surface, and those that learn nothing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from scdp import metrics
from scdp.errors import InputError
from scdp.paper.baselines import Coarse, Fine, NameMatch, SameHead
from scdp.paper.datasets import load_coreference, load_identity
from scdp.paper.surface import DocumentBaseline, canonical_labels, check_items, check_labels, split_by_group, take
from scdp.table import Records

NAMES = [
    ("Jürgen", "Müller"),
    ("J.", "MULLER"),
    ("Ada", "Müller"),
    ("Jo", None),
    ("Jo", None),
    (None, "Kim"),
    (None, "Kim"),
    ("K", "Kim"),
]


def records(**columns):
    return Records({name: np.array(cells, dtype=object) for name, cells in columns.items()})


def people():
    first, last = zip(*NAMES, strict=True)
    return records(first=first, last=last)


class Halves(DocumentBaseline):
    """Learns a threshold on the first feature, to exercise the surface."""

    needs_labels = True

    def __init__(self, shift=0.0):
        self.shift = shift

    def _learn(self, items, labels, groups):
        self.labels_seen_, self.groups_seen_ = labels, groups
        self.threshold_ = items[:, 0].mean() + self.shift

    def _cluster(self, items):
        return (items[:, 0] > self.threshold_).tolist()


def test_canonical_labels_count_from_the_first():
    assert canonical_labels(["b", "a", "b", "c"]).tolist() == [0, 1, 0, 2]
    assert canonical_labels([(7, None), (7, 1), (7, None)]).tolist() == [0, 1, 0]
    assert canonical_labels([]).dtype == np.int64


def test_by_group_gives_each_row_once():
    groups = np.array(["b", "a", "b", "c", "a"])
    assert [rows.tolist() for rows in split_by_group(groups, 5)] == [[0, 2], [1, 4], [3]]
    assert [rows.tolist() for rows in split_by_group(None, 3)] == [[0, 1, 2]]


def test_take_cuts_distances_on_both_sides():
    distances = np.arange(18.0).reshape(3, 3, 2)
    assert take(distances, np.array([0, 2])).tolist() == [[[0, 1], [4, 5]], [[12, 13], [16, 17]]]
    assert take(np.eye(3), np.array([2])).tolist() == [[0, 0, 1]]
    assert take(people(), np.array([3]))["first"].tolist() == ["Jo"]


@pytest.mark.parametrize("X", [np.full((4, 2), np.nan), np.zeros((4, 4, 3)), records(a=["x", None, "x", "y"])])
def test_coarse_and_fine_take_any_items(X):
    groups = ["q", "p", "q", "r"]
    assert Coarse().fit_predict(X).tolist() == [0, 0, 0, 0]
    assert Coarse().fit_predict(X, groups=groups).tolist() == [0, 1, 0, 2]
    assert Fine().fit_predict(X).tolist() == [0, 1, 2, 3]
    assert Fine().fit_predict(X, groups=groups).tolist() == [0, 1, 2, 3]


def test_scikit_learn_conventions():
    model = NameMatch(first="given", last="family")
    assert model.get_params() == {"first": "given", "last": "family"}
    assert clone(model).set_params(last="name").last == "name"
    assert SameHead().get_params() == {"text": "name", "head": None}
    with pytest.raises(NotFittedError):
        model.predict(people())


def test_predict_uses_what_fit_learned():
    model = Halves(shift=1.0).fit([[0.0], [2.0]], ["x", -1], groups=["d", "e"])
    assert model.labels_seen_.tolist() == [0, -1]
    assert model.groups_seen_.tolist() == ["d", "e"]
    assert model.predict([[9.0], [0.0], [8.0]]).tolist() == [0, 1, 0]
    # The same halves, but no cluster reaches from one document into another.
    assert model.predict([[9.0], [0.0], [8.0]], groups=[5, 5, 4]).tolist() == [0, 1, 2]


def test_labels_keep_the_unknown():
    assert check_labels([7, -1, 3, 7], 4).tolist() == [0, -1, 1, 0]
    assert check_labels(np.array(["b", "-1", "a"]), 3).tolist() == [0, -1, 1]
    assert check_labels(["b", -1, "b"], 3).tolist() == [0, -1, 0]


def test_name_match():
    assert NameMatch().fit_predict(people()).tolist() == [0, 0, 1, 2, 3, 4, 4, 5]
    groups = [1, 2, 1, 1, 1, 1, 2, 2]
    assert NameMatch().fit_predict(people(), groups=groups).tolist() == list(range(8))


def test_name_match_takes_other_columns():
    data = records(given=["Ann", "A", "Bo"], family=["Kim", "kim", "Kim"])
    assert NameMatch(first="given", last="family").fit_predict(data).tolist() == [0, 0, 1]


def test_same_head():
    names = ["President Donald Trump", "trump", "Trump Tower", None, None, "Ivanka TRUMP"]
    mentions = records(name=names, head=["Trump", "trump", "Tower", "it", "it", None])
    assert SameHead().fit_predict(mentions).tolist() == [0, 0, 1, 2, 3, 0]
    assert SameHead(head="head").fit_predict(mentions).tolist() == [0, 0, 1, 2, 2, 3]
    documents = ["a", "a", "a", "b", "b", "b"]
    assert SameHead().fit_predict(mentions, groups=documents).tolist() == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: NameMatch().fit_predict(np.eye(2)), "NameMatch compares text"),
        (lambda: NameMatch().fit_predict(records(last=["a"])), "there is no column 'first'"),
        (lambda: SameHead(head="top").fit_predict(records(name=["a"])), "there is no column 'top'"),
        (lambda: Coarse().fit(np.zeros(3)), r"shape \(3,\)"),
        (lambda: Coarse().fit(np.zeros((3, 2, 1))), "as many rows as columns"),
        (lambda: Coarse().fit([["a"]]), "not a number"),
        (lambda: Coarse().fit([[np.inf]]), "infinite"),
        (lambda: Coarse().fit(np.zeros((0, 2))), "no items"),
        (lambda: Coarse().fit(np.eye(3), groups=[1, 2]), "groups has shape"),
        (lambda: Coarse().fit(np.eye(3), y=[1, 2]), "y has shape"),
        (lambda: Coarse().fit(np.eye(2), y=["a", None]), "missing cluster"),
        (lambda: Coarse().fit(np.eye(2), y=[0.0, np.nan]), "missing cluster"),
        (lambda: Halves().fit(np.eye(3)), "Halves learns from clusters"),
        (lambda: Coarse().fit(np.eye(3)).predict(np.eye(2)), "2 features"),
        (lambda: Coarse().fit(np.eye(3)).predict(people()), "records"),
    ],
)
def test_bad_input_is_named(call, named):
    with pytest.raises(InputError, match=named):
        call()


def test_missing_numbers_pass_the_boundary():
    assert np.isnan(check_items([[np.nan, 1]])[0, 0])


def test_name_match_on_authors(data_or_skip):
    with data_or_skip():
        test = load_identity().test
    predicted = NameMatch().fit_predict(test.data)
    assert round(metrics.precision(test.clusters, predicted), 3) == 0.627
    assert round(metrics.recall(test.clusters, predicted), 3) == 0.998


def test_same_head_on_mentions(data_or_skip):
    with data_or_skip():
        test = load_coreference().test
    predicted = SameHead().fit_predict(test.data, groups=test.groups)
    assert round(metrics.precision(test.clusters, predicted), 3) == 0.794
    assert round(metrics.recall(test.clusters, predicted), 3) == 0.72
