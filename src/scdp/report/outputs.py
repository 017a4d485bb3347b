"""The files of a result: clusters and what is asked for beside them become files, all of them or none."""

from __future__ import annotations

import json
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scdp._typing import Floats
from scdp.errors import InputError
from scdp.estimators.result import WORDS as VERDICT_WORDS
from scdp.io.atomic import Staged, write_text
from scdp.io.targets import (
    DELIMITERS,
    Given,
    check_table_target,
    check_target,
    list_given,
    stage_spreadsheet,
    stage_table,
)
from scdp.report import escape, footnote, isolate, section, shorten, verdict, whole_page
from scdp.report.charts import calibration_plot, format_short, histogram, size_bars, trace_lines
from scdp.report.sections import (
    CLUSTERS_STYLE,
    THRESHOLD,
    cluster_script,
    clusters_section,
    doubt_section,
    judge_calibration,
    judge_chains,
    judge_independent,
    uncertain_section,
    weights_section,
)
from scdp.results import FolderMaker, check_result_target, list_files, stage_result

if TYPE_CHECKING:
    from scdp.estimators import Estimator
    from scdp.estimators.result import ClusterResult, Learned
    from scdp.posterior import Diagnostic


LEVEL = 0.9
SURE = 0.9
N_LARGEST = 3
MOST_TRACES = 6

STYLE = """
.trust{border-left:6px solid var(--green);background:var(--card);padding:10px 16px;border-radius:4px;margin:16px 0}
.trust b::before{content:"";display:inline-block;width:.8em;height:.8em;border-radius:50%;background:var(--green);
margin-right:.5em}
.trust.amber,.trust.amber b::before{border-color:var(--amber)}.trust.amber b::before{background:var(--amber)}
.trust.red{border-color:var(--red)}.trust.red b::before{background:var(--red)}
.trust ul{margin:6px 0 0;padding-left:20px}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:12px;margin:16px 0}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px;min-width:0}
.tiles b{display:block;font-size:1.5rem;line-height:1.2}
.tiles span{color:var(--soft);font-size:.88rem}
.range{display:block;position:relative;height:8px;border-radius:4px;background:var(--line);margin:8px 0 6px}
.range i{position:absolute;top:0;height:100%;min-width:3px;border-radius:4px;background:var(--pale)}
.range i+i{width:3px;min-width:3px;background:var(--blue)}
.bars>div{display:grid;grid-template-columns:minmax(0,11rem) 1fr auto;gap:8px;align-items:center;
padding:3px 0;font-size:.9rem}
.bars span{overflow-wrap:anywhere}
.bars i{height:12px;border-radius:3px;background:var(--blue);min-width:2px}
.bars small{color:var(--soft);white-space:nowrap}
.traces{display:grid;grid-template-columns:1fr 1fr;gap:12px 20px;margin:12px 0}
.traces h3{font-size:.88rem;font-weight:600;margin:0 0 4px}
.heat{margin-top:12px}
.heat td{text-align:center;border:2px solid var(--card);padding:6px 4px}
.heat th{text-align:center;white-space:normal;border:0}
.heat th:first-child{text-align:left;min-width:5rem;overflow-wrap:anywhere}
.bad{color:var(--orange);font-weight:600}
mark{background:var(--mark);color:inherit;border-radius:2px}
.aside th,.aside td{color:var(--soft)}
summary{cursor:pointer;color:var(--blue);padding:8px 0}
.calibration svg{max-width:360px;margin:0 auto}
@media(max-width:760px){.tiles{grid-template-columns:1fr 1fr}.traces{grid-template-columns:1fr}}
@media(max-width:480px){.bars>div{grid-template-columns:minmax(0,6.5rem) 1fr;gap:0 8px}.bars small{grid-column:2}}
"""
SHOWN_METRICS = {
    "f": ("F", "of pairs: the balance of the two beside"),
    "precision": ("Precision", "of the links made, so many are right"),
    "recall": ("Recall", "of the true links, so many are made"),
    "b_cubed": ("B-cubed F", "as a record sees its own cluster"),
}


def write_report(path: str | PathLike[str], result: ClusterResult) -> None:
    """Write the page, whole or not at all."""
    write_text(Path(path), report_html(result))


