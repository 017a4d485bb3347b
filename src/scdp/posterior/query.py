"""SQL over draws: a SELECT over the table `records` enters; every number of its answer leaves with an interval.

The statement is run on each draw in turn, `entity` being the record's entity in that draw. It sees this table and
nothing else: no file, no network, no other database, no setting; and it ends after a while.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._parallel import count_workers, free_bytes, map_in_threads
from scdp._typing import Floats, Integers
from scdp.errors import InputError
from scdp.io.targets import quote_name
from scdp.posterior.io import IntervalTable

SECONDS = 60.0
MOST_ROWS = 100_000
MOST_MEMORY = 4 << 30
# Above so many labels, counts of entities are counted here: one statement for each draw would take too long.
MANY_LABELS = 5_000_000
OWN_COLUMNS = ("entity", "cluster", "probability", "record")
SETTINGS = (
    "enable_external_access = false",
    "python_enable_replacements = false",
    "allow_community_extensions = false",
    "autoload_known_extensions = false",
    "autoinstall_known_extensions = false",
    "lock_configuration = true",
)
# Functions that tell of the machine, write logs, run other texts or only wait.
REFUSED = re.compile(r"\b(duckdb_\w+|pragma_\w+|current_setting|sleep_ms|write_log|query|query_table)\b", re.I)
NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")
WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
NAME = r'(?:\w+|"[^"]+")'
COUNT = re.compile(
    rf"\s*SELECT\s+(?P<groups>(?:{NAME}\s*,\s*)*)count\s*\(\s*DISTINCT\s+entity\s*\)(?:\s+AS\s+(?P<name>{NAME}))?"
    rf"\s+FROM\s+records(?:\s+WHERE\s+(?P<where>.+?))?(?:\s+GROUP\s+BY\s+(?P<by>{NAME}(?:\s*,\s*{NAME})*))?\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
)
COMPLEX = re.compile(r"\b(entity|group|having|order|limit|union|window|qualify|select)\b|--|/\*|;", re.IGNORECASE)


class DrawTable(NamedTuple):
    """What SQL sees: `load` makes the table `given` of some of the `columns`; `draws` are (draw, record).

    A draw names an entity by the number of its first record.
    """

    load: Callable[[Any, Sequence[str]], None]
    columns: Sequence[str]
    draws: Sequence[NDArray[np.int32]]

    def list_columns(self, sql: str) -> list[str]:
        """The columns that a statement may use."""
        text = sql.casefold()
        every = "*" in text.replace("count(*)", "") or "columns" in text
        return [name for name in self.columns if every or name.casefold() in text] or list(self.columns[:1])


def query_draws(table: DrawTable, sql: str, level: float = 0.9, seconds: float | None = None) -> IntervalTable:
    """Run a SELECT on every draw.

    Parameters
    ----------
    table : DrawTable
        The records and the draws.
    sql : str
        One SELECT over the table `records`.
    level : float
        The probability that each interval holds.
    seconds : float, optional
        When to give up; a minute, unless given.

    Returns
    -------
    IntervalTable
        Columns of texts tell the rows apart. Every number is its mean over the draws, with the ends of its interval
        beside it. A whole number that has no row in a draw counts as 0 there, any other is left out.
    """
    import duckdb

    limit = SECONDS if seconds is None else seconds
    with duckdb.connect() as connection:
        try:
            _check_statement(connection, sql)
            table = table._replace(columns=table.list_columns(sql))
            table.load(connection, table.columns)
            found = _count_entities(connection, table, sql, limit)
            if found is None:
                found = _join_draws(list(_run_draws(connection, table, sql, limit)), len(table.draws))
        except duckdb.InterruptException:
            raise InputError(f"the query took more than {limit:g} seconds, and was stopped; ask for less") from None
        except duckdb.Error as error:
            raise InputError(f"the query cannot be answered: {_first_line(error)}") from error
    return found.summarise(level)


def _first_line(error: Exception) -> str:
    """What went wrong, without where in the text."""
    lines = str(error).strip().splitlines()
    return re.sub(r"\s+", " ", lines[0]).rstrip(".!") if lines else type(error).__name__


def _check_statement(connection: Any, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise InputError(f"the query has {len(statements)} statements; give one SELECT over the table records")
    kind = str(statements[0].type).rpartition(".")[2]
    if kind != "SELECT":
        raise InputError(f"the query is a {kind} and no SELECT; only SELECT over the table records is allowed")
    refused = REFUSED.search(sql)
    if refused:
        raise InputError(f"the query uses {refused[0]!r}, which is not allowed; only the table records can be read")


def _close(connection: Any) -> None:
    """From here on, the connection reaches nothing but its own tables."""
    free = free_bytes()
    most = MOST_MEMORY if free is None else min(MOST_MEMORY, free // 2)
    connection.execute("SET temp_directory = ''")
    connection.execute(f"SET memory_limit = '{max(most, 1 << 28) >> 20}MB'")
    for setting in SETTINGS:
        connection.execute(f"SET {setting}")


@contextmanager
def _stop_after(connection: Any, end: float) -> Iterator[None]:
    timer = Timer(max(end - time.monotonic(), 0.01), connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _DrawAnswer(NamedTuple):
    """The columns, their kinds and the rows of one draw's answer."""

    names: list[str]
    kinds: list[str]
    rows: list[tuple[Any, ...]]


