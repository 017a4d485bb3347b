"""How good a result is: the reliability of draws, segments, and records that a person has judged."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from product_cases import done, read_csv, run, write_csv
from result_cases import small_result
from scdp.errors import InputError
from scdp.estimators.fitted import Reliability, weigh_pairs
from scdp.estimators.result import Calibration
from scdp.posterior import Posterior
from scdp.results import read_result, write_result
from scdp.results.estimate import Judged, choose_chances, correct_expected, expect_by_record, measure_records


def seen(off: float, n: int, seed: int = 0) -> Calibration:
    """Held-out pairs whose log-odds are too high by `off`."""
    rng = np.random.default_rng(seed)
    said = rng.beta(0.7, 0.7, n)
    true = 1 / (1 + np.exp(-(np.log(said / (1 - said)) - off)))
    return Calibration.of(said, rng.random(n) < true)


def test_the_line_is_that_of_the_held_out_pairs():
    for off in (-1.0, 0.0, 1.0):
        found = Reliability.of(seen(off, 20_000), 20_000)
        np.testing.assert_allclose(found.line, [-off, 1.0], atol=0.1)
    assert np.diag(Reliability.of(seen(0, 200), 20).covariance)[0] > 4 * found.covariance[0, 0]
    none = Reliability.of(None, None)
    np.testing.assert_allclose(none.line, [0, 1])
    again = Reliability.from_words(json.loads(json.dumps(found.to_words())))
    np.testing.assert_array_equal(again.covariance, found.covariance)
    with pytest.raises(ValueError, match="reliability"):
        Reliability.from_words(found.to_words() | {"missed": [-1, 1]})


@pytest.mark.parametrize(("low", "high", "n"), [(1, 1, 500), (941, 941, 1000), (500, 500, 500), (0, 0, 0)])
def test_what_draws_are_sure_of_stays_sure(low: int, high: int, n: int):
    assert Reliability.of(None, None).widen(low, high, n) == (low, high)


@pytest.mark.parametrize(("low", "high", "n"), [(507, 607, 999), (1, 3, 6), (2, 499, 500), (61, 94, 381)])
def test_the_interval_of_the_number_of_clusters_is_wider_than_that_of_the_draws(low: int, high: int, n: int):
    wide = Reliability.of(None, None).widen(low, high, n)
    assert 1 <= wide[0] <= low < high <= wide[1] <= n
    assert wide[1] - wide[0] > high - low


def test_the_fewer_labels_the_wider_the_interval_is():
    edges = np.linspace(0, 1, 11)
    count = np.where(np.arange(11)[1:] == 10, 500, 0)
    seen = Calibration(edges, edges[1:] - 0.05, edges[1:] - 0.05, count)
    widths = [np.diff(Reliability.of(seen, n).widen(4000, 4200, 9000))[0] for n in (500, 50, 5)]
    widths.append(np.diff(Reliability.of(None, None).widen(4000, 4200, 9000))[0])
    assert widths == sorted(widths)
    assert widths[0] == pytest.approx(250, abs=5)
    assert widths[-1] == pytest.approx(400, abs=5)


@pytest.mark.parametrize("kept", [0.9, 0.99, np.nan])
def test_links_that_blocking_lost_may_have_joined_clusters(kept: float):
    low, high, n = 800, 820, 1000
    whole = Reliability.of(None, 400).widen(low, high, n)
    lost = Reliability.of(None, 400, kept).widen(low, high, n)
    assert lost[1] == whole[1]
    # A tenth of the two hundred links are twenty clusters less.
    expected = (0.5 / 5.5 if np.isnan(kept) else 1 - kept) * (n - whole[0])
    assert lost[0] == pytest.approx(whole[0] - expected, abs=1.0)
    assert Reliability.of(None, 400, kept).widen(1, 1, 1) == (1, 1)


def random_posterior(n: int = 40, draws: int = 200, reliability: Reliability | None = None) -> Posterior:
    """Pairs of items, each together in about half of the draws."""
    rng = np.random.default_rng(1)
    labels = np.tile(np.arange(n), (1, draws, 1))
    labels[:, :, 1::2] -= rng.random((1, draws, n // 2)) < 0.5
    return Posterior(labels, reliability=reliability)


def test_metrics_follow_what_was_held_out():
    answer = np.arange(40) // 2
    plain = random_posterior().expected_metrics(answer)
    for off in (1.0, -1.0):
        sure = Reliability(np.array([-off, 1.0]), np.diag([1e-8, 1e-8]), (1e-6, 1e6), (1e6, 1e6))
        found = random_posterior(reliability=sure).expected_metrics(answer)
        # A probability of one half becomes that of log-odds -off.
        assert found["precision"]["mean"] == pytest.approx(1 / (1 + np.exp(off)), abs=0.02)
        assert (found["n_clusters"]["mean"] > plain["n_clusters"]["mean"]) == (off > 0)
    same = Reliability(np.array([0.0, 1.0]), np.diag([1e-12, 1e-12]), (1e-6, 1e6), (1e6, 1e6))
    found = random_posterior(reliability=same).expected_metrics(answer)
    for name, values in plain.items():
        assert found[name]["mean"] == pytest.approx(values["mean"], rel=0.01), name
    wide = random_posterior(reliability=Reliability.of(None, None)).expected_metrics(answer)
    for name in ("precision", "recall", "f", "b_cubed"):
        assert wide[name]["high"] - wide[name]["low"] > plain[name]["high"] - plain[name]["low"]


def test_what_blocking_lost_is_part_of_recall():
    answer = np.arange(40) // 2
    sure = Reliability(np.array([0.0, 1.0]), np.diag([1e-12, 1e-12]), (1e-6, 1e6), (1e6, 1e6))
    lossy = replace(sure, lost=(200.0, 800.0))
    whole, less = (random_posterior(reliability=each).expected_metrics(answer) for each in (sure, lossy))
    assert less["recall"]["mean"] == pytest.approx(0.8 * whole["recall"]["mean"], abs=0.03)
    assert less["precision"] == whole["precision"]
    assert Reliability.of(seen(0, 200), 50, 1.0).lost is None
    assert Reliability.of(seen(0, 200), 50, None).lost is None
    a, b = Reliability.of(seen(0, 200), 50, 0.9).lost
    assert (a, b) == pytest.approx((5.0, 45.0))
    # Nobody knows: few are lost, and that is not sure.
    assert Reliability.of(None, None, np.nan).lost == (0.5, 5.0)
    assert Reliability.from_words(lossy.to_words()).lost == lossy.lost


def test_pairs_that_are_missed_merge_few_large_clusters():
    # Of 20 clusters of 10 records the draws are sure. A fifth of the true pairs, 225, is missed: two clusters of ten
    # that are one have a hundred such pairs, so that about two merges are missed.
    missed = Reliability(np.array([0.0, 1.0]), np.diag([1e-12, 1e-12]), (2000.0, 8000.0), (1e6, 1e6))
    sure = Posterior(np.tile(np.arange(200) // 10, (1, 100, 1)), reliability=missed)
    found = sure.expected_metrics(np.arange(200) // 10)["n_clusters"]
    assert 16 <= found["low"] <= found["mean"] <= 19


def test_pairs_are_weighed_as_by_a_plain_loop():
    rng = np.random.default_rng(3)
    posterior = Posterior(rng.integers(0, 4, (1, 30, 8)))
    labels = posterior.point_estimate("binder")
    levels, together = weigh_pairs(posterior.stored, labels), posterior.co_clustering_matrix()
    partners = together.sum(axis=1)
    everyone, linked, merging = np.zeros(31), np.zeros(31), np.zeros(31)
    for i in range(8):
        for j in range(i):
            level = round(together[i, j] * 30)
            everyone[level] += level > 0
            linked[level] += (level > 0) * (labels[i] == labels[j])
            merging[level] += (level > 0) * (partners[i] ** -2 + partners[j] ** -2)
    np.testing.assert_allclose(levels.all, everyone)
    np.testing.assert_allclose(levels.linked, linked)
    np.testing.assert_allclose(levels.merging, merging)


def test_judged_records_mend_what_the_model_believes():
    # The model is quite sure of links of which half are wrong. Over 300 draws of 60 judged records, the mean is off by
    # less than 4 standard errors (chance of a false alarm 1e-4), and the interval holds the truth in at least 80 %.
    rng = np.random.default_rng(0)
    n = 400
    answer, truth = np.arange(n) // 2, np.arange(n) // 2
    split = rng.random(n // 2) < 0.5
    truth = np.where((np.arange(n) % 2 == 1) & split[np.arange(n) // 2], n + np.arange(n), truth)
    labels = np.tile(answer, (1, 50, 1))
    labels[:, :, 1::2] += (rng.random((1, 50, n // 2)) < 0.1) * 1000
    expected = expect_by_record(Posterior(labels), answer)
    found = measure_records(answer, np.full(n, 2.0), truth)
    chance, true = choose_chances(expected), 1 - split.mean()
    held, means = 0, []
    for seed in range(300):
        item = np.random.default_rng(seed).choice(n, 60, p=chance)
        said = correct_expected(expected, Judged(item, chance[item], found[:, item]), answer, 0.9)["precision"]
        held += said["low"] <= true <= said["high"]
        means.append(said["mean"])
    assert abs(np.mean(means) - true) < 4 * np.std(means) / np.sqrt(300) + 0.005
    assert held >= 240


def test_records_are_measured_as_by_a_plain_loop():
    rng = np.random.default_rng(5)
    answer, truth = rng.integers(0, 5, 20), rng.integers(0, 5, 20)
    found = measure_records(answer, np.bincount(answer)[answer].astype(float), truth)
    for i in range(20):
        mine, true = set(np.flatnonzero(answer == answer[i])), set(np.flatnonzero(truth == truth[i]))
        both = len(mine & true)
        np.testing.assert_allclose(found[:, i], [both - 1, len(true) - 1, both / len(mine), both / len(true)])


def test_the_command_says_estimates(tmp_path):
    write_result(small_result(), tmp_path / "kept")
    said = json.loads(done("estimate", tmp_path / "kept", "--json").stdout)
    wanted = small_result().posterior.expected_metrics([0, 0, 1, 1, 2])
    assert said == pytest.approx(wanted) if isinstance(said, float) else said == wanted
    words = done("estimate", tmp_path / "kept").stdout
    assert "90 % interval" in words
    assert "number of entities" in words
    by = json.loads(done("estimate", tmp_path / "kept", "--by", "id", "--json").stdout)
    assert len(by) == 5
    assert by[0]["precision"] == 1.0


def test_the_way_of_judged_records(tmp_path):
    write_result(small_result(), tmp_path / "kept")
    done("estimate", tmp_path / "kept", "--draw", 20, "--out", tmp_path / "judge.csv")
    rows = [{name.lstrip("\ufeff"): cell for name, cell in row.items()} for row in read_csv(tmp_path / "judge.csv")]
    assert {row["question"] for row in rows} == {str(k) for k in range(1, 21)}
    truth = dict(zip(["a", "b'", 'c"', "1", "é\\u202e"], [0, 0, 1, 2, 3], strict=True))
    for row in rows:
        one, other = row["id"], row["other"]
        row["same"] = "yes" if other and truth.get(one, one) == truth.get(other, other) else "no"
    write_csv(tmp_path / "judged.csv", rows)
    said = json.loads(done("estimate", tmp_path / "kept", "--reviewed", tmp_path / "judged.csv", "--json").stdout)
    assert said["precision"]["low"] <= 0.5 <= said["precision"]["high"]
    rows[0]["same"] = "perhaps"
    rows[0]["other"] = rows[0]["other"] or "a"
    write_csv(tmp_path / "wrong.csv", rows)
    refused = run("estimate", tmp_path / "kept", "--reviewed", tmp_path / "wrong.csv")
    assert refused.exit_code == 2
    assert "row 2 has 'perhaps' in the column same; write yes or no" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--by", "id", "--draw", "3"), "give one of them"),
        (("--draw", "3"), "needs --out"),
        (("--by", "town"), "there is no column 'town'"),
        (("--draw", "3", "--out", "x.parquet"), "name it .csv"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    write_result(small_result(), "kept")
    refused = run("estimate", "kept", *arguments)
    assert refused.exit_code == 2
    assert says in refused.stderr


def test_a_damaged_reliability_is_refused(tmp_path):
    write_result(small_result(), tmp_path / "kept")
    path = tmp_path / "kept" / "result.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(about | {"reliability": {"line": [1]}}), encoding="utf-8")
    with pytest.raises(InputError, match="reliability"):
        _ = read_result(tmp_path / "kept").posterior
