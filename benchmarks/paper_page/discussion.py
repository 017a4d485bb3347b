"""Where we agree and disagree with the paper: rows and remarks enter; a verdict for every row of its tables leaves.

Numbers and verdicts are computed from the run. The reasons are written by people, in discussion.toml, each with the
experiment that shows it, for the verdicts it was written for: where a run gives others, it is not shown.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.paper_page.chapters import NONE, SUMMARY_SYSTEMS, score
from benchmarks.paper_page.document import Block, Heading, Paragraph, TextTable
from scdp.paper.results import Row
from scdp.paper.systems import SYSTEMS
from scdp.paper.tasks import FEATURES, PUBLISHED, TASKS

# Metrics by name, by system.
Scores = Mapping[str, Mapping[str, float]]
UNLEARNED, MODELS = ("kmeans", "cdp"), ("scdp1", "scdp2", "scdp3")
# The simple rule on names of a task.
RULE = MappingProxyType({"identity": "namematch", "coreference": "samehead"})


@dataclass(frozen=True)
class Claim:
    """A conclusion in short and in full, the systems it is about, and when it is true of a table.

    `of_rule` claims set the task's rule against the systems, and are about the tasks that have one.
    """

    name: str
    text: str
    systems: tuple[str, ...]
    holds: Callable[[Scores], bool]
    of_rule: bool = False

    def needs(self, task: str) -> tuple[str, ...]:
        return (*self.systems, RULE[task]) if self.of_rule else self.systems

    def is_about(self, task: str) -> bool:
        return not self.of_rule or task in RULE


def _above(better: Sequence[str], worse: Sequence[str]) -> Callable[[Scores], bool]:
    """Every one of the first has a higher F than every one of the others."""

    def holds(scores: Scores) -> bool:
        return min(scores[name]["f"] for name in better) > max(scores[name]["f"] for name in worse)

    return holds


def _rule_above(others: Sequence[str]) -> Callable[[Scores], bool]:
    def holds(scores: Scores) -> bool:
        rule = [name for name in RULE.values() if name in scores]
        return _above(rule, others)(scores)

    return holds


def _rising(scores: Scores) -> bool:
    first, second, third = (scores[name]["f"] for name in MODELS)
    return first < second < third


def _too_many_clusters(scores: Scores) -> bool:
    return all(scores[name]["p"] > scores[name]["r"] for name in MODELS)


UNTAUGHT, LEARNERS = (*UNLEARNED, "xingk"), ("binary", "xingk", *MODELS)
CLAIMS = (
    Claim(
        "training pays",
        "SCDP-2 and SCDP-3 are above K-Means and CDP, which learn nothing",
        (*UNLEARNED, *MODELS[1:]),
        _above(MODELS[1:], UNLEARNED),
    ),
    Claim(
        "K-Means above CDP",
        "K-Means, which is told the number of clusters, is above CDP",
        UNLEARNED,
        _above(["kmeans"], ["cdp"]),
    ),
    Claim(
        "a metric helps",
        "Xing-K, k-means with a learned metric, is above K-Means",
        ("kmeans", "xingk"),
        _above(["xingk"], ["kmeans"]),
    ),
    Claim("1 < 2 < 3", "SCDP-1 is below SCDP-2, and SCDP-2 below SCDP-3", MODELS, _rising),
    Claim("SCDP-3 above Binary", "SCDP-3 is above Binary", ("binary", "scdp3"), _above(["scdp3"], ["binary"])),
    Claim(
        "too many clusters", "all of SCDP-1, 2 and 3 have a higher precision than recall", MODELS, _too_many_clusters
    ),
    Claim(
        "a rule is hard to beat",
        "NameMatch or SameHead is above K-Means, CDP and Xing-K",
        UNTAUGHT,
        _rule_above(UNTAUGHT),
        of_rule=True,
    ),
    Claim(
        "a rule is best", "NameMatch or SameHead is above every learner", LEARNERS, _rule_above(LEARNERS), of_rule=True
    ),
)


def claims_chapter(rows: Sequence[Row]) -> list[Block]:
    """Which of the paper's conclusions hold here, on the tasks where all of their systems were run."""
    ours = {
        (task, features): {
            row["system"]: row["metrics"] for row in rows if row["task"] == task and row["features"] == features
        }
        for task in PUBLISHED
        for features in FEATURES
    }
    places = [place for place, scores in ours.items() if scores]
    lines = [(claim.name, *(answer(claim, place[0], ours[place]) for place in places), claim.text) for claim in CLAIMS]
    answered = tuple(line for line in lines if any(line[1:-1]))
    if not answered:
        return []
    return [
        Heading("The paper's conclusions"),
        Paragraph(
            "Whether each holds, by F unless it says otherwise: first for our numbers, in brackets for the paper's "
            "own. An empty cell: the claim is not about this task, or a system was not run."
        ),
        TextTable(
            ("claim", *(f"{TASKS[task].title}, {features}" for task, features in places), "in full"),
            answered,
            words=(0, len(places) + 1),
        ),
    ]


def answer(claim: Claim, task: str, ours: Scores) -> str:
    """Yes or no for our scores, and in brackets for the paper's."""
    if not claim.is_about(task) or any(name not in ours for name in claim.needs(task)):
        return ""
    here, theirs = claim.holds(ours), claim.holds(PUBLISHED[task])
    return f"{_yes(here)} ({_yes(theirs)})"


def _yes(true: bool) -> str:
    return "yes" if true else "no"


