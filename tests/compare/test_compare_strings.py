"""Compiled distances of texts: masks of bits, the plain way and RapidFuzz agree, to the last bit of what is kept."""

from __future__ import annotations

import numpy as np
import pytest
from rapidfuzz.distance import JaroWinkler, Levenshtein

from scdp.compare.kernels import (
    clear_masks,
    edit,
    edits,
    edits_plainly,
    jaro_winkler,
    matches,
    matches_plainly,
    set_masks,
)


@pytest.mark.parametrize("longest", [1, 2, 5, 12, 64, 90])
@pytest.mark.parametrize("n_letters", [2, 8, 26])
def test_distances_are_those_of_rapidfuzz(longest, n_letters):
    rng = np.random.default_rng([longest, n_letters])
    masks = np.zeros((2, 26), dtype=np.uint64)
    for _ in range(300):
        one, other = (rng.integers(0, n_letters, rng.integers(1, longest + 1)).astype(np.uint8) for _ in "ab")
        if rng.random() < 0.5:
            other = np.where(rng.random(len(one)) < 0.8, one, rng.integers(0, n_letters, len(one)))
        letters = np.concatenate([one, other]).astype(np.uint8)
        ends = 0, len(one), len(one), len(letters)
        texts = ["".join(map(chr, text + 97)) for text in (one, other)]
        if len(one) <= 64:
            set_masks(masks, 1, letters, 0, len(one))
            assert edits(masks, 1, len(one), letters, *ends[2:]) == edits_plainly(letters, *ends)
        if longest <= 64:
            assert matches(masks, 1, len(one), letters, *ends[2:]) == matches_plainly(letters, *ends)
        assert edits_plainly(letters, *ends) == Levenshtein.distance(*texts)
        assert edit(masks, 1, letters, *ends) == Levenshtein.normalized_distance(*texts)
        assert jaro_winkler(masks, 1, letters, *ends) == JaroWinkler.normalized_distance(*texts)
        clear_masks(masks, 1, letters, 0, len(one))
        assert not masks.any()
