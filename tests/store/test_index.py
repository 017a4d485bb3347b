from __future__ import annotations

import numpy as np

from scdp.store.placement import WordIndex, keys_of

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


def test_common_words_lead_somewhere_together():
    """Every year, month and day is common, and so is every street and number; a date and an address are not."""
    days = [f"{1900 + k % 5}-{1 + k % 12:02}-{1 + k % 28:02}" for k in range(12_000)]
    streets = [f"{1 + k % 4} {('Elm', 'Oak', 'Ash', 'Yew')[k % 4]} Street" for k in range(12_000)]
    days[70], streets[71] = "1902-01-02", "1 Oak Street"
    index = WordIndex({"born": days, "street": streets})
    alive = everybody(index)
    assert index.find_near(["1902", "oak"], alive).tolist() == []
    assert index.find_near(["1902 01 02", None], alive)[0] == 70
    assert index.find_near([None, "1 Oak St"], alive)[0] == 71
    numbers = WordIndex({"phone": ["0584-427-268", "0427-268-584"]})
    assert numbers.find_near(["584427268"], everybody(numbers)).tolist() == [0]