def _run_draws(connection: Any, table: DrawTable, sql: str, limit: float) -> Iterator[_DrawAnswer]:
    draws = {f"draw_{k}": row for k, row in enumerate(table.draws)}
    connection.register("draws", draws)
    connection.execute("CREATE TABLE every AS SELECT * FROM given POSITIONAL JOIN draws")
    connection.unregister("draws")
    _close(connection)
    shown = ", ".join(map(quote_name, table.columns))
    end = time.monotonic() + limit
    for k in range(len(table.draws)):
        connection.execute(f"CREATE OR REPLACE TEMP VIEW records AS SELECT {shown}, draw_{k} AS entity FROM every")
        with _stop_after(connection, end):
            found = connection.execute(sql)
            names, kinds = ([each[0] for each in found.description], [str(each[1]) for each in found.description])
            rows = found.fetchmany(MOST_ROWS + 1)
        if len(rows) > MOST_ROWS:
            raise InputError(f"the answer has more than {MOST_ROWS:,} rows; group them, or add LIMIT")
        yield _DrawAnswer(names, kinds, rows)


class _Values(NamedTuple):
    """Rows told apart by `keys` (columns by name), and by name of a number its values (draw, row); NaN = no row."""

    keys: dict[str, list[Any]]
    numbers: dict[str, Floats]

    def summarise(self, level: float) -> IntervalTable:
        columns: dict[str, list[Any]] = dict(self.keys)
        tails = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
        for name, values in self.numbers.items():
            there = ~np.isnan(values)
            filled = np.where(there, values, 0.0)
            # Sums of infinite numbers need not have a mean.
            with np.errstate(invalid="ignore"):
                mean = filled.sum(axis=0) / there.sum(axis=0)
            low, high = _quantiles(values, tails)
            columns |= {name: mean.tolist(), f"{name}_low": low, f"{name}_high": high}
        return IntervalTable(columns, tuple(self.numbers), level)


def _quantiles(values: Floats, tails: Sequence[float]) -> tuple[list[float], list[float]]:
    """By column, the ends of the central interval, where NaN counts for nothing."""
    ordered = np.sort(values, axis=0)
    n = (~np.isnan(values)).sum(axis=0)
    ends = []
    for tail in tails:
        place = np.clip(np.ceil(tail * n - 1e-9).astype(np.int64) - 1, 0, len(values) - 1)
        ends.append(np.take_along_axis(ordered, place[None], axis=0)[0].tolist())
    return ends[0], ends[1]


def _join_draws(answers: Sequence[_DrawAnswer], n_draws: int) -> _Values:
    """Match the rows of all draws."""
    names, kinds, _ = answers[0]
    if len(set(names)) < len(names):
        raise InputError("two columns of the answer have one name; name them by AS")
    keys = _find_keys(names, kinds, answers)
    measured = [place for place in range(len(names)) if place not in keys]
    if not measured:
        raise InputError("the answer has no number; ask for one, such as count(distinct entity)")
    place_of: dict[tuple[Any, ...], int] = {}
    for answer in answers:
        for row in answer.rows:
            place_of.setdefault(tuple(row[k] for k in keys), len(place_of))
    values = np.full((len(measured), n_draws, len(place_of)), np.nan)
    for draw, answer in enumerate(answers):
        for row in answer.rows:
            place = place_of[tuple(row[k] for k in keys)]
            values[:, draw, place] = [np.nan if row[m] is None else float(row[m]) for m in measured]
    for number, m in enumerate(measured):
        if WHOLE.fullmatch(kinds[m]):
            values[number] = np.where(np.isnan(values[number]), 0.0, values[number])
    rows = list(place_of)
    return _Values(
        {names[k]: [row[place] for row in rows] for place, k in enumerate(keys)},
        {names[m]: values[number] for number, m in enumerate(measured)},
    )


def _find_keys(names: Sequence[str], kinds: Sequence[str], answers: Sequence[_DrawAnswer]) -> list[int]:
    """The columns that tell rows apart: all that are no numbers, and as many of the first numbers as are needed."""
    keys = [place for place, kind in enumerate(kinds) if not NUMBERS.fullmatch(kind)]
    others = [place for place in range(len(names)) if place not in keys]
    while not all(_are_distinct(answer.rows, keys) for answer in answers):
        if len(others) <= 1:
            raise InputError("rows of the answer cannot be told apart; add the columns that they are grouped by")
        keys = sorted([*keys, others.pop(0)])
    return keys


def _are_distinct(rows: Sequence[tuple[Any, ...]], keys: Sequence[int]) -> bool:
    try:
        return len({tuple(row[k] for k in keys) for row in rows}) == len(rows)
    except TypeError:
        raise InputError("the answer has a list in it; ask for texts and numbers") from None


