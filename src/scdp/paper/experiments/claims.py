"""What the paper concludes from its tables, as conditions: F, precision and recall enter; whether each holds leaves.

Every condition is applied to the paper's numbers and to ours alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from scdp.paper.experiments.document import Block, Heading, Paragraph, Table
from scdp.paper.experiments.paper import PUBLISHED
from scdp.paper.experiments.results import Row
from scdp.paper.experiments.tasks import TASKS

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
    Claim(
        "SCDP-3 above Binary", "SCDP-3 is above Binary", ("binary", "scdp3"), _above(["scdp3"], ["binary"])
    ),
    Claim(
        "too many clusters",
        "all of SCDP-1, 2 and 3 have a higher precision than recall",
        MODELS,
        _too_many_clusters,
    ),
    Claim(
        "a rule is hard to beat",
        "NameMatch or SameHead is above K-Means, CDP and Xing-K",
        UNTAUGHT,
        _rule_above(UNTAUGHT),
        of_rule=True,
    ),
    Claim(
        "a rule is best",
        "NameMatch or SameHead is above every learner",
        LEARNERS,
        _rule_above(LEARNERS),
        of_rule=True,
    ),
)


def claims_chapter(rows: Sequence[Row]) -> list[Block]:
    """Which of the paper's conclusions hold here, on the tasks where all of their systems were run."""
    ours = {
        task: {row["system"]: row["metrics"] for row in rows if row["task"] == task} for task in PUBLISHED
    }
    tasks = [task for task in PUBLISHED if ours[task]]
    lines = [
        (claim.name, *(answer(claim, task, ours[task]) for task in tasks), claim.text) for claim in CLAIMS
    ]
    answered = tuple(line for line in lines if any(line[1:-1]))
    if not answered:
        return []
    return [
        Heading("The paper's conclusions"),
        Paragraph(
            "Whether each holds, by F unless it says otherwise: first for our numbers, in brackets for the paper's "
            "own. An empty cell: the claim is not about this task, or a system was not run."
        ),
        Table(
            ("claim", *(TASKS[task].title for task in tasks), "in full"),
            answered,
            words=(0, len(tasks) + 1),
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
