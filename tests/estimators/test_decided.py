"""Decisions and sources from Python: what a resolver learns from them, and what its draws and answers keep."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from scdp import SCDP, EntityResolver, Spec, compare
from scdp.conditions import Conditions
from scdp.datasets import make_records
from scdp.errors import InputError
from scdp.estimators.clustering import draw_linked, link_tables
from scdp.table import Records
from scdp.table.decisions import Decision, append_decision


def people(n, seed):
    made = make_records(n, "people", mean_cluster_size=2.0, seed=seed)
    records = Records({**made.data.columns, "id": made.ids.astype(object)})
    fields = [compare.edit("first_name"), compare.edit("surname"), compare.edit("street")]
    return records, Spec("entity", fields, id="id"), made.clusters


@cache
def fitted():
    records, spec, truth = people(120, 1)
    return EntityResolver(spec=spec, n_draws=24, random_state=0).fit(records, truth)


@cache
def table():
    records, spec, truth = people(60, 2)
    return records, spec, truth, fitted().predict(records)


def ids_of(records, spec):
    return records[spec.id].tolist()


def test_every_draw_and_the_answer_keep_decisions(tmp_path):
    records, spec, _, free = table()
    ids = ids_of(records, spec)
    pairs = [(i, j) for i in range(len(ids)) for j in range(i)]
    joined = [(i, j) for i, j in pairs if free[i] == free[j]]
    parted = [(i, j) for i, j in pairs if free[i] != free[j]]
    rng = np.random.default_rng(0)
    said = [Decision((ids[i], ids[j]), "different") for i, j in joined[:3]]
    said += [Decision((ids[parted[k][0]], ids[parted[k][1]]), "same") for k in rng.choice(len(parted), 2, False)]
    file = tmp_path / "decisions.jsonl"
    for one in said:
        append_decision(file, one)
    labels, posterior = fitted().predict_with_posterior(records, decisions=file)
    place = {name: row for row, name in enumerate(ids)}
    for one in said:
        i, j = (place[name] for name in one.ids)
        assert posterior.co_clustering(i, j) == (one.decision == "same")
        assert (labels[i] == labels[j]) == (one.decision == "same")
    # In any order of the rows.
    order = rng.permutation(len(ids))
    again = fitted().predict(records.take(order), decisions=said)
    assert len(set(zip(labels[order].tolist(), again.tolist(), strict=True))) == len(set(labels.tolist()))


def test_decisions_move_rows_into_known_clusters():
    records, spec, _, _ = table()
    ids = ids_of(records, spec)
    known = np.full(len(ids), -1)
    known[0] = 7
    labels = fitted().predict(records, known=known, decisions=[Decision((ids[0], ids[5]), "same")])
    assert labels[0] == labels[5] == 7
    known[5] = 8
    with pytest.raises(InputError, match="given in two clusters"):
        fitted().predict(records, known=known, decisions=[Decision((ids[0], ids[5]), "same")])


def test_contradictions_are_refused():
    records, spec, _, _ = table()
    one, other = ids_of(records, spec)[:2]
    said = [Decision((one, other), "same"), Decision((other, one), "different")]
    with pytest.raises(InputError, match="decision 2 says"):
        fitted().predict(records, decisions=said)
    with pytest.raises(InputError, match="give a file, or a list of"):
        fitted().predict(records, decisions=["same"])


def test_fit_learns_from_decisions_alone():
    records, spec, truth = people(120, 1)
    ids = ids_of(records, spec)
    said = []
    for name in np.unique(truth):
        members = [ids[row] for row in np.flatnonzero(truth == name)]
        if len(members) > 1:
            said.append(Decision(tuple(members), "same"))
    said += [Decision((said[k].ids[0], said[k + 1].ids[0]), "different") for k in range(len(said) - 1)]
    model = EntityResolver(spec=spec, n_draws=12, random_state=0).fit(records, decisions=said)
    assert model.fitted_.training.n_repeated == len([one for one in said if one.decision == "same"])
    place = {name: row for row, name in enumerate(ids)}
    for one in said:
        first, second = (model.labels_[place[name]] for name in one.ids[:2])
        assert (first == second) == (one.decision == "same")


def test_what_decisions_teach():
    conditions = Conditions(np.array([0, 0, -1, -1, -1, 1, 1]), np.array([0, 3]), np.array([2, 4]), np.full(7, -1))
    taught = conditions.teach(np.array([-1, -1, -1, 5, -1, -1, -1]))
    assert taught[3] == 5
    assert taught[0] == taught[1]
    assert len({taught[0], taught[2], taught[3], taught[4], taught[5]}) == 5


def with_sources(records, spec, **more):
    source = np.array(["A" if row % 2 else "B" for row in range(len(records))], dtype=object)
    return Records({**records.columns, "from": source}, records.source), replace(spec, source="from", **more)


def test_a_source_with_each_thing_once_has_no_two_records_in_one_cluster():
    records, spec, truth = people(120, 1)
    records, spec = with_sources(records, spec, at_most_one=("A", "B"))
    kept = np.zeros(len(truth), dtype=bool)
    seen = set()
    for row, key in enumerate(zip(truth.tolist(), records["from"].tolist(), strict=True)):
        kept[row] = key not in seen
        seen.add(key)
    model = EntityResolver(spec=spec, n_draws=12, random_state=0).fit(records.take(kept), truth[kept])
    other, _ = with_sources(*people(60, 2)[:2])
    labels, posterior = model.predict_with_posterior(other)
    once = list(zip(labels.tolist(), other["from"].tolist(), strict=True))
    assert len(set(once)) == len(once)
    assert len(set(labels.tolist())) < len(labels)
    for draw in posterior.draws.reshape(-1, len(labels)):
        pairs = list(zip(draw.tolist(), other["from"].tolist(), strict=True))
        assert len(set(pairs)) == len(pairs)


def test_sources_in_a_spec_file_come_back(tmp_path):
    spec = Spec("entity", id="id", source="from", at_most_one=["B"], link_only=True)
    file = tmp_path / "spec.toml"
    file.write_text(spec.to_toml())
    assert Spec.from_toml(file) == spec
    file.write_text('entity = "e"\nat_most_one = ["B"]\n')
    with pytest.raises(InputError, match="line 2: at_most_one is about sources"):
        Spec.from_toml(file)
    file.write_text('entity = "e"\nsource = "s"\nat_most_one = "B"\n')
    with pytest.raises(InputError, match="line 3: at_most_one must be a list"):
        Spec.from_toml(file)


def test_the_models_of_the_paper_take_no_decisions():
    records, spec, _, _ = table()
    with pytest.raises(InputError, match="takes neither decisions nor sources"):
        SCDP(spec=spec).fit(records, decisions=[Decision(("a", "b"), "same")])


def test_two_tables_are_linked_at_most_once_where_one_has_things_twice():
    """B has several records of most people: without the condition a record of A has more than one partner."""
    made = make_records(120, "people", mean_cluster_size=3.0, seed=4)
    records = Records({**made.data.columns, "id": made.ids.astype(object)})
    first = np.unique(made.clusters, return_index=True)[1]
    a, b = records.take(first), records.take(np.setdiff1d(np.arange(len(records)), first))
    links = {once: link_tables(fitted(), a, b, at_most_one=once) for once in ("none", "a", "b", "both")}
    n_partners = {
        once: [Counter(side.tolist()).most_common(1)[0][1] for side in (found.id_a, found.id_b)]
        for once, found in links.items()
    }
    assert n_partners["none"][0] > 1
    assert n_partners["a"][0] > 1
    assert n_partners["a"][1] == 1
    assert n_partners["b"][0] == 1
    assert n_partners["both"] == [1, 1]
    assert len(links["both"].id_a) < len(links["none"].id_a)
    # No draw has two partners either, and there is a link wherever there was one.
    drawn = draw_linked(fitted(), a, b, "both")
    for labels in drawn.posterior.draws.reshape(-1, len(a) + len(b)):
        for side in (labels[: len(a)], labels[len(a) :]):
            assert len(set(side.tolist())) == len(side)
    assert set(links["both"].id_a.tolist()) <= set(links["none"].id_a.tolist())
