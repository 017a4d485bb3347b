"""Frequencies that the user gives: from Python, from a file, in a spec and a model; refused in one sentence."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from scdp import EntityResolver, Spec, compare
from scdp.compare.cells import MOST_GIVEN
from scdp.compare.comparison import ComparisonError
from scdp.compare.features import Comparer
from scdp.compare.prepared import Frequencies
from scdp.errors import InputError
from scdp.table import records_from

COUNTS = {"Smith": 700, "SMITH": 200, "Featherstone": 10, "Jones": 90}
TABLE = {"surname": ["Smith", "smith", "Featherstone", "Featherstone", "Unknown", "Unknown"]}


def shared_nats(field, table=TABLE, counts=None):
    """Of rows 0 and 1, 2 and 3, 4 and 5: the nats of the values that they share."""
    comparer = Comparer.of(records_from(table), [field], counts)
    return comparer.compare(np.array([0, 2, 4]), np.array([1, 3, 5]))[:, 1]


def test_rarity_follows_from_the_counts_that_are_given():
    given = compare.person_name("surname", frequencies=COUNTS)
    # Values are read as cells are, and one that is not listed is as rare as the rarest.
    np.testing.assert_allclose(shared_nats(given), np.log([1000 / 900, 1000 / 10, 1000 / 10]), rtol=1e-6)
    np.testing.assert_allclose(shared_nats(compare.person_name("surname")), np.log([3, 3, 3]), rtol=1e-6)
    tokens = given.prepare(records_from(TABLE)).shared_nats(np.array([0, 2]), np.array([1, 3]))
    np.testing.assert_allclose(tokens, np.log([1000 / 900, 1000 / 10]), rtol=1e-6)


def test_a_part_of_the_table_on_a_worker_gives_the_same():
    given = compare.person_name("surname", frequencies=COUNTS)
    whole = Comparer.of(records_from(TABLE), [given])
    worker = pickle.loads(pickle.dumps(given))
    assert worker == given
    assert hash(worker) == hash(given)
    part = {"surname": TABLE["surname"][2:4] * 3}
    np.testing.assert_array_equal(shared_nats(worker, part, whole.count()), np.repeat(shared_nats(given)[1], 3))


def test_comparisons_of_one_column_keep_their_own_counts():
    both = [compare.edit("surname"), compare.jaro_winkler("surname", frequencies=COUNTS)]
    found = Comparer.of(records_from(TABLE), both).compare(np.array([2]), np.array([3]))
    np.testing.assert_allclose(found[0, 2:], np.log([3.0, 100.0]), rtol=1e-6)


def test_a_spec_reads_a_file_and_keeps_the_counts(tmp_path):
    (tmp_path / "names.csv").write_text('value,count\nSmith,"1,200"\nJones,3\nSmith,5\n', encoding="utf-8")
    path = tmp_path / "spec.toml"
    path.write_text(
        '[[field]]\nkind = "person_name"\ncolumn = "surname"\nfrequencies = "names.csv"\n', encoding="utf-8"
    )
    spec = Spec.from_toml(path)
    assert spec.fields[0].frequencies == Frequencies(1208, {"Smith": 1205, "Jones": 3}, 3)
    (tmp_path / "names.csv").unlink()
    path.write_text(spec.to_toml(), encoding="utf-8")
    assert Spec.from_toml(path) == spec


def test_a_model_keeps_the_counts(tmp_path):
    counts = {"A.B. " * 30: 7, 'quo"te': 9, "Smith": 12}
    spec = Spec(fields=[compare.person_name("surname", frequencies=counts)])
    rows = {"surname": ["Smith", "Smith", "Miller", "Miller", "Stone", "Stones"]}
    EntityResolver(spec=spec, n_draws=4, random_state=0).fit(rows, [0, 0, 1, 1, 2, 2]).save(tmp_path / "model")
    kept = EntityResolver.load(tmp_path / "model")
    assert kept.fitted_spec_.fields[0].frequencies == Frequencies.given(counts)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "frequencies have no value; give the commonest"),
        ({"Smith": 0}, "the count of 'Smith' must be a whole number from 1 on, not 0"),
        ({"Smith": 0.5}, "the count of 'Smith' must be a whole number from 1 on, not 0.5"),
        ({" ": 2}, "values must be texts that are not blank"),
        ({str(k): 1 for k in range(MOST_GIVEN + 1)}, "20,001 values, more than 20,000; give the commonest"),
    ],
)
def test_frequencies_that_are_refused(given, sentence):
    with pytest.raises(ComparisonError, match=sentence):
        compare.edit("surname", frequencies=given)
    with pytest.raises(ComparisonError, match="has no use for frequencies"):
        compare.count_difference("surname", frequencies=COUNTS)


@pytest.mark.parametrize(
    ("setting", "content", "sentence"),
    [
        ('"names.csv"', "value,count\nSmith,many\n", r"names.csv, row 2: the count 'many' is no whole number"),
        ('"names.csv"', "value,count\n,3\n", r"names.csv, row 2: has no value; correct it"),
        ('"names.csv"', "name,n\nSmith,3\n", r"names.csv: .*'value'"),
        ('"none.csv"', "", r"none.csv: there is no such file"),
        ("3", "", r"spec.toml, line 4: frequencies must be a file with the columns value and count, or pairs"),
        ('[["Smith", -3]]', "", r"spec.toml, line 4: .*whole number from 1 on, not -3"),
        ('[["Smith", "3"]]', "", r"spec.toml, line 4: frequencies must be a file"),
    ],
)
def test_files_and_lists_that_are_refused(tmp_path, setting, content, sentence):
    (tmp_path / "names.csv").write_text(content, encoding="utf-8")
    path = tmp_path / "spec.toml"
    path.write_text(f'[[field]]\nkind = "edit"\ncolumn = "surname"\nfrequencies = {setting}\n', encoding="utf-8")
    with pytest.raises(InputError, match=sentence):
        Spec.from_toml(path)
