"""The report: a table, figures and pairs of records enter; one HTML page that asks the network for nothing leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scdp.report.layout import MISSING, field_row, isolated, section, shown, verdict, whole_page


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
    """All that is on the page. The first system is ours; `good` is whether the verdict is a good one."""

    title: str
    lead: str
    verdict: str
    good: bool
    first: Figure
    second: Figure
    systems: Sequence[SystemRow]
    table_note: str
    pairs: Sequence[RecordPair]

    def html(self) -> str:
        """The page as one text."""
        body = [
            f'<h1>{shown(self.title)}</h1><p class="lead">{shown(self.lead)}</p>',
            verdict(self.verdict, self.good),
            f'<div class="figures"><div>{_figure(self.first)}{_table(self.systems, self.table_note)}</div>',
            f"<div>{_figure(self.second)}</div></div>",
            section("The most uncertain pairs", "\n".join(map(_pair, self.pairs))),
        ]
        return whole_page(self.title, body)


def _figure(figure: Figure) -> str:
    return section(figure.title, figure.chart, figure.note)


def _table(systems: Sequence[SystemRow], note: str) -> str:
    head = "<tr><th>system</th><th>F</th><th>VI</th><th>clusters</th><th>seconds</th></tr>"
    rows = "".join(_row(system, first=place == 0) for place, system in enumerate(systems))
    return section("Scores on the new items", f'<div class="scroll"><table>{head}{rows}</table></div>', note)


def _row(system: SystemRow, first: bool) -> str:
    kind = ' class="ours"' if first else ""
    return (
        f"<tr{kind}><td>{shown(system.name)}<small>{shown(system.note)}</small></td><td>{system.f:.3f}</td>"
        f"<td>{system.vi:.3f}</td><td>{system.clusters}</td><td>{system.seconds:.1f}</td></tr>"
    )


def _pair(pair: RecordPair) -> str:
    truth = "the same" if pair.same else "not the same"
    head = f"<tr><th></th><th>{shown(pair.ids[0])}</th><th>{shown(pair.ids[1])}</th></tr>"
    rows = "".join(_field(name, left, pair.cells[1].get(name)) for name, left in pair.cells[0].items())
    return (
        f'<div class="pair"><h3>The same with probability {pair.probability:.2f} <span>in truth {truth}</span></h3>'
        f"<table>{head}{rows}</table></div>"
    )


def _field(name: str, left: str | None, right: str | None) -> str:
    kinds = ("differs",) if left != right else ()
    return field_row(name, _cell(left), _cell(right), *kinds)


def _cell(text: str | None) -> str:
    return MISSING if text is None else isolated(text)