# Two F scores this close are called the same: a convention, not a test.
CLOSE = 0.05
SAME, HIGHER, LOWER, NOT_RUN = "the same", "ours is higher", "ours is lower", "not run"


@dataclass(frozen=True)
class Remark:
    """Why a row of the paper's tables came out as it did at each scale of features, and what shows it.

    A verdict of None is for any.
    """

    unit: str | None
    raw: str | None
    why: str
    command: str

    def fits(self, verdicts: Mapping[str, str]) -> bool:
        """Whether it was written for what a run gives; what was not run contradicts nothing."""
        wanted = {"unit": self.unit, "raw": self.raw}
        return all(wanted[features] in (None, verdict) for features, verdict in verdicts.items() if verdict != NOT_RUN)


Remarks = Mapping[tuple[str, str], Remark]


def written_remarks() -> Remarks:
    """Those of discussion.toml, by task and system."""
    text = Path(__file__).with_name("discussion.toml").read_text(encoding="utf-8")
    return {
        (task, system): Remark(entry.get("unit"), entry.get("raw"), " ".join(entry["why"].split()), entry["command"])
        for task, systems in tomllib.loads(text).items()
        for system, entry in systems.items()
    }


Found = Mapping[tuple[str, str, str], Row]


def comparison_chapter(rows: Sequence[Row], remarks: Remarks | None = None) -> list[Block]:
    """Row by row of the paper's Tables 1 to 4 at each scale of features, and the order of Table 5."""
    tasks = [task for task in PUBLISHED if any(row["task"] == task for row in rows)]
    if not tasks:
        return []
    found = {(row["task"], row["features"], row["system"]): row for row in rows}
    blocks: list[Block] = [
        Heading("Where we agree and disagree with the paper"),
        Paragraph(
            f"F scores within {CLOSE:.2f} of each other are called the same. "
            + " ".join(_tally(features, found) for features in FEATURES)
            + " A reason is given only where an experiment shows it, with the command that runs it."
        ),
    ]
    for task in tasks:
        title = f"{TASKS[task].title} (Table {list(PUBLISHED).index(task) + 1})"
        orders = [block for features in FEATURES for block in _order(task, features, found)]
        blocks += [Heading(title, 3), *orders, _table(task, found, remarks)]
    return blocks


def verdict_on(ours: float, theirs: float) -> str:
    if abs(ours - theirs) <= CLOSE:
        return SAME
    return HIGHER if ours > theirs else LOWER


def _tally(features: str, found: Found) -> str:
    published = [(task, features, system) for task, table in PUBLISHED.items() for system in table]
    verdicts = [verdict(found.get(key)) for key in published if key in found]
    counts = ", ".join(f"in {verdicts.count(each)} {each}" for each in (SAME, HIGHER, LOWER))
    told = f"Of {len(verdicts)} rows with {features} features, F is {counts}.".replace("ours is ", "")
    return told if verdicts else ""


def verdict(row: Row | None) -> str:
    """What is said of a row that may not have been run."""
    return NOT_RUN if row is None else verdict_on(row["metrics"]["f"], row["paper"]["f"])


def _order(task: str, features: str, found: Found) -> list[Block]:
    """Table 5 as an order, where all of its systems were run."""
    if not all((task, features, name) in found for name in SUMMARY_SYSTEMS):
        return []
    ours = {name: float(found[task, features, name]["metrics"]["f"]) for name in SUMMARY_SYSTEMS}
    theirs = {name: PUBLISHED[task][name]["f"] for name in SUMMARY_SYSTEMS}
    text = f"Order by F (Table 5). The paper: {_rank_names(theirs)}. Here, {features}: {_rank_names(ours)}."
    return [Paragraph(text)]


def _rank_names(scores: Mapping[str, float]) -> str:
    names = sorted(scores, key=lambda name: -scores[name])
    return ", ".join(f"{SYSTEMS[name].title} {score(scores[name])}" for name in names)


def _table(task: str, found: Found, remarks: Remarks | None) -> TextTable:
    """For each system the paper's F and VI, and ours with a verdict at each scale that was run."""
    scales = [each for each in FEATURES if any(key[:2] == (task, each) for key in found)]
    lines = []
    for system, paper in PUBLISHED[task].items():
        at = {features: found.get((task, features, system)) for features in scales}
        cells = [SYSTEMS[system].title, score(paper["f"]), score(paper["vi"])]
        cells += [cell for row in at.values() for cell in _compare_row(row)]
        if remarks is not None:
            cells.append(_why(remarks.get((task, system)), {each: verdict(row) for each, row in at.items()}))
        lines.append(tuple(cells))
    header = ["system", "paper's F", "paper's VI"]
    header += [f"{features} {what}" for features in scales for what in ("F", "VI", "verdict on F")]
    words = (0, *(5 + 3 * place for place in range(len(scales))))
    if remarks is None:
        return TextTable(tuple(header), tuple(lines), words=words)
    return TextTable((*header, "what an experiment shows"), tuple(lines), words=(*words, len(header)))


def _compare_row(row: Row | None) -> tuple[str, str, str]:
    if row is None:
        return NONE, NONE, NOT_RUN
    return score(row["metrics"]["f"]), score(row["metrics"]["vi"]), verdict(row)


def _why(remark: Remark | None, verdicts: Mapping[str, str]) -> str:
    if remark is None or set(verdicts.values()) == {NOT_RUN}:
        return ""
    if not remark.fits(verdicts):
        return "Not explained: an earlier run gave another verdict."
    return f"{remark.why} `{remark.command}`"
