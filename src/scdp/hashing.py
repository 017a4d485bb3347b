"""64-bit hashes of numbers: what streams of chance, keys of blocks, orders and samples of rows are made from.

A hash depends on its numbers alone, so that it is the same on every machine and for every division of the work.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel
from scdp._typing import Integers

Hashes = NDArray[np.uint64]

PRIME = np.uint64(0x100000001B3)
BASIS = np.uint64(0xCBF29CE484222325)
# A product with it is spread over the high bits.
MIXER = np.uint64(0x9E3779B97F4A7C15)
_STIR_1, _STIR_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@kernel
def stir_bits(value: np.uint64) -> np.uint64:
    """The number with each of its bits spread over all; the lowest is set, as the key 0 stands for missing."""
    value = (value ^ (value >> np.uint64(30))) * _STIR_1
    value = (value ^ (value >> np.uint64(27))) * _STIR_2
    return (value ^ (value >> np.uint64(31))) | np.uint64(1)


@kernel
def mix_keys(first: np.uint64, second: np.uint64) -> np.uint64:
    """One key for two; (a, b) and (b, a) differ."""
    return stir_bits((first * PRIME) ^ (second + BASIS))


@kernel
def mix_columns(first: Hashes, second: Hashes, need_both: bool) -> Hashes:
    """One key a record for two; if both are needed, 0 where either is missing."""
    keys = np.zeros(len(first), dtype=np.uint64)
    for row in range(len(first)):
        if not need_both or (first[row] != 0 and second[row] != 0):
            keys[row] = mix_keys(first[row], second[row])
    return keys


@kernel
def scatter_rows(rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """A fixed number for each row by which neighbouring rows are far apart."""
    numbers = np.empty(len(rows), dtype=np.int64)
    for place in range(len(rows)):
        numbers[place] = np.int64(stir_bits(np.uint64(rows[place]) + BASIS) >> np.uint64(1))
    return numbers


# Random pairs of records that show what strangers look like.
N_STRANGERS = 200_000


def draw_strangers(n: int, n_drawn: int = N_STRANGERS) -> tuple[Integers, Integers]:
    """Random pairs of n records: the same on every machine."""
    rng = np.random.default_rng(n)
    one = rng.integers(0, n, n_drawn)
    other = (one + rng.integers(1, max(n, 2), n_drawn)) % n
    return np.minimum(one, other), np.maximum(one, other)
