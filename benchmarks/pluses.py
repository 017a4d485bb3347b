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
from scdp.metrics import f_score
from scdp.paper.baselines import XingK

TRAINING = [(-3, -3), (-1.5, 3), (3, -2), (0, 0), (2, 2.5), (-3, 1), (1.2, -3.2), (3.3, 0.7)]
TEST = [(-1, -1), (1, 0), (0, 1)]
N_DRAWS = 5


def pluses(seed: int, centres: list[tuple[float, float]], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Half of each cluster's points spread along each axis."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(centres)), size)
    flat = np.tile(np.arange(size) % 2 == 0, len(centres))
    spread = np.where(flat[:, None], [1.5, 0.03], [0.03, 1.5])
    return np.asarray(centres, dtype=float)[y] + spread * rng.normal(size=(len(y), 2)), y


def solve(seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """New points, and their clusters in truth and as each system finds them."""
    (X, y), (X_test, y_test) = pluses(2 * seed, TRAINING, 40), pluses(2 * seed + 1, TEST, 60)
    xing = XingK().fit(X, y).predict(X_test, gold=y_test)
    known = np.concatenate([y, np.full(len(y_test), -1)])
    model = SCDP(model="scdp1", n_chains=4, n_sweeps=800, random_state=seed)
    ours = model.fit(np.vstack([X, X_test]), known).labels_[len(y) :]
    return X_test, {"The clusters": y_test, "Xing-K, told k": xing, "SCDP-1, not told k": ours}


def draw(points: np.ndarray, found: dict[str, np.ndarray], path: str) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharex=True, sharey=True, layout="constrained")
    for axis, (title, labels) in zip(axes, found.items(), strict=True):
        axis.scatter(*points.T, c=np.unique(labels, return_inverse=True)[1], cmap="tab10", s=12)
        score = f_score(found["The clusters"], labels)
        axis.set_title(f"{title} (F {score:.2f}, {len(set(labels))} clusters)", fontsize=10)
        axis.set_aspect("equal")
    figure.savefig(path, dpi=110)


def main() -> None:
    solved = [solve(seed) for seed in range(N_DRAWS)]
    draw(*solved[0], sys.argv[1])
    for title in solved[0][1]:
        scores = [f_score(found["The clusters"], found[title]) for _, found in solved]
        print(f"{title}: F mean {np.mean(scores):.3f}, {min(scores):.3f} to {max(scores):.3f}")


if __name__ == "__main__":
    main()
