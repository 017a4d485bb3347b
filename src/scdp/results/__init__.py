"""The folder of a result (`scdp cluster --draws`): tables in Parquet and JSON, written together and checksummed.

result.json        what it is, the shape of the draws, and the SHA-256 of every other file
summary.json       what `--summary` says
records.parquet    the records as they were read, every cell a text
clusters.parquet   by record: `id`, `cluster`, `probability`, `known`, and `row`, its place in the source
draws.parquet      by record and block of draws: `record` (from 0), `block`, and `draw_0`, `draw_1`, ...
traces.parquet     scalars of the chains by draw, where there are chains
model/             the model that made it

In a draw, an entity is named by the number of its first record.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scdp import __version__
from scdp._parallel import Need, require
from scdp._typing import Floats, Integers
from scdp.errors import InputError
from scdp.estimators.clustering import uncertain_pairs
from scdp.estimators.fitted import Reliability
from scdp.estimators.model_folder import FILES as MODEL_FILES
from scdp.estimators.model_folder import POSTERIOR, load_model
from scdp.estimators.result import ClusterResult, Learned, add_clusters, read_blocking_report, summary_to_html
from scdp.io import parse_json, read_bytes, sum_file
from scdp.io.atomic import Staged, recover
from scdp.io.targets import check_target, parquet_names, quote_name, read_parquet, write_parquet
from scdp.partitions import name_by_first, number_first
from scdp.posterior import Posterior
from scdp.posterior.io import IntervalTable, make_pandas, make_polars
from scdp.posterior.query import DrawTable, free_names, query_draws
from scdp.table import Records
from scdp.table.readers import read_records

if TYPE_CHECKING:
    from scdp.estimators import Estimator

FORMAT, VERSION = "scdp-result", [1, 0]
ABOUT, SUMMARY, RECORDS, CLUSTERS, DRAWS, TRACES, MODEL = (
    "result.json", "summary.json", "records.parquet", "clusters.parquet", "draws.parquet", "traces.parquet", "model",
)  # fmt: skip
FILES = (ABOUT, SUMMARY, RECORDS, CLUSTERS, DRAWS, TRACES)
# Draws of a block, each a column of the file.
BLOCK = 256
LARGEST_WORDS = 64 << 20
SHAPE = ("n_records", "n_chains", "n_draws")
AGAIN = "make it again with  scdp cluster --draws"


def list_files(folder: Path) -> list[Path]:
    """All files that a result in this folder may have."""
    return [folder / name for name in FILES] + [folder / MODEL / name for name in MODEL_FILES]


def check_result_target(folder: Path) -> Path:
    """Refuse a place where a result cannot be written; give the file that says what the folder is."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: there is a file of this name; give a folder with --draws")
    if folder.is_dir():
        check_target(folder / ABOUT)
    elif not folder.absolute().parent.is_dir():
        raise InputError(f"{folder}: there is no folder {folder.absolute().parent}; make it first")
    return folder / ABOUT


def refuse_other_model(folder: Path) -> None:
    """Refuse a folder with a model that is of no result: half of its files would be those of another."""
    if (folder / MODEL / MODEL_FILES[0]).exists() and not (folder / ABOUT).exists():
        raise InputError(f"{folder / MODEL}: is a model of no result; give another --draws")


def write_result(
    result: ClusterResult, folder: str | PathLike[str], model: Estimator | None = None, force: bool = False
) -> None:
    """Keep a result in a folder, whole or not at all.

    Parameters
    ----------
    result : ClusterResult
        What `cluster_records` gave.
    folder : path
        Where to keep it; it is made if need be.
    model : Estimator, optional
        The model that made it, which is kept with it.
    force : bool
        Replace a result that is there.
    """
    target = Path(folder)
    about = check_result_target(target)
    if about.exists() and not force:
        raise InputError(f"{about}: is there already; give another folder, or force=True to replace it")
    recover(target)
    refuse_other_model(target)
    with FolderMaker(target), Staged(replace=force) as staged:
        stage_result(staged, target, result, model)


class FolderMaker:
    """A folder for a result, made if need be; what was made goes again if the block fails and left nothing in it."""

    def __init__(self, folder: Path) -> None:
        self._folders = [path for path in (folder, folder / MODEL) if not path.exists()]

    def __enter__(self) -> None:
        for folder in self._folders:
            folder.mkdir()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        for folder in reversed(self._folders):
            with suppress(OSError):
                # A folder with something in it stays.
                folder.rmdir()


