"""The paper's published numbers as data: Tables 1 to 5 of its Section 7, and the running times it reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp import metrics
from scdp.errors import InputError
from scdp.io.atomic import write_bytes
from scdp.paper.experiments.protocol import Outcome
from scdp.paper.experiments.systems import SYSTEMS, Settings, System
from scdp.paper.experiments.tasks import TASKS, Problem

METRICS = ("ri", "p", "r", "f", "ced", "nes", "vi", "nvi")
LOWER_IS_BETTER = ("ced", "vi")


def _table(text: str) -> Mapping[str, Mapping[str, float]]:
    rows = (line.split() for line in text.strip().splitlines())
    return MappingProxyType(
        {name: MappingProxyType(dict(zip(METRICS, map(float, cells), strict=True))) for name, *cells in rows}
    )


# Tables 1 to 4, by task and system.
PUBLISHED: Mapping[str, Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        "digits": _table("""
            coarse    .229 .229 1.00 .372 .725 .275 1.525 .765
            fine      .771 1.00 .000 .000 1.00 .008 4.975 .235
            kmeans    .760 .481 .656 .555 .350 .412 1.446 .778
            cdp       .886 .970 .016 .031 1.00 .000 4.237 .241
            binary    .921 .730 .497 .592 .455 .372 1.193 .805
            xingk     .821 .610 .605 .608 .245 .478 1.165 .821
            scdp1     .848 .668 .664 .666 .239 .483 1.176 .819
            scdp2     .854 .692 .659 .675 .227 .538 1.118 .828
            scdp3     .889 .761 .751 .756 .158 .710 0.791 .878
        """),
        "identity": _table("""
            coarse    .079 .079 1.00 .147 .749 .251 3.589 .395
            fine      .921 1.00 .000 .000 .000 .273 2.345 .605
            namematch .933 .545 1.00 .706 .405 .595 1.252 .789
            kmeans    .912 .451 .510 .479 .341 .373 1.919 .677
            cdp       .913 .480 .452 .466 .355 .360 2.031 .658
            binary    .855 .753 .801 .776 .389 .553 1.193 .808
            xingk     .916 .467 .423 .444 .378 .304 2.112 .644
            scdp1     .963 .764 .786 .775 .127 .761 0.806 .864
            scdp2     .971 .820 .814 .817 .111 .796 0.669 .887
            scdp3     .982 .875 .913 .894 .066 .876 0.423 .929
        """),
        "coreference": _table("""
            coarse    .003 .003 1.00 .006 .978 .021 5.950 .132
            fine      .997 1.00 .000 .000 1.00 .551 0.906 .868
            samehead  .999 .965 .899 .931 .019 .933 0.123 .982
            kmeans    .994 .297 .773 .429 .391 .524 1.059 .846
            cdp       .995 .273 .384 .319 .352 .418 1.265 .815
            binary    .999 .900 .893 .896 .040 .936 0.141 .979
            xingk     .998 .489 .802 .608 .308 .599 0.911 .883
            scdp1     .996 .409 .497 .449 .261 .564 0.938 .863
            scdp2     .997 .596 .717 .651 .203 .682 0.654 .904
            scdp3     .999 .804 .882 .841 .083 .861 0.284 .958
        """),
        "references": _table("""
            coarse    .118 .118 1.00 .205 .745 .255 2.977 .538
            fine      .882 1.00 .000 .000 .000 .105 3.456 .462
            kmeans    .862 .407 .461 .433 .392 .240 2.655 .577
            cdp       .850 .353 .379 .365 .449 .125 2.948 .531
            binary    .936 .804 .616 .686 .107 .721 0.762 .881
            xingk     .855 .369 .384 .377 .411 .180 2.807 .552
            scdp1     .892 .529 .507 .518 .319 .372 2.237 .643
            scdp2     .934 .696 .741 .718 .184 .641 1.382 .780
            scdp3     .952 .794 .782 .788 .125 .757 0.957 .847
        """),
    }
)

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
CHAINS: Mapping[str, int] = MappingProxyType(
    {"digits": 10, "identity": 50, "coreference": 50, "references": 50}
)
SWEEPS = 10_000
# Rounding to three digits explains less than this.
ROUNDING = 0.02


def find_published(task: str, system: str) -> dict[str, float] | None:
    """The paper's row for a task (a variant such as references-kearns has its parent's) and system, or None."""
    row = PUBLISHED[parent(task)].get(system)
    return None if row is None else dict(row)


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


def parent(task: str) -> str:
    """The paper's task of which this one is a variant."""
    return task.split("-")[0]


Part = dict[str, Any]


def write_atomically(path: Path, text: str) -> None:
    """The whole text under its name, or what was there before: never a half of it, whenever the process dies."""
    write_bytes_atomically(path, text.encode())


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Bytes as `write_atomically` writes text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)


