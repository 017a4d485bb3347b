"""Rows of results.json: the finished parts of a run enter, one row a task and system leaves, in the tables' order."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp import metrics
from scdp.errors import InputError
from scdp.io import parse_json, read_bytes, remove
from scdp.io.atomic import PART, Staged, find_leftovers, write_bytes
from scdp.paper.systems import SYSTEMS, Outcome, Settings, System
from scdp.paper.tasks import FEATURES, METRICS, TASKS, Problem, find_published

Part = dict[str, Any]
# What a run writes beside its parts.
OUTPUTS = ("results.json", "results.md")
CHECKSUM = "sha256"
LARGEST_PART = 64 << 20
logger = logging.getLogger(__name__)


def write_atomically(path: Path, text: str) -> None:
    """The whole text under its name, or what was there before: never a half of it, whenever the process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, text.encode())


def check_results_target(out: Path) -> None:
    """Refuse a file, and a folder of no run that has files of these names: they are somebody's own."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; give --out a folder")
    for path in (out / name for name in OUTPUTS):
        if os.path.lexists(path) and not (out / "parts" / "settings.json").is_file():
            raise InputError(f"{path}: is there already, and of no run; give another --out")


class Parts:
    """The folder DIR/parts, with the settings of the run that owns it."""

    def __init__(self, out: Path, settings: Settings, resume: bool) -> None:
        self._out, self._folder = out, out / "parts"
        self._check_owner(settings, resume)
        self._remove_halves()
        write_atomically(self._folder / "settings.json", _dump(settings.as_dict()))

    def _check_owner(self, settings: Settings, resume: bool) -> None:
        check_results_target(self._out)
        owner = self._folder / "settings.json"
        if not owner.is_file():
            return
        earlier = read_json(owner)
        for name, value in settings.as_dict().items():
            if earlier.get(name) != value:
                raise InputError(
                    f"{self._out}: holds a run with {name} {earlier.get(name)}, and this one has {value}; "
                    "give another --out, or the options of that run with --resume"
                )
        finished = len(self.all())
        if finished and not resume:
            raise InputError(
                f"{self._out}: holds {finished} finished parts of an earlier run; "
                "go on with it by --resume, or give another --out"
            )

    def _remove_halves(self) -> None:
        for half, _ in find_leftovers(self._folder, r".+\.json", PART):
            remove(half)

    def find(self, *names: object) -> Part | None:
        """A finished part; None where there is none, or one that is not as it was written."""
        path = self._path(names)
        return _read_part(path) if path.exists() else None

    def write(self, part: Mapping[str, Any], *names: object) -> None:
        path = self._path(names)
        write_atomically(path, _dump({**part, CHECKSUM: _sum(path, part)}))

    def all(self) -> list[Part]:
        """Every finished part, in the order of file names."""
        found = map(_read_part, sorted(self._folder.glob("*.part.json")))
        return [part for part in found if part is not None]

    def _path(self, names: tuple[object, ...]) -> Path:
        return self._folder / f"{'.'.join(map(str, names))}.part.json"


def _dump(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def _sum(path: Path, part: Mapping[str, Any]) -> str:
    """A sum over the name of a part and all that is in it."""
    return sha256(f"{path.name}\n{_dump(part)}".encode()).hexdigest()


def _read_part(path: Path) -> Part | None:
    """A part as it was written; None, with a note, of one that is damaged or was altered."""
    try:
        part = read_json(path)
        if part.pop(CHECKSUM, None) == _sum(path, part):
            return part
        reason = "its checksum is another"
    except InputError as error:
        reason = str(error)
    logger.warning("a kept part does not count, and is made again where it is asked for: %s: %s", path, reason)
    return None


def read_json(path: Path) -> Part:
    """A JSON object from a file, refused by name where it is none."""
    try:
        content = parse_json(read_bytes(path, LARGEST_PART).decode())
    except ValueError as error:
        raise InputError(f"{path}: cannot be read ({error}); remove it") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: is not a part of a run; remove it")
    return content


MORE_METRICS = ("ari", "b3", "nmi", "ced_merge_free", "nes_merge_free")


# What is told of each chain, since chains that start in different places may end in different ones.
BY_CHAIN = ("f", "vi", "clusters")


def score_part(outcome: Outcome, problem: Problem) -> dict[str, Any]:
    """The metrics of the point estimate, and of the draws where there are any; only test items count."""
    gold = problem.task.test.clusters
    found = metrics.evaluate(gold, outcome.labels)
    return {
        "metrics": {name: found[name] for name in METRICS},
        "more_metrics": {name: found[name] for name in MORE_METRICS},
        "clusters": n_clusters(outcome.labels),
        "gold_clusters": problem.task.test.n_clusters,
        "items": len(gold),
        "draws": None if outcome.draws is None else score_draws(outcome.draws, gold),
        "chains": outcome.chains,
        "sweeps": outcome.sweeps,
        "r_hat": outcome.r_hat,
        "sweep_seconds": outcome.sweep_seconds,
        "types": outcome.types,
        "note": outcome.note,
        "data": problem.task.note,
    }


def n_clusters(labels: NDArray[Any]) -> int:
    return len(set(labels.tolist()))


def score_draws(draws: NDArray[Any], gold: NDArray[Any]) -> dict[str, Any]:
    """The mean over draws and over the chains' last draws, and the standard deviation over chains of their means."""
    by_chain = [_mean_scores(chain, gold) for chain in draws]
    names = (*METRICS, "clusters")
    table = np.array([[scores[name] for name in names] for scores in by_chain])
    mean = dict(zip(names, table.mean(axis=0).tolist(), strict=True))
    several = len(table) > 1
    spread = dict(zip(names, table.std(axis=0, ddof=1).tolist(), strict=True)) if several else None
    last = [metrics.evaluate(gold, chain[-1]) for chain in draws]
    return {
        "last": {name: float(np.mean([score[name] for score in last])) for name in METRICS},
        "clusters": mean.pop("clusters"),
        "clusters_spread": spread.pop("clusters") if spread else None,
        "mean": mean,
        "spread": spread,
        "by_chain": [{name: scores[name] for name in BY_CHAIN} for scores in by_chain],
        "scored": int(draws.shape[0] * draws.shape[1]),
    }


