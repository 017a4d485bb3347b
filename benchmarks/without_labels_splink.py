"""Splink 5 without labels on the tables of benchmarks/without_labels.py: F at its threshold of .95, and at the best.

python -m benchmarks.without_labels_splink [--sets febrl3,historical,...]

FEBRL3 and historical people have the settings of Splink's own demos of these tables. The others have those of its
guide for columns of their kind: comparisons for names, dates, postcodes and emails from its library, blocking on whole
columns and prefixes, u from random pairs, m by EM under two rules. The best threshold is chosen by the truth.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import splink.comparison_library as cl
from splink import DuckDBAPI, Linker, SettingsCreator, block_on

from benchmarks.honesty import codes
from benchmarks.without_labels import tables
from scdp import metrics

THRESHOLD = 0.95
TRIED = (0.05, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999)
MAX_PAIRS = 1e6


@dataclass(frozen=True)
class Setup:
    """What Splink is told of one table; `sql` makes columns that are not in it."""

    comparisons: Callable[[], list[Any]]
    blocking: list[Any]
    deterministic: list[Any]
    recall: float
    training: list[Any]
    sql: str = ""


def frequent(comparison: Any) -> Any:
    return comparison.configure(term_frequency_adjustments=True)


SETUPS = {
    "febrl3": Setup(
        lambda: [
            cl.NameComparison("given_name"),
            cl.NameComparison("surname"),
            cl.DateOfBirthComparison("date_of_birth", input_is_string=True, datetime_format="%Y%m%d"),
            cl.DamerauLevenshteinAtThresholds("soc_sec_id", [2]),
            frequent(cl.ExactMatch("street_number")),
            frequent(cl.DamerauLevenshteinAtThresholds("postcode", [1, 2])),
        ],
        [block_on(name) for name in ("soc_sec_id", "given_name", "surname", "date_of_birth", "postcode")],
        [
            block_on("soc_sec_id"),
            block_on("given_name", "surname", "date_of_birth"),
            "l.given_name = r.surname and l.surname = r.given_name and l.date_of_birth = r.date_of_birth",
        ],
        0.9,
        [block_on("date_of_birth"), block_on("substr(postcode,1,3)")],
    ),
    "historical": Setup(
        lambda: [
            cl.ForenameSurnameComparison("first_name", "surname", forename_surname_concat_col_name="first_and_surname"),
            cl.DateOfBirthComparison("dob", input_is_string=True),
            cl.PostcodeComparison("postcode_fake"),
            frequent(cl.ExactMatch("birth_place")),
            frequent(cl.ExactMatch("occupation")),
        ],
        [
            block_on("substr(first_name,1,3)", "substr(surname,1,4)"),
            block_on("surname", "dob"),
            block_on("first_name", "dob"),
            block_on("postcode_fake", "first_name"),
            block_on("postcode_fake", "surname"),
            block_on("dob", "birth_place"),
            block_on("substr(postcode_fake,1,3)", "dob"),
            block_on("substr(postcode_fake,1,3)", "first_name"),
            block_on("substr(postcode_fake,1,3)", "surname"),
            block_on("substr(first_name,1,2)", "substr(surname,1,2)", "substr(dob,1,4)"),
        ],
        [
            block_on("first_name", "surname", "dob"),
            block_on("substr(first_name,1,2)", "surname", "substr(postcode_fake,1,2)"),
            block_on("dob", "postcode_fake"),
        ],
        0.6,
        [block_on("first_name", "surname"), block_on("dob")],
    ),
    "rldata500": Setup(
        lambda: [
            cl.NameComparison("fname_c1"),
            cl.NameComparison("lname_c1"),
            cl.ExactMatch("by"),
            cl.ExactMatch("bm"),
            cl.ExactMatch("bd"),
        ],
        [block_on("fname_c1"), block_on("lname_c1"), block_on("by", "bm"), block_on("bm", "bd")],
        [block_on("fname_c1", "lname_c1", "by"), block_on("lname_c1", "by", "bm", "bd")],
        0.7,
        [block_on("by"), block_on("lname_c1")],
    ),
    "restaurant": Setup(
        lambda: [
            cl.JaroWinklerAtThresholds("name", [0.95, 0.88, 0.7]),
            cl.JaroWinklerAtThresholds("addr", [0.95, 0.88, 0.7]),
            frequent(cl.ExactMatch("city")),
            cl.LevenshteinAtThresholds("digits", [1, 2]),
        ],
        [
            block_on("digits"),
            block_on("name"),
            block_on("addr"),
            block_on("substr(name,1,4)"),
            block_on("substr(addr,1,6)"),
        ],
        [block_on("digits"), block_on("name", "addr")],
        0.7,
        [block_on("digits"), block_on("substr(name,1,4)")],
        "regexp_replace(phone, '[^0-9]', '', 'g') as digits",
    ),
    "crm": Setup(
        lambda: [
            cl.NameComparison("first_name"),
            cl.NameComparison("last_name"),
            cl.EmailComparison("email"),
            cl.LevenshteinAtThresholds("digits", [1, 2]),
            cl.JaroWinklerAtThresholds("address", [0.95, 0.88]),
            frequent(cl.LevenshteinAtThresholds("postcode", [1, 2])),
            cl.LevenshteinAtThresholds("birth_date", [1, 2]),
        ],
        [
            block_on("email"),
            block_on("digits"),
            block_on("last_name", "first_name"),
            block_on("last_name", "birth_date"),
            block_on("postcode", "last_name"),
            block_on("postcode", "first_name"),
            block_on("substr(first_name,1,2)", "birth_date"),
        ],
        [block_on("email"), block_on("first_name", "last_name", "birth_date")],
        0.7,
        [block_on("last_name", "first_name"), block_on("postcode")],
        "nullif(right(regexp_replace(phone, '[^0-9]', '', 'g'), 9), '') as digits",
    ),
    "dblp-acm": Setup(
        lambda: [
            cl.JaroWinklerAtThresholds("title", [0.97, 0.9, 0.8]),
            cl.JaroWinklerAtThresholds("authors", [0.95, 0.85, 0.7]),
            cl.ExactMatch("year"),
            cl.JaroWinklerAtThresholds("venue", [0.9, 0.7]),
        ],
        [block_on("substr(title,1,8)"), block_on("substr(authors,1,8)")],
        [block_on("title", "year")],
        0.7,
        [block_on("year"), block_on("title")],
    ),
    "people": Setup(
        lambda: [
            cl.ForenameSurnameComparison("first_name", "surname", forename_surname_concat_col_name="full_name"),
            cl.DateOfBirthComparison("birth_date", input_is_string=True),
            frequent(cl.LevenshteinAtThresholds("postcode", [1, 2])),
            cl.LevenshteinAtThresholds("digits", [1, 2]),
        ],
        [
            block_on("first_name", "surname"),
            block_on("surname", "birth_date"),
            block_on("first_name", "birth_date"),
            block_on("postcode", "first_name"),
            block_on("postcode", "surname"),
            block_on("birth_date", "city"),
            block_on("substr(postcode,1,3)", "birth_date"),
            block_on("digits"),
            "l.first_name = r.surname and l.surname = r.first_name",
        ],
        [
            block_on("first_name", "surname", "birth_date"),
            block_on("substr(first_name,1,2)", "surname", "substr(postcode,1,2)"),
            block_on("birth_date", "postcode"),
        ],
        0.6,
        [block_on("first_name", "surname"), block_on("birth_date")],
        "right(regexp_replace(phone, '[^0-9]', '', 'g'), 9) as digits, first_name || ' ' || surname as full_name",
    ),
}
ALIASES = {"historical-50k": "historical", "people-100k": "people"}


def cluster(name: str, records: Any) -> dict[float, np.ndarray]:
    """Labels of the records by threshold."""
    import duckdb
    import pandas as pd

    setup = SETUPS[ALIASES.get(name, name)]
    frame = pd.DataFrame(
        {
            column: [None if cell is None else str(cell).strip().lower() or None for cell in records[column]]
            for column in records.names
            if column not in ("cluster_id", "record_id")
        },
        dtype=object,
    )
    frame.insert(0, "row_number", np.arange(len(frame)))
    connection = duckdb.connect()
    connection.register("given", frame)
    more = f", {setup.sql}" if setup.sql else ""
    connection.execute(f"create table records as select *{more} from given").fetchall()
    settings = SettingsCreator(
        link_type="dedupe_only",
        unique_id_column_name="row_number",
        blocking_rules_to_generate_predictions=setup.blocking,
        comparisons=setup.comparisons(),
    )
    linker = Linker(DuckDBAPI(connection).register("records"), settings)
    training = linker.training
    training.estimate_probability_two_random_records_match(setup.deterministic, recall=setup.recall)
    training.estimate_u_using_random_sampling(max_pairs=MAX_PAIRS, seed=1)
    for rule in setup.training:
        # A level that is never seen under a rule teaches nothing, and Splink says so by an error.
        with contextlib.suppress(ValueError):
            training.estimate_parameters_using_expectation_maximisation(rule)
    scored = linker.inference.predict(threshold_match_probability=min(TRIED))
    found = {}
    for threshold in TRIED:
        grouped = linker.clustering.cluster_pairwise_predictions_at_threshold(scored, threshold)
        query = f"select cluster_id from {grouped.physical_name} order by row_number"
        found[threshold] = codes([row[0] for row in connection.execute(query).fetchall()])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETUPS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("splink").setLevel(logging.ERROR)
    print("| | records | Splink at .95 | at the best threshold | processor s |")
    print("|---|---|---|---|---|")
    for name in options.sets.split(","):
        start, items = time.process_time(), tables()[name]()
        by_threshold = {
            threshold: metrics.f_score(items.clusters, labels)
            for threshold, labels in cluster(name, items.data).items()
        }
        best = max(by_threshold, key=lambda threshold: by_threshold[threshold])
        print(
            f"| {name} | {len(items.clusters)} | {by_threshold[THRESHOLD]:.3f} | {by_threshold[best]:.3f} ({best:g}) | "
            f"{time.process_time() - start:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
