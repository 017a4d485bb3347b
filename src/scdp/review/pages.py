"""The pages: records, questions and figures enter; HTML with every cell escaped leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scdp._typing import Floats, Integers
from scdp.report import escape, isolate, mark_differences
from scdp.review import Person, Posed, Session
from scdp.review.beliefs import Beliefs
from scdp.review.quality import Interval, Quality
from scdp.review.view import TableView, blocks_of, graph, waterfall

LETTERS = "ABCDEFGH"
# Rows of lists, and records of one cluster that are shown at once.
ROWS_A_PAGE = 50
MOST_MEMBERS = 60
MOST_NODES = 24
LONGEST_CELL = 600
CURRENT = ' aria-current="page"'


def whole_page(title: str, body: Iterable[str], person: Person | None, more: str = "", here: str = "") -> str:
    """One page with the frame that all share: `more` stands below it, `here` is the place that it is in."""
    name = "" if person is None or person.name is None else person.name
    places = "".join(
        f'<a href="{place}"{CURRENT if place == here else ""}>{words}</a>'
        for place, words in (("/", "Questions"), ("/clusters", "Clusters"))
    )
    who = (
        '<form class="inline" method="post" action="/name"><label>Your name: '
        f'<input type="text" name="name" value="{escape(name)}" maxlength="80" size="14"></label>'
        "<button>Save</button></form>"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="stylesheet" href="/style.css">'
        '<script src="/page.js" defer></script></head><body>'
        f"<header><h1>{escape(title)}</h1><nav>{places}</nav></header>"
        f"<main>{''.join(body)}</main><footer>{more}{who}</footer></body></html>\n"
    )


def standing(session: Session) -> str:
    """What is known about the quality now; the script brings it up to date."""
    quality = session.quality
    figures = [("Answers", f"{session.n_answers:,}", "learning …" if session.is_learning else "all taken in")]
    figures.append(("Clusters", f"{session.beliefs.n_clusters:,}", f"of {session.beliefs.n_records:,} records"))
    if quality is not None:
        low, high = quality.clusters
        figures[1] = ("Clusters", f"{session.beliefs.n_clusters:,}", f"{low:,} to {high:,} (90 %)")
        figures.append(("Estimated F", f"{quality.f.mean:.3f}", f"{_ends(quality.f)} (90 %)"))
        figures.append(("Twenty more answers", _signed(quality.gain.mean), f"{_ends(quality.gain)} (90 %)"))
    cells = "".join(
        f"<div><small>{escape(name)}</small><b>{escape(value)}</b><small>{escape(more)}</small></div>"
        for name, value, more in figures
    )
    problem = f'<p class="note">{escape(session.problem)}</p>' if session.problem else ""
    return f'<div id="standing"><div class="status">{cells}</div>{_advice(quality)}{problem}</div>'


def _ends(interval: Interval) -> str:
    return f"{interval.low:.3f} to {interval.high:.3f}"


def _signed(value: float) -> str:
    return f"{value:+.3f}"


def _advice(quality: Quality | None) -> str:
    if quality is None:
        return '<p class="advice">Looking at the records …</p>'
    return f'<p class="advice{" stop" if quality.stop else ""}">{escape(quality.advice)}</p>'


def question_page(
    title: str, session: Session, view: TableView, person: Person, posed: Posed | None, preset: bool
) -> str:
    """The page of the open question; with `preset` the groups are those of the answer that is under review."""
    parts = [standing(session), _note(person)]
    if posed is None:
        parts.append(
            "<section><h2>Nothing is left that is worth asking</h2><p>What remains is as good as sure. "
            "You may look at the clusters, or come back when there are new records.</p></section>"
        )
        parts.append(undo_form(person))
        return whole_page(title, parts, person, _about(session), "/")
    parts.append(question_form(session, view, posed, preset))
    parts.append(undo_form(person))
    parts.append(evidence_of(session.beliefs, view, posed.question.rows))
    return whole_page(title, parts, person, KEYS + _about(session), "/")


KEYS = (
    "<p>Keys: <b>s</b> all the same, <b>d</b> all different, <b>1</b> to <b>8</b> move a record to the next group, "
    "<b>Enter</b> confirm the groups, <b>c</b> cannot tell, <b>u</b> undo, <b>w</b> why.</p>"
)


def _about(session: Session) -> str:
    """What a newcomer wants to know: what F is, where answers go, and how to end."""
    return (
        "<p>F is the balance of precision (linked pairs that are right) and recall (true pairs that are linked); "
        f"1 is perfect. Every answer is kept at once in {isolate(session.log.path.name)}. "
        "To end, press Ctrl-C where the command runs.</p>"
    )


def _note(person: Person) -> str:
    note = person.take_note()
    return f'<p class="note" role="status">{escape(note)}</p>' if note else ""


def undo_form(person: Person) -> str:
    """The button that takes back the last answer."""
    off = "" if person.given else " disabled"
    button = f'<button data-key="u"{off}>Undo my last answer<kbd>u</kbd></button>'
    return f'<form method="post" action="/undo">{button}</form>'


def question_form(session: Session, view: TableView, posed: Posed, preset: bool) -> str:
    """The records of a question side by side, and the ways to answer it."""
    rows = posed.question.rows
    n = len(rows)
    kind = "drawn at random" if posed.question.is_random else f"expected to add {posed.question.gain:.4f} to F"
    asked = "Are these the same?" if n == 2 else "Which of these are the same?"
    marks = "" if n == 2 else '<p class="soft">Marked are words that differ from the first record.</p>'
    head = f'<h2>{asked} <span class="soft">({kind})</span></h2>'
    picks = "" if n == 2 and not preset else _picks(rows, session.beliefs, preset)
    as_shown = (
        '<button class="main" name="action" value="shown" data-key="Enter">Confirm the groups<kbd>Enter</kbd></button>'
        if picks
        else ""
    )
    main = "" if picks else ' class="main"'
    return (
        f'<form class="question" method="post" action="/answer">{head}'
        f'<input type="hidden" name="question" value="{posed.number}">{side_by_side(view, rows)}{marks}{picks}'
        f'<div class="actions">{as_shown}<button{main} name="action" value="same" data-key="s">'
        f"{'The same' if n == 2 else 'All the same'}<kbd>s</kbd></button>"
        f'<button name="action" value="different" data-key="d">{"Different" if n == 2 else "All different"}'
        '<kbd>d</kbd></button><button name="action" value="cannot" data-key="c">Cannot tell<kbd>c</kbd></button>'
        "</div></form>"
    )


def _picks(rows: Sequence[int], beliefs: Beliefs, preset: bool) -> str:
    """For each record the groups it may be in: that of an earlier one, or its own."""
    blocks = blocks_of(beliefs, rows) if preset else list(range(len(rows)))
    fields = []
    for place in range(len(rows)):
        buttons = "".join(
            f'<label><input type="radio" name="group-{place}" value="{letter}"'
            f"{' checked' if blocks[place] == number else ''}><span>{LETTERS[letter]}</span></label>"
            for number, letter in enumerate(range(place + 1))
        )
        fields.append(
            f'<div class="cell"><span class="badge">{place + 1}</span><fieldset>'
            f'<legend class="missing">group of {place + 1}</legend>{buttons}</fieldset></div>'
        )
    return f'<div class="field pick n{len(rows)}"><h3>Groups</h3>{"".join(fields)}</div>'


def side_by_side(view: TableView, rows: Sequence[int]) -> str:
    """Records in columns, with the words marked by which they differ from the first."""
    n = len(rows)
    heads = "".join(f'<div class="cell">{place + 1}. {isolate(view.ids[row])}</div>' for place, row in enumerate(rows))
    lines = [f'<div class="field head n{n}"><h3>record</h3>{heads}</div>']
    cells = [view.cells(row) for row in rows]
    for number, name in enumerate(view.columns):
        values = [each[number] for each in cells]
        if any(values):
            lines.append(_field(name, values, n))
    return "".join(lines)


def _field(name: str, values: Sequence[str | None], n: int) -> str:
    first = next((value for value in values if value), "")
    shown_cells = []
    for place, value in enumerate(values):
        if value is not None and place == 0 and n == 2 and values[1]:
            text = mark_differences(value, values[1])
        else:
            text = _cell(value) if value is None or value == first else mark_differences(value, first)
        shown_cells.append(f'<div class="cell"><span class="badge">{place + 1}</span>{text}</div>')
    return f'<div class="field n{n}"><h3>{escape(name)}</h3>{"".join(shown_cells)}</div>'


def evidence_of(beliefs: Beliefs, view: TableView, rows: Sequence[int]) -> str:
    """Why the model believes what it does, folded away so that it does not lead the answer."""
    charts = []
    for place, row in enumerate(rows[1:], start=2):
        p = beliefs.probability(rows[0], row)
        link = f'<a href="/pair?a={rows[0]}&amp;b={row}">1 and {place}</a>'
        chart = waterfall(view.evidence.weights(rows[0], row)) if view.evidence is not None else ""
        charts.append(f"<p>{link}: the same with probability {p:.2f}</p>{chart}")
    return f'<details class="why"><summary>Why? (w)</summary><section>{"".join(charts)}</section></details>'


def pair_page(title: str, session: Session, view: TableView, person: Person, rows: tuple[int, int]) -> str:
    """Two records side by side, why, and what can be decided about them."""
    p = session.beliefs.probability(*rows)
    together = session.beliefs.answer[rows[0]] == session.beliefs.answer[rows[1]]
    chart = waterfall(view.evidence.weights(*rows)) if view.evidence is not None else ""
    fields = f'<input type="hidden" name="row" value="{rows[0]}"><input type="hidden" name="row" value="{rows[1]}">'
    body = [
        _note(person),
        f"<section><h2>The same with probability {p:.2f}; {'together' if together else 'apart'} in the answer</h2>"
        f"{side_by_side(view, rows)}{chart}"
        f'<form class="actions" method="post" action="/decide">{fields}'
        '<button name="action" value="same">The same</button>'
        '<button name="action" value="different">Different</button></form></section>',
        undo_form(person),
    ]
    return whole_page(title, body, person, here="/clusters")


def clusters_page(
    title: str, session: Session, view: TableView, person: Person, words: str, rows: Sequence[int], page: int, last: int
) -> str:
    """Clusters by their first found record, the least sure first where nothing is sought."""
    lines = []
    for row in rows:
        members = session.beliefs.members_of(row)
        lines.append(
            f'<tr><td><a href="/cluster?row={row}">{isolate(view.ids[row])}</a></td>'
            f'<td data-name="records">{len(members):,}</td>'
            f'<td data-name="all together">{_together(session.beliefs, members)}</td>'
            f"<td>{isolate(view.title(row))}</td></tr>"
        )
    more = "".join(
        f'<a href="/clusters?page={other}{_query(words)}">{name}</a> '
        for other, name in ((page - 1, "before"), (page + 1, "after"))
        if 0 <= other <= last
    )
    if not lines:
        nothing = "No record holds all of these words." if words else "No cluster has two records or more."
        lines.append(f'<tr><td colspan="4">{nothing}</td></tr>')
    what = f"Records with “{words}”" if words else "Clusters of two or more, the least sure first"
    body = [
        '<section><form class="inline" action="/clusters" method="get">'
        f'<input type="search" name="q" value="{escape(words)}" placeholder="search all columns" '
        'aria-label="search">'
        "<button>Search</button></form></section>",
        f'<section><h2>{escape(what)}</h2><div class="scroll"><table class="stack"><tr><th>record</th>'
        "<th>records</th><th>all together</th><th>cells</th></tr>"
        f'{"".join(lines)}</table></div><p class="inline">{more}</p></section>',
    ]
    return whole_page(title, body, person, here="/clusters")


def _together(beliefs: Beliefs, members: Integers) -> str:
    """How probable it is that all records of a cluster belong together."""
    if len(members) == 1:
        return "–"
    draws = beliefs.columns(members[:MOST_MEMBERS])
    return f"{float((draws == draws[:, :1]).all(axis=1).mean()):.2f}"


def _query(words: str) -> str:
    from urllib.parse import quote_plus

    return f"&amp;q={escape(quote_plus(words))}" if words else ""


def cluster_page(title: str, session: Session, view: TableView, person: Person, row: int) -> str:
    """One cluster: its records, its graph, its neighbours, and ways to split and merge it."""
    beliefs = session.beliefs
    members = beliefs.members_of(row)
    listed = members[:MOST_MEMBERS]
    near = near_clusters(beliefs, members)
    drawn = graph(beliefs, view, listed[:MOST_NODES], [other for other, _ in near[:6]])
    columns = "".join(f"<th>{escape(name)}</th>" for name in view.columns)
    lines = []
    for one in listed.tolist():
        cells = "".join(
            f'<td data-name="{escape(name)}">{_cell(cell)}</td>'
            for name, cell in zip(view.columns, view.cells(one), strict=True)
        )
        link = isolate(view.ids[one])
        if one != members[0]:
            link = f'<a href="/pair?a={members[0]}&amp;b={one}">{link}</a>'
        tick = f'<input type="checkbox" name="row" value="{one}" aria-label="tick {escape(view.ids[one])}">'
        lines.append(f"<tr><td>{tick}</td><td>{link}</td>{cells}</tr>")
    many = (
        f'<p class="soft">The first {len(listed)} of {len(members):,} records.</p>'
        if len(members) > len(listed)
        else ""
    )
    split = (
        '<div class="actions"><button name="action" value="split">Split off the ticked records</button>'
        '<button name="action" value="accept">Accept: all are the same</button></div>'
        '<p class="soft">Splitting says: the ticked records are one thing, the others another.</p>'
        if len(members) > 1
        else ""
    )
    merges = "".join(
        f'<tr><td><a href="/cluster?row={other}">{isolate(view.ids[other])}</a></td>'
        f'<td data-name="probability">{p:.2f}</td>'
        f"<td>{isolate(view.title(other))}</td><td>"
        f'<form method="post" action="/decide"><input type="hidden" name="home" value="{row}">'
        f'<input type="hidden" name="row" value="{other}"><button name="action" value="merge">Merge</button>'
        "</form></td></tr>"
        for other, p in near
    )
    count = "1 record" if len(members) == 1 else f"{len(members):,} records"
    body = [
        _note(person),
        f"<section><h2>Cluster of {isolate(view.ids[int(members[0])])}: {count}</h2>"
        f'<form method="post" action="/decide"><input type="hidden" name="home" value="{row}">'
        f'<div class="scroll"><table class="stack"><tr><th></th><th>record</th>{columns}</tr>{"".join(lines)}'
        f"</table></div>{many}{split}</form></section>",
        f"<section><h2>Graph</h2>{drawn}</section>",
        f'<section><h2>Near clusters</h2><div class="scroll"><table class="stack"><tr><th>record</th>'
        f"<th>probability</th><th>cells</th><th></th></tr>{merges}</table></div></section>"
        if near
        else "",
        undo_form(person),
    ]
    return whole_page(title, body, person, here="/clusters")


def _cell(cell: str | None) -> str:
    if cell is None:
        return '<span class="missing">missing</span>'
    return isolate(cell if len(cell) <= LONGEST_CELL else cell[:LONGEST_CELL] + "…")


def near_clusters(beliefs: Beliefs, members: Integers, most: int = 12) -> list[tuple[int, float]]:
    """Records of other clusters that may belong to one, the likeliest of each, and the probability."""
    some = members[:MOST_MEMBERS]
    around = beliefs.around(int(members[0]))
    around = around[beliefs.answer[around] != beliefs.answer[members[0]]][:2000]
    if not len(around):
        return []
    draws, own = beliefs.columns(around), beliefs.columns(some)
    best: Floats = np.zeros(len(around))
    for place in range(len(some)):
        best = np.maximum(best, (draws == own[:, place : place + 1]).mean(axis=0))
    found: dict[int, tuple[int, float]] = {}
    for place in np.argsort(-best, kind="stable").tolist():
        if best[place] > 0.0:
            found.setdefault(int(beliefs.answer[around[place]]), (int(around[place]), float(best[place])))
    return list(found.values())[:most]


def error_page(code: int, sentence: str) -> str:
    """A refusal in words."""
    return whole_page(f"{code}", [f'<p class="note">{escape(sentence)}</p><p><a href="/">Back</a></p>'], None)
