"""GoldenMatch, which configures itself, on tables that `python -m benchmarks.without_labels --write DIR` wrote.

python benchmarks/without_labels_goldenmatch.py DIR NAME...        (in an environment that has goldenmatch)
"""

from __future__ import annotations

import csv
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path


def count_pairs(labels: Iterable[object]) -> int:
    return sum(n * (n - 1) // 2 for n in Counter(labels).values())


def f_score(truth: list[str], found: list[int]) -> float:
    """Pairwise F."""
    total = count_pairs(truth) + count_pairs(found)
    return 2 * count_pairs(zip(truth, found, strict=True)) / total if total else 1.0


def cluster(path: Path, n_records: int) -> list[int]:
    """The cluster of each row, as GoldenMatch finds it without being told anything."""
    import goldenmatch
    import pyarrow

    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {name: [row[name] or None for row in rows] for name in rows[0]}
    result = goldenmatch.dedupe_df(
        pyarrow.table({name: pyarrow.array(cells, pyarrow.string()) for name, cells in columns.items()}),
        allow_red_config=True,
    )
    found = [-1 - row for row in range(n_records)]
    for number, members in result.clusters.items():
        for row in members["members"]:
            found[int(row)] = int(number)
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    for name in sys.argv[2:]:
        truth = (folder / f"{name}.truth").read_text().split()
        start = time.process_time()
        try:
            f = f"{f_score(truth, cluster(folder / f'{name}.csv', len(truth))):.3f}"
        except Exception as error:
            f = f"stops: {type(error).__name__}: {str(error)[:100]}"
        print(f"| {name} | {len(truth)} | {f} | {time.process_time() - start:.0f} |", flush=True)


if __name__ == "__main__":
    main()
