"""Every metric against a slow, obvious twin; the edit distance against breadth-first search."""

from __future__ import annotations

from collections import Counter, deque
from itertools import combinations
from math import log

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdp import metrics
from scdp.errors import InputError

KEYS = ["ri", "p", "r", "f", "ced", "nes", "vi", "nvi", "ari", "b3", "nmi", "ced_merge_free", "nes_merge_free"]
PERFECT = dict.fromkeys(KEYS, 1.0) | {"ced": 0.0, "vi": 0.0, "ced_merge_free": 0.0}
BY_KEY = {
    "ri": metrics.rand_index,
    "p": metrics.precision,
    "r": metrics.recall,
    "f": metrics.f_score,
    "ced": metrics.cluster_edit_distance,
    "nes": metrics.normalized_edit_score,
    "vi": metrics.variation_of_information,
    "nvi": metrics.normalized_variation_of_information,
    "ari": metrics.adjusted_rand_index,
    "b3": metrics.b_cubed,
    "nmi": metrics.normalized_mutual_information,
    "ced_merge_free": metrics.merge_free_edit_distance,
    "nes_merge_free": metrics.merge_free_edit_score,
}


# ---- the slow twins ----


def slow_pairs(gold, predicted):
    pairs = list(combinations(range(len(gold)), 2))
    joined = [(predicted[i] == predicted[j], gold[i] == gold[j]) for i, j in pairs]
    return Counter(joined)


def slow_pair_metrics(gold, predicted):
    count = slow_pairs(gold, predicted)
    tp, fp, fn = count[True, True], count[True, False], count[False, True]
    total = count.total()
    p = tp / (tp + fp) if tp + fp else 1.0
    r = tp / (tp + fn) if tp + fn else 1.0
    ri = (tp + count[False, False]) / total if total else 1.0
    f = 2 * p * r / (p + r) if p + r else 0.0
    if not fp and not fn:
        return {"ri": ri, "p": p, "r": r, "f": f, "ari": 1.0}
    expected = (tp + fp) * (tp + fn) / total
    ari = (tp - expected) / ((2 * tp + fp + fn) / 2 - expected)
    return {"ri": ri, "p": p, "r": r, "f": f, "ari": ari}


def slow_entropy(labels):
    return -sum(c / len(labels) * log(c / len(labels)) for c in Counter(labels).values())


def slow_information(gold, predicted):
    first, second = slow_entropy(predicted), slow_entropy(gold)
    together = slow_entropy(list(zip(predicted, gold, strict=True)))
    vi = 2 * together - first - second
    nvi = 1 - vi / log(len(gold)) if len(gold) > 1 else 1.0
    nmi = 2 * (first + second - together) / (first + second) if first + second else 1.0
    return {"vi": vi, "nvi": nvi, "nmi": nmi}


def slow_b_cubed(gold, predicted):
    shares = {"p": 0.0, "r": 0.0}
    for i in range(len(gold)):
        mine = {j for j, label in enumerate(predicted) if label == predicted[i]}
        true = {j for j, label in enumerate(gold) if label == gold[i]}
        shares["p"] += len(mine & true) / len(mine) / len(gold)
        shares["r"] += len(mine & true) / len(true) / len(gold)
    return shares["p"], shares["r"], 2 * shares["p"] * shares["r"] / (shares["p"] + shares["r"])


def slow_edit_steps(gold, predicted):
    """The best choice of a class to stand for each cluster, tried one by one (a class stands once)."""
    clusters = [frozenset(i for i, label in enumerate(predicted) if label == k) for k in set(predicted)]
    classes = [frozenset(i for i, label in enumerate(gold) if label == k) for k in set(gold)]
    best = [max(len(h & g) for g in classes) for h in clusters]
    choices = [{k for k, g in enumerate(classes) if len(h & g) == b} for h, b in zip(clusters, best, strict=True)]

    def most_homes(cluster, used):
        if cluster == len(clusters):
            return 0
        taken = [1 + most_homes(cluster + 1, used | {k}) for k in choices[cluster] - used]
        return max([*taken, most_homes(cluster + 1, used)])

    return len(gold) - sum(best) + len(clusters) - most_homes(0, frozenset())


def slow_purity(gold, predicted):
    """The share of items that are of the most frequent class of their cluster."""
    kept = 0
    for cluster in set(predicted):
        classes = Counter(true for true, label in zip(gold, predicted, strict=True) if label == cluster)
        kept += classes.most_common(1)[0][1]
    return kept / len(gold)


