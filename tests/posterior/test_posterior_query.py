"""SQL over draws: the right numbers, and nothing but the table of records within reach."""

from __future__ import annotations

import numpy as np
import pytest

from scdp.errors import InputError
from scdp.partitions import name_by_first
from scdp.posterior import Posterior
from scdp.posterior import query as queries
from scdp.posterior.query import count_by_group

CITIES = {"city": ["x", "x", "y", "y", None], "entity": ["p"] * 5, "age": ["1", "2", "3", "4", "5"]}


@pytest.fixture
def posterior() -> Posterior:
    return Posterior(
        [[[0, 0, 1, 1, 2], [0, 0, 0, 1, 1], [0, 1, 2, 3, 4], [0, 0, 1, 1, 2]]], names=["a", "b", "c", "d", "e"]
    )


def test_counts_are_those_of_a_plain_loop(posterior):
    table = posterior.query(
        "SELECT city, count(distinct entity) AS n, count(*) AS all FROM records GROUP BY city", CITIES
    )
    rows = {row["city"]: row for row in table.rows()}
    draws = posterior.draws[0]
    for city, items in {"x": [0, 1], "y": [2, 3], None: [4]}.items():
        counts = [len(set(draw[items])) for draw in draws]
        assert rows[city]["n"] == np.mean(counts)
        assert (rows[city]["n_low"], rows[city]["n_high"]) == (min(counts), max(counts))
        assert rows[city]["all"] == len(items)


def test_rows_that_some_draws_lack_count_as_none(posterior):
    sizes = "SELECT size, count(*) AS n FROM (SELECT count(*) AS size FROM records GROUP BY entity) GROUP BY size"
    rows = {row["size"]: row for row in posterior.query(sizes).rows()}
    assert rows[3]["n"] == 0.25
    assert rows[2]["n"] == (2 + 1 + 0 + 2) / 4
    assert rows[2]["n_low"] == 0
    mean = posterior.query("SELECT city, avg(age::INT) AS mean FROM records GROUP BY city", CITIES).rows()
    assert mean[0]["mean_low"] == mean[0]["mean_high"]


def test_the_users_own_columns_keep_clear_of_ours(posterior):
    table = posterior.query("SELECT entity_given, count(distinct entity) AS n FROM records GROUP BY 1", CITIES)
    assert table.rows()[0]["entity_given"] == "p"
    assert str(table).splitlines()[0].split() == ["entity_given", "n", "90", "%", "interval"]
    assert "<td>p</td>" in table._repr_html_()
    assert table.to_pandas()["n"].iloc[0] == table.to_polars()["n"][0]


@pytest.mark.parametrize("where", ["", " WHERE city <> 'y' OR age > '3'"])
@pytest.mark.parametrize("by", ["", "city", 'age, "city"'])
def test_the_short_way_for_many_records_gives_the_same(posterior, monkeypatch, where, by):
    first = f"{by}, " if by else ""
    sql = f"SELECT {first}count(distinct entity) AS n FROM records{where}{' GROUP BY ' + by if by else ''}"
    slow = posterior.query(sql, CITIES).rows()
    monkeypatch.setattr(queries, "MANY_LABELS", 0)
    monkeypatch.setattr(queries, "_run_draws", None)
    quick = posterior.query(sql, CITIES).rows()
    assert sorted(map(str, quick)) == sorted(map(str, slow))


def test_entities_are_counted_as_by_a_plain_loop():
    rng = np.random.default_rng(0)
    draws = np.array([name_by_first(canonical(rng.integers(0, 30, 60))) for _ in range(5)])
    record = rng.permutation(60)[:40]
    group = rng.integers(0, 6, 40)
    found = count_by_group(draws, record, group, 6)
    for d in range(5):
        for g in range(6):
            assert found[d, g] == len(set(draws[d, record[group == g]].tolist()))


def canonical(labels: np.ndarray) -> np.ndarray:
    seen: dict[int, int] = {}
    return np.array([seen.setdefault(int(label), len(seen)) for label in labels])


HOSTILE = {
    "read a file": ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
    "read by name": ("SELECT * FROM '/etc/passwd'", "does not exist"),
    "read text": ("SELECT * FROM read_text('/etc/passwd')", "disabled"),
    "list a folder": ("SELECT * FROM glob('/*')", "disabled"),
    "write a file": ("COPY records TO 'x.csv'", "no SELECT"),
    "attach": ("ATTACH 'x.db'", "no SELECT"),
    "two statements": ("SELECT 1; ATTACH 'x.db'", "2 statements"),
    "no statement": ("  ", "0 statements"),
    "an extension": ("INSTALL httpfs", "no SELECT"),
    "a setting": ("SET enable_external_access = true", "no SELECT"),
    "a pragma": ("PRAGMA version", "no SELECT"),
    "settings": ("SELECT * FROM duckdb_settings()", "not allowed"),
    "a Python variable": ("SELECT * FROM draws", "does not exist"),
    "a page": ("SELECT * FROM read_csv('https://example.org/x.csv')", "cannot be answered"),
    "waiting": ("SELECT sleep_ms(1000000)", "not allowed"),
    "text as a query": ("SELECT * FROM query('SELECT 1')", "not allowed"),
    "a change": ("DELETE FROM records", "no SELECT"),
    "all tables": ("EXPORT DATABASE 'x'", "no SELECT"),
    "the environment": ("SELECT getenv('PATH') AS n", "cannot be answered"),
    "its own files": ("SELECT count(*) AS n FROM read_parquet('kept/*.parquet')", "disabled"),
    "no SQL": ("how many?", "cannot be answered"),
    "no number": ("SELECT city FROM records WHERE age = '1'", "no number"),
    "rows alike": ("SELECT 1 AS n FROM records", "told apart"),
    "one name twice": ("SELECT 1 AS n, 2 AS n", "one name"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_nothing_else_can_be_reached(posterior, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sql, says = HOSTILE[case]
    with pytest.raises(InputError, match=says) as raised:
        posterior.query(sql, CITIES)
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


ENDLESS = [
    "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t",
    "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c WHERE a.range + b.range = c.range",
    "SELECT count(distinct range) AS n FROM range(2000000000)",
]


@pytest.mark.parametrize("sql", ENDLESS)
def test_what_has_no_end_is_stopped(posterior, sql, monkeypatch):
    monkeypatch.setattr(queries, "SECONDS", 0.2)
    with pytest.raises(InputError, match="took more than"):
        posterior.query(sql)


def test_too_many_rows_are_refused(posterior, monkeypatch):
    monkeypatch.setattr(queries, "MOST_ROWS", 3)
    with pytest.raises(InputError, match="more than 3 rows"):
        posterior.query("SELECT record::VARCHAR, 1 AS n FROM records")
