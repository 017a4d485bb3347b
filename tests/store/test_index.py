from __future__ import annotations

import numpy as np

from scdp.store.index import WordIndex, keys_of

NAMES = ["Ada Lovelace", "Ada Byron", None, "Charles Babbage", "Adele Lovelacy"]


def make_index() -> WordIndex:
    return WordIndex({"name": NAMES, "city": ["London", "London", "London", None, "Paris"]})


def everybody(index: WordIndex) -> np.ndarray:
    return np.ones(index.n_rows, dtype=bool)


def test_rows_that_share_rare_words_come_first():
    index = make_index()
    found = index.find_near(["ADA LOVELACE", None], everybody(index)).tolist()
    assert found[0] == 0
    assert set(found) == {0, 1, 4}
    assert index.find_near(["Ada Lovelace", "London"], everybody(index), most=2).tolist() == [0, 1]


def test_a_wrong_letter_leaves_half_a_word():
    index = make_index()
    assert index.find_near(["Lovelxce"], everybody(index)).tolist() == [0, 4]
    assert index.find_near(["Xovelace"], everybody(index)).tolist() == [0]
    assert index.find_near(["Quite other"], everybody(index)).tolist() == []
    assert keys_of("") == []


def test_rows_that_were_added_are_found_and_those_that_are_gone_are_not():
    index = make_index()
    index.add(5, ["Grace Hopper", None])
    alive = everybody(index)
    assert index.find_near(["hopper"], alive).tolist() == [5]
    alive[0] = False
    assert 0 not in index.find_near(["Ada Lovelace"], alive)


def test_a_word_that_very_many_have_leads_nowhere():
    index = WordIndex({"name": ["common word"] * 2_000 + ["common rarity"]})
    assert index.find_near(["common"], everybody(index)).tolist() == []
    assert index.find_near(["common rarity"], everybody(index)).tolist() == [2_000]
