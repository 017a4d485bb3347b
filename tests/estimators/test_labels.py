"""Labels and groups as tables hold them: missing in every way, and in an order of their own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

from scdp import SCDP, EntityResolver, Spec, compare
from scdp.errors import InputError
from scdp.estimators.checks import check_groups, check_known, is_missing

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning")

NAMES = pd.DataFrame({"name": [f"{word} {k}" for word in ("anna", "bob", "clara", "dora") for k in range(3)]})
TRUTH = [k // 3 for k in range(12)]


@pytest.mark.parametrize("none", [None, np.nan, np.float32("nan"), pd.NA, pd.NaT, "", -1])
def test_a_label_may_be_missing_in_every_way(none):
    labels = check_known(pd.Series(["b", none, "a", "b"], dtype=object), 4)
    assert labels.tolist() == [1, -1, 0, 1]


def test_labels_as_pandas_converts_them():
    assert check_known(pd.Series(["b", None, "a"]).convert_dtypes(), 3).tolist() == [1, -1, 0]
    assert check_known(pd.Series([4, None, 2]).convert_dtypes(), 3).tolist() == [4, -1, 2]
    assert not is_missing("NaN")
    assert not is_missing(0)


@pytest.mark.parametrize("none", [None, np.nan, pd.NA])
def test_a_group_that_is_missing_is_refused(none):
    with pytest.raises(InputError, match=r"groups has no value in row 1 \(counted from 0\); give every row its group"):
        check_groups(["a", none, "b"], np.zeros((3, 2)))
    with pytest.raises(InputError, match="groups has no value in row 2"):
        check_groups(np.array([1.0, 2.0, np.nan]), np.zeros((3, 2)))
    assert check_groups(["a", 1, "b"], np.zeros((3, 2))).tolist() == ["a", "1", "b"]


@pytest.fixture(scope="module")
def model():
    spec = Spec(fields=[compare.edit("name")])
    return EntityResolver(spec=spec, n_draws=4, random_state=0).fit(NAMES, TRUTH)


def test_a_column_with_another_index_is_refused(model):
    column = pd.Series(TRUTH, index=range(1, 13))
    for name, run in {
        "known": lambda: model.predict(NAMES, known=column),
        "y": lambda: model.score(NAMES, column),
        "groups": lambda: model.predict(NAMES, groups=column),
    }.items():
        with pytest.raises(InputError, match=rf"{name} has another index than X; .*{name}.to_numpy\(\)"):
            run()
    for given in ({"y": column}, {"y": TRUTH, "groups": column}):
        with pytest.raises(InputError, match="has another index than X"):
            EntityResolver(spec=model.spec).fit(NAMES, **given)
    kept = model.predict(NAMES, known=pd.Series(TRUTH))
    assert [len(set(kept[k : k + 3])) for k in range(0, 12, 3)] == [1, 1, 1, 1]
    model.score(NAMES, pd.Series(TRUTH))


def test_settings_are_chosen_by_the_score():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(8, 2)) * 4, 4, axis=0) + rng.normal(size=(32, 2)) * 0.1
    y, fold = np.repeat(np.arange(8), 4), np.repeat([0, 1], 16)
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in (0, 1)]
    model = SCDP(n_chains=1, n_sweeps=10, random_state=0)
    search = GridSearchCV(model, {"mean_variance": [1.0, 4.0]}, cv=splits, error_score="raise").fit(X, y)
    assert search.best_params_["mean_variance"] in (1.0, 4.0)
    assert (search.cv_results_["mean_test_score"] >= 0.0).all()
    assert search.best_score_ > 0.5