def stage_result(staged: Staged, folder: Path, result: ClusterResult, model: Estimator | None) -> None:
    """Add the files of a result to a set; the folders are there."""
    files: dict[str, str] = {}

    def add(name: str, write: Callable[[Path], object]) -> None:
        def write_and_sum(part: Path) -> None:
            write(part)
            files[name] = sum_file(part)

        staged.write(folder / name, write_and_sum)

    posterior = result.posterior
    add(RECORDS, lambda part: write_parquet(part, result.records.columns))
    add(CLUSTERS, lambda part: write_parquet(part, _cluster_columns(result)))
    add(DRAWS, lambda part: write_parquet(part, *_draw_columns(posterior)))
    if posterior.traces:
        add(TRACES, lambda part: write_parquet(part, {k: v.ravel() for k, v in posterior.traces.items()}))
    summary = json.dumps(result.summary(), indent=1) + "\n"
    add(SUMMARY, lambda part: part.write_text(summary, encoding="utf-8"))
    if model is not None:
        _add_model(add, model)
    about = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"scdp {__version__}",
        "title": result.title,
        "source": result.records.source,
        "id_column": result.id_column,
        "n_records": result.n_records,
        "n_chains": posterior.n_chains,
        "n_draws": posterior.n_draws,
        "shared": posterior.stored.shared,
        "independent_draws": result.independent_draws,
        "reliability": None if posterior.reliability is None else posterior.reliability.to_words(),
        "files": files,
    }
    staged.text(folder / ABOUT, json.dumps(about, indent=1, ensure_ascii=False) + "\n")


def _add_model(add: Callable[[str, Callable[[Path], object]], None], model: Estimator) -> None:
    with TemporaryDirectory() as between:
        model.save(Path(between) / MODEL)
        for path in sorted((Path(between) / MODEL).iterdir()):
            # The draws of `fit` are of other records, and large.
            if path.name != POSTERIOR:
                content = path.read_bytes()
                add(f"{MODEL}/{path.name}", lambda part, content=content: part.write_bytes(content))  # type: ignore[misc]


def _cluster_columns(result: ClusterResult) -> dict[str, NDArray[Any]]:
    known = np.ones(result.n_records, dtype=bool)
    known[result.posterior.hidden] = False
    return {
        "id": result.ids.astype(str).astype(object),
        "cluster": result.labels.astype(str).astype(object),
        "probability": result.probabilities,
        "known": known,
        "row": result.records.numbers,
    }


def _draw_columns(posterior: Posterior) -> list[dict[str, NDArray[Any]]]:
    """The columns of each block of draws."""
    total = posterior.n_chains * posterior.n_draws
    labels = np.empty((total, posterior.n_items), np.int32)
    for place, some in posterior.stored.label_chunks():
        labels[place] = some
    everyone = np.arange(posterior.n_items, dtype=np.int32)
    blocks = []
    for number, start in enumerate(range(0, total, BLOCK)):
        block: dict[str, NDArray[Any]] = {"record": everyone, "block": np.full(posterior.n_items, number, np.int32)}
        for k, row in enumerate(labels[start : start + BLOCK]):
            block[f"draw_{k}"] = name_by_first(row)
        blocks.append(block)
    return blocks


