"""Questions in a terminal, for machines without a browser: the same session, answered line by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scdp.errors import InputError
from scdp.review.pages import blocks_of
from scdp.review.session import Posed, Session
from scdp.review.view import TableView

HELP = (
    "s = all the same, d = all different, c = cannot tell, u = undo, q = stop; or the groups, "
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
