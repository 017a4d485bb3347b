"""Names and phones by the million: kernels give what parsing one by one gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scdp import compare
from scdp.compare import prepared
from scdp.compare.amounts import PhoneList, parse_phone, parse_phones
from scdp.compare.cells import encode
from scdp.compare.names import NameList, parse_person_name, parse_person_names
from scdp.table import records_from

WORDS = st.sampled_from(
    ["Ann", "LEE", "King", "Le", "JD", "JA", "XU", "o'Neil", "van", "Dr.", "Jr", "mrs", "smith", "Zoë", "b", "McCoy"]
)
NAMES = st.lists(WORDS, max_size=4).map(" ".join) | st.text("aAeBjJRrYé .-',_1\t", max_size=8)


@settings(deadline=None, max_examples=300)
@given(st.lists(NAMES, max_size=12))
@example(["a b c d e f g h i j k l", "A-B.c", "J.D. Smith", "JD SMITH", "Smith JA", "Wei XU", "Lee EL-ey", "", " . "])
def test_names_are_those_of_one_by_one(texts):
    found, names = parse_person_names(texts)
    codes, values = encode([parse_person_name(text) for text in texts])
    expected = [name for name in values if name is not None]
    assert list(names) == expected
    assert [-1 if values[code] is None else expected.index(values[code]) for code in codes] == found.tolist()
    again = NameList.of(expected)
    assert names.lists.words == again.lists.words
    assert names.lists.ids.tolist() == again.lists.ids.tolist()
    assert names.lists.starts.tolist() == again.lists.starts.tolist()
    assert names.said.tolist() == again.said.tolist()


def test_a_column_of_names_is_compared_alike_either_way(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(5)
    words = ["Ann", "Anna", "Lee", "Dr.", "O'Hara", "Mary", "Ma", "Ry", "J.", "Jr", "Ng"]
    cells = [" ".join(rng.choice(words, rng.integers(0, 4))) or None for _ in range(300)]
    records = records_from({"name": cells})
    left, right = np.triu_indices(300, k=1)
    found = []
    for fewest in (1, 10**9):
        monkeypatch.setattr(prepared, "FEWEST_AT_ONCE", fewest)
        monkeypatch.setattr("scdp.compare.words.FEWEST_AT_ONCE", fewest)
        ready = compare.person_name("name").prepare(records)
        assert isinstance(ready.vocabulary, NameList) == (fewest == 1)
        found.append((ready.pairs(left, right, 1), ready.shared_nats(left, right)))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other, equal_nan=True)


PHONE_PARTS = ["0", "00", "(0)", "+49", "7", "123", "4567", " ", "-", "x12", "()", "٣", "é"]
PHONES = st.lists(st.sampled_from(PHONE_PARTS), max_size=9).map("".join)


@settings(deadline=None, max_examples=300)
@given(st.lists(PHONES, max_size=12))
@example(["+44 (0)3501-146662", "03501 146662", "3501.146662 ext. 7", "12", "", "1" * 19, "9" * 18])
@example(["7" + "0" * 18])
def test_phones_are_those_of_one_by_one(texts):
    codes, values = encode([parse_phone(text) for text in texts])
    expected = [phone for phone in values if phone is not None]
    found = parse_phones(texts)
    if found is None:
        assert any(phone.startswith("0") for phone in expected)
        return
    assert list(found[1]) == expected
    assert [-1 if values[code] is None else expected.index(values[code]) for code in codes] == found[0].tolist()


def test_a_column_of_phones_is_compared_alike_either_way(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(6)
    ends = ["3501146662", "501146662", "146662", "3501146626", "000000001", "00001"]
    cells = [str(rng.choice(["", "0", "+44", "44 "])) + str(rng.choice(ends)) for _ in range(200)]
    records = records_from({"phone": [None, *cells]})
    left, right = np.triu_indices(201, k=1)
    found = []
    for fewest in (1, 10**9):
        monkeypatch.setattr(prepared, "FEWEST_AT_ONCE", fewest)
        ready = compare.phone("phone").prepare(records)
        assert isinstance(ready.vocabulary, PhoneList) == (fewest == 1)
        found.append((ready.pairs(left, right, 1), ready.shared_nats(left, right), ready.tokens.frequencies.counts))
    assert np.array_equal(found[0][0], found[1][0], equal_nan=True)
    assert np.array_equal(found[0][1], found[1][1], equal_nan=True)
    assert found[0][2] == found[1][2]
