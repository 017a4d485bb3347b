"""Decisions in files, and the constraints that follow from them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdp.errors import InputError
from scdp.table.decisions import Constraints, Decision, append_decision, read_decisions


def same(*ids, **more):
    return Decision(ids, "same", **more)


def different(*ids, **more):
    return Decision(ids, "different", **more)


def test_a_file_gives_back_what_was_appended(tmp_path):
    file = tmp_path / "decisions.jsonl"
    said = [
        same("a", "b", who="maria", when="2026-11-16T12:00:00Z", why="one phone"),
        different("a", "ü c"),
        Decision(("x", "y", "z"), "cannot tell"),
    ]
    for one in said:
        append_decision(file, one)
    assert read_decisions(file) == said
    assert read_decisions(file)[1].place == f"line 2 of {file}"


def test_a_table_says_the_same_as_json_lines(tmp_path):
    table = tmp_path / "decisions.csv"
    table.write_text("id1,id2,id3,decision,who\na,b,,same,maria\na,c,d,Different,\n")
    assert read_decisions(table) == [same("a", "b", who="maria"), different("a", "c", "d")]
    listed = tmp_path / "listed.csv"
    listed.write_text('ids,decision\n"[""a"", ""b""]",same\n')
    assert read_decisions(listed) == [same("a", "b")]


def test_a_line_that_was_cut_off_is_left_out_and_then_replaced(tmp_path):
    file = tmp_path / "decisions.jsonl"
    append_decision(file, same("a", "b"))
    with file.open("a") as open_file:
        open_file.write('{"ids": ["c", ')
    assert read_decisions(file) == [same("a", "b")]
    append_decision(file, same("c", "d"))
    assert read_decisions(file) == [same("a", "b"), same("c", "d")]


def test_a_last_line_without_its_end_is_kept(tmp_path):
    file = tmp_path / "decisions.jsonl"
    file.write_text('{"ids": ["a", "b"], "decision": "same"}')
    append_decision(file, different("a", "c"))
    assert read_decisions(file) == [same("a", "b"), different("a", "c")]


def test_no_decision_is_lost_among_threads(tmp_path):
    file = tmp_path / "decisions.jsonl"

    def answer(thread):
        for number in range(20):
            append_decision(file, same(f"{thread}-{number}", "b"))

    threads = [threading.Thread(target=answer, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.ids for one in read_decisions(file)}) == 120


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_what_was_appended_before_a_kill_is_there(tmp_path):
    file = tmp_path / "decisions.jsonl"
    code = (
        "import sys; from scdp.table.decisions import Decision, append_decision\n"
        "for n in range(10**6):\n"
        "    append_decision(sys.argv[1], Decision((str(n), 'b'), 'same')); print(n, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(30)]
        process.send_signal(signal.SIGKILL)
        said += process.stdout.readlines()
    told = [int(line) for line in said if line.endswith("\n")]
    found = [int(one.ids[0]) for one in read_decisions(file)]
    assert found[: len(told)] == told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense\n", "line 1 of .*not JSON"),
        ('{"ids": ["a"], "decision": "same"}\n', "line 1 of .*two or more"),
        ('\n{"ids": ["a", "a"], "decision": "same"}\n', "line 2 of .*twice"),
        ('{"ids": ["a", "b"], "decision": "maybe"}\n', "line 1 of .*'maybe'; give one of same"),
        ('{"ids": "a", "decision": "same"}\n', "line 1 of .*no list of ids"),
        ('{"ids": ["a", ["b"]], "decision": "same"}\n', "line 1 of .*no list of ids"),
        ("[1]\n", "line 1 of .*not a JSON object"),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, message):
    file = tmp_path / "decisions.jsonl"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_decisions(file)


def test_a_table_without_its_columns_is_refused(tmp_path):
    table = tmp_path / "decisions.csv"
    table.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="need the columns 'decision' and 'id1'"):
        read_decisions(table)
    with pytest.raises(InputError, match=r"name the file \.jsonl"):
        append_decision(table, same("a", "b"))


def test_contradictions_are_named_by_their_lines(tmp_path):
    file = tmp_path / "decisions.jsonl"
    for one in [same("a", "b"), same("x", "y"), same("b", "c"), different("a", "c")]:
        append_decision(file, one)
    with pytest.raises(InputError, match=r"line 4 of .*'a' and 'c'.*line 1 of .* and line 3 of .*same"):
        Constraints.of(read_decisions(file), ["a", "b", "c"])
    with pytest.raises(InputError, match=r"decision 2 says .* and decision 1 that"):
        Constraints.of([same("a", "b"), different("b", "a")], ["a", "b"])


def test_what_ids_outside_the_table_say_of_others_holds():
    found = Constraints.of([same("a", "gone"), same("gone", "b"), different("gone", "c")], ["a", "b", "c", "d"])
    assert found.group.tolist() == [0, 0, -1, -1]
    assert (found.left.tolist(), found.right.tolist()) == ([0], [2])
    assert found.missing == ("gone",)


def test_nothing_is_said_by_those_who_cannot_tell():
    assert not Constraints.of([Decision(("a", "b"), "cannot tell")], ["a", "b"]).any()


def closure(decisions, ids):
    """What follows, by the definition: pairs that are the same and that differ, to a fixed point."""
    together = {(i, i) for i in ids}
    apart = set()
    for one in decisions:
        for i, j in combinations(one.ids, 2):
            (together if one.decision == "same" else apart).update({(i, j), (j, i)})
    while True:
        more = {(i, k) for i, j in together for a, k in together if a == j} - together
        if not more:
            break
        together |= more
    apart = {
        (i, k) for i, k in ((i, k) for a, b in apart for i, c in together if c == a for d, k in together if d == b)
    }
    return together, apart


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from("abcdefg"), min_size=2, max_size=4, unique=True),
            st.sampled_from(["same", "same", "different"]),
        ),
        max_size=6,
    ),
    st.permutations("abcdefg"),
    st.integers(0, 7),
)
def test_constraints_are_what_follows(said, ids, kept):
    decisions = [Decision(tuple(names), what) for names, what in said]
    together, apart = closure(decisions, "abcdefg")
    ids = ids[:kept]
    if together & apart:
        with pytest.raises(InputError, match="are different, and"):
            Constraints.of(decisions, ids)
        return
    found = Constraints.of(decisions, ids)
    group = np.where(found.group < 0, 100 + np.arange(len(ids)), found.group)
    said_apart = {frozenset((group[i], group[j])) for i, j in zip(found.left, found.right, strict=True)}
    for i, j in combinations(range(len(ids)), 2):
        assert (group[i] == group[j]) == ((ids[i], ids[j]) in together)
        assert (frozenset((group[i], group[j])) in said_apart) == ((ids[i], ids[j]) in apart)
