"""How large clusters are in a table, from the later partners of its records."""

from dataclasses import replace

import numpy as np
import pytest

from product_cases import citations
from scdp import EntityResolver, Spec, compare
from scdp.compare.features import Comparer
from scdp.estimators.model_folder import load_model
from scdp.linkage import GROWTH, law
from scdp.linkage.law import START_THIRD, LaterPartners, estimate_third, third_of_sizes
from scdp.table import Records


def pairs_of(cluster, chosen=None):
    """All pairs of one cluster, each with its first record in a random order; only those of the chosen records."""
    rng = np.random.default_rng(0)
    found = []
    for k in np.unique(cluster):
        members = rng.permutation(np.flatnonzero(cluster == k))
        found += [(one, other) for place, one in enumerate(members) for other in members[place + 1 :]]
    record = np.array([one for one, _ in found], dtype=np.int64)
    return record if chosen is None else record[np.isin(record, chosen)]


def plain_third(counts, growth):
    """The twin, from numbers of clusters by size: records that may come back, by cluster that they may come back to."""
    alone, pairs = counts.get(1, 0), counts.get(2, 0)
    repeated = sum(number for size, number in counts.items() if size > 1)
    of_more = sum(size * number for size, number in counts.items() if size > 2)
    ratio = ((of_more + 0.5) / (repeated + 1)) / ((2 * pairs + 1) / (alone + 1))
    told = repeated / (repeated + law.FEW_REPEATED)
    found = min(np.log(ratio) - growth * np.log(2), law.MOST_THIRD)
    return told * found + (1 - told) * np.log(0.5)


def cluster_of(counts):
    return np.repeat(np.arange(sum(counts.values())), [size for size, number in counts.items() for _ in range(number)])


@pytest.mark.parametrize(
    "counts",
    [{1: 300, 2: 1500}, {1: 640, 2: 110, 3: 4}, {1: 100, 2: 90, 3: 80, 5: 60, 9: 30}, {12: 40}, {1: 30, 2: 5}, {1: 9}],
)
def test_the_third_weighs_as_numbers_of_clusters_say(counts):
    cluster = cluster_of(counts)
    record = pairs_of(cluster)
    found = estimate_third(LaterPartners(record, len(cluster)), np.full(len(record), 9.0), 0.6)
    assert found == pytest.approx(plain_third(counts, 0.6))
    taught = third_of_sizes(np.bincount(cluster), 0.6)
    assert taught.weight == pytest.approx(found)
    assert taught.n_repeated == sum(number for size, number in counts.items() if size > 1)


def test_some_records_tell_of_all():
    counts = {1: 4000, 2: 3000, 3: 900, 4: 300}
    cluster = cluster_of(counts)
    chosen = np.random.default_rng(1).choice(len(cluster), len(cluster) // 3, replace=False)
    record = pairs_of(cluster, chosen)
    found = estimate_third(LaterPartners(record, len(chosen)), np.full(len(record), 9.0), 0.6)
    assert found == pytest.approx(plain_third(counts, 0.6), abs=0.15)


def test_pairs_in_doubt_and_earlier_partners_do_not_count():
    cluster = cluster_of({1: 300, 2: 200})
    sure = pairs_of(cluster)
    record = np.concatenate([sure, sure, np.full(50, -1)])
    log_odds = np.concatenate([np.full(len(sure), 9.0), np.full(len(sure), 5.0), np.full(50, 9.0)])
    found = estimate_third(LaterPartners(record, len(cluster)), log_odds, 0.6)
    assert found == pytest.approx(plain_third({1: 300, 2: 200}, 0.6))
    # Where there are few sure pairs, less sure ones tell.
    few = estimate_third(LaterPartners(sure, len(cluster)), np.full(len(sure), 2.5), 0.6)
    assert few == found


def test_sure_pairs_that_are_no_clusters_tell_a_number():
    """Of all but a few records two later ones are like them, and of hardly any three."""
    record = np.repeat(np.arange(100), np.where(np.arange(100) < 90, 2, 1))
    found = estimate_third(LaterPartners(record, 120), np.full(len(record), 9.0), 0.6)
    assert START_THIRD < found < law.MOST_THIRD


def test_nothing_is_told_by_no_pairs():
    nobody = LaterPartners(np.zeros(0, dtype=np.int64), 100)
    assert estimate_third(nobody, np.zeros(0), 0.6) == START_THIRD


def words_of(rng, n):
    return ["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 9)) for _ in range(n)]


def test_a_table_of_pairs_has_no_third_and_labels_tell_by_themselves():
    rng = np.random.default_rng(0)
    name, place, street = (words_of(rng, 150) for _ in range(3))
    columns = {"name": [*name, *(word[:-1] for word in name)], "place": place * 2, "street": street * 2}
    twice = Records({key: np.array(cells, dtype=object) for key, cells in columns.items()}, "pairs")
    spec = Spec("entity", [compare.edit(column) for column in columns])
    model = EntityResolver(spec=spec, random_state=0).fit(twice)
    ensemble = model.fitted_.ensemble
    assert ensemble.third == 0.0
    assert {member.third for member in ensemble.members} == {START_THIRD}
    pairs = Comparer.of(twice, model.fitted_.rows.spec.fields).compare_all()
    given = pairs.features, pairs.features, len(pairs), len(twice)
    later = LaterPartners(pairs.left, len(twice))
    there = ensemble.set_to(*given, later)
    assert there.third < -5.0
    assert there.weights(0).third == START_THIRD + there.third
    assert ensemble.set_to(*given).third == 0.0
    assert len(np.unique(model.predict(twice))) == 150
    # Labels of a table that has the same sizes are told little, and those of other sizes much.
    known = np.tile(np.arange(150), 2)
    alike = EntityResolver(spec=spec, random_state=0).fit(twice, known).fitted_.ensemble
    assert abs(alike.set_to(*given, later).third) < 1.0
    few, many = (third_of_sizes(np.full(number, 3), GROWTH) for number in (20, 200))
    assert few.move_to(few.weight) == 0.0
    assert replace(alike, taught_third=few).set_to(*given, later).third < -3.0
    assert -2.0 < replace(alike, taught_third=many).set_to(*given, later).third < 0.0


def test_a_stored_model_keeps_what_labels_told(tmp_path):
    train, _ = citations()
    spec = Spec("entity", [compare.edit("title"), compare.edit("author")])
    model = EntityResolver(spec=spec, random_state=0).fit(train.data, np.unique(train.clusters, return_inverse=True)[1])
    model.save(tmp_path / "model")
    sizes_of = np.unique(train.clusters, return_counts=True)[1]
    taught = load_model(tmp_path / "model").fitted_.ensemble.taught_third
    assert taught == third_of_sizes(sizes_of, GROWTH) != START_THIRD