def slow_evaluate(gold, predicted):
    n = len(gold)
    purity, inverse = slow_purity(gold, predicted), slow_purity(predicted, gold)
    free = {"ced_merge_free": 1 - purity, "nes_merge_free": purity + inverse - 1}
    there, back = slow_edit_steps(gold, predicted), slow_edit_steps(predicted, gold)
    edits = {"ced": there / n, "nes": 1 - (there + back) / (2 * n), "b3": slow_b_cubed(gold, predicted)[2]}
    return slow_pair_metrics(gold, predicted) | slow_information(gold, predicted) | edits | free


def random_pairs(seed, how_many, largest, most_clusters):
    generator = np.random.default_rng(seed)
    for _ in range(how_many):
        n = generator.integers(1, largest + 1)
        clusters = generator.integers(1, most_clusters + 1, size=2)
        yield tuple(generator.integers(0, k, size=n).tolist() for k in clusters)


# ---- agreement with the twins ----


def test_evaluate_equals_the_slow_twin_on_random_partitions():
    for predicted, gold in random_pairs(seed=1, how_many=2000, largest=14, most_clusters=6):
        assert metrics.evaluate(gold, predicted) == pytest.approx(slow_evaluate(gold, predicted), abs=1e-12)


labellings = st.integers(1, 10).flatmap(lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(labellings)
def test_each_function_is_its_entry_of_evaluate(pair):
    everything = metrics.evaluate(*pair)
    assert list(everything) == KEYS
    assert all(type(value) is float for value in everything.values())
    assert {key: function(*pair) for key, function in BY_KEY.items()} == everything


@settings(max_examples=200, deadline=None, derandomize=True)
@given(labellings, st.randoms(use_true_random=False))
def test_order_of_items_and_names_of_clusters_do_not_matter(pair, random):
    order = random.sample(range(len(pair[0])), len(pair[0]))
    names = random.sample("uvwxyz", 6)
    renamed = [names[pair[0][i]] for i in order]
    reordered = [pair[1][i] for i in order]
    assert metrics.evaluate(renamed, reordered) == pytest.approx(metrics.evaluate(*pair), abs=1e-12)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(labellings)
def test_swapping_the_two_swaps_precision_and_recall_and_keeps_the_symmetric_ones(pair):
    there, back = metrics.evaluate(*pair), metrics.evaluate(*pair[::-1])
    assert (there["p"], there["r"]) == (back["r"], back["p"])
    for key in ("ri", "f", "nes", "vi", "nvi", "ari", "b3", "nmi"):
        assert there[key] == pytest.approx(back[key], abs=1e-12)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(labellings)
def test_values_stay_in_their_range(pair):
    values = metrics.evaluate(*pair)
    assert all(0 <= values[key] <= 1 for key in KEYS if key not in ("vi", "ari", "nes", "nes_merge_free"))
    assert 0 <= values["vi"] <= log(len(pair[0])) + 1e-12
    assert -0.5 <= values["ari"] <= 1


@settings(max_examples=200, deadline=None, derandomize=True)
@given(labellings)
def test_the_same_clusters_are_perfect(pair):
    assert metrics.evaluate(pair[0], pair[0]) == pytest.approx(PERFECT, abs=1e-12)


def test_b_cubed_parts_equal_the_slow_twin():
    for pair in random_pairs(seed=2, how_many=300, largest=12, most_clusters=5):
        p, r, f = slow_b_cubed(*pair)
        assert metrics.b_cubed_precision(*pair) == pytest.approx(p)
        assert metrics.b_cubed_recall(*pair) == pytest.approx(r)
        assert metrics.b_cubed(*pair) == pytest.approx(f)


# ---- the edit distance by breadth-first search ----


def all_partitions(n):
    """Restricted growth strings: one for each partition of n items."""
    found = [(0,)]
    for _ in range(n - 1):
        found = [(*labels, k) for labels in found for k in range(max(labels) + 2)]
    return found


def canonical(labels):
    names = {}
    return tuple(names.setdefault(label, len(names)) for label in labels)


def neighbours(labels):
    """All partitions at most one create, move or merge away."""
    clusters = max(labels) + 1
    for item in range(len(labels)):
        for target in range(clusters + 1):
            yield canonical((*labels[:item], target, *labels[item + 1 :]))
    for kept, merged in combinations(range(clusters), 2):
        yield canonical(kept if label == merged else label for label in labels)


def steps_from(start, edges):
    steps, queue = {start: 0}, deque([start])
    while queue:
        here = queue.popleft()
        for there in edges[here] - steps.keys():
            steps[there] = steps[here] + 1
            queue.append(there)
    return steps


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_edit_distance_is_the_fewest_steps_for_every_pair_of_partitions(n):
    partitions = all_partitions(n)
    edges = {labels: set(neighbours(labels)) for labels in partitions}
    assert len(partitions) == [1, 2, 5, 15, 52, 203][n - 1]
    for start in partitions:
        steps = steps_from(start, edges)
        counted = {end: metrics.cluster_edit_distance(end, start, normalized=False) for end in partitions}
        assert counted == steps


def test_edit_distance_per_item_and_as_a_count():
    predicted, gold = ["a", "a", "b", "b"], ["x", "y", "x", "y"]
    count = metrics.cluster_edit_distance(gold, predicted, normalized=False)
    assert (count, type(count)) == (2, int)
    assert metrics.cluster_edit_distance(gold, predicted) == 0.5


def test_edit_distance_uses_a_matching_when_greedy_choices_collide():
    # Each cluster ties between two classes; a class taken greedily by the first would force a merge.
    predicted = [0, 0, 1, 1, 2, 2]
    gold = ["a", "b", "b", "c", "c", "a"]
    assert metrics.cluster_edit_distance(gold, predicted, normalized=False) == 3


# ---- numbers worked out by hand ----

GOLD = ["a", "a", "a", "b", "b", "c"]


def test_everything_in_one_cluster_by_hand():
    values = metrics.evaluate(GOLD, [0] * 6)
    entropy = log(2) / 2 + log(3) / 3 + log(6) / 6
    expected = {
        "ri": 4 / 15,
        "p": 4 / 15,
        "r": 1.0,
        "f": 8 / 19,
        "ced": 3 / 6,  # three items leave the cluster of three
        "nes": 1 - (3 + 2) / 12,  # and two merges lead back
        "vi": entropy,
        "nvi": 1 - entropy / log(6),
        "ari": 0.0,
        "b3": 2 * (14 / 36) / (14 / 36 + 1),
        "nmi": 0.0,
        "ced_merge_free": 3 / 6,
        "nes_merge_free": 1 - 3 / 6,
    }
    assert values == pytest.approx(expected, abs=1e-12)


def test_every_item_alone_by_hand():
    values = metrics.evaluate(GOLD, range(6))
    conditional = 3 / 6 * log(3) + 2 / 6 * log(2)
    entropy = log(6) - conditional
    expected = {
        "ri": 11 / 15,
        "p": 1.0,
        "r": 0.0,
        "f": 0.0,
        "ced": 3 / 6,  # three merges
        "nes": 1 - (3 + 3) / 12,  # three creates lead back
        "vi": conditional,
        "nvi": 1 - conditional / log(6),
        "ari": 0.0,
        "b3": 2 * 0.5 / 1.5,
        "nmi": 2 * entropy / (entropy + log(6)),
        "ced_merge_free": 0.0,
        "nes_merge_free": 1 - 3 / 6,
    }
    assert values == pytest.approx(expected, abs=1e-12)


def test_a_mixed_clustering_by_hand():
    values = metrics.evaluate(GOLD, [0, 0, 1, 1, 1, 2])
    assert values["p"] == values["r"] == values["f"] == 0.5
    assert values["ri"] == 11 / 15
    assert values["ced"] == 1 / 6
    assert values["nes"] == 1 - 2 / 12
    assert values["ari"] == pytest.approx((2 - 16 / 15) / (4 - 16 / 15))
    assert values["vi"] == pytest.approx(2 * (3 * log(3) - 2 * log(2)) / 6)
    assert values["b3"] == pytest.approx((2 + 1 / 3 + 2 * 2 / 3 + 1) / 6)


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        ([0], ["x"], PERFECT),
        ([0, 1], [0, 1], PERFECT),
        ([0, 0], [0, 0], PERFECT),
        ([0, 1], [0, 0], {"ri": 0, "p": 1, "r": 0, "f": 0, "ced": 0.5, "nes": 0.5, "nvi": 0, "ari": 0, "nmi": 0}),
        ([0, 0], [0, 1], {"ri": 0, "p": 0, "r": 1, "f": 0, "ced": 0.5, "nes": 0.5, "nvi": 0, "ari": 0, "nmi": 0}),
        ([0, 0, 1], [0, 1, 1], {"p": 0, "r": 0, "f": 0}),
    ],
)
def test_degenerate_inputs_have_defined_values(predicted, gold, expected):
    values = metrics.evaluate(gold, predicted)
    assert {key: values[key] for key in expected} == pytest.approx(expected, abs=1e-12)


