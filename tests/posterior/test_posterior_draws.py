"""Storage of draws: canonical labels, bit packing and the recorder, each against an obvious twin."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from scdp.errors import InputError
from scdp.posterior import DrawRecorder, Posterior, canonical_labels
from scdp.posterior.draws import count_bits, count_words, pack, unpack_draws, unpack_item


def number_by_appearance_plain(ids):
    """The slow twin of the kernel."""
    numbers = {}
    return np.array([numbers.setdefault(one, len(numbers)) for one in np.asarray(ids).tolist()], np.int32)


def random_draws(rng, n_chains, n_draws, n_items, n_clusters):
    return rng.integers(0, n_clusters, (n_chains, n_draws, n_items))


def constrained_draws(rng, n_chains, n_draws, template, hidden, *, shared):
    """Draws in which known items keep the template's grouping; slots are shuffled in each draw."""
    draws = np.tile(template, (n_chains, n_draws, 1))
    low = 0 if shared else 10
    draws[:, :, hidden] = rng.integers(low, 14, (n_chains, n_draws, len(hidden)))
    names = rng.permuted(np.tile(np.arange(40), (n_chains, n_draws, 1)), axis=2)
    return np.take_along_axis(names, draws, axis=2)


@pytest.mark.parametrize("low", [-5, 0, 10**15])
@pytest.mark.parametrize("spread", [1, 3, 50, 10**6])
def test_canonical_labels_agree_with_the_plain_twin(low, spread):
    rng = np.random.default_rng(spread)
    for n in (0, 1, 2, 30, 200):
        ids = low + rng.integers(0, spread, n)
        assert np.array_equal(canonical_labels(ids), number_by_appearance_plain(ids))


def test_canonical_labels_number_by_first_appearance():
    assert canonical_labels([7, 7, -2, 9, -2]).tolist() == [0, 0, 1, 2, 1]


@pytest.mark.parametrize("labels", [[0.5, 1.0], [[0, 1]], ["a", "b"]])
def test_labels_that_are_not_whole_numbers_are_refused(labels):
    with pytest.raises(InputError, match="cluster labels must be"):
        canonical_labels(labels)


@pytest.mark.parametrize("width", [1, 2, 5, 7, 8, 11, 16, 20, 31])
def test_packing_round_trip_and_layout(width):
    rng = np.random.default_rng(width)
    codes = rng.integers(0, 2**width, (3, 101)).astype(np.int32)
    size = count_words(101, width)
    words = np.zeros(3 * size, np.uint64)
    for draw, row in enumerate(codes):
        pack(row, width, words[draw * size : (draw + 1) * size])
        as_one_number = sum(int(code) << (width * item) for item, code in enumerate(row))
        packed = words[draw * size : (draw + 1) * size].tobytes()
        assert int.from_bytes(packed, "little") == as_one_number
    starts, widths = np.arange(3) * size, np.full(3, width, np.uint8)
    out, column = np.empty_like(codes), np.empty(3, np.int32)
    unpack_draws(words, starts, widths, out)
    assert np.array_equal(out, codes)
    for item in (0, 57, 100):
        unpack_item(words, starts, widths, item, column)
        assert np.array_equal(column, codes[:, item])


def test_bits_for_the_number_of_codes():
    assert [count_bits(count) for count in (0, 1, 2, 3, 4, 5, 256, 257, 1400)] == [0, 0, 1, 2, 2, 3, 8, 9, 11]


@pytest.mark.parametrize("n_clusters", [1, 2, 6, 300])
def test_draws_come_back_in_canonical_form(n_clusters):
    rng = np.random.default_rng(n_clusters)
    raw = random_draws(rng, 2, 7, 90, n_clusters)
    post = Posterior(raw)
    assert post.draws.shape == raw.shape
    assert post.draws.dtype.kind == "i"
    for got, given in zip(post.draws.reshape(14, 90), raw.reshape(14, 90), strict=True):
        assert np.array_equal(got, number_by_appearance_plain(given))
    assert np.array_equal(post.n_clusters, post.draws.max(axis=2) + 1)


