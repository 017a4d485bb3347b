"""Values numbered in kernels: the same as a dictionary gives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scdp.texts import TextBytes, number_values

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5) | st.integers(0, 2**20).map(lambda k: k << 40)


@settings(deadline=None)
@given(st.lists(NUMBERS, max_size=60))
def test_numbers_are_those_of_a_dictionary(values):
    codes, rows = number_values(np.array(values, dtype=np.int64))
    distinct = list(dict.fromkeys(values))
    assert codes.tolist() == [distinct.index(value) for value in values]
    assert rows.tolist() == [values.index(value) for value in distinct]


@settings(deadline=None)
@given(st.lists(st.text(max_size=5), max_size=20))
def test_bytes_are_those_of_the_texts(texts):
    content, offsets = TextBytes.of(texts)
    found = [content[start:stop].tobytes() for start, stop in pairwise(offsets)]
    assert found == [text.encode("utf-8", "surrogatepass") for text in texts]
