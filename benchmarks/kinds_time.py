"""Change over time: F with and without `time=`, on made-up people who move house and change their phones.

python -m benchmarks.kinds_time [--people 700] [--seeds 5] [--half-lives 2.5,5,10,20] [--still]

Everybody is seen one to five times between 2000 and 2020, and moves house every six years, changes phones every five
and employers every four on average. Many share a name and a year of birth. With --still nobody ever changes anything,
but cells are misspelt or another's as often: then time tells nothing.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np

from scdp import EntityResolver, Spec, compare
from scdp.compare import Comparison
from scdp.metrics import evaluate

FIRST = """
    James Mary John Anna Robert Emma Michael Sara Peter Julia Paul Laura Mark Nina David Helen Simon Clara
    Thomas Eva
"""
LAST = """
    Smith Jones Taylor Brown Wilson Evans Thomas Roberts Walker Wright Green Hall Wood Clarke Hughes Edwards
    Turner Hill Moore Cooper
"""
STREETS = """
    Main Oak Elm Church High Park Mill Station Hill Queen King Garden Bridge North South West Spring River
    Meadow Chapel
"""
FIRMS = """
    Acme Wonka Globex Initech Umbrella Stark Wayne Cyberdyne Soylent Hooli Vandelay Tyrell Oscorp Gringotts
    Monarch Nakatomi Sirius Aperture Zorg Dunder
"""
YEARS_OF_A_HOUSE, YEARS_OF_A_PHONE, YEARS_OF_A_JOB = 6.0, 5.0, 4.0
FIRST_YEAR, N_YEARS = 2000, 20
MISSPELT = 0.1
# No probability is taken for more certain than this.
SURE = 0.002


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=700)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--half-lives", default="2.5,5,10,20")
    parser.add_argument("--still", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    settings: list[float | None] = [None, *map(float, options.half_lives.split(","))]
    found = []
    for seed in range(options.seeds):
        taught, asked = (make_people(options.people, 2 * seed + part, options.still) for part in range(2))
        found.append([score(half_life, taught, asked) for half_life in settings])
    scores = np.array(found)
    for place, half_life in enumerate(settings):
        label = "without time" if half_life is None else f"half-life {half_life:g} years"
        gain = scores[:, place] - scores[:, 0]
        spread = gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
        told = f"F {scores[:, place, 0].mean():.3f}  log-loss of the labels {scores[:, place, 1].mean():.4f}"
        if place:
            told += f"   F {gain[:, 0].mean():+.3f} +- {spread[0]:.3f}"
            told += f", log-loss {gain[:, 1].mean():+.4f} +- {spread[1]:.4f}"
        print(f"{label:22} {told}", flush=True)


def fields(half_life: float | None) -> list[Comparison]:
    time = {} if half_life is None else {"time": "seen", "half_life": half_life}
    return [
        compare.person_name("name"),
        compare.year("born"),
        compare.address("street", **time),
        compare.phone("phone", **time),
        compare.company("employer", **time),
    ]


Table = tuple[dict[str, list[str | None]], np.ndarray]


def score(half_life: float | None, taught: Table, asked: Table) -> tuple[float, float]:
    """F of the pairs; and how surprising it is which records are together, in nats for each pair that is."""
    model = EntityResolver(spec=Spec(fields=fields(half_life)), random_state=0).fit(*taught)
    labels, posterior = model.predict_with_posterior(asked[0])
    together = posterior.co_clustering_matrix(posterior.hidden)
    left, right = np.triu_indices(len(labels), k=1)
    truth = asked[1][left] == asked[1][right]
    shown = np.clip(together[left, right], SURE, 1.0 - SURE)
    loss = -np.where(truth, np.log(shown), np.log1p(-shown)).sum() / truth.sum()
    return evaluate(asked[1], labels)["f"], float(loss)


def make_people(n_people: int, seed: int, still: bool) -> Table:
    rng = np.random.default_rng(seed)
    rows: dict[str, list[str | None]] = {name: [] for name in ("name", "born", "street", "phone", "employer", "seen")}
    entity = []
    for person in range(n_people):
        name = f"{pick(rng, FIRST)} {pick(rng, LAST)}"
        born = int(rng.integers(1940, 1990))
        start = rng.uniform(0.0, N_YEARS)
        for _ in range(1 + rng.binomial(4, 0.4)):
            at = rng.uniform(0.0, N_YEARS) if still is False else start
            entity.append(person)
            rows["name"].append(misspell(rng, name))
            rows["born"].append(None if rng.random() < 0.3 else str(born))
            for column, years, make in (
                ("street", YEARS_OF_A_HOUSE, house),
                ("phone", YEARS_OF_A_PHONE, phone),
                ("employer", YEARS_OF_A_JOB, employer),
            ):
                lasting = np.random.default_rng([seed, person, *column.encode()])
                rows[column].append(None if rng.random() < 0.2 else misspell(rng, at_time(lasting, at, years, make)))
            seen = rng.uniform(0.0, N_YEARS) if still else at
            rows["seen"].append(f"{FIRST_YEAR + int(seen)}-{1 + int(seen % 1 * 12):02d}")
    order = rng.permutation(len(entity))
    return {name: [cells[k] for k in order] for name, cells in rows.items()}, np.array(entity)[order]


def at_time(rng: np.random.Generator, at: float, years: float, make: Callable[[np.random.Generator], str]) -> str:
    """What somebody has at a time, who gets another after so many years on average."""
    value, since = make(rng), rng.exponential(years)
    while since < at:
        value, since = make(rng), since + rng.exponential(years)
    return value


def house(rng: np.random.Generator) -> str:
    return f"{rng.integers(1, 60)} {pick(rng, STREETS)} Street"


def phone(rng: np.random.Generator) -> str:
    return f"0{rng.integers(10, 30)} {rng.integers(1_000_000, 9_999_999)}"


def employer(rng: np.random.Generator) -> str:
    return f"{pick(rng, FIRMS)} {rng.choice(['Ltd', 'Inc', 'Group'])}"


def pick(rng: np.random.Generator, table: str) -> str:
    return str(rng.choice(table.split()))


def misspell(rng: np.random.Generator, text: str) -> str:
    if rng.random() >= MISSPELT:
        return text
    place = int(rng.integers(len(text)))
    return text[:place] + text[place + 1 :]


if __name__ == "__main__":
    main()
