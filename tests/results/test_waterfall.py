"""The waterfall of a pair, and the evidence of a cluster's links: every sum is that of its parts."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from product_cases import done, read_csv, run
from result_cases import resolved_papers
from scdp.estimators.explanation import Explanation, FeatureEvidence
from scdp.report.charts import waterfall_svg
from scdp.results import read_result
from scdp.results.changes import tell_cluster

SAID = Explanation(
    "a<b",
    'c"d',
    0.75,
    (
        FeatureEvidence("title", "x & y", "x", 0.5, 1.5),
        FeatureEvidence("year", None, None, None, 0.0),
        FeatureEvidence("venue", "v", "v", 0.0, -4.0),
    ),
    start=-3.0,
    log_odds=-5.5,
)


def large_cluster(papers):
    rows = read_csv(papers / "c.csv")
    names = [row["cluster"] for row in rows]
    name = max(set(names), key=names.count)
    return name, [row["id"] for row in rows if row["cluster"] == name]


def test_steps_lead_from_any_two_records_to_these():
    steps = SAID.steps()
    assert [step.name for step in steps] == ["any two records", "venue", "title", "year", "these two"]
    assert [step.after for step in steps] == [-3.0, -7.0, -5.5, -5.5, -5.5]
    assert [step.before for step in steps] == [0.0, -3.0, -7.0, -5.5, 0.0]


def test_the_picture_has_a_bar_for_each_step():
    root = ElementTree.fromstring(waterfall_svg(SAID))
    kinds = [element.get("class") for element in root.iter() if element.tag.endswith("rect")]
    assert kinds == ["card", "sum", "against", "for", "for", "sum"]
    text = "".join(root.itertext())
    assert 'a<b and c"d' in text
    assert "x & y | x" in text
    assert "missing in both" in text
    widths = [float(element.get("width")) for element in root.iter() if element.tag.endswith("rect")]
    assert widths[2] == pytest.approx(4.0 / 1.5 * widths[3], rel=0.01)


def test_the_command_draws_a_waterfall(tmp_path):
    papers = resolved_papers()
    one, two = large_cluster(papers)[1][:2]
    out = tmp_path / "w.svg"
    done("explain", papers / "kept", one, two, "--picture", out)
    assert f"{one} and {two}" in out.read_text(encoding="utf-8")
    for wrong, says in (
        ((one, two, "--picture", out), "is there already"),
        ((one, two, "--picture", tmp_path / "w.png"), "name it .svg"),
        (("--cluster", one, "--picture", tmp_path / "v.svg"), "give two ids"),
    ):
        refused = run("explain", papers / "kept", *wrong)
        assert refused.exit_code == 2
        assert says in refused.stderr
    done("explain", papers / "kept", one, two, "--picture", out, "--force")


def test_contributions_of_a_cluster_add_up_to_its_log_odds():
    papers = resolved_papers()
    name, members = large_cluster(papers)
    said = json.loads(done("explain", papers / "kept", "--cluster", name, "--json").stdout)
    assert said["holds"]["n_links"] == len(members) - 1
    for part in ("holds", "weakest_says"):
        total = said[part]["start"] + sum(value for _, value in said[part]["contributions"])
        assert total == pytest.approx(said[part]["log_odds"], abs=1e-6)
    words = done("explain", papers / "kept", "--cluster", name).stdout
    assert "any two records of this table" in words
    # The weakest link says what the pair itself says.
    one, two, _ = said["weakest"]
    pair = json.loads(done("explain", papers / "kept", one, two, "--json").stdout)
    assert pair["log_odds"] == pytest.approx(said["weakest_says"]["log_odds"], abs=1e-6)


def test_pairs_are_weighed_as_one_by_one():
    kept = read_result(resolved_papers() / "kept")
    rng = np.random.default_rng(0)
    left = rng.integers(0, kept.n_records, 8)
    right = (left + rng.integers(1, kept.n_records, 8)) % kept.n_records
    weighed = kept.model.weigh_pairs(kept.records, left, right)
    for k in range(8):
        said = kept.model.explain(kept.records, int(left[k]), int(right[k]), posterior=kept.posterior)
        for feature in said.features:
            value = weighed[feature.name][k]
            assert (np.isnan(value) and feature.distance is None) or value == pytest.approx(feature.contribution)
        assert weighed["log-odds"][k] == pytest.approx(said.log_odds)
        assert weighed["any two records"][k] == pytest.approx(said.start)


def test_a_single_record_and_a_result_without_its_model_are_told_too():
    kept = read_result(resolved_papers() / "kept")
    names, counts = np.unique(kept.labels.astype(str), return_counts=True)
    assert tell_cluster(kept.result, str(names[counts == 1][0]), kept.model).holds is None
    assert tell_cluster(kept.result, str(names[counts > 1][0])).holds is None
