"""Decisions: what people know about records, line by line, and the constraints that follow.

A decision names two or more records and says "same" (all are one thing), "different" (no two of them are) or "cannot
tell". Files are JSON lines, `{"ids": ["a", "b"], "decision": "same", "who": "...", "when": "...", "why": "..."}`, or
CSV with the columns `decision` and either `ids` (a JSON list) or `id1`, `id2` and so on.
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
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from scdp.errors import InputError
from scdp.io.untrusted import parse_json, read_bytes
from scdp.table.readers import read_records
from scdp.table.records import LONGEST_ID

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
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as error:
            reason = getattr(error, "msg", error)
            raise InputError(f"line {number} of {place}: is not JSON ({reason}); write one decision a line") from error
        if not isinstance(row, dict):
            raise InputError(f"line {number} of {place}: is not a JSON object; write one decision a line")
        yield number, row


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
