"""Change over time: of what is more than half way from equal, half is left after every half-life."""

from __future__ import annotations

import random

import numpy as np
import pytest

from compare.test_content_kinds import MAKERS
from scdp import EntityResolver, Spec, compare
from scdp.compare.comparison import HALF_LIFE, ComparisonError
from scdp.compare.distances import compute_distances
from scdp.compare.features import Comparer, Copies
from scdp.compare.prepared import read_times
from scdp.errors import InputError
from scdp.table import Records, records_from
from twins import kinds as twins

TABLE = {
    "street": ["12 Main Street", "4 Elm Road", "12 Main St", "9 Hill Lane", None],
    "seen": ["2001-07-15", "2013-07-15", "2021", None, "2001"],
}


def test_differences_fade_and_agreement_does_not():
    comparison = compare.address("street", time="seen", half_life=6.0)
    plain = compare.address("street").prepare(records_from(TABLE))
    found = comparison.prepare(records_from(TABLE))
    left, right = np.array([0, 0, 0, 1, 0]), np.array([1, 2, 3, 2, 4])
    before, after = plain.pairs(left, right, 1), found.pairs(left, right, 1)
    assert before[0] > 0.7
    # Twelve years are two half-lives.
    assert after[0] == pytest.approx(0.5 + (before[0] - 0.5) / 4)
    # The same address is the same after twenty years; who has no time is of the same time; missing stays missing.
    assert after[1] == before[1] == 0.0
    assert after[2] == before[2] > 0.5
    assert 0.5 < after[3] < before[3]
    assert np.isnan(after[4])


