"""The list of planted bugs cannot rot: each still has exactly one place in the source to be planted in.

That each is caught at p < 1e-6 is shown by `make mutants`, which takes minutes.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import gold_checks

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks import mutants  # noqa: E402


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_can_be_planted(mutant: mutants.Mutant):
    planted = mutants.changed_text(mutant, mutants.SOURCE)
    assert planted != (mutants.SOURCE / mutant.file).read_text(encoding="utf-8")
    ast.parse(planted)


def test_enough_of_them_and_all_different():
    assert len({mutant.name for mutant in mutants.MUTANTS}) == len(mutants.MUTANTS) >= 14
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in mutants.MUTANTS}) == len(mutants.MUTANTS)


def test_checks_exist():
    names = {mutant.check for mutant in mutants.MUTANTS} - {"check_one_group", "check_documents"}
    assert all(hasattr(gold_checks, name) for name in names)
