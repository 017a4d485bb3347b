"""A command enters; its wall and CPU seconds and the peak memory of all its processes together leave."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
SECONDS_BETWEEN_LOOKS = 0.2


@dataclass(frozen=True)
class Run:
    """What a command took; `peak_bytes` is None where the system does not say."""

    exit_code: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int | None
    measure: str


def watched(command: Sequence[str], log: Path, folder: Path) -> Run:
    """Run the command in `folder`, in a session of its own, with all it says in the file `log`."""
    # As on most machines, modules are compiled once and not in every run.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    memory = TreeMemory(process.pid)
    memory.start()
    try:
        _, status, used = os.wait4(process.pid, 0)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        memory.stop()
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    return Run(process.returncode, seconds, used.ru_utime + used.ru_stime, memory.peak_bytes, memory.measure)


class TreeMemory:
    """Looks every 0.2 s at the memory of a session's processes, and keeps the most that was seen.

    Shared pages count once (PSS) where the kernel says so. The peak of a single process, which the kernel keeps,
    is a bound from below that no look can miss but the last; of `wait4` it would be wrong, for it includes the
    memory of the process that started the command.
    """

    def __init__(self, session: int) -> None:
        self.session, self.measure = session, "PSS"
        self.peak_bytes: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.is_set():
            self.look()
            self._ended.wait(SECONDS_BETWEEN_LOOKS)

    def look(self) -> None:
        processes = in_session(self.session)
        seen = [sum(self._bytes_of(process) for process in processes)]
        seen += [kilobytes(process / "status", "VmHWM:") or 0 for process in processes]
        if max(seen):
            self.peak_bytes = max(self.peak_bytes or 0, *seen)

    def _bytes_of(self, process: Path) -> int:
        shared_once = kilobytes(process / "smaps_rollup", "Pss:")
        if shared_once is None:
            resident = kilobytes(process / "status", "VmRSS:")
            self.measure = "PSS" if resident is None else "RSS"
            return resident or 0
        return shared_once


def in_session(session: int) -> list[Path]:
    """The folders in /proc of a session's processes, those whose parent has ended included."""
    return [folder for folder in PROC.glob("[0-9]*") if _session(folder) == session]


def _session(process: Path) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        # The name of the program, in brackets, may hold anything; what follows the last bracket is numbers.
        return int((process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[3])
    return None


def kilobytes(file: Path, name: str) -> int | None:
    """The line `name  123 kB` of a file of /proc, in bytes; None if the process or the line is not there."""
    with suppress(OSError, StopIteration):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith(name)))
    return None
