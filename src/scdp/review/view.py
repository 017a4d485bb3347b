"""What people look at: records with their cells, a search over them, what each comparison says of a pair; in a terminal
too, where the same session is answered line by line, for machines without a browser."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from scdp._typing import Features, Integers
from scdp.compare.features import Comparer
from scdp.errors import InputError
from scdp.estimators.explanation import lose_each
from scdp.linkage import Ensemble
from scdp.report import escape
from scdp.review import Posed, Session
from scdp.review.beliefs import Beliefs
from scdp.table import Records
from scdp.table.spec import Spec
from scdp.table.spec_files import in_words

MOST_FOUND = 500
MOST_LOOKED_AT = 20_000
MOST_WORDS = 8
# How much of a long text is looked at to see which of several words is rare.
N_PIECES, PIECE = 32, 8192


class Weight(NamedTuple):
    """What one comparison says of a pair: log-odds, above 0 for the same; and what it finds, in words."""

    name: str
    log_odds: float
    finding: str = ""

    def __str__(self) -> str:
        return f"{self.finding} ({self.name})" if self.finding else self.name


class PairEvidence(NamedTuple):
    """Judges pairs of records by comparisons that were prepared once; the ensemble is asked for anew each time."""

    comparer: Comparer
    spec: Spec
    ensemble: Callable[[], Ensemble]

    def weights(self, row: int, other: int) -> list[Weight]:
        """By comparison, how much higher the log-odds are than without it; and the odds of any two records."""
        ensemble = self.ensemble()
        features: Features = self.comparer.compare(np.array([row]), np.array([other]), 1)
        lost = lose_each(ensemble, features, len(self.spec.fields))[0]
        found = self.comparer.in_words(row, other, features[0, : len(lost)].astype(np.float64))
        named = [
            Weight(in_words(field), float(weight), finding)
            for field, weight, finding in zip(self.spec.fields, lost, found, strict=True)
        ]
        rest = float(ensemble.mean_log_odds(features)[0]) - float(lost.sum())
        return [Weight("any two records", rest), *named]


@dataclass(eq=False)
class TableView:
    """The records as people see them.

    Parameters
    ----------
    records : Records
        All columns.
    ids : sequence of str
        The id of each record.
    columns : tuple of str
        The columns that are shown.
    evidence : PairEvidence, optional
        What comparisons say, where there is a model.
    """

    records: Records
    ids: Sequence[str]
    columns: tuple[str, ...]
    evidence: PairEvidence | None = None

    def cells(self, row: int) -> list[str | None]:
        """Of one record, column by column."""
        return [self.records.columns[name][row] for name in self.columns]

    def title(self, row: int, longest: int = 90) -> str:
        """A record in one line."""
        text = " · ".join(cell for cell in self.cells(row) if cell)
        return text if len(text) <= longest else text[: longest - 1] + "…"

    @cached_property
    def _text(self) -> tuple[str, Integers]:
        """All cells as one text in small letters, a line a record, and where each line begins."""
        columns = [self.records.columns[name] for name in self.columns]
        lines = [
            " ".join(cell.replace("\n", " ") for cell in cells if cell).casefold()
            for cells in zip(self.ids, *columns, strict=True)
        ]
        starts = np.zeros(len(lines) + 1, dtype=np.int64)
        np.cumsum([len(line) + 1 for line in lines], out=starts[1:])
        return "\n".join(lines), starts

    @cached_property
    def _sample(self) -> str:
        """Pieces of the text from its beginning to its end, which tell rare words from frequent ones."""
        text = self._text[0]
        step = max(len(text) // N_PIECES, PIECE)
        return "\n".join(text[start : start + PIECE] for start in range(0, len(text), step))

    def prepare(self) -> None:
        """Make ready what a search needs, so that nobody waits for it."""
        len(self._sample)

    def search(self, words: str) -> list[int]:
        """The first records that hold all words, in any column."""
        text, starts = self._text
        wanted = words.casefold().split()
        if not wanted:
            return []
        # Where the rarest word is, the others are looked for; a search that would take long stops early.
        wanted = sorted(dict.fromkeys(wanted[:MOST_WORDS]), key=lambda word: (self._sample.count(word), -len(word)))
        found: list[int] = []
        place, looked_at = text.find(wanted[0]), 0
        while place >= 0 and len(found) < MOST_FOUND and looked_at < MOST_LOOKED_AT:
            row = int(np.searchsorted(starts, place, side="right")) - 1
            line = text[starts[row] : starts[row + 1]]
            if all(word in line for word in wanted[1:]):
                found.append(row)
            place, looked_at = text.find(wanted[0], int(starts[row + 1])), looked_at + 1
        return found


# Bars of a waterfall; smaller ones are left out.
MOST_BARS = 12
LEAST_SHOWN = 0.05


def choose_steps(weights: Sequence[Weight]) -> list[Weight]:
    """Any two records, and the comparisons that say something, those that say most first."""
    steps = [weights[0], *sorted(weights[1:], key=lambda each: -abs(each.log_odds))]
    return [each for each in steps if abs(each.log_odds) >= LEAST_SHOWN][:MOST_BARS] or steps[:1]


def waterfall(weights: Sequence[Weight]) -> str:
    """Log-odds added up from top to bottom, one bar a comparison."""
    steps = choose_steps(weights)
    sums = np.cumsum([each.log_odds for each in steps])
    low, high = min(0.0, float(sums.min())), max(0.0, float(sums.max()))
    scale = 100.0 / max(high - low, 1e-9)
    zero, before, lines = -low * scale, 0.0, []
    for each in steps:
        begin, end = sorted((before, before + each.log_odds))
        kind = "for" if each.log_odds > 0 else "against"
        lines.append(
            f'<li><span>{escape(str(each))}</span><svg viewBox="0 0 100 16" preserveAspectRatio="none" '
            f'aria-hidden="true"><rect class="{kind}" x="{(begin - low) * scale:.1f}" y="3" '
            f'width="{max((end - begin) * scale, 0.3):.1f}" height="10"></rect>'
            f'<line class="axis" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="16"></line></svg>'
            f"<b>{each.log_odds:+.1f}</b></li>"
        )
        before += each.log_odds
    total = sum(each.log_odds for each in weights)
    lines.append(f"<li><span>log-odds of the two alone</span><i></i><b>{total:+.1f}</b></li>")
    return f'<ul class="waterfall">{"".join(lines)}</ul>'


def graph(beliefs: Beliefs, view: TableView, members: Integers, near: Sequence[int]) -> str:
    """Records on a circle; the thicker a line, the likelier its two are the same. Near records are dashed."""
    rows = [*members.tolist(), *near]
    if len(rows) < 2:
        return '<p class="soft">One record, and none near it.</p>'
    draws = beliefs.columns(np.array(rows, dtype=np.int64))
    angle = [2.0 * math.pi * place / len(rows) - math.pi / 2 for place in range(len(rows))]
    at = [(380 + 150 * math.cos(each), 190 + 150 * math.sin(each)) for each in angle]
    lines = []
    for one in range(len(rows)):
        for other in range(one + 1, len(rows)):
            p = float((draws[:, one] == draws[:, other]).mean())
            if p > 0.02:
                dashed = " near" if other >= len(members) else ""
                (x1, y1), (x2, y2) = at[one], at[other]
                lines.append(
                    f'<line class="edge{dashed}" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" '
                    f'stroke-width="{0.5 + 4 * p:.1f}" stroke-opacity="{0.25 + 0.6 * p:.2f}">'
                    f"<title>{p:.2f}</title></line>"
                )
    for place, (row, (x, y)) in enumerate(zip(rows, at, strict=True)):
        dashed = " near" if place >= len(members) else ""
        anchor = "start" if x > 380.5 else "end" if x < 379.5 else "middle"
        shift = 12 if anchor == "start" else -12 if anchor == "end" else 0
        lines.append(
            f'<a href="/cluster?row={row}"><circle class="node{dashed}" cx="{x:.0f}" cy="{y:.0f}" r="8"></circle>'
            f'<text x="{x + shift:.0f}" y="{y + (5 if shift else -14):.0f}" text-anchor="{anchor}">'
            f"{escape(_short(str(view.ids[row])))}</text></a>"
        )
    return f'<svg viewBox="0 0 760 390" role="img" aria-label="graph of the cluster">{"".join(lines)}</svg>'


def _short(name: str, longest: int = 24) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def blocks_of(beliefs: Beliefs, rows: Sequence[int]) -> list[int]:
    """The block of each record in the answer, numbered by the first record that is in it."""
    labels = beliefs.answer[np.array(rows, dtype=np.int64)].tolist()
    return [labels.index(label) for label in labels]


HELP = (
    "s = all the same, d = all different, c = cannot tell, w = why, u = undo, q = stop; or the groups, "
    "such as 'aab': the first two are the same, the third is not"
)
KEY = "terminal"
LONGEST_CELL = 200

Say = Callable[[str], None]
Read = Callable[[str], str]


def ask_in_terminal(session: Session, view: TableView, who: str | None, preset: bool, say: Say, read: Read) -> int:
    """Ask until somebody stops or nothing is left to ask.

    Parameters
    ----------
    session, view : Session, TableView
        Questions and records.
    who : str, optional
        The person's name.
    preset : bool
        Whether to show the groups of the answer under review, which an empty line accepts.
    say, read : functions
        Print a line; ask for one (EOFError where there is none).

    Returns
    -------
    int
        How many answers were given.
    """
    session.person(KEY, who)
    say(HELP)
    while True:
        posed = session.pose(KEY)
        if posed is None:
            say("Nothing is left that is worth asking.")
            break
        _show(session, view, posed, preset, say)
        try:
            said = read("> ").strip().lower()
        except EOFError:
            break
        if said in ("q", "quit", "exit"):
            break
        if said == "w":
            for line in _say_why(session, view, posed.question.rows):
                say(line)
            continue
        _take(session, posed, said, preset, say)
    return len(session.person(KEY).given)


def _show(session: Session, view: TableView, posed: Posed, preset: bool, say: Say) -> None:
    rows = posed.question.rows
    say("")
    say(standing_line(session))
    say("Are these the same?" if len(rows) == 2 else f"Which of these {len(rows)} are the same?")
    width = max(map(len, view.columns), default=0)
    cells = [view.cells(row) for row in rows]
    say(f"  {'record':<{width}}  " + " | ".join(str(view.ids[row]) for row in rows))
    for number, name in enumerate(view.columns):
        values = [each[number] for each in cells]
        if any(values):
            differs = " " if len({value for value in values if value}) < 2 else "*"
            say(f"{differs} {name:<{width}}  " + " | ".join((value or "-")[:LONGEST_CELL] for value in values))
    if preset:
        letters = "".join("abcdefgh"[block] for block in blocks_of(session.beliefs, rows))
        say(f"  in the answer: {letters} (an empty line accepts it)")


def _take(session: Session, posed: Posed, said: str, preset: bool, say: Say) -> None:
    n = len(posed.question.rows)
    if said == "u":
        say("Taken back." if session.undo(KEY) else "There is nothing to take back.")
        return
    if said == "" and preset:
        blocks: Sequence[int] | None = blocks_of(session.beliefs, posed.question.rows)
    elif said in ("s", "same"):
        blocks = [0] * n
    elif said in ("d", "different"):
        blocks = list(range(n))
    elif said == "c":
        blocks = None
    elif len(said) == n and said.isascii() and said.isalpha():
        blocks = ["abcdefghijklmnopqrstuvwxyz".index(letter) for letter in said]
    else:
        say(HELP)
        return
    try:
        session.answer(KEY, posed.number, blocks)
    except InputError as error:
        say(str(error))


def _say_why(session: Session, view: TableView, rows: Sequence[int]) -> Iterator[str]:
    """What the model believes of the first record and each other one, and what each comparison says of it."""
    for row in rows[1:]:
        p = session.beliefs.probability(rows[0], row)
        yield f"  {view.ids[rows[0]]} and {view.ids[row]}: the same with probability {p:.2f}"
        if view.evidence is None:
            yield "    what each comparison says is not known yet"
            continue
        for each in choose_steps(view.evidence.weights(rows[0], row)):
            yield f"    {each.finding or each.name}: {each.log_odds:+.1f}" + (f" ({each.name})" if each.finding else "")


def standing_line(session: Session) -> str:
    """What is known of the quality, in one line."""
    quality = session.quality
    if quality is None:
        return f"{session.n_answers} answers; looking at the records ..."
    f, gain = quality.f, quality.gain
    return (
        f"{session.n_answers} answers; estimated F {f.mean:.3f} ({f.low:.3f} to {f.high:.3f}); "
        f"twenty more: {gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}). {quality.advice}"
    )
