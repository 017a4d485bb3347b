"""Processes that have the libraries loaded: copies of one that has imported them, and nothing of the package.

A new interpreter takes about three seconds of a processor to import them. What a command does after that is the same,
and so is its death by a signal. Where there is no fork, it is a new interpreter.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

LIBRARIES = (
    *("arviz_stats.base", "click", "duckdb", "filelock", "narwhals", "numba.np.arraymath", "platformdirs"),
    *("rapidfuzz.process", "rich.console", "scipy.optimize", "scipy.special", "scipy.stats", "sklearn.ensemble"),
)
TIMEOUT = 900


class LoadedProcess:
    """`python -m scdp.cli` with these words, or `python -c` with this code; has what is used of `subprocess.Popen`."""

    def __init__(
        self, words: Sequence[object], code: str | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._files = [tempfile.NamedTemporaryFile("w+", encoding="utf-8") for _ in range(2)]  # noqa: SIM115
        self.stdout, self.stderr = self._files
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*LIBRARIES])
        given = (list(map(str, words)), code, dict(os.environ) | dict(environment or {}), os.getcwd())
        self._process = context.Process(target=_work, args=(*given, self.stdout.name, self.stderr.name))
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float = TIMEOUT) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a loaded process", timeout)
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, timeout: float = TIMEOUT) -> tuple[str, str]:
        """What it has said, once it has ended."""
        self.wait(timeout)
        for file in self._files:
            file.seek(0)
        said = self.stdout.read(), self.stderr.read()
        self._close()
        return said

    def _close(self) -> None:
        for file in self._files:
            file.close()

    def __del__(self) -> None:
        # One that was killed is not always asked what it said.
        self._close()

    def __enter__(self) -> LoadedProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self._close()


def _work(
    words: list[str], code: str | None, environment: dict[str, str], folder: str, output: str, errors: str
) -> None:
    """What the copy does; it ends with the exit code of the command."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for path, handle in ((output, 1), (errors, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), handle)
    if code is not None:
        sys.argv = ["-c", *words]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        return
    sys.argv = ["scdp", *words]
    from scdp.cli import main

    main(prog_name="scdp")


def start_loaded(
    words: Sequence[object], code: str | None = None, environment: Mapping[str, str] | None = None
) -> LoadedProcess | subprocess.Popen[str]:
    if "forkserver" in multiprocessing.get_all_start_methods():
        return LoadedProcess(words, code, environment)
    program = ["-m", "scdp.cli"] if code is None else ["-c", code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [sys.executable, *program, *map(str, words)], env=os.environ | dict(environment or {}), **pipes
    )


def run_loaded(
    words: Sequence[object], code: str | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Such a process to its end."""
    with start_loaded(words, code, environment) as process:
        output, errors = process.communicate(timeout=TIMEOUT)
    return subprocess.CompletedProcess([*words], process.returncode, output, errors)
