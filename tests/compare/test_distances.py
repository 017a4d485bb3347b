"""Distances: stored once, found by pair, scaled as coordinates are, and their origin is the centroid."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from scdp import compare
from scdp.compare.distances import Distances, PairLayout, compute_distances, memory_bytes, squared_to_origin
from scdp.errors import InputError
from scdp.paper.tasks import references_spec
from scdp.table import Records
from scdp.table.spec import Spec

RANDOM = np.random.default_rng(7)


def table(**columns) -> Records:
    return Records({name: np.array(cells, dtype=object) for name, cells in columns.items()}, "data.csv")


def people(n: int = 40) -> Records:
    names = [None if k % 9 == 4 else f"Ann {'abcdefg'[k % 7]}{'xyz'[k % 3]} Lee" for k in range(n)]
    years = [None if k % 5 == 2 else str(1980 + k % 13) for k in range(n)]
    return table(name=names, year=years, doc=[f"d{k % 3}" for k in range(n)])


SPEC = Spec("person", [compare.edit("name"), compare.absolute("year"), compare.longest_common_substring("name")])


def euclidean(points: np.ndarray) -> np.ndarray:
    """One distance a coordinate; NaN where either point misses it."""
    return np.abs(points[:, None, :] - points[None, :, :])


def points_with_gaps(n: int = 30, n_features: int = 3) -> np.ndarray:
    points = RANDOM.normal(size=(n, n_features)) * [1.0, 10.0, 0.1]
    points[RANDOM.random(points.shape) < 0.2] = np.nan
    return points


# --------------------------------------------------------------------------------------------- layout
@pytest.mark.parametrize("groups", [None, ["b", "a", "b", "b", "c", "a", "b"]])
def test_entries_are_a_numbering_of_the_pairs_within_groups(groups):
    layout = PairLayout.of(7, groups)
    labels = groups or ["all"] * 7
    i, j = np.triu_indices(7, k=1)
    within = np.array([labels[a] == labels[b] for a, b in zip(i, j, strict=True)])
    entries = layout.positions(i, j)
    assert (entries[~within] == -1).all()
    assert sorted(entries[within]) == list(range(layout.n_pairs))
    np.testing.assert_array_equal(entries, layout.positions(j, i))
    assert layout.positions([3], [3]) == [-1]
    for record in range(7):
        span, others = layout.row(record)
        np.testing.assert_array_equal(layout.positions(np.full(len(others), record), others), np.arange(7**2)[span])


def test_entries_follow_the_ranks_of_both_records():
    layout = PairLayout.of(9, [0, 1, 0, 0, 1, 1, 0, 2, 0])
    for i in range(9):
        for j in range(9):
            if i != j and layout.group[i] == layout.group[j]:
                first, second = sorted((i, j), key=layout.rank.__getitem__)
                assert layout.positions([i], [j])[0] == layout.row_start[first] + layout.rank[second]


def test_groups_are_checked():
    with pytest.raises(InputError, match="groups has 2 entries for 3 records"):
        PairLayout.of(3, [1, 2])
    with pytest.raises(InputError, match="row 2 has no group"):
        PairLayout.of(2, ["a", None])


def test_memory_formula():
    assert memory_bytes(2000, 8) == 2000 * 1999 // 2 * 8 * 4 == 63_968_000
    assert memory_bytes([3, 1, 2], 2) == (3 + 0 + 1) * 2 * 4
    assert compute_distances(people(), SPEC).nbytes == memory_bytes(40, 3)


# --------------------------------------------------------------------------------------------- from records
def plain_square(records: Records, spec: Spec) -> np.ndarray:
    return np.stack([c.block(list(records[c.columns[0]])) for c in spec.fields], axis=2)


def test_computed_distances_are_those_of_the_comparisons():
    records = people()
    distances = compute_distances(records, SPEC)
    assert distances.values.dtype == np.float32
    assert distances.values.flags.c_contiguous
    wanted = plain_square(records, distances.spec)
    np.testing.assert_array_equal(distances.square(), wanted)
    np.testing.assert_array_equal(distances.matrix("absolute(year)"), wanted[:, :, 1])
    np.testing.assert_array_equal(distances.pair(3, 1), wanted[3, 1])
    np.testing.assert_array_equal(distances.observed[:, 1], [cell is not None for cell in records["year"]])


def test_row_blocks_change_nothing(monkeypatch):
    records = people(57)
    whole = compute_distances(records, SPEC)
    monkeypatch.setattr("scdp.compare.distances.TABLE_ENTRIES", 50)
    np.testing.assert_array_equal(compute_distances(records, SPEC).values, whole.values)


def test_groups_keep_distances_within_documents():
    records = people()
    alone = compute_distances(records, SPEC)
    by_column = compute_distances(records, Spec("person", SPEC.fields, group="doc"))
    given = compute_distances(records, SPEC, groups=records["doc"])
    np.testing.assert_array_equal(by_column.values, given.values)
    assert given.nbytes == memory_bytes([14, 13, 13], 3)
    same = records["doc"][:, None] == records["doc"]
    np.testing.assert_array_equal(given.square(), np.where(same[:, :, None], alone.square(), np.nan))
    with pytest.raises(InputError, match="records 0 and 1 are in different groups"):
        given.pair(0, 1)


def test_a_fitted_spec_is_reused_on_other_records():
    train = compute_distances(people(), SPEC)
    other = table(name=["a", "b"], year=["1000", "2000"], doc=["x", "x"])
    test = compute_distances(other, train.spec)
    assert test.pair(0, 1)[1] == pytest.approx(1000 / train.spec.fields[1].scale)


def test_an_all_missing_field_is_missing_and_a_missing_column_is_named():
    fitted = SPEC.fit(people())
    empty = table(name=["a", "b"], year=[None, "unknown"])
    distances = compute_distances(empty, fitted)
    assert np.isnan(distances.pair(0, 1)[1])
    assert not distances.observed[:, 1].any()
    assert squared_to_origin(distances).clipped.tolist() == [0, 0, 0]
    assert np.isfinite(distances.scaled().values[:, [0, 2]]).all()
    with pytest.raises(InputError, match=r"data.csv: there is no column 'year'; it has: name"):
        compute_distances(table(name=["a"]), fitted)


@pytest.mark.parametrize("n", [0, 1])
def test_no_pairs(n):
    distances = compute_distances(table(name=["a"] * n, year=["1"] * n), SPEC.fit(people()))
    assert distances.values.shape == (0, 3)
    assert distances.square().shape == (n, n, 3)
    assert squared_to_origin(distances.scaled()).squared.tolist() == [[0.0] * 3] * n


def test_progress_ends_at_the_total():
    seen: list[tuple[int, int]] = []
    compute_distances(people(), SPEC, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (40 * 39 // 2 * 3,) * 2
    assert sorted(seen) == seen


def test_two_thousand_records_fit_in_150_megabytes():
    n = 2000
    records = table(
        author=[f"A. Writer{k}, B. Other{k % 50} and C. Third{k % 11}" for k in range(n)],
        title=[f"On the {k % 700}th problem of {k}" for k in range(n)],
        date=[str(1960 + k % 50) for k in range(n)],
        venue=[f"Proceedings {k % 90}" for k in range(n)],
    )
    # Compiling and importing are not what is measured.
    compute_distances(records.take(np.arange(50)), references_spec())
    tracemalloc.start()
    distances = compute_distances(records, references_spec())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert distances.nbytes < 64e6
    assert peak < 150e6


@pytest.mark.parametrize("task", ["references", "identity", "coreference"])
def test_the_papers_features_tell_same_from_different_on_the_real_sets(task, data_or_skip):
    from scdp.paper import datasets
    from scdp.paper import tasks as specs

    with data_or_skip():
        part = getattr(datasets, f"load_{task}")().test
    spec = getattr(specs, f"{task}_spec")()
    distances = compute_distances(part.data, spec)
    i, j = np.triu_indices(len(part), k=1)
    within = distances.groups[i] == distances.groups[j]
    features = distances.pair_features(i[within], j[within])
    same = (part.clusters[i] == part.clusters[j])[within]
    # Not a tuned figure: every text comparison must at least rank the right way round on average.
    text = [k for k, name in enumerate(distances.names) if name.startswith(("edit", "longest", "shared"))]
    assert (np.nanmean(features[same], axis=0) < np.nanmean(features[~same], axis=0))[text].all()
    assert np.nanmin(features) >= 0
    assert distances.nbytes == memory_bytes(distances.layout.sizes, len(spec.fields))


# --------------------------------------------------------------------------------------------- from an array
def test_from_square_round_trips_with_missing_values_and_groups():
    points = points_with_gaps()
    square = euclidean(points)
    distances = Distances.from_square(square)
    assert distances.values.dtype == np.float64
    np.testing.assert_array_equal(distances.square(), square)
    np.testing.assert_array_equal(distances.observed, ~np.isnan(points))
    groups = RANDOM.integers(3, size=30)
    same = (groups[:, None] == groups)[:, :, None]
    np.testing.assert_array_equal(Distances.from_square(square, groups).square(), np.where(same, square, np.nan))
    single = Distances.from_square(square[:, :, 0].astype(np.float32))
    assert single.values.dtype == np.float32
    assert single.names == ("feature 0",)


def test_float32_is_harmless():
    square = euclidean(RANDOM.normal(size=(50, 2)))
    exact = squared_to_origin(Distances.from_square(square)).squared
    rounded = squared_to_origin(Distances.from_square(square.astype(np.float32))).squared
    np.testing.assert_allclose(rounded, exact, rtol=1e-5, atol=2e-6)


def test_a_record_with_no_distances_misses_the_feature_whatever_the_diagonal():
    points = points_with_gaps()
    square = euclidean(points)
    square[np.arange(30), np.arange(30)] = 0.0
    np.testing.assert_array_equal(Distances.from_square(square).observed, ~np.isnan(points))


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ((1, 2), -1.0, r"entry \(1, 2\) of 'a' is negative \(-1.0\)"),
        ((1, 2), np.inf, r"entry \(1, 2\) of 'a' is infinite"),
        ((1, 2), 9.0, r"entry \(1, 2\) of 'a' is not what its mirror entry is"),
        ((1, 2), np.nan, r"entry \(1, 2\) of 'a' is missing, though both records have the feature"),
        ((2, 2), 0.5, r"entry \(2, 2\) of 'a' is on the diagonal and not zero"),
        ((2, 2), np.nan, r"entry \(0, 2\) of 'a' is there, though a record misses the feature"),
    ],
)
def test_what_are_no_distances_is_refused_by_entry(entry, value, message):
    square = euclidean(np.arange(4.0)[:, None])
    square[(*entry, 0)] = value
    with pytest.raises(InputError, match=message):
        Distances.from_square(square, names=["a"])


def test_shapes_and_names_are_checked():
    for array in (np.zeros((2, 3)), np.zeros(4), np.zeros((2, 2, 2, 2)), np.float64(3)):
        with pytest.raises(InputError, match="must be an array"):
            Distances.from_square(array)
    with pytest.raises(InputError, match="different names"):
        Distances.from_square(np.zeros((2, 2, 2)), names=["a", "a"])
    with pytest.raises(InputError, match=r"no feature 'b'; there are: a"):
        Distances.from_square(np.zeros((2, 2)), names=["a"]).matrix("b")


# --------------------------------------------------------------------------------------------- parts, scales
def test_take_is_the_square_of_the_rows():
    groups = RANDOM.integers(3, size=30)
    distances = Distances.from_square(euclidean(points_with_gaps()), groups)
    rows = RANDOM.permutation(30)[:17]
    np.testing.assert_array_equal(distances.take(rows).square(), distances.square()[np.ix_(rows, rows)])
    mask = np.arange(30) % 2 == 0
    assert len(distances.take(mask)) == 15
    assert distances.take(mask[:0].nonzero()[0]).n_features == 3
    with pytest.raises(InputError, match="twice"):
        distances.take(np.array([1, 1]))


def test_pair_features_of_a_record_with_itself():
    points = points_with_gaps()
    distances = Distances.from_square(euclidean(points))
    found = distances.pair_features([0, 1, 2], [0, 5, 2])
    np.testing.assert_array_equal(found, euclidean(points)[[0, 1, 2], [0, 5, 2]])


def test_scaling_is_standardising():
    points = points_with_gaps(200)
    scaled = Distances.from_square(euclidean(points)).scaled()
    # Half the mean squared distance over pairs is the variance with n - 1.
    np.testing.assert_allclose(scaled.scales, np.nanstd(points, axis=0, ddof=1), rtol=1e-10)
    np.testing.assert_allclose(np.nanmean(scaled.values**2, axis=0), 2.0)
    np.testing.assert_allclose(scaled.scaled().values, scaled.values)


def test_scales_of_the_training_part_are_reused():
    points = points_with_gaps(60)
    everything = Distances.from_square(euclidean(points))
    train, test = everything.take(np.arange(40)), everything.take(np.arange(40, 60))
    by_rows = everything.scaled(np.arange(40))
    np.testing.assert_allclose(by_rows.scales, train.scaled().scales)
    for reference in (train, train.scaled()):
        np.testing.assert_allclose(test.scaled(reference).values, by_rows.take(np.arange(40, 60)).values)
    np.testing.assert_allclose(test.scaled(train).scaled(test).scales, test.scaled().scales)
    with pytest.raises(InputError, match="the reference has features"):
        test.scaled(Distances.from_square(np.zeros((2, 2))))


def test_a_constant_feature_keeps_its_scale():
    scaled = Distances.from_square(np.zeros((4, 4))).scaled()
    assert scaled.scales.tolist() == [1.0]
    assert not scaled.values.any()


@pytest.mark.parametrize("reference", [None, np.arange(5, 25), np.arange(30) % 3 == 0])
def test_origin_is_the_centroid_of_the_observed(reference):
    points = points_with_gaps()
    result = squared_to_origin(Distances.from_square(euclidean(points)), reference)
    chosen = points if reference is None else points[reference]
    np.testing.assert_allclose(result.squared, (points - np.nanmean(chosen, axis=0)) ** 2, atol=1e-10)
    assert result.clipped.tolist() == [0, 0, 0]


def test_origin_is_the_centroid_of_the_group():
    points = RANDOM.normal(size=(12, 2))
    groups = np.array([0, 1, 1] * 4)
    result = squared_to_origin(Distances.from_square(euclidean(points), groups))
    for group in (0, 1):
        own = points[groups == group]
        np.testing.assert_allclose(result.squared[groups == group], (own - own.mean(axis=0)) ** 2, atol=1e-12)


def test_impossible_distances_are_clipped_and_counted():
    # Record 0 is at zero from all, who are at one from each other: no space holds that.
    square = np.ones((5, 5)) - np.eye(5)
    square[0] = square[:, 0] = 0.0
    result = squared_to_origin(Distances.from_square(square))
    assert result.clipped.tolist() == [1]
    assert result.squared[0, 0] == 0.0
    assert (result.squared[1:] > 0).all()
