"""EntityResolver(): the estimator's surface, odd inputs, and its folder."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from product_cases import citations
from scdp import EntityResolver, Spec, compare, metrics
from scdp.errors import InputError
from scdp.linkage import training

TEACH = "give at least two clusters, one of them of two rows"
FIELDS = [compare.edit("title"), compare.edit("author"), compare.absolute("year")]


def resolver(**parameters) -> EntityResolver:
    return EntityResolver(**({"n_chains": 2, "n_draws": 48, "random_state": 0} | parameters))


@cache
def blobs(n_clusters: int = 7, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of so few clusters that a fit takes no time."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(n_clusters), 6 if n_clusters < 8 else 4))
    return rng.normal(size=(n_clusters, 3))[y] * 5 + rng.normal(size=(len(y), 3)) * 0.3, y


@cache
def some_known() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors, their clusters, and what is known of them: five of nine clusters."""
    X, truth = blobs(9, seed=1)
    return X, truth, np.where(truth < 5, truth, -1)


def square_of(X: np.ndarray) -> np.ndarray:
    return np.abs(X[:, None] - X)


def same_partition(one: np.ndarray, two: np.ndarray) -> bool:
    return metrics.f_score(two, one) == 1.0


@cache
def records_model(share: bool = False) -> EntityResolver:
    train, _ = citations(160)
    codes = np.unique(train.clusters, return_inverse=True)[1]
    return resolver(spec=Spec("entity", FIELDS), share_clusters=share).fit(train.data, codes)


# ---- fit and predict ----


def test_clusters_of_records_never_seen_are_found():
    _, test = citations(160)
    labels, posterior = records_model().predict_with_posterior(test.data)
    assert metrics.f_score(test.clusters, labels) > 0.85
    assert posterior.draws.shape == (2, 24, len(test))
    assert posterior.n_items == len(test)
    low, high = posterior.n_clusters_interval(0.9)
    assert low <= high
    np.testing.assert_array_equal(
        records_model().predict_posterior(test.data, random_state=3).draws.shape, (2, 24, len(test))
    )


@pytest.mark.parametrize(("boosted", "n_known"), [(None, 5), (False, 10), (True, 10)])
def test_clusters_of_vectors_never_seen_are_found(boosted: bool | None, n_known: int):
    X, truth = blobs(n_known + 4, seed=1)
    known = np.where(truth < n_known, truth, -1)
    fitted = resolver(boosted=boosted).fit(X, known)
    hidden = known < 0
    assert (fitted.labels_[~hidden] == known[~hidden]).all()
    assert fitted.labels_[hidden].min() > known.max()
    assert metrics.f_score(truth[hidden], fitted.labels_[hidden]) > 0.8
    assert bool(fitted.fitted_.ensemble.trees) == bool(boosted)


def test_trees_are_there_from_enough_clusters_on(monkeypatch):
    X, y = blobs(8)
    assert not resolver().fit(X, y).fitted_.ensemble.trees
    monkeypatch.setattr(training, "FEWEST_FOR_TREES", 8)
    assert len(resolver().fit(X, y).fitted_.ensemble.trees) == 2


def test_predicted_clusters_are_numbered_after_those_of_fit():
    X, y = blobs()
    labels = resolver().fit(X, y).predict(X + 40)
    assert labels.min() > y.max()
    assert same_partition(labels, y)


def test_the_same_draws_for_the_same_seed_whatever_the_workers():
    X, _, known = some_known()
    one, two = (resolver(n_jobs=jobs).fit(X, known) for jobs in (1, 2))
    np.testing.assert_array_equal(one.posterior_.draws, two.posterior_.draws)
    np.testing.assert_array_equal(one.predict_posterior(X).draws, two.predict_posterior(X).draws)
    other = resolver(random_state=1).fit(X, known)
    assert (other.posterior_.draws != one.posterior_.draws).any()


