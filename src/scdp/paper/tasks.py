"""The paper's four tasks: items, the paper's own features as specs (Sections 6.3 to 6.5), and its published numbers.

A name and a repeat enter; training and test items leave, and what stands in for what.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module, resources
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp import compare
from scdp.datasets import Labelled, Task
from scdp.errors import DataNotFoundError, InputError
from scdp.table import Records
from scdp.table.spec import Spec

# Columns of all three tasks as the loaders give them.
ENTITY, ID, DOCUMENT = "cluster_id", "record_id", "doc"


def references_spec() -> Spec:
    """Citations with columns author, title, date, venue (Cora)."""
    fields = [
        compare.edit("title"),
        compare.edit("author", of="first_of_list"),
        compare.edit("author"),
        compare.absolute("date", of="year"),
        compare.count_difference("date", of="year"),
        compare.edit("venue"),
        compare.count_difference("venue"),
        compare.shared_coauthors("author"),
    ]
    return Spec(ENTITY, fields, id=ID)


def identity_spec() -> Spec:
    """Authors' names with columns first, last, coauthors (separated by ";"), venue, year."""
    fields = [
        compare.edit("first"),
        compare.edit("last"),
        compare.edit(["first", "last"]),
        compare.absolute("year"),
        compare.count_difference("year"),
        compare.edit("venue"),
        compare.count_difference("venue"),
        compare.shared_coauthors("coauthors", separator=";"),
    ]
    return Spec(ENTITY, fields, id=ID)


def coreference_spec() -> Spec:
    """Mentions with the column name, clustered within documents."""
    fields = [
        compare.edit("name"),
        compare.edit_head("name"),
        compare.longest_common_substring("name"),
        compare.longest_common_subsequence("name"),
        compare.edit_abbreviation("name"),
    ]
    return Spec(ENTITY, fields, id=ID, group=DOCUMENT)


METRICS = ("ri", "p", "r", "f", "ced", "nes", "vi", "nvi")


def _read_published() -> Iterator[tuple[str, Mapping[str, Mapping[str, float]]]]:
    tables = tomllib.loads(resources.files("scdp.paper").joinpath("published.toml").read_text(encoding="utf-8"))
    for task, rows in tables.items():
        named = {name: MappingProxyType(dict(zip(METRICS, row, strict=True))) for name, row in rows.items()}
        yield task, MappingProxyType(named)


# Tables 1 to 4, by task and system.
PUBLISHED: Mapping[str, Mapping[str, Mapping[str, float]]] = MappingProxyType(dict(_read_published()))


def find_published(task: str, system: str) -> dict[str, float] | None:
    """The paper's row for a task (a variant such as references-kearns has its parent's) and system, or None."""
    row = PUBLISHED[parent(task)].get(system)
    return None if row is None else dict(row)


def parent(task: str) -> str:
    """The paper's task of which this one is a variant."""
    return task.split("-")[0]


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


def _loader(name: str, *arguments: str) -> Callable[[int, str], Task]:
    """Loads what depends neither on a seed nor on the scale of features; loaders are imported when they are called."""

    def load(seed: int, features: str) -> Task:
        task: Task = getattr(import_module("scdp.paper.datasets"), name)(*arguments)
        return task

    return load


def _references(author: str, title: str, extra: bool = False) -> Entry:
    stands_in = (
        "The paper's own Cora references; it does not say which author it tested on, and its file had 121 "
        f"publications where ours has 115. Train on two authors, test on {author}."
    )
    return Entry(title, _loader("load_references", author), references_spec, stands_in, extra)


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
            _loader("load_identity"),
            identity_spec,
            "ACL Anthology author mentions, a sample of the same size, in place of the paper's researchers from "
            "DBLP, which we could not get. Names that several persons share were sampled on purpose.",
        ),
        "coreference": Entry(
            "Proper noun coreference",
            _loader("load_coreference"),
            coreference_spec,
            "Proper-noun mentions of GUM in six genres in place of ACE 2004 news, which is sold by the LDC and "
            "cannot be passed on.",
        ),
        "references": _references("Freund", "Reference matching"),
        "references-kearns": _references("Kearns", "Reference matching, Kearns", extra=True),
        "references-schapire": _references("Schapire", "Reference matching, Schapire", extra=True),
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


def choose_tasks(name: str, quick: bool) -> list[str]:
    """`all` tasks of the paper, a task, or a task with its extra variants where the run is not quick."""
    if name != "all" and name not in TASKS:
        raise InputError(f"there is no task {name!r}; there are: {', '.join(TASKS)}, all")
    wanted = [task for task in TASKS if name in ("all", task) or task.startswith(f"{name}-")]
    return [task for task in wanted if task == name or not (TASKS[task].extra and (quick or name == "all"))]


def join_parts(train: Labelled, test: Labelled) -> Labelled:
    """Training items, then test items."""
    if isinstance(train.data, Records):
        assert isinstance(test.data, Records)
        columns = {name: np.concatenate([train.data[name], test.data[name]]) for name in train.data.names}
        data: Records | NDArray[np.float64] = Records(columns, train.data.source)
    else:
        data = np.vstack([train.data, np.asarray(test.data)])
    groups = None
    if train.groups is not None and test.groups is not None:
        groups = np.concatenate([train.groups, test.groups])
    return Labelled(
        data, np.concatenate([train.clusters, test.clusters]), np.concatenate([train.ids, test.ids]), groups
    )


def name_within_groups(part: Labelled) -> NDArray[Any]:
    """Clusters by name, one in two documents being two."""
    if part.groups is None:
        return part.clusters
    return np.array([f"{group}/{name}" for group, name in zip(part.groups, part.clusters, strict=True)])
