"""The paper's models by the scale of their features: on digits and references, one line of JSON for each fit.

python -m benchmarks.paper_scales RUN.jsonl digits|references --scales 1,10,0-16 --models cdp,scdp1,scdp3-mean ...
python -m benchmarks.paper_scales RUN.jsonl show
python -m benchmarks.paper_scales docs/figures/scales.json figure --to docs/figures/scales.png

A scale is a number (unit variance times that number) or a natural one: pixels in [-1, 1], their sums over 2 x 2
blocks, 0 to 16, 0 to 255; years and counts as they are (raw). Each start is a chain of its own, scored by its point
estimate, the mean of its draws and its last draw. Lines that are there already are not made again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from scdp import SCDP, metrics
from scdp.estimators.inputs import codes
from scdp.paper.datasets import (
    TEST_DIGITS,
    TRAIN_DIGITS,
    draw_rows,
    load_references,
    load_usps,
    shrink,
    standardize_pixels,
)
from scdp.paper.surface import take_raw
from scdp.paper.tasks import join_parts, references_spec

# What pixels in [-1, 1] are multiplied by.
PIXEL_SCALES = {"pixels": 1.0, "sums": 4.0, "0-16": 8.0, "0-255": 127.5, "0-32": 16.0, "0-64": 32.0, "0-128": 64.0}
STARTS = ("one", "singletons", "kmeans")
NAMES = ("f", "p", "r", "vi", "ced", "nes")


def digits(draw: int, scale: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, known clusters and the truth of one draw of images, at one scale."""
    images = load_usps()
    train = draw_rows(np.random.default_rng([draw, 0]), images.clusters, TRAIN_DIGITS)
    test = draw_rows(np.random.default_rng([draw, 1]), images.clusters, TEST_DIGITS)
    rows = np.concatenate([train, test])
    pixels = shrink(np.asarray(images.data), 8)[rows]
    if scale in PIXEL_SCALES:
        points = PIXEL_SCALES[scale] * (pixels - pixels.mean(axis=0))
    else:
        points = float(scale) * standardize_pixels(pixels)
    truth = images.clusters[rows]
    return points, np.where(np.arange(len(rows)) < len(train), truth, -1), truth


