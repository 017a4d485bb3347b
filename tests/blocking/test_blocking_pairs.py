import numpy as np
import pytest

from blocking_cases import components_by_search, expanded, pair_set, pairs_of_rule, random_records
from scdp.blocking import (
    Blocking,
    CandidatePairs,
    candidate_pairs,
    connected_components,
    digits,
    equal,
    identical,
    last_word,
    neighbourhood,
    overlap,
    prefix,
    qgrams,
    read_pair_chunks,
    soundex,
    stream_candidate_pairs,
    text,
    tokens,
    year,
)
from scdp.blocking.estimates import estimate_candidates
from scdp.datasets import make_records
from scdp.errors import InputError
from scdp.table import records_from

RULES = [
    equal("name"),
    equal("city", year("born")),
    equal(prefix("name", 1), last_word("city"), digits("born", last=4)),
    equal(soundex("name"), soundex("city")),
    equal(tokens("name")),
    equal(tokens("name", "city"), tokens("city"), "born"),
    equal(text("name", "city")),
    identical("name", "city", "born"),
    identical("born"),
    overlap(tokens("name", "city"), rarity=0.5),
    overlap(tokens("name"), rarity=0.75),
    overlap(qgrams("name", 2), rarity=0.7),
    overlap(qgrams("city", 1), rarity=0.4),
    neighbourhood("name", window=3),
    neighbourhood(prefix("city", 1), "born", window=2),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 80])
def test_a_rule_gives_the_pairs_of_its_definition(rule, n):
    records = random_records(n, seed=n)
    found = candidate_pairs(records, Blocking((rule,), max_block=40 if n > 2 else 2))
    assert not found.oversized
    assert pair_set(found) == pairs_of_rule(rule, records, max_block=40)
    if n == 80:
        assert 0 < len(found) < 80 * 79 / 2


def test_a_blocking_is_the_union_sorted_and_each_pair_once():
    records = random_records(80, seed=3)
    found = candidate_pairs(records, Blocking(tuple(RULES), max_block=40))
    assert pair_set(found) == set().union(*(pairs_of_rule(rule, records, 40) for rule in RULES))
    order = found.left.astype(np.int64) * 80 + found.right
    assert (np.diff(order) > 0).all()
    assert (found.left < found.right).all()


@pytest.mark.parametrize("links", [(), (equal("first_name", "surname", year("birth_date")),)])
def test_a_sample_tells_how_many_candidates_there_would_be(links):
    records = make_records(20_000, kind="people", seed=5).data
    rules = (equal("surname"), equal("birth_date"), equal(prefix("first_name", 1)), neighbourhood("phone"))
    blocking = Blocking(rules, links, max_block=120)
    found = candidate_pairs(records, blocking)
    # Most blocks of first letters are above the bound, and some of surnames.
    assert len(found.oversized) >= 2
    sample = records.take(np.sort(np.random.default_rng(0).permutation(20_000)[:4_000]))
    assert estimate_candidates(sample, blocking, 20_000) == pytest.approx(len(found), rel=0.2)
    assert estimate_candidates(records, blocking, 20_000) >= len(found)


def test_a_sample_tells_how_many_candidates_an_overlap_would_make():
    # A token of one record in the sample is a token of several among all, and so less rare than it seems.
    records = make_records(20_000, kind="people", seed=5).data
    everything = tokens("first_name", "surname", "birth_date", "street", "city", "postcode", "phone")
    blocking = Blocking((overlap(everything, rarity=0.8),))
    n_found = len(candidate_pairs(records, blocking))
    sample = records.take(np.sort(np.random.default_rng(0).permutation(20_000)[:8_000]))
    assert estimate_candidates(sample, blocking, 20_000) == pytest.approx(n_found, rel=0.35)


def test_links_add_what_is_one_step_away():
    records = random_records(70, seed=5)
    rules, link = (equal("name"), neighbourhood("born", window=1)), overlap(qgrams("city", 2), rarity=1.2)
    found = candidate_pairs(records, Blocking(rules, links=(link,)))
    direct = set().union(*(pairs_of_rule(rule, records, 500) for rule in (*rules, link)))
    wanted = expanded(direct, pairs_of_rule(link, records, 500))
    assert len(wanted) > len(direct) > 0
    assert pair_set(found) == wanted


