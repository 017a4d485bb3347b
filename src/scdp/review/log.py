"""Answers and the file that keeps them: every answer is on the disk before anybody sees the next question."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.errors import InputError
from scdp.table.decisions import Constraints, Decision, append_decision, read_decisions


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