@pytest.mark.parametrize("shared", [True, False])
def test_known_items_are_rebuilt_not_stored(shared):
    rng = np.random.default_rng(5)
    template = rng.integers(0, 10, 60)
    hidden = np.sort(rng.choice(60, 15, replace=False))
    raw = constrained_draws(rng, 2, 9, template, hidden, shared=shared)
    recorder = DrawRecorder(2, 9, 1000 - 3 * template, rng.permutation(hidden), shared=shared)
    for chain in range(2):
        for draw in range(9):
            recorder.record(chain, draw, raw[chain, draw])
    post = recorder.finish()
    expected = np.array([[number_by_appearance_plain(row) for row in rows] for rows in raw])
    assert np.array_equal(post.draws, expected)
    assert np.array_equal(post.hidden, hidden)
    assert np.array_equal(post.n_clusters, expected.max(axis=2) + 1)
    held = [[len(set(row[hidden])) for row in rows] for rows in raw]
    assert np.array_equal(post.stored.n_hidden_clusters, held)
    assert max(map(len, post.stored.words)) <= 9 * count_words(15, count_bits(14))
    for i, j in [(0, 1), (hidden[0], hidden[1]), (hidden[2], 3), (5, hidden[4])]:
        assert post.co_clustering(i, j) == (raw[:, :, i] == raw[:, :, j]).mean()


def test_a_regrouped_known_item_is_refused():
    recorder = DrawRecorder(1, 3, [5, 5, 6, 0], [3])
    for slots in ([0, 1, 2, 0], [0, 0, 0, 1]):
        with pytest.raises(InputError, match="chain 0, draw 0: the known items"):
            recorder.record(0, 0, slots)
    recorder.record(0, 0, [3, 3, 1, 1])
    assert recorder.finish().draws.tolist() == [[[0, 0, 1, 1]]]


def test_a_hidden_item_in_a_known_cluster_is_refused_unless_shared():
    recorder = DrawRecorder(1, 1, [5, 5, 6, 0], [3], shared=False)
    with pytest.raises(InputError, match="joined a known cluster"):
        recorder.record(0, 0, [3, 3, 1, 1])
    with pytest.raises(InputError, match="3 cluster ids for 4 items"):
        recorder.record(0, 0, [3, 3, 1])


def test_an_interrupted_run_keeps_what_every_chain_reached():
    raw = random_draws(np.random.default_rng(1), 2, 5, 8, 3)
    recorder = DrawRecorder(2, 5, np.zeros(8, int), np.arange(8))
    with pytest.raises(InputError, match="no draw yet"):
        recorder.finish()
    for chain, reached in enumerate((5, 3)):
        for draw in range(reached):
            recorder.record(chain, draw, raw[chain, draw])
    trace = np.arange(10.0).reshape(2, 5)
    post = recorder.finish({"log_joint": trace})
    assert np.array_equal(post.draws, Posterior(raw[:, :3]).draws)
    assert np.array_equal(post.traces["log_joint"], trace[:, :3])
    # The run goes on after a first look.
    for draw in (3, 4):
        recorder.record(1, draw, raw[1, draw])
    assert np.array_equal(recorder.finish({"log_joint": trace}).draws, Posterior(raw).draws)


def test_chains_may_record_from_threads():
    raw = random_draws(np.random.default_rng(2), 4, 300, 40, 9)
    recorder = DrawRecorder(4, 300, np.zeros(40, int), np.arange(40))

    def run(chain):
        for draw in range(300):
            recorder.record(chain, draw, raw[chain, draw])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    assert np.array_equal(recorder.finish().draws, Posterior(raw).draws)


def test_many_pages_join_in_order(monkeypatch):
    monkeypatch.setattr("scdp.posterior.recorder.PAGE_WORDS", 7)
    raw = random_draws(np.random.default_rng(3), 1, 40, 60, 5)
    post = Posterior(raw)
    assert np.array_equal(post.draws[0], [number_by_appearance_plain(row) for row in raw[0]])


