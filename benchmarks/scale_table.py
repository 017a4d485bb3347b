"""Measured rows of the benchmark at scale enter; the Markdown page with its table and its bars leaves."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

# Of up to a million records, and of more.
MOST_BYTES, MOST_BYTES_OF_MANY, MANY = 2e9, 12e9, 1_000_000
# Of Splink's wall time, at some sizes.
MOST_TIMES = {100_000: 0.7}
# To learn from 2,500 labelled people.
MOST_FIT_SECONDS = 15.0
MOST_OFF = 0.02
MOST_GROWTH = 1.1


@dataclass(frozen=True)
class Row:
    """One system on one size; what was not measured is None, and `failure` says why there is no result."""

    system: str
    size: int
    entities: int
    seconds: float | None = None
    cpu_seconds: float | None = None
    fit_seconds: float | None = None
    fit_cpu_seconds: float | None = None
    peak_bytes: int | None = None
    measure: str = "PSS"
    precision: float | None = None
    recall: float | None = None
    f_score: float | None = None
    clusters: int | None = None
    interval: tuple[float, float] | None = None
    oracle_f: float | None = None
    oracle_weight: float | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    failure: str | None = None
    format: str = "parquet"

    @property
    def title(self) -> str:
        return f"{self.size:,}" + (" as CSV" if self.format == "csv" else "")

    def told(self) -> str:
        if self.failure:
            return f"failed: {self.failure}"
        return f"{shown(self.seconds, '.1f')} s, {gigabytes(self.peak_bytes)}, F {shown(self.f_score, '.4f')}"


@dataclass(frozen=True)
class Bar:
    """A promise, what was measured, and whether it is met (None: the run does not tell)."""

    promise: str
    found: str
    met: bool | None

    @property
    def verdict(self) -> str:
        return {True: "met", False: "**missed**", None: "not measured"}[self.met]


def bars(rows: Sequence[Row]) -> list[Bar]:
    """The bars of `scdp` at every size, against Splink where both ran, and the growth over all sizes."""
    mine = [row for row in rows if row.system == "scdp"]
    theirs = {row.title: row for row in rows if row.system == "Splink" and not row.failure}
    found = [bar for row in mine for bar in (*against(row, theirs.get(row.title)), *alone(row))]
    for some in by_format(mine):
        if len(some) < 2:
            continue
        growth = exponent(some)
        promise = f"{some[0].size:,} to {some[-1].title}: growth exponent of wall time at most {MOST_GROWTH}"
        found.append(Bar(promise, shown(growth, ".2f"), met(some[-1], growth, lambda it: it <= MOST_GROWTH)))
    return found


def by_format(rows: Sequence[Row]) -> list[list[Row]]:
    return [[row for row in rows if row.format == kind] for kind in dict.fromkeys(row.format for row in rows)]


def against(row: Row, splink: Row | None) -> list[Bar]:
    if splink is None or splink.seconds is None or splink.f_score is None:
        return []
    times = MOST_TIMES.get(row.size, 1.0)
    seconds, f_score = times * splink.seconds, max(splink.f_score, splink.oracle_f or 0.0)
    share = "" if times == 1.0 else f"{times} times "
    at = "its" if splink.oracle_f is None else "any"
    return [
        Bar(
            f"{row.title}: wall time at most {share}Splink's, {splink.seconds:.1f} s",
            f"{shown(row.seconds, '.1f')} s, {shown(ratio(row.seconds, splink.seconds), '.2f')} times",
            met(row, row.seconds, lambda it: it <= seconds),
        ),
        Bar(
            f"{row.title}: F above Splink's at {at} threshold, {f_score:.4f}",
            shown(row.f_score, ".4f"),
            met(row, row.f_score, lambda it: it > f_score),
        ),
    ]


def alone(row: Row) -> list[Bar]:
    off = None if row.clusters is None else abs(row.clusters / row.entities - 1)
    covered = None if row.interval is None else row.interval[0] <= row.entities <= row.interval[1]
    most = MOST_BYTES if row.size <= MANY else MOST_BYTES_OF_MANY
    learned = row.fit_cpu_seconds
    promises: list[tuple[str, str, float | None, Callable[[float], bool]]] = [
        (f"peak memory at most {most / 1e9:.0f} GB", gigabytes(row.peak_bytes), row.peak_bytes, lambda it: it <= most),
        (
            f"fit at most {MOST_FIT_SECONDS:.0f} s of processor time",
            f"{shown(learned, '.1f')} s",
            learned,
            lambda it: it <= MOST_FIT_SECONDS,
        ),
        ("entities within 2 %", shown(off, ".2%"), off, lambda it: it <= MOST_OFF),
        (f"interval covers the truth, {row.entities:,}", between(row.interval), covered, bool),
    ]
    return [Bar(f"{row.title}: {name}", found, met(row, value, test)) for name, found, value, test in promises]


def ratio(one: float | None, other: float) -> float | None:
    return None if one is None else one / other


def met(row: Row, value: float | None, test: Callable[[float], bool]) -> bool | None:
    """A run that failed keeps no promise; what was not measured is neither kept nor broken."""
    if row.failure:
        return False
    return None if value is None else test(value)


def exponent(rows: Sequence[Row]) -> float | None:
    """log(time ratio) / log(size ratio) from the smallest to the largest size: 1 is linear."""
    first, last = rows[0], rows[-1]
    if first.seconds is None or last.seconds is None or first.failure or last.failure or first.size == last.size:
        return None
    return math.log(last.seconds / first.seconds) / math.log(last.size / first.size)


def page(rows: Sequence[Row], versions: Mapping[str, str], began: str = "") -> str:
    """The Markdown page; `began` says of what, and when, these are the figures."""
    promises = bars(rows)
    parts = [
        "# People at scale: scdp and Splink on the same records",
        introduction(rows, versions),
        began,
        table(HEADINGS, [cells(row) for row in rows]),
        *[f"{row.system} failed at {row.title} records: {row.failure}" for row in rows if row.failure],
        growth_line(rows),
        oracle_line(rows),
        stages(rows),
    ]
    if promises:
        verdicts = [(bar.promise, bar.found, bar.verdict) for bar in promises]
        parts += ["## Bars", table(("bar", "found", "verdict"), verdicts)]
    return "\n\n".join(part for part in parts if part) + "\n"


HEADINGS = (
    "records",
    "format",
    "system",
    "fit s",
    "fit CPU s",
    "wall s",
    "CPU s",
    "peak memory",
    "P",
    "R",
    "F",
    "clusters",
    "entities",
    "interval",
)


def cells(row: Row) -> tuple[str, ...]:
    scores = (shown(score, ".4f") for score in (row.precision, row.recall, row.f_score))
    return (
        f"{row.size:,}",
        {"parquet": "Parquet", "csv": "CSV"}[row.format],
        row.system,
        shown(row.fit_seconds, ".1f"),
        shown(row.fit_cpu_seconds, ".1f"),
        shown(row.seconds, ".1f"),
        shown(row.cpu_seconds, ".1f"),
        gigabytes(row.peak_bytes),
        *scores,
        shown(row.clusters, ",d"),
        f"{row.entities:,}",
        between(row.interval),
    )


def introduction(rows: Sequence[Row], versions: Mapping[str, str]) -> str:
    measures = " and ".join(sorted({row.measure for row in rows}))
    used = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        "Made by `make bench-scale`: made-up people (`make_records`), each system in a fresh process on the same "
        "file. scdp learns from 2,000 labelled entities that are not among them (fit, a time of its own), and its "
        "kernels are compiled beforehand, which happens once for a machine; Splink needs no labels and trains "
        "within its wall time. Its settings are those of its documentation (`benchmarks/scale_splink.py`), "
        "clusters at its threshold of 0.95. Peak memory is that of all processes "
        f"of a system together ({measures}, looked at every 0.2 s). {used}; Python {platform.python_version()}, "
        f"{os.cpu_count()} cores."
    )


def growth_line(rows: Sequence[Row]) -> str:
    told = []
    for system in dict.fromkeys(row.system for row in rows):
        for some in by_format([row for row in rows if row.system == system]):
            growth = exponent(some)
            told += [] if growth is None else [f"{system}{' from CSV' * (some[0].format == 'csv')} {growth:.2f}"]
    return f"Growth exponent of wall time over the sizes: {', '.join(told)}." if told else ""


def oracle_line(rows: Sequence[Row]) -> str:
    told = [
        f"{row.oracle_f:.4f} at {row.size:,} records (match weight {row.oracle_weight:.1f})"
        for row in rows
        if row.oracle_f is not None and row.format == rows[0].format
    ]
    if not told:
        return ""
    return f"An oracle that chooses Splink's threshold by the true labels, which no user has, gets F {', '.join(told)}."


def stages(rows: Sequence[Row]) -> str:
    lines = [
        f"- {row.system}, {row.size:,} records{' as CSV' * (row.format == 'csv')}: "
        + ", ".join(f"{name} {seconds:.1f}" for name, seconds in row.stages.items())
        for row in rows
        if row.stages
    ]
    return "\n".join(["## Where the time goes, in seconds", "", *lines]) if lines else ""


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def between(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else f"{interval[0]:,.0f} to {interval[1]:,.0f}"


def gigabytes(n_bytes: int | None) -> str:
    return "-" if n_bytes is None else f"{n_bytes / 1e9:.2f} GB"
