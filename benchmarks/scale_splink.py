"""Splink 5 on DuckDB: a file of people enters; clusters, scored pairs and seconds by stage leave.

python benchmarks/scale_splink.py PEOPLE.parquet|PEOPLE.csv CLUSTERS.parquet PAIRS.parquet SUMMARY.json
Settings are those of Splink's documentation for people (its demos of 50,000 historical persons and of FEBRL), with
the names of our columns; no label is seen.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import splink
import splink.comparison_library as cl
from splink import DuckDBAPI, Linker, SettingsCreator, block_on

THRESHOLD = 0.95  # the demo's, for clusters
PREDICT_THRESHOLD = 0.5  # what is scored lower is not kept, as the guide to performance says
MAX_PAIRS = 1e7  # of random records, for the u probabilities
RECALL = 0.6  # of the deterministic rules: the demo's guess
SEED = 1

# The demo's rules with whole names in place of its widest one, and FEBRL's on a number of the person and on names that
# are swapped in place of its prefixes: 3 million pairs instead of 50 at a million records; at 100,000 F is no worse.
BLOCKING: list[Any] = [
    block_on("first_name", "surname"),
    block_on("surname", "birth_date"),
    block_on("first_name", "birth_date"),
    block_on("postcode", "first_name"),
    block_on("postcode", "surname"),
    block_on("birth_date", "city"),
    block_on("substr(postcode,1,3)", "birth_date"),
    block_on("phone"),
    "l.first_name = r.surname and l.surname = r.first_name",
]
DETERMINISTIC: list[Any] = [
    block_on("first_name", "surname", "birth_date"),
    block_on("substr(first_name,1,2)", "surname", "substr(postcode,1,2)"),
    block_on("birth_date", "postcode"),
]
TRAINING = [block_on("first_name", "surname"), block_on("birth_date")]

# Splink asks for standardised columns: a phone is its digits without the leading zero. The whole name is for the
# term frequencies of the comparison of names.
PEOPLE = """
    create table people as
    select * replace (right(regexp_replace(phone, '[^0-9]', '', 'g'), 9) as phone),
        first_name || ' ' || surname as full_name
    from {reader}
"""


def settings() -> SettingsCreator:
    """Street and city are left out: the demo of FEBRL warns of columns that go with the postcode."""
    return SettingsCreator(
        link_type="dedupe_only",
        unique_id_column_name="id",
        blocking_rules_to_generate_predictions=BLOCKING,
        comparisons=[
            cl.ForenameSurnameComparison("first_name", "surname", forename_surname_concat_col_name="full_name"),
            cl.DateOfBirthComparison("birth_date", input_is_string=True),
            cl.LevenshteinAtThresholds("postcode", [1, 2]).configure(term_frequency_adjustments=True),
            cl.LevenshteinAtThresholds("phone", [1, 2]),
        ],
        retain_matching_columns=False,
    )


class Stages:
    """Seconds by stage, in the order in which they ran."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = work()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        return result


def deduplicate(people: str, clusters: str, pairs: str) -> dict[str, float]:
    """Write the clusters at Splink's threshold, then the scored pairs; return the seconds of each stage."""
    stages, connection = Stages(), duckdb.connect()

    def prepare() -> Linker:
        reader = "read_csv($path, all_varchar = true)" if people.endswith(".csv") else "read_parquet($path)"
        connection.execute(PEOPLE.format(reader=reader), {"path": people}).fetchall()
        return Linker(DuckDBAPI(connection).register("people"), settings())

    linker = stages.run("read", prepare)
    stages.run("train", lambda: train(linker))
    scored = stages.run("predict", lambda: linker.inference.predict(PREDICT_THRESHOLD))
    grouped = stages.run(
        "cluster", lambda: linker.clustering.cluster_pairwise_predictions_at_threshold(scored, THRESHOLD)
    )

    def write(query: str, path: str) -> None:
        connection.execute(f"copy ({query}) to '{path}' (format parquet)").fetchall()

    stages.run("write", lambda: write(f"select id, cluster_id as cluster from {grouped.physical_name}", clusters))
    stages.run("pairs", lambda: write(f"select id_l, id_r, match_weight from {scored.physical_name}", pairs))
    connection.close()
    return stages.seconds


def train(linker: Linker) -> None:
    training = linker.training
    training.estimate_probability_two_random_records_match(DETERMINISTIC, recall=RECALL)
    training.estimate_u_using_random_sampling(max_pairs=MAX_PAIRS, seed=SEED)
    for rule in TRAINING:
        training.estimate_parameters_using_expectation_maximisation(rule, estimate_without_term_frequencies=True)


def main() -> None:
    people, clusters, pairs, summary = sys.argv[1:]
    seconds = deduplicate(people, clusters, pairs)
    content = {"seconds": seconds, "version": splink.__version__}
    Path(summary).write_text(json.dumps(content) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