@dataclass(frozen=True, eq=False)
class StoredResult:
    """A result read from its folder; its parts are loaded when they are asked for.

    Attributes
    ----------
    folder : Path
        Where it is kept.
    about : mapping
        What `result.json` says.

    Example
    -------
    >>> from scdp.results import read_result
    >>> result = read_result("draws")  # doctest: +SKIP
    >>> result.posterior.co_clustering(0, 1)  # doctest: +SKIP
    0.97
    """

    folder: Path
    about: Mapping[str, Any]

    @property
    def id_column(self) -> str | None:
        """The column of ids, if the records have one."""
        return None if self.about["id_column"] is None else str(self.about["id_column"])

    @property
    def n_records(self) -> int:
        return int(self.about["n_records"])

    @property
    def n_draws(self) -> int:
        """Draws of all chains."""
        return int(self.about["n_chains"]) * int(self.about["n_draws"])

    @cached_property
    def _clusters(self) -> dict[str, NDArray[Any]]:
        columns = read_parquet(self.folder / CLUSTERS, ["id", "cluster", "probability", "known", "row"])
        self._check_rows(CLUSTERS, columns["id"])
        return columns

    @property
    def ids(self) -> NDArray[Any]:
        """The id of each record, as text."""
        return self._clusters["id"]

    @property
    def labels(self) -> NDArray[Any]:
        """The name of each record's cluster."""
        return self._clusters["cluster"]

    @property
    def probabilities(self) -> Floats:
        """How sure it is that each record belongs to its cluster."""
        return self._clusters["probability"]

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether the cluster of each record was given."""
        return self._clusters["known"]

    @cached_property
    def records(self) -> Records:
        """The records, in the order of the draws' items."""
        found = read_records(self.folder / RECORDS)
        self._check_rows(RECORDS, found)
        return Records(found.columns, str(self.about["source"]), self._clusters["row"])

    @cached_property
    def posterior(self) -> Posterior:
        """The draws; item i is record i."""
        n, chains, draws = (int(self.about[name]) for name in SHAPE)
        require([Need("the draws", 8 * n * chains * draws, "free some, or cluster with fewer draws")])
        labels = self.read_draws(np.arange(chains * draws)).reshape(chains, draws, n)
        fixed = np.full(n, -1, np.int64)
        fixed[self.known] = number_first(self.labels[self.known])
        return Posterior(
            labels,
            self._read_traces(),
            fixed=fixed,
            shared=bool(self.about["shared"]),
            names=self.ids,
            reliability=self._read_reliability(),
            blocking=read_blocking_report(self.summary),
        )

    def _read_reliability(self) -> Reliability | None:
        if self.about["reliability"] is None:
            return None
        try:
            return Reliability.from_words(self.about["reliability"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(f"{self.folder / ABOUT}: its reliability is none; {AGAIN}") from error

    def read_draws(self, numbers: Integers) -> NDArray[np.int32]:
        """Some draws (draw, record): the number of the first record of each record's entity."""
        return np.stack(self.list_draws(numbers))

    def list_draws(self, numbers: Integers) -> list[NDArray[np.int32]]:
        """As `read_draws`, a list of draws."""
        found: dict[int, NDArray[np.int32]] = {}
        for block in np.unique(numbers // BLOCK).tolist():
            inside = np.unique(numbers[numbers // BLOCK == block]).tolist()
            names = [f"draw_{number % BLOCK}" for number in inside]
            columns = read_parquet(self.folder / DRAWS, names, f"block = {int(block)}")
            found |= {number: columns[name] for number, name in zip(inside, names, strict=True)}
        for row in found.values():
            self._check_rows(DRAWS, row)
            if row.min() < 0 or row.max() >= self.n_records:
                raise InputError(f"{self.folder / DRAWS}: names records that are not there; {AGAIN}")
        return [found[number] for number in numbers.tolist()]

    def _read_traces(self) -> dict[str, Floats]:
        if TRACES not in self.about["files"]:
            return {}
        shape = int(self.about["n_chains"]), int(self.about["n_draws"])
        columns = read_parquet(self.folder / TRACES, None)
        return {name: values.astype(np.float64).reshape(shape) for name, values in columns.items()}

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What `summary.json` says."""
        return _read_object(self.folder / SUMMARY)

    @cached_property
    def model(self) -> Estimator | None:
        """The model that made the result, if it was kept."""
        if not any(name.startswith(f"{MODEL}/") for name in self.about["files"]):
            return None
        return load_model(self.folder / MODEL)

    @cached_property
    def result(self) -> ClusterResult:
        """The result as `cluster_records` gives it, for reports."""
        model, labels = self.model, number_first(self.labels)
        learned = Learned("unknown", (), 0, 0) if model is None else model.fitted_.learned()
        return ClusterResult(
            title=str(self.about["title"]),
            records=self.records,
            ids=self.ids,
            id_column=self.id_column,
            labels=self.labels,
            probabilities=self.probabilities,
            posterior=self.posterior,
            spec=None if model is None else model.fitted_spec_,
            learned=learned,
            uncertain=uncertain_pairs(self.posterior, labels),
            independent_draws=bool(self.about["independent_draws"]),
        )

    def query(self, sql: str, level: float = 0.9) -> IntervalTable:
        """Ask a question in SQL of every draw.

        Parameters
        ----------
        sql : str
            One SELECT over the table `records`: the records' columns, `record` (its number), `cluster` and
            `probability` of the answer, and `entity`, which tells entities apart within a draw. A column of one of
            these names is called by it and "_given".
        level : float
            The probability that each interval holds.

        Returns
        -------
        IntervalTable
            Every number with its mean over the draws and its interval.
        """
        given = free_names(parquet_names(self.folder / RECORDS))
        sources = {free: f"r.{quote_name(name)}" for free, name in given.items()}
        sources |= {"record": "row_number() OVER () - 1"} | {k: f"c.{k}" for k in ("cluster", "probability")}
        places = [glob.escape(str(self.folder / name)) for name in (RECORDS, CLUSTERS)]

        def load(connection: Any, names: Sequence[str]) -> None:
            chosen = ", ".join(f"{sources[name]} AS {quote_name(name)}" for name in names)
            connection.execute(
                f"CREATE TABLE given AS SELECT {chosen} FROM read_parquet(?) AS r POSITIONAL JOIN read_parquet(?) AS c",
                places,
            )

        table = DrawTable(load, list(sources), self.list_draws(np.arange(self.n_draws)))
        return query_draws(table, sql, level)

    def to_pandas(self) -> Any:
        """The clusters with all cells of their records, as `ClusterResult.to_pandas` gives them."""
        return make_pandas(add_clusters(self.records, self.labels, self.probabilities))

    def to_polars(self) -> Any:
        """As `to_pandas`, for polars."""
        return make_polars(add_clusters(self.records, self.labels, self.probabilities))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return summary_to_html(str(self.about["title"]), self.summary)

    def find(self, identifier: str) -> int:
        """The number of the record of this id."""
        found = np.flatnonzero(self.ids == identifier)
        if not len(found):
            raise InputError(f"{self.folder}: there is no record {identifier!r}; give the id of one of its records")
        return int(found[0])

    def _check_rows(self, name: str, column: Any) -> None:
        if len(column) != self.n_records:
            raise InputError(f"{self.folder / name}: has {len(column)} rows for {self.n_records} records; {AGAIN}")


def read_result(folder: str | PathLike[str]) -> StoredResult:
    """Read a result that `scdp cluster --draws` has kept.

    Parameters
    ----------
    folder : path
        The folder.

    Returns
    -------
    StoredResult
        With `ids`, `records`, `labels`, `probabilities`, `posterior`, `summary`, `model` (None if none was kept), and
        `result`, all of it as a `ClusterResult`. Files that are missing or not as they were written are refused.
    """
    place = Path(folder)
    if not place.exists():
        raise InputError(f"{place}: there is no such folder; {AGAIN} {place}")
    if not (place / ABOUT).is_file():
        raise InputError(f"{place}: this is no result of scdp (it has no {ABOUT}); {AGAIN}")
    about = _read_object(place / ABOUT)
    _check_about(place, about)
    for name, digest in about["files"].items():
        if not (place / name).is_file():
            raise InputError(f"{place / name}: is missing; {AGAIN}")
        if sum_file(place / name) != digest:
            raise InputError(f"{place / name}: is not as it was written; {AGAIN}")
    return StoredResult(place, about)


def _check_about(place: Path, about: Mapping[str, Any]) -> None:
    files = about.get("files")
    if about.get("format") != FORMAT or not isinstance(files, dict):
        raise InputError(f"{place}: this is no result of scdp; {AGAIN}")
    if about.get("version") != VERSION:
        raise InputError(f"{place}: written by another version of scdp; {AGAIN}")
    counts = [about.get(name) for name in SHAPE]
    whole = {RECORDS, CLUSTERS, DRAWS, SUMMARY} <= files.keys() and {
        "title", "source", "id_column", "shared", "independent_draws", "reliability",
    } <= about.keys()  # fmt: skip
    named = all(re.fullmatch(r"(model/)?[\w-]+\.\w+", name) for name in files)
    if not whole or not named or not all(type(count) is int and 0 < count < 2**31 for count in counts):
        raise InputError(f"{place / ABOUT}: is not whole; {AGAIN}")


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(read_bytes(path, LARGEST_WORDS).decode("utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: cannot be read ({error}); {AGAIN}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: this is no JSON object; {AGAIN}")
    return content
