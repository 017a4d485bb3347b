"""All comparisons of the references task on 2,000 citations, timed beside RapidFuzz's own cdist.

Run with  python -m benchmarks.comparisons_speed ; without the Cora data, citations are generated.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from rich.console import Console
from rich.table import Table

from scdp.compare import Comparison
from scdp.compare.distances import compute_distances
from scdp.errors import DataNotFoundError
from scdp.paper.tasks import references_spec
from scdp.table import Records
from scdp.table.spec import Spec

N_RECORDS = 2000
TARGET = 1.5
REPEATS = 3
COLUMNS = ("author", "title", "date", "venue")


def citations() -> tuple[Records, str]:
    """2,000 citations: the Cora references, the first ones again at the end; or made-up ones."""
    try:
        from scdp.paper.datasets import load_cora

        data = load_cora(merge_typo=True).data
        assert isinstance(data, Records)
        return data.take(np.arange(N_RECORDS) % len(data)), "Cora references"
    except DataNotFoundError:
        return generated_citations(), "generated citations"


def generated_citations() -> Records:
    random = np.random.default_rng(0)
    words = ["".join(random.choice(list("abcdefghijklmnop"), size=size)) for size in random.integers(2, 12, 400)]

    def text(n_words: int) -> str:
        return " ".join(random.choice(words, size=n_words))

    papers = [
        (f"{text(2)}, {text(2)} and {text(2)}", text(9), str(random.integers(1980, 2005)), text(8))
        for _ in range(N_RECORDS // 2)
    ]
    cells = [papers[k] for k in random.integers(len(papers), size=N_RECORDS)]
    return Records(
        {name: np.array(column, dtype=object) for name, column in zip(COLUMNS, zip(*cells, strict=True), strict=True)}
    )


def all_distinct(records: Records) -> Records:
    """The same with a number in front of every text but the date: no value twice, the hardest case for us."""
    columns = dict(records.columns)
    for name in ("author", "title", "venue"):
        cells = [f"{k} {cell}" if cell else None for k, cell in enumerate(records[name])]
        columns[name] = np.array(cells, dtype=object)
    return Records(columns, records.source)


def seconds(*works: Callable[[], object]) -> list[float]:
    """The best of a few runs of each, run in turn so that a busy machine is busy for all."""
    best = [float("inf")] * len(works)
    for _ in range(REPEATS):
        for k, work in enumerate(works):
            start = time.perf_counter()
            work()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def rapidfuzz_work(comparison: Comparison, records: Records) -> Callable[[], object]:
    """RapidFuzz's cdist over the same cleaned strings, all of them."""
    prepared = comparison.prepare(records)
    texts = [prepared.vocabulary[code] for code in prepared.codes if code >= 0]
    scorer = Levenshtein.normalized_distance
    return lambda: cdist(texts, texts, scorer=scorer, dtype=np.float32, workers=-1)


def timed(records: Records, title: str, console: Console) -> float:
    """Print the table of one data set; return our time for all comparisons / RapidFuzz's for its own."""
    spec = references_spec().fit(records)
    table = Table("comparison", "scdp s", "RapidFuzz s", "ratio", title=title)
    baselines = []
    for comparison in spec.fields:
        alone = Spec(spec.entity, [comparison])
        works: list[Callable[[], object]] = [partial(compute_distances, records, alone)]
        if comparison.kind == "edit":
            works.append(rapidfuzz_work(comparison, records))
            baselines.append(works[1])
        ours, *theirs = seconds(*works)
        ratio = (f"{theirs[0]:.3f}", f"{ours / theirs[0]:.2f}") if theirs else ("-", "-")
        table.add_row(comparison.name, f"{ours:.3f}", *ratio)
    total, *parts = seconds(partial(compute_distances, records, spec), *baselines)
    table.add_section()
    table.add_row(f"all {len(spec.fields)}, stored", f"{total:.3f}", f"{sum(parts):.3f}", f"{total / sum(parts):.2f}")
    console.print(table)
    return total / sum(parts)


def main() -> int:
    console = Console()
    records, name = citations()
    ratio = timed(records, f"{N_RECORDS} {name}", console)
    distinct = timed(all_distinct(records), f"{N_RECORDS} {name}, every text made distinct", console)
    verdict = "met" if ratio <= TARGET else "MISSED"
    console.print(
        f"{ratio:.2f} times RapidFuzz's cdist ({distinct:.2f} with no duplicates); target {TARGET}: {verdict}"
    )
    return 0 if ratio <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
