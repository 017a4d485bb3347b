"""The folder of a result: what was written is read back, what is damaged is refused, old files survive."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from posterior.test_posterior_query import ENDLESS, HOSTILE
from product_cases import done, read_csv, run
from result_cases import resolved_papers, small_result
from scdp import EntityResolver
from scdp.blocking.by_size import BlockingReport
from scdp.blocking.index import Oversized
from scdp.errors import InputError
from scdp.estimators.fitted import Reliability
from scdp.estimators.result import ClusterResult
from scdp.partitions import name_by_first
from scdp.posterior import Posterior
from scdp.posterior import query as queries
from scdp.results import read_result, write_result


def test_a_result_is_read_back_as_it_was_written(tmp_path):
    result = small_result()
    write_result(result, tmp_path / "kept")
    kept = read_result(tmp_path / "kept")
    assert kept.ids.tolist() == result.ids.tolist()
    assert kept.labels.tolist() == result.labels.tolist()
    np.testing.assert_array_equal(kept.probabilities, result.probabilities)
    assert kept.records.names == result.records.names
    for name in result.records.names:
        assert kept.records[name].tolist() == result.records[name].tolist()
    assert kept.records.numbers.tolist() == [2, 3, 4, 6, 7]
    np.testing.assert_array_equal(kept.posterior.draws, result.posterior.draws)
    assert np.isnan(kept.posterior.traces["height"]).all()
    assert kept.summary == json.loads(json.dumps(result.summary()))
    assert kept.model is None
    assert kept.result.summary()["expected"] == result.summary()["expected"]


def test_known_records_stay_known(tmp_path):
    draws = np.array([[[0, 0, 1, 1, 2], [0, 0, 1, 2, 1]]])
    result = small_result(draws, [0, 0, 1, -1, -1])
    write_result(result, tmp_path / "kept")
    kept = read_result(tmp_path / "kept")
    assert kept.known.tolist() == [True, True, True, False, False]
    assert kept.posterior.hidden.tolist() == [3, 4]
    np.testing.assert_array_equal(kept.posterior.draws, result.posterior.draws)


def test_many_draws_come_in_blocks(tmp_path):
    rng = np.random.default_rng(0)
    result = small_result(rng.integers(0, 4, (2, 301, 5)))
    write_result(result, tmp_path / "kept")
    kept = read_result(tmp_path / "kept")
    np.testing.assert_array_equal(kept.posterior.draws, result.posterior.draws)
    some = kept.read_draws(np.array([600, 3, 256]))
    expected = result.posterior.draws.reshape(602, 5)[[600, 3, 256]]
    np.testing.assert_array_equal(some, [name_by_first(row) for row in expected])


@pytest.mark.parametrize("name", ["draws.parquet", "clusters.parquet", "records.parquet", "summary.json"])
def test_damage_is_found(tmp_path, name):
    write_result(small_result(), tmp_path / "kept")
    path = tmp_path / "kept" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{name}: is not as it was written; make it again"):
        read_result(tmp_path / "kept")
    path.unlink()
    with pytest.raises(InputError, match=f"{name}: is missing"):
        read_result(tmp_path / "kept")


def test_a_result_is_not_replaced_unless_forced(tmp_path):
    write_result(small_result(), tmp_path / "kept")
    with pytest.raises(InputError, match="is there already"):
        write_result(small_result(), tmp_path / "kept")
    write_result(small_result(), tmp_path / "kept", force=True)
    assert read_result(tmp_path / "kept").n_records == 5


def test_a_failure_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(ClusterResult, "summary", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_result(small_result(), tmp_path / "kept")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def papers() -> Path:
    return resolved_papers()


def test_the_command_keeps_what_it_says(papers):
    kept = read_result(papers / "kept")
    rows = read_csv(papers / "c.csv")
    assert kept.ids.tolist() == [row["id"] for row in rows]
    assert kept.labels.tolist() == [row["cluster"] for row in rows]
    assert kept.summary == json.loads((papers / "s.json").read_text())
    assert isinstance(kept.model, EntityResolver)
    assert kept.result.verdict.colour == kept.summary["verdict"]
    assert kept.posterior.n_clusters_interval() == tuple(kept.summary["n_clusters_interval"])


def test_a_question_of_a_kept_result(papers):
    sql = "SELECT venue, count(distinct entity) AS n FROM records GROUP BY venue"
    rows = json.loads(done("query", papers / "kept", sql, "--json").stdout)
    kept = read_result(papers / "kept")
    venue, draws = kept.records["venue"], kept.posterior.draws.reshape(-1, kept.n_records)
    for row in rows:
        items = [i for i, cell in enumerate(venue.tolist()) if cell == row["venue"]]
        assert row["n"] == pytest.approx(np.mean([len(set(draw[items].tolist())) for draw in draws]))
    whole = json.loads(
        done("query", papers / "kept", "SELECT count(distinct entity) AS n FROM records", "--json").stdout
    )
    # The summary's interval is that of the draws, made wider by what they do not know.
    low, high = kept.summary["n_clusters_interval"]
    assert low <= whole[0]["n_low"] < whole[0]["n_high"] <= high
    done("query", papers / "kept", sql, "--out", papers / "answer.csv")
    assert len(read_csv(papers / "answer.csv")) == len(rows)


@pytest.mark.parametrize("case", [*HOSTILE, *ENDLESS])
def test_a_hostile_question_is_refused_in_one_sentence(papers, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(queries, "SECONDS", 0.2)
    sql = HOSTILE[case][0] if case in HOSTILE else case
    refused = run("query", papers / "kept", sql)
    assert refused.exit_code == 2
    assert len(refused.stderr.strip().splitlines()) == 1
    assert not refused.stdout
    assert not list(tmp_path.iterdir())


def test_numbers_without_an_end_are_said(papers):
    assert "infinite" in done("query", papers / "kept", "SELECT 1/0 AS n, 'a' AS a").stdout
    (row,) = json.loads(done("query", papers / "kept", "SELECT 1/0 AS n, 'a' AS a", "--json").stdout)
    assert row == {"a": "a", "n": None, "n_low": None, "n_high": None}


def test_what_blocking_lost_is_kept(tmp_path):
    result = small_result()
    lost = BlockingReport(0.75, (Oversized("city", 2, 9, 5, "Ulm"),))
    stored = result.posterior.stored
    believed = Reliability.of(None, None, lost.recall)
    posterior = Posterior(stored, names=result.ids, reliability=believed, blocking=lost)
    result = replace(result, posterior=posterior)
    write_result(result, tmp_path / "kept")
    kept = read_result(tmp_path / "kept")
    assert kept.posterior.blocking == lost
    assert kept.result.verdict == result.verdict
    assert any("were never compared" in reason for reason in result.verdict.reasons)
    assert kept.result.expected == result.expected
