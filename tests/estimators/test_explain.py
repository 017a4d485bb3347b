"""Explanations: evidence equals the densities of the model, and is told in words."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from product_cases import citations, fitted_folder, read_csv, run
from scdp import SCDP, EntityResolver, Spec, compare
from scdp.compare.prepared import Prepared
from scdp.errors import InputError
from scdp.estimators.chains_fit import pair_evidence
from scdp.estimators.explanation import Explanation, FeatureEvidence, TypeEvidence, explain_pair
from scdp.estimators.inputs import Pair

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning")


def log_normal(values, precisions, variance):
    covariance = variance + np.diag(1 / np.asarray(precisions))
    return multivariate_normal(np.zeros(len(values)), covariance).logpdf(values)


def test_evidence_is_the_log_bayes_factor_of_normals_with_their_means_integrated_out():
    rng = np.random.default_rng(1)
    one, two = rng.normal(size=3), rng.normal(size=3)
    precision, shares, variance = rng.gamma(1, 1, (2, 3)) + 0.1, np.array([0.7, 0.3]), 1.7
    squared = np.stack([one - two, one, two]) ** 2
    factors, weights = pair_evidence(squared, precision, shares, variance)
    joint = np.zeros((2, 2))
    for f in range(3):
        both = np.array(
            [[log_normal([one[f], two[f]], [s, t], variance) for t in precision[:, f]] for s in precision[:, f]]
        )
        joint += both
        apart = [
            logsumexp([log_normal([value], [t], variance) for t in precision[:, f]], b=shares)
            for value in (one[f], two[f])
        ]
        together = logsumexp(both, b=np.outer(shares, shares))
        assert factors[f] == pytest.approx(together - sum(apart), abs=1e-9)
    expected = np.exp(joint) * np.outer(shares, shares)
    expected /= expected.sum()
    np.testing.assert_allclose(weights, [expected.sum(axis=1), expected.sum(axis=0)], rtol=1e-9)


def test_a_missing_value_is_no_evidence_but_tells_of_the_type():
    precision, shares = np.array([[1.0, 50.0], [1.0, 0.1]]), np.array([0.5, 0.5])
    squared = np.array([[0.1, np.nan], [1.0, 9.0], [1.0, np.nan]])
    factors, weights = pair_evidence(squared, precision, shares, 1.0)
    assert factors[1] == 0.0
    assert factors[0] != 0.0
    assert weights[0, 1] > 0.6  # only the second type writes so far from the middle
    assert weights[1, 1] == pytest.approx(0.5, abs=0.2)


@pytest.fixture(scope="module")
def model():
    return SCDP.load(fitted_folder() / "model")


def test_near_fields_speak_for_together_and_far_ones_for_apart(model):
    _, test = citations()
    i, j = next(
        (a, b)
        for a in range(len(test))
        for b in range(a)
        if test.clusters[a] == test.clusters[b] and test.data["title"][a] == test.data["title"][b]
    )
    other = next(k for k in range(len(test)) if test.clusters[k] != test.clusters[i])
    records = test.data
    posterior = model.predict_posterior({**records.columns, "id": test.ids})
    same = model.explain({**records.columns, "id": test.ids}, i, j, posterior=posterior)
    apart = model.explain({**records.columns, "id": test.ids}, i, other, posterior=posterior)
    assert same.features[0].contribution > 0
    assert same.features[0].distance == 0
    assert same.contribution > 0 > apart.contribution
    assert same.probability == posterior.co_clustering(i, j) > apart.probability
    assert same.features[0].name == "edit distance of title"
    assert same.features[0].first == records["title"][i]
    assert sum(kind.first for kind in same.types) == pytest.approx(1)
    assert "says" in str(same)


def test_arrays_and_distances_are_explained_too():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(6, 2)) * 3, 5, axis=0) + rng.normal(size=(30, 2)) * 0.1
    y = np.repeat(np.arange(6), 5)
    for fitted, new in (
        (SCDP(n_chains=1, n_sweeps=10, random_state=0).fit(X, y), X + 0.01),
        (
            SCDP(n_chains=1, n_sweeps=10, random_state=0, metric="precomputed").fit(np.abs(X[:, None] - X), y),
            np.abs(X[:, None] - X),
        ),
    ):
        near, far = fitted.explain(new, 0, 1), fitted.explain(new, 0, 29)
        assert near.contribution > far.contribution
        assert near.features[0].name == "feature 1"


def test_words():
    found = Explanation(
        "a", "b", 0.97,
        (
            FeatureEvidence("edit distance of title", "Trees", "Trees", 0.0, 4.2),
            FeatureEvidence("difference of year", "1999", None, None, 0.0),
            FeatureEvidence("edit distance of venue", "x\u202ey", "z", 0.9, -1.0),
        ),
        (TypeEvidence(1, 0.9, 0.8), TypeEvidence(2, 0.001, 0.002)),
    )  # fmt: skip
    text = str(found)
    assert "a and b: the same, almost surely." in text
    assert '+4.20  edit distance of title: distance 0, both "Trees"; says a lot for together' in text
    assert 'difference of year: "1999" and nothing; says nothing' in text
    assert "\u202e" not in text
    assert "\\u202e" in text
    assert "The two records alone: +3.20, 24.5 to 1 for together." in text
    assert "type 1: 90% for a, 80% for b" in text
    assert "type 2" not in text


def test_what_a_comparison_finds_is_a_sentence():
    phone = FeatureEvidence(
        "phone in tel", "0511 1", "0511 1", 0.0, 7.9, "the same phone, which no other record has", "tel"
    )
    absent = FeatureEvidence("date in born", None, "1999", None, -0.001, "missing", "born")
    none = FeatureEvidence("date in died", None, None, None, 0.0, "missing", "died")
    unread = FeatureEvidence("date in seen", "soon", "1999", None, 0.0, "missing", "seen")
    text = str(Explanation("a", "b", 0.97, (phone, absent, none, unread)))
    assert '  the same phone, which no other record has: +7.9 (tel: both "0511 1")' in text
    assert '  missing in one: 0.0 (born: nothing and "1999")' in text
    assert "  missing in both: 0.0 (died)" in text
    assert '  nothing that can be compared: 0.0 (seen: "soon" and "1999")' in text


def test_the_resolver_looks_only_at_the_pair_it_explains(monkeypatch):
    rows = {"name": [f"name{k // 2}" for k in range(40)], "tel": [f"0511 {k // 2:04d}" for k in range(40)]}
    spec = Spec("entity", [compare.edit("name"), compare.phone("tel")])
    model = EntityResolver(spec=spec, n_draws=8, random_state=0).fit(rows, [k // 2 for k in range(40)])
    posterior = model.predict_posterior(rows)
    compared = []
    pairs = Prepared.pairs
    monkeypatch.setattr(Prepared, "pairs", lambda self, *given: compared.append(len(given[0])) or pairs(self, *given))
    found = model.explain(rows, 0, 1, posterior=posterior)
    assert compared == [1, 1]
    assert "the same phone, which no other record has: +" in str(found)
    assert found.contribution + found.start == pytest.approx(found.log_odds)
    apart = model.explain(rows, 0, 39, posterior=posterior)
    assert apart.log_odds < 0 < found.log_odds
    # In a larger table the same two agree on what is rarer, and any two records are less likely the same.
    more = {name: [*cells, *(f"{cell}x7" for cell in cells * 4)] for name, cells in rows.items()}
    larger = model.explain(more, 0, 1, posterior=model.predict_posterior(more))
    assert larger.start < found.start


def test_a_model_with_contributions_of_its_own_is_asked_for_them():
    class Own:
        def contributions(self, distances):
            return np.where(np.isnan(distances), 0.0, 1.0 - distances)

    pair = Pair(("a", None), ("b", None), np.array([0.25, np.nan]), np.zeros((3, 2)))
    found = explain_pair(Own(), pair, ("name", "age"), ("x", "y"), 0.5)
    assert [feature.contribution for feature in found.features] == [0.75, 0.0]
    assert not found.types
    assert "could be the same or not" in str(found)
    with pytest.raises(InputError, match="does not explain"):
        explain_pair(object(), pair, ("name", "age"), ("x", "y"), 0.5)


def test_rows_that_cannot_be_explained(model):
    table = {**citations()[1].data.columns, "id": citations()[1].ids}
    with pytest.raises(InputError, match="there is no row 999"):
        model.explain(table, 0, 999)
    with pytest.raises(InputError, match="compared with itself"):
        model.explain(table, 1, 1)
    spec = Spec("entity", [compare.edit("name")], group="document")
    rows = {"name": ["ab", "ab", "xy", "xy"], "document": ["d", "d", "e", "e"]}
    apart = SCDP(spec=spec, n_chains=1, n_sweeps=4, random_state=0).fit(rows, [0, 0, 1, 2])
    with pytest.raises(InputError, match="row 0 and row 2 are in different groups, d and e"):
        apart.explain(rows, 0, 2)


def test_the_command_line_explains_with_kept_draws_as_without(tmp_path):
    folder = fitted_folder()
    out = tmp_path / "clusters.csv"
    result = run("cluster", folder / "model", folder / "test.csv", "--out", out, "--draws", tmp_path / "draws")
    assert result.exit_code == 0, result.output
    rows = read_csv(out)
    pair = next((a["id"], b["id"]) for a in rows for b in rows if a["cluster"] == b["cluster"] and a["id"] != b["id"])
    with_draws = run("explain", folder / "model", folder / "test.csv", *pair, "--draws", tmp_path / "draws")
    assert with_draws.exit_code == 0, with_draws.output
    assert f"{pair[0]} and {pair[1]}: " in with_draws.stdout
    without = run("explain", folder / "model", folder / "test.csv", *pair, "--quiet")
    assert without.stdout == with_draws.stdout
    assert without.stderr == ""
    as_json = run("explain", folder / "model", folder / "test.csv", *pair, "--json", "--draws", tmp_path / "draws")
    assert '"contribution"' in as_json.stdout