def report_html(result: ClusterResult) -> str:
    """The page as one text."""
    rows = [] if result.independent_draws else result.posterior.diagnostics()
    trust = judge_chains(result.posterior, rows) if rows else judge_independent(result.posterior)
    body = [
        f'<h1>{escape(result.title)}</h1><p class="lead">{escape(_lead(result))}</p>',
        _trust_banner(result),
        _estimate_tiles(result),
        _tiles(result),
        f'<div class="figures"><div>{_number_section(result)}</div><div>{_sizes_section(result)}</div>',
        f"</div>{_make_learned_sections(result)}",
        _draws_section(result, rows, verdict(*trust)),
        doubt_section(result),
        uncertain_section(result),
        clusters_section(result),
    ]
    return whole_page(result.title, body, STYLE + CLUSTERS_STYLE, cluster_script())


def _trust_banner(result: ClusterResult) -> str:
    """The verdict in words and colour, before anything else."""
    found = result.verdict
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in found.reasons)
    return f'<div class="trust {found.colour}"><b>{escape(VERDICT_WORDS[found.colour])}</b><ul>{reasons}</ul></div>'


def _make_learned_sections(result: ClusterResult) -> str:
    """Side by side where both hold a picture."""
    learned = result.learned
    trusted = result.verdict.colour == "green"
    both = weights_section(learned, result.feature_names), _calibration_section(learned, trusted)
    if learned.weights is None or learned.calibration is None:
        return "".join(both)
    return f'<div class="figures"><div>{both[0]}</div><div>{both[1]}</div></div>'


def _lead(result: ClusterResult) -> str:
    learned, new = result.learned, len(result.posterior.hidden)
    known = f" beside {result.n_known:,} records whose clusters were given" if result.n_known else ""
    return (
        f"{new:,} records were put into clusters{known} by the model {learned.model}, which had learned from "
        f"{learned.n_records:,} records in {learned.n_clusters:,} clusters. "
        "It was not told how many there are."
    )


def _count_found(result: ClusterResult) -> int:
    """Clusters that hold a record whose cluster was asked for."""
    return len(set(result.labels[result.posterior.hidden].tolist()))


def _estimate_tiles(result: ClusterResult) -> str:
    """How good the answer is by the model's own draws: each metric with its interval as a bar."""
    tiles = []
    for name, (title, words) in SHOWN_METRICS.items():
        mean, low, high = (result.expected[name][key] for key in ("mean", "low", "high"))
        bar = (
            f'<i style="left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%"></i>'
            f'<i style="left:{min(100 * mean, 99):.1f}%"></i>'
        )
        tiles.append(
            f'<div><b>{mean:.3f}</b><span>{title}, {words}</span><span class="range">{bar}</span>'
            f"<span>{LEVEL:.0%} interval {low:.3f} to {high:.3f}</span></div>"
        )
    title = "How good is it? Estimated without gold clusters, from the draws"
    return f'<h2>{title}</h2><div class="tiles">{"".join(tiles)}</div>'


def _tiles(result: ClusterResult) -> str:
    hidden = result.posterior.hidden
    low, high = result.posterior.n_clusters_interval(LEVEL, hidden_only=True)
    sure = float((result.probabilities[hidden] >= SURE).mean()) if len(hidden) else 1.0
    tiles = [
        (f"{len(hidden):,}", "records clustered"),
        (f"{_count_found(result):,}", f"clusters found; {LEVEL:.0%} interval {low:,} to {high:,}"),
        (f"{sure:.0%}", f"of the records belong to their cluster with probability {SURE} or more"),
        (f"{len(result.uncertain):,}", "uncertain pairs of records; the least certain are below"),
    ]
    return f'<div class="tiles">{"".join(f"<div><b>{big}</b><span>{words}</span></div>" for big, words in tiles)}</div>'


def _number_section(result: ClusterResult) -> str:
    title, posterior = "How many clusters?", result.posterior
    if not len(posterior.hidden):
        return section(title, "<p>The cluster of every record was given.</p>")
    interval = posterior.n_clusters_interval(LEVEL, hidden_only=True)
    chart = histogram(posterior.stored.n_hidden_clusters, interval, _count_found(result), word="found")
    note = (
        f"Share of {posterior.n_chains * posterior.n_draws:,} draws; bars in full colour are the {LEVEL:.0%} interval. "
        "The line is the clustering given out, which is nearest to all draws."
    )
    if not interval[0] <= _count_found(result) <= interval[1]:
        note += " It may lie outside: what draws have in common need not have as many clusters as any of them."
    if result.n_known:
        note += " Clusters that hold only given records are not counted."
    return section(title, chart, note)