def _mean_scores(chain: NDArray[Any], gold: NDArray[Any]) -> dict[str, float]:
    scores = [{**metrics.evaluate(gold, draw), "clusters": n_clusters(draw)} for draw in chain]
    return {name: float(np.mean([score[name] for score in scores])) for name in (*METRICS, "clusters")}


Row = dict[str, Any]


def rows_of(parts: Sequence[Part]) -> list[Row]:
    """One row for each task, scale of features and system that has a finished repeat.

    What does not depend on the scale is run once, and has a row at every scale that the task was run at.
    """
    rows = []
    for task in TASKS:
        own = [part for part in parts if part["task"] == task]
        for features in FEATURES:
            at_scale = [part for part in own if part["features"] == features]
            for name, system in SYSTEMS.items() if at_scale else ():
                there = own if system.scale_free else at_scale
                repeats = [part for part in there if part["system"] == name]
                if repeats:
                    ordered = sorted(repeats, key=lambda part: part["repeat"])
                    rows.append(_row(task, features, system, ordered))
    return rows


def _row(task: str, features: str, system: System, repeats: list[Part]) -> Row:
    first = repeats[0]
    return {
        "task": task,
        "system": system.name,
        "features": features,
        "title": system.title,
        "metrics": _means(part["metrics"] for part in repeats),
        "paper": find_published(task, system.name),
        "clusters": _mean(part["clusters"] for part in repeats),
        "gold_clusters": _mean(part["gold_clusters"] for part in repeats),
        "items": _mean(part["items"] for part in repeats),
        "seconds": _mean(part["seconds"] for part in repeats),
        "chains": first["chains"],
        "sweeps": first["sweeps"],
        "r_hat": max((part["r_hat"] for part in repeats if part["r_hat"] is not None), default=None),
        "repeats": len(repeats),
        "standard_error": _standard_errors([part["metrics"] for part in repeats]),
        "more_metrics": _means(part["more_metrics"] for part in repeats),
        "draws": _draws([part["draws"] for part in repeats if part["draws"]]),
        "sweep_seconds": _mean_or_none(part["sweep_seconds"] for part in repeats),
        "oracle": system.oracle,
        # Repeats say the same with other numbers: one of them is enough, and R-hat is the worst of all.
        "note": " ".join(filter(None, (system.note, first["note"]))),
        "data": first["data"],
        "stands_in": TASKS[task].stands_in,
    }


