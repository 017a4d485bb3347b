"""Linked draws: parts joined, copies spread and rows read back, against plain twins on whole draws."""

from __future__ import annotations

import io
import pickle
from collections import defaultdict

import numpy as np
import pytest

from scdp.errors import InputError
from scdp.posterior import Posterior, linked, pack_linked, pairs
from scdp.posterior.draws import ComponentDraws
from scdp.posterior.linked import LabelFile, LinkedDraws, join_linked

N_DRAWS = 12


def draw_partitions(rng: np.random.Generator, n_items: int) -> np.ndarray:
    """Labels (draw, item) by first item: a third of the items is alone in all draws."""
    home = np.where(rng.random(n_items) < 0.3, n_items + np.arange(n_items), rng.integers(0, n_items // 4, n_items))
    return np.array([name_by_first(3 * home + rng.integers(0, 3, n_items)) for _ in range(N_DRAWS)], dtype=np.int32)


def name_by_first(ids: np.ndarray) -> np.ndarray:
    _, first, place = np.unique(ids, return_index=True, return_inverse=True)
    return first[place]


def link_plainly(draws: np.ndarray) -> tuple[list[int], list[int], list[list[int]]]:
    """Items, bounds and labels by walking from item to item."""
    n_items = draws.shape[1]
    near = [{int(other) for draw in draws for other in np.flatnonzero(draw == draw[item])} for item in range(n_items)]
    seen: set[int] = set()
    items: list[int] = []
    bounds, labels = [0], []
    for item in range(n_items):
        if item in seen or len(near[item]) == 1:
            continue
        component, open_items = {item}, [item]
        while open_items:
            more = near[open_items.pop()] - component
            component |= more
            open_items += more
        members = sorted(component)
        seen |= component
        items += members
        labels += [[members.index(label) for label in draws[:, member]] for member in members]
        bounds.append(len(items))
    return items, bounds, labels


def check_same(found: LinkedDraws, wanted: LinkedDraws) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one[:], other[:])


def in_file(draws: LinkedDraws) -> LinkedDraws:
    blocks = (draws.labels[start : start + 7] for start in range(0, len(draws.items), 7))
    return draws._replace(labels=LabelFile.of(blocks, draws.n_draws))


def split_in_parts(rng: np.random.Generator, draws: np.ndarray) -> list[LinkedDraws]:
    """Each component, and each item alone in all draws, is put into one of a few parts by chance."""
    whole = LinkedDraws.of(draws)
    part_of = rng.integers(0, 5, draws.shape[1])
    part_of[whole.items] = np.repeat(rng.integers(0, 5, len(whole.sizes)), whole.sizes)
    parts = []
    for part in range(5):
        items = np.flatnonzero(part_of == part)
        within = np.searchsorted(items, draws[:, items]).astype(np.int32)
        parts.append(LinkedDraws.of(within, items))
    return parts


@pytest.mark.parametrize("seed", range(8))
def test_linked_draws_are_those_of_a_plain_walk(seed):
    draws = draw_partitions(np.random.default_rng(seed), 60)
    found = LinkedDraws.of(draws)
    items, bounds, labels = link_plainly(draws)
    assert (found.items.tolist(), found.bounds.tolist(), found.labels.tolist()) == (items, bounds, labels)
    assert 0 < len(items) < 60
    found.check(N_DRAWS, np.arange(60))


@pytest.mark.parametrize("at_once", [10, 1 << 14])
@pytest.mark.parametrize("seed", range(8))
def test_parts_are_joined_to_what_the_whole_gives(seed, at_once, monkeypatch):
    monkeypatch.setattr(linked, "ITEMS_AT_ONCE", at_once)
    rng = np.random.default_rng(seed)
    draws = draw_partitions(rng, 200)
    joined, whole = join_linked(split_in_parts(rng, draws), N_DRAWS), LinkedDraws.of(draws)
    check_same(joined, whole)
    np.testing.assert_array_equal([row.copy() for row in joined.rows(200)], draws)
    stored = ComponentDraws.of(joined, 200, (3, 4))
    by_chain = Posterior(draws.reshape(4, 3, -1).transpose(1, 0, 2))
    np.testing.assert_array_equal(Posterior(stored).draws, by_chain.draws)


def test_nothing_joined_is_nothing():
    for parts in ([], [LinkedDraws.of(np.arange(4, dtype=np.int32)[None].repeat(N_DRAWS, 0))]):
        found = join_linked(parts, N_DRAWS)
        assert (len(found.items), found.bounds.tolist(), found.labels.shape) == (0, [0], (0, N_DRAWS))
        assert next(found.rows(4)).tolist() == [0, 1, 2, 3]


def test_a_component_of_very_many_makes_all_labels_wider():
    large = LinkedDraws.of(np.zeros((2, 70_000), np.int32), np.arange(70_000) + 10)
    small = LinkedDraws.of(np.array([[0, 0, 2], [0, 1, 1]], np.int32), np.array([3, 5, 80_020]))
    joined = join_linked([large, small], 2)
    assert (small.labels.dtype, large.labels.dtype, joined.labels.dtype) == (np.uint16, np.int32, np.int32)
    assert joined.labels[:3].tolist() == [[0, 0], [0, 1], [2, 1]]
    filed = LabelFile.of([small.labels, large.labels], 2)
    assert filed.dtype == np.int32
    np.testing.assert_array_equal(filed[:], joined.labels)


@pytest.mark.parametrize("seed", range(5))
def test_copies_are_with_the_row_that_was_drawn(seed):
    rng = np.random.default_rng(seed)
    draws = draw_partitions(rng, 40)
    # Row k of the first 40 that are kept, in a random order; copies come after their own row.
    n_rows = 90
    kept = np.sort(rng.choice(n_rows, 40, replace=False))
    stays_with = np.full(n_rows, -1)
    stays_with[kept] = np.arange(40)
    kept_before = defaultdict(list)
    for row in np.flatnonzero(stays_with < 0):
        before = np.flatnonzero(kept < row)
        if len(before):
            stays_with[row] = rng.choice(before)
            kept_before[stays_with[row]].append(row)
    rows = np.flatnonzero(stays_with >= 0)
    number = np.full(n_rows, -1)
    number[rows] = np.arange(len(rows))
    kept, stays_with = number[kept], stays_with[rows]
    whole = LinkedDraws.of(kept[draws].astype(np.int32)[:, stays_with])
    found = LinkedDraws.of(draws).spread(kept, stays_with)
    check_same(found, whole)
    check_same(in_file(LinkedDraws.of(draws)).spread(kept, stays_with), whole)


def test_labels_in_a_file_answer_as_those_in_memory(monkeypatch):
    monkeypatch.setattr(linked, "BYTES_IN_MEMORY", 100)
    monkeypatch.setattr(linked, "ITEMS_AT_ONCE", 16)
    rng = np.random.default_rng(3)
    draws = draw_partitions(rng, 150)
    filed = in_file(LinkedDraws.of(draws))
    chosen = rng.permutation(len(filed.items))
    whole = LinkedDraws.of(draws)
    for some in (chosen, np.repeat(chosen[:5], 3), chosen[:0]):
        np.testing.assert_array_equal(filed.labels[some], whole.labels[some])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(filed.labels)), whole.labels)
    one = Posterior(ComponentDraws.of(filed, 150, (3, 4)))
    other = Posterior(ComponentDraws.of(whole, 150, (3, 4)))
    order = rng.permutation(150)
    for found, wanted in ((one, other), (one.restrict(order), other.restrict(order))):
        assert isinstance(found.stored, ComponentDraws)
        assert isinstance(found.stored.labels_within, LabelFile)
        np.testing.assert_array_equal(found.draws, wanted.draws)
        for answer in ("f", "precision=0.9", "vi"):
            labels = found.point_estimate(answer)
            np.testing.assert_array_equal(labels, wanted.point_estimate(answer))
        np.testing.assert_array_equal(found.membership_probability(labels), wanted.membership_probability(labels))
        assert found.expected_metrics(labels) == wanted.expected_metrics(labels)
        assert [found.co_clustering(3, k) for k in range(150)] == [wanted.co_clustering(3, k) for k in range(150)]