# ---- what labels may be ----

CODES = [0, 1, 0, 2, 2, 1]


@pytest.mark.parametrize(
    "labels",
    [
        [1, "1", 1, None, None, "1"],
        [(1, 2), (3, 4), (1, 2), frozenset(), frozenset(), (3, 4)],
        np.array([5, -7, 5, 0, 0, -7], dtype=np.int8),
        np.array([2**64 - 1, 2**64 - 2, 2**64 - 1, 0, 0, 2**64 - 2], dtype=np.uint64),
        np.array(["p", "q", "p", "r", "r", "q"]),
        np.array([1, "1", 1, None, None, "1"], dtype=object),
        np.array(["2020-01-01", "2021-01-01", "2020-01-01", "NaT", "NaT", "2021-01-01"], dtype="M8[D]"),
        np.array([0.5, 1.5, 0.5, np.nan, np.nan, 1.5]),
        [0.5, 1.5, 0.5, float("nan"), float("nan"), 1.5],
        ["p", None, "p", np.float32("nan"), float("nan"), None],
        pd.Series(["p", "q", "p", "r", "r", "q"], index=[9, 9, 1, 1, 0, 0]),
        pd.Series([1, 2, 1, None, None, 2], dtype="Int64"),
        pd.Series(["p", "q", "p", None, None, "q"], dtype="category"),
        [2**70, 2**70 + 1, 2**70, 0, 0, 2**70 + 1],
        [2**53, 2**53 + 1, 2**53, 0.5, 0.5, 2**53 + 1],
        iter("pqprrq"),
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_any_hashable_labels_give_the_same_partition(labels):
    assert metrics.adjusted_rand_index(CODES, labels) == 1


def test_equal_values_of_different_types_are_one_label():
    assert metrics.evaluate([7, 7, 7, 8], [1, 1.0, True, 0])["f"] == 1


@pytest.mark.parametrize("name", metrics.__all__)
@pytest.mark.parametrize(
    ("predicted", "gold", "message"),
    [
        ([1, 2], [1, 2, 3], "labels_true has 3 labels and labels_pred has 2"),
        ([], [], "labels_true is empty"),
        ([1], [], "labels_true is empty"),
        (np.zeros((2, 2)), [1, 2], "labels_pred has 2 dimensions"),
        (pd.DataFrame({"a": [1, 2]}), [1, 2], "labels_pred has 2 dimensions"),
        ([[1], [2]], [1, 2], "labels_pred has a label that cannot be hashed"),
        ([1, 2], {"a": 1, "b": 2}, "labels_true is a dict"),
        ({1, 2}, [1, 2], "labels_pred is a set"),
        ("ab", [1, 2], "labels_pred is a str"),
        (None, [1, 2], "labels_pred is a NoneType"),
        (3, [1, 2], "labels_pred is a int"),
    ],
)
def test_bad_labels_are_refused_in_one_sentence(name, predicted, gold, message):
    with pytest.raises(InputError, match=message) as caught:
        getattr(metrics, name)(gold, predicted)
    assert "\n" not in str(caught.value)


# ---- a million items ----


@pytest.fixture(scope="module")
def a_million():
    generator = np.random.default_rng(3)
    predicted, gold = generator.integers(0, 100_000, size=(2, 1_000_000))
    return predicted, gold


@pytest.mark.parametrize("name", metrics.__all__)
def test_a_million_items_are_scored(a_million, name):
    """Whatever grows with the pairs, or with pairs of clusters, would not end."""
    assert getattr(metrics, name)(*a_million) is not None


def test_a_million_items_do_not_overflow():
    # Pair counts near 5e11 each: their product is far beyond 64 bits.
    predicted = np.zeros(1_000_000, dtype=np.int32)
    predicted[:10] = 1
    values = metrics.evaluate(predicted[::-1], predicted)
    assert values["ri"] == pytest.approx(1 - 2 * 2 * 10 * (10**6 - 20) / (10**6 * (10**6 - 1)))
    assert -0.01 < values["ari"] < 0
