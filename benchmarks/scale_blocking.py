"""What a blocking makes of a large table: candidates a record, records looked at, and the true pairs among them.

python -m benchmarks.scale_blocking MODEL PEOPLE.parquet TRUTH.parquet [--overlaps as-chosen|yes|no]
The files are those of `benchmarks.scale`, rows of both in one order. `--overlaps` has rules chosen as `scdp cluster`
does, with overlaps whatever the size, or without any.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import duckdb
import numpy as np

from benchmarks.scale import codes
from scdp.blocking import by_size
from scdp.blocking.by_size import list_columns
from scdp.blocking.keys import make_key_maker
from scdp.blocking.pairs import make_search
from scdp.blocking.rules import Overlap
from scdp.estimators.model_folder import load_model
from scdp.table.readers import read_records


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("people", type=Path)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--overlaps", choices=["as-chosen", "yes", "no"], default="as-chosen")
    options = parser.parse_args()
    model = load_model(options.model)
    rules = model.fitted_.ladder.pool
    records = read_records(options.people)
    with duckdb.connect() as connection:
        entity = codes(connection.sql(f"select entity from '{options.truth}'").to_arrow_table()["entity"])
    if options.overlaps == "yes":
        # No rules keep more than all pairs, so that overlaps are always looked at.
        by_size.ENOUGH_KEPT = 2.0
    if options.overlaps == "no":
        some = np.array([not isinstance(rule, Overlap) for rule in rules.rules])
        kept = rules.kept[:, some]
        plain = tuple(rule for rule in rules.rules if not isinstance(rule, Overlap))
        rules = by_size.RulePool(plain, rules.n_pairs, np.packbits(kept).tobytes())
    chosen = rules.choose(records, list_columns(model.fitted_spec_))
    print(chosen.blocking)
    search = make_search(make_key_maker(records, chosen.blocking), chosen.blocking)
    n_candidates = n_true = 0
    for left, right in search.chunks(2):
        n_candidates += len(left)
        n_true += int((entity[left] == entity[right]).sum())
    sizes = np.bincount(entity)
    n = len(records)
    print(
        f"{n:,} records: {n_candidates / n:.2f} candidates a record, {search.n_visited.sum() / n:.1f} looked at, "
        f"{n_true / (sizes * (sizes - 1) // 2).sum():.4f} of the true pairs kept, {chosen.recall:.4f} expected"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