def test_a_long_run_with_singletons_stays_small():
    # A tenth of 1,400 items x 10,000 draws x 10 chains: all must stay below 200 MB.
    recorder = DrawRecorder(1, 10_000, np.full(1400, -1), np.arange(1400))
    slots = np.random.default_rng(0).permutation(1400)
    for draw in range(10_000):
        recorder.record(0, draw, slots)
    during = sum(page.nbytes for page in recorder.chains[0].pages)
    post = recorder.finish()
    assert during < 20e6
    assert post.stored.nbytes < 20e6
    assert post.n_clusters.min() == 1400


def test_chunks_cover_all_draws(monkeypatch):
    monkeypatch.setattr("scdp.posterior.draws.CHUNK_LABELS", 50)
    raw = random_draws(np.random.default_rng(4), 3, 11, 20, 4)
    post = Posterior(raw)
    assert len(list(post.stored.label_chunks())) == 18
    assert np.array_equal(post.draws[2, 10], number_by_appearance_plain(raw[2, 10]))
    flat = post.draws.reshape(33, 20)
    chosen = np.array([32, 0, 12])
    assert np.array_equal(post.stored.labels_at(chosen), flat[chosen])


def test_evenly_spaced_draws():
    stored = Posterior(np.zeros((2, 50, 3), int)).stored
    assert stored.choose_draws(1000).tolist() == list(range(100))
    assert stored.choose_draws(3).tolist() == [0, 50, 99]
    assert stored.choose_draws(1).tolist() == [0]


def test_wrong_construction_is_refused():
    draws = np.zeros((1, 2, 3), int)
    with pytest.raises(InputError, match=r"\(chain, draw, item\)"):
        Posterior(draws[0])
    with pytest.raises(InputError, match="trace 'alpha' has shape"):
        Posterior(draws, {"alpha": np.zeros(2)})
    with pytest.raises(InputError, match="2 names for 3 items"):
        Posterior(draws, names=["a", "b"])
    with pytest.raises(InputError, match="hidden and fixed disagree"):
        Posterior(draws, hidden=[0], fixed=[-1, -1, 4])
    with pytest.raises(InputError, match="2 fixed labels for 3 items"):
        Posterior(draws, fixed=[-1, -1])
    with pytest.raises(InputError, match="from 0 to 2"):
        Posterior(draws, hidden=[3])
    with pytest.raises(InputError, match="at least one chain"):
        DrawRecorder(0, 1, [0], [0])


def test_traces_cannot_be_changed_afterwards():
    post = Posterior(np.zeros((1, 2, 3), int), {"alpha": np.zeros((1, 2))})
    with pytest.raises(ValueError, match="read-only"):
        post.traces["alpha"][0, 0] = 1.0
    assert repr(post) == "Posterior(1 chains x 2 draws, 3 items of which 3 hidden, 1 to 1 clusters)"


@pytest.mark.parametrize("shared", [True, False])
def test_places_together_agree_with_the_plain_twin(shared):
    rng = np.random.default_rng(5)
    template = np.array([0, 0, 1, -1, -1, -1, -1, -1, -1])
    hidden = np.arange(3, 9)
    draws = np.tile(template, (2, 4, 1))
    draws[:, :, hidden] = rng.integers(0 if shared else 20, 60, (2, 4, 6))
    draws[:, :, 5] = 99
    stored = Posterior(draws, hidden=hidden, shared=shared).stored
    chosen = np.array([0, 3, 5])
    rows = draws.reshape(8, -1)[chosen]
    together = [place for place, item in enumerate(hidden) if ((rows == rows[:, [item]]).sum(axis=1) > 1).any()]
    assert stored.places_together(chosen).tolist() == together
    assert 2 not in together
    assert stored.places_together(np.arange(8)).tolist() != []
    some = stored.codes_at(chosen, np.array([4, 0]))
    np.testing.assert_array_equal(some, stored.codes_at(chosen)[:, [4, 0]])
