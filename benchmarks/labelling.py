"""How F grows with the number of answers of a simulated person, by what is asked.

python -m benchmarks.labelling [--sets restaurant,crm] [--ways ours,half,dedupe] [--errors 0,0.03] [--seeds 5]
    [--answers 60] [--most 1500] [--every 1] [--out FILE]

`ours` asks what is expected to gain most, one question in four at random, in groups of up to eight records; `half` asks
about the pair whose probability is nearest to one half, with the same model; `dedupe` is the loop of dedupe 3
(`uncertain_pairs`, its own model and blocking). A person answers from the true clusters, or errs in a share of the
questions. Every tenth answer F is measured on all records; for `ours` the estimated F with its interval and the
predicted gain of the next twenty answers are kept beside what came true. Of larger sets, whole clusters at random are
taken up to `--most` records. Wrong pairs are those linked falsely, and true ones that are not linked.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scdp.estimators.checks import propose_spec
from scdp.metrics import f_score
from scdp.review.quality import Answered, answered, estimate
from scdp.review.questions import ONE_IN_RANDOM, Ask, Question, choose_best, choose_random
from scdp.review.sources import Learner
from scdp.table import Records
from scdp.table.decisions import Constraints, Decision, decisions_of
from scdp.table.readers import read_records

DATA = Path(os.environ.get("SCDP_DATA", "data"))
EVERY = 10
# dedupe is trained anew for each figure, which takes long.
DEDUPE_EVERY = 30
AHEAD = 20


class Task(NamedTuple):
    """A table, its true clusters, and the columns that may be compared."""

    file: str
    truth: str
    left_out: tuple[str, ...] = ()


TASKS = {
    "febrl3": Task("febrl3/records.csv", "cluster_id", ("record_id", "source")),
    "restaurant": Task("restaurant/records.csv", "cluster_id", ("record_id",)),
    "historical": Task("historical-50k/historical_5k.csv", "cluster", ("unique_id",)),
    "crm": Task(
        "crm/records.csv",
        "cluster_id",
        ("record_id", "labelled_60_duplicates_first", "labelled_60_at_random", "labelled_600_at_random"),
    ),
    "abt-buy": Task("abt-buy/records.csv", "cluster_id", ("record_id", "part", "source")),
}


class Point(NamedTuple):
    """F after so many answers; estimates are NaN where there are none."""

    answers: int
    f: float
    wrong: int
    estimated: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float
    seconds: float


class Run(NamedTuple):
    """What is asked of one run."""

    name: str
    error: float
    seed: int
    n_answers: int
    most: int
    every: int = 1


def read_task(name: str, most: int, seed: int) -> tuple[Records, np.ndarray[Any, Any]]:
    """The records without what is not compared, and the true clusters; of many, whole clusters at random."""
    task = TASKS[name]
    table = read_records(DATA / task.file)
    truth = np.unique(table[task.truth].astype(str), return_inverse=True)[1]
    out = {task.truth, *task.left_out}
    kept = {column: table[column] for column in table.names if column not in out}
    chosen = np.random.default_rng([seed, 6]).permutation(int(truth.max()) + 1)
    sizes = np.cumsum(np.bincount(truth)[chosen])
    rows = np.flatnonzero(np.isin(truth, chosen[: max(int(np.searchsorted(sizes, most, "right")), 1)]))
    return Records(kept, table.source).take(rows), np.unique(truth[rows], return_inverse=True)[1]


def count_wrong(truth: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> int:
    """Pairs that are linked falsely, and true ones that are not linked."""

    def pairs(labels: np.ndarray[Any, Any]) -> int:
        counts = np.unique(labels, return_counts=True)[1].astype(np.int64)
        return int((counts * (counts - 1) // 2).sum())

    both = np.unique(np.column_stack([truth, found]), axis=0, return_inverse=True)[1].ravel()
    return pairs(truth) + pairs(found) - 2 * pairs(both)


def answer_question(
    rows: tuple[int, ...], truth: np.ndarray[Any, Any], error: float, rng: np.random.Generator
) -> list[int]:
    """The block of each record; in error, one record is put where it does not belong."""
    blocks = np.unique(truth[list(rows)], return_inverse=True)[1].tolist()
    if rng.random() < error:
        place = int(rng.integers(len(rows)))
        others = sorted({*range(len(rows) + 1)} - {blocks[place]})
        kept = [b for b in others if b in blocks] or others
        alone = blocks.count(blocks[place]) == 1
        blocks[place] = int(rng.choice(kept)) if alone else max(blocks) + 1
    return [int(block) for block in blocks]


def choose(ask: Ask, n_asked: int, rng: np.random.Generator, taken: Iterable[int] = ()) -> Question | None:
    """The next question: one in four at random, the others by what they are worth."""
    busy = set(taken)
    if n_asked % ONE_IN_RANDOM == ONE_IN_RANDOM - 1:
        drawn = choose_random(ask, rng, busy)
        if drawn is not None:
            return drawn
    best = choose_best(ask, busy)
    return best[0] if best else choose_random(ask, rng, busy)


Chooser = Callable[[Ask, int, np.random.Generator, Iterable[int]], Question | None]


def choose_nearest_half(ask: Ask, n_asked: int, rng: np.random.Generator, taken: Iterable[int] = ()) -> Question | None:
    """The pair whose probability is nearest to one half: what others do, to compare with."""
    pairs = ask.beliefs.pairs
    left, right = np.append(pairs.left, ask.others[0]), np.append(pairs.right, ask.others[1])
    probability = np.append(pairs.probability, ask.others[2])
    probability[ask.beliefs.is_decided(left, right)] = 1.0
    busy = set(taken)
    for pair in np.argsort(np.abs(probability - 0.5), kind="stable").tolist():
        rows, p = (int(left[pair]), int(right[pair])), float(probability[pair])
        if rows not in ask.refused and busy.isdisjoint(rows) and 0.0 < p < 1.0:
            return Question(rows, 0.0, False, (p,))
    return None


def label(run: Run, chooser: Chooser) -> list[Point]:
    """F after each tenth answer of a simulated person; the model learns after each `every` answers."""
    name, error, seed, n_answers, most, every = run
    records, truth = read_task(name, most, seed)
    rng = np.random.default_rng([seed, 5])
    learner = Learner(records, propose_spec(records), seed)
    ids = [str(row) for row in range(len(records))]
    decisions: list[Decision] = []
    random_answers: list[Answered] = []
    constraints = Constraints.of([], ids)
    beliefs = learner.draw(constraints)
    points: list[Point] = []
    spent = 0.0
    for number in range(n_answers + 1):
        ask = Ask(beliefs, frozenset(), tuple(learner.others(beliefs)))
        if number % EVERY == 0:
            points.append(measure(ask, truth, random_answers, number, spent))
        if number == n_answers:
            break
        question = chooser(ask, number, rng, ())
        if question is None:
            points += [
                points[-1]._replace(answers=n) for n in range(number + EVERY - number % EVERY, n_answers + 1, EVERY)
            ]
            break
        decisions, constraints, blocks = _tell(question, truth, error, rng, decisions, ids)
        if question.is_random and blocks is not None:
            random_answers.append(answered(question, blocks, number))
        begin = time.perf_counter()
        if (number + 1) % every == 0:
            learner.learn(constraints)
            beliefs = learner.draw(constraints, beliefs)
        else:
            beliefs.condition(constraints, question.rows)
        spent += time.perf_counter() - begin
    return points


def _tell(
    question: Question,
    truth: np.ndarray[Any, Any],
    error: float,
    rng: np.random.Generator,
    decisions: list[Decision],
    ids: list[str],
) -> tuple[list[Decision], Constraints, list[int] | None]:
    """All decisions with the answer; one that contradicts earlier ones is not taken, as on the page."""
    from scdp.errors import InputError

    blocks = answer_question(question.rows, truth, error, rng)
    named = [ids[row] for row in question.rows]
    more = [*decisions, *decisions_of(named, blocks, None)]
    try:
        return more, Constraints.of(more, ids), blocks
    except InputError:
        more = [*decisions, *decisions_of(named, None, None)]
        return more, Constraints.of(more, ids), None


def measure(ask: Ask, truth: np.ndarray[Any, Any], random_answers: list[Answered], number: int, spent: float) -> Point:
    """True and estimated F."""
    quality = estimate(ask, random_answers, number)
    true, wrong = float(f_score(truth, ask.beliefs.answer)), count_wrong(truth, ask.beliefs.answer)
    return Point(number, true, wrong, *quality.f, *quality.gain, spent / max(number, 1))


def label_with_dedupe(run: Run) -> list[Point]:
    """The same with dedupe's own loop: its uncertain pairs, answered as same or different."""
    import random

    import dedupe

    from benchmarks.known_links import mend_dedupe

    mend_dedupe()
    name, error, seed, n_answers, most, _ = run
    records, truth = read_task(name, most, seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    rng = np.random.default_rng([seed, 5])
    data = {row: dict(cells) for row, cells in enumerate(records.rows())}
    tool = dedupe.Dedupe(_dedupe_fields(records), num_cores=1)
    tool.prepare_training(data, sample_size=1500)
    nan = float("nan")
    points: list[Point] = []
    for number in range(1, n_answers + 1):
        (pair,) = tool.uncertain_pairs()
        rows = tuple(_row_of(data, record) for record in pair)
        blocks = answer_question(rows, truth, error, rng)
        kind = "match" if blocks[0] == blocks[1] else "distinct"
        tool.mark_pairs({"match": [], "distinct": [], kind: [pair]})
        if number % DEDUPE_EVERY == 0:
            found = _dedupe_clusters(tool, data, records)
            f, wrong = float(f_score(truth, found)), count_wrong(truth, found)
            points.append(Point(number, f, wrong, nan, nan, nan, nan, nan, nan, nan))
    return points


def _row_of(data: dict[int, Any], record: Any) -> int:
    return next(row for row, cells in data.items() if cells is record or cells == dict(record))


def _dedupe_fields(records: Records) -> list[Any]:
    from dedupe import variables

    return [variables.String(column, has_missing=True) for column in records.names]


def _dedupe_clusters(tool: Any, data: dict[int, Any], records: Records) -> np.ndarray[Any, Any]:
    """What dedupe finds with the answers so far: training ends the loop of questions, so another one is trained."""
    import io

    import dedupe

    found = np.arange(len(data)) + len(data)
    given = io.StringIO()
    tool.write_training(given)
    given.seek(0)
    trained = dedupe.Dedupe(_dedupe_fields(records), num_cores=1)
    try:
        trained.prepare_training(data, training_file=given, sample_size=1500)
        trained.train(recall=1.0)
        for number, (rows, _) in enumerate(trained.partition(data, threshold=0.5)):
            found[list(rows)] = number
    except Exception as error:  # with too few answers of either kind it cannot train
        print("dedupe:", type(error).__name__, str(error)[:80])
    return found


WAYS: dict[str, Callable[[Run], list[Point]]] = {
    "ours": lambda run: label(run, choose),
    "half": lambda run: label(run, choose_nearest_half),
    "dedupe": label_with_dedupe,
}


def main() -> None:
    """Print a line for each run, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(TASKS))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--errors", default="0,0.03")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--answers", type=int, default=60)
    parser.add_argument("--most", type=int, default=1500, help="records")
    parser.add_argument("--every", type=int, default=1, help="answers after which the model learns")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    runs = []
    for name in given.sets.split(","):
        for error in map(float, given.errors.split(",")):
            for way in given.ways.split(","):
                for seed in range(given.seeds):
                    run = Run(name, error, seed, given.answers, given.most, given.every)
                    points = WAYS[way](run)
                    runs.append(
                        {"set": name, "way": way, "error": error, "seed": seed, "points": [p._asdict() for p in points]}
                    )
                    print(
                        name,
                        way,
                        f"error {error:g} seed {seed}",
                        *(f"{p.answers}:{p.f:.3f}/{p.wrong}" for p in points),
                        flush=True,
                    )
                    if given.out:
                        given.out.write_text(json.dumps(runs))
    print_summary(runs)


def print_summary(runs: list[dict[str, Any]]) -> None:
    """By set, way and share of errors: F and wrong pairs removed per answer; then how often estimates hold."""
    cells: dict[tuple[str, str, float], list[dict[int, dict[str, Any]]]] = {}
    for run in runs:
        by_number = {point["answers"]: point for point in run["points"]}
        cells.setdefault((run["set"], run["way"], run["error"]), []).append(by_number)
    print("\n| set | way | errors | runs | answers: F (wrong pairs removed per answer) |\n|---|---|---|---|---|")
    for (name, way, error), found in cells.items():
        figures = []
        for number in found[0]:
            f = np.mean([points[number]["f"] for points in found])
            removed = [
                (points[0]["wrong"] - points[number]["wrong"]) / number for points in found if number and 0 in points
            ]
            figures.append(f"{number}: {f:.3f}" + (f" ({np.mean(removed):.2f})" if removed else ""))
        print(f"| {name} | {way} | {error:g} | {len(found)} | {', '.join(figures)} |")
    ours = [points for (_, way, _), found in cells.items() if way == "ours" for points in found]
    inside = [_is_within(p["f"], p["low"], p["high"]) for points in ours for p in points.values()]
    gains = [
        _is_within(points[number + AHEAD]["f"] - p["f"], p["gain_low"], p["gain_high"])
        for points in ours
        for number, p in points.items()
        if number + AHEAD in points
    ]
    print(
        f"F within its interval: {sum(inside)} of {len(inside)}; "
        f"gain of the next {AHEAD} within its interval: {sum(gains)} of {len(gains)}"
    )


def _is_within(value: float, low: float, high: float) -> bool:
    """As figures of three decimals are read."""
    return bool(low - 0.0005 <= value <= high + 0.0005)


if __name__ == "__main__":
    main()
