"""What notebooks show of results: tables, pictures and a summary, against what they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from report_cases import made_learned, made_result
from result_cases import small_result
from scdp.errors import InputError
from scdp.estimators.explanation import Explanation, FeatureEvidence
from scdp.posterior import Posterior
from scdp.results import read_result, write_result


def test_a_table_has_the_cells_and_the_clusters(tmp_path):
    result = small_result()
    write_result(result, tmp_path / "kept")
    for each in (result, read_result(tmp_path / "kept")):
        table = each.to_pandas()
        assert list(table.columns) == ["id", "all missing", 'ci"ty', "cluster", "probability"]
        assert table["cluster"].tolist() == result.labels.tolist()
        np.testing.assert_allclose(table["probability"], result.probabilities)
        assert each.to_polars()["id"].to_list() == result.ids.tolist()


def test_a_notebook_shows_the_verdict_first(tmp_path):
    result = small_result()
    write_result(result, tmp_path / "kept")
    shown = result._repr_html_()
    assert shown == read_result(tmp_path / "kept")._repr_html_()
    assert shown.index(result.verdict.colour.capitalize()) < shown.index("Records")
    assert f"{result.expected['f']['mean']:.3f}" in shown


def test_reliability_is_drawn_as_it_was_held_out(pyplot):
    result = made_result()
    ax = result.plot_reliability()
    calibration = result.learned.calibration
    drawn = ax.collections[0].get_offsets()
    full = calibration.count > 0
    np.testing.assert_allclose(drawn, np.column_stack([calibration.predicted, calibration.observed])[full])
    with pytest.raises(InputError, match="held no labelled clusters out"):
        made_result(learned=made_learned(calibration=None)).plot_reliability()


def test_weights_are_drawn_the_heaviest_on_top(pyplot):
    result = made_result()
    ax = result.plot_weights()
    shares = result.learned.type_shares / result.learned.type_shares.sum()
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, np.sort(shares @ result.learned.weights)[::-1])
    assert ax.get_yticklabels()[0].get_text() == "difference of year"
    with pytest.raises(InputError, match="has no weights"):
        made_result(learned=made_learned(weights=None)).plot_weights()


def test_a_waterfall_has_a_bar_for_each_step(pyplot):
    said = Explanation("a", "b", 0.5, (FeatureEvidence("title", "x", "y", 0.5, 1.5),), start=-2.0, log_odds=-0.5)
    ax = said.plot_waterfall()
    assert [bar.get_width() for bar in ax.patches] == [2.0, 1.5, 0.5]
    assert "title" in said._repr_html_()


def test_items_are_drawn_as_a_map_and_as_a_graph(pyplot):
    post = Posterior([[[0, 0, 1, 1], [0, 1, 2, 2]]], names=["a", "b", "c", "d"])
    ax = post.plot_co_clustering(labels=[0, 1, 0, 1])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "c", "b", "d"]
    np.testing.assert_allclose(ax.images[0].get_array(), post.co_clustering_matrix([0, 2, 1, 3]))
    _, other = pyplot.subplots()
    assert post.plot_cluster([0, 1, 2], ax=other) is other
    # Only a and b are ever together among these.
    assert len(other.lines) == 1
    assert {text.get_text() for text in other.texts} == {"a", "b", "c"}
    with pytest.raises(InputError, match="too many for a picture"):
        Posterior(np.zeros((1, 1, 61), int)).plot_cluster(np.arange(61))
