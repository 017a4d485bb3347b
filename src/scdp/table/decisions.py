"""Decisions: what people know about records, line by line, and the constraints that follow.

A decision names two or more records and says "same" (all are one thing), "different" (no two of them are) or "cannot
tell". Files are JSON lines, `{"ids": ["a", "b"], "decision": "same", "who": "...", "when": "...", "why": "..."}`, or
CSV with the columns `decision` and either `ids` (a JSON list) or `id1`, `id2` and so on. A log is such a file that is
open for answers: every answer is on the disk before anybody sees the next question.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from scdp.errors import InputError
from scdp.io import parse_json, parse_json_object, read_bytes
from scdp.table import LONGEST_ID
from scdp.table.readers import read_records

Kind = Literal["same", "different", "cannot tell"]
KINDS: tuple[str, ...] = get_args(Kind)
JSON_LINES = (".jsonl", ".ndjson", ".json")
# Of more records than this, "different" would be more pairs than anybody meant.
MOST_DIFFERENT = 2_000
NO_GROUP = -1


@dataclass(frozen=True)
class Decision:
    """What somebody decided about two or more records.

    Parameters
    ----------
    ids : tuple of str
        The records, two or more, each once.
    decision : {"same", "different", "cannot tell"}
        All are one thing; no two of them are; nobody can say.
    who, when, why : str, optional
        Who decided it, when (ISO 8601), and for what reason.
    place : str
        Where it was read, such as "line 3 of decisions.jsonl"; named in messages, and not compared.

    Example
    -------
    >>> Decision(("a1", "b7"), "same", who="maria").to_line()
    '{"ids": ["a1", "b7"], "decision": "same", "who": "maria"}'
    """

    ids: tuple[str, ...]
    decision: Kind
    who: str | None = None
    when: str | None = None
    why: str | None = None
    place: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        where = f"{self.place}: " if self.place else "a decision: "
        if len(self.ids) < 2:
            raise InputError(f"{where}names {len(self.ids)} record(s); give the ids of two or more")
        for identifier in self.ids:
            if not isinstance(identifier, str) or not identifier.strip() or len(identifier) > LONGEST_ID:
                raise InputError(f"{where}{str(identifier)[:40]!r} is no id of a record; give the text of its id")
        if len(set(self.ids)) < len(self.ids):
            raise InputError(f"{where}names a record twice; give each id once")
        if self.decision not in KINDS:
            raise InputError(f"{where}the decision is {self.decision!r}; give one of {', '.join(KINDS)}")
        if self.decision == "different" and len(self.ids) > MOST_DIFFERENT:
            raise InputError(
                f"{where}says of {len(self.ids):,} records that all differ; name at most {MOST_DIFFERENT:,} a line"
            )

    def to_line(self) -> str:
        """One line of JSON, without what is not there."""
        more = {"who": self.who, "when": self.when, "why": self.why}
        words: dict[str, Any] = {"ids": list(self.ids), "decision": self.decision}
        words |= {name: text for name, text in more.items() if text is not None}
        return json.dumps(words, ensure_ascii=False)


def read_decisions(path: str | Path) -> list[Decision]:
    """Read a file of decisions.

    Parameters
    ----------
    path : str or Path
        JSON lines (.jsonl, .ndjson, .json), or a table that `read_records` reads.

    Returns
    -------
    list of Decision
        In the order of the file. A last line that was cut off while it was written is left out.

    Example
    -------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "decisions.jsonl"
    >>> append_decision(file, Decision(("a", "b"), "different"))
    >>> read_decisions(file)[0].decision
    'different'
    """
    place = Path(path)
    rows = _json_rows(place) if place.suffix.lower() in JSON_LINES else _table_rows(place)
    return [_decision(row, f"line {number} of {place}") for number, row in rows]


def append_decision(path: str | Path, *decisions: Decision) -> None:
    """Add a line for each decision to a file of JSON lines, made if need be: when this returns, the disk has them.

    Several processes may append to one file; each waits for the other.

    Parameters
    ----------
    path : str or Path
        A file of JSON lines (.jsonl).
    decisions : Decision
        What was decided: one, or the lines of one answer, which are written in one step.

    Example
    -------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "decisions.jsonl"
    >>> append_decision(file, Decision(("a", "b", "c"), "same", why="one address"))
    >>> file.read_text()
    '{"ids": ["a", "b", "c"], "decision": "same", "why": "one address"}\\n'
    """
    from filelock import lock_descriptor

    place = Path(path)
    if place.suffix.lower() not in JSON_LINES:
        raise InputError(f"{place}: decisions are added to JSON lines; name the file .jsonl")
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with os.fdopen(os.open(place, flags, 0o666), "r+b", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{place}: this is a pipe or a device; give the name of a file")
            lock_descriptor(file.fileno(), blocking=True)
            _append_lines(file, b"".join(one.to_line().encode() + b"\n" for one in decisions))
            os.fsync(file.fileno())
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{place}: cannot be written ({reason}); choose another folder") from error


def _append_lines(file: io.FileIO, lines: bytes) -> None:
    content = file.readall()
    end = len(content)
    if content and not content.endswith(b"\n"):
        # A line that a process was killed over was never answered for; a whole one only lacks its end.
        begin = content.rfind(b"\n") + 1
        if _is_torn(content[begin:]):
            end = begin
        else:
            lines = b"\n" + lines
    file.seek(end)
    file.truncate()
    try:
        while lines:
            lines = lines[file.write(lines) :]
    except OSError:
        # Half a line would be taken for one that was cut off; better it is not there.
        file.truncate(end)
        raise


def _is_torn(line: bytes) -> bool:
    try:
        parse_json(line.decode())
    except ValueError:
        return True
    return False


def _json_rows(place: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        lines = read_bytes(place).decode("utf-8").lstrip("\ufeff").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: is not UTF-8 text; save the file as UTF-8") from error
    if lines[-1].strip() and _is_torn(lines[-1].encode()) and len(lines) > 1:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, parse_json_object(line, f"line {number} of {place}:", "write one decision a line")


def _table_rows(place: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    table = read_records(place)
    ids = [name for name in table.names if re.fullmatch(r"id_?\d+", name)]
    if "decision" not in table.names or not (ids or "ids" in table.names):
        raise InputError(
            f"{place}: decisions need the columns 'decision' and 'id1', 'id2' (or 'ids', a JSON list); "
            f"it has: {', '.join(table.names)}"
        )
    for number, cells in zip(table.numbers.tolist(), table.rows(), strict=True):
        row: dict[str, Any] = {name: cell for name, cell in cells.items() if cell is not None}
        if ids:
            row["ids"] = [row[name] for name in ids if name in row]
        else:
            try:
                row["ids"] = parse_json(row.get("ids", "[]"))
            except ValueError as error:
                raise InputError(f'line {number} of {place}: \'ids\' is no list such as ["a", "b"]') from error
        yield number, row


def _decision(row: dict[str, Any], place: str) -> Decision:
    ids = row.get("ids")
    if not isinstance(ids, list) or not all(isinstance(one, str | int) and not isinstance(one, bool) for one in ids):
        raise InputError(f'{place}: has no list of ids; write "ids": ["a", "b"]')
    more = {name: str(row[name]) for name in ("who", "when", "why") if row.get(name) is not None}
    kind: Any = row.get("decision")
    if isinstance(kind, str):
        kind = kind.strip().lower()
    return Decision(tuple(map(str, ids)), kind, **more, place=place)


@dataclass(frozen=True, eq=False)
class Constraints:
    """What decisions say about the rows of one table.

    Parameters
    ----------
    group : array of integers, one a row
        The number of the group of rows that are the same thing, counted from 0; -1 = in none.
    left, right : arrays of integers
        Pairs of rows that are different things.
    missing : tuple of str
        Ids that decisions name and the table does not have; what they say about others still holds.

    Example
    -------
    >>> found = Constraints.of([Decision(("a", "b"), "same"), Decision(("b", "c"), "different")], ["a", "b", "c"])
    >>> found.group.tolist(), found.left.tolist(), found.right.tolist()
    ([0, 0, -1], [0], [2])
    """

    group: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    missing: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.group)

    def any(self) -> bool:
        """Whether anything is constrained."""
        return bool((self.group >= 0).any() or len(self.left))

    @classmethod
    def of(cls, decisions: Iterable[Decision], ids: Sequence[str] | NDArray[Any]) -> Self:
        """The constraints of some decisions on rows with these ids; those that contradict each other are refused.

        Of each "different" one pair of rows is kept for every two groups. Decisions that cannot be told say nothing.
        """
        said = list(decisions)
        same = [one for one in said if one.decision == "same"]
        row_of = {str(identifier): row for row, identifier in enumerate(ids)}
        root = _unite(same)
        apart = _list_different(said, root, same)
        members: dict[str, list[int]] = {}
        for identifier, top in root.items():
            if identifier in row_of:
                members.setdefault(top, []).append(row_of[identifier])
        group = np.full(len(row_of), NO_GROUP, dtype=np.int64)
        groups = sorted(sorted(rows) for rows in members.values() if len(rows) > 1)
        for number, rows in enumerate(groups):
            group[rows] = number
        first = {top: min(rows) for top, rows in members.items()}
        first |= {one: row_of[one] for pair in apart for one in pair if one in row_of and one not in root}
        pairs = sorted(
            {
                (min(first[one], first[other]), max(first[one], first[other]))
                for one, other in apart
                if one in first and other in first
            }
        )
        named = dict.fromkeys(identifier for one in said for identifier in one.ids)
        return cls(
            group,
            np.array([one for one, _ in pairs], dtype=np.int64),
            np.array([other for _, other in pairs], dtype=np.int64),
            tuple(identifier for identifier in named if identifier not in row_of),
        )


def _unite(same: Iterable[Decision]) -> dict[str, str]:
    """The representative of each id that some "same" names."""
    above: dict[str, str] = {}

    def top(identifier: str) -> str:
        while above.setdefault(identifier, identifier) != identifier:
            above[identifier] = identifier = above[above[identifier]]
        return identifier

    for one in same:
        for other in one.ids[1:]:
            above[top(other)] = top(one.ids[0])
    return {identifier: top(identifier) for identifier in list(above)}


def _list_different(
    decisions: Sequence[Decision], root: dict[str, str], same: Sequence[Decision]
) -> list[tuple[str, str]]:
    """Pairs of representatives that differ; a pair that is also the same is refused, with the lines that say so."""
    apart: dict[tuple[str, str], None] = {}
    for number, one in enumerate(decisions, start=1):
        if one.decision != "different":
            continue
        for left, right in combinations(one.ids, 2):
            tops = root.get(left, left), root.get(right, right)
            if tops[0] == tops[1]:
                lines = [_place(each, decisions) for each in _explain_same(left, right, same)]
                raise InputError(
                    f"{one.place or f'decision {number}'} says that {left!r} and {right!r} are different, and "
                    f"{' and '.join(lines)} that they are the same; correct one of these lines"
                )
            apart[tops[0], tops[1]] = None
    return list(apart)


def _place(decision: Decision, decisions: Sequence[Decision]) -> str:
    number = next(number for number, one in enumerate(decisions, start=1) if one is decision)
    return decision.place or f"decision {number}"


def _explain_same(left: str, right: str, same: Sequence[Decision]) -> list[Decision]:
    """The fewest decisions by which two ids are the same."""
    by_id: dict[str, list[Decision]] = {}
    for one in same:
        for identifier in one.ids:
            by_id.setdefault(identifier, []).append(one)
    came: dict[str, tuple[str, Decision]] = {}
    waiting = deque([left])
    while waiting and right not in came:
        here = waiting.popleft()
        for one in by_id.get(here, []):
            for identifier in one.ids:
                if identifier not in came and identifier != left:
                    came[identifier] = here, one
                    waiting.append(identifier)
    path: list[Decision] = []
    while right != left:
        right, one = came[right]
        path.append(one)
    return path[::-1]


@dataclass(frozen=True)
class Answer:
    """What one person said to one question: its decisions, as they stand in the file."""

    decisions: tuple[Decision, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The records that the answer is about."""
        return tuple(dict.fromkeys(one for decision in self.decisions for one in decision.ids))


