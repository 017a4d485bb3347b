"""Every small run gives the draws and labels that were recorded; `make digests` records them anew."""

from __future__ import annotations

import pytest

from digests.cases import CASES
from digests.record import digest, read_digests

RECORDED = read_digests()
EACH = [(section, name) for section, cases in CASES.items() for name in cases]


def test_every_case_has_a_digest():
    assert {section: set(cases) for section, cases in CASES.items()} == {
        section: set(RECORDED[section]) for section in CASES
    }


def test_there_are_enough_cases():
    assert len(EACH) >= 40


@pytest.mark.parametrize(("section", "name"), EACH)
def test_draws_and_labels_are_as_recorded(section, name):
    assert digest(CASES[section][name]()) == RECORDED[section][name]


@pytest.mark.parametrize("name", [name for name in CASES["chains"] if name.endswith("two workers")])
def test_two_workers_give_what_one_gives(name):
    one = name.replace("two workers", "collapsed")
    assert RECORDED["chains"][name] == RECORDED["chains"][one]