def test_pairs_do_not_depend_on_how_many_are_counted_at_once(monkeypatch):
    draws = draw_partitions(np.random.default_rng(4), 150)
    stored = ComponentDraws.of(LinkedDraws.of(draws), 150, (3, 4))
    whole = stored.pair_counts
    assert len(pairs.split_into_blocks(stored.bounds, None, N_DRAWS)) == 1
    monkeypatch.setattr(pairs, "LABELS_AT_ONCE", 20 * N_DRAWS)
    assert len(pairs.split_into_blocks(stored.bounds, None, N_DRAWS)) > 3
    again = ComponentDraws.of(LinkedDraws.of(draws), 150, (3, 4)).pair_counts
    for one, other in zip(again, whole, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_full_disk_is_one_sentence(monkeypatch):
    class Full(io.BytesIO):
        def write(self, _):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(linked, "_open_file", Full)
    with pytest.raises(InputError, match=r"draws cannot be written there \(No space left on device\); free some room"):
        in_file(LinkedDraws.of(np.zeros((2, 5), np.int32)))


def test_draws_among_known_items_are_packed_row_by_row():
    rng = np.random.default_rng(1)
    n_items, some = 50, np.arange(5, 45)
    known = np.full(n_items, -1)
    known[[0, 1, 47]] = [7, 7, 4]
    draws = draw_partitions(rng, len(some))
    whole = np.tile(np.arange(n_items), (N_DRAWS, 1))
    whole[:, 1] = 0
    whole[:, some] = some[draws]
    wanted = Posterior(whole.reshape(4, 3, -1).transpose(1, 0, 2), fixed=known, shared=False)
    found = Posterior(pack_linked(LinkedDraws.of(draws), some, known, (3, 4), shared=False))
    np.testing.assert_array_equal(found.draws, wanted.draws)
    np.testing.assert_array_equal(found.stored.known, wanted.stored.known)


@pytest.mark.parametrize(
    "change",
    [
        lambda draws: draws._replace(items=draws.items.astype(np.int32)),
        lambda draws: draws._replace(items=draws.items[::-1]),
        lambda draws: draws._replace(items=np.repeat(draws.items[:1], len(draws.items))),
        lambda draws: draws._replace(items=draws.items + 1000),
        lambda draws: draws._replace(bounds=draws.bounds[:-1]),
        lambda draws: draws._replace(bounds=draws.bounds[:0]),
        lambda draws: draws._replace(bounds=np.arange(len(draws.items) + 1)),
        lambda draws: draws._replace(labels=draws.labels.astype(np.float64)),
        lambda draws: draws._replace(labels=draws.labels[:, 1:]),
        lambda draws: draws._replace(labels=draws.labels + np.uint16(1)),
        lambda draws: draws._replace(labels=draws.labels.astype(np.int32) - 1),
    ],
)
def test_what_kernels_could_not_read_is_refused(change):
    draws = LinkedDraws.of(draw_partitions(np.random.default_rng(0), 60))
    with pytest.raises(ValueError, match=r"of another|fewer than two|not there|out of range"):
        change(draws).check(N_DRAWS, np.arange(60))
