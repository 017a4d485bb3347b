"""Nanoseconds a pair of every kind of comparison on one thread, beside RapidFuzz where it has the same.

python -m benchmarks.kinds_speed [--pairs 200000] [--records 20000]

Cells are those of made-up people and citations; pairs are random. The whole proposal for people is the last line.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from scdp import compare
from scdp.compare import Comparison
from scdp.datasets import make_records
from scdp.table.records import Records
from scdp.table.spec import proposed_comparisons

# The kinds that are timed on people and on citations; all others have the column of the name or title.
PEOPLE = """person_name company address date phone email url code relative category exact jaro_winkler edit title
    proper_noun year duration acronym geo edit_head edit_abbreviation longest_common_subsequence
    longest_common_substring absolute"""
CITATIONS = """tfidf qgram_tfidf soft_tokens contained_tokens codes_in_text rare_words token_set set_overlap
    people_overlap"""
COLUMN = {
    "address": "street", "date": "birth_date", "phone": "phone", "code": "postcode", "relative": "phone",
    "year": "birth_date", "duration": "phone", "absolute": "phone", "category": "city",
    "set_overlap": "author", "people_overlap": "author",
    "codes_in_text": "pages",
}  # fmt: skip
SAME = {"edit": "Levenshtein", "jaro_winkler": "JaroWinkler", "longest_common_subsequence": "LCSseq"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--records", type=int, default=20_000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    for kind, kinds in (("people", PEOPLE), ("citations", CITATIONS)):
        records = make_records(options.records, kind=kind, seed=1).data
        left, right = rng.integers(len(records), size=(2, options.pairs))
        for name in kinds.split():
            column = COLUMN.get(name, "full_name" if kind == "people" else "title")
            print(line(name, made(name, column, records), left, right), flush=True)
        if kind == "people":
            proposal = proposed_comparisons(records, records.names)
            total = sum(nanoseconds(one, records, left, right) for one in proposal)
            print(f"{'the proposal for people':28} {total:8.0f} ns   ({len(proposal)} comparisons)")


def made(name: str, column: str, records: Records) -> tuple[Comparison, Records]:
    if column == "full_name":
        cells = [f"{a or ''} {b or ''}".strip() for a, b in zip(records["first_name"], records["surname"], strict=True)]
        forms = {"email": "{}@mail.com", "url": "https://{}.org/a"}
        cells = [forms.get(name, "{}").format(cell.replace(" ", ".") if name in forms else cell) for cell in cells]
        records = Records({"full_name": np.array(cells, dtype=object)})
    if name == "geo":
        places = np.random.default_rng(1).uniform(-80, 80, size=(len(records), 2))
        records = Records({"full_name": np.array([f"{a:.4f}, {b:.4f}" for a, b in places], dtype=object)})
    return compare.make_comparison(name, column).fit(records), records


def line(name: str, what: tuple[Comparison, Records], left: np.ndarray, right: np.ndarray) -> str:
    comparison, records = what
    text = f"{name:28} {nanoseconds(comparison, records, left, right):8.0f} ns"
    if name in SAME:
        text += f"   RapidFuzz {rapidfuzz_nanoseconds(comparison, records, left, right):6.0f} ns"
    return text


def nanoseconds(comparison: Comparison, records: Records, left: np.ndarray, right: np.ndarray) -> float:
    prepared = comparison.fit(records).prepare(records)
    prepared.pairs(left[:100], right[:100], 1)
    return timed(lambda: prepared.pairs(left, right, 1)) / len(left)


def rapidfuzz_nanoseconds(comparison: Comparison, records: Records, left: np.ndarray, right: np.ndarray) -> float:
    from rapidfuzz import distance
    from rapidfuzz.process import cpdist

    prepared = comparison.prepare(records)
    texts = np.array([*prepared.vocabulary, ""], dtype=object)[prepared.codes]
    scorer = getattr(distance, SAME[comparison.kind]).normalized_distance
    one, other = texts[left].tolist(), texts[right].tolist()
    return timed(lambda: cpdist(one, other, scorer=scorer, dtype=np.float32, workers=1)) / len(left)


def timed(work: Callable[[], object]) -> float:
    """Nanoseconds of the processor, the best of two runs."""
    best = float("inf")
    for _ in range(2):
        start = time.process_time_ns()
        work()
        best = min(best, time.process_time_ns() - start)
    return best


if __name__ == "__main__":
    main()