def _sizes_section(result: ClusterResult) -> str:
    names, sizes = np.unique(result.labels, return_counts=True)
    largest = np.argsort(-sizes, kind="stable")[:N_LARGEST]
    words = ", ".join(f"{isolate(shorten(str(names[k]), 40))} ({sizes[k]:,} records)" for k in largest)
    chart = size_bars(sizes) + f'<p class="note">Above each bar the number of clusters. The largest: {words}.</p>'
    return section("How large are they?", chart)


def _calibration_section(learned: Learned, trusted: bool) -> str:
    """`trusted` is whether the verdict on the records at hand is green: nothing here is, where that is not."""
    title, calibration = "Can the probabilities be believed?", learned.calibration
    if calibration is None:
        words = "Not measured: it is read from training clusters that are held out, and this model held none out."
        return section(title, f"<p>{words}</p>")
    words, good = judge_calibration(calibration)
    if good:
        words += " These pairs are of the labelled clusters; the verdict at the top is on the records at hand."
    chart = calibration_plot(calibration.predicted, calibration.observed, calibration.count)
    note = (
        f"{calibration.count.sum():,} pairs of training records whose clusters were held out, by predicted probability "
        "of being together. A dot is larger the more pairs it stands for; on the line, predictions are right."
    )
    return section(title, f'{verdict(words, good and trusted)}<div class="calibration">{chart}</div>', note)


def _draws_section(result: ClusterResult, rows: list[Diagnostic], content: str) -> str:
    if not rows:
        return section("Can the draws be trusted?", content)
    names = _name_scalars(rows)
    content += f'<div class="traces">{"".join(_trace(*each) for each in _traces(result, names))}</div>'
    content += f"<details><summary>All diagnostics</summary>{_diagnostics_table(rows, names)}</details>"
    note = (
        f"One line for each of {result.posterior.n_chains} chains, along its draws: lines that lie over one another "
        "and wander about the same height are good, lines that keep apart or still climb are not."
    )
    return section("Can the draws be trusted?", content, note)


def _name_scalars(rows: list[Diagnostic]) -> dict[str, str]:
    from scdp.posterior.recorder import WORDS

    names = {row.name: WORDS.get(row.name, row.name.replace("_", " ")) for row in rows}
    return {name: words.removeprefix("the ") for name, words in names.items()}


def _traces(result: ClusterResult, names: dict[str, str]) -> list[tuple[str, Floats]]:
    scalars = {"n_clusters": result.posterior.n_clusters.astype(np.float64), **result.posterior.traces}
    moving = [name for name, values in scalars.items() if np.ptp(values) != 0]
    return [(names.get(name, name), scalars[name]) for name in moving[:MOST_TRACES]]


def _trace(name: str, values: Floats) -> str:
    return f"<div><h3>{escape(_capital(name))}</h3>{trace_lines(values, name)}</div>"


def _diagnostics_table(rows: list[Diagnostic], names: dict[str, str]) -> str:
    pairs = [row for row in rows if row.name.startswith("together[")]
    head = "<tr><th></th><th>mean</th><th>sd</th><th>R-hat</th><th>effective draws</th></tr>"
    lines = [_diagnostic(names[row.name], row) for row in rows if row not in pairs]
    if pairs:
        worst = max(pairs, key=lambda row: -1.0 if np.isnan(row.rhat) else row.rhat)
        lines.append(_diagnostic(f"worst of {len(pairs)} pairs: together or not", worst))
    note = f"R-hat above {THRESHOLD} is marked: the chains do not agree there yet."
    return f'<div class="scroll"><table>{head}{"".join(lines)}</table></div>{footnote(note)}'


