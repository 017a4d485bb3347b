"""The report: a table, figures and pairs of records enter; one HTML page that asks the network for nothing leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
:root{--ink:#17212b;--soft:#5b6875;--line:#dde3e9;--blue:#0072b2}
*{box-sizing:border-box}
body{margin:0;background:#f4f6f8;color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1080px;margin:0 auto;padding:32px 20px 48px}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 8px}
h2{font-size:1.05rem;margin:0 0 8px}
p{margin:0 0 12px}
.lead{color:var(--soft);max-width:44rem}
.verdict{border-left:4px solid #009e73;background:#fff;padding:10px 14px;border-radius:4px;margin:16px 0}
.verdict.warn{border-color:#d55e00}
.figures{display:grid;grid-template-columns:1fr 1fr;gap:0 16px;margin:16px 0 0}
.figures>div{min-width:0;display:flex;flex-direction:column}
.figures section:last-child{flex:1}
section{background:#fff;border:1px solid var(--line);border-radius:8px;padding:16px 18px;margin:0 0 16px;min-width:0}
svg{display:block;width:100%;height:auto;font:12px system-ui,sans-serif;fill:var(--soft)}
.note{color:var(--soft);font-size:.88rem;margin:10px 0 0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.95rem;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:5px 6px;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--soft);font-weight:600;font-size:.85rem}
th:first-child,td:first-child{text-align:left;white-space:normal}
td small{display:block;color:var(--soft)}
tr.ours td{font-weight:600;background:#eef5fa}
tr.ours small{font-weight:400}
.pair{border-top:1px solid var(--line);padding:10px 0}
.pair h3{font-size:.9rem;margin:0 0 4px;font-weight:600}
.pair h3 span{color:var(--soft);font-weight:400}
.pair table{table-layout:fixed}
.pair th,.pair td{text-align:left;white-space:normal;overflow-wrap:anywhere;border:0;padding:1px 6px;vertical-align:top}
.pair th:first-child{width:5rem}
.pair tr.differs td{background:#fdf4e3}
@media(max-width:760px){.figures{grid-template-columns:1fr}main{padding:20px 12px}section{padding:14px 12px}}
@media(max-width:480px){table{font-size:.84rem}th{font-size:.75rem}th,td{padding:6px 3px}}
"""


@dataclass(frozen=True)
class SystemRow:
    """What one system reached: scores against the true clusters, its number of clusters, its time."""

    name: str
    note: str
    f: float
    vi: float
    clusters: int
    seconds: float


@dataclass(frozen=True)
class Figure:
    """A titled chart; `chart` is markup of our own, the words are plain text."""

    title: str
    chart: str
    note: str


@dataclass(frozen=True)
class RecordPair:
    """Two records of the same fields, the probability that they are of one cluster, and whether they are."""

    ids: tuple[str, str]
    cells: tuple[Mapping[str, str | None], Mapping[str, str | None]]
    probability: float
    same: bool


@dataclass(frozen=True)
class ReportPage:
    """All that is on the page. The first system is ours."""

    title: str
    lead: str
    verdict: str
    converged: bool
    first: Figure
    second: Figure
    systems: Sequence[SystemRow]
    table_note: str
    pairs: Sequence[RecordPair]

    def html(self) -> str:
        """The page as one text."""
        warn = "" if self.converged else " warn"
        body = [
            f'<h1>{escape(self.title)}</h1><p class="lead">{escape(self.lead)}</p>',
            f'<p class="verdict{warn}">{escape(self.verdict)}</p>',
            f'<div class="figures"><div>{_figure(self.first)}{_table(self.systems, self.table_note)}</div>',
            f"<div>{_figure(self.second)}</div></div>",
            "<section><h2>The most uncertain pairs</h2>",
            *map(_pair, self.pairs),
            "</section>",
        ]
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            # The page needs nothing from outside, and says so to the browser.
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            "style-src 'unsafe-inline'; img-src data:\">"
            f"<title>{escape(self.title)}</title><style>{STYLE}</style></head>\n"
            f"<body><main>{chr(10).join(body)}</main></body></html>\n"
        )


def _figure(figure: Figure) -> str:
    return f"<section><h2>{escape(figure.title)}</h2>{figure.chart}{_note(figure.note)}</section>"


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _table(systems: Sequence[SystemRow], note: str) -> str:
    head = "<tr><th>system</th><th>F</th><th>VI</th><th>clusters</th><th>seconds</th></tr>"
    rows = "".join(_row(system, first=place == 0) for place, system in enumerate(systems))
    return (
        f'<section><h2>Scores on the new items</h2><div class="scroll"><table>{head}{rows}</table></div>'
        f"{_note(note)}</section>"
    )


def _row(system: SystemRow, first: bool) -> str:
    kind = ' class="ours"' if first else ""
    return (
        f"<tr{kind}><td>{escape(system.name)}<small>{escape(system.note)}</small></td><td>{system.f:.3f}</td>"
        f"<td>{system.vi:.3f}</td><td>{system.clusters}</td><td>{system.seconds:.1f}</td></tr>"
    )


def _pair(pair: RecordPair) -> str:
    truth = "the same" if pair.same else "not the same"
    head = f"<tr><th></th><th>{escape(pair.ids[0])}</th><th>{escape(pair.ids[1])}</th></tr>"
    rows = "".join(_field(name, left, pair.cells[1].get(name)) for name, left in pair.cells[0].items())
    return (
        f'<div class="pair"><h3>The same with probability {pair.probability:.2f} <span>in truth {truth}</span></h3>'
        f"<table>{head}{rows}</table></div>"
    )


def _field(name: str, left: str | None, right: str | None) -> str:
    kind = "" if left == right else ' class="differs"'
    return f"<tr{kind}><th>{escape(name)}</th><td>{_cell(left)}</td><td>{_cell(right)}</td></tr>"


def _cell(text: str | None) -> str:
    return "<small>missing</small>" if text is None else escape(text)