def test_nothing_is_linked_through_a_hub():
    # Sixty records are linked to each other; one record meets one of them.
    n = 60
    records = records_from({"hub": ["x"] * n + [None], "other": [None] * (n - 1) + ["y", "y"]})
    found = candidate_pairs(records, Blocking((equal("other"),), links=(equal("hub"),), max_block=100))
    assert pair_set(found) == {(a, b) for a in range(n) for b in range(a + 1, n)} | {(n - 1, n)}
    few = records.take(np.arange(20, n + 1))
    found = candidate_pairs(few, Blocking((equal("other"),), links=(equal("hub"),), max_block=100))
    assert len(found) == 41 * 40 // 2


def test_missing_values_never_match():
    records = records_from({"a": [None, None, " ", "--", "x", "x"], "b": ["1", "1", "1", "1", None, None]})
    assert not len(candidate_pairs(records, Blocking((equal("a", "b"),))))
    assert pair_set(candidate_pairs(records, Blocking((equal("a"),)))) == {(4, 5)}
    assert pair_set(candidate_pairs(records, Blocking((neighbourhood("a", window=9),)))) == {(4, 5)}
    assert not len(candidate_pairs(records, Blocking((overlap(tokens("b"), 0.9), overlap(tokens("a"), 2.0)))))
    nothing = records_from({"a": [None, None], "b": ["1", "2"]})
    assert not len(candidate_pairs(nothing, Blocking((identical("a"), equal(tokens("a"))))))


@pytest.mark.parametrize(
    "name", ['"; DROP TABLE pairs; --', "a'b", "substr(first_name, 1, 1)", "select", "ключ", "a\nb", "left"]
)
def test_a_column_may_have_any_name(name, tmp_path):
    records = records_from({name: ["x y", "X", "x", None], "b": ["1", "1", "2", "1"]})
    rules = (equal(name), overlap(tokens(name), 0.1), neighbourhood(name, window=1), identical(name, "b"))
    found = candidate_pairs(records, Blocking(rules))
    assert pair_set(found) == {(0, 1), (0, 2), (1, 2)}
    found.to_parquet(tmp_path / "pairs.parquet")
    assert pair_set(CandidatePairs.from_parquet(tmp_path / "pairs.parquet")) == pair_set(found)


def test_a_column_that_is_not_there_is_named():
    records = random_records(5, seed=0)
    with pytest.raises(InputError, match="there is no column 'nmae'"):
        candidate_pairs(records, Blocking((equal("nmae"),)))


