"""Random and mutated files for the readers, always the same; `make fuzz` tries 100,000 of each."""

from __future__ import annotations

import pytest

from fuzz_cases import LINES, READERS, TABLE, try_reader
from product_cases import fitted_folder
from scdp import SCDP
from scdp.table.readers import read_records

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning")
EXAMPLES = 300


@pytest.mark.parametrize("name", READERS)
def test_a_reader_reads_or_refuses_in_a_sentence(name, tmp_path):
    n_read = sum(try_reader(name, seed, tmp_path) for seed in range(EXAMPLES))
    # Mutations are neither harmless nor all fatal, so that what comes after the first check is tried too.
    assert n_read < EXAMPLES
    assert n_read > 0 or name in ("shards", "lists of a store")


def test_the_files_that_are_mutated_are_good(tmp_path):
    (tmp_path / "good.csv").write_text(TABLE, encoding="utf-8")
    (tmp_path / "good.jsonl").write_text(LINES, encoding="utf-8")
    assert len(read_records(tmp_path / "good.csv")) == 3
    assert len(read_records(tmp_path / "good.jsonl")) == 2
    assert SCDP.load(fitted_folder() / "model").spec is not None