def test_trees_grow_the_same_whatever_the_workers():
    X, y = blobs(8)
    one, two = (resolver(n_jobs=jobs, boosted=True).fit(X, y).predict_posterior(X).draws for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", ["records", "vectors"])
def test_the_order_of_new_rows_does_not_matter(kind: str):
    if kind == "records":
        model, new = records_model(), citations(160)[1].data
    else:
        model, new = resolver().fit(*blobs()), blobs(seed=5)[0]
    order = np.random.default_rng(0).permutation(len(new))
    labels, posterior = model.predict_with_posterior(new)
    shuffled = new.take(order) if kind == "records" else new[order]
    again, drawn = model.predict_with_posterior(shuffled)
    assert same_partition(again, labels[order])
    if kind == "vectors":  # records that are equal in all that is compared may change places
        np.testing.assert_array_equal(drawn.draws, posterior.restrict(order).draws)


def test_given_rows_keep_their_clusters_and_others_may_join():
    X, y = blobs(seed=5)
    model = resolver().fit(*blobs())
    given = np.where(np.arange(len(y)) % 2, 100 + y, -1)
    labels, posterior = model.predict_with_posterior(X, known=given)
    assert (labels[given >= 0] == given[given >= 0]).all()
    assert (labels == 100 + y).mean() > 0.9
    assert posterior.hidden.tolist() == np.flatnonzero(given < 0).tolist()
    for draw in posterior.draws.reshape(-1, len(X)):
        assert same_partition(draw[given >= 0], given[given >= 0])
    # Against all evidence, to see that what is given stays.
    wrong = np.where(np.arange(len(y)) < 4, np.arange(len(y)) % 2, -1)
    forced = model.predict_posterior(X, known=wrong)
    assert (forced.co_clustering(0, 2), forced.co_clustering(0, 1)) == (1.0, 0.0)


def test_unknown_rows_join_known_clusters_only_when_shared():
    X, truth = blobs()
    y = np.where(np.arange(len(X)) % 3, truth, -1)
    shared = resolver(share_clusters=True).fit(X, y)
    assert metrics.f_score(truth, shared.labels_) > 0.95
    apart = resolver().fit(X, y)
    assert not set(apart.labels_[y < 0]) & set(y[y >= 0])
    assert (apart.labels_[y >= 0] == y[y >= 0]).all()


def test_predict_joins_the_clusters_of_fit_only_when_shared():
    X, y = blobs()
    model = resolver(share_clusters=True).fit(X[10:], y[10:])
    assert (model.predict(X[:10]) == y[:10]).mean() > 0.8
    assert model.sample_new(X[:10]).n_items == len(X)
    apart = resolver().fit(X[10:], y[10:])
    assert apart.predict(X[:10]).min() > y.max()
    assert apart.sample_new(X[:10]).n_items == 10
    train, test = citations(160)
    codes = np.unique(train.clusters, return_inverse=True)[1]
    joined = records_model(share=True).predict(train.data.take(np.arange(20)))
    assert (joined == codes[:20]).mean() > 0.9
    assert (records_model(share=True).predict(test.data) > codes.max()).mean() > 0.9


@pytest.mark.parametrize("share", [False, True])
def test_documents_are_kept_apart(share: bool):
    X, y = blobs(12)
    groups = np.where(np.arange(len(X)) % 2, "b", "a")
    clusters = 2 * y + (groups == "b")
    fitted = resolver(share_clusters=share).fit(X, np.where(y < 9, clusters, -1), groups)
    labels, posterior = fitted.predict_with_posterior(X + (0 if share else 40), groups)
    for found in (labels, fitted.labels_, *posterior.draws[0, ::8]):
        assert all(len(set(groups[found == k])) == 1 for k in np.unique(found))
    inside = [metrics.f_score(y[groups == g], labels[groups == g]) for g in "ab"]
    assert min(inside) > 0.6
    with pytest.raises(InputError, match="only one of fit and predict"):
        fitted.predict(X)


def test_a_cluster_is_one_within_a_document():
    X, y = blobs()
    groups = np.arange(len(X)) % 2
    fitted = resolver().fit(X, y, groups)
    assert fitted.fitted_.learned().n_clusters == len(set(zip(y, groups, strict=True)))
    with pytest.raises(InputError, match="all of clusters of one row"):
        resolver().fit(X, y, np.arange(len(X)))


# ---- odd inputs ----


def test_missing_values_are_left_out():
    X, truth = blobs(10, seed=3)
    X = X.copy()
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    X[0] = np.nan
    known = np.where(truth < 8, truth, -1)
    fitted = resolver().fit(X, known)
    hidden = known < 0
    assert metrics.f_score(truth[hidden], fitted.labels_[hidden]) > 0.7
    assert len(fitted.predict(np.full((3, 3), np.nan))) == 3


def test_records_with_empty_cells():
    train, test = citations(160)
    codes = np.unique(train.clusters, return_inverse=True)[1]
    columns = {name: list(train.data[name]) for name in ("title", "author", "year")}
    columns["author"] = [None if k % 3 == 0 else cell for k, cell in enumerate(columns["author"])]
    model = resolver(spec=Spec("entity", FIELDS)).fit(columns, codes)
    nothing = {"title": [None, "a title", None], "author": [None] * 3, "year": ["1990", None, None]}
    labels, posterior = model.predict_with_posterior(nothing)
    assert len(labels) == posterior.n_items == 3
    assert metrics.f_score(test.clusters, model.predict(test.data)) > 0.7


@pytest.mark.parametrize("n_clusters", [7, 8])
def test_precomputed_distances(n_clusters: int):
    X, y = blobs(n_clusters)
    new, truth = blobs(9, seed=5)
    model = resolver(metric="precomputed").fit(square_of(X), y)
    labels = model.predict(square_of(new))
    assert metrics.f_score(truth, labels) > 0.8
    assert labels.min() > y.max()
    with pytest.raises(InputError, match="X has 2 features, but fit saw 3"):
        model.predict(square_of(new[:, :2]))
    shared = resolver(metric="precomputed", share_clusters=True).fit(square_of(X), y)
    with pytest.raises(InputError, match="predict cannot join known clusters without the distances"):
        shared.predict(square_of(new))


@pytest.mark.parametrize("share", [False, True])
def test_one_row_and_rows_that_are_all_the_same(share: bool):
    X, y = blobs()
    model = resolver(share_clusters=share).fit(X, y)
    assert model.predict(X[:1] + 50).shape == (1,)
    assert model.predict_posterior(X[:1] + 50).n_clusters_interval(0.9) == (1, 1)
    labels, posterior = model.predict_with_posterior(X[[0, 0]])
    assert labels[0] == labels[1]
    assert posterior.co_clustering(0, 1) > 0.9
    assert len(set(model.predict(np.repeat(X[:1], 30, axis=0)))) == 1


def test_records_that_are_all_the_same_are_one_cluster():
    cells = {"title": ["the same"] * 12, "author": ["someone"] * 12, "year": ["1999"] * 12}
    assert len(set(records_model().predict(cells))) == 1


def test_one_record_is_one_cluster():
    cells = {"title": ["the same"] * 12, "author": ["someone"] * 12, "year": ["1999"] * 12}
    assert records_model().predict({name: column[:1] for name, column in cells.items()}).shape == (1,)


@pytest.mark.parametrize("n_clusters", [7, 8])
def test_learning_from_rows_that_are_all_the_same(n_clusters: int):
    X, y = np.ones((24, 2)), np.arange(24) % n_clusters
    assert resolver().fit(X, y).predict(X[:5]).shape == (5,)
    distances = np.zeros((24, 24, 1))
    assert resolver(metric="precomputed").fit(distances, y).predict(distances[:5, :5]).shape == (5,)


@pytest.mark.parametrize("n_clusters", [7, 9])
def test_a_constant_feature_changes_little(n_clusters: int):
    X, y = blobs(n_clusters)
    new, truth = blobs(8, seed=5)
    constant = resolver().fit(np.column_stack([X, np.full(len(X), 7.0)]), y)
    found = constant.predict(np.column_stack([new, np.full(len(new), 7.0)]))
    assert metrics.f_score(truth, found) > metrics.f_score(truth, resolver().fit(X, y).predict(new)) - 0.1


@pytest.mark.parametrize("boosted", [None, False])
def test_the_least_that_can_be_learned_from(boosted: bool | None):
    X = np.array([[0.0, 0.0], [0.1, 0.0], [9.0, 9.0]])
    model = resolver(boosted=boosted).fit(X, [4, 4, 7])
    assert model.predict(X + 0.5).shape == (3,)
    assert model.fitted_.learned().calibration is None
    one = resolver(boosted=boosted).fit(X, [4, 4, 7]).predict(X[:1])
    assert one.tolist() == [8]


@pytest.mark.parametrize(
    ("y", "says"),
    [
        (None, f"no row has a known cluster: {TEACH}"),
        (np.full(42, -1), f"no row has a known cluster: {TEACH}"),
        (np.arange(42), f"the known rows are all of clusters of one row: {TEACH}"),
        (np.zeros(42, dtype=int), f"the known rows are all of one cluster: {TEACH}"),
        (np.where(np.arange(42) < 1, 3, -1), f"the known rows are all of one cluster: {TEACH}"),
    ],
)
def test_what_teaches_nothing_is_one_sentence(y, says: str):
    with pytest.raises(InputError) as caught:
        resolver().fit(blobs()[0], y)
    assert str(caught.value) == says
    with pytest.raises(InputError) as caught:
        resolver().fit([[1.0, 2.0]], [0])
    assert str(caught.value) == f"the known rows are all of one cluster: {TEACH}"


def test_too_few_clusters_teach_no_trees_even_where_asked_for():
    fitted = resolver(boosted=True).fit(*blobs(3)).fitted_
    assert not fitted.ensemble.trees
    assert fitted.learned().calibration is None


@pytest.mark.parametrize("name", ["n_draws", "n_chains"])
def test_wrong_counts_are_named(name: str):
    with pytest.raises(InputError, match=f"{name} must be at least 1, not 0"):
        resolver(**{name: 0}).fit(*blobs())


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y = blobs()
    model = resolver().fit(X, y)
    expected = model.predict(X)
    with pytest.raises(InputError, match="all of one cluster"):
        model.fit(X[:9], np.zeros(9))
    np.testing.assert_array_equal(model.predict(X), expected)


# ---- what scikit-learn expects ----


def test_clone_and_parameters():
    model = resolver(boosted=False, share_clusters=True)
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert again.set_params(n_draws=12).n_draws == 12
    X, y = blobs()
    np.testing.assert_array_equal(again.fit(X, y).labels_, y)
    assert again.posterior_.draws.shape == (2, 6, len(X))
    with pytest.raises(ValueError, match="not fitted"):
        clone(again).predict(X)


def test_draws_are_at_least_as_many_as_asked_for():
    X, y = blobs()
    assert resolver(n_chains=5, n_draws=11).fit(X, y).predict_posterior(X).draws.shape == (5, 3, len(X))


# ---- what it has learned ----


def test_what_was_learned_can_be_told():
    learned = records_model().fitted_.learned()
    train, _ = citations(160)
    assert (learned.model, learned.features) == ("resolver", tuple(field.name for field in FIELDS))
    assert (learned.n_records, learned.n_clusters) == (len(train), train.n_clusters)
    assert learned.weights.shape == (1, 3)
    assert learned.weights[0].argmax() == 0
    table = learned.calibration
    assert table.count.sum() > 500
    assert len(table.edges) == len(table.count) + 1 == 11
    seen = table.count > 0
    assert np.isnan(table.predicted[~seen]).all()
    assert (table.predicted[seen] >= table.edges[:-1][seen] - 1e-9).all()
    assert (table.predicted[seen] <= table.edges[1:][seen] + 1e-9).all()
    # Pairs that are called sure are right far more often than not.
    assert table.observed[-1] > 0.8
    assert table.observed[0] < 0.05
    assert records_model().fitted_.independent_draws


def test_records_and_distances_are_explained_and_vectors_are_not():
    _, test = citations(160)
    model = records_model()
    posterior = model.predict_posterior(test.data)
    same = next((i, j) for i in range(30) for j in range(i) if test.clusters[i] == test.clusters[j])
    other = next((i, j) for i in range(30) for j in range(i) if test.clusters[i] != test.clusters[j])
    together, apart = (model.explain(test.data, *pair, posterior=posterior) for pair in (same, other))
    assert together.contribution > apart.contribution
    assert together.features[0].name == "edit distance of title"
    assert together.features[0].first == test.data["title"][same[0]]
    assert together.probability == posterior.co_clustering(*same)
    assert "probability that they are together" in str(apart)
    X, y = blobs()
    of_distances = resolver(metric="precomputed").fit(square_of(X), y)
    found = of_distances.explain(square_of(X), 0, 1)
    assert [feature.distance for feature in found.features] == pytest.approx(np.abs(X[0] - X[1]), rel=1e-5)
    with pytest.raises(InputError, match="the resolver explains records and distances"):
        resolver().fit(X, y).explain(X, 0, 1)


def test_a_missing_value_contributes_nothing():
    data = citations(160)[1].data
    cells = {name: list(data[name]) for name in ("title", "author", "year")}
    cells["title"][:2], cells["author"][:2], cells["year"][:2] = (["a title"] * 2, [None, "someone"], ["1990"] * 2)
    found = records_model().explain(cells, 0, 1)
    assert found.features[1].contribution == 0
    assert found.features[1].distance is None
    assert found.features[0].contribution > 0


# ---- the folder ----


def stored_cases() -> dict:
    X, y = blobs()
    more, z = blobs(8)
    documents = np.arange(len(X)) % 2
    train, test = citations(160)
    codes = np.unique(train.clusters, return_inverse=True)[1]
    spec = Spec("entity", FIELDS)
    half = np.where(y < 5, y, -1)
    return {
        "vectors": (resolver(), (X, y), (more,)),
        "vectors, shared": (resolver(share_clusters=True), (X, y), (X + 0.1,)),
        "vectors, trees, some unknown": (resolver(boosted=True), (more, np.where(z > 0, z - 1, -1)), (X,)),
        "documents": (resolver(), (X, half, documents), (X, documents)),
        "documents with names, shared": (
            resolver(share_clusters=True),
            (X, half, documents.astype(str)),
            (X, documents.astype(str)),
        ),
        "distances": (resolver(metric="precomputed"), (square_of(X), y), (square_of(more),)),
        "records": (resolver(spec=spec), (train.data, codes), (test.data,)),
        "records, shared": (resolver(spec=spec, share_clusters=True), (train.data, codes), (test.data,)),
    }


@pytest.mark.parametrize("name", stored_cases())
def test_a_loaded_model_says_what_the_saved_one_says(name: str, tmp_path: Path):
    model, training, new = stored_cases()[name]
    model.fit(*training)
    expected, posterior = model.predict_with_posterior(*new)
    model.save(tmp_path / "model")
    again = EntityResolver.load(tmp_path / "model")
    labels, drawn = again.predict_with_posterior(*new)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(drawn.draws, posterior.draws)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    np.testing.assert_array_equal(again.posterior_.draws, model.posterior_.draws)
    assert again.fitted_spec_ == model.fitted_spec_
    ours, theirs = model.fitted_.learned(), again.fitted_.learned()
    assert (ours.features, ours.n_records, ours.n_clusters) == (theirs.features, theirs.n_records, theirs.n_clusters)
    np.testing.assert_equal(vars(theirs.calibration), vars(ours.calibration))
    again.save(tmp_path / "again")
    for file in (tmp_path / "model").iterdir():
        if file.suffix != ".npz":
            assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()
    with np.load(tmp_path / "model" / "arrays.npz") as one, np.load(tmp_path / "again" / "arrays.npz") as two:
        assert set(one.files) == set(two.files)
        for array in one.files:
            np.testing.assert_array_equal(one[array], two[array])


@pytest.mark.parametrize("share", [False, True])
def test_training_records_are_in_the_folder_only_where_new_ones_may_join_them(share: bool, tmp_path: Path):
    train, _ = citations(160)
    records_model(share).save(tmp_path / "model")
    rows = (tmp_path / "model" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(rows) == (len(train) if share else 0)


@cache
def stored(kind: str) -> Path:
    """A saved model of (few) vectors, of distances, or of records, which shares clusters; only to be read."""
    import atexit
    from tempfile import mkdtemp

    folder = Path(mkdtemp(prefix="scdp-resolver-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if kind == "records":
        records_model(share=True).save(folder / "model")
    else:
        X, y = blobs(7 if kind == "few vectors" else 8)
        of_distances = kind == "distances"
        model = resolver(
            metric="precomputed" if of_distances else "euclidean",
            share_clusters=not of_distances,
            boosted=kind != "few vectors",
        )
        model.fit(square_of(X) if of_distances else X, y).save(folder / "model")
    return folder / "model"


def damaged(kind: str, folder: Path, change) -> Path:
    """The stored model with something changed: `change` gets its words and its arrays."""
    shutil.copytree(stored(kind), folder)
    about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    with np.load(folder / "arrays.npz") as file:
        arrays = {name: file[name].copy() for name in file.files}
    change(about["fitted"], arrays)
    (folder / "model.json").write_text(json.dumps(about), encoding="utf-8")
    np.savez(folder / "arrays.npz", **arrays)
    return folder


def first_inner(arrays: dict) -> int:
    return int(np.flatnonzero(arrays["trees0.left"] >= 0)[0])


def last_inner(arrays: dict) -> int:
    return int(np.flatnonzero(arrays["trees1.left"] >= 0)[-1])


def put(name: str, value, place=0):
    """Change one number of an array; a function of the arrays gives numbers that depend on them."""

    def change(_, arrays):
        at = place(arrays) if callable(place) else place
        arrays[name].flat[at] = value(arrays) if callable(value) else value

    return change


def cut(name: str, axis: int = 0):
    def change(_, arrays):
        arrays[name] = np.delete(arrays[name], -1, axis=axis)

    return change


def word(name: str, value):
    def change(words, _):
        words[name] = value

    return change


def without(name: str):
    def change(words, arrays):
        del (words if name in words else arrays)[name]

    return change


def narrower(_, arrays):
    """All arrays agree with each other, and not with the features that vectors have."""
    for name in ("knots", "sign"):
        arrays[name] = arrays[name][1:]
    arrays["heights"], arrays["missing"] = arrays["heights"][:, 1:], arrays["missing"][:, 1:]
    arrays["importance"] = arrays["importance"][1:]


DAMAGES = {
    "a loop": ("vectors", put("trees0.left", first_inner, first_inner), "are not trees"),
    "a child before its parent": ("vectors", put("trees1.right", 0, last_inner), "are not trees"),
    "a child beyond the end": ("vectors", put("trees0.right", 10**6, first_inner), "are not trees"),
    "a feature out of range": ("vectors", put("trees0.feature", 99, first_inner), "are not trees"),
    "a feature below zero": ("vectors", put("trees0.feature", -1, first_inner), "are not trees"),
    "a root out of range": ("vectors", put("trees0.first", 10**6), "are not trees"),
    "a root below zero": ("vectors", put("trees0.first", -1), "are not trees"),
    "too few thresholds": ("vectors", cut("trees0.threshold"), "'trees0.threshold' has shape"),
    "too few leaves": ("vectors", cut("trees1.value"), "'trees1.value' has shape"),
    "no trees": ("vectors", without("trees1.left"), "'trees1.left' is missing"),
    "two baselines": (
        "vectors",
        lambda words, arrays: arrays.update({"trees0.baseline": np.zeros(2)}),
        "'trees0.baseline' has shape",
    ),
    "a value that is not finite": ("vectors", put("trees0.value", np.nan), "not finite"),
    "knots that do not increase": ("vectors", put("knots", 10.0), "'knots' do not increase"),
    "one knot": (
        "vectors",
        lambda words, arrays: arrays.update(knots=arrays["knots"][:, :1]),
        "'knots' do not increase, or are not 2 to 128",
    ),
    "too few knots": ("vectors", cut("knots", 1), "'heights' has shape"),
    "too few members": ("vectors", cut("heights"), "'heights' has shape"),
    "too few weights": ("vectors", cut("weights", 1), "'weights' has shape"),
    "fewer features": ("few vectors", lambda w, a: (w["features"].pop(0), narrower(w, a)), "'features' are not those"),
    "a scale of zero": ("vectors", put("view.scale", 0.0), "'view.scale' holds a number that is not above 0"),
    "a view that is cut": ("vectors", cut("view.whitening", 1), "'view.whitening' has shape"),
    "no view": ("vectors", without("view.mean"), "."),
    "wider vectors": ("vectors", cut("values", 1), "'values' has shape"),
    "fewer rows": ("vectors", cut("values"), "there are 31 rows"),
    "fewer labels": ("vectors", cut("labels"), "there are 32 rows"),
    "a label below zero": ("vectors", put("labels", -1), "do not have the 32 clusters"),
    "no members": ("vectors", word("n_members", 0), "'n_members' is 0"),
    "too many members": ("vectors", word("n_members", 9), "has shape"),
    "members in words": ("vectors", word("n_members", "twelve"), "'n_members' is 'twelve'"),
    "rescans for ever": ("vectors", word("n_rescans", 10**9), "'n_rescans' is 1000000000"),
    "rescans below zero": ("vectors", word("n_rescans", -2), "'n_rescans' is -2"),
    "a seed below zero": ("vectors", word("seed", -1), "'seed' is -1"),
    "no trees at all": ("vectors", word("n_trees", 0), "has shape"),
    "more trees": ("vectors", word("n_trees", 3), "'n_trees' is 3"),
    "log-odds that are no number": ("vectors", word("log_odds", "many"), "'log_odds' is 'many'"),
    "partners that are true": ("vectors", word("partners", True), "'partners' is True"),
    "a count below zero": ("records", put("evidence", -1.0), "'evidence' holds a count below 0"),
    "too few levels": ("records", cut("evidence", 1), "'evidence' has shape"),
    "a table of other levels": ("records", cut("table.ratio", 1), "'table.ratio' has shape"),
    "no table": ("records", without("table.exact"), "'table.exact' is missing"),
    "blockings in words": ("records", word("blockings", "all"), "'blockings' is not what belongs there"),
    "a blocking for no records": (
        "records",
        word("blockings", [{"n_records": 0, "blockings": [{}]}]),
        "'blockings' is not what belongs there",
    ),
    "training in words": ("vectors", word("training", "some"), "'training' is not what belongs there"),
    "a shift that is no number": (
        "vectors",
        lambda words, arrays: words["training"].update(shift="far"),
        "'shift' is no number",
    ),
    "no features": ("vectors", without("features"), "'features' is missing"),
    "calibration cut": ("vectors", cut("calibration.count"), "'calibration.count' has shape"),
    "distances of other width": (
        "distances",
        lambda words, arrays: arrays.update(square=np.zeros((0, 0, 1))),
        "'square' has shape",
    ),
    "distances of one feature": ("distances", cut("scales"), "'scales' has shape"),
    "fewer records": ("records", cut("labels"), "do not have the"),
    "fewer fields": (
        "records",
        lambda w, a: (w["features"].pop(0), narrower(w, a)),
        "'scales' has shape|the spec has 3 fields",
    ),
    "records as points": ("records", word("rows", "points"), "."),
    "a view of records": (
        "records",
        lambda words, arrays: (
            arrays.update({f"view.{n}": np.ones(1) for n in ("mean", "scale")})
            or arrays.update({"view.whitening": np.ones((1, 1))})
        ),
        "'features' are not those",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_folders_are_one_sentence(name: str, tmp_path: Path):
    kind, change, says = DAMAGES[name]
    folder = damaged(kind, tmp_path / "model", change)
    with pytest.raises(InputError, match=says) as caught:
        EntityResolver.load(folder)
    message = str(caught.value)
    assert message.startswith(f"{folder}: ")
    assert message.endswith("; fit the model again")
    assert "\n" not in message


@pytest.mark.parametrize("kind", ["vectors", "distances", "records"])
def test_what_is_not_damaged_loads(kind: str, tmp_path: Path):
    EntityResolver.load(damaged(kind, tmp_path / "model", lambda words, arrays: None))


@pytest.mark.parametrize("name", ["scdp1", "unheard of"])
def test_the_folder_of_another_model_is_refused(name: str, tmp_path: Path):
    shutil.copytree(stored("vectors"), tmp_path / "model")
    about = json.loads((tmp_path / "model" / "model.json").read_text(encoding="utf-8"))
    about["model"] = name
    (tmp_path / "model" / "model.json").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        EntityResolver.load(tmp_path / "model")
    assert "\n" not in str(caught.value)
