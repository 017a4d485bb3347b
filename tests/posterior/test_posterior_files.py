"""Saving, loading and exporting a posterior."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from scdp.errors import InputError, MissingExtraError
from scdp.posterior import Posterior


@pytest.fixture
def posterior():
    rng = np.random.default_rng(0)
    fixed = np.where(np.arange(20) < 12, np.arange(20) % 5, -1)
    draws = np.where(fixed >= 0, fixed, rng.integers(0, 9, (3, 10, 20)))
    traces = {"alpha_cluster": rng.gamma(1.0, size=(3, 10)), "log_joint": rng.normal(size=(3, 10))}
    return Posterior(draws, traces, fixed=fixed, names=[f"record {i}" for i in range(20)])


@pytest.mark.parametrize("name", ["post.npz", "post"])
def test_round_trip(posterior, tmp_path, name):
    path = tmp_path / name
    posterior.save(path)
    back = Posterior.load(path)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert np.array_equal(back.draws, posterior.draws)
    assert np.array_equal(back.hidden, posterior.hidden)
    assert back.traces.keys() == posterior.traces.keys()
    for trace in back.traces:
        assert np.array_equal(back.traces[trace], posterior.traces[trace])
    assert back.names.tolist() == posterior.names.tolist()
    assert np.array_equal(back.point_estimate(), posterior.point_estimate())
    assert back.n_clusters_interval(hidden_only=True) == posterior.n_clusters_interval(hidden_only=True)
    assert back.stored.shared == posterior.stored.shared


def test_round_trip_without_names_traces_or_several_clusters(tmp_path):
    post = Posterior(np.zeros((1, 1, 2), int), shared=False)
    post.save(tmp_path / "p.npz")
    back = Posterior.load(tmp_path / "p.npz")
    assert back.draws.tolist() == [[[0, 0]]]
    assert back.names is None
    assert not back.stored.shared


def test_names_of_mixed_kinds_become_text(tmp_path):
    post = Posterior(np.zeros((1, 1, 2), int), names=np.array(["a", 7], dtype=object))
    post.save(tmp_path / "p.npz")
    assert Posterior.load(tmp_path / "p.npz").names.tolist() == ["a", "7"]


def test_files_that_are_not_posteriors_are_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"none\.npz: there is no such file"):
        Posterior.load(tmp_path / "none.npz")
    text = tmp_path / "text.npz"
    text.write_text("id,cluster\n")
    with pytest.raises(InputError, match=r"text\.npz: not a posterior"):
        Posterior.load(text)
    other = tmp_path / "other.npz"
    np.savez(other, x=np.zeros(3))
    with pytest.raises(InputError, match=r"other\.npz: not a posterior"):
        Posterior.load(other)
    pickled = tmp_path / "pickled.npz"
    np.savez(pickled, version=np.array([{}], dtype=object))
    with pytest.raises(InputError, match=r"pickled\.npz: not a posterior"):
        Posterior.load(pickled)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("starts", lambda array: array + 10_000),
        ("starts", lambda array: array[:, :-1]),
        ("starts", lambda array: array - 10),
        ("n_codes", lambda array: np.full_like(array, 2)),
        ("n_codes", lambda array: -array),
        ("words:0", lambda array: array | np.uint64(2**64 - 1)),
        ("words:1", lambda array: array[:-3]),
        ("version", lambda array: array + 1),
        ("known", lambda array: array - 5),
        ("trace:log_joint", lambda array: array[:, 1:]),
    ],
)
def test_damaged_files_are_refused(posterior, tmp_path, name, damage):
    path = tmp_path / "p.npz"
    posterior.save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays[name] = damage(arrays[name])
    np.savez(path, **arrays)
    with pytest.raises(InputError):
        Posterior.load(path)


def test_a_failed_save_leaves_the_old_file(posterior, tmp_path, monkeypatch):
    path = tmp_path / "p.npz"
    path.write_text("old")

    def fail(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(KeyboardInterrupt):
        posterior.save(path)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_a_folder_that_is_not_there_is_named(posterior, tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        posterior.save(tmp_path / "none" / "p.npz")


def test_plain_dict(posterior):
    parts = posterior.to_dict()
    assert set(parts["posterior"]) == {"alpha_cluster", "n_clusters", "labels"}
    assert np.array_equal(parts["posterior"]["labels"], posterior.draws)
    assert np.array_equal(parts["sample_stats"]["lp"], posterior.traces["log_joint"])
    assert parts["coords"]["item"][3] == "record 3"
    assert parts["dims"] == {"labels": ["item"]}


def test_arviz_is_asked_for_when_missing(posterior, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(MissingExtraError, match=r"scdp\[arviz\]"):
        posterior.to_arviz()


def test_arviz_before_and_since_version_one(posterior, monkeypatch):
    def old(posterior=None, *, sample_stats=None, coords=None, dims=None):
        return {"posterior": posterior, "sample_stats": sample_stats}, coords, dims

    def new(data, *, coords=None, dims=None):
        return data, coords, dims

    for from_dict in (old, new):
        monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(from_dict=from_dict))
        groups, coords, dims = posterior.to_arviz()
        assert set(groups) == {"posterior", "sample_stats"}
        assert groups["posterior"]["labels"].shape == (3, 10, 20)
        assert len(coords["item"]) == 20
        assert dims == {"labels": ["item"]}
