"""Nanoseconds a pair of every kind of comparison on one thread, beside RapidFuzz where it has the same.

python -m benchmarks.kinds_speed [--pairs 200000] [--records 20000]

Cells are those of made-up people and citations; pairs are random. For people the whole proposal comes last: all of it
for random pairs, and as the prefilter makes it for the candidates that blocking finds, each comparison only for pairs
that are still in reach. Of what may be read by a library, the time a distinct cell is told too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from scdp import compare
from scdp.compare import Comparison
from scdp.datasets import make_records
from scdp.engines import candidates
from scdp.engines.candidates import Blocked, index_records, settle
from scdp.linkage.prefilter import PrefilterRun
from scdp.resolver import EntityResolver
from scdp.table import Records
from scdp.table.propose import proposed_comparisons
from scdp.table.spec import Spec

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
# Settings that kinds may have, and what each is beside.
SETTINGS = {
    "count_difference": compare.count_difference("surname"),
    "address, with time": compare.address("street", time="birth_date"),
    "phone, no region": compare.phone("phone"),
    "phone, with region": compare.phone("phone", region="GB"),
    "person_name, one word": compare.person_name("surname"),
    "the same, latin": compare.person_name("surname", clean=["latin"]),
}
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
            for name, comparison in SETTINGS.items():
                text = f"{name:28} {nanoseconds(comparison, records, left, right):8.0f} ns"
                print(f"{text}   {microseconds_a_cell(comparison, records):.1f} us a distinct cell", flush=True)
            proposal = proposed_comparisons(records, records.names)
            total = sum(nanoseconds(one, records, left, right) for one in proposal)
            print(f"{'the proposal for people':28} {total:8.0f} ns   ({len(proposal)} comparisons)", flush=True)
            each, n_pairs = prefiltered(proposal, records)
            print(f"{'the same by the prefilter':28} {each:8.0f} ns   ({n_pairs:,} candidates)", flush=True)


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


def microseconds_a_cell(comparison: Comparison, records: Records) -> float:
    column = records[comparison.columns[0]]
    return timed(lambda: comparison.prepare(records)) / 1000.0 / len(set(column.tolist()))


def prefiltered(proposal: list[Comparison], records: Records) -> tuple[float, int]:
    """Nanoseconds a candidate pair by the prefilter of a model of other people, and how many candidates there are."""
    taught = make_records(600, kind="people", seed=2)
    model = EntityResolver(spec=Spec(fields=proposal), boosted=False, random_state=0)
    fitted = model.fit(taught.data, np.unique(taught.clusters, return_inverse=True)[1]).fitted_
    spec = model.fitted_spec_
    assert spec is not None
    blocked = Blocked(records, spec.fields, fitted.ensemble, lambda: fitted.ladder.choose(records, spec))
    indexed = index_records(blocked)
    # As with millions of records.
    candidates.MOST_CANDIDATES = 0
    prefilter = settle(blocked, indexed).prefilter
    assert prefilter is not None
    run = PrefilterRun.of(prefilter, indexed.comparer)
    parts = [indexed.search.pairs(part) for part in indexed.search.parts(indexed.rows)]
    left, right = (np.concatenate([pairs[k] for pairs in parts]) for k in range(2))
    run.keep(left[:100], right[:100])
    return timed(lambda: run.keep(left, right)) / len(left), len(left)


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