def decisions_of(
    ids: Sequence[str], blocks: Sequence[int] | None, who: str | None, why: str | None = None
) -> tuple[Decision, ...]:
    """The lines of an answer: one "same" for each block of two or more, "different" between blocks.

    Parameters
    ----------
    ids : sequence of str
        The records of the question.
    blocks : sequence of int, optional
        The block of each record; None = the person cannot tell.
    who, why : str, optional
        The person, and the reason.

    Returns
    -------
    tuple of Decision

    Example
    -------
    >>> [(line.decision, line.ids) for line in decisions_of(["a", "b", "c"], [0, 0, 1], None)]
    [('same', ('a', 'b')), ('different', ('a', 'c'))]
    """
    when = datetime.now(UTC).isoformat(timespec="seconds")
    if blocks is None:
        return (Decision(tuple(ids), "cannot tell", who, when, why),)
    by_block: dict[int, list[str]] = {}
    for identifier, block in zip(ids, blocks, strict=True):
        by_block.setdefault(block, []).append(identifier)
    lines = [Decision(tuple(members), "same", who, when, why) for members in by_block.values() if len(members) > 1]
    if len(by_block) > 1:
        # One of each block: what is the same as one of them differs from the others too.
        lines.append(Decision(tuple(m[0] for m in by_block.values()), "different", who, when, why))
    return tuple(lines)


