"""Faults on purpose: the n-th write, sync, rename, read or allocation of a command fails, as a bad disk would have it.

Only files below one folder are touched, so that modules and compiled kernels are read as ever.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

from product_cases import done, fitted_folder, read_csv, write_csv
from scdp.cli import main
from scdp.errors import InputError
from scdp.estimators.clustering import cluster_records
from scdp.estimators.model_folder import load_model
from scdp.store import Store
from scdp.store.files import replay
from scdp.table.decisions import Decision, append_decision, read_decisions
from scdp.table.readers import read_records

KINDS = ("write", "sync", "rename", "read", "allocation")
CODES = {"write": errno.ENOSPC, "sync": errno.EIO, "rename": errno.EIO, "read": errno.EIO}
# Calls that change names in a folder.
NAMING = ("replace", "rename", "link", "mkdir")
# What the package's own code asks NumPy for memory by.
ALLOCATING = ("empty", "zeros", "ones", "full", "arange", "concatenate", "array", "stack", "repeat")

# When something was done, in files of decisions and stores.
TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


@dataclass
class Fault:
    """Let the n-th operation of a kind fail (n = 0: none); `count` is how many there were.

    `first` is, for each line of code that allocates, the number of its first allocation.
    """

    kind: str
    n: int
    root: Path
    count: int = 0
    paths: dict[int, str] = field(default_factory=dict)
    first: dict[tuple[str, int], int] = field(default_factory=dict)

    def meet(self, kind: str, path: Any) -> None:
        """Count an operation, and fail if it is the one."""
        if kind != self.kind or not (kind == "allocation" or self._is_ours(path)):
            return
        self.count += 1
        if kind == "allocation":
            caller = sys._getframe(2)
            self.first.setdefault((caller.f_code.co_filename, caller.f_lineno), self.count)
        if self.count == self.n:
            if kind == "allocation":
                raise MemoryError
            raise OSError(CODES[kind], os.strerror(CODES[kind]), os.fspath(path) if not isinstance(path, int) else None)

    def _is_ours(self, path: Any) -> bool:
        if isinstance(path, int):
            path = self.paths.get(path, "")
        return os.path.abspath(os.fspath(path)).startswith(str(self.root))


class _File(io.FileIO):
    """A file that asks the fault before every access."""

    fault: Fault
    path: Any

    def write(self, data: Any) -> int:
        self.fault.meet("write", self.path)
        return super().write(data)

    def readinto(self, buffer: Any) -> int:
        self.fault.meet("read", self.path)
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self.fault.meet("read", self.path)
        return super().readall()


@contextmanager
def injected(fault: Fault) -> Iterator[Fault]:
    """All that Python itself does to files under the fault's folder goes by it while the block runs."""
    old = {(os, name): getattr(os, name) for name in (*NAMING, "open", "fsync", "write", "read")}
    old |= {(io, "open"): io.open, (builtins, "open"): builtins.open}
    old |= {(np, name): getattr(np, name) for name in ALLOCATING}

    def naming(name: str) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **more: Any) -> Any:
            fault.meet("rename", path)
            return old[os, name](path, *rest, **more)

        return call

    def open_handle(path: Any, *rest: Any, **more: Any) -> int:
        handle = old[os, "open"](path, *rest, **more)
        fault.paths[handle] = os.fspath(path)
        return handle

    def by_handle(kind: str, name: str) -> Callable[..., Any]:
        def call(handle: int, *rest: Any) -> Any:
            fault.meet(kind, handle)
            return old[os, name](handle, *rest)

        return call

    def open_file(path: Any, mode: str = "r", buffering: int = -1, *rest: Any, **more: Any) -> Any:
        # A handle may have been given by a module that is written in C, as for temporary files.
        if isinstance(path, int) and path not in fault.paths:
            return old[io, "open"](path, mode, buffering, *rest, **more)
        raw = _File(path, mode.replace("b", "").replace("t", ""), closefd=more.pop("closefd", True))
        raw.fault, raw.path = fault, path
        kind = io.BufferedRandom if "+" in mode else io.BufferedReader if "r" in mode else io.BufferedWriter
        if "b" in mode:
            return raw if buffering == 0 else kind(raw)
        more |= dict(zip(("encoding", "errors", "newline"), rest, strict=False))
        return io.TextIOWrapper(kind(raw), **{k: v for k, v in more.items() if k != "opener"})

    def allocating(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            fault.meet("allocation", None)
            return old[np, name](*arguments, **more)

        return call

    new: dict[tuple[Any, str], Any] = {(os, name): naming(name) for name in NAMING}
    new |= {(os, "open"): open_handle, (os, "fsync"): by_handle("sync", "fsync")}
    new |= {(os, "write"): by_handle("write", "write"), (os, "read"): by_handle("read", "read")}
    new |= {(io, "open"): open_file, (builtins, "open"): open_file}
    if fault.kind == "allocation":
        new |= {(np, name): allocating(name) for name in ALLOCATING}
    try:
        for (module, name), function in new.items():
            setattr(module, name, function)
        yield fault
    finally:
        for (module, name), function in old.items():
            setattr(module, name, function)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@dataclass
class Faults:
    """Tries a command with one fault after another, each in a fresh copy of `given`.

    `run` gets the folder and gives an exit code and what was said; `outcome` picks from the files those whose old and
    new contents must not be mixed.
    """

    given: Path
    place: Path
    run: Callable[[Path], tuple[int, str]]
    outputs: Callable[[str], bool]
    n_tried: int = 0
    n_right: int = 0
    problems: list[str] = field(default_factory=list)
    states: set[bytes] = field(default_factory=set)

    def expect(self) -> None:
        """Run it without a fault: what it leaves is what is right."""
        folder = self._fresh()
        assert self._is_new(folder)
        code, said = self.run(folder)
        assert code == 0, said
        self.before, self.after = contents(self.given), contents(folder)

    def count(self, kind: str) -> int:
        """How many operations of a kind the command has."""
        return self.watch(kind).count

    def watch(self, kind: str) -> Fault:
        """Operations of a kind, none of which fails."""
        folder = self._fresh()
        with injected(Fault(kind, 0, folder)) as fault:
            code, said = self.run(folder)
        assert code == 0, said
        return fault

    def try_each(self, kind: str, numbers: list[int] | range) -> None:
        for n in numbers:
            folder = self._fresh()
            with injected(Fault(kind, n, folder)) as fault:
                code, said = self.run(folder)
            self.n_tried += fault.count >= n
            self.n_right += code == 0
            problem = self.judge(code, said, folder)
            if problem is None and self._is_new(folder):
                # The next start finds nothing in its way, and finishes or undoes what was left.
                again, words = self.run(folder)
                problem = None if again == 0 else f"the next start: {words}"
                problem = problem or self.judge(0, words, folder)
            if problem is not None:
                self.problems.append(f"{kind} {n}: {problem}")

    def judge(self, code: int, said: str, folder: Path) -> str | None:
        """What is wrong with how the command ended and what it left; None if nothing is."""
        found = contents(folder)
        if code not in (0, 2):
            return f"exit code {code}: {said}"
        if code == 2 and len(said.strip().splitlines()) < 1:
            return "nothing is said"
        for name, content in self.before.items():
            if not self.outputs(name) and found.get(name) != content:
                return f"{name} is lost"
        return self.judge_outputs(code, said, folder, found)

    def judge_outputs(self, code: int, said: str, folder: Path, found: dict[str, bytes]) -> str | None:
        """What is wrong with the outputs: they are all old or all new, and new if all went well."""
        if code == 0:
            return self._differs(found)
        shown = {name: content for name, content in found.items() if self.outputs(name)}
        old, new = ({n: c for n, c in each.items() if self.outputs(n)} for each in (self.before, self.after))
        return None if shown in (old, new) else "outputs are neither the old nor the new"

    def _differs(self, found: dict[str, bytes]) -> str | None:
        names = sorted(name for name in {*self.after, *found} if found.get(name) != self.after.get(name))
        return f"{', '.join(names)}: not as without a fault" if names else None

    def _is_new(self, folder: Path) -> bool:
        """Whether no run began with such files: the next start of what was left before is known, whatever its time."""
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
        digest = sha256(repr(names).encode())
        for name, content in contents(folder).items():
            digest.update(f"{name}\0{len(content)}\0".encode() + TIME.sub(b"", content))
        before = len(self.states)
        self.states.add(digest.digest())
        return len(self.states) > before

    def _fresh(self) -> Path:
        folder = self.place / "work"
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
        shutil.copytree(self.given, folder)
        return folder


class UpdateFaults(Faults):
    """Of a store, whose files have times in them: its entities are those before or those after."""

    def judge_outputs(self, code: int, said: str, folder: Path, found: dict[str, bytes]) -> str | None:
        try:
            entities = entities_of(folder)
        except InputError as error:
            return f"the store is damaged: {error}"
        right = [self.new] if code == 0 else [self.old, self.new]
        return None if entities in right else "entities are neither the old nor the new"

    def expect(self) -> None:
        super().expect()
        self.old, self.new = entities_of(self.given), entities_of(self.place / "work")
        assert self.old != self.new


def entities_of(folder: Path) -> dict[str, str]:
    store = Store(folder / "store")
    assert replay(store.events()) == store.entities
    return dict(store.entities)


class LabelFaults(Faults):
    """Of answers: what was counted as one is in the file, with all that was there before."""

    def judge_outputs(self, code: int, said: str, folder: Path, found: dict[str, bytes]) -> str | None:
        try:
            kept = read_decisions(folder / "d.jsonl")
        except InputError as error:
            return f"the decisions are damaged: {error}"
        before = read_decisions(self.given / "d.jsonl")
        counted = max(map(int, re.findall(r"^(\d+) answers;", said, re.MULTILINE)), default=0)
        whole = kept[: len(before)] == before and len(kept) >= counted
        return None if whole else f"{len(before)} decisions before, {counted} counted, {len(kept)} in the file"


# ---- four commands ----

OUT = ("c.csv", "c.uncertain.csv", "s.json", "report.html", "draws/", "new/", "store/", "d.jsonl")
COMMANDS = ("fit", "cluster", "update", "label")
FILE_KINDS = KINDS[:4]


def prepare(folder: Path) -> Path:
    """Inputs, two models, a store, decisions, and what an earlier command has left."""
    shutil.copytree(fitted_folder(), folder)
    for name in ("c.csv", "c.uncertain.csv", "s.json"):
        (folder / name).write_text("old\n", encoding="utf-8")
    shutil.copytree(folder / "model", folder / "new")
    append_decision(folder / "d.jsonl", Decision(("r1", "r2"), "cannot tell"))
    fit, rows = ("fit", folder / "train.csv", "--spec", folder / "spec.toml"), read_csv(folder / "test.csv")
    done(*fit, "--out", folder / "resolver", "--quiet")
    write_csv(folder / "first.csv", rows[:30])
    done("update", folder / "store", folder / "first.csv", "--model", folder / "resolver", "--quiet")
    return folder


def command(*arguments: str, answers: str = "") -> Callable[[Path], tuple[int, str]]:
    def run(folder: Path) -> tuple[int, str]:
        words = [each.replace("@", f"{folder}/") for each in arguments]
        result = CliRunner().invoke(main, words, input=answers)
        return result.exit_code, result.output

    return run


def faults_of(name: str, given: Path, place: Path, patch: Callable[[object, object], None]) -> Faults:
    """A command; the sampling itself is done beforehand, by `patch` (as of `pytest.MonkeyPatch.setattr`)."""
    of, words = Faults, ()
    answers = "c\nc\n" if name == "label" else ""
    if name == "fit":
        fitted = load_model(given / "model")
        patch("scdp.chains_model.SCDP.fit", lambda self, *_, **__: self)
        patch("scdp.cli.fit_command.estimator", lambda *_: fitted)
        words = ("@train.csv", "--spec", "@spec.toml", "--model", "scdp1", "--out", "@new", "--force", "--quiet")
    elif name == "cluster":
        model = load_model(given / "model").set_params(n_sweeps=4, n_chains=1)
        result = cluster_records(model, read_records(given / "test.csv"), random_state=0, title="t")
        patch("scdp.estimators.clustering.cluster_records", lambda *_, **__: result)
        words = ("@model", "@test.csv", "--out", "@c.csv", "--summary", "@s.json", "--report", "@report.html")
        words += ("--force", "--quiet")
    elif name == "update":
        of, words = UpdateFaults, ("@store", "@test.csv")
    else:
        of, words = LabelFaults, ("@test.csv", "--spec", "@spec.toml", "--out", "@d.jsonl", "--terminal")
    return of(given, place, command(name, *words, answers=answers), lambda each: each.startswith(OUT))
