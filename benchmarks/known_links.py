"""Two tables linked one-to-one, beside Splink's single best links and dedupe's one-to-one matching, on the same split.

python -m benchmarks.known_links [--sets dblp-acm,abt-buy] [--systems ours,splink,dedupe] [--seed 0]

Models learn from the part `train` of each set and link the records of A and B in the part `test`. F is of links against
all true pairs across. Of ours the same draws are made without the condition as well: printed is in how many of them
some record has two partners, which the condition forbids. Splink's figure is the best of four thresholds by the truth,
which favours it; dedupe's threshold is its own (.5).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scdp import EntityResolver, Spec
from scdp.estimators.clustering import Linked, draw_linked
from scdp.linkage.training.folds import canonical_labels
from scdp.table import Records
from scdp.table.readers import read_records

DATA = Path(os.environ.get("SCDP_DATA", "data"))
COLUMNS = {"dblp-acm": ("title", "authors", "venue", "year"), "abt-buy": ("title", "description", "price")}
THRESHOLDS = (0.5, 0.9, 0.95, 0.99)

Pair = tuple[str, str]


class Task(NamedTuple):
    """Labelled records of both tables to learn from; A and B to link; the true pairs across."""

    train: Records
    first: Records
    second: Records
    truth: set[Pair]


def read_task(name: str) -> Task:
    """The given split of a set."""
    table = read_records(DATA / name / "records.csv")
    test, of_a = table["part"] == "test", table["source"] == "a"
    first, second = (table.take(np.flatnonzero(test & side)) for side in (of_a, ~of_a))
    by_cluster: dict[Any, list[str]] = {}
    for row in second.rows():
        by_cluster.setdefault(row["cluster_id"], []).append(str(row["record_id"]))
    truth = {(str(row["record_id"]), other) for row in first.rows() for other in by_cluster.get(row["cluster_id"], ())}
    return Task(table.take(np.flatnonzero(~test)), first, second, truth)


def score(found: Iterable[Pair], truth: set[Pair]) -> tuple[float, float, float]:
    """Precision, recall and F of links."""
    links = set(found)
    right = len(links & truth)
    precision, recall = right / max(len(links), 1), right / max(len(truth), 1)
    return precision, recall, 2 * right / max(len(links) + len(truth), 1)


def count_twice(links: Iterable[Pair]) -> int:
    """Records that are linked to more than one."""
    linked = list(links)
    by_end = (Counter(pair[end] for pair in linked) for end in (0, 1))
    return sum(n > 1 for counts in by_end for n in counts.values())


def ours(name: str, task: Task, seed: int) -> list[str]:
    """The resolver, with the condition and without it."""
    keep = [*COLUMNS[name], "record_id", "cluster_id"]
    train = Records({column: task.train[column] for column in keep}, task.train.source)
    model = EntityResolver(spec=Spec("cluster_id", id="record_id"), random_state=seed)
    model.fit(train, canonical_labels(train["cluster_id"].tolist()))
    lines = []
    for once in ("both", "none"):
        drawn = draw_linked(model, task.first, task.second, once)
        pairs = cross_pairs(drawn)
        told = f"{count_twice(pairs)} records linked twice; {tell_draws(drawn)}"
        lines.append(show(f"ours, at most one: {once}", score(pairs, task.truth), told))
    return lines


def cross_pairs(drawn: Linked) -> list[Pair]:
    """The links of the answer."""
    n_first = len(drawn.ids[0])
    of_b: dict[Any, list[str]] = {}
    for identifier, label in zip(drawn.ids[1], drawn.labels[n_first:], strict=True):
        of_b.setdefault(label, []).append(str(identifier))
    of_a = zip(drawn.ids[0], drawn.labels[:n_first], strict=True)
    return [(str(identifier), other) for identifier, label in of_a for other in of_b.get(label, ())]


def tell_draws(drawn: Linked) -> str:
    """In how many draws some record has two partners, and how many such records a draw has."""
    n_first, n_draws, n_torn, n_twice = len(drawn.ids[0]), 0, 0, 0
    for _, chunk in drawn.posterior.stored.label_chunks():
        for labels in chunk:
            sides = [np.bincount(side, minlength=labels.max() + 1) for side in np.split(labels, [n_first])]
            twice = sum(int(one[other > 1].sum()) for one, other in (sides, sides[::-1]))
            n_draws, n_torn, n_twice = n_draws + 1, n_torn + (twice > 0), n_twice + twice
    return f"two partners in {n_torn} of {n_draws} draws, {n_twice / n_draws:.1f} records a draw"


def with_splink(name: str, task: Task, seed: int) -> list[str]:
    """Splink 5: u from random pairs, m by EM, then single best links."""
    import duckdb
    import splink.comparison_library as cl
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on

    first_word = "lower(split_part(title, ' ', 1))"
    if name == "dblp-acm":
        comparisons = [
            cl.JaroWinklerAtThresholds("title", [0.97, 0.9, 0.8]),
            cl.JaroWinklerAtThresholds("authors", [0.95, 0.85, 0.7]),
            cl.ExactMatch("year"),
            cl.JaroWinklerAtThresholds("venue", [0.9, 0.7]),
        ]
        blocking: list[Any] = [
            block_on("year"),
            block_on("substr(lower(title), 1, 8)"),
            block_on("substr(authors, 1, 8)"),
        ]
        deterministic, sessions = [block_on("lower(title)", "year")], [block_on("year"), block_on("title")]
    else:
        comparisons = [
            cl.JaccardAtThresholds("title", [0.9, 0.8, 0.7]),
            cl.JaroWinklerAtThresholds("title_words", [0.9, 0.8, 0.7]),
            cl.JaccardAtThresholds("description", [0.9, 0.8]),
            cl.ExactMatch("price"),
            cl.ExactMatch("code"),
        ]
        blocking = [block_on(first_word), block_on("code"), block_on("price")]
        deterministic, sessions = [block_on("code")], [block_on(first_word), block_on("code")]
    connection = duckdb.connect()
    api = DuckDBAPI(connection)
    sides = []
    for side, table in (("a", task.first), ("b", task.second)):
        columns = {column: table[column].tolist() for column in ("record_id", *COLUMNS[name])}
        import pyarrow as pa

        connection.register("incoming", pa.table(columns))
        more = (
            ", lower(title) as title_words, regexp_extract(title, '([A-Za-z]*[0-9][A-Za-z0-9-]{3,})', 1) as code"
            if name == "abt-buy"
            else ""
        )
        connection.execute(f"create table {side} as select *{more} from incoming").fetchall()
        if name == "abt-buy":
            connection.execute(f"update {side} set code = null where code = ''").fetchall()
        sides.append(api.register(side, dataset_display_name=side))
    settings = SettingsCreator(
        link_type="link_only",
        unique_id_column_name="record_id",
        blocking_rules_to_generate_predictions=blocking,
        comparisons=comparisons,
    )
    linker = Linker(sides, settings)
    linker.training.estimate_probability_two_random_records_match(deterministic, recall=0.7)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=1 + seed)
    for rule in sessions:
        linker.training.estimate_parameters_using_expectation_maximisation(rule)
    scored = linker.inference.predict(threshold_match_probability=0.01)
    best = (0.0, 0.0, 0.0), 0.0
    for threshold in THRESHOLDS:
        grouped = linker.clustering.cluster_using_single_best_links(
            scored, duplicate_free_datasets=["a", "b"], threshold_match_probability=threshold
        )
        query = f"""select l.record_id, r.record_id from {grouped.physical_name} l, {grouped.physical_name} r
            where l.cluster_id = r.cluster_id and l.source_dataset = 'a' and r.source_dataset = 'b'"""
        found = score(connection.execute(query).fetchall(), task.truth)
        best = max(best, (found, threshold), key=lambda each: each[0][2])
    return [show(f"Splink, single best links at {best[1]}", best[0], "")]


def mend_dedupe() -> None:
    """dedupe 3 asks a union of words for `byValue`, which BTrees 6 do not give for floats: the same, written out."""
    from dedupe import canopy_index

    plain = canopy_index.mass_weightedUnion
    if getattr(plain, "is_mended", False):
        return

    class Union(dict[int, float]):
        def byValue(self, least: float) -> list[tuple[float, int]]:
            scale = least if least > 0 else 1.0
            return sorted(((value / scale, key) for key, value in self.items() if value >= least), reverse=True)

    def unite(weighted: Any) -> Union:
        return Union(plain(weighted))

    unite.is_mended = True  # type: ignore[attr-defined]
    canopy_index.mass_weightedUnion = unite


def with_dedupe(name: str, task: Task, seed: int) -> list[str]:
    """dedupe 3: trained on all labelled pairs, then one-to-one matching."""
    import io
    import json

    import dedupe
    from dedupe import variables

    mend_dedupe()
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    columns = COLUMNS[name]

    def rows_of(table: Records) -> dict[str, dict[str, Any]]:
        return {str(row["record_id"]): {c: row[c] or None for c in columns} for row in table.rows()}

    def parts_of(table: Records) -> list[dict[str, dict[str, Any]]]:
        sides = [table.take(np.flatnonzero(table["source"] == side)) for side in ("a", "b")]
        return [rows_of(side) for side in sides]

    fields = [variables.String(c, has_missing=True) for c in columns]
    fields += [variables.Text(c, has_missing=True) for c in columns if c in ("title", "description")]
    tool = dedupe.RecordLink(fields, num_cores=1)
    first, second = parts_of(task.train)
    cluster = dict(zip(task.train["record_id"].tolist(), task.train["cluster_id"].tolist(), strict=True))
    by_cluster: dict[Any, list[str]] = {}
    for record in second:
        by_cluster.setdefault(cluster[record], []).append(record)
    rng = random.Random(seed)
    matches = [[first[a], second[b]] for a in first for b in by_cluster.get(cluster[a], ())]
    names = list(second)
    strangers = [(a, b) for a in first for b in rng.sample(names, 3) if cluster[a] != cluster[b]]
    kept = {"match": matches, "distinct": [[first[a], second[b]] for a, b in strangers[: 2 * len(matches)]]}

    def tupled(pairs: list[list[Any]]) -> list[dict[str, Any]]:
        return [{"__class__": "tuple", "__value__": pair} for pair in pairs]

    file = io.StringIO(json.dumps({kind: tupled(pairs) for kind, pairs in kept.items()}))
    tool.prepare_training(first, second, training_file=file, sample_size=1500)
    tool.train(recall=0.95, index_predicates=False)
    found = tool.join(rows_of(task.first), rows_of(task.second), threshold=0.5, constraint="one-to-one")
    return [show("dedupe, one-to-one", score([(a, b) for (a, b), _ in found], task.truth), "")]


def show(what: str, scores: tuple[float, float, float], more: str) -> str:
    """One line of the table."""
    precision, recall, f = scores
    return f"{what:34} P {precision:.3f} R {recall:.3f} F {f:.3f}  {more}".rstrip()


SYSTEMS: dict[str, Callable[[str, Task, int], list[str]]] = {"ours": ours, "splink": with_splink, "dedupe": with_dedupe}


def main() -> None:
    """Print a line for each system and set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(COLUMNS))
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name in given.sets.split(","):
        task = read_task(name)
        for system in given.systems.split(","):
            begin = time.perf_counter()
            with warnings.catch_warnings(), open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
                warnings.simplefilter("ignore")
                lines = SYSTEMS[system](name, task, given.seed)
            for line in lines:
                print(f"{name:9} {line}  ({time.perf_counter() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
