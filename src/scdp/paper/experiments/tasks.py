"""The paper's four tasks: a name and a repeat enter; training and test items leave, and what stands in for what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from scdp.datasets import Task
from scdp.errors import DataNotFoundError, InputError
from scdp.paper.specs import coreference_spec, identity_spec, references_spec
from scdp.table.spec import Spec


@dataclass(frozen=True)
class Problem:
    """A task with the comparisons of its records (None: its items are vectors), and the scale of its features."""

    name: str
    task: Task
    spec: Spec | None
    features: str = "unit"


@dataclass(frozen=True)
class Entry:
    """How a task is loaded (from a seed and the scale of its features), compared and described.

    `extra` tasks, of which the paper has no table, are left out of `all`, of quick runs and of raw features.
    """

    title: str
    load: Callable[[int, str], Task]
    spec: Callable[[], Spec] | None
    stands_in: str
    extra: bool = False


def _digits(seed: int, features: str) -> Task:
    from scdp.paper.datasets import load_digits_task

    try:
        return load_digits_task(seed, features=features)
    except DataNotFoundError:
        return load_digits_task(seed, fallback=True, features=features)


def _identity(seed: int, features: str) -> Task:
    from scdp.paper.datasets import load_identity

    return load_identity()


def _coreference(seed: int, features: str) -> Task:
    from scdp.paper.datasets import load_coreference

    return load_coreference()


def _freund(seed: int, features: str) -> Task:
    from scdp.paper.datasets import load_references

    return load_references("Freund")


def _kearns(seed: int, features: str) -> Task:
    from scdp.paper.datasets import load_references

    return load_references("Kearns")


def _schapire(seed: int, features: str) -> Task:
    from scdp.paper.datasets import load_references

    return load_references("Schapire")


_CORA = (
    "The paper's own Cora references; it does not say which author it tested on, and its file had 121 "
    "publications where ours has 115. Train on two authors, test on {}."
)

TASKS: MappingProxyType[str, Entry] = MappingProxyType(
    {
        "digits": Entry(
            "Digits",
            _digits,
            None,
            "Train on 1, 3, 5, 8 and 9, test on 0, 2, 4, 6 and 7, as in the paper, whose digits are those of USPS; "
            "which 30 to 300 images of each it drew is not published, so each repeat draws its own.",
        ),
        "identity": Entry(
            "Identity uncertainty",
            _identity,
            identity_spec,
            "ACL Anthology author mentions, a sample of the same size, in place of the paper's researchers from "
            "DBLP, which we could not get. Names that several persons share were sampled on purpose.",
        ),
        "coreference": Entry(
            "Proper noun coreference",
            _coreference,
            coreference_spec,
            "Proper-noun mentions of GUM in six genres in place of ACE 2004 news, which is sold by the LDC and "
            "cannot be passed on.",
        ),
        "references": Entry("Reference matching", _freund, references_spec, _CORA.format("Freund")),
        "references-kearns": Entry(
            "Reference matching, Kearns", _kearns, references_spec, _CORA.format("Kearns"), extra=True
        ),
        "references-schapire": Entry(
            "Reference matching, Schapire", _schapire, references_spec, _CORA.format("Schapire"), extra=True
        ),
    }
)
# Only the digits are drawn anew in each repeat; elsewhere repeats differ by the systems' own randomness.
DRAWN_BY_SEED = ("digits",)
# Scales of features: unit variance, as the paper says, and as they come, as its numbers imply.
FEATURES = ("unit", "raw")


def load_problem(name: str, seed: int, features: str = "unit") -> Problem:
    """The named task; `seed` draws the images of the digits."""
    entry = TASKS[name]
    spec = None if entry.spec is None else entry.spec()
    return Problem(name, entry.load(seed, features), spec, features)


def chosen_tasks(name: str, quick: bool) -> list[str]:
    """`all` tasks of the paper, a task, or a task with its extra variants where the run is not quick."""
    if name != "all" and name not in TASKS:
        raise InputError(f"there is no task {name!r}; there are: {', '.join(TASKS)}, figure1, all")
    wanted = [task for task in TASKS if name in ("all", task) or task.startswith(f"{name}-")]
    return [task for task in wanted if task == name or not (TASKS[task].extra and (quick or name == "all"))]