class DecisionLog:
    """A file of decisions that is open for answers, and what follows from all of them.

    Parameters
    ----------
    path : Path
        JSON lines; those that are there already count too.
    ids : sequence of str
        Of the records of the table, in order.
    before : sequence of Decision
        Decisions that hold too, and are kept elsewhere.
    """

    def __init__(self, path: Path, ids: Sequence[str] | NDArray[Any], before: Sequence[Decision] = ()) -> None:
        self.path, self.ids = path, [str(one) for one in ids]
        self.row_of = {identifier: row for row, identifier in enumerate(self.ids)}
        self.decisions: list[Decision] = [*before, *(read_decisions(path) if path.exists() else [])]
        self.constraints = self._constrain(self.decisions)

    def _constrain(self, decisions: Sequence[Decision]) -> Constraints:
        # By the records that are named alone: all ids of a large table would take longer than a person waits.
        named = sorted({one for line in decisions for one in line.ids} & self.row_of.keys())
        found = Constraints.of(decisions, named)
        rows = np.array([self.row_of[one] for one in named], dtype=np.int64)
        group = np.full(len(self.ids), -1, dtype=np.int64)
        group[rows] = found.group
        return Constraints(group, rows[found.left], rows[found.right], found.missing)

    def check(self, answer: Answer) -> Constraints:
        """What would hold with one more answer; one that contradicts earlier ones is refused."""
        try:
            return self._constrain([*self.decisions, *answer.decisions])
        except InputError as error:
            raise InputError(f"This contradicts what was said before: {error}.") from error

    def append(self, answer: Answer) -> None:
        """Write an answer: when this returns, the disk has it."""
        constraints = self.check(answer)
        append_decision(self.path, *answer.decisions)
        self.decisions += answer.decisions
        self.constraints = constraints

    def withdraw(self, answer: Answer) -> None:
        """Take an answer back: its lines become blank, so that all others keep their numbers."""
        blank_lines(self.path, [decision.to_line() for decision in answer.decisions])
        for decision in answer.decisions:
            # The last of several equal ones is the one that was added.
            place = len(self.decisions) - 1 - self.decisions[::-1].index(decision)
            del self.decisions[place]
        self.constraints = self._constrain(self.decisions)

    def refused(self) -> frozenset[tuple[int, int]]:
        """Pairs of rows that somebody could not tell: they are not asked again."""
        found = set()
        for decision in self.decisions:
            if decision.decision == "cannot tell":
                rows = sorted(self.row_of[one] for one in decision.ids if one in self.row_of)
                found |= set(combinations(rows, 2))
        return frozenset(found)


def blank_lines(path: Path, lines: Sequence[str]) -> None:
    """Overwrite the last occurrence of each line with spaces, in place; nothing else of the file moves."""
    from filelock import lock_descriptor

    with path.open("r+b") as file:
        lock_descriptor(file.fileno(), blocking=True)
        content = b"\n" + file.read()
        for line in lines:
            sought = b"\n" + line.encode() + b"\n"
            place = content.rfind(sought)
            if place < 0:
                raise InputError(f"{path}: an answer to take back is not there any more; reload the page")
            length = len(sought) - 2
            content = content[: place + 1] + b" " * length + content[place + 1 + length :]
            file.seek(place)
            file.write(b" " * length)
        file.flush()
        os.fsync(file.fileno())
