"""What a run has to say: rows of results enter, headings, tables with the paper's numbers and notes leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from benchmarks.paper_page.document import Block, Heading, Paragraph, TextTable
from scdp.chains import STARTS
from scdp.paper.results import Row, score
from scdp.paper.systems import SYSTEMS, Settings
from scdp.paper.tasks import FEATURES, METRICS, PUBLISHED, TASKS, parent

PAPER = "Daumé and Marcu, A Bayesian Model for Supervised Clustering with the Dirichlet Process Prior (JMLR 2005)"
NAMES = tuple(name.upper() for name in METRICS)
NONE = "–"


# Table 5 is the F of these systems, taken from Tables 1 to 4.
SUMMARY_SYSTEMS = ("binary", "xingk", "scdp1", "scdp2", "scdp3")


# Hours for one chain of ten thousand sweeps, as the text of Section 7 gives them.
CHAIN_HOURS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "digits": MappingProxyType({"scdp1": 2 / 3, "scdp2": 1.0, "scdp3": 5.0}),
        "identity": MappingProxyType({"scdp1": 24.0, "scdp2": 24.0, "scdp3": 72.0}),
        "coreference": MappingProxyType({"scdp1": 72.0, "scdp2": 72.0, "scdp3": 168.0}),
        "references": MappingProxyType({"scdp1": 24.0, "scdp2": 24.0, "scdp3": 72.0}),
    }
)


# The paper's chains of ten thousand sweeps each.
CHAINS: Mapping[str, int] = MappingProxyType({"digits": 10, "identity": 50, "coreference": 50, "references": 50})


SWEEPS = 10_000


# Rounding to three digits explains less than this.
ROUNDING = 0.02


def contradicting_rows() -> list[tuple[str, str, float, float]]:
    """Task, system, and the printed and the implied Rand index of rows that contradict Coarse of their own table."""
    rows = [(task, system) for task, table in PUBLISHED.items() for system in table]
    both = [(*row, PUBLISHED[row[0]][row[1]]["ri"], _implied_rand_index(*row)) for row in rows]
    return [row for row in both if abs(row[2] - row[3]) > ROUNDING]


def _implied_rand_index(task: str, system: str) -> float:
    """1 minus the share of pairs that are missed and of pairs that are wrongly together."""
    row, together = PUBLISHED[task][system], PUBLISHED[task]["coarse"]["p"]
    found = together * row["r"]
    return 1.0 - (together - found) - (found / row["p"] - found)


def opening(title: str, settings: Settings) -> list[Block]:
    """The title and what was run."""
    kind = "A quick run: fewer chains and sweeps than a full one" if settings.quick else "A full run"
    efforts = {task: settings.effort(task) for task in PUBLISHED}
    ours = ", ".join(
        f"{TASKS[task].title.lower()} {chains} x {sweeps} ({CHAINS[task]} x {SWEEPS})"
        for task, (chains, sweeps) in efforts.items()
    )
    draws, seeds = settings.repeats_of("digits"), settings.repeats_of("references")
    return [
        Heading(title, 1),
        Paragraph(
            f"{PAPER}, run again. {kind}; draws of digit images: {draws}, repeats of the other "
            f"tasks: {seeds}, seed: {settings.seed}. Chains and sweeps of "
            f"the samplers, in brackets the paper's: {ours}. The first half of each chain is not kept."
        ),
    ]


def reading() -> list[Block]:
    """How to read the tables."""
    return [
        Paragraph(
            "In every cell our number comes first and the paper's stands in brackets; after ± is the standard error "
            "over draws of images on the digits, and over seeds of the systems on the other tasks, whose data are "
            "the same in every repeat. Lower is better for CED and VI, higher for the others. Samplers are scored "
            "by the partition of least expected variation of information over all chains; the mean over draws, the "
            "last draws and each chain by itself have a table of their own. The paper's models start their chains "
            "from k-means, from singletons, from one cluster, and so on in turn. Only test items count."
        ),
        Paragraph(
            "Unit: every feature scaled to unit variance, as the paper says, with sigma = 1. Raw: features that are "
            "large beside sigma, as the paper's numbers imply; this choice of scale was found after the fact, by "
            "looking at the paper's own rows. Digits are ten times unit variance; distances of the text tasks are "
            "taken as they come (years and counts as differences, edit distances from 0 to 1), a missing one as 1."
        ),
        Paragraph(
            "Three things to know about the paper's tables. Its CED of Fine is 0 on two sets and 1 on the two others, "
            "and its NES of Coarse is 1 - CED; neither follows from its definitions. And in some rows the Rand index "
            "does not follow from that row's P and R and the share of pairs that are together, which is Coarse's P: "
            f"{_contradictions()}."
        ),
    ]


def _contradictions() -> str:
    found = (
        f"{SYSTEMS[system].title} on {TASKS[task].title.lower()} ({score(printed)} printed, {score(implied)} implied)"
        for task, system, printed, implied in contradicting_rows()
    )
    return ", ".join(found)


def task_chapter(task: str, rows: Sequence[Row]) -> list[Block]:
    """A task's data, and its table for each scale of its features."""
    own = [row for row in rows if row["task"] == task]
    if not own:
        return []
    first = own[0]
    blocks: list[Block] = [
        Heading(TASKS[task].title),
        Paragraph(
            f"Data: {first['data']}. {first['stands_in']} Test part: {number(first['items'])} items in "
            f"{number(first['gold_clusters'])} clusters."
        ),
    ]
    for features, at_scale in _by_scale(own):
        blocks += [Heading(f"{features.capitalize()} features", 3), score_table(at_scale)]
    return blocks