def _mean(values: Iterable[float]) -> float | int:
    """The mean, whole where it is."""
    mean = float(np.mean(list(values)))
    return int(mean) if mean.is_integer() else mean


def _mean_or_none(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _means(scores: Iterable[dict[str, float]]) -> dict[str, float]:
    table = list(scores)
    return {name: float(np.mean([row[name] for row in table])) for name in table[0]}


def _standard_errors(scores: list[dict[str, float]], names: Sequence[str] = METRICS) -> dict[str, float] | None:
    if len(scores) < 2:
        return None
    root = len(scores) ** 0.5
    return {name: float(np.std([row[name] for row in scores], ddof=1)) / root for name in names}


def _draws(draws: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not draws:
        return None
    spreads = [each["spread"] for each in draws if each["spread"]]
    return {
        "mean": _means(each["mean"] for each in draws),
        "last": _means(each["last"] for each in draws),
        "spread": _means(spreads) if spreads else None,
        "clusters": float(np.mean([each["clusters"] for each in draws])),
        "clusters_spread": _mean_or_none(each["clusters_spread"] for each in draws),
        "by_chain": [
            {"mean": _means(chains), "standard_error": _standard_errors(chains, BY_CHAIN)}
            for chains in map(list, zip(*(each["by_chain"] for each in draws), strict=True))
        ],
        "scored": sum(each["scored"] for each in draws),
    }


def write_results(parts: Sequence[Part], out: Path, failures: Sequence[str] = ()) -> list[Path]:
    """Write DIR/results.json, and results.md for people; the files leave."""
    rows = rows_of(parts)
    texts = {"results.json": json.dumps(rows, indent=1) + "\n", "results.md": to_markdown(rows, failures)}
    out.mkdir(parents=True, exist_ok=True)
    with Staged() as staged:
        for name, text in texts.items():
            staged.text(out / name, text)
    return [out / name for name in texts]


def to_markdown(rows: Sequence[Row], failures: Sequence[str] = ()) -> str:
    """A table for each task and scale of features: our scores, and the paper's in brackets."""
    header = ["system", *(name.upper() for name in METRICS), "clusters", "seconds"]
    blocks = ["# The paper's tables, run again", "Our number comes first; the paper's stands in brackets."]
    for (task, features), group in groupby(rows, lambda row: (row["task"], row["features"])):
        own = list(group)
        blocks += [f"## {TASKS[task].title}, {features} features", f"{own[0]['data']}. {own[0]['stands_in']}"]
        lines = [header, ["---"] * len(header), *map(_cells, own)]
        blocks.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    blocks += ["## Left out", *(f"{failure}." for failure in failures)] if failures else []
    return "\n\n".join(blocks) + "\n"


def _cells(row: Row) -> list[str]:
    paper = row["paper"] or {}
    scores = [score(row["metrics"][name]) + (f" ({score(paper[name])})" if name in paper else "") for name in METRICS]
    return [row["title"], *scores, f"{row['clusters']:g}", f"{row['seconds']:.1f}"]


def score(value: float) -> str:
    """Three digits, without the zero before the point, as the paper writes scores."""
    text = f"{value:.3f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