@pytest.mark.parametrize("kind", ["address", "exact", "person_name", "jaro_winkler", "absolute", "tfidf"])
def test_relaxed_distances_equal_the_slow_twin(kind):
    chance = random.Random(kind)
    make = MAKERS.get(kind, MAKERS["relative" if kind == "absolute" else "title"])
    years = [chance.choice([None, chance.randint(1900, 2100)]) for _ in range(400)]
    table = {
        "x": [make(chance) or None for _ in range(400)],
        "when": [None if year is None else str(year) for year in years],
    }
    records = records_from(table)
    scale = 3.0 if kind == "absolute" else None
    plain = compare.make_comparison(kind, "x", scale=scale)
    timed = compare.make_comparison(kind, "x", scale=scale, time="when", half_life=20.0)
    left, right = (np.array([chance.randrange(400) for _ in range(10_000)]) for _ in range(2))
    before, found = (one.prepare(records).pairs(left, right, 1) for one in (plain, timed))
    wanted = [
        twins.relaxed(float(d), years[a], years[b], 20.0)
        for d, a, b in zip(before, left.tolist(), right.tolist(), strict=True)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(found, timed.prepare(records).pairs(right, left, 2))
    same = before <= 0.5
    assert same.any()
    np.testing.assert_array_equal(found[same], before[same])
    assert (found[before > 0.5] < before[before > 0.5]).any()


def test_blocks_distances_and_parts_are_as_pairs():
    chance = random.Random(2)
    records = records_from(
        {
            "x": [MAKERS["person_name"](chance) or None for _ in range(60)],
            "when": [chance.choice([None, f"{chance.randint(1990, 2020)}-0{chance.randint(1, 9)}"]) for _ in range(60)],
        }
    )
    spec = Spec(fields=[compare.person_name("x", time="when"), compare.count_difference("x")]).fit(records)
    comparer = Comparer.of(records, spec.fields)
    left, right = np.triu_indices(60, k=1)
    every = comparer.compare(left, right, 1)
    prepared = comparer.prepared[0]
    block = prepared.block(np.arange(40), np.arange(40, 60), 1)
    rows, columns = np.indices((40, 20)).reshape(2, -1)
    np.testing.assert_array_equal(block.ravel(), prepared.pairs(rows, columns + 40, 1))
    np.testing.assert_array_equal(comparer.compare_all(workers=1).features, every)
    np.testing.assert_array_equal(compute_distances(records, spec, workers=1).values, every[:, :2])
    # As a worker of Spark has it: some of the records, and the counts of all.
    rows = np.array(sorted(chance.sample(range(60), 20)))
    part = Comparer.of(records.take(rows), spec.fields, comparer.count())
    one, other = np.triu_indices(20, k=1)
    np.testing.assert_array_equal(part.compare(one, other, 1), comparer.compare(rows[one], rows[other], 1))


@pytest.mark.parametrize(
    ("cell", "year"),
    [
        ("2010", 2010.5),
        ("2010-01", 2010 + 0.5 / 12),
        ("2010-01-01", 2010 + 0.5 / 31 / 12),
        ("31.12.2010", 2010 + (11 + 30.5 / 31) / 12),
        ("2010-12-31 23:59:00", 2010 + (11 + 30.5 / 31) / 12),
        ("soon", np.nan),
        (None, np.nan),
    ],
)
def test_times_are_years(cell, year):
    comparison = compare.exact("x", time="when")
    found = read_times(comparison, records_from({"x": ["a", "b"], "when": [cell, "2000"]}))
    np.testing.assert_allclose(found, [year, 2000.5])


def test_the_years_are_said():
    records = records_from(TABLE)
    comparer = Comparer.of(records, [compare.address("street", time="seen", half_life=1.0)])

    def words(row: int, other: int) -> str:
        distances = comparer.compare(np.array([row]), np.array([other]), 1)[0, :1].astype(float)
        return comparer.in_words(row, other, distances)[0]

    # In words the values differ, however little that counts.
    assert words(0, 1) == "another address, 12 years later"
    assert words(0, 2) == "the same address, which no other record has"
    assert words(0, 3) == "another address"
    assert words(0, 4) == "missing"
    assert compare.exact("x").in_words(1.0, None, 1.2) == "another value, one year later"
    assert compare.exact("x").in_words(1.0, None, 0.4) == "another value"


def test_the_file_keeps_the_time(tmp_path):
    spec = Spec("who", [compare.address("street", time="seen"), compare.phone("tel", time="seen", half_life=2.5)])
    assert spec.fields[0].half_life == HALF_LIFE
    path = tmp_path / "spec.toml"
    path.write_text(spec.to_toml(), encoding="utf-8")
    assert Spec.from_toml(path) == spec
    assert 'time = "seen"\nhalf_life = 2.5' in spec.to_toml()
    path.write_text('[[field]]\nkind = "edit"\ncolumn = "a"\nhalf_life = 2\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"line 4: half_life is about time; name a column of dates by time"):
        Spec.from_toml(path)
    path.write_text('[[field]]\nkind = "edit"\ncolumn = "a"\ntime = "b"\nhalf_life = "2"\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"line 5: half_life must be a number"):
        Spec.from_toml(path)


def test_times_that_are_none_are_refused():
    with pytest.raises(ComparisonError, match="time must be the name of another column, not 'street'"):
        compare.address("street", time="street")
    with pytest.raises(ComparisonError, match="half_life must be a positive number"):
        compare.address("street", time="seen", half_life=0.0)
    table = {**TABLE, "seen": ["soon", None, None, None, None]}
    with pytest.raises(InputError, match=r"column 'seen' has no date in any of 5 records; leave time out of"):
        compare.address("street", time="seen").fit(records_from(table))
    with pytest.raises(InputError, match="no column 'seen'"):
        compare.address("street", time="seen").fit(records_from({"street": ["a", "b"]}))
    odd = Records({"street": np.array(["a", "b"], dtype=object), "seen": np.array([["x"], None], dtype=object)})
    with pytest.raises(InputError, match="column 'seen' holds cells that are no text, number or date"):
        compare.address("street", time="seen").prepare(odd)


def test_records_of_other_times_are_no_copies():
    table = {"x": ["a"] * 60, "when": ["2000"] * 30 + ["2010"] * 30}
    records, nobody = records_from(table), np.full(60, -1)
    assert len(Copies.find(records, Spec(fields=[compare.exact("x")]), None, nobody).kept) == 1
    assert len(Copies.find(records, Spec(fields=[compare.exact("x", time="when")]), None, nobody).kept) == 2


def test_a_model_takes_the_column_of_times_along(tmp_path):
    chance = random.Random(5)
    names = [MAKERS["person_name"](chance) for _ in range(40)]
    table = {
        "name": [name for name in names for _ in range(2)],
        "street": [f"{number} {chance.choice(['Elm', 'Oak', 'Hill'])} St" for number in range(80)],
        "seen": [str(2000 + 10 * (k % 2)) for k in range(80)],
        "other": ["x"] * 80,
    }
    spec = Spec(fields=[compare.person_name("name"), compare.address("street", time="seen")])
    model = EntityResolver(spec=spec, boosted=False, n_draws=8, random_state=0).fit(table, np.repeat(np.arange(40), 2))
    model.save(tmp_path / "model")
    kept = EntityResolver.load(tmp_path / "model")
    new = {name: cells[:20] for name, cells in table.items()}
    np.testing.assert_array_equal(kept.predict(new), model.predict(new))
    with pytest.raises(InputError, match="no column 'seen'"):
        model.predict({name: cells for name, cells in new.items() if name != "seen"})