def _diagnostic(name: str, row: Diagnostic) -> str:
    kind = ' class="bad"' if row.rhat > THRESHOLD else ""
    rhat = "–" if np.isnan(row.rhat) else f"{row.rhat:.2f}"
    return (
        f"<tr><td>{escape(_capital(name))}</td><td>{format_short(row.mean)}</td><td>{format_short(row.sd)}</td>"
        f"<td{kind}>{rhat}</td><td>{format_short(row.ess_bulk)}</td></tr>"
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


class Outputs(NamedTuple):
    """The files to write; None = not asked for."""

    out: Path
    uncertain: Path
    report: Path | None
    draws: Path | None
    spreadsheet: Path | None
    summary: Path | None
    pairs: Path | None = None
    golden: Path | None = None
    at_least: float = 0.01

    def list_given(self) -> list[Given]:
        """The files by their options."""
        inside = [] if self.draws is None else [Given("--draws", path) for path in list_files(self.draws)]
        paths = {f"--{name}": path for name, path in self._asdict().items() if name != "at_least"}
        return [*list_given(paths), *inside]

    def check(self) -> None:
        """Refuse what cannot be written, before anything is done."""
        for path in filter(None, (self.uncertain, self.pairs, self.golden)):
            check_table_target(path)
        for path in filter(None, (self.report, self.spreadsheet, self.summary)):
            check_target(path)
        if self.draws is not None:
            check_result_target(self.draws)
        if self.spreadsheet is not None and self.spreadsheet.suffix.lower() not in DELIMITERS:
            raise InputError(f"{self.spreadsheet}: spreadsheets open text files; name it .csv or .tsv")


def write_outputs(result: ClusterResult, model: Estimator, outputs: Outputs, force: bool) -> None:
    """All files appear together, or none."""
    out, uncertain, report, draws, spreadsheet, summary, pairs, golden, at_least = outputs
    with nullcontext() if draws is None else FolderMaker(draws), Staged(replace=force) as staged:
        stage_table(staged, uncertain, uncertain_columns(result))
        if draws is not None:
            stage_result(staged, draws, result, model)
        if report is not None:
            staged.write(report, lambda part: write_report(part, result))
        if spreadsheet is not None:
            stage_spreadsheet(staged, spreadsheet, spreadsheet_columns(result))
        if summary is not None:
            staged.text(summary, json.dumps(result.summary(), indent=1) + "\n")
        if pairs is not None:
            _stage_pairs(staged, pairs, result, at_least)
        if golden is not None:
            from scdp.results.estimate import make_golden

            rules = {} if result.spec is None else dict(result.spec.golden)
            stage_table(staged, golden, make_golden(result, rules))
        stage_table(staged, out, cluster_columns(result))


def _stage_pairs(staged: Staged, path: Path, result: ClusterResult, at_least: float) -> None:
    from scdp.io.targets import write_parquet
    from scdp.results.estimate import list_pairs

    columns = list_pairs(result, at_least)
    if path.suffix.lower() == ".parquet":
        staged.write(path, lambda part: write_parquet(part, columns))
    else:
        stage_table(staged, path, columns)


def id_title(result: ClusterResult) -> str:
    """The name of the column of ids, unless that would be taken for another."""
    name = result.id_column
    return "id" if name is None or name in ("cluster", "probability") else name


def cluster_columns(result: ClusterResult) -> dict[str, list[object]]:
    """The columns of the file of clusters."""
    return {
        id_title(result): list(map(str, result.ids.tolist())),
        "cluster": list(map(str, result.labels.tolist())),
        "probability": _round_probabilities(result.probabilities),
    }


def _round_probabilities(probabilities: Floats) -> list[object]:
    """To four digits; of very many, few differ."""
    values, places = np.unique(probabilities, return_inverse=True)
    few = np.array([round(value, 4) for value in values.tolist()], dtype=object)
    rounded: list[object] = few[places].tolist()
    return rounded


def spreadsheet_columns(result: ClusterResult) -> dict[str, list[object]]:
    """The clusters with all cells of their records, the rows of a cluster one after another."""
    columns = cluster_columns(result)
    for name in result.records.names:
        if name != result.id_column:
            title = f"{name}_given" if name in columns else name
            columns[title] = [cell or "" for cell in result.records[name]]
    rows = sorted(range(result.n_records), key=lambda row: (str(result.labels[row]), str(result.ids[row])))
    return {title: [cells[row] for row in rows] for title, cells in columns.items()}


def uncertain_columns(result: ClusterResult) -> dict[str, list[object]]:
    """The columns of the file of uncertain pairs."""
    pairs = result.uncertain
    return {
        "id1": [str(result.ids[pair.left]) for pair in pairs],
        "id2": [str(result.ids[pair.right]) for pair in pairs],
        "probability": [round(pair.probability, 4) for pair in pairs],
        "together": ["yes" if pair.together else "no" for pair in pairs],
    }
