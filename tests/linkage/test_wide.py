import numpy as np
import pytest

from scdp import EntityResolver
from scdp.datasets import make_records
from scdp.errors import InputError
from scdp.estimators.inputs import Compared
from scdp.linkage import wide
from scdp.metrics import evaluate
from scdp.table.propose import proposed_comparisons
from scdp.table.spec import Spec


def people(n: int, seed: int):
    made = make_records(n, kind="people", seed=seed)
    return made.data, np.unique(made.clusters, return_inverse=True)[1]


@pytest.fixture(scope="module")
def large():
    """A model that has learned from a part of its records, and of these from pairs that pass the sieve alone."""
    data, clusters = people(900, seed=1)
    spec = Spec("entity", proposed_comparisons(data, data.names))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scdp.estimators.inputs.MOST_PAIRS", 10_000)
        patch.setattr(wide, "MOST_TAUGHT", 600)
        patch.setattr(wide, "_not_too_dear", lambda rows, blockings: blockings)
        patch.setattr(wide, "MOST_CANDIDATES", 1_000)
        yield EntityResolver(spec=spec, boosted=False, n_draws=24, random_state=0).fit(data, clusters)


def test_of_many_records_whole_clusters_are_taught(monkeypatch):
    data, clusters = people(900, seed=1)
    rows = Compared(data, Spec("entity", ()), np.ones(0), blocked=True)
    assert wide._taught(rows, clusters, seed=0)[0] is rows
    monkeypatch.setattr(wide, "MOST_TAUGHT", 300)
    some, taught = wide._taught(rows, clusters, seed=0)
    assert 290 < len(some) == len(taught) <= 300
    assert taught.max() + 1 == len(np.unique(taught))
    cells = {tuple(row.values()): number for number, row in enumerate(data.rows())}
    places = [cells[tuple(row.values())] for row in some.records.rows()]
    # A cluster is there with all its records or not at all.
    sizes, drawn = np.bincount(clusters), np.bincount(clusters[places], minlength=clusters.max() + 1)
    assert (drawn[drawn > 0] == sizes[drawn > 0]).mean() > 0.99
    again, other = (wide._taught(rows, clusters, seed)[0].records for seed in (0, 1))
    assert list(again.rows()) == list(some.records.rows()) != list(other.rows())


def test_many_labelled_records_teach_a_sieve_alone(large):
    fitted = large.fitted_
    assert fitted.restaurant is None
    assert fitted.wide.restaurant is None
    assert fitted.n_records == 900
    data, clusters = people(500, seed=2)
    labels = large.predict(data)
    assert evaluate(clusters, labels)["f"] > 0.8
    assert fitted.importance.shape == (len(fitted.features),)
    assert (fitted.importance > 0).any()
    assert fitted.calibration is not None


def test_a_model_with_a_sieve_alone_is_stored_and_explains(large, tmp_path):
    large.save(tmp_path / "model")
    loaded = EntityResolver.load(tmp_path / "model")
    assert loaded.fitted_.wide.restaurant is None
    data, _ = people(500, seed=2)
    np.testing.assert_array_equal(large.predict(data), loaded.predict(data))
    same, distances = np.zeros(len(large.fitted_.features)), np.ones(len(large.fitted_.features))
    assert large.fitted_.contributions(same).sum() > large.fitted_.contributions(distances).sum()


def test_few_candidates_are_not_dropped_for_being_many_a_record(large, monkeypatch):
    monkeypatch.setattr("scdp.linkage.blocked.MOST_CANDIDATES_A_RECORD", 0)
    monkeypatch.setattr(wide, "MOST_CANDIDATES", 10**6)
    data, _ = people(300, seed=2)
    rows = large.fitted_.rows.append(data, None, False)
    chosen = large.fitted_.wide.blocked(rows)
    assert chosen.sieve is not None
    assert chosen.blocking == large.fitted_.wide.blockings[0]
    monkeypatch.setattr(wide, "MOST_CANDIDATES", 10)
    assert large.fitted_.wide.blocked(rows).blocking == large.fitted_.wide.blockings[-1]


def test_for_more_records_there_are_blockings_of_their_own(large, monkeypatch, tmp_path):
    learned = large.fitted_.wide
    assert [rung.n_records for rung in learned.rungs] == [900, *wide.MANY]
    assert learned.blockings_for(500) == learned.rungs[0].blockings == learned.blockings
    assert learned.blockings_for(20_000) == learned.rungs[2].blockings
    assert learned.blockings_for(10**9) == learned.rungs[-1].blockings
    assert not any(blocking.links for rung in learned.rungs[1:] for blocking in rung.blockings)
    # A rule that is good enough for few records makes too many pairs of a million.
    assert learned.rungs[3].blockings != learned.blockings
    large.save(tmp_path / "model")
    assert EntityResolver.load(tmp_path / "model").fitted_.wide.rungs == learned.rungs


@pytest.mark.parametrize(
    "damage", [{}, [1], [{"n_records": 0, "blockings": []}], [{"n_records": 5, "blockings": []}]]
)
def test_damaged_rungs_are_refused(large, damage):
    words, arrays = large.fitted_.wide.to_parts()
    words["wide"]["rungs"] = damage
    with pytest.raises(InputError, match=r"rungs|n_records|blockings"):
        wide.Wide.from_parts(words, arrays, len(large.fitted_.features))
