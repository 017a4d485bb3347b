"""Stores: updates, corrections, deletions, decisions; ids that last; crashes and two writers."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from estimators.test_decided import fitted, people
from loaded_processes import start_loaded
from product_cases import done, run, write_csv
from scdp.errors import InputError
from scdp.io import FolderLock
from scdp.linkage.law import NOTHING_TAUGHT
from scdp.metrics import f_score
from scdp.store import Store, files, placement
from scdp.store.files import read_manifest, replay
from scdp.table.decisions import Decision, append_decision


@cache
def batches():
    records, _, truth = people(60, 2)
    return records, truth, [np.arange(60)[start::3] for start in range(3)]


def check(store):
    """The log and the entities say the same, and no decision is broken."""
    assert replay(store.events()) == store.entities
    for one in store.decisions():
        homes = [store.entities[record] for record in one.ids if record in store.entities]
        if one.decision == "same":
            assert len(set(homes)) <= 1
        elif one.decision == "different":
            assert len(set(homes)) == len(homes)


@pytest.fixture
def store(tmp_path):
    records, _, parts = batches()
    made = Store.create(tmp_path / "store", fitted())
    made.update(records.take(parts[0]))
    return made


def test_batches_end_like_one_run(store):
    records, truth, parts = batches()
    for part in parts[1:]:
        before = dict(store.entities)
        events = store.update(records.take(part))
        check(store)
        changed = {r for r, home in before.items() if store.entities[r] != home}
        assert changed <= {r for event in events for r in event["records"]}
    again = Store(store.folder)
    assert again.entities == store.entities
    ids = records["id"].tolist()
    found = f_score(truth, np.array([store.entities[record] for record in ids]))
    whole = f_score(truth, fitted().predict(records))
    assert found > whole - 0.1


def test_records_one_by_one_end_like_a_batch(store, tmp_path):
    """A few records are placed among the entities near them alone, many among all: both find the same."""
    records, truth, parts = batches()
    at_once = Store.create(tmp_path / "other", fitted())
    at_once.update(records.take(np.concatenate(parts[:2])))
    for row in parts[1].tolist():
        store.update(records.take(np.array([row])))
    check(store)
    assert Store(store.folder).entities == store.entities
    ids, true = records["id"].tolist(), dict(zip(records["id"].tolist(), truth.tolist(), strict=True))
    ids = [one for one in ids if one in store.entities]
    gold = np.array([true[one] for one in ids])
    one_by_one, all_together = (
        f_score(gold, np.array([each.entities[one] for one in ids])) for each in (store, at_once)
    )
    # There are 18 true pairs, so that four pairs more or less are .15.
    assert one_by_one > all_together - 0.15


def test_an_update_that_fails_leaves_the_open_store_as_it_was(store, monkeypatch):
    records, _, parts = batches()
    before = dict(store.entities)
    monkeypatch.setattr("scdp.store.write_generation", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.update(records.take(parts[1][:2]), delete=sorted(before)[:1])
    monkeypatch.undo()
    row = next(records.take(parts[0]).rows())
    identifier = row.pop("id")
    assert store.lookup(row)[0].entity == before[identifier]
    assert store.entities == before
    store.update(records.take(parts[1][:2]))
    check(store)


def test_a_large_store_reads_the_sizes_of_clusters_off_some_records(store, monkeypatch):
    """The number of records that teach it is a matter of size alone: from all of them it says the same."""
    records, _, parts = batches()
    for part in parts[1:]:
        store.update(records.take(part))
    fewer = replace(store._fitted, ensemble=replace(store._fitted.ensemble, taught_third=NOTHING_TAUGHT))
    given = fewer, store.load()._rows, store._index, store._compared
    every = placement.settle_store(*given).ensemble.third
    monkeypatch.setattr(placement, "N_STRANGERS", 0)
    assert placement.settle_store(*given).ensemble.third == pytest.approx(every, abs=0.2)
    assert every != 0.0


def test_the_same_records_again_change_nothing(store):
    records, _, parts = batches()
    before = dict(store.entities)
    assert store.update(records.take(parts[0])) == []
    assert store.entities == before


def test_decisions_are_kept_for_ever(store):
    records, _, parts = batches()
    ids = sorted(store.entities)
    one, other = next((a, b) for a in ids for b in ids if a < b and store.entities[a] != store.entities[b])
    store.update(decisions=[Decision((one, other), "same")])
    assert store.entities[one] == store.entities[other]
    events = store.events()
    merge = next(event for event in events if event["event"] == "merge")
    assert store.resolve(merge["from"])["entity"] == store.entities[one]
    check(store)
    append_decision(
        store.folder / "decisions.jsonl", Decision((one, ids[-1] if ids[-1] != other else ids[-2]), "different")
    )
    store.update(records.take(parts[1]))
    check(store)


def test_decisions_split(store):
    members: dict[str, list[str]] = {}
    for record, home in store.entities.items():
        members.setdefault(home, []).append(record)
    home, pair = next((home, some) for home, some in members.items() if len(some) > 1)
    events = store.update(decisions=[Decision((pair[0], pair[1]), "different")])
    assert store.entities[pair[0]] != store.entities[pair[1]]
    assert home in store.entities.values()
    assert [event["event"] for event in events].count("split") == 1
    check(store)


def test_ids_to_delete_stand_one_a_line(store, tmp_path):
    """An id may have a space in it: the words of it are other records, which stay."""
    records, _, parts = batches()
    (row, *_) = records.take(parts[1]).rows()
    first, second = sorted(store.entities)[:2]
    store.update([row | {"id": f"{first} {second}"}])
    listed = tmp_path / "gone.txt"
    listed.write_text(f"\n {first} {second}\r\n\n")
    done("update", store.folder, "--delete", listed)
    kept = Store(store.folder).entities
    assert {first, second} <= kept.keys()
    assert f"{first} {second}" not in kept
    listed.write_bytes(b"\xe9")
    result = run("update", store.folder, "--delete", listed)
    assert result.exit_code == 2
    assert f"{listed}: " in result.stderr
    assert Store(store.folder).entities == kept


def test_a_zero_byte_is_no_text_to_look_up(store):
    result = run("lookup", store.folder, '{"surname": "a\\u0000"}')
    assert result.exit_code == 2
    assert "column 'surname' holds a zero byte" in result.stderr


def test_corrections_and_deletions(store):
    records, _, parts = batches()
    gone, corrected = sorted(store.entities)[:2]
    store.update(delete=[gone])
    assert gone not in store.entities
    check(store)
    with pytest.raises(InputError, match="no record 'zzz' to delete"):
        store.update(delete=["zzz"])
    rows = list(records.take(parts[0]).rows())
    row = next(row for row in rows if row["id"] == corrected)
    home = store.entities[corrected]
    events = store.update([row | {"first_name": "Zebulon", "surname": "Quartermain", "street": "1 Nowhere"}])
    assert events[0]["event"] == "correct"
    assert (events[0]["entity"], events[0]["records"]) == (home, [corrected])
    check(store)
    again = Store(store.folder)
    kept = dict(zip(again.records["id"].tolist(), again.records["surname"].tolist(), strict=True))
    assert kept[corrected] == "Quartermain"
    told = store.resolve(gone)
    assert told["history"][-1]["event"] == "delete"
    assert told["entity"] == told["history"][-1]["entity"]
    assert gone not in told["records"]


def test_lookup_finds_a_record_and_changes_nothing(store):
    records, _, parts = batches()
    before = {path.name: path.read_bytes() for path in store.folder.iterdir() if path.is_file()}
    row = next(records.take(parts[0]).rows())
    identifier = row.pop("id")
    found = store.lookup(row)
    assert found[0].entity == store.entities[identifier]
    assert found[0].probability > 0.5
    assert identifier in found[0].records
    assert store.lookup({"surname": "Qqqqqqq"})[0].entity is None
    assert before == {path.name: path.read_bytes() for path in store.folder.iterdir() if path.is_file()}
    assert sum(match.probability for match in found) == pytest.approx(1.0)
    with pytest.raises(InputError, match="no column 'colour'"):
        store.lookup({"colour": "red"})
    with pytest.raises(InputError, match=r"'surname' is \['x'\]; give a text or a number"):
        store.lookup({"surname": ["x"]})


def test_a_second_writer_is_told_who_holds_the_store(store):
    records, _, parts = batches()
    with FolderLock(store.folder, "store"), pytest.raises(InputError, match=r"another run \(process \d+\)"):
        store.update(records.take(parts[1]))


@pytest.mark.parametrize("step", ["before the files", "before the manifest"])
def test_what_a_killed_process_left_does_not_count(store, step, monkeypatch):
    records, _, parts = batches()
    before, manifest = dict(store.entities), read_manifest(store.folder)

    def die(*args):
        raise KeyboardInterrupt

    name = "stage_table" if step == "before the files" else "write_manifest"
    monkeypatch.setattr(files, name, die)
    with pytest.raises(KeyboardInterrupt):
        store.update(records.take(parts[1]))
    monkeypatch.undo()
    again = Store(store.folder)
    assert again.entities == before
    assert read_manifest(store.folder) == manifest
    again.update(records.take(parts[1]))
    check(again)
    assert len(again.entities) == len(parts[0]) + len(parts[1])


def test_a_folder_that_is_no_store_is_refused(tmp_path):
    with pytest.raises(InputError, match="is no store"):
        Store(tmp_path)
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(InputError, match="is there and is no store"):
        Store.create(tmp_path, fitted())
    (tmp_path / "store.json").write_text("{}")
    with pytest.raises(InputError, match="damaged or of another version"):
        Store(tmp_path)


def test_the_commands(tmp_path):
    records, _, parts = batches()
    model = tmp_path / "model"
    fitted().save(model)
    tables = []
    for number, part in enumerate(parts):
        rows = [{name: cell or "" for name, cell in row.items()} for row in records.take(part).rows()]
        tables.append(write_csv(tmp_path / f"{number}.csv", rows))
    store = tmp_path / "store"
    assert run("update", store).exit_code == 2
    done("update", store, tables[0], "--model", model)
    assert "records of" in done("update", store, tables[1]).output
    row = next(records.take(parts[0]).rows())
    asked = json.dumps({"surname": row["surname"], "first_name": row["first_name"], "street": row["street"]})
    found = json.loads(done("lookup", store, asked, "--json").stdout)
    entity = found[0]["entity"]
    assert row["id"] in found[0]["records"]
    told = json.loads(done("resolve", store, entity, "--json").stdout)
    assert told["entity"] == entity
    assert "open" in done("resolve", store, row["id"]).output
    assert run("resolve", store, "e-999999").exit_code == 2
    assert run("lookup", store, "not json").exit_code == 2
    out = tmp_path / "links.csv"
    done("link", model, tables[0], tables[1], "--out", out)
    lines = out.read_text().splitlines()
    assert lines[0] == "id_a,id_b,probability"
    assert len({line.split(",")[1] for line in lines[1:]}) == len(lines) - 1
    decided = tmp_path / "decisions.jsonl"
    one, other = Store(store).records["id"].tolist()[:2]
    append_decision(decided, Decision((one, other), "same"))
    append_decision(decided, Decision((one, "nobody"), "different"))
    assert "no record is named 'nobody'" in done("update", store, "--decisions", decided).stderr
    clusters = tmp_path / "clusters.csv"
    done("cluster", model, tables[0], "--out", clusters, "--decisions", decided)
    named = dict(line.split(",")[:2] for line in clusters.read_text().splitlines()[1:])
    assert named[one] == named[other]


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_a_store_is_whole_after_a_kill(store, tmp_path):
    records, _, parts = batches()
    table = write_csv(
        tmp_path / "more.csv", [{k: v or "" for k, v in row.items()} for row in records.take(parts[1]).rows()]
    )
    for seconds in (0.5, 2.0):
        copy = tmp_path / f"copy{seconds}"
        shutil.copytree(store.folder, copy)
        with start_loaded(["update", copy, table, "--quiet"]) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            process.kill()
        after = Store(copy)
        check(after)
        assert len(after.entities) in (len(parts[0]), len(parts[0]) + len(parts[1]))


def test_a_review_of_a_store_is_acted_on_by_the_next_update(store):
    from click.testing import CliRunner

    from scdp.cli import main

    told = CliRunner().invoke(main, ["review", str(store.folder), "--terminal", "--who", "ann"], input="d\nq\n")
    assert told.exit_code == 0, told.output
    (decided,) = [one for one in Store(store.folder).decisions() if one.decision == "different"]
    assert decided.who == "ann"
    done("update", store.folder, "--quiet")
    again = Store(store.folder)
    assert len({again.entities[one] for one in decided.ids}) == len(decided.ids)
    check(again)
