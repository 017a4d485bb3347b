"""The generator of made-up records: what it promises about cells, clusters, noise, seeds and speed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from scdp import metrics
from scdp.datasets import (
    DELETE,
    INSERT,
    MEAN_CLUSTER_SIZE,
    REFERENCE_TYPES,
    REQUIRED_FIELDS,
    SUBSTITUTE,
    TRANSPOSE,
    add_typos,
    entities,
    make_records,
    mistype,
)
from scdp.datasets.entities import zipf_codes
from scdp.errors import InputError

KINDS = ["people", "citations"]
COLUMNS = {
    "people": ("first_name", "surname", "birth_date", "street", "city", "postcode", "phone"),
    "citations": ("author", "title", "venue", "year", "pages"),
}
TITLE = {"people": ("first_name", "surname"), "citations": ("title",)}


def cells(labelled, names=None):
    return list(zip(*(labelled.data[name] for name in names or labelled.data.names), strict=True))


def clean(n, kind, **options):
    return make_records(n, kind, missing=0, typos=0, n_types=1, **options)


def values_of_entities(labelled, column):
    """The distinct values of each cluster in that column."""
    values = {}
    for cluster, value in zip(labelled.clusters.tolist(), labelled.data[column], strict=True):
        values.setdefault(cluster, set()).add(value)
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_columns_cells_and_identifiers(kind):
    made = make_records(3000, kind)
    assert made.data.names == COLUMNS[kind]
    for name in made.data.names:
        for cell in made.data[name]:
            assert cell is None or (type(cell) is str and cell == cell.strip() != "")
    assert len(made) == len(made.data) == len(set(made.ids.tolist())) == 3000
    assert made.ids[:2].tolist() == ["r0", "r1"]
    assert all(cluster[0] == "e" and cluster[1:].isdigit() for cluster in made.clusters.tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_records_whatever_the_global_state(kind):
    np.random.seed(1)  # noqa: NPY002
    one = make_records(500, kind, seed=7)
    types = one.types
    np.random.seed(2)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    again = make_records(500, kind, seed=7)
    types_again = again.types
    assert cells(one) == cells(again)
    assert one.clusters.tolist() == again.clusters.tolist()
    assert types.tolist() == types_again.tolist()
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    assert cells(make_records(500, kind, seed=8)) != cells(one)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_levels_leave_entities_and_types_alone(kind):
    quiet = make_records(2000, kind, missing=0, typos=0)
    types = quiet.types
    noisy = make_records(2000, kind, missing=0.3, typos=0.2)
    noisy_types = noisy.types
    assert quiet.clusters.tolist() == noisy.clusters.tolist()
    assert types.tolist() == noisy_types.tolist()
    assert cells(quiet) != cells(noisy)


@pytest.mark.parametrize(("kind", "mean"), [("people", None), ("citations", None), ("people", 3.0)])
def test_cluster_sizes_are_geometric(kind, mean):
    n = 40_000
    made = make_records(n, kind, mean_cluster_size=mean)
    sizes = np.array(list(Counter(made.clusters.tolist()).values()))
    expected = mean or MEAN_CLUSTER_SIZE[kind]
    # The number of entities in n records is binomial; five standard errors.
    stop = 1 / expected
    assert abs(len(sizes) - n * stop) < 5 * np.sqrt(n * stop * (1 - stop)) + 1
    for size in (1, 2, 3):
        share = stop * (1 - stop) ** (size - 1)
        assert abs((sizes == size).mean() - share) < 5 * np.sqrt(share * (1 - share) / len(sizes))


def test_one_record_an_entity_and_one_entity():
    assert make_records(50, mean_cluster_size=1).n_clusters == 50
    assert make_records(50, mean_cluster_size=1e9).n_clusters == 1
    assert len(make_records(1)) == 1


def test_records_of_an_entity_are_not_neighbours():
    clusters = make_records(20_000, "citations").clusters
    # Unshuffled, four records in five would follow one of the same entity.
    assert (clusters[1:] == clusters[:-1]).mean() < 0.005


@pytest.mark.parametrize("kind", KINDS)
def test_reference_types_have_their_shares(kind):
    n = 30_000
    for n_types in (1, 3, len(REFERENCE_TYPES[kind])):
        types = make_records(n, kind, n_types=n_types).types
        shares = np.array([profile.share for profile in REFERENCE_TYPES[kind][:n_types]])
        shares /= shares.sum()
        counts = np.bincount(types, minlength=n_types)
        assert len(counts) == n_types
        assert np.all(np.abs(counts / n - shares) <= 5 * np.sqrt(shares * (1 - shares) / n))


def test_the_type_is_in_no_column():
    assert "reference_type" not in make_records(10).data.names


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_a_cluster_is_written_one_way(kind):
    made = clean(3000, kind, mean_cluster_size=3)
    for name in made.data.names:
        if name not in {"street", "city", "postcode"}:  # people move
            assert all(len(values) == 1 for values in values_of_entities(made, name).values())


def test_types_write_people_as_they_say():
    full = clean(4000, "people")
    made = make_records(4000, "people", missing=0, typos=0)
    types = made.types
    names = [profile.name for profile in REFERENCE_TYPES["people"]]
    for row, code in enumerate(types.tolist()):
        first, surname = full.data["first_name"][row], full.data["surname"][row]
        written = {"initials": (first[0] + ".", surname), "swapped": (surname, first)}
        expected = written.get(names[code], (first, surname))
        assert (made.data["first_name"][row], made.data["surname"][row]) == expected
        shorter = len(made.data["street"][row]) < len(full.data["street"][row])
        assert shorter == (names[code] == "abbreviated")


def test_types_write_citations_as_they_say():
    full = clean(4000, "citations")
    made = make_records(4000, "citations", missing=0, typos=0)
    types = made.types
    names = [profile.name for profile in REFERENCE_TYPES["citations"]]
    for row, code in enumerate(types.tolist()):
        authors = [author.split(" ") for author in full.data["author"][row].split(" and ")]
        written = {
            "swapped": " and ".join(f"{surname}, {first}" for first, surname in authors),
            "initials": ", ".join(f"{first[0]}. {surname}" for first, surname in authors),
        }
        written["abbreviated"] = written["initials"]
        assert made.data["author"][row] == written.get(names[code], full.data["author"][row])
        shorter = len(made.data["venue"][row]) < len(full.data["venue"][row])
        assert shorter == (names[code] == "abbreviated")


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_follow_their_rate(kind):
    n, missing = 30_000, 0.1
    made = make_records(n, kind, missing=missing)
    types = made.types
    factors = np.array([profile.missing_factor for profile in REFERENCE_TYPES[kind]])
    for name in made.data.names:
        empty = np.array([cell is None for cell in made.data[name]])
        for code, factor in enumerate(factors):
            rate = 0 if name in REQUIRED_FIELDS else missing * factor
            rows = types == code
            assert abs(empty[rows].mean() - rate) <= 5 * np.sqrt(rate * (1 - rate) / rows.sum())


def test_all_missing_leaves_the_required_field():
    made = make_records(100, missing=1)
    assert all(cell is not None for cell in made.data["surname"])
    assert all(cell is None for cell in made.data["phone"])


@pytest.mark.parametrize("kind", KINDS)
def test_typos_follow_their_rate(kind):
    n, typos = 30_000, 0.05
    true = make_records(n, kind, missing=0, typos=0)
    made = make_records(n, kind, missing=0, typos=typos)
    types = made.types
    sloppy = types == [profile.name for profile in REFERENCE_TYPES[kind]].index("sloppy")
    for name in made.data.names:
        wrong = made.data[name] != true.data[name]
        for rows, rate in ((sloppy, 6 * typos), (~sloppy, typos)):
            # A second typo undoes the first one rarely: under one in a hundred.
            slack = 5 * np.sqrt(rate * (1 - rate) / rows.sum()) + 0.01 * rate
            assert abs(wrong[rows].mean() - rate) < slack


def test_each_kind_of_typo():
    assert mistype("Keller", INSERT, 0.0, 1) == "LKeller"
    assert mistype("Keller", DELETE, 0.5, 1) == "Keler"
    assert mistype("Keller", TRANSPOSE, 0.2, 1) == "Kleler"
    assert mistype("Keller", SUBSTITUTE, 0.99, 2) == "Kellet"


def test_a_typo_changes_the_cell_and_empties_none():
    for cell in ("a", "aa", "7", "J.", "a b", "1998", "12-15", "Zz", "É b"):
        for kind in range(4):
            for place in np.linspace(0, 0.999, 9):
                for shift in range(1, 26):
                    typed = mistype(cell, kind, place, shift)
                    assert typed.strip() == typed != ""
                    assert typed != cell


def test_years_stay_numbers():
    assert all(cell is None or cell.isdigit() for cell in make_records(5000, "citations", typos=0.5).data["year"])


def test_zipf_frequencies():
    rng = np.random.default_rng(0)
    codes = zipf_codes(rng, 50, 1.0, 200_000)
    expected = 1 / np.arange(1, 51)
    expected /= expected.sum()
    seen = np.bincount(codes, minlength=50) / len(codes)
    assert np.all(np.abs(seen - expected) < 5 * np.sqrt(expected * (1 - expected) / len(codes)))


def test_zipf_exponent_makes_names_common():
    even = Counter(clean(20_000, "people", zipf=0).data["surname"])
    skew = Counter(clean(20_000, "people", zipf=1).data["surname"])
    assert max(even.values()) < 30 < 500 < max(skew.values())
    assert len(skew) < len(even)


@pytest.mark.parametrize("n", [1000, 20_000])
@pytest.mark.parametrize("kind", KINDS)
def test_the_name_alone_does_not_tell(kind, n):
    """Different entities share a name, one entity has several: names are useful and not enough."""
    made = make_records(n, kind)
    match = cells(made, TITLE[kind])
    f_score = metrics.f_score(made.clusters.tolist(), match)
    assert 0.2 < f_score < 0.9
    entities = {}
    for names, cluster in zip(match, made.clusters.tolist(), strict=True):
        entities.setdefault(names, set()).add(cluster)
    shared = sum(len(clusters) > 1 for names, clusters in entities.items() if None not in names)
    assert shared >= n // 500


def test_all_fields_together_tell_nearly_always():
    """With two people in hand, agreement of the full cells separates: the task is not impossible."""
    made = clean(20_000, "people")
    keys = cells(made, ("first_name", "surname", "birth_date"))
    assert metrics.f_score(made.clusters.tolist(), keys) > 0.99


def test_households_share_a_home_and_surname():
    made = clean(5000, "people", mean_cluster_size=1, zipf=0)
    homes = Counter(cells(made, ("surname", "street", "city", "postcode")))
    assert sum(count > 1 for count in homes.values()) > 100


def share_like(rate, n):
    """Approximately that share of n draws, at five standard errors."""
    return pytest.approx(rate, abs=5 * np.sqrt(rate * (1 - rate) / n))


def share_with_equals(keys):
    """How many of the keys repeat an earlier one, as a share."""
    return 1 - len(set(keys)) / len(keys)


def test_namesakes_are_added_to_chance():
    # With equal frequencies two of 5000 people have the same whole name by chance about once.
    made = clean(5000, "people", mean_cluster_size=1, zipf=0)
    assert share_with_equals(cells(made, ("first_name", "surname"))) == share_like(0.03, 5000)


def test_sequels_and_reprints_follow_another_paper():
    made = clean(5000, "citations", mean_cluster_size=1, zipf=0)
    # Three people or more write together again only because a paper follows another: 10% + 5% of them.
    teams = [author for author in made.data["author"] if author.count(" and ") >= 2]
    assert share_with_equals(teams) == pytest.approx(0.14, abs=0.03)
    titles = [title.split(":")[0] for title in made.data["title"]]
    assert 0.03 < share_with_equals(titles) < 0.06


def test_some_people_are_written_at_another_home():
    made = clean(20_000, "people", mean_cluster_size=2)
    rows = {}
    for cluster, postcode in zip(made.clusters.tolist(), made.data["postcode"], strict=True):
        rows.setdefault(cluster, []).append(postcode)
    pairs = [postcodes for postcodes in rows.values() if len(postcodes) == 2]
    apart = np.mean([first != second for first, second in pairs])
    assert apart == share_like(1 - 0.92**2, len(pairs))


def test_a_typo_may_come_with_more():
    cells = np.array(["x" * 40] * 20_000, dtype=object)
    add_typos(cells, np.ones(len(cells)), np.random.default_rng(0))
    # One typo makes 41 at most; two insertions, hence 42, come with a chance of about 1/4 * 1/16.
    assert max(map(len, cells)) >= 43
    longer = np.mean([len(cell) >= 42 for cell in cells])
    assert 0.25 / 16 * 0.75 < longer < 0.03


def test_tables_hold_no_word_twice():
    for table in (
        entities.make_first_names(),
        entities.make_surnames(),
        entities.make_cities(),
        *entities.make_streets(),
    ):
        assert len(set(table)) == len(table)
    full, short = entities.make_venues()
    assert len(set(full)) == len(full) == len(short)
    assert len(entities.make_surnames()) > 20_000


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"n": 0}, "n is 0"),
        ({"n": 10.5}, "n is 10.5"),
        ({"kind": "cats"}, "kind is 'cats'"),
        ({"mean_cluster_size": 0.5}, "mean_cluster_size is 0.5"),
        ({"n_types": 0}, "n_types is 0"),
        ({"n_types": 7}, "from 1 to 6"),
        ({"missing": 1.5}, "missing is 1.5"),
        ({"typos": -0.1}, "typos is -0.1"),
        ({"typos": float("nan")}, "typos is nan"),
        ({"zipf": -1}, "zipf is -1"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_bad_arguments_are_named(options, named):
    with pytest.raises(InputError, match=named):
        make_records(**{"n": 10, **options})