class Parts:
    """The folder DIR/parts, with the settings of the run that owns it."""

    def __init__(self, out: Path, settings: Settings, resume: bool) -> None:
        self._out, self._folder = out, out / "parts"
        self._check_owner(settings, resume)
        self._remove_halves()
        write_atomically(self._folder / "settings.json", _dump(settings.as_dict()))

    def _check_owner(self, settings: Settings, resume: bool) -> None:
        if self._out.exists() and not self._out.is_dir():
            raise InputError(f"{self._out}: is a file; give --out a folder")
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
        for half in self._folder.glob(".*.json.*"):
            half.unlink(missing_ok=True)

    def find(self, *names: object) -> Part | None:
        """A finished part, or None."""
        path = self._path(names)
        return read_json(path) if path.is_file() else None

    def write(self, part: Mapping[str, Any], *names: object) -> None:
        write_atomically(self._path(names), _dump(part))

    def all(self) -> list[Part]:
        """Every finished part, in the order of file names."""
        return [read_json(path) for path in sorted(self._folder.glob("*.part.json"))]

    def _path(self, names: tuple[object, ...]) -> Path:
        return self._folder / f"{'.'.join(map(str, names))}.part.json"


def _dump(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def read_json(path: Path) -> Part:
    """A JSON object from a file, refused by name where it is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be read ({error}); remove it, and --resume makes it again"
        ) from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: is not a part of a run; remove it, and --resume makes it again")
    return content


MORE_METRICS = ("ari", "b3", "nmi")


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
        "sweep_seconds": outcome.sweep_seconds,
        "types": outcome.types,
        "note": outcome.note,
        "data": problem.task.note,
    }


def n_clusters(labels: NDArray[Any]) -> int:
    return len(set(labels.tolist()))


def score_draws(draws: NDArray[Any], gold: NDArray[Any]) -> dict[str, Any]:
    """The mean over draws, and the standard deviation over chains of the chains' means (None for one chain)."""
    by_chain = [_mean_scores(chain, gold) for chain in draws]
    names = (*METRICS, "clusters")
    table = np.array([[scores[name] for name in names] for scores in by_chain])
    mean = dict(zip(names, table.mean(axis=0).tolist(), strict=True))
    several = len(table) > 1
    spread = dict(zip(names, table.std(axis=0, ddof=1).tolist(), strict=True)) if several else None
    return {
        "clusters": mean.pop("clusters"),
        "clusters_spread": spread.pop("clusters") if spread else None,
        "mean": mean,
        "spread": spread,
        "scored": int(draws.shape[0] * draws.shape[1]),
    }


def _mean_scores(chain: NDArray[Any], gold: NDArray[Any]) -> dict[str, float]:
    scores = [{**metrics.evaluate(gold, draw), "clusters": n_clusters(draw)} for draw in chain]
    return {name: float(np.mean([score[name] for score in scores])) for name in (*METRICS, "clusters")}


Row = dict[str, Any]


def rows_of(parts: Sequence[Part]) -> list[Row]:
    """One row for each task and system that has a finished repeat."""
    rows = []
    for task in TASKS:
        for name, system in SYSTEMS.items():
            repeats = [part for part in parts if part["task"] == task and part["system"] == name]
            if repeats:
                rows.append(_row(task, system, sorted(repeats, key=lambda part: part["repeat"])))
    return rows


def _row(task: str, system: System, repeats: list[Part]) -> Row:
    first = repeats[0]
    return {
        "task": task,
        "system": system.name,
        "title": system.title,
        "metrics": _means(part["metrics"] for part in repeats),
        "paper": find_published(task, system.name),
        "clusters": _mean(part["clusters"] for part in repeats),
        "gold_clusters": _mean(part["gold_clusters"] for part in repeats),
        "items": _mean(part["items"] for part in repeats),
        "seconds": _mean(part["seconds"] for part in repeats),
        "chains": first["chains"],
        "sweeps": first["sweeps"],
        "repeats": len(repeats),
        "standard_error": _standard_errors([part["metrics"] for part in repeats]),
        "more_metrics": _means(part["more_metrics"] for part in repeats),
        "draws": _draws([part["draws"] for part in repeats if part["draws"]]),
        "sweep_seconds": _mean_or_none(part["sweep_seconds"] for part in repeats),
        "oracle": system.oracle,
        "note": " ".join(dict.fromkeys(filter(None, (system.note, *(part["note"] for part in repeats))))),
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


def _standard_errors(scores: list[dict[str, float]]) -> dict[str, float] | None:
    if len(scores) < 2:
        return None
    root = len(scores) ** 0.5
    return {name: float(np.std([row[name] for row in scores], ddof=1)) / root for name in METRICS}


def _draws(draws: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not draws:
        return None
    spreads = [each["spread"] for each in draws if each["spread"]]
    return {
        "mean": _means(each["mean"] for each in draws),
        "spread": _means(spreads) if spreads else None,
        "clusters": float(np.mean([each["clusters"] for each in draws])),
        "clusters_spread": _mean_or_none(each["clusters_spread"] for each in draws),
        "scored": sum(each["scored"] for each in draws),
    }
