"""Longest common substring in bulk: texts as one flat array of code points, a dynamic programme a pair."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel

Integers = NDArray[np.int64]


def encode(texts: list[str]) -> tuple[NDArray[np.uint32], Integers]:
    """All code points one after the other, and where each text starts (one more entry than texts)."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    starts = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in texts], out=starts[1:])
    return codes, starts


@kernel
def longest_run(a: Any, b: Any, before: Any, now: Any) -> Any:
    """Length of the longest common substring; `before` and `now` are scratch of len(b) + 1 entries."""
    width = len(b)
    before[: width + 1] = 0
    now[0] = 0
    best = np.int32(0)
    for i in range(len(a)):
        letter = a[i]
        for j in range(width):
            # Two rows and no branch: this is the form the compiler turns into vector instructions.
            run = np.int32(before[j] + 1) if b[j] == letter else np.int32(0)
            now[j + 1] = run
            best = max(best, run)
        before, now = now, before
        now[0] = 0
    return best


@kernel
def fill_pairs(codes: Any, starts: Any, left: Any, right: Any, out: Any) -> None:
    """out[p] = 1 - longest common substring / longer length, for the pairs (left[p], right[p])."""
    longest = 0
    for text in range(len(starts) - 1):
        longest = max(longest, starts[text + 1] - starts[text])
    before = np.zeros(longest + 1, dtype=np.int32)
    now = np.zeros(longest + 1, dtype=np.int32)
    for p in range(len(left)):
        a = codes[starts[left[p]] : starts[left[p] + 1]]
        b = codes[starts[right[p]] : starts[right[p] + 1]]
        if len(a) > len(b):
            a, b = b, a
        out[p] = 1.0 - longest_run(a, b, before, now) / max(len(b), 1)
