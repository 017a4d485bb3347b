"""Commands that are killed at random moments and started again until they end; what they leave must be what one
uninterrupted run leaves."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fault_cases import entities_of
from loaded_processes import LoadedProcess, start_loaded
from product_cases import SPEC, citations, rows_of, write_csv
from scdp.datasets import make_records
from scdp.table.decisions import read_decisions

TIMEOUT = 900
SECONDS = "0.02"
# On a machine that has become busy a run might never end otherwise, and only ends are compared.
MOST_KILLS = 8
TIMES = ("seconds", "sweep_seconds")


@dataclass(frozen=True)
class Job:
    """A command that writes to `out`; `kept` lists what it has left there for --resume."""

    name: str
    command: Callable[[Path], list[str]]
    kept: Callable[[Path], list[Path]]
    outcome: Callable[[Path], dict]
    # What is added to go on after a kill.
    again: tuple[str, ...] = ("--resume",)


@dataclass
class Tally:
    kills: int = 0
    runs: int = 0
    same: int = 0
    with_checkpoint: int = 0
    problems: list[str] = field(default_factory=list)


def prepare(folder: Path, sweeps: int) -> list[Job]:
    """Files of records, of which a third have no entity, two models, and the commands."""
    train, test = citations(160)
    rows = rows_of(train)
    for row in rows[::3]:
        row["entity"] = ""
    write_csv(folder / "train.csv", rows)
    write_csv(folder / "test.csv", rows_of(test))
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    sampling = ["--checkpoint-seconds", SECONDS]
    learn = [*map(str, ("fit", folder / "train.csv", "--spec", folder / "spec.toml", "--model", "scdp1"))]
    learn += ["--chains", "2", "--sweeps", str(sweeps)]
    finish(start([*learn, "--out", str(folder / "model")]))
    resolver = str(folder / "resolver")
    finish(start([*learn[:4], "--out", resolver]))
    group = ["cluster", str(folder / "model"), str(folder / "test.csv")]
    papers = ["reproduce", "digits", "--systems", "coarse,fine,cdp,scdp1", "--chains", "2", "--sweeps", "6"]
    return [
        Job("fit", lambda out: [*learn, *sampling, "--out", str(out / "model")], checkpoints, model_of),
        Job(
            "cluster",
            lambda out: [*group, *sampling, "--out", str(out / "c.csv"), "--draws", str(out / "draws")],
            checkpoints,
            clusters_of,
        ),
        Job("reproduce", lambda out: [*papers, "--out", str(out / "results")], parts, results_of),
        Job("update", lambda out: update_words(out, folder), generations, entities_of, again=()),
    ]


def update_words(out: Path, folder: Path) -> list[str]:
    """The same records as ever; a store that is there has its model already."""
    store = out / "store"
    model = [] if (store / "store.json").exists() else ["--model", str(folder / "resolver")]
    return ["update", str(store), str(folder / "test.csv"), *model]


def generations(out: Path) -> list[Path]:
    return [*out.glob("store/*.*"), *out.glob("store/model/*")]


class Fork:
    """A command in a copy of this process, which has everything loaded: hardly a kill falls before its work.

    It has what is used here of `subprocess.Popen`.
    """

    def __init__(self, arguments: list[str]) -> None:
        self.stderr, self.returncode = tempfile.TemporaryFile("w+"), None  # noqa: SIM115
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            os._exit(self._run(arguments))

    def _run(self, arguments: list[str]) -> int:
        from scdp.cli import main

        os.dup2(self.stderr.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            main(arguments, prog_name="scdp")
        except SystemExit as end:
            return int(end.code or 0)
        except BaseException:
            traceback.print_exc()
        return 1

    def __enter__(self) -> Fork:
        return self

    def __exit__(self, *_: object) -> None:
        self.communicate()

    def poll(self) -> int | None:
        if self.returncode is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if found else None
        return self.returncode

    def communicate(self, timeout: float = TIMEOUT) -> tuple[None, str]:
        deadline = time.monotonic() + timeout
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        assert self.returncode is not None, "it does not end"
        self.stderr.seek(0)
        return None, self.stderr.read()


Start = Callable[[list[str]], "LoadedProcess | subprocess.Popen[str] | Fork"]


def start(arguments: list[str]) -> LoadedProcess | subprocess.Popen[str]:
    return start_loaded(arguments, environment={"OMP_NUM_THREADS": "1", "SCDP_OFFLINE": "1"})


def finish(process: LoadedProcess | subprocess.Popen[str]) -> None:
    errors = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 0, errors


def uninterrupted(job: Job, folder: Path, start: Start = start) -> tuple[dict, float, float]:
    """What the command leaves, its length, and how much of that comes after the first checkpoint or part."""
    folder.mkdir()
    begin = time.monotonic()
    first = None
    with start([*job.command(folder)]) as process:
        while process.poll() is None:
            if first is None and job.kept(folder):
                first = time.monotonic()
            time.sleep(0.005)
        assert process.returncode == 0, process.stderr.read()
    end = time.monotonic()
    return job.outcome(folder), end - begin, end - (first or end)


def kill_often(
    job: Job, n_kills: int, folder: Path, rng: np.random.Generator, tally: Tally, start: Start = start
) -> None:
    """Runs from nothing to the end, each with as many kills as it meets, until there were `n_kills`."""
    # A first run compiles what is not compiled yet; code that another process compiled can differ in the last digit.
    uninterrupted(job, folder / f"{job.name}-first", start)
    expected, whole, busy = uninterrupted(job, folder / f"{job.name}-whole", start)
    goal = tally.kills + n_kills
    while tally.kills < goal:
        tally.runs += 1
        out = folder / f"{job.name}-{tally.runs}"
        out.mkdir()
        last = min(goal, tally.kills + MOST_KILLS)
        while not _ended(job, out, rng, whole, busy, tally, start, spared=tally.kills >= last):
            pass
        found = job.outcome(out)
        if halves := list(out.rglob(".*.part*")):
            tally.problems.append(f"{out.name}: {halves[0].name} is left")
        elif found == expected:
            tally.same += 1
        else:
            names = [name for name in expected if found.get(name) != expected[name]]
            tally.problems.append(f"{out.name}: {', '.join(names)} differ")


def _ended(
    job: Job, out: Path, rng: np.random.Generator, whole: float, busy: float, tally: Tally, start: Start, spared: bool
) -> bool:
    """Start or go on, and kill at a random moment; whether the command came to its end before that."""
    # Most moments fall into the work itself, the others anywhere from the first import on.
    in_work = rng.random() < 0.7
    known = _written(job, out)
    with start([*job.command(out), *job.again]) as process:
        deadline = time.monotonic() + (TIMEOUT if spared else rng.uniform(0.1, 1.0) * whole)
        if in_work and not spared:
            while process.poll() is None and _written(job, out) == known:
                time.sleep(0.002)
            deadline = time.monotonic() + rng.uniform(0.0, 0.8) * busy
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        errors = process.communicate()[1]
    if process.returncode == -signal.SIGKILL:
        tally.kills += 1
        tally.with_checkpoint += bool(job.kept(out))
        if not _is_there(job, out):
            return False
        # The result is whole; its checkpoint, which is removed after it got its name, may not be gone yet.
        for left in out.glob("*.checkpoint"):
            shutil.rmtree(left)
        return True
    assert process.returncode == 0, errors
    return True


def _is_there(job: Job, out: Path) -> bool:
    """Whether the kill fell after the result got its name: the command would now refuse to replace it."""
    words = job.command(out)
    return job.name in ("fit", "cluster") and Path(words[words.index("--out") + 1]).exists()


def _written(job: Job, out: Path) -> set[tuple[str, int]]:
    found = set()
    for path in job.kept(out):
        with suppress(FileNotFoundError):
            found.add((path.name, path.stat().st_mtime_ns))
    return found


def checkpoints(out: Path) -> list[Path]:
    try:
        return list(out.glob("*.checkpoint/*/chain*.npz"))
    except FileNotFoundError:
        # A run that ends well removes the folder while it is looked at.
        return []


def parts(out: Path) -> list[Path]:
    return list(out.glob("results/parts/*.part.json"))


def arrays_of(path: Path) -> dict[str, bytes]:
    with np.load(path) as archive:
        return {f"{path.name}:{name}": archive[name].tobytes() for name in archive.files}


def model_of(out: Path) -> dict:
    assert not list(out.glob("*.checkpoint"))
    return arrays_of(out / "model" / "arrays.npz") | arrays_of(out / "model" / "posterior.npz")


def clusters_of(out: Path) -> dict:
    assert not list(out.glob("*.checkpoint"))
    texts = {name: (out / name).read_bytes() for name in ("c.csv", "c.uncertain.csv")}
    kept = ("clusters.parquet", "draws.parquet", "summary.json", "traces.parquet")
    return texts | {name: (out / "draws" / name).read_bytes() for name in kept}


def results_of(out: Path) -> dict:
    rows = json.loads((out / "results" / "results.json").read_text(encoding="utf-8"))
    return {row["system"]: {k: v for k, v in row.items() if k not in TIMES} for row in rows}


# ---- people's answers ----

ANSWERS = "c\n" * 500


def kill_label(n_kills: int, folder: Path, rng: np.random.Generator, tally: Tally) -> None:
    """Kill `scdp label` while it is answered: whatever it has counted as an answer is in the file, and stays there."""
    out, said, answers = folder / "said.jsonl", folder / "label.out", folder / "answers.txt"
    answers.write_text(ANSWERS, encoding="utf-8")
    words = ["label", str(folder / "test.csv"), "--spec", str(folder / "spec.toml"), "--out", str(out)]
    command = [sys.executable, "-u", "-m", "scdp.cli", *words, "--terminal"]
    while tally.kills < n_kills:
        tally.runs += 1
        before = read_decisions(out) if out.exists() else []
        with answers.open() as stdin, said.open("w") as stdout:
            process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL)
        while process.poll() is None and counted_answers(said) <= len(before) + 1:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.4))
        process.kill()
        tally.kills += process.wait() == -signal.SIGKILL
        counted, after = counted_answers(said), read_decisions(out)
        tally.with_checkpoint += len(after) > len(before)
        if after[: len(before)] == before and len(after) >= counted:
            tally.same += 1
        else:
            tally.problems.append(f"{len(before)} decisions, {counted} counted and {len(after)} in the file")
        if len(after) > len(ANSWERS) // 4:
            out.unlink()


def counted_answers(said: Path) -> int:
    return max((int(n) for n in re.findall(r"^(\d+) answers;", said.read_text(), re.MULTILINE)), default=0)


# ---- processes that work for a run ----


def kill_workers(n_kills: int, folder: Path, rng: np.random.Generator, tally: Tally) -> None:
    """Kill processes of `scdp cluster --workers 2`, one or two a run: the run ends as if nothing had been."""
    made = make_records(700, kind="citations", seed=5)
    write_csv(folder / "many.csv", rows_of(made))
    words = ["cluster", str(folder / "resolver"), str(folder / "many.csv"), "--workers", "2"]
    finish(start([*words, "--out", str(folder / "alone.csv")]))
    expected = (folder / "alone.csv").read_bytes()
    while tally.kills < n_kills:
        tally.runs += 1
        out = folder / f"workers-{tally.runs}.csv"
        process = start([*words, "--out", str(out)])
        for _ in range(int(rng.integers(1, 3))):
            tally.kills += kill_child(process, rng)
        errors = process.communicate(timeout=TIMEOUT)[1]
        if process.returncode == 0 and out.read_bytes() == expected and "Traceback" not in errors:
            tally.same += 1
        else:
            tally.problems.append(f"{out.name}: exit code {process.returncode}: {errors[-300:]}")


def kill_child(process: LoadedProcess | subprocess.Popen[str], rng: np.random.Generator) -> bool:
    """Kill a process that works for this one, a moment after it is there; whether there was one."""
    while process.poll() is None:
        workers = [pid for pid in children_of(process.pid) if b"spawn_main" in command_of(pid)]
        if workers:
            time.sleep(rng.uniform(0.0, 3.0))
            with suppress(ProcessLookupError):
                os.kill(int(rng.choice(workers)), signal.SIGKILL)
                return True
        time.sleep(0.01)
    return False


def children_of(process: int) -> list[int]:
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return []


def command_of(process: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""
