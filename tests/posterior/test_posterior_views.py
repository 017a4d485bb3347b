"""What notebooks show of a posterior: tables and pictures, against what they are drawn from."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from scdp.errors import MissingExtraError
from scdp.posterior import Posterior
from scdp.posterior.io import count_sizes


@pytest.fixture
def post():
    rng = np.random.default_rng(0)
    truth, noise = rng.integers(0, 12, 40), rng.random((2, 30, 40)) < 0.2
    return Posterior(np.where(noise, rng.integers(0, 15, noise.shape), truth), names=[f"r{i}" for i in range(40)])


def test_a_table_has_a_row_for_each_item(post):
    pytest.importorskip("pandas")
    table = post.to_pandas()
    assert table.index.tolist() == post.names.tolist()
    assert table["label"].tolist() == post.point_estimate("f").tolist()
    given = post.to_pandas([0] * 40)
    assert given["probability"].tolist() == post.membership_probability([0] * 40).tolist()
    assert Posterior(np.zeros((1, 1, 2), int)).to_pandas().index.tolist() == [0, 1]
    assert len(Posterior(np.zeros((1, 1, 0), int)).to_pandas()) == 0


def test_a_notebook_shows_records_clusters_and_the_expected_f(post):
    shown = post._repr_html_()
    low, high = post.n_clusters_interval()
    n_clusters = post.point_estimate("f").max() + 1
    assert f"<td>{n_clusters} (90 % interval {low} to {high})</td>" in shown
    assert f"{post.expected_metrics()['f']['mean']:.3f}" in shown
    assert "<td>60 in 2 chains</td>" in shown
    assert "Records" in Posterior(np.zeros((1, 1, 0), int))._repr_html_()


def test_sizes_of_clusters_are_counted_in_each_draw():
    sizes, counts = count_sizes(Posterior([[[0, 0, 0, 1], [0, 1, 2, 3], [0, 0, 0, 0]]]).stored)
    assert sizes.tolist() == [1, 3, 4]
    assert counts.tolist() == [[1, 1, 0], [4, 0, 0], [0, 0, 1]]


def test_the_histogram_holds_every_draw(post, pyplot):
    ax = post.plot_n_clusters(post.point_estimate(), level=0.8)
    assert sum(bar.get_height() for bar in ax.patches[:-1]) == pytest.approx(1.0)
    low, high = post.n_clusters_interval(0.8)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[0] == f"80 % interval, {low} to {high}"
    assert texts[1] == f"the answer, {post.point_estimate().max() + 1}"


def test_many_different_numbers_of_clusters_are_put_together(pyplot):
    draws = np.array([[np.minimum(np.arange(300), k) for k in range(0, 300, 3)]])
    ax = Posterior(draws).plot_n_clusters()
    bars = ax.patches[:-1]
    assert len(bars) <= 31
    assert sum(bar.get_height() for bar in bars) == pytest.approx(1.0)


def test_pictures_are_drawn_where_one_asks_for_them(post, pyplot):
    _, ax = pyplot.subplots()
    assert post.plot_n_clusters(ax=ax) is ax
    _, other = pyplot.subplots()
    assert post.plot_cluster_sizes(post.point_estimate(), ax=other) is other
    assert other.get_xlabel() == "records in a cluster"
    assert post.plot_cluster_sizes() is not other


def test_a_missing_package_is_named(post, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"needs pandas: install it with  pip install 'scdp\[pandas\]'"):
        post.to_pandas()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="needs matplotlib"):
        post.plot_n_clusters()
