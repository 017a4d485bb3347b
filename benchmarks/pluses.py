"""Draw the paper's pluses: the data, what a learned metric makes of them, and what two reference types make of them.

python -m benchmarks.pluses docs/figures/pluses.png
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from scdp import SCDP
from scdp.baselines import XingK
from scdp.metrics import f_score

TRAINING = [(-20, 0), (-20, 8), (-12, 0), (-12, 8)]
TEST = [(0, 0), (1.2, 0.9), (2.4, 1.8)]


def pluses(seed: int, centres: list[tuple[float, float]], size: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Half of each cluster's points spread along each axis."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(centres)), size)
    flat = np.tile(np.arange(size) % 2 == 0, len(centres))
    spread = np.where(flat[:, None], [1.5, 0.05], [0.05, 1.5])
    return np.asarray(centres, dtype=float)[y] + spread * rng.uniform(-1, 1, (len(y), 2)), y


def main() -> None:
    (X, y), (X_test, y_test) = pluses(0, TRAINING), pluses(1, TEST)
    xing = XingK().fit(X, y).predict(X_test, gold=y_test)
    both, known = np.vstack([X, X_test]), np.concatenate([y, np.full(len(y_test), -1)])
    model = SCDP(model="scdp1", n_chains=4, n_sweeps=1000, random_state=0).fit(both, known)
    ours = model.labels_[len(y) :]
    panels = [("The clusters", y_test), ("Xing-K, told k", xing), ("SCDP-1, k not told", ours)]
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharex=True, sharey=True, layout="constrained")
    for axis, (title, labels) in zip(axes, panels, strict=True):
        codes = np.unique(labels, return_inverse=True)[1]
        axis.scatter(*X_test.T, c=codes, cmap="tab10", s=14)
        score, count = f_score(labels, y_test), len(set(labels))
        axis.set_title(
            title if labels is y_test else f"{title}: F {score:.2f}, {count} clusters", fontsize=10
        )
        axis.set_aspect("equal")
        print(title, round(score, 3), count)
    figure.savefig(sys.argv[1], dpi=110)


if __name__ == "__main__":
    main()
