"""Laid-out distances, where chains start, and whole chains on distances."""

from __future__ import annotations

import numpy as np
import pytest

from distance_cases import build_both, build_strange, distances_of, lay_out_points
from sampler_cases import CASES, Case
from scdp.chains import Plan, Priors, initial_state
from scdp.chains import vector_clusters as clusters
from scdp.chains.distances import centroids
from scdp.chains.items import DistanceItems, ItemLayout, group_sizes, lay_out_distances, working_bytes
from scdp.chains.run import Schedule, run_chains, streams
from scdp.compare.distances import Distances
from scdp.errors import InputError
from scdp.posterior import DrawRecorder

PRIORS = np.array([1.0, 1.0, 2.0, 0.5])


def three_groups(seed: int = 0, per_group: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Points in two features, far apart by group, and which group each belongs to."""
    rng = np.random.default_rng(seed)
    truth = np.repeat([0, 1, 2], per_group)
    points = np.array([[-6.0, 0.0], [0.0, 6.0], [6.0, -6.0]])[truth] + rng.normal(size=(3 * per_group, 2)) / 4
    points[rng.random(points.shape) < 0.1] = np.nan
    points[np.isnan(points).all(axis=1)] = 0.0
    return points, truth


def run(
    laid_out: ItemLayout[DistanceItems],
    plan: Plan,
    n_chains: int = 2,
    n_sweeps: int = 60,
    n_jobs: int = 1,
    shared: bool = False,
):
    schedule = Schedule(n_chains, n_sweeps, n_sweeps // 2, n_jobs=n_jobs)
    rngs = streams(3, n_chains)
    starts = [
        initial_state(rng, laid_out, init, Priors())
        for rng, init in zip(rngs, ["kmeans", "singletons", "one"], strict=False)
    ]
    recorder = DrawRecorder(n_chains, schedule.n_draws, laid_out.known_slot, laid_out.items.hidden, shared=shared)
    _, traces = run_chains(laid_out.items, starts, rngs, plan, Priors(), schedule, recorder)
    return recorder.finish(traces), traces


class TestLayout:
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_places_are_those_of_points_and_every_distance_is_there(self, case: Case):
        by_points, by_distance, _ = build_both(case, 1)
        for name in ("group", "hidden", "slot_start", "slot_end", "known_in_slot", "observed", "complete"):
            np.testing.assert_array_equal(getattr(by_distance.items, name), getattr(by_points.items, name))
        np.testing.assert_array_equal(by_distance.known_slot, by_points.known_slot)
        np.testing.assert_array_equal(group_sizes(by_distance.items), np.diff(by_distance.items.member_start))
        items, points = by_distance.items, by_points.items.points
        for i in range(len(points)):
            for j in np.flatnonzero(items.group == items.group[i]):
                both = items.observed[i] * items.observed[j]
                row = items.squared[items.row_start[i] + items.place[j]]
                np.testing.assert_allclose(row[:3], both * (points[i] - points[j]) ** 2, rtol=1e-14)
                assert (row[3:] == 0).all()

    def test_groups_and_origin_are_those_of_the_distances_unless_given(self):
        rng = np.random.default_rng(0)
        points, groups = rng.normal(size=(7, 2)), np.array([0, 0, 0, 1, 1, 1, 1])
        items = lay_out_distances(distances_of(points, groups), np.full(7, -1)).items
        np.testing.assert_array_equal(items.group, groups)
        for group in (0, 1):
            inside = groups == group
            expected = (points[inside] - points[inside].mean(axis=0)) ** 2
            np.testing.assert_allclose(items.origin[inside], expected, atol=1e-12)

    def test_distances_may_be_divided_further_but_not_joined(self):
        points = np.random.default_rng(0).normal(size=(6, 2))
        finer = lay_out_distances(distances_of(points), np.full(6, -1), np.array([0, 1, 0, 1, 0, 1]))
        assert len(finer.items.squared) == 2 * 3**2
        apart = distances_of(points, np.array([0, 0, 0, 1, 1, 1]))
        with pytest.raises(InputError, match="records 0 and 3 are in one group"):
            lay_out_distances(apart, np.full(6, -1), np.zeros(6, np.int64))

    def test_labels_and_origin_are_checked(self):
        distances = distances_of(np.random.default_rng(0).normal(size=(4, 2)))
        with pytest.raises(InputError, match="3 labels for 4 records"):
            lay_out_distances(distances, np.full(3, -1), np.zeros(3, np.int64))
        with pytest.raises(InputError, match="origin has shape"):
            lay_out_distances(distances, np.full(4, -1), origin=np.zeros((4, 3)))
        with pytest.raises(InputError, match=r"entry \(1, 0\)"):
            lay_out_distances(distances, np.full(4, -1), origin=np.array([[0, 0], [-1, 0], [0, 0], [0, 0.0]]))

    def test_memory_is_as_stated(self):
        distances = distances_of(np.random.default_rng(0).normal(size=(10, 5)).astype(np.float32))
        known = np.array([0, 0, 1, 1, -1, -1, -1, -1, -1, -1])
        items = lay_out_distances(distances, known).items
        assert items.squared.dtype == np.float32
        assert items.squared.nbytes == working_bytes([4, 6], 5) == (16 + 36) * 8 * 4
        assert working_bytes([2000], 8) < 150e6

    def test_single_precision_is_harmless(self):
        """The log joint of 60 items moves by less than 1e-4: no chain could tell."""
        rng = np.random.default_rng(4)
        points = rng.normal(size=(60, 8)) * 2
        found, state = [], None
        for square in (distances_of(points).square(), distances_of(points).square().astype(np.float32)):
            laid_out = lay_out_distances(Distances.from_square(square), np.full(60, -1), origin=points**2)
            state = state or initial_state(rng, laid_out, "kmeans", Priors())
            found.append(centroids.log_joint_of_distances(laid_out.items, state, PRIORS))
        assert 0 < abs(found[0] - found[1]) < 1e-4


class TestStart:
    @pytest.mark.parametrize("init", ["one", "singletons", "kmeans"])
    def test_known_items_stay_and_hidden_ones_open_clusters(self, init: str):
        points, truth = three_groups()
        known = np.where(np.arange(36) % 3 == 0, truth, -1)
        laid_out = lay_out_points(points, known, None, True)
        state = initial_state(np.random.default_rng(0), laid_out, init, Priors())
        np.testing.assert_array_equal(state.cluster[known >= 0], laid_out.known_slot[known >= 0])
        opened = np.unique(state.cluster[known < 0])
        assert opened.min() >= 3
        assert len(opened) == {"one": 1, "singletons": 24}.get(init, len(opened))

    def test_medoids_find_what_lies_apart(self):
        points, truth = three_groups()
        laid_out = lay_out_points(points, np.full(36, -1), None, False)
        state = initial_state(np.random.default_rng(0), laid_out, "kmeans", Priors())
        for cluster in np.unique(state.cluster):
            assert len(np.unique(truth[state.cluster == cluster])) == 1


class TestChains:
    @pytest.mark.parametrize(
        "plan",
        [
            Plan(),
            Plan(separation=True),
            Plan(learn_mean_variance=True),
            Plan(learn_types=False, learn_concentrations=False),
            Plan(conditioning="mean", learn_separation_rate=True),
        ],
        ids=["scdp1", "scdp2", "mean variance", "cdp", "scdp3"],
    )
    def test_groups_are_found(self, plan: Plan):
        points, truth = three_groups()
        posterior, traces = run(lay_out_points(points, np.full(36, -1), None, False), plan, n_chains=3)
        draws = posterior.draws.reshape(-1, 36)
        together = (draws[:, :, None] == draws[:, None, :]).mean(axis=0)
        same = truth[:, None] == truth
        assert together[~same].mean() < 0.05
        assert together[same].mean() > 0.7
        assert (traces["negative_norms"] == 0).all()
        assert np.isfinite(traces["log_joint"]).all()

    def test_documents_share_types_and_never_mix(self):
        points, truth = three_groups()
        groups = np.tile([0, 1, 2], 12)
        known = np.where((groups == 0) & (truth < 2), truth, -1)
        laid_out = lay_out_points(points, known, groups, True)
        posterior, _ = run(laid_out, Plan(), shared=True)
        for draw in posterior.draws.reshape(-1, 36):
            for cluster in np.unique(draw):
                assert len(np.unique(groups[draw == cluster])) == 1

    def test_draws_do_not_depend_on_workers(self):
        points, _ = three_groups()
        laid_out = lay_out_points(points, np.full(36, -1), None, False)
        first, _ = run(laid_out, Plan(), n_sweeps=12)
        second, _ = run(laid_out, Plan(), n_sweeps=12, n_jobs=2)
        np.testing.assert_array_equal(first.draws, second.draws)

    def test_the_trace_is_the_log_joint_of_coordinates(self):
        case = CASES[5]
        by_points, by_distance, state = build_both(case, 3)
        rng = streams(0, 1)
        recorder = DrawRecorder(1, 1, by_distance.known_slot, by_distance.items.hidden, shared=True)
        schedule = Schedule(1, 1, 0)
        ends, traces = run_chains(by_distance.items, [state], rng, Plan(), Priors(), schedule, recorder)
        expected = clusters.log_joint(by_points.items, ends[0], np.ones(4))
        assert traces["log_joint"][0, 0] == pytest.approx(expected, abs=1e-8)

    @pytest.mark.parametrize("clip", [False, True])
    def test_negative_norms_are_counted(self, clip: bool):
        case = Case("strange", [-1] * 12)
        laid_out, _ = build_strange(case, 0, clip=clip)
        _, traces = run(laid_out, Plan(), n_sweeps=20)
        assert traces["negative_norms"].sum() > 0

    @pytest.mark.parametrize("plan", [Plan(scheme="paper"), Plan(conditioning="published")])
    def test_plans_that_need_means_are_refused(self, plan: Plan):
        points, _ = three_groups(per_group=2)
        with pytest.raises(InputError, match="which distances do not have"):
            run(lay_out_points(points, np.full(6, -1), None, False), plan, n_sweeps=2)