def details_chapter(task: str, rows: Sequence[Row]) -> list[Block]:
    """For each scale of a task's features: draws, chains by their start, other edit distances, and notes."""
    blocks: list[Block] = []
    for features, own in _by_scale([row for row in rows if row["task"] == task]):
        title = f"{TASKS[task].title}, {features} features"
        if any(row["draws"] for row in own):
            blocks += [Heading(f"{title}: draws"), draws_table(own)]
            blocks += [Heading(f"{title}: chains by their start"), starts_table(own)]
        blocks += [Heading(f"{title}: edit distances with free merges"), merge_free_table(own)]
        notes = tuple((row["title"], text) for row in own if (text := _note(row)))
        if notes:
            blocks += [Heading(f"{title}: notes"), TextTable(("system", "note"), notes, words=(0, 1))]
    return blocks


def _by_scale(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    found = ((features, [row for row in rows if row["features"] == features]) for features in FEATURES)
    return [(features, own) for features, own in found if own]


def merge_free_table(rows: Sequence[Row]) -> TextTable:
    """CED and NES as defined and with merges that cost nothing, the paper's in brackets."""
    lines = []
    for row in rows:
        paper, found = row["paper"] or {}, row["metrics"] | row["more_metrics"]
        strict = (beside(found[name], paper.get(name)) for name in ("ced", "nes"))
        free = (beside(found[f"{name}_merge_free"], paper.get(name)) for name in ("ced", "nes"))
        lines.append((make_title(row), *strict, *free))
    return TextTable(("system", "CED", "NES", "CED, merges free", "NES, merges free"), tuple(lines))


def _note(row: Row) -> str:
    oracle = f"Oracle: {row['oracle']}." if row["oracle"] else ""
    return " ".join(filter(None, (oracle, row["note"])))


def score_table(rows: Sequence[Row]) -> TextTable:
    """Our metrics with the paper's in brackets, and what they cost."""
    header = ("system", *NAMES, "clusters", "draws", "seconds", "chains", "sweeps", "R-hat")
    return TextTable(header, tuple(_score_row(row) for row in rows))


def _score_row(row: Row) -> tuple[str, ...]:
    paper, error = row["paper"] or {}, row["standard_error"] or {}
    cells = (beside(row["metrics"][name], paper.get(name), error.get(name)) for name in METRICS)
    return (
        make_title(row),
        *cells,
        number(row["clusters"]),
        number(row["repeats"]),
        seconds(row["seconds"]),
        number(row["chains"]),
        number(row["sweeps"]),
        NONE if row["r_hat"] is None else f"{row['r_hat']:.2f}",
    )


def make_title(row: Row) -> str:
    return row["title"] + (" (oracle)" if row["oracle"] else "")


def draws_table(rows: Sequence[Row]) -> TextTable:
    """For samplers: the mean over draws with its standard deviation over chains, and the mean over last draws."""
    sampled = [row for row in rows if row["draws"]]
    header = ("system", *(f"{name}, mean ± chains" for name in NAMES), "clusters", "F, last", "VI, last")
    return TextTable(header, tuple(map(_draws_row, sampled)))


def _draws_row(row: Row) -> tuple[str, ...]:
    draws = row["draws"]
    spread = draws["spread"] or {}
    cells = (with_spread(draws["mean"][name], spread.get(name)) for name in METRICS)
    clusters = f"{draws['clusters']:.1f}"
    if draws["clusters_spread"] is not None:
        clusters += f" ± {draws['clusters_spread']:.1f}"
    last = (score(draws["last"][name]) for name in ("f", "vi"))
    return make_title(row), *cells, clusters, *last


def starts_table(rows: Sequence[Row]) -> TextTable:
    """For the paper's models: the mean over the draws of each chain, by where it started."""
    sampled = [row for row in rows if row["sweeps"] and row["draws"]]
    n_chains = max((len(row["draws"]["by_chain"]) for row in sampled), default=0)
    starts = [STARTS[chain % len(STARTS)] for chain in range(n_chains)]
    header = ("system", *(f"{start}: {what}" for start in starts for what in ("F", "VI", "clusters")))
    lines = []
    for row in sampled:
        cells = [_start_cells(chain, row["paper"] or {}) for chain in row["draws"]["by_chain"]]
        lines.append((make_title(row), *(cell for chain in cells for cell in chain)))
    return TextTable(header, tuple(lines))


def _start_cells(chain: dict[str, Any], paper: dict[str, float]) -> tuple[str, ...]:
    error = chain["standard_error"] or {}
    scores = (beside(chain["mean"][name], paper.get(name), error.get(name)) for name in ("f", "vi"))
    return (*scores, f"{chain['mean']['clusters']:.1f}")


def summary_chapter(rows: Sequence[Row]) -> list[Block]:
    """Table 5 of the paper: F of the learning systems, and of all others we ran, by task and scale of features."""
    places = [(task, features) for task in TASKS for features in FEATURES]
    found = {(row["task"], row["features"], row["system"]): row for row in rows}
    shown = [place for place in places if any(key[:2] == place for key in found)]
    names = [name for name in SYSTEMS if any(row["system"] == name for row in rows)]
    names.sort(key=lambda name: name not in SUMMARY_SYSTEMS)
    lines = []
    for name in names:
        cells = [found.get((*place, name)) for place in shown]
        lines.append((SYSTEMS[name].title, *(_f_cell(cell) for cell in cells)))
    header = ("system", *(f"{TASKS[task].title}, {features}" for task, features in shown))
    return [Heading("Summary: F on all tasks (Table 5)"), TextTable(header, tuple(lines))]


def _f_cell(row: Row | None) -> str:
    if row is None:
        return NONE
    paper, error = row["paper"] or {}, row["standard_error"] or {}
    return beside(row["metrics"]["f"], paper.get("f"), error.get("f"))


def authors_chapter(rows: Sequence[Row]) -> list[Block]:
    """The mean of F and VI over the three authors of the references, where all three were run."""
    authors = [task for task in TASKS if parent(task) == "references"]
    lines = []
    for name, system in SYSTEMS.items():
        own = [row for row in rows if row["system"] == name and row["task"] in authors and row["features"] == "unit"]
        if len(own) == len(authors):
            mean = [sum(row["metrics"][metric] for row in own) / len(own) for metric in ("f", "vi", "nvi")]
            paper = PUBLISHED["references"].get(name, {})
            cells = (beside(value, paper.get(key)) for key, value in zip(("f", "vi", "nvi"), mean, strict=True))
            lines.append((system.title, *cells))
    if not lines:
        return []
    return [
        Heading("Reference matching: mean over the three authors"),
        TextTable(("system", "F", "VI", "NVI"), tuple(lines)),
    ]


def speed_chapter(rows: Sequence[Row]) -> list[Block]:
    """The time of ten thousand sweeps of one chain beside the paper's."""
    lines = [_speed(row) for row in rows if row["sweep_seconds"] and row["features"] == "unit"]
    if not lines:
        return []
    return [
        Heading("Speed: ten thousand sweeps of one chain"),
        Paragraph(
            "Time on the clock while as many chains as cores were running, without the first sweep of each, and "
            "extrapolated from the sweeps that were run; whatever else the machine did is in it. The paper's "
            "machines are twenty years older; its hours say what a run cost then."
        ),
        TextTable(("task", "system", "ours, seconds", "paper, hours", "ratio"), tuple(lines), words=(0, 1)),
    ]


def _speed(row: Row) -> tuple[str, ...]:
    ours = row["sweep_seconds"] * SWEEPS
    hours = CHAIN_HOURS[parent(row["task"])].get(row["system"])
    theirs = (NONE, NONE) if hours is None else (f"{hours:.3g}", f"{hours * 3600 / ours:.0f} x")
    return TASKS[row["task"]].title, row["title"], f"{ours:.0f}", *theirs


def beside(ours: float, paper: float | None, error: float | None = None) -> str:
    """Our number, its standard error if there is one, and the paper's in brackets."""
    return f"{with_spread(ours, error)} ({NONE if paper is None else score(paper)})"


def with_spread(value: float, spread: float | None) -> str:
    return score(value) if spread is None else f"{score(value)} ± {score(spread)}"


def number(value: float | None) -> str:
    if value is None:
        return NONE
    return str(value) if isinstance(value, int) else f"{value:.1f}"


def seconds(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"