def _count_entities(connection: Any, table: DrawTable, sql: str, limit: float) -> _Values | None:
    """The answer to a plain count of entities over many labels; None where the statement is another."""
    match = COUNT.fullmatch(sql)
    if sum(map(len, table.draws)) < MANY_LABELS or match is None or COMPLEX.search(match["where"] or ""):
        return None
    groups = [name.strip() for name in match["groups"].split(",") if name.strip()]
    by = [name.strip() for name in (match["by"] or "").split(",") if name.strip()]
    if sorted(map(_plain, groups)) != sorted(map(_plain, by)) or any(_plain(name) == "entity" for name in by):
        return None
    _close(connection)
    shown = ", ".join(map(quote_name, table.columns))
    inner = f"SELECT {shown}, row_number() OVER () - 1 AS record_number FROM given"
    where = f" WHERE {match['where']}" if match["where"] else ""
    names = ", ".join(groups)
    with _stop_after(connection, time.monotonic() + limit):
        connection.execute(
            f"CREATE TEMP TABLE chosen AS SELECT {names}{', ' if names else ''}record_number "
            f"FROM ({inner}) AS records{where}"
        )
        rows, group, record = _number_groups(connection, groups)
    counts = count_by_group(table.draws, record, group, len(rows))
    name = match["name"]
    title = _plain(name, False) if name else "count(DISTINCT entity)"
    keys = {_plain(each, False): [row[k] for row in rows] for k, each in enumerate(groups)}
    return _Values(keys, {title: counts})


def _plain(name: str, fold: bool = True) -> str:
    bare = name.strip().strip('"')
    return bare.casefold() if fold else bare


def _number_groups(connection: Any, groups: Sequence[str]) -> tuple[list[tuple[Any, ...]], Integers, Integers]:
    """The values of each group, and by chosen record its group and its number."""
    if not groups:
        record = connection.execute("SELECT record_number FROM chosen").fetchnumpy()["record_number"]
        return [()], np.zeros(len(record), np.int64), np.asarray(record, np.int64)
    names = ", ".join(groups)
    same = " AND ".join(f"a.{name} IS NOT DISTINCT FROM b.{name}" for name in groups)
    connection.execute(
        "CREATE TEMP TABLE kinds AS SELECT *, row_number() OVER () - 1 AS kind_number "
        f"FROM (SELECT DISTINCT {names} FROM chosen)"
    )
    rows = connection.execute(f"SELECT {names} FROM kinds ORDER BY kind_number").fetchmany(MOST_ROWS + 1)
    if len(rows) > MOST_ROWS:
        raise InputError(f"the answer has more than {MOST_ROWS:,} rows; group them by less")
    found = connection.execute(
        f"SELECT b.kind_number, a.record_number FROM chosen a JOIN kinds b ON {same}"
    ).fetchnumpy()
    return rows, np.asarray(found["kind_number"], np.int64), np.asarray(found["record_number"], np.int64)


def count_by_group(draws: Sequence[NDArray[np.int32]], record: Integers, group: Integers, n_groups: int) -> Floats:
    """The number of entities (draw, group) among some records, each in one group.

    A record counts unless its entity has the first record, or another before it, in the same group.

    Example
    -------
    >>> draws = np.array([[0, 0, 2], [0, 1, 0]], np.int32)
    >>> count_by_group(draws, np.arange(3), np.array([0, 0, 1]), 2).tolist()
    [[1.0, 1.0], [2.0, 1.0]]
    """
    n = len(draws[0])
    group_of, everyone = np.full(n, -1, np.int32), np.arange(n, dtype=np.int32)
    group_of[record] = group
    chosen, every = group_of >= 0, np.bincount(group, minlength=n_groups)

    def count(entity: NDArray[np.int32]) -> Integers:
        rest = np.flatnonzero((entity != everyone) & chosen)
        own, its = group_of[rest], entity[rest]
        apart = group_of[its] != own
        key = its[apart].astype(np.int64) * n_groups + own[apart]
        key.sort()
        again = key[1:][key[1:] == key[:-1]] % n_groups
        return every - np.bincount(own[~apart], minlength=n_groups) - np.bincount(again, minlength=n_groups)

    return np.array(list(map_in_threads(count, draws, count_workers(-1))), np.float64)


def load_columns(columns: Mapping[str, NDArray[Any]]) -> Callable[[Any, Sequence[str]], None]:
    """What makes the table `given` of some of these columns."""

    def load(connection: Any, names: Sequence[str]) -> None:
        connection.execute("SET pandas_analyze_sample = 0")
        connection.register("columns_given", {f"column{k}": columns[name] for k, name in enumerate(names)})
        titles = ", ".join(f"column{k} AS {quote_name(name)}" for k, name in enumerate(names))
        connection.execute(f"CREATE TABLE given AS SELECT {titles} FROM columns_given")
        connection.unregister("columns_given")

    return load


def free_names(names: Sequence[str]) -> dict[str, str]:
    """The records' columns by the names they have in SQL: one that is ours, or differs by capitals only, is changed."""
    taken, found = {name.casefold() for name in OWN_COLUMNS}, {}
    for name in names:
        free = name
        while free.casefold() in taken:
            free = f"{free}_given"
        taken.add(free.casefold())
        found[free] = name
    return found