def references(scale: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distances (items, items, features), known clusters and the truth of the references of Freund."""
    from scdp.compare.distances import compute_distances

    task = load_references("Freund")
    whole = join_parts(task.train, task.test)
    distances = compute_distances(whole.data, references_spec().fit(whole.data), None)
    square = take_raw(distances).square() if scale == "raw" else float(scale) * distances.scaled().square()
    truth = codes(whole.clusters)
    return square, np.where(np.arange(len(truth)) < len(task.train), truth, -1), truth


def fit(data: tuple[np.ndarray, np.ndarray, np.ndarray], options: dict[str, Any]) -> dict[str, Any]:
    """One chain: its point estimate, the mean of its draws and its last draw, by metric and number of clusters."""
    points, known, truth = data
    if options["model"] == "cdp":
        keep = known < 0
        points = points[keep][:, keep] if points.ndim == 3 else points[keep]
        known, truth = known[keep], truth[keep]
    hidden = known < 0
    kind = {"metric": "precomputed"} if points.ndim == 3 else {}
    model = SCDP(n_chains=1, standardize=False, **kind, **options)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(points, known)
    draws = model.posterior_.draws[0][:, hidden]
    thinned = draws[np.unique(np.linspace(0, len(draws) - 1, 20).astype(int))]
    scored = [score(truth[hidden], draw) for draw in thinned]
    mean = {name: float(np.mean([each[name] for each in scored])) for name in scored[0]}
    answer = score(truth[hidden], model.labels_[hidden])
    types = float(model.posterior_.traces["n_types"].mean())
    seconds = time.perf_counter() - start
    return {"point": answer, "mean": mean, "last": scored[-1], "types": types, "seconds": round(seconds, 1)}


def score(truth: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    found = metrics.evaluate(truth, labels)
    return {name: round(found[name], 4) for name in NAMES} | {"k": len(np.unique(labels))}


def plan(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    names = ("scale", "model", "scheme", "start")
    lists = (arguments.scales, arguments.models, arguments.schemes, arguments.starts)
    for draw in range(arguments.first, arguments.draws):
        for chosen in product(*(each.split(",") for each in lists)):
            rest = {"sweeps": arguments.sweeps, "variance": arguments.variance}
            yield {"task": arguments.task, "draw": draw, **dict(zip(names, chosen, strict=True)), **rest}


def options_of(entry: dict[str, Any], truth: np.ndarray) -> dict[str, Any]:
    """What SCDP is asked for; the start "truth" is the true clusters."""
    model, _, conditioning = entry["model"].partition("-")
    options = {
        "model": model,
        "scheme": entry["scheme"],
        "init": truth if entry["start"] == "truth" else entry["start"],
        "n_sweeps": entry["sweeps"],
        "mean_variance": entry["variance"] if "learn" in entry["variance"] else float(entry["variance"]),
        "random_state": entry["draw"],
    }
    return options | ({"conditioning": conditioning} if conditioning else {})


def run(arguments: argparse.Namespace) -> None:
    """Make the fits of the plan that the file does not hold yet."""
    done = [{key: value for key, value in each.items() if key != "found"} for each in read(arguments.out)]
    loaded: dict[str, Any] = {}
    for entry in plan(arguments):
        if entry in done:
            continue
        key = f"{entry['draw']} {entry['scale']}"
        if key not in loaded:
            of_digits = entry["task"] == "digits"
            data = digits(entry["draw"], entry["scale"]) if of_digits else references(entry["scale"])
            loaded = {key: data}
        try:
            found = fit(loaded[key], options_of(entry, loaded[key][2]))
        except Exception as error:  # a breakdown is a finding
            found = {"error": f"{type(error).__name__}: {error}"[:200]}
        with arguments.out.open("a") as file:
            file.write(json.dumps(entry | {"found": found}) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """The fits of a run: lines, or a list where the file is kept as JSON."""
    if path.suffix == ".json":
        return list(json.loads(path.read_text()))
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def show(path: Path) -> str:
    """A Markdown table of all fits: the point estimate, then the mean of the draws and the last draw."""
    header = [
        "draw",
        "scale",
        "model",
        "scheme",
        "start",
        "sweeps",
        "sigma",
        "F",
        "P",
        "R",
        "VI",
        "K",
        "F_mean",
        "F_last",
        "types",
    ]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for each in read(path):
        place = [each[name] for name in ("draw", "scale", "model", "scheme", "start", "sweeps", "variance")]
        found = each["found"]
        if "error" in found:
            cells = [found["error"], *[""] * 7]
        else:
            point = found["point"]
            cells = [f"{point[name]:.3f}" for name in ("f", "p", "r", "vi")]
            cells += [f"{point['k']:.0f}", f"{found['mean']['f']:.3f}", f"{found['last']['f']:.3f}"]
            cells.append(f"{found['types']:.0f}")
        lines.append("| " + " | ".join(map(str, [*place, *cells])) + " |")
    return "\n".join(lines)


def draw_figure(path: Path, to: Path) -> None:
    """F, VI and the number of clusters by the scale of the features, with the paper's values as lines."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    from scdp.paper.tasks import PUBLISHED

    fits = [each for each in read(path) if each["scale"] not in PIXEL_SCALES and "error" not in each["found"]]
    fits = [each for each in fits if each["scale"].replace(".", "").isdigit()]
    tasks = [task for task in ("digits", "references") if any(each["task"] == task for each in fits)]
    figure, axes = pyplot.subplots(len(tasks), 3, figsize=(11, 3.4 * len(tasks)), squeeze=False, layout="constrained")
    colors = {"cdp": "#666666", "scdp1": "#1f5fbf", "scdp2": "#c8501e", "scdp3-mean": "#2a8f4c"}
    lines = [(model, "1", color, "-") for model, color in colors.items()]
    lines += [("scdp1", "learn", "#1f5fbf", "--"), ("scdp1", "learn scale", "#1f5fbf", "-.")]
    for row, task in zip(axes, tasks, strict=True):
        for axis, name in zip(row, ("f", "vi", "k"), strict=True):
            for model, variance, color, style in lines:
                place = task, model, variance
                own = [each for each in fits if (each["task"], each["model"], each["variance"]) == place]
                by_scale: dict[float, list[float]] = {}
                for each in own:
                    by_scale.setdefault(float(each["scale"]), []).append(each["found"]["point"][name])
                scales = sorted(by_scale)
                title = model if variance == "1" else f"{model}, {variance.replace('learn', 'learned')}"
                means = [np.mean(by_scale[each]) for each in scales]
                axis.plot(scales, means, "o" + style, color=color, label=title if own else None)
                for each in scales:
                    axis.plot([each] * len(by_scale[each]), by_scale[each], ".", color=color, alpha=0.4)
                published = PUBLISHED[task][model.partition("-")[0]]
                if own and name in published and variance == "1":
                    axis.axhline(published[name], color=color, linestyle=":", linewidth=1)
            axis.set_xscale("log")
            axis.set_yscale("log" if name == "k" else "linear")
            axis.set_xlabel("spread of the features / sigma")
            axis.set_title(f"{task}: {'clusters' if name == 'k' else name.upper()}", fontsize=10)
            axis.spines[["top", "right"]].set_visible(False)
    handles, titles = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, titles, loc="outside lower center", ncols=len(titles), frameon=False, fontsize=9)
    figure.savefig(to, dpi=130, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("task", choices=("digits", "references", "show", "figure"))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--scales", default="1,10,pixels,sums,0-16,0-32,0-64,0-255")
    parser.add_argument("--models", default="cdp,scdp1,scdp2")
    parser.add_argument("--schemes", default="collapsed,paper")
    parser.add_argument("--starts", default=",".join(STARTS))
    parser.add_argument("--variance", default="1")
    parser.add_argument("--to", type=Path, default=Path("docs/figures/scales.png"))
    arguments = parser.parse_args()
    if arguments.task == "show":
        print(show(arguments.out))
    elif arguments.task == "figure":
        draw_figure(arguments.out, arguments.to)
    else:
        run(arguments)


if __name__ == "__main__":
    main()
