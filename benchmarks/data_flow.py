"""The modules that a record's data passes through in `scdp cluster`, in order, by the number of records.

python -m benchmarks.data_flow [N ...]        (1000 and 100000 unless given)

A module has its place where one of its functions has first done its work on data of at least half the records, from
the reading of the table on: it was handed, or hands on, an array, a list or a table with so many rows, or an object
that holds one. Compiled kernels are called from Python, and count where they are called. A return is a module whose
folder had data before, with another folder between; `engines`, which execute the stages, are none between. `io` and the
modules that are no folder's are not counted: they are the floor that all stand on.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import scdp
from scdp.cli import main
from scdp.datasets import make_records
from scdp.io.atomic import Staged
from scdp.io.targets import stage_table

ROOT = Path(scdp.__file__).parent
SIZES = (1_000, 100_000)
# Fewer than half the records: what the model keeps of its training is no data of the records.
N_LABELLED = 400
# The function that reads records: what was done before is not of theirs.
FIRST = "read_records"
FLOOR, EXECUTES = "io", "engines"


class Trace:
    """Modules in the order in which they first get data of many records."""

    def __init__(self, n_records: int) -> None:
        self.enough = n_records // 2
        self.modules: list[str] = []
        self.reading = False
        self._seen: set[str] = set()
        self._names: dict[CodeType, str | None] = {}
        self._lock = threading.Lock()

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        if event != "return":
            self.reading |= event == "call" and code.co_name == FIRST
            return
        if not self.reading:
            return
        name = self._names.get(code, "")
        if name == "":
            name = self._names.setdefault(code, module_of(code))
        if name is None or name in self._seen:
            return
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(map(self.holds_data, (result, *(frame.f_locals.get(argument) for argument in arguments)))):
            with self._lock:
                if name not in self._seen:
                    self._seen.add(name)
                    self.modules.append(name)

    def holds_data(self, value: Any, deep: bool = True) -> bool:
        """Whether there are as many rows in it, or in what it holds, as half the records."""
        if isinstance(value, np.ndarray):
            return value.size >= self.enough
        if isinstance(value, list | tuple | dict) and len(value) >= self.enough:
            return True
        if not deep:
            return False
        if isinstance(value, list | tuple):
            return any(self.holds_data(part, False) for part in value[:20])
        if isinstance(value, dict):
            return any(self.holds_data(part, False) for part in list(value.values())[:20])
        parts = getattr(value, "__dict__", None)
        return parts is not None and any(self.holds_data(part, False) for part in list(parts.values()))


def write_records(path: Path, columns: dict[str, list[Any]]) -> None:
    with Staged() as staged:
        stage_table(staged, path, columns)


def module_of(code: CodeType) -> str | None:
    """The module of the package that a function is in, as its path without the ending."""
    try:
        path = Path(code.co_filename).relative_to(ROOT)
    except ValueError:
        return None
    return path.with_suffix("").as_posix()


def trace_cluster(folder: Path, n_records: int) -> list[str]:
    """The modules that data of so many made-up records passes through."""
    made = make_records(n_records, kind="people", seed=1)
    records = folder / f"records{n_records}.csv"
    write_records(records, {name: made.data[name].tolist() for name in made.data.names})
    trace = Trace(n_records)
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        arguments = ["cluster", folder / "model", records, "--out", folder / f"clusters{n_records}.csv", "--quiet"]
        main(list(map(str, arguments)), standalone_mode=False)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return trace.modules


def list_stages(modules: list[str]) -> list[str]:
    """The modules of folders, without those of the floor."""
    return [name for name in modules if "/" in name and name.partition("/")[0] != FLOOR]


def list_visits(modules: list[str]) -> list[str]:
    """Folders in the order of their modules, one entry a visit; without the engines, which call the stages."""
    return [folder for folder, _ in groupby(filter(EXECUTES.__ne__, map(folder_of, modules)))]


def folder_of(module: str) -> str:
    """The first folder of a module's path."""
    return module.partition("/")[0]


def run(sizes: tuple[int, ...]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        made = make_records(N_LABELLED, kind="people", seed=0)
        columns = {name: made.data[name].tolist() for name in made.data.names}
        write_records(folder / "train.csv", {**columns, "person": list(map(str, made.clusters))})
        fit = ["fit", folder / "train.csv", "--entity", "person", "--out", folder / "model", "--quiet"]
        main(list(map(str, fit)), standalone_mode=False)
        for n_records in sizes:
            modules = trace_cluster(folder, n_records)
            stages = list_stages(modules)
            visits = list_visits(stages)
            again = len(visits) - len(set(visits))
            print(f"{n_records} records: {len(modules)} modules, {len(stages)} of them in folders; {again} returns")
            for folder_name, names in groupby(modules, folder_of):
                print(f"  {folder_name}: {', '.join(name.partition('/')[2] or name for name in names)}")


if __name__ == "__main__":
    run(tuple(map(int, sys.argv[1:])) or SIZES)