def test_a_giant_block_is_bounded_and_reported():
    n = 30_000
    rng = np.random.default_rng(0)
    person = rng.permutation(np.arange(n) // 2)
    records = records_from({"country": ["x"] * n, "phone": [f"{number:07d}" for number in person]})
    found = candidate_pairs(records, Blocking((equal("country"), equal("country", prefix("phone", 3)))))
    assert len(found) <= n * 10 + 500 * n
    assert found.oversized[0].n_records == found.oversized[0].largest == n
    assert "equal(country): 1 blocks above the bound with 30,000 records" in found.report()
    # Within the block records were sorted by the phone, the most varied column.
    by_digit = Blocking((equal("country", prefix("phone", 1)), equal("country", digits("phone", last=1))), window=1)
    alone = candidate_pairs(records, by_digit)
    assert len(alone) < 2 * n
    assert alone.recall(person) == 1.0


def test_the_same_pairs_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr("scdp.blocking.pairs.VISITS_AT_ONCE", 100)
    records = random_records(200, seed=7)
    blocking = Blocking(tuple(RULES), links=(equal("name"),), max_block=60)
    first = candidate_pairs(records, blocking, threads=1)
    for threads in (2, 5):
        again = candidate_pairs(records, blocking, threads=threads)
        assert np.array_equal(first.left, again.left)
        assert np.array_equal(first.right, again.right)
    monkeypatch.undo()
    assert pair_set(candidate_pairs(records, blocking)) == pair_set(first)


def test_pairs_past_the_memory_limit_and_in_parquet_are_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("scdp.blocking.pairs.VISITS_AT_ONCE", 500)
    records = random_records(300, seed=9)
    blocking = Blocking((equal(prefix("name", 1)), equal("born")), max_block=300)
    held = candidate_pairs(records, blocking)
    mapped = candidate_pairs(records, blocking, memory_limit=1000)
    assert isinstance(mapped.left, np.memmap)
    stream_candidate_pairs(records, blocking, tmp_path / "pairs.parquet", memory_limit="300MB")
    read = CandidatePairs.from_parquet(tmp_path / "pairs.parquet")
    chunks = list(read_pair_chunks(tmp_path / "pairs.parquet", pairs=777))
    assert len(chunks) == -(-len(held) // 777)
    assert read.n_records == len(records)
    for other in (mapped, read):
        assert np.array_equal(held.left, other.left)
        assert np.array_equal(held.right, other.right)
    assert np.array_equal(held.left, np.concatenate([left for left, _ in chunks]))
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.parquet"]


def test_no_pairs_are_kept_too(tmp_path):
    none = candidate_pairs(records_from({"a": ["x", "y"]}), Blocking((equal("a"),)), memory_limit=1)
    assert len(none) == 0
    none.to_parquet(tmp_path / "none.parquet")
    assert len(CandidatePairs.from_parquet(tmp_path / "none.parquet")) == 0
    assert list(read_pair_chunks(tmp_path / "none.parquet")) == []


def test_files_and_settings_that_are_wrong_are_named(tmp_path):
    records, blocking = random_records(4, seed=0), Blocking((equal("name"),))
    with pytest.raises(InputError, match="memory_limit is 'lots'"):
        candidate_pairs(records, blocking, memory_limit="lots")
    with pytest.raises(InputError, match="threads is 0"):
        candidate_pairs(records, blocking, threads=0)
    with pytest.raises(InputError, match=r"none\.parquet: it is no Parquet file"):
        CandidatePairs.from_parquet(tmp_path / "none.parquet")
    with pytest.raises(InputError, match="cannot be written there"):
        stream_candidate_pairs(records, blocking, tmp_path / "no folder" / "pairs.parquet")


def test_recall_counts_the_pairs_of_known_clusters():
    pairs = CandidatePairs(np.array([0, 1], dtype=np.int32), np.array([1, 4], dtype=np.int32), 6)
    assert pairs.recall(["a", "a", "a", None, "-1", "b"]) == pytest.approx(1 / 3)
    assert pairs.recall([0, 0, 1, 1, -1, -1]) == 0.5
    assert pairs.recall(np.arange(6)) == 1.0
    with pytest.raises(InputError, match="6 records"):
        pairs.recall([1, 2])


@pytest.mark.parametrize(("n", "n_edges"), [(0, 0), (1, 0), (7, 3), (60, 35), (200, 150), (200, 800)])
def test_components_are_those_of_a_search(n, n_edges):
    rng = np.random.default_rng(n + n_edges)
    left, right = rng.integers(0, max(n, 1), size=(2, n_edges))
    chunks = [(left[: n_edges // 2], right[: n_edges // 2]), (left[n_edges // 2 :], right[n_edges // 2 :])]
    found = connected_components(n, chunks)
    labels = components_by_search(n, list(zip(left.tolist(), right.tolist(), strict=True)))
    assert found.labels.tolist() == labels
    assert [found[c].tolist() for c in range(len(found))] == [
        [row for row in range(n) if labels[row] == label] for label in sorted(set(labels))
    ]
    assert found.codes.tolist() == [sorted(set(labels)).index(label) for label in labels]


def test_components_of_a_long_chain_take_no_time():
    n = 1_000_000
    rows = np.random.default_rng(0).permutation(n).astype(np.int32)
    found = connected_components(n, [(rows[:-1], rows[1:])])
    assert len(found) == 1
    assert (found.labels == 0).all()


def test_edges_that_are_wrong_are_named():
    with pytest.raises(InputError, match="records 0 to 2"):
        connected_components(3, [([0], [3])])
    with pytest.raises(InputError, match="2 left ends and 1 right"):
        connected_components(3, [([0, 1], [2])])
