from __future__ import annotations

import numpy as np
import pytest

from review_site import doubtful_draws
from scdp.review.beliefs import Beliefs, correct_draw, merge_greedily
from scdp.table.decisions import Constraints, Decision


def constrain(n: int, *said: tuple[str, tuple[int, ...]]) -> Constraints:
    decisions = [Decision(tuple(map(str, rows)), kind) for kind, rows in said]
    return Constraints.of(decisions, [str(row) for row in range(n)])


def test_conditioning_keeps_the_draws_that_agree():
    draws = doubtful_draws(3, n_draws=400)
    beliefs = Beliefs(draws, n_members=4)
    beliefs.condition(constrain(9, ("same", (0, 1))), [0, 1])
    agreeing = draws[draws[:, 0] == draws[:, 1]]
    expected = (agreeing[:, 0] == agreeing[:, 2]).mean()
    assert beliefs.probability(0, 1) == 1.0
    # Draws that disagreed are replaced by such that agree, of the same member: the share is that of the agreeing ones.
    assert beliefs.probability(0, 2) == pytest.approx(expected, abs=0.08)
    # Records of other components know nothing of it.
    assert beliefs.probability(3, 4) == pytest.approx((draws[:, 3] == draws[:, 4]).mean())


def test_a_decision_taken_back_leaves_no_trace():
    beliefs = Beliefs(doubtful_draws(4), n_members=2)
    before = beliefs.snapshot()
    constraints = constrain(12, ("same", (0, 5)), ("different", (1, 2)))
    beliefs.condition(constraints, [0, 5, 1, 2])
    assert beliefs.probability(0, 5) == 1.0
    beliefs.condition(constrain(12), [0, 5, 1, 2])
    assert (beliefs.answer == before.answer).all()
    assert beliefs.probability(0, 5) == 0.0
    one, other = (np.lexsort((each.pairs.right, each.pairs.left)) for each in (beliefs, before))
    assert (beliefs.pairs.left[one] == before.pairs.left[other]).all()
    assert np.allclose(beliefs.pairs.by_member[:, one], before.pairs.by_member[:, other])


@pytest.mark.parametrize("seed", range(20))
def test_every_draw_and_the_answer_obey(seed: int):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, 9)
    said = []
    for _ in range(5):
        one, other = rng.choice(9, 2, replace=False).tolist()
        said.append(("same" if truth[one] == truth[other] else "different", (one, other)))
    constraints = constrain(9, *said)
    beliefs = Beliefs(doubtful_draws(3, seed=seed), n_members=4)
    beliefs.condition(constraints, {row for _, rows in said for row in rows})
    draws = beliefs.columns(np.arange(9))
    for kind, (one, other) in said:
        together = draws[:, one] == draws[:, other]
        assert together.all() if kind == "same" else not together.any()
        assert (beliefs.answer[one] == beliefs.answer[other]) == (kind == "same")


def test_a_draw_is_corrected_no_more_than_is_said():
    local = constrain(5, ("same", (0, 1)), ("different", (0, 2)))
    found = correct_draw(np.array([0, 1, 0, 1, 4], dtype=np.int32), local)
    assert found[0] == found[1]
    assert found[0] != found[2]
    assert len(set(found.tolist())) == 3 or len(set(found.tolist())) == 4


def test_merging_stops_where_it_costs():
    gain = np.full((4, 4), -0.3)
    gain[0, 1] = gain[1, 0] = 0.5
    gain[2, 3] = gain[3, 2] = 0.2
    assert merge_greedily(gain).tolist() in ([0, 0, 2, 2], [1, 1, 3, 3])


def test_the_answer_follows_a_decision_at_once():
    draws = np.zeros((10, 4), dtype=np.int32)
    draws[:, 3] = 3
    beliefs = Beliefs(draws)
    assert beliefs.members_of(0).tolist() == [0, 1, 2]
    beliefs.condition(constrain(4, ("different", (0, 1)), ("same", (2, 3))), [0, 1, 2, 3])
    assert 1 not in beliefs.members_of(0).tolist()
    assert beliefs.members_of(3).tolist()[-2:] == [2, 3]


@pytest.mark.parametrize("seed", range(10))
def test_what_is_in_doubt_and_what_is_sure_make_up_all_pairs(seed: int):
    """Sure components are only counted; a decision within one brings its pairs back."""
    rng = np.random.default_rng(seed)
    doubtful = doubtful_draws(3, seed=seed)
    sure = np.tile(np.array([9, 9, 9, 12, 12, 14], dtype=np.int32), (len(doubtful), 1))
    beliefs = Beliefs(np.concatenate([doubtful, sure], axis=1), n_members=4)
    said = [("different", (9, 10)), ("same", (3, 12)), ("different", (0, 1)), ("same", (4, 5))]
    for n_said in range(len(said) + 1):
        chosen = [said[k] for k in rng.permutation(len(said))[:n_said]]
        beliefs.condition(constrain(15, *chosen), range(15))
        draws = beliefs.columns(np.arange(15))
        one, other = np.triu_indices(15, 1)
        p = (draws[:, one] == draws[:, other]).mean(axis=0)
        assert beliefs.pairs.probability.sum() == pytest.approx(p.sum())
        unsure = beliefs.unsure
        assert unsure.pairs.probability.sum() + unsure.n_sure == pytest.approx(p.sum())
        linked = beliefs.answer[unsure.pairs.left] == beliefs.answer[unsure.pairs.right]
        assert linked.sum() + unsure.n_sure_linked <= beliefs.n_links
        assert ((p > 0) & (p < 1)).sum() <= len(unsure.pairs.left)
        assert beliefs.count_clusters().tolist() == [len(set(draw)) for draw in draws.tolist()]


def test_a_record_that_is_taken_out_has_a_label_of_its_own():
    """No draw parts records 0 to 2, so all are corrected; the new label must not be that of record 3."""
    beliefs = Beliefs(np.tile(np.array([0, 0, 0, 3], dtype=np.int32), (6, 1)))
    beliefs.condition(constrain(4, ("different", (0, 2))), [0, 2])
    assert beliefs.probability(2, 3) == 0.0
    assert beliefs.count_clusters().tolist() == [3] * 6
