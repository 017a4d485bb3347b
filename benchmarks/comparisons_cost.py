"""What comparing long texts costs: seconds of one core for a pair, by kind and length, and by the product of lengths.

The last column is what `scdp.compare.comparison` counts with, for kinds whose time grows with the product.
"""

from __future__ import annotations

import time

import numpy as np

from scdp.compare import Comparison
from scdp.compare.comparison import RATES
from scdp.compare.kinds import BUILT_IN
from scdp.table import Records

LENGTHS, N_TEXTS = (200, 1000, 4000), 8
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def make_text(rng: np.random.Generator, length: int, separator: str) -> str:
    words = ("".join(rng.choice(LETTERS, rng.integers(2, 10))) for _ in range(length))
    return separator.join(words)[:length]


def measure(kind: str, length: int) -> float:
    """Seconds of a pair of texts of this length."""
    rng = np.random.default_rng(length)
    separator = "; " if "separator" in BUILT_IN[kind].options else " "
    texts = np.array([make_text(rng, length, separator) for _ in range(N_TEXTS)], dtype=object)
    prepared = Comparison(name=kind, kind=kind, columns=("text",), **BUILT_IN[kind].options).prepare(
        Records({"text": texts})
    )
    left, right = np.triu_indices(N_TEXTS, 1)
    prepared.pairs(left[:1], right[:1], 1)
    begin = time.process_time()
    prepared.pairs(left, right, 1)
    return (time.process_time() - begin) / len(left)


def main() -> None:
    for kind, details in BUILT_IN.items():
        if details.value in ("number", "share"):
            continue
        seconds = [measure(kind, length) for length in LENGTHS]
        shown = " ".join(f"{1e6 * each:8.0f}" for each in seconds)
        rate = f"{seconds[-1] / LENGTHS[-1] ** 2:.1e} (counted {RATES[kind]:.0e})" if kind in RATES else ""
        print(f"{kind:28s} {shown} us  {rate}")


if __name__ == "__main__":
    main()
