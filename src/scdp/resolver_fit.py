"""What the resolver keeps of its training: the ensemble, blockings, and how new rows become pairs.

Training rows are kept only where new rows may join their clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scdp._parallel import Progress, one_thread_a_library
from scdp._typing import Arrays, Floats, Groups, Integers
from scdp.blocking.by_size import BlockingReport, Ladder, learn_ladder
from scdp.compare.features import MOST_PAIRS, Columns, Comparer, Copies
from scdp.conditions import Conditions
from scdp.engines import Engine
from scdp.engines.candidates import Blocked, learn_in_table
from scdp.errors import InputError
from scdp.estimators.chains_fit import rows_from_parts, rows_to_parts
from scdp.estimators.explanation import lose_each, weigh_records
from scdp.estimators.fitted import Contributions, Reliability, calibration_from_parts, calibration_to_parts
from scdp.estimators.inputs import Compared, Pair, Points, Precomputed, Rows, codes, n_pairs
from scdp.estimators.result import Calibration, Learned
from scdp.io.atomic import PlainParts, array_part, part
from scdp.linkage import Ensemble
from scdp.linkage.evidence import LARGEST_RATE, log_odds
from scdp.linkage.prefilter import prefilter_all
from scdp.linkage.sources import PairSource, RecordSource, VectorSource, VectorView, pairs_of, units
from scdp.linkage.storage import ensemble_from_parts, ensemble_to_parts, number, view_from_parts, view_to_parts
from scdp.linkage.training import Choices, draw_from_prior, fit_ensemble
from scdp.linkage.training.folds import LabelledSource, check_teachable, take_whole_clusters, teaches
from scdp.linkage.training.held_out import NOTHING_HELD_OUT, HeldOut
from scdp.linkage.training.selection import select_comparisons
from scdp.posterior import Posterior, pack_linked
from scdp.posterior.draws import ComponentDraws, StoredDraws
from scdp.posterior.linked import LinkedDraws

# Without labels, pairs of so many records show where the features of pairs lie.
PRIOR_RECORDS = 500
IMPORTANCE_RECORDS, IMPORTANCE_PAIRS = 300, 1000


class Training(NamedTuple):
    """What the labels were like: records, clusters, clusters of two or more, and labelled pairs."""

    n_records: int
    n_clusters: int
    n_repeated: int
    shift: float

    @classmethod
    def of(cls, cluster: Integers, held_out: HeldOut) -> Self:
        sizes = np.bincount(cluster)
        return cls(len(cluster), len(sizes), int((sizes > 1).sum()), held_out.tunings.best.shift)


@dataclass(frozen=True, eq=False)
class ResolverFit:
    """`view` is how vectors are looked at (None for records and distances); `importance` is by comparison."""

    ensemble: Ensemble
    view: VectorView | None
    ladder: Ladder
    features: tuple[str, ...]
    importance: Floats
    calibration: Calibration | None
    training: Training
    rows: Rows
    labels: Integers
    groups: NDArray[Any] | None
    seed: int

    independent_draws = True

    def with_labels(self, labels: Integers) -> Self:
        return replace(self, labels=labels)

    @classmethod
    def train(
        cls,
        rows: Rows,
        known: Integers,
        groups: Groups,
        features: tuple[str, ...],
        choices: Choices,
        seed: int,
        n_jobs: int = 1,
        progress: Progress | None = None,
        conditions: Conditions | None = None,
    ) -> Self:
        """Learn from known clusters, and those of decisions beside them; a cluster is one within a group."""
        group = np.zeros(len(known), dtype=np.int64) if groups is None else codes(groups)
        if isinstance(rows, Compared) and not teaches(_cluster_codes(known, group)):
            start = cls._start_without_labels(rows, known, groups, features, choices, seed)
            return start if conditions is None else start._learn_decisions(rows, known, conditions)
        known = known if conditions is None else conditions.teach(known)
        labelled, cluster = np.flatnonzero(known >= 0), _cluster_codes(known, group)
        check_teachable(cluster)
        view, sign, layout, ladder = None, None, None, Ladder(())
        source: LabelledSource
        if isinstance(rows, Compared):
            rows = _choose_comparisons(rows, labelled, cluster, None if groups is None else group, seed)
            features, columns = rows.spec.names, Columns.of(rows.spec.fields)
            sign, layout = columns.sign, columns.layout
            if groups is None:
                ladder = learn_ladder(rows.records.take(labelled), rows.spec, cluster, seed)
            own = None if groups is None else group
            source = RecordSource.of(rows.records, rows.spec, labelled, own, conditions, ladder)
        elif isinstance(rows, Points):
            values = rows.values[labelled]
            view = VectorView.of(values, cluster, rows.mean, units(rows.scale))
            source = VectorSource(values, None if groups is None else group[labelled], view)
        else:
            assert isinstance(rows, Precomputed)
            every = pairs_of(rows.distances)
            some = every if len(labelled) == every.n_items else every.take(labelled)
            source = PairSource(some, None if groups is None else group[labelled])
        names = features if view is None else view.names
        sign = np.full(len(names), -1, dtype=np.int64) if sign is None else sign
        with one_thread_a_library("scipy.optimize"):
            ensemble, held_out = fit_ensemble(
                source, cluster, group[labelled], layout, sign, choices, seed, n_jobs, progress
            )
        return cls(
            ensemble,
            view,
            ladder,
            names,
            _measure_importance(ensemble, source, cluster, len(names), seed),
            Calibration.of(held_out.probability, held_out.together) if len(held_out.probability) else None,
            Training.of(cluster, held_out),
            rows,
            known,
            groups,
            seed,
        )

    @classmethod
    def _start_without_labels(
        cls, rows: Compared, known: Integers, groups: Groups, features: tuple[str, ...], choices: Choices, seed: int
    ) -> Self:
        """From the prior, where no labelled clusters teach: what is labelled all the same counts as evidence."""
        rng = np.random.default_rng([seed, 3])
        n = len(known)
        some = np.sort(rng.choice(n, min(n, PRIOR_RECORDS), replace=False))
        order = np.argsort(known < 0, kind="stable")[:PRIOR_RECORDS]
        chosen = np.union1d(some, order[known[order] >= 0])
        columns = Columns.of(rows.spec.fields)
        pairs = Comparer.of(rows.records, rows.spec.fields).compare_some(chosen)
        ensemble = draw_from_prior(pairs, known[chosen], columns.layout, columns.sign, choices, seed)
        picked = rng.choice(len(pairs), min(IMPORTANCE_PAIRS, len(pairs)), replace=False)
        there = ensemble.set_to(pairs.features, pairs.features, max(len(pairs), 1), max(len(chosen), 2))
        importance = np.abs(lose_each(there, pairs.features[picked], len(features)))
        labels = known[known >= 0]
        sizes = np.bincount(labels) if len(labels) else np.zeros(0, dtype=np.int64)
        return cls(
            ensemble,
            None,
            Ladder(()),
            features,
            importance.mean(axis=0) if len(picked) else np.zeros(len(features)),
            None,
            Training(len(labels), int((sizes > 0).sum()), int((sizes > 1).sum()), 0.0),
            rows,
            known,
            groups,
            seed,
        )

    def _learn_decisions(self, rows: Compared, known: Integers, conditions: Conditions) -> Self:
        """With members that learned from the pairs that people decided, as they stand in this table."""
        blocked = Blocked(
            rows.records,
            rows.spec.fields,
            self.ensemble,
            # Nobody asks what it keeps, so that need not be estimated.
            lambda: self.ladder.choose(rows.records, rows.spec)._replace(recall=1.0),
        )
        learned, cluster = learn_in_table(blocked, conditions.with_clusters(known), self.seed)
        return replace(self, ensemble=learned, training=Training.of(cluster, NOTHING_HELD_OUT))

    def posterior(
        self,
        rows: Rows,
        groups: Groups,
        items: Integers,
        known: Integers,
        shape: tuple[int, int],
        seed: int,
        shared: bool,
        engine: Engine,
        progress: Progress | None = None,
        conditions: Conditions | None = None,
    ) -> Posterior:
        """Draws of all rows, `shape` being (chains, draws); only the given items may be together with others.

        Draws of one member are spread over all chains.
        """
        n_chains, n_draws = shape
        numbers = np.full(len(known), -1)
        numbers[known >= 0] = codes(known[known >= 0])
        total = n_chains * n_draws
        if len(items):
            own = None if conditions is None else conditions.take(items)
            drawn, report = self._sample(rows, groups, items, numbers[items], total, seed, engine, progress, own)
        else:
            drawn, report = LinkedDraws.of(np.zeros((total, 0), dtype=np.int32)), None
        kept = None if report is None else report.recall
        believed = Reliability.of(self.calibration, self.training.n_repeated, kept)
        stored: StoredDraws
        if len(items) == len(known) and not (known >= 0).any():
            stored = ComponentDraws.of(drawn, len(known), shape, shared)
        else:
            stored = pack_linked(drawn, items, numbers, shape, shared)
        return Posterior(stored, reliability=believed, blocking=report)

    def _sample(
        self,
        rows: Rows,
        groups: Groups,
        items: Integers,
        known: Integers,
        n_draws: int,
        seed: int,
        engine: Engine,
        progress: Progress | None,
        conditions: Conditions | None,
    ) -> tuple[LinkedDraws, BlockingReport | None]:
        own = None if groups is None else groups[items]
        if isinstance(rows, Compared):
            return self._sample_records(rows, own, items, known, n_draws, seed, engine, progress, conditions)
        if isinstance(rows, Precomputed):
            every = pairs_of(rows.distances)
            pairs = every if len(items) == every.n_items else every.take(items)
        else:
            assert isinstance(rows, Points)
            assert self.view is not None
            pairs = self.view.pairs(rows.values[items], None if own is None else codes(own))
        return engine.sample(self.ensemble, pairs, known, n_draws, seed, progress, conditions), None

    def _sample_records(
        self,
        rows: Compared,
        groups: Groups,
        items: Integers,
        known: Integers,
        n_draws: int,
        seed: int,
        engine: Engine,
        progress: Progress | None,
        conditions: Conditions | None,
    ) -> tuple[LinkedDraws, BlockingReport | None]:
        records = rows.records if len(items) == len(rows) else rows.records.take(items)
        # Of records of which something is known, each is compared.
        taken = known if conditions is None else np.where(conditions.concerned(), 0, known)
        copies = Copies.find(records, rows.spec, groups, taken)
        if copies.any():
            some = copies.kept
            few = None if groups is None else groups[some]
            own = None if conditions is None else conditions.take(some)
            drawn, report = self._sample_records(
                rows, few, items[some], known[some], n_draws, seed, engine, progress, own
            )
            return drawn.spread(copies.kept, copies.stays_with), report
        n = len(records)
        if n_pairs(n, groups) > MOST_PAIRS and groups is None:
            choose = partial(self.ladder.choose, records, rows.spec)
            blocked = Blocked(records, rows.spec.fields, self.ensemble, choose)
            return engine.sample_blocked(blocked, known, n_draws, seed, progress, conditions)
        pairs = Comparer.of(records, rows.spec.fields).compare_all(groups)
        if conditions is not None and conditions.uncompared is not None:
            pairs = pairs.select(conditions.may_meet(pairs.left, pairs.right))
        if groups is None:
            pairs, ensemble = prefilter_all(pairs, self.ensemble)
        else:
            ensemble = self.ensemble.set_to_all(pairs)
        return engine.sample(ensemble, pairs, known, n_draws, seed, progress, conditions), None

    def compare_two(self, rows: Compared, i: int, j: int) -> Pair:
        """Two records side by side, with what each comparison says in log-odds in their table."""
        found = self.weigh_pairs(rows, np.array([i]), np.array([j]))
        distances, said = found.distances[0], found.contributions[0]
        start, total = float(found.start[0]), float(found.log_odds[0])
        findings = rows.name_columns(found.findings[0])
        return Pair(rows.cells(i), rows.cells(j), distances, np.zeros((3, 0)), said, start, total, findings)

    def weigh_pairs(self, rows: Compared, left: Integers, right: Integers) -> Contributions:
        """What each comparison says of pairs of records, in log-odds in their table."""
        return weigh_records(self._suit_to(rows), rows, left, right)

    def _suit_to(self, rows: Compared) -> Ensemble:
        """The ensemble for a table of another size, in which records have as many partners as in the fit."""
        partners = self.ensemble.partners
        if partners is None:
            n_seen = min(len(self.labels), PRIOR_RECORDS)
            partners = max(n_seen - 1, 1) / (1.0 + np.exp(-self.ensemble.log_odds))
        met = n_pairs(len(rows), rows.groups) * 2.0 / max(len(rows), 1)
        rate = min(partners / max(met, 1.0), LARGEST_RATE)
        return replace(self.ensemble, log_odds=log_odds(rate))

    def said_of_matches(self) -> Floats | None:
        """By comparison, what the evidence adds for two records of one cluster: the mean over labelled ones."""
        matches, table = self.ensemble.matches, self.ensemble.table
        if matches is None or table is None:
            return None
        return np.asarray(matches.weight @ table.by_comparison(matches.features) / matches.weight.sum(), np.float64)

    def contributions(self, distances: Floats) -> Floats:
        """By feature, the log-odds that would be lost if it were missing."""
        if self.view is not None:
            raise InputError(
                "the resolver explains records and distances: of vectors it judges neighbourhoods, which belong to "
                "no single feature"
            )
        return lose_each(self.ensemble, distances[None].astype(np.float32), len(distances))[0]

    def learned(self) -> Learned:
        return Learned(
            "resolver",
            self.features,
            self.training.n_records,
            self.training.n_clusters,
            weights=self.importance[None],
            type_shares=np.ones(1),
            calibration=self.calibration,
            n_repeated=self.training.n_repeated,
            partners=self.ensemble.partners,
        )

    def to_parts(self) -> tuple[PlainParts, Arrays]:
        words, arrays = rows_to_parts(self.rows)
        more_words, more_arrays = ensemble_to_parts(self.ensemble)
        words |= more_words | {
            "model": "resolver",
            "seed": self.seed,
            "features": list(self.features),
            "training": self.training._asdict(),
            "blockings": self.ladder.to_words(),
        }
        arrays |= more_arrays | {"labels": self.labels, "importance": self.importance}
        arrays |= view_to_parts(self.view) | calibration_to_parts(self.calibration)
        if self.groups is not None:
            arrays["groups"] = self.groups
        return words, arrays

    @classmethod
    def from_parts(cls, words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        features = tuple(map(str, part(words, "features")))
        view = view_from_parts(arrays)
        if view is not None and view.names != features:
            raise InputError("'features' are not those of vectors of as many coordinates as 'view.mean' has")
        importance = array_part(arrays, "importance", (len(features),))
        labels = array_part(arrays, "labels", (None,), "i").astype(np.int64)
        groups = array_part(arrays, "groups", (None,), "iufU") if "groups" in arrays else None
        rows = rows_from_parts(words, arrays, groups, len(features if view is None else view.mean))
        if len(rows) not in (0, len(labels)) or labels.min(initial=0) < 0:
            raise InputError(f"there are {len(rows)} rows, and they do not have the {len(labels)} clusters")
        if isinstance(rows, Points) != (view is not None):
            raise InputError("'view.mean' belongs to vectors, and to nothing else")
        if groups is not None and len(groups) != len(rows):
            raise InputError(f"there are {len(rows)} rows, and groups for {len(groups)}")
        columns = Columns.of(rows.spec.fields) if isinstance(rows, Compared) else None
        ensemble = ensemble_from_parts(words, arrays, len(features), columns)
        return cls(
            ensemble,
            view,
            Ladder.from_words(words.get("blockings", {"steps": []})),
            features,
            importance,
            calibration_from_parts(arrays),
            _read_training(part(words, "training")),
            replace(rows, blocked=True) if isinstance(rows, Compared) else rows,
            labels,
            groups,
            number(words, "seed"),
        )


def _read_training(stored: object) -> Training:
    if not isinstance(stored, Mapping):
        raise InputError("'training' is not what belongs there")
    n_records, n_clusters, n_repeated = (number(stored, name) for name in Training._fields[:3])
    shift = stored.get("shift", 0.0)
    if isinstance(shift, bool) or not isinstance(shift, int | float) or not np.isfinite(shift):
        raise InputError("'shift' is no number")
    return Training(n_records, n_clusters, n_repeated, float(shift))


def _choose_comparisons(
    rows: Compared, labelled: Integers, cluster: Integers, group: Integers | None, seed: int
) -> Compared:
    """The rows with those of the proposed comparisons that help to tell labelled clusters; chosen ones all stay."""
    spec = rows.spec
    if spec.further is None:
        return rows
    every = (*spec.fields, *spec.further)
    own = None if group is None else group[labelled]
    kept = select_comparisons(rows.records.take(labelled), every, len(spec.fields), cluster, own, seed)
    return rows.with_fields(every[number] for number in kept)


def _cluster_codes(known: Integers, group: Integers) -> Integers:
    """The clusters of labelled rows, numbered; a cluster is one within a group."""
    return np.unique(np.stack([known, group])[:, known >= 0], axis=1, return_inverse=True)[1].ravel()


def _measure_importance(
    ensemble: Ensemble, source: LabelledSource, cluster: Integers, n_names: int, seed: int
) -> Floats:
    """By comparison, how much the log-odds of some labelled pairs hang on it."""
    rng = np.random.default_rng([seed, 2])
    items = take_whole_clusters(np.arange(len(cluster)), cluster, IMPORTANCE_RECORDS, rng)
    pairs = source.pairs(items, cluster[items]).pairs
    picked = rng.choice(len(pairs), min(IMPORTANCE_PAIRS, len(pairs)), replace=False)
    return np.abs(lose_each(ensemble, pairs.features[picked], n_names)).mean(axis=0)
